"""The only clock: how long candidates take beside each other, and how far that can be trusted.

What is measured, and what becomes of it, is decided elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median, quantiles

#: Rounds in which a thread got less of its core than this: the machine was busy.
_FREE_SHARE = 0.9
#: Share of such rounds from which on a timing is called contended.
_CONTENDED_SHARE = 0.5
#: Standard errors of a median within which two equal candidates are expected.
_ERRORS = 2.0
#: The standard error of a median of n normal samples is 1.253 sigma / sqrt(n), and sigma is the
#: distance between the quartiles over 1.349.
_ERROR_OF_QUARTILES = 1.253 / 1.349
#: Smaller differences are not worth an entry, however quiet the machine is.
LEAST_NOISE = 0.005


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds since any moment, as everybody sees them and as this thread used its core.

    Attributes:
        wall: Seconds that pass.
        cpu: Seconds that this thread computes.
    """

    wall: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.thread_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How often candidates are run.

    Attributes:
        warmup: Runs of each that are not timed.
        rounds: Timed rounds, each with one sample of every candidate.
        sample_seconds: What one sample takes at least: short candidates run several times.
        most_runs: Runs of one sample at most.
    """

    warmup: int = 2
    rounds: int = 11
    sample_seconds: float = 2e-3
    most_runs: int = 10_000


@dataclass(frozen=True, slots=True)
class Timing:
    """What rounds showed of one candidate.

    Attributes:
        samples: Seconds of one run, round by round.
        n_runs: Runs of each sample.
        contended: Whether something else used the core most of the time.
    """

    samples: tuple[float, ...]
    n_runs: int
    contended: bool = False

    @property
    def seconds(self) -> float:
        """The median."""
        return median(self.samples)

    @property
    def spread(self) -> float:
        """Distance between the quartiles as a share of the median.

        Example:
            >>> Timing((1.0, 3.0, 4.0, 5.0, 9.0), 1).spread
            0.5
        """
        return _spread(self.samples)


@dataclass(frozen=True, slots=True)
class Ratio:
    """One candidate over another in the same rounds.

    Attributes:
        value: The median of the rounds' ratios.
        error: How far from 1 that may be for equal candidates, as a share.
    """

    value: float
    error: float


def measure(
    candidates: Sequence[Callable[[], object]],
    rounds: Rounds | None = None,
    clock: Clock | None = None,
    *,
    n_threads: int = 1,
) -> tuple[Timing, ...]:
    """The timings of several candidates, run in turns so that drifts meet all of them alike.

    A candidate of one thread is timed by what that thread computes, others by the wall.

    Args:
        candidates: What is run, each without arguments.
        rounds: How often; None: the usual.
        clock: What tells seconds; None: this machine's.
        n_threads: Threads that a candidate computes in.

    Example:
        >>> len(measure([int, float], Rounds(warmup=1, rounds=3, sample_seconds=0.0)))
        2
    """
    rounds, clock = rounds or Rounds(), clock or Clock()
    n_runs = [_runs_of(candidate, rounds, clock) for candidate in candidates]
    seen: list[list[tuple[float, float]]] = [[] for _ in candidates]
    numbers = range(len(candidates))
    for number_of_round in range(rounds.rounds):
        # Who comes second finds other caches and clocks; that changes every round.
        for number in numbers if number_of_round % 2 == 0 else reversed(numbers):
            seen[number].append(_sample(candidates[number], n_runs[number], clock))
    return tuple(_timing(samples, n, n_threads) for samples, n in zip(seen, n_runs, strict=True))


def ratio(timing: Timing, base: Timing) -> Ratio:
    """How many times as long one candidate took as another one, in rounds of one `measure`.

    Example:
        >>> ratio(Timing((2.0, 4.0), 1), Timing((1.0, 2.0), 1)).value
        2.0
    """
    pairs = [one / other for one, other in zip(timing.samples, base.samples, strict=True)]
    error = _ERRORS * _ERROR_OF_QUARTILES * _spread(pairs) / sqrt(len(pairs))
    return Ratio(median(pairs), error)


def noise(
    candidate: Callable[[], object], rounds: Rounds | None = None, clock: Clock | None = None
) -> float:
    """By which share one candidate seems to differ from itself.

    Args:
        candidate: What is timed twice.
        rounds: How often; None: the usual.
        clock: What tells seconds; None: this machine's.
    """
    first, second = measure([candidate, candidate], rounds, clock)
    seen = ratio(first, second)
    return max(LEAST_NOISE, abs(seen.value - 1), seen.error)


def _runs_of(candidate: Callable[[], object], rounds: Rounds, clock: Clock) -> int:
    """Runs that make up one sample, after the candidate has been warmed up."""
    for _ in range(rounds.warmup):
        candidate()
    wall, _ = _sample(candidate, 1, clock)
    if wall >= rounds.sample_seconds:
        return 1
    if wall <= 0:
        return rounds.most_runs
    return min(rounds.most_runs, max(1, round(rounds.sample_seconds / wall)))


def _sample(candidate: Callable[[], object], n_runs: int, clock: Clock) -> tuple[float, float]:
    """Seconds of one run, by the wall and by the thread."""
    wall, cpu = clock.wall(), clock.cpu()
    for _ in range(n_runs):
        candidate()
    cpu, wall = clock.cpu() - cpu, clock.wall() - wall
    return wall / n_runs, cpu / n_runs


def _timing(samples: Sequence[tuple[float, float]], n_runs: int, n_threads: int) -> Timing:
    if n_threads > 1:
        return Timing(tuple(wall for wall, _ in samples), n_runs)
    busy = sum(cpu < _FREE_SHARE * wall for wall, cpu in samples)
    # Clocks of threads are coarse on some systems, and may show nothing at all.
    seconds = tuple(cpu if cpu > 0 else wall for wall, cpu in samples)
    return Timing(seconds, n_runs, busy > _CONTENDED_SHARE * len(samples))


def _spread(samples: Sequence[float]) -> float:
    if len(samples) < 2:
        return 0.0
    low, middle, high = quantiles(samples, n=4, method="inclusive")
    return (high - low) / middle if middle else 0.0
