"""Limits as callers give them, and what is said when they cannot be kept."""

from __future__ import annotations

from dataclasses import dataclass

from einbound.backends.sizes import Metered
from einbound.errors import BudgetError
from einbound.machine.memory import parse_bytes
from einbound.plan.search import Budget
from einbound.plan.tree import Tree
from einbound.schedule.cells import Cell, Place
from einbound.schedule.instructions import Schedule


@dataclass(frozen=True, slots=True)
class Limits:
    """The byte limits of one plan.

    Attributes:
        memory_bytes: Bound of everything alive at once, operands and result included.
        workspace_bytes: Bound of what is neither operand nor result.
    """

    memory_bytes: int | None = None
    workspace_bytes: int | None = None

    @classmethod
    def parse(cls, memory: int | str | None, workspace: int | str | None) -> Limits:
        """Limits from bytes or texts such as "512MiB" or "80%"."""
        return cls(
            None if memory is None else parse_bytes(memory, name="memory_limit"),
            None if workspace is None else parse_bytes(workspace, name="workspace_limit"),
        )

    @property
    def is_set(self) -> bool:
        """Whether anything is limited."""
        return self.memory_bytes is not None or self.workspace_bytes is not None

    def budget(self, operand_bytes: int) -> Budget:
        """What the limits leave beside the operands."""
        left = None if self.memory_bytes is None else self.memory_bytes - operand_bytes
        return Budget(left, self.workspace_bytes)


def describe_cell(cell: Cell, tree: Tree) -> str:
    """A cell in words: operand, result or intermediate, with its labels."""
    name = tree.network.name(cell.indices)
    if cell.place is Place.RESULT:
        return f"the result '{name}'"
    if cell.value < tree.n_operands:
        return f"operand {cell.value} summed to '{name}'"
    if cell.value == tree.root:
        return f"a copy of the result '{name}'"
    return f"intermediate '{name}' of step {cell.value - tree.n_operands}"


def refusal(
    limits: Limits,
    operand_bytes: int,
    least: tuple[Schedule, Metered, Tree],
    lower_bound: int,
) -> BudgetError:
    """The error that says that nothing fits, by how much, and because of what.

    Args:
        limits: The limits asked for; at least one is set.
        operand_bytes: Bytes that the operands cover.
        least: Schedule, reading and tree of the plan with the smallest peak found.
        lower_bound: Bytes of result and workspace that every plan holds.
    """
    schedule, metered, tree = least
    by_memory = limits.memory_bytes is not None and (
        operand_bytes + metered.space_bytes > limits.memory_bytes
    )
    result_bytes = lower_bound
    if by_memory:
        name, limit = "memory_limit", limits.memory_bytes
        smallest, bound, peak = (
            operand_bytes + metered.space_bytes,
            operand_bytes + lower_bound,
            metered.space,
        )
    else:
        name, limit = "workspace_limit", limits.workspace_bytes
        smallest, bound, peak = metered.workspace_bytes, 0, metered.workspace
    assert limit is not None
    culprit, culprit_bytes = "the operands", operand_bytes
    for alive in peak.alive:
        if alive.n_bytes > culprit_bytes or not by_memory and culprit == "the operands":
            culprit = describe_cell(schedule.cells[alive.cell], tree)
            culprit_bytes = alive.n_bytes
    if not by_memory and peak.workspace_bytes > culprit_bytes:
        culprit, culprit_bytes = f"the buffers of step {peak.step}", peak.workspace_bytes
    certified = bound > limit
    shape = f"operands take {operand_bytes} bytes, the result {result_bytes}"
    proof = (
        f"no plan can use less than {bound}" if certified else f"the proven lower bound is {bound}"
    )
    return BudgetError(
        f"{name}={limit} bytes is too small: the smallest peak found is {smallest} bytes "
        f"({shape}; most of it is {culprit} with {culprit_bytes}) and {proof}; "
        f"raise {name} to at least {smallest}",
        limit_bytes=limit,
        smallest_bytes=smallest,
        lower_bound_bytes=bound,
        certified=certified,
        culprit=culprit,
        culprit_bytes=culprit_bytes,
    )
