"""How each index may be cut: into elements or whole tiles, as the planner likes or in one way.

A target is an upper bound of the elements per trip; a trip is made of whole tiles, and a tile
that is larger than the target is a trip of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

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

    @property
    def is_fixed(self) -> bool:
        """Whether no width is left to the planner."""
        return all(mode.target is not None for mode in self.modes if mode.admitted)

    @property
    def admitted(self) -> int:
        """The indices that may be cut, as a mask."""
        return sum(1 << i for i, mode in enumerate(self.modes) if mode.admitted)

    def cut(self, index: int, n_trips: int) -> Cut:
        """The loop over an index in about so many trips, or as it is settled.

        A loop whose width is the extent is none.
        """
        mode = self.modes[index]
        target = -(-mode.extent // max(n_trips, 1)) if mode.target is None else mode.target
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
    starts = [edges[0]]
    for here, following in pairwise(edges[1:]):
        if following - starts[-1] > target:
            starts.append(here)
    bounds = (*starts, edges[-1])
    widths = [stop - start for start, stop in pairwise(bounds)]
    is_even = all(width == widths[0] for width in widths[:-1]) and widths[-1] <= widths[0]
    return Cut(index, max(*widths, 1), () if is_even else bounds)
