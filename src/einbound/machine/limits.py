"""What one processor allows and how fast it is, as data.

Found out for the processor at hand in `machine.cpu`; written down for GPUs in `machine.gpu`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from numbers import Integral

from einbound.errors import MachineError
from einbound.machine.fields import (
    as_text,
    count,
    counts,
    flag,
    items,
    ordered,
    pairs,
    rate,
    record,
)
from einbound.machine.mma import MmaLimits, MmaTile, Scope, StagedLayout, Triple
from einbound.machine.precision import Precision

__all__ = [
    "CacheLevel",
    "HardwareLimits",
    "MmaLimits",
    "MmaTile",
    "Scope",
    "StagedLayout",
    "TileSpeed",
    "Triple",
]


@dataclass(frozen=True, slots=True)
class CacheLevel:
    """One level of the memory hierarchy, the nearest first.

    Attributes:
        bytes: Capacity.
        ways: Associativity.
        line_bytes: What is moved at once.
        bytes_per_second: What flows between this level and the next nearer one; of one core of a
            CPU, of all of a GPU.
    """

    bytes: int
    ways: int
    line_bytes: int
    bytes_per_second: float

    def __post_init__(self) -> None:
        for name in ("bytes", "ways", "line_bytes"):
            object.__setattr__(self, name, count(f"{name} of a level", getattr(self, name)))
        per_second = rate("bytes_per_second of a level", self.bytes_per_second)
        object.__setattr__(self, "bytes_per_second", per_second)


@dataclass(frozen=True, slots=True)
class TileSpeed:
    """How fast the code of one register tile was seen to run.

    Attributes:
        number: The real format that it computes in.
        rm: Rows.
        rn: Vectors in a row, as wide as the processor has them.
        share: Of the multiply-adds that the core can start, those that it did; above 0, at most 1.
    """

    number: Precision
    rm: int
    rn: int
    share: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", Precision.of(self.number))
        for name in ("rm", "rn"):
            object.__setattr__(self, name, count(f"{name} of a tile", getattr(self, name)))
        share = rate("share of a tile", self.share)
        if share > 1:
            raise MachineError(f"share of a tile is {self.share!r}; expected at most 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareLimits:
    """Caps and speeds of one processor; None: no cap, or not known.

    A GPU is what has no vector registers of its own: `simd_vector_bytes` is 0. Lists, mappings
    and short names of formats become tuples and members.

    Attributes:
        max_threads_per_workgroup: Threads of a workgroup (CUDA: block) in all.
        max_workgroup_memory_bytes: Memory that the threads of a workgroup share.
        max_workgroup_dims: Threads along x, y and z.
        max_grid_yz: Workgroups along y, and along z.
        mma: Matrix instructions.
        simd_vector_bytes: Bytes of one vector register.
        peak_flops: Floating point operations per second in float32 without matrix instructions,
            of the whole processor; a ceiling.
        peak_memory_bandwidth: Bytes per second to and from main memory; a ceiling.
        native_fp16_arithmetic: Whether float16 is computed in, not only stored.
        worker_pool_tag: Tells pools of threads apart.
        codegen_tag: Tells targets of compilers apart.
        levels: Caches, the nearest first.
        vector_registers: Vector registers that a program can name.
        fma_per_cycle: Vector multiply-adds that one core starts in a cycle.
        fma_latency_cycles: Cycles until the result of one can be used.
        clock_hz: Cycles per second, at most.
        n_cores: Cores that may be used.
        format_flops: Ceilings of floating point operations per second by format, matrix
            instructions included.
        tile_speeds: Register tiles whose code was measured here.
        n_sm: Multiprocessors.
        registers_per_sm: 32-bit registers of each.
        max_registers_per_thread: 32-bit registers that one thread can name.
        shared_bytes_per_sm: Shared memory of each multiprocessor.
        max_threads_per_sm: Resident threads of each.
        max_workgroups_per_sm: Resident workgroups of each.
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
    n_cores: int | None = None
    format_flops: tuple[tuple[Precision, float], ...] = ()
    tile_speeds: tuple[TileSpeed, ...] = ()
    n_sm: int | None = None
    registers_per_sm: int | None = None
    max_registers_per_thread: int | None = None
    shared_bytes_per_sm: int | None = None
    max_threads_per_sm: int | None = None
    max_workgroups_per_sm: int | None = None

    def __post_init__(self) -> None:
        for names, checked in _CHECKED.items():
            for name in names:
                given = getattr(self, name)
                object.__setattr__(self, name, None if given is None else checked(name, given))
        object.__setattr__(self, "simd_vector_bytes", _vector(self.simd_vector_bytes))
        flag("native_fp16_arithmetic", self.native_fp16_arithmetic)
        levels = tuple(record(CacheLevel, given) for given in items("levels", self.levels))
        object.__setattr__(self, "levels", levels)
        speeds = tuple(record(TileSpeed, given) for given in items("tile_speeds", self.tile_speeds))
        object.__setattr__(self, "tile_speeds", speeds)
        if self.mma is not None:
            object.__setattr__(self, "mma", record(MmaLimits, self.mma))
        rates = [
            (Precision.of(key), rate(f"format_flops of {Precision.of(key)}", per_second))
            for key, per_second in pairs("format_flops", self.format_flops)
        ]
        object.__setattr__(self, "format_flops", ordered(rates))
        if self.max_workgroup_dims is not None:
            dims = counts("max_workgroup_dims", self.max_workgroup_dims, 3)
            object.__setattr__(self, "max_workgroup_dims", dims)

    @property
    def is_gpu(self) -> bool:
        """Whether kernels run as grids of workgroups."""
        return self.simd_vector_bytes == 0

    def lanes(self, precision: Precision) -> int:
        """Numbers of a format in one vector register; 0 on a GPU."""
        return self.simd_vector_bytes // precision.n_bytes

    def flops_of(self, precision: Precision) -> float | None:
        """The ceiling of a format's rate; that of float32 where the format has none of its own."""
        return dict(self.format_flops).get(precision.real, self.peak_flops)

    def to_json(self) -> str:
        """The record as text that `from_json` reads."""
        return json.dumps({k: v for k, v in asdict(self).items() if v not in (None, ())}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> HardwareLimits:
        """The record in `text`.

        Raises:
            MachineError: It is no JSON, or has a field that is not known or makes no sense.

        Example:
            >>> HardwareLimits.from_json('{"simd_vector_bytes": 32}').is_gpu
            False
        """
        try:
            data = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise MachineError(f"limits are no JSON: {error}; give what to_json wrote") from None
        return record(cls, data)

    @classmethod
    def detect(cls) -> HardwareLimits:
        """The limits of the processor that this runs on.

        What the system does not tell is filled in by documented values; `machine.cpu.detected`
        says which.
        """
        from einbound.machine.cpu import detected

        return detected().limits


_COUNTS = (
    "max_threads_per_workgroup",
    "max_workgroup_memory_bytes",
    "max_grid_yz",
    "vector_registers",
    "fma_per_cycle",
    "fma_latency_cycles",
    "n_cores",
    "n_sm",
    "registers_per_sm",
    "max_registers_per_thread",
    "shared_bytes_per_sm",
    "max_threads_per_sm",
    "max_workgroups_per_sm",
)
#: What fields that may be None must be otherwise.
_CHECKED: Mapping[tuple[str, ...], Callable[[str, object], object]] = {
    _COUNTS: count,
    ("peak_flops", "peak_memory_bandwidth", "clock_hz"): rate,
    ("worker_pool_tag", "codegen_tag"): as_text,
}


def _vector(given: object) -> int:
    if isinstance(given, Integral) and not isinstance(given, bool):
        n_bytes = int(given)
        if n_bytes >= 0 and not n_bytes & (n_bytes - 1):
            return n_bytes
    raise MachineError(f"simd_vector_bytes is {given!r}; expected a power of two, or 0 for a GPU")
