"""What is said about a program: the record of its counts, and the account of its plan as text.

Pure functions from records to text. Filling the records belongs to `api`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from einbound.report.figures import columns, count, exact_bytes, human_bytes, kept, ratio
from einbound.report.text import AliveRow, LimitRow


class Home(StrEnum):
    """Where a value lives."""

    KEPT = "kept"
    WHOLE = "whole"
    STAGED = "staged"
    IN_LINE = "in line"
    RESULT = "result"


@dataclass(frozen=True, slots=True)
class Work:
    """What one run takes.

    Attributes:
        macs: Multiply-adds of all pairwise steps.
        calls: Pairwise products that run.
        elements_read: Elements that unary steps read.
        seconds: Rough estimate of the time.
        peak_bytes: Most bytes alive at once, tensors and kept values included.
    """

    macs: int = 0
    calls: int = 0
    elements_read: int = 0
    seconds: float = 0.0
    peak_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ValueCount:
    """How often a value is made and read.

    Attributes:
        name: Its name.
        home: Where it lives.
        n_bytes: Bytes of all of it.
        cell_bytes: Bytes of what is alive of it at once.
        builds: How often it, or a slice of it, is begun: once for all calls if it is kept, else
            in every call. In line: by how many products that read it.
        uses: How many steps read it, in every call, repetitions counted.
        macs: Multiply-adds of its making.
        least_macs: What they would be without loops that repeat work.
        loops: The common loops that it lives in, outermost first, in words.
    """

    name: str
    home: Home
    n_bytes: int
    cell_bytes: int
    builds: int
    uses: int
    macs: int
    least_macs: int
    loops: tuple[str, ...] = ()

    @property
    def avoidable_macs(self) -> int:
        """Multiply-adds that repeat what was computed before."""
        return max(self.macs - self.least_macs, 0)


@dataclass(frozen=True, slots=True)
class ProgramMeter:
    """What calls of a program take, from a walk over sizes.

    Attributes:
        peak_bytes: Most bytes alive at once in any call.
        peak_at: What happens then.
        alive: The arrays that are alive then; their bytes add up to `peak_bytes`.
        operand_bytes: Bytes of the tensors, shared ranges counted once.
        kept_bytes: Bytes of the kept values.
        result_bytes: Bytes of the targets.
        workspace_bytes: Peak of what is neither tensor nor result, kept values included.
        once: The making of the kept values: persistent work.
        each: What every call does: volatile work, and what is not kept.
        values: All values that are made, and those that are computed in line.
    """

    peak_bytes: int
    peak_at: str
    alive: tuple[AliveRow, ...]
    operand_bytes: int
    kept_bytes: int
    result_bytes: int
    workspace_bytes: int
    once: Work
    each: Work
    values: tuple[ValueCount, ...] = field(repr=False)

    @property
    def avoidable_macs(self) -> int:
        """Multiply-adds that repeat what was computed before, in the first call."""
        return sum(value.avoidable_macs for value in self.values)

    def macs(self, iterations: int) -> int:
        """Multiply-adds of some calls with the same persistent tensors."""
        return self.once.macs + iterations * self.each.macs


@dataclass(frozen=True, slots=True)
class TermRow:
    """One product as it runs.

    Attributes:
        depth: Common loops around it.
        text: What is added into what.
        order: The products in it, with brackets; empty if there is one.
        loops: Its own loops, in words.
        macs: Multiply-adds over all trips.
    """

    depth: int
    text: str
    order: str = ""
    loops: tuple[str, ...] = ()
    macs: int = 0


@dataclass(frozen=True, slots=True)
class LoopLine:
    """A common loop: how many others are around it, and it in words."""

    depth: int
    text: str


Line = TermRow | LoopLine


@dataclass(frozen=True, slots=True)
class WayRow:
    """How one product is done: what is added into what, what is called, and why that."""

    text: str
    way: str
    why: str


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """All that is said about one program.

    Attributes:
        targets: What is returned.
        dtype: Element type.
        scheduler: How terms are run.
        iterations: Calls that it is planned for.
        n_terms: Terms of the equations.
        once: What makes the kept values.
        each: What every call runs.
        meter: The counts.
        free: The counts of the plan without limits.
        limits: The limits that were applied.
        gains: What sharing and factoring saved, in words.
        proven: No other placement of the shared values has fewer multiply-adds.
        backend: What multiplies, in words; empty: NumPy.
        ways: How each product is done, where there are kernels.
    """

    targets: tuple[str, ...]
    dtype: str
    scheduler: str
    iterations: int
    n_terms: int
    once: tuple[Line, ...]
    each: tuple[Line, ...]
    meter: ProgramMeter
    free: ProgramMeter
    limits: tuple[LimitRow, ...]
    gains: tuple[str, ...]
    proven: bool
    backend: str = ""
    ways: tuple[WayRow, ...] = ()


def program_text(program: ProgramReport) -> str:
    """The account of a program: terms, values, peak, limits and what they cost."""
    sections = {
        "shared": program.gains,
        "once, before the first call": _lines(program.once),
        "in every call": _lines(program.each),
        "backend": _backend(program),
        "values": _values(program),
        "peak": _peak(program.meter),
        "work": _work(program),
        "limits": _limits(program),
    }
    text = [_head(program)]
    for title, body in sections.items():
        lines = tuple(body)
        if lines:
            text += ["", title, *(f"  {line}".rstrip() for line in lines)]
    return "\n".join(text)


def _head(program: ProgramReport) -> str:
    calls = f"{program.iterations} call{'s' * (program.iterations > 1)}"
    return (
        f"{', '.join(program.targets)}: {program.n_terms} term{'s' * (program.n_terms > 1)}, "
        f"{program.dtype}, {program.scheduler}, planned for {calls}"
    )


def _lines(lines: Iterable[Line]) -> Iterator[str]:
    rows = []
    for line in lines:
        indent = "  " * line.depth
        if isinstance(line, LoopLine):
            rows.append((f"{indent}for {line.text}", "", ""))
            continue
        details = [f"as {line.order}"] * bool(line.order) + list(line.loops)
        rows.append((indent + line.text, f"{count(line.macs)} macs", ", ".join(details)))
    return iter(columns(rows, "<><") if rows else ())


def _backend(program: ProgramReport) -> list[str]:
    if not program.backend:
        return []
    ways = dict.fromkeys((row.text, row.way, row.why) for row in program.ways)
    return [program.backend, *(columns(list(ways), "<<<") if ways else ())]


_WHY = {
    Home.KEPT: "made once; later calls only read it",
    Home.WHOLE: "as a whole, while it is read",
    Home.STAGED: "a slice at a time",
    Home.IN_LINE: "a part of the products that read it",
    Home.RESULT: "returned",
}


def _values(program: ProgramReport) -> Iterator[str]:
    free = {value.name: value.home for value in program.free.values}
    head = ("value", "lives", "bytes", "alive", "builds", "uses", "macs", "")
    rows: list[tuple[str, ...]] = [head]
    for value in program.meter.values:
        why = _WHY[value.home]
        if value.loops:
            why += f", for {', '.join(value.loops)}"
        if free.get(value.name, value.home) is not value.home:
            why += f"; {free[value.name].value} it would be without limits"
        if value.avoidable_macs:
            why += f"; {count(value.avoidable_macs)} macs are repeated"
        rows.append(
            (
                *(value.name, value.home.value),
                *(human_bytes(value.n_bytes), human_bytes(value.cell_bytes)),
                *(count(n) for n in (value.builds, value.uses, value.macs)),
                why,
            )
        )
    return iter(columns(rows, "<<>>>>><") if len(rows) > 1 else ())


def _peak(meter: ProgramMeter) -> list[str]:
    alive = sorted(meter.alive, key=lambda row: (-row.n_bytes, row.name))
    rows = [(row.name, f"{row.n_bytes:,}", human_bytes(row.n_bytes)) for row in alive]
    table = columns([("alive then", "bytes", ""), *rows], "<>>")
    return [f"{exact_bytes(meter.peak_bytes)}: {meter.peak_at}", *table]


def _work(program: ProgramReport) -> list[str]:
    meter = program.meter
    rows = [("", "macs", "peak")]
    if meter.once.peak_bytes:
        rows.append(("once", count(meter.once.macs), human_bytes(meter.once.peak_bytes)))
    rows.append(("each call", count(meter.each.macs), human_bytes(meter.each.peak_bytes)))
    lines = columns(rows, "<>>")
    if meter.avoidable_macs:
        lines.append(f"{count(meter.avoidable_macs)} macs repeat what was computed before")
    return lines


def _limits(program: ProgramReport) -> Iterator[str]:
    if not program.limits:
        yield "none was given"
        return
    for row in program.limits:
        yield f"{row.name} {exact_bytes(row.n_bytes)}: {kept(row.used_bytes, row.n_bytes)}"
    mine, free = (each.macs(program.iterations) for each in (program.meter, program.free))
    yield (
        f"without limits the peak is {human_bytes(program.free.peak_bytes)}; {_price(mine, free)}"
    )
    if program.proven:
        yield "no other placement of the shared values that was searched needs fewer macs"
    else:
        yield "other placements of the shared values may need fewer macs"


def _price(macs: int, free_macs: int) -> str:
    if macs == free_macs or not free_macs:
        return "they cost no macs"
    return f"with them all calls take {ratio(macs, free_macs)} of the macs"
