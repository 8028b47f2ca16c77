"""Real candidates: kernels of one product compiled, tried in a child and run on arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from einbound.errors import BuildError, KernelError
from einbound.kernels.emit_c import c_source
from einbound.kernels.member import member_of
from einbound.kernels.nest import nest_of
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.kernels.task import LINE_BYTES, Task, task_of
from einbound.machine.limits import HardwareLimits
from einbound.tune.build import Toolchain, load
from einbound.tune.operands import Operands
from einbound.tune.records import Outcome
from einbound.tune.trial import TRIAL_SECONDS, Trial, trial
from einbound.tune.tuner import Built, Failure

#: Workspace that candidates share; memory that none of them touches is none.
ROOM_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Bench:
    """Where the kernels of one product are made and run; called, it makes one.

    Attributes:
        operands: What they run on.
        toolchain: What compiles them.
        limits: The processor.
        room: Workspace that all of them share, as the steps of a plan do: one that only a single
            candidate uses would be cold in a round of many.
        trial_seconds: How long the first run of each may take, in a process of its own.
    """

    operands: Operands
    toolchain: Toolchain
    limits: HardwareLimits
    room: NDArray[np.uint8] = field(repr=False)
    trial_seconds: float = TRIAL_SECONDS

    @classmethod
    def of(cls, problem: MatmulProblem, toolchain: Toolchain, limits: HardwareLimits) -> Bench:
        """The bench of a product."""
        return cls(Operands.of(problem), toolchain, limits, np.empty(ROOM_BYTES, np.uint8))

    def __call__(self, problem: MatmulProblem, spec: KernelSpec) -> Built | Failure:
        """A kernel of the product, or why it cannot be run."""
        try:
            member = member_of(problem, spec, self.limits)
            task = task_of(problem, spec, member, accumulate=False)
            source = c_source(nest_of(member))
        except KernelError as error:
            return Failure(Outcome.REFUSED, str(error))
        try:
            path = self.toolchain.build(source)
            tried = trial(path, problem, member, task, seconds=self.trial_seconds)
            if not tried.passed:
                return Failure(_outcome(tried), tried.reason)
            return self._built(path, task, source_digest(source))
        except BuildError as error:
            return Failure(Outcome.NOT_BUILT, str(error))

    def _built(self, path: Path, task: Task, source: str) -> Built:
        call, held = load(path).call, self.operands
        words = np.array(task.words, np.int64)
        is_enough = task.workspace_bytes + LINE_BYTES <= self.room.nbytes
        room = self.room if is_enough else np.empty(task.workspace_bytes + LINE_BYTES, np.uint8)
        room = room[-room.ctypes.data % LINE_BYTES :]
        first, second = (held.b, held.a) if task.swapped else (held.a, held.b)
        address = words.ctypes.data

        def run(_alive: object = words) -> None:
            call(address, first, second, held.c, room)

        def fault() -> str | None:
            held.spoil()
            run()
            return held.fault()

        return Built(run, fault, source, (source, task.words, task.swapped))


def source_digest(source: str) -> str:
    """A word that tells one source from others."""
    return sha256(source.encode()).hexdigest()[:16]


def _outcome(tried: Trial) -> Outcome:
    if tried.code is None:
        return Outcome.TIMED_OUT
    return Outcome.CRASHED if tried.code else Outcome.WRONG
