"""Labels of the exact search: what a way to produce a value costs, and which way is no worse.

A label says what everybody outside must know of one production: its cost, its own peak, and
the values from below that were made outside the chain's inner loops and are held until those
end. Nothing here knows networks.
"""

from __future__ import annotations

from typing import NamedTuple

#: A value that waits in a slot: number of groups of loops open when it is made, bytes it holds
#: minus bytes it takes while it is made, bytes it holds. In the order of these numbers the peak
#: is least: of the values of one slot, first those that free most after being made.
Item = tuple[int, int, int]


class Made(NamedTuple):
    """How a label came about.

    Attributes:
        left: One half of the operands below.
        opens: The loops it opens, as positions in a family of chains.
        grouped: Whether they are one group; else each is its own.
        levels: Groups of loops open when each half is produced.
        parts: The labels of the halves.
    """

    left: int
    opens: tuple[int, ...]
    grouped: bool
    levels: tuple[int, int]
    parts: tuple[Label, Label]


class Label(NamedTuple):
    """One way to produce a value inside a chain of loops.

    Attributes:
        cost: Multiply-adds of all below over all trips, times a radix, plus calls or tolls.
        peak: Most bytes alive during one production, values made further out not counted.
        held: Bytes of the values made further out.
        escapes: Those values, sorted.
        made: Where it came from; None for an operand.
    """

    cost: int
    peak: int
    held: int
    escapes: tuple[Item, ...]
    made: Made | None

    @property
    def total(self) -> int:
        """Bytes alive during the production: values made further out are held all along."""
        return self.peak + self.held


#: An operand: nothing to do and no bytes.
OPERAND = Label(0, 0, 0, (), None)


def nondominated(labels: list[Label], *, cost_matters: bool) -> list[Label]:
    """The labels that no other one replaces, cheapest first.

    One replaces another if it costs no more, if no more is alive during its production, and if
    its escapes fit into the other's: then nothing outside ever sees more bytes.

    Args:
        labels: Ways to produce one value inside one chain.
        cost_matters: False: only bytes count, and the label of least peak comes first.
    """
    if cost_matters:
        labels.sort(key=lambda label: (label.cost, label.total, label.held, label.escapes))
    else:
        labels.sort(key=lambda label: (label.total, label.held, label.escapes, label.cost))
    kept: list[Label] = []
    least: int | None = None
    for label in labels:
        # One without escapes replaces all that come later and are not lower.
        if least is not None and label.total >= least:
            continue
        total, held, escapes = label.peak + label.held, label.held, label.escapes
        # What fits into others holds no more than they do.
        if any(
            k.held <= held and k.peak + k.held <= total and fit(k.escapes, escapes) for k in kept
        ):
            continue
        kept.append(label)
        if not label.escapes:
            least = label.total
    return kept


def fit(items: tuple[Item, ...], into: tuple[Item, ...]) -> bool:
    """Whether the items can take the places of different items that hold no less.

    In one slot the other item needs at least the same peak. A value may also take the place of
    one that is made further out, if its peak is within what that one holds by then.

    Merged pairs of (peak, held) are not enough once three values wait in one slot: only a
    matching item by item keeps the order of production open.
    """
    if not items or items == into:
        return True
    if len(items) > len(into):
        return False
    places = list(into)
    for level, rise, held in sorted(items, key=lambda item: item[1] - item[2]):
        able = [place for place in places if _takes(place, level, held - rise, held)]
        if not able:
            return False
        places.remove(min(able, key=lambda place: (place[2], place[0], place[1])))
    return True


def _takes(place: Item, level: int, peak: int, held: int) -> bool:
    if place[0] == level:
        return held <= place[2] and peak <= place[2] - place[1]
    return place[0] < level and peak <= place[2]


def spread(labels: list[Label], n_kept: int) -> list[Label]:
    """At most `n_kept` of the labels, spread evenly over their bytes, both ends included."""
    if len(labels) <= n_kept:
        return labels
    order = sorted(range(len(labels)), key=lambda k: (labels[k].total, k))
    last = len(order) - 1
    chosen = sorted({order[i * last // max(n_kept - 1, 1)] for i in range(n_kept)})
    return [labels[k] for k in chosen]
