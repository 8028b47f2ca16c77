"""Plans and progress as people see them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
import rich.progress
from hypothesis import given
from hypothesis import strategies as st

from einbound.errors import BackendError
from einbound.plan.effort import Proof
from einbound.plan.tree import Combine, Role
from einbound.report.figures import columns, count, exact_bytes, human_bytes
from einbound.report.progress import reporting
from einbound.report.reasons import ModeRow, PolicyReport, Weight, policy_lines, search_lines
from einbound.report.text import (
    AliveRow,
    LimitRow,
    LoopRow,
    PlanReport,
    StepRow,
    explanation,
    plan_table,
)

LADDER = PlanReport(
    expression="Pac,Pbd,ijcd->ijab",
    dtype="float64",
    steps=(
        StepRow(0, "Pac,Pbd->acbd", "matmul", 1, 800, 6400, 300, 12_288_000_000, 8, 0, 40_960_000),
        StepRow(
            1, "acbd,ijcd->ijab", "matmul", 80, 10, 400, 6400, 16_384_000_000, 640, 512, 20_480_000
        ),
    ),
    loops=(LoopRow("a", Role.EXTERNAL, Combine.SCATTER, 80, 10, 8, 1),),
    macs=28_672_000_000,
    peak_bytes=112_640_512,
    operands_bytes=51_200_000,
    result_bytes=20_480_000,
    workspace_bytes=40_960_512,
    overhead_bytes=40_960,
    plain_peak_bytes=399_360_000,
    plain_macs=28_672_000_000,
    peak_at="step 1, acbd,ijcd->ijab",
    alive=(
        AliveRow("operands", 51_200_000),
        AliveRow("result ijab", 20_480_000),
        AliveRow("step 0 acbd", 40_960_000),
        AliveRow("buffer of step 1", 512),
    ),
    limits=(LimitRow("memory_limit", "'150MB'", 150_000_000, 112_640_512),),
    proven=True,
)


def test_table_of_a_plan_within_its_limit(golden: Callable[..., None]) -> None:
    golden(plan_table(LADDER) + "\n")


def test_explanation_of_a_plan_within_its_limit(golden: Callable[..., None]) -> None:
    golden(explanation(LADDER) + "\n")


def test_explanation_of_a_plan_that_repeats_work_and_does_not_fit(
    golden: Callable[..., None],
) -> None:
    limits = (LimitRow("workspace_limit", "1000", 1000, 40_960_512),)
    plan = replace(LADDER, macs=43_008_000_000, limits=limits, fits=False, proven=False)
    golden(explanation(plan) + "\n")


POLICY = PolicyReport(
    modes=(
        ModeRow("P", "contracted", 256, 2),
        ModeRow("a", "external", None, None, used=(8, 2)),
        ModeRow("b", "external", None, None, refused="batch_spectator_indices is False"),
        ModeRow("c", "contracted", 0, None, refused="batch_target_size is 0"),
    ),
    objective="time",
    threshold_bytes=120_000_000,
    peak_bytes=112_640_512,
    fallback="the fewest multiply-adds of all",
)


def test_explanation_of_a_plan_under_a_policy(golden: Callable[..., None]) -> None:
    proof = Proof(depth=3, widths=(2, 4, 8), modes=2, exhausted=True, states=1234)
    weight = Weight(12_288_000_000, 16_384_000_000, 20)
    plan = replace(LADDER, limits=(), by_class=True, policy=POLICY, weight=weight, proof=proof)
    golden(explanation(plan) + "\n")


def test_explanation_of_a_plan_that_breaks_its_threshold_after_a_deadline(
    golden: Callable[..., None],
) -> None:
    proof = Proof(
        outer_products=False, modes=2, bound_macs=26_000_000_000, states=9, reproducible=False
    )
    policy = replace(POLICY, threshold_bytes=10**8, persistent_only=(1, 2), accumulation_factor=1.3)
    plan = replace(LADDER, policy=policy, fits=False, proven=False, proof=proof)
    golden(explanation(plan) + "\n")


def test_an_infinite_threshold_is_told() -> None:
    *_, last = policy_lines(replace(POLICY, threshold_bytes=None))
    assert last == "peak_threshold is infinite: no loop is opened"


def test_nothing_is_told_of_a_search_that_was_not_made() -> None:
    assert search_lines(Proof(), 100) == []


def test_a_plan_without_steps_loops_and_limits_is_printed_too(golden: Callable[..., None]) -> None:
    plan = PlanReport(
        expression="ij->ji",
        dtype="float64",
        steps=(),
        loops=(),
        macs=0,
        peak_bytes=96,
        operands_bytes=96,
        result_bytes=0,
        workspace_bytes=0,
        overhead_bytes=0,
        plain_peak_bytes=96,
        plain_macs=0,
        peak_at="the result, a view of operand 0",
        alive=(AliveRow("operands", 96),),
    )
    golden(f"{plan_table(plan)}\n---\n{explanation(plan)}\n")


@pytest.mark.parametrize("render", [plan_table, explanation])
def test_no_line_ends_in_a_blank(render: Callable[[PlanReport], str]) -> None:
    assert all(line == line.rstrip() for line in render(LADDER).splitlines())


@given(st.integers(0, 60).flatmap(lambda bits: st.integers(0, 2**bits)))
def test_human_bytes_is_within_half_a_hundredth_of_the_unit(n: int) -> None:
    number, unit = human_bytes(n).split()
    size = 1024 ** ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].index(unit)
    hundredths = round(float(number.replace(",", "")) * 100) if size > 1 else int(n * 100)
    assert abs(hundredths * size - n * 100) * 2 <= size
    assert n < 1024 or n >= size


@given(st.integers(0, 10**15 - 1))
def test_counts_that_fit_a_line_are_exact(n: int) -> None:
    assert int(count(n).replace(",", "")) == n


@given(st.integers(10**15, 10**60))
def test_larger_counts_keep_four_digits(n: int) -> None:
    lead, power = count(n).split("e")
    assert str(n)[:4] == lead.replace(".", "")
    assert len(str(n)) == int(power) + 1


def test_a_count_of_more_digits_than_python_prints_is_printed() -> None:
    assert count(7 * 10**5000) == "7.000e5000"


def test_small_numbers_of_bytes_are_not_said_twice() -> None:
    assert exact_bytes(512) == "512 bytes"


def test_columns_are_aligned() -> None:
    assert columns([("a", "1"), ("bcd", "22")], "<>") == ["a     1", "bcd  22"]


def test_a_bar_is_drawn_on_stderr_and_reaches_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    with reporting(True) as callback:
        assert callback is not None
        callback(1, 3)
        callback(3, 3)
    shown = capsys.readouterr()
    assert "3/3" in shown.err
    assert shown.out == ""


def test_the_bar_is_closed_when_the_run_is_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        with reporting(True) as callback:
            assert callback is not None
            callback(1, 3)
            raise KeyboardInterrupt

    threads = threading.active_count()
    # Nothing is left to wait for: the bar never starts a thread.
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert threading.active_count() == threads
    assert "1/3" in capsys.readouterr().err


def test_a_bar_is_drawn_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    monkeypatch.setattr(rich.progress.Progress, "refresh", lambda _: drawn.append(1))
    with reporting(True) as callback:
        assert callback is not None
        for done in range(1, 5001):
            callback(done, 5000)
    assert 100 < len(drawn) < 210


def test_without_rich_a_bar_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with (
        pytest.raises(BackendError, match=r"pip install einbound\[progress\]"),
        reporting(True),
    ):
        pass


def test_a_callable_is_called_itself() -> None:
    calls: list[tuple[int, int]] = []
    with reporting(lambda done, total: calls.append((done, total))) as callback:
        assert callback is not None
        callback(1, 2)
    assert calls == [(1, 2)]


@pytest.mark.parametrize("nothing", [None, False])
def test_no_progress_is_no_callback(nothing: bool | None) -> None:
    with reporting(nothing) as callback:
        assert callback is None


def test_another_value_is_refused_with_what_was_expected() -> None:
    with (
        pytest.raises(TypeError, match=r"progress='yes' is neither .* a function of \(done, total"),
        reporting("yes"),  # type: ignore[arg-type]  # as a caller may
    ):
        pass
