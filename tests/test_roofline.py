"""The roofline: legs that are known, sums over kernels, and which peaks hold."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einbound.errors import MachineError
from einbound.machine.gpu import A100
from einbound.machine.limits import CacheLevel, HardwareLimits
from einbound.machine.precision import Precision
from einbound.machine.roofline import Leg, Peaks, Work, cache_rate, peaks_of, total_seconds

COUNTS = st.none() | st.integers(0, 10**15)
RATES = st.none() | st.floats(1.0, 1e15)
WORKS = st.builds(Work, COUNTS, COUNTS)
PEAKS = st.builds(Peaks, RATES, RATES)

CPU = HardwareLimits(
    simd_vector_bytes=32,
    n_cores=2,
    levels=(CacheLevel(1000, 8, 64, 400.0), CacheLevel(10_000, 8, 64, 100.0)),
    peak_flops=1000.0,
    peak_memory_bandwidth=50.0,
    format_flops={"f64": 500.0},  # type: ignore[arg-type]
)


@pytest.mark.parametrize(
    ("work", "peaks", "seconds", "leg"),
    [
        (Work(8, 2), Peaks(2.0, 1.0), 4.0, Leg.FLOPS),
        (Work(8, 9), Peaks(2.0, 1.0), 9.0, Leg.BYTES),
        (Work(8, 4), Peaks(2.0, 1.0), 4.0, Leg.FLOPS),
        (Work(8, None), Peaks(2.0, 1.0), 4.0, Leg.FLOPS),
        (Work(8, 9), Peaks(2.0, None), 4.0, Leg.FLOPS),
        (Work(8, None), Peaks(None, 1.0), None, None),
        (Work(), Peaks(), None, None),
        (Work(0, 0), Peaks(2.0, 1.0), 0.0, Leg.FLOPS),
    ],
)
def test_the_longer_leg_of_those_known_binds(
    work: Work, peaks: Peaks, seconds: float | None, leg: Leg | None
) -> None:
    assert peaks.seconds(work) == seconds
    assert peaks.binding(work) is leg


def test_kernels_cost_the_sum_of_their_own_longer_legs() -> None:
    kernels = [Work(10, 1), Work(1, 10)]
    assert total_seconds(kernels, Peaks(1.0, 1.0)) == 20.0
    assert total_seconds([*kernels, Work()], Peaks(1.0, 1.0)) is None
    assert total_seconds([], Peaks()) == 0.0


@given(st.lists(st.builds(Work, st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1))
def test_the_sum_over_kernels_is_no_less_than_the_roofline_of_their_sum(works: list[Work]) -> None:
    peaks = Peaks(3.0, 7.0)
    whole = Work(sum(w.flops or 0 for w in works), sum(w.n_bytes or 0 for w in works))
    together, apart = peaks.seconds(whole), total_seconds(works, peaks)
    assert together is not None
    assert apart is not None
    assert together <= apart * (1 + 1e-12)


@given(WORKS, PEAKS, st.floats(1.0, 100.0))
def test_higher_peaks_never_take_longer(work: Work, peaks: Peaks, factor: float) -> None:
    faster = Peaks(
        peaks.flops_per_second and peaks.flops_per_second * factor,
        peaks.bytes_per_second and peaks.bytes_per_second * factor,
    )
    before, after = peaks.seconds(work), faster.seconds(work)
    assert (before is None) is (after is None)
    assert (after or 0.0) <= (before or 0.0)


def test_counts_beyond_floats_take_for_ever() -> None:
    assert Peaks(1.0).seconds(Work(10**400)) == math.inf


@pytest.mark.parametrize("count", [-1, 1.5, True])
def test_a_count_that_is_none_is_refused(count: float) -> None:
    with pytest.raises(MachineError, match=r"flops of a kernel is .*; expected a whole number"):
        Work(count)  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(MachineError, match=r"flops_per_second is .*; expected a finite number"):
        Peaks(rate)


# which peaks --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("footprint", "rate"),
    [(1000, 800.0), (1001, 200.0), (10_000, 200.0), (10_001, 50.0), (None, 50.0)],
)
def test_the_nearest_memory_that_holds_a_problem_bounds_it(
    footprint: int | None, rate: float
) -> None:
    assert peaks_of(CPU, footprint_bytes=footprint).bytes_per_second == rate


@given(st.integers(0, 20_000), st.integers(0, 20_000))
def test_a_larger_footprint_never_moves_faster(one: int, other: int) -> None:
    small, large = sorted((one, other))
    near, far = (peaks_of(CPU, footprint_bytes=n).bytes_per_second for n in (small, large))
    assert near is not None
    assert far is not None
    assert near >= far


def test_a_cache_is_held_to_be_no_slower_than_memory() -> None:
    fast = replace(CPU, peak_memory_bandwidth=1e6)
    assert peaks_of(fast, footprint_bytes=1).bytes_per_second == 1e6


def test_a_fitted_rate_goes_before_the_table() -> None:
    fitted = Peaks(flops_per_second=7.0)
    assert peaks_of(CPU, fitted=fitted) == Peaks(7.0, 50.0)
    assert peaks_of(CPU, fitted=Peaks(None, 9.0)) == Peaks(1000.0, 9.0)


def test_a_fitted_memory_rate_says_nothing_against_a_cache() -> None:
    fitted = Peaks(None, 9.0)
    assert peaks_of(CPU, footprint_bytes=500, fitted=fitted).bytes_per_second == 800.0


def test_the_format_that_is_computed_in_has_its_own_peak() -> None:
    assert peaks_of(CPU, Precision.FLOAT64).flops_per_second == 500.0
    assert peaks_of(CPU, Precision.COMPLEX128).flops_per_second == 500.0
    assert peaks_of(A100, Precision.FLOAT16).flops_per_second == 312e12


def test_nothing_known_is_nothing_claimed() -> None:
    assert peaks_of(HardwareLimits()) == Peaks()
    assert cache_rate(HardwareLimits(), 1) is None
