"""The rules that a schedule obeys before it may run.

1. visibility: a cell is read only while it lives, inside the loops around its making.
2. form: a reader inside a loop sees every cell that carries the loop's index sliced by that loop.
3. chain: a slice carries its source's indices and one loop more; a cell that sums the trips of
   a loop is not read before that loop has ended.
4. life: a cell is read as often as the table says, and each stored cell once freed.
5. uniqueness: one making and one writer per cell, one loop per number, no index looped twice.
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


@dataclass
class _Check:
    schedule: Schedule
    loops: list[Loop] = field(default_factory=list)
    alive: set[int] = field(default_factory=set)
    made: set[int] = field(default_factory=set)
    writers: set[int] = field(default_factory=set)
    freed: set[int] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)
    lives: dict[int, int] = field(default_factory=dict)

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
        result = self.schedule.result
        is_operand = self._cell(result).place is Place.OPERAND
        if not is_operand and result not in self.writers and not self._written_through(result):
            self._broken("visibility", f"the result, cell {result}, is never written")

    def _written_through(self, number: int) -> bool:
        return any(
            cell.source == number
            and (cell.number in self.writers or self._written_through(cell.number))
            for cell in self.schedule.cells
        )

    def _cell(self, number: int) -> Cell:
        if not 0 <= number < len(self.schedule.cells):
            self._broken("visibility", f"cell {number} is not in the table")
        return self.schedule.cells[number]

    def _read(self, cell: Cell, reader: Instruction) -> None:
        self.lives[cell.number] = self.lives.get(cell.number, 0) + 1
        if cell.number not in self.alive:
            self._broken("visibility", f"{reader} reads cell {cell.number}, which does not live")
        if isinstance(reader, Slice):
            return
        self._form(cell, reader)
        running = {loop.number for loop in self.loops}
        if running.intersection(cell.partial):
            self._broken("chain", f"{reader} reads cell {cell.number} before its sum is complete")

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
        self.made.add(cell.number)
        self.alive.add(cell.number)

    def _write(self, instruction: Contract | Sum | Read | Add | Scatter) -> None:
        cell = self._cell(instruction.into)
        if cell.number not in self.alive or cell.place is Place.OPERAND:
            self._broken("visibility", f"{instruction} writes cell {cell.number}, not alive")
        if cell.number in self.writers and not isinstance(instruction, Add):
            self._broken("uniqueness", f"cell {cell.number} has two writers")
        self._form(cell, instruction)
        if isinstance(instruction, Contract):
            summing = tuple(
                loop.number
                for loop in self.loops
                if loop.step == instruction.step and loop.index not in cell.indices
            )
            if not instruction.adds == cell.partial == summing:
                self._broken(
                    "chain",
                    f"{instruction} adds over {instruction.adds}, cell {cell.number} over "
                    f"{cell.partial}; the loops that sum here are {summing}",
                )
        self.writers.add(cell.number)

    def _free(self, cell: Cell) -> None:
        if cell.number not in self.alive or cell.place is not Place.STORED:
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

    def _broken(self, rule: str, what: str) -> NoReturn:
        raise ScheduleError(f"rule '{rule}' is broken: {what}")
