"""The matrix instruction that a product uses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from einbound.kernels.numerics import Numerics
from einbound.kernels.site import Site, n_blocks
from einbound.machine.limits import MmaLimits, MmaTile, Triple
from einbound.machine.mma import Scope
from einbound.machine.precision import Precision
from einbound.space.witness import Witness


@dataclass(frozen=True, slots=True)
class Instruction:
    """A matrix instruction of the processor.

    Attributes:
        triple: Formats of A, of B and of the accumulator.
        tile: Its rows, columns and depth.
        width: Lanes that execute it together, which is the width of a block.
        swizzles: Whether staged tiles may be swizzled for it.
        wide_scopes: Lives of accumulators that may be kept in float32.
    """

    triple: Triple
    tile: MmaTile
    width: int
    swizzles: bool
    wide_scopes: tuple[Scope, ...]

    def accumulates(self, site: Site, bk: int) -> Witness | None:
        """The accumulator must be as wide as the numerics ask for as long as it lives."""
        stored, scope = site.problem.out_dtype, scope_of(site, bk)
        if not site.menu.numerics.must_widen(stored) or scope in self.wide_scopes:
            return None
        rule = "results must be accumulated in float32, which the processor does not do there"
        return Witness.of(rule, stored=str(stored), scope=str(scope))


def instruction_of(site: Site) -> Instruction | Witness:
    """The instruction of the first advertised formats, or why there is none."""
    mma, cap = site.limits.mma, site.limits.max_threads_per_workgroup
    if mma is None:
        return Witness("the processor has no matrix instructions")
    if cap is not None and mma.width > cap:
        rule = "the lanes of a matrix instruction must fit a workgroup"
        return Witness.of(rule, cap, lanes=mma.width)
    triples = _triples(site)
    found = next(((each, tile) for each in triples if (tile := mma.tile_of(*each))), None)
    if found is None:
        names = ("a", "b", "accumulator")
        values = zip(names, map(str, triples[-1]), strict=True)
        return Witness("the processor has no matrix instruction of these formats", tuple(values))
    return _instruction(mma, *found, site.problem.out_dtype)


def scope_of(site: Site, bk: int) -> Scope:
    """How long an accumulator lives: over several instructions where k is cut into blocks."""
    problem = site.problem
    is_cut = bk > 0 and n_blocks(problem.k, bk) > 1
    persists = is_cut or any(extent > 1 for extent in problem.outer_k)
    return Scope.PERSISTENT_FRAGMENT if persists else Scope.PER_STATEMENT


def _instruction(mma: MmaLimits, triple: Triple, tile: MmaTile, stored: Precision) -> Instruction:
    return Instruction(
        triple=triple,
        tile=tile,
        width=mma.width,
        swizzles=any(each == triple for each, _ in mma.layouts),
        wide_scopes=next((scopes for each, scopes in mma.wide_scopes if each == stored), ()),
    )


def _triples(site: Site) -> list[Triple]:
    problem, numerics = site.problem, site.menu.numerics
    operands = product(_formats(numerics, problem.a_dtype), _formats(numerics, problem.b_dtype))
    return [(a, b, problem.out_dtype) for a, b in operands]


def _formats(numerics: Numerics, stored: Precision) -> tuple[Precision, ...]:
    if stored is Precision.FLOAT32 and numerics.tf32:
        return (Precision.TFLOAT32, Precision.FLOAT32)
    return (stored,)
