"""All staged blocks of matrix instructions, as a lattice that is cut where somebody looks."""

from __future__ import annotations

from einbound.kernels.decisions import Axis
from einbound.kernels.instruction import Instruction
from einbound.kernels.refinement import Open, Refinement, multiples
from einbound.kernels.rules import fits_workgroup, is_multiple
from einbound.kernels.site import Site
from einbound.kernels.verdicts import Node, Verdict, leaf, legal, proposed
from einbound.space.tree import Child
from einbound.space.witness import Witness

BEYOND_MENU = Witness("beyond the menu: the lattice of all tile sizes, for a search that lifts it")


def lattice(site: Site, instruction: Instruction) -> Verdict:
    """Every multiple of the instruction's tile in bm and bk, as wide as the menu's blocks."""
    rows, columns, depth = instruction.tile
    problem = site.problem
    rules = [
        holds("m", problem.m, rows),
        holds("k", problem.k, depth),
        is_multiple("bn", instruction.width, columns),
    ]

    def opened() -> Verdict:
        return Child(lambda: _rows(site, instruction))

    return legal(rules, lambda: proposed([BEYOND_MENU], opened))


def _rows(site: Site, instruction: Instruction) -> Node:
    rows, _, depth = instruction.tile

    def judge(site: Site, bm: int, below: Open) -> Verdict:
        return legal([fits_workgroup(site, bm, instruction.width, depth)], lambda: below(site))

    def single(site: Site, bm: int) -> Verdict:
        return Child(lambda: _depths(site, instruction, bm))

    return Refinement(Axis.BM, multiples(rows, site.problem.m), judge, single).root(site)


def _depths(site: Site, instruction: Instruction, bm: int) -> Node:
    width = instruction.width

    def judge(site: Site, bk: int, below: Open) -> Verdict:
        return legal([fits_workgroup(site, bm, width, bk)], lambda: below(site))

    def single(site: Site, bk: int) -> Verdict:
        spec = site.spec(bm=bm, bn=width, bk=bk, packed=True)
        return legal([instruction.accumulates(site, bk)], lambda: leaf(site, spec))

    depths = multiples(instruction.tile[2], site.problem.k)
    return Refinement(Axis.BK, depths, judge, single).root(site)


def holds(name: str, extent: int, tile: int) -> Witness | None:
    """An extent must hold one step of a lattice."""
    if extent >= tile:
        return None
    return Witness(f"{name} must hold one step of the lattice", ((name, extent),), tile)
