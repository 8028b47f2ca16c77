"""CPU kernels of three serial blocks around contiguous copies, with scalar arithmetic."""

from __future__ import annotations

from functools import partial

from einbound.kernels.decisions import Geometry, Packing, PackingKind
from einbound.kernels.geometry import CpuBlocktile
from einbound.kernels.rules import divides, divides_k, has_hoistable
from einbound.kernels.site import Site
from einbound.kernels.verdicts import Node, Verdict, choice, leaf, legal
from einbound.space.tree import Child


def blocktile(site: Site) -> Verdict:
    """When operands are packed, then the block sizes."""
    return Child(lambda: _packings(site))


def _packings(site: Site) -> Node:
    in_kernel, ahead = site.deciding(packed=True), site.deciding(packed=True, hoist=True)
    hoisted = legal([has_hoistable(site)], lambda: Child(lambda: _geometries(ahead)))
    return choice(
        [
            (Packing(PackingKind.IN_KERNEL), Child(lambda: _geometries(in_kernel))),
            (Packing(PackingKind.HOISTED), hoisted),
        ]
    )


def _geometries(site: Site) -> Node:
    blocks = map(CpuBlocktile, site.menu.cpu_blocks)
    return choice((Geometry(block), _geometry(site, block)) for block in blocks)


def _geometry(site: Site, block: CpuBlocktile) -> Verdict:
    """Blocks are not padded here, since the copies are made on the stack, as large as they are."""
    problem, b = site.problem, block.b
    rules = [
        divides("b", b, "m", problem.m),
        divides("b", b, "n", problem.n),
        divides_k("b", b, problem),
    ]
    return legal(rules, partial(leaf, site, site.spec(bm=b, bn=b, bk=b)))
