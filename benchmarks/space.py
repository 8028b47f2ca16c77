"""Table 8: how much of the space of kernels does a search price, and does the model see cliffs?

Part a searches the default menu for random products on three targets; part b a large product with
its lattice of tile sizes lifted; part c ranks geometries that a prototype measured. The exit status
is 1 if a search prices more than a quarter of the leaves in the median, proves nothing, tells what
`verify_trace` does not confirm, or takes two seconds for the lattice.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import machine
import tables

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src")]

from einbound.kernels import (  # noqa: E402
    HardwareLimits,
    KernelSpec,
    MatmulProblem,
    Menu,
    Numerics,
    PipelineKind,
    RegisterTile,
    cost,
    family_tree,
    lift_lattice,
    model_score,
    score_bound,
)
from einbound.machine.gpu import gpu  # noqa: E402
from einbound.machine.limits import CacheLevel  # noqa: E402
from einbound.machine.precision import Precision  # noqa: E402
from einbound.space.search import search  # noqa: E402
from einbound.space.trace import verify_trace  # noqa: E402
from einbound.space.traversal import leaves  # noqa: E402
from einbound.space.tree import Leaf  # noqa: E402

#: One core like those of the prototype, from public figures of Zen 3; two of them.
ZEN_3 = HardwareLimits(
    simd_vector_bytes=32,
    vector_registers=16,
    fma_per_cycle=2,
    fma_latency_cycles=4,
    clock_hz=3.4e9,
    n_cores=2,
    peak_flops=2 * 3.4e9 * 32,
    peak_memory_bandwidth=25e9,
    levels=(
        CacheLevel(2**15, 8, 64, 64 * 3.4e9),
        CacheLevel(2**19, 8, 64, 32 * 3.4e9),
        CacheLevel(2**25, 16, 64, 16 * 3.4e9),
    ),
)
TARGETS = {"cpu": ZEN_3, "sm_80": gpu("sm_80"), "sm_90": gpu("sm_90")}
N_PROBLEMS, SEED = 64, 20260
#: Formats that are drawn for a target.
FORMATS = {
    "cpu": (Precision.FLOAT32, Precision.FLOAT64),
    "sm_80": (Precision.FLOAT16, Precision.FLOAT32, Precision.FLOAT64),
    "sm_90": (Precision.FLOAT16, Precision.FLOAT32, Precision.FLOAT64),
}
#: Extents are drawn evenly in their logarithm.
LARGEST = 4096
#: Share of the leaves that may be priced, in the median, and seconds for the lattice.
BAR_SHARE, BAR_SECONDS = 0.25, 2.0
#: GF/s of the prototype at n = 512, float64, one thread, median of 31 (mr, nr; bm, bn, bk); the
#: last one spills.
MEASURED = (
    (5, 8, 96, 2048, 256, 26.8), (6, 8, 24, 2048, 256, 26.7), (4, 8, 96, 2048, 256, 26.5),
    (4, 12, 192, 2048, 256, 26.5), (6, 8, 768, 2048, 768, 26.4), (6, 8, 12, 2048, 1024, 26.3),
    (6, 8, 48, 2048, 256, 26.1), (6, 8, 96, 512, 256, 26.1), (12, 4, 96, 2048, 256, 21.8),
    (8, 4, 96, 2048, 256, 21.0), (6, 8, 96, 2048, 32, 17.0), (4, 12, 96, 2048, 256, 25.8),
    (6, 8, 96, 2048, 128, 25.2), (6, 8, 96, 2048, 256, 25.2), (6, 8, 384, 2048, 256, 25.3),
    (6, 8, 96, 2048, 512, 25.0), (2, 16, 96, 2048, 256, 23.5), (6, 8, 96, 64, 256, 22.7),
    (6, 8, 96, 2048, 64, 21.5), (6, 8, 24, 64, 64, 20.2), (6, 4, 96, 2048, 256, 20.2),
    (2, 8, 96, 2048, 256, 17.3), (3, 16, 96, 2048, 256, 15.7),
)  # fmt: skip
#: Below it a measured geometry has fallen off the plateau.
CLIFF = 0.9
SEARCH_HEAD = (
    "target", "order", "products", "leaves, median (quartiles)", "priced, median", "priced, worst",
    "bounded one by one, median", "CPU ms, median (quartiles)", "proven", "verified",
)  # fmt: skip
LATTICE_HEAD = (
    "menu", "format", "seconds", "expanded", "priced", "fathomed", "refuted", "proven", "best",
)  # fmt: skip


def main() -> int:
    """Searches all, stores the rows and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=tables.RESULTS, metavar="DIR")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one product in N")
    parser.add_argument("--table-only", action="store_true")
    asked = parser.parse_args()
    if not asked.table_only:
        data = {
            "machine": machine.parts(),
            "searches": [
                searched(target, number, problem, order)
                for target in TARGETS
                for number, problem in enumerate(problems(target))
                if number % asked.every == 0
                for order in ("depth_first", "best_first")
            ],
            "lattices": list(lattices()),
            "geometries": geometries(),
        }
        tables.store("space", data, asked.results)
    data = tables.stored("space", asked.results)
    tables.write("space", table(data), asked.results)
    missed = list(failures(data))
    for line in missed:
        print(f"FAILED {line}")
    print(f"space: {len(data['searches'])} searches, {len(missed)} bars missed")
    return 1 if missed else 0


def problems(target: str) -> Iterator[MatmulProblem]:
    """The random products of a target, the same in every run."""
    draw = random.Random(f"{SEED} {target}")

    def extent() -> int:
        return round(LARGEST ** draw.random())

    for _ in range(N_PROBLEMS):
        number = draw.choice(FORMATS[target])
        yield MatmulProblem(
            m=extent(),
            n=extent(),
            k=extent(),
            batch=draw.choice(((), (), (draw.randint(2, 64),))),
            outer_k=draw.choice(((), (), (draw.randint(2, 8),))),
            a_dtype=number,
            b_dtype=number,
            out_dtype=number,
            b_layout=draw.choice(("plain", "plain", "transposed", "unknown")),
            hoistable=frozenset(draw.choice(("", "", "B", "AB"))),
        )


def searched(target: str, number: int, problem: MatmulProblem, order: str) -> dict[str, Any]:
    """One search with the default menu, confirmed by its trace."""
    limits = TARGETS[target]
    menu = Menu.default(limits)
    score, bound = model_score(problem, limits), score_bound(problem, limits, menu)
    seen = 0

    def counted(path: Any, subtree: Any) -> float | None:
        nonlocal seen
        seen += isinstance(subtree, Leaf)
        return bound(path, subtree)

    started = time.process_time()
    found = search(family_tree(problem, limits, menu), score, counted, order=order)
    spent = time.process_time() - started
    tree = family_tree(problem, limits, menu)
    return {
        "target": target,
        "number": number,
        "problem": problem.to_json(),
        "order": order,
        "leaves": len(leaves(tree)),
        "scored": found.stats.scored + found.stats.unscored,
        "bounded": seen,
        "seconds": spent,
        "predicted_seconds": found.score,
        "proven": found.proven,
        "verified": str(verify_trace(tree, score, bound, found.trace)),
    }


def lattices() -> Iterator[dict[str, Any]]:
    """A large product on sm_90 with the lattice lifted, by the default menu and the reference's."""
    limits = TARGETS["sm_90"]
    for name, menu in (("default", Menu.default(limits)), ("reference", Menu.REFERENCE)):
        for number in (Precision.FLOAT16, Precision.FLOAT32):
            rounded = replace(menu, numerics=Numerics(tf32=True))
            problem = MatmulProblem(
                m=4096, n=4096, k=4096, a_dtype=number, b_dtype=number, out_dtype=number
            )
            bound = score_bound(problem, limits, rounded)
            started = time.process_time()
            tree = lift_lattice(family_tree(problem, limits, rounded))
            found = search(tree, model_score(problem, limits), bound)
            yield {
                "menu": name,
                "format": str(number),
                "seconds": time.process_time() - started,
                "expanded": found.stats.expanded,
                "scored": found.stats.scored,
                "fathomed": found.stats.fathomed,
                "refuted": found.stats.refuted,
                "proven": found.proven,
                "best": " > ".join(decision.label for _, decision in found.path or ()),
            }


def geometries() -> list[dict[str, Any]]:
    """What the prototype measured beside what the model predicts."""
    problem = MatmulProblem(
        m=512, n=512, k=512,
        a_dtype=Precision.FLOAT64, b_dtype=Precision.FLOAT64, out_dtype=Precision.FLOAT64,
    )  # fmt: skip
    rows = []
    for mr, nr, bm, bn, bk, measured in MEASURED:
        spec = KernelSpec(
            gpu=False,
            pipeline=PipelineKind.TENSORIZED,
            mma=True,
            packed=True,
            # Blocks of the prototype end with the extent; those of the family are padded.
            bm=-(-512 // -(-512 // bm)),
            bn=bn if bn < 512 else 0,
            bk=min(bk, 512),
            tile=RegisterTile(mr, nr // 4, 4),
        )
        found = cost(spec, problem, ZEN_3)
        assert found is not None, "the model covers a CPU whose units are known"
        predicted = 2 * problem.macs / found.seconds / 1e9
        label = f"{mr}x{nr} {bm},{bn},{bk}"
        rows.append({"geometry": label, "measured": measured, "predicted": predicted})
    return rows


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """The correlation of ranks, ties sharing theirs."""
    first, second = ranks(one), ranks(other)
    mean = (len(one) + 1) / 2
    products = sum((x - mean) * (y - mean) for x, y in zip(first, second, strict=True))
    norms = [sum((x - mean) ** 2 for x in each) for each in (first, second)]
    return float(products / (norms[0] * norms[1]) ** 0.5)


def ranks(values: Sequence[float]) -> list[float]:
    """The place of each value, from 1."""
    return [
        sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values
    ]


def failures(data: dict[str, Any]) -> Iterator[str]:
    """The bars that were missed."""
    for target in TARGETS:
        for order in ("depth_first", "best_first"):
            rows = [r for r in data["searches"] if (r["target"], r["order"]) == (target, order)]
            share = median(row["scored"] / max(1, row["leaves"]) for row in rows)
            if share > BAR_SHARE:
                yield f"{target} {order}: {share:.2f} of the leaves are priced"
    for row in data["searches"]:
        if not row["proven"] or row["verified"] != "confirmed":
            yield f"{row['target']} {row['problem']}: {row['proven']} {row['verified']}"
    for row in data["lattices"]:
        if not row["proven"] or row["seconds"] >= BAR_SECONDS:
            yield f"lattice {row['menu']} {row['format']}: {row['seconds']:.2f} s"


def table(data: dict[str, Any]) -> str:
    """The page."""
    shown, predicted = data["geometries"], [row["predicted"] for row in data["geometries"]]
    measured = [row["measured"] for row in shown]
    top, best = max(measured), max(predicted)
    fallen = [row for row in shown if row["measured"] < CLIFF * top]
    seen = sum(row["predicted"] < CLIFF * best for row in fallen)
    wrongly = sum(row["predicted"] < CLIFF * best for row in shown) - seen
    rows = [
        (row["geometry"], row["measured"], f"{row['predicted']:.1f}",
         f"{row['measured'] / top:.2f}", f"{row['predicted'] / best:.2f}")
        for row in sorted(shown, key=lambda row: -row["measured"])
    ]  # fmt: skip
    share = f"{spearman(measured, predicted):.2f}"
    return f"""# Table 9: the space of kernels

{machine.line(data["machine"])}

{N_PROBLEMS} random products per target (seed {SEED}: extents 1 to {LARGEST} evenly in their
logarithm, some with batches, outer contracted loops, persistent operands), `Menu.default`, the
model's seconds as the score and `score_bound` as the bound. Priced: scored by the search, of all
leaves. Bounded one by one: leaves whose own bound was asked, which is then their score; all others
were left out with a subtree above them. Verified: `verify_trace` confirms the trace, every leaf
that was left out priced again. Bar: at most {BAR_SHARE:.0%} priced in the median, all proven.

{tables.markdown(SEARCH_HEAD, list(search_rows(data["searches"])))}

4096 x 4096 x 4096 on sm_90, the lattice of tile sizes lifted. Bar: proof in {BAR_SECONDS:.0f} s.

{tables.markdown(LATTICE_HEAD, [lattice_row(row) for row in data["lattices"]])}

Geometries that a prototype measured (512 x 512 x 512, float64, one thread of Zen 3, GF/s) beside
the model, with ports, latencies and caches from public figures; the cycles of packing and of
entering a tile were chosen with this table at hand. Spearman **{share}**. Of the {len(fallen)}
that were measured below {CLIFF:.0%} of the best, the model has {seen} below {CLIFF:.0%} of its
own, and {wrongly} others. Differences of 5 % are noise of the measurement.

{tables.markdown(("mr x nr; bm, bn, bk", "measured", "model", "of best", "model, of best"), rows)}
"""


def search_rows(rows: list[dict[str, Any]]) -> Iterator[tuple[object, ...]]:
    """One line per target and order of search."""
    for target, order in dict.fromkeys((row["target"], row["order"]) for row in rows):
        some = [row for row in rows if (row["target"], row["order"]) == (target, order)]
        shares = [row["scored"] / max(1, row["leaves"]) for row in some]
        bounded = [row["bounded"] / max(1, row["leaves"]) for row in some]
        yield (
            target,
            order.replace("_", "-"),
            len(some),
            tables.spread([row["leaves"] for row in some], 0),
            f"{median(shares):.1%}",
            f"{max(shares):.1%}",
            f"{median(bounded):.0%}",
            tables.spread([1e3 * row["seconds"] for row in some], 1),
            sum(row["proven"] for row in some),
            sum(row["verified"] == "confirmed" for row in some),
        )


def lattice_row(row: dict[str, Any]) -> tuple[object, ...]:
    """One line of the lattice's table."""
    counts = [row[name] for name in ("expanded", "scored", "fathomed", "refuted")]
    return row["menu"], row["format"], f"{row['seconds']:.2f}", *counts, row["proven"], row["best"]


if __name__ == "__main__":
    sys.exit(main())
