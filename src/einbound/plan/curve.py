"""The exact staircase of bytes and multiply-adds, from the fewest multiply-adds downwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einbound.expr.network import Network
from einbound.plan.exact import N_STATES, Search, collector_off, ladder, least_peak
from einbound.plan.problem import Problem, Temporary, options_of
from einbound.plan.states import Effort
from einbound.plan.tree import Cut, Tree


@dataclass(frozen=True, slots=True)
class Point:
    """A plan that no other one beats in both counts.

    Attributes:
        peak_bytes: Most bytes of intermediates and result alive at once.
        macs: Multiply-adds.
        tree: The plan.
    """

    peak_bytes: int
    macs: int
    tree: Tree


@dataclass(frozen=True, slots=True)
class Frontier:
    """The staircase of one network.

    Attributes:
        points: By rising peak and falling multiply-adds.
        exhausted: Whether it is complete; if not, low peaks are missing.
    """

    points: tuple[Point, ...]
    exhausted: bool


def frontier(
    network: Network,
    itemsize: int,
    batch_counts: Mapping[int, int],
    *,
    n_deep: int | None = None,
    connected_only: bool = False,
    effort: int = N_STATES,
    temporary: Temporary | None = None,
) -> Frontier:
    """The staircase where only these indices are cut, and only so.

    Args:
        network: At most `splits.N_OPERANDS` operands.
        itemsize: Bytes per element.
        batch_counts: Number of balanced slices of each index that may be cut.
        n_deep: Loops around any production at most; None: any number.
        connected_only: Leave out products of parts that share no index, if that is possible.
        effort: States to explore at most.
        temporary: Price of what a product needs for itself.

    Law: it equals the staircase of all programs (tests/test_exact.py).
    """
    options = options_of(network, {i: (n,) for i, n in batch_counts.items()})
    return frontier_of(
        network,
        itemsize,
        options,
        n_deep=n_deep,
        connected_only=connected_only,
        effort=effort,
        temporary=temporary,
    )


def frontier_of(
    network: Network,
    itemsize: int,
    options: tuple[Cut, ...],
    *,
    n_deep: int | None = None,
    connected_only: bool = False,
    effort: int = N_STATES,
    temporary: Temporary | None = None,
) -> Frontier:
    """The staircase over a grid of loops; arguments as for `exact.exact_search`."""
    if len(network.inputs) == 1:
        found = least_peak(network, itemsize, options).found
        return Frontier((Point(found.peak_bytes, found.macs, found.tree),), True)
    problem = Problem(network, itemsize, options, connected_only, temporary)
    with collector_off():
        return _staircase(Search(problem, Effort(effort), n_deep))


def _staircase(search: Search) -> Frontier:
    """Points from the right: each run gives all of them up to its bound on multiply-adds."""
    last = search.least_peak().found
    budget = min(label.peak for label in search.plain)
    points: list[Point] = []
    factors = ladder()
    while budget >= last.peak_bytes and not search.effort.spent:
        bound = min(int(search.fewest * next(factors)), last.macs)
        labels = search.run(bound, budget)
        if search.effort.spent:
            break
        for label in sorted(labels, key=lambda one: (one.cost, one.peak)):
            if label.peak <= budget:
                points.append(Point(label.peak, search.macs(label), search.problem.tree(label)))
                budget = label.peak - 1
    return Frontier(tuple(_thinned(points)), not search.effort.spent)


def _thinned(points: list[Point]) -> list[Point]:
    """Of points with equal multiply-adds the lowest, by rising peak."""
    by_macs = {point.macs: point for point in sorted(points, key=lambda p: -p.peak_bytes)}
    return sorted(by_macs.values(), key=lambda point: point.peak_bytes)
