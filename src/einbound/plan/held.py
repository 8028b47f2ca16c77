"""Bytes that the executors of other libraries hold while they run an order.

They know no production levels and free no operand: operands stay, products are made one after
another and dropped after their reader, and a product that sums may pack its parts first. Plans
of our own are counted by their schedules instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from einbound.expr.network import Network
from einbound.plan.masks import Steps, Terms, bits, carried_masks, mask_of, order_macs
from einbound.plan.problem import Instant


@dataclass(frozen=True, slots=True)
class Reading:
    """What is held along one order.

    Attributes:
        peak_bytes: Most bytes alive at once, operands and result included.
        workspace_bytes: Most bytes alive at once of what is neither operand nor result.
        step: The product during which the peak is reached.
    """

    peak_bytes: int
    workspace_bytes: int
    step: int


@dataclass(frozen=True)
class Held:
    """Counts of what an executor holds for one network, cut into slices or not.

    A slice fixes one element of every cut index, and all slices run one after another. Whatever
    an executor may do is counted, needed or not: packed copies of both parts of a product that
    sums, and a summed form of an operand from the beginning to the end.

    Attributes:
        network: What is contracted.
        itemsize: Bytes per element.
        cut: The indices that are cut to single elements, as a mask.
    """

    network: Network
    itemsize: int
    cut: int = 0

    @cached_property
    def whole(self) -> Terms:
        """The network as masks."""
        return Terms.of(self.network)

    @cached_property
    def terms(self) -> Terms:
        """One slice as masks."""
        return self.whole.with_units(self.cut)

    @cached_property
    def sliced(self) -> Network:
        """One slice, its operands summed where that needs no product."""
        extents = self.network.extents
        return replace(
            self.network,
            extents=tuple(1 if self.cut >> i & 1 else n for i, n in enumerate(extents)),
            inputs=tuple(bits(mask) for mask in self.terms.masks),
            accesses=(),
        )

    @property
    def n_slices(self) -> int:
        """How often the order runs."""
        return self.whole.sizes[self.cut]

    @cached_property
    def operand_bytes(self) -> int:
        """Bytes of the operands."""
        return self.itemsize * sum(self.network.size(indices) for indices in self.network.inputs)

    @property
    def result_bytes(self) -> int:
        """Bytes of the result."""
        return self.itemsize * prod(self.network.result_shape)

    @cached_property
    def standing_bytes(self) -> int:
        """Bytes alive from the beginning to the end beside operands: summed forms, sums so far."""
        pairs = zip(self.network.inputs, self.terms.masks, strict=True)
        summed = [mask for indices, mask in pairs if mask.bit_count() < len(indices)]
        return self.itemsize * sum(self.terms.sizes[mask] for mask in summed) + self._sums_bytes

    @property
    def _slice_bytes(self) -> int:
        return self.itemsize * self.terms.sizes[self.terms.keep]

    @property
    def _sums_bytes(self) -> int:
        """Bytes of slices that wait or were added while the next one is made (cotengra 0.8).

        `functools.reduce` keeps its last two arguments beside their sum. With blocks of the
        result, all blocks made so far wait beside the last slice.
        """
        if self.n_slices == 1:
            return 0
        if self.cut & self.terms.keep:
            return self.result_bytes + self._slice_bytes
        return 3 * self._slice_bytes

    @property
    def _joined_bytes(self) -> int:
        """Bytes while blocks of the result are put together, one cut index after another."""
        n_levels = (self.cut & self.terms.keep).bit_count()
        return (1 + min(n_levels, 2)) * self.result_bytes + self._slice_bytes if n_levels else 0

    def macs(self, steps: Steps) -> int:
        """Multiply-adds of an order over all slices."""
        return order_macs(self.terms, steps) * self.n_slices

    def packed_bytes(self, left: int, right: int, value: int) -> int:
        """Bytes of the copies that one product may make of its parts.

        A product that sums is a matrix product. A part is copied where its axes have to be
        brought together; one of at most one kept and one summed axis is a matrix as it is.
        Cut operands are strided and count in any case.
        """
        if not left & right & ~value:
            return 0
        total = 0
        for part, other in ((left, right), (right, left)):
            long = mask_of(i for i in bits(part) if self.terms.sizes.extents[i] > 1)
            groups = (long & value & ~other, long & ~value, long & value & other)
            n_kept, n_summed, n_batch = (group.bit_count() for group in groups)
            if self.cut or n_batch or n_kept > 1 or n_summed > 1:
                total += self.terms.sizes[part]
        return self.itemsize * total

    def temporary_bytes(self, instant: Instant) -> int:
        """The same of a product as exact searches see it."""
        return self.packed_bytes(instant.left, instant.right, instant.value)

    def ordered(self, steps: Steps) -> Steps:
        """The same products depth first, of two parts the one first that makes the peak lower."""
        n = len(self.terms.masks)
        carried = carried_masks(self.terms, steps)
        rises, kept = self._rises(steps, carried)
        made: list[tuple[int, int]] = []
        number = list(range(n))
        number += [0] * len(steps)
        stack = [(n + len(steps) - 1, False)] if steps else []
        while stack:
            value, ready = stack.pop()
            if value < n:
                continue
            first, second = steps[value - n]
            # The part that rises furthest above what it leaves behind goes first.
            if rises[second] - kept[second] > rises[first] - kept[first]:
                first, second = second, first
            if ready:
                made.append((number[first], number[second]))
                number[value] = n + len(made) - 1
            else:
                stack += [(value, True), (second, False), (first, False)]
        return tuple(made)

    def _rises(self, steps: Steps, carried: list[int]) -> tuple[list[int], list[int]]:
        """Of each value, the peak while it is made and the bytes that it then holds."""
        n = len(self.terms.masks)
        peaks, kept = [0] * len(carried), [0] * len(carried)
        for step, (left, right) in enumerate(steps):
            value = n + step
            kept[value] = self.itemsize * self.terms.sizes[carried[value]]
            one, two = sorted((left, right), key=lambda part: kept[part] - peaks[part])
            packed = self.packed_bytes(carried[left], carried[right], carried[value])
            product = kept[one] + kept[two] + kept[value] + packed
            peaks[value] = max(peaks[one], kept[one] + peaks[two], product)
        return peaks, kept

    def read(self, steps: Steps) -> Reading:
        """What is held along an order whose products run as listed."""
        n = len(self.terms.masks)
        carried = carried_masks(self.terms, steps)
        alive, most, least, at = self.standing_bytes, 0, 0, 0
        for step, (left, right) in enumerate(steps):
            own = self.itemsize * self.terms.sizes[carried[n + step]]
            packed = self.packed_bytes(carried[left], carried[right], carried[n + step])
            alive += own
            if alive + packed > most:
                most, at = alive + packed, step
            is_result = step == len(steps) - 1 and self.n_slices == 1
            least = max(least, alive + packed - (own if is_result else 0))
            parts = [part for part in (left, right) if part >= n]
            alive -= self.itemsize * sum(self.terms.sizes[carried[part]] for part in parts)
        if self.n_slices > 1:
            most = max(most, self._joined_bytes)
            least = most - self.result_bytes
        return Reading(self.operand_bytes + most, least, at)
