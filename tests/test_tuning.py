"""`tune`, and the commands that tune, calibrate and keep."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import einbound as eb
from einbound.api.tuning import calibrate, kept, records_file, tune
from einbound.cli import main
from einbound.errors import BackendError, KernelError
from einbound.kernels import MatmulProblem
from einbound.machine.limits import HardwareLimits
from einbound.report.tuning import TuneReport
from einbound.tune import profile
from einbound.tune.build import find_compiler
from einbound.tune.measure import Rounds

COMPILER = find_compiler(None)
needs_compiler = pytest.mark.skipif(isinstance(COMPILER, str), reason=f"no compiler: {COMPILER}")
QUICK = Rounds(warmup=0, rounds=3, sample_seconds=0.0)
SIZES = ["--size", "i=24", "j=24", "k=24"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    with eb.options(cache=tmp_path / "cache"):
        yield tmp_path / "cache"


def test_the_function_is_not_hidden_by_the_package_of_its_name() -> None:
    code = "import einbound.tune.build, einbound as eb; assert eb.tune.__module__ == {!r}"
    for first in ("", "import einbound as eb; eb.tune; "):
        command = [sys.executable, "-c", first + code.format("einbound.api.tuning")]
        subprocess.run(command, check=True, env={"PYTHONPATH": str(Path(eb.__file__).parents[1])})


@needs_compiler
def test_equations_plans_and_products_are_tuned() -> None:
    shapes = (24, 24), (24, 24)
    plan = eb.plan("ik,kj->ij", *shapes)
    problem = MatmulProblem.from_step(plan.meter().steps[0].way.pair)  # type: ignore[union-attr]
    reports = [
        eb.tune("ik,kj->ij", *shapes, budget=1, rounds=QUICK),
        eb.tune(plan, budget=1, rounds=QUICK),
        eb.tune(problem, budget=1, rounds=QUICK),
    ]
    assert all(isinstance(each, TuneReport) for each in reports)
    assert {each.products[0].tuned.problem for each in reports} == {problem.canonical}
    # The journal knew the second and third time.
    assert len(kept().records()) == 1


@needs_compiler
def test_steps_that_no_kernel_can_tell_apart_are_tuned_once() -> None:
    report = eb.tune("ij,jk,kl->il", *[(16, 16)] * 3, budget=1, rounds=QUICK)
    assert len(report.products) == 1


@needs_compiler
def test_a_report_tells_what_was_tried_and_who_won() -> None:
    report = eb.tune("ik,kj->ij", (24, 24), (24, 24), budget=2, rounds=QUICK)
    text = str(report)
    assert report.products[0].winner in text
    for word in ("proposed", "refuted", "measured", "the noise is", "budget of measurements"):
        assert word in text
    data = json.loads(report.to_json())["products"][0]
    assert len([each for each in data["records"] if "seconds" in each]) == report.n_measured == 2
    assert data["stop"] == "the budget of measurements is used up"
    assert data["winner"] == json.loads(kept().winners()[0].decisions)


@needs_compiler
def test_plans_run_on_winners_where_asked_for() -> None:
    import numpy as np

    report = eb.tune("ik,kj->ij", (24, 24), (24, 24), budget=2, rounds=QUICK)
    assert report.n_measured == 2
    a = np.arange(576.0).reshape(24, 24)
    with eb.options(tuned=True, backend="native"):
        assert np.array_equal(eb.einsum("ik,kj->ij", a, a), a @ a)


def test_what_cannot_be_tuned_is_refused() -> None:
    problem = MatmulProblem(m=4, n=4, k=4)
    with pytest.raises(KernelError, match="operands or options of planning are given beside a Mat"):
        tune(problem, (4, 4))
    with pytest.raises(KernelError, match="budget is 0; expected a number of measurements"):
        tune(problem, budget=0)
    with pytest.raises(KernelError, match=r"seconds are -1\.0; expected a time of at least 0"):
        tune(problem, seconds=-1.0)


@needs_compiler
def test_a_contraction_without_products_is_refused_with_the_reason() -> None:
    with pytest.raises(KernelError, match="ij,ij->ij: "):
        tune("ij,ij->ij", (4, 4), (4, 4))


def test_without_a_compiler_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CC", "/no/such/compiler")
    with pytest.raises(BackendError, match="kernels are tuned by compiling them: no C compiler"):
        tune(MatmulProblem(m=4, n=4, k=4))


# Commands ----------------------------------------------------------------------------------------


def run(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


@needs_compiler
def test_winners_go_out_and_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("tune", "ik,kj->ij", *SIZES, "--budget", "1")
    assert "the untuned choice" in run(*words, capsys=capsys)
    file = tmp_path / "kernels.json"
    run("cache", "export", str(file), capsys=capsys)
    before = kept().winners()
    assert len(before) == 1
    assert "24 x 24 x 24" in run("cache", "list", capsys=capsys)
    assert run("cache", "clear", capsys=capsys).startswith("2 rows were removed")
    assert run("cache", "list", capsys=capsys) == "no kernel was tuned yet\n"
    assert run("cache", "import", str(file), capsys=capsys).startswith("1 winners were read")
    assert kept().winners() == before
    assert run("cache", "export", capsys=capsys) == file.read_text()


@needs_compiler
def test_explain_tells_of_winners_once_there_are_any(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("explain", "ik,kj->ij", *SIZES, "--target", "cpu")
    assert "tuned on this machine" not in run(*words, capsys=capsys)
    report = eb.tune("ik,kj->ij", (24, 24), (24, 24), budget=1, rounds=QUICK)
    text = run(*words, capsys=capsys)
    assert report.products[0].winner in text.partition("tuned on this machine")[2]


def test_the_path_of_records_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("cache", "path", capsys=capsys) == f"{folder / 'kernels.db'}\n"
    assert records_file() == folder / "kernels.db"


def test_a_file_that_is_no_export_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.json"
    file.write_text("{}")
    assert main(["cache", "import", str(file)]) == 2
    assert "the format of tuned kernels is None" in capsys.readouterr().err


@needs_compiler
def test_calibration_keeps_a_profile_and_tells_tiles_and_peaks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile, "ROWS", {2: (4,)})
    eb.tune("ik,kj->ij", (24, 24), (24, 24), budget=1, rounds=QUICK)
    report = calibrate(QUICK)
    text = str(report)
    assert report.path == folder / "profile.json"
    seen = HardwareLimits.from_json(report.path.read_text())
    assert {(each.rm, each.rn) for each in seen.tile_speeds} == {(4, 2)}
    assert "float64  4 x 2" in text
    assert "native float64" in text
