"""Resident pages of anonymous mappings, counted beside tracemalloc, which does not see them.

Pages are only ever added between two moments at which a mapping ends or gives pages back. So the
kernel is asked just before each of them (mincore), and what it says bounds all that was resident
since the last one: no touch is missed, and addresses that were never touched do not count.
"""

from __future__ import annotations

import ctypes
import mmap
import tracemalloc
from typing import Any

import numpy as np

#: Pages asked for in one call.
CHUNK_PAGES = 1 << 14

_libc = ctypes.CDLL(None, use_errno=True)
_answer = np.zeros(CHUNK_PAGES, np.uint8)
#: Address and length of every anonymous mapping that is alive, by its object.
_spans: dict[int, tuple[int, int]] = {}
_largest = 0


def resident_bytes() -> int:
    """Bytes of all tracked mappings that are resident now."""
    page, pages = mmap.PAGESIZE, 0
    for address, length in _spans.values():
        for at in range(0, length, CHUNK_PAGES * page):
            n_bytes = min(length - at, CHUNK_PAGES * page)
            asked = ctypes.c_void_p(address + at), ctypes.c_size_t(n_bytes)
            if _libc.mincore(*asked, ctypes.c_void_p(_answer.ctypes.data)):
                raise OSError(ctypes.get_errno(), "mincore")
            pages += int(np.count_nonzero(_answer[: -(-n_bytes // page)]))
    return pages * page


def start() -> None:
    """Count from here; tracemalloc must be running."""
    global _largest
    _largest = 0
    tracemalloc.reset_peak()


def note() -> int:
    """Most bytes so far of allocations that tracemalloc sees and of resident mappings."""
    global _largest
    if tracemalloc.is_tracing():
        traced = tracemalloc.get_traced_memory()[1]
        _largest = max(_largest, traced + resident_bytes())
        tracemalloc.reset_peak()
    return _largest


class TrackedMapping(mmap.mmap):
    """A mapping that is counted if it is anonymous."""

    def __init__(self, fileno: int, length: int, *args: Any, **keywords: Any) -> None:
        super().__init__()
        if fileno == -1:
            address = ctypes.addressof(ctypes.c_char.from_buffer(self))
            _spans[id(self)] = address, length

    def madvise(self, option: int, *span: int) -> None:
        """Give advice; before pages are given back, what was resident is noted."""
        if option == getattr(mmap, "MADV_DONTNEED", None):
            note()
        super().madvise(option, *span)

    def __del__(self) -> None:
        if id(self) in _spans:
            note()
            del _spans[id(self)]


def track() -> None:
    """Counts every anonymous mapping that is made from here on."""
    mmap.mmap = TrackedMapping  # type: ignore[misc]
