"""Tables over all subsets of operands: their splits, and bounds on what these must cost.

Arrays are made layer by layer, a layer being all subsets of one size, so that no loop runs
over subsets. Bounds are floating-point numbers; whoever compares leaves `SLACK` of room.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from einbound.plan.masks import Steps, Terms

#: Relative error that bounds may have.
SLACK = 1e-12

#: Operands up to which the tables stay below 64 MiB.
N_OPERANDS = 13

#: Indices that fit a mask in an array.
N_INDICES = 62

_CHUNK_BITS = 11

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Layer:
    """All splits of all subsets of one size; rows are subsets.

    Attributes:
        subsets: The subsets.
        left: The half with a subset's lowest operand, for each split.
        products: Multiply-adds of the product; infinite where it is not admitted.
        macs: Fewest multiply-adds of product and both halves.
        needs: Bytes that no way to make the halves and multiply them can go below.
        joint: Bytes of each subset's value and its halves at least.
    """

    subsets: Ints
    left: Ints
    products: Floats
    macs: Floats
    needs: Floats
    joint: Floats


@dataclass(frozen=True, slots=True)
class Within:
    """Splits of subsets of one size, one after another.

    Attributes:
        subsets: The subset of each.
        left: Its half with the lowest operand.
        products: Multiply-adds of the product.
    """

    subsets: Ints
    left: Ints
    products: Floats


@dataclass(frozen=True, slots=True)
class Split:
    """Two halves of a subset.

    Attributes:
        left: The half with the lowest operand.
        right: The other half.
        union: The indices of their product.
        stored: The halves that take bytes.
    """

    left: int
    right: int
    union: int
    stored: tuple[int, ...]


class Splits:
    """The tables of one network.

    Attributes:
        n: Number of operands.
        below: All indices at or below each subset that a loop may cut.
        carried: The indices of the value of each subset.
        fewest: Fewest multiply-adds that make each subset.
        rest: Fewest multiply-adds of everything else once a subset is made.
        needs: Bytes below which no subset can be made.
        joint: Bytes of each subset's value and its halves at least, while it is made from them.
        connected: Whether only connected subsets are admitted.
    """

    def __init__(
        self,
        terms: Terms,
        least_bytes: Floats,
        weights: Floats | None,
        *,
        connected: bool,
        order: Steps | None = None,
    ) -> None:
        """Fills the tables.

        Args:
            terms: Two to `N_OPERANDS` operands.
            least_bytes: Fewest bytes that each subset's value can have; 0 for a view.
            weights: How often each subset's multiply-adds count at least; None: once.
            connected: Leave out products of halves that share no index, if that is possible.
            order: The only order that is admitted; None: every one.
        """
        self.n = n = len(terms.masks)
        assert n <= N_OPERANDS, f"tables are for at most {N_OPERANDS} operands, not {n}"
        below, carried = subset_masks(terms)
        self.below: list[int] = below.tolist()
        self.carried: list[int] = carried.tolist()
        self._carried = carried
        self._is_stored: list[bool] = (least_bytes > 0).tolist()
        self._layers: dict[int, _Layer] = {}
        reached = _connected(n, below) if connected else None
        self.connected = reached is not None and bool(reached[-1])
        admitted = reached if self.connected else None
        fewest, needs, joint = np.zeros(1 << n), least_bytes.copy(), least_bytes.copy()
        product = _Products(terms.sizes.extents)
        halves = None if order is None else _halves(n, order)
        for size in range(2, n + 1):
            layer = _fill(
                _pattern(n, size),
                carried,
                product,
                fewest,
                needs,
                least_bytes,
                weights,
                below,
                admitted,
                halves,
            )
            self._layers[size] = layer
            fewest[layer.subsets] = layer.macs.min(axis=1)
            needs[layer.subsets] = layer.needs.min(axis=1)
            joint[layer.subsets] = layer.joint
        self.fewest: list[float] = fewest.tolist()
        self.needs: list[float] = needs.tolist()
        self.joint: list[float] = joint.tolist()
        self.rest: list[float] = self._outside(fewest).tolist()
        self._rows = {
            subset: row
            for layer in self._layers.values()
            for row, subset in enumerate(layer.subsets.tolist())
        }

    def _outside(self, fewest: Floats) -> Floats:
        rest = np.full(1 << self.n, np.inf)
        rest[-1] = 0.0
        for size in range(self.n, 1, -1):
            layer = self._layers[size]
            left, right = layer.left, layer.subsets[:, None] ^ layer.left
            around = rest[layer.subsets][:, None] + layer.products
            np.minimum.at(rest, left, around + fewest[right])
            np.minimum.at(rest, right, around + fewest[left])
        return rest

    def within(self, most_macs: float, budget_bytes: float) -> list[Within]:
        """All splits that plans within two bounds can have, from few operands to many."""
        found, rest = [], np.array(self.rest)
        for layer in self._layers.values():
            total = layer.macs + rest[layer.subsets][:, None]
            chosen = np.nonzero((total <= most_macs) & (layer.needs <= budget_bytes))
            subsets = layer.subsets[chosen[0]]
            found.append(Within(subsets, layer.left[chosen], layer.products[chosen]))
        return found

    def is_stored(self, subset: int) -> bool:
        """Whether the value of a subset takes bytes."""
        return self._is_stored[subset]

    def of(
        self, subset: int, most_macs: float, budget_bytes: float, *, cheapest_first: bool
    ) -> list[Split]:
        """The splits of a subset within two bounds.

        Args:
            subset: At least two operands.
            most_macs: Bound on product and both halves.
            budget_bytes: Bound on the bytes they need.
            cheapest_first: By multiply-adds; else those that need the fewest bytes come first.
        """
        layer, row = self._layers[subset.bit_count()], self._rows[subset]
        macs = layer.macs[row]
        chosen = np.flatnonzero(
            (macs <= most_macs) & (layer.needs[row] <= budget_bytes) & (macs < np.inf)
        )
        rank = macs if cheapest_first else layer.needs[row]
        chosen = chosen[np.argsort(rank[chosen], kind="stable")]
        left = layer.left[row][chosen]
        union = self._carried[left] | self._carried[subset ^ left]
        return [
            Split(a, subset ^ a, u, tuple(h for h in (a, subset ^ a) if self._is_stored[h]))
            for a, u in zip(left.tolist(), union.tolist(), strict=True)
        ]


def at_least(bound: float) -> int:
    """A whole number that a bound computed in floating point is not below."""
    return int(bound) if bound < 2**53 else int(bound * (1 - SLACK))


def subset_masks(terms: Terms) -> tuple[Ints, Ints]:
    """Of every subset: the indices below it, and those that its value carries."""
    n = len(terms.masks)
    assert len(terms.sizes.extents) <= N_INDICES, f"tables are for at most {N_INDICES} indices"
    below = np.zeros(1, dtype=np.int64)
    for mask in terms.masks:
        below = np.concatenate([below, below | mask])
    carried = below & (terms.keep | below[::-1])
    for k in range(n):
        carried[1 << k] = terms.masks[k]
    return below, carried


def _pattern(n: int, size: int) -> tuple[Ints, Ints]:
    """All subsets of one size, and of each the half with its lowest operand in every split."""
    members = np.array(list(combinations(range(n), size)), dtype=np.int64)
    powers = np.left_shift(1, members)
    joined = np.arange((1 << (size - 1)) - 1, dtype=np.int64)
    chosen = (joined[:, None] >> np.arange(size - 1)) & 1
    return powers.sum(axis=1), powers[:, :1] + powers[:, 1:] @ chosen.T


def _fill(
    pattern: tuple[Ints, Ints],
    carried: Ints,
    product: _Products,
    fewest: Floats,
    needs: Floats,
    least_bytes: Floats,
    weights: Floats | None,
    below: Ints,
    admitted: NDArray[np.bool_] | None,
    halves: Ints | None,
) -> _Layer:
    subsets, left = pattern
    right = subsets[:, None] ^ left
    products = product(carried[left] | carried[right])
    if weights is not None:
        products *= weights[subsets][:, None]
    if admitted is not None:
        shared = (below[left] & below[right]) != 0
        products[~(admitted[left] & admitted[right] & shared)] = np.inf
    if halves is not None:
        products[left != halves[subsets][:, None]] = np.inf
    macs = products + fewest[left] + fewest[right]
    together = (least_bytes[left] + least_bytes[right]) + least_bytes[subsets][:, None]
    together[macs == np.inf] = np.inf
    need = np.maximum(together, np.maximum(needs[left], needs[right]))
    return _Layer(subsets, left, products, macs, need, together.min(axis=1))


def _halves(n: int, order: Steps) -> Ints:
    """Of every subset that an order makes, the half with its lowest operand; 0 of all others."""
    halves = np.zeros(1 << n, dtype=np.int64)
    made = [1 << k for k in range(n)]
    for left, right in order:
        made.append(made[left] | made[right])
        lowest = made[-1] & -made[-1]
        halves[made[-1]] = made[left] if made[left] & lowest else made[right]
    return halves


def _connected(n: int, below: Ints) -> NDArray[np.bool_]:
    """Whether the operands of each subset hang together through shared indices."""
    reached = np.zeros(1 << n, dtype=np.bool_)
    reached[[1 << k for k in range(n)]] = True
    for size in range(2, n + 1):
        subsets, left = _pattern(n, size)
        right = subsets[:, None] ^ left
        shared = (below[left] & below[right]) != 0
        reached[subsets] = (reached[left] & reached[right] & shared).any(axis=1)
    return reached


class _Products:
    """Numbers of elements of arrays of masks, by tables of a few bits each."""

    def __init__(self, extents: tuple[int, ...]) -> None:
        self.tables = []
        for first in range(0, len(extents), _CHUNK_BITS):
            table = np.ones(1)
            for extent in extents[first : first + _CHUNK_BITS]:
                table = np.concatenate([table, table * extent])
            self.tables.append(table)

    def __call__(self, masks: Ints) -> Floats:
        sizes = np.ones(masks.shape)
        for k, table in enumerate(self.tables):
            sizes *= table[(masks >> (k * _CHUNK_BITS)) & (len(table) - 1)]
        return sizes
