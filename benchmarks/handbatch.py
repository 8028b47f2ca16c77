"""How fast is careful hand-written NumPy within the workspace that a limit allows?

Block-batched contractions as an expert would write them for these very sizes: matmul with out=
on views that BLAS takes as they are, buffers made once and used again. Run as a script, it
tries block sizes within workspace = result bytes, proves each workspace with tracemalloc and
keeps the fastest per network.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import machine
import networks
import numpy as np
import tables
from children import run_script

Array = np.ndarray
#: Rows of an accumulated product that one temporary holds: 512 x 80 doubles, half of an L2.
ACCUMULATE_ROWS = 512


def _blocks(extent: int, width: int) -> Iterator[slice]:
    for start in range(0, extent, width):
        yield slice(start, min(start + width, extent))


def thc_ppl_hold(
    a: Array, c: Array, z: Array, b: Array, d: Array, t: Array, n: int, q: int
) -> Array:
    """The THC ladder with sum_P aP cP PQ held whole, n pairs ij at a time.

    No partial sums: all of Q is there for the last product. `q` is the width of Q for the
    products that need no more than a slice of it.
    """
    (n_a, n_p), n_c, n_q = a.shape, c.shape[0], z.shape[1]
    pairs, shape = t.shape[0] * t.shape[1], (*t.shape[:2], n_a, b.shape[0])
    t = t.reshape(pairs, n_c, -1)
    held = np.empty((n_q, n_a, n_c))
    scaled = np.empty((n_a, n_p))
    for k in range(n_q):
        np.multiply(a, z[:, k], out=scaled)
        np.matmul(scaled, c.T, out=held[k])
    result = np.empty((pairs, n_a, b.shape[0]))
    half = np.empty(q * n * n_c)
    most = np.empty(n_q * n * n_a)
    for rows in _blocks(pairs, n):
        wide = rows.stop - rows.start
        flat = t[rows].reshape(wide * n_c, -1)
        right = most[: n_q * wide * n_a].reshape(n_q, wide, n_a)
        for cut in _blocks(n_q, q):
            deep = cut.stop - cut.start
            left = half[: deep * wide * n_c].reshape(deep, wide * n_c)
            np.matmul(d[:, cut].T, flat.T, out=left)
            np.matmul(left.reshape(deep, wide, n_c), held[cut].mT, out=right[cut])
        out = result[rows].reshape(wide * n_a, -1)
        np.matmul(right.reshape(n_q, -1).T, b.T, out=out)
    return result.reshape(shape)


def thc_ppl_add(
    a: Array, c: Array, z: Array, b: Array, d: Array, t: Array, n: int, q: int
) -> Array:
    """The THC ladder with Q cut in slices of q, n pairs ij at a time, partial sums added."""
    (n_a, n_p), n_c, n_q = a.shape, c.shape[0], z.shape[1]
    pairs, shape = t.shape[0] * t.shape[1], (*t.shape[:2], n_a, b.shape[0])
    t = t.reshape(pairs, n_c, -1)
    result = np.empty((pairs, n_a, b.shape[0]))
    held = np.empty((q, n_a, n_c))
    scaled = np.empty((n_a, n_p))
    half = np.empty(q * n * n_c)
    most = np.empty(q * n * n_a)
    part = np.empty((ACCUMULATE_ROWS, b.shape[0]))
    for cut in _blocks(n_q, q):
        deep = cut.stop - cut.start
        for k in range(deep):
            np.multiply(a, z[:, cut.start + k], out=scaled)
            np.matmul(scaled, c.T, out=held[k])
        for rows in _blocks(pairs, n):
            wide = rows.stop - rows.start
            flat = t[rows].reshape(wide * n_c, -1)
            left = half[: deep * wide * n_c].reshape(deep, wide * n_c)
            right = most[: deep * wide * n_a].reshape(deep, wide, n_a)
            np.matmul(d[:, cut].T, flat.T, out=left)
            np.matmul(left.reshape(deep, wide, n_c), held[:deep].mT, out=right)
            out = result[rows].reshape(wide * n_a, -1)
            _add_product(right.reshape(deep, -1).T, b[:, cut].T, out, part, first=cut.start == 0)
    return result.reshape(shape)


def _add_product(left: Array, right: Array, out: Array, part: Array, *, first: bool) -> None:
    if first:
        np.matmul(left, right, out=out)
        return
    for rows in _blocks(out.shape[0], part.shape[0]):
        buffer = part[: rows.stop - rows.start]
        np.matmul(left[rows], right, out=buffer)
        np.add(out[rows], buffer, out=out[rows])


def quad_by_a(p: Array, r: Array, t: Array, u: Array, v: Array, n: int) -> Array:
    """The mixed quadratic term Pac,Pkd,ijcd,Qbe,Qke->ijab, n values of a at a time."""
    n_a, n_c, n_k, n_d = p.shape[1], p.shape[2], r.shape[1], r.shape[2]
    n_b, pairs = u.shape[1], t.shape[0] * t.shape[1]
    space = np.empty(max(n * n_k * n_c * n_d, u.shape[0] * n_b * n_k))
    branch = _branch(u, v, space)
    rows = t.reshape(pairs, n_c * n_d)
    result = np.empty((pairs, n_a, n_b))
    joined = np.empty(pairs * n * n_k)
    for cut in _blocks(n_a, n):
        wide = cut.stop - cut.start
        ladder = space[: wide * n_k * n_c * n_d].reshape(wide, n_k, n_c, n_d)
        left = p[:, cut].transpose(1, 2, 0)[:, None]
        np.matmul(left, r.transpose(1, 0, 2)[None], out=ladder)
        middle = joined[: pairs * wide * n_k].reshape(pairs, wide * n_k)
        np.matmul(rows, ladder.reshape(wide * n_k, -1).T, out=middle)
        np.matmul(middle.reshape(pairs, wide, n_k), branch.T, out=result[:, cut])
    return result.reshape(t.shape[0], t.shape[1], n_a, n_b)


def quad_by_k(p: Array, r: Array, t: Array, u: Array, v: Array, n: int) -> Array:
    """The mixed quadratic term, n values of k at a time; ijak is held whole, k outermost."""
    n_a, n_c, n_k, n_d = p.shape[1], p.shape[2], r.shape[1], r.shape[2]
    n_b, pairs = u.shape[1], t.shape[0] * t.shape[1]
    space = np.empty(max(n * n_a * n_c * n_d, u.shape[0] * n_b * n_k))
    branch = _branch(u, v, space)
    rows = t.reshape(pairs, n_c * n_d)
    left = p.reshape(p.shape[0], n_a * n_c).T
    joined = np.empty((n_k, pairs, n_a))
    for cut in _blocks(n_k, n):
        wide = cut.stop - cut.start
        ladder = space[: wide * n_a * n_c * n_d].reshape(wide, n_a * n_c, n_d)
        np.matmul(left, r[:, cut].transpose(1, 0, 2), out=ladder)
        np.matmul(rows, ladder.reshape(wide, n_a, -1).mT, out=joined[cut])
    result = np.empty((pairs * n_a, n_b))
    np.matmul(joined.reshape(n_k, -1).T, branch.T, out=result)
    return result.reshape(t.shape[0], t.shape[1], n_a, n_b)


def _branch(u: Array, v: Array, space: Array) -> Array:
    # Summed over e with Q as a batch, then over Q: a copy of either factor would be larger.
    n_b, n_k = u.shape[1], v.shape[1]
    over_q = space[: u.shape[0] * n_b * n_k].reshape(-1, n_b, n_k)
    branch = np.empty((n_b, n_k))
    np.matmul(u, v.mT, out=over_q)
    return np.add.reduce(over_q, axis=0, out=branch)


def ppl_df_s(p: Array, q: Array, t: Array, n: int) -> Array:
    """The density-fitted ladder, n values of a at a time."""
    n_a, n_c, n_b, n_d = p.shape[1], p.shape[2], q.shape[1], q.shape[2]
    pairs = t.shape[0] * t.shape[1]
    result = np.empty((pairs, n_a * n_b))
    ladder = np.empty((n, n_b, n_c, n_d))
    rows = t.reshape(pairs, n_c * n_d)
    for cut in _blocks(n_a, n):
        wide = cut.stop - cut.start
        left = p[:, cut].transpose(1, 2, 0)[:, None]
        np.matmul(left, q.transpose(1, 0, 2)[None], out=ladder[:wide])
        columns = slice(cut.start * n_b, cut.stop * n_b)
        np.matmul(rows, ladder[:wide].reshape(wide * n_b, -1).T, out=result[:, columns])
    return result.reshape(t.shape[0], t.shape[1], n_a, n_b)


FUNCTIONS: dict[str, dict[str, Callable[..., Array]]] = {
    "thc_ppl": {"hold": thc_ppl_hold, "add": thc_ppl_add},
    "quad_mixed_df": {"by a": quad_by_a, "by k": quad_by_k},
    "ppl_df_s": {"by a": ppl_df_s},
}
#: Block sizes to try; those that pass workspace = result bytes are reported and dropped.
TRIED: dict[tuple[str, str], tuple[tuple[int, ...], ...]] = {
    ("thc_ppl", "hold"): ((8, 60), (16, 20), (20, 20), (20, 60), (24, 10), (25, 10), (25, 20)),
    ("thc_ppl", "add"): (
        (40, 150), (50, 150), (60, 150), (64, 150), (64, 100), (80, 100), (100, 100),
        (114, 100), (134, 75), (160, 75), (200, 60), (200, 50), (240, 50), (400, 30),
    ),
    ("quad_mixed_df", "by a"): ((1,), (2,), (4,), (8,), (10,), (12,), (14,), (15,)),
    ("quad_mixed_df", "by k"): ((1,), (2,), (3,), (4,)),
    ("ppl_df_s", "by a"): ((1,), (2,), (4,), (5,)),
}  # fmt: skip
ROUNDS = 5


def main() -> int:
    """Tries all block sizes in one timed child and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--table-only", action="store_true")
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(_tries()))
        return 0
    if not asked.table_only:
        found = run_script("handbatch.py", ["--child"], one_thread=True, unpinned=True)
        if "died" in found:
            print(f"handbatch: {found['died']}")
            return 1
        tables.store("handbatch", found)
    data = tables.stored("handbatch")
    tables.write("handbatch", table(data))
    print("handbatch:", {name: best(data, name) for name in FUNCTIONS})
    return 0


def _tries() -> dict[str, Any]:
    rows = []
    for (name, variant), choices in TRIED.items():
        network = networks.load(networks.SHIPPED / f"{name}.json")
        arrays = networks.operands(network)
        for blocks in choices:
            rows.append(_try(network, variant, blocks, arrays))
    return {"machine": machine.parts(), "rounds": ROUNDS, "rows": rows}


def _try(
    network: networks.Network, variant: str, blocks: tuple[int, ...], arrays: tuple[Array, ...]
) -> dict[str, Any]:
    function = FUNCTIONS[network.name][variant]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    result = function(*arrays, *blocks)
    workspace = tracemalloc.get_traced_memory()[1] - before - result.nbytes
    tracemalloc.stop()
    seconds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        result = function(*arrays, *blocks)
        seconds.append(time.process_time() - started)
    return {
        "network": network.name,
        "variant": variant,
        "blocks": blocks,
        "workspace_bytes": workspace,
        "limit_bytes": network.result_bytes,
        "cpu_seconds": seconds,
        "checksum": float(np.add.reduce(result, axis=None)),
    }


def best(data: dict[str, Any], name: str) -> dict[str, Any]:
    """Variant and blocks of the fastest try of a network within its limit."""
    fits = [
        row
        for row in data["rows"]
        if row["network"] == name and row["workspace_bytes"] <= row["limit_bytes"]
    ]
    fastest = min(fits, key=lambda row: median(row["cpu_seconds"]))
    return {"variant": fastest["variant"], "blocks": fastest["blocks"]}


def table(data: dict[str, Any]) -> str:
    """The Markdown page of the stored tries."""
    chosen = {name: best(data, name) for name in FUNCTIONS}
    rows = []
    for row in data["rows"]:
        is_best = chosen[row["network"]] == {k: row[k] for k in ("variant", "blocks")}
        fits = row["workspace_bytes"] <= row["limit_bytes"]
        rows.append(
            (
                row["network"], row["variant"], "x".join(map(str, row["blocks"])),
                tables.mebibytes(row["workspace_bytes"]), tables.mebibytes(row["limit_bytes"]),
                tables.spread(row["cpu_seconds"], 4),
                "best" if is_best else "" if fits else "too large",
            )
        )  # fmt: skip
    head = ("network", "variant", "blocks", "workspace MiB", "limit MiB", "CPU s", "")
    return "\n\n".join(
        (
            "# Hand-written block batching at workspace = result bytes",
            machine.line(data["machine"]),
            f"One BLAS thread; median (interquartile range) of {data['rounds']} runs; workspace = "
            "tracked peak less the result, Python objects included.",
            tables.markdown(head, rows),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
