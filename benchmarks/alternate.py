"""Times a plan's call and cotengra's contraction in alternating rounds of one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import candidates
import numpy as np
from candidates import Candidate
from measure import largest_difference
from networks import Network

Arrays = tuple[np.ndarray, ...]
#: CPU seconds of all rounds together, and the fewest and most rounds.
ROUNDS_SECONDS = 5.0
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

    def contract(self) -> Any:
        """The result, of all slices."""
        return self._tree.contract(self._arrays)

    def seconds(self) -> float:
        """CPU seconds of one contraction."""
        if self.timed < self.candidate.slices:
            return self._slices(self.timed) * self.candidate.slices / self.timed
        return cpu_seconds(self.contract)

    def _slices(self, n: int) -> float:
        began = time.process_time()
        for number in range(n):
            self._tree.contract_slice(self._arrays, number * self.candidate.slices // n)
        return time.process_time() - began


def cpu_seconds(call: Callable[[], Any]) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def against(
    network: Network, arrays: Arrays, call: Callable[[], Any], choice: tuple[Candidate, ...]
) -> dict[str, Any]:
    """Seconds of both sides, round by round; of the candidates, the fastest runs.

    Args:
        network: What is contracted.
        arrays: Its operands.
        call: einbound's side.
        choice: cotengra's candidates.
    """
    peers = [Sliced(network, arrays, candidate) for candidate in choice]
    peer = min(peers, key=lambda one: min(one.seconds(), one.seconds()))
    answer: dict[str, Any] = {"way": peer.candidate.way, "timed_slices": peer.timed}
    result = call()
    if peer.timed == peer.candidate.slices:
        answer["relative_error"] = largest_difference(result, peer.contract())
    del result
    both = cpu_seconds(call) + peer.seconds() * peer.timed / peer.candidate.slices
    n_rounds = max(FEWEST_ROUNDS, min(MOST_ROUNDS, int(ROUNDS_SECONDS / both)))
    ours, theirs = [], []
    for number in range(n_rounds):
        if number % 2:
            ours.append(cpu_seconds(call))
        theirs.append(peer.seconds())
        if not number % 2:
            ours.append(cpu_seconds(call))
    chosen = peer.candidate
    return {
        **answer,
        "sliced": chosen.sliced,
        "slices": chosen.slices,
        "macs": chosen.macs,
        "ours": ours,
        "theirs": theirs,
    }
