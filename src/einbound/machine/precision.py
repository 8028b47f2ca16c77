"""Number formats that kernels store, multiply and accumulate in."""

from __future__ import annotations

from enum import StrEnum


class Precision(StrEnum):
    """A number format, by the name that NumPy or its extensions give it."""

    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    TFLOAT32 = "tfloat32"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"

    @property
    def n_bytes(self) -> int:
        """Bytes of one stored number."""
        return _N_BYTES[self]


_N_BYTES = {
    Precision.FLOAT8_E5M2: 1,
    Precision.FLOAT16: 2,
    Precision.BFLOAT16: 2,
    Precision.TFLOAT32: 4,
    Precision.FLOAT32: 4,
    Precision.FLOAT64: 8,
    Precision.COMPLEX64: 8,
    Precision.COMPLEX128: 16,
}
