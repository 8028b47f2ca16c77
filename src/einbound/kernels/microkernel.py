"""Cycles of the innermost loop: a register tile on the ports of one core.

The bounds are those of the micro-kernel model of Low, Igual, Smith and Quintana-Orti, "Analytical
Modeling Is Enough for High-Performance BLIS", ACM TOMS 43(2), 2016: multiply-add ports, the latency
of the chain through each accumulator, and registers; loads and issue are added to them.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Loads that cores of the last ten years start per cycle (A. Fog, "The microarchitecture of Intel,
#: AMD and VIA CPUs"; Arm's optimization guides of Neoverse N1 and V1 say the same).
LOADS_PER_CYCLE = 2
#: Instructions that the narrowest of these (Skylake) issue per cycle.
ISSUES_PER_CYCLE = 4
#: Cycles from a store to a load of the same address in these: what a spilled accumulator adds to
#: its chain in every step.
FORWARD_CYCLES = 5
#: Cycles to add one vector of results to what is stored: half a load cycle and one store.
UPDATE_CYCLES = 1 / LOADS_PER_CYCLE + 1
#: Cycles to enter and leave the loop over k: pointers, the drained pipeline, one missed branch.
TILE_CYCLES = 20


@dataclass(frozen=True, slots=True)
class Ports:
    """What one core does in a cycle.

    Attributes:
        fma_per_cycle: Vector multiply-adds that are started.
        fma_latency_cycles: Cycles until the result of one can be used.
        vector_registers: Registers that a program can name.
        measured: Rows and vectors of tiles whose code was measured, each with the cycles of a step.
        slowdown: How many times as long as predicted other tiles take.
    """

    fma_per_cycle: int
    fma_latency_cycles: int
    vector_registers: int
    measured: tuple[tuple[tuple[int, int], float], ...] = ()
    slowdown: float = 1.0


def is_spilled(rm: int, rn: int, ports: Ports) -> bool:
    """Whether accumulators, a row of B and one number of A do not fit the registers."""
    return rm * rn + rn + 1 > ports.vector_registers


def step_cycles(rm: int, rn: int, ports: Ports) -> float:
    """Cycles of one step over k of a tile of rm rows of rn vectors.

    What was measured goes before what is predicted: a model of ports does not know how good the
    code of a compiler is.

    Args:
        rm: Rows.
        rn: Vectors in a row.
        ports: The core.

    Returns:
        Cycles; never fewer than the multiply-add ports allow.

    Example:
        >>> core = Ports(fma_per_cycle=2, fma_latency_cycles=4, vector_registers=16)
        >>> [step_cycles(rm, rn, core) for rm, rn in [(6, 2), (2, 2), (12, 1), (3, 4)]]
        [6.0, 4.0, 6.5, 9.0]
    """
    seen = dict(ports.measured).get((rm, rn))
    if seen is not None:
        return max(seen, rm * rn / ports.fma_per_cycle)
    return predicted_cycles(rm, rn, ports) * ports.slowdown


def predicted_cycles(rm: int, rn: int, ports: Ports) -> float:
    """The same of a tile whose code nobody measured, on a core that never waits."""
    chain = ports.fma_latency_cycles
    if is_spilled(rm, rn, ports):
        chain += FORWARD_CYCLES
    return max(
        rm * rn / ports.fma_per_cycle,
        float(chain),
        (rm + rn) / LOADS_PER_CYCLE,
        (rm * rn + rm + rn) / ISSUES_PER_CYCLE,
    )


def tile_cycles(rm: int, rn: int, depth: int, ports: Ports) -> float:
    """Cycles of one tile over `depth` steps, its results read and written."""
    return depth * step_cycles(rm, rn, ports) + rm * rn * UPDATE_CYCLES + TILE_CYCLES


def block_cycles(bm: int, vectors: int, depth: int, tile: tuple[int, int], ports: Ports) -> float:
    """Cycles of a block of bm rows of `vectors` vectors, cut into tiles.

    Tiles at the edges are smaller, and slower for what they do; rows are cut by `ladder`.

    Args:
        bm: Rows of the block.
        vectors: Vectors in a row of it.
        depth: Steps over k.
        tile: Rows of a tile, and vectors in a row of it.
        ports: The core.
    """
    rm, rn = tile
    return sum(
        n_rows * n_columns * tile_cycles(edge_rows(rows, rm), columns, depth, ports)
        for rows, n_rows in pieces(bm, rm)
        for columns, n_columns in pieces(vectors, rn)
    )


def ladder(rows: int) -> tuple[int, ...]:
    """Rows of the tiles that edges are computed with: half as many each time.

    Example:
        >>> ladder(14)
        (14, 7, 4, 2, 1)
    """
    found = [rows]
    while found[-1] > 1:
        found.append(-(-found[-1] // 2))
    return tuple(found)


def edge_rows(rows: int, rm: int) -> int:
    """Rows of the least tile that has so many.

    Example:
        >>> edge_rows(5, 14)
        7
    """
    return min(each for each in ladder(rm) if each >= rows)


def least_block_cycles(bm: int, vectors: int, depth: int, ports: Ports) -> float:
    """Cycles of a block that no tile does without: multiply-adds, results read and written.

    Law: it is below `block_cycles` of every tile (tests/test_cost.py).
    """
    return bm * vectors * (depth / ports.fma_per_cycle + UPDATE_CYCLES)


def pieces(extent: int, width: int) -> list[tuple[int, int]]:
    """Sizes that an extent is cut into, each with how often.

    Example:
        >>> pieces(14, 4)
        [(4, 3), (2, 1)]
    """
    whole, rest = divmod(extent, width)
    return [(width, whole)] * (whole > 0) + [(rest, 1)] * (rest > 0)
