"""The limits of the processor that this runs on, as far as the system tells them.

What it does not tell is filled in and said to be. Facts about cores are in `machine.cores`.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from einbound.machine.cores import APPLE, Core, arm_core, x86_core
from einbound.machine.limits import CacheLevel, HardwareLimits
from einbound.machine.peak import output_of
from einbound.machine.precision import Precision

#: A core of which nothing is known: what every x86-64 and AArch64 server of ten years has.
UNKNOWN_CORE = Core("unknown core", 32, 5, (32, 32, 16), 0.0, 0.0)
FALLBACK_CLOCK_HZ = 2.0e9
#: Size, ways and line of L1, L2 and L3 where the system does not tell.
FALLBACK_CACHES = ((32 * 2**10, 8, 64), (512 * 2**10, 8, 64), (8 * 2**20, 16, 64))
FALLBACK_WAYS = 8
FALLBACK_VECTOR_BYTES = 16

Sysctl = Callable[[str], str]
#: Size, ways and line of one cache.
Geometry = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Detected:
    """What was found out about a processor.

    Attributes:
        limits: The record that kernels are chosen by.
        core: The microarchitecture that its figures were looked up for.
        guessed: Fields that the system did not tell and that are filled in.
    """

    limits: HardwareLimits
    core: str
    guessed: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """One line of what kernels will be chosen by."""
        limits = self.limits
        caches = ", ".join(f"L{n} {_size(c.bytes)}" for n, c in enumerate(limits.levels, 1))
        return (
            f"{self.core}: {limits.vector_registers} vectors of {limits.simd_vector_bytes} bytes, "
            f"{limits.fma_per_cycle} fma per cycle, {caches}"
        )


@dataclass(frozen=True, slots=True)
class _Told:
    """What one system tells about its processor; None and empty where it does not."""

    core: Core | None
    vector_bytes: int | None
    vector_registers: int | None
    has_fp16: bool
    caches: tuple[Geometry, ...]
    clock_hz: float | None
    n_cores: int
    missing: tuple[str, ...] = ()


def detected(
    root: Path = Path("/"),
    system: str | None = None,
    machine: str | None = None,
    sysctl: Sysctl | None = None,
) -> Detected:
    """The limits of this processor, and what of them is only filled in.

    Args:
        root: Where proc and sys are mounted; another folder in tests.
        system: The operating system as `platform.system` names it; None: this one.
        machine: The architecture as `platform.machine` names it; None: this one.
        sysctl: Tells a value of macOS by its name, "" where there is none; None: the system's own.

    Example:
        >>> detected().limits.is_gpu
        False
    """
    arch = (machine or platform.machine()).lower()
    if (system or platform.system()) == "Darwin":
        told = _darwin(arch, sysctl or _sysctl)
    else:
        told = _linux(root, arch)
    return _completed(told, arch)


def _completed(told: _Told, arch: str) -> Detected:
    core = told.core or UNKNOWN_CORE
    vector_bytes = told.vector_bytes or FALLBACK_VECTOR_BYTES
    clock_hz = told.clock_hz or core.boost_hz or FALLBACK_CLOCK_HZ
    found = {
        "core": told.core,
        "simd_vector_bytes": told.vector_bytes,
        "clock_hz": told.clock_hz,
        "levels": told.caches,
    }
    guessed = tuple(name for name, value in found.items() if not value) + told.missing
    # Clocks rise above what systems tell; a ceiling may not be below what is reached.
    ceiling_hz = max(clock_hz, core.boost_hz)
    bytes_of_fma = max(core.fma_bytes_per_cycle, vector_bytes)

    def flops(precision: Precision) -> float:
        return 2.0 * bytes_of_fma // precision.n_bytes * ceiling_hz * told.n_cores

    formats = [Precision.FLOAT32, Precision.FLOAT64] + [Precision.FLOAT16] * told.has_fp16
    # A core takes from memory at most what its link to the last cache lets through.
    through = told.n_cores * core.bytes_per_cycle[-1] * ceiling_hz
    limits = HardwareLimits(
        simd_vector_bytes=vector_bytes,
        vector_registers=told.vector_registers or 16,
        fma_per_cycle=bytes_of_fma // vector_bytes,
        fma_latency_cycles=core.fma_latency_cycles,
        clock_hz=clock_hz,
        n_cores=told.n_cores,
        levels=_levels(told.caches or FALLBACK_CACHES, core, clock_hz),
        peak_flops=flops(Precision.FLOAT32),
        format_flops=tuple((each, flops(each)) for each in formats),
        peak_memory_bandwidth=min(core.memory_bytes_per_second, through) or None,
        native_fp16_arithmetic=told.has_fp16,
        worker_pool_tag=f"{told.n_cores} cores",
        codegen_tag=f"{arch}-{8 * vector_bytes}",
    )
    return Detected(limits, core.name, guessed)


def _levels(caches: tuple[Geometry, ...], core: Core, clock_hz: float) -> tuple[CacheLevel, ...]:
    rates = core.bytes_per_cycle
    return tuple(
        CacheLevel(size, ways, line, rates[min(level, len(rates) - 1)] * clock_hz)
        for level, (size, ways, line) in enumerate(caches)
    )


# Linux ------------------------------------------------------------------------------------------


def _linux(root: Path, arch: str) -> _Told:
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
    return _Told(
        core,
        vector_bytes,
        vector_registers,
        bool(flags & {"avx512_fp16", "asimdhp"}),
        caches,
        _linux_clock(root, cpuinfo),
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


def _linux_clock(root: Path, cpuinfo: Mapping[str, str]) -> float | None:
    most = _bytes(_text(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"))
    if most:
        return most * 1e3
    try:
        return float(cpuinfo.get("cpu MHz", "")) * 1e6 or None
    except ValueError:
        return None


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


def _darwin(arch: str, sysctl: Sysctl) -> _Told:
    is_arm = arch == "arm64"
    # Cores of the fast kind; Intel Macs have no such levels.
    fast = "hw.perflevel0." if sysctl("hw.perflevel0.l1dcachesize") else "hw."
    line = _bytes(sysctl("hw.cachelinesize")) or 64
    sizes = [_bytes(sysctl(f"{fast}{name}")) for name in ("l1dcachesize", "l2cachesize")]
    sizes.append(_bytes(sysctl("hw.l3cachesize")))
    caches = tuple((size, FALLBACK_WAYS, line) for size in sizes if size)
    has_avx2 = "AVX2" in sysctl("machdep.cpu.leaf7_features").split()
    core = APPLE if is_arm else x86_core("GenuineIntel", 6, _bytes(sysctl("machdep.cpu.model")))
    return _Told(
        core,
        16 if is_arm or not has_avx2 else 32,
        32 if is_arm else 16,
        is_arm,
        caches,
        float(_bytes(sysctl("hw.cpufrequency_max"))) or None,
        _bytes(sysctl("hw.physicalcpu")) or 1,
        tuple(f"ways of L{level}" for level in range(1, len(caches) + 1)),
    )


def _sysctl(name: str) -> str:
    return output_of(["sysctl", "-n", name])


# text -------------------------------------------------------------------------------------------


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(found: Mapping[str, str], name: str) -> int:
    """A decimal or hexadecimal field; -1 where there is none."""
    try:
        return int(found.get(name, ""), 0)
    except ValueError:
        return -1


def _bytes(text: str) -> int:
    """A whole number with K, M or nothing after it; 0 where there is none."""
    text = text.strip()
    unit = {"K": 2**10, "M": 2**20}.get(text[-1:], 1)
    digits = text.rstrip("KM")
    return int(digits) * unit if digits.isdecimal() else 0


def _size(n_bytes: int) -> str:
    return f"{n_bytes >> 20} MiB" if n_bytes >= 2**20 else f"{n_bytes >> 10} KiB"
