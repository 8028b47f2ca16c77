"""All sizes of packed panels, as a lattice that is cut where somebody looks."""

from __future__ import annotations

from dataclasses import replace

from einbound.kernels.decisions import Axis
from einbound.kernels.gpu_lattice import BEYOND_MENU, holds
from einbound.kernels.panels import Panels
from einbound.kernels.refinement import Open, Refinement, multiples
from einbound.kernels.site import Site
from einbound.kernels.verdicts import Node, Verdict, legal, proposed
from einbound.space.tree import Child, Excluded


def lattice(steps: Panels) -> Verdict:
    """Every multiple of the steps in bm and bk, as wide as the steps say."""
    problem, least = steps.site.problem, steps.geometry
    rules = [
        holds("m", problem.m, least.bm),
        holds("k", problem.k, least.bk),
        steps.fills_lanes(),
    ]
    return legal(rules, lambda: proposed([BEYOND_MENU], lambda: Child(lambda: _rows(steps))))


def _rows(steps: Panels) -> Node:
    def at(site: Site, bm: int) -> Panels:
        return replace(steps, site=site, geometry=replace(steps.geometry, bm=bm))

    return Refinement(
        axis=Axis.BM,
        values=multiples(steps.geometry.bm, steps.site.problem.m),
        judge=lambda site, bm, below: _boxed(at(site, bm), below),
        single=lambda site, bm: Child(lambda: _depths(at(site, bm))),
    ).root(steps.site)


def _depths(steps: Panels) -> Node:
    def at(site: Site, bk: int) -> Panels:
        return replace(steps, site=site, geometry=replace(steps.geometry, bk=bk))

    return Refinement(
        axis=Axis.BK,
        values=multiples(steps.geometry.bk, steps.site.problem.k),
        judge=lambda site, bk, below: _boxed(at(site, bk), below),
        single=lambda site, bk: at(site, bk).judged(),
    ).root(steps.site)


def _boxed(least: Panels, below: Open) -> Verdict:
    """The verdict on a box by its least panels: the rules and the cap only get worse from there."""
    return legal(least.parallel_rules(), lambda: _within_cap(least, below))


def _within_cap(least: Panels, below: Open) -> Verdict:
    objection = least.is_small()
    if objection is None:
        return below(least.site)
    lifted = least.lifting(packing_cap_bytes=None)
    return Excluded(objection, lambda: below(lifted.site))
