"""What predicates and reports see of an index and of an operand.

Plain descriptions only; how axes map to indices is in `network`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Index:
    """An index as a user names it.

    Attributes:
        label: The caller's label; an `EllipsisLabel` for a dimension that '...' stands for.
        extent: Number of elements.
        tiles: Boundaries of the index's tiles, starting with 0 and ending with the extent; None
            where the index has no tiles.
    """

    label: Hashable
    extent: int
    tiles: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand as a predicate sees it.

    Attributes:
        number: Position among the operands, from 0.
        indices: The distinct indices of the operand, in the order of their first axes.
        dtype: Element type.
    """

    number: int
    indices: tuple[Index, ...]
    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class EllipsisLabel:
    """The label of one dimension that '...' stands for; prints as ...0, ...1 and so on.

    Attributes:
        position: Place among the ellipsis dimensions of the result, from 0 at the left.
    """

    position: int

    def __repr__(self) -> str:
        return f"...{self.position}"
