"""How hard a search tries, and what its answer then proves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard a search tries; passed as `optimize=`.

    The default is the same on every machine: work is counted, never timed.

    Attributes:
        states: States of the exact search, at most.
        trials: Orders that are tried for more operands than it takes.
        seed: Of what is random in these.
        depth: Loops around any production; None: any number.
        widths: Numbers of trips to choose from for each index, before widths are refined; None:
            the planner's own.
        outer_products: Whether products of values that share no index are tried.
        deadline_seconds: Seconds after which the best plan so far is returned. A plan that was
            cut short so is not reproducible, and says that.
        clock: What tells seconds; needed with a deadline.
    """

    states: int = 200_000
    trials: int = 4
    seed: int = 0
    depth: int | None = None
    widths: tuple[int, ...] | None = None
    outer_products: bool = True
    deadline_seconds: float | None = None
    clock: Callable[[], float] | None = None


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
    """

    depth: int | None = None
    widths: tuple[int, ...] = ()
    modes: int = 0
    outer_products: bool = True
    exhausted: bool = False
    bound_macs: int = 0
    states: int = 0
    reproducible: bool = True
