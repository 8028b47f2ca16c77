"""CPU kernels over packed panels of A and B: the ways to make the panels."""

from __future__ import annotations

from functools import partial

from einbound.kernels.decisions import Geometry, PackingShape, ShapeKind
from einbound.kernels.geometry import Lattice
from einbound.kernels.panels import AHEAD, PARALLEL, Panels, reads_b
from einbound.kernels.panels_lattice import lattice
from einbound.kernels.problem import BLayout
from einbound.kernels.rules import has_hoistable, renders_grids
from einbound.kernels.site import Site
from einbound.kernels.verdicts import Node, Verdict, choice, laid_out, legal, proposed
from einbound.machine.precision import Precision
from einbound.space.tree import Child
from einbound.space.witness import Witness

_BOTH = frozenset({"A", "B"})


def packed(site: Site) -> Node:
    """The shapes, each with the geometries of the menu."""
    site = site.deciding(packed=True, pack_precision=_pack_precision(site))
    return choice((PackingShape(kind), _shape(site, kind)) for kind in ShapeKind)


def _pack_precision(site: Site) -> Precision | None:
    stored = {site.problem.a_dtype, site.problem.b_dtype}
    return None if stored == {site.compute} else site.compute


def _shape(site: Site, kind: ShapeKind) -> Verdict:
    rules = [
        has_hoistable(site) if kind in AHEAD else None,
        renders_grids(site) if kind in PARALLEL else None,
        _reads_rows(site, kind),
    ]
    return legal(rules, lambda: proposed([_is_needed(site, kind)], partial(_opened, site, kind)))


def _opened(site: Site, kind: ShapeKind) -> Verdict:
    geometries = partial(_geometries, site, kind)
    return laid_out(site, geometries) if reads_b(site, kind) else Child(geometries)


def _geometries(site: Site, kind: ShapeKind) -> Node:
    """The panels of the menu, and their lattice if it has one."""
    found: list[tuple[Geometry, Verdict]] = [
        (Geometry(each), Panels(site, kind, each).judged()) for each in site.menu.packed
    ]
    steps = site.menu.packed_lattice
    if steps is not None:
        found.append((Geometry(Lattice()), lattice(Panels(site, kind, steps))))
    return choice(found)


def _reads_rows(site: Site, kind: ShapeKind) -> Witness | None:
    if not reads_b(site, kind) or site.problem.b_layout is not BLayout.TRANSPOSED:
        return None
    return Witness("B is not packed here but read in place, and it is stored transposed")


def _is_needed(site: Site, kind: ShapeKind) -> Witness | None:
    """The policy on shapes that do what another one does better."""
    hoistable = site.problem.hoistable
    if kind is ShapeKind.HOISTED_GRID_PACK_REST and hoistable == _BOTH:
        return Witness("both operands are packed ahead, so that nothing is left to pack")
    if kind is ShapeKind.GRID_PACK_REST and hoistable:
        return Witness("an operand can be packed ahead, so that packing in chunks repeats work")
    return None
