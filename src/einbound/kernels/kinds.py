"""The closed sets that decisions choose from; each is known by a documented word as well."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar, cast

from einbound.errors import KernelError


class FusionKind(StrEnum):
    """Whether an elementwise tail is computed in the kernel."""

    UNFUSED = "unfused"
    FUSED = "fused"


class RolesKind(StrEnum):
    """Which operand is A: the first one, or the second one with everything transposed."""

    AS_GIVEN = "as_given"
    SWAPPED = "swapped"


class Group(StrEnum):
    """A group of indices that a product treats as one."""

    M = "m"
    N = "n"
    K = "k"


class PipelineKind(StrEnum):
    """Which composed pipeline."""

    BLOCKTILE = "blocktile"
    TENSORIZED = "tensorized"


class BatchKind(StrEnum):
    """Where batch loops run on a GPU."""

    SERIAL = "serial"
    GRID = "grid"


class PackingKind(StrEnum):
    """When the CPU blocktile pipeline packs."""

    IN_KERNEL = "in_kernel"
    HOISTED = "hoisted"


class FormKind(StrEnum):
    """The CPU tensorized composition."""

    WHOLE_TRIPLE = "whole_triple"
    PACKED = "packed"


class ShapeKind(StrEnum):
    """Where the panels of a packed composition are made."""

    SERIAL = "serial"
    HOISTED = "hoisted"
    HOISTED_GRID = "hoisted_grid"
    HOISTED_GRID_PACK_REST = "hoisted_grid_pack_rest"
    GRID_PACK_REST = "grid_pack_rest"
    GRID = "grid"


class TwinKind(StrEnum):
    """Variants of a staged geometry besides pipelined depths."""

    PLAIN = "plain"
    SWIZZLED = "swizzled"


class Axis(StrEnum):
    """An axis of the tile lattice."""

    BM = "bm"
    BK = "bk"


K = TypeVar("K", bound=StrEnum)


def chosen(kinds: type[K], given: object, what: str) -> K:
    """The member that is meant.

    Args:
        kinds: The closed set.
        given: A member or its word.
        what: Who asks, for the error.

    Raises:
        KernelError: There is no such member.
    """
    try:
        return kinds(cast(str, given))
    except ValueError:
        known = ", ".join(kinds)
        raise KernelError(f"{what} is {given!r}; expected one of {known}") from None
