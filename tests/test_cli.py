"""The command line: what it prints, what it refuses, what it leaves behind."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einbound as eb
from einbound import cli, demo
from einbound.machine.peak import Growth, run_fresh

SRC = Path(__file__).parents[1] / "src"


@pytest.fixture
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stored arrays in the current folder: a.npy, and b and c in both.npz."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(1)
    a, b, c = (generator.standard_normal(shape) for shape in ((3, 4), (4, 5), (5, 2)))
    np.save("a.npy", a)
    np.savez("both.npz", b=b, c=c)
    np.savez("one.npz", only=b)
    return {"a": a, "b": b, "c": c}


Out = pytest.CaptureFixture[str]


def refused(arguments: list[str], out: Out) -> str:
    """The one line with which a command is refused; nothing else is printed."""
    assert cli.main(arguments) == 2
    told = out.readouterr()
    assert told.out == ""
    assert told.err.startswith("einbound: ")
    return told.err.removeprefix("einbound: ").rstrip("\n")


def test_plan_prints_the_plan(capsys: Out) -> None:
    assert cli.main(["plan", "ij,jk->ik", "--size", "i=3", "j=4", "k=5"]) == 0
    plan = eb.plan("ij,jk->ik", (3, 4), (4, 5))
    assert capsys.readouterr().out == f"{plan}\n"


def test_plan_takes_limits_and_a_dtype(capsys: Out) -> None:
    words = ["plan", "ab,bc,cd->ad", "--size", "a=9,b=9,c=9,d=9", "--json"]
    assert cli.main([*words, "--memory", "1MiB", "--workspace", "600B", "--dtype", "float32"]) == 0
    plan = eb.Plan.from_json(capsys.readouterr().out)
    assert plan.workspace_bytes <= 600
    assert (
        plan.peak_bytes
        == eb.plan(
            "ab,bc,cd->ad",
            *[(9, 9)] * 3,
            memory_limit="1MiB",
            workspace_limit="600B",
            dtype="float32",
        ).peak_bytes
    )


def test_json_of_a_plan_can_be_explained(tmp_path: Path, capsys: Out) -> None:
    cli.main(["plan", "ij,jk,kl->il", "--size", "i=3,j=4,k=5,l=6", "--json"])
    text = capsys.readouterr().out
    (tmp_path / "plan.json").write_text(text)
    assert cli.main(["explain", str(tmp_path / "plan.json")]) == 0
    assert capsys.readouterr().out == f"{eb.Plan.from_json(text).explain()}\n"


def test_explain_reads_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    plan = eb.plan("ij,jk->ik", (3, 4), (4, 5))
    monkeypatch.setattr(sys, "stdin", io.StringIO(plan.to_json()))
    assert cli.main(["explain", "-"]) == 0
    assert capsys.readouterr().out == f"{eb.Plan.from_json(plan.to_json()).explain()}\n"


@pytest.mark.parametrize("progress", [[], ["--progress"]])
def test_run_stores_the_result(arrays: dict[str, Any], progress: list[str], capsys: Out) -> None:
    files = ["a.npy", "both.npz:b", "both.npz:c"]
    words = ["run", "ij,jk,kl->il", *files, "--out", "r.npy", "--memory", "1MB", *progress]
    assert cli.main(words) == 0
    assert capsys.readouterr().out == ""
    expected = arrays["a"] @ arrays["b"] @ arrays["c"]
    np.testing.assert_allclose(np.load("r.npy"), expected, rtol=1e-12)


def test_run_prints_the_result_if_it_is_not_stored(arrays: dict[str, Any], capsys: Out) -> None:
    assert cli.main(["run", "ij,jk->", "a.npy", "one.npz"]) == 0
    expected = (arrays["a"] @ arrays["b"]).sum()
    np.testing.assert_allclose(float(capsys.readouterr().out), expected, rtol=1e-6)


def test_an_npy_operand_is_mapped_not_read(
    arrays: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def einsum(_: str, *operands: Any, **__: Any) -> int:
        seen.extend(operands)
        return 0

    monkeypatch.setattr(eb, "einsum", einsum)
    assert cli.main(["run", "ij->ij", "a.npy"]) == 0
    assert [type(each) for each in seen] == [np.memmap]
    assert np.array_equal(seen[0], arrays["a"])


def test_an_existing_result_is_replaced(arrays: dict[str, Any]) -> None:
    Path("r.npy").write_text("old")
    assert cli.main(["run", "ij->ji", "a.npy", "--out", "r.npy"]) == 0
    assert np.array_equal(np.load("r.npy"), arrays["a"].T)


@pytest.mark.usefixtures("arrays")
def test_a_file_named_twice_counts_once() -> None:
    words = ["run", "ij,kj->ik", "a.npy", "a.npy", "--memory"]
    n_bytes = 8 * (3 * 4 + 3 * 3)
    assert cli.main([*words, str(n_bytes - 1)]) == 2
    assert cli.main([*words, str(n_bytes)]) == 0


def test_a_warning_is_told_in_one_message(capsys: Out) -> None:
    assert cli.main(["plan", "ij,jk->ik", "--size", f"i={10**9}", f"j={10**9}", "k=1"]) == 0
    told = capsys.readouterr()
    assert told.err.startswith("einbound: warning: ")
    assert told.err.count("\n") == 1
    assert "ij,jk->ik" in told.out


class Stop:
    """Stands for np.save and ends in an error after half of the file."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, file: Any, *_: object, **__: object) -> None:
        file.write(b"half")
        raise self.error


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt(), 130), (OSError(28, "no space left"), 2)]
)
@pytest.mark.usefixtures("arrays")
def test_a_broken_write_leaves_what_was_there(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("r.npy").write_text("old")
    before = sorted(os.listdir())
    monkeypatch.setattr(np, "save", Stop(error))
    assert cli.main(["run", "ij->ji", "a.npy", "--out", "r.npy"]) == status
    assert sorted(os.listdir()) == before
    assert Path("r.npy").read_text() == "old"


@pytest.mark.usefixtures("arrays")
def test_an_interrupt_during_the_run_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(eb, "einsum", interrupt)
    assert cli.main(["run", "ij->ji", "a.npy", "--out", "r.npy"]) == 130
    assert capsys.readouterr().err == "einbound: interrupted\n"
    assert not Path("r.npy").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["plan", "ij,jk->ik", "--size", "i=3"],
            "no size is given for j, k; the labels of the expression are i, j, k",
        ),
        (
            ["plan", "ij->i", "--size", "i=3,j=4,x=5"],
            "sizes are given for labels not in 'ij->i': x; the labels of the expression are i, j",
        ),
        (["plan", "ij->i", "--size", "i3"], "the size 'i3' is not LABEL=NUMBER, for example P=450"),
        (["plan", "ij->i", "--size", "i=-3"], "the size 'i=-3' is not LABEL=NUMBER"),
        (["plan", "ij->i", "--size", "i=3", "i=4"], "label 'i' is given two sizes, 3 and 4"),
        (["plan", "i...->i", "--size", "i=3"], "has an ellipsis, which no size belongs to"),
        (["plan", "ij->k", "--size", "i=3,j=4"], "output label 'k' is in no operand"),
        (["plan", "i->i", "--size", "i=3", "--memory", "lots"], "memory_limit='lots' is no amount"),
        (["plan", "i,j->ij", "--size", "i=9,j=9", "--memory", "10"], "memory_limit=10"),
        (["run", "ij->ji", "none.npy"], "No such file or directory: 'none.npy'"),
        (["run", "ij->ji", "both.npz"], "both.npz holds more than one array or none; it has b, c"),
        (["run", "ij->ji", "both.npz:x"], "both.npz has no array 'x'; it has b, c"),
        (["run", "ij->ji", "text.npy"], "text.npy is no array file; expected an .npy or .npz"),
        (["run", "ij->ji", "empty.npy"], "empty.npy is no array file"),
        (["run", "ij,jk->ik", "a.npy"], "the expression has 2 terms for 1 operand"),
        (
            ["run", "ij->ji", "a.npy", "--out", "no/r.npy"],
            "no/r.npy cannot be written: there is no folder no",
        ),
        (["demo", "--size", "q=3"], "sizes are given for q; the labels of the example are "),
        (["explain", "text.npy"], "the text is no JSON"),
        (["explain", "ik,kj->ij"], "there is no file 'ik,kj->ij'; to explain an expression, give"),
        (
            ["explain", "i,j->ij", "--size", "i=3", "j=3", "--target", "cpu"],
            "i,j->ij: the step is no matrix product: it sums nothing",
        ),
        (
            ["explain", "ij->i", "--size", "i=3", "j=3", "--target", "cpu"],
            "the plan has no step that contracts two operands",
        ),
        (
            ["explain", "i,i->", "--size", "i=3", "--target", "sm_1"],
            "target is 'sm_1'; expected cpu for this processor, or one of",
        ),
        (["explain", "a.npy"], "a.npy is no text; expected JSON that einbound plan --json wrote"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("arrays")
def test_a_mistake_is_told_in_one_message(arguments: list[str], told: str, capsys: Out) -> None:
    Path("text.npy").write_text("this is no array")
    Path("empty.npy").touch()
    assert told in refused(arguments, capsys)


@pytest.mark.parametrize(
    "arguments", [[], ["nothing"], ["plan"], ["run", "ij->ji"], ["plan", "i->", "--dtype", "x"]]
)
def test_wrong_usage_ends_with_two(arguments: list[str], capsys: Out) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(arguments)
    assert "usage: einbound" in capsys.readouterr().err


def test_doctor_names_versions_blas_memory_and_optional_packages(capsys: Out) -> None:
    assert cli.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    topics = {line.split()[0] for line in lines}
    assert {"einbound", "python", "numpy", "blas", "processor", "memory", "rich"} <= topics
    assert any(np.__version__ in line for line in lines)


def test_the_program_runs_as_a_module_and_a_closed_pipe_is_quiet() -> None:
    code = (
        "import os, sys; sys.path.insert(0, sys.argv.pop(1)); r, w = os.pipe(); os.close(r); "
        "os.dup2(w, 1); from einbound.cli import main; sys.exit(main(['doctor']))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(SRC)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run(
        [sys.executable, "-m", "einbound", "doctor"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    assert done.returncode == 0
    assert "numpy" in done.stdout


def test_the_version_is_told(capsys: Out) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"einbound {eb.__version__}\n"


SMALL = ["P=40", "a=24", "b=24", "c=24", "d=24", "i=4", "j=4"]


def test_demo_keeps_its_limit_and_its_result(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    assert cli.main(["demo", "--size", *SMALL]) == 0
    told = capsys.readouterr().out
    for words in ("limit kept, results equal", "modelled peak", "tracked peak", "process peak"):
        assert words in told


@pytest.mark.parametrize(
    ("grown", "verdict"),
    [
        (Growth(10**9, None), "limit NOT KEPT, results equal"),
        (Growth(0, 10**9), "limit NOT KEPT, results equal"),
        (Growth(0, None), "limit kept, results equal"),
    ],
)
def test_demo_believes_the_measured_peak_not_the_model(
    grown: Growth, verdict: str, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_measured", lambda *_: grown)
    assert cli.main(["demo", "--size", *SMALL]) == ("NOT" in verdict)
    assert verdict in capsys.readouterr().out


def test_a_measured_run_sees_the_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    example = demo.Example.load(dict.fromkeys("abcdP", 48) | {"i": 4, "j": 4})
    plan = eb.plan(example.expression, *example.shapes)
    task = {"plan": plan.to_json(), "sizes": example.sizes}
    growth = json.loads(run_fresh("einbound.demo", [], json.dumps(task)))
    operands_bytes = sum(8 * prod(shape) for shape in example.shapes)
    assert growth["tracked_bytes"] > 0.9 * (plan.peak_bytes - operands_bytes)


KERNEL = ["explain", "ik,kj->ij", "--size", "i=200", "k=300", "j=100", "--dtype", "float16"]


def test_kernels_of_an_expression_are_explained(capsys: Out) -> None:
    assert cli.main([*KERNEL, "--target", "sm_90"]) == 0
    told = capsys.readouterr().out
    sections = [line for line in told.splitlines() if line and not line.startswith(" ")]
    assert sections[:4] == [
        "ik,kj->ij",
        "product",
        "census",
        "refused, since no completion is legal",
    ]
    assert sections[-3:] == ["pick", "others", "search"]
    assert "proven: no kernel that is proposed costs less" in told
    assert "an independent replay confirms every step" in told


def test_a_lattice_adds_kernels(capsys: Out) -> None:
    counts = []
    for more in ([], ["--lattice"]):
        cli.main([*KERNEL, "--target", "sm_90", *more])
        told = capsys.readouterr().out
        (line,) = [line for line in told.splitlines() if line.startswith("  kernels")]
        counts.append(int(line.split()[1].replace(",", "")))
    assert counts[0] < counts[1]


def test_every_step_of_a_chain_has_its_kernel(capsys: Out) -> None:
    sizes = ["--size", "i=8", "j=16", "k=32", "l=8"]
    assert cli.main(["explain", "ij,jk,kl->il", *sizes, "--target", "cpu", "--reference"]) == 0
    assert capsys.readouterr().out.count("product\n") == 2


def test_published_menus_have_kernels_whichever_operand_comes_first(capsys: Out) -> None:
    for subscripts in ("ik,kj->ij", "kj,ik->ij"):
        sizes = ["--size", "i=64", "j=64", "k=64", "--dtype", "float32"]
        assert cli.main(["explain", subscripts, *sizes, "--target", "cpu", "--reference"]) == 0
        assert "  kernels  0 " not in capsys.readouterr().out


def test_a_step_without_a_kernel_says_why_and_the_others_are_explained(capsys: Out) -> None:
    sizes = ["--size", "i=40", "j=50", "k=60"]
    assert cli.main(["explain", "i,j,jk->ik", *sizes, "--target", "sm_90"]) == 0
    told = capsys.readouterr().out
    assert told.count("product\n") == 1
    assert "the step is no matrix product: it sums nothing" in told


def test_an_expression_with_sizes_is_planned_and_explained(capsys: Out) -> None:
    assert cli.main(KERNEL) == 0
    plan = eb.plan("ik,kj->ij", (200, 300), (300, 100), dtype="float16")
    assert capsys.readouterr().out == f"{plan.explain()}\n"
