"""Names that products and sums of products keep when their indices and parts are renamed.

Colours of the indices are refined by the places in which these stand until nothing changes (as in
McKay, Congressus Numerantium 30, 1981, 45-87); what is still alike is told apart in every way that
no symmetry makes of another, and the least name counts. So equal names are isomorphic inputs, and
the other way round.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

#: One tensor, or anything else that stands at indices: what it is, and the index of each axis.
Atom: TypeAlias = tuple[str, tuple[int, ...]]

#: Marks of the indices in their order, then the atoms, sorted, their indices as places there.
Key: TypeAlias = tuple[tuple[int, ...], tuple[Atom, ...]]

_Ranks: TypeAlias = dict[int, int]


@dataclass(frozen=True, slots=True)
class Canonical:
    """The name of some atoms, and an order of the indices that shows it.

    Attributes:
        key: Equal for two inputs if and only if indices can be renamed, marks kept, and atoms
            reordered so that one becomes the other.
        order: The indices in an order in which the input reads like the key.
        symmetries: Renamings of indices that leave the input as it is, and all such renamings
            are made of them.
    """

    key: Key
    order: tuple[int, ...]
    symmetries: tuple[Mapping[int, int], ...]

    def orders(self, indices: Container[int], most: int) -> tuple[tuple[int, ...], ...]:
        """All orders of some indices in which the input reads like the key.

        Args:
            indices: Those of one or more marks.
            most: If there are more orders, only one of them is returned.
        """
        first = tuple(i for i in self.order if i in indices)
        found = {first: None}
        stack = [first]
        while stack:
            order = stack.pop()
            for renamed in self.symmetries:
                other = tuple(renamed[i] for i in order)
                if other not in found:
                    found[other] = None
                    stack.append(other)
            if len(found) > most:
                return (first,)
        return tuple(found)


def canonical(atoms: Sequence[Atom], marks: Mapping[int, int]) -> Canonical:
    """The canonical form of atoms whose indices have no names.

    Args:
        atoms: What stands at which indices.
        marks: For each index, a number that it keeps; only indices of one mark are exchanged.

    Example:
        >>> one = canonical([("A", (7, 4)), ("B", (4, 9))], {7: 1, 4: 0, 9: 1})
        >>> two = canonical([("B", (2, 1)), ("A", (3, 2))], {1: 1, 2: 0, 3: 1})
        >>> one.key == two.key, one.order, two.order
        (True, (4, 7, 9), (2, 3, 1))
    """
    names = sorted(set(marks.values()))
    search = _Search(atoms, marks)
    search.explore(_refined(atoms, {index: names.index(mark) for index, mark in marks.items()}))
    key = min(search.leaves)
    return Canonical(key, search.leaves[key], tuple(search.symmetries))


@dataclass
class _Search:
    """All ways to tell indices apart, except those that a symmetry makes of others."""

    atoms: Sequence[Atom]
    marks: Mapping[int, int]
    leaves: dict[Key, tuple[int, ...]] = field(default_factory=dict)
    symmetries: list[dict[int, int]] = field(default_factory=list)

    def explore(self, ranks: _Ranks) -> None:
        """Enter all leaves below a refinement."""
        alike = _alike(ranks)
        if not alike:
            key, order = self._leaf(ranks)
            self.leaves[key] = order
        for n, chosen in enumerate(alike):
            told = self._told(ranks, chosen)
            # If one leaf below is known, all are, by the symmetry between the two.
            if n == 0 or not self._is_known(told):
                self.explore(told)

    def _is_known(self, ranks: _Ranks) -> bool:
        while alike := _alike(ranks):
            ranks = self._told(ranks, alike[0])
        key, order = self._leaf(ranks)
        known = self.leaves.get(key)
        if known is not None:
            self.symmetries.append(dict(zip(known, order, strict=True)))
        return known is not None

    def _told(self, ranks: _Ranks, chosen: int) -> _Ranks:
        told = {index: 2 * rank + 1 for index, rank in ranks.items()}
        told[chosen] -= 1
        return _refined(self.atoms, told)

    def _leaf(self, ranks: _Ranks) -> tuple[Key, tuple[int, ...]]:
        order = tuple(sorted(ranks, key=ranks.__getitem__))
        atoms = sorted((name, tuple(ranks[i] for i in indices)) for name, indices in self.atoms)
        return (tuple(self.marks[index] for index in order), tuple(atoms)), order


def _alike(ranks: _Ranks) -> list[int]:
    """The first indices that refinement leaves alike, if any."""
    by_rank = sorted(ranks, key=ranks.__getitem__)
    groups = (list(group) for _, group in groupby(by_rank, ranks.__getitem__))
    return next((group for group in groups if len(group) > 1), [])


def _refined(atoms: Sequence[Atom], ranks: _Ranks) -> _Ranks:
    """Ranks that tell apart indices that stand differently among the ranks given.

    An index's rank is the number of indices before its class, so that ranks of classes of one
    index are places in the order.
    """
    ranks, n_classes = _ranked({index: (rank, ()) for index, rank in ranks.items()})
    while n_classes < len(ranks):
        seen: dict[int, list[tuple[str, tuple[int, ...], int]]] = {index: [] for index in ranks}
        for name, indices in atoms:
            colours = tuple(ranks[i] for i in indices)
            for axis, i in enumerate(indices):
                seen[i].append((name, colours, axis))
        finer, n_finer = _ranked({i: (ranks[i], tuple(sorted(seen[i]))) for i in ranks})
        if n_finer == n_classes:
            break
        ranks, n_classes = finer, n_finer
    return ranks


def _ranked(looks: Mapping[int, tuple[int, tuple[object, ...]]]) -> tuple[_Ranks, int]:
    ranks: _Ranks = {}
    classes = 0
    for _, group in groupby(sorted(looks, key=looks.__getitem__), looks.__getitem__):
        first = len(ranks)
        ranks.update(dict.fromkeys(group, first))
        classes += 1
    return ranks, classes
