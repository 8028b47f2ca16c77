"""Kernels for the steps of a plan: which would be chosen on a processor, and why."""

from __future__ import annotations

from einbound.api.plan import Plan
from einbound.api.rows import report_of
from einbound.errors import KernelError
from einbound.kernels.menu import Menu
from einbound.kernels.persistent import persistent_sides
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.views import oriented
from einbound.machine.target import target_limits
from einbound.report.kernel import KernelChoice


def kernel_choices(
    plan: Plan, target: str = "cpu", *, reference: bool = False, lifted: bool = False
) -> tuple[tuple[str, KernelChoice | str], ...]:
    """For each step of a plan, its contraction and the choice of its kernel, or why it has none.

    Args:
        plan: What is explained; operands that do not change between evaluations may be packed
            ahead where the plan says which ones do (`volatile=`).
        target: "cpu" for this processor, or a GPU such as "sm_90".
        reference: Take the menus of `Menu.REFERENCE` instead of those for the processor.
        lifted: Whether lattices of tile sizes are searched, too.

    Raises:
        MachineError: The target is not known.
        KernelError: No step is a matrix product.

    Example:
        >>> import einbound as eb
        >>> plan = eb.plan("ik,kj->ij", (64, 64), (64, 64), dtype="float32")
        >>> [(text, choice)] = kernel_choices(plan, "sm_90")
        >>> text, choice.found.proven
        ('ik,kj->ij', True)
    """
    made = plan._made
    limits = target_limits(target)
    menu = Menu.REFERENCE if reference else Menu.default(limits)
    rules, tree = made.setting.rules, made.executable.tree
    n = tree.n_operands
    changing = frozenset(range(n)) if rules is None or not rules.volatile else rules.volatile
    persistent = frozenset(range(n)) - frozenset(changing)
    choices: list[tuple[str, KernelChoice | str]] = []
    for row in report_of(made).steps:
        step = made.executable.metered.steps[row.step]
        sides = persistent_sides(tree, row.step, persistent)
        try:
            problem = MatmulProblem.from_step(step, hoistable=sides)
        except KernelError as error:
            choices.append((row.contraction, str(error)))
            continue
        if not menu.roles:
            problem = oriented(problem)
        choices.append((row.contraction, KernelChoice.of(problem, limits, menu, lifted=lifted)))
    if all(isinstance(choice, str) for _, choice in choices):
        reasons = [f"{text}: {reason}" for text, reason in choices]
        raise KernelError("\n".join(reasons) or "the plan has no step that contracts two operands")
    return tuple(choices)
