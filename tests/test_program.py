"""Programs: right values in every call, kept values made once, nothing above the limit."""

from __future__ import annotations

import contextlib
import copy
import gc
import threading
import tracemalloc
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from math import prod
from pickle import dumps, loads
from typing import Any, ClassVar

import numpy as np
import pytest

import einbound as eb
import einbound.api.stages
import einbound.run.forest
from einbound.api.program import Program
from einbound.api.stages import Part, Stages
from einbound.backends.numpy_ops import NumpyOps
from einbound.report.program import Home, ProgramMeter
from einbound.run.forest import ForestExecutable
from einbound.schedule.cells import Cell
from einbound.schedule.instructions import Contract, Sum

Array = np.ndarray[Any, Any]
SCHEDULERS = ["ordered", "forest_descent"]

#: A ladder with a constant part, a term of a sum, and a scalar.
LADDER = """
volatile T
R[i,j,a,b] = B[P,a,c] B[P,b,d] T[i,j,c,d] - F[i,k] T[k,j,a,b]
E = 1/2 T[i,j,a,b] T[i,j,a,b]
"""


def tensors(o: int = 3, v: int = 5, n: int = 7, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        "B": rng.standard_normal((n, v, v)),
        "T": rng.standard_normal((o, o, v, v)),
        "F": rng.standard_normal((o, o)),
    }


def ladder(given: dict[str, Array]) -> dict[str, Array]:
    b, t, f = given["B"], given["T"], given["F"]
    residual = np.einsum("Pac,Pbd,ijcd->ijab", b, b, t) - np.einsum("ik,kjab->ijab", f, t)
    return {"R": residual, "E": np.asarray((t * t).sum() / 2)}


def assert_close(got: dict[str, Array], wanted: dict[str, Array]) -> None:
    assert list(got) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-12, atol=1e-12)


class Builds:
    """Which values every run of an executable made, by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[tuple[str, ...]] = []
        run = ForestExecutable.run

        def counted(ready: ForestExecutable, *args: Any, **kwargs: Any) -> tuple[Array, ...]:
            results = run(ready, *args, **kwargs)
            forest = ready.plan.forest
            self.made.append(tuple(forest.values[n].name for n in forest.targets))
            return results

        monkeypatch.setattr(ForestExecutable, "run", counted)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    return Builds(monkeypatch)


# values and bounds --------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("memory_limit", [None, 15_000, 9_500])
def test_every_call_gives_the_targets(scheduler: str, memory_limit: int | None) -> None:
    program = eb.Program(LADDER, memory_limit, iterations=5, scheduler=scheduler)
    given = tensors()
    for seed in range(3):
        given["T"] = tensors(seed=seed)["T"]
        assert_close(program(**given), ladder(given))
    assert memory_limit is None or program.peak_bytes <= memory_limit


def test_a_smaller_limit_keeps_less_and_computes_more() -> None:
    given = tensors()
    programs = [eb.Program(LADDER, limit, iterations=5) for limit in (15_000, 9_500)]
    for program in programs:
        program(given)
    wide, tight = programs
    assert wide.kept_bytes > tight.kept_bytes == 0
    assert tight.macs > wide.macs


def test_what_is_traced_stays_within_the_peak() -> None:
    given = tensors(4, 12, 20)
    program = eb.Program(LADDER, 400_000, iterations=5)
    program(given)
    program.reset()
    operand_bytes = program.meter().operand_bytes
    gc.collect()
    tracemalloc.start()
    results = program(given)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert set(results) == {"R", "E"}
    # Interpreter objects come on top of arrays, as for single plans.
    assert operand_bytes + peak <= program.peak_bytes + 256 * 1024


def test_a_limit_below_all_plans_is_refused_with_the_least_peak() -> None:
    program = eb.Program(LADDER, 5_000)
    with pytest.raises(eb.BudgetError, match=r"memory_limit=5000 bytes is too small") as caught:
        program(tensors())
    least = caught.value.smallest_bytes
    assert caught.value.lower_bound_bytes <= least
    again = eb.Program(LADDER, least)
    assert_close(again(tensors()), ladder(tensors()))


def test_extents_in_the_equations_plan_at_once() -> None:
    spaces = "space o: ijk = 3; space v: abcd = 5; space x: P = 7"
    sized = eb.Equations.parse(spaces + LADDER)
    program = eb.Program(sized, iterations=5)
    known = program.peak_bytes
    program(tensors())
    assert program.peak_bytes == known
    with pytest.raises(eb.BudgetError, match="too small"):
        eb.Program(sized, 5_000)


def test_without_extents_counts_are_asked_after_a_call_only() -> None:
    program = eb.Program(LADDER)
    assert "not planned yet" in repr(program)
    with pytest.raises(eb.EquationsError, match="not planned yet, since the equations do not tell"):
        _ = program.peak_bytes


def test_other_layouts_are_planned_again() -> None:
    program = eb.Program(LADDER, 40_000, iterations=5)
    for given in (tensors(), tensors(2, 6, 4), {k: a.T.copy().T for k, a in tensors().items()}):
        assert_close(program(given), ladder(given))
        assert program.peak_bytes <= 40_000


def test_shared_memory_counts_once_and_may_not_grow() -> None:
    square = np.random.default_rng(0).standard_normal((8, 8))
    program = eb.Program("R[i,k] = A[i,j] B[j,k]", 3 * square.nbytes - 8)
    np.testing.assert_allclose(program(A=square, B=square)["R"], square @ square)
    with pytest.raises(eb.BudgetError, match="too small"):
        program(A=square, B=square.copy())


# kept values --------------------------------------------------------------------------------


def test_kept_values_are_made_once(builds: Builds) -> None:
    program = eb.Program(LADDER, iterations=5)
    given = tensors()
    for seed in range(4):
        program({**given, "T": tensors(seed=seed)["T"]})
    assert len(builds.made) == 1 + 4
    assert program.kept_bytes == 5**4 * 8
    assert program.meter().each.macs == program.macs < program.meter().macs(1)


#: Two squares that are worth keeping.
TWO = """
volatile t u
R[i,l] = A[i,j] A[j,k] t[k,l]
S[i,l] = C[i,j] C[j,k] u[k,l]
"""


def columns(seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    squares = {name: rng.standard_normal((30, 30)) for name in "AC"}
    return {**squares, **{name: rng.standard_normal((30, 20)) for name in "tu"}}


def two(given: dict[str, Array]) -> dict[str, Array]:
    return {
        "R": given["A"] @ given["A"] @ given["t"],
        "S": given["C"] @ given["C"] @ given["u"],
    }


def kept_program(**options: Any) -> Program:
    """One that keeps both squares: many calls make that worth its multiply-adds."""
    return eb.Program(TWO, iterations=1000, **options)


def test_a_changed_tensor_rebuilds_what_depends_on_it_and_nothing_else(builds: Builds) -> None:
    program = kept_program()
    given = columns()
    program(given)
    first, _ = builds.made
    assert len(first) == 2
    given["A"] = given["A"] + 1
    assert_close(program(given), two(given))
    rebuilt = builds.made[2]
    assert len(rebuilt) == 1
    assert_close(program(given), two(given))
    assert len(builds.made) == 5
    given["C"] = given["C"] * 2
    assert_close(program(given), two(given))
    assert builds.made[5] == tuple(set(first) - set(rebuilt))


def test_another_view_of_the_same_memory_is_the_same_tensor(builds: Builds) -> None:
    program, given = kept_program(), columns()
    program(given)
    program({**given, "A": given["A"][:], "C": given["C"][:, :]})
    assert len(builds.made) == 3
    assert_close(program({**given, "A": given["A"].T}), two({**given, "A": given["A"].T}))


def test_a_new_array_in_the_memory_of_a_dead_one_is_another_tensor() -> None:
    program, given = kept_program(), columns()
    program(given)
    del given["A"]
    for seed in range(5):
        given["A"] = np.random.default_rng(seed).standard_normal((30, 30))
        assert_close(program(given), two(given))


def test_writing_over_a_tensor_is_told_by_reset_or_seen_by_a_digest(builds: Builds) -> None:
    given = columns()
    by_identity, by_digest = kept_program(), kept_program(check="digest")
    for program in (by_identity, by_digest):
        program(given)
    old = two(given)
    given["A"] *= 2
    assert_close(by_digest(given), two(given))
    assert_close(by_identity(given), old)
    by_identity.reset("A")
    builds.made.clear()
    assert_close(by_identity(given), two(given))
    assert len(builds.made) == 2
    assert len(builds.made[0]) == 1


def test_a_digest_knows_equal_elements_in_other_memory(builds: Builds) -> None:
    program, given = kept_program(check="digest"), columns()
    program(given)
    program({name: array.copy() for name, array in given.items()})
    assert len(builds.made) == 3


def test_everything_is_made_anew_where_a_part_has_no_room(
    monkeypatch: pytest.MonkeyPatch, builds: Builds
) -> None:
    program, given = kept_program(), columns()
    program(given)
    part = Stages._part

    def cramped(stages: Stages, made: tuple[str, ...]) -> Part:
        if made != stages.kept:
            raise eb.BudgetError(
                "no room",
                limit_bytes=0,
                smallest_bytes=1,
                lower_bound_bytes=0,
                culprit="",
                culprit_bytes=0,
            )
        return part(stages, made)

    monkeypatch.setattr(Stages, "_part", cramped)
    given["A"] = given["A"] + 1
    assert_close(program(given), two(given))
    assert len(builds.made[2]) == 2


def test_reset_forgets_everything_and_refuses_unknown_names(builds: Builds) -> None:
    program, given = kept_program(), columns()
    program(given)
    program.reset()
    program(given)
    assert [len(made) for made in builds.made] == [2, 2, 2, 2]
    with pytest.raises(eb.EquationsError, match=r"'X' is neither tensor nor kept value; expected"):
        program.reset("X")


def test_results_belong_to_the_caller() -> None:
    program, given = kept_program(), columns()
    saved = {name: array.copy() for name, array in given.items()}
    for _ in range(2):
        results = program(given)
        for array in results.values():
            assert not any(np.may_share_memory(array, each) for each in given.values())
            array[...] = np.nan
    assert_close(program(given), two(given))
    for name, array in given.items():
        np.testing.assert_array_equal(array, saved[name])


def test_a_target_that_is_a_tensor_is_a_copy_of_it() -> None:
    a = np.arange(6.0).reshape(2, 3)
    result = eb.Program("R[i,j] = A[j,i]")(A=a)["R"]
    np.testing.assert_array_equal(result, a.T)
    assert not np.may_share_memory(result, a)


def test_a_program_lets_go_of_tensors_and_of_itself() -> None:
    program, given = kept_program(), columns()
    program(given)
    dead = weakref.ref(given["A"]), weakref.ref(program)
    gc.disable()
    try:
        del given["A"], program
        assert [each() for each in dead] == [None, None]
    finally:
        gc.enable()


def test_threads_get_what_they_asked_for_and_build_once(builds: Builds) -> None:
    program = kept_program()
    cases = [columns()] * 4
    barrier = threading.Barrier(4)
    faults: list[BaseException] = []

    def work(given: dict[str, Array]) -> None:
        try:
            barrier.wait()
            for _ in range(3):
                assert_close(program(given), two(given))
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(given,)) for given in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert sum("R" not in made for made in builds.made) == 1


def test_threads_with_different_tensors_are_each_right() -> None:
    program = kept_program()
    faults: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            given = columns(seed)
            for _ in range(4):
                assert_close(program(given), two(given))
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_an_interrupt_leaves_nothing_half_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    program, given = kept_program(), columns()
    program(given)
    given["A"] = given["A"] + 1
    contract = NumpyOps.contract

    def interrupted(*args: Any) -> Any:
        contract(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(NumpyOps, "contract", interrupted)
        with pytest.raises(KeyboardInterrupt):
            program(given)
    assert_close(program(given), two(given))


# what the meter says ------------------------------------------------------------------------


class CountingOps(NumpyOps):
    """Operations that count themselves: multiply-adds, and what is begun and read of each value."""

    __slots__ = ()
    macs = 0
    builds: ClassVar[Counter[str]] = Counter()
    uses: ClassVar[Counter[str]] = Counter()

    def contract(self, what: Contract, left: Any, right: Any, into: Any, add: bool) -> Any:
        schedule = RUNNING[-1].lowered.schedule
        extents = dict(zip(schedule.cells[what.left].indices, left.shape, strict=True))
        extents |= zip(schedule.cells[what.right].indices, right.shape, strict=True)
        CountingOps.macs += prod(extents.values())
        CountingOps.uses.update([value_of(what.left), value_of(what.right)])
        return super().contract(what, left, right, into, add)

    def sum(self, what: Sum, source: Any, into: Any, add: bool) -> Any:
        CountingOps.uses[value_of(what.source)] += 1
        return super().sum(what, source, into, add)

    def alloc(self, cell: Cell, shape: tuple[int, ...]) -> Any:
        CountingOps.builds[value_of(cell.number)] += 1
        return super().alloc(cell, shape)


def value_of(cell: int | None) -> str:
    """The value whose memory a cell looks at; no name if it is an intermediate."""
    lowered, forest = RUNNING[-1].lowered, RUNNING[-1].plan.forest
    memory = -1
    while cell is not None:
        memory, cell = cell, lowered.schedule.cells[cell].source
    values = {cell: value for value, cell in enumerate(lowered.memory)}
    return forest.values[values[memory]].name if memory in values else ""


RUNNING: list[ForestExecutable] = []


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[CountingOps]]:
    walk = ForestExecutable._walk

    def noted(ready: ForestExecutable, *args: Any) -> Any:
        RUNNING.append(ready)
        return walk(ready, *args)

    monkeypatch.setattr(einbound.run.forest, "NumpyOps", CountingOps)
    monkeypatch.setattr(ForestExecutable, "_walk", noted)
    CountingOps.macs, CountingOps.builds, CountingOps.uses = 0, Counter(), Counter()
    yield CountingOps
    RUNNING.clear()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("memory_limit", [None, 9_500, 8_000])
def test_the_meter_counts_what_a_run_does(
    counted: type[CountingOps], scheduler: str, memory_limit: int | None
) -> None:
    program = eb.Program(LADDER, memory_limit, iterations=5, scheduler=scheduler)
    given = tensors()
    program(given)
    meter = program.meter()
    assert counted.macs == meter.once.macs + meter.each.macs
    assert_counted(counted, meter)
    counted.macs = 0
    program(given)
    assert counted.macs == meter.each.macs


@pytest.mark.parametrize("room", [None, 7_000, 5_000])
def test_the_meter_counts_values_in_common_loops(
    counted: type[CountingOps], room: int | None
) -> None:
    given = shared_tensors()
    held = sum(array.nbytes for array in given.values()) + 2 * 20 * 36 * 8
    program = eb.Program(SHARED, None if room is None else held + room)
    program(given)
    assert counted.macs == program.meter().each.macs
    assert_counted(counted, program.meter())


def assert_counted(counted: type[CountingOps], meter: ProgramMeter) -> None:
    made = [row for row in meter.values if row.home is not Home.IN_LINE]
    assert {row.name: row.builds for row in made} == {
        name: n for name, n in counted.builds.items() if name
    }
    assert {row.name: row.uses for row in made} == {
        row.name: counted.uses[row.name] for row in made
    }


SHARED = """
volatile V
X[a,b,c,d] = V[P,a,c] V[P,b,d]
R[i,a,b] = X[a,b,c,d] T[i,c,d]
S[i,a,b] = X[a,b,c,d] U[i,c,d]
"""


def shared_tensors() -> dict[str, Array]:
    rng = np.random.default_rng(1)
    return {
        "V": rng.standard_normal((9, 6, 6)),
        "T": rng.standard_normal((20, 6, 6)),
        "U": rng.standard_normal((20, 6, 6)),
    }


def test_builds_and_uses_are_those_of_the_schedule() -> None:
    program = eb.Program(SHARED)
    program(shared_tensors())
    rows = {row.name: row for row in program.meter().values}
    assert rows["X"].home is Home.WHOLE
    assert (rows["X"].builds, rows["X"].uses) == (1, 2)
    assert rows["X"].macs == rows["X"].least_macs == 9 * 6**4
    assert rows["R"].home is Home.RESULT
    assert program.meter().avoidable_macs == 0


def test_a_value_in_slices_is_begun_once_per_trip() -> None:
    given = shared_tensors()
    held = sum(array.nbytes for array in given.values()) + 2 * 20 * 36 * 8
    program = eb.Program(SHARED, held + 7_000)
    results = program(given)
    x = np.einsum("Pac,Pbd->abcd", given["V"], given["V"])
    np.testing.assert_allclose(results["R"], np.einsum("abcd,icd->iab", x, given["T"]))
    np.testing.assert_allclose(results["S"], np.einsum("abcd,icd->iab", x, given["U"]))
    row = next(row for row in program.meter().values if row.name == "X")
    assert row.home is Home.STAGED
    assert row.builds > 1
    assert row.cell_bytes < row.n_bytes
    assert row.macs == 9 * 6**4
    assert row.loops


def test_what_is_alive_adds_up_to_the_peak() -> None:
    for limit in (None, 9_500):
        program = eb.Program(LADDER, limit, iterations=5)
        program(tensors())
        meter = program.meter()
        assert sum(row.n_bytes for row in meter.alive) == meter.peak_bytes == program.peak_bytes


def test_the_account_of_a_program(golden: Callable[..., None]) -> None:
    program = eb.Program(LADDER, 15_000, iterations=10)
    program(tensors())
    golden(program.explain())


def test_the_account_of_common_loops_and_of_what_a_limit_costs(
    golden: Callable[..., None],
) -> None:
    given = shared_tensors()
    held = sum(array.nbytes for array in given.values()) + 2 * 20 * 36 * 8
    program = eb.Program(SHARED, held + 7_000)
    program(given)
    golden(program.explain())


# scopes around partial sums -----------------------------------------------------------------


def test_a_guard_is_opened_for_every_loop_that_adds_up() -> None:
    opened: list[int] = []
    depth = [0]

    @contextlib.contextmanager
    def guard(n_trips: int) -> Iterator[None]:
        opened.append(n_trips)
        depth[0] += 1
        yield
        depth[0] -= 1

    policy = replace(
        eb.BatchPolicy.auto(10**9),
        is_batchable_contracted_index=lambda index: index.label == "P",
        is_batchable_external_index=lambda index: False,
    )
    text = "W[a,b] = A[P,a,c] B[P,c,d] C[P,d,b]"
    rng = np.random.default_rng(0)
    given = {name: rng.standard_normal((12, 9, 9)) for name in "ABC"}
    held = 3 * 12 * 81 * 8 + 81 * 8
    program = eb.Program(text, held + 4 * 81 * 8, policy=policy, guard=guard)
    wanted = np.einsum("Pac,Pcd,Pdb->ab", given["A"], given["B"], given["C"])
    np.testing.assert_allclose(program(given)["W"], wanted)
    assert len(opened) == 1
    assert opened[0] > 1
    assert depth == [0]


def test_a_guard_is_closed_by_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[type[BaseException] | None] = []

    class Guard:
        def __init__(self, n_trips: int) -> None: ...

        def __enter__(self) -> None: ...

        def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
            closed.append(kind)

    rng = np.random.default_rng(0)
    given = {name: rng.standard_normal((12, 9, 9)) for name in "ABC"}
    held = 3 * 12 * 81 * 8 + 81 * 8
    text = "W[a,b] = A[P,a,c] B[P,c,d] C[P,d,b]"
    program = eb.Program(text, held + 4 * 81 * 8, guard=Guard)
    program(given)
    n_loops = len(closed)
    assert closed == [None] * n_loops
    closed.clear()

    def fails(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(NumpyOps, "contract", fails)
    with pytest.raises(MemoryError):
        program(given)
    assert closed == [MemoryError] * len(closed)


# dtypes, scalars, empty things --------------------------------------------------------------


def one(equations: Any, **arrays: Any) -> Array:
    """The only target of equations."""
    (result,) = eb.Program(equations)(arrays).values()
    return result


def test_numbers_take_the_type_of_the_arrays() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = one("R[i] = alpha A[i,j] + beta A[i,j]", A=a, alpha=2.5, beta=1)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, 3.5 * a.sum(1))


@pytest.mark.parametrize(
    ("number", "given", "wanted"),
    [
        ("2", np.int64, np.int64),
        ("1/2", np.int64, np.float64),
        ("1/2", np.float32, np.float32),
        ("2", np.float16, np.float32),
        ("2", np.complex64, np.complex64),
    ],
)
def test_numbers_in_equations_make_floats_of_integers(
    number: str, given: type, wanted: type
) -> None:
    a: Array = np.arange(6).reshape(2, 3).astype(given)
    result = one(f"R[i] = {number} A[i,j]", A=a)
    assert result.dtype == wanted
    np.testing.assert_allclose(result, float(Fraction(number)) * a.sum(1).astype(wanted))


def test_complex_numbers_make_complex_results() -> None:
    a = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    result = one({"R": [(2j, "ij->i", ("A",))]}, A=a)
    assert result.dtype == np.complex64
    np.testing.assert_allclose(result, 2j * a.sum(1))


def test_the_common_type_of_all_tensors_is_computed_in() -> None:
    a, b = np.ones((2, 3), np.float32), np.ones((3, 2), np.complex128)
    assert one("R[i,k] = A[i,j] B[j,k]", A=a, B=b).dtype == np.complex128


def test_a_dtype_is_kept_to() -> None:
    program = eb.Program("R[i] = A[i,j]", dtype="f8")
    assert program(A=np.ones((2, 3), np.float32))["R"].dtype == np.float64
    with pytest.raises(eb.DTypeError, match=r"'A' has dtype complex128, which does not cast safe"):
        program(A=np.ones((2, 3), complex))
    with pytest.raises(eb.DTypeError, match=r"dtype is int64, and the equations have numbers that"):
        eb.Program("R[i] = 1/2 A[i,j]", dtype="i8")(A=np.ones((2, 3), int))


def test_scalars_come_and_go() -> None:
    results = eb.Program("E = x y; F[i] = x A[i]")(x=2.0, y=np.float64(3), A=[1.0, 2.0])
    assert results["E"].shape == ()
    assert results["E"] == 6
    assert results["F"].tolist() == [2, 4]


def test_equations_without_tensors_are_numbers() -> None:
    assert one("R = 3/2") == 1.5


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0)])
def test_empty_extents_are_summed_to_nothing(shape: tuple[int, int]) -> None:
    result = one("R[i,k] = A[i,j] B[k,j] + A[i,j] A[k,j]", A=np.ones(shape), B=np.ones(shape))
    np.testing.assert_array_equal(result, np.zeros((shape[0], shape[0])))


# tensors that are not in memory -------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "memory_limit"), [("R[i,k] = A[i,j] B[j,k]", 30_000), ("R[k] = A[i,j] B[j,k]", 20_000)]
)
def test_a_source_is_read_in_blocks_and_takes_no_room(text: str, memory_limit: int) -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 40, 40))
    blocks: list[int] = []

    def read(cuts: tuple[slice, ...]) -> Array:
        block: Array = a[cuts]
        blocks.append(block.nbytes)
        return block

    source = eb.Source(a.shape, a.dtype, read)
    program = eb.Program(text, memory_limit)
    result = program(A=source, B=b)["R"]
    np.testing.assert_allclose(result, a @ b if result.ndim == 2 else (a @ b).sum(0))
    assert program.peak_bytes <= memory_limit
    assert max(blocks) < a.nbytes


def test_a_source_can_be_added_to_what_is_there() -> None:
    a = np.arange(9.0).reshape(3, 3)
    source = eb.Source(a.shape, a.dtype, a.__getitem__)
    result = one("R[i,j] = A[i,j] + A[j,i] + D[i,j]", A=source, D=np.ones((3, 3)))
    np.testing.assert_allclose(result, a + a.T + 1)


def test_a_diagonal_of_a_source() -> None:
    a = np.arange(9.0).reshape(3, 3)
    source = eb.Source(a.shape, a.dtype, a.__getitem__)
    assert one("E = A[i,i] + A[i,j] A[j,i]", A=source) == np.trace(a) + np.trace(a @ a)


def test_what_is_computed_on_demand_is_asked_for_blocks() -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 4, 4))
    text = "computed A; space x: i j k = 4; R[i,k] = A[i,j] B[j,k]"
    np.testing.assert_allclose(one(text, A=lambda cuts: a[cuts], B=b), a @ b)
    np.testing.assert_allclose(one(text, A=a, B=b), a @ b)


def test_functions_need_a_declaration_and_extents() -> None:
    with pytest.raises(eb.EquationsError, match="'A' is a function; expected an array, or 'comput"):
        one("R[i] = A[i,j]", A=lambda cuts: 0)
    with pytest.raises(eb.EquationsError, match="on demand, and the extent of its axis 0 is not"):
        one("computed A; R[i] = A[i,j]", A=lambda cuts: 0)


def test_kept_values_of_a_source_last_as_long_as_it(builds: Builds) -> None:
    program, given = kept_program(), columns()
    a = given["A"]
    for array in (a, a, a.copy()):
        source = eb.Source(a.shape, a.dtype, array.__getitem__)
        assert_close(program({**given, "A": source}), two(given))
    assert sum("R" not in made for made in builds.made) == 2


# policies -----------------------------------------------------------------------------------


def test_a_policy_decides_scheduler_volatility_and_threshold() -> None:
    given = tensors()
    policy = replace(
        eb.BatchPolicy.auto(9_500),
        is_volatile_leaf=lambda operand: operand.number == 1,
        scheduler="forest_descent",
    )
    text = LADDER.replace("volatile T", "")
    program = eb.Program(text, policy=policy, iterations=5)
    assert_close(program(given), ladder(given))
    assert program.peak_bytes <= 9_500
    assert "forest_descent" in program.explain()


def test_a_threshold_that_no_plan_keeps_is_told_by_a_warning() -> None:
    program = eb.Program(LADDER, policy=eb.BatchPolicy.auto(5_000))
    with pytest.warns(eb.BudgetWarning, match="peak_threshold=5000 bytes is not kept"):
        results = program(tensors())
    assert_close(results, ladder(tensors()))


@pytest.mark.parametrize("limits", [{"memory_limit": 9_500}, {"workspace_limit": 3_000}])
def test_a_limit_is_kept_where_a_threshold_cannot_be(limits: dict[str, Any]) -> None:
    program = eb.Program(LADDER, policy=eb.BatchPolicy.auto(5_000), **limits)
    with pytest.warns(eb.BudgetWarning, match="peak_threshold=5000 bytes is not kept"):
        results = program(tensors())
    assert_close(results, ladder(tensors()))
    meter = program.meter()
    assert meter.peak_bytes <= limits.get("memory_limit", meter.peak_bytes)
    assert meter.workspace_bytes <= limits.get("workspace_limit", meter.workspace_bytes)


@pytest.mark.parametrize("limits", [{"memory_limit": 0}, {"workspace_limit": 0}])
def test_a_limit_below_all_plans_is_refused_whatever_the_threshold(limits: dict[str, Any]) -> None:
    for threshold in (5_000, 10**6):
        program = eb.Program(LADDER, policy=eb.BatchPolicy.auto(threshold), **limits)
        with pytest.raises(eb.BudgetError, match="limit=0 bytes is too small"):
            program(tensors())


def test_a_policy_that_admits_nothing_opens_no_loop() -> None:
    program = eb.Program(LADDER, policy=eb.BatchPolicy(), iterations=5)
    assert_close(program(tensors()), ladder(tensors()))
    assert "trips" not in program.explain()


def test_loops_take_whole_tiles() -> None:
    given = shared_tensors()
    held = sum(array.nbytes for array in given.values()) + 2 * 20 * 36 * 8
    text = "space v: a b c d tiles (0, 1, 4, 6)" + SHARED
    program = eb.Program(text, held + 7_000)
    x = np.einsum("Pac,Pbd->abcd", given["V"], given["V"])
    np.testing.assert_allclose(program(given)["R"], np.einsum("abcd,icd->iab", x, given["T"]))
    assert "in 3 trips of 3" in program.explain()


def test_more_memory_than_there_is_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(einbound.api.stages, "SMALL_PEAK_BYTES", 0)
    monkeypatch.setattr(einbound.api.stages, "available_bytes", lambda: 1000)
    with pytest.warns(
        eb.MemoryRiskWarning, match="bytes and 1000 are available; give memory_limit"
    ):
        eb.Program(LADDER)(tensors())


# what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "'A', 'B' are missing; expected one array each for 'A', 'B'"),
        ({"A": np.ones((2, 3))}, "'B' is missing; expected one array each"),
        ({"A": 1, "B": 1, "C": 1}, "'C' is no tensor of the equations; expected 'A', 'B'"),
        ({"A": 1, "B": 1, "R": 1}, "'R' was given, and is what the equations make; expected"),
        ({"A": np.ones((2, 3)), "B": np.ones((4, 2))}, r"index 'j' has 3 elements, and 4 in B\[j"),
        ({"A": np.ones(2), "B": np.ones((4, 2))}, r"A\[i,j\] has 2 indices, and 'A' of shape \(2,"),
        ({"A": "no", "B": np.ones((4, 2))}, "'A' is 'no' of type str; expected an array or a numb"),
        ({"A": None, "B": np.ones((4, 2))}, "'A' is None of type NoneType; expected an array"),
    ],
)
def test_calls_that_make_no_sense_are_refused(arrays: dict[str, Any], message: str) -> None:
    program = eb.Program("R[i,k] = A[i,j] B[j,k]")
    with pytest.raises(eb.EquationsError, match=message):
        program(arrays)


@pytest.mark.parametrize("dtype", ["O", "U3", "?", "M8[s]"])
def test_elements_that_are_no_numbers_are_refused(dtype: str) -> None:
    with pytest.raises(eb.DTypeError, match=r"'A' has dtype .*; equations take integers, floats"):
        one("R[i] = A[i]", A=np.zeros(2, dtype))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"volatile": "T"}, TypeError, "volatile is 'T' of type str; expected names of tensors"),
        ({"volatile": ["X"]}, eb.EquationsError, "'X' is said to be volatile, and is no tensor"),
        ({"iterations": 0}, eb.EquationsError, "iterations is 0; expected a number of calls"),
        (
            {"scheduler": "fast"},
            eb.EquationsError,
            "scheduler is 'fast'; expected 'forest_descent'",
        ),
        ({"check": "hash"}, eb.EquationsError, "check is 'hash'; expected 'identity' or 'digest'"),
        ({"policy": 3}, TypeError, "policy is 3 of type int; expected an einbound.BatchPolicy"),
        ({"guard": 3}, TypeError, "guard is 3 of type int; expected a function of the number"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        eb.Program(LADDER, **options)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda p: loads(dumps(p))])
def test_a_copied_program_is_a_program_of_its_own(
    copied: Callable[[Program], Program], builds: Builds
) -> None:
    program, given = kept_program(), columns()
    program(given)
    other = copied(program)
    assert_close(other(given), two(given))
    assert len(builds.made) == 2 + 2
    assert (other.peak_bytes, other.explain()) == (program.peak_bytes, program.explain())


def test_the_peak_counts_tensors_that_no_longer_share_memory() -> None:
    program, square = eb.Program("R[i,k] = A[i,j] B[j,k]"), np.ones((8, 8))
    program(A=square, B=square)
    before = program.peak_bytes
    program(A=square, B=square.copy())
    assert program.peak_bytes == before + square.nbytes


# targets that never change --------------------------------------------------------------------

#: A product that is returned and read, a scalar that is made from it, and a volatile residual.
CONSTANT = """
volatile T
target G
G[i,j] = A[i,k] B[k,j] + A[j,i]
N = G[i,j] A[i,j]
R[i,j] = G[i,k] T[k,j]
"""


def squares(seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal((20, 20)) for name in "ABT"}


def constant(given: dict[str, Array]) -> dict[str, Array]:
    g = given["A"] @ given["B"] + given["A"].T
    return {"G": g, "N": np.asarray((g * given["A"]).sum()), "R": g @ given["T"]}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("check", ["identity", "digest"])
def test_targets_that_never_change_are_made_once(
    builds: Builds, scheduler: str, check: str
) -> None:
    program = eb.Program(CONSTANT, iterations=5, scheduler=scheduler, check=check)
    given = squares()
    for seed in range(3):
        given["T"] = squares(seed)["T"]
        results = program(given)
        assert_close(results, constant(given))
        for array in results.values():
            array[...] = np.nan
    assert len(builds.made) == 1 + 3
    assert program.meter().once.macs == 20**3 + 20**2
    assert program.macs == 20**3
    given["A"] = given["A"] + 1
    assert_close(program(given), constant(given))


def test_targets_that_never_change_need_no_more_bytes_than_others() -> None:
    given = squares()
    with pytest.raises(eb.BudgetError, match="too small") as caught:
        eb.Program(CONSTANT, 0)(given)
    without = eb.Program(CONSTANT.replace("volatile T", ""))
    without(given)
    assert caught.value.smallest_bytes <= without.peak_bytes
    program = eb.Program(CONSTANT, caught.value.smallest_bytes, iterations=5)
    for _ in range(2):
        assert_close(program(given), constant(given))
    assert program.kept_bytes < given["A"].nbytes


def test_where_nothing_is_volatile_nothing_is_kept() -> None:
    program = eb.Program(CONSTANT.replace("volatile T", ""), iterations=5)
    given = squares()
    program(given)
    given["A"] *= 2
    assert_close(program(given), constant(given))
    assert program.kept_bytes == 0


# integers ------------------------------------------------------------------------------------


def integers(dtype: str, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, 100, (9, 9)).astype(dtype) for name in "ABCT"}


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8", "uint64"])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2 A[i,k] B[k,j] + 3 A[i,k] C[k,j]", lambda a, b, c, t: 2 * a @ b + 3 * a @ c),
        ("- A[i,j] - 2 B[i,j]", lambda a, b, c, t: -a - 2 * b),
        ("100 A[i,j] + 50 A[i,j]", lambda a, b, c, t: 100 * a + 50 * a),
        (
            "2 A[i,k] B[k,l] T[l,j] - A[l,k] B[k,i] T[l,j]",
            lambda a, b, c, t: 2 * a @ b @ t - (a @ b).T @ t,
        ),
    ],
)
def test_integers_are_computed_as_numpy_computes_them(
    dtype: str, text: str, wanted: Callable[..., Array]
) -> None:
    program = eb.Program(f"volatile T; R[i,j] = {text} + 0 T[i,j] A[i,j] B[i,j] C[i,j]")
    given = integers(dtype)
    np.testing.assert_array_equal(program(given)["R"], wanted(*given.values()))
    assert program(given)["R"].dtype == dtype


def test_numbers_of_integers_stay_exact_beyond_floats() -> None:
    big = np.asarray([2**53 + 1, -(2**54) - 1])
    result = eb.Program("R[i] = 3 A[i] B[i]")(A=big, B=np.asarray([1, 1]))["R"]
    np.testing.assert_array_equal(result, 3 * big)


# what is kept stays what it was made from ------------------------------------------------------


def test_small_tensors_are_compared_by_their_elements() -> None:
    program, given = eb.Program(CONSTANT, iterations=5), squares()
    given = {name: array[:3, :3].copy() for name, array in given.items()}
    program(given)
    given["A"][0, 0] += 1
    assert_close(program(given), constant(given))


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_a_kept_sum_depends_on_the_tensors_of_all_its_terms(name: str) -> None:
    text = "volatile T; target G; G[i,j] = A[i,k] B[k,j] + C[i,j]; R[i,j] = G[i,k] T[k,j]"
    program, given = eb.Program(text, iterations=5), {**squares(), "C": squares(1)["A"]}
    program(given)
    given[name] = given[name] + 1
    np.testing.assert_allclose(program(given)["G"], given["A"] @ given["B"] + given["C"])


def test_a_tensor_may_have_the_name_of_a_kept_target() -> None:
    text = "volatile T; G[i,j] = A[i,k] B[k,j]; R[i,j] = G_kept[i,k] T[k,j]"
    given = squares()
    results = eb.Program(text, iterations=5)({**given, "G_kept": given["B"]})
    np.testing.assert_allclose(results["G"], given["A"] @ given["B"])
    np.testing.assert_allclose(results["R"], given["B"] @ given["T"])
