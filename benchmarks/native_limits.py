"""What do our own kernels save in runs within a limit?

Every network with up to six operands at memory_limit = operands + result + W0/k: the same limit
planned for NumPy alone and with `backend="auto"`, CPU time of both in alternating rounds of one
process with one BLAS thread. The exit status is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import alternate
import limits
import machine
import tables
from children import ask, run_script, serve
from measure import largest_difference, warm_blas
from networks import LAYOUTS, load, operand_bytes, operands
from ratios import geometric_mean, paired

NAME = "native_limits"
KIND = {"one_thread": True, "unpinned": True}
SHARES = (1, 4, 16)
#: Largest geometric mean of time over NumPy's.
MEAN_BAR = 0.9
TOLERANCE = {"float64": 1e-10, "float32": 1e-4, "complex128": 1e-10, "complex64": 1e-4}


def main() -> int:
    """Times every row, stores them and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--also", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("--only", action="append", default=[], metavar="NETWORK")
    parser.add_argument("--layouts", nargs="+", default=["plain", "strided"], choices=LAYOUTS)
    parser.add_argument("--shares", nargs="+", type=int, default=list(SHARES), metavar="K")
    parser.add_argument("--results", type=Path, default=tables.RESULTS, metavar="DIR")
    parser.add_argument("--resume", action="store_true", help="keep the cases already stored")
    parser.add_argument("--table-only", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        return serve(timed)
    if not asked.table_only:
        limits.gather(NAME, {"machine": run_script("machine.py", [], **KIND)}, _measure, asked)
    data = tables.stored(NAME, asked.results)
    tables.write(NAME, table(data), asked.results)
    print(f"{NAME}:", *(text for text, _ in bars(data["rows"])), sep="\n  ")
    return 0 if all(is_met for _, is_met in bars(data["rows"])) else 1


def _measure(
    path: Path, layout: str, scratch: Path, asked: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Rows of one network in one layout, one per share."""
    head = {"network": load(path).name, "layout": limits.layout_name(path, layout)}
    for k in asked.shares:
        task = {"network": str(path), "layout": layout, "k": k}
        row = {**head, "k": k, **ask(f"{NAME}.py", "timed", task, **KIND)}
        print(" | ".join(cells(row)), flush=True)
        yield row


def timed(task: dict[str, Any]) -> dict[str, Any]:
    """CPU seconds of both plans in every round, and what they take."""
    import einbound as eb

    network = load(Path(task["network"]))
    warm_blas(network.dtype)
    arrays = operands(network, task["layout"])
    free = eb.plan(network.equation, *arrays)
    fixed = {
        "operand_bytes": operand_bytes(arrays),
        "result_bytes": network.result_bytes,
        "workspace_bytes": free.workspace_bytes,
    }
    limit = limits.memory_limit(fixed, task["k"])
    plans = {
        backend: eb.plan(network.equation, *arrays, memory_limit=limit, backend=backend)
        for backend in ("numpy", "auto", "native")
    }
    results = {backend: plan(*arrays) for backend, plan in plans.items()}
    difference = max(
        largest_difference(results[backend], results["numpy"]) for backend in ("auto", "native")
    )
    runs = {
        backend: lambda plan=plan: alternate.cpu_seconds(lambda: plan(*arrays))
        for backend, plan in plans.items()
    }
    return {
        "limit_bytes": limit,
        "right": bool(difference < TOLERANCE[network.dtype]),
        "peaks": {backend: plan.peak_bytes for backend, plan in plans.items()},
        "macs": {backend: plan.macs for backend, plan in plans.items()},
        "seconds": alternate.rounds(runs),
    }


def bars(rows: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Each bar as text, and whether it is met."""
    good = [row for row in rows if "died" not in row]
    right = [row for row in good if row["right"]]
    kept = [row for row in good if max(row["peaks"].values()) <= row["limit_bytes"]]
    higher = [row for row in good if row["peaks"]["auto"] > row["peaks"]["numpy"]]
    found = [
        (f"{len(right)} of {len(rows)} rows right", len(right) == len(rows)),
        (f"{len(kept)} of {len(rows)} within the limit", len(kept) == len(rows)),
        (f"{len(higher)} rows with a higher peak than NumPy's", not higher),
    ]
    for backend in ("auto", "native"):
        mean = geometric_mean([_ratio(row, backend) for row in good])
        text = f"{backend} over NumPy, geometric mean {mean:.3f}"
        if backend == "auto":
            found.append((f"{text}, bar {MEAN_BAR}", mean <= MEAN_BAR))
        else:
            found.append((text, True))
    return [(f"{text}: {'met' if met else 'MISSED'}", met) for text, met in found]


def _ratio(row: dict[str, Any], backend: str) -> float:
    return paired(row["seconds"][backend], row["seconds"]["numpy"]).median


def cells(row: dict[str, Any]) -> list[str]:
    """One row of the table."""
    head = [row["network"], row["layout"], str(row["k"])]
    if "died" in row:
        return [*head, row["died"], "", "", ""]
    peaks = row["peaks"]
    numpy = sorted(row["seconds"]["numpy"])[len(row["seconds"]["numpy"]) // 2]
    return [
        *head,
        f"{1e3 * numpy:.1f}",
        str(paired(row["seconds"]["auto"], row["seconds"]["numpy"])),
        f"{_ratio(row, 'native'):.3f}",
        f"{tables.mebibytes(peaks['auto'])} / {tables.mebibytes(peaks['numpy'])}"
        + ("" if row["right"] else " WRONG"),
    ]


def table(data: dict[str, Any]) -> str:
    """The Markdown page."""
    head = ["network", "layout", "k", "NumPy ms", "auto / NumPy", "native / NumPy", "peak MiB"]
    said = "\n".join(f"* {text}" for text, _ in bars(data["rows"]))
    return "\n\n".join(
        (
            "# Table 13: runs within a limit with our own kernels",
            __doc__.partition("\n")[2].strip(),
            machine.line(data["machine"]),
            said,
            tables.markdown(head, [cells(row) for row in data["rows"]]),
        )
    )


if __name__ == "__main__":
    raise SystemExit(main())
