"""One matrix product, as much of it as the choice of a kernel depends on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from einbound.machine.precision import Precision


class BLayout(StrEnum):
    """How the second operand lies in memory."""

    PLAIN = "plain"
    TRANSPOSED = "transposed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulProblem:
    """C[m, n] += sum over k of A[m, k] B[k, n], for every element of a batch.

    Attributes:
        m: Rows of the result.
        n: Columns of the result.
        k: The innermost contracted extent.
        batch: Extents of batch loops, outermost first.
        outer_k: Extents of contracted loops around `k`, outermost first.
        a_dtype: Format in which A is stored.
        b_dtype: Format in which B is stored.
        out_dtype: Format in which C is stored.
        b_layout: How B lies in memory.
        hoistable: Operands ("A", "B") that are persistent, packed once when a plan is prepared.
        epilogue: Name of an elementwise tail with this product as its only reader; None: none.
        zeroed: Whether C is set to zero in the same routine.
        a_strides: Elements between neighbours along m and k; None: contiguous.
        b_strides: The same along k and n.
        c_strides: The same along m and n.
    """

    m: int
    n: int
    k: int
    batch: tuple[int, ...] = ()
    outer_k: tuple[int, ...] = ()
    a_dtype: Precision = Precision.FLOAT32
    b_dtype: Precision = Precision.FLOAT32
    out_dtype: Precision = Precision.FLOAT32
    b_layout: BLayout = BLayout.PLAIN
    hoistable: frozenset[str] = frozenset()
    epilogue: str | None = None
    zeroed: bool = False
    a_strides: tuple[int, int] | None = None
    b_strides: tuple[int, int] | None = None
    c_strides: tuple[int, int] | None = None

    @property
    def n_batch(self) -> int:
        """Number of products."""
        return prod(self.batch)

    @property
    def macs(self) -> int:
        """Multiply-adds of all products."""
        return self.m * self.n * self.k * prod(self.outer_k) * self.n_batch
