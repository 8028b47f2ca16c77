"""Tensor contractions within bounds.

Write an einsum, say how much memory there is, and get the answer without passing that limit.
"""

from einbound.api.einsum import einsum
from einbound.api.optimizer import Optimizer
from einbound.api.plan import Plan, plan
from einbound.errors import (
    BackendError,
    BudgetError,
    BudgetWarning,
    DTypeError,
    EinboundError,
    ExpressionError,
    MemoryRiskWarning,
    PathError,
    PlanError,
    ScheduleError,
)
from einbound.plan.tree import Combine, Loop, Role

__version__ = "0.1.0"

__all__ = [
    "BackendError",
    "BudgetError",
    "BudgetWarning",
    "Combine",
    "DTypeError",
    "EinboundError",
    "ExpressionError",
    "Loop",
    "MemoryRiskWarning",
    "Optimizer",
    "PathError",
    "Plan",
    "PlanError",
    "Role",
    "ScheduleError",
    "__version__",
    "einsum",
    "plan",
]
