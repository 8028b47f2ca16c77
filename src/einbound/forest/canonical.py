"""Names that products and sums of products keep when their indices and parts are renamed.

Colours of the indices are refined by the places in which these stand until nothing changes (as in
McKay, Congressus Numerantium 30, 1981, 45-87); what is still alike is told apart in every way, and
the least name counts. So equal names are isomorphic inputs, and the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

#: One tensor, or anything else that stands at indices: what it is, and the index of each axis.
Atom: TypeAlias = tuple[str, tuple[int, ...]]

#: Marks of the indices in their order, then the atoms, sorted, their indices as places there.
Key: TypeAlias = tuple[tuple[int, ...], tuple[Atom, ...]]

_Ranks: TypeAlias = dict[int, int]


@dataclass(frozen=True, slots=True)
class Canonical:
    """The name of some atoms, and the orders of the indices that show it.

    Attributes:
        key: Equal for two inputs if and only if indices can be renamed, marks kept, and atoms
            reordered so that one becomes the other.
        orders: All orders of the indices in which the input reads like the key; two of them differ
            by a symmetry of the input.
    """

    key: Key
    orders: tuple[tuple[int, ...], ...]


def canonical(atoms: Sequence[Atom], marks: Mapping[int, int]) -> Canonical:
    """The canonical form of atoms whose indices have no names.

    The time grows with the number of symmetries, since all their orders are returned.

    Args:
        atoms: What stands at which indices.
        marks: For each index, a number that it keeps; only indices of one mark are exchanged.

    Example:
        >>> one = canonical([("A", (7, 4)), ("B", (4, 9))], {7: 1, 4: 0, 9: 1})
        >>> two = canonical([("B", (2, 1)), ("A", (3, 2))], {1: 1, 2: 0, 3: 1})
        >>> one.key == two.key, one.orders, two.orders
        (True, ((4, 7, 9),), ((2, 3, 1),))
    """
    names = sorted(set(marks.values()))
    start = {index: names.index(mark) for index, mark in marks.items()}
    best: Key | None = None
    orders: list[tuple[int, ...]] = []
    for ranks in _discrete(atoms, _refined(atoms, start)):
        order = tuple(sorted(ranks, key=ranks.__getitem__))
        key = (
            tuple(marks[index] for index in order),
            tuple(sorted((name, tuple(ranks[i] for i in indices)) for name, indices in atoms)),
        )
        if best is None or key < best:
            best, orders = key, [order]
        elif key == best:
            orders.append(order)
    assert best is not None, "every refinement ends"
    return Canonical(best, tuple(orders))


def _discrete(atoms: Sequence[Atom], ranks: _Ranks) -> Iterator[_Ranks]:
    """All ways to tell apart what refinement leaves alike."""
    by_rank = sorted(ranks, key=ranks.__getitem__)
    for _, group in groupby(by_rank, ranks.__getitem__):
        alike = list(group)
        if len(alike) > 1:
            break
    else:
        yield ranks
        return
    for chosen in alike:
        told = {index: 2 * rank + 1 for index, rank in ranks.items()}
        told[chosen] -= 1
        yield from _discrete(atoms, _refined(atoms, told))


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
