"""Ordered chains of loops, with the sizes and repetitions that they cause.

A chain is a prefix of every longer one; each is made once, so that what was computed for it
is found again. Nothing here knows trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod

from einbound.expr.network import Network
from einbound.plan.masks import bits, mask_of
from einbound.plan.tree import Cut, trips

_Function = Callable[[tuple[int, ...], int], int]


class Memo(dict[int, int]):
    """What a function says of one set of loops and a mask of indices, each computed once.

    Attributes:
        make: The function.
        loops: The loops.
    """

    __slots__ = ("loops", "make")

    def __init__(self, make: _Function, loops: tuple[int, ...]) -> None:
        super().__init__()
        self.make = make
        self.loops = loops

    def __missing__(self, mask: int) -> int:
        value = self[mask] = self.make(self.loops, mask)
        return value


@dataclass(frozen=True, slots=True)
class Slices:
    """What loops make of sizes and costs: the same in every order, so all chains share it.

    Attributes:
        sizes: Bytes of a slice that carries the indices of a mask.
        least: The same if every further index is cut as finely as possible.
        costs: Cost of a product over the indices of a mask, all trips together, without a toll.
    """

    sizes: Memo
    least: Memo
    costs: Memo


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
        n_chains: How many chains were made.
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
        self._slices: dict[int, Slices] = {}
        self.n_chains = 0

    @cached_property
    def root(self) -> Chain:
        """The chain without loops."""
        return Chain(self, None, ())

    def index_masks(self, numbers: Iterable[int]) -> int:
        """The indices that some loops cut."""
        mask = 0
        for k in numbers:
            mask |= self.indices[k]
        return mask

    def slices(self, loops: int, numbers: tuple[int, ...]) -> Slices:
        """What some loops make of sizes and costs.

        Args:
            loops: The loops as a mask.
            numbers: The same in any order.
        """
        slices = self._slices.get(loops)
        if slices is None:
            memos = (Memo(make, numbers) for make in (self._bytes, self._least_bytes, self._cost))
            slices = self._slices[loops] = Slices(*memos)
        return slices

    def forget(self) -> None:
        """Lets go of all chains, which hold each other, so that they need no garbage collector.

        Chains made from then on are new ones.
        """
        stack = [self.root]
        while stack:
            chain = stack.pop()
            stack += chain.grown.values()
            chain.grown.clear()
            chain.places.clear()
        self._slices.clear()
        self._over.clear()
        self.n_chains = 0
        del self.root

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

    def _bytes(self, loops: tuple[int, ...], mask: int) -> int:
        if not loops:
            return self.itemsize * prod([self.extents[i] for i in bits(mask)])
        size = self.root.sizes[mask]
        for k in loops:
            if mask & self.indices[k] and size:
                cut = self.cuts[k]
                size = size // self.extents[cut.index] * cut.width
        return size

    def _least_bytes(self, loops: tuple[int, ...], mask: int) -> int:
        size, uncut = self._bytes(loops, mask), mask & ~self.index_masks(loops)
        for index, width in self.finest.items():
            if uncut >> index & 1 and size:
                size = size // self.extents[index] * width
        return size

    def _cost(self, loops: tuple[int, ...], mask: int) -> int:
        if not loops:
            return prod([self.extents[i] for i in bits(mask)]) * self.radix + self.calls
        macs, calls = self.root.costs[mask] - self.calls, self.calls
        for k in loops:
            calls *= self.trips[k]
            if not mask & self.indices[k]:
                macs *= self.trips[k]
        return macs + calls


class Chain:
    """Loops around a production, outermost first, in groups with nothing in between.

    Attributes:
        family: All chains over the same loops.
        outer: The chain without the innermost group; None: this one has no loops.
        numbers: The loops, as positions in the cuts of the family.
        loops: The same as a mask.
        number: Position of this chain among all that were made.
        mask: The indices that are cut.
        cut: Those that the innermost group cuts.
        level: Number of groups.
        sizes: Bytes of a slice that carries the indices of a mask.
        least: The same if every further index is cut as finely as possible.
        costs: Cost of a product over the indices of a mask, all trips together, without a toll.
        grown: The chains with one more group, by their loops.
        places: Of a half of a product inside this chain: the levels at which it can be made, the
            bytes it then holds, and the chain to make it in; filled by whoever searches.
    """

    __slots__ = (
        "_traces",
        "costs",
        "cut",
        "family",
        "grown",
        "least",
        "level",
        "loops",
        "mask",
        "number",
        "numbers",
        "outer",
        "places",
        "sizes",
    )

    def __init__(self, family: Chains, outer: Chain | None, numbers: tuple[int, ...]) -> None:
        self.family = family
        self.outer = outer
        self.number = family.n_chains
        family.n_chains += 1
        self.cut = family.index_masks(numbers)
        self.loops = mask_of(numbers)
        if outer is None:
            self.numbers, self.mask, self.level = numbers, self.cut, 0
        else:
            self.numbers = outer.numbers + numbers
            self.mask, self.level = outer.mask | self.cut, outer.level + 1
            self.loops |= outer.loops
        slices = family.slices(self.loops, self.numbers)
        self.sizes, self.least, self.costs = slices.sizes, slices.least, slices.costs
        self.grown: dict[int | tuple[int, ...], Chain] = {}
        self.places: dict[int, tuple[tuple[int, int, Chain | None], ...]] = {}
        self._traces: dict[int, tuple[int | tuple[int, ...], ...]] | None = None

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

    def prefix(self, level: int) -> Chain:
        """The chain of the first groups only.

        Args:
            level: How many.
        """
        chain = self
        while chain.level > level and chain.outer is not None:
            chain = chain.outer
        return chain

    def trace(self, mask: int) -> tuple[int | tuple[int, ...], ...]:
        """What a value over the indices of a mask sees of this chain.

        Of a loop over another index only the trips count: chains with equal traces are the same
        to that value.
        """
        if self.outer is None:
            return ()
        if self._traces is None:
            self._traces = {}
        trace = self._traces.get(mask)
        if trace is None:
            own = self.numbers[len(self.outer.numbers) :]
            trace = self._traces[mask] = (*self.outer.trace(mask), self._seen(own, mask))
        return trace

    def _seen(self, own: tuple[int, ...], mask: int) -> int | tuple[int, ...]:
        family = self.family
        seen = [number for number in own if family.indices[number] & mask]
        trips = prod(family.trips[number] for number in own if number not in seen)
        return (-trips, *seen) if seen else -trips
