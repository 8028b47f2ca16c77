"""Bytes of memory: what the machine has left, and limits as people write them.

Peaks of a running process are measured in `machine.peak`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from operator import index
from typing import TYPE_CHECKING

from einbound.errors import LimitError

if TYPE_CHECKING:
    from pathlib import Path

#: What `available_bytes` answers where the machine does not tell.
UNKNOWN_BYTES = sys.maxsize

_PREFIXES = ("K", "M", "G", "T", "P", "E")
_UNITS = {
    "": 1,
    "B": 1,
    **{f"{prefix}B": 1000**n for n, prefix in enumerate(_PREFIXES, 1)},
    **{f"{prefix}IB": 1024**n for n, prefix in enumerate(_PREFIXES, 1)},
}
# Kernels report "no limit" in control groups of version 1 as a huge page-aligned number.
_NO_LIMIT = 2**62


def parse_bytes(
    limit: int | str,
    available: Callable[[], int] | None = None,
    *,
    name: str = "memory_limit",
) -> int:
    """The number of bytes that `limit` stands for, rounded down.

    Args:
        limit: A number of bytes, or text: "512MiB" (2**20 bytes each), "1.5GB" (10**9 bytes
            each), or "80%" of what is available. Case and spaces do not matter.
        available: Tells the bytes available; asked for percentages only, once.
        name: The caller's name for the limit, used in errors.

    Raises:
        LimitError: `limit` is none of these; the message repeats it.

    Example:
        >>> parse_bytes("1.5 kB"), parse_bytes("2KiB"), parse_bytes("25%", lambda: 4000)
        (1500, 2048, 1000)
    """
    if isinstance(limit, str):
        return _parsed(limit, available or available_bytes, name)
    try:
        if isinstance(limit, bool):
            raise TypeError
        number = index(limit)
    except TypeError:
        raise _refusal(name, limit) from None
    if number < 0:
        raise _refusal(name, limit)
    return number


def _parsed(text: str, available: Callable[[], int], name: str) -> int:
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zA-Z]*|%)\s*", text, re.ASCII)
    if match is None:
        raise _refusal(name, text)
    from fractions import Fraction  # loads decimals, which take longer than this module

    amount, unit = Fraction(match[1]), match[2].upper()
    if unit in _UNITS:
        return int(amount * _UNITS[unit])
    if unit != "%" or amount > 100:
        raise _refusal(name, text)
    have = available()
    if have == UNKNOWN_BYTES:
        raise LimitError(
            f"{name}={text!r} is a share of the memory available, which this machine does not "
            'tell; give it in bytes, for example "2GiB"'
        )
    return int(amount * have / 100)


def _refusal(name: str, limit: object) -> LimitError:
    return LimitError(
        f"{name}={limit!r} is no amount of memory; expected a number of bytes (an int of at least "
        '0) or text such as "512MiB", "1.5GB" or "80%"'
    )


def available_bytes(root: Path | None = None) -> int:
    """Bytes that a process may still take without swapping or being killed.

    The least of what the machine and the control groups around the process have left; file
    cache that the kernel can drop counts as left. `UNKNOWN_BYTES` where nothing is told.

    Args:
        root: Where proc and sys are mounted; None: as usual, another folder in tests.
    """
    if root is None:
        # Loaded with the package, it would be a tenth of the time that importing takes.
        from pathlib import Path

        root = Path("/")
    bounds = [_machine_bytes(root), *_group_bytes(root)]
    return max(min(bounds), 0)


def _machine_bytes(root: Path) -> int:
    for line in _lines(root / "proc" / "meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return _sysconf_bytes()


def _sysconf_bytes() -> int:
    # macOS tells the memory in all only; Windows has no sysconf.
    names: dict[str, int] = getattr(os, "sysconf_names", {})
    for pages in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):
        if pages in names:
            return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
    return UNKNOWN_BYTES


def _group_bytes(root: Path) -> Iterator[int]:
    """What each control group around this process has left, innermost first."""
    for line in _lines(root / "proc" / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _chain(root / "sys/fs/cgroup", path, "memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            limit, usage = "memory.limit_in_bytes", "memory.usage_in_bytes"
            yield from _chain(root / "sys/fs/cgroup/memory", path, limit, usage)


def _chain(mount: Path, path: str, limit: str, usage: str) -> Iterator[int]:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    # Inside a container the path may name a group of the host that is not mounted here; the
    # mount itself is then the container's own group, and the last folder of the chain.
    for depth in range(len(parts), -1, -1):
        folder = mount.joinpath(*parts[:depth])
        most, used = _number(folder / limit), _number(folder / usage)
        if most is not None and used is not None and most < _NO_LIMIT:
            yield most - used + _droppable(folder)


def _droppable(folder: Path) -> int:
    """Bytes of file cache of a group that the kernel drops first."""
    stat = dict(line.split() for line in _lines(folder / "memory.stat") if line.count(" ") == 1)
    return int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))


def _number(path: Path) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdecimal() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
