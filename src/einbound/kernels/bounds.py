"""Two bounds on what a path can lead to, which must not be taken for each other.

One is below every score of the model, the other below every time that a clock can show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from einbound.kernels.cost import cost, least_cost
from einbound.kernels.decisions import Decision
from einbound.kernels.floors import floor, statement_of
from einbound.kernels.menu import Menu
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.machine.limits import HardwareLimits
from einbound.machine.precision import Precision
from einbound.space.tree import Leaf, Path, Tree

Bound: TypeAlias = Callable[[Path[Decision], Tree[Decision, KernelSpec]], float | None]


def model_score(
    problem: MatmulProblem, limits: HardwareLimits
) -> Callable[[KernelSpec], float | None]:
    """The score of a kernel for `search`: the model's seconds, None without coverage.

    Args:
        problem: The product.
        limits: The processor.
    """

    def score(spec: KernelSpec) -> float | None:
        found = cost(spec, problem, limits)
        return None if found is None else found.seconds

    return score


def score_bound(problem: MatmulProblem, limits: HardwareLimits, menu: Menu | None = None) -> Bound:
    """The bound for `search` by `model_score`: seconds that no score below a path is less than.

    It prices on-chip traffic and waits, so that it says nothing about a clock; that is
    `clock_bound`.

    Args:
        problem: The product.
        limits: The processor.
        menu: What the tree proposes; None: `Menu.default(limits)`.

    Law: it never falls along a path and never exceeds a score below (tests/test_cost.py).

    Example:
        >>> from einbound.kernels.family import family_tree
        >>> from einbound.machine.gpu import gpu
        >>> from einbound.space.search import search
        >>> problem, limits = MatmulProblem(m=512, n=512, k=512), gpu("sm_90")
        >>> tree = family_tree(problem, limits)
        >>> found = search(tree, model_score(problem, limits), score_bound(problem, limits))
        >>> found.proven
        True
    """
    menu = menu or Menu.default(limits)
    if limits.is_gpu:
        width = limits.mma.width if limits.mma else None
    else:
        lattice = (menu or Menu.default(limits)).packed_lattice
        width = lattice.bn if lattice else None

    def bound(path: Path[Decision], subtree: Tree[Decision, KernelSpec]) -> float | None:
        found = least_cost(path, problem, limits, width, isinstance(subtree, Leaf))
        return None if found is None else found.seconds

    return bound


def clock_bound(problem: MatmulProblem, limits: HardwareLimits) -> float:
    """Seconds that no run of any kernel takes less than, as far as the peaks are ceilings.

    Nothing that stays on the chip is counted. Neither is what the last cache may hold from an
    earlier run, nor a read of the result, which a kernel may overwrite; a problem that fits the
    cache has no memory leg at all.

    Args:
        problem: The product.
        limits: The processor, with ceilings as peaks.

    Returns:
        Seconds; 0 where no peak is known.

    Example:
        >>> limits = HardwareLimits(simd_vector_bytes=32, peak_flops=1e9)
        >>> clock_bound(MatmulProblem(m=100, n=100, k=100), limits)
        0.002
    """
    least = floor(problem)
    rate, bandwidth = _ceiling(problem, limits), limits.peak_memory_bandwidth
    statement = statement_of(problem)
    (read,) = (one for one in statement.accesses if one.array == "D" and not one.writes)
    kept = limits.levels[-1].bytes if limits.levels else 0
    moved = max(0, least.bytes - statement.n_cells(read) * read.n_bytes - kept)
    legs = [least.flops / rate if rate else 0.0, moved / bandwidth if bandwidth else 0.0]
    return max(legs)


def _ceiling(problem: MatmulProblem, limits: HardwareLimits) -> float | None:
    """The highest rate of the formats that the operands may be multiplied in."""
    formats = {problem.a_dtype, problem.b_dtype}
    if Precision.FLOAT32 in formats:
        formats.add(Precision.TFLOAT32)
    return max((limits.flops_of(each) or 0.0 for each in formats), default=None) or None
