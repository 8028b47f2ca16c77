"""Axis orders of the intermediates of a tree, so that their readers need no copies.

Every intermediate has one reader, so its order is that reader's to choose. From the result
down, a value gets [shared][free][summed] indices; then single values try the other orders of
these groups, and keep one that makes their producer and their reader cheaper together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from einbound.step.view import View
from einbound.step.way import Way, pair_way

Order = tuple[int, ...]

#: Seconds that one byte of a packed operand is held to cost beyond its copying time: it needs
#: memory that a limit may want for wider slices.
PACKED_BYTE_SECONDS = 0.5e-9
#: Ways that the second pass may price; a bound on its time, about 0.1 ms each.
MAX_PRICED = 1500
#: Last passes over all values, each of which must have improved something.
MAX_SWEEPS = 3


@dataclass(frozen=True, slots=True)
class LayoutProblem:
    """The values of a tree, as far as their layouts matter.

    Values are numbered as in a tree: operands first, then one per step.

    Attributes:
        steps: The two values that each step multiplies.
        carried: Indices of each value when it is read; an operand's own sums are done.
        extents: Of each value, the elements stored along each index.
        widths: Of each step, the elements along each index that one call sees.
        operands: Layouts of the operands as given.
        result: Layout of the result.
        work: Element type of stored values.
        looped: Of each value, the indices its reader slices inside loops, outermost first.
        calls: How often each step runs.
        buffer_bytes: Bound of each buffer of a step.
        streamed: The operands that are not in memory; each is read into a value of its own.
    """

    steps: tuple[tuple[int, int], ...]
    carried: tuple[Order, ...]
    extents: tuple[Mapping[int, int], ...]
    widths: tuple[Mapping[int, int], ...]
    operands: tuple[View, ...]
    result: View
    work: np.dtype
    looped: tuple[Order, ...]
    calls: tuple[int, ...]
    buffer_bytes: int
    streamed: frozenset[int] = frozenset()


def choose_layouts(problem: LayoutProblem) -> tuple[Order, ...]:
    """Axis order of every value, outermost first; operands read as given keep theirs.

    Law: on the shipped networks no bytes are left to copy where an order without copies
    exists (tests/test_layout.py).
    """
    choice = _Choice(problem)
    last = len(problem.steps) - 1
    for step in range(last, -1, -1):
        choice.derive(step)
    for step in range(last, -1, -1):
        for child in problem.steps[step]:
            if choice.is_free(child):
                choice.improve(child, step)
    n_sweeps = MAX_SWEEPS
    while n_sweeps and choice.settle():
        n_sweeps -= 1
    return tuple(choice.orders)


@dataclass(slots=True)
class _Choice:
    """Orders while they are being chosen."""

    problem: LayoutProblem
    orders: list[Order] = field(init=False)
    makers: dict[int, int] = field(init=False)
    ways: dict[tuple[int, Order, Order, Order], float] = field(default_factory=dict)
    n_priced: int = 0

    def __post_init__(self) -> None:
        problem = self.problem
        n_operands = len(problem.operands)
        self.orders = [*problem.carried]
        for value, view in enumerate(problem.operands):
            if not self.is_free(value):
                self.orders[value] = view.indices
        if problem.steps:
            self.orders[-1] = problem.result.indices
        self.makers = {n_operands + step: step for step in range(len(problem.steps))}

    def is_free(self, value: int) -> bool:
        """Whether a value is stored in an order of our choice when its reader sees it."""
        operands = self.problem.operands
        if value >= len(operands) or value in self.problem.streamed:
            return True
        return len(operands[value].indices) > len(self.problem.carried[value])

    def view(self, value: int, step: int) -> View:
        """The slice of a value that one call of `step` sees, in the order chosen so far."""
        problem = self.problem
        n_operands = len(problem.operands)
        if value < n_operands and not self.is_free(value):
            view = problem.operands[value]
        elif value == n_operands + len(problem.steps) - 1:
            view = problem.result
        else:
            order, extents = self.orders[value], problem.extents[value]
            view = View.contiguous(order, tuple(extents[i] for i in order), problem.work)
        return view.narrow(problem.widths[step])

    def derive(self, step: int) -> None:
        """Give the children of a step the orders that its own order asks for."""
        problem = self.problem
        for child in problem.steps[step]:
            if self.is_free(child):
                self.orders[child] = self.variants(child, step)[0]

    def variants(self, child: int, step: int) -> list[Order]:
        """Orders worth trying for one operand of a step, the usual one first."""
        problem = self.problem
        left, right = problem.steps[step]
        other = right if child == left else left
        value = len(problem.operands) + step
        mine, theirs = set(self.orders[child]), set(self.orders[other])
        above = self._by_stride(value, step)
        shared = [i for i in above if i in mine and i in theirs]
        free = [i for i in above if i in mine and i not in theirs]
        summed = [i for i in self._sum_order(child, other) if i in mine and i not in set(above)]
        if not summed:
            return [self._outward(child, [i for i in above if i in mine])]
        h, f, k = (self._outward(child, group) for group in (shared, free, summed))
        tried = [h + f + k, h + k + f, f + h + k, k + h + f]
        return list(dict.fromkeys(tried))

    def improve(self, child: int, step: int) -> None:
        """Keep the order of one operand that makes its producer and its reader cheapest."""
        tried = self.variants(child, step)
        below = self.makers.get(child)
        kept = self.orders[child]
        best = self.seconds(step) + self._seconds_below(below)
        for order in tried:
            if order == kept or self.n_priced > MAX_PRICED:
                continue
            before = self._restore_point(child, below)
            self.orders[child] = order
            if below is not None:
                self.derive(below)
            seconds = self.seconds(step)
            if seconds < best:
                seconds += self._seconds_below(below)
            if seconds < best:
                best = seconds
            else:
                for value, old in before:
                    self.orders[value] = old

    def settle(self) -> bool:
        """Try the orders of every value once more with all others fixed; whether one improved."""
        improved = False
        for step, children in enumerate(self.problem.steps):
            for child in children:
                if self.is_free(child):
                    improved |= self._settle_one(child, step)
        return improved

    def _settle_one(self, child: int, step: int) -> bool:
        below = self.makers.get(child)
        before = kept = self.orders[child]
        best = self.seconds(step) + self._seconds_below(below)
        for order in self.variants(child, step):
            if self.n_priced > MAX_PRICED:
                break
            self.orders[child] = order
            seconds = self.seconds(step)
            if seconds < best:
                seconds += self._seconds_below(below)
            if seconds < best * (1 - 1e-9):
                best, kept = seconds, order
        self.orders[child] = kept
        return kept != before

    def seconds(self, step: int) -> float:
        """What all calls of a step cost in the orders chosen so far."""
        problem = self.problem
        left, right = problem.steps[step]
        value = len(problem.operands) + step
        key = (step, self.orders[left], self.orders[right], self.orders[value])
        known = self.ways.get(key)
        if known is None:
            self.n_priced += 1
            way = self.way(step)
            known = way.seconds + PACKED_BYTE_SECONDS * way.copied_bytes
            self.ways[key] = known = known * problem.calls[step]
        return known

    def way(self, step: int) -> Way:
        """How a step is done in the orders chosen so far."""
        problem = self.problem
        left, right = problem.steps[step]
        return pair_way(
            self.view(left, step),
            self.view(right, step),
            self.view(len(problem.operands) + step, step),
            problem.work,
            accumulate=False,
            buffer_bytes=problem.buffer_bytes,
        )

    def _seconds_below(self, below: int | None) -> float:
        return 0.0 if below is None else self.seconds(below)

    def _restore_point(self, child: int, below: int | None) -> list[tuple[int, Order]]:
        values = [child] if below is None else [child, *self.problem.steps[below]]
        return [(value, self.orders[value]) for value in values]

    def _by_stride(self, value: int, step: int) -> Order:
        """The indices of a value, outermost first as they lie in memory."""
        view = self.view(value, step)
        places = sorted(range(len(view.indices)), key=lambda p: -abs(view.strides[p]))
        return tuple(view.indices[p] for p in places)

    def _sum_order(self, child: int, other: int) -> Sequence[int]:
        """An operand whose order the summed indices follow: given ones first, then the larger."""
        problem = self.problem
        for value in (other, child):
            if not self.is_free(value):
                view = problem.operands[value]
                places = sorted(range(len(view.indices)), key=lambda p: -abs(view.strides[p]))
                return [view.indices[p] for p in places]
        larger = max(child, other, key=lambda v: (prod(problem.extents[v].values()), v))
        return problem.carried[larger]

    def _outward(self, child: int, group: Sequence[int]) -> Order:
        """A group of indices with those that loops slice put first."""
        looped = [i for i in self.problem.looped[child] if i in group]
        return (*looped, *(i for i in group if i not in looped))
