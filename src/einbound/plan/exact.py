"""Exact plans: the fewest multiply-adds within a budget.

Over every binary tree, ordered nest of loops and production level, as far as a limit on
states allows; bytes are those of `model.Count`. Bounds on multiply-adds are widened step by
step, because a run that finds nothing is cheap and one that may look too far is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, count
from math import inf

from einbound.expr.network import Network
from einbound.plan.answers import ExactFound, NothingFound, alone
from einbound.plan.floors import Floors, floors_of
from einbound.plan.heap import collector_off
from einbound.plan.labels import Label
from einbound.plan.model import Count
from einbound.plan.problem import Problem, Temporary, Toll
from einbound.plan.rows import Bounds
from einbound.plan.splits import at_least
from einbound.plan.states import Effort, Run
from einbound.plan.tree import Cut

#: States that a search explores unless told otherwise: some seconds.
N_STATES = 200_000

_STEPS = (1.0, 1.02, 1.1, 1.2, 1.35, 1.52, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)

#: States, and a multiple of the fewest multiply-adds, from which on a quick search gives a bound.
_QUICK_AFTER = 300

#: States that the search for a plan of nearly the fewest multiply-adds may take.
_AT_ONCE = 500
_QUICK_FROM = 2.0

#: Loops around a production in quick searches, and labels kept of each state.
_QUICK_DEEP = (2, 3)
_N_KEPT = 3

#: Factor between bounds on the number of products, or the toll, where no multiply-add is added.
_TOLL_STEP = 8
_N_TOLLS = 6


def exact_search(
    network: Network,
    itemsize: int,
    budget_bytes: int | None,
    options: tuple[Cut, ...],
    *,
    n_deep: int | None = None,
    connected_only: bool = False,
    effort: int = N_STATES,
    temporary: Temporary | None = None,
    toll: Toll | None = None,
) -> ExactFound | NothingFound:
    """A plan with the fewest multiply-adds, then the least toll, within a budget.

    Args:
        network: At most `splits.N_OPERANDS` operands.
        itemsize: Bytes per element.
        budget_bytes: Bytes of intermediates and result at most; None: any number.
        options: The loops to choose from; several widths of one index are different loops.
        n_deep: Loops around any production at most; None: any number.
        connected_only: Leave out products of parts that share no index, if that is possible.
        effort: States to explore at most.
        temporary: Price of what a product needs for itself.
        toll: What decides between plans of equal multiply-adds; None: the number of products.

    Law: no program of the class is better (tests/test_exact.py).
    """
    if len(network.inputs) == 1:
        only = alone(network, itemsize)
        fits = budget_bytes is None or only.peak_bytes <= budget_bytes
        return only if fits else NothingFound(0, True, 0)
    problem = Problem(network, itemsize, options, connected_only, temporary, toll)
    *_, found = exact_plans(problem, budget_bytes, n_deep=n_deep, effort=effort)
    return found


def exact_plans(
    problem: Problem,
    budget_bytes: int | None,
    *,
    n_deep: int | None = None,
    effort: int = N_STATES,
    most_macs: int | None = None,
) -> Iterator[ExactFound | NothingFound]:
    """A plan within a budget found quickly, if it may not be the best one, and then the best.

    The last one is the answer. A caller who is in a hurry stops after the first.

    Args:
        problem: What is searched.
        budget_bytes: Bytes of intermediates and result at most; None: any number.
        n_deep: Loops around any production at most; None: any number.
        effort: States to explore at most.
        most_macs: Weighted multiply-adds at most; None: any number. Plans with more are not
            looked for, so that nothing may be found where something fits.
    """
    search = Search(problem, Effort(effort), n_deep, most_macs)
    plans = search.within(budget_bytes)
    while True:
        with collector_off():
            found = next(plans, None)
        if found is None:
            return
        yield found


class Search:
    """Runs over one problem, under one effort.

    Attributes:
        problem: What is searched.
        effort: States explored by all runs together.
        n_deep: Loops around any production at most; None: any number.
        most_macs: Weighted multiply-adds at most of what `within` looks for; None: any number.
        bound_macs: Weighted multiply-adds that every plan within the budget has, as far as known.
    """

    def __init__(
        self, problem: Problem, effort: Effort, n_deep: int | None, most_macs: int | None = None
    ) -> None:
        self.problem = problem
        self.effort = effort
        self.n_deep = n_deep
        self.most_macs = most_macs
        self.bound_macs = 0

    @cached_property
    def plain(self) -> list[Label]:
        """The labels of the orders with the fewest multiply-adds, without loops."""
        macs = int(self.problem.splits.fewest[-1] * (1 + 1e-9)) + 1
        labels = Run(
            self.problem, Bounds(macs, None, None, 0), Effort(2 << self.problem.splits.n)
        ).root()
        return [label for label in labels if label.cost == labels[0].cost]

    @property
    def fewest(self) -> int:
        """Multiply-adds of the best order without loops."""
        return self.macs(self.plain[0])

    def run(
        self,
        macs: int | None,
        budget_bytes: int | None,
        *,
        toll: int | None = None,
        n_deep: int | None = None,
        n_kept: int | None = None,
        floors: Floors | None = None,
    ) -> list[Label]:
        """The labels of the result within two bounds, best first."""
        depth = self.n_deep if n_deep is None else n_deep
        bounds = Bounds(macs, budget_bytes, toll, depth, n_kept)
        labels = Run(self.problem, bounds, self.effort, floors).root()
        return labels if macs is None else [one for one in labels if self.macs(one) <= macs]

    def macs(self, label: Label) -> int:
        """Weighted multiply-adds of a label."""
        return label.cost // self.problem.chains.radix

    def found(self, label: Label, *, exhausted: bool, bound_macs: int = 0) -> ExactFound:
        """A label of the result as a plan."""
        problem, tree = self.problem, self.problem.tree(label)
        weighted, calls = divmod(label.cost, problem.chains.radix)
        macs = weighted
        if problem.toll is not None or problem.changing:
            count = Count(tree, problem.itemsize)
            macs, calls = count.macs, count.calls
        states = self.effort.n_states
        return ExactFound(tree, macs, calls, label.peak, states, exhausted, weighted, bound_macs)

    def within(self, budget_bytes: int | None) -> Iterator[ExactFound | NothingFound]:
        """Plans with ever fewer multiply-adds, then less toll; the last one is the answer."""
        toll, best = self.problem.toll, None
        self.bound_macs = self.fewest
        # Without loops nothing is repeated: what fits is best.
        for label in self.plain if toll is None or toll.most else ():
            if budget_bytes is None or label.peak <= budget_bytes:
                yield self.found(label, exhausted=True, bound_macs=self.macs(label))
                return
        for label, is_last in self._widen(budget_bytes):
            best, proven = label, is_last and not self.effort.spent
            bound = self.macs(best) if proven else self.bound_macs
            yield self.found(best, exhausted=proven, bound_macs=bound)
        if best is None:
            yield NothingFound(self.effort.n_states, not self.effort.spent, self.bound_macs)

    def _widen(self, budget_bytes: int | None) -> Iterator[tuple[Label, bool]]:
        """Ever better labels, and whether each is the last; that one is the best."""
        label = self._at_once(budget_bytes)
        if label is None:
            yield from self._improve(budget_bytes)
        else:
            yield label, True

    def _at_once(self, budget_bytes: int | None) -> Label | None:
        """The best label if little work finds it."""
        with self.share(_AT_ONCE):
            for toll in self._low_tolls():
                labels = self.run(self.fewest, budget_bytes, toll=toll)
                if self.effort.spent or labels:
                    return None if self.effort.spent else labels[0]
            for factor in ladder():
                if factor >= _QUICK_FROM or self.effort.n_states > _QUICK_AFTER:
                    break
                most = int(self.fewest * factor)
                if self._at_most(most) < most:
                    break
                labels = self._up_to(most, budget_bytes)
                if self.effort.spent or labels:
                    return None if self.effort.spent else labels[0]
        return None

    @contextmanager
    def share(self, most: int) -> Iterator[None]:
        """No more than a share of the effort inside."""
        whole = self.effort
        self.effort = Effort(max(min(most, whole.most - whole.n_spent), 1))
        yield
        whole.spend(self.effort)
        self.effort = whole

    def _up_to(
        self,
        macs: int,
        budget_bytes: int | None,
        *,
        toll: int | None = None,
        floors: Floors | None = None,
    ) -> list[Label]:
        """All labels of the result with so many multiply-adds at most, best first."""
        labels = self.run(macs, budget_bytes, toll=toll, floors=floors)
        if not labels and not self.effort.spent:
            self.bound_macs = max(self.bound_macs, macs + 1)
        return labels

    def _improve(self, budget_bytes: int | None) -> Iterator[tuple[Label, bool]]:
        """A good label, and the best one."""
        most = self._at_most(int(self.fewest * _STEPS[-1]))
        known, lowest = self._quick(budget_bytes, _QUICK_DEEP[0], most), None
        if known is None and self.most_macs is not None:
            most = self.most_macs
            known = self._quick(budget_bytes, _QUICK_DEEP[1], most)
        elif known is None and not self.effort.spent:
            # Before looking further: does anything fit, whatever it costs?
            lowest = next(iter(self.run(None, budget_bytes)), None)
            if lowest is None:
                return
            known = self._quick(budget_bytes, _QUICK_DEEP[1], self.macs(lowest)) or lowest
        if known is not None:
            yield known, False
            most = self.macs(known)
        elif self.effort.spent:
            return
        # A quick plan is nearly always the best: one run up to it settles the matter.
        start = self.bound_macs if known is None or known is lowest else most
        best = self._best(known, start, most, budget_bytes)
        if best is not None:
            yield best, True

    def _best(
        self, known: Label | None, start: int, most: int, budget_bytes: int | None
    ) -> Label | None:
        """The best label with so many multiply-adds at most, looked for from a bound upwards."""
        floors = self._floors(most, budget_bytes)
        for factor in ladder():
            wider = start * factor
            bound = most if wider >= most else int(wider)
            toll = known.cost % self.problem.chains.radix if known and bound == most else None
            labels = self._up_to(bound, budget_bytes, toll=toll, floors=floors)
            known = min([*labels, known] if known else labels, key=_cost, default=None)
            most = most if known is None else self.macs(known)
            if bound >= most or self.effort.spent:
                break
        return known

    def _at_most(self, macs: int) -> int:
        """A number of multiply-adds, or as many as are looked for if these are fewer."""
        return macs if self.most_macs is None else min(macs, self.most_macs)

    def _floors(self, macs: int, budget_bytes: int | None) -> Floors | None:
        """Tighter bounds for plans up to so many multiply-adds."""
        floors = floors_of(self.problem, inf if budget_bytes is None else budget_bytes, macs)
        if floors is None:
            return None
        self.bound_macs = max(self.bound_macs, at_least(min(floors.least, macs)))
        return floors

    def _low_tolls(self) -> Iterator[int]:
        """Bounds on products or tolls, ever wider, below the most that there can be."""
        radix = self.problem.chains.radix
        toll = _TOLL_STEP * max(self.plain[0].cost % radix, 1)
        for _ in range(_N_TOLLS):
            if toll >= radix:
                break
            yield toll
            toll *= _TOLL_STEP

    def _quick(self, budget_bytes: int | None, n_deep: int | None, most: float) -> Label | None:
        """A plan by few labels a state, within a quarter of the effort, or None."""
        if n_deep is not None and self.n_deep is not None:
            n_deep = min(n_deep, self.n_deep)
        found: list[Label] = []
        with self.share(self.effort.most // 4):
            for factor in ladder():
                bound = int(min(self.fewest * factor, most))
                found = self.run(bound, budget_bytes, n_deep=n_deep, n_kept=_N_KEPT)
                if found or self.effort.spent or bound >= most:
                    break
        return found[0] if found else None


def _cost(label: Label) -> int:
    return label.cost


def ladder() -> Iterator[float]:
    """Bounds on multiply-adds as multiples of the fewest, ever wider."""
    return chain(_STEPS, (_STEPS[-1] * 1.6**k for k in count(1)))
