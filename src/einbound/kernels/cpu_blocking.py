"""Sizes of CPU blocks that fit the caches and registers at hand.

Pure functions of a product and a processor; what of it is proposed in which order is in
`default_menu`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from statistics import median

from einbound.kernels.decisions import RegisterTile
from einbound.kernels.geometry import CpuPacked
from einbound.kernels.microkernel import Ports, block_cycles, is_spilled, predicted_cycles
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.register_tile import lane_ladder
from einbound.machine.limits import CacheLevel, HardwareLimits
from einbound.machine.precision import Precision

#: Rows of a tile above which its code no longer fits the cache of decoded instructions.
MOST_ROWS = 14
#: Register tiles that are told apart for one product: what is close to the best of them is noise.
N_TILES = 3
#: Depth at which tiles are compared: of the order of what fits the nearest cache.
COMPARED_DEPTH = 256
#: Steps of a depth: an inner loop is unrolled by some power of two.
DEPTH_UNIT = 8
#: Narrower panels of B pay for packing A again; on Zen 3 a cliff was measured below half of it.
LEAST_COLUMNS = 512
#: How many times as many whole blocks as workers are looked for: with more, each is a sliver.
MOST_MORE_BLOCKS = 1024


@dataclass(frozen=True, slots=True)
class Panels:
    """Sizes of panels that the caches hold.

    Attributes:
        bm: Rows of the panel of A.
        bn: Columns of the panel of B; 0: all.
        bk: Depth of both.
    """

    bm: int
    bn: int
    bk: int


def register_tiles(
    problem: MatmulProblem, limits: HardwareLimits, number: Precision
) -> tuple[RegisterTile, ...]:
    """The tiles that fit the registers and are fastest for the extents, the best first.

    Args:
        problem: The product.
        limits: The processor.
        number: The format that is computed in.

    Example:
        >>> cpu = HardwareLimits(simd_vector_bytes=32, vector_registers=16, fma_per_cycle=2,
        ...                      fma_latency_cycles=4)
        >>> problem = MatmulProblem(m=96, n=96, k=96)
        >>> [tile.label for tile in register_tiles(problem, cpu, Precision.FLOAT64)]
        ['rm4 rn3 lanes4', 'rm6 rn2 lanes4', 'rm2 rn4 lanes4']
    """
    ports = ports_of(limits, number.real)
    if ports is None:
        return ()
    parts = number.n_parts
    fitting = [
        (rm, rn, lanes)
        for rm, rn in product(range(1, min(MOST_ROWS, problem.m) + 1), range(1, 5))
        for lanes in lane_ladder(limits.simd_vector_bytes, number.real.n_bytes)[:1]
        if rn * lanes <= problem.n and not is_spilled(rm, parts * rn, ports)
    ]

    def cycles(tile: tuple[int, int, int]) -> float:
        rm, rn, lanes = tile
        vectors = parts * -(-problem.n // lanes)
        return block_cycles(problem.m, vectors, COMPARED_DEPTH, (rm, parts * rn), ports)

    best: dict[int, tuple[int, int, int]] = {}
    for tile in sorted(fitting, key=cycles):
        # One tile of each width: the same vectors of B by one row more or less is no other way.
        best.setdefault(tile[1], tile)
    return tuple(RegisterTile(*tile) for tile in list(best.values())[:N_TILES])


def ports_of(limits: HardwareLimits, number: Precision | None = None) -> Ports | None:
    """What one core does in a cycle; None where that is not known.

    Args:
        limits: The processor.
        number: The real format whose measured tiles count; None: none do.
    """
    counts = (limits.fma_per_cycle, limits.fma_latency_cycles, limits.vector_registers)
    if counts[0] is None or counts[1] is None or counts[2] is None:
        return None
    ports = Ports(counts[0], counts[1], counts[2])
    seen = tuple(
        ((each.rm, each.rn), each.rm * each.rn / (ports.fma_per_cycle * each.share))
        for each in limits.tile_speeds
        if each.number is number
    )
    if not seen:
        return ports
    slowdown = median(cycles / predicted_cycles(*tile, ports) for tile, cycles in seen)
    return replace(ports, measured=seen, slowdown=max(1.0, slowdown))


def cached_panels(tile: RegisterTile, limits: HardwareLimits, n_bytes: int) -> Panels:
    """The largest panels that the caches hold while a tile sweeps over them.

    Ways of a cache are shared out among what is live in it (Low, Igual, Smith and Quintana-Orti,
    "Analytical Modeling Is Enough for High-Performance BLIS", section 4): a row of tiles of A and
    one of B in the nearest, the panel of A in the next, that of B in the last one.

    Args:
        tile: Rows, vectors in a row and lanes.
        limits: The processor; a cache that it lacks is taken to hold everything.
        n_bytes: Bytes of a number of a panel.

    Example:
        >>> caches = [(2**15, 8, 64, 1e11), (2**19, 8, 64, 5e10), (2**25, 16, 64, 2e10)]
        >>> cpu = HardwareLimits(simd_vector_bytes=32, levels=tuple(
        ...     CacheLevel(*cache) for cache in caches))
        >>> cached_panels(RegisterTile(6, 2, 4), cpu, 8)
        Panels(bm=192, bn=14336, bk=256)
    """
    rm, rn, lanes = tile.sizes
    columns = rn * lanes
    caches = [*limits.levels[:3], *[None] * (3 - len(limits.levels[:3]))]
    depth = _depth(caches[0], rm, columns, n_bytes)
    rows = _held(caches[1], depth * n_bytes, columns * depth * n_bytes, rm)
    wide = _held(caches[2], depth * n_bytes, rows * depth * n_bytes, columns)
    return Panels(rows, wide, depth)


def _depth(cache: CacheLevel | None, rows: int, columns: int, n_bytes: int) -> int:
    """How deep a row of tiles of A and one of B may be; 0: any depth.

    One way is left to the results. The others are shared out in whole, unless B needs all of them.
    """
    if cache is None:
        return 0
    way = cache.bytes // cache.ways
    ways = int((cache.ways - 1) / (1 + columns / rows))
    shared = (cache.ways - 1) * way // ((rows + columns) * n_bytes)
    depth = ways * way // (rows * n_bytes) if ways else shared
    return _floor_to(depth, 16) or 16


def _held(cache: CacheLevel | None, each: int, beside: int, unit: int) -> int:
    """How many rows of `each` bytes a cache holds beside others; 0: any number."""
    if cache is None or not each:
        return 0
    way = cache.bytes // cache.ways
    ways = max(1, cache.ways - 1 - -(-beside // way))
    return _floor_to(ways * way // each, unit) or unit


def panels_for(
    problem: MatmulProblem, limits: HardwareLimits, tile: RegisterTile, n_bytes: int
) -> tuple[CpuPacked, ...]:
    """Panels near what the caches hold, balanced over the extents, the nearest first.

    Half and twice the rows and depth are proposed, too, rows that keep every core at work, and
    panels of B that the caches of one core hold.

    Args:
        problem: The product.
        limits: The processor.
        tile: The register tile whose rows and columns they are rounded to.
        n_bytes: Bytes of a number of a panel.
    """
    rm, rn, lanes = tile.sizes
    held = cached_panels(tile, limits, n_bytes)
    most_m, most_n, most_k = held.bm or problem.m, held.bn or problem.n, held.bk or problem.depth
    shared = -(-problem.m // (limits.n_cores or 1))
    sizes = [
        (most_m, most_k),
        (min(most_m, shared), most_k),
        (most_m // 2, most_k),
        (most_m * 2, most_k // 2),
        (most_m // 2, most_k * 2),
        (most_m, most_k // 2),
        (min(most_m // 2, shared), most_k // 2),
    ]
    depth = min(most_k, problem.depth)
    near = limits.levels[1].bytes // 2 // (depth * n_bytes) if len(limits.levels) > 1 else 0
    wide = balanced(problem.n, most_n, rn * lanes)
    narrow = balanced(problem.n, max(LEAST_COLUMNS, near), rn * lanes)
    deep = sizes.pop(4)
    found = [
        CpuPacked(
            balanced(problem.m, bm, rm),
            columns if columns < problem.n else 0,
            balanced(problem.depth, bk, DEPTH_UNIT),
        )
        for columns, some in ((wide, [*sizes[:3], deep, *sizes[3:]]), (narrow, [*sizes[:2], deep]))
        for bm, bk in some
    ]
    return tuple(dict.fromkeys(found))


def balanced(extent: int, most: int, unit: int) -> int:
    """The size of equal blocks of at most about `most`, rounded up to whole units.

    Example:
        >>> balanced(100, 64, 6), balanced(100, 200, 6)
        (54, 100)
    """
    n_blocks = -(-extent // max(1, most))
    equal = -(-extent // n_blocks)
    return min(extent, -(-equal // unit) * unit)


def row_blocks(extent: int, workers: int) -> tuple[int, ...]:
    """Rows of whole blocks that keep every worker at work, one each and several each.

    Example:
        >>> row_blocks(96, 2)
        (0, 48, 24)
    """
    found = [_whole_blocks(extent, max(2, workers * rounds)) for rounds in (1, 2)]
    return tuple(dict.fromkeys([0, *found]))


def _whole_blocks(extent: int, least: int) -> int:
    """Rows of the largest whole blocks of which there are `least` or somewhat more; 0: none."""
    numbers = range(least, min(extent, least * MOST_MORE_BLOCKS) + 1)
    return next((extent // number for number in numbers if extent % number == 0), 0)


def _floor_to(size: int, unit: int) -> int:
    return size // unit * unit
