"""Every program of a small network, with evaluations, tolls, streamed operands, uneven trips.

What `brute.py` enumerates, priced further; the recursion here is over its nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from brute import Loop, Node, Programs
from einbound.plan.masks import mask_of
from einbound.plan.problem import Instant, Problem
from einbound.plan.tree import trips


@dataclass(frozen=True)
class Priced:
    """What one program costs.

    Attributes:
        weighted: Multiply-adds in all evaluations.
        toll: What decides between equal ones.
        peak: Most bytes alive.
        macs: Multiply-adds in one evaluation.
    """

    weighted: int
    toll: int
    peak: int
    macs: int


class WeightedPrograms(Programs):
    """The programs that a problem admits."""

    def __init__(self, problem: Problem) -> None:
        """The programs; no two loops of a problem may agree in index and width."""
        self.problem = problem
        self.cut_of = {(cut.index, cut.width): cut for cut in problem.options}
        super().__init__(problem.network, problem.itemsize, tuple(self.cut_of), pairs_loop=True)
        self.operands = [
            replace(node, stored=node.stored or k in problem.streamed)
            for k, node in enumerate(self.operands)
        ]

    def trips(self, loop: Loop) -> int:
        return trips(self.cut_of[loop], self.network)

    def produced(self, node: Node, around: tuple[Loop, ...]) -> tuple[int, int]:
        (number, *others) = node.operands
        if others or number not in self.problem.streamed:
            return super().produced(node, around)
        own, widths = self.size(node, around), dict(around)
        indices = self.network.inputs[number]
        block = self.itemsize * prod(widths.get(i, self.extents[i]) for i in indices)
        return own + block, own

    def changes(self, node: Node) -> bool:
        """Whether a volatile operand is below."""
        return bool(node.operands & self.problem.volatile)

    def admitted(self, node: Node) -> bool:
        """Whether only values open loops that may."""
        if self.problem.persistent_only and node.opens and self.changes(node):
            return False
        return all(self.admitted(child) for child in node.children)

    def weighted(self, node: Node, around: tuple[Loop, ...] = (), once: bool = False) -> int:
        """Multiply-adds of a node and all below in all evaluations."""
        if not node.children:
            return 0
        once = once or (not around and not self.changes(node))
        inside = (*around, *node.opens)
        below = sum(self.weighted(child, inside[: child.level], once) for child in node.children)
        alone = replace(node, children=tuple(replace(c, children=()) for c in node.children))
        return below + self.macs(alone, around) * (1 if once else self.problem.iterations)

    def tolls(self, node: Node, around: tuple[Loop, ...] = (), once: bool = False) -> Iterator[int]:
        """The toll of every product at and below a node."""
        if not node.children:
            return
        once = once or (not around and not self.changes(node))
        inside = (*around, *node.opens)
        evaluations = 1 if once else self.problem.iterations
        if self.problem.toll is None:
            yield evaluations * prod(self.trips(loop) for loop in inside)
        else:
            # The half with the lowest operand is the left one.
            left, right = sorted(node.children, key=lambda child: min(child.operands))
            yield self.problem.toll.price(
                Instant(
                    mask_of(left.carried),
                    mask_of(right.carried),
                    mask_of(node.carried),
                    tuple(self.cut_of[loop] for loop in around),
                    tuple(self.cut_of[loop] for loop in node.opens),
                    (mask_of(left.operands), mask_of(right.operands)),
                    evaluations,
                )
            )
        for child in node.children:
            yield from self.tolls(child, inside[: child.level], once)

    def priced(self) -> list[Priced]:
        """All programs that are admitted."""
        return [
            Priced(self.weighted(node), sum(self.tolls(node)), self.peak(node), self.macs(node))
            for node in self.all()
            if self.admitted(node)
        ]
