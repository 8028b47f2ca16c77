"""Which grids and workgroups a processor can launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from einbound.kernels.problem import MatmulProblem
from einbound.kernels.site import n_blocks
from einbound.kernels.spec import KernelSpec
from einbound.machine.limits import HardwareLimits
from einbound.space.witness import Witness

# What every CUDA and HIP processor allows along y and z; a processor that says nothing is held
# to it, since a refusal here costs one kernel and a launch that fails costs a build.
_MOST_GRID_YZ = 65_535

Dims = tuple[int, int, int]


def exceeded(problem: MatmulProblem, limits: HardwareLimits, spec: KernelSpec) -> Witness | None:
    """The first cap on launches that a kernel breaks; None: it can be launched.

    The grid's x is never capped.
    """
    if not spec.gpu:
        return None
    grid, workgroup = launched(problem, spec)
    return next(_rows(grid, workgroup, limits), None)


def launched(problem: MatmulProblem, spec: KernelSpec) -> tuple[Dims, Dims]:
    """Workgroups along x, y and z, and threads of each along the same.

    Example:
        >>> from einbound.kernels.kinds import PipelineKind
        >>> block = KernelSpec(
        ...     gpu=True, pipeline=PipelineKind.BLOCKTILE, bm=64, bn=32, bk=8, tm=4, tn=4
        ... )
        >>> launched(MatmulProblem(m=256, n=96, k=8), block)
        ((3, 4, 1), (8, 16, 1))
    """
    batch = problem.batch if spec.batch_grid else ()
    blocks = (n_blocks(problem.m, spec.bm), n_blocks(problem.n, spec.bn))
    threads = (spec.simd,) if spec.mma else (spec.bm // spec.tm, spec.bn // spec.tn)
    return _folded((*batch, *blocks)), _folded(threads)


def _folded(nest: Sequence[int]) -> Dims:
    """Loops on x and y from the innermost, all others together on z."""
    x, y, *rest = (*reversed(nest), 1)
    return x, y, prod(rest)


def _rows(grid: Dims, workgroup: Dims, limits: HardwareLimits) -> Iterator[Witness]:
    caps = limits.max_workgroup_dims or (None, None, None)
    for axis, threads, cap in zip("xyz", workgroup, caps, strict=True):
        if cap is not None and threads > cap:
            yield Witness.of(f"threads along {axis} must stay within the cap", cap, threads=threads)
    cap = limits.max_grid_yz or _MOST_GRID_YZ
    for axis, n_groups in zip("yz", grid[1:], strict=True):
        if n_groups > cap:
            rule = f"workgroups along {axis} must stay within the cap"
            yield Witness.of(rule, cap, workgroups=n_groups)
