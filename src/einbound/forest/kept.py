"""A forest in two: what is made once and kept, and what every evaluation makes from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from einbound.forest.forest import Forest, Kind, Production, Value


@dataclass(frozen=True, slots=True)
class Halves:
    """A forest whose persistent values are kept between evaluations.

    Attributes:
        prelude: Makes the kept values, which are its targets; None where nothing is kept.
        main: Makes the targets of the forest; the kept values are its last leaves, in the order
            of the prelude's targets.
    """

    prelude: Forest | None
    main: Forest


def frontier(forest: Forest) -> tuple[int, ...]:
    """The shared values that never change and are read by what does."""
    values = forest.values
    return tuple(
        value
        for value in forest.producers
        if values[value].kind is Kind.SHARED
        and not values[value].volatile
        and any(
            values[forest.productions[reader].into].volatile
            for reader in forest.readers.get(value, ())
        )
    )


def halves(forest: Forest, kept: Iterable[int]) -> Halves:
    """The forest that makes the kept values, and the one that reads them.

    Args:
        forest: The forest.
        kept: Numbers of shared values that never change. All leaves are leaves of both halves.
    """
    chosen = tuple(sorted(kept))
    if not chosen:
        return Halves(None, forest)
    prelude = _making(forest, chosen, {})
    main = _making(forest, forest.targets, dict.fromkeys(chosen))
    return Halves(prelude, main)


def _making(forest: Forest, targets: tuple[int, ...], given: dict[int, None]) -> Forest:
    """What makes some targets where some values are given."""
    needed = set(targets)
    for each in reversed(forest.productions):
        if each.into in needed and each.into not in given:
            needed.update(each.operands)
    leaves = [value for value in forest.values if value.kind is Kind.LEAF]
    made = [
        value
        for value in forest.values
        if value.kind is not Kind.LEAF and value.number in needed and value.number not in given
    ]
    values = [*leaves, *(forest.values[value] for value in given), *made]
    number = {value.number: n for n, value in enumerate(values)}
    kinds = {value: Kind.LEAF for value in given} | {value: Kind.TARGET for value in targets}
    productions = [
        each for each in forest.productions if each.into in needed and each.into not in given
    ]
    return Forest(
        tuple(_as(value, n, kinds) for n, value in enumerate(values)),
        tuple(
            Production(
                n,
                number[each.into],
                tuple(number[value] for value in each.operands),
                each.network,
                each.factor,
            )
            for n, each in enumerate(productions)
        ),
        tuple(number[value] for value in targets),
    )


def _as(value: Value, number: int, kinds: dict[int, Kind]) -> Value:
    return replace(value, number=number, kind=kinds.get(value.number, value.kind))
