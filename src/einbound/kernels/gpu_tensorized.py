"""GPU kernels in which matrix instructions do the work: which of them there are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from einbound.kernels.decisions import Geometry, Twin, TwinKind
from einbound.kernels.geometry import GpuMma, Lattice
from einbound.kernels.gpu_lattice import lattice
from einbound.kernels.instruction import Instruction, instruction_of
from einbound.kernels.rules import (
    divides,
    does_divide,
    fits_workgroup,
    is_multiple,
    pads_little,
)
from einbound.kernels.site import Site
from einbound.kernels.spec import KernelSpec
from einbound.kernels.verdicts import Verdict, choice, leaf, legal, proposed
from einbound.space.tree import Child, Refuted
from einbound.space.witness import Witness

# Rows of a swizzled tile are permuted in units of this size, the widest that one lane moves.
_SWIZZLE_BYTES = 16
# Asynchronous copies from global to shared memory move 4 bytes at least.
_LEAST_ASYNC_BYTES = 4


def tensorized(site: Site) -> Verdict:
    """The geometries of the pipeline, the lattice last."""
    found = instruction_of(site)
    if isinstance(found, Witness):
        return Refuted(found)
    site = site.deciding(mma=True, simd=found.width)
    return Child(lambda: choice(_geometries(site, found)))


def _geometries(site: Site, instruction: Instruction) -> list[tuple[Geometry, Verdict]]:
    blocks = [GpuMma(bm, instruction.width, bk) for bm, bk in site.menu.mma_blocks]
    found: list[tuple[Geometry, Verdict]] = [
        (Geometry(block), Block(site, instruction, block).judged()) for block in blocks
    ]
    if site.menu.mma_lattice:
        found.append((Geometry(Lattice()), lattice(site, instruction)))
    return found


@dataclass(frozen=True, slots=True)
class Block:
    """One geometry of matrix instructions on one site."""

    site: Site
    instruction: Instruction
    geometry: GpuMma

    @property
    def spec(self) -> KernelSpec:
        """The plain kernel of this geometry."""
        block = self.geometry
        return self.site.spec(bm=block.bm, bn=block.bn, bk=block.bk, packed=block.bk > 0)

    def judged(self) -> Verdict:
        """The verdict on it; what is staged may be padded, what is read in place may not."""
        site, instruction, block = self.site, self.instruction, self.geometry
        bm, bn, bk = block.bm, block.bn, block.bk
        rules = [
            is_multiple("bm", bm, instruction.tile[0]),
            is_multiple("bn", bn, instruction.tile[1]),
            instruction.accumulates(site, bk),
            fits_workgroup(site, bm, bn, bk),
            *(self._staged() if bk else self._in_place()),
        ]
        policies = [pads_little(site, bm, bn, bk)] if bk else []
        return legal(rules, lambda: proposed(policies, lambda: Child(lambda: choice(self.twins()))))

    def _staged(self) -> list[Witness | None]:
        return [is_multiple("bk", self.geometry.bk, self.instruction.tile[2])]

    def _in_place(self) -> list[Witness | None]:
        problem, depth = self.site.problem, self.instruction.tile[2]
        return [
            divides("bm", self.geometry.bm, "m", problem.m),
            divides("bn", self.geometry.bn, "n", problem.n),
            is_multiple("k", problem.k, depth),
        ]

    def twins(self) -> list[tuple[Twin, Verdict]]:
        """The plain kernel, then its variants: only what is staged has any."""
        site, mma = self.site, self.site.limits.mma
        found = [(Twin(TwinKind.PLAIN), leaf(site, self.spec))]
        if not self.geometry.bk or mma is None:
            return found
        if site.menu.swizzle and self.instruction.swizzles:
            found.append((Twin(TwinKind.SWIZZLED), self._swizzled()))
        return found + [(Twin(depth), self._pipelined(depth)) for depth in mma.depths]

    def _swizzled(self) -> Verdict:
        problem, block = self.site.problem, self.geometry
        rules = [
            _swizzles("A", block.bk * problem.a_dtype.n_bytes),
            _swizzles("B", block.bn * problem.b_dtype.n_bytes),
        ]
        return legal(rules, lambda: leaf(self.site, self._twin(swizzle=True)))

    def _pipelined(self, depth: int) -> Verdict:
        site, block = self.site, self.geometry
        rules = [
            _is_generated(site, depth),
            fits_workgroup(site, block.bm, block.bn, block.bk, depth),
        ]
        policies = [self._is_whole(), self._is_asynchronous()]
        kernel = partial(leaf, site, self._twin(depth=depth))
        return legal(rules, lambda: proposed(policies, kernel))

    def _twin(self, *, swizzle: bool = False, depth: int = 1) -> KernelSpec:
        block = self.geometry
        return self.site.spec(
            bm=block.bm, bn=block.bn, bk=block.bk, packed=True, swizzle=swizzle, depth=depth
        )

    def _is_whole(self) -> Witness | None:
        problem, block = self.site.problem, self.geometry
        pairs = ((block.bm, problem.m), (block.bn, problem.n), (block.bk, problem.k))
        if all(does_divide(size, extent) for size, extent in pairs):
            return None
        rule = "padded tiles wait for each copy, so that depth costs memory and hides nothing"
        return Witness.of(rule, m=problem.m, n=problem.n, k=problem.k)

    def _is_asynchronous(self) -> Witness | None:
        problem = self.site.problem
        narrow = min(problem.a_dtype.n_bytes, problem.b_dtype.n_bytes)
        if narrow >= _LEAST_ASYNC_BYTES:
            return None
        rule = "copies of such small numbers are not asynchronous, so that depth hides nothing"
        return Witness.of(rule, _LEAST_ASYNC_BYTES, bytes=narrow)


def _swizzles(operand: str, row_bytes: int) -> Witness | None:
    units, rest = divmod(row_bytes, _SWIZZLE_BYTES)
    if not rest and units > 1 and units & (units - 1) == 0:
        return None
    rule = f"rows of the swizzled tile of {operand} must be a power of two, above 1, of 16 bytes"
    return Witness.of(rule, bytes=row_bytes)


def _is_generated(site: Site, depth: int) -> Witness | None:
    if depth in site.menu.depths:
        return None
    known = ", ".join(map(str, site.menu.depths))
    return Witness.of("kernels are generated for these depths only", known, depth=depth)
