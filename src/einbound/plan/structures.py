"""Structures of plans: orders, nests and levels that the exact search finds on a grid of widths.

A loop over an index that a product has repeats nothing, however narrow its slices are. So whether
the fewest multiply-adds of all can be had is asked with one width per index, which is quick; only
where something must be repeated do several widths compete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from einbound.plan.answers import ExactFound, LeastPeak
from einbound.plan.contribution import Contribution
from einbound.plan.exact import Search, exact_plans
from einbound.plan.heap import apart, collector_off
from einbound.plan.labels import Label
from einbound.plan.ledger import Request
from einbound.plan.masks import Steps, Terms, bits, subsets_made
from einbound.plan.order import linear_order
from einbound.plan.peak import least_within
from einbound.plan.problem import LOWEST, Instant, Problem, Toll
from einbound.plan.rate import toll_of
from einbound.plan.rules import Objective
from einbound.plan.states import Effort as States
from einbound.plan.tree import Cut, Tree

#: Numbers of trips that compete where something must be repeated; the finest loops join them.
CLASS_TRIPS = (2, 4, 8)
#: Numbers of trips of all loops alike, where nothing need be repeated; the finest loops follow.
_ALIKE_TRIPS = (2, 4, 8, 32)
_FEWER_TRIPS = (8,)
_N_FEW = 10
#: States explored with loops of one number of trips.
_N_STATES = 2_000
#: States explored for the fewest bytes where the caller asked for no effort: a second or two.
_N_LEAST_STATES = 20_000
#: Problems whose fewest bytes are remembered.
_N_LOWEST_KEPT = 16
#: Bounds on products, or on predicted time, as multiples of those without loops.
_CALLS = (8, 64, 512, 4096, 32768, 8**8)
_TIMES = (1.05, 1.2, 1.5, 2.0, 4.0, 16.0, 256.0)
#: Operands up to which predicted time decides always; it takes longer than counting products.
_N_TIMED = 3
#: Plans with equal multiply-adds that are looked at, with ever lower peaks.
_N_TIES = 6


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes that a plan may take in the model's counting.

    Attributes:
        n_bytes: Their number.
        with_result: Whether the result is among them.
    """

    n_bytes: int
    with_result: bool = True

    def less(self, n_bytes: int) -> Room:
        """The room with some bytes set aside."""
        return Room(self.n_bytes - n_bytes, self.with_result)


@dataclass(frozen=True, slots=True)
class Drafts:
    """Structures with the fewest multiply-adds within a room.

    Attributes:
        trees: The best one first; none if nothing fits.
        bound_macs: Multiply-adds that no plan of the class within the room is below.
        exhausted: Whether the class was searched to its end.
        macs: Weighted multiply-adds of the best one.
        peak_bytes: What it takes.
    """

    trees: tuple[Tree, ...]
    bound_macs: int
    exhausted: bool
    macs: int = 0
    peak_bytes: int = 0


class Structures:
    """The structures of one request.

    Attributes:
        request: What is asked.
        order: The only order to choose from; None: all.
        n_states: States that were explored.
    """

    def __init__(self, request: Request, order: Steps | None) -> None:
        self.request = request
        self.order = order
        self.n_states = 0

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of trips of the class."""
        if self.request.rules.grid.is_fixed:
            return ()
        return self.request.effort.widths or (
            *CLASS_TRIPS,
            max(self.request.network.extents, default=1),
        )

    def _search(
        self, cuts: tuple[Cut, ...], with_result: bool, toll: Toll | None, n_states: int
    ) -> Search:
        problem = self._problem(cuts, with_result, toll)
        return Search(problem, States(n_states), self.request.effort.depth)

    def _problem(
        self, cuts: tuple[Cut, ...], with_result: bool, toll: Toll | None, most_bytes: int = 0
    ) -> Problem:
        request, rules = self.request, self.request.rules
        extents = request.network.extents
        return Problem(
            request.network,
            request.itemsize,
            cuts,
            connected=not request.effort.outer_products,
            temporary=Contribution(extents, request.itemsize, most_bytes) if most_bytes else None,
            toll=toll,
            volatile=rules.volatile,
            iterations=rules.iterations,
            persistent_only=rules.persistent_only,
            order=self.order,
            counts_result=with_result,
        )

    def _toll(self, *, by_time: bool) -> Toll | None:
        """What decides between plans of equal multiply-adds."""
        rules = self.request.rules
        if rules.objective is Objective.SPACE:
            return LOWEST
        if rules.by_policy:
            return Toll(_n_loops, len(self.request.network.extents) + 1)
        network = self.request.network
        by_time |= len(network.inputs) <= _N_TIMED
        return toll_of(network, self.request.itemsize) if by_time else None

    def plain(self) -> tuple[Tree, ...]:
        """The orders with the fewest multiply-adds without loops, fastest first."""
        with collector_off():
            rules = self.request.rules
            toll = LOWEST if rules.by_policy else self._toll(by_time=True)
            search = self._search((), True, toll, 4 << len(self.request.network.inputs))
            fewest = search.fewest
            labels = search.run(fewest, None, n_deep=0)
            self.n_states += search.effort.n_states
            trees = tuple(self._tree(search.problem, label) for label in labels[:_N_TIES])
            search.problem.forget()
            return trees

    def alike(self, room: Room) -> Iterator[list[Tree]]:
        """Structures that repeat nothing, with loops of one number of trips, wide slices first.

        Args:
            room: Bytes to keep to.
        """
        for n_trips in self._numbers_of_trips():
            cuts = self.request.rules.grid.options((n_trips,))
            yield from self._found(cuts, room, by_time=False)

    def fast(self, room: Room, macs: int, n_states: int) -> list[Tree]:
        """Structures with loops of one number of trips, of little predicted time.

        Args:
            room: Bytes to keep to.
            macs: Multiply-adds that are admitted, if there are more than the fewest.
            n_states: States to explore for each number of trips.
        """
        found: list[Tree] = []
        for n_trips in self._numbers_of_trips():
            cuts = self.request.rules.grid.options((n_trips,))
            groups = self._found(cuts, room, by_time=True, macs=macs, n_states=n_states)
            found += next(groups, [])
        return found

    def _numbers_of_trips(self) -> tuple[int, ...]:
        grid, extents = self.request.rules.grid, self.request.network.extents
        if grid.is_fixed or self.request.rules.objective is Objective.SPACE:
            return (max(extents, default=1),)
        few = len(self.request.network.inputs) > _N_FEW
        return (*(_FEWER_TRIPS if few else _ALIKE_TRIPS), max(extents, default=1))

    def single(self, room: Room) -> list[Tree]:
        """Structures that repeat nothing and cut one index only, for every index."""
        grid, found = self.request.rules.grid, []
        for index in bits(grid.admitted):
            cuts = tuple(
                cut for cut in (grid.finest(index),) if cut.width < grid.modes[index].extent
            )
            found += next(self._found(cuts, room, by_time=False), [])
        return found

    def _found(
        self,
        cuts: tuple[Cut, ...],
        room: Room,
        *,
        by_time: bool,
        macs: int = 0,
        n_states: int = _N_STATES,
    ) -> Iterator[list[Tree]]:
        """Structures with these loops, those of little toll first."""
        toll = self._toll(by_time=by_time)
        with collector_off():
            search = self._search(cuts, room.with_result, toll, n_states)
            tolls = list(_bounds(search, toll))
        seen: set[Tree] = set()
        try:
            for most in tolls:
                n_before, bounds = search.effort.n_states, (max(search.fewest, macs), most)
                new = apart(partial(self._unseen, search, room.n_bytes, bounds, seen))
                self.n_states += search.effort.n_states - n_before
                if new:
                    seen |= set(new)
                    yield new
                if search.effort.spent:
                    break
        finally:
            search.problem.forget()

    def _unseen(
        self, search: Search, n_bytes: int, bounds: tuple[int, int | None], seen: set[Tree]
    ) -> list[Tree]:
        """Some of the structures within two bounds, on multiply-adds and toll, that are new."""
        macs, toll = bounds
        labels = _ties(search.run(macs, n_bytes, toll=toll))
        new = [self._tree(search.problem, label) for label in labels]
        new = [tree for tree in new if tree not in seen]
        if new:
            # What is made of these outlives the search, and would lie scattered in it.
            search.problem.forget()
        return new

    def drafts(
        self,
        room: Room,
        n_states: int,
        most_bytes: int = 0,
        *,
        only_finest: bool = False,
        most_macs: int | None = None,
    ) -> Drafts:
        """The structures of the class with the fewest multiply-adds within a room.

        Args:
            room: Bytes to keep to.
            n_states: States to explore at most.
            most_bytes: What a contribution takes at most; 0: nothing is counted.
            only_finest: Leave out all loops but the finest ones: a class that is soon searched.
            most_macs: Weighted multiply-adds at most; None: any number.
        """
        widths = (max(self.request.network.extents, default=1),) if only_finest else self.widths
        cuts = self.request.rules.grid.options(widths or (1,))
        work = partial(self._exhausted, cuts, room, n_states, most_bytes, most_macs)
        drafts, n_explored = apart(work)
        self.n_states += n_explored
        return drafts

    def _exhausted(
        self,
        cuts: tuple[Cut, ...],
        room: Room,
        n_states: int,
        most_bytes: int,
        most_macs: int | None,
    ) -> tuple[Drafts, int]:
        """The structures with these loops, and how many states were explored for them."""
        toll, depth = self._toll(by_time=False), self.request.effort.depth
        problem = self._problem(cuts, room.with_result, toll, most_bytes)
        found: list[Tree] = []
        counts = 0, 0
        for made in exact_plans(
            problem, room.n_bytes, n_deep=depth, effort=n_states, most_macs=most_macs
        ):
            bound, exhausted, states = made.bound_macs, made.exhausted, made.states
            if isinstance(made, ExactFound):
                found.insert(0, self._as_given(made.tree))
                counts = made.weighted_macs, made.peak_bytes
        problem.forget()
        return Drafts(tuple(dict.fromkeys(found)), bound, exhausted, *counts), states

    def lowest(self, with_result: bool, n_states: int, most_bytes: int = 1) -> LeastPeak:
        """The structure that needs the fewest bytes, of any depth.

        With one element of each contribution the bound holds for every plan.

        Args:
            with_result: Whether the bytes of the result count.
            n_states: States to explore at most.
            most_bytes: What a contribution takes at most, though not less than one element.
        """
        request = self.request
        if not request.is_eager:
            n_states = min(n_states, _N_LEAST_STATES)
        cuts = request.rules.grid.options((max(request.network.extents, default=1),))
        found = _lowest(self._problem(cuts, with_result, None, most_bytes), n_states)
        self.n_states += found.found.states
        # Values and contributions are whole elements.
        bound = -(-found.lower_bound_bytes // request.itemsize) * request.itemsize
        tree = self._as_given(found.found.tree)
        return LeastPeak(replace(found.found, tree=tree), bound)

    def finest(self) -> tuple[Tree, ...]:
        """One value that grows inside the narrowest loops over all indices, if there may be such.

        Its products are as small as can be, and with them whatever they take beside values.
        """
        request, rules = self.request, self.request.rules
        if rules.persistent_only and rules.volatile:
            return ()
        extents, masks = request.network.extents, Terms.of(request.network).masks
        cuts = tuple(
            cut
            for cut in rules.grid.options((max(extents, default=1),))
            if cut.width < extents[cut.index] and any(mask >> cut.index & 1 for mask in masks)
        )
        steps = self.order or linear_order(request.network)
        outer = len(steps) - 1
        opens, levels = ((),) * outer + (cuts,), (len(cuts),) * outer + (0,)
        return (Tree(request.network, steps, opens, levels).check(),)

    def _tree(self, problem: Problem, label: Label) -> Tree:
        return self._as_given(problem.tree(label))

    def _as_given(self, tree: Tree) -> Tree:
        """The tree with its steps in the given order, if there is one."""
        if self.order is None:
            return tree
        n = tree.n_operands
        places = {subset: step for step, subset in enumerate(subsets_made(n, tree.steps))}
        source = [places[subset] for subset in subsets_made(n, self.order)]
        return Tree(
            tree.network,
            self.order,
            tuple(tree.opens[step] for step in source),
            tuple(tree.levels[step] for step in source),
        )


@lru_cache(maxsize=_N_LOWEST_KEPT)
def _lowest(problem: Problem, n_states: int) -> LeastPeak:
    """The structure of the fewest bytes; one refusal asks for it several times."""
    # What is remembered is a problem without tables.
    return apart(partial(_least, replace(problem), n_states))


def _least(problem: Problem, n_states: int) -> LeastPeak:
    found = least_within(Search(problem, States(n_states), None))
    problem.forget()
    return found


def _ties(labels: list[Label]) -> list[Label]:
    """Some of the labels, dearer and lower ones last; the ends are kept."""
    if len(labels) <= _N_TIES:
        return labels
    last = len(labels) - 1
    return [labels[k * last // (_N_TIES - 1)] for k in range(_N_TIES)]


def _bounds(search: Search, toll: Toll | None) -> Iterator[int | None]:
    """Bounds on the toll, ever wider."""
    radix = search.problem.chains.radix
    if toll is not None and toll.most <= len(search.problem.network.extents) + 1:
        yield None
        return
    plain = max(search.plain[0].cost % radix, 1)
    for factor in _CALLS if toll is None else _TIMES:
        yield min(int(plain * factor), radix - 1)
        if plain * factor >= radix:
            return


def _n_loops(instant: Instant) -> int:
    return len(instant.opens)
