"""Runs of forests: what surrounds them, and what an error leaves behind."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

import einbound as eb
import einbound.run.allocator
import einbound.run.forest
from einbound.api.program import Program
from einbound.backends.numpy_ops import NumpyOps
from einbound.errors import ScheduleError
from einbound.run.allocator import MAPPED_FROM_BYTES, Allocator
from einbound.run.executable import UFUNC_BUFFER_ELEMENTS
from einbound.run.forest import compile_forest
from einbound.run.guards import summing_loops
from einbound.schedule.instructions import Loop, flat
from forests import random_forest, random_leaves, random_plan, views

Array = np.ndarray[Any, Any]
CHAIN = "W[a,b] = A[P,a,c] B[P,c,d] C[P,d,b]"


def chain() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal((12, 9, 9)) for name in "ABC"}


def summed_in_parts(**keywords: Any) -> Program:
    """A program whose limit makes it add up over parts of P."""
    return eb.Program(CHAIN, 28_000, **keywords)


# the context that arithmetic runs in --------------------------------------------------------


def test_arithmetic_warns_of_nothing_as_einsum_does() -> None:
    big = np.array([1e308, np.inf])
    with np.errstate(all="raise"):
        result = eb.Program("R[i] = A[i] B[i] - A[i]")(A=big, B=big)["R"]
    assert not np.isfinite(result).any()


def test_buffers_of_ufuncs_are_small_while_it_runs_and_only_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: set[int] = set()
    contract = NumpyOps.contract

    def noted(*given: Any) -> Any:
        sizes.add(np.getbufsize())
        return contract(*given)

    monkeypatch.setattr(NumpyOps, "contract", noted)
    before = np.getbufsize()
    summed_in_parts()(chain())
    assert sizes == {UFUNC_BUFFER_ELEMENTS} != {before}
    assert np.getbufsize() == before


#: Something that callers set for what they call.
SAID: ContextVar[str] = ContextVar("SAID", default="nothing")


def around() -> tuple[str, int]:
    return SAID.get(), np.getbufsize()


def test_sources_and_guards_are_called_in_the_context_of_the_caller() -> None:
    seen: list[tuple[str, int]] = []
    given = chain()

    @contextlib.contextmanager
    def guard(n_trips: int) -> Iterator[None]:
        seen.append(around())
        yield
        seen.append(around())

    def read(cuts: tuple[slice, ...]) -> Array:
        seen.append(around())
        block: Array = given["A"][cuts]
        return block

    source = eb.Source(given["A"].shape, given["A"].dtype, read)
    token = SAID.set("much")
    try:
        wanted = {around()}
        result = summed_in_parts(guard=guard)({**given, "A": source})["W"]
        n_seen = len(seen)
        summed_in_parts(guard=guard)(given)
    finally:
        SAID.reset(token)
    np.testing.assert_allclose(result, np.einsum("Pac,Pcd,Pdb->ab", *given.values()))
    assert len(seen) >= n_seen + 2 > 2
    assert set(seen) == wanted


# memory -------------------------------------------------------------------------------------


class Kept(Allocator):
    """Allocators of runs, to look at afterwards."""

    __slots__ = ()
    made: list[Allocator] = []  # noqa: RUF012  # one list for all, emptied by each test

    def __init__(self, capacity_bytes: int) -> None:
        super().__init__(capacity_bytes)
        self.made.append(self)


def squares() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal((200, 200)) for name in "ABC"}


def test_an_error_gives_the_pages_of_the_arena_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(einbound.run.forest, "Allocator", Kept)
    Kept.made.clear()
    program, given = eb.Program("R[i,l] = A[i,j] B[j,k] C[k,l]"), squares()
    calls = [0]
    contract = NumpyOps.contract

    def fails_later(*given_: Any) -> Any:
        calls[0] += 1
        if calls[0] > 1:
            raise MemoryError
        return contract(*given_)

    monkeypatch.setattr(NumpyOps, "contract", fails_later)
    with pytest.raises(MemoryError) as kept:
        program(given)
    (allocator,) = Kept.made
    assert kept.value is not None
    assert allocator.capacity_bytes >= MAPPED_FROM_BYTES
    assert allocator.arena is not None
    # Fresh pages are zeros; the rest of the last page stays.
    assert not allocator.arena[: 200 * 200 * 8 // 4096 * 4096].any()


def test_a_second_run_finds_the_arena_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped: list[int] = []
    fresh = einbound.run.allocator._mapped

    def noted(n_bytes: int) -> Any:
        mapped.append(n_bytes)
        return fresh(n_bytes)

    monkeypatch.setattr(einbound.run.allocator._KEPT, "arena", None)
    monkeypatch.setattr(einbound.run.allocator, "_mapped", noted)
    program, given = eb.Program("R[i,l] = A[i,j] B[j,k] C[k,l]"), squares()
    program(given)
    assert len(mapped) == 1
    program(given)
    assert len(mapped) == 1


def test_calls_that_numpy_buffers_unseen_get_room_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    room: list[int] = []
    monkeypatch.setattr(Allocator, "make_room", lambda allocator, n_bytes: room.append(n_bytes))
    program = eb.Program("R = A[e,f,f] A[f,e,f]")
    a = np.arange(8.0).reshape(2, 2, 2)
    assert program(A=a)["R"] == np.einsum("eff,fef->", a, a)
    assert room
    assert min(room) > 0


# scopes around partial sums -----------------------------------------------------------------


def test_an_error_inside_a_loop_closes_its_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Any] = []

    class Guard:
        def __init__(self, n_trips: int) -> None: ...

        def __enter__(self) -> None:
            events.append("open")

        def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
            events.append(kind)

    program, given = summed_in_parts(guard=Guard), chain()
    contract = NumpyOps.contract

    def fails_inside(*given_: Any) -> Any:
        if events[-1:] == ["open"]:
            raise MemoryError
        return contract(*given_)

    monkeypatch.setattr(NumpyOps, "contract", fails_inside)
    with pytest.raises(MemoryError):
        program(given)
    assert events == ["open", MemoryError]


def test_loops_that_add_nothing_up_are_not_guarded() -> None:
    opened: list[int] = []

    @contextlib.contextmanager
    def guard(n_trips: int) -> Iterator[None]:
        opened.append(n_trips)
        yield

    policy = eb.BatchPolicy(
        is_batchable_external_index=lambda index: True,
        batch_spectator_indices=True,
        peak_threshold=10**6,
    )
    given = squares()
    held = sum(array.nbytes for array in given.values()) + 200**2 * 8
    program = eb.Program("R[i,l] = A[i,j] B[j,k] C[k,l]", held + 10**5, policy, guard=guard)
    with pytest.warns(eb.BudgetWarning):
        result = program(given)["R"]
    np.testing.assert_allclose(result, given["A"] @ given["B"] @ given["C"])
    assert "trips" in program.explain()
    assert opened == []


def test_loops_of_one_trip_add_nothing_up() -> None:
    n_single = 0
    for seed in range(60):
        rng = random.Random(seed)
        forest = random_forest(rng)
        if any(i < 0 for each in forest.productions for i in each.network.output):
            continue
        leaves = random_leaves(forest, seed)
        try:
            ready = compile_forest(random_plan(rng, forest), views(leaves), np.dtype(float), 1024)
        except ScheduleError:
            continue
        schedule = ready.lowered.schedule
        partial = {loop for cell in schedule.cells for loop in cell.partial}
        loops = {each.number: each for each in flat(schedule.body) if isinstance(each, Loop)}
        single = {number for number in partial if loops[number].n_trips == 1}
        n_single += len(single)
        assert not single & summing_loops(schedule)
    assert n_single > 0
