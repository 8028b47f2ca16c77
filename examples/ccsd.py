"""Coupled cluster of a molecule within a memory limit, beside PySCF's own.

    python examples/ccsd.py --molecule examples/molecules/water.xyz --basis cc-pvdz --memory 500MB

The integrals come from PySCF (`pip install "einbound[pyscf]"`); everything that an iteration
computes is one `einbound.Program`.
Several limits and both schedulers can be asked for at once: each is run in a fresh process, whose
peak is its own, and makes one row of the table at the end. Exits with 1 if an energy differs from
PySCF's by more than 1e-8 hartree or a peak passes its limit.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import cc_problem
from cc_problem import Problem
from cc_solver import Solution, solve

import einbound as eb
from einbound.machine.memory import parse_bytes

#: What BLAS libraries read when they are loaded; all times in the table are of one thread.
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
METHODS = {"closed-shell": cc_problem.closed_shell, "spin-orbital": cc_problem.spin_orbital}
Made = TypeVar("Made")
#: Hartree that energies may differ by.
TOLERANCE = 1e-8
_HEAD = ("", "limit", "energy", "minus PySCF's", "peak: plan", "measured", "first call", "next", "")


@dataclass(frozen=True, slots=True)
class Row:
    """One calculation of the table.

    Attributes:
        scheduler: "ordered" or "forest_descent".
        limit: As it was asked for; None: none.
        solution: What came out.
    """

    scheduler: str
    limit: str | None
    solution: Solution

    def holds(self, problem: Problem) -> bool:
        """Whether the energy is PySCF's and the peak within the limit."""
        off = abs(self.solution.energy - problem.reference.energy)
        peak = max(self.solution.planned_bytes, self.solution.measured_bytes)
        return off <= TOLERANCE and (self.limit is None or peak <= parse_bytes(self.limit))


def main() -> int:
    """Runs what the command line asks for; 0 if all energies and limits hold."""
    here = Path(__file__).resolve().parent
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--molecule", default=str(here / "molecules" / "water.xyz"))
    asked.add_argument("--basis", default="cc-pvdz")
    asked.add_argument("--memory", nargs="+", default=["none"], help='such as 500MB; "none": any')
    asked.add_argument("--method", default="closed-shell", choices=METHODS)
    asked.add_argument(
        "--scheduler", nargs="+", default=["ordered"], choices=("ordered", "forest_descent")
    )
    given = asked.parse_args()
    print(f"{given.method} CCSD of {given.molecule} in {given.basis}: PySCF ...", flush=True)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    problem = fresh(METHODS[given.method], given.molecule, given.basis)
    limits = [None if each == "none" else each for each in given.memory]
    try:
        rows = [solved(problem, limit, each) for limit, each in product(limits, given.scheduler)]
    except eb.BudgetError as error:
        sys.exit(str(error))
    print(table(problem, rows))
    print("all times are of one thread")
    return 0 if all(row.holds(problem) for row in rows) else 1


def solved(problem: Problem, limit: str | None, scheduler: str) -> Row:
    """One calculation, in a process of its own."""
    print(f"{scheduler}, limit {limit or 'none'}:", file=sys.stderr, flush=True)
    return Row(scheduler, limit, fresh(_solved, problem, limit, scheduler))


def fresh(function: Callable[..., Made], *arguments: Any) -> Made:
    """What a function returns in a process of its own, whose peak and threads are its own too."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        return processes.submit(function, *arguments).result()


def _solved(problem: Problem, limit: str | None, scheduler: str) -> Solution:
    return solve(
        problem.text,
        problem.tensors,
        problem.occupied,
        problem.virtual,
        memory_limit=limit,
        scheduler=scheduler,
        progress=_progress,
    )


def _progress(number: int, energy: float, change: float) -> None:
    print(f"  {number:3d}  {energy:16.10f}  {change:.1e}", file=sys.stderr, flush=True)


def table(problem: Problem, rows: list[Row]) -> str:
    """Energies in hartree, peaks, and times of one thread, of all calculations and of PySCF's."""
    peer = problem.reference
    lines = [_HEAD]
    for row in rows:
        made = row.solution
        ratio = f"{made.seconds / peer.seconds:.2f} x" if peer.seconds else ""
        lines.append(
            (
                row.scheduler,
                row.limit or "none",
                f"{made.energy:.10f}",
                f"{made.energy - peer.energy:+.1e}",
                f"{made.planned_bytes / 1e6:.2f} MB",
                f"{made.measured_bytes / 1e6:.2f} MB",
                f"{made.first_seconds * 1e3:.1f} ms",
                f"{made.seconds * 1e3:.1f} ms",
                ratio,
            )
        )
    peak, each = f"{peer.peak_bytes / 1e6:.2f} MB", f"{peer.seconds * 1e3:.1f} ms"
    lines.append((peer.name, "", f"{peer.energy:.10f}", "", "", peak, "", each, "1.00 x"))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


if __name__ == "__main__":
    sys.exit(main())
