"""Plans on compiled kernels: the same values, peaks that are kept, choices that are told."""

from __future__ import annotations

import json
import pickle
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import einbound as eb
from einbound.api import engines
from einbound.api.engines import Engine, engine_of
from einbound.api.options import Options, current_options
from einbound.backends.backend import Backend
from einbound.backends.sizes import Metered
from einbound.run import executable
from einbound.run.allocator import Allocator
from einbound.step.blocked import Core
from einbound.tune.compilers import INSTALL
from native_tools import few_objects, needs_compiler
from trees import random_network

LADDER = "Pac,Pbd,ijcd->ijab"


@pytest.fixture(autouse=True)
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every product gets the same kernel, so that few objects are compiled; but for some tests."""
    if {"tmp_path", "no_compiler"}.isdisjoint(request.fixturenames):
        monkeypatch.setattr(engines, "_engine", few_objects)


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/nowhere/cc")


class Counted(Allocator):
    """An allocator that can be asked afterwards what it did."""

    __slots__ = ()
    made: ClassVar[list[Allocator]] = []

    def __init__(self, capacity_bytes: int) -> None:
        super().__init__(capacity_bytes)
        self.made.append(self)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Allocator]:
    monkeypatch.setattr(executable, "Allocator", Counted)
    Counted.made.clear()
    return Counted.made


def ladder() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((30, 12, 12)), rng.standard_normal((5, 5, 12, 12))


def cores(plan: eb.Plan) -> list[Core]:
    return [way.core for way in plan._made.executable.metered.ways.values()]


def counts(metered: Metered) -> tuple[int, int, int]:
    return metered.peak_bytes, metered.workspace_bytes, metered.macs


@needs_compiler
@pytest.mark.parametrize("backend", ["native", "auto"])
@pytest.mark.parametrize("limit", [None, "95kB", "60kB"])
def test_a_plan_computes_the_same_and_takes_what_it_says(
    backend: str, limit: str | None, counted: list[Allocator]
) -> None:
    b, t = ladder()
    expected = np.einsum(LADDER, b, b, t, optimize=True)
    plan = eb.plan(
        LADDER, b, b, t, memory_limit=limit and 200_000, workspace_limit=limit, backend=backend
    )
    assert np.allclose(plan(b, b, t), expected)
    assert counts(plan.meter()) == (plan.peak_bytes, plan.workspace_bytes, plan.macs)
    assert counted[-1].peak_bytes == plan.workspace_bytes
    assert counted[-1].live_bytes == 0
    assert plan.fits
    if backend == "native" and limit is None:
        assert set(cores(plan)) == {Core.NATIVE}


@needs_compiler
def test_random_plans_keep_their_limits_and_auto_takes_no_more_than_numpy(
    counted: list[Allocator],
) -> None:
    rng = random.Random(5)
    n_native = 0
    for _ in range(20):
        network = random_network(rng, rng.randint(2, 4), rng.randint(3, 6), largest=6)
        text = ",".join(map(letters, network.inputs)) + "->" + letters(network.output)
        shapes = [tuple(2 * network.extents[i] for i in term) for term in network.inputs]
        arrays = [np.asarray(np.random.default_rng(1).integers(-3, 4, s), float) for s in shapes]
        free = eb.plan(text, *shapes)
        for share in (None, 1, 3):
            limit = (
                None
                if share is None
                else free.peak_bytes - free.workspace_bytes * (share - 1) // share
            )
            try:
                plain = eb.plan(text, *shapes, memory_limit=limit)
            except eb.BudgetError:
                continue
            native, auto = (
                eb.plan(text, *shapes, memory_limit=limit, backend=each)
                for each in ("native", "auto")
            )
            if limit is not None:
                assert native.peak_bytes <= limit
                assert auto.peak_bytes <= plain.peak_bytes
                assert auto.workspace_bytes <= plain.workspace_bytes
            for plan in (native, auto):
                counted.clear()
                assert np.array_equal(plan(*arrays), np.einsum(text, *arrays, optimize=True))
                taken = max((each.peak_bytes for each in counted), default=0)
                # What c_einsum takes is not taken from an allocator.
                hidden = any(w.hidden_bytes for w in plan._made.executable.metered.ways.values())
                assert taken <= plan.workspace_bytes if hidden else taken == plan.workspace_bytes
            n_native += Core.NATIVE in cores(native)
    assert n_native > 10


def letters(term: tuple[int, ...]) -> str:
    return "".join("abcdefghijkl"[i] for i in term)


@needs_compiler
def test_einsum_takes_a_backend_and_writes_where_it_is_told() -> None:
    a = np.arange(20.0).reshape(4, 5)
    out = np.zeros((5, 4, 2))
    eb.einsum("ij,jk->ik", a, a.T, out=out[:4, :, 1], backend="native")
    assert np.array_equal(out[:4, :, 1], a @ a.T)
    assert not out[:, :, 0].any()
    overlapping = np.arange(16.0).reshape(4, 4)
    expected = overlapping @ overlapping
    eb.einsum("ij,jk->ik", overlapping, overlapping, out=overlapping, backend="native")
    assert np.array_equal(overlapping, expected)


@needs_compiler
def test_explain_tells_what_every_step_runs_on_and_why() -> None:
    b, t = ladder()
    text = eb.plan(LADDER, b, b, t, backend="native").explain()
    assert "native: kernels by " in text
    assert text.count("; matmul ") == 2
    assert "packed_float64" in text
    assert "backend" not in eb.plan(LADDER, b, b, t).explain()
    mixed = eb.plan("ij,ij->ij", (3, 3), (3, 3), backend="native").explain()
    assert "it sums nothing" in mixed


@needs_compiler
@pytest.mark.parametrize("backend", ["native", "auto"])
def test_plans_are_kept_with_their_backend(backend: str) -> None:
    b, t = ladder()
    plan = eb.plan(LADDER, b, b, t, backend=backend, workspace_limit="50kB")
    told = json.loads(plan.to_json())["backend"]
    assert told == {"name": backend, "threads": 1, "profile": plan._made.setting.engine.profile}
    for again in (eb.Plan.from_json(plan.to_json()), pickle.loads(pickle.dumps(plan))):
        assert again.to_json() == plan.to_json()
        assert cores(again) == cores(plan)
        assert np.array_equal(again(b, b, t), plan(b, b, t))
    assert "backend" not in json.loads(eb.plan(LADDER, b, b, t).to_json())


@needs_compiler
def test_a_document_of_another_processor_says_so_where_numbers_differ() -> None:
    b, t = ladder()
    data = json.loads(eb.plan(LADDER, b, b, t, backend="native").to_json())
    data["backend"]["profile"] = "another"
    data["promised"]["workspace_bytes"] += 64
    with pytest.raises(eb.PlanError, match="its kernels are for processor 'another', this is "):
        eb.Plan.from_json(json.dumps(data))


@needs_compiler
def test_a_plan_that_is_called_for_other_arrays_keeps_its_backend() -> None:
    plan = eb.plan("ij,jk->ik", (8, 9), (9, 7), backend="native")
    a = np.ones((9, 8)).T
    again = plan._for((a, np.ones((9, 7))), None)
    assert again is not plan
    assert cores(again) == [Core.NATIVE]


@needs_compiler
def test_programs_take_a_backend_and_keep_their_limit() -> None:
    text = "R[i,j] = A[i,k] B[k,l] C[l,j] - 2 A[i,j]"
    rng = np.random.default_rng(2)
    given = {name: rng.standard_normal((20, 20)) for name in "ABC"}
    expected = given["A"] @ given["B"] @ given["C"] - 2 * given["A"]
    plain = eb.Program(text, memory_limit="25kB")
    plain(**given)
    for backend in ("native", "auto"):
        program = eb.Program(text, memory_limit="25kB", backend=backend)
        assert np.allclose(program(**given)["R"], expected)
        assert program.peak_bytes <= 25_000
        if backend == "auto":
            assert program.peak_bytes <= plain.peak_bytes


@needs_compiler
def test_a_pickled_program_finds_compiler_and_processor_anew() -> None:
    text = "volatile T; X[i,j] = A[i,k] A[j,k]; R[i,j] = X[i,k] T[k,j]"
    equations = eb.Equations.parse(text, dict.fromkeys("ijk", 24))
    program = eb.Program(equations, iterations=5, backend="native")
    kept = pickle.dumps(program)
    assert b"Toolchain" not in kept
    assert pickle.loads(kept).explain() == program.explain()


@needs_compiler
def test_a_program_explains_what_its_products_run_on() -> None:
    text = "volatile T; X[i,j] = A[i,k] A[j,k]; R[i,j] = X[i,k] T[k,j]"
    equations = eb.Equations.parse(text, dict.fromkeys("ijk", 24))
    told = eb.Program(equations, iterations=5, backend="native").explain()
    assert "\nbackend\n  native: kernels by" in told
    for product in ("A[i,k] A[j,k]", "X[i,k] T[k,j]"):
        assert re.search(rf" {re.escape(product)} +\w+_float64_\w+ +predicted", told)
    assert "\nbackend\n" not in eb.Program(equations, iterations=5).explain()


def test_without_a_compiler_native_is_refused(no_compiler: None) -> None:
    with pytest.raises(
        eb.BackendError, match="no C compiler runs: /nowhere/cc --version"
    ) as caught:
        eb.plan("ij,jk->ik", (2, 2), (2, 2), backend="native")
    assert INSTALL in str(caught.value)


def test_without_a_compiler_auto_is_numpy_and_says_why(no_compiler: None) -> None:
    plan = eb.plan("ij,jk->ik", (2, 2), (2, 2), backend="auto")
    assert cores(plan) == [Core.MATMUL]
    assert "auto: NumPy alone, since no C compiler runs" in plan.explain()
    assert eb.Plan.from_json(plan.to_json()).to_json() == plan.to_json()


@needs_compiler
def test_options_hold_inside_and_inner_ones_win() -> None:
    with eb.options(backend="native", threads=2):
        assert engine_of(None).n_threads == 2
        with eb.options(threads=1, memory_limit="1 MiB"):
            plan = eb.plan("ij,jk->ik", (8, 8), (8, 8))
            assert cores(plan) == [Core.NATIVE]
            assert "memory_limit" in str(plan)
            assert cores(eb.plan("ij,jk->ik", (8, 8), (8, 8), backend="numpy")) == [Core.MATMUL]
    assert current_options() == Options()
    assert cores(eb.plan("ij,jk->ik", (8, 8), (8, 8))) == [Core.MATMUL]


def test_a_limit_from_options_also_holds_for_products_seen_before() -> None:
    a = np.ones((40, 40))
    eb.einsum("ij,jk->ik", a, a)
    with eb.options(memory_limit="1 kB"), pytest.raises(eb.BudgetError, match="memory_limit=1000"):
        eb.einsum("ij,jk->ik", a, a)


def test_threads_and_cache_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINBOUND_THREADS", "3")
    monkeypatch.setenv("EINBOUND_CACHE", "/somewhere/else")
    assert Options().n_threads == 3
    assert Options(threads=2).n_threads == 2
    assert Options().cache_folder == Path("/somewhere/else")
    assert Options(cache="~/objects").cache_folder == Path.home() / "objects"
    monkeypatch.delenv("EINBOUND_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert Options().cache_folder == Path("/xdg/einbound")
    monkeypatch.setenv("EINBOUND_THREADS", "many")
    with pytest.raises(ValueError, match=r"\$EINBOUND_THREADS is 'many'; expected a whole number"):
        _ = Options().n_threads


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"speed": 1}, TypeError, "option 'speed' is not known; expected one of memory_limit"),
        ({"backend": "torch"}, eb.BackendError, "backend 'torch' is not known"),
        ({"threads": 0}, ValueError, "threads is 0; expected a whole number of threads"),
        ({"threads": 1.5}, TypeError, "threads is 1.5 of type float"),
        ({"tuned": 3}, TypeError, "tuned is 3 of type int; expected True, False, or the path"),
        ({"cache": 3}, TypeError, "cache is 3 of type int; expected the path"),
        ({"memory_limit": "much"}, ValueError, "memory_limit"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    given: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message), eb.options(**given):
        pass


@needs_compiler
def test_the_profile_is_that_of_processor_and_records(tmp_path: Path) -> None:
    with eb.options(cache=tmp_path):
        plain = engine_of("auto")
        with eb.options(tuned=True):
            tuned = engine_of("auto")
    assert plain.ways is not None
    assert tuned.ways is not None
    assert plain.profile == tuned.profile, "no record is kept yet"
    slower = replace(plain.ways, limits=replace(plain.ways.limits, clock_hz=1e9))
    assert Engine(Backend.AUTO, slower).profile != plain.profile


@pytest.mark.parametrize("case", ["as a new one", "in other order", "shared", "read-only"])
def test_a_given_array_gets_the_product_or_is_refused(case: str) -> None:
    draw = np.random.default_rng(0)
    a, b = draw.standard_normal((2, 40, 40))
    right, out = a @ b, np.empty((40, 40))
    if case == "in other order":
        out = np.empty((40, 40)).T
    if case == "shared":
        out = a
    if case == "read-only":
        out.flags.writeable = False
    plan = eb.plan("ik,kj->ij", a, b)
    if case == "read-only":
        with pytest.raises(eb.ExpressionError, match="out is read-only"):
            plan(a, b, out=out)
        return
    assert plan(a, b, out=out) is out
    assert np.allclose(out, right)
