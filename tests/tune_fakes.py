"""A machine of fake kernels: what each decision takes, and what goes wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from einbound.kernels.decisions import Decision, RegisterTile, RowBlock
from einbound.kernels.kinds import PipelineKind
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.space.tree import Child, Choice, Leaf, Unknown
from einbound.tune.measure import Rounds
from einbound.tune.ranking import Ranking
from einbound.tune.records import Context, Record
from einbound.tune.tuner import Allowance, Build, Built, Failure, Tuned, tune
from test_tune_measure import FakeTime

PROBLEM = MatmulProblem(m=64, n=64, k=64)
CONTEXT = Context("a core", "cc 1", "-O2", "0")
ROUNDS = Rounds(warmup=0, rounds=5, sample_seconds=0.0)


def spec_of(bm: int, rm: int) -> KernelSpec:
    return KernelSpec(
        gpu=False, pipeline=PipelineKind.TENSORIZED, packed=True, bm=bm, tile=RegisterTile(rm, 1, 8)
    )


def tree_of(
    blocks: tuple[int, ...], tiles: tuple[int, ...] = (4,), unknown: int | None = None
) -> Choice[Decision, KernelSpec]:
    """Row blocks, and below each its register tiles."""

    def tiled(bm: int) -> Choice[Decision, KernelSpec]:
        return Choice(
            "register-tile",
            tuple((RegisterTile(rm, 1, 8), Child(Leaf(spec_of(bm, rm)))) for rm in tiles),
        )

    return Choice(
        "row-block",
        tuple(
            (RowBlock(bm), Unknown("may spill", tiled(bm)) if bm == unknown else Child(tiled(bm)))
            for bm in blocks
        ),
    )


class Memory:
    """A journal that lives as long as a test."""

    def __init__(self) -> None:
        self.kept: list[Record] = []

    def add(self, record: Record) -> None:
        self.kept.append(record)

    def records(self, problem: MatmulProblem, context: Context) -> tuple[Record, ...]:
        return tuple(
            each for each in self.kept if (each.problem, each.context) == (problem.key, context)
        )


@dataclass
class Machine:
    """Kernels by rows of their block: real seconds, the model's, faults and failures."""

    real: dict[int, float]
    model: dict[int, float]
    tiles: tuple[int, ...] = (4,)
    tile_factor: dict[int, float] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)
    failures: dict[int, Failure] = field(default_factory=dict)
    interrupts: set[int] = field(default_factory=set)
    alike: dict[int, int] = field(default_factory=dict)
    source: str = "source"
    unknown: int | None = None
    time: FakeTime = field(default_factory=FakeTime)
    built: list[tuple[int, int]] = field(default_factory=list)

    def build(self, problem: MatmulProblem, spec: KernelSpec) -> Built | Failure:
        assert spec.tile is not None
        bm, rm = spec.bm, spec.tile.sizes[0]
        self.built.append((bm, rm))
        if bm in self.interrupts:
            raise KeyboardInterrupt
        if bm in self.failures:
            return self.failures[bm]
        seconds = self.real[bm] * self.tile_factor.get(rm, 1.0)
        return Built(
            run=self.time.kernel([seconds]),
            fault=lambda: self.faults.get(bm),
            source=self.source,
            task=(self.alike.get(bm, bm), rm),
        )

    def ranking(self) -> Ranking:
        tree = tree_of(tuple(self.real), self.tiles, self.unknown)
        return Ranking.of(tree, lambda spec: self.model.get(spec.bm))

    def tune(
        self,
        journal: Memory | None = None,
        *,
        budget: int = 20,
        seconds: float | None = None,
        bound_seconds: float = 0.0,
        context: Context = CONTEXT,
        elsewhere: Callable[[], Build] | None = None,
    ) -> Tuned:
        return tune(
            PROBLEM,
            self.ranking(),
            self.build,
            journal if journal is not None else Memory(),
            context,
            elsewhere=elsewhere,
            bound_seconds=bound_seconds,
            allowance=Allowance(budget=budget, seconds=seconds),
            rounds=ROUNDS,
            clock=self.time.clock,
        )
