"""Seconds of a GPU kernel: occupancy, waves, and traffic of shared memory, L2 and main memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from einbound.kernels.commitment import Commitment, Span
from einbound.kernels.decisions import PipelineKind
from einbound.kernels.estimate import Cost, Transfer
from einbound.kernels.occupancy import (
    WARP,
    Needs,
    blocktile_registers,
    mma_registers,
    resident_workgroups,
    spilled_registers,
)
from einbound.kernels.path_floor import smallest_tile
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.reloads import Block, Widths, moved_bytes
from einbound.machine.limits import HardwareLimits
from einbound.machine.precision import Precision

#: Partitions of a multiprocessor that issue one warp's instruction a cycle each (CUDA C++
#: Programming Guide, "Arithmetic Instructions").
SCHEDULERS = 4
#: Independent instructions in flight that keep one partition busy: a multiply-add takes 4 cycles
#: from sm_70 on, and a matrix instruction about four times what it occupies its unit (Sun et al.,
#: "Dissecting Tensor Cores via Microbenchmarks", IEEE TPDS 34(1), 2023).
IN_FLIGHT = 4
#: Cycles until a load from main memory is there, sm_80 and sm_90 (same source).
MEMORY_CYCLES = 500
#: Steps of an unstaged kernel whose loads a compiler issues together.
UNROLLED_STEPS = 4
#: Seconds from one launch to the next.
LAUNCH_SECONDS = 3e-6
#: Bytes that one lane loads from shared memory at once, and that all of it serves in a cycle.
LANE_BYTES, SHARED_BYTES = 16, 128
#: Multiply-adds that are lost to the store and the load of one spilled result.
SPILL_STEPS = 8


@dataclass(frozen=True, slots=True)
class Grid:
    """A block, or the spans that blocks are still chosen from, and how many there are.

    Attributes:
        bm: Rows of a block.
        bn: Columns of a block.
        bk: Depth of a staged block; all of it where nothing is staged.
        n_m: Blocks along the rows, at the largest.
        n_n: Blocks along the columns.
        steps: Times that one block waits for loads, at the deepest.
        products: Products in one grid.
        rounds: Grids one after another.
    """

    bm: Span
    bn: int
    bk: Span
    n_m: int
    n_n: int
    steps: int
    products: int
    rounds: int

    @property
    def n_blocks(self) -> int:
        """Workgroups, at the largest blocks."""
        return self.n_m * self.n_n * self.products

    @property
    def is_one(self) -> bool:
        """Whether no size is left to choose."""
        return self.bm.is_one and self.bk.is_one


@dataclass(frozen=True, slots=True)
class Residence:
    """What one multiprocessor holds at once, at its best.

    Attributes:
        workgroups: Resident ones, no more than there are.
        warps: Warps of these for each scheduler; may be a part of one.
        spilled: Share of the results of a thread that are spilled.
    """

    workgroups: int
    warps: float
    spilled: float


def estimate(problem: MatmulProblem, limits: HardwareLimits, committed: Commitment) -> Cost | None:
    """The least seconds of all kernels that a commitment leaves; None: no coverage."""
    n_sm, clock, rate = limits.n_sm, limits.clock_hz, _rate(problem, limits, committed.pipeline)
    if n_sm is None or clock is None or rate is None or len(limits.levels) < 2:
        return None
    grid = _grid(problem, limits, committed)
    if grid is None or committed.pipeline is None:
        return _open_cost(problem, limits, rate)
    held = _residence(problem, limits, committed, grid, n_sm)
    if held.workgroups == 0:
        return None
    busy = _busiest(problem, grid, n_sm)
    in_flight = held.warps * _depth(committed, limits)
    together = max(1.0, -(-grid.n_blocks // n_sm) / held.workgroups)
    waits = together * grid.steps * MEMORY_CYCLES / _depth(committed, limits)
    slots = held.warps * SCHEDULERS * WARP
    return Cost(
        compute_seconds=busy * n_sm * _slowdown(problem, limits, committed, grid, held) / rate,
        transfers=_transfers(problem, limits, committed, grid, held.workgroups * n_sm),
        packing_seconds=0.0,
        overhead_seconds=LAUNCH_SECONDS + grid.rounds * waits / clock,
        exposed=min(1.0, 1.0 / in_flight),
        flops=2 * _padded_macs(problem, grid),
        occupancy=slots / (limits.max_threads_per_sm or slots),
        n_waves=grid.rounds * -(-grid.n_blocks // (n_sm * held.workgroups)),
    )


def _open_cost(problem: MatmulProblem, limits: HardwareLimits, rate: float) -> Cost:
    """What every geometry costs: each multiply-add once, each number moved once."""
    depth = problem.k * prod(problem.outer_k)
    whole = Block(problem.m, problem.n, depth)
    once = moved_bytes(whole, whole, [], _widths(problem), 0)
    memory = problem.n_batch * once
    bandwidth = limits.peak_memory_bandwidth
    moved = (Transfer("memory", memory, memory / bandwidth),) if bandwidth else ()
    return Cost(
        compute_seconds=2 * problem.macs / rate,
        transfers=moved,
        packing_seconds=0.0,
        overhead_seconds=LAUNCH_SECONDS,
        exposed=0.0,
        flops=2 * problem.macs,
    )


# Sizes ------------------------------------------------------------------------------------------


def _grid(problem: MatmulProblem, limits: HardwareLimits, committed: Commitment) -> Grid | None:
    """The grid as far as it is committed to; None before a geometry is."""
    if committed.bn is None or committed.packed is None:
        return None
    bm, bk = committed.bm or Span(1, problem.m), committed.bk or Span(1, problem.k)
    stage = bk.hi
    if not committed.packed:
        bk = Span(problem.k, problem.k)
        stage = smallest_tile(problem, limits)[2] * UNROLLED_STEPS
    in_grid = committed.batch_grid is not False or problem.n_batch == 1
    return Grid(
        bm=bm,
        bn=committed.bn,
        bk=bk,
        n_m=-(-problem.m // bm.hi),
        n_n=-(-problem.n // committed.bn),
        steps=-(-problem.k // stage) * prod(problem.outer_k),
        products=problem.n_batch if in_grid else 1,
        rounds=1 if in_grid else problem.n_batch,
    )


def _padded(extent: int, block: Span) -> int:
    """An extent filled up to whole blocks; not at all while several are possible."""
    return -(-extent // block.lo) * block.lo if block.is_one else extent


def _padded_macs(problem: MatmulProblem, grid: Grid) -> int:
    rows, depth = _padded(problem.m, grid.bm), _padded(problem.k, grid.bk)
    return rows * grid.n_n * grid.bn * depth * prod(problem.outer_k) * problem.n_batch


def _widths(problem: MatmulProblem) -> Widths:
    return Widths(problem.a_dtype.n_bytes, problem.b_dtype.n_bytes, problem.out_dtype.n_bytes)


def _depth(committed: Commitment, limits: HardwareLimits) -> int:
    """Stages in flight; the most that there may be while that is open."""
    if committed.depth is not None:
        return committed.depth
    return max((1, *limits.mma.depths)) if limits.mma else 1


# Compute ----------------------------------------------------------------------------------------


def _rate(
    problem: MatmulProblem, limits: HardwareLimits, pipeline: PipelineKind | None
) -> float | None:
    """Operations per second of all multiprocessors; the highest while the pipeline is open."""
    peak = limits.peak_flops
    if peak is None or problem.a_dtype.real is not problem.a_dtype:
        return None
    # Vectors of float64 run at half the rate, narrow formats are widened to float32.
    scalar = peak * 4 / max(4, problem.a_dtype.n_bytes)
    if pipeline is PipelineKind.BLOCKTILE:
        return scalar
    matrix = max(limits.flops_of(each) or 0.0 for each in _computed(problem.a_dtype, limits))
    return matrix if pipeline else max(scalar, matrix)


def _computed(stored: Precision, limits: HardwareLimits) -> list[Precision]:
    """Formats that matrix instructions compute numbers stored so in."""
    wide = [Precision.TFLOAT32] if stored is Precision.FLOAT32 and limits.mma else []
    named = {triple[0] for triple, _ in limits.mma.tiles} if limits.mma else set()
    return [each for each in (stored, *wide) if each in named] or [stored]


def _busiest(problem: MatmulProblem, grid: Grid, n_sm: int) -> float:
    """Operations of the multiprocessor with the most blocks, or of all on average."""
    padded = 2 * _padded_macs(problem, grid)
    if not grid.is_one:
        return padded / n_sm
    of_block = padded // (grid.n_blocks * grid.rounds)
    return float(grid.rounds * -(-grid.n_blocks // n_sm) * of_block)


def _slowdown(
    problem: MatmulProblem,
    limits: HardwareLimits,
    committed: Commitment,
    grid: Grid,
    held: Residence,
) -> float:
    """How much longer a multiprocessor takes than its peak: idle partitions, chains, spills."""
    if committed.pipeline is PipelineKind.BLOCKTILE:
        independent = (committed.tm or 1) * (committed.tn or 1)
    else:
        rows, columns, _ = smallest_tile(problem, limits)
        independent = -(-grid.bm.hi // rows) * -(-grid.bn // columns)
    partitions = min(1.0, held.warps)
    chains = min(1.0, max(1.0, held.warps) * independent / IN_FLIGHT)
    return (1 + SPILL_STEPS * held.spilled) / (partitions * chains)


def _residence(
    problem: MatmulProblem,
    limits: HardwareLimits,
    committed: Commitment,
    grid: Grid,
    n_sm: int,
) -> Residence:
    """Workgroups and warps of one multiprocessor, at the smallest block that is still open."""
    bm, bk = grid.bm.lo, grid.bk.lo
    n_bytes = max(4, problem.out_dtype.n_bytes)
    if committed.pipeline is PipelineKind.BLOCKTILE:
        tm, tn = committed.tm or 1, committed.tn or 1
        threads, results = (bm // tm) * (grid.bn // tn), tm * tn
        registers = blocktile_registers(tm, tn, n_bytes)
    else:
        threads = limits.mma.width if limits.mma else WARP
        tile_k, operand = smallest_tile(problem, limits)[2], problem.a_dtype.n_bytes
        registers = mma_registers(bm, grid.bn, tile_k, threads, (operand, n_bytes))
        results = max(1, bm * grid.bn // threads)
    tile = bm * bk * problem.a_dtype.n_bytes + bk * grid.bn * problem.b_dtype.n_bytes
    shared = tile * (committed.depth or 1) if committed.packed else 0
    spilled = spilled_registers(registers, limits) / (results * n_bytes // 4)
    fit = resident_workgroups(Needs(threads, registers, shared), limits)
    n_blocks = -(-problem.m // bm) * grid.n_n * grid.products
    workgroups = min(fit, -(-n_blocks // n_sm))
    return Residence(workgroups, workgroups * -(-threads // WARP) / SCHEDULERS, spilled)


# Traffic ----------------------------------------------------------------------------------------


def _transfers(
    problem: MatmulProblem,
    limits: HardwareLimits,
    committed: Commitment,
    grid: Grid,
    resident: int,
) -> tuple[Transfer, ...]:
    shared, cache = limits.levels[0], limits.levels[-1]
    loaded = _loaded_bytes(problem, grid)
    found = [("shared", _shared_bytes(problem, committed, grid) + loaded, shared.bytes_per_second)]
    found.append(("L2", loaded, cache.bytes_per_second))
    if limits.peak_memory_bandwidth:
        # A wave is not known before the stages in flight are.
        is_known = grid.is_one and committed.depth is not None
        memory = _memory_bytes(problem, grid, resident if is_known else None, cache.bytes)
        found.append(("memory", memory, limits.peak_memory_bandwidth))
    return tuple(Transfer(source, moved, moved / rate) for source, moved, rate in found)


def _loaded_bytes(problem: MatmulProblem, grid: Grid) -> int:
    """Bytes of A and B that all blocks load: A once a block of columns, B once a block of rows."""
    depth = problem.k * prod(problem.outer_k) * problem.n_batch
    of_a = problem.m * grid.n_n * problem.a_dtype.n_bytes
    of_b = problem.n * grid.n_m * problem.b_dtype.n_bytes
    return (of_a + of_b) * depth


def _shared_bytes(problem: MatmulProblem, committed: Commitment, grid: Grid) -> int:
    """Bytes that shared memory serves to registers; lanes that read the same are served at once."""
    if not committed.packed:
        return 0
    widths = (problem.a_dtype.n_bytes, problem.b_dtype.n_bytes)
    macs = _padded_macs(problem, grid)
    if committed.pipeline is PipelineKind.BLOCKTILE:
        tm, tn = committed.tm or 1, committed.tn or 1
        cycles = -(-tm * widths[0] // LANE_BYTES) + -(-tn * widths[1] // LANE_BYTES)
        return macs * cycles * SHARED_BYTES // (tm * tn * WARP)
    ways = _conflicts(committed, grid.bk, widths[0]), _conflicts(committed, grid.bn, widths[1])
    return macs * widths[0] * ways[0] // grid.bn + macs * widths[1] * ways[1] // grid.bm.hi


def _conflicts(committed: Commitment, row: Span | int, n_bytes: int) -> int:
    """Rows of a staged tile that begin in the same banks, so that they are served in turn."""
    span = row if isinstance(row, Span) else Span(row, row)
    if committed.swizzle is not False or not span.is_one:
        return 1
    return max(1, gcd(span.lo * n_bytes, SHARED_BYTES) // LANE_BYTES)


def _memory_bytes(problem: MatmulProblem, grid: Grid, resident: int | None, capacity: int) -> int:
    """Bytes from main memory when workgroups run row by row, a wave of `resident` at a time."""
    depth = problem.k * prod(problem.outer_k)
    whole = block = Block(problem.m, problem.n, depth)
    loops: list[tuple[str, int]] = []
    if resident is not None:
        together = max(1, min(resident // grid.n_n, grid.n_m))
        block = Block(min(problem.m, together * grid.bm.lo), min(problem.n, grid.bn), depth)
        loops = [("m", -(-grid.n_m // together)), ("n", grid.n_n)]
    return problem.n_batch * moved_bytes(whole, block, loops, _widths(problem), capacity)
