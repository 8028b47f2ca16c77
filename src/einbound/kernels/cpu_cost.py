"""Seconds of a CPU kernel: micro-kernel, caches under the loop order, packing, dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from einbound.kernels.commitment import Commitment, Span
from einbound.kernels.cpu_blocking import ports_of
from einbound.kernels.decisions import PipelineKind, RegisterTile
from einbound.kernels.estimate import Cost, Transfer
from einbound.kernels.member import MOST_ROWS_IN_PLACE, is_small, small_tile
from einbound.kernels.microkernel import (
    UPDATE_CYCLES,
    Ports,
    block_cycles,
    edge_rows,
    pieces,
    step_cycles,
)
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.register_tile import MicroKernel, own_tile
from einbound.kernels.reloads import Block, Widths, moved_bytes
from einbound.kernels.runs import (
    least_pack_cycles,
    pack_cycles,
    sides,
    whole_share,
)
from einbound.machine.limits import HardwareLimits
from einbound.machine.precision import Precision

#: Share of the shorter of compute and transfers that prefetching does not hide. Hardware
#: prefetchers restart at every page and panel; an eighth keeps traffic a tie-breaker.
EXPOSED = 0.125
#: The same where B is read in place and tiles are narrower than its rows: walking down columns of
#: rows that lie far apart defeats the prefetchers and misses pages. Batches of products of 32 x 32
#: float64 took 1.1 to 1.7 times as long by tiles of 16 and 8 columns as by those of all 32.
EXPOSED_IN_PLACE = 0.4
#: Share of a link between caches that one stream of a core reaches: 54 to 66 GB/s were measured
#: from the last cache of Zen 5, whose link carries 182.
LINK_SHARE = 0.35
#: Cycles of a line that is packed from beyond the caches of a core: lines come in short pieces of
#: rows, which no prefetcher follows.
FAR_PACKED_CYCLES = 10.0
#: Cycles of a line of results there, and of each piece of a row that a tile has of it, which is
#: another page: where results are written, and where they are added to.
FAR_LINE_CYCLES, FAR_PIECE_CYCLES = (2.0, 10.0), (15.0, 45.0)
#: Cycles of a number that the blocktile pipeline copies: compilers make scalar code of it.
COPY_CYCLES = 2.5
#: Cycles of a multiply-add of this pipeline, whose accumulator lives in the nearest cache.
STORE_CYCLES = 1.0
#: Cycles to make one row of the four tables of offsets and runs.
TABLE_CYCLES = 5.0
#: Cycles to set up a product, and a block of it.
PRODUCT_CYCLES, BLOCK_CYCLES = 100.0, 60.0
#: Cycles of a step over k whose offsets are read from tables: a tile of 8 x 2 vectors that reads
#: operands in place took 1.3 times as long as one over panels, one of 8 x 3 hardly longer.
STEP_IN_PLACE_CYCLES = 2.0
#: Cycles of a number of B that is read in place alone, for every row of tiles: 16 x 64 x 15360
#: with B along the depth took 2.3 ms, of which 0.5 by all else.
GATHER_CYCLES = 3.5
#: Cycles to enter and leave a tile whose size the compiler knows.
SMALL_TILE_CYCLES = 6.0
#: Cycles of a row of a tile that goes to C in several runs, and of each of these.
ROW_RUN_CYCLES, RUN_CYCLES = 4.0, 6.0
#: Seconds to hand work to a pool of threads and wait for all of it: 60 to 80 microseconds were
#: measured under load with Python's, about half of it idle.
DISPATCH_SECONDS = 40e-6


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of a nest, or the spans that they are still chosen from.

    Attributes:
        bm: Rows of a block.
        bn: Columns of a block.
        bk: Depth of a block.
        n_m: Blocks along the rows, at the largest.
        n_n: Blocks along the columns.
        n_k: Blocks along the depth, at the largest.
        rows: Rows of all blocks, padding included where their size is known.
        depth: The same of the depth, which is that of all contracted loops.
    """

    bm: Span
    bn: int
    bk: Span
    n_m: int
    n_n: int
    n_k: int
    rows: int
    depth: int

    @property
    def is_one(self) -> bool:
        """Whether no size is left to choose."""
        return self.bm.is_one and self.bk.is_one


def estimate(problem: MatmulProblem, limits: HardwareLimits, committed: Commitment) -> Cost | None:
    """The least seconds of all kernels that a commitment leaves; None: no coverage."""
    number = compute_precision(problem)
    ports = ports_of(limits, number.real)
    if ports is None or limits.clock_hz is None or not limits.levels:
        return None
    lanes = limits.lanes(number.real)
    if lanes < 2:
        return None
    blocks = _blocks(problem, committed)
    committed = _with_tile(problem, limits, committed, blocks)
    workers = _workers(problem, limits, committed, blocks)
    compute = _compute_cycles(problem, lanes, ports, committed, blocks)
    compute += _far_result_cycles(problem, limits, committed, blocks)
    packing = number.n_parts * _packing_cycles(problem, limits, committed, blocks)
    per_worker = 1 / (workers * limits.clock_hz)
    return Cost(
        compute_seconds=compute * _imbalance(committed, blocks, workers) * per_worker,
        transfers=_transfers(problem, limits, committed, blocks, workers),
        packing_seconds=packing * per_worker,
        overhead_seconds=_dispatches(problem, committed, blocks) * DISPATCH_SECONDS
        + _setup_cycles(problem, committed, blocks) * per_worker,
        exposed=_exposed(problem, committed),
        flops=_flops(problem, committed, blocks),
    )


def compute_precision(problem: MatmulProblem) -> Precision:
    """The format of vectors: formats below 32 bits are widened to it when they are packed."""
    widest = max(problem.a_dtype, problem.b_dtype, problem.out_dtype, key=lambda p: p.n_bytes)
    return widest if widest.n_bytes >= 4 else Precision.FLOAT32


def _blocks(problem: MatmulProblem, committed: Commitment) -> Blocks | None:
    """The blocks as far as they are committed to; None before their width is."""
    if committed.bn is None or committed.pipeline is None:
        return None
    # Panels are as deep as all contracted loops together, whatever axes these are made of.
    bm, bk, bn = _span(committed.bm, problem.m), _span(committed.bk, problem.depth), committed.bn
    bn = bn or problem.n
    n_m, n_n, n_k = -(-problem.m // bm.hi), -(-problem.n // bn), -(-problem.depth // bk.hi)
    is_padded = _is_padded(committed)
    rows = n_m * bm.lo if is_padded and bm.is_one else problem.m
    depth = n_k * bk.lo if is_padded and bk.is_one else problem.depth
    return Blocks(bm, bn, bk, n_m, n_n, n_k, rows, depth)


def _span(committed: Span | None, extent: int) -> Span:
    """The span of an axis; (0, 0) is all of it."""
    if committed is None:
        return Span(1, extent)
    return committed if committed.hi else Span(extent, extent)


def _with_tile(
    problem: MatmulProblem, limits: HardwareLimits, committed: Commitment, blocks: Blocks | None
) -> Commitment:
    """The same, with the tile that an object would have."""
    if committed.tile is None or blocks is None:
        return committed
    if not committed.tile.is_auto:
        return replace(committed, tile=_emitted(problem, committed, committed.tile))
    if not blocks.is_one:
        return replace(committed, tile=None)
    number = compute_precision(problem)
    kernel = MicroKernel(
        limits.simd_vector_bytes, number.real.n_bytes, blocks.bm.lo, blocks.bn, number.n_parts
    )
    own = own_tile(kernel)
    if own is not None and committed.packed is False and is_small(problem):
        own = RegisterTile(*small_tile(problem.m, problem.n, own.sizes))
    return replace(committed, tile=own and _emitted(problem, committed, own))


def _emitted(problem: MatmulProblem, committed: Commitment, tile: RegisterTile) -> RegisterTile:
    """The tile as C is emitted for it: rows that are read in place need registers of addresses."""
    rm, rn, lanes = tile.sizes
    if committed.packed is False and not is_small(problem):
        rm = min(rm, MOST_ROWS_IN_PLACE)
    return RegisterTile(rm, rn, lanes)


def _is_padded(committed: Commitment) -> bool:
    """Whether partial blocks are filled up with zeros and computed in full."""
    return committed.pipeline is PipelineKind.TENSORIZED and bool(committed.packed)


def _flops(problem: MatmulProblem, committed: Commitment, blocks: Blocks | None) -> int:
    # A product of complex numbers is four of real ones.
    flops = 2 * compute_precision(problem).n_parts ** 2
    if blocks is None or not _is_padded(committed):
        return flops * problem.macs
    return flops * problem.n_batch * blocks.rows * blocks.n_n * blocks.bn * blocks.depth


# Threads ----------------------------------------------------------------------------------------


def _workers(
    problem: MatmulProblem, limits: HardwareLimits, committed: Commitment, blocks: Blocks | None
) -> int:
    """Cores at work; all of them while that is open."""
    cores = limits.n_cores or 1
    if committed.grid is False or committed.pipeline is PipelineKind.BLOCKTILE:
        return 1
    return cores if blocks is None else min(cores, -(-problem.m // blocks.bm.lo))


def _imbalance(committed: Commitment, blocks: Blocks | None, workers: int) -> float:
    """How much longer the busiest worker computes than all of them on average."""
    if blocks is None or not committed.grid or not blocks.bm.is_one:
        return 1.0
    return -(-blocks.n_m // workers) * workers / blocks.n_m


def _dispatches(problem: MatmulProblem, committed: Commitment, blocks: Blocks | None) -> int:
    """How often threads are given work: once a panel of B, or once where that is inside."""
    if not committed.grid:
        return 0
    inside = committed.hoist or committed.pack_rest or not committed.packed
    return (
        problem.n_batch if inside or blocks is None else problem.n_batch * blocks.n_n * blocks.n_k
    )


# Compute ----------------------------------------------------------------------------------------


def _compute_cycles(
    problem: MatmulProblem, lanes: int, ports: Ports, committed: Commitment, blocks: Blocks | None
) -> float:
    """Cycles of all multiply-adds on one core.

    Of complex numbers, each part is a vector of its own, to which two products are added.
    """
    parts = compute_precision(problem).n_parts
    if committed.pipeline is PipelineKind.BLOCKTILE:
        return _updates(problem, lanes, blocks) * STORE_CYCLES * parts * parts
    if blocks is None:
        return problem.macs * parts * parts / (lanes * ports.fma_per_cycle)
    tile = committed.tile
    if tile is None or tile.is_auto:
        # Results are read and written once a block of the depth, whatever the tile.
        vectors = parts * problem.n_batch * blocks.rows * blocks.n_n * -(-blocks.bn // lanes)
        return vectors * (parts * blocks.depth / ports.fma_per_cycle + blocks.n_k * UPDATE_CYCLES)
    rm, rn, tile_lanes = tile.sizes
    vectors = parts * -(-blocks.bn // tile_lanes)
    if committed.packed is False and is_small(problem):
        return problem.n_batch * _small_cycles(blocks, vectors, (rm, rn), ports)
    if not committed.packed:
        rows, lie = -(-blocks.bm.lo // rm), sides(problem, rn * tile_lanes).b
        alone = (1 - whole_share(lie.across, tile_lanes)) * blocks.bn * GATHER_CYCLES
        step = -(-vectors // (parts * rn)) * STEP_IN_PLACE_CYCLES + alone
        table = rows * blocks.bk.lo * step
    else:
        table = 0.0
    one = table + parts * block_cycles(blocks.bm.lo, vectors, blocks.bk.lo, (rm, parts * rn), ports)
    n_blocks = blocks.n_m * blocks.n_n * blocks.n_k
    return problem.n_batch * (one * n_blocks + _scattering_cycles(problem, blocks, tile))


def _small_cycles(blocks: Blocks, vectors: int, tile: tuple[int, int], ports: Ports) -> float:
    """Cycles of a product whose tiles cover it exactly."""
    rm, rn = tile
    return sum(
        n_rows
        * n_columns
        * (
            blocks.bk.lo * step_cycles(rows, columns, ports)
            + rows * columns * UPDATE_CYCLES
            + SMALL_TILE_CYCLES
        )
        for rows, n_rows in pieces(blocks.bm.lo, rm)
        for columns, n_columns in pieces(vectors, rn)
    )


def _scattering_cycles(problem: MatmulProblem, blocks: Blocks, tile: RegisterTile) -> float:
    """Cycles of rows of tiles that go to C in several runs."""
    rm, rn, lanes = tile.sizes
    columns = min(rn * lanes, problem.n)
    run = sides(problem, rn * lanes).c.across
    share, rest = whole_share(run, columns), problem.m % rm
    if rest and edge_rows(rest, rm) != rest:
        share *= 1 - rest / problem.m
    n_rows = (1 - share) * problem.m * -(-problem.n // columns) * blocks.n_k
    return n_rows * (ROW_RUN_CYCLES + RUN_CYCLES * (1 + columns // run))


def _updates(problem: MatmulProblem, lanes: int, blocks: Blocks | None) -> float:
    """Multiply-adds of the blocktile pipeline, which compilers make scalar code of."""
    if blocks is None:
        return problem.macs / lanes
    return float(problem.macs // problem.n * blocks.n_n * blocks.bn)


# Packing ----------------------------------------------------------------------------------------


def _packing_cycles(
    problem: MatmulProblem, limits: HardwareLimits, committed: Commitment, blocks: Blocks | None
) -> float:
    """Cycles of packing in all calls; what is packed when a plan is prepared is not among it."""
    if not committed.packed or committed.hoist is None:
        return 0.0
    each = _each_cycles(problem, limits, committed)
    passes = dict(zip("AB", _passes(committed, blocks), strict=True))
    numbers = {"A": problem.m, "B": problem.n}
    return (
        problem.depth
        * problem.n_batch
        * sum(
            passes[operand] * numbers[operand] * each[operand]
            for operand in "AB"
            if _is_packed(operand, problem, committed)
        )
    )


def _each_cycles(
    problem: MatmulProblem, limits: HardwareLimits, committed: Commitment
) -> dict[str, float]:
    """Cycles of one number of each operand; the least of all tiles where none is decided."""
    if committed.pipeline is PipelineKind.BLOCKTILE:
        return dict.fromkeys("AB", COPY_CYCLES)
    number, tile = compute_precision(problem), committed.tile
    n_bytes, parts = number.real.n_bytes, number.n_parts
    far = {
        "A": _far_bytes(problem.m * problem.depth * problem.n_batch * number.n_bytes, limits),
        "B": _far_bytes(problem.n * problem.depth * problem.n_batch * number.n_bytes, limits),
    }
    near = dict.fromkeys("AB", least_pack_cycles(n_bytes))
    if tile is not None and not tile.is_auto:
        rm, rn, lanes = tile.sizes
        lie = sides(problem, rn * lanes)
        near = {
            "A": pack_cycles(lie.a, rm, lanes, n_bytes, parts),
            "B": pack_cycles(lie.b, rn * lanes, lanes, n_bytes, parts),
        }
    return {
        operand: near[operand] + (FAR_PACKED_CYCLES * n_bytes / 64 if far[operand] else 0.0)
        for operand in "AB"
    }


def _far_bytes(n_bytes: int, limits: HardwareLimits) -> bool:
    """Whether so many bytes are more than the caches of one core hold."""
    return len(limits.levels) > 1 and n_bytes > limits.levels[1].bytes


def _far_result_cycles(
    problem: MatmulProblem, limits: HardwareLimits, committed: Commitment, blocks: Blocks | None
) -> float:
    """Cycles of results that are not in the caches of a core when they are added to."""
    n_bytes = problem.m * problem.n * problem.n_batch * problem.out_dtype.n_bytes
    if blocks is None or not _far_bytes(n_bytes, limits):
        return 0.0
    tile, per_line, per_piece = committed.tile, FAR_LINE_CYCLES, FAR_PIECE_CYCLES
    n_lines, n_pieces, n_added = n_bytes / 64, 0.0, blocks.n_k - 1
    if committed.pipeline is PipelineKind.BLOCKTILE:
        n_added = 0
    elif tile is not None and not tile.is_auto:
        _, rn, lanes = tile.sizes
        piece = min(rn * lanes, problem.n, sides(problem, rn * lanes).c.across)
        n_pieces = problem.n_batch * problem.m * problem.n / piece
    once, again = (n_lines * per_line[add] + n_pieces * per_piece[add] for add in (False, True))
    return once + n_added * again


def _is_packed(operand: str, problem: MatmulProblem, committed: Commitment) -> bool:
    """Whether the kernel packs an operand itself."""
    if committed.hoist and operand in problem.hoistable:
        return False
    in_place = committed.hoist and committed.grid and not committed.pack_rest
    return not in_place


def _passes(committed: Commitment, blocks: Blocks | None) -> tuple[int, int]:
    """How often A and B are packed: anew for every block of the loops outside."""
    if blocks is None:
        return 1, 1
    is_inside = committed.pack_rest or committed.pipeline is PipelineKind.BLOCKTILE
    return blocks.n_n, blocks.n_m if is_inside else 1


def _setup_cycles(problem: MatmulProblem, committed: Commitment, blocks: Blocks | None) -> float:
    """Cycles of what is made anew for every product and every block of it."""
    if blocks is None or not blocks.is_one or committed.packed is None:
        return 0.0
    if not committed.packed and is_small(problem):
        return 0.0
    tables = problem.n + blocks.n_n * (problem.depth + blocks.n_k * problem.m)
    n_blocks = blocks.n_n * blocks.n_k * blocks.n_m
    return problem.n_batch * (PRODUCT_CYCLES + n_blocks * BLOCK_CYCLES + tables * TABLE_CYCLES)


# Caches -----------------------------------------------------------------------------------------


def _transfers(
    problem: MatmulProblem,
    limits: HardwareLimits,
    committed: Commitment,
    blocks: Blocks | None,
    workers: int,
) -> tuple[Transfer, ...]:
    """What crosses each boundary of the hierarchy, the nearest first."""
    block, loops = _nest(problem, committed, blocks)
    widths = Widths(problem.a_dtype.n_bytes, problem.b_dtype.n_bytes, problem.out_dtype.n_bytes)
    crossings = []
    for number, level in enumerate(limits.levels):
        n_bytes = problem.n_batch * moved_bytes(_whole(problem), block, loops, widths, level.bytes)
        if number + 1 < len(limits.levels):
            rate = limits.levels[number + 1].bytes_per_second * workers
            rate *= LINK_SHARE if number else 1.0
        else:
            rate = limits.peak_memory_bandwidth or 0.0
        source = f"L{number + 2}" if number + 1 < len(limits.levels) else "memory"
        if rate:
            crossings.append(Transfer(source, n_bytes, n_bytes / rate))
    return tuple(crossings)


def _exposed(problem: MatmulProblem, committed: Commitment) -> float:
    """The share of transfers that is not hidden."""
    tile = committed.tile
    if committed.packed is not False or tile is None or tile.is_auto:
        return EXPOSED
    _, rn, lanes = tile.sizes
    return EXPOSED if rn * lanes >= problem.n else EXPOSED_IN_PLACE


def _whole(problem: MatmulProblem) -> Block:
    return Block(problem.m, problem.n, problem.depth)


def _nest(
    problem: MatmulProblem, committed: Commitment, blocks: Blocks | None
) -> tuple[Block, Sequence[tuple[str, int]]]:
    """The loops around the innermost statement, as far as they are committed to."""
    if blocks is None:
        return _whole(problem), []
    around, tile = _around(committed, blocks), committed.tile
    bm, bn, bk = (
        min(size, extent)
        for size, extent in (
            (blocks.bm.lo, problem.m),
            (blocks.bn, problem.n),
            (blocks.bk.lo, problem.depth),
        )
    )
    if committed.pipeline is PipelineKind.BLOCKTILE:
        # Order k, i, j in a block: every step over k meets all results of the block.
        return Block(1, bn, 1), [*around, ("k", bk), ("m", bm)]
    if tile is None or tile.is_auto:
        return Block(bm, bn, bk), around
    rm, rn, lanes = tile.sizes
    rm, columns = min(rm, bm), min(rn * lanes, bn)
    inner = [("n", -(-bn // columns)), ("m", -(-bm // rm))]
    if not committed.packed:
        # The whole triple walks along rows of C.
        inner.reverse()
    return Block(rm, columns, bk), [*around, *inner]


def _around(committed: Commitment, blocks: Blocks) -> list[tuple[str, int]]:
    """Loops over blocks; the order is j k i, but i is outermost where it is the one dispatch."""
    rows, columns, depth = ("m", blocks.n_m), ("n", blocks.n_n), ("k", blocks.n_k)
    if committed.pipeline is PipelineKind.BLOCKTILE:
        return [rows, columns, depth]
    outermost = committed.grid and (committed.hoist or committed.pack_rest)
    return [rows, columns, depth] if outermost else [columns, depth, rows]
