"""Plans as text: the table of `print(plan)` and the account of `plan.explain()`.

Pure functions from a record to text. Filling the record belongs to `api`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from einbound.plan.tree import Combine, Role


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


def plan_table(plan: PlanReport) -> str:
    """The plan as a table: one row per step, then loops, peak and limits."""
    lines = [f"{plan.expression}  {plan.dtype}", "", *_steps(plan.steps)]
    if plan.loops:
        lines += ["", *_loops(plan.loops)]
    summary = [
        ("peak", human_bytes(plan.peak_bytes), _sum_of_parts(plan)),
        *((row.name, human_bytes(row.n_bytes), _verdict(row)) for row in plan.limits),
        ("macs", count(plan.macs), _repeated(plan)),
    ]
    return "\n".join([*lines, "", *columns(summary, "<><")])


def explanation(plan: PlanReport) -> str:
    """The plan with its reasons: what the loops bought, where the peak is, what was proven."""
    sections = {
        "order": _steps(plan.steps),
        "loops": [*_loops(plan.loops), _bought(plan)] if plan.loops else ["none"],
        "peak": _peak(plan),
        "bytes": _bytes(plan),
        "limits": [_limit(row) for row in plan.limits] or ["none was given"],
        "proof": [_proof(plan)],
    }
    lines = [f"{plan.expression}  {plan.dtype}"]
    for title, body in sections.items():
        lines += ["", title, *(f"  {line}".rstrip() for line in body)]
    return "\n".join(lines)


def human_bytes(n_bytes: int) -> str:
    """A number of bytes in the largest binary unit that leaves at least 1.

    Example:
        >>> human_bytes(1000), human_bytes(3 * 2**29)
        ('1,000 B', '1.50 GiB')
    """
    unit = min(max(n_bytes.bit_length() - 1, 0) // 10, 6)
    if unit == 0:
        return f"{n_bytes:,} B"
    # Rounded in integers: sizes of wide networks overflow floats.
    hundredths = (n_bytes * 100 + (1 << (10 * unit - 1))) >> (10 * unit)
    return f"{hundredths // 100:,}.{hundredths % 100:02d} {'KMGTPE'[unit - 1]}iB"


def exact_bytes(n_bytes: int) -> str:
    """A number of bytes to the byte, with its human form beside it.

    Example:
        >>> exact_bytes(2048)
        '2,048 bytes (2.00 KiB)'
    """
    short = f" ({human_bytes(n_bytes)})" if n_bytes >= 1024 else ""
    return f"{n_bytes:,} bytes{short}"


def count(n: int) -> str:
    """A count with thousands separated; from 10**15 on, its leading digits and power.

    Example:
        >>> count(1234567), count(123456 * 10**400)
        ('1,234,567', '1.234e405')
    """
    if n < 10**15:
        return f"{n:,}"
    # Not through floats and not through all digits: counts of wide networks overflow both.
    power = 15
    while n >= 10 ** (power + 1):
        power += 1
    lead = n // 10 ** (power - 3)
    return f"{lead // 1000}.{lead % 1000:03d}e{power}"


def columns(rows: Iterable[Sequence[str]], align: str) -> list[str]:
    """Rows as lines with aligned columns; `align` has "<" or ">" for each column."""
    rows = list(rows)
    widths = [max(len(row[i]) for row in rows) for i in range(len(align))]
    return [
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


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


def _verdict(row: LimitRow) -> str:
    if row.used_bytes <= row.n_bytes:
        return f"kept with {human_bytes(row.n_bytes - row.used_bytes)} to spare"
    return f"NOT KEPT: {human_bytes(row.used_bytes - row.n_bytes)} too much"


def _repeated(plan: PlanReport) -> str:
    if plan.macs == plan.plain_macs or not plan.plain_macs:
        return ""
    return f"{_ratio(plan.macs, plan.plain_macs)} of the same order without loops"


def _ratio(part: int, whole: int) -> str:
    hundredths = (100 * part + whole // 2) // whole
    return f"{hundredths // 100:,}.{hundredths % 100:02d}x"


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


def _proof(plan: PlanReport) -> str:
    if not plan.fits:
        return "the plan does not fit; it is the best one found"
    if plan.proven:
        return "no plan within these limits has fewer macs"
    return "the best plan found; a cheaper one within these limits is not ruled out"
