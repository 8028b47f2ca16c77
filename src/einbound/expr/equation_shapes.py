"""Shapes of the tensors of a system, where its spaces alone tell them."""

from __future__ import annotations

from einbound.errors import EquationsError
from einbound.expr.equation_fault import fault
from einbound.expr.equations import Factor, System


def shapes_of(system: System) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor that no equation makes.

    Raises:
        EquationsError: No extent is known for an axis of one.

    Example:
        >>> from einbound.expr.equation_lines import read_system
        >>> shapes_of(read_system("R[ik] = A[ij] B[jk]", sizes={"i": 2, "j": 3, "k": 4}))
        {'A': (2, 3), 'B': (3, 4)}
    """
    extents: dict[tuple[str, int], int] = {}
    first: dict[str, Factor] = {}
    for factor in system.factors:
        first.setdefault(factor.name, factor)
        for axis, label in enumerate(factor.indices):
            extent = system.extent_of(label)
            if extent is not None:
                extents[factor.name, axis] = extent
    shapes = {}
    for name in system.leaves:
        axes = range(len(first[name].indices))
        unknown = [axis for axis in axes if (name, axis) not in extents]
        if unknown:
            raise _unknown(system, first[name], unknown[0])
        shapes[name] = tuple(extents[name, axis] for axis in axes)
    return shapes


def _unknown(system: System, factor: Factor, axis: int) -> EquationsError:
    label = factor.indices[axis]
    space = system.space_of(label)
    name = label if space is None else space.name
    belongs = "belongs to no space" if space is None else f"belongs to space {name!r} of no extent"
    return fault(
        f"the extent of axis {axis} of {factor} is not known, since index {label!r} {belongs}; "
        f"give an array, or sizes={{{name!r}: ...}}",
        system.text,
        factor.span,
    )
