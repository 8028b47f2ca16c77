"""What is added up over the trips of loops, and why the sum of all trips is the sum that is meant.

Inside a loop a cell carries the loop's index, sliced; or it holds a sum over the slice of the
running trip; or the trip does not matter to it. A sum over all trips is right if each trip
contributes its part of one sum: products are linear in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from einbound.schedule.cells import Cell
from einbound.schedule.instructions import Instruction, Loop
from einbound.schedule.table import broken


@dataclass(frozen=True, slots=True)
class Use:
    """A cell with the one that has its memory."""

    cell: Cell
    memory: Cell


@dataclass
class Trips:
    """The sums over slices that are in memory.

    Attributes:
        sums: For each cell with memory, the loops around it of whose running trip it holds a sum.
    """

    sums: dict[int, frozenset[int]] = field(default_factory=dict)

    def write(
        self, instruction: Instruction, read: Sequence[Use], into: Use, loops: Sequence[Loop]
    ) -> None:
        """Note what is written from what is read inside loops.

        Raises:
            ScheduleError: The trips of one of the loops would not add up to what is meant.
        """
        summed = []
        for loop in loops:
            is_sum = self._is_sum(instruction, read, into.cell, loop)
            is_inside = loop.number in into.memory.scope
            if is_sum and is_inside:
                summed.append(loop.number)
            elif not is_sum and not is_inside and loop.index not in into.cell.indices:
                broken("sums", f"{instruction} adds the same in every trip of loop {loop.number}")
        held = frozenset(summed)
        if self.sums.setdefault(into.memory.number, held) != held:
            broken(
                "sums",
                f"{instruction} writes a sum over the trips of {sorted(held)} to cell "
                f"{into.memory.number}, which holds one over those of "
                f"{sorted(self.sums[into.memory.number])}",
            )

    def _is_sum(
        self, instruction: Instruction, read: Sequence[Use], into: Cell, loop: Loop
    ) -> bool:
        """Whether what is written is a sum over what the running trip of a loop slices."""
        carried = any(loop.index in use.cell.indices for use in read)
        n_sums = sum(loop.number in self.sums.get(use.memory.number, ()) for use in read)
        if n_sums + carried > 1:
            broken("sums", f"{instruction} multiplies two sums over the same trip of {loop.number}")
        return bool(n_sums) or (carried and loop.index not in into.indices)
