"""What a policy became: kept in documents, held by every plan, told where it is broken."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import re
from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
import pytest

import einbound as eb
from einbound.api.limits import NO_LIMITS
from einbound.api.rules import rules_of
from einbound.api.setting import setting_of
from einbound.expr.expression import parse
from einbound.plan.gate import moved
from policies import LADDER, LADDER_SHAPES, asked, quietly, yes


class TestLoaded:
    def plan(self) -> eb.Plan:
        policy = eb.BatchPolicy(
            is_batchable_external_index=yes,
            batch_spectator_indices=True,
            batch_target_size=lambda _: 4,
            is_volatile_leaf=lambda operand: operand.number == 2,
            accumulation_factor=0.5,
            peak_threshold=1e9,
        )
        loop = eb.Loop("a", node=1, batch_size=4)
        return eb.Plan.build(LADDER, *LADDER_SHAPES, loops=loop, policy=policy, tiles={"a": 2})

    def test_a_document_gives_the_same_plan(self) -> None:
        plan = self.plan()
        again = eb.Plan.from_json(plan.to_json())
        assert again.to_json() == plan.to_json()
        assert again.explain() == plan.explain()
        assert again._made.setting == plan._made.setting

    def test_so_do_a_pickle_and_a_copy(self) -> None:
        plan = self.plan()
        for again in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)):
            assert again.explain() == plan.explain()

    def test_clocks_are_left_out_of_pickles(self) -> None:
        effort = eb.Effort(deadline_seconds=1e9, clock=lambda: 0.0)
        plan = eb.plan("ik,kj->ij", (2, 3), (3, 2), optimize=effort)
        assert pickle.loads(pickle.dumps(plan)).macs == plan.macs

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"admitted": False}, "a loop over 'a', in the external role, which the policy does"),
            ({"target": 2}, "a trip of 4 elements over 'a'; batch_target_size is 2"),
            ({"edges": [0, 3, 8]}, "a trip over 'a' that ends at 4, inside a tile"),
            ({"extent": 9}, "rules have extent 9 for 'a', which has 8"),
            ({"edges": [0, 9]}, r"the tiles of 'a' have edges \(0, 9\)"),
            ({"target": 0}, "'a' is admitted with a target of 0 elements"),
            ({"target": "4"}, "target is '4'; expected a whole number"),
        ],
    )
    def test_a_document_whose_loops_break_its_rules_is_refused(
        self, change: dict[str, Any], says: str
    ) -> None:
        data = json.loads(self.plan().to_json())
        data["rules"]["grid"]["modes"][1].update(change)
        with pytest.raises(eb.PlanError, match=says):
            eb.Plan.from_json(json.dumps(data))

    @pytest.mark.parametrize(
        ("name", "value", "says"),
        [
            ("persistent_only", True, "persistent_only is True, and a volatile operand is below"),
            ("persistent_only", 1, "persistent_only is 1; expected true or false"),
            ("objective", "speed", "'speed' is not a valid Objective"),
            ("volatile", [3], "operand 3 is volatile; there are 3"),
            ("accumulation_factor", -1, "accumulation_factor is -1; expected a number"),
            ("threshold_bytes", -1, "threshold_bytes is -1; expected a whole number"),
        ],
    )
    def test_rules_are_checked(self, name: str, value: Any, says: str) -> None:
        data = json.loads(self.plan().to_json())
        data["rules"][name] = value
        with pytest.raises(eb.PlanError, match=says):
            eb.Plan.from_json(json.dumps(data))

    def test_a_proof_that_its_tree_refutes_is_refused(self) -> None:
        data = json.loads(self.plan().to_json())
        data["proof"].update(exhausted=True, bound_macs=10**9)
        with pytest.raises(eb.PlanError, match="no plan has fewer than 1000000000 multiply-adds"):
            eb.Plan.from_json(json.dumps(data))

    def test_documents_of_the_first_version_have_no_rules(self) -> None:
        data = json.loads(eb.plan("ik,kj->ij", (2, 3), (3, 2)).to_json())
        del data["rules"], data["proof"]
        data["version"] = 1
        assert eb.Plan.from_json(json.dumps(data)).macs == 12


class TestOtherArrays:
    def test_rules_hold_for_arrays_of_other_shapes(self) -> None:
        policy = eb.BatchPolicy(is_batchable_contracted_index=yes, peak_threshold=inf)
        plan = eb.plan("ik,kj,jl->il", (4, 9), (9, 5), (5, 3), policy=policy)
        result = plan(np.ones((4, 7)), np.ones((7, 5)), np.ones((5, 3)))
        assert (result == 35).all()

    def test_tiles_must_fit(self) -> None:
        plan = eb.plan("ik,kj->ij", (4, 9), (9, 5), tiles={"k": 3})
        with pytest.raises(eb.PlanError, match="'k' has extent 8 and was planned with tiles up to"):
            plan(np.ones((4, 8)), np.ones((8, 5)))

    def test_a_policy_must_know_every_index(self) -> None:
        policy = eb.BatchPolicy.auto(10**6)
        plan = eb.plan("...k,kj->...j", (4, 9), (9, 5), policy=policy)
        with pytest.raises(eb.PlanError, match=r"dimension \.\.\.1, about which the policy was"):
            plan(np.ones((2, 4, 9)), np.ones((9, 5)))

    def test_without_a_policy_new_dimensions_are_free(self) -> None:
        plan = eb.plan("...k,kj->...j", (4, 9), (9, 5), objective="space")
        assert plan(np.ones((2, 4, 9)), np.ones((9, 5))).shape == (2, 4, 5)

    def test_equal_networks_keep_their_rules(self) -> None:
        _, rules = asked("ik,kj->ij", (2, 3), (3, 2))
        network = parse("ik,kj->ij", 2).bind([(2, 3), (3, 2)])
        assert moved(rules, network, network) is rules


class TestArguments:
    @pytest.mark.parametrize("call", [eb.plan, eb.einsum])
    def test_objectives_and_policies_are_checked(self, call: Callable[..., Any]) -> None:
        arrays = np.ones((2, 3)), np.ones((3, 2))
        with pytest.raises(eb.ExpressionError, match="objective='speed' is not known; expected"):
            call("ik,kj->ij", *arrays, objective="speed")
        with pytest.raises(TypeError, match="policy is 'auto' of type str; expected an"):
            call("ik,kj->ij", *arrays, policy="auto")

    def test_volatile_operands_are_numbers_in_range(self) -> None:
        with pytest.raises(eb.ExpressionError, match="volatile names operand 2; there are operand"):
            eb.plan("ik,kj->ij", (2, 3), (3, 2), volatile=[2])
        with pytest.raises(TypeError, match="volatile is 'T'; expected the numbers of the operan"):
            eb.plan("ik,kj->ij", (2, 3), (3, 2), volatile="T")  # type: ignore[arg-type]

    def test_there_is_at_least_one_evaluation(self) -> None:
        with pytest.raises(eb.ExpressionError, match="iterations is 0; expected a number of eval"):
            eb.plan("ik,kj->ij", (2, 3), (3, 2), iterations=0)
        for value in (1.5, True):
            with pytest.raises(TypeError, match=f"iterations is {value} of type"):
                eb.plan("ik,kj->ij", (2, 3), (3, 2), iterations=value)  # type: ignore[arg-type]

    def test_defaults_ask_for_nothing(self) -> None:
        setting = setting_of(parse("ik,kj->ij", 2), ((2, 3), (3, 2)), NO_LIMITS)
        assert rules_of(setting) is None
        assert rules_of(setting, objective=eb.Objective.TIME, tiles={}, volatile=[]) is None

    def test_marks_of_both_kinds_add_up(self) -> None:
        setting = setting_of(parse(LADDER, 3), LADDER_SHAPES, NO_LIMITS)
        policy = eb.BatchPolicy(is_volatile_leaf=lambda operand: operand.number == 2)
        rules = rules_of(setting, policy=policy, volatile=[0])
        assert rules is not None
        assert rules.volatile == {0, 2}


class TestThreshold:
    SHAPES = ((8, 16), (16, 16), (16, 8))
    CHAIN = "ab,bc,cd->ad"

    @pytest.mark.parametrize("objective", list(eb.Objective))
    def test_each_call_warns_once_of_a_plan_that_does_not_fit(self, objective: str) -> None:
        policy = eb.BatchPolicy.auto(100)
        arrays = [np.ones(shape) for shape in self.SHAPES]
        calls: list[Callable[[], object]] = [
            lambda: eb.plan(self.CHAIN, *self.SHAPES, policy=policy, objective=objective),
            lambda: eb.einsum(self.CHAIN, *arrays, policy=policy, objective=objective),
            lambda: eb.Plan.build(self.CHAIN, *self.SHAPES, policy=policy),
        ]
        for call in calls * 2:
            with pytest.warns(
                eb.BudgetWarning, match="peak_threshold=100 bytes is not kept"
            ) as all_:
                call()
            assert [warning.filename for warning in all_] == [__file__]

    def test_a_plan_made_again_for_other_arrays_warns_where_it_is_called(self) -> None:
        policy = eb.BatchPolicy.auto(10_000)
        plan = eb.plan(self.CHAIN, *self.SHAPES, policy=policy)
        assert plan.fits
        with pytest.warns(eb.BudgetWarning, match="is not kept") as caught:
            plan(np.ones((80, 16)), np.ones((16, 16)), np.ones((16, 8)))
        assert [warning.filename for warning in caught] == [__file__]

    def test_the_warning_says_of_a_hand_written_plan_nothing_that_was_searched(self) -> None:
        with pytest.warns(eb.BudgetWarning) as caught:
            eb.Plan.build(self.CHAIN, *self.SHAPES, policy=eb.BatchPolicy.auto(100))
        (text,) = (str(warning.message) for warning in caught)
        assert re.fullmatch(
            r"peak_threshold=100 bytes is not kept: the plan takes \d+; raise the threshold, open "
            "other loops, or give a memory_limit, which is never passed",
            text,
        )

    def test_the_warning_names_the_fallback(self) -> None:
        policy = eb.BatchPolicy.auto(100)
        with pytest.warns(eb.BudgetWarning, match="'time' it is the one with the fewest multiply-"):
            eb.plan(self.CHAIN, *self.SHAPES, policy=policy)
        with pytest.warns(eb.BudgetWarning, match="'space' it is the one with the lowest peak"):
            eb.plan(self.CHAIN, *self.SHAPES, policy=policy, objective="space")

    def test_such_a_plan_does_not_fit_and_still_runs(self) -> None:
        plan = quietly(lambda: eb.plan(self.CHAIN, *self.SHAPES, policy=eb.BatchPolicy.auto(100)))
        assert not plan.fits
        assert not plan.proven
        assert (plan(*[np.ones(shape) for shape in self.SHAPES]) == 256).all()
        assert not eb.Plan.from_json(plan.to_json()).fits

    def test_a_memory_limit_is_kept_or_refused_whatever_the_policy_says(self) -> None:
        with pytest.raises(eb.BudgetError, match="memory_limit=5000 bytes is too small"):
            eb.plan(
                self.CHAIN,
                *self.SHAPES,
                policy=eb.BatchPolicy(peak_threshold=1e9),
                memory_limit=5000,
            )

    def test_a_refused_limit_tells_what_the_policy_keeps_from_being_cut(self) -> None:
        policy = eb.BatchPolicy(
            is_batchable_contracted_index=lambda _: True,
            is_batchable_external_index=lambda index: index.label == "a",
            batch_target_size=lambda index: 0 if index.label == "b" else 4,
            batch_spectator_indices=True,
            peak_threshold=1e9,
        )
        with pytest.raises(
            eb.BudgetError,
            match=r"or let the policy admit more: it refuses 2 of 4 indices \("
            r"batch_target_size is 0, is_batchable_external_index is False\)$",
        ):
            eb.plan(self.CHAIN, *self.SHAPES, policy=policy, memory_limit=1000)

    def test_an_infinite_threshold_opens_no_loop_under_a_memory_limit(self) -> None:
        policy = dataclasses.replace(eb.BatchPolicy.auto(1), peak_threshold=inf)
        plain = eb.plan(self.CHAIN, *self.SHAPES)
        tight = plain.peak_bytes - 8
        assert eb.plan(self.CHAIN, *self.SHAPES, memory_limit=tight).loops
        with pytest.raises(eb.BudgetError, match="is too small"):
            eb.plan(self.CHAIN, *self.SHAPES, memory_limit=tight, policy=policy)

    def test_the_threshold_counts_operands_and_result(self) -> None:
        peak = eb.plan(self.CHAIN, *self.SHAPES).peak_bytes
        for threshold, fits in ((peak, True), (peak + 0.5, True), (peak - 0.5, False)):
            policy = eb.BatchPolicy(peak_threshold=threshold)
            plan = quietly(
                lambda p=policy: eb.plan(self.CHAIN, *self.SHAPES, policy=p)  # type: ignore[misc]
            )
            assert plan.fits is fits


class TestAccumulation:
    def build(self, factor: float, size: int = 4) -> eb.Plan:
        policy = eb.BatchPolicy(
            is_batchable_contracted_index=yes, accumulation_factor=factor, peak_threshold=1e9
        )
        loop = eb.Loop("k", node=0, batch_size=size)
        return eb.Plan.build("ik,kj->ij", (8, 16), (16, 8), loops=loop, policy=policy)

    def test_the_larger_of_policy_and_backend_counts(self) -> None:
        own = self.build(0.0).workspace_bytes
        contribution = 8 * 8 * 8
        for factor in (0.5, 1.0, 1.3, 4.0):
            plan = self.build(factor)
            assert plan.workspace_bytes == max(own, int(np.ceil(factor * contribution)))
            assert plan.meter().workspace_bytes == plan.workspace_bytes
            assert plan.peak_bytes == plan.meter().peak_bytes

    def test_one_trip_adds_nothing(self) -> None:
        assert self.build(4.0, size=16).workspace_bytes == 0

    def test_results_do_not_change(self) -> None:
        rng = np.random.default_rng(0)
        a, b = rng.standard_normal((8, 16)), rng.standard_normal((16, 8))
        assert (self.build(3.0)(a, b) == self.build(0.0)(a, b)).all()


class TestEvaluations:
    def sums(self, *loops: eb.Loop, levels: dict[int, int] | None = None) -> tuple[int, int]:
        policy = dataclasses.replace(
            eb.BatchPolicy.auto(10**9), is_volatile_leaf=lambda operand: operand.number == 2
        )
        shapes = (2, 3), (3, 4), (4, 5)
        plan = eb.Plan.build(
            "ab,bc,cd->ad",
            *shapes,
            path=[(0, 1), (0, 1)],
            loops=loops,
            levels=levels,
            policy=policy,
        )
        weighed = plan._made.weighed
        return weighed.once_macs, weighed.each_macs

    def test_what_no_volatile_operand_reaches_is_done_once(self) -> None:
        assert self.sums() == (24, 40)
        assert self.sums(eb.Loop("b", node=0, batch_size=1)) == (24, 40)
        assert self.sums(eb.Loop("d", node=1, batch_size=1)) == (24, 40)

    def test_slices_made_inside_a_loop_that_is_run_again_are_repeated(self) -> None:
        assert self.sums(eb.Loop("a", node=1, batch_size=1)) == (0, 64)
        assert self.sums(eb.Loop("d", node=1, batch_size=1), levels={0: 1}) == (0, 160)


@pytest.mark.parametrize("depth", [0, 1, None])
def test_a_plan_under_any_effort_reads_its_own_document(depth: int | None) -> None:
    shapes = (60, 20, 20), (60, 20, 20), (6, 6, 20, 20)
    effort = eb.Effort(depth=depth)
    plan = eb.plan("Pac,Pbd,ijcd->ijab", *shapes, memory_limit=1_300_000, optimize=effort)
    assert plan.proof.bound_macs <= plan.macs
    assert eb.Plan.from_json(plan.to_json()).proof == plan.proof


@pytest.mark.parametrize("iterations", [10**6 + 1, 10**30])
def test_more_evaluations_than_can_be_weighed_are_refused(iterations: int) -> None:
    with pytest.raises(eb.ExpressionError, match=f"iterations is {iterations}; expected a number"):
        eb.plan("ab,bc,cd->ad", (2, 3), (3, 4), (4, 2), volatile=[0], iterations=iterations)


def test_the_most_evaluations_that_can_be_weighed_are_planned() -> None:
    shapes = (64, 256), (256, 256), (256, 64)
    plan = eb.plan("ij,jk,kl->il", *shapes, volatile=[0], iterations=10**6, workspace_limit=10_000)
    assert plan.fits


def test_a_plan_deeper_than_its_class_is_not_proven() -> None:
    shapes = (60, 20, 20), (60, 20, 20), (6, 6, 20, 20)
    effort = eb.Effort(depth=0)
    plan = eb.plan("Pac,Pbd,ijcd->ijab", *shapes, memory_limit=700_000, optimize=effort)
    assert plan.loops
    assert not plan.proof.exhausted
