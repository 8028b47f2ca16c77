"""Emitted kernels compute what they should, write where they should, and read as C."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from einbound.kernels.groups import GroupAxis, Groups
from einbound.kernels.kinds import PipelineKind
from einbound.kernels.member import Form, Member
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.kernels.task import task_of
from einbound.machine.precision import Precision
from native_objects import CANARY, Operands, needs_compiler, run

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
