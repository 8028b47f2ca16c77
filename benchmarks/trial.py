"""One contraction in a fresh process: the child that the other scripts start.

Reads a task as one JSON line from standard input and writes one JSON line. A task with
`handshake` says "ready" once NumPy and the engine are imported and BLAS is warm, and makes its
operands only after a line has come back, so that the parent can set a control group's limit.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mappings
import numpy as np
from measure import largest_difference, measure, warm_blas
from networks import Network, load, operand_bytes, operands

Arrays = tuple[np.ndarray, ...]
#: Largest entries agree to this, relative, in double precision; sums of up to 1e6 random terms
#: stay well below it. Single precision has half the digits.
TOLERANCE = 1e-10
SINGLE_TOLERANCE = 1e-4


def is_wrong(row: dict[str, Any]) -> bool:
    """Whether a row's result is further from the reference than rounding explains."""
    is_single = row.get("dtype", "float64") in ("float32", "complex64")
    return not row["relative_error"] <= (SINGLE_TOLERANCE if is_single else TOLERANCE)


@dataclass(frozen=True, slots=True)
class Task:
    """What a child is to do.

    Attributes:
        action: "price" (plan only), "run" (measure one call) or "reference" (store the result).
        network: Path of the network's JSON file.
        engine: "einbound", "cotengra", "handbatch" or "stand-in".
        layout: Memory layout of the operands.
        memory_limit: Limit of the call in bytes, or None.
        workspace_limit: Limit of the workspace in bytes, or None.
        shares: For "price": the k of the limits operands + result + W0/k.
        trace: Whether tracemalloc watches the call.
        handshake: Whether to wait before operands are made.
        reference: .npy file to compare with (or to write), or None.
        options: What the engine needs beyond that.
    """

    action: str = "run"
    network: str = ""
    engine: str = "einbound"
    layout: str = "plain"
    memory_limit: int | None = None
    workspace_limit: int | None = None
    shares: tuple[int, ...] = (1,)
    trace: bool = True
    handshake: bool = False
    reference: str | None = None
    options: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call that is ready to be measured, and what its engine says about it."""

    call: Callable[[], Any]
    facts: dict[str, Any]


def main() -> None:
    """Does the task on standard input."""
    answered = sys.stdout
    sys.stdout = sys.stderr  # a library that prints must not break the protocol
    warnings.simplefilter("ignore")
    task = Task(**json.loads(sys.stdin.readline()))
    if task.trace:
        mappings.track()  # before the engine is imported
    answer = ACTIONS[task.action](task, answered)
    answered.write(json.dumps(answer) + "\n")
    answered.flush()


def _operands(task: Task, answered: Any) -> tuple[Network, Arrays]:
    network = load(Path(task.network))
    warm_blas(network.dtype)
    if task.engine == "einbound" and task.action != "reference":
        import einbound  # noqa: F401  imported before the baseline is taken
    if task.handshake:
        answered.write("ready\n")
        answered.flush()
        sys.stdin.readline()
    return network, operands(network, task.layout)


def _price(task: Task, answered: Any) -> dict[str, Any]:
    import einbound as eb

    network, arrays = _operands(task, answered)
    started = time.perf_counter()
    free = eb.plan(network.equation, *arrays)
    return {
        "operand_bytes": operand_bytes(arrays),
        "result_bytes": network.result_bytes,
        "workspace_bytes": free.workspace_bytes,
        "peak_bytes": free.peak_bytes,
        "macs": free.macs,
        "plan_seconds": time.perf_counter() - started,
    }


def _run(task: Task, answered: Any) -> dict[str, Any]:
    network, arrays = _operands(task, answered)
    held = operand_bytes(arrays)
    try:
        prepared = ENGINES[task.engine](task, network, arrays)
    except ValueError as error:
        if type(error).__name__ != "BudgetError":
            raise
        return {"operand_bytes": held, "refused": True, **_refusal(error)}
    taken = measure(prepared.call, trace=task.trace)
    answer = {
        "operand_bytes": held,
        "result_bytes": network.result_bytes,
        "dtype": network.dtype,
        "refused": False,
        **prepared.facts,
        "tracked_bytes": taken.tracked_bytes,
        "process_bytes": taken.process_bytes,
        "measured_bytes": taken.measured_bytes(held),
        "wall_seconds": taken.wall_seconds,
        "cpu_seconds": taken.cpu_seconds,
    }
    if task.reference is not None:
        wanted = np.load(task.reference, mmap_mode="r")
        answer["relative_error"] = largest_difference(taken.result, wanted)
    return answer


def _refusal(error: Any) -> dict[str, Any]:
    return {
        "text": str(error),
        "limit_bytes": error.limit_bytes,
        "smallest_bytes": error.smallest_bytes,
        "lower_bound_bytes": error.lower_bound_bytes,
        "certified": error.certified,
    }


def _reference(task: Task, answered: Any) -> dict[str, Any]:
    assert task.reference is not None, "a reference needs a file to write"
    network, arrays = _operands(task, answered)
    path = np.einsum_path(network.equation, *arrays, optimize=("optimal", 1 << 60))[0]
    np.save(task.reference, np.einsum(network.equation, *arrays, optimize=path))
    return {"path": str(path[1:])}


def _einbound(task: Task, network: Network, arrays: Arrays) -> Prepared:
    import einbound as eb

    limits = {"memory_limit": task.memory_limit, "workspace_limit": task.workspace_limit}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    started = time.perf_counter()
    plan = eb.plan(network.equation, *arrays, **given)
    facts = {
        "plan_seconds": time.perf_counter() - started,
        "peak_bytes": plan.peak_bytes,
        "workspace_bytes": plan.workspace_bytes,
        "overhead_bytes": plan.overhead_bytes,
        "macs": plan.macs,
        "loops": [loop_text(loop) for loop in plan.loops],
    }
    return Prepared(lambda: plan(*arrays), facts)


def loop_text(loop: Any) -> str:
    """Index, extent, width and step of a loop, as the tables write it."""
    return f"{loop.index}:{loop.extent}/{loop.batch_size}@{loop.node}"


def _cotengra(task: Task, network: Network, arrays: Arrays) -> Prepared:
    import peers

    tree = peers.tree_from_options(task.options or {})
    return Prepared(lambda: tree.contract(arrays), peers.facts(tree))


def _handbatch(task: Task, network: Network, arrays: Arrays) -> Prepared:
    import handbatch

    blocks = tuple((task.options or {})["blocks"])
    function = handbatch.FUNCTIONS[network.name][(task.options or {})["variant"]]
    return Prepared(lambda: function(*arrays, *blocks), {"blocks": blocks})


def _stand_in(task: Task, network: Network, arrays: Arrays) -> Prepared:
    """Takes a known number of bytes: to test the harness itself."""
    options = task.options or {}
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

    def call() -> np.ndarray:
        seen = np.ones(options.get("array_bytes", 0), np.uint8)
        mapped_bytes = options.get("mapped_bytes", 0)
        if mapped_bytes:
            np.frombuffer(mmap.mmap(-1, mapped_bytes), np.uint8).fill(1)
        hidden_bytes = options.get("hidden_bytes", 0)
        if hidden_bytes:
            hidden = libc.malloc(hidden_bytes)
            libc.memset(hidden, 1, hidden_bytes)
            libc.free(hidden)
        return seen[:0].sum() + np.zeros(network.output_shape)

    return Prepared(call, {})


ACTIONS: dict[str, Callable[[Task, Any], dict[str, Any]]] = {
    "price": _price,
    "run": _run,
    "reference": _reference,
}
ENGINES: dict[str, Callable[[Task, Network, Arrays], Prepared]] = {
    "einbound": _einbound,
    "cotengra": _cotengra,
    "handbatch": _handbatch,
    "stand-in": _stand_in,
}


def task_line(task: Task) -> str:
    """The task as the line that a child reads."""
    return json.dumps(asdict(task)) + "\n"


if __name__ == "__main__":
    main()
