"""Emitted kernels compute what they should, write where they should, and read as C."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from math import prod
from platform import machine
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from einbound.errors import KernelError
from einbound.kernels.decisions import RegisterTile
from einbound.kernels.emit_c import c_source
from einbound.kernels.family import family_tree
from einbound.kernels.groups import GroupAxis, Groups
from einbound.kernels.kinds import PipelineKind
from einbound.kernels.member import FORMATS, Form, Member, member_of
from einbound.kernels.menu import Menu
from einbound.kernels.nest import nest_of
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.kernels.task import task_of
from einbound.machine.limits import HardwareLimits
from einbound.machine.precision import Precision
from einbound.space.traversal import leaves
from native_objects import CANARY, Operands, compiled, needs_compiler, run

pytestmark = needs_compiler

#: Sums of k products of numbers of size 1 are off by at most about k rounding errors.
ROUNDING = {"float32": 2e-6, "complex64": 4e-6, "float64": 4e-15, "complex128": 8e-15}
MEMBERS = [
    Member(form=Form.PACKED, dtype=Precision.FLOAT64, rm=4, rn=2, lanes=4),
    Member(form=Form.PACKED, dtype=Precision.FLOAT64, rm=8, rn=3, lanes=8),
    Member(form=Form.PACKED, dtype=Precision.FLOAT32, rm=6, rn=1, lanes=8),
    Member(form=Form.PACKED, dtype=Precision.FLOAT32, rm=8, rn=3, lanes=16),
    Member(form=Form.PACKED, dtype=Precision.COMPLEX128, rm=3, rn=2, lanes=4),
    Member(form=Form.PACKED, dtype=Precision.COMPLEX64, rm=4, rn=1, lanes=8),
    Member(form=Form.IN_PLACE, dtype=Precision.FLOAT64, rm=8, rn=3, lanes=8),
    Member(form=Form.IN_PLACE, dtype=Precision.FLOAT32, rm=3, rn=2, lanes=4),
    Member(form=Form.IN_PLACE, dtype=Precision.COMPLEX128, rm=3, rn=2, lanes=4),
    Member(form=Form.BLOCKTILE, dtype=Precision.FLOAT64, rm=1, rn=1, lanes=1),
    Member(form=Form.BLOCKTILE, dtype=Precision.COMPLEX64, rm=1, rn=1, lanes=1),
]
F64 = Precision.FLOAT64
CPU = HardwareLimits(
    simd_vector_bytes=32,
    vector_registers=16,
    fma_per_cycle=2,
    fma_latency_cycles=4,
    clock_hz=3e9,
    n_cores=2,
)
BLOCKS = [(8, 24, 5), (16, 0, 64), (1, 1, 1), (64, 48, 17)]


@st.composite
def strided(draw: st.DrawFn, shape: tuple[int, ...], dtype: str, zero: int = 0) -> NDArray[Any]:
    """An array of a shape whose axes lie in any order, forwards or backwards, with gaps.

    Args:
        draw: Of hypothesis.
        shape: Extents.
        dtype: Format.
        zero: How many axes, from the first one, may have stride 0.
    """
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 1, 2, -1])) for _ in shape]
    still = [axis < zero and draw(st.booleans()) for axis in range(len(shape))]
    stored = tuple(1 if still[x] else shape[x] * abs(steps[x]) for x in order)
    memory = np.full(prod(stored) * np.dtype(dtype).itemsize, CANARY, np.uint8)
    array: NDArray[Any] = (
        memory.view(dtype).reshape(stored).transpose(np.argsort(np.array(order, dtype=np.int64)))
    )
    array = array[tuple(slice(None, None, step) for step in steps)]
    return np.asarray(np.broadcast_to(array, shape) if any(still) else array)


def filled(array: NDArray[Any], seed: int) -> None:
    """Numbers of size 1 in an array, in place."""
    rng = np.random.default_rng(seed)
    array.flags.writeable = True
    array[...] = rng.uniform(-1, 1, array.shape)
    if array.dtype.kind == "c":
        array.imag[...] = rng.uniform(-1, 1, array.shape)


def extents() -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(
        st.sampled_from([1, 2, 3, 5, 7, 8, 13, 16, 24, 33]), min_size=1, max_size=2
    ).map(tuple)


def axes(extents: tuple[int, ...], **strides: tuple[int, ...]) -> tuple[GroupAxis, ...]:
    return tuple(
        GroupAxis(extent, **{name: each[place] for name, each in strides.items()})
        for place, extent in enumerate(extents)
    )


def elements(array: NDArray[Any]) -> tuple[int, ...]:
    return tuple(stride // array.itemsize for stride in array.strides)


@st.composite
def products(draw: st.DrawFn, dtype: str) -> tuple[MatmulProblem, Operands]:
    """A product of arrays of any strides, and these arrays."""
    batch = draw(st.lists(st.sampled_from([1, 2, 3]), max_size=2).map(tuple))
    m, n, k = draw(extents()), draw(extents()), draw(extents())
    a = draw(strided((*batch, *m, *k), dtype, len(batch)))
    b = draw(strided((*batch, *k, *n), dtype, len(batch)))
    c = draw(strided((*batch, *m, *n), dtype))
    for seed, array in enumerate((a, b, c)):
        filled(array, seed)
    of_a, of_b, of_c = map(elements, (a, b, c))
    x, y, z = len(batch), len(batch) + len(m), len(batch) + len(k)
    groups = Groups(
        axes(batch, a=of_a[:x], b=of_b[:x], c=of_c[:x]),
        axes(m, a=of_a[x:y], c=of_c[x:y]),
        axes(n, b=of_b[z:], c=of_c[y:]),
        axes(k, a=of_a[y:], b=of_b[x:z]),
    )
    problem = MatmulProblem(
        m=prod(m),
        n=prod(n),
        k=k[-1],
        outer_k=k[:-1],
        batch=batch,
        a_dtype=Precision.of(dtype),
        b_dtype=Precision.of(dtype),
        out_dtype=Precision.of(dtype),
        b_layout=groups.b_layout,  # type: ignore[arg-type]
        groups=groups,
    )
    return problem, Operands(a, b, c, _owner(c))


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    while array.base is not None:
        array = np.asarray(array.base)
    return array


def expected(arrays: Operands, n_batch: int, n_m: int, alpha: complex, add: bool) -> NDArray[Any]:
    """The right result, by numpy's own sums."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    batch, m = letters[:n_batch], letters[n_batch : n_batch + n_m]
    rest = letters[n_batch + n_m :]
    k = rest[: arrays.a.ndim - n_batch - n_m]
    n = rest[len(k) : len(k) + arrays.c.ndim - n_batch - n_m]
    text = f"{batch}{m}{k},{batch}{k}{n}->{batch}{m}{n}"
    value = alpha * np.einsum(text, arrays.a, arrays.b, optimize=False)
    return np.asarray(value + arrays.c if add else value)


def agree(arrays: Operands, right: NDArray[Any], problem: MatmulProblem) -> None:
    """Assert that the result is right, and the memory between its elements as it was."""
    depth = problem.macs // (problem.m * problem.n * problem.n_batch)
    error = float(abs(arrays.c - right).max())
    assert error <= ROUNDING[str(arrays.c.dtype)] * (depth + 4)
    arrays.c[...] = np.full(1, CANARY, np.uint8).repeat(arrays.c.itemsize).view(arrays.c.dtype)[0]
    assert (arrays.base.view(np.uint8) == CANARY).all(), "written between elements of the result"


def spec_of(member: Member, blocks: tuple[int, int, int]) -> KernelSpec:
    bm, bn, bk = blocks
    is_block = member.form is Form.BLOCKTILE
    return KernelSpec(
        gpu=False,
        pipeline=PipelineKind.BLOCKTILE if is_block else PipelineKind.TENSORIZED,
        mma=not is_block,
        packed=member.form in (Form.PACKED, Form.BLOCKTILE),
        bm=bm,
        bn=bn,
        bk=bk,
    )


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
@settings(max_examples=12)
@given(data=st.data())
def test_any_strides_and_extents_give_the_product_and_touch_nothing_else(
    member: Member, data: st.DataObject
) -> None:
    problem, arrays = data.draw(products(member.dtype.value))
    spec = spec_of(member, data.draw(st.sampled_from(BLOCKS)))
    add = data.draw(st.booleans())
    alpha = data.draw(st.sampled_from([1, -0.5, 0.5 + 1j] if member.parts == 2 else [1, -0.5]))
    assert problem.groups is not None
    n_m = len(problem.groups.m)
    right = expected(arrays, len(problem.batch), n_m, alpha, add)
    task = task_of(problem, spec, member, accumulate=add, alpha=alpha)
    cuts = tuple(data.draw(st.lists(st.integers(1, 8), max_size=2)))
    run(member, task, arrays, cuts)
    agree(arrays, right, problem)


@settings(max_examples=12)
@example(extents=(24, 40, 33), batch=(2, 3), dtype="float64", add=True)
@given(
    extents=st.tuples(*[st.sampled_from([1, 2, 3, 5, 8, 13, 20])] * 3),
    batch=st.sampled_from([(), (3,), (2, 3)]),
    dtype=st.sampled_from(["float32", "float64"]),
    add=st.booleans(),
)
def test_small_products_of_a_batch_know_their_extents(
    extents: tuple[int, int, int], batch: tuple[int, ...], dtype: str, add: bool
) -> None:
    m, n, k = extents
    precision = Precision.of(dtype)
    problem = MatmulProblem(
        m=m, n=n, k=k, batch=batch, a_dtype=precision, b_dtype=precision, out_dtype=precision
    )
    member = Member(
        form=Form.SMALL,
        dtype=precision,
        rm=4,
        rn=2,
        lanes=4,
        extents=extents,
        steps=(k, 1, n, n),
    )
    base = np.full(prod((*batch, m, n)) * precision.n_bytes, CANARY, np.uint8)
    arrays = Operands(
        np.zeros((*batch, m, k), dtype),
        np.zeros((*batch, k, n), dtype),
        base.view(dtype).reshape(*batch, m, n),
        base,
    )
    for seed, array in enumerate((arrays.a, arrays.b, arrays.c)):
        filled(array, seed)
    right = expected(arrays, len(batch), 1, -0.5, add)
    task = task_of(problem, spec_of(member, (0, 0, 0)), member, accumulate=add, alpha=-0.5)
    run(member, task, arrays, (1, 4))
    agree(arrays, right, problem)


GOLDEN = [
    Member(form=Form.PACKED, dtype=Precision.FLOAT64, rm=4, rn=2, lanes=4),
    Member(form=Form.PACKED, dtype=Precision.COMPLEX64, rm=2, rn=1, lanes=8),
    Member(form=Form.IN_PLACE, dtype=Precision.FLOAT32, rm=2, rn=2, lanes=8),
    Member(form=Form.BLOCKTILE, dtype=Precision.FLOAT64, rm=1, rn=1, lanes=1),
    Member(
        form=Form.SMALL,
        dtype=Precision.FLOAT64,
        rm=4,
        rn=2,
        lanes=4,
        extents=(5, 6, 3),
        steps=(3, 1, 6, 6),
    ),
    Member(
        form=Form.SMALL,
        dtype=Precision.FLOAT64,
        rm=8,
        rn=3,
        lanes=8,
        extents=(24, 40, 33),
        steps=(33, 1, 40, 40),
    ),
]


@pytest.mark.parametrize("member", GOLDEN, ids=lambda member: member.name)
def test_the_c_of_a_member_is_what_was_reviewed_and_compiles(
    member: Member, golden: Callable[..., None]
) -> None:
    golden(c_source(nest_of(member)), ".c")
    compiled(member)


@pytest.mark.parametrize("a_steps", [(33, 1), (1, 24)])
def test_every_row_of_the_next_product_is_asked_for_once(a_steps: tuple[int, int]) -> None:
    member = replace(GOLDEN[-1], steps=(*a_steps, 40, 40))
    asked: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    calls = r"fetch\(next_(.) \+ (\d+), (\d+), (\d+), (\d+)\)"
    counts = set()
    for name, *numbers in re.findall(calls, c_source(nest_of(member))):
        start, rows, step, count = map(int, numbers)
        asked[name] += [start + row * step for row in range(rows)]
        counts.add((name, count))
    rows, step, count = (24, 33, 33) if a_steps[1] == 1 else (33, 24, 24)
    assert asked["a"] == [row * step for row in range(rows)]
    assert asked["b"] == [row * 40 for row in range(33)]
    assert asked["c"] == [row * 40 for row in range(24)]
    assert counts == {("a", count), ("b", 40), ("c", 40)}


def test_the_next_of_least_products_is_not_asked_for() -> None:
    least = replace(GOLDEN[-1], extents=(16, 16, 16), steps=(16, 1, 16, 16))
    assert "prefetch" not in c_source(nest_of(least))


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_any_cut_into_chunks_gives_the_same_bits(member: Member) -> None:
    number = member.dtype
    problem = MatmulProblem(
        m=37, n=53, k=29, batch=(3,), a_dtype=number, b_dtype=number, out_dtype=number
    )
    a, b = np.zeros((3, 37, 29), number.value), np.zeros((3, 29, 53), number.value)
    filled(a, 0)
    filled(b, 1)
    task = task_of(problem, spec_of(member, (8, 24, 7)), member, accumulate=False)
    found = []
    for cuts in ((), (1, 2, 7), tuple(range(task.n_chunks))):
        c = np.full((3, 37, 53), np.nan, number.value)
        run(member, task, Operands(a, b, c, c), cuts)
        found.append(c.tobytes())
    assert len(set(found)) == 1


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_blocks_shrink_until_the_workspace_fits_a_limit(member: Member) -> None:
    number = member.dtype
    problem = MatmulProblem(m=200, n=300, k=150, a_dtype=number, b_dtype=number, out_dtype=number)
    spec = spec_of(member, (128, 240, 100))
    whole = task_of(problem, spec, member, accumulate=False)
    small = task_of(problem, spec, member, accumulate=False, workspace_limit=8192)
    assert small.workspace_bytes <= 8192 < whole.workspace_bytes
    a, b = np.zeros((200, 150), number.value), np.zeros((150, 300), number.value)
    filled(a, 0)
    filled(b, 1)
    c = np.zeros((200, 300), number.value)
    run(member, small, Operands(a, b, c, c))
    assert float(abs(c - a @ b).max()) <= ROUNDING[number.value] * 150


def test_a_limit_below_one_register_tile_is_refused() -> None:
    member = MEMBERS[0]
    problem = MatmulProblem(m=64, n=64, k=64, a_dtype=F64, b_dtype=F64, out_dtype=F64)
    with pytest.raises(KernelError, match=r"workspace_limit is 100; the least blocks of .* need"):
        task_of(problem, spec_of(member, (8, 8, 8)), member, accumulate=False, workspace_limit=100)


def test_a_call_with_arrays_themselves_runs_all_chunks() -> None:
    member = MEMBERS[0]
    problem = MatmulProblem(m=20, n=24, k=16, a_dtype=F64, b_dtype=F64, out_dtype=F64)
    task = task_of(problem, spec_of(member, (8, 8, 8)), member, accumulate=False)
    a, b, c = np.ones((20, 16)), np.ones((16, 24)), np.zeros((20, 24))
    words = np.array(task.words, np.int64)
    room = np.zeros(task.workspace_bytes, np.uint8)
    compiled(member).einbound_call(words.ctypes.data, a, b, c, room)
    assert (c == 16).all()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"hoist": True}, "panels that are packed when a plan is prepared, for which no C"),
        ({"epilogue": True}, "an elementwise tail, for which no C is emitted"),
        ({"gpu": True}, "a grid of a GPU, for which no C is emitted"),
    ],
)
def test_what_no_emitter_writes_is_refused_with_the_reason(
    change: dict[str, Any], match: str
) -> None:
    spec = replace(spec_of(MEMBERS[0], (8, 8, 8)), **change)
    with pytest.raises(KernelError, match=match):
        member_of(MatmulProblem(m=64, n=64, k=64), spec, CPU)


def test_mixed_formats_are_refused() -> None:
    problem = MatmulProblem(m=64, n=64, k=64, a_dtype=Precision.FLOAT16)
    with pytest.raises(KernelError, match="formats are float16, float32, float32; C is emitted"):
        member_of(problem, spec_of(MEMBERS[0], (8, 8, 8)), CPU)


@pytest.mark.parametrize("number", sorted(FORMATS))
def test_every_leaf_of_small_problems_without_copies_ahead_runs_and_is_right(
    number: Precision,
) -> None:
    # Tiles are few objects, and every leaf of the tree is one task of one of these.
    problem = MatmulProblem(m=24, n=32, k=20, a_dtype=number, b_dtype=number, out_dtype=number)
    tile = RegisterTile(4, 1, 32 // number.real.n_bytes)
    menu = replace(Menu.default(CPU), analytic=False, register_tiles=(tile,), cpu_blocks=(4,))
    specs = leaves(family_tree(problem, CPU, menu))
    a, b = np.zeros((24, 20), number.value), np.zeros((20, 32), number.value)
    filled(a, 0)
    filled(b, 1)
    assert {spec.pipeline for spec in specs} == set(PipelineKind)
    for spec in specs:
        member = member_of(problem, spec, CPU)
        task = task_of(problem, spec, member, accumulate=False)
        c = np.full((24, 32), np.nan, number.value)
        run(member, task, Operands(a, b, c, c))
        assert float(abs(c - a @ b).max()) <= ROUNDING[number.value] * 24


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc prints the code that is counted")
@pytest.mark.skipif(machine() != "x86_64", reason="the instructions are those of x86-64")
def test_the_inner_loop_of_the_default_tile_is_multiply_adds_without_the_stack() -> None:
    member = Member(form=Form.PACKED, dtype=Precision.FLOAT64, rm=6, rn=2, lanes=4)
    command = ["gcc", "-O2", "-mavx2", "-mfma", "-std=gnu11", "-S", "-x", "c", "-o", "-", "-"]
    source = c_source(nest_of(member))
    code = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    lines = code[code.index("tile_6x2:") :].split("ret\n")[0].splitlines()
    loops = inner_loops(lines)
    (loop,) = [each for each in loops if any("vfmadd" in line for line in each)]
    assert sum("vfmadd" in line for line in loop) == 12
    assert not [line for line in loop if "(%rsp" in line or "(%rbp" in line]


def inner_loops(lines: list[str]) -> list[list[str]]:
    """The lines between a label and a jump back to it."""
    labels = {line.rstrip(":"): at for at, line in enumerate(lines) if line.endswith(":")}
    found = []
    for at, line in enumerate(lines):
        words = line.split()
        if len(words) == 2 and words[0].startswith("j") and labels.get(words[1], at) < at:
            found.append(lines[labels[words[1]] : at])
    return found
