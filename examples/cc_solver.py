"""Amplitudes from residuals: iterations with DIIS around one `einbound.Program`."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from numpy.typing import NDArray

import einbound as eb
from einbound.machine.peak import PROCESS_SLACK_BYTES, high_water_bytes, reset_high_water

Array = NDArray[np.float64]

#: Guesses that DIIS combines.
_N_KEPT = 6
_MOST_ITERATIONS = 60
#: Calls whose allocations are traced, which slows them: the first makes what is kept.
_N_TRACED = 2
#: Objects of the interpreter, which no limit of bytes of arrays counts: some 1.5 KiB for each of
#: the values and views of a call.
_OBJECTS_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Solution:
    """A converged calculation and what it took.

    Attributes:
        energy: Correlation energy in hartree.
        iterations: Evaluations of the equations.
        planned_bytes: Peak of the plan: tensors, kept values and all that is alive in a call.
        measured_bytes: Tensors, and the most that a call held beside them as it was measured.
        first_seconds: Of the first evaluation, which makes what is kept.
        seconds: Median of the others.
        plan_seconds: Of planning.
    """

    energy: float
    iterations: int
    planned_bytes: int
    measured_bytes: int
    first_seconds: float
    seconds: float
    plan_seconds: float


def solve(
    text: str,
    tensors: Mapping[str, Array],
    occupied: Array,
    virtual: Array,
    *,
    memory_limit: str | int | None = None,
    scheduler: str = "ordered",
    tolerance: float = 1e-8,
    progress: Callable[[int, float, float], None] = lambda number, energy, norm: None,
) -> Solution:
    """The solution of coupled-cluster equations.

    Args:
        text: Equations for `R1`, `R2` and `E`, with extents.
        tensors: The integrals.
        occupied: Orbital energies of what is occupied.
        virtual: Those of what is not.
        memory_limit: Bound of the tensors, amplitudes among them, and of all that a call takes.
            The history of DIIS is beside it.
        scheduler: "ordered" or "forest_descent".
        tolerance: Norm of the change of the amplitudes at which it has converged.
        progress: Told the number of each iteration, its energy and that norm.
    """
    began = time.perf_counter()
    program = eb.Program(text, memory_limit, iterations=15, scheduler=scheduler)
    plan_seconds = time.perf_counter() - began
    gaps = occupied[:, None] - virtual
    amplitudes = Amplitudes.zero(gaps)
    gauge = Gauge()
    operands = {**tensors, "t1": amplitudes.singles, "t2": amplitudes.doubles}
    for number in range(1, _MOST_ITERATIONS + 1):
        found = gauge.measured(lambda: program(operands))
        energy = float(found["E"])
        norm = amplitudes.improve(found.pop("R1"), found.pop("R2"))
        progress(number, energy, norm)
        if norm < tolerance:
            break
    n_bytes = sum(array.nbytes for array in operands.values())
    return Solution(
        energy,
        number,
        program.peak_bytes,
        n_bytes + gauge.grown_bytes,
        gauge.seconds[0],
        median(gauge.seconds[_N_TRACED:] or gauge.seconds),
        plan_seconds,
    )


@dataclass
class Amplitudes:
    """Singles and doubles in one vector, improved in place by DIIS (Pulay 1980).

    Attributes:
        gaps: Differences of orbital energies, occupied less virtual.
        vector: The amplitudes.
        guesses: The last improved vectors; all memory is taken at the start.
        errors: What each of them changed.
    """

    gaps: Array
    vector: Array
    guesses: Array
    errors: Array
    n_made: int = 0

    @classmethod
    def zero(cls, gaps: Array) -> Amplitudes:
        """The first guess."""
        n = gaps.size + gaps.size**2
        made = np.zeros(n), np.ones((_N_KEPT, n)), np.ones((_N_KEPT, n))
        return cls(gaps, *made)

    @property
    def singles(self) -> Array:
        """A view of t1[i,a]."""
        return self.vector[: self.gaps.size].reshape(self.gaps.shape)

    @property
    def doubles(self) -> Array:
        """A view of t2[i,j,a,b]."""
        o, v = self.gaps.shape
        return self.vector[self.gaps.size :].reshape(o, o, v, v)

    def improve(self, singles: Array, doubles: Array) -> float:
        """The norm of the change that residuals ask for, once it is made."""
        at = self.n_made % _N_KEPT
        singles /= self.gaps
        doubles /= self.gaps[:, None, :, None] + self.gaps[None, :, None, :]
        change = self.errors[at]
        change[: self.gaps.size] = singles.ravel()
        change[self.gaps.size :] = doubles.ravel()
        np.add(self.vector, change, out=self.guesses[at])
        self.n_made += 1
        n = min(self.n_made, _N_KEPT)
        np.matmul(_weights(self.errors[:n]), self.guesses[:n], out=self.vector)
        return float(np.linalg.norm(change))


def _weights(errors: Array) -> Array:
    """Numbers of sum 1 for which the sum of the errors is least."""
    n = len(errors)
    matrix = np.zeros((n + 1, n + 1))
    matrix[:n, :n] = errors @ errors.T
    # Near the end the products are tiny beside the ones of the condition.
    matrix[:n, :n] /= np.max(matrix[:n, :n])
    matrix[n, :n] = matrix[:n, n] = 1
    right = np.zeros(n + 1)
    right[n] = 1
    return np.linalg.lstsq(matrix, right, rcond=None)[0][:n]


@dataclass
class Gauge:
    """Seconds of calls, and the most memory that any of them held above that before the first.

    Attributes:
        grown_bytes: The larger of what Python's allocators and the system counted, each less what
            it moves by without any array.
        seconds: Of each call.
    """

    grown_bytes: int = 0
    seconds: list[float] = field(default_factory=list)
    _before: int | None = None

    def measured(self, call: Callable[[], dict[str, Array]]) -> dict[str, Array]:
        """What a call returns."""
        if not self.seconds:
            tracemalloc.start()
        reset_high_water()
        if self._before is None:
            self._before = high_water_bytes()
        began = time.perf_counter()
        made = call()
        self.seconds.append(time.perf_counter() - began)
        after = high_water_bytes()
        if self._before is not None and after is not None:
            self._grew(after - self._before - PROCESS_SLACK_BYTES)
        if tracemalloc.is_tracing():
            self._grew(tracemalloc.get_traced_memory()[1] - _OBJECTS_BYTES)
            tracemalloc.reset_peak()
        if len(self.seconds) == _N_TRACED:
            tracemalloc.stop()
        return made

    def _grew(self, n_bytes: int) -> None:
        self.grown_bytes = max(self.grown_bytes, n_bytes)
