"""What a product that is added up takes on its way into its value.

A lower bound where one element is asked for: no step adds a product up without storing at least
that much of it. Which buffers a step takes besides is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod

from einbound.plan.masks import bits
from einbound.plan.problem import Instant
from einbound.plan.tree import Cut


@dataclass(frozen=True, slots=True)
class Contribution:
    """Bytes of one contribution; a price of products, as `problem.Temporary`.

    Attributes:
        extents: Of each index of the network.
        itemsize: Bytes per element.
        most_bytes: What it takes at most, added up in parts.
    """

    extents: tuple[int, ...]
    itemsize: int
    most_bytes: int

    def __call__(self, instant: Instant) -> int:
        """Bytes of a product: 0 where no trip adds to what a trip as large has left."""
        if not any(self._adds(cut) for cut in instant.opens if not instant.value >> cut.index & 1):
            return 0
        if self.most_bytes <= self.itemsize:
            return self.itemsize
        widths = {cut.index: cut.width for cut in (*instant.around, *instant.opens)}
        size = prod(widths.get(i, self.extents[i]) for i in bits(instant.value))
        return min(self.itemsize * size, self.most_bytes)

    def _adds(self, cut: Cut) -> bool:
        """Whether a trip after the first is as wide as any: it adds while as much is held."""
        if not cut.edges:
            return self.extents[cut.index] >= 2 * cut.width
        return cut.width in (stop - start for start, stop in pairwise(cut.edges[1:]))
