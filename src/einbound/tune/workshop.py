"""The machine at hand with its compiler and its records: where products are tuned."""

from __future__ import annotations

import logging
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from einbound.errors import KernelError
from einbound.kernels.bounds import clock_bound
from einbound.kernels.cost import cost
from einbound.kernels.decisions import Decision
from einbound.kernels.family import family_tree
from einbound.kernels.floors import floor
from einbound.kernels.member import member_of
from einbound.kernels.pick import untuned
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.machine.calibration import Accord, Agreement, agreement
from einbound.machine.cpu import detected
from einbound.machine.identity import cpu_identity
from einbound.machine.limits import HardwareLimits
from einbound.machine.roofline import peaks_of
from einbound.space.traversal import enumerate_leaves
from einbound.space.tree import Tree
from einbound.tune.bench import Bench
from einbound.tune.build import Toolchain
from einbound.tune.choice import TunedChoice
from einbound.tune.measure import Rounds
from einbound.tune.profile import store_profile, stored_profile, tile_speeds
from einbound.tune.ranking import Candidate, Ranking
from einbound.tune.records import Context, Record, reading_of
from einbound.tune.store import Store
from einbound.tune.tuner import Allowance, Tuned, tune
from einbound.version import __version__

log = logging.getLogger(__name__)

#: The file of records in the folder of objects.
RECORDS = "kernels.db"


@dataclass(frozen=True, slots=True)
class Workshop:
    """What a product is tuned with.

    Attributes:
        toolchain: What compiles, and where objects are kept.
        limits: The processor; kernels are chosen for one core of it.
        store: Where records are kept.
    """

    toolchain: Toolchain
    limits: HardwareLimits
    store: Store

    @classmethod
    def here(cls, toolchain: Toolchain) -> Workshop:
        """That of this processor, its records and its profile beside the objects."""
        limits = stored_profile(toolchain.folder, replace(detected().limits, n_cores=1))
        return cls(toolchain, limits, Store(Path(toolchain.folder) / RECORDS))

    @property
    def context(self) -> Context:
        """What of this decides a time."""
        return context_of(self.toolchain)

    @property
    def choice(self) -> TunedChoice:
        """Chooses by the records."""
        return TunedChoice(self.context, self.store)

    def tree(self, problem: MatmulProblem) -> Tree[Decision, KernelSpec]:
        """All kernels that are proposed for a product."""
        return family_tree(problem, self.limits)

    def ranking(self, problem: MatmulProblem) -> Ranking:
        """These kernels in the order in which they are tried, the untuned choice first.

        Raises:
            KernelError: There is no untuned choice.
        """
        chosen = untuned(problem, self.limits)
        found = [
            Candidate(path, spec, self._seconds(spec, problem))
            for path, spec in enumerate_leaves(self.tree(problem))
        ]
        first = next((each.path for each in found if each.spec == chosen), None)
        return Ranking(tuple(found), first)

    def tune(
        self,
        problem: MatmulProblem,
        allowance: Allowance | None = None,
        rounds: Rounds | None = None,
    ) -> Tuned:
        """The best kernel of a product; the store knows it from now on.

        Args:
            problem: The product.
            allowance: How much may be spent; None: the usual.
            rounds: How often candidates are timed; None: the usual.

        Raises:
            KernelError: The product has no kernel.
            BackendError: Objects cannot be kept.
        """
        problem = problem.canonical

        def bench() -> Bench:
            return Bench.of(problem, self.toolchain, self.limits)

        tuned = tune(
            problem,
            self.ranking(problem),
            bench(),
            self.store,
            self.context,
            elsewhere=bench,
            bound_seconds=clock_bound(problem, self.limits),
            allowance=allowance,
            rounds=rounds,
        )
        if tuned.record is not None:
            self.store.crown([replace(tuned.record, ratio=tuned.ratio)])
        for seen in disagreements(tuned.records, self.limits):
            log.warning("%s is faster than the peaks allow: %s", seen.row.label, seen.implied)
        return tuned

    def calibrated(self, rounds: Rounds | None = None) -> Workshop:
        """The same with the speeds of this processor's register tiles, which are kept.

        Args:
            rounds: How often each is timed; None: the usual.
        """

        def bench_of(problem: MatmulProblem) -> Bench:
            return Bench.of(problem, self.toolchain, self.limits)

        plain = replace(self.limits, tile_speeds=())
        limits = replace(plain, tile_speeds=tile_speeds(plain, bench_of, rounds))
        store_profile(self.toolchain.folder, limits)
        return replace(self, limits=limits)

    def _seconds(self, spec: KernelSpec, problem: MatmulProblem) -> float | None:
        """What the model says; None also where no C is emitted, so that it comes last."""
        try:
            member_of(problem, spec, self.limits)
        except KernelError:
            return None
        found = cost(spec, problem, self.limits)
        return None if found is None else found.seconds


def context_of(toolchain: Toolchain) -> Context:
    """What of a toolchain, this processor and this package decides a time."""
    return Context(
        cpu=f"{detected().core} {cpu_identity()}",
        compiler=toolchain.compiler.version,
        flags=shlex.join(toolchain.compiler.flags),
        version=__version__,
    )


def disagreements(records: tuple[Record, ...], limits: HardwareLimits) -> tuple[Agreement, ...]:
    """Measurements that contradict the peaks of a processor.

    Args:
        records: What was measured, and other records, which say nothing.
        limits: The processor, with ceilings as peaks.
    """
    found = []
    for record in records:
        if not record.seconds:
            continue
        problem = MatmulProblem.from_json(record.problem)
        footprint = floor(problem).bytes
        peaks = peaks_of(limits, problem.out_dtype, footprint_bytes=footprint)
        seen = agreement(reading_of(record, limits), peaks, clock_bound(problem, limits))
        if seen.accord is Accord.VIOLATION:
            found.append(seen)
    return tuple(found)
