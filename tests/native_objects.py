"""Objects of the kernel family compiled for a test, and products run by them."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from einbound.kernels.emit_c import c_source
from einbound.kernels.member import Member
from einbound.kernels.nest import nest_of
from einbound.kernels.task import Task

COMPILER = shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (gcc, clang) was found")

#: A byte that nothing writes, around everything that a kernel may write.
CANARY = 0xA5
MARGIN = 256


@cache
def folder() -> Path:
    """Where objects of this run of the tests are."""
    return Path(mkdtemp(prefix="einbound-objects-"))


@cache
def compiled(member: Member) -> ctypes.CDLL:
    """The object of a member, compiled without a warning."""
    assert COMPILER is not None
    source, target = folder() / f"{member.name}.c", folder() / f"{member.name}.so"
    source.write_text(c_source(nest_of(member)))
    flags = ["-O1", "-march=native", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-psabi"]
    command = [COMPILER, *flags, "-shared", "-fPIC", "-o", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(target))
    library.einbound_run.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_int64] * 2
    library.einbound_run.restype = None
    library.einbound_call.argtypes = [ctypes.c_void_p] + [ctypes.py_object] * 4
    library.einbound_call.restype = None
    return library


@dataclass(frozen=True)
class Operands:
    """Arrays of one product; `base` is the memory around the result."""

    a: NDArray[Any]
    b: NDArray[Any]
    c: NDArray[Any]
    base: NDArray[Any]


def run(member: Member, task: Task, arrays: Operands, cuts: tuple[int, ...] = ()) -> None:
    """Run all chunks, from cut to cut, and assert that the workspace alone was written to."""
    words = np.array(task.words, dtype=np.int64)
    room = np.full(task.workspace_bytes + 2 * MARGIN, CANARY, dtype=np.uint8)
    a, b = (arrays.b, arrays.a) if task.swapped else (arrays.a, arrays.b)
    given = [x.ctypes.data for x in (a, b, arrays.c)]
    edges = sorted({0, task.n_chunks, *(cut for cut in cuts if 0 < cut < task.n_chunks)})
    for first, stop in pairwise(edges):
        compiled(member).einbound_run(
            words.ctypes.data, *given, room.ctypes.data + MARGIN, first, stop
        )
    assert (room[:MARGIN] == CANARY).all(), "written before the workspace"
    assert (room[MARGIN + task.workspace_bytes :] == CANARY).all(), "written after the workspace"
