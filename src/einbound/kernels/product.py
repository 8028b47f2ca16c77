"""What of a planned step is a matrix product: its groups, formats and layout of B."""

from __future__ import annotations

from dataclasses import dataclass

from einbound.errors import KernelError, MachineError
from einbound.kernels.groups import GroupAxis, Groups
from einbound.machine.precision import Precision
from einbound.step.pair import A, Axis, B, C, Group, Pair
from einbound.step.view import View


@dataclass(frozen=True, slots=True)
class Product:
    """A step's arrays as a matrix product.

    Attributes:
        groups: The axes by group; each group has at least one.
        dtypes: Formats in which A, B and C are stored.
    """

    groups: Groups
    dtypes: tuple[Precision, Precision, Precision]

    @classmethod
    def of(cls, pair: Pair) -> Product:
        """The matrix product that a step is.

        Raises:
            KernelError: It is none: it has one operand, sums nothing, has neither rows nor
                columns, is empty, or its elements are no numbers that kernels know.
        """
        views = _operands(pair)
        sizes = (views[A].dtype.itemsize, views[B].dtype.itemsize, views[C].dtype.itemsize)
        by_group = [
            tuple(_group_axis(pair.axes[i], sizes) for i in members) for members in pair.groups
        ]
        batch, m, n, k = by_group
        if not k:
            raise KernelError(
                f"the step is no matrix product: it sums nothing, {_extents(pair)}; elements are "
                "multiplied where they stand, and no kernel of this family does that"
            )
        if not m and not n:
            raise KernelError(
                f"the step is no matrix product: it has neither rows nor columns, {_extents(pair)};"
                " it is a dot product, and no kernel of this family does that"
            )
        # A vector is a matrix of one row or column; its stride is never stepped along.
        m = m or (GroupAxis(1, 1, 0, 1),)
        n = n or (GroupAxis(1, 0, 1, 1),)
        a, b, c = (_precision(view, name) for view, name in zip(views, "abc", strict=True))
        return cls(Groups(batch, m, n, k), (a, b, c))


def _operands(pair: Pair) -> tuple[View, View, View]:
    a, b, c = pair.views
    if a is None or b is None or c is None:
        raise KernelError(
            f"the step is no matrix product: it has one operand, {_extents(pair)}; give a step that"
            " contracts two"
        )
    if pair.n_sums == 0 or c.n_elements == 0:
        raise KernelError(
            f"the step is empty, {_extents(pair)}; an empty product needs no kernel, only zeros"
        )
    return a, b, c


def _group_axis(axis: Axis, sizes: tuple[int, int, int]) -> GroupAxis:
    for stride, size in zip(axis.strides, sizes, strict=True):
        if stride % size:
            raise KernelError(
                f"a stride is {stride} bytes between elements of {size} bytes; kernels step by "
                "whole elements, so copy the array first"
            )
    a, b, c = (stride // size for stride, size in zip(axis.strides, sizes, strict=True))
    return GroupAxis(axis.extent, a, b, c)


def _precision(view: View, name: str) -> Precision:
    try:
        return Precision.of(view.dtype)
    except MachineError as error:
        raise KernelError(f"array {name} of the step: {error}") from None


def _extents(pair: Pair) -> str:
    counted = (
        f"{group.name.lower()} {'x'.join(str(pair.axes[i].extent) for i in members) or 'none'}"
        for group, members in zip(Group, pair.groups, strict=True)
    )
    return f"with axes {', '.join(counted)}"
