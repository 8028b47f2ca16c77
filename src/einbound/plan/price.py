"""What an order costs under its loops, and what it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from math import log


@dataclass(frozen=True, slots=True)
class Limit:
    """Bytes that a plan may use, operands not counted; None: any number.

    Attributes:
        peak_bytes: Result and everything else alive at once.
        workspace_bytes: What is neither operand nor result.
    """

    peak_bytes: int | None
    workspace_bytes: int | None

    def less(self, n_bytes: int) -> Limit:
        """The limit with `n_bytes` set aside."""
        peak, workspace = self.peak_bytes, self.workspace_bytes
        return Limit(
            None if peak is None else peak - n_bytes,
            None if workspace is None else workspace - n_bytes,
        )


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes that one order needs under one choice of nests.

    Attributes:
        peak_bytes: Most bytes of intermediates, temporaries and result alive at once.
        workspace_bytes: The same without the result.
    """

    peak_bytes: int
    workspace_bytes: int

    def fits(self, limit: Limit) -> bool:
        """Whether both limits hold."""
        return self.over_bytes(limit) <= 0

    def over_bytes(self, limit: Limit) -> int:
        """Bytes above the limit; 0 if it fits."""
        over = 0
        if limit.peak_bytes is not None:
            over = max(over, self.peak_bytes - limit.peak_bytes)
        if limit.workspace_bytes is not None:
            over = max(over, self.workspace_bytes - limit.workspace_bytes)
        return over


@dataclass(frozen=True, slots=True)
class Price:
    """Counts of one order under one choice of nests.

    Attributes:
        space: The bytes it needs.
        macs: Multiply-adds over all trips.
        calls: Pairwise products that run.
        seconds: Rough time on a nominal machine; only ranks plans.
        live: Of each step, the (peak, workspace) bytes alive when it multiplies.
    """

    space: Space
    macs: int
    calls: int
    seconds: float
    live: tuple[tuple[int, int], ...]

    @property
    def key(self) -> tuple[int, float, int, int]:
        """What plans that fit are compared by."""
        return self.macs, self.seconds, self.calls, self.space.peak_bytes

    def excess(self, limit: Limit) -> float:
        """Sum over all steps of the log by which what is alive there passes the limit.

        Falls with every value that is made smaller, also while the peak is elsewhere.
        """
        total = 0.0
        for peak, workspace in self.live:
            over = max(
                peak / max(limit.peak_bytes, 1) if limit.peak_bytes is not None else 0.0,
                workspace / max(limit.workspace_bytes, 1)
                if limit.workspace_bytes is not None
                else 0.0,
            )
            if over > 1.0:
                total += log(over)
        return total
