"""A plan within a limit: orders, loops and widths searched together, confirmed by a meter.

Knows nothing of layouts: what a plan needs beside its values comes from the meter that is
passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace

from einbound.expr.network import Network
from einbound.plan import large, small
from einbound.plan.bound import lower_bound
from einbound.plan.canonical import Canonical
from einbound.plan.effort import Deadline, Effort, Origin, Proof
from einbound.plan.fallback import fallback, fallback_of_many
from einbound.plan.ledger import Found, Ledger, Meter, Metered, Request, over_bytes
from einbound.plan.lowest import lowest_found
from einbound.plan.masks import Steps
from einbound.plan.order import greedy_orders, linear_order
from einbound.plan.price import Limit
from einbound.plan.rules import Rules
from einbound.plan.splits import N_INDICES, N_OPERANDS
from einbound.plan.tree import Tree

Budget = Limit
#: Finds orders of many operands by other means.
Peer = Callable[[Network], tuple[Steps, ...]]

__all__ = ["Budget", "Found", "Meter", "Metered", "Peer", "lower_bound", "search"]


def search(
    network: Network,
    itemsize: int,
    budget: Budget,
    meter: Meter,
    *,
    rules: Rules | None = None,
    effort: Effort | None = None,
    operand_bytes: int = 0,
    traits: tuple[tuple[Hashable, ...], ...] = (),
    orders: tuple[Steps, ...] | None = None,
    peer: Peer | None = None,
    default_buffer_bytes: int,
    headroom_bytes: int = 0,
) -> Found:
    """The plan with the fewest multiply-adds within the budget; ties as the rules say.

    Without rules ties are broken by predicted seconds, calls and peak.

    Args:
        network: What is contracted.
        itemsize: Bytes per element of every value.
        budget: Bytes that the plan may use, operands not counted.
        meter: Counts of the real schedule of a tree under a buffer size in bytes.
        rules: What it keeps to besides, and how it chooses; None: every loop is admitted.
        effort: How hard it tries; None: as hard as the predicted time is worth.
        operand_bytes: Bytes of the operands, which count in a policy's threshold.
        traits: What tells the operands apart to the meter beside their indices, for each one, such
            as its strides; sortable.
        orders: The orders to choose from; None: the planner's own.
        peer: Finds more orders where loops around the planner's own ones of many operands cost
            multiply-adds; they are searched apart, so that no plan gets worse by them.
        default_buffer_bytes: Largest buffer of an accumulation or a packed operand.
        headroom_bytes: Among plans of equal multiply-adds, those are preferred that leave
            this much of the budget free.

    Returns:
        A plan with `fits` True, or, only if none was found, the one with the smallest peak.

    Law: equal arguments give equal plans (tests/test_search.py::test_same_input_same_plan).
    Law: plans are the same, renumbered, for every order of the operands; ties that are broken by
    seconds aside, whose last bits depend on it (tests/test_canonical.py).
    """
    tried, rules = effort or Effort(), rules or Rules.free(network)
    form = Canonical.of(network, rules, traits)
    request = Request(
        form.network,
        itemsize,
        budget,
        form.metering(meter),
        form.rules(rules),
        tried,
        effort is not None,
        operand_bytes,
        default_buffer_bytes,
        headroom_bytes,
        Deadline.of(tried),
    )
    known = None if orders is None else tuple(form.steps(steps) for steps in orders)
    found = _found(request, known, peer)
    found = replace(found, tree=form.restored(found.tree))
    if request.deadline.has_cut:
        found = replace(found, proof=replace(found.proof, reproducible=False))
    return found


def _found(request: Request, orders: tuple[Steps, ...] | None, peer: Peer | None) -> Found:
    network = request.network
    if len(network.inputs) == 1:
        return _alone(request)
    is_small = len(network.inputs) <= N_OPERANDS and len(network.extents) <= N_INDICES
    if not is_small:
        known = orders or _own_orders(network, request.effort)
        return _of_many(request, known, peer, repair=orders is None)
    results = [_of_few(request, order) for order in orders or (None,)]
    return min(results, key=lambda found: _preference(request, found))


def _alone(request: Request) -> Found:
    ledger = Ledger(request, request.limit)
    ledger.confirm(Tree.plain(request.network, ()), request.default_buffer_bytes)
    return ledger.found(Proof(exhausted=True))


def _of_few(request: Request, order: Steps | None) -> Found:
    found = small.SmallSearch(request, order).found()
    if found.fits and found.keeps_threshold:
        return found
    if request.rules.threshold_bytes is not None:
        found = fallback(request, order)
        if found.fits:
            return found
    if not request.rules.grid.admitted:
        return found
    lowest = lowest_found(request, order)
    return replace(lowest, fits=over_bytes(lowest.metered, request.budget) <= 0)


def _of_many(
    request: Request, orders: tuple[Steps, ...], peer: Peer | None, *, repair: bool
) -> Found:
    search = large.LargeSearch(request, orders, repair=repair)
    found = search.found()
    if peer is not None and not search.is_hopeless:
        found = _with_peer(request, peer, found, search.fewest_macs)
    if found.fits and found.keeps_threshold:
        return found
    if request.rules.threshold_bytes is not None:
        found = fallback_of_many(request, orders, repair=repair)
        if found.fits:
            return found
    if not request.rules.grid.admitted:
        return found
    lowest = large.lowest_found(request, orders, repair=repair)
    return replace(lowest, fits=over_bytes(lowest.metered, request.budget) <= 0)


def _with_peer(request: Request, peer: Peer, found: Found, fewest_macs: int) -> Found:
    """The better of a plan and the one that other orders lead to.

    Args:
        request: What is asked.
        peer: Finds the orders, if any.
        found: The plan.
        fewest_macs: Multiply-adds that it would have without loops. These are hard to beat, so
            others are not asked where loops cost next to nothing.
    """
    macs = None
    if found.fits and found.keeps_threshold:
        macs = request.weighted_macs(found.tree, found.metered.macs)
        if macs <= large.NEAR * fewest_macs or request.deadline.cuts():
            return found
    orders = peer(request.network)
    if not orders:
        return found
    other = large.LargeSearch(request, orders, repair=True, most_macs=macs).found()
    other = replace(other, proof=replace(other.proof, origin=Origin.COTENGRA))
    return min(found, other, key=lambda one: _preference(request, one))


def _preference(request: Request, found: Found) -> tuple[float, ...]:
    over = over_bytes(found.metered, request.limit)
    macs = request.weighted_macs(found.tree, found.metered.macs)
    return over, macs, found.metered.seconds, found.metered.calls, found.metered.space_bytes


def _own_orders(network: Network, effort: Effort) -> tuple[Steps, ...]:
    orders = greedy_orders(network, effort.trials, seed=effort.seed)
    return (*orders, linear_order(network))
