"""The rules that a schedule obeys before it may run.

1. visibility: a cell is read only while it and what it looks at live, inside the loops around its
   making, and after it was written.
2. form: a reader inside a loop sees every cell that carries the loop's index sliced by that loop;
   the indices of what is written come from what is read, and a product sums what both have.
3. chain: a slice carries its source's indices and one loop more, a renamed view its source's axes;
   what sums the trips of a loop is not read before that loop has ended; of memory that a running
   loop fills part by part, only the part of the same trip is read; nothing is written after it was
   read.
4. life: a cell is read as often as the table says, and each stored cell once freed.
5. uniqueness: one making and one writer per cell, one loop per number, no index looped twice;
   memory has one writer that fills it, and others that add to what this one has filled.
6. cover: the trips of a loop cover its index once, in order, and the widest is as wide as it says;
   a writer fills all of its memory, no diagonal of it.
7. sums: what the trips of a loop add up is a sum over the loop's index that is cut into slices.
8. table: indices, slices and results are what the table has.

Law: what obeys these rules gives the same as its instructions do on whole arrays without loops
(tests/test_schedule_rules.py). Which products these are, only the instructions say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

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
from einbound.schedule.table import broken, check_table
from einbound.schedule.trips import Trips, Use

#: What writes a cell.
Writer: TypeAlias = Contract | Sum | Read | Add | Scatter


def validate(schedule: Schedule) -> Schedule:
    """The schedule itself, if it obeys all rules.

    Raises:
        ScheduleError: A rule is broken; the message names rule, instruction and cell.
    """
    check_table(schedule)
    check = _Check(schedule)
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
        sums: Loops whose trips add up there.
    """

    loops: tuple[int, ...]
    parts: frozenset[tuple[int, int]]
    sums: frozenset[int]


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
    writers: set[int] = field(default_factory=set)
    trips: Trips = field(default_factory=Trips)
    #: For each axis of a cell that looks at another, the axes of the memory that it runs over.
    axes: dict[int, tuple[tuple[int, ...], ...]] = field(default_factory=dict)

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
                broken(
                    "life",
                    f"cell {cell.number} is read {self.lives.get(cell.number, 0)} times, "
                    f"the table says {cell.life}",
                )
            if cell.place is Place.STORED and cell.number not in self.freed:
                broken("life", f"cell {cell.number} is never freed")
        for result in self.schedule.results:
            is_operand = self._cell(result).place is Place.OPERAND
            if not is_operand and result not in self.written:
                broken("visibility", f"the result, cell {result}, is never written")

    def _cell(self, number: int) -> Cell:
        if not 0 <= number < len(self.schedule.cells):
            broken("visibility", f"cell {number} is not in the table")
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
            broken("visibility", f"{reader} reads cell {cell.number}, which does not live")
        if isinstance(reader, Slice | See):
            return
        self._form(cell, reader)
        memory = chain[-1]
        writings = self.written.get(memory.number, [])
        if not writings and memory.place is not Place.OPERAND:
            broken("visibility", f"{reader} reads cell {cell.number}, which nothing has written")
        running = {loop.number for loop in self.loops}
        if any(running & writing.sums for writing in writings):
            broken("chain", f"{reader} reads cell {cell.number} before its sum is complete")
        for writing in writings:
            self._same_part(reader, cell, writing, "chain")
        self.read.add(memory.number)

    def _form(self, cell: Cell, user: Instruction) -> None:
        for loop in self.loops:
            if loop.index in cell.indices and (loop.index, loop.number) not in cell.slices:
                broken(
                    "form",
                    f"{user} uses cell {cell.number} whole along index {loop.index}, "
                    f"which loop {loop.number} slices",
                )

    def _alloc(self, cell: Cell) -> None:
        if cell.number in self.made or cell.place not in (Place.STORED, Place.RESULT):
            broken("uniqueness", f"cell {cell.number} is made twice")
        if cell.scope != tuple(loop.number for loop in self.loops):
            broken("visibility", f"cell {cell.number} is made outside its scope {cell.scope}")
        slices = tuple(each for each in self._open if each[0] in cell.indices)
        if cell.slices != slices:
            broken(
                "form", f"cell {cell.number} has slices {cell.slices}; the loops make it {slices}"
            )
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
            and {*cell.slices} <= {*self._open}
            and all(
                extents[index] == extents[source.indices[n]]
                for index, run in zip(cell.indices, axes, strict=True)
                for n in run
            )
        )
        if fits:
            self.axes[cell.number] = tuple(tuple(m for n in run for m in seen[n]) for run in axes)
        if not fits or self._parts(cell) != self._parts(source):
            broken("chain", f"{instruction} does not fit cells {cell} and {source}")
        if cell.number in self.made:
            broken("uniqueness", f"cell {cell.number} is made twice")
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
            and instruction.axis == _position(cell, loop.index)
            and cell.slices == (*source.slices, (loop.index, loop.number))
        )
        if not fits:
            broken("chain", f"{instruction} does not fit cells {cell} and {source}")
        if cell.number in self.made:
            broken("uniqueness", f"cell {cell.number} is made twice")
        self.axes[cell.number] = self._axes(source)
        self.made.add(cell.number)
        self.alive.add(cell.number)

    def _write(self, instruction: Writer) -> None:
        cell = self._cell(instruction.into)
        chain = self._chain(cell)
        memory = chain[-1]
        is_dead = any(each.number not in self.alive for each in chain)
        if is_dead or memory.place is Place.OPERAND:
            broken("visibility", f"{instruction} writes cell {cell.number}, not alive")
        if cell.number in self.writers:
            broken("uniqueness", f"cell {cell.number} has two writers")
        self._form(cell, instruction)
        self._indices(instruction, cell)
        sums = self._sums(instruction, cell, memory)
        self._place(instruction, cell, memory)
        if memory.number in self.read:
            broken("chain", f"{instruction} writes cell {memory.number} after it was read")
        self.writers.add(cell.number)
        loops = tuple(loop.number for loop in self.loops)
        writing = _Writing(loops, self._parts(cell), frozenset(sums))
        self.written.setdefault(memory.number, []).append(writing)

    def _indices(self, instruction: Writer, cell: Cell) -> None:
        """All axes that are written are axes of what is read; a product sums what both have."""
        given = [{*self._cell(number).indices} for number in reads(instruction)]
        read = set().union(*given)
        wanted = {*cell.indices}
        if isinstance(instruction, Contract):
            wanted |= set.intersection(*given)
        if isinstance(instruction, Sum | Read):
            wanted |= read
        if wanted != read:
            broken("form", f"{instruction} writes indices {cell.indices} from {sorted(read)}")
        if isinstance(instruction, Read):
            source = self._memory(instruction.source)
            if source.place is not Place.OPERAND:
                broken("form", f"{instruction} reads cell {source.number}, which is no operand")
        if any(len(run) > 1 for run in self._axes(cell)):
            broken("cover", f"{instruction} writes cell {cell.number}, a diagonal, only")

    def _sums(self, instruction: Writer, cell: Cell, memory: Cell) -> tuple[int, ...]:
        """The loops that add: those around the writing, not the memory, without its index."""
        inside = self.loops[len(memory.scope) :]
        summing = tuple(loop.number for loop in inside if loop.index not in cell.indices)
        adds = instruction.adds if isinstance(instruction, Contract | Sum) else ()
        if not adds == cell.partial == summing:
            broken(
                "chain",
                f"{instruction} adds over {adds}, cell {cell.number} over "
                f"{cell.partial}; the loops that sum here are {summing}",
            )
        read = [Use(self._cell(number), self._memory(number)) for number in reads(instruction)]
        self.trips.write(instruction, read, Use(cell, memory), self.loops)
        return summing

    def _place(self, instruction: Writer, cell: Cell, memory: Cell) -> None:
        """The first writer fills memory, others add to the same part of what is there."""
        writings = self.written.get(memory.number, [])
        if isinstance(instruction, Add) or getattr(instruction, "onto", False):
            if not writings:
                broken("uniqueness", f"{instruction} adds to cell {memory.number}, never filled")
            for writing in writings:
                self._same_part(instruction, cell, writing, "uniqueness")
        elif writings:
            broken("uniqueness", f"cell {memory.number} has two writers")

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
            broken(
                rule,
                f"{instruction} uses another part of cell {cell.number} than was written in the "
                f"same trip: {sorted(mine)} and {sorted(theirs)} as (axis, loop)",
            )

    def _free(self, cell: Cell) -> None:
        is_view = cell.number in self.alive and self._is_renamed(cell)
        if cell.number not in self.alive or not (cell.place is Place.STORED or is_view):
            broken("life", f"cell {cell.number} is freed but does not live")
        if cell.scope != tuple(loop.number for loop in self.loops):
            broken("life", f"cell {cell.number} is freed outside its scope {cell.scope}")
        self.alive.discard(cell.number)
        self.freed.add(cell.number)

    def _loop(self, loop: Loop) -> None:
        if loop.number in self.numbers:
            broken("uniqueness", f"loop {loop.number} occurs twice")
        if any(loop.index == outer.index for outer in self.loops):
            broken("uniqueness", f"index {loop.index} is looped inside its own loop")
        self._cover(loop)
        self.numbers.add(loop.number)
        before = set(self.alive)
        self.loops.append(loop)
        self.block(loop.body)
        self.loops.pop()
        left = {n for n in self.alive - before if self._cell(n).place is Place.STORED}
        if left:
            broken("life", f"cells {sorted(left)} outlive loop {loop.number}")
        self.alive = self.alive & before | {
            n for n in self.alive - before if self._cell(n).place is Place.RESULT
        }

    def _cover(self, loop: Loop) -> None:
        extents, edges = self.schedule.extents, loop.edges
        extent = extents[loop.index] if 0 <= loop.index < len(extents) else None
        widths = [stop - start for start, stop in pairwise(edges or (0, loop.width))]
        covers = loop.extent == extent and (not edges or (edges[0], edges[-1]) == (0, extent))
        if not covers or min(widths, default=0) < 1 or max(widths) != loop.width:
            broken(
                "cover",
                f"loop {loop.number} makes trips of {loop.width} over {loop.extent} elements at "
                f"{edges or 'multiples'}; index {loop.index} has {extent}",
            )

    @property
    def _open(self) -> tuple[tuple[int, int], ...]:
        """Pairs (index, loop) of the loops that are open, outermost first."""
        return tuple((loop.index, loop.number) for loop in self.loops)

    def _memory(self, number: int) -> Cell:
        return self._chain(self._cell(number))[-1]

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


def _position(cell: Cell, index: int) -> int | None:
    """The axis of a cell that carries an index."""
    return cell.indices.index(index) if index in cell.indices else None
