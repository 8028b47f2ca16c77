"""The least time of kernels from what they compute and move: the roofline.

Counts come from floors and costs of kernels, peaks from limits or from fitted measurements
(`machine.calibration`). The model is that of Williams, Waterman and Patterson, "Roofline: an
insightful visual performance model", CACM 52(4), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from einbound.errors import MachineError
from einbound.machine.fields import rate
from einbound.machine.limits import HardwareLimits
from einbound.machine.precision import Precision


class Leg(StrEnum):
    """One of the two things that a kernel takes time for."""

    FLOPS = "flops"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Work:
    """What one kernel does; None: not known.

    Attributes:
        flops: Floating point operations, two per multiply-add.
        n_bytes: Bytes to and from memory.
    """

    flops: int | None = None
    n_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("flops", "n_bytes"):
            count = getattr(self, name)
            if count is not None and (type(count) is not int or count < 0):
                raise MachineError(
                    f"{name} of a kernel is {count!r}; expected a whole number of at least 0"
                )


@dataclass(frozen=True, slots=True)
class Peaks:
    """The highest rates of one processor; None: not known.

    Attributes:
        flops_per_second: Of floating point operations.
        bytes_per_second: Of memory.
    """

    flops_per_second: float | None = None
    bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        for name in ("flops_per_second", "bytes_per_second"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, rate(name, getattr(self, name)))

    def legs(self, work: Work) -> tuple[tuple[Leg, float], ...]:
        """Seconds of each leg whose count and peak are known."""
        pairs = (
            (Leg.FLOPS, work.flops, self.flops_per_second),
            (Leg.BYTES, work.n_bytes, self.bytes_per_second),
        )
        return tuple(
            (leg, _quotient(count, peak))
            for leg, count, peak in pairs
            if count is not None and peak is not None
        )

    def seconds(self, work: Work) -> float | None:
        """The least seconds of one kernel: its longer leg; None: no leg is known.

        Example:
            >>> Peaks(1e9, 1e9).seconds(Work(flops=2 * 10**9, n_bytes=10**9))
            2.0
        """
        return max((seconds for _, seconds in self.legs(work)), default=None)

    def binding(self, work: Work) -> Leg | None:
        """The longer leg; that of flops if they are equal; None: no leg is known."""
        legs = self.legs(work)
        return max(legs, key=lambda leg: leg[1])[0] if legs else None


def total_seconds(kernels: Iterable[Work], peaks: Peaks) -> float | None:
    """The least seconds of kernels that run one after the other; None: one has no known leg.

    Args:
        kernels: What each of them does.
        peaks: The rates of the processor.

    Example:
        >>> total_seconds([Work(flops=10**9), Work(n_bytes=10**9)], Peaks(1e9, 1e9))
        2.0
    """
    total = 0.0
    for work in kernels:
        seconds = peaks.seconds(work)
        if seconds is None:
            return None
        total += seconds
    return total


def peaks_of(
    limits: HardwareLimits,
    precision: Precision = Precision.FLOAT32,
    *,
    footprint_bytes: int | None = None,
    fitted: Peaks | None = None,
) -> Peaks:
    """The peaks that hold for a problem on a processor.

    A fitted rate goes before one of the limits. A problem that stays in a cache between runs is
    held against that cache, never against main memory, which it does not touch.

    Args:
        limits: The processor.
        precision: The format that is computed in.
        footprint_bytes: Distinct bytes of the problem; None: more than any cache.
        fitted: Rates that measurements have shown.

    Example:
        >>> from einbound.machine.gpu import A100
        >>> peaks_of(A100, footprint_bytes=2**40).bytes_per_second
        2039000000000.0
    """
    shown = fitted or Peaks()
    flops = shown.flops_per_second or limits.flops_of(precision)
    main = shown.bytes_per_second or limits.peak_memory_bandwidth
    cached = cache_rate(limits, footprint_bytes)
    if cached is None:
        return Peaks(flops, main)
    # A cache is no slower than what lies behind it.
    return Peaks(flops, max(cached, main or 0.0))


def cache_rate(limits: HardwareLimits, footprint_bytes: int | None) -> float | None:
    """Bytes per second, of all cores, out of the nearest cache that holds a footprint.

    None: no cache holds it.
    """
    if footprint_bytes is None:
        return None
    for level in limits.levels:
        if footprint_bytes <= level.bytes:
            return level.bytes_per_second * (limits.n_cores or 1)
    return None


def _quotient(count: int, per_second: float) -> float:
    # Counts of contractions can be larger than any float.
    try:
        return count / per_second
    except OverflowError:
        return math.inf
