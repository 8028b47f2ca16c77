"""Contraction orders without loops: exact for few operands, repaired greedy ones for many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from einbound.expr.network import Network
from einbound.plan.greedy import greedy_steps, linear_steps
from einbound.plan.masks import Steps, Terms, order_macs, order_peak, subsets_made
from einbound.plan.reconfigure import reconfigured
from einbound.plan.subsets import best_orders, least_peak, steps_of

if TYPE_CHECKING:
    from random import Random

#: Operands up to which orders are exact.
N_EXACT = 10

#: (weight of the parts, temperature) of the greedy starts; the first is the plain rule.
_STARTS = ((1.0, 0.0), (0.0, 0.1), (0.2, 0.3), (0.0, 0.3), (1.0, 0.1), (1.0, 1.0), (0.2, 1.0))


def optimal_orders(network: Network, n_best: int = 8) -> tuple[Steps, ...]:
    """The orders with the fewest multiply-adds, fewest first, then those with a lower peak.

    Exact: all trees are admitted, outer products too. Beside the `n_best` orders it holds some
    that pay multiply-adds for a lower peak without loops, the least peak of all included.

    Args:
        network: At most `N_EXACT` operands.
        n_best: How many orders to return, at least; fewer where fewer exist.
    """
    n = len(network.inputs)
    assert n <= N_EXACT, f"exact orders are for at most {N_EXACT} operands, not {n}"
    if n == 1:
        return ((),)
    terms = Terms.of(network)
    slack = 64 if n <= 6 else 16 if n <= 8 else 4
    ranked = best_orders(terms, n_best, slack)
    found = [steps_of(order.nested, n) for order in ranked]
    found.append(steps_of(least_peak(terms), n))
    return _distinct(found, n)


def greedy_order(network: Network, *, seed: int = 0) -> Steps:
    """A good order of any number of operands; the first of `greedy_orders`."""
    return greedy_orders(network, 1, seed=seed)[0]


def greedy_orders(network: Network, n_best: int = 4, *, seed: int = 0) -> tuple[Steps, ...]:
    """Good orders of any number of operands: several greedy starts, the best ones repaired.

    Fewest multiply-adds first, among equals the lower peak without loops.

    Args:
        network: The contraction.
        n_best: How many orders to return; fewer where repair leads to fewer.
        seed: Seed of the random starts; the same seed gives the same orders.
    """
    n = len(network.inputs)
    if n == 1:
        return ((),)
    terms = Terms.of(network)
    # Loading it takes longer than most plans, which draw nothing.
    from random import Random

    random = Random(seed)
    starts: list[tuple[int, int, Steps]] = []
    n_repeats, n_repaired, n_sweeps = _effort(n)
    for weight, temperature in _STARTS:
        for _ in range(n_repeats if temperature else 1):
            steps = greedy_steps(terms, weight=weight, temperature=temperature, random=random)
            starts.append((order_macs(terms, steps), len(starts), steps))
    repaired = [_repaired(terms, start[2], None) for start in sorted(starts)[:n_repaired]]
    # Subtrees grown at random places reach repairs that those at the largest values miss.
    found = list(repaired)
    for _ in range(n_sweeps):
        repaired = [_repaired(terms, steps, random) for steps in repaired]
        found += repaired
    found.sort(key=lambda steps: (order_macs(terms, steps), order_peak(terms, steps)))
    return _distinct(found, n)[:n_best]


def linear_order(network: Network) -> Steps:
    """An order with one growing product, for limits that leave no room for more."""
    return linear_steps(Terms.of(network))


def _effort(n: int) -> tuple[int, int, int]:
    """Random starts of each kind, starts repaired, and sweeps of random repair."""
    if n <= 80:
        return 6, 6, 3
    return (4, 3, 2) if n <= 200 else (1, 2, 0)


def _repaired(terms: Terms, steps: Steps, random: Random | None) -> Steps:
    n_solved = max(10 * len(terms.masks), 1000)
    return reconfigured(terms, steps, n_leaves=8, n_solved=n_solved, random=random)


def first_order(network: Network) -> Steps:
    """The order to use without a limit."""
    if len(network.inputs) > N_EXACT:
        return greedy_order(network)
    return optimal_orders(network, 1)[0]


def _distinct(found: list[Steps], n_operands: int) -> tuple[Steps, ...]:
    # Equal trees make equal subsets, whatever the order of steps.
    seen: set[frozenset[int]] = set()
    kept = []
    for steps in found:
        key = frozenset(subsets_made(n_operands, steps))
        if key not in seen:
            seen.add(key)
            kept.append(steps)
    return tuple(kept)
