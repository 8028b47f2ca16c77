"""How a part of an operand that is not in memory is read: in blocks that stay within a bound.

Sizes only. The blocks are read in `backends.reads`; what bounds them stands in `run.executable`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

from einbound.step.pricing import READ_BYTE_SECONDS, READ_SECONDS

#: Where a block starts and stops along each index.
Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Intake:
    """One place in a schedule where an operand that is not in memory is read into a cell.

    Attributes:
        operand: Number of the operand.
        powers: For each of its indices, the axes of the array that carry it; several: a diagonal,
            of which blocks are read.
        order: For each axis of the cell, the position of its index in the operand; indices that
            are left out are summed.
        itemsize: Bytes per element of the operand.
        work_itemsize: Bytes per element of the cell.
        bound_bytes: Most bytes that a block may take, its sums included; None: any number.
    """

    operand: int
    powers: tuple[int, ...]
    order: tuple[int, ...]
    itemsize: int
    work_itemsize: int
    bound_bytes: int | None = None

    def reading(self, extents: tuple[int, ...]) -> Reading:
        """The blocks in which a part with these extents is read."""
        return _reading(self, extents)

    def summed(self) -> tuple[int, ...]:
        """Positions of the indices that are summed on the way."""
        return tuple(i for i in range(len(self.powers)) if i not in self.order)


@dataclass(frozen=True)
class Reading:
    """The blocks in which one part of an operand is read.

    Attributes:
        intake: Where it is read.
        extents: Elements of the part along each index.
        widths: Elements of a block along each index, at most.
    """

    intake: Intake
    extents: tuple[int, ...]
    widths: tuple[int, ...]

    @cached_property
    def n_blocks(self) -> int:
        """Number of blocks; a part without elements has none."""
        return prod(-(-n // w) for n, w in zip(self.extents, self.widths, strict=True))

    @cached_property
    def block_bytes(self) -> int:
        """Bytes of the largest block, in the operand's own element type."""
        if not self.n_blocks:
            return 0
        powers = self.intake.powers
        elements = prod([pow(w, p) for w, p in zip(self.widths, powers, strict=True)])
        return self.intake.itemsize * int(elements)

    @cached_property
    def total_bytes(self) -> int:
        """Bytes of all blocks together."""
        total = self.intake.itemsize
        for n, w, p in zip(self.extents, self.widths, self.intake.powers, strict=True):
            total *= n // w * w**p + (n % w) ** p
        return total

    @cached_property
    def partial_bytes(self) -> int:
        """Bytes of the sums of one block before they are added to those of blocks before."""
        intake = self.intake
        if all(self.widths[i] >= self.extents[i] for i in intake.summed()):
            return 0
        return intake.work_itemsize * prod(self.widths[i] for i in intake.order)

    @property
    def workspace_bytes(self) -> int:
        """Bytes that reading takes at once beside the cell."""
        return self.block_bytes + self.partial_bytes

    @property
    def seconds(self) -> float:
        """Rough time to read all blocks."""
        return self.n_blocks * READ_SECONDS + self.total_bytes * READ_BYTE_SECONDS

    def spans(self, axis: int = 0) -> Iterator[Spans]:
        """The blocks in the order in which they are read, the last index fastest.

        One at a time, since a list of them would take memory that no limit counts.

        Args:
            axis: The first index that is cut.
        """
        if axis == len(self.extents):
            yield ()
            return
        n, width = self.extents[axis], self.widths[axis]
        for start in range(0, n, width):
            for inner in self.spans(axis + 1):
                yield ((start, min(start + width, n)), *inner)


@lru_cache(maxsize=1024)
def _reading(intake: Intake, extents: tuple[int, ...]) -> Reading:
    """The largest blocks within the bound; the outer axes are cut, so that blocks lie together."""
    widths = [max(n, 1) for n in extents]
    bound = intake.bound_bytes
    for i, n in enumerate(extents):
        whole = Reading(intake, extents, tuple(widths))
        if bound is None or whole.workspace_bytes <= bound:
            return whole
        low, high = 1, max(n, 1)
        while high - low > 1:
            widths[i] = middle = (low + high) // 2
            if Reading(intake, extents, tuple(widths)).workspace_bytes <= bound:
                low = middle
            else:
                high = middle
        # As many blocks as that takes, of about the same size.
        widths[i] = -(-n // -(-n // low)) if n else 1
    return Reading(intake, extents, tuple(widths))
