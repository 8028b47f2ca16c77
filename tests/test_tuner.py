"""Measured branch and bound, on fake kernels and a fake clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.tune.records import Outcome
from einbound.tune.tuner import Built, Failure, Stop, Tuned
from tune_fakes import CONTEXT, Machine, Memory


def won(tuned: Tuned) -> int:
    assert tuned.winner is not None
    return tuned.winner.spec.bm


def three() -> Machine:
    """The model likes 8 best; 32 is fastest."""
    return Machine(real={8: 1.0, 16: 0.9, 32: 0.5}, model={8: 1.0, 16: 1.1, 32: 1.2})


def test_the_fastest_kernel_wins_over_the_model() -> None:
    tuned = three().tune()
    assert won(tuned) == 32
    assert tuned.ratio == pytest.approx(0.5)
    assert tuned.untuned is not None
    assert tuned.untuned.spec.bm == 8
    assert tuned.stop is Stop.EXHAUSTED


def test_the_untuned_choice_stays_unless_another_is_faster_by_more_than_the_noise() -> None:
    machine = Machine(real={8: 1.0, 16: 0.999}, model={8: 1.0, 16: 1.1})
    tuned = machine.tune()
    assert won(tuned) == 8
    assert tuned.ratio == 1.0


def test_a_budget_counts_measurements_and_the_most_promising_come_first() -> None:
    tuned = three().tune(budget=2)
    assert [record.label for record in tuned.records] == [
        "row-block=bm8 > register-tile=rm4 rn1 lanes8",
        "row-block=bm16 > register-tile=rm4 rn1 lanes8",
    ]
    assert tuned.stop is Stop.BUDGET
    assert tuned.n_open == 1


def test_no_candidate_is_begun_when_the_time_is_used_up() -> None:
    tuned = three().tune(seconds=0.0)
    assert (tuned.n_measured, tuned.stop) == (1, Stop.SECONDS)


def test_what_cannot_beat_the_bound_is_pruned() -> None:
    tuned = three().tune(bound_seconds=0.9)
    assert (won(tuned), tuned.n_measured) == (16, 2)
    assert (tuned.stop, tuned.n_pruned, tuned.n_open) == (Stop.BOUND, 1, 0)


def test_a_wrong_kernel_never_wins() -> None:
    machine = three()
    machine.faults[32] = "1 of 4 elements are wrong"
    tuned = machine.tune()
    assert won(tuned) == 16
    (record,) = (each for each in tuned.records if each.outcome is Outcome.WRONG)
    assert record.reason == "1 of 4 elements are wrong"
    assert record.seconds is None


@pytest.mark.parametrize("outcome", [Outcome.NOT_BUILT, Outcome.TIMED_OUT, Outcome.CRASHED])
def test_a_failure_is_a_record_and_costs_one_candidate(outcome: Outcome) -> None:
    machine = three()
    machine.failures[32] = Failure(outcome, "why")
    tuned = machine.tune(budget=2)
    assert {(each.outcome, each.reason) for each in tuned.records} == {(Outcome.MEASURED, "")}
    tuned = machine.tune()
    assert won(tuned) == 16
    assert (outcome, "why") in {(each.outcome, each.reason) for each in tuned.records}


def test_the_next_best_is_the_untuned_choice_where_the_first_fails() -> None:
    machine = three()
    machine.failures[8] = Failure(Outcome.REFUSED, "no emitter")
    tuned = machine.tune(budget=1)
    assert tuned.untuned is not None
    assert tuned.untuned.spec.bm == 16


def test_nothing_wins_where_nothing_runs() -> None:
    machine = three()
    machine.failures = {bm: Failure(Outcome.REFUSED, "no") for bm in machine.real}
    tuned = machine.tune()
    assert tuned.winner is None
    assert tuned.stop is Stop.EXHAUSTED
    assert len(tuned.records) == 3


def test_an_undecided_leaf_is_settled_by_its_build() -> None:
    machine = three()
    machine.unknown = 32
    assert won(machine.tune()) == 32
    machine.failures[32] = Failure(Outcome.NOT_BUILT, "it spills")
    assert "it spills" in {each.reason for each in machine.tune().records}


def test_an_interrupt_keeps_the_best_so_far() -> None:
    machine = three()
    machine.interrupts = {32}
    tuned = machine.tune()
    assert (won(tuned), tuned.stop, tuned.n_measured) == (16, Stop.INTERRUPT, 2)


def test_an_interrupt_at_once_leaves_nothing() -> None:
    machine = three()
    machine.interrupts = {8}
    assert machine.tune().winner is None


def test_a_run_goes_on_from_its_journal() -> None:
    machine, journal = three(), Memory()
    machine.faults[16] = "wrong"
    machine.tune(journal, budget=1)
    machine.tune(journal, budget=2)
    assert [each.outcome for each in journal.kept] == [
        Outcome.MEASURED,
        Outcome.WRONG,
        Outcome.MEASURED,
    ]
    machine.built.clear()
    again = machine.tune(journal, budget=2)
    assert len(journal.kept) == 3
    assert won(again) == 32
    # What was wrong is not built again; what won is, to be confirmed.
    assert 16 not in {bm for bm, _ in machine.built}


def test_other_sources_and_contexts_are_measured_anew() -> None:
    machine, journal = three(), Memory()
    machine.tune(journal)
    machine.source = "changed"
    machine.tune(journal)
    assert len(journal.kept) == 6
    machine.tune(journal, context=replace(CONTEXT, compiler="cc 2"))
    assert len(journal.kept) == 9


def test_candidates_that_do_the_same_are_measured_once() -> None:
    machine = three()
    machine.alike = {16: 8}
    tuned = machine.tune()
    assert (tuned.n_measured, tuned.n_same) == (2, 1)


def test_one_measurement_of_a_tile_counts_for_all_kernels_with_it() -> None:
    machine = Machine(
        real={8: 1.0, 16: 1.01, 32: 1.02},
        model={8: 1.0, 16: 1.01, 32: 1.02},
        tiles=(4, 6),
        tile_factor={4: 2.0, 6: 1.0},
    )
    tuned = machine.tune(budget=3)
    tiles = [record.label.split("rm")[1][0] for record in tuned.records]
    # The model cannot tell the tiles apart; once both are measured, the slower one waits.
    assert tiles == ["4", "4", "6"] or tiles == ["4", "6", "6"]
    assert tuned.winner is not None
    assert tuned.winner.spec.tile is not None
    assert tuned.winner.spec.tile.sizes[0] == 6


def test_a_kernel_that_was_only_lucky_is_not_taken() -> None:
    machine = three()
    build, calls = machine.build, {"n": 0}

    def lucky(problem: MatmulProblem, spec: KernelSpec) -> Built | Failure:
        built = build(problem, spec)
        assert isinstance(built, Built)
        calls["n"] += spec.bm == 32
        is_confirmed = spec.bm == 32 and calls["n"] > 1
        return replace(built, run=machine.time.kernel([1.0])) if is_confirmed else built

    machine.build = lucky  # type: ignore[method-assign]
    assert won(machine.tune()) == 8


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=6),
    st.integers(1, 8),
)
def test_the_winner_is_never_slower_than_the_untuned_choice(
    times: list[tuple[int, int]], budget: int
) -> None:
    machine = Machine(
        real={2**n: float(real) for n, (real, _) in enumerate(times)},
        model={2**n: float(model) for n, (_, model) in enumerate(times)},
    )
    tuned = machine.tune(budget=budget)
    assert tuned.untuned is not None
    assert machine.real[won(tuned)] <= machine.real[tuned.untuned.spec.bm]
    if budget >= len(times):
        assert machine.real[won(tuned)] == min(machine.real.values())


def test_the_best_is_confirmed_on_arrays_of_its_own() -> None:
    here, there = three(), three()
    there.time = here.time
    there.real[32] = 1.0
    tuned = here.tune(elsewhere=lambda: there.build)
    assert won(tuned) == 8
    assert sorted(bm for bm, _ in there.built) == [8, 32]
