"""A forest in two: what is made once and kept, and what every evaluation makes from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from einbound.expr.network import Access, Network
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
    """The shared values that never change and are read by what does, or by a target.

    Where nothing changes, nothing is kept.
    """
    values = forest.values
    if not any(value.volatile for value in values):
        return ()
    return tuple(
        value
        for value in forest.producers
        if values[value].kind is Kind.SHARED
        and not values[value].volatile
        and any(into.volatile or into.kind is Kind.TARGET for into in _made_from(forest, value))
    )


def _made_from(forest: Forest, value: int) -> Iterator[Value]:
    for reader in forest.readers.get(value, ()):
        yield forest.values[forest.productions[reader].into]


def retained(forest: Forest) -> Forest:
    """The forest in which targets that never change are copies of shared values.

    So that they can be kept, and what is returned is still the caller's own. Targets that copy
    what is given anyway stay as they are, and so does all where nothing changes.

    Args:
        forest: The forest.

    Law: the targets are the same (tests/test_placement.py).
    """
    values = forest.values
    copied = [target for target in forest.targets if _is_worth_keeping(forest, target)]
    if not copied or not any(value.volatile for value in values):
        return forest
    names = {value.name for value in values}
    made: list[Value] = []
    aim: dict[int, int] = {}
    for target in copied:
        aim[target] = len(values) + len(made)
        name = f"{values[target].name}_kept"
        while name in names:
            name += "_"
        made.append(replace(values[target], number=aim[target], name=name, kind=Kind.SHARED))
    last = {target: forest.producers[target][-1] for target in copied}
    productions: list[Production] = []
    for each in forest.productions:
        into = aim.get(each.into, each.into)
        productions.append(replace(each, number=len(productions), into=into))
        if last.get(each.into) == each.number:
            ends = Production(len(productions), each.into, (into,), each.network)
            productions.append(_copy(forest, ends))
    return Forest((*values, *made), tuple(productions), forest.targets)


def _is_worth_keeping(forest: Forest, target: int) -> bool:
    """Whether a target never changes, and making it is more than copying one tensor."""
    if forest.values[target].volatile:
        return False
    makers = [forest.productions[number] for number in forest.producers[target]]
    networks = [maker.network for maker in makers]
    return len(makers) > 1 or any(
        sum(map(bool, network.inputs)) > 1 or len(network.output) < len(network.extents)
        for network in networks
    )


def _copy(forest: Forest, production: Production) -> Production:
    """The production whose value is the one it reads first, and nothing else."""
    target = forest.values[production.into]
    axes = tuple(range(len(target.shape)))
    access = Access(tuple((axis,) for axis in axes))
    network = Network(target.labels, target.shape, (axes,), axes, (access,))
    return replace(production, operands=production.operands[:1], network=network, factor=1)


def halves(forest: Forest, kept: Iterable[int]) -> Halves:
    """The forest that makes the kept values, and the one that reads them.

    Args:
        forest: The forest.
        kept: Numbers of shared values that never change. All leaves are leaves of both halves.
    """
    chosen = tuple(sorted(kept))
    if not chosen:
        return Halves(None, forest)
    prelude = _making(_reading_sources(forest, chosen), chosen, {})
    main = _making(forest, forest.targets, dict.fromkeys(chosen))
    return Halves(prelude, main)


def _reading_sources(forest: Forest, kept: tuple[int, ...]) -> Forest:
    """The forest in which what reads a copy of a kept value reads that value."""
    source = {
        each.into: each.operands[0]
        for each in forest.productions
        if each.operands[0] in kept
        and len(forest.producers[each.into]) == 1
        and each == _copy(forest, each)
    }
    productions = tuple(
        replace(each, operands=tuple(source.get(value, value) for value in each.operands))
        for each in forest.productions
    )
    return replace(forest, productions=productions)


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
