"""The report of a planned program: what `report.program` prints, filled from its meter readings."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from einbound.api.backend_rows import backend_words, way_name
from einbound.api.stages import Stages
from einbound.backends.sizes import Peak
from einbound.expr.equations import Coefficient
from einbound.forest.blocks import Block, Member, Together, members
from einbound.forest.forest import Forest, Kind, Production
from einbound.forest.inline import axis_indices
from einbound.forest.rooms import trips_of
from einbound.plan.model import Count
from einbound.plan.tree import Loop as TreeLoop
from einbound.plan.tree import Tree
from einbound.report.program import (
    Home,
    Line,
    LoopLine,
    ProgramMeter,
    ProgramReport,
    TermRow,
    ValueCount,
    WayRow,
    Work,
)
from einbound.report.text import AliveRow, LimitRow
from einbound.run.forest import ForestExecutable
from einbound.schedule.cells import Place
from einbound.schedule.instructions import Alloc, Contract, Instruction, Loop, Read, Sum, reads


def measured(stages: Stages) -> ProgramMeter:
    """What calls of a program take."""
    prelude, main = stages.ready.prelude, stages.main
    is_first = stages.first_peak_bytes > stages.later_peak_bytes
    top = prelude if is_first and prelude is not None else main
    peak = top.metered.space
    held = 0 if top is prelude else stages.kept_bytes
    workspaces = [main.metered.workspace_bytes + stages.kept_bytes]
    if prelude is not None:
        workspaces.append(prelude.metered.space_bytes)
    forest = main.plan.forest
    itemsize = main.work.itemsize
    return ProgramMeter(
        peak_bytes=stages.peak_bytes,
        peak_at=_moment(top, peak),
        alive=tuple(_alive(stages, top, peak, held)),
        operand_bytes=stages.operand_bytes,
        kept_bytes=stages.kept_bytes,
        result_bytes=itemsize * sum(prod(forest.values[t].shape) for t in forest.targets),
        workspace_bytes=max(workspaces),
        once=Work() if prelude is None else _work(prelude, stages.first_peak_bytes),
        each=_work(main, stages.later_peak_bytes),
        values=tuple(_values(stages)),
    )


def program_report(stages: Stages) -> ProgramReport:
    """All that is said about a program."""
    wish, prelude = stages.wish, stages.ready.prelude
    meter = measured(stages)
    return ProgramReport(
        targets=wish.system.targets,
        dtype=str(stages.case.work),
        scheduler=wish.scheduler.value,
        iterations=wish.iterations,
        n_terms=sum(len(equation.terms) for equation in wish.system.equations),
        once=() if prelude is None else tuple(_lines(prelude, prelude.plan.block, 0)),
        each=tuple(_lines(stages.main, stages.main.plan.block, 0)),
        meter=meter,
        free=measured(stages.free),
        limits=tuple(_limits(stages, meter)),
        gains=tuple(_gains(stages)),
        proven=stages.ready.planned.proven,
        backend=backend_words(wish.engine),
        ways=tuple(_ways(stages)) if wish.engine.ways is not None else (),
    )


def _ways(stages: Stages) -> Iterator[WayRow]:
    """How each product is done, in the order in which they run."""
    for ready in filter(None, (stages.ready.prelude, stages.main)):
        forest = ready.plan.forest
        for step, count in sorted(ready.metered.steps.items()):
            if count.way is not None:
                production = forest.productions[ready.lowered.steps[step][0]]
                yield WayRow(_text(forest, production), way_name(count.way), count.way.why)


def _work(ready: ForestExecutable, peak_bytes: int) -> Work:
    metered = ready.metered
    return Work(metered.macs, metered.calls, metered.elements_read, metered.seconds, peak_bytes)


# values -------------------------------------------------------------------------------------


def _values(stages: Stages) -> Iterator[ValueCount]:
    prelude, main = stages.ready.prelude, stages.main
    each = main.plan.forest
    number = {value.name: value.number for value in each.values}
    uses = _executions(main)[1]
    if prelude is not None:
        for row in _made(prelude):
            if row.name in stages.kept:
                row = _with(row, Home.KEPT, uses.get(number[row.name], 0))
            yield row
    yield from _made(main)
    known = {value.name for value in each.values}
    if prelude is not None:
        known |= {value.name for value in prelude.plan.forest.values}
    forest = stages.rewritten.forest
    for value in forest.values:
        if value.kind is Kind.SHARED and value.name not in known:
            readers = len(forest.readers.get(value.number, ()))
            n_bytes = stages.case.work.itemsize * prod(value.shape)
            yield ValueCount(value.name, Home.IN_LINE, n_bytes, 0, readers, readers, 0, 0)


def _with(row: ValueCount, home: Home, more_uses: int) -> ValueCount:
    uses = row.uses + more_uses
    return ValueCount(
        row.name, home, row.n_bytes, row.cell_bytes, row.builds, uses, row.macs, row.least_macs
    )


def _made(ready: ForestExecutable) -> Iterator[ValueCount]:
    """The values that one run makes."""
    plan, itemsize = ready.plan, ready.work.itemsize
    forest = plan.forest
    builds, uses = _executions(ready)
    macs = _macs(ready)
    least = _least_macs(ready)
    loops = dict(_common(plan.block))
    for value in forest.producers:
        shape = forest.values[value].shape
        cell = ready.lowered.schedule.cells[ready.lowered.memory[value]]
        homes = plan.homes[value]
        widths = {loop: loops[loop].width for loop in homes}
        sliced = {index: number for index, number in cell.slices}
        cell_shape = [
            min(n, _width(ready, sliced[i])) if i in sliced else n
            for i, n in zip(cell.indices, shape, strict=True)
        ]
        home = Home.STAGED if widths else Home.WHOLE
        yield ValueCount(
            name=forest.values[value].name,
            home=Home.RESULT if plan.is_result(value) else home,
            n_bytes=itemsize * prod(shape),
            cell_bytes=itemsize * prod(cell_shape),
            builds=builds[value],
            uses=uses.get(value, 0),
            macs=macs.get(value, 0),
            least_macs=least.get(value, 0),
            loops=tuple(_in_words(loops[loop]) for loop in homes),
        )


def _width(ready: ForestExecutable, loop: int) -> int:
    return next(
        each.width
        for each, _ in _repeated(ready.lowered.schedule.body, 1)
        if isinstance(each, Loop) and each.number == loop
    )


def _executions(ready: ForestExecutable) -> tuple[dict[int, int], dict[int, int]]:
    """For each value of the forest, how often it is begun and how often a step reads it."""
    cells = ready.lowered.schedule.cells
    memory = {cell: value for value, cell in enumerate(ready.lowered.memory)}
    builds: dict[int, int] = {}
    uses: dict[int, int] = {}
    for each, times in _repeated(ready.lowered.schedule.body, 1):
        if isinstance(each, Alloc) and each.cell in memory:
            value = memory[each.cell]
            builds[value] = builds.get(value, 0) + times
        if isinstance(each, Contract | Sum | Read):
            for cell in reads(each):
                while (source := cells[cell].source) is not None:
                    cell = source
                if cell in memory:
                    uses[memory[cell]] = uses.get(memory[cell], 0) + times
    return builds, uses


def _repeated(body: tuple[Instruction, ...], times: int) -> Iterator[tuple[Instruction, int]]:
    """Each instruction with how often it is executed."""
    for each in body:
        yield each, times
        if isinstance(each, Loop):
            yield from _repeated(each.body, times * each.n_trips)


def _macs(ready: ForestExecutable) -> dict[int, int]:
    """Multiply-adds that make each value."""
    found: dict[int, int] = {}
    for step, counts in ready.metered.steps.items():
        production, _ = ready.lowered.steps[step]
        into = ready.plan.forest.productions[production].into
        found[into] = found.get(into, 0) + counts.macs
    return found


def _least_macs(ready: ForestExecutable) -> dict[int, int]:
    """The same in the same orders without any loop."""
    found: dict[int, int] = {}
    for member in members(ready.plan.block):
        production = ready.plan.forest.productions[member.production]
        plain = Count(Tree.plain(production.network, member.tree.steps), 1)
        found[production.into] = found.get(production.into, 0) + plain.macs
    return found


# lines --------------------------------------------------------------------------------------


def _common(block: Block) -> Iterator[tuple[int, Together]]:
    """The common loops of a block by number."""
    for item in block:
        if isinstance(item, Together):
            yield item.number, item
            yield from _common(item.body)


def _lines(ready: ForestExecutable, block: Block, depth: int) -> Iterator[Line]:
    forest = ready.plan.forest
    macs: dict[int, int] = {}
    for step, counts in ready.metered.steps.items():
        production, _ = ready.lowered.steps[step]
        macs[production] = macs.get(production, 0) + counts.macs
    for item in block:
        if isinstance(item, Together):
            yield LoopLine(depth, _in_words(item))
            yield from _lines(ready, item.body, depth + 1)
        else:
            yield _term(forest, item, depth, macs.get(item.production, 0))


def _in_words(loop: Together) -> str:
    return f"{loop.label} in {trips_of(loop)} trips of {loop.width}"


def _term(forest: Forest, member: Member, depth: int, macs: int) -> TermRow:
    production = forest.productions[member.production]
    names = [forest.values[value].name for value in production.operands]
    order = _nested(member.tree.nested, names)[1:-1] if len(names) > 2 else ""
    loops = tuple(_loop(loop) for loop in member.tree.loops)
    return TermRow(depth, _text(forest, production), order, loops, macs)


def _text(forest: Forest, production: Production) -> str:
    network = production.network
    number, factors = production.factor, []
    for k, value in enumerate(production.operands):
        constant = forest.values[value].constant
        if constant is None:
            labels = [network.labels[i] for i in axis_indices(network, k)]
            factors.append(_factor(forest, value, labels))
        else:
            number *= constant
    sign, number = _signed(number)
    if number != 1 or not factors:
        factors.insert(0, str(number))
    target = _factor(forest, production.into, [network.labels[i] for i in network.output])
    return f"{target} {sign} {' '.join(factors)}"


def _signed(number: Coefficient) -> tuple[str, Coefficient]:
    """Whether a number times something is added or taken away, and how much of it."""
    if not isinstance(number, complex) and number < 0:
        return "-=", -number
    return "+=", number


def _factor(forest: Forest, value: int, labels: list[object]) -> str:
    name = forest.values[value].name
    return f"{name}[{','.join(map(str, labels))}]" if labels else name


def _nested(tree: object, names: list[str]) -> str:
    if isinstance(tree, tuple):
        return f"({' '.join(_nested(each, names) for each in tree)})"
    assert isinstance(tree, int), f"a leaf of an order is a number, not {tree!r}"
    return names[tree]


def _loop(loop: TreeLoop) -> str:
    return f"{loop.index} in {loop.n_batches} trips of {loop.batch_size}"


def _gains(stages: Stages) -> Iterator[str]:
    better = stages.rewritten
    if better.gains:
        made = sum(len(gain.values) for gain in better.gains)
        yield (
            f"{made} value{'s' * (made != 1)} made for several products or for all calls: "
            f"{better.after.macs:,} macs in all calls instead of {better.before.macs:,}"
        )


# peak and limits ----------------------------------------------------------------------------


def _moment(ready: ForestExecutable, peak: Peak) -> str:
    forest = ready.plan.forest
    if peak.step is not None:
        production, _ = ready.lowered.steps[peak.step]
        return _text(forest, forest.productions[production])
    if peak.reads is not None:
        return f"reading a block of {forest.values[peak.reads].name}"
    if peak.alive:
        return f"memory set aside for {_cell(ready, peak.alive[-1].cell)}"
    return "nothing but tensors"


def _alive(
    stages: Stages, ready: ForestExecutable, peak: Peak, kept_bytes: int
) -> Iterator[AliveRow]:
    yield AliveRow("tensors", stages.operand_bytes)
    if kept_bytes:
        yield AliveRow("kept values", kept_bytes)
    for alive in peak.alive:
        yield AliveRow(_cell(ready, alive.cell), alive.n_bytes)
    if peak.workspace_bytes:
        yield AliveRow("buffers", peak.workspace_bytes)


def _cell(ready: ForestExecutable, number: int) -> str:
    cell = ready.lowered.schedule.cells[number]
    name = ready.plan.forest.values[cell.value].name
    if number in ready.lowered.memory:
        return f"{name}, a slice" if cell.place is Place.STORED and cell.slices else name
    return f"an intermediate of {name}"


def _limits(stages: Stages, meter: ProgramMeter) -> Iterator[LimitRow]:
    limits = stages.wish.limits
    if limits.memory_bytes is not None:
        n_bytes = limits.memory_bytes
        yield LimitRow("memory_limit", str(n_bytes), n_bytes, meter.peak_bytes)
    if limits.workspace_bytes is not None:
        n_bytes = limits.workspace_bytes
        yield LimitRow("workspace_limit", str(n_bytes), n_bytes, meter.workspace_bytes)
