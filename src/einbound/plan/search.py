"""A plan within a limit: orders, loops and widths searched together, confirmed by a meter.

Knows nothing of layouts: what a plan needs beside its values comes from the meter that is
passed in. An exact planner can stand behind the same signature.
"""

from __future__ import annotations

from dataclasses import replace

from einbound.expr.network import Network
from einbound.plan.bound import lower_bound
from einbound.plan.effort import Effort
from einbound.plan.masks import Steps
from einbound.plan.order import (
    N_EXACT,
    greedy_orders,
    linear_order,
    optimal_orders,
    sliced_orders,
)
from einbound.plan.rules import Rules
from einbound.plan.session import Budget, Found, Meter, Metered, Session, over_bytes

__all__ = ["Budget", "Found", "Meter", "Metered", "lower_bound", "search"]


def search(
    network: Network,
    itemsize: int,
    budget: Budget,
    meter: Meter,
    *,
    rules: Rules | None = None,
    effort: Effort | None = None,
    operand_bytes: int = 0,
    orders: tuple[Steps, ...] | None = None,
    default_buffer_bytes: int,
    headroom_bytes: int = 0,
) -> Found:
    """The plan with the fewest multiply-adds within the budget; ties: seconds, calls, peak.

    Args:
        network: What is contracted.
        itemsize: Bytes per element of every value.
        budget: Bytes that the plan may use, operands not counted.
        meter: Counts of the real schedule of a tree under a buffer size in bytes.
        rules: What it keeps to besides, and how it chooses; None: every loop is admitted.
        effort: How hard it tries; None: the default.
        operand_bytes: Bytes of the operands, which count in a policy's threshold.
        orders: The orders to choose from; None: the planner's own.
        default_buffer_bytes: Largest buffer of an accumulation or a packed operand.
        headroom_bytes: Among plans of equal multiply-adds, those are preferred that leave
            this much of the budget free.

    Returns:
        A plan with `fits` True, or, only if none was found, the one with the smallest peak.

    Law: equal arguments give equal plans (tests/test_search.py::test_same_input_same_plan).
    """
    session = Session(network, itemsize, budget, meter, headroom_bytes)
    if budget.peak_bytes is None and budget.workspace_bytes is None:
        return session.unlimited(orders or _orders(network, 4), default_buffer_bytes)
    known = orders or _orders(network, _n_best(len(network.inputs)))
    found = session.limited(known, default_buffer_bytes)
    if found.fits or not known[0]:
        return found
    return _least(network, itemsize, budget, meter, known, default_buffer_bytes)


def _least(
    network: Network,
    itemsize: int,
    budget: Budget,
    meter: Meter,
    orders: tuple[Steps, ...],
    default_buffer_bytes: int,
) -> Found:
    """The plan of the smallest peak that is found; it may keep the budget after all.

    What is found depends on which bytes are limited and not on how many, so that the peak that
    a refusal names is one that can be had, and every larger limit too.
    """

    def within(budget: Budget) -> Found:
        session = Session(network, itemsize, budget, meter, 0)
        return session.limited(orders, default_buffer_bytes)

    results = []
    for nothing in (Budget(0, None), Budget(None, 0)):
        limited = budget.peak_bytes if nothing.workspace_bytes is None else budget.workspace_bytes
        if limited is not None:
            least = within(nothing)
            for _ in range(_N_LOWERED if len(network.inputs) <= _N_FEW else 0):
                lower = within(nothing.less(1 - over_bytes(least.metered, nothing)))
                if not lower.fits:
                    break
                least = lower
            results.append(replace(least, fits=over_bytes(least.metered, budget) <= 0))
    # With both limits set each has its own smallest peak; the one further off says more.
    return max(results, key=lambda found: (found.fits, over_bytes(found.metered, budget)))


#: How often the smallest peak is asked to be smaller still, and for how many operands.
_N_LOWERED = 6
_N_FEW = 6


def _orders(network: Network, n_best: int) -> tuple[Steps, ...]:
    n = len(network.inputs)
    if n > N_EXACT:
        return (*greedy_orders(network, _N_GREEDY), linear_order(network))
    found = dict.fromkeys(optimal_orders(network, n_best))
    if n > 2 and n_best > 4:
        found |= dict.fromkeys(sliced_orders(network, 2 if n <= 6 else 1))
    return tuple(found)


#: Orders of many operands that a search chooses from.
_N_GREEDY = 4


def _n_best(n: int) -> int:
    return 16 if n <= 6 else 10 if n <= 8 else 6
