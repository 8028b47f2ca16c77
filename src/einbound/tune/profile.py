"""What a machine is known by from measurements: the speeds of its register tiles, kept as limits.

Blocks are fitted to caches by a model that is good at it; how good a compiler's code of a tile is,
no model of ports knows.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from einbound.errors import MachineError
from einbound.kernels.cpu_blocking import ports_of
from einbound.kernels.decisions import RegisterTile
from einbound.kernels.kinds import PipelineKind
from einbound.kernels.microkernel import is_spilled
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.machine.limits import HardwareLimits, TileSpeed
from einbound.machine.precision import Precision
from einbound.tune.measure import Clock, Rounds, measure
from einbound.tune.tuner import Build, Built

log = logging.getLogger(__name__)

#: The file of a machine's profile in the folder of objects.
PROFILE = "profile.json"
NUMBERS = (Precision.FLOAT32, Precision.FLOAT64)
#: Rows that are tried for each number of vectors in a row: tiles with fewer results wait for the
#: latency of their own sums, ones with more spill.
ROWS = {1: (8, 10, 12, 14), 2: (5, 6, 8, 10, 12, 14), 3: (4, 6, 7, 8, 9), 4: (3, 4, 5, 6)}
#: Rows, columns and depth of the product that a tile is measured by, about: its panels fit the
#: second cache, and packing them is a small part of it.
_ROWS, _COLUMNS, _DEPTH = 96, 192, 256


def tile_problem(tile: RegisterTile, number: Precision) -> MatmulProblem:
    """A product of whole tiles.

    Args:
        tile: Its rows, vectors and lanes.
        number: The format that it computes in.

    Example:
        >>> problem = tile_problem(RegisterTile(14, 2, 8), Precision.FLOAT64)
        >>> problem.m, problem.n, problem.k
        (98, 192, 256)
    """
    rm, rn, lanes = tile.sizes
    columns = rn * lanes
    return MatmulProblem(
        m=-(-_ROWS // rm) * rm,
        n=-(-_COLUMNS // columns) * columns,
        k=_DEPTH,
        a_dtype=number,
        b_dtype=number,
        out_dtype=number,
    ).canonical


def tile_speeds(
    limits: HardwareLimits,
    bench_of: Callable[[MatmulProblem], Build],
    rounds: Rounds | None = None,
    clock: Clock | None = None,
) -> tuple[TileSpeed, ...]:
    """The speeds of all register tiles that are worth a try; those that cannot be run are left out.

    Args:
        limits: The processor.
        bench_of: What makes candidates of a product.
        rounds: How often each is timed; None: the usual.
        clock: What tells seconds; None: this machine's.

    Raises:
        MachineError: The clock and the multiply-adds of the processor are not known.
    """
    ports = ports_of(limits)
    if ports is None or limits.clock_hz is None:
        raise MachineError(
            "clock_hz and the multiply-adds per cycle are not known; give limits that tell them"
        )
    found: list[TileSpeed] = []
    for number in NUMBERS:
        lanes = limits.lanes(number)
        runs: dict[tuple[int, int], Callable[[], object]] = {}
        macs: list[int] = []
        for rn, rows in ROWS.items():
            for rm in rows:
                if is_spilled(rm, rn, ports):
                    continue
                tile = RegisterTile(rm, rn, lanes)
                problem = tile_problem(tile, number)
                built = bench_of(problem)(problem, _kernel(tile, problem))
                if isinstance(built, Built):
                    runs[rm, rn] = built.run
                    macs.append(problem.macs)
                else:
                    log.warning("the tile %s of %s is left out: %s", tile, number, built.reason)
        timings = measure(list(runs.values()), rounds, clock)
        per_second = ports.fma_per_cycle * lanes * limits.clock_hz
        found += [
            TileSpeed(number, rm, rn, min(1.0, n / (timing.seconds * per_second)))
            for (rm, rn), n, timing in zip(runs, macs, timings, strict=True)
        ]
    return tuple(found)


def stored_profile(folder: Path, limits: HardwareLimits) -> HardwareLimits:
    """The limits with the tile speeds of the folder's profile; as they are if it has none.

    A profile of another processor is told in the log and does not count.

    Args:
        folder: Where profiles are kept.
        limits: The processor at hand.
    """
    path = folder / PROFILE
    try:
        seen = HardwareLimits.from_json(path.read_text("utf-8"))
    except FileNotFoundError:
        return limits
    except (OSError, UnicodeDecodeError, MachineError) as error:
        log.warning("the profile %s cannot be used: %s", path, error)
        return limits
    if replace(seen, tile_speeds=(), n_cores=limits.n_cores) != replace(limits, tile_speeds=()):
        log.warning("the profile %s is of another processor; calibrate anew", path)
        return limits
    return replace(limits, tile_speeds=seen.tile_speeds)


def store_profile(folder: Path, limits: HardwareLimits) -> Path:
    """The file that now holds the limits of this machine.

    Args:
        folder: Where it is kept; made if it is not there.
        limits: The processor, with the speeds of its tiles.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / PROFILE
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{PROFILE}.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(limits.to_json() + "\n")
    os.replace(temporary, path)
    return path


def _kernel(tile: RegisterTile, problem: MatmulProblem) -> KernelSpec:
    """The kernel of one packed block, all of the product."""
    return KernelSpec(
        gpu=False,
        pipeline=PipelineKind.TENSORIZED,
        mma=True,
        packed=True,
        bm=problem.m,
        bn=0,
        bk=problem.k,
        tile=tile,
    )
