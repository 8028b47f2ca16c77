"""The axes of a matrix product by group, with the strides that each array has along them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from einbound.errors import KernelError
from einbound.kernels.problem_fields import is_whole


@dataclass(frozen=True, slots=True)
class GroupAxis:
    """One loop of a group: indices that act as one because they nest in every array.

    Attributes:
        extent: Number of elements, at least 1.
        a: Elements of A between neighbours; 0 where A does not have the axis.
        b: The same of B.
        c: The same of C.
    """

    extent: int
    a: int = 0
    b: int = 0
    c: int = 0

    def __post_init__(self) -> None:
        numbers = (self.extent, self.a, self.b, self.c)
        if not all(map(is_whole, numbers)) or self.extent < 1:
            raise KernelError(
                f"an axis has extent {self.extent!r} and strides {numbers[1:]!r}; expected whole "
                "numbers, the extent at least 1"
            )
        for field, number in zip(fields(self), numbers, strict=True):
            object.__setattr__(self, field.name, int(number))


@dataclass(frozen=True, slots=True)
class Groups:
    """The axes of each group, outermost first.

    Attributes:
        batch: Axes of A, B and C.
        m: Axes of A and C.
        n: Axes of B and C.
        k: Axes of A and B.
    """

    batch: tuple[GroupAxis, ...] = ()
    m: tuple[GroupAxis, ...] = ()
    n: tuple[GroupAxis, ...] = ()
    k: tuple[GroupAxis, ...] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            given = getattr(self, field.name)
            if not isinstance(given, Iterable):
                raise KernelError(f"group {field.name} is {given!r}; expected axes")
            object.__setattr__(self, field.name, tuple(map(_axis, given)))

    @classmethod
    def of(cls, given: object) -> Groups:
        """The groups that are given as themselves, or as a mapping of their axes.

        Raises:
            KernelError: They are something else.

        Example:
            >>> Groups.of({"m": [{"extent": 2, "a": 3}]}).m
            (GroupAxis(extent=2, a=3, b=0, c=0),)
        """
        if isinstance(given, Groups):
            return given
        names = [field.name for field in fields(cls)]
        if not isinstance(given, Mapping) or not set(given) <= set(names):
            raise KernelError(f"groups are {given!r}; expected a mapping of {', '.join(names)}")
        return cls(**given)

    @property
    def swapped(self) -> Groups:
        """The groups of the product of the transposes, B^T A^T."""
        return Groups(*(_mirrored(axes) for axes in (self.batch, self.n, self.m, self.k)))

    @property
    def without_units(self) -> Groups:
        """The groups without axes of one element; m, n and k keep at least one axis."""

        def kept(axes: tuple[GroupAxis, ...]) -> tuple[GroupAxis, ...]:
            return tuple(axis for axis in axes if axis.extent > 1)

        m, n, k = (kept(axes) or axes[-1:] for axes in (self.m, self.n, self.k))
        return Groups(kept(self.batch), m, n, k)

    def reordered(self, order: Iterable[int]) -> Groups:
        """The groups with contracted axes in another order.

        Args:
            order: Places in `k`, outermost first.
        """
        return Groups(self.batch, self.m, self.n, tuple(self.k[place] for place in order))

    @property
    def a_strides(self) -> tuple[int, int] | None:
        """Elements between neighbours of A along the innermost axes of m and k; None: not both."""
        return (_innermost(self.m).a, _innermost(self.k).a) if self.m and self.k else None

    @property
    def b_strides(self) -> tuple[int, int] | None:
        """The same of B along k and n."""
        return (_innermost(self.k).b, _innermost(self.n).b) if self.k and self.n else None

    @property
    def c_strides(self) -> tuple[int, int] | None:
        """The same of C along m and n."""
        return (_innermost(self.m).c, _innermost(self.n).c) if self.m and self.n else None

    @property
    def b_layout(self) -> str:
        """How B lies: "plain" (all of n side by side), "transposed" (k), or "unknown"."""
        if is_unit_run([(axis.extent, axis.b) for axis in self.n]):
            return "plain"
        return "transposed" if self.k and _innermost(self.k).b == 1 else "unknown"


def is_unit_run(axes: Iterable[tuple[int, int]]) -> bool:
    """Whether axes, as extent and stride, make one run of neighbours; none do.

    Example:
        >>> is_unit_run([(3, 4), (4, 1)]), is_unit_run([(3, 8), (4, 1)])
        (True, False)
    """
    found = [(extent, stride) for extent, stride in axes if extent > 1]
    runs = all(outer[1] == inner[1] * inner[0] for outer, inner in pairwise(found))
    return runs and (not found or found[-1][1] == 1)


def _innermost(axes: tuple[GroupAxis, ...]) -> GroupAxis:
    """The innermost axis that is stepped along; the last one if none is."""
    return next((axis for axis in reversed(axes) if axis.extent > 1), axes[-1])


def _axis(given: Any) -> GroupAxis:
    if isinstance(given, GroupAxis):
        return given
    try:
        return GroupAxis(**given) if isinstance(given, Mapping) else GroupAxis(*given)
    except TypeError:
        names = ", ".join(field.name for field in fields(GroupAxis))
        raise KernelError(f"an axis is {given!r}; expected {names}") from None


def _mirrored(axes: tuple[GroupAxis, ...]) -> tuple[GroupAxis, ...]:
    return tuple(GroupAxis(axis.extent, axis.b, axis.a, axis.c) for axis in axes)
