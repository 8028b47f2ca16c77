"""What one processor allows and how fast it is, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from einbound.machine.precision import Precision

#: Formats of A, of B and of the accumulator.
Triple: TypeAlias = tuple[Precision, Precision, Precision]
#: Rows, columns and depth of one matrix instruction.
MmaTile: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class CacheLevel:
    """One level of the memory hierarchy, the nearest first.

    Attributes:
        bytes: Capacity.
        ways: Associativity.
        line_bytes: What is moved at once.
        bytes_per_second: What flows between this level and the next nearer one.
    """

    bytes: int
    ways: int
    line_bytes: int
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class MmaLimits:
    """Matrix instructions of one GPU.

    Attributes:
        width: Lanes that execute one together.
        tile: The tile that is meant where formats are not told apart.
        tiles: Tiles of each triple of formats, the preferred first.
        wide_scopes: Scopes that may accumulate a narrow format in a wide one, by format.
        layouts: Staged layouts that each triple may use besides the plain one.
        depths: Depths of pipelining.
    """

    width: int
    tile: MmaTile
    tiles: tuple[tuple[Triple, MmaTile], ...]
    wide_scopes: tuple[tuple[Precision, tuple[str, ...]], ...] = ()
    layouts: tuple[tuple[Triple, str], ...] = ()
    depths: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareLimits:
    """Caps and speeds of one processor; None: no cap, or not known.

    A GPU is what has no vector registers of its own: `simd_vector_bytes` is 0.
    """

    max_threads_per_workgroup: int | None = None
    max_workgroup_memory_bytes: int | None = None
    max_workgroup_dims: tuple[int, int, int] | None = None
    max_grid_yz: int | None = None
    mma: MmaLimits | None = None
    simd_vector_bytes: int = 0
    peak_flops: float | None = None
    peak_memory_bandwidth: float | None = None
    native_fp16_arithmetic: bool = False
    worker_pool_tag: str | None = None
    codegen_tag: str | None = None
    levels: tuple[CacheLevel, ...] = ()
    vector_registers: int | None = None
    fma_per_cycle: int | None = None
    fma_latency_cycles: int | None = None
    clock_hz: float | None = None
    n_sm: int | None = None
    registers_per_sm: int | None = None
    max_registers_per_thread: int | None = None
    shared_bytes_per_sm: int | None = None
    max_threads_per_sm: int | None = None

    @property
    def is_gpu(self) -> bool:
        """Whether kernels run as grids of workgroups."""
        return self.simd_vector_bytes == 0
