"""Table 8: what do cotengra's orders add to plans of more than 13 operands within a limit?

Networks of 14 to 165 operands at memory_limit = operands + result + W0/k. Macs, peaks by the meter
and CPU seconds of planning: with the planner's own orders alone, with cotengra's beside them
(`Effort(cotengra_trials=...)`), with own orders of another seed beside them instead, and with
trees that cotengra itself sliced and reconfigured down to the limit, given as `optimize=`.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import cotengra
import large_nets
import machine
import numpy as np
import peers
import tables
from networks import SHIPPED, Network
from ratios import geometric_mean

import einbound as eb

NAME = "peer_orders"
SHARES = (4, 16, 64)
TRIALS = 8
#: Sliced trees: trials of each search, and parts of the room that its largest value may take.
SLICED_TRIALS, PARTS = 8, (1, 4)
#: Networks that are stored, beside those that are drawn.
STORED = ("peps5x5_D4_norm", "reg3_n60_D4", "circ5x5_d8")
#: Fewer macs that count as a gain: of all rows together, and of one row.
GAINS = (0.98, 0.90)


def main() -> int:
    """Plans every row, stores them and writes the table."""
    asked = _arguments()
    warnings.simplefilter("ignore")
    if not asked.table_only:
        _gather(asked)
    text = table(tables.stored(NAME, asked.results))
    tables.write(NAME, text, asked.results)
    print(text)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*large_nets.drawn(), *STORED]
    parser.add_argument("--only", nargs="+", default=names, choices=names, metavar="NETWORK")
    parser.add_argument("--shares", nargs="+", type=int, default=list(SHARES), metavar="K")
    parser.add_argument("--results", type=Path, default=tables.RESULTS, metavar="DIR")
    parser.add_argument("--resume", action="store_true", help="keep the rows already stored")
    parser.add_argument("--table-only", action="store_true")
    return parser.parse_args()


def _gather(asked: argparse.Namespace) -> None:
    rows: list[dict[str, Any]] = []
    if asked.resume and (asked.results / f"{NAME}.json").exists():
        rows = tables.stored(NAME, asked.results)["rows"]
    known = {(row["network"], row["k"]) for row in rows}
    head = {"machine": machine.parts(), "cotengra": cotengra.__version__, "trials": TRIALS}
    for name in asked.only:
        shares = [k for k in asked.shares if (name, k) not in known]
        for row in measured(name, shares) if shares else ():
            rows.append(row)
            tables.store(NAME, {**head, "rows": rows}, asked.results)


def network_of(name: str) -> Network:
    """The network of that name."""
    drawn = large_nets.drawn()
    return drawn[name]() if name in drawn else large_nets.stored(SHIPPED / f"{name}.json")


def measured(name: str, shares: list[int]) -> Iterator[dict[str, Any]]:
    """One row for every share."""
    network = network_of(name)
    free = eb.plan(network.equation, *network.shapes, dtype=network.dtype)
    for k in shares:
        room = free.workspace_bytes // k
        limit = free.operand_bytes + network.result_bytes + room
        slicers = [partial(_sliced, network, room // part) for part in PARTS]
        found = {
            "own": _planned(network, limit, partial(eb.Effort, cotengra_trials=0)),
            "cotengra": _planned(network, limit, partial(eb.Effort, cotengra_trials=TRIALS)),
            "seed": _planned(network, limit, partial(eb.Effort, seed=1, cotengra_trials=0)),
            "sliced": [_planned(network, limit, slicer) for slicer in slicers],
        }
        yield {
            "network": name,
            "operands": len(network.shapes),
            "k": k,
            "limit_bytes": limit,
            "free_macs": free.macs,
            **found,
        }


def _planned(network: Network, limit: int, optimize: Callable[[], Any]) -> dict[str, Any]:
    """Counts of a plan, and the CPU seconds that it took with everything in `optimize`."""
    began = process_time()
    try:
        plan = eb.plan(
            network.equation, *network.shapes, dtype=network.dtype, memory_limit=limit,
            optimize=optimize(),
        )  # fmt: skip
    except eb.BudgetError as error:
        return {"macs": None, "why": str(error), "seconds": process_time() - began}
    return {
        "macs": plan.macs,
        "peak_bytes": plan.peak_bytes,
        "origin": plan.proof.origin,
        "seconds": process_time() - began,
    }


def _sliced(network: Network, room_bytes: int) -> Any:
    """The best tree of some trials, each sliced and reconfigured for a target."""
    target = max(room_bytes // np.dtype(network.dtype).itemsize, 1)
    random.seed(0)  # this search draws from the module's own generator
    optimizer = cotengra.HyperOptimizer(
        methods=["greedy", "labels"], max_repeats=SLICED_TRIALS, minimize="flops", seed=0,
        parallel=False, optlib="random", slicing_reconf_opts={"target_size": target},
    )  # fmt: skip
    return optimizer.search(*peers.terms(network))


# the page ---------------------------------------------------------------------------------------

#: What is put beside the planner's own orders, and how it is called.
BESIDE = {"cotengra": "cotengra's orders", "seed": "another seed", "sliced": "sliced trees"}


def ratio(row: dict[str, Any], kind: str) -> float | None:
    """Macs with `kind` beside the own orders over those without; None where nothing fits."""
    own, other = row["own"]["macs"], _macs(row, kind)
    if own is None or other is None:
        return None
    return float(min(own, other) / own)


def _macs(row: dict[str, Any], kind: str) -> int | None:
    several = row[kind] if isinstance(row[kind], list) else [row[kind]]
    return min((one["macs"] for one in several if one["macs"] is not None), default=None)


def _seconds(row: dict[str, Any], kind: str) -> float:
    """Seconds of planning with `kind` beside the own orders, which `cotengra` includes."""
    if kind in ("own", "cotengra"):
        return float(row[kind]["seconds"])
    several = row[kind] if isinstance(row[kind], list) else [row[kind]]
    return float(row["own"]["seconds"] + sum(one["seconds"] for one in several))


def table(data: dict[str, Any]) -> str:
    """The Markdown page of the stored rows."""
    rows = data["rows"]
    parts = [
        "# Table 8: cotengra's orders beside our own, above 13 operands",
        machine.line(data["machine"]),
        f"memory_limit = operands + result + W0/k. cotengra {data['cotengra']} without cotengrust "
        f"and kahypar, {data['trials']} trials. Macs over those of the own plan without a limit; "
        "in brackets what the better of own and other plan has over the own one. `another seed`: "
        "the control, as many own orders again. `sliced trees`: the best of "
        f"{SLICED_TRIALS} trials sliced and reconfigured by cotengra until no value takes more "
        f"than W0/k, and 1/{PARTS[-1]} of that, then our loops on each of these orders. Seconds "
        "are CPU seconds of one plan with everything that it takes.",
        _summary(rows),
        _rows(rows),
    ]
    return "\n\n".join(parts)


def _summary(rows: list[dict[str, Any]]) -> str:
    head = ("beside our own", "rows", "geometric mean of macs", f"rows below {GAINS[1]}", "best",
            "CPU seconds of all rows", "of the worst row")  # fmt: skip
    cells = []
    for kind, name in BESIDE.items():
        found = [r for row in rows if (r := ratio(row, kind)) is not None]
        slower = [_seconds(row, kind) / _seconds(row, "own") for row in rows]
        total = sum(_seconds(row, kind) for row in rows) / sum(_seconds(row, "own") for row in rows)
        best, many = min(found), sum(one < GAINS[1] for one in found)
        mean = geometric_mean(found)
        cells.append((name, len(found), f"{mean:.3f}", many, f"{best:.3f}", f"{total:.2f}x",
                      f"{max(slower):.2f}x"))  # fmt: skip
    return tables.markdown(head, cells)


def _rows(rows: list[dict[str, Any]]) -> str:
    head = ("network", "operands", "k", "limit MiB", "own", "peak MiB", "s", "cotengra's",
            "peak MiB", "s", "another seed", "sliced trees", "s")  # fmt: skip
    return tables.markdown(head, map(_cells, rows))


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        row["network"],
        row["operands"],
        row["k"],
        tables.mebibytes(row["limit_bytes"]),
        _count(row, "own"),
        tables.mebibytes(row["own"].get("peak_bytes")),
        f"{_seconds(row, 'own'):.1f}",
        _count(row, "cotengra"),
        tables.mebibytes(row["cotengra"].get("peak_bytes")),
        f"{_seconds(row, 'cotengra'):.1f}",
        _count(row, "seed"),
        _count(row, "sliced"),
        f"{_seconds(row, 'sliced') - _seconds(row, 'own'):.1f}",
    )


def _count(row: dict[str, Any], kind: str) -> str:
    macs = _macs(row, kind)
    if macs is None:
        return "refused"
    text = f"{macs / row['free_macs']:.3f}"
    gain = None if kind == "own" else ratio(row, kind)
    return text if gain is None else f"{text} ({gain:.3f})"


if __name__ == "__main__":
    sys.exit(main())
