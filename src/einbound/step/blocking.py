"""Widths of the blocks that make every buffer of a way fit its bound, and the loops' order."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from einbound.step.blocked import Block, Buffer
from einbound.step.form import Form
from einbound.step.pair import CARRIERS, C, Group, Pair

#: Below so many rows, columns or terms a matrix product gets slow; cut there only if one must.
FLOOR = 64


@dataclass
class Widths:
    """Width of every axis of a step while its blocks are being chosen."""

    pair: Pair
    form: Form
    widths: list[int]
    outermost: int | None = None

    @classmethod
    def of(cls, pair: Pair, form: Form, outermost: int | None = None) -> Widths:
        """Whole axes, but for those that a form leaves to loops, and one that comes before all."""
        looped = {*form.looped, outermost}
        widths = [1 if i in looped else axis.extent for i, axis in enumerate(pair.axes)]
        return cls(pair, form, widths, outermost)

    def size(self, order: tuple[int, ...]) -> int:
        """Elements of a block of an array with these axes."""
        return prod([self.widths[i] for i in order])

    def fit(self, order: tuple[int, ...], max_elements: int) -> None:
        """Narrow blocks until an array with these axes has at most `max_elements` in one.

        Batch axes give way first, then rows, columns and sums down to `FLOOR`, then below it.
        """
        if self.size(order) <= max_elements:
            return
        form = self.form
        phases = [(tuple(i for i in form.batch if i in order), 1)]
        sides = [run for run in (form.rows, form.columns, form.sums) if set(run) <= set(order)]
        phases += [(run, FLOOR) for run in sides] + [(run, 1) for run in sides]
        for run, floor in phases:
            for at, i in enumerate(run):
                excess = -(-self.size(order) // max(max_elements, 1))
                if excess <= 1:
                    return
                least = -(-floor // self.size(run[at + 1 :]))
                self._narrow(i, max(self.widths[i] // excess, min(least, self.widths[i]), 1))

    def _narrow(self, i: int, width: int) -> None:
        """Cut into equal blocks of at most `width`."""
        extent = self.pair.axes[i].extent
        self.widths[i] = -(-extent // -(-extent // width))

    def blocks(self) -> tuple[Block, ...]:
        """The loops, outermost first; sums innermost, so that the block of c stays in cache."""
        rank = {Group.BATCH: 0, Group.ROW: 1, Group.COLUMN: 2, Group.SUM: 3}
        axes = self.pair.axes
        cut = [i for i, axis in enumerate(axes) if self.widths[i] < axis.extent]
        cut.sort(key=lambda i: (i != self.outermost, rank[axes[i].group]))
        return tuple(Block(i, self.widths[i]) for i in cut)

    def buffer(self, side: int, order: tuple[int, ...]) -> Buffer:
        """The buffer of a full block."""
        extents = tuple(self.widths[i] for i in order)
        return Buffer(side, order, extents, prod(extents) * self.pair.work.itemsize)


def pack_order(pair: Pair, form: Form, side: int) -> tuple[int, ...]:
    """The axis order of a packed operand: batch, then a matrix whose inner side copies best."""
    axes = pair.axes
    first, second = form.matrix(side)
    batch = sorted(
        (i for i in (*form.batch, *form.looped) if side in CARRIERS[axes[i].group]),
        key=lambda i: -abs(axes[i].strides[side]),
    )
    nearest = min((*first, *second), key=lambda i: abs(axes[i].strides[side]), default=None)
    inner, outer = (first, second) if nearest in first else (second, first)
    return (*batch, *outer, *inner)


def product_order(pair: Pair, form: Form) -> tuple[int, ...]:
    """The axis order of a block of c in a buffer: c's own as far as a matrix allows."""
    axes = pair.axes
    rows, columns = form.rows, form.columns
    nearest = min((*rows, *columns), key=lambda i: abs(axes[i].strides[C]), default=None)
    inner, outer = (rows, columns) if nearest in rows else (columns, rows)
    return (*form.batch, *outer, *inner)
