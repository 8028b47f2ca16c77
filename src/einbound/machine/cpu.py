"""The limits of the processor that this runs on, as far as the system tells them.

What it does not tell is filled in and said to be. Facts about cores are in `machine.cores`.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from einbound.machine.cores import Core
from einbound.machine.limits import CacheLevel, HardwareLimits
from einbound.machine.precision import Precision
from einbound.machine.system import Geometry, Sysctl, Told, ask_sysctl, darwin, linux

#: Size, ways and line of L1, L2 and L3 where the system does not tell.
FALLBACK_CACHES = ((32 * 2**10, 8, 64), (512 * 2**10, 8, 64), (8 * 2**20, 16, 64))
FALLBACK_VECTOR_BYTES = 16


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
        told = darwin(arch, sysctl or ask_sysctl)
    else:
        told = linux(root, arch)
    return _completed(told, arch)


def _completed(told: Told, arch: str) -> Detected:
    vector_bytes = told.vector_bytes or FALLBACK_VECTOR_BYTES
    core = told.core or _unknown_core(vector_bytes)
    clock_hz = _highest_clock(told, core)
    found = {
        "core": told.core,
        "simd_vector_bytes": told.vector_bytes,
        "clock_hz": told.clock_hz,
        "levels": told.caches,
    }
    guessed = tuple(name for name, value in found.items() if not value) + told.missing
    bytes_of_fma = max(core.fma_bytes_per_cycle, vector_bytes)

    def flops(precision: Precision) -> float:
        return 2.0 * bytes_of_fma // precision.n_bytes * clock_hz * told.n_cores

    formats = [Precision.FLOAT32, Precision.FLOAT64] + [Precision.FLOAT16] * told.has_fp16
    # A core takes from memory at most what its link to the last cache lets through.
    through = told.n_cores * core.bytes_per_cycle[-1] * clock_hz
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


def _highest_clock(told: Told, core: Core) -> float:
    """Cycles per second at most: peaks are made of it, and may not be below what is reached."""
    if told.clock_hz and told.is_highest:
        return told.clock_hz
    # Virtual machines tell the nominal clock, above which cores rise.
    return max(told.clock_hz or 0.0, core.boost_hz)


def _unknown_core(vector_bytes: int) -> Core:
    """A core as fast as the fastest of the table, so that peaks made of it are ceilings."""
    return Core("unknown core", max(64, 2 * vector_bytes), 4, (128, 64, 32), 6.2e9, 0.0)


def _levels(caches: tuple[Geometry, ...], core: Core, clock_hz: float) -> tuple[CacheLevel, ...]:
    rates = core.bytes_per_cycle
    return tuple(
        CacheLevel(size, ways, line, rates[min(level, len(rates) - 1)] * clock_hz)
        for level, (size, ways, line) in enumerate(caches)
    )


def _size(n_bytes: int) -> str:
    return f"{n_bytes >> 20} MiB" if n_bytes >= 2**20 else f"{n_bytes >> 10} KiB"
