"""What surroundings may do to kernels: forks, folders, compilers, files of records, odd arrays."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from itertools import pairwise, starmap
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import einbound as eb
from einbound.api.options import Options, current_options
from einbound.backends.native import NativeStep, _in_threads
from einbound.backends.pool import Pool, shared_pool
from einbound.errors import KernelError
from einbound.kernels.groups import GroupAxis, Groups
from einbound.kernels.layout import nested
from einbound.kernels.member import Form, Member, member_of
from einbound.kernels.pick import pick
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.kernels.task import WORDS, task_of
from einbound.machine.limits import HardwareLimits
from einbound.machine.precision import Precision
from einbound.step.blocked import Core
from einbound.tune.build import Toolchain, find_compiler
from einbound.tune.compilers import commands
from einbound.tune.exchange import FORMAT, exported, imported
from einbound.tune.records import Context, Outcome, Record, record_of
from einbound.tune.store import Store
from einbound.tune.tuner import Failure
from native_objects import Operands, compiled
from native_objects import needs_compiler as needs_objects
from native_objects import run as run_task
from native_tools import SPEC, needs_compiler, toolchain
from test_native import matrices, way_of, ways
from test_native import run as run_way
from test_native_kernels import spec_of
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_child_of_a_fork_starts_threads_of_its_own() -> None:
    shared_pool().prepare(1)

    def work() -> None:
        seen: list[int] = []
        shared_pool().run([lambda: seen.append(0), lambda: seen.append(1)])
        assert sorted(seen) == [0, 1]

    assert in_a_fork(work) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a part that is never run would hang the tests")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_pool_runs_parts_that_nobody_prepared_it_for() -> None:
    def work() -> None:
        done: list[int] = []
        Pool().run([lambda: done.append(0), lambda: done.append(1), lambda: done.append(2)])
        assert sorted(done) == [0, 1, 2]

    assert in_a_fork(work) == 0


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


def test_of_two_that_make_a_file_at_once_the_first_is_not_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, store = import_module("einbound.tune.store"), Store(tmp_path / "kernels.db")
    marks, calls = made._marks, [0]

    def disturbed(file: Any) -> Any:
        found = marks(file)
        calls[0] += 1
        if calls[0] == 2:
            # The tables are not there, and are about to be made.
            store.add(replace(RECORD, label="of another process"))
        return found

    monkeypatch.setattr(made, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(made, "_marks", disturbed)
    store.add(RECORD)
    assert RECORD in store.records()


def test_the_untuned_choice_stays_where_the_best_cannot_be_built_again() -> None:
    machine = Machine(real={8: 2.0, 16: 1.0}, model={8: 1.0, 16: 1.1})
    failing = Failure(Outcome.TIMED_OUT, "ran out of time")
    tuned = machine.tune(elsewhere=lambda: lambda problem, spec: failing)
    assert tuned.winner is tuned.untuned
    assert tuned.ratio == 1.0


# Memory -------------------------------------------------------------------------------------------


class Fenced:
    """Memory whose end is the end of what may be read: one byte further ends the process."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.kept: list[mmap.mmap] = []

    def __call__(self, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        n_bytes = prod(shape) * np.dtype(dtype).itemsize
        room = -(-n_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = mmap.mmap(-1, room + mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        assert self.libc.mprotect(ctypes.c_void_p(start + room), mmap.PAGESIZE, 0) == 0
        self.kept.append(memory)
        whole = np.frombuffer(memory, np.uint8, n_bytes, room - n_bytes)
        return whole.view(dtype).reshape(shape)


FENCED = [
    Member(form=Form.PACKED, dtype=Precision.FLOAT64, rm=4, rn=2, lanes=4),
    Member(form=Form.PACKED, dtype=Precision.COMPLEX64, rm=4, rn=1, lanes=8),
    Member(form=Form.IN_PLACE, dtype=Precision.FLOAT64, rm=8, rn=3, lanes=8),
    Member(form=Form.IN_PLACE, dtype=Precision.COMPLEX128, rm=3, rn=2, lanes=4),
    Member(form=Form.BLOCKTILE, dtype=Precision.COMPLEX64, rm=1, rn=1, lanes=1),
]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a wrong read would end the tests")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@needs_objects
@pytest.mark.parametrize("member", FENCED, ids=lambda member: member.name)
def test_nothing_is_read_beyond_the_operands(member: Member) -> None:
    compiled(member)

    def work() -> None:
        fenced, number = Fenced(), member.dtype.value
        for m, n, k in ((1, 1, 1), (5, 7, 3), (9, 25, 10), (17, 31, 6), (24, 23, 8)):
            a, b, c = fenced((m, k), number), fenced((k, n), number), fenced((m, n), number)
            a[...], b[...] = np.arange(k) % 5, np.arange(n) % 3
            formats = dict.fromkeys(("a_dtype", "b_dtype", "out_dtype"), member.dtype)
            problem = MatmulProblem(m=m, n=n, k=k, **formats)  # type: ignore[arg-type]
            spec = spec_of(member, (8, 24, 5))
            task = task_of(problem, spec, member, accumulate=False)
            words, room = np.array(task.words, np.int64), fenced((task.workspace_bytes,), "u1")
            given = [each.ctypes.data for each in (words, a, b, c, room)]
            compiled(member).einbound_run(*given, 0, task.n_chunks)
            assert np.array_equal(c, a @ b)

    assert in_a_fork(work) == 0


# Steps --------------------------------------------------------------------------------------------


@needs_compiler
def test_each_worker_has_a_workspace_and_chunks_of_its_own() -> None:
    seen: list[tuple[int, int, int]] = []

    class Recorded:
        """An object that only tells what it was given."""

        call = None

        def run(self, *given: int) -> None:
            seen.append(given[4:])  # type: ignore[arg-type]  # workspace, first, stop

    sample = matrices(200, 150, 70)
    step = way_of(sample, ways(), False).native
    assert isinstance(step, NativeStep)
    task = replace(step, n_workers=3).task()
    words = [np.array(task.words, np.int64)] * 2
    assert sample.b is not None
    shared = _in_threads(Recorded(), words, task)  # type: ignore[arg-type]  # stands for one
    shared(False, sample.a, sample.b, sample.c, np.zeros(10**6, np.uint8))
    places, firsts, stops = zip(*sorted(seen, key=lambda each: each[1]), strict=True)
    assert (firsts[0], *stops) == (*firsts, task.n_chunks)
    assert all(there - here >= task.workspace_bytes for here, there in pairwise(sorted(places)))


def turned(problem: MatmulProblem, limits: HardwareLimits) -> KernelSpec:
    return replace(SPEC, swapped=True)


@needs_compiler
@pytest.mark.parametrize("add", [False, True])
def test_a_kernel_that_takes_the_second_operand_first_computes_the_same(add: bool) -> None:
    sample = matrices(30, 50, 20)
    sample.c[...] = 1
    assert sample.b is not None
    right = sample.a @ sample.b + add
    way = way_of(sample, ways(choose=turned), add)
    assert isinstance(way.native, NativeStep)
    assert way.native.task().swapped
    run_way(way, sample, add)
    assert np.array_equal(sample.c, right)


@needs_compiler
def test_a_step_takes_no_more_than_its_room_to_the_byte() -> None:
    sample = matrices(60, 70, 50)
    whole = way_of(sample, ways(), False).native
    assert isinstance(whole, NativeStep)
    exact = whole.task().workspace_bytes
    natives = 0
    for n_threads in (1, 2):
        for room in (*range(exact - 70, exact + 130), *range(1000, 9000, 37)):
            way = way_of(sample, ways(room_bytes=room, n_threads=n_threads), False)
            natives += way.core is Core.NATIVE
            assert way.core is not Core.NATIVE or way.workspace_bytes <= room
    assert natives > 200


@needs_compiler
@pytest.mark.parametrize("text", ["xyij,xyjk->xyik", "xyji,yxjk->yxik", "yxij,xyjk->ykxi"])
def test_small_products_of_a_batch_lie_anywhere(text: str) -> None:
    sizes = {"x": 5, "y": 4, "i": 3, "j": 6, "k": 5}
    first, second, out = text.replace("->", ",").split(",")
    rng = np.random.default_rng(0)
    with eb.options(cache=toolchain().folder, backend="native"):
        for cut in (slice(None), slice(None, None, -2)):
            a, b = (
                rng.integers(-3, 4, [2 * sizes[each] for each in side]) for side in (first, second)
            )
            x = a[tuple(slice(sizes[each]) for each in first)].astype("f8")
            y = b.astype("f8")[tuple(slice(sizes[each]) for each in second)]
            memory = np.full([2 * sizes[each] for each in out], np.nan)
            inside = memory[tuple(cut if each == "x" else slice(sizes[each]) for each in out)]
            place = inside[tuple(slice(sizes[each]) for each in out)]
            eb.einsum(text, x, y, out=place)
            assert np.array_equal(place, np.einsum(text, x, y))
            assert np.count_nonzero(~np.isnan(memory)) == place.size


def off_by_one(shape: tuple[int, ...]) -> NDArray[Any]:
    """An array whose numbers start at odd addresses."""
    return np.zeros(prod(shape) * 8 + 1, np.uint8)[1:].view("f8").reshape(shape)


@needs_compiler
@pytest.mark.parametrize(
    "place",
    [
        off_by_one((30, 40)),
        np.zeros((30, 40), ">f8"),
        np.zeros((30, 40), "c16"),
        np.zeros((30, 40), [("x", "c16"), ("y", "f8")])["x"],
        np.zeros((30, 40), [("x", "f8"), ("y", "f8")])["x"],
    ],
    ids=["unaligned", "of-other-bytes", "of-another-type", "in-fields-of-24", "in-fields-of-16"],
)
def test_results_of_any_kind_are_written_where_they_are(place: NDArray[Any]) -> None:
    a, b = np.arange(600.0).reshape(30, 20) % 7, np.arange(800.0).reshape(20, 40) % 5
    with eb.options(cache=toolchain().folder, backend="native"):
        assert eb.einsum("ij,jk->ik", a, b, out=place) is place
        assert np.array_equal(place, a @ b)
        again = eb.einsum("ij,kj->ik", place, place)
    assert np.allclose(again, place @ place.T)


@needs_compiler
def test_a_key_tells_processors_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    build, key = import_module("einbound.tune.build"), toolchain().key("int x;")
    monkeypatch.setattr(build, "cpu_identity", lambda: "another processor")
    assert toolchain().key("int x;") != key


def test_blocks_are_cut_between_register_tiles() -> None:
    member = FENCED[0]
    problem = MatmulProblem(m=200, n=300, k=150)
    for limit in range(3000, 60000, 777):
        task = task_of(
            problem,
            spec_of(member, (128, 240, 100)),
            member,
            accumulate=False,
            workspace_limit=limit,
        )
        sizes = dict(zip(WORDS, task.words, strict=False))
        assert sizes["BM"] % member.rm == 0
        assert sizes["BN"] % member.columns == 0


@needs_objects
@pytest.mark.parametrize("cuts", [(), (1,), (2, 5), (4,)])
def test_small_products_are_cut_anywhere_in_a_batch_with_gaps(cuts: tuple[int, ...]) -> None:
    number, extents = Precision.FLOAT64, (3, 5, 2)
    member = Member(
        form=Form.SMALL, dtype=number, rm=4, rn=2, lanes=4, extents=extents, steps=(2, 1, 5, 5)
    )
    rng = np.random.default_rng(0)
    wide = [rng.integers(-3, 4, (2, 4, *each)).astype("f8") for each in ((3, 2), (2, 5), (3, 5))]
    a, b, c = (each[:, :3] for each in wide)
    steps = [(4 * each, each) for each in (6, 10, 15)]
    groups = Groups(
        batch=tuple(starmap(GroupAxis, zip((2, 3), *steps, strict=True))),
        m=(GroupAxis(3, 2, 0, 5),),
        n=(GroupAxis(5, 0, 1, 1),),
        k=(GroupAxis(2, 1, 5),),
    )
    formats = dict.fromkeys(("a_dtype", "b_dtype", "out_dtype"), number)
    problem = MatmulProblem(m=3, n=5, k=2, batch=(2, 3), groups=groups, **formats)  # type: ignore[arg-type]
    before = wide[2][:, 3:].copy()
    task = task_of(problem, spec_of(member, (0, 0, 0)), member, accumulate=False)
    run_task(member, task, Operands(a, b, c, c), cuts)
    assert np.array_equal(c, a @ b)
    assert np.array_equal(wide[2][:, 3:], before)


@needs_compiler
@pytest.mark.parametrize("side", range(3))
def test_no_kernel_reads_or_writes_misaligned_numbers(side: int) -> None:
    sample = matrices(30, 20, 10)
    views = [view for view in sample.views if view is not None]
    views[side] = replace(views[side], aligned=False)
    a, b, c = views
    way = ways()(a, b, c, sample.work, accumulate=False, buffer_bytes=1 << 20)
    assert way.core is not Core.NATIVE
    assert "not all aligned" in way.why


def test_axes_are_nested_also_where_the_sums_are_long() -> None:
    m = (GroupAxis(4, 1, 0, 40), GroupAxis(5, 4, 0, 8), GroupAxis(2, 20, 0, 1))
    groups = Groups((), m, (GroupAxis(8, 0, 1, 160),), (GroupAxis(1000, 40, 8),))
    found = nested(groups, 8)
    assert [axis.extent for axis in found.m] == [5, 4, 2]
    assert [axis.extent for axis in found.k] == [1000]


@pytest.mark.parametrize(("apart", "form"), [(1, Form.SMALL), (7, Form.IN_PLACE)])
def test_extents_are_compiled_in_only_where_results_lie_in_rows(apart: int, form: Form) -> None:
    groups = Groups(
        batch=(GroupAxis(20, 24, 48, 700),),
        m=(GroupAxis(4, 6, 0, 100),),
        n=(GroupAxis(8, 0, 1, apart),),
        k=(GroupAxis(6, 1, 8),),
    )
    number = Precision.FLOAT64
    formats = dict.fromkeys(("a_dtype", "b_dtype", "out_dtype"), number)
    problem = MatmulProblem(m=4, n=8, k=6, batch=(20,), groups=groups, **formats)  # type: ignore[arg-type]
    spec = replace(SPEC, packed=False, bm=4, bn=0, bk=0)
    assert member_of(problem, spec, HardwareLimits(simd_vector_bytes=32)).form is form


def test_a_format_without_an_emitter_has_no_kernel_and_says_so() -> None:
    half = dict.fromkeys(("a_dtype", "b_dtype", "out_dtype"), "float16")
    problem = MatmulProblem(m=64, n=64, k=64, **half)  # type: ignore[arg-type]
    found = pick(problem.canonical, HardwareLimits(simd_vector_bytes=32))
    assert isinstance(found, str)
    assert "no kernel is known" in found


@needs_compiler
def test_no_more_workers_share_a_step_than_it_has_chunks() -> None:
    sample = matrices(8, 8, 400_000)
    step = way_of(sample, ways(n_threads=8), False).native
    assert isinstance(step, NativeStep)
    assert step.n_workers == step.task().n_chunks == 1
