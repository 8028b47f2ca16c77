"""From a setting to a plan that fits: the wiring of planner, lowering and meter."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache

from einbound.api.limits import refusal
from einbound.api.setting import Setting
from einbound.backends.sizes import Metered
from einbound.errors import BudgetError, MemoryRiskWarning
from einbound.expr.network import Network
from einbound.machine.memory import available_bytes
from einbound.plan.model import Count
from einbound.plan.order import N_EXACT, first_order
from einbound.plan.search import search
from einbound.plan.tree import Tree, steps_from_path
from einbound.run.executable import Executable, compile_tree
from einbound.step.pricing import DEFAULT_BUFFER_BYTES

#: Plans below this peak are not compared with the memory available: reading that costs more
#: than a small plan.
SMALL_PEAK_BYTES = 64 * 1024 * 1024
#: Plans that are remembered: 14 KiB each for three operands, 4 MiB for a circuit of 165.
N_PLANS_KEPT = 128
#: Among plans of equal cost those are preferred that leave this much of a limit free, so that
#: interpreter objects, which no limit counts, lie within it too.
HEADROOM_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Made:
    """A plan that was made: what for, what runs, and what is known about it.

    Attributes:
        setting: What it was made for.
        executable: The schedule with its kernels.
        fits: Every limit is kept.
    """

    setting: Setting
    executable: Executable
    fits: bool

    @property
    def proven(self) -> bool:
        """No plan that keeps the limits has fewer multiply-adds, since none at all has."""
        network = self.executable.job.network
        return self.fits and self.executable.metered.macs == _fewest_macs(network)

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
        only = compile_tree(job, Tree.plain(network, ()), DEFAULT_BUFFER_BYTES)
        return _kept(Made(setting, only, _fits(setting, only.metered)))
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
        orders=None if path is None else (steps_from_path(path, len(network.inputs)),),
        default_buffer_bytes=DEFAULT_BUFFER_BYTES,
        headroom_bytes=HEADROOM_BYTES,
    )
    read(found.tree, found.buffer_bytes)
    best = known[found.tree, found.buffer_bytes]
    return _kept(Made(setting, best, _fits(setting, best.metered)))


@lru_cache(maxsize=512)
def _fewest_macs(network: Network) -> int | None:
    """The fewest multiply-adds of any order; None where only a good order is known."""
    if len(network.inputs) > N_EXACT:
        return None
    if len(network.inputs) == 1:
        return 0
    return Count(Tree.plain(network, first_order(network)), 1).macs


def compiled(setting: Setting, tree: Tree, buffer_bytes: int) -> Made:
    """The plan of a given tree, whether it fits or not."""
    job = setting.job(setting.network(), setting.dtypes())
    executable = compile_tree(job, tree, buffer_bytes)
    return Made(setting, executable, _fits(setting, executable.metered))


def refused(made: Made, *, as_written: bool = False) -> BudgetError:
    """The error that says why `made` does not keep its limits.

    Args:
        made: The plan with the smallest peak found, or the caller's own.
        as_written: The plan is the caller's own, and nothing was searched.
    """
    return refusal(
        made.setting.limits, made.setting.operand_bytes, made.executable, as_written=as_written
    )


def _kept(made: Made) -> Made:
    if not made.fits:
        raise refused(made)
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


def _fits(setting: Setting, metered: Metered) -> bool:
    budget = setting.limits.budget(setting.operand_bytes)
    peak_ok = budget.peak_bytes is None or metered.space_bytes <= budget.peak_bytes
    return peak_ok and (
        budget.workspace_bytes is None or metered.workspace_bytes <= budget.workspace_bytes
    )
