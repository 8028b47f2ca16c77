"""How each index may be cut: into elements or whole tiles, as the planner likes or in one way.

A target is an upper bound of the elements per trip; a trip is made of whole tiles, and a tile
that is larger than the target is a trip of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from einbound.expr.network import Network
from einbound.plan.tree import Cut


@dataclass(frozen=True, slots=True)
class Mode:
    """How one index may be cut.

    Attributes:
        extent: Its elements.
        edges: Boundaries of its tiles, 0 first and the extent last; empty: every element is one.
        admitted: Whether it may be cut at all.
        target: Most elements of a trip if that is settled; None: the planner's choice.
    """

    extent: int
    edges: tuple[int, ...] = ()
    admitted: bool = True
    target: int | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """The loops that there may be.

    Attributes:
        modes: How each index of a network may be cut, by number.
    """

    modes: tuple[Mode, ...]

    @classmethod
    def free(cls, network: Network) -> Grid:
        """Every index may be cut anywhere."""
        return cls(tuple(Mode(extent) for extent in network.extents))

    @classmethod
    def with_tiles(cls, network: Network, edges: Sequence[tuple[int, ...]]) -> Grid:
        """Every index may be cut between its tiles.

        Args:
            network: What is contracted.
            edges: Of each index, the boundaries of its tiles; empty: every element is one.
        """
        modes = zip(network.extents, edges, strict=True)
        return cls(tuple(Mode(extent, tiles) for extent, tiles in modes))

    @property
    def is_fixed(self) -> bool:
        """Whether no width is left to the planner."""
        return all(mode.target is not None for mode in self.modes if mode.admitted)

    @property
    def admitted(self) -> int:
        """The indices that may be cut, as a mask."""
        return sum(1 << i for i, mode in enumerate(self.modes) if mode.admitted)

    def cut(self, index: int, n_trips: int) -> Cut:
        """The loop over an index in at most so many trips, or as it is settled.

        Of the loops that need no more trips it is the one with the smallest target. A loop whose
        width is the extent is none.
        """
        mode, n_trips = self.modes[index], max(n_trips, 1)
        if mode.target is not None:
            return self.within(index, mode.target)
        if mode.edges:
            return self.within(index, _balanced(mode.edges, n_trips))
        return self.within(index, -(-mode.extent // n_trips))

    def within(self, index: int, target: int) -> Cut:
        """The loop over an index with at most `target` elements per trip, or one tile."""
        mode = self.modes[index]
        return cut_of(index, mode.extent, mode.edges, target)

    def finest(self, index: int) -> Cut:
        """The loop over an index with the narrowest slices."""
        return self.cut(index, self.modes[index].extent)

    def options(self, n_trips: Iterable[int]) -> tuple[Cut, ...]:
        """The loops over all admitted indices in these numbers of trips, without repetition.

        Args:
            n_trips: Numbers of trips; one that an index is too short for gives its finest loop.
        """
        counts = tuple(n_trips)
        cuts = [
            self.cut(index, min(n, max(mode.extent, 1)))
            for index, mode in enumerate(self.modes)
            if mode.admitted
            for n in counts
        ]
        return tuple(dict.fromkeys(cut for cut in cuts if cut.width < self.modes[cut.index].extent))


def cut_of(index: int, extent: int, edges: Sequence[int], target: int) -> Cut:
    """The loop over whole tiles with at most `target` elements per trip.

    Args:
        index: Number of the index.
        extent: Its elements.
        edges: Boundaries of its tiles; empty: every element is one.
        target: Most elements of a trip; one larger tile still makes a trip.
    """
    target = max(target, 1)
    if not edges:
        return Cut(index, min(target, max(extent, 1)))
    return Cut.between(index, (0, *_ends(edges, target)))


def _ends(edges: Sequence[int], target: int) -> Iterator[int]:
    """Where trips end that take as many tiles as fit in `target`, and at least one each."""
    place, last = 0, len(edges) - 1
    while place < last:
        place = max(bisect_right(edges, edges[place] + target) - 1, place + 1)
        yield edges[place]


@lru_cache(maxsize=4096)
def _balanced(edges: tuple[int, ...], n_trips: int) -> int:
    """The smallest target with which tiles are joined to at most `n_trips` trips."""
    if n_trips >= len(edges) - 1:
        return 1
    # A larger target never takes more trips: every trip then ends at the same tile or later. A
    # trip too many is enough to know, where tiles are many.
    low, high = 1, edges[-1]
    while low < high:
        target = (low + high) // 2
        if next(islice(_ends(edges, target), n_trips, None), None) is None:
            high = target
        else:
            low = target + 1
    return low
