"""Steps on compiled kernels: numpy's einsum, exactly their workspace, in any number of threads."""

from __future__ import annotations

import gc
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from einbound.backends.backend import Backend
from einbound.backends.native import NativeStep
from einbound.backends.native_ways import SHARED_FROM_SECONDS, NativeWays
from einbound.backends.numpy_ import compile_way
from einbound.backends.pool import Pool
from einbound.errors import BuildError, KernelError
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.machine.cpu import detected
from einbound.machine.limits import HardwareLimits
from einbound.step.blocked import Core, Way
from einbound.step.way import pair_way
from einbound.tune.build import Toolchain
from native_tools import needs_compiler, one_kernel, toolchain
from strided import Array, Sample, samples, view_of

pytestmark = needs_compiler


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


def ways(**changes: object) -> NativeWays:
    plain = NativeWays(Backend.NATIVE, toolchain(), detected().limits, choose=one_kernel)
    return replace(plain, **changes)  # type: ignore[arg-type]  # fields of the record


def way_of(sample: Sample, chooser: NativeWays, accumulate: bool) -> Way:
    a, b, c = sample.views
    assert b is not None
    return chooser(a, b, c, sample.work, accumulate=accumulate, buffer_bytes=1 << 20)


def run(way: Way, sample: Sample, add: bool, factor: complex = 1) -> Ledger:
    ledger = Ledger()
    kernel = compile_way(way, factor)
    kernel(sample.a, sample.b, sample.c, add, ledger.take, ledger.give)
    assert ledger.live == 0
    return ledger


def matrices(m: int, n: int, k: int, dtype: str = "f8") -> Sample:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((m, k), (k, n)))
    return Sample(((0, 2), (2, 1), (0, 1)), a, b, np.zeros((m, n), dtype), np.dtype(dtype))


@pytest.mark.parametrize("kind", ["float", "complex"])
@settings(max_examples=100)
@given(data=st.data(), accumulate=st.booleans(), room=st.sampled_from([1 << 14, 1 << 20]))
def test_a_product_equals_einsum_and_takes_exactly_its_workspace(
    kind: str, data: st.DataObject, accumulate: bool, room: int
) -> None:
    sample = data.draw(samples(kind, max_extent=12))
    way = way_of(sample, ways(room_bytes=room), accumulate)
    for add in (False, True) if accumulate else (False,):
        expected = sample.expected(sample.c.copy(), add)
        ledger = run(way, sample, add)
        # Elements are small whole numbers, so that every order of sums is exact.
        np.testing.assert_array_equal(sample.c, expected)
        if way.core is Core.NATIVE:
            assert ledger.peak == way.workspace_bytes <= room


@pytest.mark.parametrize("factor", [2, -0.5])
def test_a_factor_is_multiplied_in(factor: float) -> None:
    sample = matrices(30, 40, 50)
    sample.c[...] = 1
    expected = 1 + factor * (sample.a @ sample.b)
    run(way_of(sample, ways(), True), sample, True, factor)
    np.testing.assert_array_equal(sample.c, expected)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    sample = matrices(200, 150, 70)
    sample.a[...] = np.random.default_rng(1).standard_normal(sample.a.shape)
    found = []
    for n_workers in (1, 2, 3):
        way = way_of(sample, ways(), False)
        assert isinstance(way.native, NativeStep)
        step = replace(way.native, n_workers=n_workers)
        n_bytes = step.workspace_bytes(step.task())
        ledger = run(replace(way, native=step, workspace_bytes=n_bytes), sample, False)
        assert ledger.peak == n_bytes
        found.append(sample.c.tobytes())
    assert found[0] == found[1] == found[2]


def test_threads_share_large_steps_only() -> None:
    chooser = ways(n_threads=4)
    large = way_of(matrices(1500, 1500, 1500), chooser, False)
    small = way_of(matrices(30, 30, 30), chooser, False)
    assert isinstance(large.native, NativeStep)
    assert isinstance(small.native, NativeStep)
    assert large.seconds > 4 * SHARED_FROM_SECONDS
    assert (large.native.n_workers, small.native.n_workers) == (4, 1)
    assert large.workspace_bytes <= chooser.room_bytes


def test_no_reference_is_kept_to_what_a_step_worked_on() -> None:
    sample = matrices(20, 20, 20)
    kernel = compile_way(way_of(sample, ways(), False))
    a = np.array(sample.a)
    before = len(gc.get_referrers(a))
    kernel(a, sample.b, sample.c, False, Ledger().take, Ledger().give)
    assert len(gc.get_referrers(a)) == before


@pytest.mark.parametrize("kind", ["mixed", "half", "integer", "bool", "long", "object"])
@settings(max_examples=10)
@given(data=st.data())
def test_other_types_run_as_numpy_does_and_say_why(kind: str, data: st.DataObject) -> None:
    sample = data.draw(samples(kind))
    way = way_of(sample, ways(), False)
    a, b, c = sample.views
    assert b is not None
    plain = pair_way(a, b, c, sample.work, accumulate=False, buffer_bytes=1 << 20)
    assert replace(way, why="") == plain
    assert way.why


def test_misaligned_arrays_run_as_numpy_does() -> None:
    sample = matrices(8, 8, 8)
    memory = np.zeros(8 * 8 * 8 + 1, np.uint8)[1:].view("f8").reshape(8, 8)
    a = replace(view_of((0, 2), memory), aligned=False)
    _, b, c = sample.views
    assert b is not None
    way = ways()(a, b, c, sample.work, accumulate=False, buffer_bytes=4096)
    assert way.core is not Core.NATIVE
    assert "not all aligned" in way.why


def test_a_step_without_room_runs_as_numpy_does() -> None:
    way = way_of(matrices(30, 30, 30), ways(room_bytes=100), False)
    assert way.core is not Core.NATIVE
    assert "workspace_limit is" in way.why


def test_smaller_rooms_take_no_more_and_compute_the_same() -> None:
    sample = matrices(300, 200, 100)
    expected = sample.expected(sample.c, False)
    taken = []
    for room in (1 << 22, 1 << 15, 1 << 13):
        way = way_of(sample, ways(room_bytes=room), False)
        assert way.core is Core.NATIVE
        assert run(way, sample, False).peak <= room
        np.testing.assert_array_equal(sample.c, expected)
        taken.append(way.workspace_bytes)
    assert taken == sorted(taken, reverse=True)
    assert taken[0] > taken[-1]


def test_auto_takes_the_faster_by_prediction() -> None:
    sample = matrices(100, 100, 100)
    native, plain = way_of(sample, ways(), False), way_of(sample, ways(choose=refusing), False)
    chosen = way_of(sample, ways(backend=Backend.AUTO), False)
    assert chosen.core is (Core.NATIVE if native.seconds < plain.seconds else Core.MATMUL)
    assert "predicted" in chosen.why


def refusing(problem: MatmulProblem, limits: HardwareLimits) -> KernelSpec:
    raise KernelError("none is wanted")


def test_a_product_without_a_kernel_says_why() -> None:
    way = way_of(matrices(9, 9, 9), ways(choose=refusing), False)
    assert (way.core, way.why) == (Core.MATMUL, "none is wanted")


def test_a_broken_compiler_is_an_error_for_native_and_a_reason_for_auto() -> None:
    whole = toolchain()
    broken = Toolchain(replace(whole.compiler, command=("/bin/false",)), whole.folder)
    sample = matrices(400, 13, 300)
    with pytest.raises(BuildError, match=r"/bin/false ended with status 1"):
        way_of(sample, ways(toolchain=broken), False)
    way = way_of(sample, ways(toolchain=broken, backend=Backend.AUTO), False)
    assert way.core is not Core.NATIVE


def test_the_pool_runs_all_parts_and_raises_their_error() -> None:
    pool, seen, lock = Pool(), set[int](), threading.Lock()
    pool.prepare(2)

    def part(number: int) -> None:
        with lock:
            seen.add(number)
        if number == 3:
            raise ValueError(f"part {number} failed")

    for _ in range(20):
        seen.clear()
        with pytest.raises(ValueError, match="part 3 failed"):
            pool.run([lambda n=n: part(n) for n in range(5)])  # type: ignore[misc]
        assert seen == {0, 1, 2, 3, 4}
    pool.run([lambda: part(9)])
    assert 9 in seen
