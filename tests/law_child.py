"""A fresh process that plans and runs many contractions of some MB and says what each took.

Reads one JSON object from standard input, writes one JSON list of rows. What is wrong with a row
is decided by `test_law_memory`, from the same rows for honest runs and for spoiled ones.
"""

from __future__ import annotations

import json
import mmap
import random
import string
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import mappings
import numpy as np
from measure import measure, warm_blas
from numpy.lib.stride_tricks import as_strided

from trees import random_network, random_tree

mappings.track()  # before the library is imported

import einbound as eb  # noqa: E402
from einbound.api import engines  # noqa: E402
from einbound.backends import numpy_  # noqa: E402
from einbound.run import allocator, executable  # noqa: E402
from native_tools import few_objects  # noqa: E402

Array = np.ndarray
MIB = 1 << 20
#: Operands and unlimited workspace together, and work, of a random case.
BYTES, MAX_MACS, MAX_CALLS = (5 * MIB, 60 * MIB), 4 * 10**8, 2000
#: Types of the operands, drawn one for all or one each.
TYPES = (("f8",), ("f8",), ("f4",), ("c16",), ("f2",), ("f4", "f8"), ("f8", "c16"), ("f2", "f4"))
SHARES = (1, 2, 4, 16, 64)


@dataclass(frozen=True)
class Case:
    """One contraction: its text and its operands, every page of them touched."""

    text: str
    operands: tuple[Any, ...]
    layouts: tuple[str, ...]


class Counted(allocator.Allocator):
    """An allocator that can be asked afterwards what it did, and has the pages counted often."""

    __slots__ = ()
    made: ClassVar[list[allocator.Allocator]] = []

    def __init__(self, capacity_bytes: int) -> None:
        super().__init__(capacity_bytes)
        self.made.append(self)

    def take(self, n_bytes: int, high: bool = False) -> Any:
        mappings.note()
        return super().take(n_bytes, high)


def cases(seed: int) -> Iterator[Case]:
    """Random cases without an end."""
    rng = random.Random(seed)
    while True:
        network = random_network(rng, rng.randint(3, 6), rng.randint(4, 8), largest=4)
        terms = ["".join(string.ascii_letters[i] for i in ix) for ix in network.inputs]
        output = "".join(string.ascii_letters[i] for i in network.output)
        dtypes = rng.choice(TYPES)
        kinds = [rng.choice(dtypes) for _ in terms]
        for scale in (2, 4, 8, 16, 32):
            shapes = [tuple(network.extents[i] * scale for i in ix) for ix in network.inputs]
            text = ",".join(terms) + "->" + output
            plan = eb.plan(text, *shapes, dtype=kinds)
            n_bytes = plan.operand_bytes + plan.workspace_bytes
            if n_bytes > BYTES[1] or plan.result_bytes > BYTES[1] or plan.macs > MAX_MACS:
                break
            if n_bytes >= BYTES[0]:
                yield _case(rng, text, shapes, kinds)
                break


def _case(rng: random.Random, text: str, shapes: list[tuple[int, ...]], kinds: list[str]) -> Case:
    layouts = tuple(rng.choice(sorted(LAYOUTS)) for _ in shapes)
    made = zip(layouts, shapes, kinds, strict=True)
    return Case(text, tuple(filled(kind, shape, dtype) for kind, shape, dtype in made), layouts)


def filled(layout: str, shape: tuple[int, ...], dtype: str) -> Array:
    """An array of one layout; its values are small, so that halves stay finite."""
    array = LAYOUTS[layout](shape, dtype)
    _base(array).fill(0.25)
    return array


def _base(array: Array) -> Array:
    """The array that owns the memory."""
    while array.base is not None:
        array = array.base
    return array


def _transposed(shape: tuple[int, ...], dtype: str) -> Array:
    return np.empty(shape[::-1], dtype).T


def _turned(shape: tuple[int, ...], dtype: str) -> Array:
    array = np.empty((*shape[1:], *shape[:1]), dtype)
    return np.moveaxis(array, -1, 0) if shape else array


def _stepped(shape: tuple[int, ...], dtype: str) -> Array:
    return np.empty((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2] if shape else np.empty((), dtype)


def _reversed(shape: tuple[int, ...], dtype: str) -> Array:
    return np.empty(shape, dtype)[::-1] if shape else np.empty((), dtype)


def _window(shape: tuple[int, ...], dtype: str) -> Array:
    """The last two axes slide over one axis of the base."""
    if len(shape) < 2:
        return np.empty(shape, dtype)
    base = np.empty((*shape[:-2], shape[-2] + shape[-1] - 1), dtype)
    return as_strided(base, shape, (*base.strides, base.strides[-1]))


LAYOUTS: dict[str, Callable[[tuple[int, ...], str], Array]] = {
    "plain": np.empty,
    "transposed": _transposed,
    "turned": _turned,
    "stepped": _stepped,
    "reversed": _reversed,
    "window": _window,
}


def limited(case: Case) -> Iterator[tuple[str, eb.Plan | None]]:
    """The plan without a limit and those within shares of its workspace; None: refused."""
    free = eb.plan(case.text, *case.operands)
    yield "free", free
    for k in SHARES:
        limit = free.operand_bytes + free.result_bytes + free.workspace_bytes // k
        try:
            plan = eb.plan(case.text, *case.operands, memory_limit=limit)
        except eb.BudgetError:
            yield f"k={k}", None
            continue
        if plan.meter().calls <= MAX_CALLS:
            yield f"k={k}", plan


def streamed(case: Case, rng: random.Random) -> Case:
    """The same with some operands, at least one, not in memory as far as plans know."""
    far = {rng.randrange(len(case.operands)), *(k for k in range(6) if rng.random() < 0.5)}
    operands = [
        eb.Source(a.shape, a.dtype, _reader(a)) if k in far else a
        for k, a in enumerate(case.operands)
    ]
    return replace(case, operands=tuple(operands))


def _reader(array: Array) -> Callable[[tuple[slice, ...]], Array]:
    """Copies blocks to pages of their own: the heap would keep pages of blocks that are freed."""

    def read(slices: tuple[slice, ...]) -> Array:
        view = array[slices]
        block = np.ndarray(view.shape, view.dtype, mmap.mmap(-1, max(view.nbytes, 1)))
        block[...] = view
        return block

    return read


def handwritten(case: Case, rng: random.Random) -> Iterator[tuple[str, eb.Plan | None]]:
    """Plans with random orders, loops, levels and buffers, every other one with uneven trips."""
    network = eb.plan(case.text, *case.operands)._made.executable.job.network
    for number in range(4):
        tree = random_tree(rng, network, n_loops=3)
        plan = eb.Plan.build(
            case.text,
            *case.operands,
            path=tree.path,
            loops=tree.loops,
            levels=dict(enumerate(tree.levels)),
            tiles=tiles_of(tree.loops, number) if number % 2 else None,
            buffer_bytes=rng.choice([1 << 12, 1 << 16, 1 << 19, 1 << 22]),
        )
        small = plan.macs <= 2 * MAX_MACS and plan.peak_bytes <= 4 * BYTES[1]
        if small and plan.meter().calls <= MAX_CALLS:
            yield f"tree {number}", plan


def tiles_of(loops: tuple[eb.Loop, ...], seed: int) -> dict[Any, list[int]]:
    """Boundaries of up to ten tiles of any width for every index that is looped over."""
    rng = random.Random(seed)
    inner = {loop.index: range(1, loop.extent) for loop in loops}
    return {
        index: [0, *sorted(rng.sample(places, min(len(places), rng.randint(1, 9)))), places.stop]
        for index, places in inner.items()
    }


def row(case: Case, name: str, plan: eb.Plan | None, out: Array | None = None) -> dict[str, Any]:
    """What one plan says of itself, and what runs of it took."""
    head = {"text": case.text, "layouts": case.layouts, "plan": name}
    if plan is None:
        return {**head, "refused": True}
    read, ready = plan.meter(), plan._made.executable
    said = ready.metered
    limits = plan._made.setting.limits
    promised = {
        "shapes": [a.shape for a in case.operands],
        "dtypes": [a.dtype.str for a in case.operands],
        "limit_bytes": limits.memory_bytes,
        "peak_bytes": plan.peak_bytes,
        # The caller's own result is there before.
        "held_bytes": plan.operand_bytes if out is None else plan.peak_bytes - plan.workspace_bytes,
        "overhead_bytes": plan.overhead_bytes,
        "workspace_bytes": plan.workspace_bytes,
        "n_ways": len(said.ways),
        "n_cells": len(ready.schedule.cells),
        "calls": said.calls,
        "metered_alike": (read.space, read.workspace, read.macs)
        == (said.space, said.workspace, said.macs)
        and plan.peak_bytes == plan.operand_bytes + read.space_bytes,
    }
    Counted.made.clear()
    taken = measure(lambda: plan.run(case.operands, out))
    first = taken.result.copy() if out is not None else taken.result
    whole = _without_mappings(lambda: measure(lambda: plan.run(case.operands, out)))
    # A result over an operand changes it, so that the second run has other operands.
    again = name == "over" or np.array_equal(first, whole.result, equal_nan=True)
    return {
        **head,
        **promised,
        "tracked_bytes": taken.tracked_bytes,
        "unmapped_bytes": whole.tracked_bytes,
        "process_bytes": taken.process_bytes,
        "left_bytes": sum(each.live_bytes for each in Counted.made),
        "outside": sum(each.outside for each in Counted.made),
        "same_again": bool(again),
    }


def given(case: Case) -> Iterator[tuple[str, eb.Plan | None, Array]]:
    """Plans for results that the caller owns: with gaps, turned, cast, over an operand."""
    free = eb.plan(case.text, *case.operands)
    job = free._made.executable.job
    shape, dtype = job.network.result_shape, job.result.dtype
    kinds = [name for name in sorted(LAYOUTS) if name != "window"]
    outs = [(name, filled(name, shape, dtype.str)) for name in kinds]
    if dtype.kind == "f" and dtype.itemsize > 2:
        outs.append(("wider", filled("stepped", shape, "c16")))
    base = _base(max(case.operands, key=lambda operand: _base(operand).nbytes))
    n_bytes = int(np.prod(shape)) * dtype.itemsize
    if base.nbytes >= n_bytes:
        outs.append(("over", base.reshape(-1).view("u1")[:n_bytes].view(dtype).reshape(shape)))
    for name, out in outs:
        for k in (1, 8):
            limit = free.operand_bytes + 2 * free.result_bytes + free.workspace_bytes // k
            plan = eb.plan(case.text, *case.operands, memory_limit=max(limit, free.peak_bytes // k))
            try:
                yield name, plan._for(case.operands, out), out
            except eb.BudgetError:
                yield name, None, out


def _without_mappings(action: Callable[[], Any]) -> Any:
    """The same with every buffer an array of its own, which tracemalloc counts to the byte."""
    old, allocator.MAPPED_FROM_BYTES = allocator.MAPPED_FROM_BYTES, sys.maxsize
    try:
        return action()
    finally:
        allocator.MAPPED_FROM_BYTES = old


# ways to break the law --------------------------------------------------------------------------


class _Reversing:
    """numpy with a matmul on views that run backwards, which numpy copies in plain malloc."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def matmul(a: Array, b: Array, c: Array) -> None:
        np.matmul(a[..., ::-1, :], b, c[..., ::-1, :])


class _Hoarding(Counted):
    """An allocator that keeps 10 MiB more than it was asked for."""

    __slots__ = ("kept",)

    def take(self, n_bytes: int, high: bool = False) -> Any:
        self.kept = np.frombuffer(mmap.mmap(-1, 10 * MIB), np.uint8)
        self.kept.fill(1)
        return super().take(n_bytes, high)


class _Forgetful(Counted):
    """An allocator that never takes note of what comes back."""

    __slots__ = ()

    def give(self, buffer: Any) -> None:
        super().give(buffer)
        self.live_bytes += 1


class _Wasteful(Counted):
    """An allocator that does not shrink when the result comes to life."""

    __slots__ = ()

    def limit(self, capacity_bytes: int) -> None:
        return


def _spoil(how: str) -> None:
    if how == "reversed matmul":
        vars(numpy_)["np"] = _Reversing()
    else:
        spoiled = {"hoard": _Hoarding, "forget": _Forgetful, "no cut": _Wasteful}
        vars(executable)["Allocator"] = spoiled[how]


def fixed(text: str, sizes: dict[str, int]) -> Case:
    """A case with operands in C order."""
    terms = text.split("->")[0].split(",")
    shapes = [tuple(sizes[x] for x in term) for term in terms]
    operands = tuple(filled("plain", shape, "f8") for shape in shapes)
    return Case(text, operands, ("plain",) * len(terms))


def on_kernels(case: Case) -> Iterator[dict[str, Any]]:
    """The rows of plans on compiled kernels, the large steps shared by two threads."""
    vars(engines)["_engine"] = few_objects
    with eb.options(backend="native", threads=2):
        for name, plan in limited(case):
            ways = [] if plan is None else plan._made.executable.metered.ways.values()
            n_native = sum(way.native is not None for way in ways)
            yield {**row(case, name, plan), "n_native": n_native}


def rows_of(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of one task, warm: one unmeasured run first."""
    for kind in ("f4", "f8", "c8", "c16"):
        warm_blas(kind)
    vars(executable)["Allocator"] = Counted
    warm = fixed("ab,bc,cd->ad", dict.fromkeys("abcd", 64))
    row(warm, "warm", eb.plan(warm.text, *warm.operands))
    if "spoiled" in task:
        _spoil(task["spoiled"])
        case = fixed(task["text"], task["sizes"])
        yield row(case, "spoiled", eb.plan(case.text, *case.operands))
        return
    source = cases(task["seed"])
    for _ in range(task["n_cases"]):
        case = next(source)
        rng = random.Random(task["seed"])
        if task["kind"] == "given":
            for name, plan, out in given(case):
                yield row(case, name, plan, out)
            continue
        if task["kind"] == "streamed":
            case = streamed(case, rng)
        if task["kind"] == "native":
            yield from on_kernels(case)
            continue
        plans = handwritten(case, rng) if task["kind"] == "handwritten" else limited(case)
        for name, plan in plans:
            yield row(case, name, plan)


if __name__ == "__main__":
    json.dump(list(rows_of(json.loads(sys.stdin.readline()))), sys.stdout)
