"""A curve of budgets as text."""

from __future__ import annotations

from dataclasses import dataclass

from einbound.report.figures import columns, count, human_bytes


@dataclass(frozen=True, slots=True)
class CurveRow:
    """One point, as it is printed; the fields are those of `BudgetPoint`."""

    peak_bytes: int
    workspace_bytes: int
    macs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CurveReport:
    """All that is said about one curve.

    Attributes:
        expression: The expression, in explicit form.
        dtype: Element type that is computed in.
        rows: The points, by rising peak.
        grid: Labels of the indices that may be cut, each with its numbers of slices.
        exact: No plan over these slices lies below.
    """

    expression: str
    dtype: str
    rows: tuple[CurveRow, ...]
    grid: tuple[tuple[str, tuple[int, ...]], ...]
    exact: bool


def curve_table(curve: CurveReport) -> str:
    """The curve as a table: one row per point, then the slices and what was proven."""
    fewest = curve.rows[-1].macs
    rows = [
        (
            *(human_bytes(n) for n in (row.peak_bytes, row.workspace_bytes)),
            count(row.macs),
            _ratio(row.macs, fewest),
            _time(row.seconds),
        )
        for row in curve.rows
    ]
    head = ("peak", "workspace", "macs", "of fewest", "time")
    proof = (
        "no plan over these slices lies below"
        if curve.exact
        else "the best plans found; lower ones over these slices are not ruled out"
    )
    lines = [f"{curve.expression}  {curve.dtype}", "", *columns([head, *rows], ">>>>>"), ""]
    return "\n".join([*lines, *_slices(curve.grid), proof])


def _slices(grid: tuple[tuple[str, tuple[int, ...]], ...]) -> list[str]:
    """A line for each choice of numbers of slices."""
    labels: dict[tuple[int, ...], list[str]] = {}
    for label, numbers in grid:
        labels.setdefault(numbers, []).append(label)
    return [
        f"{', '.join(names)} in {' or '.join(map(count, numbers))} slices"
        for numbers, names in labels.items()
    ] or ["no index is cut"]


def _ratio(part: int, whole: int) -> str:
    # In integers: counts of wide networks overflow floats.
    hundredths = (100 * part + whole // 2) // whole if whole else 100
    return f"{hundredths // 100:,}.{hundredths % 100:02d}x"


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:,.1f} s"
