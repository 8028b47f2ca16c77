"""Table 6: random networks of three to six operands within a limit, beside two peers.

Twenty networks, five of each size, drawn once from fixed seeds and kept in `data/random/`, at
memory_limit = operands + result + W0/k. Peers: the fastest of cotengra's first three plans by
macs whose true peak keeps the limit, and the fastest plan of one loop by hand, which is what a
person would write: the best order without a limit and one index cut at the last step, in the
widest blocks that fit. Only means and the worst rows are held against a bar.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import alternate
import limits
import machine
import planner_limits
import tables
from alternate import cpu_seconds
from children import ask, run_script, serve
from drawn import FOLDER
from measure import largest_difference
from networks import Network, files, load
from ratios import Ratio, geometric_mean, paired

NAME = "random_nets"
KIND = planner_limits.KIND
SHARES = (4, 16)
#: CPU seconds of all rounds of a row, how many one-loop plans are tried, and the largest means.
ROUNDS_SECONDS, TRIED = 1.0, 3
BARS = {"cotengra": 1.0, "one loop": 1.05}
#: How many of the worst rows the table shows apart.
WORST = 3


def main() -> int:
    """Plans and times every row, stores them and writes the table."""
    asked = _arguments()
    if asked.child:
        return serve(CHILDREN[asked.child])
    if not asked.table_only:
        _gather(asked)
    data = tables.stored(NAME, asked.results)
    tables.write(NAME, table(data), asked.results)
    print(f"{NAME}:", *(text for text, _ in bars(data["rows"])), sep="\n  ")
    return 0 if all(is_met for _, is_met in bars(data["rows"])) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="NETWORK")
    parser.add_argument("--shares", nargs="+", type=int, default=list(SHARES), metavar="K")
    parser.add_argument("--results", type=Path, default=tables.RESULTS, metavar="DIR")
    parser.add_argument("--resume", action="store_true", help="keep the networks already stored")
    parser.add_argument("--table-only", action="store_true")
    parser.add_argument("--child", choices=tuple(CHILDREN), help=argparse.SUPPRESS)
    return parser.parse_args()


def _gather(asked: argparse.Namespace) -> None:
    head = {"machine": run_script("machine.py", [], **KIND)}
    known = []
    if asked.resume and (asked.results / f"{NAME}.json").exists():
        known = tables.stored(NAME, asked.results)["rows"]
    rows: list[dict[str, Any]] = []
    for path in files(FOLDER):
        if asked.only and path.stem not in asked.only:
            continue
        found = [row for row in known if row["network"] == path.stem]
        if {row["k"] for row in found} < set(asked.shares):
            found = list(_measure(path, asked.shares))
        rows += found
        tables.store(NAME, {**head, "rows": rows}, asked.results)


def _measure(path: Path, shares: list[int]) -> Iterator[dict[str, Any]]:
    task = {"network": str(path), "layout": "plain", "shares": shares}
    planned = _child("plan", task)
    if "died" in planned:
        yield from ({"network": path.stem, "k": k, "failed": planned["died"]} for k in shares)
        return
    for row in planned["rows"]:
        found = {"network": path.stem, "equation": load(path).equation, **row}
        if row["ours"]:
            task = {
                "network": str(path), "limit": row["limit_bytes"], "choice": row["theirs"],
            }  # fmt: skip
            found["times"] = _child("time", task)
        print(_line(found), flush=True)
        yield found


def _child(action: str, task: dict[str, Any]) -> dict[str, Any]:
    return ask(f"{NAME}.py", action, task, **KIND)


def _time_child(task: dict[str, Any]) -> dict[str, Any]:
    contest = alternate.Contest.of(task)
    arrays = contest.arrays
    sides: dict[str, Callable[[], float]] = {"einbound": contest.seconds}
    facts: dict[str, Any] = {}
    by_hand = one_loop(contest.network, arrays, task["limit"])
    if by_hand is not None:
        sides["one loop"] = lambda: cpu_seconds(lambda: by_hand(*arrays))
        facts["one loop"] = [planner_limits.loop_text(loop) for loop in by_hand.loops]
        facts["relative_error"] = largest_difference(contest.plan(*arrays), by_hand(*arrays))
    if contest.peer is not None:
        sides["cotengra"] = contest.peer.seconds
        facts["cotengra"] = contest.peer.facts()
    return {**facts, "seconds": alternate.rounds(sides, ROUNDS_SECONDS)}


def one_loop(network: Network, arrays: Any, limit: int) -> Any:
    """The fastest plan within the limit that cuts at most one index at the last step."""
    import einbound as eb

    free = eb.plan(network.equation, *arrays)
    if free.peak_bytes <= limit:
        return free
    labels = sorted(set(network.equation) - set(",->"))
    found = []
    for label in labels:
        extent = _extent(network, label)
        counts = sorted({-(-extent // width) for width in range(1, extent)})
        for n_batches in counts:
            loop = eb.Loop(label, node=-1, n_batches=n_batches)
            plan = eb.Plan.build(network.equation, *arrays, path=free.path, loops=[loop])
            if plan.peak_bytes <= limit:
                found.append(plan)
                break
    found.sort(key=lambda plan: plan.seconds)
    return min(found[:TRIED], key=partial(_seconds, arrays), default=None)


def _seconds(arrays: Any, plan: Any) -> float:
    """CPU seconds of the second call of a plan."""
    plan(*arrays)
    return cpu_seconds(partial(plan, *arrays))


def _extent(network: Network, label: str) -> int:
    terms = network.equation.split("->")[0].split(",")
    return next(
        extent
        for term, shape in zip(terms, network.shapes, strict=True)
        for index, extent in zip(term, shape, strict=True)
        if index == label
    )


CHILDREN = {"plan": planner_limits.plan_rows, "time": _time_child}


# the page ---------------------------------------------------------------------------------------


def ratio(row: dict[str, Any], peer: str) -> Ratio | None:
    """CPU time of einbound over a peer's, or None where that was not timed."""
    seconds = row.get("times", {}).get("seconds", {})
    return paired(seconds["einbound"], seconds[peer]) if peer in seconds else None


def bars(rows: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Each bar as text, and whether it is met."""
    found = []
    for peer, bar in BARS.items():
        values = [r.median for row in rows if (r := ratio(row, peer)) is not None]
        mean = geometric_mean(values)
        text = f"einbound / {peer}: geometric mean {mean:.3f}x of {len(values)} rows, bar {bar}"
        found.append((f"{text}: {'met' if mean <= bar else 'MISSED'}", mean <= bar))
    lost = [row for row in rows if planner_limits.macs_verdict(row) not in ACCEPTED]
    names = ", ".join(f"{row['network']} k={row['k']}" for row in lost)
    text = f"macs at most cotengra's in {len(rows) - len(lost)} of {len(rows)} rows"
    found.append((text + (f"; MISSED: {names}" if lost else ""), not lost))
    return found


ACCEPTED = ("met", "cotengra has none", limits.REFUSED)


def _line(row: dict[str, Any]) -> str:
    text = f"{row['network']:11} k={row['k']:2} {planner_limits.macs_verdict(row):18}"
    return f"{text} {' '.join(f'{peer} {ratio(row, peer)}' for peer in BARS)}"


def table(data: dict[str, Any]) -> str:
    """The Markdown page of the stored rows."""
    rows = data["rows"]
    parts = [
        "# Table 6: random networks within a limit",
        machine.line(data["machine"]),
        "Twenty random networks of 3 to 6 operands (benchmarks/drawn.py), "
        "memory_limit = operands + result + W0/k, W0 = workspace of the plan without a limit. "
        "Median of paired ratios of process CPU time with its 95 % bootstrap interval, alternating "
        "rounds in one process, one BLAS thread. `cotengra`: the fastest of its first three plans "
        "by macs whose true peak keeps the limit. `one loop`: the fastest of einbound's own plans "
        "written by hand with one index cut at the last step, in the widest blocks that fit.",
        "\n".join(f"- {text}" for text, _ in bars(rows)),
    ]
    for peer in BARS:
        timed = [row for row in rows if ratio(row, peer) is not None]
        worst = sorted(timed, key=lambda row: -paired_median(row, peer))[:WORST]
        parts += [f"## The worst rows against {peer}", _table(worst)]
    return "\n\n".join((*parts, "## All rows", _table(rows)))


def paired_median(row: dict[str, Any], peer: str) -> float:
    """The median ratio of a row that was timed."""
    found = ratio(row, peer)
    assert found is not None, f"{row['network']} was not timed against {peer}"
    return found.median


def _table(rows: list[dict[str, Any]]) -> str:
    head = ("network", "equation", "k", "einbound CPU s", "/ cotengra", "/ one loop", "macs",
            "einbound's loops", "cotengra's", "one loop")  # fmt: skip
    return tables.markdown(head, map(_cells, rows))


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    head = (row["network"], f"`{row.get('equation', '-')}`", row["k"])
    times = row.get("times", {})
    if "seconds" not in times:
        why = times.get("died", planner_limits.macs_verdict(row))
        return (*head, *["-"] * 3, why, *["-"] * 3)
    theirs = times.get("cotengra")
    return (
        *head,
        tables.spread(times["seconds"]["einbound"], 4),
        *(ratio(row, peer) or "-" for peer in ("cotengra", "one loop")),
        planner_limits.macs_verdict(row),
        " ".join(row["ours"]["loops"]) or "none",
        (" ".join(theirs["sliced"]) or "none") + f" ({theirs['slices']})" if theirs else "-",
        " ".join(times.get("one loop", ())) or "-",
    )


if __name__ == "__main__":
    sys.exit(main())
