"""Ways on arrays: the value of numpy's einsum, and no byte beyond what the way says."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from einbound.backends import looks, numpy_
from einbound.backends.numpy_ import Kernel, compile_way
from einbound.step.blocked import Core, Way
from einbound.step.way import DEFAULT_BUFFER_BYTES, pair_way, sum_way
from strided import TYPES, Array, Sample, samples, view_of

#: Interpreter objects and ufunc buffers, which every plan counts with a constant of its own.
SLACK_BYTES = 64 * 1024
BOUNDS = st.sampled_from([1, 64, 200, 1000, 4096, 1 << 20])
#: Sums of at most 8**3 products of magnitude 9 in half, rounded once, and in other types.
HALF_TOLERANCE, TOLERANCE = 2e-3, 1e-5


class Ledger:
    """Hands out buffers full of junk and keeps the most bytes that were out at once."""

    def __init__(self) -> None:
        self.live = self.peak = 0

    def take(self, n_bytes: int) -> Array:
        self.live += n_bytes
        self.peak = max(self.peak, self.live)
        return np.full(n_bytes, 0xAA, np.uint8)

    def give(self, buffer: Array) -> None:
        self.live -= buffer.nbytes


def way_of(sample: Sample, accumulate: bool, buffer_bytes: int) -> Way:
    a, b, c = sample.views
    if b is None:
        return sum_way(a, c, sample.work, accumulate=accumulate, buffer_bytes=buffer_bytes)
    return pair_way(a, b, c, sample.work, accumulate=accumulate, buffer_bytes=buffer_bytes)


def check(sample: Sample, accumulate: bool, buffer_bytes: int) -> None:
    way = way_of(sample, accumulate, buffer_bytes)
    assert way.workspace_bytes <= 3 * max(buffer_bytes, 64), way.describe()
    kernel = compile_way(way)
    for add in (False, True) if accumulate else (False,):
        expected = sample.expected(sample.c.copy(), add)
        ledger = Ledger()
        kernel(sample.a, sample.b, sample.c, add, ledger.take, ledger.give)
        assert ledger.live == 0
        if sample.work.hasobject:
            assert np.array_equal(sample.c, expected)
            continue
        rtol = HALF_TOLERANCE if sample.c.dtype == np.float16 else TOLERANCE
        np.testing.assert_allclose(sample.c, expected.astype(sample.c.dtype), rtol=rtol)
        assert ledger.peak <= way.workspace_bytes - way.hidden_bytes
        if add == accumulate:
            assert ledger.peak == way.workspace_bytes - way.hidden_bytes, way.describe()


@pytest.mark.parametrize("kind", sorted(TYPES))
@settings(max_examples=120)
@given(data=st.data(), accumulate=st.booleans(), bound=BOUNDS)
def test_product_equals_einsum_and_takes_exactly_its_workspace(
    kind: str, data: st.DataObject, accumulate: bool, bound: int
) -> None:
    check(data.draw(samples(kind)), accumulate, bound)


@pytest.mark.parametrize("kind", ["float", "complex"])
@settings(max_examples=60)
@given(data=st.data(), add=st.booleans(), bound=BOUNDS)
def test_a_factor_multiplies_what_is_written_and_what_is_added(
    kind: str, data: st.DataObject, add: bool, bound: int
) -> None:
    sample = data.draw(samples(kind))
    way = way_of(sample, add, bound)
    assume(sample.views[1] is not None)
    before = sample.c.copy()
    once = sample.expected(before.copy(), False)
    ledger = Ledger()
    compile_way(way, -2.5)(sample.a, sample.b, sample.c, add, ledger.take, ledger.give)
    expected = -2.5 * once + before if add else -2.5 * once
    scale = np.abs(expected).max(initial=1.0)
    np.testing.assert_allclose(
        sample.c / scale, expected.astype(sample.c.dtype) / scale, atol=TOLERANCE, rtol=TOLERANCE
    )
    assert ledger.live == 0
    assert ledger.peak <= way.workspace_bytes - way.hidden_bytes


@pytest.mark.parametrize("kind", sorted(TYPES))
@settings(max_examples=40)
@given(data=st.data(), accumulate=st.booleans(), bound=BOUNDS)
def test_sum_of_one_operand_equals_einsum(
    kind: str, data: st.DataObject, accumulate: bool, bound: int
) -> None:
    check(data.draw(samples(kind, unary=True)), accumulate, bound)


class Watched:
    """numpy with a matmul that refuses what it would have to copy."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def matmul(a: Array, b: Array, c: Array) -> None:
        assert a.dtype == b.dtype == c.dtype
        if a.dtype.char in "fdFD" and 1 not in (*a.shape[-2:], b.shape[-1]):
            for array in (a, b, c):
                assert is_blas_ready(array), (array.shape, array.strides)
        np.matmul(a, b, c)


def is_blas_ready(array: Array) -> bool:
    """The rule of numpy's matmul, written a second time from its source."""
    size = array.itemsize
    for outer, inner, n in (
        (array.strides[-2], array.strides[-1], array.shape[-1]),
        (array.strides[-1], array.strides[-2], array.shape[-2]),
    ):
        if inner == size and outer % size == 0 and outer // size >= n:
            return True
    return False


@settings(max_examples=200)
@given(sample=samples("float", max_extent=7), accumulate=st.booleans(), bound=BOUNDS)
def test_matmul_only_sees_matrices_that_blas_takes(
    sample: Sample, accumulate: bool, bound: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_, "np", Watched())
        check(sample, accumulate, bound)


def test_the_watched_matmul_refuses_a_stepped_matrix() -> None:
    stepped = np.ones((6, 8))[:, ::2]
    with pytest.raises(AssertionError, match=r"\(6, 4\)"):
        Watched.matmul(stepped, np.ones((4, 5)), np.ones((6, 5)))


def test_integers_wrap_and_bool_is_or_of_and() -> None:
    tens = np.full((3, 4), 100, np.int8)
    out = np.zeros((3, 3), np.int8)
    run("ij,kj->ik", tens, tens, out)
    assert (out == np.int8((100 * 100 * 4) % 256)).all()
    truth = np.ones((3, 4), bool)
    yes = np.zeros((3, 3), bool)
    run("ij,kj->ik", truth, truth, yes, accumulate=True)
    assert yes.all()


def test_object_products_stay_exact() -> None:
    a = np.array([[Fraction(1, 3), 2**70]], object)
    out = np.empty((1, 1), object)
    run("ij,kj->ik", a, a, out)
    assert out[0, 0] == Fraction(1, 9) + 2**140
    run("ij,kj->ik", a[:, :0], a[:, :0], out)
    assert out[0, 0] == 0


def test_half_is_summed_in_single_precision() -> None:
    ones = np.full(4096, 1, np.float16)
    small = np.full(4096, 0.001, np.float16)
    out = np.zeros((), np.float16)
    # Summed in half, the total would stop growing at 4.
    run("i,i->", ones, small, out, work="f4")
    assert out == np.float16(4096 * float(np.float16(0.001)))
    run("i,i->", ones, small, out, work="f4", buffer_bytes=64)
    assert out == np.float16(4096 * float(np.float16(0.001)))


def test_nothing_is_skipped_for_zeros() -> None:
    a = np.array([[0.0, 1.0], [0.0, 0.0]])
    b = np.array([[np.nan, np.inf], [1.0, 2.0]])
    out = np.zeros((2, 2))
    with np.errstate(invalid="ignore"):
        run("ij,jk->ik", a, b, out)
    assert np.isnan(out[:, 0]).all()
    assert np.isnan(out[:, 1]).all()


def test_a_reversed_destination_is_written_in_order() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((40, 30)), rng.standard_normal(30)
    out = np.zeros(80)[::-2]
    run("ij,j->i", a, b, out)
    np.testing.assert_allclose(out, a @ b)


def test_buffers_come_back_when_a_step_fails() -> None:
    a, b, c = np.ones((4, 6, 5)), np.ones((6, 4, 5)), np.ones((4, 4))
    way = prepared("akc,kbc->ab", a, b, c, accumulate=True)
    ledger = Ledger()
    with pytest.raises(ValueError, match=r"reshape|mismatch|axes"):
        compile_way(way)(a[:, :3], b, c, True, ledger.take, ledger.give)
    assert ledger.live == 0


def test_an_unblocked_addition_writes_the_first_trip_without_a_buffer() -> None:
    a, b, c = np.ones((4, 6)), np.ones((6, 5)), np.empty((4, 5))
    way = prepared("ij,jk->ik", a, b, c, accumulate=True)
    ledger = Ledger()
    compile_way(way)(a, b, c, False, ledger.take, ledger.give)
    assert ledger.peak == 0
    compile_way(way)(a, b, c, True, ledger.take, ledger.give)
    assert ledger.peak == way.workspace_bytes == c.nbytes
    assert (c == 12).all()


def prepared(text: str, a: Array, b: Array, c: Array, **options: Any) -> Way:
    """The way of an einsum on these arrays."""
    left, right, out = ([ord(x) for x in part] for part in text.replace("->", ",").split(","))
    work = np.dtype(options.pop("work", a.dtype))
    settings = {"accumulate": False, "buffer_bytes": DEFAULT_BUFFER_BYTES} | options
    return pair_way(view_of(left, a), view_of(right, b), view_of(out, c), work, **settings)


def run(text: str, a: Array, b: Array, c: Array, **options: Any) -> None:
    """Do one step into `c`."""
    way = prepared(text, a, b, c, **options)
    ledger = Ledger()
    compile_way(way)(a, b, c, way.accumulate, ledger.take, ledger.give)


def test_a_product_in_order_needs_no_views() -> None:
    a, b, c = np.ones((4, 4)), np.ones((4, 4)), np.ones((4, 4))
    kernel: Kernel = compile_way(prepared("ij,jk->ik", a, b, c))
    assert kernel is numpy_._matmul_as_is
    assert looks.fused_look(prepared("ij,jk->ik", a, b, c).pair, 0) is looks.same


#: One step per class of ways: text, types of a, b, c, memory orders, extents, options.
CLASSES: dict[str, dict[str, Any]] = {
    "views": {"text": "Pac,Pbd->abcd"},
    "transposed views": {"text": "cP,ijcd->ijdP"},
    "vector": {"text": "abcd,cd->ab"},
    "pack": {"text": "akcd,ijcd->ijak", "memory": ("ckad", "ijdc", "ijak")},
    "scattered": {"text": "kiac,kjcb->ijab"},
    "accumulate": {"text": "Pac,Pbd->abcd", "accumulate": True},
    "multiply": {"text": "ijPQ,PQ->ijPQ"},
    "batch inside": {"text": "abP,acP->bcP"},
    "cast": {"text": "Pac,Pbd->abcd", "types": ("i4", "f8", "f8")},
    "half": {"text": "Pac,Pbd->acbd", "types": ("f2", "f2", "f2"), "work": "f4"},
    "cast result": {"text": "Pac,Pbd->abcd", "types": ("f8", "f8", "f4")},
    "integers": {"text": "Pac,Pbd->abcd", "types": ("i4", "i4", "i4"), "work": "i4"},
    "sum": {"text": "abPQ->aQ"},
    "copy": {"text": "abcd->dbca", "types": ("i4", "", "f8")},
}
CHILD = """
import sys
from test_numpy_step import measured_growth
print(*measured_growth(sys.argv[1], int(sys.argv[2]), by_tracing=False))
"""


def arrays_of(name: str, extent: int) -> tuple[Sample, bool]:
    """The arrays of one class, every page of them touched."""
    case = CLASSES[name]
    parts = case["text"].replace("->", ",").split(",")
    memories = case.get("memory", parts)
    types = case.get("types", ("f8",) * 3)
    types = types if len(parts) == 3 else (types[0], types[2])
    made = []
    for part, memory, dtype in zip(parts, memories, types, strict=True):
        array = np.ones([extent] * len(memory), dtype)
        made.append(array.transpose([memory.index(x) for x in part]))
    labels = [tuple(ord(x) for x in part) for part in parts]
    middle = (labels[1], made[1]) if len(parts) == 3 else (None, None)
    work = np.dtype(case.get("work", "f8"))
    sample = Sample((labels[0], middle[0], labels[-1]), made[0], middle[1], made[-1], work)
    return sample, bool(case.get("accumulate", False))


def measured_growth(name: str, extent: int, *, by_tracing: bool) -> tuple[int, int]:
    """Bytes that a run needed at once beyond its arrays, and those that the way promised."""
    sample, accumulate = arrays_of(name, extent)
    way = way_of(sample, accumulate, 1 << 20)
    kernel = compile_way(way)
    small, _ = arrays_of(name, 2)
    compile_way(way_of(small, accumulate, 64))(
        small.a, small.b, small.c, accumulate, lambda n: np.empty(n, np.uint8), lambda x: None
    )
    np.matmul(np.ones((200, 200)), np.ones((200, 200)))
    old = np.setbufsize(512)
    if by_tracing:
        tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0] if by_tracing else high_water_bytes(reset=True)
    kernel(
        sample.a, sample.b, sample.c, accumulate, lambda n: np.empty(n, np.uint8), lambda x: None
    )
    after = tracemalloc.get_traced_memory()[1] if by_tracing else high_water_bytes(reset=False)
    if by_tracing:
        tracemalloc.stop()
    np.setbufsize(old)
    return after - before, way.workspace_bytes


def high_water_bytes(*, reset: bool) -> int:
    """Most resident bytes of this process, since the last reset where the system allows one."""
    if reset:
        # Where this is refused the mark counts from the start of the child, and hides little.
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the system tells no high-water mark")


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_traced_growth_stays_within_the_workspace(name: str) -> None:
    growth, promised = measured_growth(name, 24, by_tracing=True)
    assert growth <= promised + SLACK_BYTES


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("name", sorted(CLASSES))
def test_resident_growth_stays_within_the_workspace(name: str) -> None:
    tests = Path(__file__).parent
    # 36**4 doubles are 13 MiB, so that one hidden copy of an array would stand out.
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), name, "36"],
        env={"PYTHONPATH": f"{tests.parent / 'src'}:{tests}", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    growth, promised = map(int, child.stdout.split())
    assert growth <= promised + 1024 * 1024


def test_every_core_is_measured() -> None:
    cores = set()
    for name in CLASSES:
        sample, accumulate = arrays_of(name, 24)
        cores.add(way_of(sample, accumulate, 1 << 20).core)
    assert cores >= {Core.MATMUL, Core.MULTIPLY, Core.REDUCE, Core.COPY}


def test_numpys_einsum_may_be_replaced_by_ours() -> None:
    code = (
        "import numpy as np, einbound as eb; numpys = np.einsum; np.einsum = eb.einsum\n"
        "a, b = np.ones((6, 6, 4, 50)), np.ones((4, 50))\n"
        "(count,) = eb.plan('ijcP,cP->ijP', a, b).meter().steps.values()\n"
        "assert count.way.core.value == 'einsum'\n"
        "assert np.array_equal(np.einsum('ijcP,cP->ijP', a, b), np.full((6, 6, 50), 4.0))\n"
    )
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=True)


def test_a_reordered_batch_gives_the_same_product() -> None:
    draw = np.random.default_rng(0)
    a, b = draw.random((320, 24, 24)), draw.random((320, 30, 90))
    c = np.empty((24, 90, 30, 24))
    terms = (("Pki", a), ("Pac", b), ("kcai", c))
    views = [view_of([ord(x) for x in text], array) for text, array in terms]
    way = pair_way(*views, np.dtype("f8"), accumulate=False, buffer_bytes=DEFAULT_BUFFER_BYTES)
    assert way.blocks
    assert not way.buffers
    ledger = Ledger()
    compile_way(way)(a, b, c, False, ledger.take, ledger.give)
    np.testing.assert_allclose(c, np.einsum("Pki,Pac->kcai", a, b, optimize=True), rtol=1e-12)
    assert ledger.peak == 0
