"""One kernel for a product without measuring any: the best by the model, found by search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from einbound.errors import KernelError
from einbound.kernels.bounds import model_score, score_bound
from einbound.kernels.cost import Cost, cost
from einbound.kernels.family import family_tree
from einbound.kernels.member import Member, member_of
from einbound.kernels.menu import Menu
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.machine.limits import HardwareLimits
from einbound.space.search import search

#: What chooses: a kernel's parameters for a product in its canonical form.
Choose: TypeAlias = Callable[[MatmulProblem, HardwareLimits], KernelSpec]


@dataclass(frozen=True, slots=True)
class Pick:
    """A kernel that was chosen for a product.

    Attributes:
        problem: The product, in its canonical form.
        spec: The kernel.
        member: The object that it needs.
        cost: What the model predicts for one core; None: it says nothing.
    """

    problem: MatmulProblem
    spec: KernelSpec
    member: Member
    cost: Cost | None

    def __str__(self) -> str:
        return self.member.name


def untuned(problem: MatmulProblem, limits: HardwareLimits) -> KernelSpec:
    """The kernel with the fewest seconds by the model, of those that C is emitted for.

    Args:
        problem: The product.
        limits: The processor.

    Raises:
        KernelError: There is none.

    Example:
        >>> from einbound.machine.limits import CacheLevel
        >>> limits = HardwareLimits(simd_vector_bytes=32, vector_registers=16, fma_per_cycle=2,
        ...                         fma_latency_cycles=4, clock_hz=3e9, n_cores=1,
        ...                         levels=(CacheLevel(2**15, 8, 64, 1e11),))
        >>> untuned(MatmulProblem(m=512, n=512, k=512), limits).packed
        True
    """
    menu = Menu.default(limits)
    priced = model_score(problem, limits)

    def score(spec: KernelSpec) -> float | None:
        try:
            member_of(problem, spec, limits)
        except KernelError:
            return None
        return priced(spec)

    tree, bound = family_tree(problem, limits, menu), score_bound(problem, limits, menu)
    found = search(tree, score, bound, order="best_first", trace=False)
    if found.best is None:
        raise KernelError(
            f"no kernel is known for {problem}: of those that are proposed, none has both a price "
            "by the model and an emitter; it runs as NumPy would"
        )
    return found.best


@lru_cache(maxsize=4096)
def pick(problem: MatmulProblem, limits: HardwareLimits, choose: Choose = untuned) -> Pick | str:
    """The kernel of a product, or why it has none; products that no kernel can tell share it.

    Args:
        problem: The product, in its canonical form.
        limits: The processor, with as many cores as may be used.
        choose: Who decides.
    """
    try:
        spec = choose(problem, limits)
        member = member_of(problem, spec, limits)
    except KernelError as error:
        return str(error)
    return Pick(problem, spec, member, cost(spec, problem, limits))
