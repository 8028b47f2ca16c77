"""The fewest bytes of all: plans of few orders first, then whatever may lie below them."""

from __future__ import annotations

from dataclasses import replace

from einbound.expr.network import Network
from einbound.plan.answers import ExactFound, LeastPeak, alone
from einbound.plan.exact import N_STATES, Search
from einbound.plan.greedy import linear_steps
from einbound.plan.heap import collector_off
from einbound.plan.labels import Label
from einbound.plan.problem import Problem, Temporary
from einbound.plan.states import Effort
from einbound.plan.tree import Cut

#: Part of the effort that the least bytes of one order may take.
_LOWEST_SHARE = 8


def least_peak(
    network: Network,
    itemsize: int,
    options: tuple[Cut, ...] | None = None,
    *,
    connected_only: bool = False,
    effort: int = N_STATES,
    temporary: Temporary | None = None,
) -> LeastPeak:
    """The plan that needs the fewest bytes of intermediates and result, of any depth.

    Args:
        network: At most `splits.N_OPERANDS` operands.
        itemsize: Bytes per element.
        options: The loops to choose from; None: every index, one element at a time.
        connected_only: Leave out products of parts that share no index, if that is possible.
        effort: States to explore at most.
        temporary: Price of what a product needs for itself.
    """
    if options is None:
        options = tuple(Cut(i, 1) for i, extent in enumerate(network.extents) if extent > 1)
    if len(network.inputs) == 1:
        only = alone(network, itemsize)
        return LeastPeak(only, only.peak_bytes)
    problem = Problem(network, itemsize, options, connected_only, temporary)
    with collector_off():
        return least_within(Search(problem, Effort(effort), None))


def least_within(search: Search) -> LeastPeak:
    """The plan of the fewest bytes: the lowest one of a few orders, until none is below it.

    A run takes longer the more bytes it may use, and the longest where plans fit easily. So
    a good plan is found first, and what is below it is asked step by step.
    """
    problem = search.problem
    known = _lowest_of_few(search)
    bound = int(problem.splits.needs[-1] * (1 - 1e-12))
    result = problem.chains.root.sizes[problem.splits.carried[-1]]
    result = result if problem.counts_result else 0
    # What values take is a multiple of this.
    step = problem.itemsize if problem.temporary is None else 1
    excess = max(bound - result, result // 16, problem.itemsize)
    budget = bound
    while known is None or known.peak_bytes > bound:
        labels = search.run(None, budget if known is None else min(budget, known.peak_bytes - 1))
        known = _lower(search, known, labels)
        if search.effort.spent:
            return _unproven(search, known, bound)
        if known is not None and labels:
            break
        bound, budget = budget // step * step + step, result + excess
        excess *= 2
    found = replace(known, exhausted=True, states=search.effort.n_states)
    return LeastPeak(found, found.peak_bytes)


def _lowest_of_few(search: Search) -> ExactFound | None:
    """The lowest plan of some orders: one of the fewest multiply-adds, and growing ones.

    An operand that is summed first is not held beside what grows if it is the first one.
    """
    problem, known = search.problem, None
    orders = [problem.tree(search.plain[0]).steps, linear_steps(problem.terms)]
    summed = [k for k in range(problem.splits.n) if not problem.views >> k & 1]
    orders += [linear_steps(problem.terms, k) for k in summed[:1]]
    for order in orders if problem.order is None else ():
        with search.share(search.effort.most // _LOWEST_SHARE):
            own = Search(replace(problem, order=order), search.effort, search.n_deep)
            known = _lower(own, known, own.run(None, None))
        own.problem.forget()
    return known


def _lower(search: Search, known: ExactFound | None, labels: list[Label]) -> ExactFound | None:
    """The lowest label as a plan, unless one is known that is no higher."""
    if labels and (known is None or labels[0].peak < known.peak_bytes):
        return search.found(labels[0], exhausted=False)
    return known


def _unproven(search: Search, known: ExactFound | None, bound: int) -> LeastPeak:
    """The lowest plan known when the effort is spent; without loops if there is no other."""
    if known is None:
        search.effort = Effort(search.effort.n_states + (2 << search.problem.splits.n))
        known = search.found(search.run(None, None, n_deep=0)[0], exhausted=False)
    bound = min(bound, known.peak_bytes)
    is_least, states = bound == known.peak_bytes, search.effort.n_states
    return LeastPeak(replace(known, exhausted=is_least, states=states), bound)
