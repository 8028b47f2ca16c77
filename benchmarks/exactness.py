"""Table 7: is the curve of budgets exact, and what does the planner's class lose against it?

Part a compares it with every program of small networks, each run trip by trip; part b with an
independent enumeration that puts programs together, itself checked in part a; part c with programs
drawn at random from larger networks. `eb.plan` itself is asked for a plan at every point of curves
with temporaries. The exit status is 1 if one network differs, or if the class that `eb.plan`
searches, or `eb.plan`, needs more than 1.02 times the multiply-adds in the geometric mean.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterable, Iterator
from math import exp, log, prod
from pathlib import Path
from typing import Any

import machine
import tables

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import einbound as eb  # noqa: E402
from brute import Acted, Case, Composed, random_case, sampled, staircase  # noqa: E402
from einbound.plan.curve import balanced, frontier_of  # noqa: E402
from einbound.plan.tree import Cut  # noqa: E402

#: Of each part: operands, indices that are cut, networks.
PARTS = {
    "a": ((2, 3, 20), (3, 3, 50), (4, 3, 30)),
    "b": ((5, 3, 100), (6, 2, 100)),
    "c": ((6, 4, 20),),
}
#: Programs drawn of each network of part c.
N_DRAWN = 500
#: Budgets: the result and so large a part of what the best order without loops needs beside it.
SHARES = (2, 4, 8, 16, 64)
#: Numbers of slices in the planner's class; 0: single elements.
WIDTHS = (2, 4, 8, 0)
#: Classes that are compared with the curve over all numbers of slices.
CLASSES: dict[str, dict[str, Any]] = {
    "all slices, connected": {"widths": None, "connected_only": True},
    "slices 2 4 8 N": {"widths": WIDTHS},
    "slices 2 4 8 N, depth 3": {"widths": WIDTHS, "n_deep": 3},
    "slices 2 4 8 N, depth 3, connected": {"widths": WIDTHS, "n_deep": 3, "connected_only": True},
}
#: The class of `eb.plan`, and the most that it may lose in the geometric mean.
PLANNED, BAR = "slices 2 4 8 N", 1.02
EFFORT = 60_000
#: Of the comparison with `eb.plan`: one network in so many, points of each, states of its curve.
PLAN_EVERY, N_POINTS, CURVE_STATES = 8, 8, 4_000
#: The cap on depth that is compared with none, where four indices are cut, in these slices.
CAP, CAP_WIDTHS = 3, (4, 0)
PART_HEAD = (
    "part", "operands", "cut", "networks", "more than one point", "programs run", "differ",
    "CPU ms per curve, median (quartiles)",
)  # fmt: skip
CLASS_HEAD = (
    "class", "budgets", "geometric mean", "where the curve repeats work", "worst", "at the worst",
    "no plan at",
)  # fmt: skip


def main() -> int:
    """Compares every network, stores the rows and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=tables.RESULTS, metavar="DIR")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one network in N")
    parser.add_argument("--table-only", action="store_true")
    asked = parser.parse_args()
    if not asked.table_only:
        rows = [compared(part, case) for part, case in cases(asked.every)]
        # Over all slices of four indices the curve takes too long to be exact.
        losses = [row for part, case in cases(asked.every) if part != "c" for row in lost(case)]
        plans = [row for case in planned_cases(asked.every) for row in planned(case)]
        capped = [row for part, case in cases(asked.every) if part == "c" for row in depth(case)]
        data = {
            "machine": machine.parts(),
            "rows": rows,
            "losses": losses,
            "plans": plans,
            "capped": capped,
        }
        tables.store("exactness", data, asked.results)
    data = tables.stored("exactness", asked.results)
    tables.write("exactness", table(data), asked.results)
    wrong = [row for row in data["rows"] if not row["equal"]]
    loss = geometric_mean(ratios(data["losses"], PLANNED))
    of_plans = geometric_mean([row["plan"] / row["curve"] for row in data["plans"]])
    for row in wrong:
        print(f"FAILED {row['equation']} {row['batch_counts']}: {row['curve']} {row['expected']}")
    print(
        f"exactness: {len(data['rows'])} networks, {len(wrong)} differ, class {loss:.4f}x, "
        f"eb.plan {of_plans:.4f}x"
    )
    return 1 if wrong or max(loss, of_plans) > BAR else 0


def cases(every: int) -> Iterator[tuple[str, Case]]:
    """The networks of all parts, one in `every`."""
    for part, groups in PARTS.items():
        for n_operands, n_cut, n_networks in groups:
            for seed in range(0, n_networks, every):
                yield part, random_case(1000 * n_operands + seed, n_operands, n_cut)


def compared(part: str, case: Case) -> dict[str, Any]:
    """One network: its curve, what it should be, and how many programs stood behind that."""
    started = time.process_time()
    curve = eb.budget_curve(
        case.equation, *case.shapes, batch_counts=case.batch_counts, temporaries=False
    )
    spent = time.process_time() - started
    found = [(point.peak_bytes - case.operand_bytes, point.macs) for point in curve]
    expected, n_programs = {"a": one_by_one, "b": composed, "c": drawn}[part](case, found)
    row = {
        "part": part,
        "operands": len(case.shapes),
        "equation": case.equation,
        "extents": case.extents,
        "batch_counts": case.batch_counts,
        "curve": found,
        "expected": expected,
        "programs": n_programs,
        "equal": curve.exact and found == expected,
        "seconds": spent,
    }
    print(part, case.equation, n_programs, len(found), row["equal"], flush=True)
    return row


Points = list[tuple[int, int]]


def one_by_one(case: Case, _: Points) -> tuple[Points, int]:
    """The staircase of all programs, each run, which the other enumeration must find, too."""
    points, n_programs = set(), 0
    for node in case.programs.all():
        ran = Acted(case.programs, node)
        points.add((ran.peak, ran.macs))
        n_programs += 1
    ran_all, put_together = staircase(points), Composed(case.programs).frontier()
    return (ran_all if ran_all == put_together else []), n_programs


def composed(case: Case, _: Points) -> tuple[Points, int]:
    """The staircase of all programs, put together."""
    return Composed(case.programs).frontier(), 0


def drawn(case: Case, found: Points) -> tuple[Points, int]:
    """The staircase of the curve's points and of programs at random, each run."""
    rng, points = random.Random(0), set(found)
    for _ in range(N_DRAWN):
        ran = Acted(case.programs, sampled(rng, case.programs))
        points.add((ran.peak, ran.macs))
    return staircase(points), N_DRAWN


def lost(case: Case) -> Iterator[dict[str, Any]]:
    """For some budgets, the multiply-adds of the curve and of each class; None: nothing fits."""
    network = case.network
    whole = staircase_of(case, widths=None)
    if whole is None:
        return
    plain = frontier_of(network, 8, (), effort=EFFORT).points[-1]
    result = 8 * prod(network.result_shape)
    others = {name: staircase_of(case, **chosen) for name, chosen in CLASSES.items()}
    for share in SHARES:
        budget = result + (plain.peak_bytes - result) // share
        best = fewest(whole, budget)
        if best is not None:
            yield {
                "equation": case.equation,
                "operands": len(case.shapes),
                "share": share,
                "plain": plain.macs,
                "curve": best,
                "classes": {name: fewest(points, budget) for name, points in others.items()},
            }


def planned_cases(every: int) -> Iterator[Case]:
    """The networks whose curves `eb.plan` is compared with."""
    few = (case for part, case in cases(1) if part != "c")
    return (case for number, case in enumerate(few) if number % (PLAN_EVERY * every) == 0)


def planned(case: Case) -> Iterator[dict[str, Any]]:
    """At every point of a curve with temporaries, its multiply-adds and those of `eb.plan`."""
    effort = eb.Effort(states=CURVE_STATES)
    curve = eb.budget_curve(case.equation, *case.shapes, points=N_POINTS, optimize=effort)
    for point in curve:
        plan = eb.plan(case.equation, *case.shapes, memory_limit=point.peak_bytes)
        if point.macs:
            yield {
                "equation": case.equation,
                "limit_bytes": point.peak_bytes,
                "curve": point.macs,
                "plan": plan.macs,
                "proven": plan.proven,
                "fewest": curve[-1].macs,
            }
    print("plan", case.equation, len(curve), flush=True)


def depth(case: Case) -> Iterator[dict[str, Any]]:
    """For some budgets, the multiply-adds with a cap on depth and without."""
    whole = staircase_of(case, CAP_WIDTHS)
    capped = staircase_of(case, CAP_WIDTHS, n_deep=CAP)
    if whole is None or capped is None:
        return
    for budget in sorted({peak for peak, _ in whole}):
        yield {
            "equation": case.equation,
            "curve": fewest(whole, budget),
            "capped": fewest(capped, budget),
        }


def staircase_of(case: Case, widths: tuple[int, ...] | None, **chosen: Any) -> Points | None:
    """The points of a class, or None if they are not known to be all."""
    found = frontier_of(case.network, 8, options(case, widths), effort=EFFORT, **chosen)
    return [(p.peak_bytes, p.macs) for p in found.points] if found.exhausted else None


def options(case: Case, widths: tuple[int, ...] | None) -> tuple[Cut, ...]:
    """The loops over the letters that are cut, in these numbers of slices; None: in all."""
    network = case.network
    found: dict[Cut, None] = {}
    for letter in case.batch_counts:
        extent = case.extents[letter]
        numbers = range(2, extent + 1) if widths is None else [n or extent for n in widths]
        # Only widths matter: of several numbers with one width the fewest slices are taken.
        sizes = {-(-extent // min(n, extent)) for n in numbers}
        index = network.labels.index(letter)
        found |= dict.fromkeys(balanced(index, extent, -(-extent // size)) for size in sizes)
    return tuple(found)


def fewest(points: Points | None, budget: int) -> int | None:
    """The fewest multiply-adds within a budget."""
    return min((macs for peak, macs in points or [] if peak <= budget), default=None)


def ratios(losses: Iterable[dict[str, Any]], name: str) -> list[float]:
    """Multiply-adds of a class by those of the curve, where the class has a plan."""
    return [
        row["classes"][name] / row["curve"]
        for row in losses
        if row["classes"][name] is not None and row["curve"]
    ]


def geometric_mean(values: list[float]) -> float:
    """The geometric mean; 1 of none."""
    return exp(sum(map(log, values)) / len(values)) if values else 1.0


def table(data: dict[str, Any]) -> str:
    """The Markdown page of the stored rows."""
    rows, losses = data["rows"], data["losses"]
    wrong = sum(not row["equal"] for row in rows)
    return "\n\n".join(
        (
            "# Table 7: exact curves",
            machine.line(data["machine"]),
            "Random networks, extents 4 to 24, hyper-indices, outer products and operands that are "
            "summed alone included; some indices are cut into 2 to 4 slices. "
            "`eb.budget_curve(temporaries=False, batch_counts=...)` is compared with **a** every "
            "program, each run trip by trip on sizes, and an enumeration that puts programs "
            "together; **b** that enumeration; **c** programs at random, which must not beat it.",
            f"**{len(rows)} networks, {wrong} differ.**",
            tables.markdown(PART_HEAD, _part_rows(rows)),
            "What classes lose on the same networks against the curve over all numbers of slices, "
            "any depth, all products: budgets are the result and 1/k, k = "
            f"{', '.join(map(str, SHARES))}, of what the best order without loops needs beside it, "
            "wherever the curve has a plan. Multiply-adds of the class by those of the curve.",
            tables.markdown(CLASS_HEAD, [_class_row(losses, name) for name in CLASSES]),
            f"The class of `eb.plan` before it refines widths is *{PLANNED}*: bar "
            f"{BAR:.2f}x. With at most 3 cut indices a depth of 3 is no cap. Networks of parts a "
            "and b.",
            "## `eb.plan` against the curve",
            f"One network in {PLAN_EVERY} of parts a and b. At every point of "
            f"`eb.budget_curve(points={N_POINTS}, optimize=eb.Effort(states={CURVE_STATES}))`, "
            "temporaries included, `eb.plan` is asked for a plan within the point's peak. It may "
            "be better: it refines widths beyond the curve's grid. Multiply-adds of the plan by "
            "those of the curve.",
            tables.markdown(PLAN_HEAD, [_plan_row(*part) for part in _plan_parts(data["plans"])]),
            f"## Depth {CAP} against any depth",
            "Networks of part c, whose four cut indices make the cap bind, in "
            f"{' or '.join(str(n or 'N') for n in CAP_WIDTHS)} slices: at every point of the "
            "staircase of any depth, multiply-adds with the cap by those without.",
            tables.markdown(CAP_HEAD, [_cap_row(data["capped"])]),
        )
    )


PLAN_HEAD = (
    "points", "networks", "number", "geometric mean", "worst", "at the worst", "plan better",
    "equal", "plan worse", "proven", "proven and worse",
)  # fmt: skip
CAP_HEAD = ("networks", "points", "geometric mean", "worst", "dearer", "no plan at")


def _plan_parts(plans: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    yield "all", plans
    yield "where the curve repeats work", [row for row in plans if row["curve"] > row["fewest"]]


def _plan_row(name: str, rows: list[dict[str, Any]]) -> tuple[object, ...]:
    found = [row["plan"] / row["curve"] for row in rows]
    worst = max(rows, key=lambda row: row["plan"] / row["curve"])
    wrong = sum(row["proven"] and row["plan"] > row["curve"] for row in rows)
    return (
        name, len({row["equation"] for row in rows}), len(rows), f"{geometric_mean(found):.4f}",
        f"{max(found):.3f}", f"`{worst['equation']}`, {worst['limit_bytes']} bytes",
        sum(ratio < 1 for ratio in found), sum(ratio == 1 for ratio in found),
        sum(ratio > 1 for ratio in found), sum(row["proven"] for row in rows), wrong,
    )  # fmt: skip


def _cap_row(rows: list[dict[str, Any]]) -> tuple[object, ...]:
    able = [row["capped"] / row["curve"] for row in rows if row["capped"] and row["curve"]]
    return (
        len({row["equation"] for row in rows}), len(rows), f"{geometric_mean(able):.4f}",
        f"{max(able, default=1.0):.3f}", sum(ratio > 1 for ratio in able),
        sum(row["capped"] is None for row in rows),
    )  # fmt: skip


def _part_rows(rows: list[dict[str, Any]]) -> Iterator[tuple[object, ...]]:
    for part, groups in PARTS.items():
        for n_operands, n_cut, _ in groups:
            of = [r for r in rows if (r["part"], r["operands"]) == (part, n_operands)]
            n_programs = sum(row["programs"] for row in of)
            yield (
                part, n_operands, n_cut, len(of), sum(len(row["curve"]) > 1 for row in of),
                f"{n_programs:,}" if n_programs else "-", sum(not row["equal"] for row in of),
                tables.spread([1000 * row["seconds"] for row in of], 1),
            )  # fmt: skip


def _class_row(losses: list[dict[str, Any]], name: str) -> tuple[object, ...]:
    found = ratios(losses, name)
    none = sum(row["classes"][name] is None for row in losses)
    able = [row for row in losses if row["classes"][name] is not None and row["curve"]]
    worst = max(able, key=lambda row: row["classes"][name] / row["curve"])
    where = f"`{worst['equation']}`, k = {worst['share']}"
    tight = ratios((row for row in losses if row["curve"] > row["plain"]), name)
    return (
        name, len(found), f"{geometric_mean(found):.4f}",
        f"{geometric_mean(tight):.4f} ({len(tight)} budgets)", f"{max(found):.3f}", where, none,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
