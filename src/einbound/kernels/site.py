"""What a branch of the tree is made from: a product, a processor, a menu and what is decided."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from einbound.kernels.menu import Menu
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.machine.limits import HardwareLimits
from einbound.machine.precision import Precision


@dataclass(frozen=True, slots=True)
class Site:
    """One product on one processor, as far as it is decided.

    Attributes:
        problem: The product, seen as the decisions so far say.
        limits: The processor.
        menu: What is proposed.
        base: The parameters that are decided.
    """

    problem: MatmulProblem
    limits: HardwareLimits
    menu: Menu
    base: KernelSpec

    def spec(self, **decided: Any) -> KernelSpec:
        """The parameters with further ones decided."""
        return replace(self.base, **decided)

    def deciding(self, **decided: Any) -> Site:
        """The site with further parameters decided."""
        return replace(self, base=self.spec(**decided))

    def lifting(self, **policies: Any) -> Site:
        """The site with fields of its menu replaced."""
        return replace(self, menu=replace(self.menu, **policies))

    @property
    def compute(self) -> Precision:
        """The format that a CPU computes the result in."""
        native = self.limits.native_fp16_arithmetic
        return self.menu.numerics.compute(self.problem.out_dtype, native_half=native)

    def staged_bytes(self, bm: int, bn: int, bk: int) -> int:
        """Bytes of one block of A and one of B, as stored."""
        problem = self.problem
        return bm * bk * problem.a_dtype.n_bytes + bk * bn * problem.b_dtype.n_bytes


def n_blocks(extent: int, block: int) -> int:
    """How many blocks cover an extent, the last one padded.

    Example:
        >>> n_blocks(20, 16)
        2
    """
    return -(-extent // block)
