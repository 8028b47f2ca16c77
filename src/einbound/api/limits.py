"""Limits as callers give them, and what is said when they cannot be kept."""

from __future__ import annotations

from dataclasses import dataclass

from einbound.errors import BudgetError
from einbound.machine.memory import parse_bytes
from einbound.plan.search import Budget, lower_bound
from einbound.plan.tree import Tree
from einbound.run.executable import Executable
from einbound.schedule.cells import Cell, Place


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


NO_LIMITS = Limits()


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


def refusal(limits: Limits, operand_bytes: int, least: Executable) -> BudgetError:
    """The error that says that nothing fits, by how much, and because of what.

    Args:
        limits: The limits asked for; at least one is set.
        operand_bytes: Bytes that the operands cover.
        least: The plan with the smallest peak found.
    """
    metered, job = least.metered, least.job
    is_view = job.network.is_view and not job.result_given
    result_bytes = 0 if is_view else job.result.nbytes
    needs_value = lower_bound(job.network, 1) > job.network.size(job.network.output)
    bound = job.work.itemsize if needs_value else 0
    smallest, peak = metered.workspace_bytes, metered.workspace
    name, limit = "workspace_limit", limits.workspace_bytes
    total = operand_bytes + metered.space_bytes
    if limits.memory_bytes is not None and total > limits.memory_bytes:
        bound += operand_bytes + result_bytes
        smallest, peak = total, metered.space
        name, limit = "memory_limit", limits.memory_bytes
    assert limit is not None, "a limit that is not set cannot be broken"
    candidates = [
        (alive.n_bytes, describe_cell(least.schedule.cells[alive.cell], least.tree))
        for alive in peak.alive
    ]
    candidates.append((peak.workspace_bytes, f"the buffers of step {peak.step}"))
    if name == "memory_limit":
        candidates.append((operand_bytes, "the operands"))
    culprit_bytes, culprit = max(candidates, key=lambda pair: pair[0])
    certified = bound > limit
    proof = f"no plan can need less than {bound}"
    if not certified:
        proof += ", but none that small was found"
    return BudgetError(
        f"{name}={limit} bytes is too small; the smallest peak found is {smallest} bytes, "
        f"{culprit_bytes} of them for {culprit} (operands {operand_bytes}, result {result_bytes}); "
        f"{proof}; raise {name} to {smallest}",
        limit_bytes=limit,
        smallest_bytes=smallest,
        lower_bound_bytes=bound,
        certified=certified,
        culprit=culprit,
        culprit_bytes=culprit_bytes,
    )
