"""The fused axes of one step: which runs of indices nest in every array that carries them.

Pure layout; which of them become a matrix is decided in `form`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from math import prod

import numpy as np

from einbound.step.view import View

#: Positions of the two operands and the destination in tuples about all three.
A, B, C = 0, 1, 2


class Group(IntEnum):
    """Which of the arrays a, b, c carry an axis."""

    BATCH = 0
    ROW = 1
    COLUMN = 2
    SUM = 3


#: The arrays that carry an axis of each group.
CARRIERS = ((A, B, C), (A, C), (B, C), (A, B))


@dataclass(frozen=True, slots=True)
class Axis:
    """One or more indices that act as one because they nest in every array.

    Attributes:
        indices: The fused indices, outermost first.
        extent: Product of their extents, at least 2.
        group: The arrays that carry them.
        strides: Bytes between neighbours in a, b and c; 0 where not carried.
    """

    indices: tuple[int, ...]
    extent: int
    group: Group
    strides: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Pair:
    """A step's arrays over fused axes. Indices of extent 1 are left out.

    Attributes:
        views: Layouts of a, b (None in a step with one operand) and c.
        work: Element type in which products and sums are made.
        axes: The fused axes, those of c first, outermost first.
        n_sums: Terms of each sum; 0 if a summed index has no elements.
        carried: Numbers of the axes of a, of b and of c.
        groups: Numbers of the axes of each group.
        n_bytes: Of all arrays together, in `work`.
    """

    views: tuple[View | None, ...]
    work: np.dtype
    axes: tuple[Axis, ...]
    n_sums: int
    carried: tuple[tuple[int, ...], ...] = field(init=False)
    groups: tuple[tuple[int, ...], ...] = field(init=False)
    n_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        groups = tuple(
            tuple(i for i, axis in enumerate(self.axes) if axis.group is group) for group in Group
        )
        carried = tuple(
            tuple(i for i, axis in enumerate(self.axes) if side in CARRIERS[axis.group])
            for side in (A, B, C)
        )
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "carried", carried)
        elements = sum([prod([self.axes[i].extent for i in run]) for run in carried])
        object.__setattr__(self, "n_bytes", elements * self.work.itemsize)

    @classmethod
    def of(cls, a: View, b: View | None, c: View, work: np.dtype) -> Pair:
        """The fused axes of a step on these layouts."""
        strides: dict[int, list[int]] = {}
        extents: dict[int, int] = {}
        for side, view in enumerate((a, b, c)):
            if view is None:
                continue
            for i, n, stride in zip(view.indices, view.extents, view.strides, strict=True):
                extents[i] = n
                if n != 1:
                    strides.setdefault(i, [0, 0, 0])[side] = stride
        groups: tuple[list[Axis], ...] = ([], [], [], [])
        in_a, in_b, in_c = set(a.indices), set(b.indices if b else a.indices), set(c.indices)
        n_sums = prod(n for i, n in extents.items() if i not in in_c)
        for i, by_array in strides.items():
            group = _group(i in in_a, b is not None and i in in_b, i in in_c)
            groups[group].append(Axis((i,), extents[i], group, tuple(by_array)))  # type: ignore[arg-type]
        axes = [axis for group in Group for axis in fused(groups[group], CARRIERS[group])]
        axes.sort(key=lambda axis: (axis.group is Group.SUM, -abs(axis.strides[C])))
        return cls((a, b, c), work, tuple(axes), n_sums)

    @property
    def c(self) -> View:
        """The layout of the destination."""
        view = self.views[C]
        assert view is not None, "a step has a destination"
        return view

    def is_ready(self, side: int) -> bool:
        """Whether the elements of one array are aligned and of the type that is worked in."""
        view = self.views[side]
        if view is None:
            return True
        size = self.work.itemsize
        return (
            view.dtype == self.work
            and view.aligned
            and all(
                stride % size == 0
                for stride, n in zip(view.strides, view.extents, strict=True)
                if n > 1
            )
        )


def nests(outer: Axis, inner: Axis, sides: tuple[int, ...]) -> bool:
    """Whether stepping past the end of `inner` is one step of `outer` in all these arrays."""
    return all(outer.strides[s] == inner.strides[s] * inner.extent for s in sides)


def fused(axes: list[Axis], sides: tuple[int, ...]) -> list[Axis]:
    """The axes of one group with neighbours joined where they nest in the arrays `sides`."""
    joined: list[Axis] = []
    for axis in sorted(axes, key=lambda axis: [-abs(axis.strides[s]) for s in sides]):
        if joined and nests(joined[-1], axis, sides):
            last = joined.pop()
            axis = Axis(
                last.indices + axis.indices, last.extent * axis.extent, axis.group, axis.strides
            )
        joined.append(axis)
    return joined


def _group(in_a: bool, in_b: bool, in_c: bool) -> Group:
    if not in_c:
        return Group.SUM
    if in_a and in_b:
        return Group.BATCH
    return Group.ROW if in_a else Group.COLUMN
