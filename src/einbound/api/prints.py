"""Whether an operand is still the one that a kept value was made from."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import numpy as np

from einbound.api.operands import Array, Operand
from einbound.expr.source import Source

#: Arrays up to this size are always compared by their elements: numbers become new arrays in
#: every call.
SMALL_BYTES = 4096
#: Elements of a strided array that are copied at once to be read.
_BUFFER_ELEMENTS = 8192


class Check(StrEnum):
    """How a changed operand is found.

    An array is the same by identity if it lies in the same memory of the same owner; that its
    elements were written over is seen by a digest only. What is not in memory is the same if it
    is read by the same function.
    """

    IDENTITY = "identity"
    DIGEST = "digest"


@dataclass(frozen=True, slots=True, eq=False)
class Print:
    """What tells an operand from another.

    Attributes:
        owner: Returns the object that owns its memory, or None once that is gone.
        place: Where it lies there, and how.
        digest: Of its elements, if these were read.
    """

    owner: Callable[[], Any]
    place: tuple[Any, ...]
    digest: bytes | None = None

    @classmethod
    def of(cls, operand: Operand, check: Check) -> Print:
        """The print of an operand."""
        if not isinstance(operand, np.ndarray):
            # Two looks at one method are two objects, and equal.
            return cls(lambda: Source, (operand.shape, operand.dtype, operand.read))
        kind = (operand.shape, operand.dtype)
        if check is Check.DIGEST or operand.nbytes <= SMALL_BYTES:
            return cls(lambda: None, kind, _digest(operand))
        owner = _owner(operand)
        pointer = operand.__array_interface__["data"][0]
        return cls(weakref.ref(owner), (pointer, operand.strides, *kind))

    def is_same(self, other: Print) -> bool:
        """Whether both are of one operand that did not change in between."""
        if self.place != other.place or self.digest != other.digest:
            return False
        owner = self.owner()
        return self.digest is not None or (owner is not None and owner is other.owner())


def _owner(array: Array) -> Array:
    """The array whose memory it is, as far as arrays go."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _digest(array: Array) -> bytes:
    """A digest of the elements in C order; no more than a buffer of them is copied."""
    digest = blake2b(digest_size=16)
    chunks: Any = np.nditer(
        array,
        flags=["external_loop", "buffered", "zerosize_ok"],
        order="C",
        buffersize=_BUFFER_ELEMENTS,
    )
    for chunk in chunks:
        digest.update(chunk.tobytes())
    return digest.digest()
