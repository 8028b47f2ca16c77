"""Peaks that measurements have shown, and measurements that contradict peaks.

Pure functions of readings. Fitted peaks are demonstrated rates, not certified maxima: a faster
kernel may still be found, which is why disagreement is looked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from numbers import Real

from einbound.errors import MachineError
from einbound.machine.readings import Reading
from einbound.machine.roofline import Leg, Peaks, Work

#: Peaks are written with six decimals and times are rounded down to nanoseconds; raised by this
#: share, a peak is not passed by the very row that it was taken from.
BUMP = 2e-6


@dataclass(frozen=True, slots=True)
class FittedPeak:
    """The highest rate of one leg.

    Attributes:
        per_second: The rate, raised by slack, bump and margin.
        row: The measurement that shows it.
    """

    per_second: float
    row: Reading


@dataclass(frozen=True, slots=True)
class Fit:
    """The peaks of one backend.

    Attributes:
        backend: Which one.
        flops: Of floating point operations; None: no exact count was measured.
        bytes: Of memory; None: no exact count was measured.
        slack: What both were multiplied by, so that runs of several kernels keep to them.
        n_rows: Readings that were used.
    """

    backend: str
    flops: FittedPeak | None
    bytes: FittedPeak | None
    slack: float
    n_rows: int

    @property
    def peaks(self) -> Peaks:
        """The rates alone."""
        return Peaks(
            self.flops.per_second if self.flops else None,
            self.bytes.per_second if self.bytes else None,
        )


def fit(rows: Iterable[Reading], *, margin: float = 0.0) -> tuple[Fit, ...]:
    """The peaks of every backend, in the order in which backends first appear.

    Args:
        rows: Readings; opaque ones and those without a time are left out.
        margin: Share by which peaks are raised, as headroom for kernels not yet measured.

    Raises:
        MachineError: The margin is negative or no number.

    Law: no exact count over its time passes a fitted peak (tests/test_calibration.py).

    Example:
        >>> row = Reading(backend="c", digest="d", measured_ms=1.0, flops=10**6, bytes=0)
        >>> round(fit([row])[0].peaks.flops_per_second)
        1000002000
    """
    if not isinstance(margin, Real) or not 0 <= margin < math.inf:
        raise MachineError(f"margin is {margin!r}; expected a share of at least 0, such as 0.1")
    by_backend: dict[str, list[Reading]] = {}
    for row in rows:
        if not row.opaque and row.seconds > 0:
            by_backend.setdefault(row.backend, []).append(row)
    return tuple(_fitted(name, found, margin) for name, found in by_backend.items())


def _fitted(backend: str, rows: list[Reading], margin: float) -> Fit:
    flops = _highest(rows, lambda work: work.flops)
    n_bytes = _highest(rows, lambda work: work.n_bytes)
    slack = 1.0
    if flops and n_bytes:
        slack = _slack(rows, Peaks(flops.per_second, n_bytes.per_second))
    factor = slack * (1 + BUMP) * (1 + margin)
    return Fit(backend, _raised(flops, factor), _raised(n_bytes, factor), slack, len(rows))


def _highest(rows: list[Reading], count: Callable[[Work], int | None]) -> FittedPeak | None:
    shown = [(found / row.seconds, row) for row in rows if (found := count(row.exact))]
    if not shown:
        return None
    return FittedPeak(*max(shown, key=lambda each: each[0]))


def _slack(rows: list[Reading], peaks: Peaks) -> float:
    """The factor that lets the bound of every run of several kernels be kept; at least 1.

    Only the sums over a run are known; that the bound of a run is at most the sum of both legs
    holds however its kernels share them.
    """
    sums = [
        sum(seconds for _, seconds in peaks.legs(row.exact)) / row.seconds
        for row in rows
        if row.kernels > 1 and len(peaks.legs(row.exact)) == len(Leg)
    ]
    return max([1.0, *sums])


def _raised(peak: FittedPeak | None, factor: float) -> FittedPeak | None:
    return peak and FittedPeak(peak.per_second * factor, peak.row)


class Accord(StrEnum):
    """What a measurement says about peaks."""

    AGREES = "agrees"
    DIAGNOSTIC = "diagnostic"
    VIOLATION = "violation"


@dataclass(frozen=True, slots=True)
class Agreement:
    """One measurement held against peaks.

    Attributes:
        row: The measurement.
        accord: A violation if exact counts pass the peaks; a diagnostic if only counts do that
            are not exact.
        implied: The least peaks with which the measurement could be.
    """

    row: Reading
    accord: Accord
    implied: Peaks


def agreement(row: Reading, peaks: Peaks, bound_seconds: float | None = None) -> Agreement:
    """What a measurement says about the peaks that kernels are bounded by.

    Args:
        row: The measurement; its time must be above 0.
        peaks: The rates that nothing should pass.
        bound_seconds: The bound of the whole run; None: the roofline of its sums, which for
            several kernels is lower than the sum of their own.

    Raises:
        MachineError: The measurement has no time.

    Example:
        >>> row = Reading(backend="c", digest="d", measured_ms=1.0, flops=10**6, bytes=0)
        >>> agreement(row, Peaks(1e8)).accord, agreement(row, Peaks(1e8)).implied.flops_per_second
        (<Accord.VIOLATION: 'violation'>, 1000000000.0)
    """
    if row.seconds <= 0:
        raise MachineError(f"measured_ms is {row.measured_ms}; expected a time above 0")
    every = Work(row.flops, row.bytes)
    exact = row.exact
    bound = 0.0 if bound_seconds is None else bound_seconds
    is_exact = exact == every
    factor = max(1.0, bound / row.seconds)
    if _passes(exact, peaks, row.seconds) or (is_exact and factor > 1):
        accord, meant = Accord.VIOLATION, exact
    elif _passes(every, peaks, row.seconds) or factor > 1:
        accord, meant = Accord.DIAGNOSTIC, every
    else:
        accord, meant = Accord.AGREES, exact
    return Agreement(row, accord, _implied(meant, peaks, row.seconds, factor))


def disagreements(
    rows: Iterable[Reading], peaks_of: Callable[[str], Peaks | None]
) -> tuple[Agreement, ...]:
    """The first violation and the first diagnostic of every backend and digest.

    Args:
        rows: Readings; those without a time are left out.
        peaks_of: The peaks of a backend; None: it has none, and nothing can be said.
    """
    found: dict[tuple[str, str, Accord], Agreement] = {}
    for row in rows:
        peaks = peaks_of(row.backend)
        if peaks is None or row.seconds <= 0:
            continue
        seen = agreement(row, peaks)
        if seen.accord is not Accord.AGREES:
            found.setdefault((row.backend, row.digest, seen.accord), seen)
    return tuple(found.values())


def _passes(work: Work, peaks: Peaks, seconds: float) -> bool:
    return any(least > seconds for _, least in peaks.legs(work))


def _implied(work: Work, peaks: Peaks, seconds: float, factor: float) -> Peaks:
    """The least peaks that allow this; a leg that allows it already stays as it is."""

    def least(count: int | None, peak: float | None) -> float | None:
        if peak is None or count is None:
            return peak
        return max(peak * factor, count / seconds)

    return Peaks(
        least(work.flops, peaks.flops_per_second), least(work.n_bytes, peaks.bytes_per_second)
    )
