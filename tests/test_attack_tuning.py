"""Tuning where compilers, kernels, clocks and records misbehave."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import weakref
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from shutil import which
from types import SimpleNamespace
from typing import Any

import pytest

from einbound.api import engines
from einbound.api.engines import Engine
from einbound.backends.backend import Backend
from einbound.backends.pool import Pool
from einbound.kernels.emit_c import c_source
from einbound.kernels.nest import nest_of
from einbound.plan.price import Limit
from einbound.tune.build import run_child
from einbound.tune.measure import Clock, measure
from einbound.tune.ranking import Ranking
from einbound.tune.trial import trial
from einbound.tune.tuner import Built, Stop
from native_tools import needs_compiler, toolchain
from test_build import PROBLEM as PACKED_PROBLEM
from test_build import packed
from test_tune_choice import CPU, PROBLEM, record_at, shop
from test_tune_measure import QUICK, FakeTime
from test_tuner import three, won
from tune_fakes import Machine, tree_of

# Children -----------------------------------------------------------------------------------------


def is_running(pid: int) -> bool:
    """Whether a process computes or waits; one that ended and was not asked for does not."""
    told = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return told.stdout.strip()[:1] not in ("", "Z")


@pytest.mark.skipif(which("ps") is None, reason="nothing tells which processes run")
def test_what_a_compiler_starts_ends_with_it() -> None:
    done = run_child(("/bin/sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!; wait"), 0.3)
    assert done.code is None
    pid = int(done.output)
    try:
        assert not is_running(pid)
    finally:
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


def test_an_interrupt_ends_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[subprocess.Popen[str]] = []

    def interrupted(child: subprocess.Popen[str], *_: object, **__: object) -> None:
        children.append(child)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_child((sys.executable, "-c", "input()"), 10)
    assert children[0].returncode == -signal.SIGKILL


@needs_compiler
@pytest.mark.parametrize(
    ("stray", "reason"),
    [
        ("((char *)workspace)[-1] = 0;", "it writes beside its workspace"),
        ("((char *)workspace)[{workspace}] = 0;", "it writes beside its workspace"),
        ("((char *)c)[-1] = 0;", "it writes beside the result"),
    ],
)
def test_a_right_kernel_that_writes_elsewhere_fails_its_trial(stray: str, reason: str) -> None:
    member, task = packed()
    right = c_source(nest_of(member)).replace("einbound_run", "right_run")
    spoilt = f"""{right}
void einbound_run(const int64_t *task, const void *a, const void *b, void *c, void *workspace,
                  int64_t first, int64_t stop)
{{
    right_run(task, a, b, c, workspace, first, stop);
    {stray.format(workspace=task.workspace_bytes)}
}}
"""
    found = trial(toolchain().build(spoilt), PACKED_PROBLEM, member, task)
    assert (found.passed, found.reason) == (False, reason)


# Times --------------------------------------------------------------------------------------------


def test_a_clock_of_threads_that_shows_nothing_is_replaced_by_that_of_the_wall() -> None:
    time = FakeTime()
    (timing,) = measure([time.kernel([1.0])], QUICK, Clock(lambda: time.now, lambda: 0.0))
    assert timing.seconds == 1.0


def test_after_an_interrupt_a_win_within_the_noise_is_none() -> None:
    machine = Machine(
        real={8: 1.0, 16: 0.999, 32: 0.5}, model={8: 1.0, 16: 1.1, 32: 1.2}, interrupts={32}
    )
    tuned = machine.tune()
    assert (won(tuned), tuned.stop, tuned.ratio) == (8, Stop.INTERRUPT, 1.0)


def test_a_win_within_the_spread_of_its_rounds_is_none() -> None:
    here, there = three(), three()
    there.time = here.time
    build = there.build

    def uneven(problem: Any, spec: Any) -> Any:
        built = build(problem, spec)
        assert isinstance(built, Built)
        seconds = [1.0, 0.1, 0.9, 2.0, 0.9, 3.0]
        return replace(built, run=here.time.kernel(seconds)) if spec.bm == 32 else built

    assert won(here.tune(elsewhere=lambda: uneven)) == 8


def test_what_cannot_beat_the_bound_by_more_than_the_noise_is_pruned() -> None:
    tuned = three().tune(bound_seconds=0.8965)
    assert (won(tuned), tuned.n_measured, tuned.stop) == (16, 2, Stop.BOUND)


def test_a_tile_is_known_by_the_best_that_was_seen_of_it() -> None:
    model = {8: 1.0, 16: 1.1, 32: 1.2}
    ranking = Ranking.of(tree_of(tuple(model), (4, 6)), lambda spec: model[spec.bm])
    four, six = (
        [each for each in ranking.candidates if each.spec.tile.sizes[0] == rm]  # type: ignore[union-attr]
        for rm in (4, 6)
    )
    ranking.remaining = [ranking.candidates.index(each) for each in (four[2], six[2])]
    ranking.learn(four[0], 1.0)
    ranking.learn(four[1], 3.3)
    ranking.learn(six[0], 2.0)
    assert ranking.next() == four[2]


# Winners ------------------------------------------------------------------------------------------


def test_a_pinned_winner_of_this_compiler_goes_first(tmp_path: Path) -> None:
    workshop = shop(tmp_path)
    exact = record_at(1, workshop)
    other = replace(record_at(2, workshop), context=replace(exact.context, compiler="cc 99"))
    for pinned in ((other, exact), (exact, other)):
        choice = replace(workshop.choice, pinned=pinned)
        assert choice.winner(PROBLEM) == replace(exact, source="")


def test_the_winner_is_kept_with_the_ratio_that_was_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = shop(tmp_path)
    seen = replace(record_at(1, workshop), ratio=0.4)
    tuned = SimpleNamespace(record=seen, ratio=0.7, records=())
    made = import_module("einbound.tune.workshop")
    monkeypatch.setattr(made, "tune", lambda *_, **__: tuned)
    monkeypatch.setattr(made, "untuned", lambda *_: None)
    workshop.tune(PROBLEM)
    winner = workshop.store.winner(PROBLEM, workshop.context)
    assert winner is not None
    assert winner.ratio == 0.7


# Plans --------------------------------------------------------------------------------------------


def test_under_a_limit_auto_may_take_what_numpy_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(ways: object, metered: object, limit: Limit) -> Limit:
        return limit

    monkeypatch.setattr(engines, "_native", lambda: SimpleNamespace(ways_by_step=told))
    metered = SimpleNamespace(steps={0: None}, space_bytes=100, workspace_bytes=50)
    made = SimpleNamespace(metered=metered, choosing=lambda ways: ways)
    ways: Any = object()
    for given in (Limit(1000, None), Limit(None, 1000)):
        assert Engine(Backend.AUTO, ways).with_kernels(made, given) == Limit(100, 50)
        assert Engine(Backend.NATIVE, ways).with_kernels(made, given) == given
    free = Limit(None, None)
    assert Engine(Backend.AUTO, ways).with_kernels(made, free) == free


class Held:
    """What a part works on."""

    def use(self) -> None:
        """Nothing."""


def test_the_pool_keeps_nothing_that_a_part_worked_on() -> None:
    held = Held()
    seen = weakref.ref(held)
    pool = Pool()
    pool.run([held.use, held.use])
    del held
    gc.collect()
    # The thread tells that its part has ended, and then lets go.
    assert any(seen() is None for _ in range(10**7))


def test_an_old_result_does_not_pass_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = import_module("einbound.tune.bench")
    idle = SimpleNamespace(call=lambda *_: None)
    monkeypatch.setattr(made, "load", lambda path: idle)
    _, task = packed()
    tools: Any = None
    bench = made.Bench.of(PACKED_PROBLEM, tools, CPU)
    bench.operands.c[...] = bench.operands.expected
    assert bench.operands.fault() is None
    assert "elements are wrong" in bench._built(Path(), task, "").fault()


def test_one_busy_round_is_no_busy_machine() -> None:
    time = FakeTime()
    state = {"n": 0}

    def run() -> None:
        state["n"] += 1
        time.share = 0.5 if state["n"] == 3 else 1.0
        kernel()

    kernel = time.kernel([1.0])
    (timing,) = measure([run], QUICK, time.clock)
    assert not timing.contended


def test_the_untuned_choice_is_tried_first_whatever_the_model_says() -> None:
    tree = tree_of((8, 16, 32))
    model = {8: 1.0, 16: 1.1, 32: 1.2}
    (_, _, last) = Ranking.of(tree, lambda spec: model[spec.bm]).candidates
    found = Ranking.of(tree, lambda spec: model[spec.bm], last.path)
    assert found.next() == last
