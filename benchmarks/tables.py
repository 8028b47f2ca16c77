"""Raw results as JSON and the Markdown tables made from them; no number is ever typed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"


def store(name: str, data: dict[str, Any], folder: Path = RESULTS) -> Path:
    """The JSON file that now holds `data`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return path


def stored(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    """What the last run of a script kept."""
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return found


def write(name: str, text: str, folder: Path = RESULTS) -> None:
    """Writes one Markdown page of the results."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text.rstrip() + "\n", encoding="utf-8")


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def mebibytes(n_bytes: int | None) -> str:
    """Bytes as MiB with two digits."""
    return "-" if n_bytes is None else f"{n_bytes / (1 << 20):.2f}"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median and interquartile range."""
    if len(values) < 2:
        return f"{values[0]:.{digits}f}" if values else "-"
    low, _, high = quantiles(values, n=4, method="inclusive")
    return f"{median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
