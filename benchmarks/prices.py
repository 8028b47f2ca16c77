"""Do predicted seconds rank steps as the machine does? Products of many shapes, priced and run.

A seeded draw of single products: type, batch, rows, columns and terms from 1 to 1024 with thin
ones well covered, the axis orders of all three arrays, written or added, packed or not. Each is
done in the way that a plan would choose and timed; the figure is measured over predicted seconds,
as it is and beside its own median, since only the order of plans depends on it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from math import exp, log, prod
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
import tables
from children import run_script
from measure import warm_blas

NAME = "prices"
KIND = {"one_thread": True, "unpinned": True}
CELLS, SEED = 1200, 0
#: Batches, and extents of the matrix; small ones are drawn as often as large ones.
ITEMS = (1, 1, 1, 2, 8, 24, 64, 256)
EXTENTS = (2, 4, 6, 8, 12, 16, 20, 27, 32, 48, 64, 80, 100, 160, 256, 400, 640, 1024)
#: Multiply-adds of one step, and the largest array.
LEAST_MACS, MOST_MACS, MOST_BYTES = 2000, 100_000_000, 32 << 20
#: Axis orders as stored; those behind the first few need a copy or have the batch elsewhere.
ORDERS_A = ("zmk", "zmk", "zkm", "mk", "km", "mzk", "mkz")
ORDERS_B = ("zkn", "zkn", "znk", "znk", "kn", "nk", "nzk", "nkz")
ORDERS_C = ("zmn", "zmn", "zmn", "znm", "mzn")
TYPES = "ddddddfD"
#: CPU seconds of one sample, and samples per cell.
SAMPLE_SECONDS, SAMPLES = 1.5e-3, 5
#: How many of the worst cells are shown.
WORST = 12


@dataclass(frozen=True, slots=True)
class Cell:
    """One product: type, batch, extents, and the axis order of each array."""

    dtype: str
    extents: dict[str, int]
    orders: tuple[str, str, str]
    accumulate: bool

    def shape(self, order: str) -> tuple[int, ...]:
        """Extents of an array with these axes."""
        return tuple(self.extents[axis] for axis in order)

    @property
    def macs(self) -> int:
        """Multiply-adds of the whole step."""
        return prod(self.extents.values())

    def __str__(self) -> str:
        sizes = "x".join(str(self.extents[axis]) for axis in "zmnk")
        a, b, c = self.orders
        return f"{self.dtype} {sizes:16} {a},{b}->{c}{' +' if self.accumulate else ''}"


def main() -> int:
    """Measures all cells and prints the errors of the prices."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=CELLS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--results", type=Path, help="folder for the raw numbers")
    parser.add_argument("--stored", action="store_true", help="price the stored numbers anew")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(list(measured(drawn(asked.cells, asked.seed)))))
        return 0
    if asked.stored:
        rows = [priced(row) for row in tables.stored(NAME, asked.results)["rows"]]
    else:
        draw = ["--child", "--cells", str(asked.cells), "--seed", str(asked.seed)]
        rows = run_script(f"{NAME}.py", draw, **KIND)
    if asked.results:
        tables.store(NAME, {"rows": rows}, asked.results)
    print(report(rows))
    return 0


def drawn(count: int, seed: int) -> Iterator[Cell]:
    """So many cells, the same for the same seed."""
    draw = random.Random(seed)
    while count:
        extents = {axis: draw.choice(EXTENTS) for axis in "mnk"}
        extents["z"] = draw.choice(ITEMS)
        if draw.random() < 0.1:
            extents[draw.choice("mn")] = 1
        orders = draw.choice(ORDERS_A), draw.choice(ORDERS_B), draw.choice(ORDERS_C)
        if extents["z"] > 1 and "z" not in orders[0] + orders[1]:
            continue
        cell = Cell(draw.choice(TYPES), extents, orders, draw.random() < 0.25)
        size = np.dtype(cell.dtype).itemsize
        largest = max(prod(cell.shape(order)) for order in orders) * size
        if LEAST_MACS <= cell.macs <= MOST_MACS and largest <= MOST_BYTES:
            count -= 1
            yield cell


def priced(row: dict[str, Any]) -> dict[str, Any]:
    """A stored row with today's way and price; its time is that of the way it was run in."""
    way = way_of(Cell(**row["cell"]))
    same = way.describe() == row["way"]
    return {**row, "predicted": way.seconds, "same": same}


def way_of(cell: Cell) -> Any:
    """How a plan would do the step."""
    from einbound.step.view import View
    from einbound.step.way import DEFAULT_BUFFER_BYTES, pair_way

    dtype = np.dtype(cell.dtype)
    views = [
        View.contiguous(tuple(map("zmnk".index, order)), cell.shape(order), dtype)
        for order in cell.orders
    ]
    add = cell.accumulate
    return pair_way(*views, dtype, accumulate=add, buffer_bytes=DEFAULT_BUFFER_BYTES)


def measured(cells: Iterator[Cell]) -> Iterator[dict[str, Any]]:
    """Predicted and measured seconds of each cell."""
    from einbound.backends.numpy_ import compile_way

    warm_blas()
    pool: dict[int, Any] = {}

    def take(n_bytes: int) -> Any:
        if n_bytes not in pool:
            pool[n_bytes] = np.ones(n_bytes, np.uint8)
        return pool.pop(n_bytes)

    def give(buffer: Any) -> None:
        pool[buffer.nbytes] = buffer

    for cell in cells:
        way = way_of(cell)
        kernel = compile_way(way)
        a, b, c = (np.ones(cell.shape(order), cell.dtype) for order in cell.orders)
        pool.clear()

        def call(kernel: Any = kernel, arrays: Any = (a, b, c), add: bool = way.accumulate) -> None:
            kernel(*arrays, add, take, give)

        yield {
            "cell": asdict(cell),
            "way": way.describe(),
            "predicted": way.seconds,
            "measured": seconds(call),
            "same": True,
        }


def seconds(call: Callable[[], None]) -> float:
    """Median CPU seconds of one call."""
    call()
    n_calls, spent = 1, 0.0
    while spent < SAMPLE_SECONDS:
        n_calls *= 2 if spent else 1
        spent = _spent(call, n_calls)
    return median(_spent(call, n_calls) for _ in range(SAMPLES)) / n_calls


def _spent(call: Callable[[], None], n_calls: int) -> float:
    began = time.process_time()
    for _ in range(n_calls):
        call()
    return max(time.process_time() - began, 1e-9)


def report(rows: list[dict[str, Any]]) -> str:
    """The errors of the prices, in all and by kind of step, and the worst cells."""
    rows = [row for row in rows if row["same"]]
    kinds: dict[str, list[float]] = {"all": []}
    for row in rows:
        ratio = row["measured"] / row["predicted"]
        for kind in ("all", *_kinds(row)):
            kinds.setdefault(kind, []).append(ratio)
    centre = exp(sum(map(log, kinds["all"])) / len(rows))
    head = ("steps", "cells", "measured / predicted", "error", "90th percentile", "beside mean")
    lines = [(name, len(found), *_errors(found, centre)) for name, found in sorted(kinds.items())]
    worst = sorted(rows, key=lambda row: -abs(log(row["measured"] / row["predicted"] / centre)))
    cells = [
        f"{row['measured'] / row['predicted']:5.2f}  {Cell(**row['cell'])!s:44} {row['way']}"
        for row in worst[:WORST]
    ]
    return "\n".join((tables.markdown(head, lines), "", *cells))


def _kinds(row: dict[str, Any]) -> Iterator[str]:
    cell = Cell(**row["cell"])
    yield f"type {cell.dtype}"
    if "matmul" not in row["way"]:
        yield "no matmul"
        return
    least = min(cell.extents[axis] for axis in "mnk")
    yield "vectors" if least == 1 else "thin, below 32" if least < 32 else "thick"
    for sign in ("pack", "add", "copy", "views"):
        if sign in row["way"]:
            yield sign


def _errors(ratios: list[float], centre: float) -> tuple[str, ...]:
    mean = exp(sum(map(log, ratios)) / len(ratios))
    plain = [exp(abs(log(ratio))) for ratio in ratios]
    beside = [exp(abs(log(ratio / centre))) for ratio in ratios]
    error = exp(sum(map(log, plain)) / len(plain))
    return f"{mean:.2f}", f"{error:.2f}x", f"{_ninth(plain):.2f}x", f"{_ninth(beside):.2f}x"


def _ninth(values: list[float]) -> float:
    """The 90th percentile."""
    return quantiles(values, n=10, method="inclusive")[-1] if len(values) > 1 else values[0]


if __name__ == "__main__":
    sys.exit(main())
