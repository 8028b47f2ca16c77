"""What operating systems tell about their processor; nothing is filled in here but ways."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from einbound.machine.cores import APPLE, Core, arm_core, x86_core
from einbound.machine.peak import output_of

#: Associativity of a cache where it is not told.
FALLBACK_WAYS = 8
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}

Sysctl = Callable[[str], str]
#: Size, ways and line of one cache.
Geometry = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Told:
    """What one system tells about its processor; None and empty where it does not."""

    core: Core | None
    vector_bytes: int | None
    vector_registers: int | None
    has_fp16: bool
    caches: tuple[Geometry, ...]
    clock_hz: float | None
    is_highest: bool
    n_cores: int
    missing: tuple[str, ...] = ()


# Linux ------------------------------------------------------------------------------------------


def linux(root: Path, arch: str) -> Told:
    """What Linux tells.

    Args:
        root: Where proc and sys are mounted.
        arch: The architecture, in lower case.
    """
    cpuinfo = _cpuinfo(root)
    caches, missing = _linux_caches(root)
    is_arm = arch in ("aarch64", "arm64")
    flags = frozenset(cpuinfo.get("Features" if is_arm else "flags", "").split())
    vector_bytes, vector_registers = _arm_vectors(flags) if is_arm else _x86_vectors(flags)
    if is_arm:
        core = arm_core(_number(cpuinfo, "CPU implementer"), _number(cpuinfo, "CPU part"))
    else:
        vendor = cpuinfo.get("vendor_id", "")
        core = x86_core(vendor, _number(cpuinfo, "cpu family"), _number(cpuinfo, "model"))
    return Told(
        core,
        vector_bytes,
        vector_registers,
        bool(flags & {"avx512_fp16", "asimdhp"}),
        caches,
        *_linux_clock(root, cpuinfo),
        _linux_cores(root),
        missing,
    )


def _cpuinfo(root: Path) -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo."""
    found: dict[str, str] = {}
    for line in _text(root / "proc" / "cpuinfo").splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return found


def _x86_vectors(flags: frozenset[str]) -> tuple[int | None, int | None]:
    if not flags:
        return None, None
    if "avx512f" in flags:
        return 64, 32
    return (32, 16) if "avx" in flags else (16, 16)


def _arm_vectors(flags: frozenset[str]) -> tuple[int | None, int | None]:
    # The width of SVE is told by no file; NEON is everywhere, and as fast where SVE is 128 bits.
    return (16 if "asimd" in flags else None), 32


def _linux_caches(root: Path) -> tuple[tuple[Geometry, ...], tuple[str, ...]]:
    """Caches that hold data, the nearest first, and what was not told about them."""
    found: dict[int, Geometry] = {}
    missing: set[str] = set()
    folder = root / "sys/devices/system/cpu/cpu0/cache"
    for index in sorted(folder.glob("index*")):
        size = _bytes(_text(index / "size"))
        level = _text(index / "level").strip()
        if not size or not level.isdecimal() or _text(index / "type").strip() == "Instruction":
            continue
        # Virtual machines and many Arm systems tell 0 or nothing here.
        ways = _bytes(_text(index / "ways_of_associativity"))
        if not ways:
            missing.add(f"ways of L{level}")
        line = _bytes(_text(index / "coherency_line_size")) or 64
        found[int(level)] = (size, ways or FALLBACK_WAYS, line)
    return tuple(found[level] for level in sorted(found)), tuple(sorted(missing))


def _linux_clock(root: Path, cpuinfo: Mapping[str, str]) -> tuple[float | None, bool]:
    """A clock in cycles per second, and whether it is the highest."""
    most = _bytes(_text(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"))
    if most:
        return most * 1e3, True
    try:
        mhz = float(cpuinfo.get("cpu MHz", ""))
    except ValueError:
        return None, False
    return (mhz * 1e6 if 0 < mhz < math.inf else None), False


def _linux_cores(root: Path) -> int:
    """Cores that this process may use; threads of one core count once."""
    usable = _usable()
    folder = root / "sys/devices/system/cpu"
    siblings = {_text(folder / f"cpu{n}/topology/thread_siblings_list").strip() for n in usable}
    return len(usable) if "" in siblings else len(siblings)


def _usable() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


# macOS ------------------------------------------------------------------------------------------


def darwin(arch: str, sysctl: Sysctl) -> Told:
    """What macOS tells.

    Args:
        arch: The architecture, in lower case.
        sysctl: Tells a value by its name.
    """
    is_arm = arch == "arm64"
    # Cores of the fast kind; Intel Macs have no such levels.
    fast = "hw.perflevel0." if sysctl("hw.perflevel0.l1dcachesize") else "hw."
    line = _bytes(sysctl("hw.cachelinesize")) or 64
    sizes = [_bytes(sysctl(f"{fast}{name}")) for name in ("l1dcachesize", "l2cachesize")]
    sizes.append(_bytes(sysctl("hw.l3cachesize")))
    caches = tuple((size, FALLBACK_WAYS, line) for size in sizes if size)
    has_avx2 = "AVX2" in sysctl("machdep.cpu.leaf7_features").split()
    core = APPLE if is_arm else x86_core("GenuineIntel", 6, _bytes(sysctl("machdep.cpu.model")))
    return Told(
        core,
        16 if is_arm or not has_avx2 else 32,
        32 if is_arm else 16,
        is_arm,
        caches,
        float(_bytes(sysctl("hw.cpufrequency_max"))) or None,
        True,
        _bytes(sysctl("hw.physicalcpu")) or 1,
        tuple(f"ways of L{level}" for level in range(1, len(caches) + 1)),
    )


def ask_sysctl(name: str) -> str:
    """A value of macOS by its name; empty where there is none."""
    return output_of(["sysctl", "-n", name])


# text -------------------------------------------------------------------------------------------


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _number(found: Mapping[str, str], name: str) -> int:
    """A decimal or hexadecimal field; -1 where there is none."""
    try:
        return int(found.get(name, ""), 0)
    except ValueError:
        return -1


def _bytes(text: str) -> int:
    """A whole number with K, M, G or nothing after it; 0 where there is none."""
    text = text.strip()
    unit = _UNITS.get(text[-1:], 1)
    digits = text[:-1] if unit > 1 else text
    return int(digits) * unit if digits.isascii() and digits.isdecimal() else 0
