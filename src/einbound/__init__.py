"""Tensor contractions within bounds.

Write an einsum, say how much memory there is, and get the answer without passing that limit.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from einbound.api.einsum import einsum
from einbound.api.options import options
from einbound.api.plan import Plan, plan
from einbound.errors import (
    BackendError,
    BudgetError,
    BudgetWarning,
    BuildError,
    DTypeError,
    EinboundError,
    EquationsError,
    ExpressionError,
    KernelError,
    MachineError,
    MemoryRiskWarning,
    PathError,
    PlanError,
    PolicyError,
    ScheduleError,
    SpaceError,
)
from einbound.expr.index import Index, Operand
from einbound.expr.source import Source
from einbound.plan.effort import Effort, Proof
from einbound.plan.policy import BatchPolicy, BatchScheduler
from einbound.plan.rules import Objective
from einbound.plan.tree import Combine, Loop, Role
from einbound.version import __version__

if TYPE_CHECKING:
    from einbound import kernels, space
    from einbound.api.curve import BudgetCurve, budget_curve
    from einbound.api.equations import Equations
    from einbound.api.optimizer import Optimizer
    from einbound.api.program import Program
    from einbound.api.staircase import BudgetPoint
    from einbound.api.tuning import tune
    from einbound.report.tuning import TuneReport

__all__ = [
    "BackendError",
    "BatchPolicy",
    "BatchScheduler",
    "BudgetCurve",
    "BudgetError",
    "BudgetPoint",
    "BudgetWarning",
    "BuildError",
    "Combine",
    "DTypeError",
    "Effort",
    "EinboundError",
    "Equations",
    "EquationsError",
    "ExpressionError",
    "Index",
    "KernelError",
    "Loop",
    "MachineError",
    "MemoryRiskWarning",
    "Objective",
    "Operand",
    "Optimizer",
    "PathError",
    "Plan",
    "PlanError",
    "PolicyError",
    "Program",
    "Proof",
    "Role",
    "ScheduleError",
    "Source",
    "SpaceError",
    "TuneReport",
    "__version__",
    "budget_curve",
    "einsum",
    "kernels",
    "options",
    "plan",
    "space",
    "tune",
]

#: Names that few programs use: their modules are imported at first use, for a quick start.
_LATER = {
    "BudgetCurve": "einbound.api.curve",
    "BudgetPoint": "einbound.api.staircase",
    "Equations": "einbound.api.equations",
    "Optimizer": "einbound.api.optimizer",
    "Program": "einbound.api.program",
    "TuneReport": "einbound.report.tuning",
    "budget_curve": "einbound.api.curve",
    "tune": "einbound.api.tuning",
}
#: Subpackages that are public and imported at first use.
_PARTS = ("kernels", "space")

# Whoever imports a subpackage first sets its name here. That of `einbound.tune`, which is empty,
# must not come to stand for the function at some later moment.
import_module("einbound.tune")
globals().pop("tune", None)


def __getattr__(name: str) -> object:
    """The public name, from the module that defines it."""
    if name in _PARTS:
        return import_module(f"einbound.{name}")
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
