"""Schedules run: right results, and memory and work exactly as metered."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from einbound.backends.numpy_ops import NumpyOps
from einbound.expr.network import Network
from einbound.plan.model import Count
from einbound.plan.tree import Tree
from einbound.run.allocator import Allocator
from einbound.run.executable import Executable, Job, compile_tree
from einbound.run.walk import walk
from einbound.step.view import View
from trees import random_arrays, random_network, random_tree, reference, views_of

DTYPES = ["float64", "int64", "complex64", "bool", "float32"]


def random_case(seed: int, dtype: str) -> tuple[Executable, list[np.ndarray], Network, Tree]:
    rng = random.Random(seed)
    network = random_network(rng, rng.randint(2, 5), rng.randint(1, 6))
    tree = random_tree(rng, network)
    arrays = random_arrays(network, dtype, seed)
    result = View.contiguous(network.output, network.result_shape, np.dtype(dtype))
    job = Job(network, views_of(network, arrays), result, np.dtype(dtype))
    buffer_bytes = rng.choice([64, 1024, 1 << 22])
    return compile_tree(job, tree, buffer_bytes), arrays, network, tree


@given(st.integers(0, 2**32), st.sampled_from(DTYPES))
@settings(max_examples=300, deadline=None)
def test_loops_change_no_result(seed: int, dtype: str) -> None:
    ready, arrays, network, _ = random_case(seed, dtype)
    got, wanted = ready.run(arrays), reference(network, arrays)
    # Sums of small whole numbers are exact in every one of these types.
    assert got.dtype == wanted.dtype
    assert np.array_equal(got, wanted)


@given(st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_metered_counts_are_those_of_the_tree(seed: int) -> None:
    ready, _, _, tree = random_case(seed, "float64")
    count, metered = Count(tree, 8), ready.metered
    assert (metered.macs, metered.calls) == (count.macs, count.calls)
    assert metered.space_bytes >= count.peak_bytes
    readings = [*metered.steps.values(), *metered.sums.values()]
    if not any(reading.workspace_bytes for reading in readings):
        assert metered.space_bytes == count.peak_bytes


@given(st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_a_run_takes_exactly_the_workspace_that_was_metered(seed: int) -> None:
    ready, arrays, _, _ = random_case(seed, "float64")
    allocator = Allocator(1 << 40)
    allocator.arena = np.empty(1 << 22, np.uint8)
    allocator.holes = [(0, 1 << 22)]
    ops = NumpyOps(
        ready.kernels, ready.job.work, allocator.take, allocator.give, lambda _: ready.new_result()
    )
    walk(ready.schedule, ops, arrays)
    hidden = max(
        (c.way.hidden_bytes for c in ready.metered.steps.values() if c.way is not None), default=0
    )
    assert allocator.live_bytes == 0
    assert ready.metered.workspace_bytes - hidden <= allocator.peak_bytes
    assert allocator.peak_bytes <= ready.metered.workspace_bytes


def test_nests_of_many_loops_are_metered_at_once() -> None:
    rng = random.Random(5)
    network = random_network(rng, 6, 12, largest=3)
    tree = random_tree(rng, network, n_loops=12)
    arrays = random_arrays(network)
    result = View.contiguous(network.output, network.result_shape, np.dtype("int64"))
    job = Job(network, views_of(network, arrays), result, np.dtype("int64"))
    ready = compile_tree(job, tree, 1024)
    assert ready.metered.macs == Count(tree, 8).macs


def test_threads_share_one_executable() -> None:
    ready, arrays, network, _ = random_case(7, "float64")
    wanted = reference(network, arrays)
    wrong: list[np.ndarray] = []

    def work() -> None:
        for _ in range(50):
            got = ready.run(arrays)
            if not np.array_equal(got, wanted):
                wrong.append(got)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_interrupted_run_leaves_nothing_behind() -> None:
    ready, arrays, network, _ = next(
        case
        for case in (random_case(seed, "float64") for seed in range(200))
        if case[0].schedule.body and any(loop.n_batches > 1 for loop in case[3].loops)
    )

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ready.run(arrays, progress=stop)
    assert np.array_equal(ready.run(arrays), reference(network, arrays))


def test_progress_counts_the_trips_of_the_outermost_loops() -> None:
    seen: list[tuple[int, int]] = []
    ready, arrays, _, tree = random_case(3, "float64")
    ready.run(arrays, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert tree.check()
