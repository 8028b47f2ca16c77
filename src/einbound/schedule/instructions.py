"""The instructions that a walker executes, and the schedule that holds them.

One language for every way of running a plan: on arrays, on sizes, or as tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from einbound.schedule.cells import Cell


@dataclass(frozen=True, slots=True)
class Alloc:
    """Make the memory of a stored cell or of the result; its content is undefined."""

    cell: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Let `cell` look at the part of its source that the current trip of `loop` covers."""

    cell: int
    source: int
    axis: int
    loop: int


@dataclass(frozen=True, slots=True)
class See:
    """Let `cell` look at all of its source, with other names for the indices.

    Attributes:
        cell: Cell that looks.
        source: Cell that it looks at.
        axes: For each index of `cell`, the axes of its source that carry it, several on a
            diagonal; empty: the same axes in the same order.
    """

    cell: int
    source: int
    axes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Contract:
    """Write the product of two cells into a third, or add it.

    Attributes:
        step: The step of the tree.
        left: Cell of the first value.
        right: Cell of the second value.
        into: Cell that is written.
        adds: Loops that make it an addition as soon as one of them is past its first trip.
        onto: It is an addition from the first trip on: something else was written there before.
        factor: What the product is multiplied by.
    """

    step: int
    left: int
    right: int
    into: int
    adds: tuple[int, ...] = ()
    onto: bool = False
    factor: float | complex = 1


@dataclass(frozen=True, slots=True)
class Sum:
    """Write a cell, summed over the indices that `into` lacks, into another, or add it.

    Attributes:
        source: Cell that is read.
        into: Cell that is written.
        adds: As in `Contract`.
        onto: As in `Contract`.
    """

    source: int
    into: int
    adds: tuple[int, ...] = ()
    onto: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """Read an operand that is not in memory, summed over what `into` lacks, into a cell."""

    source: int
    into: int


@dataclass(frozen=True, slots=True)
class Add:
    """Add a cell to another of the same indices."""

    source: int
    into: int


@dataclass(frozen=True, slots=True)
class Scatter:
    """Copy a cell to another of the same indices."""

    source: int
    into: int


@dataclass(frozen=True, slots=True)
class Free:
    """End the life of a stored cell."""

    cell: int


@dataclass(frozen=True, slots=True)
class Loop:
    """Run `body` once per slice of an index.

    Attributes:
        number: The loop's identity in the schedule.
        index: The index that is cut.
        extent: Its elements in all.
        width: Elements per trip; the last trip may have fewer.
        step: The step that opens the loop.
        body: What one trip does.
        edges: Where trips start, and the extent, if they do not all start at multiples of
            `width`, which then is the most of a trip; else empty.
    """

    number: int
    index: int
    extent: int
    width: int
    step: int
    body: tuple[Instruction, ...]
    edges: tuple[int, ...] = ()

    @property
    def n_trips(self) -> int:
        """Number of trips; an empty index still takes one."""
        if self.edges:
            return len(self.edges) - 1
        return max(-(-self.extent // self.width), 1)

    def spans(self) -> Iterator[tuple[int, int]]:
        """Where every trip starts and stops, in order."""
        if self.edges:
            return pairwise(self.edges)
        starts = range(0, max(self.extent, 1), self.width)
        return ((start, min(start + self.width, self.extent)) for start in starts)


Instruction: TypeAlias = Alloc | See | Slice | Contract | Sum | Read | Add | Scatter | Free | Loop


@dataclass(frozen=True)
class Schedule:
    """Instructions with the table of the cells that they use.

    Attributes:
        cells: The cell table; operands first, in order.
        body: The outermost instructions.
        results: The cells of the results.
        extents: Elements of every index.
    """

    cells: tuple[Cell, ...]
    body: tuple[Instruction, ...]
    results: tuple[int, ...]
    extents: tuple[int, ...]


def flat(body: tuple[Instruction, ...]) -> Iterator[Instruction]:
    """All instructions in textual order; a loop comes before its body."""
    for instruction in body:
        yield instruction
        if isinstance(instruction, Loop):
            yield from flat(instruction.body)


def reads(instruction: Instruction) -> tuple[int, ...]:
    """The cells that one instruction reads; a loop itself reads none."""
    match instruction:
        case Contract():
            return (instruction.left, instruction.right)
        case See() | Slice() | Sum() | Read() | Add() | Scatter():
            return (instruction.source,)
        case _:
            return ()
