"""Is a contraction of two tensors ever slower than the best of the libraries at hand?

The 48 TCCG cases in C order, one BLAS thread, results in C order. In each round every candidate
runs once, in rotating order; the fastest peer of a case is picked on even rounds, and all ratios
are of odd ones. Ratios are the peer's time over ours: above 1, ours is faster.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import alternate
import children
import machine
import numpy as np
import ratios
import tables
import tccg
from measure import warm_blas

#: Seconds that a side may take in one round; slower peers cannot be the best and are left out.
MOST_SECONDS = 2.0
ROUNDS = 6
DTYPES = ("float64", "float32")
#: Bars of geometric means over all cases of a kind, and of the worst case.
LEAST_MEAN, LEAST_CASE, LEAST_OUT, LEAST_BOUND = 1.2, 0.9, 1.7, 0.97
#: Largest relative error against numpy.
TOLERANCE = {"float64": 1e-11, "float32": 1e-4}

Call = Callable[[], Any]


def main() -> int:
    """Measures every case in a child of its own, stores it and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--table-only", action="store_true")
    parser.add_argument("--only", nargs="+", type=int, help="numbers of cases")
    parser.add_argument("--dtypes", nargs="+", default=DTYPES, choices=DTYPES)
    parser.add_argument("--results", default=None, help="folder; by default that of the project")
    asked = parser.parse_args()
    if asked.child:
        return children.serve(measured)
    folder = tables.Path(asked.results) if asked.results else tables.RESULTS
    if not asked.table_only:
        rows: list[dict[str, Any]] = []
        found = children.run_script("machine.py", [], one_thread=True, unpinned=True)
        for case in tccg.cases():
            for dtype in asked.dtypes:
                if asked.only and case.number not in asked.only:
                    continue
                task = {"number": case.number, "dtype": dtype}
                row = children.ask(
                    "contractions.py", "measured", task, one_thread=True, unpinned=True
                )
                rows.append({**task, "equation": case.equation, **row})
                tables.store("contractions", {"machine": found, "rows": rows}, folder)
                print(line(rows[-1]), flush=True)
    data = tables.stored("contractions", folder)
    tables.write("contractions", table(data), folder)
    for text, _ in bars(data):
        print(f"contractions: {text}")
    return 0 if all(met for _, met in bars(data)) else 1


def measured(task: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of every candidate in every round, results checked."""
    case = next(case for case in tccg.cases() if case.number == task["number"])
    dtype = task["dtype"]
    warm_blas(dtype)
    draw = np.random.default_rng(case.number)
    a, b = (draw.standard_normal(shape).astype(dtype) for shape in case.shapes(dtype))
    right = np.ascontiguousarray(np.einsum(case.equation, a, b, optimize=True))
    plain = {**peers(case.equation, a, b), **ours(case.equation, a, b)}
    out = np.empty_like(right)
    into = into_given(case.equation, a, b, out)
    errors = {name: error(call(), right, dtype) for name, call in plain.items()}
    for name, call in into.items():
        out.fill(np.nan)
        call()
        errors[f"{name}, out="] = error(out, right, dtype)
    kept = {
        name: call for name, call in plain.items() if alternate.cpu_seconds(call) < MOST_SECONDS
    }
    return {
        "wrong": sorted(name for name, one in errors.items() if one),
        "choice": chosen(case.equation, a, b),
        "plain": rounds(kept),
        "out": rounds(into),
    }


def peers(equation: str, a: np.ndarray, b: np.ndarray) -> dict[str, Call]:
    """The calls of other libraries, each with a result in C order."""
    import opt_einsum
    import pytblis
    import torch

    torch.set_num_threads(1)
    pytblis.set_num_threads(1)
    ta, tb = torch.from_numpy(a), torch.from_numpy(b)
    axes, order = tensordot_axes(equation)
    expression = opt_einsum.contract_expression(equation, a.shape, b.shape)
    return {
        "numpy.einsum": lambda: np.ascontiguousarray(np.einsum(equation, a, b, optimize=True)),
        "tensordot": lambda: np.ascontiguousarray(np.tensordot(a, b, axes).transpose(order)),
        "opt_einsum": lambda: np.ascontiguousarray(expression(a, b)),
        "torch.einsum": lambda: torch.einsum(equation, ta, tb).contiguous(),
        "pytblis": lambda: np.ascontiguousarray(pytblis.einsum(equation, a, b)),
    }


def ours(equation: str, a: np.ndarray, b: np.ndarray) -> dict[str, Call]:
    """A prepared plan of each kind."""
    import einbound as eb

    found: dict[str, Call] = {}
    for backend in ("auto", "native"):
        plan = eb.plan(equation, a, b, backend=backend, order="C")
        found[backend] = lambda plan=plan: plan(a, b)
    return found


def into_given(equation: str, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> dict[str, Call]:
    """Calls that write into memory of the caller's."""
    import einbound as eb

    axes, order = tensordot_axes(equation)
    plan = eb.plan(equation, a, b, backend="auto")
    return {
        "auto": lambda: plan(a, b, out=out),
        "tensordot": lambda: np.copyto(out, np.tensordot(a, b, axes).transpose(order)),
    }


def chosen(equation: str, a: np.ndarray, b: np.ndarray) -> str:
    """How `auto` does the one step."""
    import einbound as eb

    plan = eb.plan(equation, a, b, backend="auto", order="C")
    return str(plan.meter().steps[0].way.describe())


def tensordot_axes(equation: str) -> tuple[tuple[list[int], list[int]], tuple[int, ...]]:
    """The axes that tensordot sums, and those of its result in the order of the einsum text."""
    terms, result = equation.split("->")
    first, second = terms.split(",")
    summed = [i for i in first if i not in result]
    free = [i for i in first + second if i in result]
    places = ([first.index(i) for i in summed], [second.index(i) for i in summed])
    return places, tuple(free.index(i) for i in result)


def error(found: Any, right: np.ndarray, dtype: str) -> float:
    """The relative error, or 0 if it is within rounding."""
    largest = float(np.abs(np.asarray(found) - right).max() / np.abs(right).max())
    return 0.0 if largest < TOLERANCE[dtype] else largest


def rounds(calls: Mapping[str, Call]) -> dict[str, list[float]]:
    """CPU seconds of each call in every round; each round starts with another one."""
    names = list(calls)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for number in range(ROUNDS):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            taken[name].append(alternate.cpu_seconds(calls[name]))
    return taken


def best_peer(row: Mapping[str, Any]) -> str:
    """The fastest library on even rounds."""
    times = {k: v for k, v in row["plain"].items() if k not in ("auto", "native")}
    return min(times, key=lambda name: median(times[name][::2]))


def scored(row: Mapping[str, Any], kind: str, ours: str, theirs: str) -> float:
    """Their time over ours on odd rounds; infinite where theirs was too slow to be timed."""
    taken = row[kind]
    if theirs not in taken:
        return float("inf")
    return ratios.paired(taken[theirs][1::2], taken[ours][1::2]).median


def bars(data: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Each bar as text, and whether it is met."""
    bound = {case.number for case in tccg.cases() if case.is_compute_bound}
    found = []
    good = [row for row in data["rows"] if "died" not in row]
    found.append((f"{len(good)} of {len(data['rows'])} cases ran", len(good) == len(data["rows"])))
    wrong = [f"{row['number']} {row['dtype']}" for row in good if row["wrong"]]
    found.append(
        (f"{len(wrong)} cases with a wrong result: {', '.join(wrong) or 'none'}", not wrong)
    )
    for dtype in DTYPES:
        rows = [row for row in good if row["dtype"] == dtype]
        low = [scored(r, "plain", "auto", best_peer(r)) for r in rows if r["number"] not in bound]
        out = [scored(r, "out", "auto", "tensordot") for r in rows if r["number"] not in bound]
        high = [scored(r, "plain", "auto", best_peer(r)) for r in rows if r["number"] in bound]
        for text, values, bar in (
            ("low and middle intensity, best peer over ours", low, LEAST_MEAN),
            ("the same through out=, tensordot and copy over ours", out, LEAST_OUT),
            ("compute-bound, best peer over ours", high, LEAST_BOUND),
        ):
            if values:
                mean = ratios.geometric_mean(values)
                found.append((f"{dtype}, {text}: {mean:.3f}, bar {bar}", mean >= bar))
        if low:
            least = min(low)
            found.append(
                (f"{dtype}, worst case: {least:.3f}, bar {LEAST_CASE}", least >= LEAST_CASE)
            )
    return [(f"{text}: {'met' if met else 'MISSED'}", met) for text, met in found]


def line(row: Mapping[str, Any]) -> str:
    """One case, for somebody who waits."""
    return " | ".join(map(str, cells(row)))


def cells(row: Mapping[str, Any]) -> list[str]:
    """One row of the table."""
    head = [str(row["number"]), row["dtype"], f"`{row['equation']}`"]
    if "died" in row:
        return [*head, row["died"], "", "", "", "", ""]
    peer = best_peer(row)
    return [
        *head,
        f"{1e3 * median(row['plain']['auto'][1::2]):.1f}",
        f"{scored(row, 'plain', 'auto', peer):.2f} {peer}",
        f"{scored(row, 'plain', 'native', peer):.2f}",
        f"{scored(row, 'plain', 'auto', 'tensordot'):.2f}",
        f"{scored(row, 'out', 'auto', 'tensordot'):.2f}",
        row["choice"] + (f" WRONG: {row['wrong']}" if row["wrong"] else ""),
    ]


def table(data: Mapping[str, Any]) -> str:
    """The Markdown page."""
    head = [
        "case",
        "type",
        "C order",
        "auto ms",
        "best peer / auto",
        "the same / native",
        "tensordot / auto",
        "out=: tensordot / auto",
        "what auto chose",
    ]
    said = "\n".join(f"* {text}" for text, _ in bars(data))
    timed = [len(row["plain"]["auto"]) for row in data["rows"] if "died" not in row]
    part = f"{len(data['rows'])} of {2 * 48} cases, in {min(timed, default=0)} rounds each."
    return "\n\n".join(
        (
            "# Table 11: contractions of two tensors beside the best of five libraries",
            __doc__.partition("\n")[2].strip(),
            machine.line(data["machine"]),
            part,
            said,
            tables.markdown(head, [cells(row) for row in data["rows"]]),
        )
    )


if __name__ == "__main__":
    raise SystemExit(main())
