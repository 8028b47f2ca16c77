"""The splits of every subset that two bounds leave, with what no loop around them changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from einbound.plan.chains import Chain
from einbound.plan.floors import Admitted, Floors
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
        below: The indices at or below the product.
        needs: Of each half that is made: its indices, what it takes with its own halves at least,
            and the indices of the other half if that takes bytes.
        admitted: The sets of loops that may be around the product, if that is known.
    """

    split: Split
    floor: int
    rest: int
    useful: int
    n_values: int
    below: int
    needs: tuple[tuple[int, int, int | None], ...]
    admitted: Admitted | None = None

    def bytes_inside(self, chain: Chain, own: int) -> int:
        """Bytes that the product takes inside a chain at least, whatever it opens itself.

        A half that is made inside further loops is made beside the value, though not all that it
        is made from; one that is made outside them waits in full.

        Args:
            chain: The loops around the production.
            own: Bytes of the value.
        """
        sizes, least = chain.sizes, chain.least
        most = 0
        for carried, needs, other in self.needs:
            waiting = sizes[carried] + (0 if other is None else least[other])
            most = max(most, min(needs, waiting))
        return own + most


@dataclass(slots=True)
class Rows:
    """The rows of all subsets, each made when it is asked for.

    Attributes:
        problem: What is searched.
        bounds: What is explored.
        floors: Tighter bounds, for the same budget and at least as many multiply-adds.
    """

    problem: Problem
    bounds: Bounds
    floors: Floors | None = None
    _rows: dict[int, list[Row]] = field(default_factory=dict)
    _rooms: dict[tuple[int, int], float] = field(default_factory=dict)

    def room(self, subset: int, mask: int) -> float:
        """Cost that a subset may have, given what all else costs at least.

        Args:
            subset: The operands.
            mask: The indices that are cut around the production.
        """
        if self.bounds.macs is None:
            return inf
        key = subset, mask if self.floors else 0
        room = self._rooms.get(key)
        if room is None:
            radix, rest = self.problem.chains.radix, self._rest(subset, mask)
            toll = radix - 1 if self.bounds.toll is None else self.bounds.toll
            macs = -1 if rest is None else self.bounds.macs - rest
            if self.problem.toll is None:
                # Each product outside runs once or more.
                toll -= self.problem.splits.n - subset.bit_count()
            room = self._rooms[key] = macs * radix + toll
        return room

    def _rest(self, subset: int, mask: int) -> int | None:
        """Multiply-adds of all else at least; None: there is no way."""
        if self.floors is not None:
            return self.floors.around(subset, mask)
        rest = self.problem.splits.rest[subset]
        return None if rest == inf else at_least(rest)

    def floor(self, subset: int, mask: int) -> float:
        """Cost of a subset inside loops over these indices at least."""
        if self.floors is None or not subset & (subset - 1):
            return 0
        macs = self.floors.below(subset, mask)
        return inf if macs is None else macs * self.problem.chains.radix

    def of(self, subset: int) -> list[Row]:
        """The splits of a subset within the bounds, the most promising first."""
        rows = self._rows.get(subset)
        if rows is None:
            most, budget = inf, self.bounds.budget_bytes
            by_cost = self.bounds.macs is not None
            if self.bounds.macs is not None:
                rest = self.problem.splits.rest[subset]
                most = (self.bounds.macs - rest) * (1 + SLACK) + 1
            n_bytes = inf if budget is None else budget * (1 + SLACK)
            splits = self.problem.splits.of(subset, most, n_bytes, cheapest_first=by_cost)
            if self.floors is not None:
                splits = [s for s in splits if (subset, s.left) in self.floors.admitted]
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
        below = splits.below[split.left | split.right]
        admitted = None
        if self.floors is not None:
            admitted = self.floors.admitted.get((split.left | split.right, split.left))
        return Row(
            split, left + right, right, useful, n_values, below, self._needs(split), admitted
        )

    def _needs(self, split: Split) -> tuple[tuple[int, int, int | None], ...]:
        splits, found = self.problem.splits, []
        for half, other in ((split.left, split.right), (split.right, split.left)):
            if half in split.stored:
                beside = splits.carried[other] if other in split.stored else None
                found.append((splits.carried[half], at_least(splits.joint[half]), beside))
        return tuple(found)
