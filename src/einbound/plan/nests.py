"""Loops and production levels of one order, as the search changes them.

Levels are wishes here; `frame` turns them into numbers of open loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from einbound.plan.tree import Cut


class Hoist(Enum):
    """How far out of the loops around its reader a value is produced."""

    #: Out of every loop that it has nothing to do with.
    FREE = "free"
    #: Inside all loops: recomputed where a loop repeats it, but held as shortly as possible.
    INSIDE = "inside"
    #: Out of loops over indices that it carries, too: made in full and read in slices.
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Nests:
    """Loops and production levels for one order.

    Attributes:
        opens: The loops that each step opens, outermost first.
        hoists: How far out each step's value is produced: by a rule, or the indices of the
            innermost loops around its reader that it is made outside of, as a mask.
    """

    opens: tuple[tuple[Cut, ...], ...]
    hoists: tuple[Hoist | int, ...]

    @classmethod
    def none(cls, n_steps: int) -> Nests:
        """No loops."""
        return cls(((),) * n_steps, (Hoist.FREE,) * n_steps)

    def places(self) -> tuple[tuple[int, int], ...]:
        """(step, position) of every loop."""
        return tuple((s, p) for s, opens in enumerate(self.opens) for p in range(len(opens)))

    def with_opens(self, step: int, opens: tuple[Cut, ...]) -> Nests:
        """These nests with another nest at one step."""
        return Nests((*self.opens[:step], opens, *self.opens[step + 1 :]), self.hoists)

    def with_hoist(self, step: int, hoist: Hoist | int) -> Nests:
        """These nests with another production level at one step."""
        return Nests(self.opens, (*self.hoists[:step], hoist, *self.hoists[step + 1 :]))

    def with_cut(self, place: tuple[int, int], cut: Cut) -> Nests:
        """These nests with another loop at one place."""
        step, position = place
        opens = self.opens[step]
        return self.with_opens(step, (*opens[:position], cut, *opens[position + 1 :]))

    def without(self, place: tuple[int, int]) -> Nests:
        """These nests without one loop."""
        step, position = place
        opens = self.opens[step]
        return self.with_opens(step, (*opens[:position], *opens[position + 1 :]))
