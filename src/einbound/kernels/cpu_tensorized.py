"""CPU kernels around a register-tiled micro-kernel: over everything, or over packed panels."""

from __future__ import annotations

from functools import partial

from einbound.kernels.cpu_packed import packed
from einbound.kernels.decisions import FormKind, RowBlock, TensorizedForm
from einbound.kernels.problem import BLayout
from einbound.kernels.rules import divides, enough_row_blocks, renders_grids
from einbound.kernels.site import Site
from einbound.kernels.vectors import computes_alike, fills_lanes, has_lanes, has_vectors, tiled
from einbound.kernels.verdicts import Node, Verdict, choice, laid_out, legal
from einbound.space.tree import Child
from einbound.space.witness import Witness


def tensorized(site: Site) -> Verdict:
    """The two forms of the pipeline."""
    return legal(
        [has_vectors(site), has_lanes(site), computes_alike(site)],
        lambda: Child(lambda: _forms(site.deciding(mma=True))),
    )


def _forms(site: Site) -> Node:
    return choice(
        [
            (TensorizedForm(FormKind.WHOLE_TRIPLE), _whole_triple(site)),
            (TensorizedForm(FormKind.PACKED), Child(lambda: packed(site))),
        ]
    )


def _whole_triple(site: Site) -> Verdict:
    """B is read in place, by vectors along its columns."""
    rules = [_reads_rows(site), fills_lanes(site, "n", site.problem.n)]
    return legal(rules, lambda: laid_out(site, lambda: _row_blocks(site)))


def _row_blocks(site: Site) -> Node:
    return choice((RowBlock(bm), _row_block(site, bm)) for bm in site.menu.row_blocks)


def _row_block(site: Site, bm: int) -> Verdict:
    split = [divides("bm", bm, "m", site.problem.m), enough_row_blocks(site, bm)] if bm else []
    rules = [*split, renders_grids(site) if bm else None]
    return legal(rules, partial(tiled, site, site.spec(bm=bm)))


def _reads_rows(site: Site) -> Witness | None:
    if site.problem.b_layout is not BLayout.TRANSPOSED:
        return None
    return Witness("B is read in place by vectors along its columns, and it is stored transposed")
