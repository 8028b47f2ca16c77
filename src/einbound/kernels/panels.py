"""Packed panels of one size: what they need, and the kernel around them.

Panels are padded with zeros, so that they need not divide; what is read in place cannot be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from einbound.kernels.decisions import ShapeKind
from einbound.kernels.geometry import CpuPacked
from einbound.kernels.rules import does_divide, enough_row_blocks, pads_little
from einbound.kernels.site import Site
from einbound.kernels.vectors import fills_lanes, tiled
from einbound.kernels.verdicts import Verdict, legal, proposed
from einbound.space.witness import Witness

#: Shapes that pack persistent operands when the plan is prepared.
AHEAD = frozenset({ShapeKind.HOISTED, ShapeKind.HOISTED_GRID, ShapeKind.HOISTED_GRID_PACK_REST})
#: Shapes whose row blocks run in parallel.
PARALLEL = frozenset(
    {
        ShapeKind.HOISTED_GRID,
        ShapeKind.HOISTED_GRID_PACK_REST,
        ShapeKind.GRID_PACK_REST,
        ShapeKind.GRID,
    }
)
_PACKS_REST = frozenset({ShapeKind.HOISTED_GRID_PACK_REST, ShapeKind.GRID_PACK_REST})


def reads_b(site: Site, kind: ShapeKind) -> bool:
    """Whether B is read in place."""
    return kind is ShapeKind.HOISTED_GRID and "B" not in site.problem.hoistable


@dataclass(frozen=True, slots=True)
class Panels:
    """Panels of one size, made in one way, on one site."""

    site: Site
    kind: ShapeKind
    geometry: CpuPacked

    @property
    def bn(self) -> int:
        """Columns of the panel of B."""
        return self.geometry.bn or self.site.problem.n

    @property
    def a_bytes(self) -> int:
        """Bytes of the panel of A, in the format that is computed in."""
        return self.geometry.bm * self.geometry.bk * self.site.compute.n_bytes

    @property
    def b_bytes(self) -> int:
        """Bytes of the panel of B."""
        return self.geometry.bk * self.bn * self.site.compute.n_bytes

    def lifting(self, **policies: object) -> Panels:
        """The same with fields of the menu replaced."""
        return replace(self, site=self.site.lifting(**policies))

    def judged(self) -> Verdict:
        """The verdict on them.

        The cap on panels is judged before what the shape asks for, since it is about sizes alone:
        lifted, they may still be refuted.
        """
        fills = [self.fills_lanes()]
        return legal(fills, lambda: proposed([self.is_small()], self._of_shape))

    def fills_lanes(self) -> Witness | None:
        """The panel of B must hold a vector."""
        return fills_lanes(self.site, "bn", self.bn)

    def is_small(self) -> Witness | None:
        """The policy on what panels may take of the caches."""
        cap, n_bytes = self.site.menu.packing_cap_bytes, self.a_bytes + self.b_bytes
        if cap is None or n_bytes <= cap:
            return None
        return Witness.of(
            "panels beyond the policy's cap, for the caches' sake", cap, bytes=n_bytes
        )

    def parallel_rules(self) -> Iterator[Witness | None]:
        """What parallel row blocks need: if panels break it, all larger ones do."""
        if self.kind in PARALLEL:
            yield enough_row_blocks(self.site, self.geometry.bm)
            yield self._fits_chunk()

    def _of_shape(self) -> Verdict:
        rules = [self._divides(), *self.parallel_rules()]
        geometry = self.geometry
        policies = [pads_little(self.site, geometry.bm, self.bn, geometry.bk)]
        return legal(rules, lambda: proposed(policies, self._kernel))

    def _kernel(self) -> Verdict:
        geometry = self.geometry
        spec = self.site.spec(
            bm=geometry.bm,
            bn=geometry.bn,
            bk=geometry.bk,
            hoist=self.kind in AHEAD,
            grid=self.kind in PARALLEL,
            pack_rest=self.kind in _PACKS_REST,
        )
        return tiled(self.site, spec)

    def _divides(self) -> Witness | None:
        """Where an operand is read in place, blocks must divide."""
        problem, geometry = self.site.problem, self.geometry
        if self.kind is not ShapeKind.HOISTED_GRID or len(problem.hoistable) > 1:
            return None
        pairs = ((geometry.bm, problem.m), (self.bn, problem.n), (geometry.bk, problem.k))
        if all(does_divide(block, extent) for block, extent in pairs):
            return None
        rule = "blocks must divide where an operand is read in place, which cannot be padded"
        return Witness.of(rule, m=problem.m, n=problem.n, k=problem.k)

    def _fits_chunk(self) -> Witness | None:
        """What every parallel chunk packs for itself must stay small."""
        cap, n_bytes = self.site.menu.chunk_cap_bytes, self._chunk_bytes()
        if cap is None or n_bytes <= cap:
            return None
        return Witness.of(
            "panels that each chunk packs must stay within the cap", cap, bytes=n_bytes
        )

    def _chunk_bytes(self) -> int:
        if self.kind is ShapeKind.GRID:
            return self.a_bytes
        if self.kind not in _PACKS_REST:
            return 0
        panels = {"A": self.a_bytes, "B": self.b_bytes}
        return sum(panels[each] for each in panels.keys() - self.site.problem.hoistable)
