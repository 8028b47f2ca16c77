"""The layout of one strided array: which index runs over which stride.

A view knows extents and strides, never data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np


@dataclass(frozen=True, slots=True)
class View:
    """Indices, extents and byte strides of an array, axis by axis.

    Attributes:
        indices: Index number of each axis; all distinct.
        extents: Elements along each axis.
        strides: Bytes between neighbours along each axis; may be negative or 0.
        dtype: Element type.
        aligned: Whether the first element lies where its type asks for.
    """

    indices: tuple[int, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    aligned: bool = True

    @classmethod
    def contiguous(
        cls, indices: tuple[int, ...], extents: tuple[int, ...], dtype: np.dtype
    ) -> View:
        """The view of a freshly allocated array in C order."""
        strides = []
        step = dtype.itemsize
        for extent in reversed(extents):
            strides.append(step)
            step *= max(extent, 1)
        return cls(indices, extents, tuple(reversed(strides)), dtype)

    @property
    def n_elements(self) -> int:
        """Number of elements."""
        return prod(self.extents)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, each counted once."""
        return self.n_elements * self.dtype.itemsize

    def narrow(self, widths: Mapping[int, int]) -> View:
        """The view of a slice: index i in `widths` keeps only widths[i] elements."""
        extents = tuple(widths.get(i, n) for i, n in zip(self.indices, self.extents, strict=True))
        return replace(self, extents=extents)
