"""Limits of GPUs, from public documentation.

Sources, by the letter that stands beside a figure:

- [G] CUDA C++ Programming Guide, "Compute Capabilities", table of technical specifications per
  compute capability.
- [P] PTX ISA, "Matrix multiply-accumulate operation using mma instruction": shapes and formats
  of `mma.sync`.
- [A] "NVIDIA A100 Tensor Core GPU Architecture", whitepaper, and the A100 80GB data sheet (SXM).
- [H] "NVIDIA H100 Tensor Core GPU Architecture", whitepaper, and the H100 data sheet (SXM5).
- [H2] H200 data sheet (SXM).

Rates are of dense matrices and at the highest clock, so they are ceilings of the class. How many
ways their caches have is not published; the numbers here are placeholders that no model reads.
"""

from __future__ import annotations

from dataclasses import replace

from einbound.errors import MachineError
from einbound.machine.limits import CacheLevel, HardwareLimits, MmaLimits, Scope, StagedLayout
from einbound.machine.mma import MmaTile, Triple
from einbound.machine.precision import Precision

F8, F16, BF16 = Precision.FLOAT8_E5M2, Precision.FLOAT16, Precision.BFLOAT16
TF32, F32, F64 = Precision.TFLOAT32, Precision.FLOAT32, Precision.FLOAT64

KIB = 2**10

#: [P] Formats of A, B and the accumulator, with the largest shape of sm_80. There is none for
#: float32, and bfloat16 is only ever accumulated in float32.
_TILES_SM_80: tuple[tuple[Triple, MmaTile], ...] = (
    ((F16, F16, F16), (16, 8, 16)),
    ((F16, F16, F32), (16, 8, 16)),
    ((BF16, BF16, F32), (16, 8, 16)),
    ((TF32, TF32, F32), (16, 8, 8)),
    ((F64, F64, F64), (8, 8, 4)),
)
#: [P] What sm_90 adds: formats of 8 bits (from sm_89 on) and taller shapes of float64.
_TILES_SM_90: tuple[tuple[Triple, MmaTile], ...] = (
    ((F8, F8, F32), (16, 8, 32)),
    ((F64, F64, F64), (16, 8, 16)),
)


def _mma(tiles: tuple[tuple[Triple, MmaTile], ...]) -> MmaLimits:
    """Matrix instructions of a warp of 32 threads [P]."""
    staged = StagedLayout.SWIZZLE_16_BYTES
    return MmaLimits(
        width=32,
        tile=(16, 8, 16),
        tiles=tiles,
        # Both live in registers of one warp, so a wide accumulator costs registers only.
        wide_scopes=tuple((each, tuple(Scope)) for each in (F16, BF16)),
        # `ldmatrix` reads rows of 16 bytes [P], and only elements of at most 4 bytes fit it.
        layouts=tuple((triple, staged) for triple, _ in tiles if triple[0].n_bytes <= 4),
        # Two tiles in flight through `cp.async`, from sm_80 on [P].
        depths=(2,),
    )


A100 = HardwareLimits(
    max_threads_per_workgroup=1024,  # [G]
    max_workgroup_memory_bytes=163 * KIB,  # [G] as dynamic shared memory that is opted in to
    max_workgroup_dims=(1024, 1024, 64),  # [G] z is capped far below the product
    max_grid_yz=65535,  # [G]
    mma=_mma(_TILES_SM_80),
    peak_flops=19.5e12,  # [A]
    format_flops=((F16, 312e12), (BF16, 312e12), (TF32, 156e12), (F32, 19.5e12), (F64, 19.5e12)),
    peak_memory_bandwidth=2.039e12,  # [A] 80 GB; 1.555e12 with 40 GB
    native_fp16_arithmetic=True,
    codegen_tag="sm_80",
    levels=(
        # [G] one part with shared memory, of each multiprocessor; [G] 32 banks of 4 bytes a cycle
        CacheLevel(192 * KIB, 4, 128, 108 * 128 * 1.41e9),
        CacheLevel(40 * 2**20, 16, 128, 5120 * 1.41e9),  # [A] 40 MB, 5120 bytes per cycle
    ),
    clock_hz=1.41e9,  # [A]
    n_sm=108,  # [A]
    registers_per_sm=65536,  # [G]
    max_registers_per_thread=255,  # [G]
    shared_bytes_per_sm=164 * KIB,  # [G]
    max_threads_per_sm=2048,  # [G]
    max_workgroups_per_sm=32,  # [G]
)

H100 = replace(
    A100,
    max_workgroup_memory_bytes=227 * KIB,  # [G]
    # Of equal formats the first is preferred, so the taller shapes come first.
    mma=_mma(_TILES_SM_90 + _TILES_SM_80),
    peak_flops=66.9e12,  # [H]
    format_flops=(
        (F8, 1978.9e12),  # [H]
        (F16, 989.4e12),  # [H]
        (BF16, 989.4e12),  # [H]
        (TF32, 494.7e12),  # [H]
        (F32, 66.9e12),  # [H]
        (F64, 66.9e12),  # [H] matrix instructions
    ),
    peak_memory_bandwidth=3.35e12,  # [H]
    codegen_tag="sm_90",
    levels=(
        CacheLevel(256 * KIB, 4, 128, 132 * 128 * 1.98e9),  # [G], as above
        # [H] 50 MB. Its rate is not published; the rate per cycle of A100 is taken.
        CacheLevel(50 * 2**20, 16, 128, 5120 * 1.98e9),
    ),
    clock_hz=1.98e9,  # [H] highest boost; 1.83e9 while matrix instructions run
    n_sm=132,  # [H]
    shared_bytes_per_sm=228 * KIB,  # [G]
)

H200 = replace(H100, peak_memory_bandwidth=4.8e12)  # [H2]

#: By target of the compiler, and by product. A target stands for its first product.
GPUS = {"sm_80": A100, "sm_90": H100, "a100": A100, "h100": H100, "h200": H200}


def gpu(name: str) -> HardwareLimits:
    """The limits of a GPU, by target or product.

    Args:
        name: "sm_80", "sm_90", "a100", "h100" or "h200".

    Raises:
        MachineError: It is none of these.

    Example:
        >>> gpu("sm_90").max_workgroup_dims
        (1024, 1024, 64)
    """
    found = GPUS.get(name.lower())
    if found is None:
        raise MachineError(f"no limits are known of GPU {name!r}; known are {', '.join(GPUS)}")
    return found
