"""Plans of few operands: structures of the exact search, their widths, and the meter's word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import chain

from einbound.plan.effort import Proof
from einbound.plan.least import least_trees
from einbound.plan.ledger import (
    LEAST_BUFFER_BYTES,
    Confirmed,
    Found,
    Ledger,
    Request,
)
from einbound.plan.masks import Steps, Terms, order_macs
from einbound.plan.model import Count
from einbound.plan.neighbours import improve
from einbound.plan.order import optimal_orders
from einbound.plan.price import Limit
from einbound.plan.rules import Objective
from einbound.plan.structures import Drafts, Room, Structures
from einbound.plan.tree import Tree
from einbound.plan.trials import Trials

#: Predicted seconds from which plans of equal multiply-adds are chosen with more care.
_SLOW_SECONDS = 5e-2
#: Operands up to which that holds; twice as many seconds for each further one.
_N_CHEAP = 6
#: Predicted seconds from which plans that cut one index only are looked at.
_BRISK_SECONDS = 2e-3
#: States explored for a slow plan per predicted second: planning takes some hundredths of it.
_STATES_PER_SECOND = 2_000
_LEAST_STATES, _MOST_STATES = 300, 8_000
#: States of the class that are explored where the caller asked for no effort.
_N_CLASS_STATES = 30_000
#: Orders of equal multiply-adds that are looked at, and up to how many operands.
_N_ORDERS, _N_MIRRORED = 6, 8
#: How many structures of ever lower peaks are tried, and the part of the effort for each.
_N_LOWER = 6
_DESCENT_SHARE = 2
#: Multiply-adds before widths are refined, as a multiple of those that are wanted.
_BEFORE_REFINEMENT = 1.05


class SmallSearch:
    """One search for the best plan of few operands.

    Attributes:
        request: What is asked.
        structures: Where plans come from.
        ledger: The plans that were metered.
        trials: Where structures are given widths and metered.
        bound_macs: Multiply-adds that no plan of the class within the limits is below.
        exhausted: Whether the class was searched to its end.
        is_hopeless: Whether no plan at all can fit, as far as is known.
    """

    def __init__(self, request: Request, order: Steps | None) -> None:
        self.request = request
        self.structures = Structures(request, order)
        self.ledger = Ledger(request, request.limit)
        self.trials = Trials(self.ledger)
        self.bound_macs = 0
        self.exhausted = False
        self.is_hopeless = True

    def found(self) -> Found:
        """The best plan, or the one that comes nearest."""
        request, ledger = self.request, self.ledger
        plain = self.structures.plain()
        for tree in plain:
            ledger.confirm(tree, request.default_buffer_bytes)
        self.bound_macs = min(made.macs for made in ledger.plans.values())
        if self.is_fastest or request.limit == Limit(None, None):
            self.exhausted = True
            if ledger.best is None:
                self._shrink(plain)
            return self._outcome()
        self._shrink(plain)
        if ledger.best is not None and request.rules.objective is Objective.SPACE:
            # One loop more may do what the best structures by the model do not.
            improve(ledger)
        self._search()
        if ledger.best is None and not self.is_hopeless:
            self._rescue()
        self._hasten()
        ledger.enlarge(request.default_buffer_bytes)
        return self._outcome()

    def _shrink(self, plain: tuple[Tree, ...]) -> None:
        """Meters plans without loops with smaller buffers, where their values fit."""
        request, ledger = self.request, self.ledger
        for tree in plain:
            known = ledger.confirm(tree, request.default_buffer_bytes).metered
            result = min(request.result_bytes, known.space_bytes - known.workspace_bytes)
            values = Count(tree, request.itemsize).peak_bytes
            peak, workspace = request.limit.peak_bytes, request.limit.workspace_bytes
            fits = peak is None or values <= peak
            if fits and (workspace is None or values - result <= workspace):
                ledger.confirm_fitting(tree, request.default_buffer_bytes)

    @cached_property
    def _simple(self) -> Structures:
        """Where plans of few loops come from: their buffers may be smaller."""
        rules = replace(self.request.rules, objective=Objective.TIME)
        return Structures(replace(self.request, rules=rules), self.structures.order)

    @property
    def is_fastest(self) -> bool:
        """Whether a plan without loops keeps the limit with the largest buffers, room to spare.

        Where the lowest peak is asked for, loops may lower it.
        """
        best, objective = self.ledger.best, self.request.rules.objective
        return (
            best is not None
            and objective is Objective.TIME
            and not best.tree.loops
            and best.buffer_bytes == self.request.default_buffer_bytes
            and (len(best.key) < 5 or not best.key[1] or self.request.rules.by_policy)
        )

    @property
    def is_settled(self) -> bool:
        """Whether the best plan has no more multiply-adds than any plan."""
        best = self.ledger.best
        return best is not None and best.macs <= self.bound_macs

    def _rooms(self) -> tuple[Room, ...]:
        """What the model may take; the second is tried where the first leads nowhere."""
        limit, result = self.request.limit, self.request.result_bytes
        peak, workspace = limit.peak_bytes, limit.workspace_bytes
        if workspace is None:
            assert peak is not None, "a search without a limit needs no room"
            return (Room(peak),)
        if peak is None:
            return (Room(workspace, with_result=False),)
        within = Room(min(workspace, peak - result), with_result=False)
        return within, Room(min(peak, workspace + result))

    def _search(self) -> None:
        """Looks for plans that repeat nothing, then for those that repeat least."""
        self._search_alike()
        if self.is_settled:
            self.exhausted = True
            return
        for room in self._rooms():
            if self._is_cut():
                return
            least = self.structures.lowest(room.with_result, self.request.effort.states)
            if least.lower_bound_bytes <= room.n_bytes:
                self.is_hopeless = False
                most_macs = None
                if least.found.peak_bytes <= room.n_bytes:
                    # What is lowest of all is a plan for every larger room, too.
                    self._try(least.found.tree)
                    most_macs = least.found.macs - 1
                self._repeat(room, most_macs)
            if self.ledger.best is not None:
                return

    def _search_alike(self) -> None:
        spare = self.request.spare_bytes
        sources = [self.structures]
        if self.request.rules.objective is Objective.SPACE:
            sources.append(self._simple)
        for room in self._rooms():
            for left_free in (spare, 0) if spare else (0,):
                limit = self.request.limit.less(left_free)
                for trees in chain(*(one.alike(room.less(left_free)) for one in sources)):
                    if self._is_cut():
                        return
                    self.trials.meter(trees, limit)
                    if self.is_settled:
                        return

    def _repeat(self, room: Room, most_macs: int | None) -> None:
        """Looks for plans of the whole class, by their values and then with contributions.

        Args:
            room: What the model may take.
            most_macs: Weighted multiply-adds at most of what is worth finding with the finest
                loops; None: any number.
        """
        n_states = self.request.effort.states
        if not self.request.is_eager:
            n_states = min(n_states, _N_CLASS_STATES)
        drafts = self.structures.drafts(room, n_states)
        if len(self._rooms()) == 1:
            self.bound_macs = max(self.bound_macs, drafts.bound_macs)
            self.exhausted = drafts.exhausted
        self.trials.meter(drafts.trees, self.request.limit)
        is_large = not drafts.exhausted and not self.request.rules.grid.is_fixed
        if is_large:
            # Of a class too large for the effort, the widths are better left to refinement.
            drafts = self.structures.drafts(room, n_states, only_finest=True)
            self.trials.meter(drafts.trees, self.request.limit)
        if self._may_gain(drafts):
            share = n_states // _DESCENT_SHARE
            for most_bytes in (self.request.itemsize, LEAST_BUFFER_BYTES):
                if not self.request.rules.grid.is_fixed:
                    self._descend(room, share, most_bytes, most_macs, only_finest=True)
                if not is_large:
                    self._descend(room, share, most_bytes, self._fewer_macs)

    def _descend(
        self,
        room: Room,
        n_states: int,
        most_bytes: int,
        most_macs: int | None,
        *,
        only_finest: bool = False,
    ) -> None:
        """Tries structures of ever lower peaks, until none may be better than the best plan.

        What they take besides is known to the meter only, so the best one may not fit where the
        next one does. The first of the finest loops are tried whatever they cost: the widest
        slices that fit repeat less.
        """
        for number in range(_N_LOWER):
            if self.is_settled or self._is_cut():
                return
            drafts = self.structures.drafts(
                room, n_states, most_bytes, only_finest=only_finest, most_macs=most_macs
            )
            is_bound = number == 0 and most_bytes <= self.request.itemsize and not only_finest
            if is_bound and len(self._rooms()) == 1:
                self.bound_macs = max(self.bound_macs, drafts.bound_macs)
            if not drafts.trees:
                return
            self._try(*drafts.trees)
            room, most_macs = replace(room, n_bytes=drafts.peak_bytes - 1), self._fewer_macs

    @property
    def _fewer_macs(self) -> int | None:
        """Multiply-adds below those of the best plan; None if there is none."""
        return None if self.ledger.best is None else self.ledger.best.macs - 1

    def _try(self, *trees: Tree) -> None:
        """Meters structures with wider slices, and as they are, in case these leave too little."""
        self.trials.meter(trees, self.request.limit)
        for tree in trees:
            self.ledger.confirm_fitting(tree, LEAST_BUFFER_BYTES)

    def _may_gain(self, drafts: Drafts) -> bool:
        """Whether the best of some structures has fewer multiply-adds than the best plan."""
        best = self.ledger.best
        return bool(drafts.trees) and (best is None or drafts.macs < best.macs)

    def _is_cut(self) -> bool:
        """Whether a deadline leaves out what comes next: something fits, and it is late."""
        return self.ledger.best is not None and self.request.deadline.cuts()

    def _hasten(self) -> None:
        """Looks for a faster plan of equal multiply-adds where the time saved may repay it."""
        best = self.ledger.best
        by_time = self.request.rules.objective is Objective.TIME
        if best is None or not by_time or self.request.rules.grid.is_fixed:
            return
        if self.request.effort.states < _LEAST_STATES:
            return
        if best.seconds >= _BRISK_SECONDS and self._is_cut():
            return
        n_more = max(len(self.request.network.inputs) - _N_CHEAP, 0)
        if best.seconds < _SLOW_SECONDS * 2**n_more:
            if best.seconds >= _BRISK_SECONDS and self.is_settled:
                self._try_singles()
            return
        n_states = int(best.seconds * _STATES_PER_SECOND)
        n_states = min(max(n_states, _LEAST_STATES), _MOST_STATES)
        spare, limit = self.request.spare_bytes, self.request.limit
        room = self._rooms()[0]
        for left_free in (spare, 0) if spare else (0,):
            inner = room.less(left_free)
            self.trials.meter(self._fast(inner, best, n_states), limit.less(left_free), slow=True)
            if self.ledger.best is not None and not self.ledger.best.key[1]:
                return

    def _try_singles(self) -> None:
        """Meters a few plans that cut one index only."""
        free, room = self.request.spare_bytes, self._rooms()[0]
        limit = self.request.limit.less(free)
        self.trials.meter(self.structures.single(room.less(free)), limit)

    def _fast(self, room: Room, best: Confirmed, n_states: int) -> Iterator[Tree]:
        """Structures that may be faster than the best plan so far, and that plan's own."""
        yield best.tree
        # Refined widths repeat less than those of the grid: more is admitted before refinement.
        most = 0 if self.is_settled else int(best.macs * _BEFORE_REFINEMENT)
        yield from self.structures.fast(room, most, n_states)
        if self.is_settled:
            yield from self.structures.single(room)
            for order in self._equal_orders():
                yield from Structures(self.request, order).single(room)

    def _equal_orders(self) -> tuple[Steps, ...]:
        """Other orders with the fewest multiply-adds: mirrored ones may find better layouts."""
        request = self.request
        if self.structures.order is not None or len(request.network.inputs) > _N_MIRRORED:
            return ()
        if request.rules.volatile:
            return ()
        terms = Terms.of(request.network)
        orders = optimal_orders(request.network, _N_ORDERS)
        fewest = order_macs(terms, orders[0])
        return tuple(order for order in orders if order_macs(terms, order) == fewest)

    def _rescue(self) -> None:
        """Looks for anything that fits before a limit is given up: the structures of least bytes.

        What is metered here depends on which bytes are limited, not on how many, so that what a
        refusal names can be had.
        """
        for tree in least_trees(self.structures, self.request.limit, self.request.effort.states):
            self.ledger.confirm_fitting(tree, LEAST_BUFFER_BYTES)

    def _outcome(self) -> Found:
        rules = self.request.rules
        ties_count = rules.by_policy or rules.objective is Objective.SPACE
        if ties_count and self.request.limit != Limit(None, None) and not self._is_cut():
            improve(self.ledger)
        best = self.ledger.best
        # A plan with refined widths, or without loops, may lie below what its class can do.
        bound = self.bound_macs if best is None else min(self.bound_macs, best.macs)
        depth = self.request.effort.depth
        if best is not None and depth is not None:
            # Of a plan outside the class, as a last resort may be, the class proves nothing.
            self.exhausted &= max(map(len, best.tree.inside)) <= depth
        proof = Proof(
            depth=self.request.effort.depth,
            widths=self.structures.widths,
            modes=self.request.rules.grid.admitted.bit_count(),
            outer_products=self.request.effort.outer_products,
            exhausted=self.exhausted,
            bound_macs=bound if self.exhausted or best is not None else 0,
            states=self.structures.n_states,
        )
        return self.ledger.found(proof, self.trials.tally.n_priced + self.structures.n_states)
