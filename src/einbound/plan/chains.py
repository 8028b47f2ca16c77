"""Ordered chains of loops, with the sizes and repetitions that they cause.

A chain is a prefix of every longer one; each is made once, so that what was computed for it
is found again. Nothing here knows trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

from einbound.expr.network import Network
from einbound.plan.masks import bits, mask_of
from einbound.plan.tree import Cut, trips


class Memo(dict[int, int]):
    """Values of a function of one mask, each computed once."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[int], int]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, mask: int) -> int:
        value = self[mask] = self.make(mask)
        return value


def _gone(mask: int) -> int:
    """What a chain that was let go says about the indices of a mask."""
    raise AssertionError(f"a chain was asked about {mask:b} after it was let go")


class Chains:
    """All chains over one set of loops.

    Attributes:
        cuts: The loops to choose from, in the order that breaks ties.
        trips: Number of trips of each.
        indices: The mask of the index that each cuts.
        mask: All of these.
        calls: What one product adds to the second part of a cost: 1, or 0 if that is a toll, which
            somebody else adds.
        radix: Factor by which multiply-adds outweigh that part.
        root: The chain without loops.
    """

    def __init__(
        self,
        network: Network,
        itemsize: int,
        cuts: Iterable[Cut],
        most_toll: int | None,
        repeats: int,
    ) -> None:
        """The chains.

        Args:
            network: Where the loops are.
            itemsize: Bytes per element.
            cuts: The loops to choose from.
            most_toll: Toll of all products at most; None: their calls are counted instead.
            repeats: How often a call counts at most.
        """
        self.extents = network.extents
        self.itemsize = itemsize
        n_trips = {cut: trips(cut, network) for cut in cuts}
        self.cuts = tuple(
            sorted(n_trips, key=lambda cut: (cut.index, cut.width, n_trips[cut], cut.edges))
        )
        self.trips = tuple(n_trips[cut] for cut in self.cuts)
        self.indices = tuple(1 << cut.index for cut in self.cuts)
        self.mask = mask_of(cut.index for cut in self.cuts)
        most: dict[int, int] = {}
        self.finest: dict[int, int] = {}
        for cut, number in n_trips.items():
            most[cut.index] = max(most.get(cut.index, 1), number)
            self.finest[cut.index] = min(self.finest.get(cut.index, cut.width), cut.width)
        self.calls = 1 if most_toll is None else 0
        if most_toll is None:
            most_toll = (len(network.inputs) - 1) * prod(most.values()) * repeats
        self.radix = most_toll + 1
        self._over: dict[int, tuple[int, ...]] = {}
        self.n_chains = 0
        self.root = Chain(self, None, ())

    def index_masks(self, numbers: Iterable[int]) -> int:
        """The indices that some loops cut."""
        mask = 0
        for k in numbers:
            mask |= self.indices[k]
        return mask

    def dissolve(self) -> None:
        """Lets go of all chains, which hold each other, so that they need no garbage collector."""
        stack = [self.root]
        while stack:
            chain = stack.pop()
            stack += chain.grown.values()
            for memo in (chain.sizes, chain.least, chain.costs):
                memo.make = _gone
            chain.prefixes = ()
            chain.grown.clear()
            chain.places.clear()

    def over(self, mask: int) -> tuple[int, ...]:
        """The loops over the indices of a mask."""
        loops = self._over.get(mask)
        if loops is None:
            loops = tuple(k for k, index in enumerate(self.indices) if index & mask)
            self._over[mask] = loops
        return loops

    def narrowest(self, mask: int) -> tuple[int, ...]:
        """The loops with the narrowest slices over the indices of a mask."""
        first: dict[int, int] = {}
        for k in self.over(mask):
            first.setdefault(self.indices[k], k)
        return tuple(first.values())

    def cost(self, macs: int) -> int:
        """The cost of a number of multiply-adds without calls."""
        return macs * self.radix


class Chain:
    """Loops around a production, outermost first, in groups with nothing in between.

    Attributes:
        numbers: The loops, as positions in the cuts of the family.
        own: Those of the innermost group.
        outer: The chain without that group.
        number: Position of this chain among all that were made.
        mask: The indices that are cut.
        groups: The indices that each group cuts.
        level: Number of groups.
        prefixes: The chains of the first 0, 1, ... groups, this one last.
        n_trips: Trips of all loops together.
        sizes: Bytes of a slice that carries the indices of a mask.
        least: The same if every further index is cut as finely as possible.
        costs: Cost of a product over the indices of a mask, all trips together, without a toll.
        places: Of a half of a product inside this chain: the levels at which it can be made, the
            bytes it then holds, and the chain to make it in; filled by whoever searches.
    """

    __slots__ = (
        "costs",
        "family",
        "groups",
        "grown",
        "least",
        "level",
        "mask",
        "n_trips",
        "number",
        "numbers",
        "outer",
        "own",
        "places",
        "prefixes",
        "sizes",
        "traces",
    )

    def __init__(self, family: Chains, outer: Chain | None, numbers: tuple[int, ...]) -> None:
        self.family = family
        self.outer = outer
        self.own = numbers
        self.number = family.n_chains
        family.n_chains += 1
        cut = family.index_masks(numbers)
        trips = prod([family.trips[k] for k in numbers])
        if outer is None:
            self.numbers: tuple[int, ...] = numbers
            self.groups: tuple[int, ...] = ()
            self.prefixes: tuple[Chain, ...] = (self,)
            self.mask, self.n_trips = cut, trips
        else:
            self.numbers = outer.numbers + numbers
            self.groups = (*outer.groups, cut)
            self.prefixes = (*outer.prefixes, self)
            self.mask, self.n_trips = outer.mask | cut, outer.n_trips * trips
        self.level = len(self.groups)
        self.grown: dict[int | tuple[int, ...], Chain] = {}
        self.places: dict[int, list[tuple[int, int, Chain | None]]] = {}
        self.traces: dict[int, tuple[int | tuple[int, ...], ...]] = {}
        self.sizes = Memo(self._bytes)
        self.least = Memo(self._least_bytes)
        self.costs = Memo(self._cost)

    def plus(self, number: int) -> Chain:
        """This chain with one more loop inside."""
        chain = self.grown.get(number)
        if chain is None:
            chain = self.grown[number] = Chain(self.family, self, (number,))
        return chain

    def plus_group(self, numbers: tuple[int, ...]) -> Chain:
        """This chain with a group of loops inside."""
        chain = self.grown.get(numbers)
        if chain is None:
            chain = self.grown[numbers] = Chain(self.family, self, numbers)
        return chain

    def trace(self, mask: int) -> tuple[int | tuple[int, ...], ...]:
        """What a value over the indices of a mask sees of this chain.

        Of a loop over another index only the trips count: chains with equal traces are the same
        to that value.
        """
        trace = self.traces.get(mask)
        if trace is None:
            trace = self.traces[mask] = tuple(self._seen(k, mask) for k in range(self.level))
        return trace

    def _seen(self, k: int, mask: int) -> int | tuple[int, ...]:
        family = self.family
        numbers = self.numbers[len(self.prefixes[k].numbers) : len(self.prefixes[k + 1].numbers)]
        seen = [number for number in numbers if family.indices[number] & mask]
        trips = prod(family.trips[number] for number in numbers if number not in seen)
        return (-trips, *seen) if seen else -trips

    def _bytes(self, mask: int) -> int:
        family, outer = self.family, self.outer
        if outer is None:
            return family.itemsize * prod([family.extents[i] for i in bits(mask)])
        size = outer.sizes[mask]
        for k in self.own:
            if mask & family.indices[k] and size:
                cut = family.cuts[k]
                size = size // family.extents[cut.index] * cut.width
        return size

    def _least_bytes(self, mask: int) -> int:
        size = self.sizes[mask]
        for index, width in self.family.finest.items():
            if mask & ~self.mask & 1 << index and size:
                size = size // self.family.extents[index] * width
        return size

    def _cost(self, mask: int) -> int:
        family, outer = self.family, self.outer
        if outer is None:
            return prod([family.extents[i] for i in bits(mask)]) * family.radix + family.calls
        macs = outer.costs[mask] - outer.n_trips * family.calls
        for k in self.own:
            if not mask & family.indices[k]:
                macs *= family.trips[k]
        return macs + self.n_trips * family.calls
