"""An axis of many sizes as halves of halves, made only where somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from einbound.kernels.decisions import Axis, LatticeBox
from einbound.kernels.site import Site
from einbound.kernels.verdicts import Node, Verdict, choice
from einbound.space.tree import Child

Open = Callable[[Site], Verdict]


@dataclass(frozen=True, slots=True)
class Refinement:
    """How one axis is cut into boxes.

    Attributes:
        axis: What its boxes are called.
        values: The sizes, ascending.
        judge: The verdict on a box, from its least size: what is broken there is broken in all
            of it. The last argument goes on below, for the site or one with a policy lifted.
        single: What follows one size.
    """

    axis: Axis
    values: Sequence[int]
    judge: Callable[[Site, int, Open], Verdict]
    single: Callable[[Site, int], Verdict]

    def root(self, site: Site) -> Node:
        """All sizes; a single one is a choice of one."""
        last = len(self.values) - 1
        return self._split(site, 0, last) if last else choice([self._box(site, 0, 0)])

    def _split(self, site: Site, lo: int, hi: int) -> Node:
        middle = (lo + hi) // 2
        return choice([self._box(site, lo, middle), self._box(site, middle + 1, hi)])

    def _box(self, site: Site, lo: int, hi: int) -> tuple[LatticeBox, Verdict]:
        def below(site: Site) -> Verdict:
            if lo == hi:
                return self.single(site, self.values[lo])
            return Child(lambda: self._split(site, lo, hi))

        box = LatticeBox(self.axis, self.values[lo], self.values[hi])
        return box, self.judge(site, self.values[lo], below)


def multiples(step: int, extent: int) -> range:
    """The multiples of a step up to an extent."""
    return range(step, extent + 1, step)
