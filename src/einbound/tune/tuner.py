"""Measured branch and bound over the kernels of one product.

What builds, runs, keeps and times candidates is passed in; how they are ranked stands in `ranking`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from einbound.kernels.decisions import render_path
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.tune.measure import Clock, Ratio, Rounds, measure, noise, ratio
from einbound.tune.ranking import Candidate, Ranking
from einbound.tune.records import Context, Outcome, Record, decisions_text

#: Measurements of one product where nothing else is said.
BUDGET = 20


@dataclass(frozen=True, slots=True)
class Built:
    """A candidate that can be run.

    Attributes:
        run: Computes the product once.
        fault: Runs it once and says what is wrong with the result; None: it is right.
        source: Digest of the source that it was compiled from.
        task: What tells it from candidates that do just the same.
    """

    run: Callable[[], object]
    fault: Callable[[], str | None]
    source: str
    task: Hashable


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a candidate cannot be run.

    Attributes:
        outcome: What became of it.
        reason: Why, in words.
    """

    outcome: Outcome
    reason: str


#: Makes a candidate of a product and a leaf of its tree.
Build = Callable[[MatmulProblem, KernelSpec], Built | Failure]


class Journal(Protocol):
    """Where records are kept while candidates are tried."""

    def add(self, record: Record) -> None:
        """Keep one more."""

    def records(self, problem: MatmulProblem, context: Context) -> tuple[Record, ...]:
        """Those of a product in a context, in the order in which they were kept."""


class Stop(StrEnum):
    """Why no further candidate was tried."""

    BUDGET = "the budget of measurements is used up"
    SECONDS = "the time is used up"
    BOUND = "no kernel can be faster by more than the noise"
    EXHAUSTED = "every kernel was tried"
    INTERRUPT = "it was interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How much may be spent on one product.

    Attributes:
        budget: Kernels that are measured in all, those of earlier runs included.
        seconds: Seconds after which none is begun; None: no end.
    """

    budget: int = BUDGET
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What tuning came to.

    Attributes:
        problem: The product.
        context: The machine and its compiler.
        records: What became of each candidate, those of earlier runs first.
        untuned: The untuned choice that could be run, with its decisions; None: there is none.
        winner: The kernel to take; the untuned choice unless another one is faster by more than
            the noise.
        ratio: Seconds of the winner over those of the untuned choice, in rounds in which it was
            not picked; 1 where they are the same.
        noise: By which share the untuned choice differs from itself.
        bound_seconds: What no kernel takes less than.
        n_same: Candidates that do the same as one that was tried, and were left out.
        n_pruned: Candidates that were left out since they cannot win.
        n_open: Candidates that were not tried.
        stop: Why it ended.
    """

    problem: MatmulProblem
    context: Context
    records: tuple[Record, ...]
    untuned: Candidate | None
    winner: Candidate | None
    ratio: float
    noise: float
    bound_seconds: float
    n_same: int
    n_pruned: int
    n_open: int
    stop: Stop

    @property
    def n_measured(self) -> int:
        """Kernels with a time."""
        return sum(record.is_measured for record in self.records)

    @property
    def record(self) -> Record | None:
        """The record of the winner."""
        if self.winner is None:
            return None
        decisions = decisions_text(self.winner.path)
        return next(
            (each for each in self.records if each.decisions == decisions and each.is_measured),
            None,
        )


def tune(
    problem: MatmulProblem,
    ranking: Ranking,
    build: Build,
    journal: Journal,
    context: Context,
    *,
    elsewhere: Callable[[], Build] | None = None,
    bound_seconds: float = 0.0,
    allowance: Allowance | None = None,
    rounds: Rounds | None = None,
    clock: Clock | None = None,
) -> Tuned:
    """The fastest kernel of a product that a few measurements find.

    Candidates are tried in the order of the ranking, which learns from their times. Each is
    compared with the reference before it is timed, and timed in turns with the untuned choice. An
    interrupt ends it; what was found by then counts, and the next run goes on from the journal.

    Args:
        problem: The product, in canonical form.
        ranking: Its kernels, the most promising first; the first that runs is the untuned choice.
        build: Makes a candidate.
        journal: Where records are kept, and those of earlier runs are.
        context: The machine and its compiler.
        elsewhere: Makes what builds candidates on other arrays, on which the best kernel is
            confirmed: how arrays happen to lie in memory makes some kernels look fast. None: the
            same arrays.
        bound_seconds: What no kernel takes less than.
        allowance: How much may be spent; None: the usual.
        rounds: How often candidates are timed; None: the usual.
        clock: What tells seconds; None: this machine's.

    Law: the winner is the untuned choice or measurably faster (tests/test_tuner.py).
    """
    run = _Run(
        problem=problem,
        ranking=ranking,
        build=build,
        journal=journal,
        context=context,
        elsewhere=elsewhere or (lambda: build),
        bound_seconds=bound_seconds,
        allowance=allowance or Allowance(),
        rounds=rounds or Rounds(),
        clock=clock or Clock(),
    )
    return run.tuned()


@dataclass(kw_only=True)
class _Run:
    """The state of one tuning; what it knows is in records."""

    problem: MatmulProblem
    ranking: Ranking
    build: Build
    journal: Journal
    context: Context
    elsewhere: Callable[[], Build]
    bound_seconds: float
    allowance: Allowance
    rounds: Rounds
    clock: Clock
    records: dict[str, Record] = field(default_factory=dict)
    known: dict[str, Record] = field(default_factory=dict)
    tasks: set[Hashable] = field(default_factory=set)
    untuned: Candidate | None = None
    base: Built | None = None
    noise: float = 0.0
    n_same: int = 0

    def tuned(self) -> Tuned:
        """All of it."""
        started = self.clock.wall()
        winner, best_ratio, n_pruned = None, 1.0, 0
        try:
            stop = self._find_base() or self._try_others(started)
            winner, best_ratio = self._confirmed()
        except KeyboardInterrupt:
            stop = Stop.INTERRUPT
            winner, best_ratio = self._best()
        n_open = len(self.ranking.remaining)
        if stop is Stop.BOUND:
            n_pruned, n_open = n_open, 0
        return Tuned(
            problem=self.problem,
            context=self.context,
            records=tuple(self.records.values()),
            untuned=self.untuned,
            winner=winner or self.untuned,
            ratio=best_ratio,
            noise=self.noise,
            bound_seconds=self.bound_seconds,
            n_same=self.n_same,
            n_pruned=n_pruned,
            n_open=n_open,
            stop=stop,
        )

    # The untuned choice --------------------------------------------------------------------------

    def _find_base(self) -> Stop | None:
        """Build the untuned choice: the first candidate that can be run and is right."""
        self.known = {
            each.decisions: each for each in self.journal.records(self.problem, self.context)
        }
        while self.base is None:
            candidate = self.ranking.next()
            if candidate is None:
                return Stop.EXHAUSTED
            built = self._runnable(candidate)
            if built is None:
                continue
            self.untuned, self.base = candidate, built
            self.tasks.add(built.task)
            self.noise = noise(built.run, self.rounds, self.clock)
            if not self._recall(candidate, built):
                (timing,) = measure([built.run], self.rounds, self.clock)
                self._keep(
                    candidate,
                    built.source,
                    seconds=timing.seconds,
                    ratio=1.0,
                    spread=timing.spread,
                    contended=timing.contended,
                )
        return None

    # All others ----------------------------------------------------------------------------------

    def _try_others(self, started: float) -> Stop:
        while True:
            stop = self._is_over(started)
            if stop is not None:
                return stop
            candidate = self.ranking.next()
            if candidate is None:
                return Stop.EXHAUSTED
            self._try(candidate)

    def _is_over(self, started: float) -> Stop | None:
        allowance = self.allowance
        if sum(each.is_measured for each in self.records.values()) >= allowance.budget:
            return Stop.BUDGET
        if allowance.seconds is not None and self.clock.wall() - started >= allowance.seconds:
            return Stop.SECONDS
        fastest = min(each.seconds for each in self.records.values() if each.seconds is not None)
        return Stop.BOUND if self.bound_seconds >= fastest * (1 - self.noise) else None

    def _try(self, candidate: Candidate) -> None:
        built = self._runnable(candidate)
        if built is None:
            return
        if built.task in self.tasks:
            self.n_same += 1
            return
        self.tasks.add(built.task)
        if self._recall(candidate, built):
            return
        assert self.base is not None, "candidates are tried beside the untuned choice"
        timing, base = measure([built.run, self.base.run], self.rounds, self.clock)
        self._keep(
            candidate,
            built.source,
            seconds=timing.seconds,
            ratio=ratio(timing, base).value,
            spread=timing.spread,
            contended=timing.contended,
        )

    def _runnable(self, candidate: Candidate) -> Built | None:
        """A candidate that is built and right; a record says why another one is not."""
        past = self.known.get(decisions_text(candidate.path))
        if past is not None and not past.is_measured:
            # It may have hung for long, or crashed.
            self._remember(candidate, past)
            return None
        built = self.build(self.problem, candidate.spec)
        if isinstance(built, Failure):
            self._keep(candidate, "", built.outcome, built.reason)
            return None
        fault = built.fault()
        if fault is not None:
            self._keep(candidate, built.source, Outcome.WRONG, fault)
            return None
        return built

    # Records -------------------------------------------------------------------------------------

    def _recall(self, candidate: Candidate, built: Built) -> bool:
        """Whether an earlier run measured this candidate, of the same source."""
        past = self.known.get(decisions_text(candidate.path))
        if past is None or past.source != built.source or not past.is_measured:
            return False
        self._remember(candidate, past)
        return True

    def _keep(
        self,
        candidate: Candidate,
        source: str,
        outcome: Outcome = Outcome.MEASURED,
        reason: str = "",
        *,
        seconds: float | None = None,
        ratio: float | None = None,
        spread: float = 0.0,
        contended: bool = False,
    ) -> None:
        record = Record(
            problem=self.problem.key,
            decisions=decisions_text(candidate.path),
            label=render_path(candidate.path),
            context=self.context,
            source=source,
            outcome=outcome,
            reason=reason,
            seconds=seconds,
            ratio=ratio,
            spread=spread,
            contended=contended,
            model_seconds=candidate.model_seconds,
        )
        self.journal.add(record)
        self._remember(candidate, record)

    def _remember(self, candidate: Candidate, record: Record) -> None:
        self.records[record.decisions] = record
        if record.seconds is not None:
            self.ranking.learn(candidate, record.seconds)

    # The winner ----------------------------------------------------------------------------------

    def _best(self) -> tuple[Candidate | None, float]:
        """The kernel of the least ratio, if that is less than the noise explains."""
        measured = [
            (each.ratio, number, each.decisions)
            for number, each in enumerate(self.records.values())
            if each.ratio is not None
        ]
        if not measured:
            return None, 1.0
        least, _, decisions = min(measured)
        if least >= 1 - self.noise:
            return self.untuned, 1.0
        return self.ranking.candidate(decisions), least

    def _confirmed(self) -> tuple[Candidate | None, float]:
        """The best kernel, if it is also faster in rounds in which it was not picked."""
        best, _ = self._best()
        if best is None or best is self.untuned or self.untuned is None:
            return self.untuned, 1.0
        build = self.elsewhere()
        pair = [build(self.problem, each.spec) for each in (best, self.untuned)]
        runs = [each.run for each in pair if isinstance(each, Built)]
        if len(runs) < len(pair):
            # A trial may run out of time, or a folder out of space, that did not before.
            return self.untuned, 1.0
        timing, base = measure(runs, self.rounds, self.clock)
        seen: Ratio = ratio(timing, base)
        is_faster = seen.value < 1 - max(self.noise, seen.error)
        return (best, seen.value) if is_faster else (self.untuned, 1.0)
