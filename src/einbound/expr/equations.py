"""A system of equations: targets, and the sums of products that make them.

Records only; text and other forms are read elsewhere, values are shared in `forest`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import TypeAlias

#: An exact number where the text gives one, else a float or a complex number.
Coefficient: TypeAlias = Fraction | float | complex


class Access(Enum):
    """How a tensor of a system comes by its values."""

    GIVEN = "given"
    STREAMED = "streamed"
    COMPUTED = "computed"


@dataclass(frozen=True, slots=True)
class Factor:
    """A tensor with the index of each of its axes; without axes it is a scalar.

    Attributes:
        name: The tensor.
        indices: The label of each axis; a label that occurs twice is a diagonal.
    """

    name: str
    indices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """A number times a product of tensors, summed over every index that the target lacks."""

    coefficient: Coefficient
    factors: tuple[Factor, ...]


@dataclass(frozen=True, slots=True)
class Equation:
    """A target and the terms whose sum it is.

    Attributes:
        target: The tensor that is made; no label occurs twice.
        terms: At least one. Permutation operators are written out.
        line: Line of the text that it begins on, from 1; None if it came otherwise.
    """

    target: Factor
    terms: tuple[Term, ...]
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Space:
    """What all indices of one kind have in common.

    Attributes:
        name: As users write it.
        labels: The labels that belong to it; a label may be followed by digits.
        extent: Number of elements; None where the arrays tell.
        tiles: Width of its tiles, their boundaries, or None.
    """

    name: str
    labels: tuple[str, ...]
    extent: int | None = None
    tiles: int | tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """What is said of one tensor besides its indices.

    Attributes:
        name: The tensor.
        is_volatile: Whether it changes with every evaluation.
        access: Whether it is an array, read block by block, or computed on demand.
    """

    name: str
    is_volatile: bool = False
    access: Access = Access.GIVEN


@dataclass(frozen=True)
class System:
    """Equations in the order in which they are written, each target made once.

    Attributes:
        equations: A target may be read by later equations; then it is a named intermediate, and
            it is returned only if `targets` names it.
        targets: What is returned, in order.
        spaces: Kinds of indices.
        sizes: Extent of single labels, beside those of the spaces.
        declared: What is said of tensors.
    """

    equations: tuple[Equation, ...]
    targets: tuple[str, ...]
    spaces: tuple[Space, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    declared: tuple[Declared, ...] = ()
