"""What a search keeps to besides bytes, and how it chooses among plans.

Settled once from what the caller said: predicates were asked, targets became loops. Plain data,
so that equal rules find the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from einbound.expr.network import Network
from einbound.plan.grid import Grid


class Objective(StrEnum):
    """What is asked for among plans of equal multiply-adds."""

    TIME = "time"
    SPACE = "space"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A loop that a policy does not admit.

    Attributes:
        index: Label of the index, as text.
        role: "contracted" or "external".
        why: The gate that is closed.
    """

    index: str
    role: str
    why: str


@dataclass(frozen=True, slots=True)
class Rules:
    """What a search keeps to.

    Attributes:
        grid: The loops that there may be.
        objective: How ties are broken.
        by_policy: A batch policy was given: ties are broken by the number of loops, and where
            its threshold cannot be kept a plan is returned that does not.
        threshold_bytes: Peak that a policy asks for, operands included; None: any.
        volatile: Numbers of the operands that change with every evaluation.
        iterations: Evaluations in all; what has no volatile operand below counts once.
        persistent_only: No loop at a value with a volatile operand below.
        accumulation_factor: Part of a contribution that is alive beside the value it is added to.
        refusals: Loops that the policy does not admit, for the explanation.
    """

    grid: Grid
    objective: Objective = Objective.TIME
    by_policy: bool = False
    threshold_bytes: int | None = None
    volatile: frozenset[int] = frozenset()
    iterations: int = 1
    persistent_only: bool = False
    accumulation_factor: float = 0.0
    refusals: tuple[Refusal, ...] = ()

    @classmethod
    def free(cls, network: Network) -> Rules:
        """No rules: every loop is admitted."""
        return cls(Grid.free(network))
