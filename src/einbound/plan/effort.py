"""How hard a search tries, and what its answer then proves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from numbers import Real
from typing import Any

from einbound.errors import PlanError
from einbound.expr.number import whole
from einbound.plan.policy import truth


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard a search tries; passed as `optimize=`.

    The default is the same on every machine: work is counted, never timed.

    Attributes:
        states: States of the exact search, at most, besides a first quick look.
        trials: Orders that are tried for more operands than it takes.
        seed: Of what is random in these, a whole number.
        depth: Loops around any production; None: any number.
        widths: Numbers of trips to choose from for each index, before widths are refined; one
            above its extent stands for a trip per element. None: the planner's own.
        outer_products: Whether products of values that share no index are tried.
        deadline_seconds: Seconds after which the best plan so far is returned, for more operands
            than the exact search takes; that one counts states. A plan that was cut short so is
            not reproducible, and says that.
        clock: What tells seconds, such as `time.monotonic`; needed with a deadline.
        cotengra_trials: Orders that cotengra finds, for more operands than the exact search takes
            and where loops cost multiply-adds; loops are searched on the best of these, too. None:
            a few where cotengra is installed; any other number but 0 needs it.

    Raises:
        PlanError: A number is out of range, or a deadline has no clock.
        TypeError: Something is of another type.
    """

    states: int = 200_000
    trials: int = 4
    seed: int = 0
    depth: int | None = None
    widths: tuple[int, ...] | None = None
    outer_products: bool = True
    deadline_seconds: float | None = None
    clock: Callable[[], float] | None = None
    cotengra_trials: int | None = None

    def __post_init__(self) -> None:
        for name in ("states", "trials", "depth", "cotengra_trials"):
            given = getattr(self, name)
            if given is not None or name in ("states", "trials"):
                _settle(self, name, _count(given, f"{name} of an Effort", 0))
        _settle(self, "seed", whole(self.seed, "seed of an Effort"))
        if self.widths is not None:
            _settle(self, "widths", _widths(self.widths))
        name = "outer_products of an Effort"
        _settle(self, "outer_products", truth(self.outer_products, name))
        if self.deadline_seconds is not None:
            _check_deadline(self.deadline_seconds, self.clock)


def _settle(effort: Effort, name: str, value: Any) -> None:
    object.__setattr__(effort, name, value)


def _count(value: Any, name: str, least: int) -> int:
    number = whole(value, name)
    if number < least:
        raise PlanError(f"{name} is {number}; expected a number of at least {least}")
    return number


def _widths(given: Any) -> tuple[int, ...]:
    try:
        each = tuple(given)
    except TypeError:
        raise _unfit("widths", given, "numbers of trips, such as (2, 4)") from None
    if not each:
        raise PlanError("widths of an Effort is empty; expected numbers of trips, such as (2, 4)")
    return tuple(_count(n_trips, "a number of widths of an Effort", 1) for n_trips in each)


def _check_deadline(seconds: Any, clock: Any) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, Real):
        raise _unfit("deadline_seconds", seconds, "a number of seconds")
    if not float(seconds) >= 0:
        raise PlanError(f"deadline_seconds of an Effort is {seconds}; expected at least 0")
    if not callable(clock):
        raise _unfit("clock", clock, "a function that tells seconds, such as time.monotonic")


def _unfit(name: str, value: Any, expected: str) -> TypeError:
    return TypeError(
        f"{name} of an Effort is {value!r} of type {type(value).__name__}; expected {expected}"
    )


@dataclass(slots=True)
class Deadline:
    """When one search must end, and whether that cut anything.

    Attributes:
        clock: What tells seconds; None: there is no deadline.
        end: The second at which to end.
        has_cut: Something was left out, so that the outcome is not reproducible.
    """

    clock: Callable[[], float] | None = None
    end: float = 0.0
    has_cut: bool = False

    @classmethod
    def of(cls, effort: Effort) -> Deadline:
        """The deadline of a search that begins now."""
        if effort.deadline_seconds is None or effort.clock is None:
            return cls()
        return cls(effort.clock, effort.clock() + effort.deadline_seconds)

    def cuts(self) -> bool:
        """Whether it is too late for the next pass, which is then left out."""
        if self.clock is not None and not self.has_cut:
            self.has_cut = self.clock() >= self.end
        return self.has_cut


class Origin(StrEnum):
    """Where an order comes from."""

    OWN = "einbound"
    GIVEN = "given"
    COTENGRA = "cotengra"


@dataclass(frozen=True, slots=True)
class Proof:
    """What a search can say about its plan.

    The class is what the plan was chosen from: all orders, with nests of at most `depth` loops
    over the admitted indices, each in one of the numbers of trips `widths`.

    Attributes:
        depth: Loops around any production; None: any number.
        widths: Numbers of trips of each index before refinement; empty: as settled by the caller.
        modes: Indices that could be cut.
        outer_products: Whether products of values that share no index were in the class.
        exhausted: The class was searched to its end.
        bound_macs: No plan of the class within the limits has fewer multiply-adds; 0: unknown.
        states: States that were explored.
        reproducible: No deadline cut the search short.
        origin: Where the order comes from.
    """

    depth: int | None = None
    widths: tuple[int, ...] = ()
    modes: int = 0
    outer_products: bool = True
    exhausted: bool = False
    bound_macs: int = 0
    states: int = 0
    reproducible: bool = True
    origin: Origin = Origin.OWN
