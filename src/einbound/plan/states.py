"""The dynamic program behind exact plans: all ways to make a subset inside a chain of loops.

One run explores every tree, nest and production level whose multiply-adds and bytes stay
within two bounds; what these should be, and in which order, is for its callers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from einbound.plan.chains import Chain
from einbound.plan.floors import Floors
from einbound.plan.labels import OPERAND, Label, Made, nondominated, spread
from einbound.plan.places import Place, places
from einbound.plan.problem import Problem
from einbound.plan.rows import Bounds, Row, Rows
from einbound.plan.site import Site

#: Nests and ways to combine labels that take about as long as a state takes besides.
WAYS = 16


@dataclass(slots=True)
class Effort:
    """A limit on work that is the same on every machine.

    Attributes:
        most: States to explore in all, or that many times `WAYS` ways to combine labels.
        n_states: States explored so far.
        n_ways: Nests, ways to combine labels in them, and their comparisons, by the dozen, that
            were counted so far.
    """

    most: int
    n_states: int = 0
    n_ways: int = 0

    @property
    def n_spent(self) -> int:
        """What was done, in states."""
        return self.n_states + self.n_ways // WAYS

    @property
    def spent(self) -> bool:
        """Whether nothing may be explored any more."""
        return self.n_spent >= self.most

    def spend(self, other: Effort) -> None:
        """Adds what was spent elsewhere."""
        self.n_states += other.n_states
        self.n_ways += other.n_ways


@dataclass(slots=True)
class Run:
    """One exploration within fixed bounds.

    Attributes:
        problem: What is searched.
        bounds: What is explored.
        effort: Counts the states; once it is spent, what is not explored is taken as empty.
        floors: Tighter bounds, for the same budget and at least as many multiply-adds.
    """

    problem: Problem
    bounds: Bounds
    effort: Effort
    floors: Floors | None = None
    _memo: dict[object, list[Label]] = field(default_factory=dict)
    _rows: Rows = field(init=False)
    _budget: float = inf
    _deep: float = inf
    _by_cost: bool = True
    _by_groups: bool = False
    _is_priced: bool = False

    def __post_init__(self) -> None:
        """Turns absent bounds into infinite ones."""
        problem, bounds = self.problem, self.bounds
        self._rows = Rows(problem, bounds, self.floors)
        self._by_cost = bounds.macs is not None
        self._is_priced = problem.temporary is not None or problem.toll is not None
        self._by_groups = not (self._by_cost or problem.pinned)
        if bounds.budget_bytes is not None:
            self._budget = bounds.budget_bytes
        if bounds.n_deep is not None:
            self._deep = bounds.n_deep

    def root(self) -> list[Label]:
        """The labels of the result that no other one replaces, within the bounds."""
        problem, full = self.problem, (1 << self.problem.splits.n) - 1
        return self.labels(full, problem.chains.root, not problem.changing)

    def labels(self, subset: int, chain: Chain, once: bool) -> list[Label]:
        """The ways to make a subset's value once per trip of a chain.

        Args:
            subset: The operands.
            chain: The loops around the production.
            once: Whether it counts once, not with every evaluation.
        """
        key: object = (chain.number << 1 | once) << self.problem.splits.n | subset
        if self._by_groups:
            key = subset, once, chain.trace(self.problem.splits.below[subset])
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = self._explore(subset, chain, once)
        return known

    def _explore(self, subset: int, chain: Chain, once: bool) -> list[Label]:
        effort, carried = self.effort, self.problem.splits.carried
        own, least = self._own(subset, chain), chain.least
        if own > self._budget or effort.spent:
            return []
        room = self._rows.room(subset, chain.mask)
        if room < 0:
            return []
        effort.n_states += 1
        site = Site(chain, once, own, room, self._budget, self._by_cost)
        for row in self._rows.of(subset):
            if effort.spent:
                break
            cost = self._cost(site, row, chain) + row.floor
            needs = own + sum([least[carried[half]] for half in row.split.stored])
            if cost > room or needs > site.most(cost):
                continue
            needs = max(needs, row.bytes_inside(chain, own))
            if needs <= site.most(cost):
                if self._by_groups:
                    self._sets(site, row)
                else:
                    self._nest(site, row, needs, chain, ())
        kept = nondominated(list(site.found.values()), cost_matters=self._by_cost)
        effort.n_ways += len(site.found) * len(kept) // WAYS
        return kept if self.bounds.n_kept is None else spread(kept, self.bounds.n_kept)

    def _own(self, subset: int, chain: Chain) -> int:
        """Bytes of the value itself."""
        splits = self.problem.splits
        is_result = subset == (1 << splits.n) - 1
        if is_result and not self.problem.counts_result:
            return 0
        return chain.sizes[splits.carried[subset]]

    def _cost(self, site: Site, row: Row, inside: Chain) -> int:
        """Cost of a product inside these loops, without a toll."""
        cost = inside.costs[row.split.union]
        return cost if site.once else cost * self.problem.iterations

    def _sets(self, site: Site, row: Row) -> None:
        """Places the halves inside every set of further loops, as far as only bytes count.

        What waits in a slot between two loops of one step may as well be made inside the inner
        one: the last such slot first, each value is made while the same is held as before, and
        its slices are no larger. So the loops of a step form one group, in any order, cut as
        finely as possible.

        One more loop of a group shrinks what is made inside and moves nothing else, unless it is
        summed by a value that is made outside; so a group leaves out no index of the product, but
        for those that it sums itself where that has a price.
        """
        chain, chains = site.chain, self.problem.chains
        self._place(site, row, chain, ())
        free, room = row.useful & ~chain.mask, self._deep - len(chain.numbers)
        sure, problem = row.split.union, self.problem
        if problem.temporary is not None:
            sure &= problem.splits.carried[row.split.left | row.split.right]
        forced = chains.narrowest(free & sure) if self._deep == inf else ()
        others = chains.narrowest(free & ~(sure if forced else 0))
        for chosen in range((1 << len(others)) - 1, -1, -1):
            group = (*forced, *(k for i, k in enumerate(others) if chosen >> i & 1))
            if self.effort.spent:
                return
            if group and len(group) <= room:
                self.effort.n_ways += 1
                self._place(site, row, chain.plus_group(group), ())

    def _nest(
        self, site: Site, row: Row, needs: int, inside: Chain, falls: tuple[int, ...]
    ) -> None:
        """Places the halves inside these loops, and inside all longer nests.

        Two neighbouring loops with nothing in the slot between them can be swapped, so one of the
        two orders is enough; `falls` are the slots that must hold something. No nest takes fewer
        than `needs` bytes.
        """
        admitted = row.admitted
        self.effort.n_ways += 1
        if self.effort.spent:
            return
        if admitted is None or admitted.here >> self._set(row, inside) & 1:
            self._place(site, row, inside, falls)
        numbers, cost = inside.numbers, self._cost(site, row, inside)
        n_loops = len(numbers)
        if n_loops >= self._deep or needs > site.most(cost + row.floor):
            return
        opened = inside.level > site.n_around
        union, chains, room = row.split.union, self.problem.chains, site.room - row.floor
        for number in chains.over(row.useful & ~inside.mask):
            # A loop over an index that the product lacks repeats it.
            if not chains.indices[number] & union and cost * chains.trips[number] > room:
                continue
            if not opened or number > numbers[-1] or self._pins(numbers[-1], number):
                held = falls
            elif len(falls) < row.n_values:
                held = (*falls, n_loops)
            else:
                continue
            further = inside.plus(number)
            if admitted is not None and not admitted.beyond >> self._set(row, further) & 1:
                continue
            if self._cost(site, row, further) <= room:
                self._nest(site, row, needs, further, held)

    def _set(self, row: Row, inside: Chain) -> int:
        """The number of the set of loops over indices below a product."""
        assert self.floors is not None, "rows know what is admitted from these"
        return self.floors.set_of(inside.mask & row.below)

    def _pins(self, outer: int, inner: int) -> bool:
        """Whether an operand is made between these loops once they are swapped."""
        if not self.problem.pinned:
            return False
        one, other = self.problem.chains.indices[outer], self.problem.chains.indices[inner]
        return any(mask & other and not mask & one for mask in self.problem.pinned)

    def _place(self, site: Site, row: Row, inside: Chain, falls: tuple[int, ...]) -> None:
        """Makes the halves at every level that leaves bytes enough."""
        cost = self._cost(site, row, inside)
        # A label without escapes that is no dearer leaves only lower ones of interest.
        most = site.most(cost + row.floor)
        left = places(self.problem, row.split.left, inside)
        right = places(self.problem, row.split.right, inside)
        if site.own + left[0][1] + right[0][1] > most:
            return
        temporary = 0
        if self._is_priced:
            evaluations = 1 if site.once else self.problem.iterations
            n_around = len(site.chain.numbers)
            temporary, toll = self.problem.prices(row.split, inside, n_around, evaluations)
            cost += toll
            if cost + row.floor > site.room:
                return
        for place in left:
            for other in right:
                if site.own + temporary + place[1] + other[1] > most:
                    break
                self._join(site, row, inside, falls, (cost, temporary), (place, other))

    def _made(self, site: Site, half: int, chain: Chain | None) -> list[Label]:
        """The ways to make a half of a site's value inside a chain."""
        if chain is None:
            return [OPERAND]
        if not half & (half - 1):
            return [self.problem.read(half, chain)]
        once = site.once or (not chain.level and not half & self.problem.changing)
        return self.labels(half, chain, once)

    def _can_pay(self, row: Row, room: float, chosen: tuple[Place, Place]) -> bool:
        """Whether the least that both halves cost at their places is within some room."""
        floor, halves = 0.0, (row.split.left, row.split.right)
        for half, (_, _, chain) in zip(halves, chosen, strict=True):
            floor += 0 if chain is None else self._rows.floor(half, chain.mask)
        return floor <= room

    def _join(
        self,
        site: Site,
        row: Row,
        inside: Chain,
        falls: tuple[int, ...],
        prices: tuple[int, int],
        chosen: tuple[Place, Place],
    ) -> None:
        """Keeps what comes of two places, for all ways to make the halves there."""
        (left_level, left_held, left_chain), (right_level, right_held, right_chain) = chosen
        (cost, temporary), split = prices, row.split
        room = site.room - cost
        if self.floors is not None and not self._can_pay(row, room, chosen):
            return
        left = self._made(site, split.left, left_chain)
        if not left or (left[0].cost + row.rest > room and self._by_cost):
            return
        right = self._made(site, split.right, right_chain)
        self.effort.n_ways += len(left) * len(right)
        least = site.own + temporary + left_held + right_held
        levels, opens = (left_level, right_level), inside.numbers[len(site.chain.numbers) :]
        for a in left:
            for b in right:
                total = a.cost + b.cost
                if total > room:
                    break
                # All that waits is there together when the product is made.
                if least + a.held + b.held > self._budget:
                    continue
                items = [*a.escapes, *b.escapes]
                if left_held:
                    items.append((left_level, min(left_held - a.peak, 0), left_held))
                if right_held:
                    items.append((right_level, min(right_held - b.peak, 0), right_held))
                items.sort()
                if not falls or {item[0] for item in items}.issuperset(falls):
                    made = Made(split.left, opens, self._by_groups, levels, (a, b))
                    site.keep(cost + total, items, temporary, made)
