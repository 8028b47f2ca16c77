"""Bytes that the loops of a product move into a store of a given capacity.

A model of loops and footprints; it knows no processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Axes of C[m, n] += A[m, k] B[k, n], and the operands that have them.
_AXES = {"A": frozenset("mk"), "B": frozenset("kn"), "C": frozenset("mn")}


@dataclass(frozen=True, slots=True)
class Block:
    """The part of a product that the innermost statement works on.

    Attributes:
        m: Rows.
        n: Columns.
        k: Depth.
    """

    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True)
class Widths:
    """Bytes of one number of each operand."""

    a: int
    b: int
    c: int


def moved_bytes(
    whole: Block, block: Block, loops: Sequence[tuple[str, int]], widths: Widths, capacity: int
) -> int:
    """Bytes of A and B read, and of C read and written, through a store of `capacity` bytes.

    A loop over an axis that an operand lacks meets the same part of it in every trip. That part is
    still there if all that one trip touches fits; if not, it is moved anew. This is the analysis by
    which blocks are sized in Goto and van de Geijn, "Anatomy of High-Performance Matrix
    Multiplication", ACM TOMS 34(3), 2008.

    Args:
        whole: All of the product: what is moved at least.
        block: What the innermost statement works on; a smaller one, or fewer trips, give a lower
            bound.
        loops: Axis ("m", "n" or "k") and trips of each loop around it, outermost first.
        widths: Bytes of the numbers.
        capacity: Bytes of the store.

    Returns:
        Bytes; fewer for a larger store.

    Example:
        >>> whole, block, widths = Block(8, 8, 4), Block(4, 4, 4), Widths(8, 8, 8)
        >>> [moved_bytes(whole, block, [("m", 2), ("n", 2)], widths, n) for n in (0, 10**6)]
        [2048, 1536]
    """
    moved, touched = _bytes(whole, widths), _bytes(block, widths)
    for axis, trips in reversed(loops):
        fits = sum(touched.values()) <= capacity
        for operand, axes in _AXES.items():
            if axis in axes:
                touched[operand] *= trips
            elif not fits:
                moved[operand] *= trips
    return moved["A"] + moved["B"] + 2 * moved["C"]


def _bytes(part: Block, widths: Widths) -> dict[str, int]:
    """Bytes of each operand in a part of the product."""
    return {
        "A": part.m * part.k * widths.a,
        "B": part.k * part.n * widths.b,
        "C": part.m * part.n * widths.c,
    }
