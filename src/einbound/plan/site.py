"""One state of the exact search while it is explored: the labels found so far.

Counts the bytes of every way to make a value, and keeps those that nothing found before is
better than. Which ways there are is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from einbound.plan.chains import Chain
from einbound.plan.labels import Item, Label, Made


@dataclass(slots=True)
class Site:
    """One state while it is explored.

    Attributes:
        chain: The loops around the production.
        once: Whether the production counts once, not with every evaluation.
        own: Bytes of the value.
        room: Cost at most.
        budget: Bytes at most.
        by_cost: Whether labels are compared by cost, too.
        found: The cheapest way to every kind of label so far.
        plain: Cost and bytes of those without escapes that no other of them beats, by cost.
    """

    chain: Chain
    once: bool
    own: int
    room: float
    budget: float
    by_cost: bool
    found: dict[tuple[int, tuple[Item, ...]], Label] = field(default_factory=dict)
    plain: list[tuple[int, int]] = field(default_factory=list)

    @property
    def n_around(self) -> int:
        """Number of groups of loops around the production."""
        return self.chain.level

    def most(self, cost: int) -> float:
        """Bytes at most that a label of at least this cost may have to be of interest."""
        for known, total in reversed(self.plain):
            if known <= cost or not self.by_cost:
                return min(self.budget, total - 1)
        return self.budget

    def keep(self, cost: int, items: Sequence[Item], temporary: int, made: Made) -> None:
        """Counts the bytes of one way, and keeps it if it is within the budget and new.

        Args:
            cost: Of all below.
            items: The values that wait for the product, sorted.
            temporary: Bytes that the product needs for itself.
            made: The way.
        """
        n_around, own = self.chain.level, self.own
        held = peak = outer = n_escapes = 0
        stored = False
        for level, rise, size in items:
            if level < n_around:
                n_escapes += 1
                outer += size
                continue
            # The value is there once the slot before its first loop is filled.
            if level > n_around and not stored:
                held += own
                stored = True
            held += size
            if held - rise > peak:
                peak = held - rise
        peak = max(peak, held + (0 if stored else own) + temporary)
        if peak + outer > self.most(cost):
            return
        escapes = tuple(items[:n_escapes])
        known = self.found.get((peak, escapes))
        if known is None or cost < known.cost:
            self.found[peak, escapes] = Label(cost, peak, outer, escapes, made)
            if not escapes:
                self._note(cost, peak)

    def _note(self, cost: int, total: int) -> None:
        """Remembers a label without escapes; unless `by_cost`, only the lowest one counts."""
        self.plain = [p for p in self.plain if p[1] < total or (self.by_cost and p[0] < cost)]
        self.plain.append((cost, total))
        self.plain.sort()
