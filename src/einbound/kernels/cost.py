"""What a kernel costs by the model, and what no completion of a path can cost less than."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from einbound.kernels import cpu_cost, gpu_cost
from einbound.kernels.commitment import Commitment, commitment_of, committed_by
from einbound.kernels.decisions import Decision, RegisterTile
from einbound.kernels.estimate import Cost, Transfer
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.kernels.views import seen_by, viewed
from einbound.machine.limits import HardwareLimits

__all__ = ["Cost", "Transfer", "cost", "least_cost"]


def cost(spec: KernelSpec, problem: MatmulProblem, limits: HardwareLimits) -> Cost | None:
    """The predicted seconds of a kernel with their parts; None where the model has no coverage.

    It has none for complex numbers on GPUs, for formats that no vector computes in, and for
    processors whose clock, units and caches are not known.

    Args:
        spec: The kernel's parameters.
        problem: The product.
        limits: The processor.

    Example:
        >>> from einbound.kernels.decisions import GpuBlocktile, PipelineKind
        >>> from einbound.machine.gpu import gpu
        >>> spec = KernelSpec(gpu=True, pipeline=PipelineKind.BLOCKTILE, packed=True,
        ...                   bm=64, bn=64, bk=8, tm=4, tn=4)
        >>> cost(spec, MatmulProblem(m=100, n=64, k=64), gpu("sm_90")).flops
        1048576
    """
    return _priced(seen_by(problem, spec), limits, commitment_of(spec))


def least_cost(
    path: Sequence[tuple[str, Decision]],
    problem: MatmulProblem,
    limits: HardwareLimits,
    lattice_width: int | None = None,
    is_whole: bool = False,
) -> Cost | None:
    """What every completion of a path costs at least; None where the model has no coverage.

    Each part is that of the best completion for this part alone.

    Args:
        path: What was decided so far, outermost first.
        problem: The product.
        limits: The processor.
        lattice_width: The width of all blocks of the lattice; 0: all columns; None: not known.
        is_whole: Whether nothing is left to decide.

    Law: it never falls along a path, and a whole path costs what its kernel does
    (tests/test_cost.py).

    Example:
        >>> from einbound.machine.gpu import gpu
        >>> least_cost((), MatmulProblem(m=64, n=64, k=64), gpu("sm_90")).flops
        524288
    """
    committed = committed_by(path, lattice_width)
    if is_whole and committed.tile is None:
        # Without a level for register tiles, it is the model's own.
        committed = replace(committed, tile=RegisterTile())
    return _priced(viewed(problem, path), limits, committed)


def _priced(problem: MatmulProblem, limits: HardwareLimits, committed: Commitment) -> Cost | None:
    estimate = gpu_cost.estimate if limits.is_gpu else cpu_cost.estimate
    return estimate(problem, limits, committed)
