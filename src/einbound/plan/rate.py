"""Rough seconds of one product under its loops, from the extents of its matrix alone.

Ranks plans of equal multiply-adds before they are metered; the ways of a schedule are priced in
`step`. Every product is taken to find its operands in the layout that suits it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from einbound.expr.network import Network
from einbound.plan.masks import Sizes, Terms, bits
from einbound.plan.problem import Instant, Toll
from einbound.plan.tree import Cut, outermost_level, trips
from einbound.step.form import Kernel
from einbound.step.pricing import (
    READ_BYTE_SECONDS,
    READ_SECONDS,
    TRIP_SECONDS,
    matmul_seconds,
    passing_seconds,
)

#: Per byte of a slice to which a contribution is added: through a buffer, into memory.
ADDED_BYTE_SECONDS = 0.028e-9
_DOUBLE = np.dtype("f8")


@dataclass(frozen=True, slots=True)
class Shape:
    """The indices of one product by their part in it, and their elements in all.

    Attributes:
        groups: Masks of the indices in all three values, in left and result, in right and
            result, and in left and right alone.
        extents: Elements of each group.
        sizes: Elements of every index.
    """

    groups: tuple[int, int, int, int]
    extents: tuple[int, int, int, int]
    sizes: Sizes

    @classmethod
    def of(cls, left: int, right: int, result: int, sizes: Sizes) -> Shape:
        """The shape of the product of two values with these indices."""
        groups = (
            left & right & result,
            left & result & ~right,
            right & result & ~left,
            left & right & ~result,
        )
        items, m, n, k = (sizes[group] for group in groups)
        return cls(groups, (items, m, n, k), sizes)

    def seconds(self, cuts: tuple[Cut, ...], itemsize: int) -> float:
        """Seconds of one call inside loops, its full slices.

        Args:
            cuts: The loops around the product.
            itemsize: Bytes per element.
        """
        extents = list(self.extents)
        for cut in cuts:
            for place, group in enumerate(self.groups):
                if group >> cut.index & 1:
                    extents[place] = extents[place] // self.sizes.extents[cut.index] * cut.width
        items, m, n, k = extents
        m, n = min(m, n), max(m, n)  # vectors along the longer side
        moved = items * (m * k + k * n + m * n) * itemsize
        kernel = Kernel.GEMM if m > 1 and n > 1 else Kernel.GEMV
        if k == 1:
            # A product of elements runs at the speed of its destination.
            return TRIP_SECONDS + items * m * n * itemsize * _OUTER_BYTE_SECONDS
        # A vector is passed along the fewer rows or columns of its matrix.
        along = kernel is Kernel.GEMV and m * n <= k
        seconds = matmul_seconds(_DOUBLE, kernel, items, m, n, k, along_sums=along)
        return TRIP_SECONDS + seconds + passing_seconds(moved)


#: Per byte of a product of elements: 0.55 to 0.83 ms for 15 MB.
_OUTER_BYTE_SECONDS = 0.05e-9


def toll_of(network: Network, itemsize: int) -> Toll:
    """Predicted nanoseconds of every product, all its trips together.

    Args:
        network: What is contracted.
        itemsize: Bytes per element.
    """
    sizes = Terms.of(network).sizes
    shapes: dict[tuple[int, int, int], Shape] = {}

    def nanoseconds(instant: Instant) -> int:
        masks = instant.left, instant.right, instant.value
        shape = shapes.get(masks)
        if shape is None:
            shape = shapes[masks] = Shape.of(*masks, sizes)
        cuts = (*instant.around, *instant.opens)
        n_trips = firsts = 1
        for depth, cut in enumerate(cuts):
            n_trips *= trips(cut, network)
            if depth < len(instant.around) or instant.value >> cut.index & 1:
                firsts *= trips(cut, network)
        seconds = n_trips * shape.seconds(cuts, itemsize)
        if n_trips > firsts:
            added = sizes[instant.value] * itemsize
            for cut in cuts:
                if instant.value >> cut.index & 1:
                    added = added // network.extents[cut.index] * cut.width
            seconds += (n_trips - firsts) * added * ADDED_BYTE_SECONDS
        if network.streamed:
            seconds += _read_seconds(instant, network, itemsize)
        return round(seconds * 1e9)

    return Toll(nanoseconds, _MOST_NANOSECONDS)


def _read_seconds(instant: Instant, network: Network, itemsize: int) -> float:
    """Seconds to bring the operands of a product that are not in memory, over all trips."""
    seconds, cuts = 0.0, (*instant.around, *instant.opens)
    for operand, mask in zip(instant.halves, (instant.left, instant.right), strict=True):
        number = operand.bit_length() - 1
        if operand & (operand - 1) or number not in network.streamed:
            continue
        around = cuts[: outermost_level(cuts, frozenset(bits(mask)))]
        n_bytes, n_trips = itemsize * network.size(network.inputs[number]), 1
        for cut in around:
            n_trips *= trips(cut, network)
            if mask >> cut.index & 1:
                n_bytes = n_bytes // network.extents[cut.index] * cut.width
        seconds += n_trips * (READ_SECONDS + n_bytes * READ_BYTE_SECONDS)
    return seconds


#: A year: more than any plan takes that is worth to be told from others.
_MOST_NANOSECONDS = 1 << 55
