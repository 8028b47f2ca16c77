"""How long does planning take, and how much memory, by operands and batchable indices?

Random connected networks, mostly 2 to 5 indices per operand with 16 to 128 elements; some
indices may be cut into 8 trips, or in the wider columns into 2, 4, 8 or all. The budget is the
result and an eighth of what the best order without loops takes beyond it; networks that it does
not suffice for are left out. Times are CPU times of one thread, tables of a network included,
each from a fresh start. Memory is what the planner allocates, traced in runs of its own.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median
from time import process_time
from typing import Any

import tables
from children import run_script

from einbound.expr.network import Access, Network
from einbound.plan.answers import ExactFound
from einbound.plan.exact import exact_plans, exact_search
from einbound.plan.peak import least_peak
from einbound.plan.problem import Problem, options_of
from einbound.plan.tree import Cut

CELLS = tuple((n, m) for n in (4, 6, 8, 10, 12) for m in (4, 6))
LARGE = (13, 7)
N_NETWORKS = 50
N_LARGE = 10
SEED = 17
ITEMSIZE = 8
TRIPS = 8
GRID = (2, 4, 8)
#: Operands up to which the least peak is asked for, and up to which the grid of widths.
N_LOWEST = 8
N_GRID = 12
#: States of each search at most, and of those whose memory is traced, which makes them slow.
N_SEARCHED = 20_000
N_TRACED = 2_000
#: Networks that one child measures.
N_TOGETHER = 5

#: Medians in seconds that are to be kept: (column, operands) and a limit.
BARS = {
    ("plan", 4): 0.004,
    ("plan", 6): 0.012,
    ("plan", 8): 0.040,
    ("plan", 10): 0.150,
    ("plan", 12): 0.150,
    ("exact", 12): 0.900,
    ("proof", 4): 0.2,
    ("proof", 6): 0.2,
    ("proof", 8): 0.2,
    ("lowest", 4): 2.0,
    ("lowest", 6): 2.0,
    ("lowest", 8): 2.0,
}
#: Factor that the grid of widths may take on top.
GRID_FACTOR = 4
MOST_BYTES = 64 << 20
#: Seconds for each of the largest networks: to a plan, and to the exact one.
LARGE_BARS = (2.0, 20.0)


@dataclass(frozen=True, slots=True)
class Case:
    """One network with its budget.

    Attributes:
        network: What is contracted.
        modes: The indices that may be cut.
        budget_bytes: Bytes of intermediates and result.
    """

    network: Network
    modes: tuple[int, ...]
    budget_bytes: int

    @property
    def options(self) -> tuple[Cut, ...]:
        """One width per index."""
        return options_of(self.network, {i: (TRIPS,) for i in self.modes})

    @property
    def grid(self) -> tuple[Cut, ...]:
        """Four widths per index."""
        extents = self.network.extents
        return options_of(self.network, {i: (*GRID, extents[i]) for i in self.modes})


def random_network(rng: random.Random, n_operands: int) -> Network:
    """A connected network: a tree of shared indices, more pairs, some on three operands or open."""
    inputs: list[list[int]] = [[] for _ in range(n_operands)]
    n = 0
    for k in range(1, n_operands):
        near = sorted(range(k), key=lambda j: (len(inputs[j]), rng.random()))
        inputs[k].append(n)
        inputs[near[0] if rng.random() < 0.7 else rng.randrange(k)].append(n)
        n += 1
    output: list[int] = []
    for _ in range(rng.randint(n_operands // 2, n_operands)):
        several = min(rng.choices((2, 3), (5, 1))[0], n_operands)
        free = [k for k in range(n_operands) if len(inputs[k]) < 5]
        if len(free) < several:
            break
        for k in rng.sample(free, several):
            inputs[k].append(n)
        if rng.random() < 0.1:
            output.append(n)
        n += 1
    for k in rng.sample(range(n_operands), rng.randint(2, min(4, n_operands))):
        if len(inputs[k]) < 5:
            inputs[k].append(n)
            output.append(n)
            n += 1
    extents = tuple(rng.choice((16, 24, 32, 48, 64, 96, 128)) for _ in range(n))
    accesses = tuple(Access(tuple((k,) for k in range(len(ix)))) for ix in inputs)
    return Network(
        tuple(f"i{k}" for k in range(n)),
        extents,
        tuple(map(tuple, inputs)),
        tuple(output),
        accesses,
    )


def cases(n_operands: int, n_modes: int, seed: int = SEED) -> Iterator[Case]:
    """Networks whose budget suffices, one after another."""
    rng = random.Random(f"{seed} {n_operands} {n_modes}")
    while True:
        network = random_network(rng, n_operands)
        n = len(network.extents)
        if n < n_modes:
            continue
        modes = tuple(sorted(rng.sample(range(n), n_modes)))
        plain = exact_search(network, ITEMSIZE, None, ())
        assert isinstance(plain, ExactFound)
        result = ITEMSIZE * network.size(network.output)
        budget = result + (plain.peak_bytes - result) // 8
        case = Case(network, modes, budget)
        if plain.peak_bytes > result and _suffices(case):
            yield case


def _suffices(case: Case) -> bool:
    found = exact_search(
        case.network, ITEMSIZE, case.budget_bytes, case.options, n_deep=2, connected_only=True
    )
    return isinstance(found, ExactFound)


def timed(job: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of a job, and what it gave."""
    start = process_time()
    found = job()
    return process_time() - start, found


def measured(case: Case, options: tuple[Cut, ...]) -> dict[str, Any]:
    """Times to a plan and to the exact one."""
    start = process_time()
    row: dict[str, Any] = {}
    problem = Problem(case.network, ITEMSIZE, options)
    for found in exact_plans(problem, case.budget_bytes, effort=N_SEARCHED):
        row.setdefault("plan", process_time() - start)
        row.setdefault("plan_macs", found.macs if isinstance(found, ExactFound) else None)
    row["exact"] = process_time() - start
    assert isinstance(found, ExactFound), "only networks with a plan are asked for"
    row |= {
        "macs": found.macs,
        "bound_macs": found.bound_macs,
        "states": found.states,
        "exhausted": found.exhausted,
    }
    return row


def figures(case: Case, n: int) -> dict[str, Any]:
    """All figures of one network."""
    row: dict[str, Any] = {"one": measured(case, case.options)}
    if n <= N_GRID:
        row["grid"] = measured(case, case.grid)
    if n <= N_LOWEST:
        row["lowest"], lowest = timed(lambda: least_peak(case.network, ITEMSIZE, case.options))
        below = lowest.found.peak_bytes - 1
        row["proof"], nothing = timed(
            lambda: exact_search(case.network, ITEMSIZE, below, case.options)
        )
        row["proven"] = lowest.found.exhausted and nothing == replace(nothing, exhausted=True)
    tracemalloc.start()
    exact_search(case.network, ITEMSIZE, case.budget_bytes, case.options, effort=N_TRACED)
    row["n_bytes"] = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return row


def main() -> int:
    """Measures all cells, stores every network and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--table-only", action="store_true")
    parser.add_argument("--networks", type=int, default=N_NETWORKS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(_cell(json.loads(sys.stdin.readline()))))
        return 0
    if not asked.table_only:
        _measure(asked.networks)
    data = tables.stored("planner")
    tables.write("planner", table(data))
    missed = [text for text, is_met in bars(data) if not is_met]
    print("\n".join(missed) or "all bars are met")
    return 1 if missed else 0


def _measure(n_networks: int) -> None:
    """Runs one child per cell and stores each as it ends."""
    data: dict[str, Any] = {"machine": run_script("machine.py", [], one_thread=True), "cells": []}
    for n, m in (*CELLS, LARGE):
        number = min(n_networks, N_LARGE) if (n, m) == LARGE else n_networks
        rows = []
        for first in range(0, number, N_TOGETHER):
            task = {"n": n, "m": m, "first": first, "last": min(first + N_TOGETHER, number)}
            found = run_script("planner.py", ["--child"], json.dumps(task) + "\n", one_thread=True)
            rows += found if isinstance(found, list) else [found] * (task["last"] - first)
        data["cells"].append({"n": n, "m": m, "networks": rows})
        tables.store("planner", data)


def _cell(task: dict[str, int]) -> list[dict[str, Any]]:
    """The figures of some networks of one cell."""
    wanted = islice(cases(task["n"], task["m"]), task["first"], task["last"])
    return [figures(case, task["n"]) for case in wanted]


def column(cell: dict[str, Any], name: str) -> list[float]:
    """Seconds of all networks of a cell: `plan`, `exact`, `proof`, `lowest`, `grid plan`, ..."""
    *kind, what = name.split()
    found = []
    for row in cell["networks"]:
        part = row.get(kind[0]) if kind else (row.get("one") if what in row.get("one", {}) else row)
        if part and what in part:
            found.append(part[what])
    return found


def bars(data: dict[str, Any]) -> list[tuple[str, bool]]:
    """What was asked for, and whether it is met."""
    found = []
    for cell in data["cells"]:
        n, m = cell["n"], cell["m"]
        died = sum("died" in row for row in cell["networks"])
        found.append((f"{n} operands, {m} indices: {died} runs died", not died))
        if (n, m) == LARGE:
            found += _large_bars(cell)
            continue
        for (name, operands), most in BARS.items():
            for kind, factor in (("", 1), ("grid ", GRID_FACTOR)):
                seconds = column(cell, kind + name) if n == operands else []
                if seconds:
                    text = f"{n} operands, {m} indices, {kind}{name}: {median(seconds):.4f} s"
                    found.append((f"{text} of {most * factor} s", median(seconds) <= most * factor))
        most_bytes = max(
            (row["n_bytes"] for row in cell["networks"] if "n_bytes" in row), default=0
        )
        text = f"{n} operands, {m} indices: {tables.mebibytes(most_bytes)} MiB"
        found.append((text, most_bytes < MOST_BYTES))
    return found


def _large_bars(cell: dict[str, Any]) -> list[tuple[str, bool]]:
    found = []
    for number, row in enumerate(row for row in cell["networks"] if "one" in row):
        one = row["one"]
        gap = one["macs"] / max(one["bound_macs"], 1) - 1
        text = f"network {number} of {cell['n']} operands: plan after {one['plan']:.2f} s"
        text += f", {'exact' if one['exhausted'] else f'gap {gap:.1%}'} after {one['exact']:.2f} s"
        found.append((text, one["plan"] <= LARGE_BARS[0]))
    return found


def table(data: dict[str, Any]) -> str:
    """The page of results."""
    names = ("plan", "exact", "grid plan", "grid exact", "proof", "lowest")
    rows = []
    for cell in data["cells"]:
        figures_ = [_spread(column(cell, name)) for name in names]
        proven = sum(row.get("one", {}).get("exhausted", False) for row in cell["networks"])
        most = max(row.get("n_bytes", 0) for row in cell["networks"])
        number = f"{proven} of {len(cell['networks'])}"
        rows.append([f"{cell['n']}, {cell['m']}", *figures_, number, tables.mebibytes(most)])
    head = ["operands, indices", *names, "proven", "most MiB"]
    lines = ["# Time to plan", "", *__doc__.splitlines()[2:], ""]
    lines += [
        "CPU milliseconds: median / 90th percentile / largest.",
        "",
        tables.markdown(head, rows),
    ]
    lines += ["", *(f"- {'met' if is_met else 'MISSED'}: {text}" for text, is_met in bars(data))]
    return "\n".join(lines)


def _spread(seconds: list[float]) -> str:
    if not seconds:
        return "-"
    ranked = sorted(seconds)
    high = ranked[min(int(0.9 * len(ranked)), len(ranked) - 1)]
    return " / ".join(f"{1e3 * s:.1f}" for s in (median(ranked), high, ranked[-1]))


if __name__ == "__main__":
    sys.exit(main())
