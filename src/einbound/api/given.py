"""What a call gives by name, checked against the equations: operands, and what decides a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from einbound.api.operands import Layout, Operand, union_bytes
from einbound.errors import DTypeError, EquationsError
from einbound.expr.equations import Access, Declared, System
from einbound.expr.source import Source

Number: TypeAlias = int | float | complex
#: Kinds of dtype that equations are computed in: integers, floats, complex.
_KINDS = "iufc"


@dataclass(frozen=True, slots=True)
class Case:
    """What of the tensors decides a plan.

    Attributes:
        layouts: The layout of each tensor, in the order of the system's leaves.
        operand_bytes: Bytes that they cover; ranges that they share count once.
        work: Element type in which everything is computed and returned.
    """

    layouts: tuple[Layout, ...]
    operand_bytes: int
    work: np.dtype[Any]

    def shapes(self, system: System) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor."""
        return {
            name: layout.shape for name, layout in zip(system.leaves, self.layouts, strict=True)
        }

    def said(self, system: System) -> System:
        """The system with its tensors declared as they come: in memory, or not."""
        known = {each.name: each for each in system.declared}
        declared = tuple(
            replace(
                known.get(name, Declared(name)),
                access=Access.STREAMED if layout.streamed else Access.GIVEN,
            )
            for name, layout in zip(system.leaves, self.layouts, strict=True)
        )
        return replace(system, declared=declared)


@dataclass(frozen=True, slots=True)
class Given:
    """The tensors of one call.

    Attributes:
        operands: Arrays, and what is read while they are used, in the order of the leaves.
        case: What of them decides a plan.
    """

    operands: tuple[Operand, ...]
    case: Case


def given_of(system: System, arrays: Mapping[str, Any], dtype: np.dtype[Any] | None) -> Given:
    """The tensors of one call, checked but for their shapes.

    Args:
        system: The equations.
        arrays: By name: arrays, numbers, sources, and functions for what is computed on demand.
        dtype: Element type to compute in; None: the common one.

    Raises:
        EquationsError: A name is missing or too many, or something is no tensor.
        DTypeError: Its elements are no numbers, or cannot be computed in `dtype`.
    """
    check_names(system, arrays)
    access = {each.name: each.access for each in system.declared}
    found = {
        name: _tensor(system, name, arrays[name], access.get(name, Access.GIVEN), dtype)
        for name in system.leaves
    }
    work = work_dtype(system, found, dtype)
    operands = tuple(
        np.asarray(each, work) if isinstance(each, Number) else each for each in found.values()
    )
    layouts = tuple(Layout.of(each) for each in operands)
    return Given(operands, Case(layouts, union_bytes(operands), work))


def expected_case(
    system: System, shapes: Mapping[str, tuple[int, ...]], dtype: np.dtype[Any] | None
) -> Case:
    """What is expected of tensors of known shapes: arrays in C order, all of one type."""
    unloaded = {each.name for each in system.declared if each.access is not Access.GIVEN}
    element = np.dtype(float) if dtype is None else dtype
    samples = {name: np.empty(0, element) for name in system.leaves}
    work = work_dtype(system, samples, dtype)
    layouts = tuple(
        Layout.fresh(shapes[name], element)._replace(streamed=name in unloaded)
        for name in system.leaves
    )
    return Case(layouts, sum(layout.n_bytes for layout in layouts), work)


def check_names(system: System, arrays: Mapping[str, Any]) -> None:
    """Refuse a call whose names are not those of the tensors.

    Raises:
        EquationsError: One is missing, or is not known.
    """
    expected = ", ".join(map(repr, system.leaves)) or "no tensor"
    made = {equation.target.name for equation in system.equations}
    for name in arrays:
        if name in made:
            raise EquationsError(
                f"{name!r} was given, and is what the equations make; expected {expected}"
            )
        if name not in system.leaves:
            raise EquationsError(f"{name!r} is no tensor of the equations; expected {expected}")
    missing = [name for name in system.leaves if name not in arrays]
    if missing:
        raise EquationsError(
            f"{', '.join(map(repr, missing))} {'is' if len(missing) == 1 else 'are'} missing; "
            f"expected one array each for {expected}"
        )


def work_dtype(
    system: System, tensors: Mapping[str, Any], dtype: np.dtype[Any] | None
) -> np.dtype[Any]:
    """The element type that all is computed in.

    It is the common one of the arrays, as NumPy's rules have it: Python numbers take the type of
    the arrays, and numbers in the equations that are no integers make floats of integers. Halves
    are computed and returned in single precision.

    Args:
        system: The equations.
        tensors: Arrays, sources and Python numbers by name.
        dtype: What the caller wants; None: the common one.

    Raises:
        DTypeError: Elements are no numbers, or do not cast safely to `dtype`.
    """
    types = [
        each if isinstance(each, Number) else _checked(name, each.dtype)
        for name, each in tensors.items()
    ]
    if dtype is not None:
        types = [dtype, *(each for each in types if isinstance(each, Number))]
        _check_casts(tensors, dtype)
    types += _number_types(system)
    common = np.result_type(*types) if types else np.dtype(float)
    if dtype is not None and common != dtype:
        raise DTypeError(
            f"dtype is {dtype}, and the equations have numbers that need {common}; give that dtype"
        )
    return np.dtype(np.float32) if common == np.float16 else common


def _number_types(system: System) -> Iterator[Number]:
    """One number of each kind that the equations have besides integers."""
    numbers = [term.coefficient for equation in system.equations for term in equation.terms]
    if any(isinstance(each, complex) for each in numbers):
        yield 1j
    if any(not isinstance(each, Fraction) or each.denominator != 1 for each in numbers):
        yield 1.0


def _check_casts(tensors: Mapping[str, Any], dtype: np.dtype[Any]) -> None:
    _checked("dtype", dtype)
    for name, each in tensors.items():
        if not isinstance(each, Number) and not np.can_cast(each.dtype, dtype, "safe"):
            raise DTypeError(
                f"{name!r} has dtype {each.dtype}, which does not cast safely to dtype={dtype}; "
                "convert it first, or give another dtype"
            )


def _checked(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind not in _KINDS:
        raise DTypeError(
            f"{name!r} has dtype {dtype}; equations take integers, floats and complex numbers; "
            "convert it first"
        )
    return dtype


def _tensor(
    system: System, name: str, given: Any, access: Access, dtype: np.dtype[Any] | None
) -> Operand | Number:
    """One tensor as it is used."""
    if isinstance(given, Source):
        return given
    if type(given) in (int, float, complex):
        number: Number = given
        return number
    if callable(given) and not hasattr(given, "shape"):
        if access is not Access.COMPUTED:
            raise EquationsError(
                f"{name!r} is a function; expected an array, or 'computed {name}' in the equations "
                "for one that is computed on demand"
            )
        element = np.dtype(float) if dtype is None else dtype
        return Source(_shape(system, name), element, given)
    is_array = isinstance(given, np.ndarray) and not isinstance(given, np.memmap)
    if access is Access.STREAMED and not is_array and hasattr(given, "shape"):
        return Source(given.shape, given.dtype, given.__getitem__)
    array = np.asarray(given)
    if array.dtype.kind not in _KINDS and not isinstance(given, np.ndarray):
        raise EquationsError(
            f"{name!r} is {given!r:.60} of type {type(given).__name__}; expected an array or a "
            "number"
        )
    return array


def _shape(system: System, name: str) -> tuple[int, ...]:
    """The shape that the spaces tell of one tensor."""
    extents: dict[int, int | None] = {}
    for factor in system.factors:
        if factor.name == name:
            for axis, label in enumerate(factor.indices):
                extents[axis] = extents.get(axis) or system.extent_of(label)
    unknown = [axis for axis, extent in extents.items() if extent is None]
    if unknown:
        raise EquationsError(
            f"{name!r} is computed on demand, and the extent of its axis {unknown[0]} is not "
            "known; give the extents of its spaces, or an einbound.Source, which has a shape"
        )
    return tuple(extent for extent in extents.values() if extent is not None)
