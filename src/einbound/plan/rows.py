"""The splits of every subset that two bounds leave, with what no loop around them changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from einbound.plan.problem import Problem
from einbound.plan.splits import SLACK, Split, at_least


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one run explores.

    Attributes:
        macs: Multiply-adds at most; None: any number, and labels are compared by bytes only.
        budget_bytes: Bytes of intermediates and result at most; None: any number.
        toll: Products, or what else the second part of a cost is, at most where all of `macs` are
            used up; None: any number.
        n_deep: Loops around any production at most; None: any number.
        n_kept: Labels kept of one state; None: all, without which nothing is proven.
    """

    macs: int | None
    budget_bytes: int | None
    toll: int | None = None
    n_deep: int | None = None
    n_kept: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One split of a subset with what does not depend on loops around it.

    Attributes:
        split: The halves.
        floor: Cost of both halves at least.
        rest: Cost of the right half at least.
        useful: The indices that may be looped over.
        n_values: Values below that can wait in a slot.
    """

    split: Split
    floor: int
    rest: int
    useful: int
    n_values: int


@dataclass(slots=True)
class Rows:
    """The rows of all subsets, each made when it is asked for.

    Attributes:
        problem: What is searched.
        bounds: What is explored.
    """

    problem: Problem
    bounds: Bounds
    _rows: dict[int, list[Row]] = field(default_factory=dict)
    _rooms: dict[int, float] = field(default_factory=dict)

    def room(self, subset: int) -> float:
        """Cost that a subset may have, given what all else costs at least."""
        if self.bounds.macs is None:
            return inf
        room = self._rooms.get(subset)
        if room is None:
            rest, radix = self.problem.splits.rest[subset], self.problem.chains.radix
            toll = radix - 1 if self.bounds.toll is None else self.bounds.toll
            macs = -1 if rest == inf else self.bounds.macs - at_least(rest)
            if self.problem.toll is None:
                # Each product outside runs once or more.
                toll -= self.problem.splits.n - subset.bit_count()
            room = self._rooms[subset] = macs * radix + toll
        return room

    def of(self, subset: int) -> list[Row]:
        """The splits of a subset within the bounds, the most promising first."""
        rows = self._rows.get(subset)
        if rows is None:
            most, by_cost, budget = inf, self.bounds.macs is not None, self.bounds.budget_bytes
            if by_cost:
                most = self.room(subset) // self.problem.chains.radix * (1 + SLACK) + 1
            n_bytes = inf if budget is None else budget * (1 + SLACK)
            splits = self.problem.splits.of(subset, most, n_bytes, cheapest_first=by_cost)
            rows = self._rows[subset] = [self._row(split) for split in splits]
        return rows

    def _row(self, split: Split) -> Row:
        problem, splits = self.problem, self.problem.splits
        useful = n_values = 0
        for half in (split.left, split.right):
            # A loop over no index of a value below moves nothing and makes nothing smaller.
            if not problem.is_view(half) or problem.temporary is not None:
                useful |= splits.below[half]
            n_values += max(half.bit_count() - 1, 0) + (half & ~problem.views).bit_count()
        if problem.persistent_only and (split.left | split.right) & problem.changing:
            useful = 0
        left, right = (
            problem.chains.cost(at_least(splits.fewest[half])) for half in (split.left, split.right)
        )
        return Row(split, left + right, right, useful, n_values)
