"""Tables 3 and 4: is a small case planned as well and called as fast as it should be?

Table 3: numpy_11825 with workspace_limit 2048, where numpy's own limit costs 24 thousand million
operations. Table 4: overhead of a warm call of 4x4 "ij,jk->ik", and what importing costs.
"""

from __future__ import annotations

import argparse
import json
import sys
import timeit
from collections.abc import Callable
from statistics import median
from typing import Any

import machine
import numpy as np
import tables
from children import run_script, run_task, seconds_of
from networks import SHIPPED
from trial import Task

WORKSPACE_LIMIT_BYTES = 2048
MOST_MACS = 52_224
REPEATS, CALLS = 7, 20_000
#: Calls that bars are about; the others run a tenth as often.
JUDGED = ("numpy.einsum", "eb.einsum", "plan")
IMPORTS = 15
#: Bars: times numpy.einsum's, and seconds above `import numpy`.
MOST_EINSUM_RATIO, MOST_PLAN_RATIO, MOST_IMPORT_SECONDS = 3.0, 2.0, 0.080


def main() -> int:
    """Measures all three, stores them and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--table-only", action="store_true")
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(_call_times()))
        return 0
    if not asked.table_only:
        tables.store(
            "small",
            {
                "machine": run_script("machine.py", [], one_thread=True),
                "order": _order(),
                "calls": run_script("small.py", ["--child"], one_thread=True),
                "imports": _imports(),
            },
        )
    data = tables.stored("small")
    tables.write("small", table(data))
    for text, _ in bars(data):
        print(f"small: {text}")
    return 0 if all(met for _, met in bars(data)) else 1


def _order() -> dict[str, Any]:
    path = SHIPPED / "numpy_11825.json"
    return run_task(Task(network=str(path), workspace_limit=WORKSPACE_LIMIT_BYTES))


def _call_times() -> dict[str, list[float]]:
    import einbound as eb

    a, b = np.random.default_rng(0).standard_normal((2, 4, 4))
    out = np.empty((4, 4))
    plan = eb.plan("ij,jk->ik", a, b)
    calls: dict[str, Callable[[], Any]] = {
        "numpy.einsum": lambda: np.einsum("ij,jk->ik", a, b),
        "eb.einsum": lambda: eb.einsum("ij,jk->ik", a, b),
        "plan": lambda: plan(a, b),
        "plan, out=": lambda: plan(a, b, out=out),
        "numpy.matmul": lambda: np.matmul(a, b),
        "eb.einsum, memory_limit": lambda: eb.einsum("ij,jk->ik", a, b, memory_limit="1MiB"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(REPEATS):  # in turns, so that a slow second of the machine meets all of them
        for name, call in calls.items():
            number = CALLS if name in JUDGED else CALLS // 10
            seconds[name].append(timeit.timeit(call, number=number) / number)
    return seconds


def _imports() -> dict[str, list[float]]:
    after = "import numpy, time; t = time.perf_counter(); import einbound; "
    found: dict[str, list[float]] = {"inside": [], "numpy": [], "einbound": []}
    for _ in range(IMPORTS):
        inside = run_script("-c", [after + "print(time.perf_counter() - t)"])
        found["inside"].append(inside if isinstance(inside, float) else float("inf"))
        for name in ("numpy", "einbound"):
            found[name].append(seconds_of(["-c", f"import {name}"]))
    return found


def bars(data: dict[str, Any]) -> list[tuple[str, bool]]:
    """Each bar as text, and whether it is met."""
    order, calls, imports = data["order"], data["calls"], data["imports"]
    found = []
    macs = order.get("macs")
    is_met = macs is not None and macs <= MOST_MACS
    found.append((f"numpy_11825: {macs} macs, bar {MOST_MACS}", is_met))
    for name, bar in (("eb.einsum", MOST_EINSUM_RATIO), ("plan", MOST_PLAN_RATIO)):
        if "died" in calls:
            found.append((f"{name}: {calls['died']}", False))
            continue
        ratio = min(calls[name]) / min(calls["numpy.einsum"])
        found.append((f"4x4 {name}: {ratio:.2f} times numpy.einsum, bar {bar}", ratio <= bar))
    extra = median(imports["inside"])
    text = f"import: {1e3 * extra:.1f} ms above numpy, bar {1e3 * MOST_IMPORT_SECONDS:.0f} ms"
    found.append((text, extra <= MOST_IMPORT_SECONDS))
    return [(f"{text}: {'met' if met else 'MISSED'}", met) for text, met in found]


def table(data: dict[str, Any]) -> str:
    """The Markdown page of both tables."""
    return "\n\n".join(
        (
            "# Tables 3 and 4: small cases",
            machine.line(data["machine"]),
            "\n".join(f"- {text}" for text, _ in bars(data)),
            f"## Table 3: numpy_11825 with workspace_limit {WORKSPACE_LIMIT_BYTES}",
            _order_table(data["order"]),
            "## Table 4: overhead of a warm call, 4x4 `ij,jk->ik`",
            _calls_table(data["calls"]),
            f"## Import, {IMPORTS} fresh processes each",
            _imports_table(data["imports"]),
        )
    )


def _order_table(order: dict[str, Any]) -> str:
    if "macs" not in order:
        return f"Not measured: {order.get('died') or order.get('text')}."
    head = ("macs", "modelled workspace, bytes", "tracked less result, bytes",
            "process MiB", "loops", "planning s", "call s")  # fmt: skip
    row = (
        f"{order['macs']:,}", order["workspace_bytes"],
        order["tracked_bytes"] - order["result_bytes"], tables.mebibytes(order["process_bytes"]),
        " ".join(order["loops"]) or "none", f"{order['plan_seconds']:.3f}",
        f"{order['wall_seconds']:.4f}",
    )  # fmt: skip
    return tables.markdown(head, [row])


def _calls_table(calls: dict[str, Any]) -> str:
    if "died" in calls:
        return f"Not measured: {calls['died']}."
    base = min(calls["numpy.einsum"])
    rows = [
        (name, f"{1e6 * min(found):.2f}", f"{1e6 * max(found):.2f}", f"{min(found) / base:.2f}")
        for name, found in calls.items()
    ]
    return f"timeit, {REPEATS} x {CALLS:,} calls in turns.\n\n" + tables.markdown(
        ("call", "least us", "most us", "least / numpy.einsum's"), rows
    )


def _imports_table(imports: dict[str, list[float]]) -> str:
    names = {
        "inside": "`import einbound` after `import numpy`, inside one process",
        "numpy": "whole process, `import numpy`",
        "einbound": "whole process, `import einbound`",
    }
    rows = [
        (text, tables.spread([1e3 * s for s in imports[name]], 1)) for name, text in names.items()
    ]
    return tables.markdown(("what", "ms, median (interquartile range)"), rows)


if __name__ == "__main__":
    sys.exit(main())
