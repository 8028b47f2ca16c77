"""One run of an object in a child process: a crash, a hang or a wrong result costs one candidate.

The child knows the object and the numbers that the
object is told, and computes the same product with NumPy. Elements are small whole numbers, so that
every order of summation gives the same bits and results are compared for equality.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from einbound.kernels.groups import GroupAxis, Groups
from einbound.kernels.layout import told
from einbound.kernels.member import Member
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.task import Task
from einbound.tune.build import load, run_child

Array = NDArray[Any]

#: Seconds for a start of Python, one run and the comparison.
TRIAL_SECONDS = 60.0
#: What unused memory is filled with; an object that writes there is wrong.
_CANARY = 0xA5
_MARGIN = 4096
#: Elements of operands are whole numbers from minus to plus this.
_LARGEST = 3
_GROUPS = ("batch", "m", "n", "k")
#: The groups of whose axes each array is made.
_CARRIED = {"a": ("batch", "m", "k"), "b": ("batch", "n", "k"), "c": ("batch", "m", "n")}
#: What the child runs; the package is found where the parent found it.
_START = (
    "import sys; sys.path[:] = {path!r}; from einbound.tune.trial import main; sys.exit(main())"
)


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one run.

    Attributes:
        passed: It ended in time, with the right result and nothing else written.
        reason: Why not; "" if it did.
        code: The exit status of that process, negative for a signal; None: it ran out of time.
    """

    passed: bool
    reason: str = ""
    code: int | None = 0


def trial(
    built: Path,
    problem: MatmulProblem,
    member: Member,
    task: Task,
    *,
    accumulate: bool = False,
    seconds: float = TRIAL_SECONDS,
) -> Trial:
    """What an object does when it runs once in a process of its own.

    Args:
        built: Its file.
        problem: The product, as the task was made from it.
        member: What the object is.
        task: What it is told, with alpha 1.
        accumulate: Whether the task adds to what is there.
        seconds: After these the child is killed.
    """
    groups = told(problem).groups
    assert groups is not None, "strides are told"
    given = {
        "object": str(built),
        "dtype": str(member.dtype),
        "groups": asdict(groups),
        "task": asdict(task),
        "accumulate": accumulate,
    }
    command = (sys.executable, "-c", _START.format(path=sys.path))
    done = run_child(command, seconds, json.dumps(given))
    if done.code == 0:
        reason = done.output.strip()
        return Trial(not reason, reason)
    said = done.errors.strip().splitlines()
    return Trial(False, f"{done.fate}{f': {said[-1]}' if said else ''}", done.code)


@dataclass(frozen=True, slots=True)
class _Side:
    """One array: the memory around it, and its elements over all axes that it has."""

    memory: Array
    view: Array
    labels: tuple[int, ...]


def _side(groups: Groups, name: str, dtype: np.dtype[Any]) -> _Side:
    """An array with room before and after every element that its strides reach."""
    axes: list[GroupAxis] = []
    labels: list[int] = []
    count = 0
    for group in _GROUPS:
        for axis in getattr(groups, group):
            if group in _CARRIED[name]:
                axes.append(axis)
                labels.append(count)
            count += 1
    strides = [int(getattr(axis, name)) for axis in axes]
    steps = [stride * (axis.extent - 1) for stride, axis in zip(strides, axes, strict=True)]
    low, high = sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps)
    memory = np.full((high - low + 1) * dtype.itemsize + 2 * _MARGIN, _CANARY, np.uint8)
    flat = memory[_MARGIN : memory.size - _MARGIN].view(dtype)
    shape = tuple(axis.extent for axis in axes)
    view = as_strided(flat[-low:], shape, tuple(stride * dtype.itemsize for stride in strides))
    return _Side(memory, view, tuple(labels))


def _filled(side: _Side, seed: int) -> None:
    """Give the elements whole numbers that look random."""
    count = np.arange(side.view.size, dtype=np.uint64) + np.uint64(seed)
    mixed = (count * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    span = np.uint64(2 * _LARGEST + 1)
    numbers = (mixed % span).astype(np.int64) - _LARGEST
    if side.view.dtype.kind == "c":
        other = (mixed // span % span).astype(np.int64) - _LARGEST
        side.view[...] = (numbers + 1j * other).reshape(side.view.shape)
    else:
        side.view[...] = numbers.reshape(side.view.shape)


def check(given: dict[str, Any]) -> str:
    """Why an object is wrong, or "" if it is right; the run itself may end the process."""
    groups, dtype = Groups.of(given["groups"]), np.dtype(given["dtype"])
    a, b, c, wanted = (_side(groups, name, dtype) for name in ("a", "b", "c", "c"))
    for seed, side in enumerate((a, b, c), 1):
        _filled(side, seed << 32)
    product = np.einsum(a.view, a.labels, b.view, b.labels, c.labels, optimize=True)
    wanted.view[...] = c.view + product if given["accumulate"] else product
    task = given["task"]
    room = np.full(task["workspace_bytes"] + 2 * _MARGIN, _CANARY, np.uint8)
    words = np.array(task["words"], np.int64)
    first, second = (b, a) if task["swapped"] else (a, b)
    load(Path(given["object"])).run(
        words.ctypes.data,
        first.view.ctypes.data,
        second.view.ctypes.data,
        c.view.ctypes.data,
        room.ctypes.data + _MARGIN,
        0,
        task["n_chunks"],
    )
    if (room[:_MARGIN] != _CANARY).any() or (room[-_MARGIN:] != _CANARY).any():
        return "it writes beside its workspace"
    n_wrong = int(np.count_nonzero(c.view != wanted.view))
    if n_wrong:
        return f"{n_wrong} of {c.view.size} elements of the result are wrong"
    return "" if np.array_equal(c.memory, wanted.memory) else "it writes beside the result"


def main() -> None:
    """Check the object that standard input names; say what is wrong on standard output."""
    sys.stdout.write(check(json.load(sys.stdin)))
