"""Table 5: are plans within a limit as good as cotengra's best at the same true peak?

Every network with up to six operands, in every layout, at memory_limit = operands + result +
W0/k: macs beside the fewest of all cotengra plans whose true peak keeps the limit. Plain layouts
and sliding windows are also timed against the fastest of the first three of those, in alternating
rounds of one process with one BLAS thread. The exit status is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

import alternate
import candidates
import limits
import machine
import tables
from candidates import Held
from children import ask, run_script, serve
from measure import largest_difference
from networks import LAYOUTS, Network, blanks, load, operand_bytes
from ratios import Ratio, geometric_mean, paired
from trial import is_wrong, loop_text

NAME = "planner_limits"
KIND = {"one_thread": True, "unpinned": True}
#: Layouts whose rows are timed; the others differ in macs and peaks only.
TIMED = ("plain", "windows")
#: Candidates of fewest macs of which the fastest is timed.
FIRST = 3
#: Largest ratio of CPU times of one row, largest upper end of its interval, and largest mean.
ROW_BAR, INTERVAL_BAR, MEAN_BAR = 1.05, 1.10, 0.60


def main() -> int:
    """Plans and times every row, stores them and writes the table."""
    asked = _arguments()
    if asked.child:
        return serve(CHILDREN[asked.child])
    if not asked.table_only:
        limits.gather(NAME, {"machine": run_script("machine.py", [], **KIND)}, _measure, asked)
    data = tables.stored(NAME, asked.results)
    tables.write(NAME, table(data), asked.results)
    print(f"{NAME}:", *(text for text, _ in bars(data["rows"])), sep="\n  ")
    return 0 if all(is_met for _, is_met in bars(data["rows"])) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--also", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("--only", action="append", default=[], metavar="NETWORK")
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS), choices=LAYOUTS)
    parser.add_argument("--shares", nargs="+", type=int, default=list(limits.SHARES), metavar="K")
    parser.add_argument("--results", type=Path, default=tables.RESULTS, metavar="DIR")
    parser.add_argument("--resume", action="store_true", help="keep the cases already stored")
    parser.add_argument("--macs-only", action="store_true", help="time nothing")
    parser.add_argument("--table-only", action="store_true")
    parser.add_argument("--child", choices=tuple(CHILDREN), help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure(
    path: Path, layout: str, scratch: Path, asked: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Rows of one network in one layout, one per share."""
    head = {"network": load(path).name, "layout": limits.layout_name(path, layout)}
    task = {"network": str(path), "layout": layout, "shares": asked.shares}
    planned = _child("plan", task)
    if "died" in planned:
        yield from ({**head, "k": k, "failed": planned["died"]} for k in asked.shares)
        return
    for row in planned["rows"]:
        found = {**head, **row}
        if head["layout"] in TIMED and row["ours"] and row["theirs"] and not asked.macs_only:
            task = {"network": str(path), "limit": row["limit_bytes"], "choice": row["theirs"]}
            found["times"] = _child("time", task)
        print(_line(found), flush=True)
        yield found


def _child(action: str, task: dict[str, Any]) -> dict[str, Any]:
    return ask(f"{NAME}.py", action, task, **KIND)


# what the children do ---------------------------------------------------------------------------


def plan_rows(task: dict[str, Any]) -> dict[str, Any]:
    """One row per share: einbound's plan and the candidates that keep the same limit."""
    import einbound as eb

    path = Path(task["network"])
    network = load(path)
    arrays = blanks(network, task["layout"])
    free = eb.plan(network.equation, *arrays)
    fixed = {
        "operand_bytes": operand_bytes(arrays),
        "result_bytes": network.result_bytes,
        "workspace_bytes": free.workspace_bytes,
    }
    found = candidates.of(network, path)
    plain = [candidates.held(network, arrays, one) for one in found]
    hoisted = [candidates.held(network, arrays, one, hoisted=True) for one in found]
    rows = []
    for k in task["shares"]:
        limit = limits.memory_limit(fixed, k)
        theirs, kept = _within(plain, limit), _within(hoisted, limit)
        rows.append(
            {
                "k": k,
                "limit_bytes": limit,
                "unlimited_macs": free.macs,
                **_ours(network, arrays, limit),
                "n_candidates": len(found),
                "n_within": len(theirs),
                "theirs": [asdict(one) for one in theirs[:FIRST]],
                "hoisted": [asdict(one) for one in kept[:1]],
            }
        )
    return {"rows": rows}


def _within(found: Iterable[Held], limit: int) -> list[Held]:
    """Those that keep the limit, fewest macs first."""
    kept = [one for one in found if one.peak_bytes <= limit]
    return sorted(kept, key=lambda one: (one.macs, one.candidate.slices))


def _ours(network: Network, arrays: Any, limit: int) -> dict[str, Any]:
    import einbound as eb

    began = time.process_time()
    try:
        plan = eb.plan(network.equation, *arrays, memory_limit=limit)
    except eb.BudgetError as error:
        is_proven = error.lower_bound_bytes > limit
        refusal = {"text": str(error), "is_proven": is_proven}
        return {"ours": None, "refusal": refusal, "plan_seconds": time.process_time() - began}
    ours = {
        "macs": plan.macs,
        "peak_bytes": plan.peak_bytes,
        "loops": [loop_text(loop) for loop in plan.loops],
        "path": plan.path,
        "levels": list(plan.levels.values()),
        "proven": bool(plan.proven),
    }
    return {"ours": ours, "plan_seconds": time.process_time() - began}


def _time_child(task: dict[str, Any]) -> dict[str, Any]:
    contest = alternate.Contest.of(task)
    peer = contest.peer
    assert peer is not None, "rows without a plan of cotengra's are not timed"
    facts = {**peer.facts(), "dtype": contest.network.dtype}
    if peer.is_whole:
        result = contest.plan(*contest.arrays)
        facts["relative_error"] = largest_difference(result, peer.contract())
    sides = {"ours": contest.seconds, "theirs": peer.seconds}
    return {**facts, **alternate.rounds(sides, is_clear=_is_clear)}


def _is_clear(taken: dict[str, list[float]]) -> bool:
    """The interval of the ratio lies on one side of the bars."""
    found = paired(taken["ours"], taken["theirs"])
    is_met = found.median <= ROW_BAR and found.high < INTERVAL_BAR
    return is_met or found.low > ROW_BAR


CHILDREN = {"plan": plan_rows, "time": _time_child}


# what the rows say ------------------------------------------------------------------------------


def macs_verdict(row: dict[str, Any]) -> str:
    """How the macs of a row stand."""
    if "failed" in row:
        return f"FAILED: {row['failed']}"
    if row["ours"] is None:
        proven = row["refusal"]["is_proven"] and not row["theirs"]
        return limits.REFUSED if proven else "REFUSED"
    if not row["theirs"]:
        return "cotengra has none"
    return "met" if row["ours"]["macs"] <= row["theirs"][0]["macs"] else "MORE MACS"


def ratio(row: dict[str, Any]) -> Ratio | None:
    """CPU time of einbound over cotengra's, or None where a row was not timed."""
    times = row.get("times")
    if times is None or "ours" not in times:
        return None
    return paired(times["ours"], times["theirs"])


def time_verdict(row: dict[str, Any]) -> str:
    """How the times of a row stand."""
    found = ratio(row)
    if found is None:
        return f"DIED: {row['times'].get('died', 'no times')}"
    if "relative_error" in row["times"] and is_wrong(row["times"]):
        return f"WRONG RESULT ({row['times']['relative_error']:.0e})"
    if found.median > ROW_BAR:
        return "SLOWER"
    return "met" if found.high < INTERVAL_BAR else "TOO UNSURE"


def bars(rows: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Each bar as text, and whether it is met."""
    verdicts = [macs_verdict(row) for row in rows]
    bad = [verdict for verdict in verdicts if verdict not in ("met", "cotengra has none")]
    bad = [verdict for verdict in bad if verdict != limits.REFUSED]
    met = verdicts.count("met")
    alone = verdicts.count("cotengra has none")
    found = [
        (
            f"macs: {met} of {len(rows)} rows at most cotengra's, {alone} where no plan of "
            f"cotengra's keeps the limit, {verdicts.count(limits.REFUSED)} {limits.REFUSED}, "
            f"{len(bad)} missed",
            not bad,
        )
    ]
    timed = [row for row in rows if "times" in row]
    slow = [row for row in timed if time_verdict(row) != "met"]
    names = ", ".join(f"{row['network']} k={row['k']}" for row in slow)
    found.append(
        (
            f"CPU time at most {ROW_BAR}x, interval below {INTERVAL_BAR}x: "
            f"{len(timed) - len(slow)} of {len(timed)} rows"
            + (f"; MISSED: {names}" if slow else ""),
            not slow,
        )
    )
    mean = geometric_mean([r.median for row in timed if (r := ratio(row)) is not None])
    is_met = mean <= MEAN_BAR or not timed
    state = "met" if is_met else "MISSED"
    found.append((f"geometric mean of CPU times {mean:.3f}x, bar {MEAN_BAR}: {state}", is_met))
    return found


def _line(row: dict[str, Any]) -> str:
    text = f"{row['network']:16} {row['layout']:11} k={row['k']:2} {macs_verdict(row):18}"
    return f"{text} {ratio(row)} {time_verdict(row)}" if "times" in row else text


# the page ---------------------------------------------------------------------------------------


def table(data: dict[str, Any]) -> str:
    """The Markdown page of the stored rows."""
    rows = data["rows"]
    parts = [
        "# Table 5: plans within a limit beside cotengra's at the same true peak",
        machine.line(data["machine"]),
        "memory_limit = operands + result + W0/k, W0 = workspace of the plan without a limit. "
        "cotengra: all different plans of 5 seeds, two scores and four ways of slicing for twelve "
        "targets (benchmarks/candidates.py); of those whose true peak keeps the limit the one of "
        "fewest macs. Both true peaks are counted by einbound's meter, on the same tree with "
        "cotengra's loops outermost, one element wide, nothing hoisted. `hoisted` is the fewest "
        "macs of the same plans if values were made as far out as they can be, within the limit: "
        "for information.",
        "\n".join(f"- {text}" for text, _ in bars(rows)),
        "## CPU time",
        f"Medians of alternating rounds in one process, one BLAS thread, process CPU time; ratio "
        f"with the 95 % bootstrap interval of the median of paired ratios. cotengra runs the "
        f"fastest of its first {FIRST} plans within the limit by macs; where a contraction takes "
        f"longer than {alternate.MOST_SECONDS:.0f} s it is timed on evenly spread slices and "
        f"scaled (slices timed / all), adding them up not counted. There are "
        f"{alternate.FEWEST_ROUNDS} to {alternate.MOST_ROUNDS} rounds, and up to three times as "
        f"many where the interval holds a bar.",
        _times_table([row for row in rows if "times" in row]),
        "## Geometric means by network",
        _means_table([row for row in rows if ratio(row) is not None]),
        "## Macs",
        _macs_table(rows),
    ]
    return "\n\n".join(parts)


def _times_table(rows: list[dict[str, Any]]) -> str:
    head = ("network", "k", "einbound CPU s", "cotengra CPU s", "einbound / cotengra", "macs ratio",
            "einbound's loops", "cotengra's slices", "planning CPU s", "verdict")  # fmt: skip
    return tables.markdown(head, map(_time_cells, rows))


def _time_cells(row: dict[str, Any]) -> tuple[object, ...]:
    head, times = (row["network"], row["k"]), row["times"]
    if ratio(row) is None:
        return (*head, *["-"] * 7, time_verdict(row))
    sliced = f"{' '.join(times['sliced']) or 'none'} ({times['timed_slices']} / {times['slices']})"
    return (
        *head,
        tables.spread(times["ours"], 4),
        tables.spread(times["theirs"], 4),
        ratio(row),
        f"{row['ours']['macs'] / max(times['macs'], 1):.3f}",
        " ".join(row["ours"]["loops"]) or "none",
        sliced,
        f"{row['plan_seconds']:.2f}",
        time_verdict(row),
    )


def _means_table(rows: list[dict[str, Any]]) -> str:
    cells = []
    for name, group in groupby(rows, key=lambda row: row["network"]):
        found = [r.median for row in group if (r := ratio(row)) is not None]
        cells.append((name, len(found), f"{geometric_mean(found):.3f}", f"{max(found):.3f}"))
    return tables.markdown(("network", "rows", "geometric mean", "largest"), cells)


def _macs_table(rows: list[dict[str, Any]]) -> str:
    head = ("network", "layout", "k", "limit MiB", "einbound macs / unlimited", "peak MiB",
            "cotengra macs / unlimited", "peak MiB", "sliced", "hoisted", "within the limit",
            "verdict")  # fmt: skip
    return tables.markdown(head, map(_macs_cells, rows))


def _macs_cells(row: dict[str, Any]) -> tuple[object, ...]:
    head = (row["network"], row["layout"], row["k"])
    if "failed" in row:
        return (*head, *["-"] * 8, macs_verdict(row))
    return (
        *head,
        tables.mebibytes(row["limit_bytes"]),
        *_counts(row, row["ours"]),
        *_counts(row, row["theirs"][0] if row["theirs"] else None),
        " ".join(row["theirs"][0]["candidate"]["sliced"]) or "none" if row["theirs"] else "-",
        _counts(row, row["hoisted"][0] if row["hoisted"] else None)[0],
        f"{row['n_within']} / {row['n_candidates']}",
        macs_verdict(row),
    )


def _counts(row: dict[str, Any], side: dict[str, Any] | None) -> tuple[str, str]:
    """Macs over those without a limit, and the peak, of one side."""
    if side is None:
        return "-", "-"
    return (
        f"{side['macs'] / max(row['unlimited_macs'], 1):.4f}",
        tables.mebibytes(side["peak_bytes"]),
    )


if __name__ == "__main__":
    sys.exit(main())
