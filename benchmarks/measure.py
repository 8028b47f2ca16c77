"""What one call takes: tracked bytes, growth of the process, seconds.

Tracked bytes come from tracemalloc, which sees every NumPy array, and, once `mappings.track` was
called, the resident pages of anonymous mappings, but not what C code takes with plain malloc; the
growth of the process's high-water mark sees that as well, but also BLAS work buffers and pages.
Neither is enough alone.
"""

from __future__ import annotations

import ctypes
import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mappings
import numpy as np

#: What the process may grow beyond the count: BLAS buffers, heap fragments, page rounding.
ALLOWANCE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one call took.

    Attributes:
        result: What the call returned.
        tracked_bytes: Growth of tracemalloc's peak during the call; 0 where it was not tracing.
        process_bytes: Growth of the resident high-water mark (VmHWM) during the call.
        wall_seconds: Elapsed time.
        cpu_seconds: Processor time of all threads.
    """

    result: Any
    tracked_bytes: int
    process_bytes: int
    wall_seconds: float
    cpu_seconds: float

    def measured_bytes(self, operand_bytes: int) -> int:
        """Operand bytes plus the larger of both growths, the process's less its allowance."""
        grown = max(self.tracked_bytes, self.process_bytes - ALLOWANCE_BYTES)
        return operand_bytes + max(grown, 0)


def measure(call: Callable[[], Any], *, trace: bool = True) -> Measurement:
    """What `call` takes in this process, garbage and free heap pages given back before it."""
    gc.collect()
    _trim_heap()
    if trace:
        tracemalloc.start()
    _lower_high_water()
    tracked_before = tracemalloc.get_traced_memory()[0] + mappings.resident_bytes()
    mappings.start()
    process_before = status_bytes("VmHWM")
    cpu, wall = time.process_time(), time.perf_counter()
    result = call()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    process_after = status_bytes("VmHWM")
    tracked_after = mappings.note()
    if trace:
        tracemalloc.stop()
    return Measurement(
        result, tracked_after - tracked_before, process_after - process_before, wall, cpu
    )


def status_bytes(field: str) -> int:
    """A size of /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"/proc/self/status has no field {field}; these figures need Linux")


def _lower_high_water() -> None:
    # Writing 5 sets VmHWM back to what is resident now, so that a peak reached while the
    # operands were filled cannot hide one of the call. Where a container forbids it, the mark
    # stays; the operands are filled without large temporaries for that case.
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def _trim_heap() -> None:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim is not None:
        trim(0)


def warm_blas(dtype: str = "float64") -> None:
    """Makes BLAS take its work buffers, which it keeps for the life of the process."""
    square = np.ones((768, 768), dtype)
    out = np.empty_like(square)
    np.matmul(square, square, out=out)
    np.matmul(square, square.T, out=out)
    np.matmul(square[:, :700], out[:700, :300])
    np.matmul(square, square[0])
    np.add(square, out, out=out)
    np.add.reduce(out)


def largest_difference(result: Any, reference: Any) -> float:
    """Largest difference of two arrays over the largest entry, read in small blocks."""
    found, wanted = np.asarray(result), np.asarray(reference)
    if found.shape != wanted.shape:
        return float("inf")
    if found.ndim == 0:
        found, wanted = found.reshape(1), wanted.reshape(1)
    worst = largest = 0.0
    for row, wanted_row in zip(found, wanted, strict=True):
        difference = float(np.max(np.abs(row - wanted_row), initial=0.0))
        worst = max(worst, difference) if difference == difference else float("inf")
        largest = max(largest, float(np.max(np.abs(wanted_row), initial=0.0)))
    return worst / largest if largest else worst
