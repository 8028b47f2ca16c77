"""Spaces of indices as callers give them, beside those that a text declares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from einbound.errors import EquationsError
from einbound.expr.equation_sums import LABEL
from einbound.expr.equations import Space
from einbound.expr.number import whole


def spaces_of(
    declared: tuple[Space, ...],
    *,
    spaces: Mapping[str, Any] | None = None,
    sizes: Mapping[str, Any] | None = None,
    tiles: Mapping[str, Any] | None = None,
) -> tuple[Space, ...]:
    """All spaces, with all that is said of them.

    Args:
        declared: Those of the text.
        spaces: Their indices by name, as text such as "i j k" or as a sequence of labels.
        sizes: Extents by the name of a space, or by an index that is in no space.
        tiles: By the same, the width of tiles or their boundaries.

    Raises:
        EquationsError: A space is given twice, or an extent that differs from the text's.
        TypeError: Something is of another type.

    Example:
        >>> for space in spaces_of((), spaces={"occ": "ijk"}, sizes={"occ": 4, "P": 9}):
        ...     print(space.name, space.labels, space.extent)
        occ ('i', 'j', 'k') 4
        P ('P',) 9
    """
    known = {space.name: space for space in declared}
    if len(known) < len(declared):
        # Spaces of one name: a rule says so, with the place.
        return declared
    for name, labels in _items(spaces, "spaces"):
        if name in known:
            raise EquationsError(
                f"space {name!r} is in spaces= and in the text; expected it once; leave one out"
            )
        known[name] = Space(name, _labels(name, labels))
    for name, extent in _items(sizes, "sizes"):
        space = _space(known, name, "sizes=")
        n = whole(extent, f"the extent of {name!r}")
        if n < 0:
            raise EquationsError(f"{name!r} has extent {n} in sizes=; expected 0 or more")
        if space.extent not in (None, n):
            raise EquationsError(
                f"{name!r} has extent {n} in sizes= and {space.extent} in the text; expected one"
            )
        known[space.name] = replace(space, extent=n)
    for name, given in _items(tiles, "tiles"):
        space = _space(known, name, "tiles=")
        known[space.name] = replace(space, tiles=_tiles(name, given))
    return tuple(known.values())


def _items(given: Any, what: str) -> Iterator[tuple[str, Any]]:
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"{what} is {given!r}; expected a mapping by space, such as {{'occ': ...}}")
    for name, value in (given or {}).items():
        if not isinstance(name, str):
            raise TypeError(f"{what} has the key {name!r}; expected the name of a space as text")
        yield name, value


def _labels(name: str, given: Any) -> tuple[str, ...]:
    """Labels from text, or from a sequence of texts."""
    pieces = [given] if isinstance(given, str) else given
    if not isinstance(pieces, Iterable) or not all(isinstance(each, str) for each in pieces):
        raise TypeError(
            f"space {name!r} is {given!r}; expected its indices, as text such as 'i j k' or as a "
            "sequence of labels"
        )
    labels: list[str] = []
    for word in (word for each in pieces for word in each.replace(",", " ").split()):
        found = LABEL.findall(word)
        if not found or "".join(found) != word:
            raise EquationsError(
                f"{word!r} of space {name!r} is no index; expected a letter, or a letter and digits"
            )
        labels += found
    if not labels:
        raise EquationsError(f"space {name!r} has no index; expected one or more")
    return tuple(labels)


def _space(known: Mapping[str, Space], name: str, where: str) -> Space:
    """The space that a name or a label stands for; a new one for a label that is in none."""
    if name in known:
        return known[name]
    if LABEL.fullmatch(name) is None:
        raise EquationsError(
            f"{name!r} in {where} is no space and no index; expected one of "
            f"{', '.join(map(repr, known)) or 'the indices'}"
        )
    for space in known.values():
        if name in space.labels or name[0] in space.labels:
            raise EquationsError(
                f"{name!r} in {where} is an index of space {space.name!r}; expected the name of "
                "the space, or an index that is in no space"
            )
    return Space(name, (name,))


def _tiles(name: str, given: Any) -> int | tuple[int, ...]:
    try:
        bounds = tuple(given)
    except TypeError:
        return whole(given, f"the width of the tiles of {name!r}")
    return tuple(whole(each, f"a boundary of the tiles of {name!r}") for each in bounds)
