"""Readings as text, peaks fitted to them, and readings that contradict peaks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from einbound.errors import MachineError
from einbound.machine.calibration import Accord, agreement, disagreements, fit
from einbound.machine.readings import COLUMNS, Reading, read_readings, write_readings
from einbound.machine.roofline import Leg, Peaks, Work, total_seconds

TIMES = st.floats(1e-6, 1e6)
READINGS = st.builds(
    Reading,
    backend=st.sampled_from(["c", "cuda"]),
    digest=st.text(max_size=5),
    routine=st.text(max_size=5),
    label=st.text(max_size=9),
    measured_ms=st.just(0.0) | TIMES,
    model_ms=st.none() | TIMES,
    kernels=st.integers(1, 4),
    flops=st.integers(0, 10**12),
    bytes=st.integers(0, 10**12),
    flops_approx=st.booleans(),
    bytes_approx=st.booleans(),
    opaque=st.booleans(),
)


def reading(**fields: Any) -> Reading:
    default = {"backend": "c", "digest": "d", "measured_ms": 1.0, "flops": 0, "bytes": 0}
    return Reading(**{**default, **fields})


# text ---------------------------------------------------------------------------------------


@given(st.lists(READINGS))
def test_what_is_read_was_written_with_times_rounded_down(rows: list[Reading]) -> None:
    read = read_readings(write_readings(rows))
    assert read.n_malformed == 0
    assert len(read.rows) == len(rows)
    for row, again in zip(rows, read.rows, strict=True):
        assert again.exact == row.exact
        assert (again.backend, again.digest, again.label) == (row.backend, row.digest, row.label)
        assert 0 <= row.measured_ms - again.measured_ms <= 1.0001e-6


@given(st.lists(READINGS))
def test_reading_and_writing_again_changes_nothing(rows: list[Reading]) -> None:
    once = write_readings(read_readings(write_readings(rows)).rows)
    assert once == write_readings(rows)


@pytest.mark.parametrize(
    ("ms", "text"), [(1.2345679, "1.234567"), (1e-7, "0.000000"), (1e9, "1000000000.000000")]
)
def test_milliseconds_are_floored_to_six_decimals(ms: float, text: str) -> None:
    assert reading(measured_ms=ms).line.split("\t")[4] == text


def test_what_would_end_a_field_or_a_line_becomes_a_space() -> None:
    row = reading(label="bm\t8\nbk", routine="r\r")
    assert (row.label, row.routine) == ("bm 8 bk", "r ")


def test_the_columns_are_those_of_the_format() -> None:
    names = write_readings([]).strip().split("\t")
    assert tuple(names) == COLUMNS
    assert len(names) == 12


def test_rows_of_old_have_no_routine() -> None:
    line = "c\td\tlabel\t1.5\t\t2\t30\t40\t0\t1\t0"
    read = read_readings(f"{line}\n")
    assert read.rows == (
        reading(label="label", measured_ms=1.5, kernels=2, flops=30, bytes=40, bytes_approx=True),
    )


@pytest.mark.parametrize(
    "line",
    [
        "c\td\tr\tl\t1.0\t\t1\t2\t3\t0\t0",  # a time where a count belongs
        "c\td\tr\tl\t1.0\t\t1\t2\t3\t0\t0\t0\t0",
        "c\td\tr\tl\tsoon\t\t1\t2\t3\t0\t0\t0",
        "c\td\tr\tl\tnan\t\t1\t2\t3\t0\t0\t0",
        "c\td\tr\tl\t-1.0\t\t1\t2\t3\t0\t0\t0",
        "c\td\tr\tl\t1.0\t\t0\t2\t3\t0\t0\t0",
        "c\td\tr\tl\t1.0\t\t1\t2.5\t3\t0\t0\t0",
        "c\td\tr\tl\t1.0\t\t1\t2\t3\tmaybe\t0\t0",
        f"c\td\tr\tl\t1.0\t\t1\t{10**80}\t3\t0\t0\t0",
        "c\td\tr\tl\t1_0\t\t1\t2\t3\t0\t0\t0",
        "c\td\tr\tl\t 1\t\t1\t2\t3\t0\t0\t0",
        "c\td\tr\tl\t1\t\t1\t\u0663\t3\t0\t0\t0",
        "what?",
    ],
)
def test_a_malformed_line_is_left_out_and_counted(line: str) -> None:
    good = reading(flops=5)
    read = read_readings(f"{write_readings([good])}{line}\n\n{good.line}\r\n")
    assert read.rows == (good, good)
    assert read.n_malformed == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"measured_ms": -1.0}, "measured_ms is -1.0; expected a finite number of at least 0"),
        ({"model_ms": math.inf}, "model_ms is inf; expected a finite number"),
        ({"kernels": 0}, "kernels is 0; expected a whole number of at least 1"),
        ({"flops": 1.5}, "flops is 1.5; expected a whole number of at least 0"),
        ({"flops": 2**200}, r"flops is \d+; expected less than 2\*\*200"),
        ({"measured_ms": "1"}, "measured_ms is '1'; expected a finite number"),
        ({"measured_ms": True}, "measured_ms is True; expected a finite number"),
        ({"label": 5}, "label is 5; expected text"),
        ({"opaque": 1}, "opaque is 1; expected True or False"),
    ],
)
def test_a_reading_that_makes_no_sense_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(MachineError, match=message):
        reading(**fields)


def test_numbers_of_numpy_and_times_of_any_size_are_written() -> None:
    row = reading(measured_ms=np.float64(1.5), flops=np.int64(7))
    assert read_readings(row.line).rows == (row,)
    assert [type(each) for each in (row.measured_ms, row.flops)] == [float, int]
    assert read_readings(reading(measured_ms=1e300).line).rows[0].measured_ms == 1e300
    assert "-" not in reading(measured_ms=-0.0).line


def test_a_time_too_short_for_seconds_shows_no_peak() -> None:
    short = reading(measured_ms=5e-324, flops=1)
    assert fit([short]) == ()
    assert disagreements([short], lambda _: Peaks(1.0)) == ()
    with pytest.raises(MachineError, match=r"measured_ms is 5e-324; expected a time above 0"):
        agreement(short, Peaks(1.0))


# fit ----------------------------------------------------------------------------------------


@given(st.lists(READINGS), st.floats(0.0, 1.0))
def test_no_exact_count_over_its_time_passes_a_fitted_peak(
    rows: list[Reading], margin: float
) -> None:
    peaks = {each.backend: each.peaks for each in fit(rows, margin=margin)}
    for row in rows:
        if row.measured_ms > 0:
            for _, seconds in peaks.get(row.backend, Peaks()).legs(row.exact):
                assert seconds <= row.seconds


@given(st.lists(READINGS))
def test_after_a_fit_no_reading_violates_the_peaks(rows: list[Reading]) -> None:
    peaks = {each.backend: each.peaks for each in fit(rows)}
    found = disagreements(rows, peaks.get)
    assert [each for each in found if each.accord is Accord.VIOLATION] == []


SHARES = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=2, max_size=4)


@given(st.lists(st.tuples(SHARES, TIMES), min_size=1, max_size=5))
def test_the_bound_of_several_kernels_is_kept_however_they_share_the_counts(
    runs: list[tuple[list[tuple[int, int]], float]],
) -> None:
    rows = [
        reading(
            measured_ms=ms,
            kernels=len(shares),
            flops=sum(f for f, _ in shares),
            bytes=sum(b for _, b in shares),
        )
        for shares, ms in runs
    ]
    peaks = fit(rows)[0].peaks
    for row, (shares, _) in zip(rows, runs, strict=True):
        if len(peaks.legs(row.exact)) == len(Leg):
            bound = total_seconds([Work(f, b) for f, b in shares], peaks)
            assert bound is not None
            assert bound <= row.seconds


LARGE = st.tuples(st.integers(10**6, 10**12), st.integers(10**6, 10**12))


@given(st.floats(1e9, 1e14), st.floats(1e9, 1e13), st.lists(LARGE, min_size=1, max_size=20))
def test_a_fit_recovers_the_peaks_that_made_the_readings(
    flops_rate: float, bytes_rate: float, counts: list[tuple[int, int]]
) -> None:
    true = Peaks(flops_rate, bytes_rate)
    rows = [
        reading(measured_ms=(true.seconds(Work(f, b)) or 0.0) * 1e3, flops=f, bytes=b)
        for f, b in counts
    ]
    found = fit(rows)[0].peaks
    bound = {true.binding(Work(f, b)) for f, b in counts}
    if Leg.FLOPS in bound:
        assert found.flops_per_second == pytest.approx(flops_rate, rel=1e-5)
    if Leg.BYTES in bound:
        assert found.bytes_per_second == pytest.approx(bytes_rate, rel=1e-5)


def test_each_peak_is_told_with_the_row_that_binds_it() -> None:
    computing = reading(label="computing", flops=10**9, bytes=1)
    moving = reading(label="moving", flops=1, bytes=10**9)
    found = fit([computing, moving])[0]
    assert found.flops is not None
    assert found.bytes is not None
    assert (found.flops.row, found.bytes.row) == (computing, moving)
    assert found.n_rows == 2


def test_backends_stand_in_the_order_of_their_first_rows() -> None:
    rows = [reading(backend=name, flops=1) for name in ("z", "a", "z")]
    assert [(each.backend, each.n_rows) for each in fit(rows)] == [("z", 2), ("a", 1)]


@pytest.mark.parametrize(
    "row",
    [
        reading(flops=10**9, opaque=True),
        reading(flops=10**9, measured_ms=0.0),
    ],
)
def test_opaque_rows_and_rows_without_a_time_show_nothing(row: Reading) -> None:
    assert fit([row]) == ()


def test_a_leg_that_is_only_approximate_is_not_fitted() -> None:
    found = fit([reading(flops=10**9, bytes=10**9, bytes_approx=True)])[0]
    assert found.bytes is None
    assert found.peaks.bytes_per_second is None
    assert found.slack == 1.0


def test_a_run_of_several_kernels_raises_both_peaks_by_its_slack() -> None:
    row = reading(kernels=2, flops=10**6, bytes=10**6)
    assert fit([row])[0].slack == pytest.approx(2.0)
    assert fit([reading(kernels=1, flops=10**6, bytes=10**6)])[0].slack == 1.0


def test_a_margin_is_headroom_above_the_bump() -> None:
    row = reading(flops=10**6)
    plain, wide = (fit([row], margin=m)[0].peaks.flops_per_second for m in (0.0, 0.5))
    assert plain == pytest.approx(1e9 * (1 + 2e-6), rel=1e-12)
    assert wide == pytest.approx(1.5e9 * (1 + 2e-6), rel=1e-12)


@pytest.mark.parametrize("margin", [-0.1, math.nan, math.inf])
def test_a_margin_that_is_no_share_is_refused(margin: float) -> None:
    with pytest.raises(MachineError, match=r"margin is .*; expected a share of at least 0"):
        fit([], margin=margin)


# agreement ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "accord"),
    [
        ({"flops": 10**6}, Accord.AGREES),
        ({"flops": 2 * 10**6}, Accord.VIOLATION),
        ({"bytes": 2 * 10**6}, Accord.VIOLATION),
        ({"flops": 2 * 10**6, "flops_approx": True}, Accord.DIAGNOSTIC),
        ({"bytes": 2 * 10**6, "opaque": True}, Accord.DIAGNOSTIC),
        ({"flops": 2 * 10**6, "bytes": 2 * 10**6, "bytes_approx": True}, Accord.VIOLATION),
    ],
)
def test_only_exact_counts_contradict_peaks(fields: dict[str, Any], accord: Accord) -> None:
    assert agreement(reading(**fields), Peaks(1e9, 1e9)).accord is accord


@pytest.mark.parametrize(
    ("is_exact", "accord"), [(True, Accord.VIOLATION), (False, Accord.DIAGNOSTIC)]
)
def test_a_bound_above_the_time_contradicts_peaks_if_both_counts_are_exact(
    is_exact: bool, accord: Accord
) -> None:
    row = reading(flops=10**5, bytes=10**5, kernels=2, bytes_approx=not is_exact)
    found = agreement(row, Peaks(1e9, 1e9), bound_seconds=2e-3)
    assert found.accord is accord
    assert found.implied == Peaks(2e9, 2e9)


@given(READINGS.filter(lambda row: row.measured_ms > 0), st.floats(1e3, 1e15))
def test_with_the_implied_peaks_a_reading_agrees(row: Reading, rate: float) -> None:
    found = agreement(row, Peaks(rate, rate))
    implied = (found.implied.flops_per_second, found.implied.bytes_per_second)
    again = agreement(row, Peaks(*(each and each * (1 + 1e-9) for each in implied)))
    if found.accord is Accord.VIOLATION:
        # Counts that are not exact imply nothing, so they may still be too high.
        assert again.accord is not Accord.VIOLATION
    else:
        assert again.accord is Accord.AGREES


def test_peaks_that_a_reading_needs_are_the_least_ones() -> None:
    found = agreement(reading(flops=5 * 10**6, bytes=10), Peaks(1e9, 1e9))
    assert found.implied == Peaks(5e9, 1e9)


def test_a_disagreement_is_told_once_for_each_problem_and_backend() -> None:
    rows = [
        reading(flops=2 * 10**6, label="first"),
        reading(flops=3 * 10**6, label="second"),
        reading(flops=2 * 10**6, digest="e"),
        reading(flops=2 * 10**6, backend="unknown"),
        reading(flops=1),
        reading(flops=2 * 10**6, measured_ms=0.0, digest="f"),
    ]
    found = disagreements(rows, {"c": Peaks(1e9)}.get)
    assert [(each.row.digest, each.row.label) for each in found] == [("d", "first"), ("e", "")]


def test_a_reading_without_a_time_cannot_be_held_against_peaks() -> None:
    with pytest.raises(MachineError, match=r"measured_ms is 0\.0; expected a time above 0"):
        agreement(reading(measured_ms=0.0), Peaks(1.0))
