"""Rules that several branches share: each is a witness where it is broken, None where not."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from einbound.kernels.problem import MatmulProblem
from einbound.kernels.site import Site, n_blocks
from einbound.kernels.views import c_strides
from einbound.space.witness import Witness

# A row block that runs alone is a serial kernel under another name.
_LEAST_ROW_BLOCKS = 2


def does_divide(block: int, extent: int) -> bool:
    """Whether an extent is a whole number, at least 1, of blocks."""
    return block <= extent and extent % block == 0


def divides(name: str, block: int, into: str, extent: int) -> Witness | None:
    """A block must divide an extent."""
    if does_divide(block, extent):
        return None
    return Witness(f"{name} must divide {into}", ((name, block), (into, extent)))


def divides_k(name: str, block: int, problem: MatmulProblem) -> Witness | None:
    """A block must divide the innermost contracted extent."""
    if does_divide(block, problem.k):
        return None
    if not problem.outer_k:
        return divides(name, block, "k", problem.k)
    whole = problem.k * prod(problem.outer_k)
    rule = f"{name} must divide the innermost contracted extent"
    return Witness(rule, ((name, block), ("k", problem.k), ("all of k", whole)))


def is_multiple(name: str, size: int, of: int) -> Witness | None:
    """A size must be a whole number of instruction tiles."""
    if size % of == 0:
        return None
    return Witness(f"{name} must be a multiple of the instruction's tile", ((name, size),), of)


def enough_row_blocks(site: Site, bm: int) -> Witness | None:
    """Row blocks that run in parallel must be two at least."""
    blocks = n_blocks(site.problem.m, bm)
    if blocks >= _LEAST_ROW_BLOCKS:
        return None
    rule = "a parallel split needs two row blocks at least"
    return Witness.of(rule, _LEAST_ROW_BLOCKS, bm=bm, blocks=blocks)


def renders_grids(site: Site) -> Witness | None:
    """Row blocks must be able to run in parallel at all."""
    if site.menu.grid_rendering:
        return None
    return Witness("parallel row blocks are switched off, so that the kernel would run serially")


def fits_workgroup(site: Site, bm: int, bn: int, bk: int, depth: int = 1) -> Witness | None:
    """Staged tiles must fit the memory of a workgroup."""
    cap = site.limits.max_workgroup_memory_bytes
    n_bytes = site.staged_bytes(bm, bn, bk) * depth
    if cap is None or n_bytes <= cap:
        return None
    rule = "staged tiles must fit the memory of a workgroup"
    values = {"bytes": n_bytes, **({"depth": depth} if depth > 1 else {})}
    return Witness(rule, tuple(values.items()), cap)


def has_hoistable(site: Site) -> Witness | None:
    """Something must be packed when the plan is prepared."""
    if site.problem.hoistable:
        return None
    return Witness("packing ahead needs a persistent operand, and neither is one")


def zeroes_by_rows(problem: MatmulProblem) -> Witness | None:
    """A result that is zeroed in the same routine needs a row axis outside its columns."""
    row, column = c_strides(problem)
    is_stepped = problem.m > 1 and problem.n > 1
    if not problem.zeroed or not is_stepped or row >= column:
        return None
    rule = "a zeroed result needs its row axis outside its column axis"
    return Witness.of(rule, row_stride=row, column_stride=column)


def writes_rows(problem: MatmulProblem) -> Witness | None:
    """Kernels write vectors along the columns of the result, which must lie side by side."""
    _, stride = c_strides(problem)
    if stride == 1 or problem.n == 1:
        return None
    rule = "kernels write rows, along which the result must be contiguous"
    return Witness.of(rule, 1, stride=stride)


def pads_little(site: Site, bm: int, bn: int, bk: int) -> Witness | None:
    """The policy on how far blocks may reach past the extents."""
    factor = site.menu.pad_factor
    problem = site.problem
    padded = prod(_padded(problem, bm, bn, bk))
    volume = problem.m * problem.n * problem.k
    if factor is None or padded <= factor * volume:
        return None
    rule = "padding beyond the policy's multiple of the product"
    return Witness.of(rule, factor, padded=padded, volume=volume)


def _padded(problem: MatmulProblem, bm: int, bn: int, bk: int) -> Iterator[int]:
    for extent, block in ((problem.m, bm), (problem.n, bn), (problem.k, bk)):
        yield n_blocks(extent, block) * block
