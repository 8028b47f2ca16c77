"""The smallest peak that can be had, which a refusal names."""

from __future__ import annotations

from dataclasses import replace

from einbound.plan.effort import Proof
from einbound.plan.least import least_trees
from einbound.plan.ledger import LEAST_BUFFER_BYTES, Found, Ledger, Request, over_bytes
from einbound.plan.masks import Steps
from einbound.plan.price import Limit
from einbound.plan.small import SmallSearch
from einbound.plan.structures import Structures


def lowest_found(request: Request, order: Steps | None) -> Found:
    """The plan of the smallest peak that is found, and the bytes that every plan needs."""
    structures = Structures(request, order)
    limit = request.budget
    results, bounds = [], {}
    for name, given, with_result in (
        ("peak_bytes", limit.peak_bytes, True),
        ("workspace_bytes", limit.workspace_bytes, False),
    ):
        if given is None:
            continue
        least = structures.lowest(with_result, request.effort.states)
        bounds[name] = least.lower_bound_bytes
        asked = Limit(0, None) if with_result else Limit(None, 0)
        ledger = Ledger(request, asked)
        for tree in least_trees(structures, asked, request.effort.states):
            ledger.confirm_fitting(tree, LEAST_BUFFER_BYTES)
        found = ledger.found(Proof(states=structures.n_states))
        results.append(_settled(request, order, found, with_result=with_result))
    chosen = results[0] if len(results) == 1 else max(results, key=lambda one: one.fits)
    return replace(chosen, least=Limit(bounds.get("peak_bytes"), bounds.get("workspace_bytes")))


def _settled(request: Request, order: Steps | None, found: Found, *, with_result: bool) -> Found:
    """The plan that a search one byte below the smallest peak finds, if there is one.

    A search of little effort takes the smallest peak as it is.
    """
    for _ in range(_N_LOWERED if request.effort.states >= _N_SETTLED else 0):
        counts = found.metered
        peak, workspace = counts.space_bytes, counts.workspace_bytes
        lower = Limit(peak - 1, None) if with_result else Limit(None, workspace - 1)
        rules = replace(request.rules, threshold_bytes=None)
        again = SmallSearch(replace(request, budget=lower, rules=rules), order).found()
        if over_bytes(again.metered, lower) > 0:
            break
        found = again
    return found


#: How often the smallest peak is asked to be smaller still.
_N_LOWERED = 4
#: States of a search, at least, that asks so.
_N_SETTLED = 5_000
