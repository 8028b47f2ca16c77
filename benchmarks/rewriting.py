"""Table 10: what do sharing and factoring save, and do rewritten forests compute the same?

Part a rewrites random sums of products, evaluates both forests in exact arithmetic, and rewrites
the same sums with terms and factors shuffled; part b rewrites the residuals of coupled cluster with
singles and doubles. The exit status is 1 if a forest computes something else, takes more
multiply-adds than before or than was told, depends on the order of its terms, or if coupled
cluster takes more than five seconds.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from typing import Any

import machine
import numpy as np
import tables

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from ccsd import ccsd  # noqa: E402
from einbound.forest.rewriting import Way, rewritten  # noqa: E402
from sums import arrays, evaluated, random_sums, recounted  # noqa: E402

N_FORESTS = 1000
ITERATIONS = (1, 10)
#: Occupied and virtual spin orbitals.
SIZES = ((4, 8), (10, 40), (20, 100))
MOST_SECONDS = 5
RANDOM_HEAD = (
    "evaluations", "forests", "rewritten", "differ", "more macs", "order matters",
    "macs before / after, geometric mean", "CPU ms, median (quartiles)",
)  # fmt: skip
CCSD_HEAD = (
    "occupied, virtual", "evaluations", "terms", "macs before", "macs after", "ratio", "shares",
    "folds", "products", "CPU s",
)  # fmt: skip


def main() -> int:
    """Rewrites all forests, stores the rows and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=tables.RESULTS, metavar="DIR")
    parser.add_argument("--forests", type=int, default=N_FORESTS, metavar="N")
    parser.add_argument("--table-only", action="store_true")
    asked = parser.parse_args()
    if not asked.table_only:
        data = {
            "machine": machine.parts(),
            "random": [row for n in ITERATIONS for row in drawn(n, asked.forests)],
            "ccsd": [cluster(*size, n) for size in SIZES for n in ITERATIONS],
        }
        tables.store("rewriting", data, asked.results)
    data = tables.stored("rewriting", asked.results)
    tables.write("rewriting", table(data), asked.results)
    wrong = [row for row in data["random"] if not (row["equal"] and row["fewer"] and row["same"])]
    slow = [row for row in data["ccsd"] if row["seconds"] > MOST_SECONDS]
    for row in wrong:
        print(f"FAILED seed {row['seed']}, {row['iterations']} evaluations")
    print(f"rewriting: {len(data['random'])} forests, {len(wrong)} wrong, {len(slow)} slow")
    return 1 if wrong or slow else 0


def drawn(iterations: int, n_forests: int) -> Iterator[dict[str, Any]]:
    """Random forests, rewritten."""
    for seed in range(n_forests):
        rng = random.Random(seed)
        sums = random_sums(rng)
        forest = sums.forest
        started = time.process_time()
        done = rewritten(forest, iterations)
        spent = time.process_time() - started
        leaves = arrays(forest, seed)
        pairs = zip(evaluated(forest, leaves), evaluated(done.forest, leaves), strict=True)
        after = recounted(done.forest, iterations)
        yield {
            "seed": seed,
            "iterations": iterations,
            "equal": all(np.array_equal(one, two) for one, two in pairs),
            "fewer": after == done.after.macs <= recounted(forest, iterations),
            "same": rewritten(sums.shuffled(rng).forest, iterations).after == done.after,
            "n_gains": len(done.gains),
            "before": done.before.macs,
            "after": done.after.macs,
            "seconds": spent,
        }


def cluster(n_occupied: int, n_virtual: int, iterations: int) -> dict[str, Any]:
    """Coupled cluster, rewritten."""
    forest = ccsd(n_occupied, n_virtual)
    started = time.process_time()
    done = rewritten(forest, iterations)
    spent = time.process_time() - started
    return {
        "size": (n_occupied, n_virtual),
        "iterations": iterations,
        "n_terms": len(forest.productions),
        "n_products": len(done.forest.productions),
        "before": done.before.macs,
        "after": done.after.macs,
        "n_shares": sum(gain.way is Way.SHARED for gain in done.gains),
        "n_folds": sum(gain.way is Way.FOLDED for gain in done.gains),
        "seconds": spent,
    }


def table(data: dict[str, Any]) -> str:
    """The Markdown page of the stored rows."""
    return "\n\n".join(
        (
            "# Table 10: sharing and factoring",
            machine.line(data["machine"]),
            "Random sums of products of a few matrices, much of them equal, evaluated in exact "
            "arithmetic before and after, counted again in whole numbers, and rewritten once more "
            "with terms and factors in another order.",
            tables.markdown(RANDOM_HEAD, [_random_row(data["random"], n) for n in ITERATIONS]),
            "## Coupled cluster",
            "Residuals of singles and doubles in spin orbitals without intermediates, permutations "
            "written out, amplitudes volatile. Products are what is left to compute, sums of "
            f"single tensors included. Bar: {MOST_SECONDS} s.",
            tables.markdown(CCSD_HEAD, [_ccsd_row(row) for row in data["ccsd"]]),
        )
    )


def _random_row(rows: list[dict[str, Any]], iterations: int) -> tuple[object, ...]:
    mine = [row for row in rows if row["iterations"] == iterations]
    logs = [log(row["before"] / row["after"]) for row in mine if row["after"]]
    return (
        iterations,
        len(mine),
        sum(row["n_gains"] > 0 for row in mine),
        sum(not row["equal"] for row in mine),
        sum(not row["fewer"] for row in mine),
        sum(not row["same"] for row in mine),
        f"{exp(sum(logs) / len(logs)):.2f}",
        tables.spread([1000 * row["seconds"] for row in mine], 1),
    )


def _ccsd_row(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        ", ".join(map(str, row["size"])),
        row["iterations"],
        row["n_terms"],
        f"{row['before']:,}",
        f"{row['after']:,}",
        f"{row['before'] / row['after']:.2f}",
        row["n_shares"],
        row["n_folds"],
        row["n_products"],
        f"{row['seconds']:.2f}",
    )


if __name__ == "__main__":
    raise SystemExit(main())
