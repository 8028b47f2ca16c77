"""What the cell table of a schedule must obey on its own, before any instruction is looked at."""

from __future__ import annotations

from typing import NoReturn

from einbound.errors import ScheduleError
from einbound.schedule.cells import Cell, Place
from einbound.schedule.instructions import Schedule


def broken(rule: str, what: str) -> NoReturn:
    """A rule is broken."""
    raise ScheduleError(f"rule '{rule}' is broken: {what}")


def check_table(schedule: Schedule) -> None:
    """Refuse a table that contradicts itself.

    Raises:
        ScheduleError: It does; the message names the rule and the cell.
    """
    for position, cell in enumerate(schedule.cells):
        if cell.number != position:
            broken("uniqueness", f"cell {cell.number} stands at position {position}")
        if (cell.place is Place.SLICE) != (cell.source is not None):
            broken("chain", f"cell {position} is {cell.place.value} from {cell.source}")
        _check_indices(cell, len(schedule.extents))
    made = sorted(n for n, cell in enumerate(schedule.cells) if cell.place is Place.RESULT)
    others = [n for n in schedule.results if not _is_operand(schedule, n)]
    if made != sorted(others):
        broken("table", f"cells {made} are results, and the schedule returns {schedule.results}")


def _check_indices(cell: Cell, n_indices: int) -> None:
    sliced = [index for index, _ in cell.slices]
    known = all(0 <= index < n_indices for index in cell.indices)
    if not known or len({*cell.indices}) < len(cell.indices):
        broken("table", f"cell {cell} repeats an index, or has one that has no extent")
    if len({*sliced}) < len(sliced) or not {*sliced} <= {*cell.indices}:
        broken("table", f"cell {cell} is sliced along an index twice, or along one it lacks")
    is_outside = cell.place in (Place.OPERAND, Place.RESULT)
    if is_outside and (cell.scope or cell.slices):
        broken("table", f"{cell.place.value} {cell} is said to be made inside a loop")


def _is_operand(schedule: Schedule, number: int) -> bool:
    known = 0 <= number < len(schedule.cells)
    return known and schedule.cells[number].place is Place.OPERAND
