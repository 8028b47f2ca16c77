"""What does a system of equations cost within a limit, beside peers without one?

Coupled cluster with density fitting (the equations and their sources: examples/cc_equations.py)
on random tensors of 12 occupied and 72 virtual orbitals and 300 fitting functions. Peers evaluate
the same equations with the same named intermediates: opt_einsum's expressions, with constants
folded and products shared, and cotengra's, with constants folded. Both keep what they fold,
and their first call makes the expressions.
Every side runs in fresh processes of one thread, in alternating rounds, each with another seed of
Python's hashes; times are CPU seconds.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import machine
import numpy as np
import tables
from children import ask, serve
from measure import measure, warm_blas
from networks import ROOT

sys.path.insert(0, str(ROOT / "examples"))
from cc_equations import CLOSED_SHELL, sized

import einbound as eb

SIZES = {"occ": 12, "vir": 72, "aux": 300}
ITERATIONS = 10
SCHEDULERS = ("ordered", "forest_descent")
PEERS = ("opt_einsum", "cotengra")
#: Limits as shares of the least peak of a peer.
SHARES = (1.0, 0.5, 0.25)
N_ROUNDS, N_CALLS = 3, 5
LADDER = "space o: i j = {occ}\nspace v: a b c d = {vir}\nspace x: P = {aux}\nvolatile T\n"
LADDER += "R[i,j,a,b] = B[P,a,c] B[P,b,d] T[i,j,c,d]"

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Evaluated:
    """Equations as one einsum expression of a peer per product.

    Attributes:
        equations: What is evaluated.
        made: For each equation, its terms: coefficient, volatile operands, and the expression.
        scope: Makes what one evaluation runs in.
    """

    equations: eb.Equations
    made: list[tuple[str, list[tuple[float, tuple[str, ...], Callable[..., Any]]]]]
    scope: Callable[[], Any]

    def __call__(self, arrays: Arrays) -> Arrays:
        """The targets."""
        values = dict(arrays)
        with self.scope():
            for target, terms in self.made:
                total: Any = 0.0
                for coefficient, names, expression in terms:
                    product = expression(*(values[name] for name in names))
                    scaled = product if coefficient == 1 else coefficient * product
                    total = total + scaled if len(terms) > 1 else scaled
                values[target] = total
        return {name: values[name] for name in self.equations.targets}


def main() -> int:
    """Measures, and writes the page; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table-only", action="store_true")
    parser.add_argument("--child")
    parser.add_argument("--sizes", nargs=3, type=int, default=list(SIZES.values()))
    asked = parser.parse_args()
    if asked.child:
        return serve({"program": child_program, "peer": child_peer}[asked.child])
    if not asked.table_only:
        tables.store("forests", measured(dict(zip(SIZES, asked.sizes, strict=True))))
    data = tables.stored("forests")
    missed = list(bars(data))
    tables.write("forests", page(data, missed))
    return 1 if missed else 0


def measured(sizes: dict[str, int]) -> dict[str, Any]:
    """All figures."""
    kind = {"one_thread": True, "unpinned": True}
    rows: dict[str, list[dict[str, Any]]] = {}

    def add(name: str, action: str, hash_seed: int = 0, **task: Any) -> dict[str, Any]:
        found = ask("forests.py", action, {"sizes": sizes, **task}, hash_seed=hash_seed, **kind)
        rows.setdefault(name, []).append(found)
        print(name, found, flush=True)
        return found

    peers = [add(name, "peer", peer=name) for name in PEERS]
    least = min(row["measured_bytes"] for row in peers)
    tiny = add("least", "program", limit=1, scheduler="ordered")
    limits = {"none": None} | {f"{share:g} of the peer's": int(share * least) for share in SHARES}
    if "lower_bound_bytes" in tiny:
        limits["1.25 of the bound"] = int(1.25 * tiny["lower_bound_bytes"])
    for number in range(N_ROUNDS):
        for (name, limit), scheduler in ((a, b) for a in limits.items() for b in SCHEDULERS):
            add(f"{scheduler}, {name}", "program", number, limit=limit, scheduler=scheduler)
        for peer in PEERS if number else ():
            add(peer, "peer", peer=peer)
        add("ladder", "program", number, ladder=True, limit=None, scheduler="ordered")
    return {"sizes": sizes, "limits": limits, "rows": rows, "machine": machine.parts()}


def child_program(task: dict[str, Any]) -> dict[str, Any]:
    """What one program plans, takes and computes."""
    text = LADDER.format(**task["sizes"]) if task.get("ladder") else sized_text(task)
    began = time.process_time()
    try:
        program = eb.Program(
            text, task["limit"], iterations=ITERATIONS, scheduler=task["scheduler"]
        )
    except eb.BudgetError as error:
        spent = time.process_time() - began
        names = "smallest_bytes", "lower_bound_bytes"
        return {name: getattr(error, name) for name in names} | {"plan_seconds": spent}
    plan_seconds = time.process_time() - began
    counts = program.meter()
    facts = {
        "plan_seconds": plan_seconds,
        "peak_bytes": counts.peak_bytes,
        "macs": counts.macs(ITERATIONS),
        "once_macs": counts.once.macs,
        "each_macs": counts.each.macs,
        "kept_bytes": counts.kept_bytes,
        "plan": hashlib.sha256(program.explain().encode()).hexdigest()[:16],
    }
    return facts | timed(lambda: program, arrays_of(eb.Equations.parse(text)))


def child_peer(task: dict[str, Any]) -> dict[str, Any]:
    """What a peer takes."""
    equations = eb.Equations.parse(sized_text(task))
    arrays = arrays_of(equations)
    return timed(partial(peer_of, task["peer"], equations, arrays), arrays)


def sized_text(task: dict[str, Any]) -> str:
    return sized(CLOSED_SHELL, **task["sizes"])


def arrays_of(equations: eb.Equations) -> Arrays:
    """Random tensors; the doubles have the symmetry that amplitudes have."""
    drawn = np.random.default_rng(0)
    made = {name: 0.05 * drawn.standard_normal(s) for name, s in equations.shapes.items()}
    for name in {"t2", "T"} & set(made):
        made[name] += made[name].transpose(1, 0, 3, 2)
    return made


def timed(make: Callable[[], Callable[[Arrays], Arrays]], arrays: Arrays) -> dict[str, Any]:
    """CPU seconds of the first call and of the next ones, the peak, and check sums.

    What is called is made with the first call, since peers may fold constants then.
    """
    warm_blas()

    def first_call() -> tuple[Callable[[Arrays], Arrays], Arrays]:
        call = make()
        return call, call(arrays)

    first = measure(first_call, trace=False)
    call, found = first.result
    sums = {name: float(np.sum(np.abs(value))) for name, value in found.items()}
    measured_bytes = first.measured_bytes(sum(array.nbytes for array in arrays.values()))
    first_seconds = first.cpu_seconds
    del first, found
    seconds = []
    for _ in range(N_CALLS):
        arrays = {**arrays, **{n: arrays[n].copy() for n in ("t1", "t2", "T") if n in arrays}}
        began = time.process_time()
        call(arrays)
        seconds.append(time.process_time() - began)
    return {
        "measured_bytes": measured_bytes,
        "first_seconds": first_seconds,
        "seconds": seconds,
        "sums": sums,
    }


def peer_of(name: str, equations: eb.Equations, arrays: Arrays) -> Evaluated:
    """Equations as a peer's expressions; what never changes is folded into them."""
    system = equations.system
    constants = {n: a for n, a in arrays.items() if n not in equations.volatile}
    shapes = {n: a.shape for n, a in arrays.items()}
    made = []
    for equation in system.equations:
        target, terms = equation.target, []
        for term in equation.terms:
            inputs = [each.indices for each in term.factors]
            names = [each.name for each in term.factors]
            fold = {k: constants[n] for k, n in enumerate(names) if n in constants}
            given = [constants.get(n, shapes[n]) for n in names]
            expression = _expression(name, inputs, target.indices, given, fold)
            free = tuple(n for k, n in enumerate(names) if k not in fold)
            terms.append((float(complex(term.coefficient).real), free, expression))
            extents = {
                label: extent
                for n, labels in zip(names, inputs, strict=True)
                for label, extent in zip(labels, shapes[n], strict=True)
            }
            shapes[target.name] = tuple(extents[label] for label in target.indices)
        if any(free for _, free, _ in terms):
            made.append((target.name, terms))
        else:
            constants[target.name] = sum(number * make() for number, _, make in terms)
    return Evaluated(equations, made, _scope(name))


def _scope(name: str) -> Callable[[], Any]:
    if name == "cotengra":
        return nullcontext
    import opt_einsum

    return opt_einsum.shared_intermediates


def _expression(
    name: str, inputs: list[Any], output: Any, given: list[Any], fold: dict[int, Any]
) -> Callable[..., Any]:
    """One product; of one operand it is a view, and of constants it is made once."""
    letters = {label: chr(97 + n) for n, label in enumerate(dict.fromkeys(sum(inputs, ())))}
    text = ",".join("".join(letters[i] for i in each) for each in inputs)
    text += "->" + "".join(letters[i] for i in output)
    if len(inputs) in (1, len(fold)):
        return partial(np.einsum, text, *fold.values(), optimize=len(inputs) > 1)
    if name == "cotengra":
        import cotengra

        shapes = [g if isinstance(g, tuple) else g.shape for g in given]
        axes = zip(sum(inputs, ()), sum(shapes, ()), strict=True)
        made: Callable[..., Any] = cotengra.array_contract_expression(
            inputs, output, dict(axes), constants=fold, optimize="optimal"
        )
        return made
    import opt_einsum

    expression: Callable[..., Any] = opt_einsum.contract_expression(
        text, *given, constants=tuple(fold), optimize="optimal"
    )
    return expression


def seconds_of(rows: list[dict[str, Any]]) -> float:
    """Median over rounds of the median of the calls after the first."""
    return median(median(row["seconds"]) for row in rows)


def bars(data: dict[str, Any]) -> Iterator[str]:
    """What is missed."""
    rows = data["rows"]
    died = [name for name, found in rows.items() if any("died" in row for row in found)]
    if died:
        yield "no figures of " + "; ".join(died)
        return
    yield from _broken_limits(data)
    yield from _slow(rows)
    yield from _planning(rows)


def _broken_limits(data: dict[str, Any]) -> Iterator[str]:
    rows, limits = data["rows"], data["limits"]
    refused = [
        f"{s}, {n}" for n in limits for s in SCHEDULERS if "macs" not in rows[f"{s}, {n}"][0]
    ]
    yield from (f"nothing fits: {name}" for name in refused)
    costs = {name: rows[name][0].get("macs", float("inf")) for name in rows}
    of = [[costs[f"{scheduler}, {name}"] for name in limits] for scheduler in SCHEDULERS]
    if any(ordered > descent for ordered, descent in zip(*of, strict=True)):
        yield "ordered has more multiply-adds than forest_descent"
    if any(costs != sorted(costs) for costs in of):
        yield "a smaller limit has fewer multiply-adds"
    for name, limit in limits.items():
        found = [row for s in SCHEDULERS for row in rows[f"{s}, {name}"]]
        if limit is not None and max(row.get("measured_bytes", 0) for row in found) > limit:
            yield f"the limit {name} is passed"


def _slow(rows: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    free, best = seconds_of(rows["ordered, none"]), min(seconds_of(rows[p]) for p in PEERS)
    if free > 0.8 * best:
        yield f"an iteration takes {free / best:.2f} of the best peer's (bar 0.8)"
    quarter = rows[f"ordered, {SHARES[-1]:g} of the peer's"]
    if "seconds" in quarter[0] and (ratio := seconds_of(quarter) / free) > 1.2:
        yield f"at 1/4 of the peer's peak an iteration takes {ratio:.2f} of ours without (bar 1.2)"
    ladder = seconds_of(rows["ladder"]) / median(row["first_seconds"] for row in rows["ladder"])
    if ladder > 0.65:
        yield f"iterations of the ladder take {ladder:.2f} of the first (bar 0.65)"


def _planning(rows: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    for name, found in rows.items():
        if max(row.get("plan_seconds", 0.0) for row in found) > 10:
            yield f"planning takes more than 10 s: {name}"
        if len({row.get("plan") for row in found}) > 1:
            yield f"plans differ: {name}"


def page(data: dict[str, Any], missed: list[str]) -> str:
    """The page."""
    best = min(seconds_of(data["rows"][peer]) for peer in PEERS)
    lines = []
    for name, found in data["rows"].items():
        row = found[0]
        if "seconds" not in row:
            text = row.get("died") or f"smallest {tables.mebibytes(row['smallest_bytes'])} MiB"
            lines.append((name, text, *[""] * 8))
            continue
        each = seconds_of(found)
        lines.append(
            (
                name,
                tables.mebibytes(data["limits"].get(name.partition(", ")[2])),
                tables.mebibytes(row.get("peak_bytes")),
                tables.mebibytes(max(r["measured_bytes"] for r in found)),
                tables.mebibytes(row.get("kept_bytes")),
                f"{row['once_macs'] / 1e9:.2f}" if "macs" in row else "-",
                f"{row['each_macs'] / 1e9:.2f}" if "macs" in row else "-",
                f"{median(r['first_seconds'] for r in found):.2f}",
                f"{each:.3f}" + ("" if name == "ladder" else f" ({each / best:.2f})"),
                f"{median(r['plan_seconds'] for r in found):.1f}" if "macs" in row else "-",
            )
        )
    head = ("side, limit", "limit MiB", "planned MiB", "measured MiB", "kept MiB", "Gmacs once",
            "Gmacs each", "first s", "next s (of best peer)", "plan s")  # fmt: skip
    verdict = "All bars are met." if not missed else "Missed: " + "; ".join(missed) + "."
    sizes = ", ".join(f"{name} {extent}" for name, extent in data["sizes"].items())
    about = " ".join((__doc__ or "").split("\n\n")[1].split())
    return "\n\n".join(
        (
            "# Systems of equations within a limit",
            about,
            f"Sizes: {sizes}. {N_ROUNDS} rounds of {N_CALLS} calls after the first; medians. "
            f"Planned for {ITERATIONS} calls.",
            machine.line(data["machine"]),
            tables.markdown(head, lines),
            verdict,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
