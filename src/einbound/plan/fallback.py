"""What a policy gets whose threshold no plan keeps: speed or space, as it asked for."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from einbound.plan import large, small
from einbound.plan.ledger import LEAST_BUFFER_BYTES, Found, Ledger, Request, over_bytes
from einbound.plan.lowest import lowest_found
from einbound.plan.masks import Steps
from einbound.plan.neighbours import improve
from einbound.plan.price import Limit
from einbound.plan.rules import Objective
from einbound.plan.structures import Room, Structures


def fallback(request: Request, order: Steps | None) -> Found:
    """The plan with the fewest multiply-adds or with the lowest peak, within the budget alone.

    Args:
        request: What is asked; its threshold cannot be kept.
        order: The only order to choose from; None: all.
    """
    freed = replace(request, rules=replace(request.rules, threshold_bytes=None))
    if request.rules.objective is Objective.SPACE:
        lowest = replace(freed, budget=Limit(0, None))
        found = lowest_found(lowest, order)
        ledger = Ledger(freed, freed.limit, lowest=True)
        ledger.confirm(found.tree, found.buffer_bytes)
        improve(ledger)
        found = ledger.found(found.proof)
    else:
        # Of equal multiply-adds the lowest peak: loops that repeat nothing are welcome here.
        spacious = replace(freed.rules, objective=Objective.SPACE)
        freed = replace(freed, rules=spacious)
        search = small.SmallSearch(freed, order)
        found = search.found()
        if found.fits and freed.limit == Limit(None, None):
            structures = Structures(freed, order)
            ledger = Ledger(freed, freed.limit)
            plain = ledger.confirm(found.tree, found.buffer_bytes)
            ledger.confirm_fitting(plain.tree, LEAST_BUFFER_BYTES)
            room = Room(plain.metered.space_bytes)
            for tree in chain.from_iterable(structures.alike(room)):
                ledger.confirm(tree, LEAST_BUFFER_BYTES)
            improve(ledger)
            found = ledger.found(found.proof)
    fits = over_bytes(found.metered, request.budget) <= 0
    return replace(found, fits=fits, keeps_threshold=False)


def fallback_of_many(request: Request, orders: tuple[Steps, ...], *, repair: bool) -> Found:
    """The same for more operands than the exact search takes.

    Args:
        request: What is asked; its threshold cannot be kept.
        orders: The orders to choose from.
        repair: Whether they may change.
    """
    freed = replace(request, rules=replace(request.rules, threshold_bytes=None))
    found = None
    if request.rules.objective is Objective.SPACE:
        lowest = replace(freed, budget=Limit(0, None))
        found = large.lowest_found(lowest, orders, repair=repair)
    if found is None or over_bytes(found.metered, request.budget) > 0:
        # Of equal multiply-adds the lowest peak, as above.
        spacious = replace(freed, rules=replace(freed.rules, objective=Objective.SPACE))
        search = large.LargeSearch(spacious, orders, repair=repair)
        found = search.found()
        if found.fits:
            found = search.thriftier(found)
    fits = over_bytes(found.metered, request.budget) <= 0
    return replace(found, fits=fits, keeps_threshold=False)
