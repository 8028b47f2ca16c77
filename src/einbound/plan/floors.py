"""Lower bounds on multiply-adds within a budget, with the loops around a value as a set.

Real nests are ordered, and what is made outside a loop is held until it ends. Here neither
counts: what remains is that a product, its value and its halves must fit the budget together,
that a loop over an index a product lacks repeats it, and that a loop over what a value sums
stays around it. No plan is cheaper, and few are dearer. Where several widths of one index may
be chosen, slices are those of the narrowest and repetitions those of the widest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from einbound.plan.problem import Problem
from einbound.plan.splits import SLACK, Floats, Ints, Within, at_least

#: Splits that are taken at a time.
_BLOCK = 2048

#: Splits times pairs of sets up to which bounds are worth their time, about half a second.
_MOST_WORK = 10**8


@dataclass(frozen=True, slots=True)
class Admitted:
    """The sets of loops under which a split may be multiplied, as bits of a number.

    Attributes:
        here: Whether each set can be that of all loops around the product.
        beyond: Whether each set, or one with more loops, can be.
    """

    here: int
    beyond: int


@dataclass(frozen=True, slots=True)
class _Block:
    """Some splits of one layer; values as rows of the tables.

    Attributes:
        subsets: What is split.
        halves: The half with the lowest operand.
        value: Row of the subset.
        left: Row of that half.
        right: Row of the other.
        products: Multiply-adds of the product.
    """

    subsets: Ints
    halves: Ints
    value: Ints
    left: Ints
    right: Ints
    products: Floats


def floors_of(problem: Problem, budget_bytes: float, most_macs: int) -> Floors | None:
    """The bounds, unless they would take too long.

    Args:
        problem: What is searched.
        budget_bytes: Bytes of intermediates and result at most.
        most_macs: Weighted multiply-adds at most.
    """
    n_splits = sum(len(layer.left) for layer in problem.splits.within(most_macs, budget_bytes))
    if n_splits * 3 ** len(problem.chains.finest) > _MOST_WORK:
        return None
    return Floors(problem, budget_bytes, most_macs)


class Floors:
    """Bounds for one budget, on plans up to a number of multiply-adds.

    Attributes:
        least: Multiply-adds that every plan has at least; infinite: none has so few as allowed.
        admitted: Of each split (subset, left half), the sets of loops; splits that are missing
            lead nowhere.
    """

    def __init__(self, problem: Problem, budget_bytes: float, most_macs: int) -> None:
        """The bounds.

        Args:
            problem: What is searched, with few indices that may be cut.
            budget_bytes: Bytes of intermediates and result at most.
            most_macs: Weighted multiply-adds at most.
        """
        self._problem = problem
        self._budget = budget_bytes * (1 + SLACK)
        self._most = most_macs * (1 + SLACK)
        self._modes = tuple(sorted(problem.chains.finest))
        self._layers = problem.splits.within(self._most, self._budget)
        full = (1 << problem.splits.n) - 1
        subsets = {full, *(1 << k for k in range(problem.splits.n))}
        for layer in self._layers:
            subsets.update(layer.subsets.tolist())
            subsets.update(layer.left.tolist())
            subsets.update((layer.subsets ^ layer.left).tolist())
        self._order = np.array(sorted(subsets), dtype=np.int64)
        self._row = {subset: k for k, subset in enumerate(self._order.tolist())}
        self._sets: dict[int, int] = {}
        self._tabulate()
        self.admitted: dict[tuple[int, int], Admitted] = {}
        self._inwards()
        self._outwards()
        self.least = float(self._below[self._row[full], 0])

    def set_of(self, mask: int) -> int:
        """The number of a set of indices that are cut."""
        number = self._sets.get(mask)
        if number is None:
            number = sum(1 << k for k, mode in enumerate(self._modes) if mask >> mode & 1)
            self._sets[mask] = number
        return number

    def below(self, subset: int, mask: int) -> int | None:
        """Multiply-adds to make a subset inside loops over these indices; None: impossible."""
        row = self._row.get(subset)
        value = np.inf if row is None else float(self._below[row, self.set_of(mask)])
        return None if value == np.inf else at_least(value)

    def around(self, subset: int, mask: int) -> int | None:
        """Multiply-adds of all else if a subset is made inside these; None: impossible."""
        row = self._row.get(subset)
        value = np.inf if row is None else float(self._around[row, self.set_of(mask)])
        return None if value == np.inf else at_least(value)

    def _tabulate(self) -> None:
        """Sizes under every set of loops, and the modes at and below each value."""
        problem, splits, order = self._problem, self._problem.splits, self._order.tolist()
        extents, n_sets = problem.network.extents, 1 << len(self._modes)
        chains = problem.chains
        self._trips = [
            min(n for cut, n in zip(chains.cuts, chains.trips, strict=True) if cut.index == mode)
            for mode in self._modes
        ]
        carried = np.array([splits.carried[s] for s in order], dtype=np.int64)
        below = np.array([splits.below[s] for s in order], dtype=np.int64)
        whole = [float(chains.root.sizes[mask]) for mask in carried.tolist()]
        sizes = np.array(whole)[:, None] * np.ones(n_sets)
        numbers = np.arange(n_sets)
        for k, mode in enumerate(self._modes):
            factor = chains.finest[mode] / max(extents[mode], 1)
            cut = (carried >> mode & 1).astype(bool)[:, None] & (numbers >> k & 1).astype(bool)
            sizes[cut] *= factor
        stored = np.array([splits.is_stored(s) for s in order])
        sizes[~stored] = 0.0
        self._sizes = sizes * (1 - SLACK)
        self._carries = [(carried >> mode & 1).astype(bool) for mode in self._modes]
        self._has = [(below >> mode & 1).astype(bool) for mode in self._modes]
        within = np.zeros(len(order), dtype=np.int64)
        for k, has in enumerate(self._has):
            within |= has.astype(np.int64) << k
        self._within = within
        self._below = np.full((len(order), n_sets), np.inf)
        self._inside = np.full((len(order), n_sets), np.inf)
        self._around = np.full((len(order), n_sets), np.inf)
        leaves = [self._row[1 << k] for k in range(splits.n)]
        self._below[leaves] = self._inside[leaves] = 0.0

    def _costs(self, block: _Block) -> Floats:
        """Multiply-adds of products under every set of loops; infinite for sets not below."""
        numbers = np.arange(1 << len(self._modes))
        costs = block.products[:, None] * np.ones(len(numbers))
        for k in range(len(self._modes)):
            lacks = ~(self._carries[k][block.left] | self._carries[k][block.right])
            costs[lacks[:, None] & (numbers >> k & 1).astype(bool)] *= self._trips[k]
        costs[(numbers & ~self._within[block.value][:, None]) != 0] = np.inf
        return costs

    def _blocks(self, layer: Within) -> list[_Block]:
        found = []
        for first in range(0, len(layer.left), _BLOCK):
            part = slice(first, first + _BLOCK)
            subsets, left = layer.subsets[part], layer.left[part]
            value, one, other = (self._rows(s) for s in (subsets, left, subsets ^ left))
            found.append(_Block(subsets, left, value, one, other, layer.products[part]))
        return found

    def _rows(self, subsets: Ints) -> Ints:
        return np.searchsorted(self._order, subsets)

    def _distinct(self, layer: Within) -> Ints:
        """The rows of a layer's subsets, each once, in order."""
        # `np.unique` would import masked arrays: a megabyte that is never given back.
        return np.flatnonzero(np.bincount(self._rows(layer.subsets)))

    def _inwards(self) -> None:
        """Bounds on what lies below, from few operands to many."""
        n_sets = 1 << len(self._modes)
        for layer in self._layers:
            for block in self._blocks(layer):
                costs = self._costs(block)
                costs += self._inside[block.left] + self._inside[block.right]
                needs = self._sizes[block.left] + self._sizes[block.right]
                own = self._sizes[block.value]
                for chosen in range(n_sets):
                    more = [f for f in range(n_sets) if f & chosen == chosen]
                    fits = needs[:, more] <= (self._budget - own[:, chosen])[:, None]
                    best = np.where(fits, costs[:, more], np.inf).min(axis=1)
                    np.minimum.at(self._below[:, chosen], block.value, best)
            rows = self._distinct(layer)
            # Loops over what does not lie below change nothing.
            sets = np.arange(n_sets) & self._within[rows][:, None]
            self._below[rows] = np.take_along_axis(self._below[rows], sets, axis=1)
            inside = self._below[rows]
            for k, carries in enumerate(self._carries):
                without = [f for f in range(n_sets) if not f >> k & 1]
                with_it = [f | 1 << k for f in without]
                free = carries[rows][:, None]
                lower = np.minimum(inside[:, with_it], inside[:, without])
                inside[:, with_it] = np.where(free, lower, inside[:, with_it])
            self._inside[rows] = inside

    def _outwards(self) -> None:
        """Bounds on what lies around, from many operands to few."""
        n_sets = 1 << len(self._modes)
        self._around[-1, 0] = 0.0
        for layer in reversed(self._layers):
            rows = self._distinct(layer)
            around = self._around[rows]
            for k, carries in enumerate(self._carries):
                without = [f for f in range(n_sets) if not f >> k & 1]
                with_it = [f | 1 << k for f in without]
                free = (carries | ~self._has[k])[rows][:, None]
                lower = np.minimum(around[:, with_it], around[:, without])
                around[:, without] = np.where(free, lower, around[:, without])
            self._around[rows] = around
            for block in self._blocks(layer):
                self._pass_on(block)
        # A set that is not within a value is as good as the part that is.
        sets = np.arange(n_sets) & self._within[:, None]
        self._around = np.take_along_axis(self._around, sets, axis=1)
        self._below = np.take_along_axis(self._below, sets, axis=1)

    def _pass_on(self, block: _Block) -> None:
        """Gives the halves of products what lies around them; notes what may be multiplied."""
        n_sets = 1 << len(self._modes)
        needs = self._sizes[block.left] + self._sizes[block.right]
        own, outer = self._sizes[block.value], self._around[block.value]
        around = np.empty((len(block.left), n_sets))
        for chosen in range(n_sets):
            fewer = [f for f in range(n_sets) if f & chosen == f]
            fits = own[:, fewer] <= (self._budget - needs[:, chosen])[:, None]
            around[:, chosen] = np.where(fits, outer[:, fewer], np.inf).min(axis=1)
        around += self._costs(block)
        left, right = self._inside[block.left], self._inside[block.right]
        np.minimum.at(self._around, block.left, around + right)
        np.minimum.at(self._around, block.right, around + left)
        here = around + left + right <= self._most
        beyond = here.copy()
        for k in range(len(self._modes)):
            without = [f for f in range(n_sets) if not f >> k & 1]
            beyond[:, without] |= beyond[:, [f | 1 << k for f in without]]
        kept = np.flatnonzero(here.any(axis=1))
        numbers = (_numbers(sets[kept]) for sets in (here, beyond))
        keys = zip(block.subsets[kept].tolist(), block.halves[kept].tolist(), strict=True)
        for key, one, other in zip(keys, *numbers, strict=True):
            self.admitted[key] = Admitted(one, other)


def _numbers(sets: NDArray[np.bool_]) -> list[int]:
    """Each row as the bits of a number."""
    packed = np.packbits(sets, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]
