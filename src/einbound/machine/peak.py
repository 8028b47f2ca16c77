"""Measured peaks: what an action really took, by the allocators' and the system's own count.

What a plan is expected to take is modelled elsewhere; here is only what was seen.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

#: The system's count moves by this much without any array: pages of code touched for the first
#: time, arenas, BLAS buffers. Growth of the process up to this says nothing about arrays.
PROCESS_SLACK_BYTES = 8 * 2**20

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


@dataclass(frozen=True, slots=True)
class Growth:
    """How much an action took above what was there before.

    Attributes:
        tracked_bytes: Peak growth of the allocations that Python's allocators see.
        process_bytes: Growth of the process's high-water mark; None: not measurable here.
    """

    tracked_bytes: int
    process_bytes: int | None

    @property
    def counted_bytes(self) -> int:
        """The larger count, with the slack taken off what the system counted."""
        return max(self.tracked_bytes, (self.process_bytes or 0) - PROCESS_SLACK_BYTES)


def process_growth(action: Callable[[], object]) -> int | None:
    """Bytes by which `action` raised the process's high-water mark; None: not measurable here.

    Meaningful in a fresh process whose libraries are warm: memory that was freed before and is
    taken again does not show.
    """
    gc.collect()
    reset_high_water()
    before = high_water_bytes()
    kept = action()
    after = high_water_bytes()
    del kept
    return None if before is None or after is None else after - before


def tracked_growth(action: Callable[[], object]) -> int:
    """Peak bytes that Python's allocators, NumPy's among them, held for `action`."""
    gc.collect()
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        kept = action()
        _, peak = tracemalloc.get_traced_memory()
        del kept
    finally:
        tracemalloc.stop()
    return peak - before


def high_water_bytes() -> int | None:
    """Most bytes of memory that this process ever had resident; None: not told here."""
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def reset_high_water() -> bool:
    """Whether the high-water mark now stands at what is resident at present."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


def run_fresh(module: str, arguments: Sequence[str], text: str) -> str:
    """What `python -m module arguments` prints in a fresh process that reads `text`.

    The child's stderr is the caller's, so its progress shows.

    Raises:
        subprocess.CalledProcessError: The child failed.
    """
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def output_of(command: Sequence[str]) -> str:
    """What a program of the system prints; empty where there is no such program or it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout
