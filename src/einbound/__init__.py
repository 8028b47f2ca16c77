"""Tensor contractions within bounds.

Write an einsum, say how much memory there is, and get the answer without passing that limit.
"""

from einbound.api.curve import BudgetCurve, budget_curve
from einbound.api.einsum import einsum
from einbound.api.optimizer import Optimizer
from einbound.api.plan import Plan, plan
from einbound.api.staircase import BudgetPoint
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
    PolicyError,
    ScheduleError,
)
from einbound.expr.index import Index, Operand
from einbound.expr.source import Source
from einbound.plan.effort import Effort, Proof
from einbound.plan.policy import BatchPolicy, BatchScheduler
from einbound.plan.rules import Objective
from einbound.plan.tree import Combine, Loop, Role

__version__ = "0.1.0"

__all__ = [
    "BackendError",
    "BatchPolicy",
    "BatchScheduler",
    "BudgetCurve",
    "BudgetError",
    "BudgetPoint",
    "BudgetWarning",
    "Combine",
    "DTypeError",
    "Effort",
    "EinboundError",
    "ExpressionError",
    "Index",
    "Loop",
    "MemoryRiskWarning",
    "Objective",
    "Operand",
    "Optimizer",
    "PathError",
    "Plan",
    "PlanError",
    "PolicyError",
    "Proof",
    "Role",
    "ScheduleError",
    "Source",
    "__version__",
    "budget_curve",
    "einsum",
    "plan",
]
