"""Ratios of times that were measured in alternating rounds: medians, intervals, means."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median

#: Resamples of one bootstrap, and the seed they are drawn with.
RESAMPLES = 2000
SEED = 0


@dataclass(frozen=True, slots=True)
class Ratio:
    """Median of paired ratios with its 95 % bootstrap interval.

    Attributes:
        median: The median ratio.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f})"


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """The ratio of two series of one length, round by round.

    Example:
        >>> print(paired([1.0, 1.2, 1.1], [2.0, 2.0, 2.0]))
        0.550 (0.500 to 0.600)
    """
    rounds = [a / b for a, b in zip(ours, theirs, strict=True)]
    draw = random.Random(SEED)
    drawn = sorted(median(draw.choices(rounds, k=len(rounds))) for _ in range(RESAMPLES))
    return Ratio(median(rounds), drawn[RESAMPLES // 40], drawn[-1 - RESAMPLES // 40])


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; nan of nothing.

    Example:
        >>> round(geometric_mean([0.5, 2.0]), 12)
        1.0
    """
    return exp(sum(map(log, values)) / len(values)) if values else float("nan")
