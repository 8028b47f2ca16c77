"""The dynamic program behind exact plans: all ways to make a subset inside a chain of loops.

One run explores every tree, nest and production level whose multiply-adds and bytes stay
within two bounds; what these should be, and in which order, is for its callers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from einbound.plan.chains import Chain
from einbound.plan.labels import OPERAND, Item, Label, Made, nondominated, spread
from einbound.plan.problem import Instant, Problem
from einbound.plan.splits import SLACK, Split, at_least

#: Ways to combine labels that take about as long as a state takes besides.
WAYS = 16


@dataclass(slots=True)
class Effort:
    """A limit on work that is the same on every machine.

    Attributes:
        most: States to explore in all, or that many times `WAYS` ways to combine labels.
        n_states: States explored so far.
        n_ways: Ways to combine labels that were counted so far.
    """

    most: int
    n_states: int = 0
    n_ways: int = 0

    @property
    def spent(self) -> bool:
        """Whether nothing may be explored any more."""
        return self.n_states + self.n_ways // WAYS >= self.most

    def spend(self, other: Effort) -> None:
        """Adds what was spent elsewhere."""
        self.n_states += other.n_states
        self.n_ways += other.n_ways


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one run explores.

    Attributes:
        macs: Multiply-adds at most; None: any number, and labels are compared by bytes only.
        budget_bytes: Bytes of intermediates and result at most; None: any number.
        toll: Products, or what else the second part of a cost is, at most where all of `macs` are
            used up; None: any number.
        n_deep: Loops around any production at most; None: any number.
        n_kept: Labels kept of one state; None: all, without which nothing is proven.
    """

    macs: int | None
    budget_bytes: int | None
    toll: int | None = None
    n_deep: int | None = None
    n_kept: int | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """One split of a subset with what does not depend on loops around it.

    Attributes:
        split: The halves.
        floor: Cost of both halves at least.
        rest: Cost of the right half at least.
        useful: The indices that may be looped over.
        n_values: Values below that can wait in a slot.
    """

    split: Split
    floor: int
    rest: int
    useful: int
    n_values: int


@dataclass(slots=True)
class _Site:
    """One state while it is explored.

    Attributes:
        chain: The loops around the production.
        n_around: Their number.
        own: Bytes of the value.
        room: Cost at most.
        found: The cheapest way to every kind of label so far.
        plain: Cost and bytes of those without escapes that no other of them beats, by cost.
    """

    chain: Chain
    n_around: int
    own: int
    room: float
    found: dict[tuple[int, tuple[Item, ...]], Label] = field(default_factory=dict)
    plain: list[tuple[int, int]] = field(default_factory=list)

    def note(self, cost: int, total: int, *, by_cost: bool) -> None:
        """Remembers a label without escapes; unless `by_cost`, only the lowest one counts."""
        self.plain = [p for p in self.plain if p[1] < total or (by_cost and p[0] < cost)]
        self.plain.append((cost, total))
        self.plain.sort()


#: Where a half is made: number of loops open, bytes held there, and the chain to make it in;
#: no chain for an operand.
_Place = tuple[int, int, Chain | None]


@dataclass(slots=True)
class Run:
    """One exploration within fixed bounds.

    Attributes:
        problem: What is searched.
        bounds: What is explored.
        effort: Counts the states; once it is spent, what is not explored is taken as empty.
    """

    problem: Problem
    bounds: Bounds
    effort: Effort
    _memo: dict[object, list[Label]] = field(default_factory=dict)
    _rows: dict[int, list[_Row]] = field(default_factory=dict)
    _rooms: dict[int, float] = field(default_factory=dict)
    _loops: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _budget: float = inf
    _deep: float = inf
    _by_cost: bool = True
    _by_groups: bool = False
    _is_priced: bool = False

    def __post_init__(self) -> None:
        """Turns absent bounds into infinite ones."""
        self._by_cost = self.bounds.macs is not None
        plain = self.problem.temporary is None and not self.problem.reduced
        self._by_groups = plain and not self._by_cost
        self._is_priced = self.problem.temporary is not None or self.problem.toll is not None
        if self.bounds.budget_bytes is not None:
            self._budget = self.bounds.budget_bytes
        if self.bounds.n_deep is not None:
            self._deep = self.bounds.n_deep

    def root(self) -> list[Label]:
        """The labels of the result that no other one replaces, within the bounds."""
        full = (1 << self.problem.splits.n) - 1
        return self.labels(full, self.problem.chains.root)

    def labels(self, subset: int, chain: Chain) -> list[Label]:
        """The ways to make a subset's value once per trip of a chain."""
        key: object = chain.number << self.problem.splits.n | subset
        if self._by_groups:
            key = subset, chain.trace(self.problem.splits.below[subset])
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = self._explore(subset, chain)
        return known

    def _explore(self, subset: int, chain: Chain) -> list[Label]:
        effort, carried = self.effort, self.problem.splits.carried
        own, least = chain.sizes[carried[subset]], chain.least
        if own > self._budget or effort.spent:
            return []
        effort.n_states += 1
        site = _Site(chain, chain.level, own, self._room(subset))
        for row in self._rows_of(subset):
            if effort.spent:
                break
            needs = own + sum(least[carried[half]] for half in row.split.stored)
            if needs <= self._most(site, chain.costs[row.split.union] + row.floor):
                self._nests(site, row)
        kept = nondominated(list(site.found.values()), cost_matters=self._by_cost)
        return kept if self.bounds.n_kept is None else spread(kept, self.bounds.n_kept)

    def _most(self, site: _Site, cost: int) -> float:
        """Bytes at most that a label of at least this cost may have to be of interest."""
        for known, total in reversed(site.plain):
            if known <= cost or not self._by_cost:
                return min(self._budget, total - 1)
        return self._budget

    def _room(self, subset: int) -> float:
        """Cost that the subset may have, given what all else costs at least."""
        if self.bounds.macs is None:
            return inf
        room = self._rooms.get(subset)
        if room is None:
            rest, radix = self.problem.splits.rest[subset], self.problem.chains.radix
            toll = radix - 1 if self.bounds.toll is None else self.bounds.toll
            macs = -1 if rest == inf else self.bounds.macs - at_least(rest)
            if self.problem.toll is None:
                # Each product outside runs once or more.
                toll -= self.problem.splits.n - subset.bit_count()
            room = self._rooms[subset] = macs * radix + toll
        return room

    def _rows_of(self, subset: int) -> list[_Row]:
        rows = self._rows.get(subset)
        if rows is None:
            most = inf
            if self._by_cost:
                most = self._room(subset) // self.problem.chains.radix * (1 + SLACK) + 1
            splits = self.problem.splits.of(
                subset, most, self._budget * (1 + SLACK), cheapest_first=self._by_cost
            )
            rows = self._rows[subset] = [self._row(split) for split in splits]
        return rows

    def _row(self, split: Split) -> _Row:
        problem, splits = self.problem, self.problem.splits
        useful = n_values = 0
        for half in (split.left, split.right):
            # A loop over no index of a value below moves nothing and makes nothing smaller.
            if not problem.is_view(half) or problem.temporary is not None:
                useful |= splits.below[half]
            n_values += max(half.bit_count() - 1, 0) + (half & ~problem.views).bit_count()
        left, right = (
            problem.chains.cost(at_least(splits.fewest[half])) for half in (split.left, split.right)
        )
        return _Row(split, left + right, right, useful, n_values)

    def _nests(self, site: _Site, row: _Row) -> None:
        if self._by_groups:
            self._sets(site, row)
        else:
            self._nest(site, row, site.chain, ())

    def _sets(self, site: _Site, row: _Row) -> None:
        """Places the halves inside every set of further loops, as far as only bytes count.

        What waits in a slot between two loops of one step may as well be made inside the inner
        one: the last such slot first, each value is made while the same is held as before, and
        its slices are no larger. So the loops of a step form one group, in any order, cut as
        finely as possible.

        One more loop of a group shrinks what is made inside and moves nothing else, unless it is
        summed by a value that is made outside; so a group leaves out no index of the product.
        """
        chain = site.chain
        self._place(site, row, chain, ())
        free, room = row.useful & ~chain.mask, self._deep - len(chain.numbers)
        forced = self._finest(free & row.split.union) if self._deep == inf else ()
        others = self._finest(free & ~(row.split.union if forced else 0))
        for chosen in range((1 << len(others)) - 1, -1, -1):
            group = (*forced, *(k for i, k in enumerate(others) if chosen >> i & 1))
            if group and len(group) <= room:
                self._place(site, row, chain.plus_group(group), ())

    def _finest(self, mask: int) -> tuple[int, ...]:
        """The loops with the narrowest slices over the indices of a mask."""
        first: dict[int, int] = {}
        for k in self._loops_of(mask):
            first.setdefault(self.problem.chains.indices[k], k)
        return tuple(first.values())

    def _nest(self, site: _Site, row: _Row, inside: Chain, falls: tuple[int, ...]) -> None:
        """Places the halves inside these loops, and inside all longer nests.

        Two neighbouring loops with nothing in the slot between them can be swapped, so one of the
        two orders is enough; `falls` are the slots that must hold something.
        """
        cost = inside.costs[row.split.union]
        if cost + row.floor > site.room:
            return
        self._place(site, row, inside, falls)
        numbers = inside.numbers
        n_loops = len(numbers)
        if n_loops >= self._deep:
            return
        opened = inside.level > site.n_around
        for number in self._loops_of(row.useful & ~inside.mask):
            if not opened or number > numbers[-1] or self._pins(numbers[-1], number):
                self._nest(site, row, inside.plus(number), falls)
            elif len(falls) < row.n_values:
                self._nest(site, row, inside.plus(number), (*falls, n_loops))

    def _loops_of(self, mask: int) -> tuple[int, ...]:
        """The loops over the indices of a mask."""
        loops = self._loops.get(mask)
        if loops is None:
            indices = self.problem.chains.indices
            loops = tuple(k for k, index in enumerate(indices) if index & mask)
            self._loops[mask] = loops
        return loops

    def _pins(self, outer: int, inner: int) -> bool:
        """Whether an operand that is summed first is made between these loops once swapped."""
        if not self.problem.reduced:
            return False
        one, other = self.problem.chains.indices[outer], self.problem.chains.indices[inner]
        return any(mask & other and not mask & one for mask in self.problem.reduced)

    def _place(self, site: _Site, row: _Row, inside: Chain, falls: tuple[int, ...]) -> None:
        """Makes the halves at every level that leaves bytes enough."""
        cost = inside.costs[row.split.union]
        # A label without escapes that is no dearer leaves only lower ones of interest.
        most = self._most(site, cost + row.floor)
        left, right = self._places(row.split.left, inside), self._places(row.split.right, inside)
        if site.own + left[0][1] + right[0][1] > most:
            return
        temporary = 0
        if self._is_priced:
            temporary, toll = self._prices(site, row.split, inside)
            cost += toll
            if cost + row.floor > site.room:
                return
        for place in left:
            for other in right:
                if site.own + temporary + place[1] + other[1] > most:
                    break
                self._join(site, row, inside, falls, (cost, temporary), (place, other))

    def _prices(self, site: _Site, split: Split, inside: Chain) -> tuple[int, int]:
        """The temporary bytes and the toll of a product inside these loops."""
        problem, n_around = self.problem, len(site.chain.numbers)
        key = split.left, split.right, inside.number, n_around
        prices = problem.prices.get(key)
        if prices is None:
            carried = problem.splits.carried
            cuts = tuple(problem.chains.cuts[k] for k in inside.numbers)
            halves = split.left, split.right
            masks = carried[halves[0]], carried[halves[1]], carried[halves[0] | halves[1]]
            instant = Instant(*masks, cuts[:n_around], cuts[n_around:], halves)
            prices = problem.prices[key] = problem.price(instant)
        return prices

    def _places(self, half: int, inside: Chain) -> list[_Place]:
        """Where a half can be made, innermost first: bytes never fall outwards."""
        places = inside.places.get(half)
        if places is None:
            places = inside.places[half] = self._levels(half, inside)
        return places

    def _levels(self, half: int, inside: Chain) -> list[_Place]:
        problem, splits = self.problem, self.problem.splits
        mask, level = splits.carried[half], inside.level
        if problem.is_view(half):
            return [(level, 0, None)]
        groups = inside.groups
        if not half & (half - 1):
            while level and not groups[level - 1] & mask:
                level -= 1
            return [(level, inside.prefixes[level].sizes[mask], None)]
        places: list[_Place] = [(level, inside.sizes[mask], inside)]
        # Outside a loop over what it sums itself it would be added up once per trip.
        while level and not groups[level - 1] & splits.below[half] & ~mask:
            level -= 1
            outer = inside.prefixes[level]
            places.append((level, outer.sizes[mask], outer))
        return places

    def _join(
        self,
        site: _Site,
        row: _Row,
        inside: Chain,
        falls: tuple[int, ...],
        prices: tuple[int, int],
        places: tuple[_Place, _Place],
    ) -> None:
        """Keeps what comes of two places, for all ways to make the halves there."""
        (left_level, left_held, left_chain), (right_level, right_held, right_chain) = places
        (cost, temporary), split = prices, row.split
        room = site.room - cost
        left = [OPERAND] if left_chain is None else self.labels(split.left, left_chain)
        if not left or (left[0].cost + row.rest > room and self._by_cost):
            return
        right = [OPERAND] if right_chain is None else self.labels(split.right, right_chain)
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
                    self._keep(site, cost + total, items, temporary, made)

    def _keep(self, site: _Site, cost: int, items: list[Item], temporary: int, made: Made) -> None:
        """Counts the bytes of one way, and keeps it if it is within the budget and new."""
        n_around, own = site.n_around, site.own
        held = peak = outer = n_escapes = 0
        stored = False
        for level, rise, size in items:
            if level < n_around:
                n_escapes += 1
                outer += size
                continue
            # The value is there once the slot before its first loop is filled.
            if level > n_around and not stored:
                held += own
                stored = True
            held += size
            peak = max(peak, held - rise)
        peak = max(peak, held + (0 if stored else own) + temporary)
        if peak + outer > self._most(site, cost):
            return
        escapes = tuple(items[:n_escapes])
        known = site.found.get((peak, escapes))
        if known is None or cost < known.cost:
            site.found[peak, escapes] = Label(cost, peak, outer, escapes, made)
            if not escapes:
                site.note(cost, peak, by_cost=self._by_cost)
