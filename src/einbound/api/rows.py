"""The report of a made plan: what `report.text` prints, filled from the meter's reading."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from einbound.api.backend_rows import backend_words, way_name
from einbound.api.limits import describe_cell, describe_workspace
from einbound.api.planning import FALLBACKS, Made, compiled
from einbound.backends.sizes import StepCount
from einbound.expr.network import Network
from einbound.plan.gate import role_of
from einbound.plan.rules import Rules
from einbound.plan.tree import Combine, Loop, Role, Tree, trips
from einbound.report.reasons import ModeRow, PolicyReport, Weight
from einbound.report.sources import SourceRow
from einbound.report.text import AliveRow, LimitRow, LoopRow, PlanReport, StepRow
from einbound.run.executable import Executable
from einbound.schedule.cells import Place


def report_of(made: Made) -> PlanReport:
    """All that is said about a plan."""
    ready, setting = made.executable, made.setting
    tree, metered = ready.tree, ready.metered
    plain = compiled(setting, Tree.plain(tree.network, tree.steps), ready.buffer_bytes)
    return PlanReport(
        expression=str(setting.expression),
        dtype=str(ready.job.work),
        steps=tuple(_step_row(ready, step, metered.steps[step]) for step in sorted(metered.steps)),
        loops=tuple(_loop_row(loop) for loop in tree.loops),
        macs=metered.macs,
        peak_bytes=made.peak_bytes,
        operands_bytes=setting.operand_bytes,
        result_bytes=ready.result_bytes,
        workspace_bytes=metered.workspace_bytes,
        overhead_bytes=ready.overhead_bytes,
        plain_peak_bytes=plain.peak_bytes,
        plain_macs=plain.executable.metered.macs,
        peak_at=_moment(ready),
        alive=_alive(made),
        limits=_limits(made),
        fits=made.fits,
        proven=made.proven,
        by_class=not made.is_cheapest,
        policy=_policy(made),
        weight=_weight(made),
        proof=made.proof,
        sources=_sources(ready),
        backend=backend_words(setting.engine),
    )


def _policy(made: Made) -> PolicyReport | None:
    rules = made.setting.rules
    if rules is None or not rules.by_policy:
        return None
    return PolicyReport(
        modes=tuple(_mode_rows(made.executable.tree, rules)),
        objective=rules.objective.value,
        threshold_bytes=rules.threshold_bytes,
        peak_bytes=made.peak_bytes,
        fallback=FALLBACKS[rules.objective],
        persistent_only=tuple(sorted(rules.volatile)) if rules.persistent_only else (),
        accumulation_factor=rules.accumulation_factor,
    )


def _mode_rows(tree: Tree, rules: Rules) -> Iterator[ModeRow]:
    network = tree.network
    refused = {refusal.index: refusal.why for refusal in rules.refusals}
    for index, mode in enumerate(rules.grid.modes):
        label = str(network.labels[index])
        n_trips = None
        if mode.admitted and mode.target is not None:
            n_trips = trips(rules.grid.within(index, mode.target), network)
        used = tuple(loop.n_batches for loop in tree.loops if str(loop.index) == label)
        role = role_of(network, index).value
        yield ModeRow(label, role, mode.target, n_trips, used, refused.get(label, ""))


def _weight(made: Made) -> Weight | None:
    weighed = made.weighed
    if weighed.iterations == 1:
        return None
    return Weight(weighed.once_macs, weighed.each_macs, weighed.iterations)


def contraction(ready: Executable, step: int) -> str:
    """One step as einsum text in the caller's labels; axes stand as they are stored."""
    tree, network = ready.tree, ready.tree.network
    # Operands come first in the table; one that is summed first is stored again after that.
    orders = {
        cell.value: cell.indices for cell in ready.schedule.cells if cell.place is not Place.SLICE
    }
    orders[tree.root] = network.output
    left, right = tree.steps[step]
    names = [network.name(orders[value]) for value in (left, right, tree.n_operands + step)]
    separator = "," if all(len(str(label)) == 1 for label in network.labels) else " ; "
    return f"{names[0]}{separator}{names[1]}->{names[2]}"


def _step_row(ready: Executable, step: int, count: StepCount) -> StepRow:
    way = count.way
    assert way is not None, "a metered step has a way"
    widths = {block.axis: block.width for block in way.blocks}

    def size(axes: tuple[int, ...]) -> int:
        return prod(widths.get(i, way.pair.axes[i].extent) for i in axes)

    form = way.form
    return StepRow(
        step=step,
        contraction=contraction(ready, step),
        way=way_name(way),
        batch=size(form.batch),
        m=size(form.rows),
        n=size(form.columns),
        k=size(form.sums),
        macs=count.macs,
        runs=count.calls,
        workspace_bytes=count.workspace_bytes,
        result_bytes=_stored_bytes(ready.tree, step, way.pair.work.itemsize),
        why=way.why,
    )


def _stored_bytes(tree: Tree, step: int, itemsize: int) -> int:
    """Bytes of the value as it is stored: sliced by the loops around its production."""
    value = tree.n_operands + step
    widths = {cut.index: cut.width for cut in tree.around(value)}
    extents = tree.network.extents
    return itemsize * prod(widths.get(i, extents[i]) for i in tree.carried[value])


def _loop_row(loop: Loop) -> LoopRow:
    assert loop.role is not None
    assert loop.combine is not None
    return LoopRow(
        str(loop.index),
        Role(loop.role),
        Combine(loop.combine),
        loop.extent,
        loop.batch_size,
        loop.n_batches,
        loop.node,
    )


def _moment(ready: Executable) -> str:
    peak = ready.metered.space
    if peak.step is not None:
        return f"step {peak.step}, {contraction(ready, peak.step)}"
    if peak.reads is not None:
        return f"reading a block of operand {peak.reads}"
    if not peak.alive:
        return "a view of an operand"
    # What was made last stands last.
    made = describe_cell(ready.schedule.cells[peak.alive[-1].cell], ready.tree)
    return f"memory set aside for {made}"


def _alive(made: Made) -> tuple[AliveRow, ...]:
    ready = made.executable
    network: Network = ready.job.network
    peak = ready.metered.space
    rows = [AliveRow(f"{len(network.inputs)} operands", made.setting.operand_bytes)]
    for alive in peak.alive:
        name = describe_cell(ready.schedule.cells[alive.cell], ready.tree)
        rows.append(AliveRow(name, alive.n_bytes))
    if peak.workspace_bytes:
        rows.append(AliveRow(describe_workspace(peak), peak.workspace_bytes))
    return tuple(rows)


def _sources(ready: Executable) -> tuple[SourceRow, ...]:
    network = ready.job.network
    return tuple(
        SourceRow(
            operand=operand,
            labels=network.name(network.inputs[operand]),
            n_bytes=ready.job.operands[operand].nbytes,
            block_bytes=read.block_bytes,
            n_blocks=read.n_blocks,
            read_bytes=read.n_bytes,
        )
        for operand, read in sorted(ready.metered.reads.items())
    )


def _limits(made: Made) -> tuple[LimitRow, ...]:
    limits, metered = made.setting.limits, made.executable.metered
    rows = (
        ("memory_limit", limits.memory_bytes, made.peak_bytes),
        ("workspace_limit", limits.workspace_bytes, metered.workspace_bytes),
    )
    return tuple(
        LimitRow(name, str(limit), limit, used) for name, limit, used in rows if limit is not None
    )
