"""Limits as callers give them, and what is said when they cannot be kept."""

from __future__ import annotations

from dataclasses import dataclass

from einbound.api.options import current_options
from einbound.backends.sizes import Peak
from einbound.errors import BudgetError
from einbound.machine.memory import parse_bytes
from einbound.plan.rules import Rules
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


def limits_of(memory: int | str | None, workspace: int | str | None) -> Limits:
    """The limits of a call; where it gives none of memory, that of the options that hold here."""
    return Limits.parse(current_options().memory_limit if memory is None else memory, workspace)


NO_LIMITS = Limits()
NO_BUDGET = Budget(None, None)


def describe_cell(cell: Cell, tree: Tree) -> str:
    """A cell in words: operand, result or intermediate, with its labels."""
    name = tree.network.name(cell.indices)
    if cell.place is Place.RESULT:
        return f"the result '{name}'"
    if cell.value < tree.n_operands:
        streamed = cell.value in tree.network.streamed
        return f"operand {cell.value} {'read as' if streamed else 'summed to'} '{name}'"
    if cell.value == tree.root:
        return f"a copy of the result '{name}'"
    return f"intermediate '{name}' of step {cell.value - tree.n_operands}"


@dataclass(frozen=True, slots=True)
class _Broken:
    """A limit that is not kept: by what peak, and what every plan needs in its counting."""

    name: str
    limit_bytes: int
    needed_bytes: int
    bound_bytes: int
    parts: tuple[tuple[int, str], ...]


def refusal(
    limits: Limits,
    operand_bytes: int,
    least: Executable,
    *,
    as_written: bool,
    proven: Budget = NO_BUDGET,
    rules: Rules | None = None,
) -> BudgetError:
    """The error that says that nothing fits, by how much, and because of what.

    Args:
        limits: The limits asked for; at least one is not kept.
        operand_bytes: Bytes that the operands cover.
        least: The plan with the smallest peak found.
        as_written: It is the caller's own plan, and nothing was searched.
        proven: Bytes that every plan takes beside the operands, as far as a search proved it.
        rules: What the search kept to besides.
    """
    broken = _broken(limits, operand_bytes, least, proven)
    culprit_bytes, culprit = max(broken.parts, key=lambda part: part[0])
    gap = broken.needed_bytes - broken.bound_bytes
    proof = f"no plan can need less than {broken.bound_bytes}"
    if as_written:
        found = "the plan as written takes"
    else:
        found = "the smallest peak found is"
        proof += f", {gap} bytes below that" if gap else ", so this is the least"
    return BudgetError(
        f"{broken.name}={broken.limit_bytes} bytes is too small; {found} {broken.needed_bytes} "
        f"bytes, {culprit_bytes} of them for {culprit} (operands {operand_bytes}, "
        f"result {least.result_bytes}); {proof}; raise {broken.name} to {broken.needed_bytes}"
        + (", or let einbound.plan choose" if as_written else _refused_loops(rules)),
        limit_bytes=broken.limit_bytes,
        smallest_bytes=broken.needed_bytes,
        lower_bound_bytes=broken.bound_bytes,
        culprit=culprit,
        culprit_bytes=culprit_bytes,
    )


def _refused_loops(rules: Rules | None) -> str:
    """Which part of the indices a policy keeps from being cut, and why, for a message."""
    if rules is None or not rules.refusals:
        return ""
    n_indices = len(rules.grid.modes)
    reasons = ", ".join(dict.fromkeys(refusal.why for refusal in rules.refusals))
    return (
        f", or let the policy admit more: it refuses {len(rules.refusals)} of {n_indices} indices "
        f"({reasons})"
    )


def _broken(limits: Limits, operand_bytes: int, least: Executable, proven: Budget) -> _Broken:
    metered, job = least.metered, least.job
    needs_value = lower_bound(job.network, 1) > job.network.size(job.network.output)
    bound = job.work.itemsize if needs_value else 0
    # The search takes the result to be stored as it is computed; it may be smaller.
    size = job.work.itemsize * job.network.size(job.network.output)
    stored = least.result_bytes - size if least.result_bytes < size else 0
    total = operand_bytes + metered.space_bytes
    if limits.memory_bytes is not None and total > limits.memory_bytes:
        parts = ((operand_bytes, "the operands"), *_parts(least, metered.space))
        bound += least.result_bytes
        bound = operand_bytes + max(bound, (proven.peak_bytes or 0) + stored)
        return _Broken("memory_limit", limits.memory_bytes, total, bound, parts)
    assert limits.workspace_bytes is not None, "a limit that is not set cannot be broken"
    parts = _parts(least, metered.workspace)
    needed, bound = metered.workspace_bytes, max(bound, proven.workspace_bytes or 0)
    return _Broken("workspace_limit", limits.workspace_bytes, needed, bound, parts)


def _parts(least: Executable, peak: Peak) -> tuple[tuple[int, str], ...]:
    """Bytes and names of what is alive at a peak."""
    cells = [
        (alive.n_bytes, describe_cell(least.schedule.cells[alive.cell], least.tree))
        for alive in peak.alive
    ]
    return (*cells, (peak.workspace_bytes, f"the {describe_workspace(peak)}"))


def describe_workspace(peak: Peak) -> str:
    """What the workspace of a peak is, in words."""
    if peak.reads is not None:
        return f"block of operand {peak.reads}"
    return f"buffers of step {peak.step}"
