"""How long a search may go on: leaves, or seconds by the caller's clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real

from einbound.errors import SpaceError
from einbound.space.number import INFINITY


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """When a search stops; whichever is reached first.

    Attributes:
        leaves: Leaves whose score is asked at most; None: all.
        seconds: Seconds by `clock` after which no further node is entered; None: no end. What is
            open by then is still bounded once, so that the gap is as small as the bounds allow.
        clock: Comes back with seconds since any moment, `time.perf_counter` for example.

    Example:
        >>> Limit(leaves=100).leaves
        100
    """

    leaves: int | None = None
    seconds: float | None = None
    clock: Callable[[], float] | None = None

    def __post_init__(self) -> None:
        if self.leaves is not None and not _is_count(self.leaves):
            raise SpaceError(f"limit of {self.leaves!r} leaves; expected a whole number from 0 on")
        if self.seconds is None:
            return
        # A comparison that nan fails, too.
        if not isinstance(self.seconds, Real) or not self.seconds >= 0:
            raise SpaceError(f"limit of {self.seconds!r} seconds; expected a number from 0 on")
        if not callable(self.clock):
            given = "without a clock" if self.clock is None else f"with clock {self.clock!r}"
            raise SpaceError(
                f"limit of {self.seconds} seconds {given}; "
                "give clock=, time.perf_counter for example"
            )


class Allowance:
    """What is left of a limit while a search runs."""

    __slots__ = ("_clock", "_end", "_n_leaves")

    def __init__(self, limit: Limit | None) -> None:
        limit = Limit() if limit is None else limit
        if not isinstance(limit, Limit):
            raise SpaceError(
                f"limit is {limit!r}; expected Limit(leaves=...), "
                "Limit(seconds=..., clock=...) or None"
            )
        self._n_leaves = INFINITY if limit.leaves is None else limit.leaves
        self._clock = limit.clock if limit.seconds is not None else None
        self._end = self._now() + (limit.seconds or 0) if self._clock else INFINITY

    def covers(self, *, leaf: bool) -> bool:
        """Whether one more node may be entered; a leaf uses one up."""
        if self._clock is not None and self._now() >= self._end:
            return False
        if leaf:
            self._n_leaves -= 1
        return self._n_leaves >= 0

    def _now(self) -> float:
        assert self._clock is not None, "time is limited by a clock only"
        now = self._clock()
        if not isinstance(now, Real) or now != now:
            raise SpaceError(
                f"the clock of the limit shows {now!r}; expected seconds, such as "
                "time.perf_counter tells"
            )
        return now


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0
