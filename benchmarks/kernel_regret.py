"""How good is the kernel that is chosen without measuring, and after five measurements?

Forty geometries of the register tiles and blocks below are compiled and run beside the chosen
kernels on one thread, in rounds of rotating order. The best geometry is picked on even rounds and
every kernel is scored on odd ones. Regret is the score of a choice over that of the best, less 1;
the noise is the same of the untuned choice against itself. "untuned" knows no record of this
machine, "calibrated" the speeds of its register tiles, "tuned" has measured five kernels besides.
Bars: regret above the noise, mean of all rows, at most 7 % untuned and 3 % tuned.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any

import children
import machine
import tables

import einbound as eb
from einbound.kernels import KernelSpec, MatmulProblem, PipelineKind, RegisterTile
from einbound.kernels.pick import untuned
from einbound.tune.bench import Bench
from einbound.tune.build import Toolchain, find_compiler
from einbound.tune.compilers import Compiler
from einbound.tune.measure import Rounds, measure
from einbound.tune.tuner import Allowance, Built
from einbound.tune.workshop import Workshop

ROUNDS = 31
BUDGET = 5
MOST = {"untuned": 0.07, "calibrated": 0.07, "tuned": 0.03}
PRODUCTS = {
    "320": ("ik,kj->ij", {"i": 320, "j": 320, "k": 320}),
    "384": ("ik,kj->ij", {"i": 384, "j": 384, "k": 384}),
    "512": ("ik,kj->ij", {"i": 512, "j": 512, "k": 512}),
    "192 x 1024 x 384": ("ik,kj->ij", {"i": 192, "j": 1024, "k": 384}),
    "eafb,fdec->abcd": ("eafb,fdec->abcd", dict.fromkeys("abcd", 20) | {"e": 18, "f": 18}),
    "aebf,dfce->abcd": ("aebf,dfce->abcd", dict.fromkeys("abcd", 20) | {"e": 18, "f": 18}),
}
TILES = ((14, 2), (12, 2), (9, 3), (8, 3), (6, 4), (4, 6), (12, 1), (4, 4))
BLOCKS = ((96, 2048, 256), (192, 2048, 128), (512, 0, 384), (48, 512, 256), (256, 256, 64))


def main() -> int:
    """Measures every product in a child of its own, stores it and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--table-only", action="store_true")
    parser.add_argument("--results", default=None, help="folder; by default that of the project")
    asked = parser.parse_args()
    if asked.child:
        return children.serve(calibrated if asked.child == "calibrated" else measured)
    folder = tables.Path(asked.results) if asked.results else tables.RESULTS
    if not asked.table_only:
        rows = []
        kept = tempfile.TemporaryDirectory()
        place = {"folder": kept.name}
        ready = children.ask(
            "kernel_regret.py", "calibrated", place, one_thread=True, unpinned=True
        )
        assert "died" not in ready, ready
        for name, dtype in product(PRODUCTS, ("float64", "float32")):
            task = {"product": name, "dtype": dtype, **place}
            row = children.ask("kernel_regret.py", "measured", task, one_thread=True, unpinned=True)
            rows.append({**task, **row})
            print(" | ".join(cells(rows[-1])), flush=True)
        found = children.run_script("machine.py", [], one_thread=True, unpinned=True)
        tables.store("kernel_regret", {"machine": found, "rows": rows}, folder)
    data = tables.stored("kernel_regret", folder)
    tables.write("kernel_regret", table(data), folder)
    for text, _ in bars(data):
        print(f"kernel_regret: {text}")
    return 0 if all(met for _, met in bars(data)) else 1


def calibrated(task: Mapping[str, Any]) -> dict[str, Any]:
    """The speeds of register tiles, kept in the folder."""
    compiler = find_compiler(None)
    assert isinstance(compiler, Compiler), compiler
    shop = Workshop.here(Toolchain(compiler, Path(task["folder"]) / "cache")).calibrated()
    return {"n": len(shop.limits.tile_speeds)}


def measured(task: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of every kernel in every round."""
    equation, sizes = PRODUCTS[task["product"]]
    shapes = [tuple(sizes[each] for each in term) for term in equation.split("->")[0].split(",")]
    plan = eb.plan(equation, *shapes, dtype=task["dtype"])
    way = plan.meter().steps[0].way
    assert way is not None
    problem = MatmulProblem.from_step(way.pair).canonical
    compiler = find_compiler(None)
    assert isinstance(compiler, Compiler), compiler
    workshop = Workshop.here(Toolchain(compiler, Path(task["folder"]) / "cache"))
    bench = Bench.of(problem, workshop.toolchain, workshop.limits)
    first = untuned(problem, replace(workshop.limits, tile_speeds=()))
    known = untuned(problem, workshop.limits)
    tuned = workshop.tune(problem, Allowance(budget=BUDGET))
    assert tuned.winner is not None
    specs = {"untuned": first, "untuned again": first}
    specs |= {"calibrated": known, "tuned": tuned.winner.spec}
    specs |= geometries(first, 8 if task["dtype"] == "float64" else 16)
    runs = {}
    for name, spec in specs.items():
        built = bench(problem, spec)
        assert isinstance(built, Built), (name, built)
        runs[name] = built.run
    timings = measure(list(runs.values()), Rounds(rounds=ROUNDS))
    seconds = {
        name: [float(f"{sample:.4g}") for sample in each.samples]
        for name, each in zip(runs, timings, strict=True)
    }
    flops = 2 * problem.macs
    labels = {name: _label(specs[name]) for name in MOST}
    return {"seconds": seconds, "flops": flops, "labels": labels}


def _label(spec: KernelSpec) -> str:
    return f"{spec.tile} {spec.bm},{spec.bn},{spec.bk}{' swapped' if spec.swapped else ''}"


def geometries(like: KernelSpec, lanes: int) -> dict[str, KernelSpec]:
    """Packed kernels of all tiles and blocks, group orders and roles as in another one."""
    base = replace(like, pipeline=PipelineKind.TENSORIZED, packed=True, mma=True)
    return {
        f"{rm}x{rn} {bm},{bn},{bk}": replace(
            base, tile=RegisterTile(rm, rn, lanes), bm=bm, bn=bn, bk=bk
        )
        for (rm, rn), (bm, bn, bk) in product(TILES, BLOCKS)
    }


def scores(row: Mapping[str, Any]) -> dict[str, float]:
    """Regret of each choice, and the noise, as shares."""
    even = {name: median(each[0::2]) for name, each in row["seconds"].items()}
    odd = {name: median(each[1::2]) for name, each in row["seconds"].items()}
    best = odd[min(even, key=lambda name: even[name])]
    noise = abs(odd["untuned"] / odd["untuned again"] - 1)
    typical = median(odd.values())
    return {
        "noise": noise,
        **{name: odd[name] / best - 1 for name in MOST},
        "median geometry": typical / best - 1,
    }


def bars(data: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Every bar, and whether it was met."""
    found = []
    for name, bar in MOST.items():
        above = mean(max(0.0, each[name] - each["noise"]) for each in map(scores, data["rows"]))
        text = f"regret above the noise, {name}: {above:.1%}, bar {bar:.0%}"
        found.append((f"{text}: {'met' if above <= bar else 'MISSED'}", above <= bar))
    return found


def cells(row: Mapping[str, Any]) -> list[str]:
    """One row of the table."""
    seen = scores(row)
    even = {name: median(each[0::2]) for name, each in row["seconds"].items()}
    best = min(even, key=lambda name: even[name])
    rate = 1e-9 * row["flops"] / even[best]
    shares = [f"{seen[name]:.1%}" for name in ("noise", *MOST, "median geometry")]
    return [row["product"], row["dtype"], best, f"{rate:.1f}", *shares]


def table(data: Mapping[str, Any]) -> str:
    """The Markdown page."""
    head = (
        "product",
        "type",
        "best",
        "GFLOP/s",
        "noise",
        *MOST,
        "median of all",
    )
    said = "\n".join(f"* {text}" for text, _ in bars(data))
    return "\n\n".join(
        (
            "# Table 14: regret of kernels that are chosen without and after measurements",
            __doc__.partition("\n")[2].strip(),
            machine.line(data["machine"]),
            said,
            tables.markdown(head, [cells(row) for row in data["rows"]]),
        )
    )


if __name__ == "__main__":
    raise SystemExit(main())
