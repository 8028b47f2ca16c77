"""From a setting to a plan that fits: the wiring of planner, lowering and meter."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from einbound.api.limits import NO_BUDGET, refusal
from einbound.api.peer import cotengra_orders
from einbound.api.setting import HEADROOM_BYTES, Setting
from einbound.backends.sizes import Metered
from einbound.errors import BudgetError, BudgetWarning, MemoryRiskWarning
from einbound.expr.network import Network
from einbound.machine.memory import available_bytes
from einbound.plan.effort import Effort, Origin, Proof
from einbound.plan.gate import check_loops, repeated_steps
from einbound.plan.model import Count
from einbound.plan.order import N_EXACT, first_order
from einbound.plan.rules import Objective
from einbound.plan.search import Budget, search
from einbound.plan.tree import Tree, steps_from_path
from einbound.report.reasons import Weight
from einbound.run.executable import Executable, Job, compile_tree
from einbound.step.pricing import DEFAULT_BUFFER_BYTES

#: Plans below this peak are not compared with the memory available: reading that costs more
#: than a small plan.
SMALL_PEAK_BYTES = 64 * 1024 * 1024
#: Plans that are remembered: 14 KiB each for three operands, 4 MiB for a circuit of 165.
N_PLANS_KEPT = 128


@dataclass(frozen=True, slots=True)
class Made:
    """A plan that was made: what for, what runs, and what is known about it.

    Attributes:
        setting: What it was made for.
        executable: The schedule with its kernels.
        keeps_limits: Every byte limit is kept.
        proof: What the search could say about it.
    """

    setting: Setting
    executable: Executable
    keeps_limits: bool
    proof: Proof

    @property
    def keeps_threshold(self) -> bool:
        """The peak that a policy asks for is kept."""
        threshold = None if self.setting.rules is None else self.setting.rules.threshold_bytes
        return threshold is None or self.peak_bytes <= threshold

    @property
    def fits(self) -> bool:
        """Every limit is kept, and a policy's threshold."""
        return self.keeps_limits and self.keeps_threshold

    @property
    def weighed(self) -> Weight:
        """Multiply-adds apart, by whether they are done again in every evaluation."""
        rules, ready = self.setting.rules, self.executable
        steps = ready.metered.steps
        if rules is None or not rules.volatile:
            return Weight(ready.metered.macs, 0, 1 if rules is None else rules.iterations)
        repeated = repeated_steps(ready.tree, rules.volatile)
        each = sum(count.macs for step, count in steps.items() if repeated[step])
        return Weight(ready.metered.macs - each, each, rules.iterations)

    @property
    def proven(self) -> bool:
        """No plan that keeps the limits has fewer multiply-adds in all evaluations."""
        by_search = self.proof.exhausted and self.weighed.macs <= self.proof.bound_macs
        return self.fits and (by_search or self.is_cheapest)

    @property
    def is_cheapest(self) -> bool:
        """No plan at all has fewer multiply-adds, limits or not; False also if none is known."""
        weighed = self.weighed
        if weighed.once_macs and weighed.each_macs and weighed.iterations > 1:
            return False
        network = self.executable.job.network
        return self.executable.metered.macs == _fewest_macs(network)

    @property
    def peak_bytes(self) -> int:
        """Most bytes of arrays alive at once, operands included."""
        return self.setting.operand_bytes + self.executable.metered.space_bytes


@lru_cache(maxsize=N_PLANS_KEPT)
def planned(setting: Setting) -> Made:
    """The best plan found for a setting; equal settings share it.

    Raises:
        BudgetError: None that was found keeps the limits.
    """
    network, dtypes = setting.network(), setting.dtypes()
    job = setting.job(network, dtypes)
    if len(network.inputs) == 1:
        return _kept(_made(setting, _only(setting, job), Proof()))
    known: dict[tuple[Tree, int], Executable] = {}

    def read(tree: Tree, buffer_bytes: int) -> Metered:
        key = (tree, buffer_bytes)
        if key not in known:
            known[key] = compile_tree(job, tree, buffer_bytes)
        return known[key].metered

    path = setting.path
    found = search(
        network,
        dtypes.work.itemsize,
        setting.limits.budget(setting.operand_bytes),
        read,
        rules=setting.rules,
        effort=setting.effort,
        operand_bytes=setting.operand_bytes,
        traits=tuple((view.strides, view.dtype.str, view.aligned) for view in job.operands),
        orders=None if path is None else (steps_from_path(path, len(network.inputs)),),
        peer=partial(cotengra_orders, effort=setting.effort or Effort()) if path is None else None,
        default_buffer_bytes=DEFAULT_BUFFER_BYTES,
        headroom_bytes=HEADROOM_BYTES,
    )
    read(found.tree, found.buffer_bytes)
    best = known[found.tree, found.buffer_bytes]
    # What was proven of a given order says nothing about the others.
    proof = found.proof
    if path is not None:
        proof = replace(proof, exhausted=False, bound_macs=0, origin=Origin.GIVEN)
    # Of a given order only that is proven which holds for all.
    return _kept(_made(setting, best, proof), found.least if path is None else NO_BUDGET)


def _only(setting: Setting, job: Job) -> Executable:
    """The executable of one operand, with the largest blocks that keep the limits."""
    tree, buffer_bytes = Tree.plain(job.network, ()), DEFAULT_BUFFER_BYTES
    only = compile_tree(job, tree, buffer_bytes)
    # Elements of an operand that is not in memory are read together in such blocks at least.
    while job.network.streamed and not _fits(setting, only.metered) and buffer_bytes > 1:
        buffer_bytes //= 4
        only = compile_tree(job, tree, buffer_bytes)
    return only


@lru_cache(maxsize=512)
def _fewest_macs(network: Network) -> int | None:
    """The fewest multiply-adds of any order; None where only a good order is known."""
    if len(network.inputs) > N_EXACT:
        return None
    if len(network.inputs) == 1:
        return 0
    return Count(Tree.plain(network, first_order(network)), 1).macs


def compiled(setting: Setting, tree: Tree, buffer_bytes: int, proof: Proof | None = None) -> Made:
    """The plan of a given tree, whether it fits or not.

    Args:
        setting: What it is for.
        tree: In which order, inside which loops.
        buffer_bytes: Bound of each buffer of a step.
        proof: What the search could say about it, if one made it.

    Raises:
        PlanError: The policy does not admit one of the loops.
    """
    job = setting.job(setting.network(), setting.dtypes())
    return _made(setting, compile_tree(job, tree, buffer_bytes), proof or Proof())


def _made(setting: Setting, executable: Executable, proof: Proof) -> Made:
    """Every plan that can run comes from here, so that no loop slips past its rules."""
    if setting.rules is not None:
        check_loops(executable.tree, setting.rules)
    executable = setting.engine.with_kernels(executable, _room(setting, executable.metered))
    return Made(setting, executable, _fits(setting, executable.metered), proof)


def refused(made: Made, *, as_written: bool = False, proven: Budget = NO_BUDGET) -> BudgetError:
    """The error that says why `made` does not keep its limits.

    Args:
        made: The plan with the smallest peak found, or the caller's own.
        as_written: The plan is the caller's own, and nothing was searched.
        proven: Bytes that every plan takes beside the operands, as far as a search proved it.
    """
    return refusal(
        made.setting.limits,
        made.setting.operand_bytes,
        made.executable,
        as_written=as_written,
        proven=proven,
        rules=made.setting.rules,
    )


def warn_of(made: Made, *, stacklevel: int, as_written: bool = False) -> None:
    """Warn of a plan that does not keep the threshold of its policy.

    Plans are shared and this is not: it is called once by each function that returns a plan.

    Args:
        made: The plan.
        stacklevel: Frames from here to the caller's line.
        as_written: The plan is the caller's own, and nothing was searched.
    """
    rules = made.setting.rules
    if rules is None or made.keeps_threshold:
        return
    chosen = f"with objective={rules.objective.value!r} it is the one with "
    what = f"{chosen}{FALLBACKS[rules.objective]}; raise the threshold, admit more loops, or "
    if as_written:
        what = "raise the threshold, open other loops, or "
    warnings.warn(
        f"peak_threshold={rules.threshold_bytes} bytes is not kept: the plan takes "
        f"{made.peak_bytes}; {what}give a memory_limit, which is never passed",
        BudgetWarning,
        stacklevel=stacklevel,
    )


#: What is returned where no plan keeps the threshold of a policy.
FALLBACKS = {
    Objective.TIME: "the fewest multiply-adds of all, at the lowest peak that these allow",
    Objective.SPACE: "the lowest peak that was found",
}


def _kept(made: Made, proven: Budget = NO_BUDGET) -> Made:
    if not made.keeps_limits:
        raise refused(made, proven=proven)
    if not made.setting.limits.is_set and made.peak_bytes > SMALL_PEAK_BYTES:
        free = available_bytes()
        if made.peak_bytes > free:
            warnings.warn(
                f"the plan needs {made.peak_bytes} bytes and {free} are available; "
                'give memory_limit="80%" to stay within them',
                MemoryRiskWarning,
                stacklevel=4,
            )
    return made


def _room(setting: Setting, metered: Metered) -> Budget:
    """Bytes beside the operands that kernels may take, if a plan keeps to them without."""
    budget = setting.limits.budget(setting.operand_bytes)
    threshold = None if setting.rules is None else setting.rules.threshold_bytes
    if threshold is None:
        return budget
    # What is not kept anyway is not made worse.
    bounds = [max(threshold - setting.operand_bytes, metered.space_bytes)]
    bounds += [] if budget.peak_bytes is None else [budget.peak_bytes]
    return Budget(min(bounds), budget.workspace_bytes)


def _fits(setting: Setting, metered: Metered) -> bool:
    budget = setting.limits.budget(setting.operand_bytes)
    peak_ok = budget.peak_bytes is None or metered.space_bytes <= budget.peak_bytes
    return peak_ok and (
        budget.workspace_bytes is None or metered.workspace_bytes <= budget.workspace_bytes
    )
