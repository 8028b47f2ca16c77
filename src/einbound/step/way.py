"""The choice of how one step is done: the cheapest blocked form whose buffers fit their bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import inf, prod
from operator import itemgetter
from typing import Protocol

import numpy as np

from einbound.step import pricing
from einbound.step.blocked import Core, Way
from einbound.step.blocking import Widths, pack_order, product_order
from einbound.step.estimate import (
    core_seconds,
    hidden_bytes,
    n_elements,
    passing_seconds,
    way_seconds,
)
from einbound.step.form import Form, check_form, forms, is_taken
from einbound.step.pair import A, B, C, Group, Pair, nests
from einbound.step.pricing import DEFAULT_BUFFER_BYTES
from einbound.step.view import View

__all__ = ["DEFAULT_BUFFER_BYTES", "PairWays", "Way", "pair_way", "sum_way"]

#: No buffer is asked to be smaller than this.
LEAST_BUFFER_BYTES = 64
#: A way on views this close to the ideal product ends the search.
GOOD_ENOUGH = 1.25
#: A way with larger buffers must take at most this share of the time.
WORTH = 0.8
#: c_einsum knows so many labels.
MAX_EINSUM_AXES = 52
ALL = frozenset({A, B, C})
PACKINGS = (frozenset[int](), frozenset({A}), frozenset({B}), frozenset({A, B}))


class PairWays(Protocol):
    """What chooses ways to multiply; `pair_way`, or a choice of kernels on top of it."""

    def __hash__(self) -> int:
        """What is planned with it is remembered by it."""

    def __call__(
        self, a: View, b: View, c: View, work: np.dtype, *, accumulate: bool, buffer_bytes: int
    ) -> Way:
        """The way to write or add into `c` the product of `a` and `b`."""


@lru_cache(maxsize=4096)
def pair_way(
    a: View, b: View, c: View, work: np.dtype, *, accumulate: bool, buffer_bytes: int
) -> Way:
    """The way to write or add into `c` the product of `a` and `b`.

    Indices that `c` lacks are summed; each of them is in both operands. Strides may be anything.

    Args:
        a: Layout of the first operand's slice.
        b: Layout of the second operand's slice.
        c: Layout of the destination's slice.
        work: Element type of products and sums; operands of another type are cast.
        accumulate: Whether the product is added to what `c` holds.
        buffer_bytes: Bound of each buffer; below 64 it counts as 64.

    Returns:
        A way with `workspace_bytes` of at most three times the bound.

    Law: `workspace_bytes` is what a run takes at once (tests/test_numpy_step.py).
    """
    pair = Pair.of(a, b, c, work)
    if _is_fill(pair):
        return _fill(pair, accumulate)
    task = _Task(pair, accumulate, max(buffer_bytes, LEAST_BUFFER_BYTES))
    if not pair.groups[Group.SUM]:
        return task.multiply()
    best = task.best()
    if best.core is Core.MATMUL:
        check_form(pair, best.form, best.fixed)
    return best


def sum_way(a: View, c: View, work: np.dtype, *, accumulate: bool, buffer_bytes: int) -> Way:
    """The way to write or add into `c` the sum of `a` over the indices that `c` lacks.

    Without such an index it is a copy, in another axis order or type if need be.

    Args:
        a: Layout of the operand's slice.
        c: Layout of the destination's slice.
        work: Element type of sums.
        accumulate: Whether the sum is added to what `c` holds.
        buffer_bytes: Bound of each buffer; below 64 it counts as 64.
    """
    pair = Pair.of(a, None, c, work)
    if _is_fill(pair):
        return _fill(pair, accumulate)
    task = _Task(pair, accumulate, max(buffer_bytes, LEAST_BUFFER_BYTES))
    return task.reduce() if pair.groups[Group.SUM] else task.copy()


def _is_fill(pair: Pair) -> bool:
    return pair.n_sums == 0 or pair.c.n_elements == 0


def _fill(pair: Pair, accumulate: bool) -> Way:
    return Way(pair, Core.FILL, Form((), (), (), ()), accumulate=accumulate)


@dataclass(frozen=True, slots=True)
class _Task:
    """One step whose way is looked for."""

    pair: Pair
    accumulate: bool
    room: int

    def best(self) -> Way:
        """The cheapest way to sum something; ways without buffers come first and win ties."""
        ideal = self.ideal_seconds()
        floor = ideal + (self.copying_seconds(frozenset({C})) if self.accumulate else 0.0)
        best = None
        for packed, fixed in self.arrangements():
            copying = self.copying_seconds(ALL - fixed)
            if ideal + copying >= _most_seconds(best, packed):
                continue
            ranked = [(self.matmul_seconds(form, fixed), form) for form in forms(self.pair, fixed)]
            for seconds, form in sorted(ranked, key=itemgetter(0)):
                if seconds + copying >= _most_seconds(best, packed):
                    break
                best = _cheaper(best, self.matmul(form, packed, fixed))
            if best is not None and best.seconds <= GOOD_ENOUGH * floor:
                return best
        return self.best_without_matrix(None if best is None else self.reordered(best))

    def reordered(self, best: Way) -> Way:
        """`best`, or the same with another axis of its batch outermost.

        NumPy goes through a batch in the order of the destination, whatever an operand that
        lacks the outermost axis must be fetched for again and again.
        """
        axes, form = self.pair.axes, best.form
        packed = frozenset(buffer.side for buffer in best.packs)
        for i in form.batch[1:]:
            if axes[i].group is not Group.BATCH:
                way = self._blocked(Core.MATMUL, form, packed, best.always, outermost=i)
                best = _cheaper(best, way)
        return best

    def best_without_matrix(self, best: Way | None) -> Way:
        """`best`, or a cheaper way that takes no matrix product."""
        pair = self.pair
        sums = pair.groups[Group.SUM]
        looped = Form(pair.carried[C], (), (), (), sums)
        if best is None or self.call_seconds(Core.MULTIPLY, looped, ALL) < best.seconds:
            best = _cheaper(best, self._blocked(Core.MULTIPLY, looped, frozenset(), False))
        whole = Form(pair.carried[C], (), (), sums)
        if self.call_seconds(Core.EINSUM, whole, ALL) < best.seconds:
            best = _cheaper(best, self.einsum(whole))
        return best

    def ideal_seconds(self) -> float:
        """Seconds of one product without copies, batch where all three arrays have an index."""
        pair = self.pair
        rows, columns = pair.groups[Group.ROW], pair.groups[Group.COLUMN]
        form = Form(pair.groups[Group.BATCH], rows, columns, pair.groups[Group.SUM])
        return self.matmul_seconds(form, frozenset())

    def arrangements(self) -> Iterator[tuple[frozenset[int], frozenset[int]]]:
        """Which operands to pack and which arrays to use as they are, from little to much."""
        pair = self.pair
        ready = frozenset(side for side in (A, B, C) if pair.is_ready(side))
        is_direct = C in ready and not self.accumulate
        for packed in PACKINGS:
            if {A, B} - packed <= ready:
                if is_direct:
                    yield packed, ALL - packed
                yield packed, ALL - packed - {C}

    def copying_seconds(self, sides: frozenset[int]) -> float:
        """Least seconds to pack operands or to stage the destination, once each."""
        pair, size = self.pair, self.pair.work.itemsize
        seconds = len(sides) * pricing.CALL_SECONDS
        for side in sides - {C}:
            n = n_elements(pair, side)
            seconds += pricing.copy_seconds(n, n, size, total=n)
        if C in sides:
            n = pair.c.n_elements
            seconds += pricing.staged_seconds(n, n, size, total=n)
            seconds += pricing.scatter_seconds(pair.c.nbytes)
        return seconds

    def call_seconds(self, core: Core, form: Form, fixed: frozenset[int]) -> float:
        """Seconds of the calls of a form alone, without the costs of blocks."""
        widths = Widths.of(self.pair, form)
        n_trips = prod([self.pair.axes[i].extent for i in form.looped])
        return n_trips * core_seconds(core, widths, fixed)

    def matmul_seconds(self, form: Form, fixed: frozenset[int]) -> float:
        """The same of a matrix product, with what passes the caches once."""
        passing = passing_seconds(Widths.of(self.pair, form), fixed)
        return passing + self.call_seconds(Core.MATMUL, form, fixed)

    def matmul(self, form: Form, packed: frozenset[int], fixed: frozenset[int]) -> Way:
        """A matrix product on the arrays `fixed` where they lie and the others in buffers."""
        always = C not in fixed and not _can_hold(self.pair, form)
        return self._blocked(Core.MATMUL, form, packed, always)

    def multiply(self) -> Way:
        """Products of elements on broadcast views; nothing is summed."""
        form = Form(self.pair.carried[C], (), (), ())
        return self._blocked(Core.MULTIPLY, form, frozenset(), False)

    def einsum(self, form: Form) -> Way | None:
        """NumPy's own einsum, if the buffers that it may take are within the bound."""
        pair = self.pair
        if pair.work.hasobject or len(pair.axes) > MAX_EINSUM_AXES:
            return None
        packed = frozenset(side for side in (A, B) if not pair.is_ready(side))
        way = self._blocked(Core.EINSUM, form, packed, not pair.is_ready(C))
        return way if way.workspace_bytes <= 3 * self.room else None

    def reduce(self) -> Way:
        """A sum of one operand."""
        pair = self.pair
        form = Form(pair.carried[C], (), (), pair.groups[Group.SUM])
        always = pair.c.dtype != pair.work
        return self._blocked(Core.REDUCE, form, frozenset(), always)

    def copy(self) -> Way:
        """A copy, or an addition in place."""
        form = Form(self.pair.carried[C], (), (), ())
        return self._blocked(Core.COPY, form, frozenset(), False)

    def _blocked(
        self,
        core: Core,
        form: Form,
        packed: frozenset[int],
        always: bool,
        outermost: int | None = None,
    ) -> Way:
        pair = self.pair
        size = pair.work.itemsize
        widths = Widths.of(pair, form, outermost)
        orders = [(side, pack_order(pair, form, side)) for side in sorted(packed)]
        for _, order in orders:
            widths.fit(order, self.room // size)
        is_cut = any(
            axis.group is Group.SUM and width < axis.extent
            for axis, width in zip(pair.axes, widths.widths, strict=True)
        )
        has_total = is_cut and pair.c.dtype != pair.work
        adds = is_cut or (self.accumulate and core is not Core.COPY)
        product = total = None
        if adds or always:
            order = product_order(pair, form)
            is_long = widths.size(form.sums) >= pricing.LONG_SUM_TERMS
            room = self.room if is_long else min(self.room, pricing.ACCUMULATE_BYTES)
            widths.fit(order, room // (2 if has_total else 1) // size)
            product = widths.buffer(C, order)
            total = product if has_total else None
        packs = tuple(widths.buffer(side, order) for side, order in orders)
        hidden = hidden_bytes(core, widths)
        taken = sum(x.n_bytes for x in (*packs, product, total) if x is not None)
        way = Way(
            pair,
            core,
            form,
            widths.blocks(),
            packs,
            product,
            total,
            always,
            self.accumulate,
            hidden,
            taken + hidden,
        )
        return replace(way, seconds=way_seconds(way, widths))


def _cheaper(best: Way | None, way: Way | None) -> Way:
    """The faster of two ways; more memory must be worth its while."""
    if best is None or way is None:
        kept = best or way
        assert kept is not None, "one way always exists"
        return kept
    needs_more = way.workspace_bytes > best.workspace_bytes
    return way if way.seconds < best.seconds * (WORTH if needs_more else 1) else best


def _most_seconds(best: Way | None, packed: frozenset[int]) -> float:
    """Seconds that a way with such buffers must stay below to be chosen."""
    if best is None:
        return inf
    return best.seconds * (WORTH if packed and not best.workspace_bytes else 1)


def _can_hold(pair: Pair, form: Form) -> bool:
    """Whether c can take the matrices of a form where it lies, should nothing be added."""
    axes = pair.axes
    nested = all(
        nests(axes[outer], axes[inner], (C,))
        for run in (form.rows, form.columns)
        for outer, inner in pairwise(run)
    )
    return nested and pair.is_ready(C) and is_taken(pair, form, C)
