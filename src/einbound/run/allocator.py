"""The one owner of workspace memory during a run.

One arena of the bytes that the plan promised is mapped at the first request and reused by every
trip, so that pages are touched once. Where its holes are too scattered for a request, the holes
are given back to the system and the request is mapped on its own, and when the result comes to
life beside it the arena is cut short: what is resident never exceeds the promise by more than the
rounding to cache lines and pages. Small promises need no arena; NumPy allocates each buffer.

Touching fresh pages takes longer than many a product, so a thread keeps the arena of its last run,
up to a few MiB, for the next one. A run that is promised less gives the rest back first.
"""

from __future__ import annotations

import mmap
import threading
from bisect import insort

import numpy as np
from numpy.typing import NDArray

from einbound.errors import ScheduleError

#: Buffers in the arena start on cache lines.
LINE_BYTES = 64
#: Room in the arena for rounding buffers up to whole lines.
SLACK_BYTES = 64 * LINE_BYTES
#: Promises from this size on are mapped, so that they leave the process when the run ends.
MAPPED_FROM_BYTES = 256 * 1024
#: Buffers beside an arena are mapped from this size on: there, a heap that keeps what is freed
#: would add to the pages of the arena.
OUTSIDE_FROM_BYTES = 16 * 1024
#: Mappings from this size on ask for huge pages, which take fewer faults to fill.
HUGE_FROM_BYTES = 4 * 1024 * 1024
#: Arenas up to this size are kept: filling 536 KiB anew took 0.2 ms, a third of the product in it.
KEPT_BYTES = 4 * 1024 * 1024

#: Python maps shared memory by default, whose pages stay when they are given back.
PRIVATE: dict[str, int] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
)

Buffer = NDArray[np.uint8]


class _Kept(threading.local):
    """The arena of a thread's last run, of which nothing is in use."""

    arena: tuple[mmap.mmap, Buffer] | None = None


_KEPT = _Kept()


class Allocator:
    """Workspace for one run, bounded by the bytes that the plan promised.

    Args:
        capacity_bytes: What may live at once.
    """

    __slots__ = (
        "arena",
        "capacity_bytes",
        "holes",
        "is_mapped",
        "live_bytes",
        "outside",
        "pages",
        "peak_bytes",
        "places",
        "top",
    )

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.live_bytes = 0
        self.peak_bytes = 0
        self.is_mapped = capacity_bytes >= MAPPED_FROM_BYTES
        self.arena: Buffer | None = None
        self.pages: mmap.mmap | None = None
        #: Free stretches of the arena, as (start, stop), in order.
        self.holes: list[tuple[int, int]] = []
        #: Where each living buffer lies in the arena; None outside of it.
        self.places: dict[int, tuple[int, int] | None] = {}
        #: Living buffers outside of the arena. While there are any, holes hold no pages.
        self.outside = 0
        #: End of the part of the arena that may be used.
        self.top = capacity_bytes + SLACK_BYTES
        if _KEPT.arena is not None and not self.is_mapped:
            _KEPT.arena = None

    def take(self, n_bytes: int, high: bool = False) -> Buffer:
        """A buffer of exactly `n_bytes` bytes with undefined content.

        Args:
            n_bytes: Its size.
            high: Place it at the far end of the arena. Buffers that live at overlapping times
                leave fewer holes between them when neighbours in time lie at different ends.

        Raises:
            ScheduleError: The promise would be broken; nothing was allocated.
        """
        self._count(n_bytes)
        if not self.is_mapped:
            return np.empty(n_bytes, np.uint8)
        if self.arena is None:
            self.pages, self.arena = _arena(self.top)
            self.holes = [(0, self.top)]
        buffer, place = self._placed(n_bytes, high)
        self.places[id(buffer)] = place
        return buffer

    def give(self, buffer: Buffer) -> None:
        """Take back a buffer; the caller keeps no view of it."""
        self.live_bytes -= buffer.nbytes
        if not self.is_mapped:
            return
        place = self.places.pop(id(buffer))
        if place is None:
            self.outside -= 1
            return
        start, stop = place
        if self.outside:
            self._evacuate(start, stop)
        elif stop > self.top:
            self._evacuate(max(start, self.top), stop)
        if start < self.top:
            self._free(start, min(stop, self.top))

    def limit(self, capacity_bytes: int) -> None:
        """Keep to fewer bytes from now on, living buffers included.

        Law: no byte that is in use moves, and no more than `capacity_bytes` stay resident.
        """
        if capacity_bytes >= self.capacity_bytes:
            return
        self.capacity_bytes = capacity_bytes
        # What reaches above the top stays until it is freed, and shortens the rest.
        top = capacity_bytes + SLACK_BYTES
        for start, stop in sorted((place for place in self.places.values() if place), reverse=True):
            if stop > top:
                top = max(top - (stop - start), 0)
        self.top = min(top, self.top)
        self._small_pages(self.top)
        for start, stop in self.holes:
            if stop > self.top:
                self._evacuate(max(start, self.top), stop)
        self.holes = [(a, min(b, self.top)) for a, b in self.holes if a < self.top]

    def make_room(self, n_bytes: int) -> None:
        """Give free pages of the arena back, for a call that takes as much memory elsewhere."""
        if self.outside:
            return
        for start, stop in reversed(self.holes):
            if n_bytes <= 0:
                return
            self._evacuate(max(start, stop - n_bytes - mmap.PAGESIZE), stop)
            n_bytes -= stop - start

    def lend(self, n_bytes: int) -> None:
        """Count memory that somebody else takes, and give as many free pages back for it.

        Raises:
            ScheduleError: The promise would be broken.
        """
        self._count(n_bytes)
        self._small_pages(0)
        self.make_room(n_bytes)

    def settle(self, n_bytes: int) -> None:
        """End what `lend` counted."""
        self.live_bytes -= n_bytes

    def finish(self) -> None:
        """End a run that went well: a small arena is kept for the thread's next one."""
        if self.pages is not None and self.arena is not None and self.arena.nbytes <= KEPT_BYTES:
            _KEPT.arena = self.pages, self.arena

    def abandon(self) -> None:
        """Give all pages back after an error, which may keep the arena alive through its frames."""
        if self.arena is not None:
            self._evacuate(0, len(self.arena))

    def _count(self, n_bytes: int) -> None:
        live = self.live_bytes + n_bytes
        if live > self.capacity_bytes:
            raise ScheduleError(
                f"a step asked for {n_bytes} bytes with {self.live_bytes} alive, but the plan "
                f"promised at most {self.capacity_bytes}; nothing was allocated; "
                "this is a fault in einbound's memory model, please report the plan's JSON"
            )
        self.live_bytes = live
        self.peak_bytes = max(self.peak_bytes, live)

    def _placed(self, n_bytes: int, high: bool) -> tuple[Buffer, tuple[int, int] | None]:
        assert self.arena is not None
        size = max(-(-n_bytes // LINE_BYTES), 1) * LINE_BYTES
        numbers = range(len(self.holes))
        for k in reversed(numbers) if high else numbers:
            start, stop = self.holes[k]
            if stop - start < size:
                continue
            at = stop - size if high else start
            left = (start, at) if high else (at + size, stop)
            self.holes[k : k + 1] = [left] if left[0] < left[1] else []
            return self.arena[at : at + n_bytes], (at, at + size)
        self._small_pages(0)
        for hole in self.holes:
            self._evacuate(*hole)
        self.outside += 1
        if n_bytes < OUTSIDE_FROM_BYTES:
            return np.empty(n_bytes, np.uint8), None
        return _mapped(n_bytes)[1], None

    def _free(self, start: int, stop: int) -> None:
        """Return a stretch to the holes, joined with its neighbours."""
        holes = self.holes
        insort(holes, (start, stop))
        k = holes.index((start, stop))
        if k + 1 < len(holes) and holes[k + 1][0] == stop:
            holes[k : k + 2] = [(start, holes[k + 1][1])]
        if k and holes[k - 1][1] == start:
            holes[k - 1 : k + 1] = [(holes[k - 1][0], holes[k][1])]

    def _evacuate(self, start: int, stop: int) -> None:
        """Give the pages of a free stretch back to the system; the addresses stay ours."""
        if self.pages is not None:
            _give_back(self.pages, start, stop)

    def _small_pages(self, start: int) -> None:
        """Touch no more than is asked for from here on: a huge page would fill a hole beside it."""
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        if self.pages is None or not first < len(self.pages) >= HUGE_FROM_BYTES:
            return
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            self.pages.madvise(mmap.MADV_NOHUGEPAGE, first)


def _arena(n_bytes: int) -> tuple[mmap.mmap, Buffer]:
    """The thread's last arena where it is as large, else fresh memory in its place."""
    kept, _KEPT.arena = _KEPT.arena, None
    if kept is None or kept[1].nbytes < n_bytes:
        del kept
        return _mapped(n_bytes)
    _give_back(kept[0], n_bytes, len(kept[0]))
    return kept


def _give_back(pages: mmap.mmap, start: int, stop: int) -> None:
    """Give the whole pages of a stretch back to the system; the addresses stay ours."""
    page = mmap.PAGESIZE
    first, last = -(-start // page) * page, stop // page * page
    if first < last and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED, first, last - first)


def _mapped(n_bytes: int) -> tuple[mmap.mmap, Buffer]:
    """Fresh memory on pages of its own."""
    pages = mmap.mmap(-1, n_bytes, **PRIVATE)
    if n_bytes >= HUGE_FROM_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return pages, np.frombuffer(pages, np.uint8)
