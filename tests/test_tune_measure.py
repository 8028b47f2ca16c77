"""Timings, with a clock that is told what to show."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from einbound.tune.measure import LEAST_NOISE, Clock, Rounds, Timing, measure, noise, ratio


class FakeTime:
    """Seconds that pass only where a fake kernel says so; `share` is what a thread gets of them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.used = 0.0
        self.share = 1.0
        self.ran: list[str] = []

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now, lambda: self.used)

    def kernel(self, seconds: Sequence[float], name: str = "") -> Callable[[], None]:
        """A kernel that takes these seconds, one after the other, over and over."""
        state = {"n": 0}

        def run() -> None:
            took = seconds[state["n"] % len(seconds)]
            state["n"] += 1
            self.used += took
            self.now += took / self.share
            self.ran.append(name)

        return run


QUICK = Rounds(warmup=0, rounds=4, sample_seconds=0.0)


def test_candidates_run_in_turns_and_the_first_of_a_round_changes() -> None:
    time = FakeTime()
    measure([time.kernel([1.0], "a"), time.kernel([2.0], "b")], QUICK, time.clock)
    # One run each tells how long a sample has to be.
    assert "".join(time.ran) == "ab" + "abbaabba"


def test_a_timing_is_the_median_of_one_run() -> None:
    time = FakeTime()
    rounds = Rounds(warmup=0, rounds=3, sample_seconds=0.0)
    (timing,) = measure([time.kernel([9.0, 1.0, 5.0, 2.0])], rounds, time.clock)
    assert timing.seconds == 2.0


def test_short_candidates_run_several_times_a_sample() -> None:
    time = FakeTime()
    rounds = Rounds(warmup=0, rounds=1, sample_seconds=1.0)
    short, long = measure([time.kernel([0.125]), time.kernel([2.0])], rounds, time.clock)
    assert (short.n_runs, short.seconds) == (8, 0.125)
    assert (long.n_runs, long.seconds) == (1, 2.0)


def test_a_candidate_that_takes_no_time_ends() -> None:
    time = FakeTime()
    rounds = Rounds(warmup=0, rounds=1, sample_seconds=1.0, most_runs=7)
    (timing,) = measure([time.kernel([0.0])], rounds, time.clock)
    assert timing.n_runs == 7


def test_warm_up_is_not_timed() -> None:
    time = FakeTime()
    rounds = Rounds(warmup=2, rounds=1, sample_seconds=0.0)
    (timing,) = measure([time.kernel([100.0, 100.0, 1.0, 1.0])], rounds, time.clock)
    assert timing.seconds == 1.0


def test_a_busy_machine_is_told_and_does_not_count_for_one_thread() -> None:
    time = FakeTime()
    time.share = 0.5
    (timing,) = measure([time.kernel([1.0])], QUICK, time.clock)
    assert timing.contended
    assert timing.seconds == 1.0
    (shared,) = measure([time.kernel([1.0])], QUICK, time.clock, n_threads=2)
    assert shared.seconds == 2.0


def test_a_quiet_machine_is_not_called_busy() -> None:
    time = FakeTime()
    (timing,) = measure([time.kernel([1.0])], QUICK, time.clock)
    assert not timing.contended


def test_drift_that_meets_both_leaves_their_ratio() -> None:
    fast, slow = Timing((1.0, 2.0, 4.0), 1), Timing((1.5, 3.0, 6.0), 1)
    assert ratio(slow, fast).value == 1.5
    assert ratio(slow, fast).error == 0.0


def test_noise_is_at_least_what_a_candidate_differs_from_itself() -> None:
    time = FakeTime()
    # Two samples are one round of the same candidate.
    shaky = time.kernel([1.0, 1.0, 1.0, 1.25])
    assert noise(shaky, QUICK, time.clock) > 0.1
    assert noise(time.kernel([1.0]), QUICK, time.clock) == LEAST_NOISE


@pytest.mark.parametrize("samples", [(1.0,), (2.0, 2.0)])
def test_equal_samples_have_no_spread(samples: tuple[float, ...]) -> None:
    assert Timing(samples, 1).spread == 0.0
