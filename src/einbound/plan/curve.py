"""The exact staircase of bytes and multiply-adds, from the fewest multiply-adds downwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from einbound.expr.network import Network
from einbound.plan.exact import N_STATES, Search, ladder
from einbound.plan.heap import collector_off
from einbound.plan.model import Count
from einbound.plan.peak import least_peak, least_within
from einbound.plan.problem import Problem, Temporary
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
    options = tuple(balanced(i, network.extents[i], n) for i, n in batch_counts.items())
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
        stairs = _staircase(Search(problem, Effort(effort), n_deep))
        problem.forget()
        return stairs


def balanced(index: int, extent: int, n_slices: int) -> Cut:
    """The loop over an index in so many slices, whose extents differ by one at most.

    Where equal slices and a shorter last one make as many trips, it is these.

    Args:
        index: Number of the index.
        extent: Its elements.
        n_slices: At least 1; at most the extent, unless that is 0.
    """
    width = max(-(-extent // n_slices), 1)
    if -(-extent // width) == n_slices or extent == 0:
        return Cut(index, width)
    small, n_large = divmod(extent, n_slices)
    return Cut.between(index, tuple(k * small + min(k, n_large) for k in range(n_slices + 1)))


def workspace_bytes(tree: Tree, itemsize: int) -> int:
    """Most bytes of intermediates alive at once, the result not counted."""
    if not tree.steps:
        return 0
    slots, step = Count(tree, itemsize).slots, len(tree.steps) - 1
    held = peak = 0
    for depth in range(len(tree.inside[tree.root]) + 1):
        for item in slots[step, depth]:
            peak = max(peak, held + item.peak_bytes)
            held += item.held_bytes
    return peak


def _staircase(search: Search) -> Frontier:
    """Points from the right: each run gives all of them up to its bound on multiply-adds."""
    floor, most = _least(search)
    budget = min(label.peak for label in search.plain)
    points: list[Point] = []
    factors = ladder()
    while budget >= floor and not search.effort.spent:
        bound = int(search.fewest * next(factors))
        labels = search.run(bound if most is None else min(bound, most), budget)
        if search.effort.spent:
            break
        for label in sorted(labels, key=lambda one: (one.cost, one.peak)):
            if label.peak <= budget:
                points.append(Point(label.peak, search.macs(label), search.problem.tree(label)))
                budget = label.peak - 1
    return Frontier(thinned(points), budget < floor)


def _least(search: Search) -> tuple[int, int | None]:
    """Bytes that every plan needs, and multiply-adds of one that needs no more, if known."""
    # Points from the right are worth more than the proof where they end.
    part = Search(search.problem, Effort(max(search.effort.most // 4, 1)), search.n_deep)
    least = least_within(part)
    search.effort.spend(part.effort)
    return least.lower_bound_bytes, least.found.macs if least.found.exhausted else None


def thinned(points: Iterable[Point]) -> tuple[Point, ...]:
    """The points that none of the others beats, by rising peak."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: (p.peak_bytes, p.macs)):
        if not kept or point.macs < kept[-1].macs:
            kept.append(point)
    return tuple(kept)
