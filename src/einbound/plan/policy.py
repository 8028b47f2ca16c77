"""What a caller lets be batched: the record of a batch policy, checked when it is made.

How its predicates become rules is in `gate`; how plans are chosen within these in `search`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from numbers import Real
from operator import index as as_int
from typing import Any

import numpy as np

from einbound.errors import PolicyError
from einbound.expr.index import Index, Operand
from einbound.expr.number import whole
from einbound.machine.memory import parse_bytes


class BatchScheduler(StrEnum):
    """How a system of equations is executed."""

    FOREST_DESCENT = "forest_descent"
    ORDERED = "ordered"


def _decline(_: Index) -> bool:
    """No index: the default of both roles."""
    return False


def _admit(_: Index) -> bool:
    """Every index."""
    return True


@dataclass(frozen=True, kw_only=True)
class BatchPolicy:
    """Which indices may be batched, how finely, and up to which peak.

    Attributes:
        is_batchable_contracted_index: Whether an index may be cut where it is summed.
        is_batchable_external_index: Whether an index may be cut where it lies on the result; it
            never falls back on the other role.
        batch_target_size: Most elements of a trip over an index, an upper bound: whole tiles are
            taken, and a tile above it makes a trip of its own. 0 or None for one index: it is
            not cut. None instead of a function: widths are the planner's choice.
        is_volatile_leaf: Whether an operand changes with every evaluation.
        batch_spectator_indices: Whether indices of the result may be cut at all.
        persistent_only: No loop at a value with a volatile operand below, in either role.
        accumulation_factor: Part of a contribution that is alive beside the value that it is
            added to; the executor's own need counts if it is larger.
        scheduler: How a system of equations is executed; also as text.
        peak_threshold: Bytes that `plan.peak_bytes` should not exceed. Infinite, which is the
            default: nothing is cut.

    Raises:
        PolicyError: The threshold or the factor is no number of at least 0, or the scheduler is
            not known.
        TypeError: A predicate cannot be called, or a field is of another type.

    Example:
        >>> policy = BatchPolicy(
        ...     is_batchable_contracted_index=lambda index: index.label == "P",
        ...     batch_target_size=lambda index: 256,
        ...     peak_threshold=1e9,
        ... )
        >>> policy.is_batchable_index(Index("P", 4320)), policy.is_batchable_index(Index("i", 120))
        (True, False)
    """

    is_batchable_contracted_index: Callable[[Index], bool] = _decline
    is_batchable_external_index: Callable[[Index], bool] = _decline
    batch_target_size: Callable[[Index], int | None] | None = None
    is_volatile_leaf: Callable[[Operand], bool] | None = None
    batch_spectator_indices: bool = False
    persistent_only: bool = False
    accumulation_factor: float = 0.0
    scheduler: BatchScheduler | str = BatchScheduler.FOREST_DESCENT
    peak_threshold: float = inf

    def __post_init__(self) -> None:
        for name in _PREDICATES:
            _check_callable(name, getattr(self, name))
        for name in _OPTIONAL_FUNCTIONS:
            if getattr(self, name) is not None:
                _check_callable(name, getattr(self, name), " or None")
        for name in ("batch_spectator_indices", "persistent_only"):
            object.__setattr__(self, name, truth(getattr(self, name), name))
        for name in ("accumulation_factor", "peak_threshold"):
            object.__setattr__(self, name, _amount(getattr(self, name), name))
        if self.accumulation_factor > _MOST_FACTOR:
            raise PolicyError(
                f"accumulation_factor is {self.accumulation_factor}; expected at most "
                f"{_MOST_FACTOR:g} contributions"
            )
        object.__setattr__(self, "scheduler", _scheduler(self.scheduler))

    @classmethod
    def auto(cls, limit: int | str) -> BatchPolicy:
        """The policy that admits every index in both roles.

        Args:
            limit: The threshold: bytes, or text such as "512MiB" or "80%".

        Raises:
            LimitError: It is no amount of memory.
        """
        return cls(
            is_batchable_contracted_index=_admit,
            is_batchable_external_index=_admit,
            batch_spectator_indices=True,
            peak_threshold=parse_bytes(limit, name="peak_threshold"),
        )

    def is_batchable_index(self, index: Index) -> bool:
        """Whether an index may be cut in at least one role."""
        return self.admits_contracted(index) or self.admits_external(index)

    def admits_contracted(self, index: Index) -> bool:
        """What the predicate of the contracted role says, checked."""
        name = "is_batchable_contracted_index"
        return truth(self.is_batchable_contracted_index(index), name, index.label)

    def admits_external(self, index: Index) -> bool:
        """What the predicate of the external role says, checked."""
        name = "is_batchable_external_index"
        return truth(self.is_batchable_external_index(index), name, index.label)

    def target(self, index: Index) -> int | None:
        """Most elements of a trip over an index; None or 0: it is not cut."""
        assert self.batch_target_size is not None, "widths are the planner's choice"
        given = self.batch_target_size(index)
        if given is None:
            return None
        name = f"batch_target_size of {index.label!r}"
        size = whole(given, name, expected="an integer or None")
        if size < 0:
            raise PolicyError(
                f"batch_target_size of {index.label!r} is {size}; expected a number of elements, "
                "or 0 or None for an index that is not to be cut"
            )
        return size

    def is_volatile(self, operand: Operand) -> bool:
        """Whether an operand changes with every evaluation."""
        if self.is_volatile_leaf is None:
            return False
        return truth(self.is_volatile_leaf(operand), "is_volatile_leaf", operand.number)


_PREDICATES = ("is_batchable_contracted_index", "is_batchable_external_index")
_OPTIONAL_FUNCTIONS = ("batch_target_size", "is_volatile_leaf")


def truth(value: Any, name: str, about: Any = None) -> bool:
    """`value` as a truth value.

    Args:
        value: True or False, also NumPy's.
        name: What the caller calls it.
        about: The index or the operand that a predicate was asked about.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(value, bool | np.bool):
        return bool(value)
    where = "" if about is None else f" of {about!r}"
    raise TypeError(
        f"{name}{where} is {value!r} of type {type(value).__name__}; expected True or False"
    )


def _check_callable(name: str, function: Any, otherwise: str = "") -> None:
    if not callable(function):
        raise TypeError(
            f"{name} is {function!r} of type {type(function).__name__}; "
            f"expected a function{otherwise}"
        )


#: Contributions that one accumulation may hold, at most: far above any backend's.
_MOST_FACTOR = 1e6


def _amount(value: Any, name: str) -> float:
    if isinstance(value, bool | np.bool) or not isinstance(value, Real):
        raise TypeError(
            f"{name} is {value!r} of type {type(value).__name__}; expected a number of at least 0"
        )
    # Integers stay as they are: they may be too large for a float.
    amount = as_int(value) if hasattr(value, "__index__") else float(value)
    if not amount >= 0:
        raise PolicyError(f"{name} is {value!r}; expected a number of at least 0")
    return amount


def _scheduler(given: Any) -> BatchScheduler:
    for known in BatchScheduler:
        if known == given:
            return known
    names = " or ".join(repr(known.value) for known in BatchScheduler)
    raise PolicyError(f"scheduler is {given!r}; expected {names}")
