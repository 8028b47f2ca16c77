"""Loops common to several productions: which index each of them has there, and what is legal.

A value that is staged at a loop over one of its axes ties together its makers and its readers, each
with the index that it has on that axis. Loops of several values that agree are one loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from einbound.forest.forest import Forest
from einbound.space.witness import Witness


@dataclass(frozen=True, slots=True)
class Staged:
    """A value that lives for one trip of loops over some of its axes.

    Attributes:
        value: Its number.
        axes: The axes, that of the outermost loop first.
    """

    value: int
    axes: tuple[int, ...]


@dataclass(frozen=True)
class Common:
    """A loop around several productions.

    Attributes:
        cuts: Each production with the index of its network that is cut, by number.
    """

    cuts: tuple[tuple[int, int], ...]

    @cached_property
    def inside(self) -> frozenset[int]:
        """The productions."""
        return frozenset(production for production, _ in self.cuts)

    def joined(self, other: Common) -> Common | None:
        """Both as one loop; None where they share no production, or do not agree on one."""
        cuts = dict(self.cuts)
        shared = [cuts[production] == i for production, i in other.cuts if production in cuts]
        if not shared or not all(shared):
            return None
        return Common(tuple(sorted({**cuts, **dict(other.cuts)}.items())))


@dataclass(frozen=True)
class Bundle:
    """A loop with what is inside.

    Attributes:
        loop: The loop.
        body: Productions and further loops.
    """

    loop: Common
    body: tuple[Part, ...]


#: A production by its number, or several inside a loop.
Part: TypeAlias = int | Bundle


def common(forest: Forest, value: int, axis: int) -> Common | Witness:
    """The loop around all that makes or reads a value, over one of its axes.

    Returns:
        The loop, or why there is none, whatever else is decided about other values.
    """
    cuts = {
        maker: forest.productions[maker].network.output[axis] for maker in producers(forest, value)
    }
    for reader in forest.readers.get(value, ()):
        for index, n_axes in _indices(forest, reader, value, axis):
            if n_axes > 1:
                return Witness.of(
                    "an axis that is read along a diagonal cannot be cut",
                    axis=axis,
                    production=reader,
                )
            if cuts.setdefault(reader, index) != index:
                return Witness.of(
                    "a loop cuts one index of a production",
                    production=reader,
                    first=cuts[reader],
                    second=index,
                )
    return Common(tuple(sorted(cuts.items())))


def producers(forest: Forest, value: int) -> tuple[int, ...]:
    """The productions that add into a value."""
    return forest.producers[value]


def _indices(forest: Forest, reader: int, value: int, axis: int) -> Iterator[tuple[int, int]]:
    """The index that a production has on an axis of a value, each time it reads it.

    Beside it, the number of axes of the value that the index runs over.
    """
    made = forest.productions[reader]
    for k, operand in enumerate(made.operands):
        if operand == value:
            pairs = zip(made.network.inputs[k], made.network.accesses[k].axes, strict=True)
            yield from ((index, len(axes)) for index, axes in pairs if axis in axes)


def broken(forest: Forest, loop: Common, among: frozenset[int] | None = None) -> Witness | None:
    """Why productions cannot share a loop; None if they can, as far as it alone is concerned.

    What is made and read inside must be complete where it is read: the trip that reads a part of
    it must have made that part. What several productions add to is the same part for all of them
    in one trip, as the schedule's rules ask.

    Args:
        forest: What is computed.
        loop: The loop.
        among: The values to look at; None: all.
    """
    cuts = dict(loop.cuts)
    for value, makers in forest.producers.items():
        if among is not None and value not in among:
            continue
        inside = [maker for maker in makers if maker in cuts]
        readers = [reader for reader in forest.readers.get(value, ()) if reader in cuts]
        found = {_axis(forest, maker, cuts[maker]) for maker in inside}
        if len(found) > 1:
            return Witness.of(
                "what a trip adds to a value is one part of it", value=forest.values[value].name
            )
        if not inside or not readers:
            continue
        if None in found:
            return Witness.of(
                "a sum over a loop is complete only behind it",
                value=forest.values[value].name,
                reader=readers[0],
            )
        if any(
            set(_read_axes(forest, reader, value, cuts[reader])) != {(axis,) for axis in found}
            for reader in readers
        ):
            return Witness.of(
                "what is made in a trip must be what the trip reads",
                value=forest.values[value].name,
                reader=readers[0],
            )
    return None


def _axis(forest: Forest, maker: int, index: int) -> int | None:
    output = forest.productions[maker].network.output
    return output.index(index) if index in output else None


def _read_axes(forest: Forest, reader: int, value: int, index: int) -> Iterator[tuple[int, ...]]:
    """The axes of a value that an index runs over, each time a production reads it."""
    made = forest.productions[reader]
    for k, operand in enumerate(made.operands):
        if operand == value:
            pairs = dict(zip(made.network.inputs[k], made.network.accesses[k].axes, strict=True))
            yield pairs.get(index, ())


def bundled(forest: Forest, staged: Iterable[Staged]) -> tuple[Part, ...] | Witness:
    """All productions of a forest, those of staged values inside their loops.

    Loops of several values become one wherever that is legal. They must be nested or apart.
    """
    loops: list[Common] = []
    for each in staged:
        for axis in each.axes:
            loop = common(forest, each.value, axis)
            if isinstance(loop, Witness):
                return loop
            refused = broken(forest, loop)
            if refused is not None:
                return refused
            _enter(forest, loops, loop)
    return _nested(tuple(each.number for each in forest.productions), loops)


def _enter(forest: Forest, loops: list[Common], loop: Common) -> None:
    """Put a loop among others, joined with those that it agrees with."""
    for known in tuple(loops):
        both = known.joined(loop)
        if both is not None and broken(forest, both) is None:
            loops.remove(known)
            loop = both
    loops.append(loop)


def _nested(productions: tuple[int, ...], loops: list[Common]) -> tuple[Part, ...] | Witness:
    """Productions and loops as a tree; of loops around the same productions the first is outer."""
    parts: list[Part] = []
    rest = sorted(loops, key=lambda loop: -len(loop.inside))
    bundled: set[int] = set()
    while rest:
        outer, others = rest[0], rest[1:]
        inner = [loop for loop in others if loop.inside <= outer.inside]
        rest = [loop for loop in others if not loop.inside & outer.inside]
        if len(inner) + len(rest) < len(others):
            return Witness.of(
                "two loops are nested or apart", first=len(outer.inside), loops=len(loops)
            )
        body = _nested(tuple(sorted(outer.inside)), inner)
        if isinstance(body, Witness):
            return body
        parts.append(Bundle(outer, body))
        bundled |= outer.inside
    parts += [production for production in productions if production not in bundled]
    return tuple(sorted(parts, key=first))


def first(part: Part) -> int:
    """The first of the productions of a part."""
    return part if isinstance(part, int) else min(part.loop.inside)


def within(part: Part) -> frozenset[int]:
    """The productions of a part."""
    return frozenset((part,)) if isinstance(part, int) else part.loop.inside
