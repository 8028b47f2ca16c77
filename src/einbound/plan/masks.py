"""A network as bit masks, the form in which orders are searched.

Bit i of a mask is index i. Private sums of an operand are done before any product, so
those indices appear in no mask.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from einbound.expr.network import Network

Steps = tuple[tuple[int, int], ...]


class Sizes(dict[int, int]):
    """Number of elements of every mask asked for so far, by mask."""

    def __init__(self, extents: Iterable[int]) -> None:
        super().__init__()
        self.extents = tuple(extents)

    def __missing__(self, mask: int) -> int:
        size, rest = 1, mask
        while rest:
            low = rest & -rest
            size *= self.extents[low.bit_length() - 1]
            rest ^= low
        self[mask] = size
        return size


@dataclass(frozen=True, slots=True)
class Terms:
    """Operands to multiply and the indices that must survive.

    Attributes:
        masks: The indices of each operand.
        keep: The indices that somebody outside reads.
        sizes: Number of elements of a mask.
    """

    masks: tuple[int, ...]
    keep: int
    sizes: Sizes

    @classmethod
    def of(cls, network: Network) -> Terms:
        """The terms of a whole network."""
        keep = mask_of(network.output)
        once = twice = 0
        for indices in network.inputs:
            mask = mask_of(indices)
            twice |= once & mask
            once |= mask
        masks = tuple(mask_of(indices) & (twice | keep) for indices in network.inputs)
        return cls(masks, keep, Sizes(network.extents))

    def with_units(self, units: int) -> Terms:
        """The same terms where every index of `units` has one element."""
        extents = (1 if units >> i & 1 else extent for i, extent in enumerate(self.sizes.extents))
        return Terms(self.masks, self.keep, Sizes(extents))


def mask_of(indices: Iterable[int]) -> int:
    """The mask of some indices."""
    mask = 0
    for i in indices:
        mask |= 1 << i
    return mask


def bits(mask: int) -> tuple[int, ...]:
    """The indices of a mask, rising."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)


def carried_masks(terms: Terms, steps: Steps) -> list[int]:
    """The indices that each value has, operands first."""
    n = len(terms.masks)
    uses: dict[int, int] = {}
    for mask in terms.masks:
        for i in bits(mask):
            uses[i] = uses.get(i, 0) + 1
    carried = list(terms.masks)
    # Of each value, how many operands with an index lie below it; only for indices still carried.
    counts = [dict.fromkeys(bits(mask), 1) for mask in terms.masks]
    for left, right in steps:
        merged = dict(counts[left])
        for i, count in counts[right].items():
            merged[i] = merged.get(i, 0) + count
        both = carried[left] | carried[right]
        done = mask_of(i for i, c in merged.items() if c == uses[i] and not terms.keep >> i & 1)
        carried.append(both & ~done)
        counts.append({i: c for i, c in merged.items() if not done >> i & 1})
    assert len(carried) == n + len(steps), "one mask per value"
    return carried


def subsets_made(n_operands: int, steps: Steps) -> list[int]:
    """The operands below every product of an order, as masks."""
    below = [1 << k for k in range(n_operands)]
    for left, right in steps:
        below.append(below[left] | below[right])
    return below[n_operands:]


def order_macs(terms: Terms, steps: Steps) -> int:
    """Multiply-adds of an order without loops."""
    carried = carried_masks(terms, steps)
    return sum(terms.sizes[carried[left] | carried[right]] for left, right in steps)


def order_peak(terms: Terms, steps: Steps) -> int:
    """Most elements of intermediates alive at once in an order without loops."""
    n = len(terms.masks)
    carried = carried_masks(terms, steps)
    peaks = [0] * len(carried)
    for step, pair in enumerate(steps):
        (p1, h1), (p2, h2) = ((peaks[v], terms.sizes[carried[v]] if v >= n else 0) for v in pair)
        own = terms.sizes[carried[n + step]]
        peaks[n + step] = max(min(max(p1, h1 + p2), max(p2, h2 + p1)), h1 + h2 + own)
    return peaks[-1]
