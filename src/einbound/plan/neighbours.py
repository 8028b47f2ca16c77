"""Plans one loop away from the best one, metered: for ties that the model cannot see.

A search orders structures by the bytes of their values. Where bytes or the number of loops break
ties between plans of equal multiply-adds, the buffers of the steps count too, and only the meter
knows these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from einbound.errors import PlanError
from einbound.plan.gate import check_loops
from einbound.plan.grid import Grid
from einbound.plan.ledger import LEAST_BUFFER_BYTES, Ledger
from einbound.plan.tree import Cut, Tree, trips

#: Plans metered at most: some milliseconds for each of many.
_N_METERED = 400


def improve(ledger: Ledger) -> None:
    """Replace the best plan by a better one with one loop more, fewer or over another index.

    Args:
        ledger: The plans so far. If none fits, it is the nearest one that is improved.
    """
    climb(ledger)
    # What was metered with the least buffers may have larger ones.
    ledger.enlarge(ledger.request.default_buffer_bytes)


def climb(ledger: Ledger) -> None:
    """Meter the neighbours of the best plan, and of every better one that is met."""
    rules, budget = ledger.request.rules, len(ledger.plans) + _N_METERED
    start, seen = ledger.best or ledger.nearest, None
    while start is not None and start is not seen:
        seen = start
        ledger.confirm(start.tree, LEAST_BUFFER_BYTES)
        for tree in neighbours(start.tree, rules.grid):
            if len(ledger.plans) >= budget:
                return
            with suppress(PlanError):
                if ledger.may_gain(tree):
                    check_loops(tree.check(), rules)
                    ledger.confirm(tree, LEAST_BUFFER_BYTES)
        start = ledger.best or ledger.nearest


def neighbours(tree: Tree, grid: Grid) -> Iterator[Tree]:
    """The trees with one loop less, with one over another index, and with one more.

    Levels are the default ones; some of the trees may be illegal.
    """
    for step, opens in enumerate(tree.opens):
        for place, cut in enumerate(opens):
            rest = (*opens[:place], *opens[place + 1 :])
            yield _with_opens(tree, step, rest)
            for other in _cuts(grid, trips(cut, tree.network)):
                yield _with_opens(tree, step, (*opens[:place], other, *opens[place + 1 :]))
        for cut in _cuts(grid, max(tree.network.extents, default=1)):
            yield _with_opens(tree, step, (*opens, cut))


def _cuts(grid: Grid, n_trips: int) -> tuple[Cut, ...]:
    return grid.options((n_trips,))


def _with_opens(tree: Tree, step: int, opens: tuple[Cut, ...]) -> Tree:
    changed = (*tree.opens[:step], opens, *tree.opens[step + 1 :])
    return replace(tree, opens=changed).with_default_levels()
