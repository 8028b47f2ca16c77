"""Operands that are not in memory: same results, in blocks that are planned, within limits."""

from __future__ import annotations

import json
import pickle
import random
import threading
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einbound as eb
from einbound.run import allocator, executable
from strategies import Call, calls, filled

Array = np.ndarray
#: Interpreter objects of a run and of reading, beside the plan's own constant.
OBJECT_BYTES = 12 << 10


class Recorder:
    """A source that keeps its array to itself and notes what is asked of it."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.blocks: list[tuple[slice, ...]] = []
        self.sizes: list[int] = []
        self.threads: set[int] = set()

    @property
    def source(self) -> eb.Source:
        return eb.Source(self.array.shape, self.array.dtype, self.read)

    def read(self, slices: tuple[slice, ...]) -> Array:
        assert all(type(n) is int for cut in slices for n in (cut.start, cut.stop))
        block = self.array[slices].copy()
        self.blocks.append(slices)
        self.sizes.append(block.nbytes)
        self.threads.add(threading.get_ident())
        return block

    def count(self) -> Array:
        """How often each element was read."""
        times = np.zeros(self.array.shape, int)
        for slices in self.blocks:
            times[slices] += 1
        return times


def quiet(array: Array) -> eb.Source:
    """A source that keeps no notes, which would take memory."""
    return eb.Source(array.shape, array.dtype, lambda slices: array[slices].copy())


def recorded(arrays: list[Array], streamed: list[bool]) -> tuple[list[Any], dict[int, Recorder]]:
    """The operands, those of which `streamed` holds as sources."""
    recorders = {k: Recorder(a) for k, a in enumerate(arrays) if streamed[k]}
    return [recorders[k].source if k in recorders else a for k, a in enumerate(arrays)], recorders


def limited(text: str, operands: list[Any], share: int, **options: Any) -> eb.Plan:
    """A plan within a share of the workspace without a limit, or the least that there is."""
    free = eb.plan(text, *operands, **options)
    limit = free.operand_bytes + free.result_bytes + free.workspace_bytes // share
    try:
        return eb.plan(text, *operands, memory_limit=limit, **options)
    except eb.BudgetError as error:
        return eb.plan(text, *operands, memory_limit=error.smallest_bytes, **options)


def check(plan: eb.Plan, operands: list[Any], recorders: dict[int, Recorder], want: Any) -> None:
    """A run gives the result, and reads what the plan says."""
    got = plan(*operands)
    np.testing.assert_allclose(got, want, rtol=1e-3 if want.dtype.itemsize <= 2 else 1e-5)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    read = plan.meter()
    assert sum(sum(r.sizes) for r in recorders.values()) == plan.bytes_read == read.bytes_read
    for k, recorder in recorders.items():
        assert sum(recorder.sizes) == read.reads[k].n_bytes
        assert len(recorder.sizes) == read.reads[k].n_blocks
        assert max(recorder.sizes, default=0) == read.reads[k].block_bytes
        assert recorder.threads <= {threading.get_ident()}
    assert read.space_bytes + plan.operand_bytes == plan.peak_bytes


@given(
    call=calls(max_operands=4, max_extent=6),
    streamed=st.lists(st.booleans(), min_size=4, max_size=4),
    share=st.sampled_from([None, 1, 4, 64]),
    dtype=st.sampled_from(["f8", "f4", "f2", "c16", "i8", "bool"]),
)
@settings(max_examples=150, deadline=None)
def test_results_are_those_of_numpy(
    call: Call, streamed: list[bool], share: int | None, dtype: str
) -> None:
    arrays = call.arrays(dtype)
    streamed[random.Random(call.text).randrange(len(arrays))] = True
    operands, recorders = recorded(arrays, streamed)
    plan = limited(call.text, operands, share) if share else eb.plan(call.text, *operands)
    want = np.asarray(np.einsum(call.text, *arrays))
    if dtype == "f2":
        want = np.asarray(np.einsum(call.text, *[a.astype("f4") for a in arrays])).astype("f2")
    check(plan, operands, recorders, want)


SINGLE = ["ij->ji", "ij->ij", "ij->i", "ij->j", "ij->", "ii->i", "ii->", "iij->j", "iij->ji"]


@pytest.mark.parametrize("text", SINGLE)
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
def test_one_operand_is_read_in_blocks_within_the_limit(text: str, dtype: str) -> None:
    sizes = {"i": 61, "j": 47}
    array = filled([sizes[x] for x in text.split("->")[0]]).astype(dtype)
    recorder = Recorder(array)
    want = np.asarray(np.einsum(text, array.astype("f8"))).astype(dtype)
    # Sums of halves are made in single precision, then copied.
    staged = 4 * want.size if dtype == "f2" and want.size < array.size else 0
    limit = want.nbytes + staged + 1500
    plan = eb.plan(text, recorder.source, memory_limit=limit)
    check(plan, [recorder.source], {0: recorder}, want)
    assert plan.peak_bytes <= limit
    assert len(recorder.blocks) > 1
    if "ii" not in text:
        assert (recorder.count() == 1).all()


def test_without_a_limit_a_source_is_read_once_as_a_whole() -> None:
    arrays = [filled((8, 9)), filled((9, 10)), filled((10, 8))]
    operands, recorders = recorded(arrays, [True] * 3)
    got = eb.einsum("ij,jk,kl->il", *operands)
    np.testing.assert_allclose(got, np.einsum("ij,jk,kl->il", *arrays))
    for recorder in recorders.values():
        assert recorder.blocks == [tuple(slice(0, n) for n in recorder.array.shape)]


def test_a_source_is_read_as_far_out_as_its_indices_allow() -> None:
    text, shapes = "apb,pi->aib", [(4, 6, 5), (6, 8)]
    arrays = [filled(shape, k) for k, shape in enumerate(shapes)]
    operands, recorders = recorded(arrays, [False, True])
    loops = [eb.Loop("a", node=0, batch_size=2), eb.Loop("p", node=0, batch_size=4)]
    plan = eb.Plan.build(text, *operands, path=[(0, 1)], loops=loops)
    check(plan, operands, recorders, np.einsum(text, *arrays))
    whole = slice(0, 8)
    assert recorders[1].blocks == 2 * [(slice(0, 4), whole), (slice(4, 6), whole)]
    loops.reverse()
    operands, recorders = recorded(arrays, [False, True])
    plan = eb.Plan.build(text, *operands, path=[(0, 1)], loops=loops)
    check(plan, operands, recorders, np.einsum(text, *arrays))
    assert recorders[1].blocks == [(slice(0, 4), whole), (slice(4, 6), whole)]


def test_uneven_trips_are_read_as_they_are() -> None:
    arrays = [filled((7, 9)), filled((9, 5))]
    operands, recorders = recorded(arrays, [True, True])
    plan = eb.Plan.build(
        "ij,jk->ik", *operands, path=[(0, 1)], loops=eb.Loop("j", node=0, batch_size=4),
        tiles={"j": [0, 1, 4, 6, 9]},
    )  # fmt: skip
    check(plan, operands, recorders, arrays[0] @ arrays[1])
    assert [cut[0] for cut in recorders[1].blocks] == [slice(0, 4), slice(4, 6), slice(6, 9)]


def test_broadcast_axes_are_read_once() -> None:
    arrays = [filled((1, 5)), filled((6, 5))]
    operands, recorders = recorded(arrays, [True, False])
    plan = eb.plan("ij,ij->ij", *operands)
    check(plan, operands, recorders, np.einsum("ij,ij->ij", *arrays))
    assert recorders[0].blocks == [(slice(0, 1), slice(0, 5))]


def test_the_source_is_no_part_of_the_operands() -> None:
    big = eb.Source((10**6, 10**6), "f8", lambda slices: None)
    plan = eb.plan("ij,jk->ik", big, np.ones((10**6, 1)), memory_limit="1GB")
    assert plan.operand_bytes == 8 * 10**6
    assert plan.peak_bytes <= 10**9
    assert plan.bytes_read == 8 * 10**12
    assert "operand 0  ij" in str(plan)
    assert "read in all" in plan.explain()


@pytest.mark.parametrize(
    ("text", "others"),
    [("ij->", []), ("ij->j", []), ("ij,jk->ik", [(2000, 4)]), ("ij,ik,jl->kl", [(2000, 4)] * 2)],
)
def test_a_source_a_hundred_times_larger_than_the_limit_contracts_within_it(
    text: str, others: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 320_000

    def read(slices: tuple[slice, ...]) -> Array:
        rows, columns = slices
        # Copied, not computed: arithmetic would take buffers of its own.
        block = np.empty((rows.stop - rows.start, columns.stop - columns.start))
        block[...] = np.arange(float(columns.start), columns.stop)
        return block

    big = eb.Source((2000, 2000), "f8", read)
    arrays = [np.ones(shape) for shape in others]
    plan = eb.plan(text, big, *arrays, memory_limit=limit)
    want = np.einsum(text, read((slice(0, 2000),) * 2), *arrays, optimize=True)
    assert plan.peak_bytes <= limit
    plan(big, *arrays)
    # Every buffer an array of its own, which tracemalloc counts to the byte.
    monkeypatch.setattr(allocator, "MAPPED_FROM_BYTES", 1 << 60)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    got = plan(big, *arrays)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    np.testing.assert_allclose(got, want)
    assert peak <= plan.peak_bytes - plan.operand_bytes + plan.overhead_bytes + OBJECT_BYTES


@pytest.mark.parametrize("seed", range(3))
def test_no_run_takes_more_than_its_plan_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    text, shapes = "Pac,Pbd,ijcd->ijab", [(40, 16, 16), (40, 16, 16), (12, 12, 16, 16)]
    arrays = [filled(shape, k) for k, shape in enumerate(shapes)]
    streamed = [rng.random() < 0.6 for _ in arrays]
    streamed[seed] = True
    operands = [quiet(a) if streamed[k] else a for k, a in enumerate(arrays)]
    monkeypatch.setattr(allocator, "MAPPED_FROM_BYTES", 1 << 60)
    want = np.einsum(text, *arrays, optimize=True)
    for share in (1, 3, 10):
        plan = limited(text, operands, share)
        plan(*operands)
        tracemalloc.start()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        got = plan(*operands)
        peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        np.testing.assert_allclose(got, want)
        assert peak <= plan.peak_bytes - plan.operand_bytes + plan.overhead_bytes + OBJECT_BYTES


def test_all_workspace_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Kept(allocator.Allocator):
        __slots__ = ()

        def __init__(self, capacity_bytes: int) -> None:
            super().__init__(capacity_bytes)
            made.append(self)

    monkeypatch.setattr(executable, "Allocator", Kept)
    arrays = [filled((90, 80)), filled((80, 70))]
    operands, _ = recorded(arrays, [True, True])
    plan = limited("ij,jk->ik", operands, 8)
    plan(*operands)
    assert [each.live_bytes for each in made] == [0]
    assert made[0].peak_bytes == plan.workspace_bytes


class Failing(Exception):
    pass


def test_what_read_raises_reaches_the_caller_unchanged() -> None:
    failure = Failing("disk gone")

    def read(slices: tuple[slice, ...]) -> Array:
        if slices[0].start:
            raise failure
        return np.ones([cut.stop - cut.start for cut in slices])

    source = eb.Source((100, 100), "f8", read)
    with pytest.raises(Failing, match=r"^disk gone$") as caught:
        eb.einsum("ij->j", source, memory_limit=20_000)
    assert caught.value is failure
    assert caught.value.__cause__ is None


def test_an_error_gives_the_pages_of_the_arena_back(monkeypatch: pytest.MonkeyPatch) -> None:
    evacuated: list[tuple[int, int]] = []
    monkeypatch.setattr(
        allocator.Allocator, "_evacuate", lambda self, *place: evacuated.append(place)
    )

    def read(slices: tuple[slice, ...]) -> Array:
        raise Failing

    operands = [np.ones((300, 300)), np.ones((300, 300)), eb.Source((300, 300), "f8", read)]
    plan = eb.Plan.build("ij,jk,kl->il", *operands, path=[(0, 1), (0, 1)])
    with pytest.raises(Failing):
        plan(*operands)
    assert evacuated[-1] == (0, plan.workspace_bytes + allocator.SLACK_BYTES)


def of(block: Callable[[tuple[slice, ...]], Any], dtype: str = "f8") -> eb.Source:
    return eb.Source((6, 4), dtype, block)


WRONG: list[tuple[eb.Source, type[Exception], str]] = [
    (
        of(lambda s: np.ones((4, 6))),
        eb.ExpressionError,
        r"reading block \[0:6, 0:4\] of operand 0 returned shape \(4, 6\); expected \(6, 4\); "
        "read must return exactly the block",
    ),
    (
        of(lambda s: np.ones((6, 4), complex)),
        eb.DTypeError,
        r"reading block \[0:6, 0:4\] of operand 0 returned dtype complex128; its Source was "
        "declared with float64",
    ),
    (of(lambda s: None), eb.ExpressionError, r"returned shape \(\); expected \(6, 4\)"),
]


@pytest.mark.parametrize(("source", "kind", "match"), WRONG)
def test_a_wrong_block_is_named(source: eb.Source, kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        eb.einsum("ij->ji", source)


def test_a_source_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(eb.ExpressionError, match=r"shape of a Source is \(2, -1\); sizes must be"):
        eb.Source((2, -1), "f8", np.ones)
    with pytest.raises(TypeError, match=r"shape of a Source is \(2\.5,\); expected a tuple of"):
        eb.Source((2.5,), "f8", np.ones)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="read of a Source is 7 of type int; expected a function"):
        eb.Source((2,), "f8", 7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="was taken for an array"):
        np.asarray(quiet(np.ones(2)))


def test_objects_under_a_limit_are_refused_and_without_one_computed() -> None:
    source = eb.Source((3,), object, np.array([1, 2, 3], object).__getitem__)
    with pytest.raises(eb.DTypeError, match="a byte limit was given for operands of dtype object"):
        eb.plan("i->", source, memory_limit=1000)
    assert eb.einsum("i->", source) == 6


def test_a_narrower_dtype_may_be_returned() -> None:
    assert eb.einsum("ij->", of(lambda s: np.ones((6, 4), "i2"))) == 24


def test_blocks_of_any_layout_are_taken() -> None:
    array = filled((30, 40))
    for layout in (np.asfortranarray(array), array[::-1, ::-1].copy()[::-1, ::-1]):
        source = eb.Source(array.shape, array.dtype, layout.__getitem__)
        for text in ("ij->ji", "ij->j", "ij->i"):
            got = eb.einsum(text, source, memory_limit=11_000)
            np.testing.assert_array_equal(got, np.einsum(text, array))


def test_the_result_does_not_share_memory_with_what_was_read() -> None:
    array = filled((6, 4))
    source = eb.Source(array.shape, array.dtype, array.__getitem__)
    for text in ("ij->ij", "ij->ji"):
        assert not np.shares_memory(eb.einsum(text, source), array)


def test_a_plan_for_a_source_plans_again_for_an_array_and_back() -> None:
    arrays = [filled((50, 60)), filled((60, 40))]
    operands, _ = recorded(arrays, [True, False])
    want, limit = arrays[0] @ arrays[1], 45_000
    plan = eb.plan("ij,jk->ik", *operands, memory_limit=limit)
    np.testing.assert_allclose(plan(*operands), want)
    with pytest.raises(eb.BudgetError, match="memory_limit=45000 bytes is too small"):
        plan(*arrays)
    roomy = eb.plan("ij,jk->ik", *arrays, memory_limit=80_000)
    assert roomy.bytes_read == 0
    np.testing.assert_allclose(roomy(*operands), want)
    np.testing.assert_allclose(roomy(*arrays), want)


def test_out_is_written() -> None:
    arrays = [filled((20, 30)), filled((30, 20))]
    operands, _ = recorded(arrays, [True, True])
    out = np.empty((20, 20)).T
    assert eb.einsum("ij,jk->ik", *operands, out=out) is out
    np.testing.assert_allclose(out, arrays[0] @ arrays[1])
    narrow = np.empty(30, "f4")
    eb.einsum("ij->j", operands[0], out=narrow, memory_limit=3000, casting="same_kind")
    np.testing.assert_allclose(narrow, arrays[0].sum(0))


def test_json_and_pickle_keep_layouts_and_no_source() -> None:
    arrays = [filled((50, 60)), filled((60, 40))]
    operands, recorders = recorded(arrays, [True, False])
    plan = eb.plan("ij,jk->ik", *operands, memory_limit=45_000)
    text = plan.to_json()
    assert [each.get("streamed") for each in json.loads(text)["operands"]] == [True, None]
    for again in (eb.Plan.from_json(text), pickle.loads(pickle.dumps(plan))):
        assert (again.peak_bytes, again.bytes_read) == (plan.peak_bytes, plan.bytes_read)
        assert again.to_json() == text
        np.testing.assert_allclose(again(*operands), arrays[0] @ arrays[1])
    spoiled = json.loads(text)
    spoiled["promised"]["bytes_read"] += 1
    with pytest.raises(eb.PlanError, match="the document promises bytes_read = 24001"):
        eb.Plan.from_json(json.dumps(spoiled))
    assert sum(recorders[0].sizes) == 2 * plan.bytes_read


def test_of_equal_multiply_adds_the_plan_that_reads_less_is_taken() -> None:
    # Looping over k outside would read the source once per trip.
    source = eb.Source((4000, 400), "f8", lambda s: np.ones([c.stop - c.start for c in s]))
    plan = eb.plan("ij,jk->ik", source, np.ones((400, 64)), memory_limit="3MB")
    assert plan.macs == 4000 * 400 * 64
    assert plan.bytes_read == 8 * 4000 * 400


def test_blocks_fill_the_room_that_a_limit_leaves() -> None:
    source = eb.Source((1000, 1000), "f8", lambda s: np.ones([c.stop - c.start for c in s]))
    sizes = [
        eb.plan("ij->j", source, memory_limit=limit).meter().reads[0].block_bytes
        for limit in (50_000, 400_000, 3_000_000, 30_000_000)
    ]
    assert all(small < large for small, large in pairwise(sizes))
    assert sizes[-1] == 8 * 10**6


def test_progress_is_told_in_the_callers_thread() -> None:
    arrays = [filled((50, 60)), filled((60, 40))]
    operands, _ = recorded(arrays, [True, True])
    told: list[tuple[int, int]] = []
    plan = limited("ij,jk->ik", operands, 8)
    plan(*operands, progress=lambda *now: told.append(now))
    assert told[0][0] == 0
    assert told[-1][0] == told[-1][1]


def test_sources_may_be_given_with_shapes_and_interleaved() -> None:
    source = of(lambda s: np.ones((6, 4))[s])
    plan = eb.plan("ij,jk->ik", source, (4, 3))
    np.testing.assert_allclose(plan(source, np.ones((4, 3))), 4)
    assert eb.einsum(source, ["row", "column"], []) == 24


def test_sources_without_axes_and_without_elements_are_sources() -> None:
    nothing = eb.Source((0, 3), "f8", lambda slices: pytest.fail("there is nothing to read"))
    assert eb.einsum("ij->j", nothing, memory_limit=100).tolist() == [0, 0, 0]
    assert eb.einsum("ij->i", nothing).shape == (0,)
    number = eb.Source((), "f8", lambda slices: np.float64(3))
    assert eb.einsum(",i->i", number, np.ones(2)).tolist() == [3, 3]


def test_many_operands_with_sources_among_them_keep_a_limit() -> None:
    n = 14
    letters = [chr(ord("a") + k) for k in range(n + 1)]
    text = ",".join(map("".join, pairwise(letters))) + f"->{letters[0]}{letters[-1]}"
    arrays = [filled((30, 30), k) / 8 for k in range(n)]
    operands, recorders = recorded(arrays, [k % 3 == 0 for k in range(n)])
    check(limited(text, operands, 2), operands, recorders, np.linalg.multi_dot(arrays))


def test_datasets_of_h5py_are_read_in_blocks(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    arrays = [filled((70, 50)), filled((50, 40))]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("a", data=arrays[0], chunks=(16, 16), compression="gzip")
        source = eb.Source(data.shape, data.dtype, data.__getitem__)
        got = eb.einsum("ij,jk->ik", source, arrays[1], memory_limit=50_000)
    np.testing.assert_allclose(got, arrays[0] @ arrays[1])
