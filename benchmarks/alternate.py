"""Times calls in alternating rounds of one process, cotengra's contractions among them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import candidates
import numpy as np
from candidates import Candidate
from measure import warm_blas
from networks import Network, load, operands

Arrays = tuple[np.ndarray, ...]
#: CPU seconds of all rounds together, and the fewest and most rounds.
ROUNDS_SECONDS = 4.0
FEWEST_ROUNDS, MOST_ROUNDS = 7, 31
#: A contraction of many slices that takes longer than this is timed on a part of its slices.
MOST_SECONDS = 1.0


class Sliced:
    """One of cotengra's plans, timed in full or on evenly spread slices.

    Where slices are left out, their time is scaled up; adding or stacking the slices is then not
    counted, in cotengra's favour.
    """

    def __init__(self, network: Network, arrays: Arrays, candidate: Candidate) -> None:
        self.candidate = candidate
        self._arrays = arrays
        self._tree = candidates.tree_of(network, candidate)
        self.timed = candidate.slices
        if candidate.slices > 1:
            self._slices(1)  # contractors are made in the first call
            one = self._slices(2) / 2
            self.timed = max(1, min(candidate.slices, int(MOST_SECONDS / one)))

    @property
    def is_whole(self) -> bool:
        """Every slice is timed."""
        return self.timed == self.candidate.slices

    def contract(self) -> Any:
        """The result, of all slices."""
        return self._tree.contract(self._arrays)

    def seconds(self) -> float:
        """CPU seconds of one contraction."""
        if self.is_whole:
            return cpu_seconds(self.contract)
        return self._slices(self.timed) * self.candidate.slices / self.timed

    def facts(self) -> dict[str, Any]:
        """What the table says about the plan."""
        return {
            "way": self.candidate.way,
            "sliced": self.candidate.sliced,
            "slices": self.candidate.slices,
            "timed_slices": self.timed,
            "macs": self.candidate.macs,
        }

    def _slices(self, n: int) -> float:
        began = time.process_time()
        for number in range(n):
            self._tree.contract_slice(self._arrays, number * self.candidate.slices // n)
        return time.process_time() - began


@dataclass(frozen=True, slots=True)
class Contest:
    """One network within one limit: einbound's plan, and the fastest of some of cotengra's.

    Attributes:
        network: What is contracted.
        arrays: Its operands.
        plan: einbound's plan.
        peer: cotengra's; None if it has none within the limit.
    """

    network: Network
    arrays: Arrays
    plan: Any
    peer: Sliced | None

    @classmethod
    def of(cls, task: Mapping[str, Any]) -> Contest:
        """The contest of a task: path of the `network`, `limit` in bytes, and the `choice`."""
        import einbound as eb

        network = load(Path(task["network"]))
        warm_blas(network.dtype)
        arrays = operands(network)
        plan = eb.plan(network.equation, *arrays, memory_limit=task["limit"])
        choice = tuple(Candidate(**one["candidate"]) for one in task["choice"])
        return cls(network, arrays, plan, fastest(network, arrays, choice) if choice else None)

    def seconds(self) -> float:
        """CPU seconds of one run of einbound's plan."""
        return cpu_seconds(lambda: self.plan(*self.arrays))


def fastest(network: Network, arrays: Arrays, choice: tuple[Candidate, ...]) -> Sliced:
    """The candidate that runs fastest of some, each timed twice."""
    tried = [Sliced(network, arrays, candidate) for candidate in choice]
    return min(tried, key=lambda one: min(one.seconds(), one.seconds()))


def cpu_seconds(call: Callable[[], Any]) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def rounds(
    timers: Mapping[str, Callable[[], float]],
    seconds: float = ROUNDS_SECONDS,
    is_clear: Callable[[dict[str, list[float]]], bool] = lambda taken: True,
) -> dict[str, list[float]]:
    """Seconds of each side in every round; each round starts with another side.

    Args:
        timers: For each side, what runs it once and returns its CPU seconds.
        seconds: About how long all rounds take together.
        is_clear: Whether what was taken decides; if not, there are up to three times the rounds.
    """
    names = list(timers)
    began = time.process_time()
    for name in names:
        timers[name]()
    once = time.process_time() - began
    n_rounds = max(FEWEST_ROUNDS, min(MOST_ROUNDS, int(seconds / once)))
    taken: dict[str, list[float]] = {name: [] for name in names}
    for number in range(3 * n_rounds):
        if number and number % n_rounds == 0 and is_clear(taken):
            break
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            taken[name].append(timers[name]())
    return taken
