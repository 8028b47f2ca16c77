"""The rules that a schedule obeys before it may run.

1. visibility: a cell is read only while it and what it looks at live, inside the loops around its
   making.
2. form: a reader inside a loop sees every cell that carries the loop's index sliced by that loop.
3. chain: a slice carries its source's indices and one loop more, a renamed view its source's axes;
   a cell that sums the trips of a loop is not read before that loop has ended; of memory that a
   running loop fills part by part, only the part of the same trip is read; nothing is written
   after it was read.
4. life: a cell is read as often as the table says, and each stored cell once freed.
5. uniqueness: one making per cell, one loop per number, no index looped twice; memory has one
   writer that fills it, and others that add to what this one has filled.
6. cover: the trips of a loop cover its index once, in order, and the widest is as wide as it says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

from einbound.errors import ScheduleError
from einbound.schedule.cells import Cell, Place
from einbound.schedule.instructions import (
    Add,
    Alloc,
    Contract,
    Free,
    Instruction,
    Loop,
    Read,
    Scatter,
    Schedule,
    See,
    Slice,
    Sum,
    reads,
)


def validate(schedule: Schedule) -> Schedule:
    """The schedule itself, if it obeys all rules.

    Raises:
        ScheduleError: A rule is broken; the message names rule, instruction and cell.
    """
    check = _Check(schedule)
    check.table()
    for cell in schedule.cells:
        if cell.place is Place.OPERAND:
            check.alive.add(cell.number)
    check.block(schedule.body)
    check.ledger()
    return schedule


@dataclass(frozen=True, slots=True)
class _Writing:
    """Where a piece of memory is written, and which part of it in one trip of the loops around.

    Attributes:
        loops: Numbers of the loops open then.
        parts: Pairs (axis of the memory, loop) that say which part a trip fills.
    """

    loops: tuple[int, ...]
    parts: frozenset[tuple[int, int]]


@dataclass
class _Check:
    schedule: Schedule
    loops: list[Loop] = field(default_factory=list)
    alive: set[int] = field(default_factory=set)
    made: set[int] = field(default_factory=set)
    written: dict[int, list[_Writing]] = field(default_factory=dict)
    read: set[int] = field(default_factory=set)
    freed: set[int] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)
    lives: dict[int, int] = field(default_factory=dict)
    #: For each axis of a cell that looks at another, the axes of the memory that it runs over.
    axes: dict[int, tuple[tuple[int, ...], ...]] = field(default_factory=dict)

    def table(self) -> None:
        """Rules that the table alone can break."""
        for position, cell in enumerate(self.schedule.cells):
            if cell.number != position:
                self._broken("uniqueness", f"cell {cell.number} stands at position {position}")
            if (cell.place is Place.SLICE) != (cell.source is not None):
                self._broken("chain", f"cell {position} is {cell.place.value} from {cell.source}")

    def block(self, body: tuple[Instruction, ...]) -> None:
        """Walk one body in order."""
        for instruction in body:
            for number in reads(instruction):
                self._read(self._cell(number), instruction)
            match instruction:
                case Alloc():
                    self._alloc(self._cell(instruction.cell))
                case See():
                    self._see(instruction)
                case Slice():
                    self._slice(instruction)
                case Contract() | Sum() | Read() | Add() | Scatter():
                    self._write(instruction)
                case Free():
                    self._free(self._cell(instruction.cell))
                case Loop():
                    self._loop(instruction)

    def ledger(self) -> None:
        """Rules about the whole run."""
        for cell in self.schedule.cells:
            if self.lives.get(cell.number, 0) != cell.life:
                self._broken(
                    "life",
                    f"cell {cell.number} is read {self.lives.get(cell.number, 0)} times, "
                    f"the table says {cell.life}",
                )
            if cell.place is Place.STORED and cell.number not in self.freed:
                self._broken("life", f"cell {cell.number} is never freed")
        for result in self.schedule.results:
            is_operand = self._cell(result).place is Place.OPERAND
            if not is_operand and result not in self.written:
                self._broken("visibility", f"the result, cell {result}, is never written")

    def _cell(self, number: int) -> Cell:
        if not 0 <= number < len(self.schedule.cells):
            self._broken("visibility", f"cell {number} is not in the table")
        return self.schedule.cells[number]

    def _chain(self, cell: Cell) -> tuple[Cell, ...]:
        """A cell, what it looks at, and so on down to the one that has memory."""
        chain = [cell]
        while chain[-1].source is not None and len(chain) <= len(self.schedule.cells):
            chain.append(self._cell(chain[-1].source))
        return tuple(chain)

    def _read(self, cell: Cell, reader: Instruction) -> None:
        self.lives[cell.number] = self.lives.get(cell.number, 0) + 1
        chain = self._chain(cell)
        if any(each.number not in self.alive for each in chain):
            self._broken("visibility", f"{reader} reads cell {cell.number}, which does not live")
        if isinstance(reader, Slice | See):
            return
        self._form(cell, reader)
        running = {loop.number for loop in self.loops}
        if any(running.intersection(each.partial) for each in chain):
            self._broken("chain", f"{reader} reads cell {cell.number} before its sum is complete")
        for writing in self.written.get(chain[-1].number, ()):
            self._same_part(reader, cell, writing, "chain")
        self.read.add(chain[-1].number)

    def _form(self, cell: Cell, user: Instruction) -> None:
        for loop in self.loops:
            if loop.index in cell.indices and (loop.index, loop.number) not in cell.slices:
                self._broken(
                    "form",
                    f"{user} uses cell {cell.number} whole along index {loop.index}, "
                    f"which loop {loop.number} slices",
                )

    def _alloc(self, cell: Cell) -> None:
        if cell.number in self.made or cell.place not in (Place.STORED, Place.RESULT):
            self._broken("uniqueness", f"cell {cell.number} is made twice")
        if cell.scope != tuple(loop.number for loop in self.loops):
            self._broken("visibility", f"cell {cell.number} is made outside its scope {cell.scope}")
        self._form(cell, Alloc(cell.number))
        self.made.add(cell.number)
        self.alive.add(cell.number)

    def _see(self, instruction: See) -> None:
        cell, source = self._cell(instruction.cell), self._cell(instruction.source)
        extents, seen = self.schedule.extents, self._axes(source)
        axes = instruction.axes or tuple((n,) for n in range(len(source.indices)))
        fits = (
            cell.source == source.number
            and len(set(cell.indices)) == len(cell.indices) == len(axes)
            and sorted(n for run in axes for n in run) == list(range(len(source.indices)))
            and all(
                extents[index] == extents[source.indices[n]]
                for index, run in zip(cell.indices, axes, strict=True)
                for n in run
            )
        )
        if fits:
            self.axes[cell.number] = tuple(tuple(m for n in run for m in seen[n]) for run in axes)
        if not fits or self._parts(cell) != self._parts(source):
            self._broken("chain", f"{instruction} does not fit cells {cell} and {source}")
        if cell.number in self.made:
            self._broken("uniqueness", f"cell {cell.number} is made twice")
        self.made.add(cell.number)
        self.alive.add(cell.number)

    def _slice(self, instruction: Slice) -> None:
        cell, source = self._cell(instruction.cell), self._cell(instruction.source)
        loop = self.loops[-1] if self.loops else None
        fits = (
            loop is not None
            and cell.source == source.number
            and cell.indices == source.indices
            and instruction.loop == loop.number
            and cell.indices[instruction.axis] == loop.index
            and cell.slices == (*source.slices, (loop.index, loop.number))
        )
        if not fits:
            self._broken("chain", f"{instruction} does not fit cells {cell} and {source}")
        if cell.number in self.made:
            self._broken("uniqueness", f"cell {cell.number} is made twice")
        self.axes[cell.number] = self._axes(source)
        self.made.add(cell.number)
        self.alive.add(cell.number)

    def _write(self, instruction: Contract | Sum | Read | Add | Scatter) -> None:
        cell = self._cell(instruction.into)
        chain = self._chain(cell)
        memory = chain[-1]
        is_dead = any(each.number not in self.alive for each in chain)
        if is_dead or memory.place is Place.OPERAND:
            self._broken("visibility", f"{instruction} writes cell {cell.number}, not alive")
        self._form(cell, instruction)
        if isinstance(instruction, Contract | Sum):
            self._sums(instruction, cell, memory)
        writings = self.written.setdefault(memory.number, [])
        if isinstance(instruction, Add) or getattr(instruction, "onto", False):
            if not writings:
                self._broken(
                    "uniqueness", f"{instruction} adds to cell {memory.number}, never filled"
                )
            for writing in writings:
                self._same_part(instruction, cell, writing, "uniqueness")
        elif writings:
            self._broken("uniqueness", f"cell {memory.number} has two writers")
        if memory.number in self.read:
            self._broken("chain", f"{instruction} writes cell {memory.number} after it was read")
        loops = tuple(loop.number for loop in self.loops)
        writings.append(_Writing(loops, self._parts(cell)))

    def _sums(self, instruction: Contract | Sum, cell: Cell, memory: Cell) -> None:
        """The loops that add are those around the writing, not the memory, without its index."""
        inside = self.loops[len(memory.scope) :]
        summing = tuple(loop.number for loop in inside if loop.index not in cell.indices)
        if not instruction.adds == cell.partial == summing:
            self._broken(
                "chain",
                f"{instruction} adds over {instruction.adds}, cell {cell.number} over "
                f"{cell.partial}; the loops that sum here are {summing}",
            )

    def _same_part(
        self, instruction: Instruction, cell: Cell, writing: _Writing, rule: str
    ) -> None:
        """What is used was written before: all of it, or the same part in the same trips."""
        both = {loop.number for loop in self.loops}.intersection(writing.loops)
        mine, theirs = (
            {(axis, loop) for axis, loop in parts if loop in both}
            for parts in (self._parts(cell), writing.parts)
        )
        if mine != theirs:
            self._broken(
                rule,
                f"{instruction} uses another part of cell {cell.number} than was written in the "
                f"same trip: {sorted(mine)} and {sorted(theirs)} as (axis, loop)",
            )

    def _free(self, cell: Cell) -> None:
        is_view = cell.number in self.alive and self._is_renamed(cell)
        if cell.number not in self.alive or not (cell.place is Place.STORED or is_view):
            self._broken("life", f"cell {cell.number} is freed but does not live")
        if cell.scope != tuple(loop.number for loop in self.loops):
            self._broken("life", f"cell {cell.number} is freed outside its scope {cell.scope}")
        self.alive.discard(cell.number)
        self.freed.add(cell.number)

    def _loop(self, loop: Loop) -> None:
        if loop.number in self.numbers:
            self._broken("uniqueness", f"loop {loop.number} occurs twice")
        if any(loop.index == outer.index for outer in self.loops):
            self._broken("uniqueness", f"index {loop.index} is looped inside its own loop")
        self._cover(loop)
        self.numbers.add(loop.number)
        before = set(self.alive)
        self.loops.append(loop)
        self.block(loop.body)
        self.loops.pop()
        left = {n for n in self.alive - before if self._cell(n).place is Place.STORED}
        if left:
            self._broken("life", f"cells {sorted(left)} outlive loop {loop.number}")
        self.alive = self.alive & before | {
            n for n in self.alive - before if self._cell(n).place is Place.RESULT
        }

    def _cover(self, loop: Loop) -> None:
        extent, edges = self.schedule.extents[loop.index], loop.edges
        widths = [stop - start for start, stop in pairwise(edges or (0, loop.width))]
        covers = loop.extent == extent and (not edges or (edges[0], edges[-1]) == (0, extent))
        if not covers or min(widths, default=0) < 1 or max(widths) != loop.width:
            self._broken(
                "cover",
                f"loop {loop.number} makes trips of {loop.width} over {loop.extent} elements at "
                f"{edges or 'multiples'}; index {loop.index} has {extent}",
            )

    def _is_renamed(self, cell: Cell) -> bool:
        """Whether it looks at another cell without slicing it."""
        return cell.source is not None and self._parts(cell) == self._parts(self._cell(cell.source))

    def _axes(self, cell: Cell) -> tuple[tuple[int, ...], ...]:
        return self.axes.get(cell.number) or tuple((n,) for n in range(len(cell.indices)))

    def _parts(self, cell: Cell) -> frozenset[tuple[int, int]]:
        """Pairs (axis of the memory, loop) that say which part of its memory a cell is."""
        axes = self._axes(cell)
        return frozenset(
            (axis, loop) for index, loop in cell.slices for axis in axes[cell.indices.index(index)]
        )

    def _broken(self, rule: str, what: str) -> NoReturn:
        raise ScheduleError(f"rule '{rule}' is broken: {what}")
