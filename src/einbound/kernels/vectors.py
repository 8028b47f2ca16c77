"""Whether and how the vectors of a CPU fit a product."""

from __future__ import annotations

from dataclasses import replace

from einbound.kernels.decisions import RegisterTile
from einbound.kernels.register_tile import (
    MicroKernel,
    alternatives,
    lane_ladder,
    own_tile,
    two_row_twin,
)
from einbound.kernels.site import Site
from einbound.kernels.spec import KernelSpec
from einbound.kernels.verdicts import Verdict, choice, leaf, legal
from einbound.machine.precision import Precision
from einbound.space.tree import Child, Unknown
from einbound.space.witness import Witness

_LEAST_VECTOR_BYTES = 8
_LEAST_LANES = 2


def has_vectors(site: Site) -> Witness | None:
    """Vector registers must be wide enough to be of use."""
    n_bytes = site.limits.simd_vector_bytes
    if n_bytes >= _LEAST_VECTOR_BYTES:
        return None
    return Witness.of("vectors must be wide enough", _LEAST_VECTOR_BYTES, bytes=n_bytes)


def has_lanes(site: Site) -> Witness | None:
    """A vector must hold two numbers at least of the format that is computed in."""
    lanes = site.limits.simd_vector_bytes // site.compute.real.n_bytes
    if lanes >= _LEAST_LANES:
        return None
    rule = "a vector must hold two numbers"
    return Witness.of(rule, _LEAST_LANES, lanes=lanes, format=str(site.compute))


def computes_alike(site: Site) -> Witness | None:
    """Operands, result and sums must be computed in one format that vectors compute in."""
    problem, numerics = site.problem, site.menu.numerics
    native = site.limits.native_fp16_arithmetic
    stored = (problem.a_dtype, problem.b_dtype, problem.out_dtype)
    formats = {numerics.compute(each, native_half=native) for each in stored}
    formats.add(numerics.accumulate(problem.out_dtype, native_half=native))
    vectors = {Precision.FLOAT32, Precision.FLOAT64, *([Precision.FLOAT16] if native else [])}
    # Parts of complex numbers are computed in vectors of their own.
    if len(formats) == 1 and {each.real for each in formats} <= vectors:
        return None
    rule = "operands, result and sums must be computed in one format that vectors compute in"
    return Witness.of(rule, formats=", ".join(sorted(formats)))


def fills_lanes(site: Site, name: str, columns: int) -> Witness | None:
    """Columns must fill one vector at least."""
    ladder = lane_ladder(site.limits.simd_vector_bytes, site.compute.real.n_bytes)
    if ladder and columns >= ladder[-1]:
        return None
    return Witness(f"{name} must fill one vector", ((name, columns),), min(ladder, default=None))


def tiled(site: Site, spec: KernelSpec) -> Verdict:
    """A kernel of the vectors with its register tile: a level only where there is a choice."""
    problem = site.problem
    kernel = MicroKernel(
        vector_bytes=site.limits.simd_vector_bytes,
        element_bytes=site.compute.real.n_bytes,
        m=spec.bm or problem.m,
        n=spec.bn or problem.n,
        parts=site.compute.n_parts,
    )
    tiles = _tiles(site, kernel)
    if not tiles:
        return leaf(site, spec)
    own = (RegisterTile(), leaf(site, spec))
    others = [(tile, _with_tile(site, kernel, replace(spec, tile=tile))) for tile in tiles]
    return Child(lambda: choice([own, *others]))


def _tiles(site: Site, kernel: MicroKernel) -> list[RegisterTile]:
    given = site.menu.register_tiles
    tiles = list(alternatives(kernel) if given is None else given)
    twin = two_row_twin(kernel) if site.menu.two_row_twin else None
    if twin is not None and twin not in tiles:
        tiles.append(twin)
    own = own_tile(kernel)
    return [tile for tile in tiles if tile != own and not tile.is_auto]


def _with_tile(site: Site, kernel: MicroKernel, spec: KernelSpec) -> Verdict:
    assert spec.tile is not None, "the tile is decided"
    rm, rn, lanes = spec.tile.sizes
    rules = [
        _is_width(kernel, lanes),
        _reaches("rm", rm, "m", kernel.m),
        _reaches("rn lanes", rn * lanes, "n", kernel.n),
    ]
    return legal(rules, lambda: _in_registers(site, spec))


def _in_registers(site: Site, spec: KernelSpec) -> Verdict:
    """Whether a tile is kept in registers is known for certain only once the kernel is built."""
    assert spec.tile is not None, "the tile is decided"
    rm, rn, _ = spec.tile.sizes
    # Results, a row of B and one number of A in all lanes are alive at once.
    parts, cap = site.compute.n_parts, site.limits.vector_registers
    needed = parts * (rm * rn + rn) + 1
    judged = leaf(site, spec)
    spills = cap is not None and needed > cap and site.menu.predict_spills
    if not spills or not isinstance(judged, Child):
        return judged
    rule = "vector registers are predicted to spill"
    return Unknown(Witness.of(rule, cap, registers=needed), judged.subtree)


def _is_width(kernel: MicroKernel, lanes: int) -> Witness | None:
    ladder = lane_ladder(kernel.vector_bytes, kernel.element_bytes)
    if lanes in ladder:
        return None
    widths = ", ".join(map(str, ladder))
    return Witness.of("lanes must be a width of the vectors", widths, lanes=lanes)


def _reaches(name: str, size: int, of: str, extent: int) -> Witness | None:
    if size <= extent:
        return None
    return Witness(f"{name} of a register tile must stay within {of}", ((name, size),), extent)
