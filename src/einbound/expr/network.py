"""A contraction with its sizes: operands as tuples of index numbers.

What the parser hands to everything below it. Nothing here knows arrays or plans.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class Access:
    """How one operand's array is seen as one axis per index.

    Attributes:
        axes: For each index of the operand, the array axes that carry it; several: a diagonal.
        dropped: Array axes of length 1 that broadcast against a longer index and are left out.
    """

    axes: tuple[tuple[int, ...], ...]
    dropped: tuple[int, ...] = ()


@dataclass(frozen=True)
class Network:
    """Operands and result of one contraction, with the extent of every index.

    Attributes:
        labels: The caller's label of each index; an index is its position here.
        extents: Number of elements of each index.
        inputs: The distinct indices of each operand, in the order of their first axes.
        output: The indices of the result, in order.
        accesses: How each operand's array maps to its indices.
        streamed: The operands that are not in memory; their blocks are read when they are needed.
    """

    labels: tuple[Hashable, ...]
    extents: tuple[int, ...]
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    accesses: tuple[Access, ...]
    streamed: frozenset[int] = frozenset()

    def size(self, indices: tuple[int, ...] | frozenset[int]) -> int:
        """Number of elements of an array that carries `indices`."""
        return prod(self.extents[i] for i in indices)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return tuple(self.extents[i] for i in self.output)

    @property
    def is_view(self) -> bool:
        """Whether the result is one operand with its axes permuted, so that nothing is computed."""
        is_one = len(self.inputs) == 1 and not self.streamed
        return is_one and len(self.inputs[0]) == len(self.output)

    def name(self, indices: tuple[int, ...]) -> str:
        """The labels of `indices` as text: joined if all labels are one letter, else by commas."""
        separator = "" if all(len(str(label)) == 1 for label in self.labels) else ","
        return separator.join(str(self.labels[i]) for i in indices)
