"""Random steps on arrays of any strides, for the tests of ways and of their execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from einbound.step.view import View

Array: TypeAlias = NDArray[Any]

#: Groups that an index may be in: the arrays among a, b, c that carry it.
GROUPS = {"H": "abc", "M": "ac", "N": "bc", "K": "ab"}


@dataclass(frozen=True)
class Sample:
    """One step on real arrays; `b` is None for a sum of one operand."""

    labels: tuple[tuple[int, ...], tuple[int, ...] | None, tuple[int, ...]]
    a: Array
    b: Array | None
    c: Array
    work: np.dtype

    @property
    def views(self) -> tuple[View, View | None, View]:
        """The layouts of a, b and c."""
        b = None if self.b is None else view_of(self.labels[1] or (), self.b)
        return view_of(self.labels[0], self.a), b, view_of(self.labels[2], self.c)

    def expected(self, before: Array, accumulate: bool) -> Array:
        """The right value of c, by numpy's own einsum in the type that is worked in."""
        pairs: list[Any] = []
        for labels, array in zip(self.labels[:2], (self.a, self.b), strict=True):
            if array is not None:
                pairs += [array.astype(self.work), list(labels or ())]
        value = np.asarray(np.einsum(*pairs, list(self.labels[2]), optimize=False))
        if accumulate:
            value = value + before
        return np.asarray(value)


def view_of(labels: Sequence[int], array: Array) -> View:
    """The layout of one array."""
    return View(tuple(labels), array.shape, array.strides, array.dtype)


def view(text: str, memory: str, sizes: dict[str, int], dtype: str = "f8") -> View:
    """The layout of an array stored in the order `memory` and seen as `text`."""
    stored = View.contiguous(
        tuple(ord(x) for x in memory), tuple(sizes[x] for x in memory), np.dtype(dtype)
    )
    strides = dict(zip(memory, stored.strides, strict=True))
    return View(
        tuple(ord(x) for x in text),
        tuple(sizes[x] for x in text),
        tuple(strides[x] for x in text),
        np.dtype(dtype),
    )


@st.composite
def samples(draw: st.DrawFn, dtype: str, *, max_extent: int = 8, unary: bool = False) -> Sample:
    """A step whose arrays are permuted, stepped, reversed, broadcast or overlapping."""
    work, types = draw(st.sampled_from(TYPES[dtype]))
    n_indices = draw(st.integers(0, 5))
    extents = [draw(st.integers(1, max_extent)) for _ in range(n_indices)]
    if n_indices and draw(st.integers(0, 19)) == 0:
        extents[0] = 0
    kinds = [draw(st.sampled_from("MK" if unary else "HMNK")) for _ in range(n_indices)]
    labels = [
        tuple(draw(st.permutations([i for i, kind in enumerate(kinds) if name in GROUPS[kind]])))
        for name in "abc"
    ]
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    arrays = [
        _strided(draw, rng, [extents[i] for i in own], np.dtype(kind), name != "c")
        for own, kind, name in zip(labels, types, "abc", strict=True)
    ]
    b = (None, None) if unary else (labels[1], arrays[1])
    return Sample((labels[0], b[0], labels[2]), arrays[0], b[1], arrays[2], np.dtype(work))


#: Of each class of types: pairs of what is worked in, and the types of a, b and c.
TYPES: dict[str, list[tuple[str, tuple[str, str, str]]]] = {
    "float": [("f8", ("f8", "f8", "f8")), ("f4", ("f4", "f4", "f4"))],
    "complex": [("c16", ("c16", "c16", "c16")), ("c8", ("c8", "c8", "c8"))],
    "integer": [("i8", ("i8", "i8", "i8")), ("i1", ("i1", "i1", "i1")), ("u2", ("u2", "u2", "u2"))],
    "bool": [("?", ("?", "?", "?"))],
    "half": [("f4", ("f2", "f2", "f2")), ("f4", ("f2", "f2", "f4"))],
    "long": [("g", ("g", "g", "g"))],
    "object": [("O", ("O", "O", "O"))],
    "mixed": [
        ("f8", ("f4", "f8", "f8")),
        ("f8", ("i4", "f8", "f4")),
        ("f8", ("?", "i2", "c16")),
        ("f8", (">f8", "f8", ">f8")),
        ("c16", ("f8", "c16", "c16")),
    ],
}


def _strided(
    draw: st.DrawFn, rng: np.random.Generator, shape: list[int], dtype: np.dtype, is_read: bool
) -> Array:
    kinds = ["contiguous", "permuted", "stepped", "reversed"]
    kind = draw(st.sampled_from([*kinds, "broadcast", "window"] if is_read else kinds))
    n = len(shape)
    if kind == "window" and n > 1:
        base = _values(rng, (sum(shape) + 1,), dtype)
        return as_strided(base, shape, [base.itemsize] * n)
    order = list(rng.permutation(n)) if kind != "contiguous" else list(range(n))
    steps = [1] * n
    if kind in {"stepped", "reversed"}:
        choices = [1, 2, 3] if kind == "stepped" else [1, -1, -2]
        steps = [int(rng.choice(choices)) for _ in range(n)]
    stored = [shape[p] * abs(step) + (abs(step) > 1) for p, step in zip(order, steps, strict=True)]
    stepped: Any = tuple(slice(None, None, step) for step in steps)
    kept: Any = tuple(slice(0, shape[p]) for p in order)
    array = _values(rng, tuple(stored), dtype)[(*stepped, ...)][(*kept, ...)]
    array = array.transpose(np.argsort(order))
    if kind == "broadcast" and n:
        thin = int(rng.integers(n))
        thinned: Any = tuple(slice(0, 1) if axis == thin else slice(None) for axis in range(n))
        array = np.broadcast_to(array[(*thinned, ...)], shape)
    return array


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    values = np.asarray(rng.integers(-3, 4, shape))
    if dtype.kind == "b":
        return np.asarray(values > 1)
    if dtype.kind == "c":
        return np.asarray(values + 1j * rng.integers(-2, 3, shape)).astype(dtype)
    return values.astype(dtype)
