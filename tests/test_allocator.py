"""The arena of a run: bounded, reused, and never handing out the same byte twice."""

from __future__ import annotations

import mmap
import random
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from einbound.errors import ScheduleError
from einbound.run.allocator import (
    KEPT_BYTES,
    LINE_BYTES,
    MAPPED_FROM_BYTES,
    SLACK_BYTES,
    Allocator,
)


def test_a_broken_promise_is_an_error_and_allocates_nothing() -> None:
    allocator = Allocator(100)
    allocator.take(60)
    with pytest.raises(ScheduleError, match=r"asked for 41 bytes with 60 alive, .* at most 100"):
        allocator.take(41)
    assert allocator.live_bytes == 60
    assert allocator.take(40).nbytes == 40


def test_the_same_request_gets_the_same_memory_again() -> None:
    allocator = Allocator(1 << 20)
    first = allocator.take(1000)
    address = first.ctypes.data
    allocator.give(first)
    assert allocator.take(1000).ctypes.data == address


@pytest.mark.parametrize("capacity", [2000, 4 * MAPPED_FROM_BYTES])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_living_buffers_never_overlap_and_stay_within_the_promise(capacity: int, seed: int) -> None:
    rng = random.Random(seed)
    allocator = Allocator(capacity)
    alive: dict[int, np.ndarray] = {}
    for number in range(60):
        size = rng.randint(0, capacity // 3)
        if allocator.live_bytes + size <= capacity and rng.random() < 0.7:
            buffer = allocator.take(size, rng.random() < 0.5)
            assert buffer.nbytes == size
            buffer[:] = number
            alive[number] = buffer
        elif alive:
            gone = rng.choice(sorted(alive))
            assert (alive[gone] == gone).all()
            allocator.give(alive.pop(gone))
        assert allocator.live_bytes == sum(b.nbytes for b in alive.values()) <= capacity
    for number, buffer in alive.items():
        assert (buffer == number).all()
        allocator.give(buffer)
    assert allocator.holes == [(0, capacity + SLACK_BYTES)] or allocator.arena is None


def test_a_request_that_no_hole_takes_is_served_beside_the_arena() -> None:
    size = MAPPED_FROM_BYTES
    allocator = Allocator(4 * size)
    buffers = [allocator.take(size) for _ in range(4)]
    allocator.give(buffers[0])
    allocator.give(buffers[2])
    scattered = allocator.take(2 * size)
    scattered[:] = 7
    assert (buffers[1].size, buffers[3].size) == (size, size)
    assert allocator.live_bytes == 4 * size
    allocator.give(scattered)
    assert allocator.live_bytes == 2 * size


def test_buffers_start_on_cache_lines() -> None:
    allocator = Allocator(1 << 20)
    for size in (1, 63, 65, 1000):
        offset = allocator.take(size).ctypes.data - allocator.take(1).ctypes.data
        assert offset % LINE_BYTES == 0


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_a_cut_short_arena_keeps_what_lives_and_stays_within_the_new_bound(seed: int) -> None:
    rng = random.Random(seed)
    capacity = 8 * MAPPED_FROM_BYTES
    allocator = Allocator(capacity)
    alive = {}
    for number in range(12):
        size = rng.randint(1, capacity // 8)
        if allocator.live_bytes + size <= capacity:
            alive[number] = allocator.take(size, rng.random() < 0.5)
            alive[number][:] = number
    for number in rng.sample(sorted(alive), len(alive) // 2):
        allocator.give(alive.pop(number))
    bound = allocator.live_bytes + rng.randint(0, capacity // 4)
    allocator.limit(bound)
    with pytest.raises(ScheduleError, match="promised at most"):
        allocator.take(capacity)
    for number in range(100, 130):
        size = rng.randint(1, capacity // 8)
        if allocator.live_bytes + size <= min(bound, capacity):
            alive[number] = allocator.take(size, rng.random() < 0.5)
            alive[number][:] = number
        elif alive:
            allocator.give(alive.pop(rng.choice(sorted(alive))))
    for number, buffer in alive.items():
        assert (buffer == number % 256).all()


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="no pages are given back here")
def test_pages_above_a_new_bound_go_back_to_the_system() -> None:
    size = MAPPED_FROM_BYTES
    allocator = Allocator(4 * size)
    kept, gone = allocator.take(size), allocator.take(3 * size)
    kept[:], gone[:] = 1, 1
    allocator.give(gone)
    allocator.limit(2 * size)
    assert (kept == 1).all()
    # Private pages that were given back read as zeros; shared ones would still be there.
    assert (gone[size + SLACK_BYTES + mmap.PAGESIZE :] == 0).all()
    assert allocator.take(size).nbytes == size


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="no pages are given back here")
def test_room_for_others_is_made_of_free_pages_only() -> None:
    size = MAPPED_FROM_BYTES
    allocator = Allocator(4 * size)
    kept, low, high = allocator.take(size), allocator.take(size), allocator.take(size)
    for buffer in (kept, low, high):
        buffer[:] = 1
    allocator.give(low)
    allocator.give(high)
    allocator.make_room(2 * size)
    assert (kept == 1).all()
    assert (low == 1).mean() > 0.9
    assert (high == 0).mean() > 0.9
    allocator.make_room(4 * size)
    assert (low == 0).mean() > 0.9


def test_a_small_promise_is_kept_by_single_buffers() -> None:
    allocator = Allocator(MAPPED_FROM_BYTES - 1)
    buffers = [allocator.take(1000) for _ in range(3)]
    assert (allocator.live_bytes, allocator.arena) == (3000, None)
    for buffer in buffers:
        allocator.give(buffer)
    assert allocator.live_bytes == 0


def test_values_made_from_one_another_leave_no_hole_between_them() -> None:
    # A chain: each value lives until the next is made; 3 + 2 units are the most alive at once.
    unit = MAPPED_FROM_BYTES
    allocator = Allocator(5 * unit)
    previous = allocator.take(2 * unit)
    for depth, size in enumerate((3, 1, 2, 3, 2, 3, 1), 1):
        value = allocator.take(size * unit, high=depth % 2 == 1)
        assert allocator.outside == 0
        allocator.give(previous)
        previous = value


def _filled(n_bytes: int, value: int = 1) -> Allocator:
    allocator = Allocator(n_bytes)
    buffer = allocator.take(n_bytes)
    buffer[:] = value
    allocator.give(buffer)
    return allocator


def test_the_next_run_of_a_thread_takes_the_same_pages() -> None:
    size = 2 * MAPPED_FROM_BYTES
    _filled(size).finish()
    again = Allocator(size).take(size)
    assert (again == 1).all()
    in_use = Allocator(size).take(size)
    assert (in_use == 0).all()


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="no pages are given back here")
def test_a_run_that_is_promised_less_gives_the_rest_back_first() -> None:
    size = MAPPED_FROM_BYTES
    _filled(4 * size).finish()
    less = Allocator(size)
    assert (less.take(size) == 1).all()
    less.finish()
    again = Allocator(4 * size).take(4 * size)
    assert (again[:size] == 1).all()
    assert (again[size + SLACK_BYTES + mmap.PAGESIZE :] == 0).all()


@pytest.mark.parametrize("promise", [0, MAPPED_FROM_BYTES - 1, 2 * MAPPED_FROM_BYTES])
def test_no_pages_are_kept_beside_another_run(promise: int) -> None:
    size = MAPPED_FROM_BYTES
    _filled(size).finish()
    other = Allocator(promise)
    if promise > size:
        assert (other.take(promise) == 0).all()
    assert (Allocator(size).take(size) == 0).all()


def test_large_arenas_and_those_of_failed_runs_are_not_kept() -> None:
    _filled(KEPT_BYTES + 1).finish()
    assert (Allocator(KEPT_BYTES).take(KEPT_BYTES) == 0).all()
    _filled(MAPPED_FROM_BYTES).abandon()
    assert (Allocator(MAPPED_FROM_BYTES).take(MAPPED_FROM_BYTES) == 0).all()


def test_threads_keep_pages_of_their_own() -> None:
    size = MAPPED_FROM_BYTES
    _filled(size).finish()
    found = []
    thread = threading.Thread(target=lambda: found.append((Allocator(size).take(size) == 0).all()))
    thread.start()
    thread.join()
    assert found == [True]
