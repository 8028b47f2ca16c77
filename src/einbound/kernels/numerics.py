"""Policies on the formats that products are computed in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from einbound.kernels.kinds import chosen
from einbound.machine.precision import Precision


class HalfArithmetic(StrEnum):
    """How float16 sums are taken where the processor computes in float16.

    `PROMOTED` leaves it to `narrow_in_float32`, `NARROW` computes and sums in float16, `WIDE`
    computes in float16 and sums in float32.
    """

    PROMOTED = "promoted"
    NARROW = "narrow"
    WIDE = "wide"


_NARROW = frozenset({Precision.FLOAT16, Precision.BFLOAT16, Precision.FLOAT8_E5M2})


@dataclass(frozen=True, slots=True, kw_only=True)
class Numerics:
    """Which formats a kernel may compute and accumulate in.

    Attributes:
        tf32: Whether float32 operands may be rounded to tfloat32 in matrix instructions.
        narrow_in_float32: Whether a CPU computes formats below 32 bits in float32.
        half: How float16 is summed; also as "promoted", "narrow" or "wide".
        wide_bfloat16: Whether bfloat16 results must be accumulated in float32.
    """

    tf32: bool = False
    narrow_in_float32: bool = True
    half: HalfArithmetic | str = HalfArithmetic.PROMOTED
    wide_bfloat16: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "half", chosen(HalfArithmetic, self.half, "half of Numerics"))

    def compute(self, stored: Precision, *, native_half: bool) -> Precision:
        """The format that a CPU multiplies numbers stored in `stored` in."""
        if stored not in _NARROW or not self.narrow_in_float32:
            return stored
        is_half = stored is Precision.FLOAT16 and native_half
        keeps = is_half and self.half is HalfArithmetic.NARROW
        return stored if keeps else Precision.FLOAT32

    def accumulate(self, stored: Precision, *, native_half: bool) -> Precision:
        """The format that a CPU sums numbers stored in `stored` in."""
        if stored is Precision.FLOAT16 and self.half is HalfArithmetic.WIDE:
            return Precision.FLOAT32
        if stored is Precision.BFLOAT16 and self.wide_bfloat16:
            return Precision.FLOAT32
        return self.compute(stored, native_half=native_half)

    def must_widen(self, stored: Precision) -> bool:
        """Whether matrix instructions must accumulate results stored so in float32."""
        if stored is Precision.FLOAT16:
            return self.half is HalfArithmetic.WIDE
        return stored is Precision.BFLOAT16 and self.wide_bfloat16
