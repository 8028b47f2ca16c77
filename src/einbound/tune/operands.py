"""Arrays that a product is tried on, and whether its result is right.

Values look random and are the same in every process; they need no generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einbound.kernels.groups import GroupAxis
from einbound.kernels.layout import told
from einbound.kernels.problem import MatmulProblem

Array = NDArray[Any]

#: What sums of k products may differ by beside k roundings: the reference rounds, too, and
#: blocks are added in another order.
_SLACK_ROUNDINGS = 16
_LETTERS = ("b", "m", "n", "k")


@dataclass(frozen=True, slots=True)
class Operands:
    """Arrays of one product, with the strides that it has.

    Attributes:
        a: The first operand, axes as in the groups batch, m and k.
        b: The second one, batch, k and n.
        c: The result, batch, m and n.
        expected: What the result must be.
        allowed: How far every element may be off.
    """

    a: Array
    b: Array
    c: Array
    expected: Array
    allowed: Array

    @classmethod
    def of(cls, problem: MatmulProblem) -> Operands:
        """The arrays of a product, and its result by NumPy.

        Args:
            problem: The product; A, B and C are stored in formats that NumPy has.

        Example:
            >>> Operands.of(MatmulProblem(m=2, n=3, k=4)).c.shape
            (2, 3)
        """
        groups = told(problem).groups
        assert groups is not None, "strides are told"
        named = {
            letter: [(f"{letter}{place}", axis) for place, axis in enumerate(axes)]
            for letter, axes in zip(
                _LETTERS, (groups.batch, groups.m, groups.n, groups.k), strict=True
            )
        }
        numbers: dict[str, int] = {}
        for axes in named.values():
            for name, _ in axes:
                numbers[name] = len(numbers)
        arrays, labels = [], []
        for side, letters, dtype, seed in (
            ("a", "bmk", problem.a_dtype, 1),
            ("b", "bkn", problem.b_dtype, 2),
            ("c", "bmn", problem.out_dtype, 3),
        ):
            found = [pair for letter in letters for pair in named[letter]]
            arrays.append(_strided([axis for _, axis in found], side, np.dtype(str(dtype)), seed))
            labels.append([numbers[name] for name, _ in found])
        a, b, c = arrays
        expected, scale = _reference(a, b, labels)
        depth = problem.macs // (problem.m * problem.n * problem.n_batch)
        rounding = float(np.finfo(c.dtype).eps) * (depth + _SLACK_ROUNDINGS)
        return cls(a, b, c, expected, scale * rounding)

    def spoil(self) -> None:
        """Write what no product is over the result, so that old results cannot pass for new."""
        self.c[...] = np.nan

    def fault(self) -> str | None:
        """What is wrong with the result; None: it is right."""
        off = np.abs(self.c - self.expected)
        wrong = ~(off <= self.allowed)  # nan is wrong
        if not wrong.any():
            return None
        place = tuple(int(n) for n in np.argwhere(wrong)[0])
        return (
            f"{int(wrong.sum())} of {wrong.size} elements are wrong; the one at {place} is "
            f"{self.c[place]!s}, expected {self.expected[place]!s}"
        )


def _strided(axes: Sequence[GroupAxis], side: str, dtype: np.dtype[Any], seed: int) -> Array:
    """An array with the strides of one side, over memory of its own."""
    shape = [axis.extent for axis in axes]
    strides = [int(getattr(axis, side)) for axis in axes]
    spans = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    first = -sum(span for span in spans if span < 0)
    memory = _scattered(first + sum(span for span in spans if span > 0) + 1, dtype, seed)
    return np.lib.stride_tricks.as_strided(
        memory[first:], shape, [step * dtype.itemsize for step in strides]
    )


def _scattered(n: int, dtype: np.dtype[Any], seed: int) -> Array:
    """Numbers between -1 and 1, made of their places.

    By the finalizer of splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number
    generators", OOPSLA 2014.
    """
    if dtype.kind == "c":
        real = np.dtype(f"f{dtype.itemsize // 2}")
        return _scattered(2 * n, real, seed).view(dtype)
    x = np.arange(n, dtype=np.uint64) + np.uint64(seed << 40)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return (x.astype(np.float64) * 2.0**-63 - 1).astype(dtype)


def _reference(a: Array, b: Array, labels: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    """The product by NumPy in its widest format, and that of the absolute values."""
    wide = np.result_type(a, np.float64)
    of_a, of_b, of_c = labels

    def product(x: Array, y: Array) -> Array:
        made: Array = np.einsum(x, list(of_a), y, list(of_b), list(of_c), optimize=True)
        return made

    expected = product(a.astype(wide), b.astype(wide))
    scale = product(np.abs(a).astype(np.float64), np.abs(b).astype(np.float64))
    return expected, scale
