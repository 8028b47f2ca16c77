"""What surroundings may do to kernels: forks, folders, compilers, files of records, odd arrays."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einbound as eb
from einbound.api.options import Options, current_options
from einbound.backends.pool import Pool, shared_pool
from einbound.errors import KernelError
from einbound.kernels.problem import MatmulProblem
from einbound.step.blocked import Core
from einbound.tune.build import Toolchain, find_compiler
from einbound.tune.compilers import commands
from einbound.tune.exchange import FORMAT, exported, imported
from einbound.tune.records import Context, Outcome, Record, record_of
from einbound.tune.store import Store
from einbound.tune.tuner import Failure
from native_tools import needs_compiler, toolchain
from tune_fakes import Machine

PROBLEM = MatmulProblem(m=4, n=5, k=6)
RECORD = Record(
    problem=PROBLEM.key,
    decisions='[{"is": "RowBlock", "bm": 16}]',
    label="row-block=bm16",
    context=Context("a core", "cc 1", "-O2", "0"),
    source="abc",
    seconds=1e-3,
    ratio=0.5,
    model_seconds=2e-3,
)
#: Values of every JSON type.
JUNK: list[Any] = [
    None, True, -1, 10**400, float("nan"), float("inf"), "", "x", "\ud800", "[]", "{}", "[1]",
    [], [1], {}, {"a": 1}, {"m": "x", "n": 1, "k": 1},
]  # fmt: skip


def cores(plan: eb.Plan) -> list[Core]:
    steps = plan._made.executable.metered.steps.values()
    return [step.way.core for step in steps if step.way is not None]


# Threads and forks --------------------------------------------------------------------------------


def in_a_fork(work: Any, seconds: int = 20) -> int:
    """The status of a child that does some work, and is ended if it hangs."""
    child = os.fork()
    if not child:
        signal.alarm(seconds)
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_child_of_a_fork_starts_threads_of_its_own() -> None:
    done: list[int] = []
    shared_pool().run([lambda: done.append(0), lambda: done.append(1)])
    assert sorted(done) == [0, 1]

    def work() -> None:
        seen: list[int] = []
        shared_pool().run([lambda: seen.append(0), lambda: seen.append(1)])
        assert sorted(seen) == [0, 1]

    assert in_a_fork(work) == 0


def test_a_pool_runs_parts_that_nobody_prepared_it_for() -> None:
    done: list[int] = []
    Pool().run([lambda: done.append(0), lambda: done.append(1), lambda: done.append(2)])
    assert sorted(done) == [0, 1, 2]


# Compilers and folders ----------------------------------------------------------------------------


def test_a_command_with_an_open_quote_is_a_compiler_that_does_not_run() -> None:
    assert commands("gcc '-O2") == (("gcc '-O2",),)
    assert "no C compiler runs" in str(find_compiler("gcc '-O2"))


def test_the_cache_folder_does_not_depend_on_where_a_program_goes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Options(cache=".").cache_folder == tmp_path
    assert Options(cache="there").cache_folder == tmp_path / "there"
    monkeypatch.delenv("EINBOUND_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "base")
    assert Options().cache_folder == tmp_path / "base" / "einbound"


@needs_compiler
def test_objects_are_loaded_from_the_folder_that_a_program_is_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    with eb.options(cache=".", backend="native"):
        folder = current_options().cache_folder
    assert Toolchain(toolchain().compiler, folder).build("int x;").parent == tmp_path


def homeless(path: Path) -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_without_a_home_auto_is_numpy_and_native_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("EINBOUND_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: homeless(Path()))
    with pytest.raises(eb.BackendError, match=r"folder '~/\.cache' cannot be found"):
        eb.plan("ij,jk->ik", (2, 2), (2, 2), backend="native")
    plan = eb.plan("ij,jk->ik", (2, 2), (2, 2), backend="auto")
    assert cores(plan) == [Core.MATMUL]
    assert "NumPy alone, since the cache folder '~/.cache' cannot be found" in plan.explain()


def open_to_all(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def a_file(folder: Path) -> None:
    folder.write_text("")


@needs_compiler
@pytest.mark.parametrize("spoil", [open_to_all, a_file])
def test_a_folder_that_cannot_be_used_is_an_error_for_native_and_a_reason_for_auto(
    spoil: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "objects"
    spoil(folder)
    a = np.ones((400, 13)), np.ones((13, 400))
    with eb.options(cache=folder):
        with pytest.raises(eb.BackendError, match=f"the cache folder {folder} "):
            eb.einsum("ij,jk->ik", *a, backend="native")
        plan = eb.plan("bij,bjk->bik", (64, 8, 8), (64, 8, 8), backend="auto")
        assert cores(plan) == [Core.MATMUL]
        assert f"the cache folder {folder} " in plan.explain()


@needs_compiler
@pytest.mark.parametrize("broken", ["scratch", "put", "find"])
def test_a_folder_that_fills_up_during_a_build_is_told(
    broken: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(import_module("einbound.tune.objects").Objects, broken, full)
    tools = Toolchain(toolchain().compiler, tmp_path / "objects")
    with pytest.raises(eb.BackendError, match="objects cannot be used: No space left on device"):
        tools.build("int x;")


# Records ------------------------------------------------------------------------------------------


def spoilt() -> Iterator[str]:
    """Lines of records with one value replaced."""
    whole = json.loads(RECORD.to_json())
    for name in (*whole, "outcome", "spread", "reason", "contended", "unknown"):
        for junk in JUNK:
            yield json.dumps({**whole, name: junk})
    for name in whole["context"]:
        for junk in JUNK:
            yield json.dumps({**whole, "context": {**whole["context"], name: junk}})
    yield from map(json.dumps, JUNK)


def test_a_line_is_no_record_or_one_that_can_be_used(tmp_path: Path) -> None:
    store = Store(tmp_path / "kernels.db")
    understood = 0
    for line in spoilt():
        try:
            record = record_of(line)
        except KernelError:
            continue
        understood += 1
        MatmulProblem.from_json(record.problem)
        assert [each.to_json() for each in imported(exported([record]))] == [record.to_json()]
        assert f"{record.seconds or 0.0:.3g} {record.spread:.3g} {record.label[:3]}"
        store.crown([record])
        assert store.winners() != ()
    assert understood > 10


def test_a_file_with_any_entry_is_read_or_refused() -> None:
    for line in spoilt():
        text = json.dumps({"format": FORMAT, "winners": [json.loads(line)]})
        assert len(imported(text)) <= 1


def test_a_folder_that_may_not_be_entered_has_no_records(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(path: Path, **_: object) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refused)
    store = Store(tmp_path / "gone" / "kernels.db")
    assert (store.winners(), store.clear()) == ((), 0)


def test_the_untuned_choice_stays_where_the_best_cannot_be_built_again() -> None:
    machine = Machine(real={8: 2.0, 16: 1.0}, model={8: 1.0, 16: 1.1})
    failing = Failure(Outcome.TIMED_OUT, "ran out of time")
    tuned = machine.tune(elsewhere=lambda: lambda problem, spec: failing)
    assert tuned.winner is tuned.untuned
    assert tuned.ratio == 1.0
