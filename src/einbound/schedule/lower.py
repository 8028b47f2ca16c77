"""Lowering of a tree with loops to a schedule, one tree at a time (forest descent).

Every value is produced where the tree's levels put it, lives until the loop behind it ends,
and is sliced at the head of the loop that slices it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from einbound.plan.model import Count
from einbound.plan.tree import Cut, Tree
from einbound.schedule.cells import Cell, Place
from einbound.schedule.instructions import (
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
    flat,
    reads,
)


def lower(
    tree: Tree,
    orders: Sequence[tuple[int, ...]],
    output: tuple[int, ...],
    *,
    itemsize: int,
    staged: bool = False,
    viewed: bool = False,
) -> Schedule:
    """The schedule of a legal tree.

    Args:
        tree: What to compute.
        orders: The axis order of every value, operands first.
        output: The axis order of the result array.
        itemsize: Bytes per element; it settles which of two values is made first.
        staged: Make the result in a cell of its own and copy it over at the end, as an `out=`
            that overlaps an operand, or that holds sums in a narrower dtype, needs it.
        viewed: Where nothing is computed, the result is the operand itself.

    Returns:
        A schedule whose cells 0 to n - 1 are the operands.
    """
    lowering = _Lowering(tree, tuple(orders), Count(tree, itemsize))
    lowering.operands()
    if viewed and tree.network.is_view:
        return lowering.finish(0)
    result = lowering.result(output, staged)
    return lowering.finish(result)


@dataclass
class _Frame:
    """The body of one loop while it is written; slices gather at its head."""

    cut: Cut | None = None
    number: int = -1
    step: int = -1
    head: list[Instruction] = field(default_factory=list)
    body: list[Instruction] = field(default_factory=list)


@dataclass
class _Lowering:
    tree: Tree
    orders: tuple[tuple[int, ...], ...]
    count: Count
    cells: list[Cell] = field(default_factory=list)
    frames: list[_Frame] = field(default_factory=lambda: [_Frame()])
    made: dict[int, int] = field(default_factory=dict)
    windows: dict[tuple[int, int], int] = field(default_factory=dict)
    n_loops: int = 0

    def operands(self) -> None:
        """Enter the operands as the first cells."""
        for value, indices in enumerate(self.tree.network.inputs):
            self._cell(value, Place.OPERAND, indices)

    def result(self, output: tuple[int, ...], staged: bool) -> int:
        """Produce the root and return the result's cell."""
        tree = self.tree
        if not staged:
            return self._produce(tree.root, Place.RESULT, output)
        made = self._produce(tree.root, Place.STORED, output)
        result = self._cell(tree.root, Place.RESULT, output)
        self._emit(Alloc(result), Scatter(made, result), Free(made))
        return result

    def finish(self, result: int) -> Schedule:
        """The schedule of all that was written."""
        (frame,) = self.frames
        body = (*frame.head, *frame.body)
        lives = [0] * len(self.cells)
        for instruction in flat(body):
            for cell in reads(instruction):
                lives[cell] += 1
        cells = tuple(
            replace(cell, life=lives[cell.number], depth=self._depth(cell.value))
            for cell in self.cells
        )
        return Schedule(cells, body, (result,), self.tree.network.extents)

    def _depth(self, value: int) -> int:
        depth = 0
        while (value := self.tree.parents[value]) >= 0:
            depth += 1
        return depth

    def _emit(self, *instructions: Instruction) -> None:
        self.frames[-1].body.extend(instructions)

    def _cell(
        self,
        value: int,
        place: Place,
        indices: tuple[int, ...],
        source: int | None = None,
        partial: tuple[int, ...] = (),
    ) -> int:
        scope = () if place is Place.OPERAND else self._scope()
        slices = tuple(
            (frame.cut.index, frame.number)
            for frame in self.frames
            if frame.cut and frame.cut.index in indices and place is not Place.OPERAND
        )
        number = len(self.cells)
        self.cells.append(Cell(number, value, place, indices, scope, slices, source, partial))
        return number

    def _scope(self) -> tuple[int, ...]:
        return tuple(frame.number for frame in self.frames[1:])

    def _produce(self, value: int, place: Place, indices: tuple[int, ...]) -> int:
        """Write the production of one value into the frames that are open."""
        if value < self.tree.n_operands:
            cell = self._cell(value, place, indices)
            brought = Read if value in self.tree.network.streamed else Sum
            self._emit(Alloc(cell), brought(self._window(value), cell))
            return cell
        step = value - self.tree.n_operands
        outer = len(self.frames) - 1
        self._fill_slot(step, outer)
        numbers = range(self.n_loops, self.n_loops + len(self.tree.opens[step]))
        self.n_loops = numbers.stop
        adds = tuple(
            number
            for number, cut in zip(numbers, self.tree.opens[step], strict=True)
            if cut in self.tree.partial(step)
        )
        cell = self._cell(value, place, indices, partial=adds)
        self._emit(Alloc(cell))
        self._nest(step, cell, adds, numbers)
        self.made[value] = cell
        return cell

    def _nest(self, step: int, cell: int, adds: tuple[int, ...], numbers: range) -> None:
        """Open the step's loops around its slots and its product, then close them."""
        outer = len(self.frames) - 1
        for number, cut in zip(numbers, self.tree.opens[step], strict=True):
            self.frames.append(_Frame(cut, number, step))
            self._fill_slot(step, len(self.frames) - 1)
        left, right = (self._read(child) for child in self.tree.steps[step])
        self._emit(Contract(step, left, right, self._window(cell), adds))
        self._empty_slot(step, len(self.frames) - 1)
        while len(self.frames) - 1 > outer:
            self._close()
            self._empty_slot(step, len(self.frames) - 1)

    def _close(self) -> None:
        frame = self.frames.pop()
        assert frame.cut is not None
        cut, body = frame.cut, (*frame.head, *frame.body)
        extent = self.tree.network.extents[cut.index]
        self._emit(Loop(frame.number, cut.index, extent, cut.width, frame.step, body, cut.edges))

    def _fill_slot(self, step: int, depth: int) -> None:
        for item in self.count.slots[step, depth]:
            self.made[item.value] = self._produce(item.value, Place.STORED, self.orders[item.value])

    def _empty_slot(self, step: int, depth: int) -> None:
        for item in reversed(self.count.slots[step, depth]):
            self._emit(Free(self.made[item.value]))

    def _read(self, value: int) -> int:
        """The cell from which the innermost trip reads `value`."""
        plain = value < self.tree.n_operands and not self.tree.stored[value]
        return self._window(value if plain else self.made[value])

    def _window(self, cell: int) -> int:
        """The slice of `cell` that the open loops see; made at the head of each loop."""
        for depth in range(len(self.cells[cell].scope) + 1, len(self.frames)):
            frame = self.frames[depth]
            assert frame.cut is not None
            seen = self.cells[cell]
            if frame.cut.index not in seen.indices:
                continue
            key = (cell, frame.number)
            if key not in self.windows:
                number = len(self.cells)
                slices = (*seen.slices, (frame.cut.index, frame.number))
                scope = tuple(f.number for f in self.frames[1 : depth + 1])
                self.cells.append(
                    Cell(
                        number,
                        seen.value,
                        Place.SLICE,
                        seen.indices,
                        scope,
                        slices,
                        cell,
                        seen.partial,
                    )
                )
                axis = seen.indices.index(frame.cut.index)
                frame.head.append(Slice(number, cell, axis, frame.number))
                self.windows[key] = number
            cell = self.windows[key]
        return cell
