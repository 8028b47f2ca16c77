"""Facts about CPU cores that no system call tells, by microarchitecture.

Sources: AMD's Software Optimization Guides for families 17h, 19h and 1Ah (55723, 56665, 57647,
58455); Intel's Optimization Reference Manual (248966), tables of cache parameters and of
instruction latencies; Arm's Software Optimization Guides for Neoverse N1, V1, N2 and V2; Agner
Fog's "Microarchitecture" and "Instruction tables"; Dougall Johnson's tables of Apple's M1. Clocks
and memory are the fastest of a class that was sold, so that peaks made of them are ceilings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Core:
    """One microarchitecture.

    Attributes:
        name: As its maker calls it.
        fma_bytes_per_cycle: Bytes of vector multiply-adds that start in one cycle, all units.
        fma_latency_cycles: Cycles until such a result can be used.
        bytes_per_cycle: Most bytes per cycle from L1 to registers, from L2 to L1, from L3 to L2.
        boost_hz: The highest clock of the class.
        memory_bytes_per_second: Main memory of one socket, the most of the class.
    """

    name: str
    fma_bytes_per_cycle: int
    fma_latency_cycles: int
    bytes_per_cycle: tuple[int, int, int]
    boost_hz: float
    memory_bytes_per_second: float


ZEN = Core("Zen", 32, 5, (32, 32, 32), 4.35e9, 170.6e9)
ZEN_2 = Core("Zen 2", 64, 5, (64, 32, 32), 4.7e9, 204.8e9)
ZEN_3 = Core("Zen 3", 64, 4, (64, 32, 32), 5.0e9, 204.8e9)
# 512-bit instructions run in two halves (57647, "Floating-point unit").
ZEN_4 = Core("Zen 4", 64, 4, (64, 32, 32), 5.7e9, 460.8e9)
ZEN_5 = Core("Zen 5", 128, 4, (128, 64, 32), 5.7e9, 614.4e9)
ZEN_5_MOBILE = Core("Zen 5 mobile", 64, 4, (64, 64, 32), 5.2e9, 256e9)
HASWELL = Core("Haswell", 64, 5, (64, 64, 32), 4.4e9, 76.8e9)
SKYLAKE = Core("Skylake", 64, 4, (64, 64, 32), 5.3e9, 46.9e9)
SKYLAKE_SERVER = Core("Skylake server", 128, 4, (128, 64, 32), 4.8e9, 153.6e9)
# Clients lack the second 512-bit unit, which is port 5 of servers.
SUNNY_COVE = Core("Sunny Cove", 64, 4, (128, 64, 32), 5.3e9, 68.3e9)
ICE_LAKE_SERVER = Core("Ice Lake server", 128, 4, (128, 64, 32), 4.1e9, 204.8e9)
GOLDEN_COVE = Core("Golden Cove", 64, 4, (96, 64, 32), 6.2e9, 136.5e9)
SAPPHIRE_RAPIDS = Core("Sapphire Rapids", 128, 4, (128, 64, 32), 4.8e9, 358.4e9)
GRANITE_RAPIDS = Core("Granite Rapids", 128, 4, (128, 64, 32), 4.8e9, 844.8e9)
NEOVERSE_N1 = Core("Neoverse N1", 32, 4, (32, 32, 32), 3.3e9, 204.8e9)
NEOVERSE_V1 = Core("Neoverse V1", 64, 4, (48, 64, 32), 2.6e9, 307.2e9)
NEOVERSE_N2 = Core("Neoverse N2", 32, 4, (48, 64, 32), 3.4e9, 358.4e9)
NEOVERSE_V2 = Core("Neoverse V2", 64, 4, (48, 64, 32), 3.5e9, 537.6e9)
APPLE = Core("Apple M series", 64, 4, (48, 64, 32), 4.6e9, 819.2e9)

#: Cores of vendors that number them in families and models: models from, to (inclusive).
_AMD = (
    (23, 0x00, 0x2F, ZEN),
    (23, 0x30, 0xFF, ZEN_2),
    (25, 0x00, 0x0F, ZEN_3),
    (25, 0x10, 0x1F, ZEN_4),
    (25, 0x20, 0x5F, ZEN_3),
    (25, 0x60, 0xAF, ZEN_4),
    (26, 0x20, 0x2F, ZEN_5_MOBILE),
    (26, 0x60, 0x6F, ZEN_5_MOBILE),
    (26, 0x00, 0xFF, ZEN_5),
)
_INTEL = {
    HASWELL: (0x3C, 0x3F, 0x45, 0x46, 0x3D, 0x47, 0x4F, 0x56),
    SKYLAKE: (0x4E, 0x5E, 0x8E, 0x9E, 0xA5, 0xA6),
    SKYLAKE_SERVER: (0x55,),
    SUNNY_COVE: (0x7D, 0x7E, 0x8C, 0x8D, 0xA7),
    ICE_LAKE_SERVER: (0x6A, 0x6C),
    GOLDEN_COVE: (0x97, 0x9A, 0xB7, 0xBA, 0xBF, 0xAA, 0xAC, 0xBD, 0xC5, 0xC6),
    SAPPHIRE_RAPIDS: (0x8F, 0xCF),
    GRANITE_RAPIDS: (0xAD, 0xAE),
}
_ARM = {0xD0C: NEOVERSE_N1, 0xD40: NEOVERSE_V1, 0xD49: NEOVERSE_N2, 0xD4F: NEOVERSE_V2}
_ARM_LIMITED = 0x41


def x86_core(vendor: str, family: int, model: int) -> Core | None:
    """The core of an x86 processor by its cpuid; None: not in the table.

    Example:
        >>> x86_core("AuthenticAMD", 26, 2).name
        'Zen 5'
    """
    if vendor == "AuthenticAMD":
        return _first(core for f, low, high, core in _AMD if f == family and low <= model <= high)
    if vendor == "GenuineIntel" and family == 6:
        return _first(core for core, models in _INTEL.items() if model in models)
    return None


def arm_core(implementer: int, part: int) -> Core | None:
    """The core of an Arm processor by its main id register; None: not in the table."""
    return _ARM.get(part) if implementer == _ARM_LIMITED else None


def _first(cores: Iterable[Core]) -> Core | None:
    return next(iter(cores), None)
