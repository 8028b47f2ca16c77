"""Number formats that kernels store, multiply and accumulate in."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np

from einbound.errors import MachineError


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

    @classmethod
    def of(cls, given: object) -> Precision:
        """The format that is meant by a member, a NumPy dtype, or a long or short name.

        Args:
            given: For example `Precision.FLOAT32`, "float32", "f32", `numpy.dtype("float32")` or
                what NumPy takes for one, such as "<f4". Short names go before those of NumPy:
                "f16" has 16 bits.

        Raises:
            MachineError: It is none of these.

        Example:
            >>> Precision.of("bf16"), Precision.of("fp8_e5m2").n_bytes
            (<Precision.BFLOAT16: 'bfloat16'>, 1)
        """
        # A dtype has a name, a scalar type of NumPy is a class.
        name = given if isinstance(given, str) else getattr(given, "name", None)
        name = str(name or getattr(given, "__name__", "")).lower()
        found, meant = _SHORT.get(name) or _LONG.get(name), given
        if found is None and isinstance(given, str | type):
            meant = _dtype(given)
            found = _LONG.get(meant.name) if meant is not None else None
        if found is not None and getattr(meant, "isnative", True) is False:
            raise MachineError(
                f"{given!r} has the bytes of its numbers in foreign order; kernels expect native "
                "order, so convert the array first"
            )
        if found is not None:
            return found
        raise MachineError(
            f"{given!r} is no number format of kernels; expected one of {', '.join(cls)}, or "
            f"short {', '.join(_SHORT)}"
        )

    @property
    def n_bytes(self) -> int:
        """Bytes of one stored number."""
        return _N_BYTES[self]

    @property
    def n_parts(self) -> int:
        """Real numbers in one number: 2 of a complex format."""
        return 2 if self in _REAL else 1

    @property
    def real(self) -> Precision:
        """The format of one part of a complex number; a real format itself."""
        return _REAL.get(self, self)


def _dtype(given: str | type) -> np.dtype[Any] | None:
    """What NumPy takes it for; None: nothing."""
    try:
        return np.dtype(given)
    except TypeError:
        return None


_LONG = {member.value: member for member in Precision}
_SHORT = {
    "fp8_e5m2": Precision.FLOAT8_E5M2,
    "f16": Precision.FLOAT16,
    "bf16": Precision.BFLOAT16,
    "tf32": Precision.TFLOAT32,
    "f32": Precision.FLOAT32,
    "f64": Precision.FLOAT64,
    "c64": Precision.COMPLEX64,
    "c128": Precision.COMPLEX128,
}
_REAL = {
    Precision.COMPLEX64: Precision.FLOAT32,
    Precision.COMPLEX128: Precision.FLOAT64,
}
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
