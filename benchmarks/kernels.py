"""How fast are our own kernels beside OpenBLAS and MKL, on products that are theirs?

One thread, results into given memory, rounds in rotating order. Ratios are the library's CPU time
over ours, medians of paired rounds: above 1, ours is faster. Two threads are told in wall time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import alternate
import children
import machine
import numpy as np
import ratios
import tables
from measure import warm_blas

ROUNDS = 15
#: Fewest seconds of one sample: short calls are repeated.
LEAST_SECONDS = 0.004
SQUARES = (256, 512, 1024, 2048)
LEAST_SQUARE = {256: 0.90, 512: 0.90, 1024: 0.90, 2048: 0.85}
SMALL = {8: 2.0, 16: 2.0, 32: 1.25, 64: 1.0}
N_SMALL = 1000
#: Four real products may take at most so much less than one complex product.
MOST_COMPLEX = 1.25
THREADED = (512, 1024, 2048)
REAL, COMPLEX = ("float64", "float32"), ("complex128", "complex64")

Call = Callable[[], Any]


def main() -> int:
    """Measures every product in a child of its own, stores it and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--table-only", action="store_true")
    parser.add_argument("--results", default=None, help="folder; by default that of the project")
    asked = parser.parse_args()
    if asked.child:
        return children.serve(measured)
    folder = tables.Path(asked.results) if asked.results else tables.RESULTS
    if not asked.table_only:
        rows = []
        for task in tasks():
            is_one = task["threads"] == 1
            row = children.ask("kernels.py", "measured", task, one_thread=is_one, unpinned=True)
            rows.append({**task, **row})
            print(" | ".join(cells(rows[-1])), flush=True)
        found = children.run_script("machine.py", [], one_thread=True, unpinned=True)
        tables.store("kernels", {"machine": found, "rows": rows}, folder)
    data = tables.stored("kernels", folder)
    tables.write("kernels", table(data), folder)
    for text, _ in bars(data):
        print(f"kernels: {text}")
    return 0 if all(met for _, met in bars(data)) else 1


def tasks() -> list[dict[str, Any]]:
    """Every product."""
    found: list[dict[str, Any]] = []
    for dtype in REAL:
        found += [_task("square", dtype, n) for n in SQUARES]
        found += [_task("small", dtype, n) for n in SMALL]
    found += [_task("complex", dtype, n) for dtype in COMPLEX for n in (256, 1024)]
    found += [_task("square", dtype, n, threads=2) for dtype in REAL for n in THREADED]
    return found


def _task(kind: str, dtype: str, n: int, threads: int = 1) -> dict[str, Any]:
    return {"kind": kind, "dtype": dtype, "n": n, "threads": threads}


def measured(task: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of every side in every round."""
    dtype, n, threads = task["dtype"], task["n"], task["threads"]
    warm_blas(dtype)
    draw = np.random.default_rng(n)
    shape = (N_SMALL, n, n) if task["kind"] == "small" else (n, n)
    a, b = (_drawn(draw, shape, dtype) for _ in range(2))
    out = np.empty(shape, dtype)
    calls: dict[str, Call] = {
        "numpy": lambda: np.matmul(a, b, out=out),
        "torch": _torch(a, b, threads),
        "native": _native(a, b, out, threads),
    }
    if task["kind"] == "complex":
        real = np.dtype(dtype).type(0).real.dtype
        ra, rb, rout = a.real.copy(), b.real.copy(), np.empty(shape, real)
        once = _native(ra, rb, rout, threads)
        calls["four real"] = lambda: [once() for _ in range(4)]
    if threads > 1:
        calls["one thread"] = _native(a, b, out.copy(), 1)
    calls["native"]()
    right = np.matmul(a, b)
    is_right = np.allclose(out, right, rtol=1e-3 if right.dtype.char in "fF" else 1e-9, atol=1e-3)
    timer = _wall_seconds if threads > 1 else alternate.cpu_seconds
    return {"right": bool(is_right), "seconds": rounds(calls, timer)}


def _drawn(draw: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    found = draw.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        return (found + 1j * draw.standard_normal(shape)).astype(dtype)
    return found.astype(dtype)


def _torch(a: np.ndarray, b: np.ndarray, threads: int) -> Call:
    import torch

    torch.set_num_threads(threads)
    ta, tb = torch.from_numpy(a), torch.from_numpy(b)
    out = torch.empty_like(ta)
    return lambda: torch.matmul(ta, tb, out=out)


def _native(a: np.ndarray, b: np.ndarray, out: np.ndarray, threads: int) -> Call:
    import einbound as eb

    text = "ik,kj->ij" if a.ndim == 2 else "bik,bkj->bij"
    with eb.options(threads=threads):
        plan = eb.plan(text, a, b, backend="native")
        plan(a, b, out=out)

    def call() -> Any:
        with eb.options(threads=threads):
            return plan(a, b, out=out)

    return call if threads > 1 else lambda: plan(a, b, out=out)


def _wall_seconds(call: Call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def rounds(calls: Mapping[str, Call], timer: Callable[[Call], float]) -> dict[str, list[float]]:
    """Seconds of one call of each side in every round; each round starts with another side."""
    names = list(calls)
    repeats = {}
    for name in names:
        calls[name]()
        repeats[name] = max(1, int(LEAST_SECONDS / max(timer(calls[name]), 1e-7)))
    taken: dict[str, list[float]] = {name: [] for name in names}
    for number in range(ROUNDS):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            times, call = repeats[name], calls[name]
            taken[name].append(timer(lambda n=times, f=call: [f() for _ in range(n)]) / times)
    return taken


def ratio(row: Mapping[str, Any], theirs: str) -> float:
    """Their time over ours."""
    return ratios.paired(row["seconds"][theirs], row["seconds"]["native"]).median


def bars(data: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Each bar as text, and whether it is met."""
    found = []
    for row in data["rows"]:
        name = f"{row['kind']} {row['dtype']} {row['n']}"
        if "died" in row or not row["right"]:
            found.append((f"{name}: {row.get('died', 'wrong result')}", False))
            continue
        if row["threads"] > 1:
            continue
        if row["kind"] == "complex":
            against = 1 / ratio(row, "four real")
            text = f"{name}: {against:.2f} times four real products, bar {MOST_COMPLEX}"
            found.append((text, against <= MOST_COMPLEX))
            continue
        bar = (LEAST_SQUARE if row["kind"] == "square" else SMALL)[row["n"]]
        against = ratio(row, "numpy")
        found.append((f"{name}: numpy over native {against:.2f}, bar {bar}", against >= bar))
    return [(f"{text}: {'met' if met else 'MISSED'}", met) for text, met in found]


def cells(row: Mapping[str, Any]) -> list[str]:
    """One row of the table."""
    head = [row["kind"], row["dtype"], str(row["n"]), str(row["threads"])]
    if "died" in row:
        return [*head, row["died"], "", "", ""]
    n, items = row["n"], N_SMALL if row["kind"] == "small" else 1
    flops = (8 if row["kind"] == "complex" else 2) * items * n**3
    seconds = sorted(row["seconds"]["native"])[ROUNDS // 2]
    extra = []
    if row["kind"] == "complex":
        extra.append(f"{1 / ratio(row, 'four real'):.2f} of four real")
    if row["threads"] > 1:
        extra.append(f"{ratio(row, 'one thread'):.2f} over one thread")
    numbers = [f"{1e-9 * flops / seconds:.1f}", f"{ratio(row, 'numpy'):.2f}"]
    return [*head, *numbers, f"{ratio(row, 'torch'):.2f}", ", ".join(extra)]


def table(data: Mapping[str, Any]) -> str:
    """The Markdown page."""
    head = ["product", "type", "n", "threads", "GFLOP/s", "numpy / ours", "torch / ours", "besides"]
    said = "\n".join(f"* {text}" for text, _ in bars(data))
    return "\n\n".join(
        (
            "# Table 12: our own kernels beside OpenBLAS and MKL",
            __doc__.partition("\n")[2].strip(),
            machine.line(data["machine"]),
            said,
            tables.markdown(head, [cells(row) for row in data["rows"]]),
        )
    )


if __name__ == "__main__":
    raise SystemExit(main())
