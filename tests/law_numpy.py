"""A fresh process that does every kind of NumPy call of a run on arrays of some MB, one by one.

Writes one JSON list of rows: what a call is, what tracemalloc saw of it, what the process grew by.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import measure, warm_blas

from einbound.run.executable import quiet

Array = np.ndarray
#: Rows and columns; a matrix of doubles takes 12 MiB.
N = 1250


def ones(dtype: str, *shape: int) -> Array:
    """An array whose pages are all touched."""
    return np.ones(shape or (N, N), dtype)


def stepped(dtype: str, n: int = N) -> Array:
    """Every second column of a matrix: no contiguous run, no BLAS."""
    return ones(dtype, n, 2 * n)[:, ::2]


def rowed(dtype: str, n: int = N) -> Array:
    """The left half of a matrix: contiguous rows with gaps."""
    return ones(dtype, n, 2 * n)[:, :n]


def unaligned(dtype: str) -> Array:
    """A matrix that starts at an odd address."""
    size = np.dtype(dtype).itemsize
    raw = ones("u1", N * N * size + 1)
    return raw[1:].view(dtype).reshape(N, N)


def _copy(into: Array, source: Array) -> Callable[[], Any]:
    return lambda: np.copyto(into, source, casting="unsafe")


def _add(into: Array, made: Array) -> Callable[[], Any]:
    return lambda: np.add(into, made, out=into, casting="unsafe")


def _multiply(a: Array, b: Array, into: Array) -> Callable[[], Any]:
    return lambda: np.multiply(a, b, out=into, dtype=into.dtype, casting="unsafe")


def _matmul(a: Array, b: Array, into: Array) -> Callable[[], Any]:
    return lambda: np.matmul(a, b, into)


def _reduce(a: Array, axes: tuple[int, ...], into: Array) -> Callable[[], Any]:
    return lambda: np.add.reduce(a, axis=axes, dtype=into.dtype, out=into)


def _einsum(a: Array, b: Array, into: Array) -> Callable[[], Any]:
    return lambda: np.einsum(a, [0, 1], b, [0, 1], [0], out=into, optimize=False)


def _fill(into: Array) -> Callable[[], Any]:
    def fill() -> None:
        into[...] = 0

    return fill


#: Makers of calls, so that the arrays of one row are gone before the next one.
CALLS: dict[str, Callable[[], Callable[[], Any]]] = {
    "copyto transposed": lambda: _copy(ones("f8"), ones("f8").T),
    "copyto cast": lambda: _copy(ones("f8"), stepped("f4")),
    "copyto cast down": lambda: _copy(stepped("f2"), ones("f8").T),
    "copyto other byte order": lambda: _copy(ones("f8"), ones(">f8").T),
    "copyto unaligned": lambda: _copy(ones("c16"), unaligned("c16")),
    "add strided": lambda: _add(rowed("f8"), ones("f8")),
    "add stepped": lambda: _add(stepped("c16"), ones("c16")),
    "add reversed": lambda: _add(ones("f8")[::-1, ::-1], ones("f8")),
    "add to narrower type": lambda: _add(rowed("f4"), ones("f8")),
    "add to other byte order": lambda: _add(rowed(">f8"), ones("f8")),
    "add unaligned": lambda: _add(unaligned("c16"), ones("c16")),
    "add half": lambda: _add(rowed("f2"), ones("f4")),
    "multiply broadcast": lambda: _multiply(ones("f8", N, 1), ones("f8", 1, N), ones("f8")),
    "multiply mixed": lambda: _multiply(stepped("f4"), ones("f8", 1, N), ones("c16").T),
    "multiply half": lambda: _multiply(ones("f2").T, ones("f2", N, 1), rowed("f4")),
    "multiply integers": lambda: _multiply(ones("i2").T, ones(">i4"), ones("i8")),
    "reduce cast": lambda: _reduce(stepped("f2"), (1,), ones("f4", N)),
    "reduce outer": lambda: _reduce(ones("f8"), (0,), ones("f8", 2 * N)[::2]),
    "reduce two axes": lambda: _reduce(
        ones("i4", 50, N, 50).transpose(1, 2, 0), (1, 2), ones("i8", N)
    ),
    "reduce all": lambda: _reduce(ones("c8").T, (0, 1), np.zeros((), "c16")),
    "matmul vector": lambda: _matmul(stepped("f8"), ones("f8", N, 1), ones("f8", N, 1)),
    "matmul row": lambda: _matmul(ones("f8", 1, N), ones("f8")[::-1], ones("f8", 1, N)),
    "matmul dot": lambda: _matmul(
        ones("f8", 1, 8 * N * N)[:, ::8], ones("f8", N * N, 1)[::-1], ones("f8", 1, 1)
    ),
    "matmul one term": lambda: _matmul(ones("f8", N, 2)[:, :1], ones("f8", 1, N), stepped("f8")),
    "matmul half": lambda: _matmul(
        stepped("f2", 300)[::-1], rowed("f2", 300), ones("f2", 300, 300)
    ),
    "matmul integers": lambda: _matmul(
        stepped("i8", 300)[::-1], ones("i8", 300, 300).T, stepped("i8", 300)
    ),
    "matmul stack reversed": lambda: _matmul(
        ones("f8", 200, 90, 90)[::-1], ones("f8", 1, 90, 90).repeat(200, 0), ones("f8", 200, 90, 90)
    ),
    "matmul stack repeated": lambda: _matmul(
        np.broadcast_to(ones("f8", 90, 90), (200, 90, 90)),
        ones("f8", 90, 200, 90).transpose(1, 0, 2),
        ones("f8", 90, 200, 90).transpose(1, 2, 0),
    ),
    "einsum": lambda: _einsum(stepped("f8"), ones("f8").T, ones("f8", N)),
    "einsum complex": lambda: _einsum(stepped("c16"), rowed("c16"), stepped("c16")[:, 0]),
    "fill": lambda: _fill(stepped("f8")),
    # What the library must never do: it shows that a hidden copy is seen, and by which count.
    "never: matmul reversed": lambda: _matmul(ones("f8")[::-1], ones("f8", N, 4), ones("f8", N, 4)),
}


def main() -> None:
    """Measures every call."""
    for dtype in ("f4", "f8", "c16"):
        warm_blas(dtype)
    rows = []
    for name, make in CALLS.items():
        call = make()
        taken = measure(lambda call=call: quiet().copy().run(call))  # type: ignore[misc]
        rows.append((name, taken.tracked_bytes, taken.process_bytes))
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main()
