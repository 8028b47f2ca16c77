"""Tiles as callers write them: a width, or boundaries, for some labels.

What trips are made of whole tiles is settled in `plan.grid`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from einbound.api.handwritten import index_of
from einbound.errors import PlanError
from einbound.expr.network import Network
from einbound.expr.number import whole


def parsed_tiles(tiles: Mapping[Any, Any] | None, network: Network) -> tuple[tuple[int, ...], ...]:
    """Of each index, the boundaries of its tiles, from 0 to its extent; empty: it has none.

    Args:
        tiles: For a label, the width of its tiles, of which the last may be narrower, or their
            boundaries; these may start above 0, as the numbers of a sub-range of indices do.
        network: What is contracted.

    Raises:
        PlanError: A label is not in the expression, or a width or boundary does not fit its index.
        TypeError: A width or a boundary is no integer.
    """
    edges: list[tuple[int, ...]] = [()] * len(network.extents)
    if tiles is None:
        return tuple(edges)
    if not isinstance(tiles, Mapping):
        raise TypeError(
            f"tiles is {tiles!r} of type {type(tiles).__name__}; expected a mapping of labels to "
            "a width or to boundaries, such as {'a': 4} or {'a': (0, 3, 6, 9)}"
        )
    for label, given in tiles.items():
        index = index_of(network, label, "tiles are given for")
        edges[index] = tile_edges(label, given, network.extents[index])
    return tuple(edges)


def tile_edges(label: Hashable, given: Any, extent: int) -> tuple[int, ...]:
    """Boundaries from 0 to the extent of an index; none where every element is a tile.

    Args:
        label: The index, for messages.
        given: The width of its tiles, or their boundaries.
        extent: Its elements.

    Raises:
        PlanError: A width or boundary does not fit the index.
        TypeError: One is no integer.
    """
    if isinstance(given, (Sequence, np.ndarray)) and not isinstance(given, str) and np.ndim(given):
        edges = _from_bounds(label, tuple(given), extent)
    else:
        edges = _from_width(label, whole(given, f"the width of the tiles of {label!r}"), extent)
    return () if len(edges) == extent + 1 else edges


def _from_width(label: Hashable, width: int, extent: int) -> tuple[int, ...]:
    if width < 1:
        raise PlanError(
            f"the tiles of {label!r} have width {width}; expected a width of at least 1"
        )
    return () if width == 1 else (*range(0, extent, width), extent)


def _from_bounds(label: Hashable, given: tuple[Any, ...], extent: int) -> tuple[int, ...]:
    bounds = tuple(whole(each, f"a boundary of the tiles of {label!r}") for each in given)
    if not bounds:
        raise PlanError(
            f"the tiles of {label!r} have no boundaries; expected where each starts, and the end"
        )
    for start, stop in pairwise(bounds):
        if start >= stop:
            raise PlanError(
                f"the tiles of {label!r} have boundary {stop} after {start}; "
                "boundaries must rise strictly"
            )
    if bounds[-1] - bounds[0] != extent:
        raise PlanError(
            f"the tiles of {label!r} cover {bounds[-1] - bounds[0]} elements, from {bounds[0]} to "
            f"{bounds[-1]}; {label!r} has extent {extent}"
        )
    return tuple(bound - bounds[0] for bound in bounds)
