"""Seconds of a CPU kernel: micro-kernel, caches under the loop order, packing, dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from einbound.kernels.commitment import Commitment, Span
from einbound.kernels.cpu_blocking import ports_of
from einbound.kernels.decisions import PipelineKind
from einbound.kernels.estimate import Cost, Transfer
from einbound.kernels.microkernel import (
    UPDATE_CYCLES,
    Ports,
    block_cycles,
)
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.register_tile import MicroKernel, own_tile
from einbound.kernels.reloads import Block, Widths, moved_bytes
from einbound.kernels.views import a_strides, b_strides
from einbound.machine.limits import HardwareLimits
from einbound.machine.precision import Precision

#: Share of the shorter of compute and transfers that prefetching does not hide. Hardware
#: prefetchers restart at every page and panel; an eighth keeps traffic a tie-breaker.
EXPOSED = 0.125
#: The same where B is read in place: walking down columns of rows that lie far apart defeats the
#: prefetchers and misses pages. Such kernels were measured at 0.6 to 0.8 of packed ones.
EXPOSED_IN_PLACE = 0.5
#: Cycles to load, place and store one number, or one vector where both sides are contiguous.
PACK_CYCLES = 2.0
#: Cycles of one vector multiply-add whose accumulator lives in the nearest cache: one store.
STORE_CYCLES = 1.0
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
    packing = number.n_parts * _packing_cycles(problem, lanes, committed, blocks)
    per_worker = 1 / (workers * limits.clock_hz)
    return Cost(
        compute_seconds=compute * _imbalance(committed, blocks, workers) * per_worker,
        transfers=_transfers(problem, limits, committed, blocks, workers),
        packing_seconds=packing * per_worker,
        overhead_seconds=_dispatches(problem, committed, blocks) * DISPATCH_SECONDS,
        exposed=EXPOSED_IN_PLACE if committed.packed is False else EXPOSED,
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
    """The same, with the model's own tile in the place of "auto"."""
    if committed.tile is None or not committed.tile.is_auto or blocks is None:
        return committed
    if not blocks.is_one:
        return replace(committed, tile=None)
    number = compute_precision(problem)
    kernel = MicroKernel(
        limits.simd_vector_bytes, number.real.n_bytes, blocks.bm.lo, blocks.bn, number.n_parts
    )
    return replace(committed, tile=own_tile(kernel))


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
    one = parts * block_cycles(blocks.bm.lo, vectors, blocks.bk.lo, (rm, parts * rn), ports)
    return problem.n_batch * one * blocks.n_m * blocks.n_n * blocks.n_k


def _updates(problem: MatmulProblem, lanes: int, blocks: Blocks | None) -> float:
    """Vector multiply-adds of the blocktile pipeline, whose rows end with a partial vector."""
    if blocks is None:
        return problem.macs / lanes
    return problem.macs // problem.n * blocks.n_n * -(-blocks.bn // lanes)


# Packing ----------------------------------------------------------------------------------------


def _packing_cycles(
    problem: MatmulProblem, lanes: int, committed: Commitment, blocks: Blocks | None
) -> float:
    """Cycles of packing in all calls; what is packed when a plan is prepared is not among it."""
    if not committed.packed or committed.hoist is None:
        return 0.0
    depth = problem.depth * problem.n_batch
    a_passes, b_passes = _passes(committed, blocks)
    keeps_layout = committed.pipeline is PipelineKind.BLOCKTILE
    total = 0.0
    if _is_packed("A", problem, committed):
        run = _run(a_strides(problem), 0, keeps_layout, lanes)
        total += a_passes * problem.m * depth / run
    if _is_packed("B", problem, committed):
        run = _run(b_strides(problem) or (0, 0), 1, keeps_layout, lanes)
        total += b_passes * problem.n * depth / run
    return total * PACK_CYCLES


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


def _run(strides: tuple[int, int], axis: int, keeps_layout: bool, lanes: int) -> int:
    """Numbers that are copied at once: a vector where they lie together on both sides."""
    return lanes if strides[axis] == 1 or (keeps_layout and 1 in strides) else 1


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
        else:
            rate = limits.peak_memory_bandwidth or 0.0
        source = f"L{number + 2}" if number + 1 < len(limits.levels) else "memory"
        if rate:
            crossings.append(Transfer(source, n_bytes, n_bytes / rate))
    return tuple(crossings)


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
