"""What multiplies."""

from __future__ import annotations

from enum import StrEnum

from einbound.errors import BackendError


class Backend(StrEnum):
    """NumPy, compiled kernels wherever there is one, or in each step the faster of both."""

    NUMPY = "numpy"
    NATIVE = "native"
    AUTO = "auto"

    @classmethod
    def of(cls, given: object) -> Backend:
        """The backend that a caller names.

        Raises:
            BackendError: It is not known.

        Example:
            >>> Backend.of("auto").name
            'AUTO'
        """
        try:
            return cls(given)  # type: ignore[arg-type]  # anything else is refused
        except ValueError:
            known = ", ".join(repr(str(each)) for each in cls)
            raise BackendError(
                f"backend {given!r} is not known; expected one of {known}, or None"
            ) from None
