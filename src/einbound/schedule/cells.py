"""The cell table: every stored form of every value, where it lives and who reads it.

A cell is one array at run time. What happens to cells is in `instructions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Place(Enum):
    """What kind of memory a cell is."""

    OPERAND = "operand"
    RESULT = "result"
    STORED = "stored"
    SLICE = "slice"


@dataclass(frozen=True, slots=True)
class Cell:
    """One stored form of one value.

    Attributes:
        number: Position in the cell table.
        value: The value of the tree that it holds.
        place: Kind of memory; a slice is a window into another cell and owns no bytes.
        indices: The index of each axis.
        scope: Numbers of the loops open where it is made, outermost first.
        slices: Pairs (index, loop): the index holds only what the current trip of the loop needs.
        source: For a slice, the cell it looks into.
        partial: Loops whose trips add up in it; complete only when they have ended.
        life: How many instructions of the schedule read it.
        depth: Products between its value and the result.
    """

    number: int
    value: int
    place: Place
    indices: tuple[int, ...]
    scope: tuple[int, ...] = ()
    slices: tuple[tuple[int, int], ...] = ()
    source: int | None = None
    partial: tuple[int, ...] = ()
    life: int = 0
    depth: int = 0
