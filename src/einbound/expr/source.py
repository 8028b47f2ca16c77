"""An operand that is not in memory: its shape, its dtype, and how a block of it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index as as_int
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike

from einbound.errors import ExpressionError

#: Gets one slice with integer start and stop for each axis; returns the block that they cut out.
Read = Callable[[tuple[slice, ...]], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """An operand that is read block by block while it is contracted.

    Its bytes are no part of the operands; a block counts only while it is held. Blocks are read
    in the thread that contracts, one after the other. What `read` takes besides the block that
    it returns is not known to any plan.

    Attributes:
        shape: Elements along each axis.
        dtype: Element type of the blocks; one that casts safely to it may be returned as well.
        read: Gets a tuple of slices with integer start and stop, one for each axis, and returns
            an array of that block: the `__getitem__` of h5py and zarr datasets and of np.memmap
            does. An error that it raises reaches the caller as it is.

    Raises:
        ExpressionError: A size is negative.
        TypeError: A size is no integer, the dtype is none, or `read` cannot be called.

    Example:
        >>> import numpy as np
        >>> import einbound as eb
        >>> a = np.arange(6.0).reshape(2, 3)
        >>> eb.einsum("ij->j", eb.Source(a.shape, a.dtype, a.__getitem__)).tolist()
        [3.0, 5.0, 7.0]
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Read

    def __init__(self, shape: Sequence[int], dtype: DTypeLike, read: Read) -> None:
        object.__setattr__(self, "shape", _sizes(shape))
        object.__setattr__(self, "dtype", np.dtype(dtype))
        object.__setattr__(self, "read", read)
        if not callable(read):
            raise TypeError(
                f"read of a Source is {read!r} of type {type(read).__name__}; expected a function "
                "of a tuple of slices that returns that block as an array"
            )

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: the array may not fit into memory.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            f"a Source of shape {self.shape} was taken for an array; it is read block by block by "
            "einbound's einsum and plans only; read it as a whole with source.read if it fits"
        )


def _sizes(shape: Any) -> tuple[int, ...]:
    try:
        sizes = tuple([as_int(n) for n in shape])
    except TypeError:
        raise TypeError(
            f"shape of a Source is {shape!r}; expected a tuple of whole numbers"
        ) from None
    if min(sizes, default=0) < 0:
        raise ExpressionError(f"shape of a Source is {sizes}; sizes must be 0 or more")
    return sizes
