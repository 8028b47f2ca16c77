"""Table 2: how fast is a contraction whose workspace may be no larger than its result?

thc_ppl and quad_mixed_df at workspace_limit = result bytes, beside cotengra's plans sliced to a
target of the result's size (a target of its largest tensor, not of its peak, which is printed
beside) and beside hand-written NumPy blocks at the same workspace. All calls of one network run
in one fresh process with one BLAS thread and no pinned BLAS kernel, in alternating rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import handbatch
import machine
import numpy as np
import tables
from children import run_script, run_task
from measure import largest_difference, warm_blas
from networks import SHIPPED, Network, load, operands
from trial import TOLERANCE, Task, loop_text

NETWORKS = ("thc_ppl", "quad_mixed_df")
ROUNDS = 11
KIND = {"one_thread": True, "unpinned": True}
#: Largest ratio of einbound's time to that of each peer.
BARS = {
    ("thc_ppl", "cotengra"): 0.15,
    ("quad_mixed_df", "cotengra"): 0.35,
    ("thc_ppl", "cotengra, fastest"): 0.15,
    ("quad_mixed_df", "cotengra, fastest"): 0.35,
    ("thc_ppl", "handbatch"): 1.1,
    ("quad_mixed_df", "handbatch"): 1.1,
}


def main() -> int:
    """Measures both networks, stores the rounds and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--table-only", action="store_true")
    asked = parser.parse_args()
    if asked.child:
        warnings.simplefilter("ignore")
        print(json.dumps(_rounds(json.loads(sys.stdin.readline()))))
        return 0
    if not asked.table_only:
        found = {name: _measure(name) for name in NETWORKS}
        host = run_script("machine.py", [], **KIND)
        tables.store("time_limited", {"machine": host, "networks": found})
    data = tables.stored("time_limited")
    tables.write("time_limited", table(data))
    missed = [text for text, is_met in bars(data) if not is_met]
    print("time_limited:", *(text for text, _ in bars(data)), sep="\n  ")
    return 1 if missed else 0


def _measure(name: str) -> dict[str, Any]:
    path = SHIPPED / f"{name}.json"
    network = load(path)
    chosen = run_script("peers.py", [str(path), str(network.result_elements)], **KIND)
    blocks = handbatch.best(tables.stored("handbatch"), name)
    trees = chosen.pop("chosen", {})
    task = {"network": str(path), "trees": trees, "blocks": blocks}
    return {
        "limit_bytes": network.result_bytes,
        "search": chosen,
        "blocks": blocks,
        "times": run_script("time_limited.py", ["--child"], json.dumps(task) + "\n", **KIND),
        "peaks": {
            task.engine: run_task(task, **KIND)
            for task in (
                Task(network=str(path), workspace_limit=network.result_bytes),
                Task(network=str(path), engine="handbatch", options=blocks),
            )
        }
        | {
            name: run_task(Task(network=str(path), engine="cotengra", options=tree), **KIND)
            for name, tree in trees.items()
        },
    }


def _rounds(task: dict[str, Any]) -> dict[str, Any]:
    network = load(Path(task["network"]))
    warm_blas(network.dtype)
    arrays = operands(network)
    calls, planning = _calls(task, network, arrays)
    names = list(calls)
    results = {name: calls[name]() for name in names}  # the warm-up of each
    first = results["handbatch"]
    errors = {name: largest_difference(results[name], first) for name in names}
    assert max(errors.values()) <= TOLERANCE, f"the results differ: {errors}"
    del results, first
    seconds: dict[str, dict[str, list[float]]] = {n: {"cpu": [], "wall": []} for n in names}
    for number in range(ROUNDS):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            wall, cpu = time.perf_counter(), time.process_time()
            calls[name]()
            seconds[name]["cpu"].append(time.process_time() - cpu)
            seconds[name]["wall"].append(time.perf_counter() - wall)
    return {
        "seconds": seconds,
        "planning": planning,
        "errors": errors,
        "macs_per_second": _macs_per_second(),
    }


def _macs_per_second() -> float:
    """Rate of a square product of 2048, the fastest that BLAS is here."""
    left, out = np.ones((2048, 2048)), np.empty((2048, 2048))
    seconds = []
    for _ in range(5):
        began = time.process_time()
        np.matmul(left, left, out=out)
        seconds.append(time.process_time() - began)
    return 2048**3 / min(seconds)


def _calls(
    task: dict[str, Any], network: Network, arrays: tuple[np.ndarray, ...]
) -> tuple[dict[str, Callable[[], Any]], dict[str, Any]]:
    calls: dict[str, Callable[[], Any]] = {}
    planning: dict[str, Any] = {}
    chosen = task["blocks"]
    function = handbatch.FUNCTIONS[network.name][chosen["variant"]]
    calls["handbatch"] = lambda: function(*arrays, *chosen["blocks"])
    for name, options in task["trees"].items():
        import peers

        tree = peers.tree_from_options(options)
        calls[name] = lambda tree=tree: tree.contract(arrays)  # type: ignore[misc]
    try:
        import einbound as eb

        started = time.process_time()
        plan = eb.plan(network.equation, *arrays, workspace_limit=network.result_bytes)
    except (ImportError, AttributeError, ValueError) as error:
        planning["failed"] = f"{type(error).__name__}: {error}"
        return calls, planning
    planning["cpu_seconds"] = time.process_time() - started
    planning["macs"], planning["loops"] = plan.macs, " ".join(map(loop_text, plan.loops))
    calls["einbound"] = lambda: plan(*arrays)
    return calls, planning


def ratios(times: dict[str, Any], peer: str, clock: str) -> list[float]:
    """Time of einbound over the peer's, round by round."""
    ours, theirs = (times["seconds"][name][clock] for name in ("einbound", peer))
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def bars(data: dict[str, Any]) -> list[tuple[str, bool]]:
    """Each bar as text, and whether it is met."""
    found = []
    for (name, peer), bar in BARS.items():
        times = data["networks"][name]["times"]
        if not {"einbound", peer} <= set(times.get("seconds", ())):
            why = times.get("died") or times["planning"].get("failed") or f"{peer} did not run"
            found.append((f"{name}: einbound / {peer} not measured ({why})", False))
            continue
        ratio = median(ratios(times, peer, "cpu"))
        met = ratio <= bar
        text = f"{name}: einbound / {peer} = {ratio:.3f}, bar {bar}: {'met' if met else 'MISSED'}"
        found.append((text, met))
    return found


def table(data: dict[str, Any]) -> str:
    """The Markdown page of the stored rounds."""
    parts = [
        "# Table 2: time at workspace_limit = result bytes",
        machine.line(data["machine"]),
        f"Median (interquartile range) of {ROUNDS} alternating rounds in one process, one BLAS "
        "thread; ratios are paired by round. Workspace = measured growth less the result "
        "(the larger of tracked growth and process growth - 8 MiB). cotengra: of all plans that 5 "
        "seeds gave in three ways (slicing during the search, with reconfiguration of the sliced "
        "tree, the optimal order sliced afterwards), `cotengra` is the one of fewest macs, its own "
        "score (among equals the one that ran fastest), and `cotengra, fastest` the one that ran "
        "fastest whatever its macs; all are listed, each timed once and the three best three "
        "times. Bars are held against both. Searching and planning stand outside the rounds.",
        "\n".join(f"- {text}" for text, _ in bars(data)),
    ]
    for name, found in data["networks"].items():
        parts += [f"## {name}", _times_table(found), _planning_line(found), _peers_table(found)]
    return "\n\n".join(parts)


def _times_table(found: dict[str, Any]) -> str:
    times = found["times"].get("seconds", {})
    rows = []
    for name, seconds in times.items():
        both = "einbound" in times and name != "einbound"
        peak = found["peaks"][name]
        grown = peak["measured_bytes"] - peak["operand_bytes"] if "measured_bytes" in peak else None
        rows.append(
            (
                name,
                tables.spread(seconds["cpu"], 4),
                tables.spread(seconds["wall"], 4),
                tables.spread(ratios(found["times"], name, "cpu"), 3) if both else "-",
                tables.spread(ratios(found["times"], name, "wall"), 3) if both else "-",
                tables.mebibytes(None if grown is None else grown - found["limit_bytes"]),
                tables.mebibytes(found["limit_bytes"]),
            )
        )
    head = ("who", "CPU s", "wall s", "einbound / who, CPU", "wall", "workspace MiB", "limit MiB")
    return tables.markdown(head, rows)


def _planning_line(found: dict[str, Any]) -> str:
    planning = found["times"].get("planning", {})
    blocks = found["blocks"]
    ours = (
        f"einbound planned in {planning['cpu_seconds']:.3f} CPU s, {planning['macs']:,} macs, "
        f"loops {planning['loops']}"
        if "macs" in planning
        else f"einbound: {planning.get('failed', 'not measured')}"
    )
    search = found["search"]
    theirs = f"{search['n_searches']} cotengra searches took {search['search_seconds']:.2f} CPU s"
    by_hand = f"variant {blocks['variant']}, blocks {blocks['blocks']}"
    return f"{ours}. {theirs}. Hand-written: {by_hand}. {_roofline(found)}"


def _roofline(found: dict[str, Any]) -> str:
    times = found["times"]
    if "macs" not in times.get("planning", {}):
        return ""
    rate, macs = times["macs_per_second"], times["planning"]["macs"]
    return (
        f"At the rate of a 2048^3 product here ({rate / 1e9:.1f} Gmac/s) einbound's macs take "
        f"{macs / rate:.4f} s."
    )


def _peers_table(found: dict[str, Any]) -> str:
    rows = [
        (row["way"], row["slices"], f"{row['flops_as_counted']:,}", row["largest_elements"],
         f"{row['cpu_seconds']:.3f}")
        for row in found["search"]["tried"]
    ]  # fmt: skip
    head = ("cotengra plan found by", "slices", "macs", "largest tensor, elements", "CPU s")
    return tables.markdown(head, rows)


if __name__ == "__main__":
    sys.exit(main())
