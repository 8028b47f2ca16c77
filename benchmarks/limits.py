"""Table 1: is a memory limit kept, by the count, the tracked peak and the process's peak?

Every network with up to six operands, plain, strided, transposed and as sliding windows, runs
in a fresh process under memory_limit = operands + result + W0/k, where W0 is the workspace of
the plan without a limit. A refusal is no failure where the error's lower bound is above the limit;
such rows are counted apart. The exit status is 1 if any row fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import machine
import tables
from children import run_script, run_task
from networks import LAYOUTS, SHIPPED, WINDOWED, files, load
from trial import Task, is_wrong

SHARES = (1, 2, 4, 16, 64)
KEPT, REFUSED = "kept", "refused, proven"


def main() -> int:
    """Measures every row, stores them and writes the table."""
    asked = _arguments()
    if not asked.table_only:
        gather("limits", {"machine": host(asked)}, measure_case, asked)
    data = tables.stored("limits", asked.results)
    tables.write("limits", table(data), asked.results)
    failed = [row for row in data["rows"] if row["verdict"] not in (KEPT, REFUSED)]
    for row in failed:
        print(f"FAILED {row['network']} {row['layout']} k={row['k']}: {row['verdict']}")
    print(f"limits: {summary(data['rows'])}, {len(failed)} failed")
    return 1 if failed else 0


def gather(
    name: str,
    head: dict[str, Any],
    measure: Callable[[Path, str, Path, argparse.Namespace], Iterator[dict[str, Any]]],
    asked: argparse.Namespace,
) -> None:
    """Measures the cases that were asked for and stores what is known after every row.

    With `--resume`, cases whose rows are all stored already are kept as they are.
    """
    known: list[dict[str, Any]] = []
    if asked.resume and (asked.results / f"{name}.json").exists():
        known = tables.stored(name, asked.results)["rows"]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for path, layout in cases(asked.also, asked.only, asked.layouts):
            case = (load(path).name, layout_name(path, layout))
            found = [row for row in known if (row["network"], row["layout"]) == case]
            if {row["k"] for row in found} >= set(asked.shares):
                rows += found
                continue
            for row in measure(path, layout, Path(scratch), asked):
                rows.append(row)
                tables.store(name, {**head, "rows": rows}, asked.results)
    tables.store(name, {**head, "rows": rows}, asked.results)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--also", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("--only", action="append", default=[], metavar="NETWORK")
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS), choices=LAYOUTS)
    parser.add_argument("--shares", nargs="+", type=int, default=list(SHARES), metavar="K")
    parser.add_argument("--results", type=Path, default=tables.RESULTS, metavar="DIR")
    parser.add_argument("--all-threads", action="store_true", help="BLAS with all its threads")
    parser.add_argument("--resume", action="store_true", help="keep the cases already stored")
    parser.add_argument("--table-only", action="store_true")
    return parser.parse_args()


def host(asked: argparse.Namespace) -> dict[str, str]:
    """The machine as the children see it."""
    found: dict[str, str] = run_script("machine.py", [], one_thread=not asked.all_threads)
    return found


def cases(also: list[Path], only: list[str], layouts: list[str]) -> tuple[tuple[Path, str], ...]:
    """Network files and layouts to run; sliding windows have one layout only."""
    shipped = [path for folder in (SHIPPED, *also) for path in files(folder)]
    found = [(path, layout) for path in shipped for layout in layouts]
    found += [(path, "plain") for path in files(WINDOWED)]
    return tuple(case for case in found if not only or load(case[0]).name in only)


def measure_case(
    path: Path, layout: str, scratch: Path, asked: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Rows of one network in one layout, one per share."""
    network, shares = load(path), asked.shares
    priced = run_task(Task("price", str(path), layout=layout))
    head = {"network": network.name, "layout": layout_name(path, layout)}
    if "died" in priced:
        print(f"{network.name} {layout}: planning without a limit failed: {priced['died']}")
        yield from ({**head, "k": k, "verdict": f"no plan: {priced['died']}"} for k in shares)
        return
    reference = reference_file(path, scratch)
    for k in shares:
        limit = memory_limit(priced, k)
        task = Task("run", str(path), layout=layout, memory_limit=limit, reference=str(reference))
        found = run_task(task, one_thread=not asked.all_threads)
        row = {**head, "k": k, "limit_bytes": limit, "unlimited": priced, **found}
        row["verdict"] = verdict(row)
        print(f"{network.name:16} {head['layout']:11} k={k:2} {row['verdict']}", flush=True)
        yield row


def layout_name(path: Path, layout: str) -> str:
    """The layout as the table names it."""
    return "windows" if load(path).windows else layout


def memory_limit(priced: dict[str, Any], k: int) -> int:
    """Operands + result + W0/k, in bytes."""
    fixed: int = priced["operand_bytes"] + priced["result_bytes"]
    return fixed + int(priced["workspace_bytes"]) // k


def reference_file(path: Path, scratch: Path) -> Path:
    """A file with the network's result, made by numpy.einsum without a limit."""
    file = scratch / f"{path.stem}.npy"
    if not file.exists():
        found = run_task(Task("reference", str(path), reference=str(file)))
        if "died" in found:
            raise SystemExit(f"no reference for {path.stem}: {found['died']}")
    return file


def verdict(row: dict[str, Any]) -> str:
    """KEPT, REFUSED, or what went wrong with a row."""
    if "died" in row:
        return f"died: {row['died']}"
    limit = row["limit_bytes"]
    if row["refused"]:
        if row["lower_bound_bytes"] > limit:
            return REFUSED
        best = tables.mebibytes(row["smallest_bytes"])
        return f"refused without proof (best found {best} MiB)"
    if is_wrong(row):
        return f"wrong result (relative error {row['relative_error']:.1e})"
    if row["peak_bytes"] > limit:
        return f"modelled peak {row['peak_bytes']} above limit {limit}"
    over = row["measured_bytes"] - row["overhead_bytes"] - limit
    if over > 0:
        return f"measured {over} bytes above limit + overhead"
    over = row["measured_bytes"] - row["overhead_bytes"] - row["peak_bytes"]
    if over > 0:
        return f"measured {over} bytes above modelled peak + overhead"
    return KEPT


def summary(rows: list[dict[str, Any]]) -> str:
    """How many rows are kept, and how many refused with a proof."""
    kept, refused = (sum(row["verdict"] == name for row in rows) for name in (KEPT, REFUSED))
    return (
        f"{kept} of {len(rows)} rows kept, {bare(rows)} of them without the overhead's help; "
        f"{refused} refused, proven"
    )


def bare(rows: list[dict[str, Any]]) -> int:
    """How many rows are kept without the overhead's help."""
    runs = [row for row in rows if row["verdict"] == KEPT and "measured_bytes" in row]
    return sum(row["measured_bytes"] <= row["limit_bytes"] for row in runs)


def table(data: dict[str, Any]) -> str:
    """The Markdown page of the stored rows."""
    rows = data["rows"]
    runs = [row for row in rows if "measured_bytes" in row]
    worst = max((row["measured_bytes"] / row["limit_bytes"] for row in runs), default=0.0)
    head = (
        "network", "layout", "k", "limit MiB", "modelled MiB", "overhead KiB", "tracked MiB",
        "process MiB", "measured / limit", "macs / unlimited", "seconds", "relative error",
        "loops", "verdict",
    )  # fmt: skip
    return "\n\n".join(
        (
            "# Table 1: limits kept",
            machine.line(data["machine"]),
            "memory_limit = operands + result + W0/k, W0 = workspace of the plan without a "
            "limit. Limit, modelled and measured include the operands; measured = operands + "
            "max(tracked growth, process growth - 8 MiB), each row in a fresh process; tracked "
            "growth includes the resident pages of anonymous mappings. A row is kept if measured "
            "stays within the limit and the modelled peak, the plan's stated overhead of "
            "interpreter objects aside; it is refused, proven, if no plan keeps the limit: the "
            "error's lower bound is above it. Times are of one traced run: for orientation only.",
            f"**{summary(rows)}; largest measured / limit {worst:.4f}.**",
            tables.markdown(head, (_cells(row) for row in rows)),
        )
    )


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    head = (row["network"], row["layout"], row["k"], tables.mebibytes(row.get("limit_bytes")))
    if "measured_bytes" not in row:
        return (*head, *["-"] * 9, row["verdict"])
    return (
        *head,
        tables.mebibytes(row["peak_bytes"]),
        f"{row['overhead_bytes'] / 1024:.0f}",
        tables.mebibytes(row["tracked_bytes"]),
        tables.mebibytes(row["process_bytes"]),
        f"{row['measured_bytes'] / row['limit_bytes']:.4f}",
        f"{row['macs'] / max(row['unlimited']['macs'], 1):.3f}",
        f"{row['wall_seconds']:.2f}",
        f"{row['relative_error']:.0e}",
        " ".join(row["loops"]) or "none",
        row["verdict"],
    )


if __name__ == "__main__":
    sys.exit(main())
