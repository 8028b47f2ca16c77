"""Plans as text: the table of `print(plan)` and the account of `plan.explain()`.

Pure functions from a record to text. Filling the record belongs to `api`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from einbound.plan.effort import Proof
from einbound.plan.tree import Combine, Role
from einbound.report.figures import columns, count, exact_bytes, human_bytes, kept, ratio
from einbound.report.reasons import (
    PolicyReport,
    Weight,
    origin_lines,
    policy_lines,
    search_lines,
    weight_lines,
)
from einbound.report.sources import SourceRow, source_lines


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step of the order, as it is printed.

    Attributes:
        step: Position in the path.
        contraction: What it multiplies, for example "Pac,Pbd->abcd".
        way: How it is done, for example "matmul".
        batch: Number of matrix products in one run of the step.
        m: Rows of each product.
        n: Columns of each product.
        k: Summed elements of each product.
        macs: Multiply-adds over all runs.
        runs: How often the step runs.
        workspace_bytes: Copies and buffers of one run.
        result_bytes: The value that the step makes, as it is stored.
        why: Why it is done so, where a backend had a choice.
    """

    step: int
    contraction: str
    way: str
    batch: int
    m: int
    n: int
    k: int
    macs: int
    runs: int
    workspace_bytes: int
    result_bytes: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class LoopRow:
    """One batch loop, as it is printed; the fields are those of `Loop`."""

    index: str
    role: Role
    combine: Combine
    extent: int
    batch_size: int
    n_batches: int
    node: int


@dataclass(frozen=True, slots=True)
class AliveRow:
    """One array that is alive at the peak: what it is, and its bytes."""

    name: str
    n_bytes: int


@dataclass(frozen=True, slots=True)
class LimitRow:
    """A limit that was applied.

    Attributes:
        name: "memory_limit" or "workspace_limit".
        given: What the caller wrote.
        n_bytes: What it stands for.
        used_bytes: What the plan takes, in the limit's own counting.
    """

    name: str
    given: str
    n_bytes: int
    used_bytes: int


@dataclass(frozen=True, slots=True)
class PlanReport:
    """All that is said about one plan.

    Attributes:
        expression: The expression, in explicit form.
        dtype: Element type that the steps compute in.
        steps: The order, in the order of the path.
        loops: The loops, outermost first.
        macs: Multiply-adds in all.
        peak_bytes: Most array bytes alive at once, operands included.
        operands_bytes: Bytes of the operands, shared ranges counted once.
        result_bytes: Bytes of the result.
        workspace_bytes: Peak of what is neither operand nor result.
        overhead_bytes: Stated constant for interpreter objects, outside `peak_bytes`.
        plain_peak_bytes: Peak of the same order without loops.
        plain_macs: Multiply-adds of the same order without loops.
        peak_at: What happens at the peak, for example "step 1, acbd,ijcd->ijab".
        alive: The arrays alive at the peak; their bytes add up to `peak_bytes`.
        limits: The limits that were applied.
        fits: The plan keeps every limit.
        proven: No plan that keeps the limits has fewer macs.
        by_class: Proven among the plans that were searched, and not among all.
        policy: What a batch policy admitted, if there was one.
        weight: Multiply-adds of several evaluations, if operands are volatile.
        proof: What the search could say.
        sources: The operands that are not in memory.
        backend: What multiplies, in words; "" for NumPy alone.
    """

    expression: str
    dtype: str
    steps: tuple[StepRow, ...]
    loops: tuple[LoopRow, ...]
    macs: int
    peak_bytes: int
    operands_bytes: int
    result_bytes: int
    workspace_bytes: int
    overhead_bytes: int
    plain_peak_bytes: int
    plain_macs: int
    peak_at: str
    alive: tuple[AliveRow, ...]
    limits: tuple[LimitRow, ...] = ()
    fits: bool = True
    proven: bool = False
    by_class: bool = False
    policy: PolicyReport | None = None
    weight: Weight | None = None
    proof: Proof | None = None
    sources: tuple[SourceRow, ...] = ()
    backend: str = ""


def plan_table(plan: PlanReport) -> str:
    """The plan as a table: one row per step, then loops, peak and limits."""
    lines = [f"{plan.expression}  {plan.dtype}", "", *_steps(plan.steps)]
    if plan.loops:
        lines += ["", *_loops(plan.loops)]
    if plan.sources:
        lines += ["", *source_lines(plan.sources)]
    summary = [
        ("peak", human_bytes(plan.peak_bytes), _sum_of_parts(plan)),
        *(
            (row.name, human_bytes(row.n_bytes), kept(row.used_bytes, row.n_bytes))
            for row in plan.limits
        ),
        ("macs", count(plan.macs), _repeated(plan)),
    ]
    return "\n".join([*lines, "", *columns(summary, "<><")])


def explanation(plan: PlanReport) -> str:
    """The plan with its reasons: what the loops bought, where the peak is, what was proven."""
    sections = {
        "order": [*_steps(plan.steps), *origin_lines(plan.proof)],
        "backend": [plan.backend, *_choices(plan.steps)] if plan.backend else [],
        "loops": [*_loops(plan.loops), _bought(plan)] if plan.loops else ["none"],
        "sources": source_lines(plan.sources),
        "peak": _peak(plan),
        "bytes": _bytes(plan),
        "limits": [_limit(row) for row in plan.limits] or ["none was given"],
        "policy": [] if plan.policy is None else policy_lines(plan.policy),
        "evaluations": [] if plan.weight is None else weight_lines(plan.weight),
        "proof": [_proof(plan), *search_lines(plan.proof, _weighed(plan))],
    }
    lines = [f"{plan.expression}  {plan.dtype}"]
    for title, body in sections.items():
        if body:
            lines += ["", title, *(f"  {line}".rstrip() for line in body)]
    return "\n".join(lines)


def _steps(steps: Iterable[StepRow]) -> list[str]:
    head = ("step", "contraction", "way", "batch", "m", "n", "k", "macs", "runs")
    rows = [
        (
            *(str(row.step), row.contraction, row.way),
            *(count(n) for n in (row.batch, row.m, row.n, row.k, row.macs, row.runs)),
            *(human_bytes(n) for n in (row.workspace_bytes, row.result_bytes)),
        )
        for row in steps
    ]
    if not rows:
        return ["no product: the result is read from one operand"]
    return columns([(*head, "workspace", "result"), *rows], "><<" + ">" * 8)


def _choices(steps: Iterable[StepRow]) -> list[str]:
    """For each step, what it runs on and why."""
    return columns([(f"step {row.step}", row.way, row.why) for row in steps], "<<<")


def _loops(loops: Iterable[LoopRow]) -> list[str]:
    head = ("loop", "role", "trips", "extent", "batch size", "batches", "step")
    meaning = {Combine.ACCUMULATE: "add up", Combine.SCATTER: "fill blocks"}
    rows = [
        (
            *(row.index, row.role.value, meaning[row.combine]),
            *(count(n) for n in (row.extent, row.batch_size, row.n_batches, row.node)),
        )
        for row in loops
    ]
    return columns([head, *rows], "<<<>>>>")


def _sum_of_parts(plan: PlanReport) -> str:
    parts = {
        "operands": plan.operands_bytes,
        "result": plan.result_bytes,
        "workspace": plan.workspace_bytes,
    }
    return ", ".join(f"{name} {human_bytes(n)}" for name, n in parts.items())


def _repeated(plan: PlanReport) -> str:
    if plan.macs == plan.plain_macs or not plan.plain_macs:
        return ""
    return f"{ratio(plan.macs, plan.plain_macs)} of the same order without loops"


def _bought(plan: PlanReport) -> str:
    saved = plan.plain_peak_bytes - plan.peak_bytes
    words = f"{human_bytes(abs(saved))} {'less' if saved >= 0 else 'more'}"
    price = _repeated(plan) or "the same number"
    return (
        f"they bring the peak from {human_bytes(plan.plain_peak_bytes)} to "
        f"{human_bytes(plan.peak_bytes)}, {words}; macs: {price}"
    )


def _peak(plan: PlanReport) -> list[str]:
    alive = sorted(plan.alive, key=lambda row: (-row.n_bytes, row.name))
    rows = [(row.name, f"{row.n_bytes:,}", human_bytes(row.n_bytes)) for row in alive]
    table = columns([("alive then", "bytes", ""), *rows], "<>>") if rows else []
    return [f"{exact_bytes(plan.peak_bytes)}: {plan.peak_at}", *table]


def _bytes(plan: PlanReport) -> list[str]:
    rows = [
        ("operands", plan.operands_bytes, "ranges that operands share are counted once"),
        ("result", plan.result_bytes, ""),
        ("workspace", plan.workspace_bytes, "the peak of what is neither operand nor result"),
        ("overhead", plan.overhead_bytes, "objects of the interpreter, no part of the peak"),
    ]
    return columns([(name, f"{n:,}", human_bytes(n), why) for name, n, why in rows], "<>><")


def _limit(row: LimitRow) -> str:
    given = "" if row.given == str(row.n_bytes) else f" (given as {row.given})"
    return f"{row.name} {exact_bytes(row.n_bytes)}{given}: {_verdict(row)}"


def _verdict(row: LimitRow) -> str:
    return kept(row.used_bytes, row.n_bytes)


def _weighed(plan: PlanReport) -> int:
    """The multiply-adds that the search compared."""
    return plan.macs if plan.weight is None else plan.weight.macs


def _proof(plan: PlanReport) -> str:
    if not plan.fits:
        return "the plan does not fit; it is the best one found"
    if plan.proven and plan.by_class:
        return "no plan within these limits has fewer macs, of those that were searched"
    if plan.proven:
        return "no plan within these limits has fewer macs"
    return "the best plan found; a cheaper one within these limits is not ruled out"
