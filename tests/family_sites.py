"""Products and processors on which the trees of kernels are looked at."""

from __future__ import annotations

from dataclasses import replace

from einbound.kernels.problem import BLayout, MatmulProblem
from einbound.machine.limits import HardwareLimits, MmaLimits
from einbound.machine.mma import Scope, StagedLayout
from einbound.machine.precision import Precision

F16, F32 = Precision.FLOAT16, Precision.FLOAT32
ALL_F32 = (F32, F32, F32)

CPU = HardwareLimits(simd_vector_bytes=32)
CPU_F16 = replace(CPU, native_fp16_arithmetic=True)

_MMA = MmaLimits(width=32, tile=(8, 8, 8), tiles=((ALL_F32, (8, 8, 8)),))
_TWINS = replace(_MMA, layouts=((ALL_F32, StagedLayout.SWIZZLE_16_BYTES),), depths=(2,))
GPU = HardwareLimits(mma=_MMA)
GPU_FULL = HardwareLimits(mma=_TWINS)
GPU_TIGHT = HardwareLimits(
    mma=replace(_TWINS, depths=(2, 3)),
    max_workgroup_memory_bytes=6144,
    max_threads_per_workgroup=128,
)
GPU_TINY = replace(GPU_FULL, max_workgroup_memory_bytes=2048)
GPU_COARSE = HardwareLimits(mma=replace(_MMA, tile=(16, 16, 16)))


def gpu_f16(*scopes: Scope) -> HardwareLimits:
    """A GPU with float16 instructions that accumulates wide in these scopes."""
    tiles = (((F16, F16, F16), (8, 8, 8)), ((F16, F16, F32), (8, 8, 8)))
    wide = ((F16, scopes),) if scopes else ()
    return HardwareLimits(mma=replace(_MMA, tiles=tiles, wide_scopes=wide))


CUBE = MatmulProblem(m=64, n=64, k=64, hoistable=frozenset({"B"}))
FUSABLE = replace(CUBE, epilogue="relu")
AWKWARD = MatmulProblem(m=20, n=20, k=20)
HALF = MatmulProblem(m=64, n=64, k=64, a_dtype=F16, b_dtype=F16, out_dtype=F16)
TRANSPOSED = MatmulProblem(m=64, n=64, k=64, b_layout=BLayout.TRANSPOSED)
WIDE = MatmulProblem(m=64, n=512, k=64)
#: Attention's output projection: two contracted loops, and a batch.
PROJECTION = MatmulProblem(m=64, n=64, k=12, outer_k=(4,), batch=(2,), b_layout=BLayout.TRANSPOSED)
