"""Which kernel a product gets; and, where a compiler is found, real kernels tuned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from einbound.errors import KernelError
from einbound.kernels.decisions import Decision, RegisterTile, RowBlock
from einbound.kernels.groups import GroupAxis, Groups
from einbound.kernels.kinds import PipelineKind
from einbound.kernels.pick import untuned
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.machine.limits import CacheLevel, HardwareLimits
from einbound.space.traversal import enumerate_leaves
from einbound.space.tree import Child, Choice, Excluded, Leaf, Refuted, Unknown
from einbound.tune.bench import Bench
from einbound.tune.build import Toolchain, find_compiler
from einbound.tune.choice import TunedChoice, replay, spec_at
from einbound.tune.compilers import Compiler
from einbound.tune.measure import Rounds
from einbound.tune.operands import Operands
from einbound.tune.records import Outcome, Record, decisions_text
from einbound.tune.store import Store
from einbound.tune.tuner import Allowance, Built, Failure, Stop
from einbound.tune.workshop import Workshop, context_of, disagreements

CPU = HardwareLimits(
    simd_vector_bytes=32,
    vector_registers=16,
    fma_per_cycle=2,
    fma_latency_cycles=4,
    clock_hz=3e9,
    n_cores=1,
    levels=(CacheLevel(2**15, 8, 64, 1e11), CacheLevel(2**19, 8, 64, 1e11)),
)
PROBLEM = MatmulProblem(m=48, n=40, k=32)
COMPILER = find_compiler(None)
needs_compiler = pytest.mark.skipif(isinstance(COMPILER, str), reason=f"no compiler: {COMPILER}")
QUICK = Rounds(warmup=0, rounds=3, sample_seconds=0.0)


def shop(folder: Path, limits: HardwareLimits = CPU) -> Workshop:
    compiler = COMPILER if isinstance(COMPILER, Compiler) else Compiler(("cc",), "cc 1")
    return Workshop(Toolchain(compiler, folder), limits, Store(folder / "kernels.db"))


def record_at(number: int, workshop: Workshop) -> Record:
    """A winner: some leaf of the tree of `PROBLEM`."""
    path, _ = enumerate_leaves(workshop.tree(PROBLEM))[number]
    return Record(
        problem=PROBLEM.key,
        decisions=decisions_text(path),
        label="some leaf",
        context=workshop.context,
        seconds=1e-3,
    )


# Choosing ----------------------------------------------------------------------------------------


def test_without_a_winner_the_choice_is_the_untuned_one(tmp_path: Path) -> None:
    assert shop(tmp_path).choice(PROBLEM, CPU) == untuned(PROBLEM, CPU)


def test_a_winner_in_the_store_is_chosen(tmp_path: Path) -> None:
    workshop = shop(tmp_path)
    specs = [spec for _, spec in enumerate_leaves(workshop.tree(PROBLEM))]
    number = next(n for n, spec in enumerate(specs) if spec != untuned(PROBLEM, CPU))
    workshop.store.crown([record_at(number, workshop)])
    assert workshop.choice(PROBLEM, CPU) == specs[number]


def test_pinned_winners_alone_decide_and_a_miss_is_untuned(tmp_path: Path) -> None:
    workshop = shop(tmp_path)
    workshop.store.crown([record_at(1, workshop)])
    pinned = replace(workshop.choice, pinned=())
    assert pinned(PROBLEM, CPU) == untuned(PROBLEM, CPU)
    specs = [spec for _, spec in enumerate_leaves(workshop.tree(PROBLEM))]
    pinned = replace(workshop.choice, pinned=(record_at(2, workshop),))
    assert pinned(PROBLEM, CPU) == specs[2]


def test_pinned_winners_count_under_other_compilers_but_not_on_other_processors(
    tmp_path: Path,
) -> None:
    workshop = shop(tmp_path)
    record = replace(record_at(2, workshop), source="of another compiler's version")
    other = replace(record, context=replace(record.context, compiler="cc 99"))
    choice = replace(workshop.choice, pinned=(other,))
    assert choice.winner(PROBLEM) == replace(other, source="")
    assert choice(PROBLEM, CPU) == enumerate_leaves(workshop.tree(PROBLEM))[2][1]
    foreign = replace(record, context=replace(record.context, cpu="another"))
    assert replace(workshop.choice, pinned=(foreign,)).winner(PROBLEM) is None


@pytest.mark.parametrize(
    "change",
    [
        {"decisions": "[]"},
        {"decisions": "what?"},
        {"decisions": decisions_text((("row-block", RowBlock(7)),))},
        {"source": "other code"},
    ],
)
def test_a_winner_that_is_no_kernel_any_more_is_the_untuned_choice(
    tmp_path: Path, change: dict[str, str]
) -> None:
    workshop = shop(tmp_path)
    record = replace(record_at(1, workshop), **change)  # type: ignore[arg-type]
    assert replay(record, PROBLEM, CPU) is None
    workshop.store.crown([record])
    assert workshop.choice(PROBLEM, CPU) == untuned(PROBLEM, CPU)


def test_decisions_lead_through_every_verdict_but_a_refusal() -> None:
    spec = KernelSpec(gpu=False, pipeline=PipelineKind.TENSORIZED)
    below: Choice[Decision, KernelSpec] = Choice(
        "register-tile", ((RegisterTile(4, 1, 8), Child(Leaf(spec))),)
    )
    tree: Choice[Decision, KernelSpec] = Choice(
        "row-block",
        (
            (RowBlock(8), Unknown("may spill", below)),
            (RowBlock(16), Excluded("too large", Child(below))),
            (RowBlock(32), Refuted("no")),
        ),
    )
    tile = RegisterTile(4, 1, 8)
    assert spec_at(tree, [RowBlock(8), tile]) == spec
    assert spec_at(tree, [RowBlock(16), tile]) == spec
    assert spec_at(tree, [RowBlock(32), tile]) is None
    assert spec_at(tree, [RowBlock(8)]) is None
    assert spec_at(tree, [RowBlock(8), tile, tile]) is None


# The reference -----------------------------------------------------------------------------------


def problems() -> Iterator[MatmulProblem]:
    yield MatmulProblem(m=3, n=4, k=5)
    yield MatmulProblem(m=3, n=4, k=5, batch=(2,), outer_k=(3,), a_strides=None)
    for name in ("float64", "complex64", "complex128"):
        yield MatmulProblem(m=3, n=4, k=5, a_dtype=name, b_dtype=name, out_dtype=name)  # type: ignore[arg-type]
    groups = Groups(
        batch=(GroupAxis(2, 0, 60, 40),),
        m=(GroupAxis(4, -5, 0, 10),),
        n=(GroupAxis(2, 0, 1, 5), GroupAxis(5, 0, 2, 1)),
        k=(GroupAxis(5, 1, 12),),
    )
    yield MatmulProblem(m=4, n=10, k=5, batch=(2,), groups=groups, b_layout="unknown")  # type: ignore[arg-type]


@pytest.mark.parametrize("problem", list(problems()), ids=str)
def test_numpys_own_product_passes_and_a_wrong_element_does_not(problem: MatmulProblem) -> None:
    made = Operands.of(problem)
    made.c[...] = made.expected
    assert made.fault() is None
    place = (0,) * made.c.ndim
    made.c[place] *= 1.01
    assert "1 of" in str(made.fault())
    made.spoil()
    assert f"{made.c.size} of {made.c.size} elements are wrong" in str(made.fault())


def test_operands_are_the_same_every_time() -> None:
    first, second = Operands.of(PROBLEM), Operands.of(PROBLEM)
    assert np.array_equal(first.a, second.a)
    assert not np.array_equal(first.a.ravel()[:9], first.b.ravel()[:9])


# Real kernels ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    assert isinstance(COMPILER, Compiler)
    return Workshop.here(Toolchain(COMPILER, tmp_path_factory.mktemp("tuned") / "cache"))


@needs_compiler
def test_tuning_crowns_a_kernel_that_is_chosen_from_then_on(here: Workshop) -> None:
    tuned = here.tune(PROBLEM, Allowance(budget=2), QUICK)
    assert tuned.winner is not None
    assert tuned.stop is Stop.BUDGET
    assert here.choice(PROBLEM.canonical, here.limits) == tuned.winner.spec
    assert {each.outcome for each in tuned.records} == {Outcome.MEASURED}
    n_kept = len(here.store.records())
    again = here.tune(PROBLEM, Allowance(budget=2), QUICK)
    assert again.n_measured == 2
    assert len(here.store.records()) == n_kept


@needs_compiler
def test_a_kernel_without_an_emitter_is_refused_with_a_reason(here: Workshop) -> None:
    bench = Bench.of(PROBLEM, here.toolchain, here.limits)
    spec = replace(untuned(PROBLEM, here.limits), epilogue=True)
    made = bench(PROBLEM, spec)
    assert isinstance(made, Failure)
    assert made.outcome is Outcome.REFUSED
    assert "no C is emitted" in made.reason


@needs_compiler
def test_what_does_not_compile_is_not_built_and_what_hangs_is_stopped(here: Workshop) -> None:
    spec = untuned(PROBLEM, here.limits)
    broken = replace(here.toolchain, compiler=Compiler(("false",), "none"))
    made = replace(Bench.of(PROBLEM, here.toolchain, here.limits), toolchain=broken)(PROBLEM, spec)
    assert isinstance(made, Failure)
    assert made.outcome is Outcome.NOT_BUILT
    hasty = replace(Bench.of(PROBLEM, here.toolchain, here.limits), trial_seconds=1e-3)
    made = hasty(PROBLEM, spec)
    assert isinstance(made, Failure)
    assert made.outcome is Outcome.TIMED_OUT


@needs_compiler
def test_a_built_kernel_equals_the_reference_and_a_spoilt_one_does_not(here: Workshop) -> None:
    bench = Bench.of(PROBLEM, here.toolchain, here.limits)
    made = bench(PROBLEM, untuned(PROBLEM, here.limits))
    assert isinstance(made, Built)
    assert made.fault() is None
    bench.operands.a[0, 0] += 1
    assert made.fault() is not None


def test_a_product_without_a_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="no kernel is known"):
        shop(tmp_path).tune(replace(PROBLEM, a_dtype="float16"))  # type: ignore[arg-type]


def test_a_time_below_the_peaks_is_a_disagreement_with_its_witness(tmp_path: Path) -> None:
    limits = replace(CPU, peak_flops=1e9)
    record = record_at(0, shop(tmp_path, limits))
    flops = 2 * PROBLEM.macs
    assert disagreements((replace(record, seconds=flops / 0.5e9),), limits) == ()
    (seen,) = disagreements((replace(record, seconds=flops / 4e9),), limits)
    assert seen.implied.flops_per_second == pytest.approx(4e9)
    assert seen.row.label == "some leaf"


def test_a_context_tells_the_compiler_apart(tmp_path: Path) -> None:
    one = Toolchain(Compiler(("cc",), "cc 1"), tmp_path)
    two = Toolchain(Compiler(("cc",), "cc 2"), tmp_path)
    assert context_of(one) != context_of(two)
    assert context_of(one) == context_of(replace(one, folder=tmp_path / "other"))


def test_a_choice_equals_one_of_the_same_records(tmp_path: Path) -> None:
    assert shop(tmp_path).choice == shop(tmp_path).choice
    assert hash(shop(tmp_path).choice) == hash(shop(tmp_path).choice)
    assert isinstance(shop(tmp_path).choice, TunedChoice)
