"""Lowering of a forest to one schedule: the schedules of its trees, linked.

Every value has one cell with memory, which lives from its first writer to its last reader in the
innermost loop around all of them. A production sees these cells under its own index numbers; an
index that a common loop cuts has one number in all productions inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from einbound.expr.network import Network
from einbound.expr.number import element
from einbound.forest.blocks import Block, ForestPlan, Member, Together
from einbound.forest.forest import Forest, Kind, Production
from einbound.plan.tree import Tree
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
    flat,
    reads,
)
from einbound.schedule.layouts import value_orders
from einbound.schedule.lower import lower
from einbound.step.view import View

#: Stands for the step of a loop that no tree opens.
NO_STEP = -1


@dataclass(frozen=True)
class Lowered:
    """A schedule with what its numbers mean in the forest.

    Attributes:
        schedule: Cells begin with the leaves, in order; results are the targets, in order.
        steps: For each step number of the schedule, the production and the step of its tree.
        memory: For each value of the forest, its cell with memory.
    """

    schedule: Schedule
    steps: tuple[tuple[int, int], ...]
    memory: tuple[int, ...]


def lower_forest(
    plan: ForestPlan, leaves: Sequence[View], work: np.dtype, buffer_bytes: int
) -> Lowered:
    """The schedule of a planned forest.

    Args:
        plan: What to run; kept values are results, too, after the targets.
        leaves: The layout of each leaf, whose indices are the numbers of its axes.
        work: Element type of stored values.
        buffer_bytes: Bound of each buffer of a step.
    """
    linking = _Linking(plan, tuple(leaves), work, buffer_bytes)
    linking.leaves_in()
    linking.block(plan.block)
    return linking.finish()


@dataclass
class _Frame:
    """The body of one common loop while it is written; slices gather at its head."""

    loop: Together | None = None
    index: int = -1
    number: int = -1
    head: list[Instruction] = field(default_factory=list)
    body: list[Instruction] = field(default_factory=list)
    views: list[int] = field(default_factory=list)

    def cut(self, production: int) -> int | None:
        """The index of a production's network that the loop cuts."""
        return None if self.loop is None else dict(self.loop.cuts).get(production)


@dataclass(frozen=True)
class _Linking:
    plan: ForestPlan
    leaves: tuple[View, ...]
    work: np.dtype
    buffer_bytes: int
    cells: list[Cell] = field(default_factory=list)
    extents: list[int] = field(default_factory=list)
    steps: list[tuple[int, int]] = field(default_factory=list)
    frames: list[_Frame] = field(default_factory=lambda: [_Frame()])
    loops: list[int] = field(default_factory=list)
    memory: dict[int, int] = field(default_factory=dict)
    partial: dict[int, tuple[int, ...]] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)

    @property
    def forest(self) -> Forest:
        return self.plan.forest

    def leaves_in(self) -> None:
        """Enter the leaves as the first cells."""
        for value in self.forest.values:
            if value.kind is Kind.LEAF:
                indices = tuple(self._index(n) for n in value.shape)
                self.memory[value.number] = self._cell(value.number, Place.OPERAND, indices)

    def block(self, block: Block) -> None:
        """Write the items of one block, and the beginning and end of the values that live in it."""
        here = tuple(frame.loop.number for frame in self.frames[1:] if frame.loop)
        lives = self.plan.lives(block, here)
        for number, item in enumerate(block):
            for value in lives[number][0]:
                self._begin(value)
            if isinstance(item, Member):
                self._member(item)
            else:
                self._together(item)
            for value in lives[number][1]:
                self.frames[-1].body.append(Free(self.memory[value]))

    def finish(self) -> Lowered:
        """The schedule of all that was written."""
        (frame,) = self.frames
        body = tuple(frame.body)
        lives = [0] * len(self.cells)
        for instruction in flat(body):
            for cell in reads(instruction):
                lives[cell] += 1
        cells = tuple(
            replace(
                cell,
                life=lives[cell.number],
                partial=self.partial.get(cell.number, cell.partial),
            )
            for cell in self.cells
        )
        forest = self.forest
        kept = sorted(self.plan.kept.difference(forest.targets))
        results = tuple(self.memory[value] for value in (*forest.targets, *kept))
        memory = tuple(self.memory[value.number] for value in forest.values)
        return Lowered(
            Schedule(cells, body, results, tuple(self.extents)), tuple(self.steps), memory
        )

    def _begin(self, value: int) -> None:
        """Make the memory of a value, as wide as one trip of the loops around it."""
        maker = self._production(self.forest.producers[value][0])
        indices = []
        for axis, local in enumerate(maker.network.output):
            cut = [frame.index for frame in self.frames[1:] if frame.cut(maker.number) == local]
            extent = self.forest.values[value].shape[axis]
            indices.append(cut[0] if cut else self._index(extent))
        place = Place.RESULT if self.plan.is_result(value) else Place.STORED
        cell = self._cell(value, place, tuple(indices))
        self.memory[value] = cell
        self.partial[cell] = ()
        self.frames[-1].body.append(Alloc(cell))

    def _together(self, item: Together) -> None:
        number = self._loop()
        index = self._index(item.extent)
        self.frames.append(_Frame(item, index, number))
        self.block(item.body)
        frame = self.frames.pop()
        body = (*frame.head, *frame.body)
        around = self.frames[-1].body
        around.append(Loop(number, index, item.extent, item.width, NO_STEP, body, item.edges))
        self._forget()

    def _member(self, item: Member) -> None:
        production = self._production(item.production)
        made = self._schedule(production, item.tree)
        numbers = self._numbers(production)
        into = self._into(production, numbers)
        operands = [
            self._window(self._see(value, numbers, production, k), production)
            for k, value in enumerate(production.operands)
        ]
        self.frames[-1].body.extend(_Copy(self, production, made, numbers, operands, into).body())
        self.steps.extend((item.production, step) for step in range(len(item.tree.steps)))
        self.begun.add(production.into)
        self._forget()

    def _schedule(self, production: Production, tree: Tree) -> Schedule:
        """The schedule of one tree on the layouts that it finds here."""
        network = tree.network
        operands = tuple(
            self._layout(value, network.inputs[k], network.accesses[k].axes, network)
            for k, value in enumerate(production.operands)
        )
        result = self._layout(
            production.into,
            network.output,
            tuple((n,) for n in range(len(network.output))),
            network,
        )
        orders = value_orders(tree, operands, result, self.work, self.buffer_bytes)
        return lower(tree, orders, network.output, itemsize=self.work.itemsize)

    def _layout(
        self,
        value: int,
        indices: tuple[int, ...],
        axes: tuple[tuple[int, ...], ...],
        network: Network,
    ) -> View:
        """The layout of one trip's part of a value, one axis per index of a production."""
        if self.forest.values[value].kind is Kind.LEAF:
            memory = self.leaves[value]
        else:
            cell = self.cells[self.memory[value]]
            widths = {frame.index: frame.loop.width for frame in self.frames[1:] if frame.loop}
            sliced = dict(cell.slices)
            extents = tuple(widths[i] if i in sliced else self.extents[i] for i in cell.indices)
            memory = View.contiguous(tuple(range(len(extents))), extents, self.work)
        strides = tuple(sum(memory.strides[n] for n in run) for run in axes)
        extents = tuple(network.extents[i] for i in indices)
        return View(indices, extents, strides, memory.dtype, memory.aligned)

    def _numbers(self, production: Production) -> list[int]:
        """The index numbers of a production's network in the schedule."""
        numbers = []
        for local, extent in enumerate(production.network.extents):
            cut = [
                frame.index for frame in self.frames[1:] if frame.cut(production.number) == local
            ]
            numbers.append(cut[0] if cut else self._index(extent))
        return numbers

    def _into(self, production: Production, numbers: list[int]) -> int:
        """The cell of the value that is added to, as the production sees it in one trip."""
        memory = self.memory[production.into]
        indices = tuple(numbers[i] for i in production.network.output)
        inside = self.frames[len(self.cells[memory].scope) + 1 :]
        sums = tuple(frame.number for frame in inside if frame.index not in indices)
        known = self.partial[memory]
        self.partial[memory] = (*known, *(loop for loop in sums if loop not in known))
        cell = self._view(memory, indices, ())
        self.partial[cell] = sums
        return self._window(cell, production)

    def _see(self, value: int, numbers: list[int], production: Production, k: int) -> int:
        """The cell of an operand under the index numbers of the production."""
        network = production.network
        axes = network.accesses[k].axes
        is_plain = all(run == (n,) for n, run in enumerate(axes))
        indices = tuple(numbers[i] for i in network.inputs[k])
        return self._view(self.memory[value], indices, () if is_plain else axes)

    def _view(
        self, memory: int, indices: tuple[int, ...], axes: tuple[tuple[int, ...], ...]
    ) -> int:
        """A cell that looks at all of another, made in the loop in which that one lives."""
        seen = self.cells[memory]
        depth = len(seen.scope)
        slices = tuple(
            (frame.index, frame.number)
            for frame in self.frames[1 : depth + 1]
            if frame.index in indices
        )
        number = len(self.cells)
        self.cells.append(
            Cell(number, seen.value, Place.SLICE, indices, seen.scope, slices, memory)
        )
        self.frames[depth].body.append(See(number, memory, axes))
        self.frames[depth].views.append(number)
        return number

    def _window(self, cell: int, production: Production) -> int:
        """What the common loops that are open leave of a cell."""
        for frame in self.frames[len(self.cells[cell].scope) + 1 :]:
            seen = self.cells[cell]
            if frame.index not in seen.indices:
                continue
            number = len(self.cells)
            scope = tuple(each.number for each in self.frames[1 : self.frames.index(frame) + 1])
            slices = (*seen.slices, (frame.index, frame.number))
            self.cells.append(
                Cell(number, seen.value, Place.SLICE, seen.indices, scope, slices, cell)
            )
            self.partial[number] = self.partial.get(cell, ())
            axis = seen.indices.index(frame.index)
            frame.head.append(Slice(number, cell, axis, frame.number))
            cell = number
        return cell

    def _forget(self) -> None:
        """End the views that were made in the innermost frame."""
        frame = self.frames[-1]
        frame.body.extend(Free(view) for view in frame.views)
        frame.views.clear()

    def _production(self, number: int) -> Production:
        return self.forest.productions[number]

    def _cell(self, value: int, place: Place, indices: tuple[int, ...]) -> int:
        inside = self.frames[1:] if place is not Place.OPERAND else ()
        scope = tuple(frame.number for frame in inside)
        slices = tuple((frame.index, frame.number) for frame in inside if frame.index in indices)
        number = len(self.cells)
        self.cells.append(Cell(number, value, place, indices, scope, slices))
        return number

    def _index(self, extent: int) -> int:
        self.extents.append(extent)
        return len(self.extents) - 1

    def _loop(self) -> int:
        self.loops.append(len(self.loops))
        return self.loops[-1]


@dataclass
class _Copy:
    """One tree's schedule while it is written into the forest's."""

    to: _Linking
    production: Production
    made: Schedule
    numbers: list[int]
    operands: list[int]
    into: int
    loops: dict[int, int] = field(default_factory=dict)
    at: dict[int, int] = field(default_factory=dict)
    #: The common loops that add up in the value.
    outer: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.outer = self.to.partial.get(self.into, ())

    def body(self) -> tuple[Instruction, ...]:
        """The instructions, with cells, loops, indices and steps as the forest numbers them."""
        (result,) = self.made.results
        for instruction in flat(self.made.body):
            if isinstance(instruction, Loop):
                self.loops[instruction.number] = self.to._loop()
        self.at = dict(enumerate(self.operands))
        self.at[result] = self.into
        first = len(self.operands)
        for cell in self.made.cells[first:]:
            if cell.number != result:
                self._add(cell)
        own = tuple(self.loops[n] for n in self.made.cells[result].partial)
        self.to.partial[self.into] = (*self.outer, *own)
        body: list[Instruction] = []
        for instruction in self.made.body:
            if isinstance(instruction, Read) and self._root(instruction.into) == result:
                body.extend(self._reading(instruction))
            elif instruction != Alloc(result):
                body.append(self._instruction(instruction))
        return tuple(body)

    def _reading(self, what: Read) -> Iterator[Instruction]:
        """A leaf that is not in memory, read into the value itself; on its way if it adds."""
        source, into = self.at[what.source], self.at[what.into]
        onto = self.production.into in self.to.begun
        if not onto and not self.outer:
            yield Read(source, into)
            return
        part = self.to._cell(self.production.into, Place.STORED, self.to.cells[into].indices)
        yield from (Alloc(part), Read(source, part))
        yield from (Sum(part, into, self.outer, onto), Free(part))

    def _add(self, cell: Cell) -> None:
        to, number = self.to, len(self.to.cells)
        self.at[cell.number] = number
        indices = tuple(self.numbers[i] for i in cell.indices)
        frames = to.frames[1:]
        outer = tuple((f.index, f.number) for f in frames if f.index in indices)
        local = tuple((self.numbers[i], self.loops[n]) for i, n in cell.slices)
        scope = (*(f.number for f in frames), *(self.loops[n] for n in cell.scope))
        source = None if cell.source is None else self.at[cell.source]
        partial = tuple(self.loops[n] for n in cell.partial)
        if self._root(cell.number) == self.made.results[0]:
            partial = (*self.outer, *partial)
        to.cells.append(
            Cell(
                number,
                self.production.into,
                cell.place,
                indices,
                scope,
                (*outer, *local),
                source,
                partial,
                depth=cell.depth,
            )
        )

    def _root(self, cell: int) -> int:
        source = self.made.cells[cell].source
        return cell if source is None else self._root(source)

    def _writing(self, what: Contract | Sum) -> Contract | Sum:
        """The same into the forest's cell; into the value itself, it may add to what is there."""
        adds = tuple(self.loops[n] for n in what.adds)
        if self._root(what.into) != self.made.results[0]:
            return replace(what, into=self.at[what.into], adds=adds)
        onto = self.production.into in self.to.begun
        made = replace(what, into=self.at[what.into], adds=(*self.outer, *adds), onto=onto)
        return replace(made, factor=self.factor) if isinstance(made, Contract) else made

    @property
    def factor(self) -> float | complex:
        """What the production is multiplied by, as the arithmetic takes it."""
        return element(self.production.factor, self.to.work)

    def _instruction(self, what: Instruction) -> Instruction:
        match what:
            case Loop():
                return replace(
                    what,
                    number=self.loops[what.number],
                    index=self.numbers[what.index],
                    step=what.step + len(self.to.steps),
                    body=tuple(self._instruction(i) for i in what.body),
                )
            case Contract():
                return self._writing(
                    replace(
                        what,
                        step=what.step + len(self.to.steps),
                        left=self.at[what.left],
                        right=self.at[what.right],
                    )
                )
            case Sum():
                return self._writing(replace(what, source=self.at[what.source]))
            case Slice():
                return Slice(
                    self.at[what.cell], self.at[what.source], what.axis, self.loops[what.loop]
                )
            case Alloc() | Free():
                return replace(what, cell=self.at[what.cell])
            case Read() | Add() | Scatter():
                return replace(what, source=self.at[what.source], into=self.at[what.into])
            case See():
                raise AssertionError("one tree renames nothing")
