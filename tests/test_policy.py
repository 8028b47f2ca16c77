"""Batch policies: the gate, the rules that follow, both objectives, published expectations.

The expectations at the end are those of a published design with the same policy. They are kept
where they speak of orders, multiply-adds, gates and selections. Its peaks are not ours: there
operands are freed when read and two-operand products are never batched, here operands are alive
throughout, sums are made in place and every product may be batched.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import json
import pickle
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from itertools import permutations
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import einbound as eb
from einbound.api.limits import NO_LIMITS
from einbound.api.planning import planned
from einbound.api.rules import rules_of
from einbound.api.setting import setting_of
from einbound.expr.expression import parse
from einbound.plan.gate import Gate, Gates, moved
from einbound.plan.rules import Rules
from einbound.plan.tree import Role

LADDER = "Pac,Pbd,ijcd->ijab"
LADDER_SHAPES = ((30, 8, 8), (30, 8, 8), (4, 4, 8, 8))


def yes(_: object) -> bool:
    return True


def no(_: object) -> bool:
    return False


def asked(
    text: str, *shapes: tuple[int, ...], tiles: Any = None, **fields: Any
) -> tuple[eb.BatchPolicy, Rules]:
    """A policy and the rules that it settles for a network."""
    policy = eb.BatchPolicy(**fields)
    setting = setting_of(parse(text, len(shapes)), shapes, NO_LIMITS)
    rules = rules_of(setting, policy=policy, tiles=tiles)
    assert rules is not None
    return policy, rules


def refusals(rules: Rules) -> dict[str, str]:
    return {refusal.index: refusal.why for refusal in rules.refusals}


def quietly(make: Callable[[], eb.Plan]) -> eb.Plan:
    """A plan that may break its threshold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eb.BudgetWarning)
        return make()


class TestRecord:
    def test_nothing_is_batched_by_default(self) -> None:
        policy, index = eb.BatchPolicy(), eb.Index("a", 5)
        assert not policy.is_batchable_contracted_index(index)
        assert not policy.is_batchable_external_index(index)
        assert not policy.is_batchable_index(index)
        rest = dataclasses.asdict(policy)
        del rest["is_batchable_contracted_index"], rest["is_batchable_external_index"]
        assert rest == {
            "batch_target_size": None,
            "is_volatile_leaf": None,
            "batch_spectator_indices": False,
            "persistent_only": False,
            "accumulation_factor": 0.0,
            "scheduler": "forest_descent",
            "peak_threshold": inf,
        }

    def test_it_is_frozen_and_takes_keywords_only(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            eb.BatchPolicy().peak_threshold = 1.0  # type: ignore[misc]
        with pytest.raises(TypeError, match="positional argument"):
            eb.BatchPolicy(yes)  # type: ignore[call-arg]

    def test_the_union_follows_from_the_roles_and_cannot_be_set(self) -> None:
        index = eb.Index("a", 5)
        for contracted, external in itertools.product((yes, no), repeat=2):
            policy = eb.BatchPolicy(
                is_batchable_contracted_index=contracted, is_batchable_external_index=external
            )
            assert policy.is_batchable_index(index) == (contracted(0) or external(0))
        with pytest.raises(TypeError, match="unexpected keyword argument 'is_batchable_index'"):
            eb.BatchPolicy(is_batchable_index=yes)  # type: ignore[call-arg]
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(eb.BatchPolicy(), "is_batchable_index", yes)  # noqa: B010

    def test_auto_admits_all_up_to_a_threshold(self) -> None:
        policy, index = eb.BatchPolicy.auto("2KiB"), eb.Index("a", 5)
        assert policy == eb.BatchPolicy.auto(2048)
        assert policy.is_batchable_contracted_index(index)
        assert policy.is_batchable_external_index(index)
        assert (policy.peak_threshold, policy.batch_spectator_indices) == (2048, True)
        with pytest.raises(ValueError, match="peak_threshold='much' is no amount of memory"):
            eb.BatchPolicy.auto("much")

    def test_schedulers_may_be_text(self) -> None:
        policy = eb.BatchPolicy(scheduler="ordered")
        assert policy.scheduler is eb.BatchScheduler.ORDERED
        with pytest.raises(eb.PolicyError, match="'eager'; expected 'forest_descent' or 'ordered'"):
            eb.BatchPolicy(scheduler="eager")

    @pytest.mark.parametrize("name", ["peak_threshold", "accumulation_factor"])
    @pytest.mark.parametrize("value", [nan, -1, -0.5, -inf])
    def test_amounts_below_zero_are_refused(self, name: str, value: float) -> None:
        with pytest.raises(eb.PolicyError, match=f"{name} is {value}; expected a number of at le"):
            eb.BatchPolicy(**{name: value})  # type: ignore[arg-type]

    @pytest.mark.parametrize("name", ["peak_threshold", "accumulation_factor"])
    @pytest.mark.parametrize("value", ["2GiB", True, None, 1j])
    def test_amounts_are_numbers(self, name: str, value: Any) -> None:
        with pytest.raises(TypeError, match=f"{name} is .*; expected a number of at least 0"):
            eb.BatchPolicy(**{name: value})

    def test_an_infinite_factor_is_refused(self) -> None:
        with pytest.raises(eb.PolicyError, match="accumulation_factor is inf; expected a finite"):
            eb.BatchPolicy(accumulation_factor=inf)

    def test_a_threshold_may_be_larger_than_any_float(self) -> None:
        _, rules = asked("ij->ji", (2, 3), peak_threshold=10**400)
        assert rules.threshold_bytes == 10**400

    @pytest.mark.parametrize(
        ("name", "otherwise"),
        [
            ("is_batchable_contracted_index", ""),
            ("is_batchable_external_index", ""),
            ("batch_target_size", " or None"),
            ("is_volatile_leaf", " or None"),
        ],
    )
    def test_functions_must_be_callable(self, name: str, otherwise: str) -> None:
        with pytest.raises(TypeError, match=f"{name} is 7 of type int; expected a function"):
            eb.BatchPolicy(**{name: 7})  # type: ignore[arg-type]
        if not otherwise:
            with pytest.raises(TypeError, match=f"{name} is None of type NoneType; expected a fu"):
                eb.BatchPolicy(**{name: None})  # type: ignore[arg-type]

    @pytest.mark.parametrize("name", ["batch_spectator_indices", "persistent_only"])
    def test_switches_are_truth_values(self, name: str) -> None:
        with pytest.raises(TypeError, match=f"{name} is 'no' of type str; expected True or Fal"):
            eb.BatchPolicy(**{name: "no"})  # type: ignore[arg-type]


def table() -> Iterator[tuple[Role, Gates, bool]]:
    """All combinations of what the gate depends on."""
    for role in Role:
        for *fields, volatile in itertools.product((False, True), repeat=7):
            yield role, Gates(*fields), volatile


def is_open(role: Role, gates: Gates, volatile: bool) -> bool:
    """The rule in its own words."""
    admitted = gates.external if role is Role.EXTERNAL else gates.contracted
    cuttable = role is Role.CONTRACTED or gates.spectators
    spared = not gates.persistent_only or not volatile
    return admitted and gates.finite_threshold and cuttable and gates.target and spared


class TestGate:
    def test_the_truth_table(self) -> None:
        rows = list(table())
        assert len(rows) == 256
        for role, gates, volatile in rows:
            closed = gates.closed(role, is_volatile=volatile)
            assert (closed is None) == is_open(role, gates, volatile), (role, gates, volatile)

    @pytest.mark.parametrize(
        ("gate", "field", "closed", "roles"),
        [
            (Gate.CONTRACTED, "contracted", False, [Role.CONTRACTED]),
            (Gate.EXTERNAL, "external", False, [Role.EXTERNAL]),
            (Gate.THRESHOLD, "finite_threshold", False, list(Role)),
            (Gate.SPECTATORS, "spectators", False, [Role.EXTERNAL]),
            (Gate.TARGET, "target", False, list(Role)),
            (Gate.PERSISTENT, "persistent_only", True, list(Role)),
        ],
    )
    def test_a_closed_gate_is_named(
        self, gate: Gate, field: str, closed: bool, roles: list[Role]
    ) -> None:
        gates = dataclasses.replace(Gates(), **{field: closed})
        for role in Role:
            assert gates.closed(role, is_volatile=True) == (gate if role in roles else None)

    @pytest.mark.parametrize("role", list(Role))
    def test_the_walker_runs_what_the_table_admits_and_nothing_else(self, role: Role) -> None:
        label = "i" if role is Role.EXTERNAL else "k"
        loop = eb.Loop(label, node=0, batch_size=1)
        for _, gates, volatile in (row for row in table() if row[0] is role):
            policy = eb.BatchPolicy(
                is_batchable_contracted_index=yes if gates.contracted else no,
                is_batchable_external_index=yes if gates.external else no,
                batch_spectator_indices=gates.spectators,
                batch_target_size=lambda _, size=int(gates.target): size,  # type: ignore[misc]
                peak_threshold=1e6 if gates.finite_threshold else inf,
                persistent_only=gates.persistent_only,
                is_volatile_leaf=yes if volatile else no,
            )
            closed = gates.closed(role, is_volatile=volatile)
            if is_open(role, gates, volatile):
                plan = eb.Plan.build("ik,kj->ij", (2, 3), (3, 2), loops=loop, policy=policy)
                assert len(plan.loops) == 1
                continue
            assert closed is not None
            says = f"a loop over {label!r}, in the {role} role, .* not admit: {closed} is"
            with pytest.raises(eb.PlanError, match=says):
                eb.Plan.build("ik,kj->ij", (2, 3), (3, 2), loops=loop, policy=policy)


class TestAsking:
    def test_each_index_is_described_and_asked_in_its_own_role_only(self) -> None:
        seen: dict[str, list[eb.Index]] = {"contracted": [], "external": [], "target": []}

        def note(name: str, answer: Any) -> Callable[[eb.Index], Any]:
            def predicate(index: eb.Index) -> Any:
                seen[name].append(index)
                return answer

            return predicate

        asked(
            "ik,kj->ij",
            (4, 9),
            (9, 5),
            tiles={"k": 3},
            is_batchable_contracted_index=note("contracted", True),
            is_batchable_external_index=note("external", False),
            batch_target_size=note("target", 3),
            peak_threshold=1e6,
        )
        assert seen["contracted"] == [eb.Index("k", 9, (0, 3, 6, 9))]
        assert sorted(seen["external"], key=str) == [eb.Index("i", 4), eb.Index("j", 5)]
        assert seen["target"] == seen["contracted"]

    def test_operands_are_described(self) -> None:
        seen: list[eb.Operand] = []

        def note(operand: eb.Operand) -> bool:
            seen.append(operand)
            return False

        policy = eb.BatchPolicy(is_volatile_leaf=note)
        eb.plan("iik,kj->ij", (4, 4, 9), (9, 5), dtype=["float32", "float64"], policy=policy)
        i, k, j = eb.Index("i", 4), eb.Index("k", 9), eb.Index("j", 5)
        assert seen == [
            eb.Operand(0, (i, k), np.dtype("float32")),
            eb.Operand(1, (k, j), np.dtype("float64")),
        ]

    def test_a_plan_asks_once_and_its_runs_never(self) -> None:
        calls: list[eb.Index] = []

        def note(index: eb.Index) -> bool:
            calls.append(index)
            return True

        policy = eb.BatchPolicy(is_batchable_contracted_index=note, peak_threshold=1e6)
        plan = eb.plan("ik,kj->ij", (4, 9), (9, 5), policy=policy)
        assert len(calls) == 1
        plan(np.ones((4, 9)), np.ones((9, 5)))
        plan(np.ones((4, 9), order="F"), np.ones((9, 5)))
        plan(np.ones((3, 9)), np.ones((9, 5)))
        plan.explain()
        assert len(calls) == 1

    def test_numpy_truth_values_are_fine(self) -> None:
        _, rules = asked(
            "ik,kj->ij",
            (2, 3),
            (3, 2),
            is_batchable_contracted_index=lambda _: np.bool(True),
            peak_threshold=1,
        )
        assert rules.grid.admitted == 0b010

    @pytest.mark.parametrize("answer", [None, 1, "yes"])
    def test_other_answers_are_refused(self, answer: object) -> None:
        with pytest.raises(TypeError, match=r"is_batchable_external_index of 'i' is .*; expected"):
            asked("ik,kj->ij", (2, 3), (3, 2), is_batchable_external_index=lambda _: answer)
        with pytest.raises(TypeError, match="is_volatile_leaf of 0 is None of type NoneType"):
            asked("ik,kj->ij", (2, 3), (3, 2), is_volatile_leaf=lambda _: None)

    @pytest.mark.parametrize("size", ["8", 8.0, True])
    def test_targets_are_integers(self, size: Any) -> None:
        with pytest.raises(TypeError, match=r"batch_target_size of 'k' is .*; expected an integer"):
            asked(
                "ik,kj->ij",
                (2, 3),
                (3, 2),
                is_batchable_contracted_index=yes,
                batch_target_size=lambda _: size,
            )

    def test_negative_targets_are_refused(self) -> None:
        with pytest.raises(eb.PolicyError, match="batch_target_size of 'k' is -1; expected a numb"):
            asked(
                "ik,kj->ij",
                (2, 3),
                (3, 2),
                is_batchable_contracted_index=yes,
                batch_target_size=lambda _: -1,
            )

    def test_what_is_refused_is_told_with_gate_and_value(self) -> None:
        targets = {"k": 0, "l": None, "m": np.int64(2)}
        _, rules = asked(
            "iklmn,jklmn->ij",
            (2, 3, 3, 3, 3),
            (2, 3, 3, 3, 3),
            is_batchable_contracted_index=lambda index: index.label != "n",
            is_batchable_external_index=lambda index: index.label == "i",
            batch_target_size=lambda index: targets.get(str(index.label)),
            peak_threshold=1e6,
        )
        assert refusals(rules) == {
            "i": "batch_spectator_indices is False",
            "j": "is_batchable_external_index is False",
            "k": "batch_target_size is 0",
            "l": "batch_target_size is None",
            "n": "is_batchable_contracted_index is False",
        }

    def test_an_infinite_threshold_is_told_too(self) -> None:
        _, rules = asked("ik,kj->ij", (2, 3), (3, 2), is_batchable_contracted_index=yes)
        assert refusals(rules)["k"] == "peak_threshold is inf"

    def test_equal_rules_share_a_plan(self) -> None:
        def policy() -> eb.BatchPolicy:
            return eb.BatchPolicy(is_batchable_contracted_index=lambda i: True, peak_threshold=1e6)

        eb.plan(LADDER, *LADDER_SHAPES, policy=policy())
        before = planned.cache_info()
        eb.plan(LADDER, *LADDER_SHAPES, policy=policy())
        after = planned.cache_info()
        assert (after.hits, after.misses) == (before.hits + 1, before.misses)


class TestTargets:
    @pytest.mark.parametrize(
        ("extent", "tile", "target", "trips"),
        [
            *[(9, 3, 100, [9]), (9, 3, 6, [6, 3]), (9, 3, 5, [3, 3, 3]), (9, 3, 4, [3, 3, 3])],
            *[(9, 3, 3, [3, 3, 3]), (9, 3, 1, [3, 3, 3]), (12, 4, 100, [12]), (12, 4, 8, [8, 4])],
            *[(12, 4, 4, [4, 4, 4]), (12, 4, 3, [4, 4, 4]), (12, 4, 1, [4, 4, 4])],
            # A target is never rounded up to the next number of tiles.
            *[(472, 236, 243, [236, 236]), (20, 1, 5, [5, 5, 5, 5])],
        ],
    )
    def test_a_target_is_an_upper_bound_of_whole_tiles(
        self, extent: int, tile: int, target: int, trips: list[int]
    ) -> None:
        policy, rules = asked(
            "ik,kj->ij",
            (2, extent),
            (extent, 2),
            tiles={"k": tile},
            is_batchable_contracted_index=yes,
            batch_target_size=lambda _: target,
            peak_threshold=1e6,
        )
        loop = eb.Loop("k", node=0, batch_size=target)
        plan = eb.Plan.build(
            "ik,kj->ij", (2, extent), (extent, 2), tiles={"k": tile}, loops=loop, policy=policy
        )
        (made,) = plan.loops
        assert (made.batch_size, made.n_batches) == (trips[0], len(trips))
        assert rules.grid.cut(1, 1).width == trips[0]

    def test_a_wider_loop_than_the_target_is_refused(self) -> None:
        policy = eb.BatchPolicy(
            is_batchable_contracted_index=yes, batch_target_size=lambda _: 2, peak_threshold=1e6
        )
        loop = eb.Loop("k", node=0, batch_size=3)
        with pytest.raises(eb.PlanError, match="a trip of 3 elements over 'k'; batch_target_size"):
            eb.Plan.build("ik,kj->ij", (2, 9), (9, 2), loops=loop, policy=policy)
        with pytest.raises(eb.PlanError, match="a trip of 6 elements over 'k'; batch_target_size"):
            eb.Plan.build(
                "ik,kj->ij",
                (2, 9),
                (9, 2),
                tiles={"k": 3},
                loops=dataclasses.replace(loop, batch_size=6),
                policy=policy,
            )


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
        with pytest.raises(eb.ExpressionError, match="iterations is 0; expected an integer of at"):
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


# Published expectations ---------------------------------------------------------------------


def network(text: str, **sizes: int) -> tuple[tuple[Any, ...], tuple[tuple[int, ...], ...]]:
    """Interleaved arguments of tensors such as "g[i3 a3] t[a3 i1]"; single indices stay open.

    The size of an index is that of its letter.
    """
    terms = [term.split("[")[1].rstrip("]").split() for term in text.replace("] ", "]|").split("|")]
    labels = [label for term in terms for label in term]
    output = list(dict.fromkeys(label for label in labels if labels.count(label) == 1))
    shapes = tuple(tuple(sizes[label[0]] for label in term) for term in terms)
    pairs = [part for pair in zip(shapes, terms, strict=True) for part in pair]
    return (*pairs, output), shapes


def nested(tree: object) -> object:
    """A tree of operand numbers, left and right parts alike."""
    return tree if isinstance(tree, int) else frozenset(nested(part) for part in tree)  # type: ignore[attr-defined]


def order(*parts: object) -> object:
    return nested(parts)


USUAL = {"i": 10, "a": 100, "x": 4}
#: Network, sizes, published order, macs; None for the order where several have as few macs.
ORDERS: list[tuple[str, dict[str, int], object, int]] = [
    ("g[i3 i4 a3 a4] t[a1 a2 i3 i4] u[a3 a4 i1 i2]", USUAL, order((0, 2), 1), 200_000_000),
    (
        "g[i3 i4 a3 a4] t[a3 a4 i1 i2] p[a1 i3] q[a2 i4]",
        USUAL,
        order(((0, 1), 2), 3),
        111_000_000,
    ),
    ("l[i1 a1] g[i2 i3 a2 a3] t[a2 a3 i2 i3]", USUAL, order(0, (1, 2)), 1_001_000),
    ("x[i1 i2 a3 a4] y[a1 a2 i1 i2] z[a3 a4 a1 a2]", USUAL, None, 10_001_000_000),
    ("D[a1 a3 x1] E[a2 i1 x1] t[a3 i2]", USUAL, order((0, 2), 1), 4_400_000),
    ("A[i1 a1 x] B[i2 a2 x] t[a1 a2 i1 i2]", USUAL, None, 4_004_000),
    ("A[i1 x1] B[x1 i2] C[i2 a1]", {"i": 10, "a": 4, "x": 1000}, order(0, (1, 2)), 80_000),
    ("g[F1 a1] h[a1 a2] t[a2 a3]", {"F": 100, "a": 3}, order(0, (1, 2)), 927),
    (
        "g[a1 i1 K] h[a2 i2 K] p[i1 i3] q[i2 i4]",
        {"a": 30, "i": 30, "K": 500},
        order((0, 2), (1, 3)),
        432_000_000,
    ),
    ("g[i1 F1] h[F1 a1] s[a1 F2] t[F2 a2]", {"i": 10, "a": 10, "F": 4}, None, 720),
    ("g[a1 i1 F1] g[a2 i1 F1] g[a2 i2 F2]", {"i": 10, "a": 100, "F": 3}, None, 180_000),
    ("g[a1 i1 F1] g[a2 i1 F2] g[a2 i2 F2]", {"i": 10, "a": 100, "F": 3}, None, 60_000),
    ("g[a4 F1] h[F1 F2] s[F2 a2] t[a2 a3]", {"a": 10, "F": 4}, None, 960),
    ("g[i1 a1] h[a1 a2] k[a2 i2]", {"i": 10, "a": 20}, None, 6000),
    ("g[i1 a1] k[i2 a1]", {"i": 10, "a": 20}, order(0, 1), 2000),
]


class TestPublishedOrders:
    @pytest.mark.parametrize(("text", "sizes", "tree", "macs"), ORDERS, ids=[o[0] for o in ORDERS])
    def test_the_order_and_its_macs(
        self, text: str, sizes: dict[str, int], tree: object, macs: int
    ) -> None:
        args, _ = network(text, **sizes)
        plan = eb.plan(*args)
        assert plan.macs == macs
        if tree is not None:
            assert nested(plan.tree) == tree

    def test_the_order_does_not_depend_on_that_of_the_operands(self) -> None:
        text, sizes, _, macs = ORDERS[1]
        args, _ = network(text, **sizes)
        pairs = list(zip(args[:-1:2], args[1::2], strict=True))
        for some in permutations(pairs):
            assert eb.plan(*itertools.chain(*some), args[-1]).macs == macs

    def test_without_volatile_operands_evaluations_change_nothing(self) -> None:
        text, sizes, _, macs = ORDERS[5]
        args, _ = network(text, **sizes)
        assert eb.plan(*args, iterations=10).macs == macs

    @pytest.mark.parametrize(
        ("text", "sizes", "elements"),
        [
            ("g[a1 i1] g[a2 i2]", {"i": 2, "a": 4}, 80),
            ("g[a1 i1] h[a1 a2] k[a2 i2]", {"i": 10, "a": 100}, 13_000 + 100),
            ("g[i1 a1] h[a1 a2 i1 i2] k[a2 i2]", {"i": 10, "a": 100}, 1_003_000 + 1),
            ("h[a1 a2 i1 i2] g[a1 i1] k[a2 i2]", {"i": 10, "a": 100}, 1_003_000 + 1),
        ],
    )
    def test_the_result_stands_beside_all_operands_where_they_are_not_freed(
        self, text: str, sizes: dict[str, int], elements: int
    ) -> None:
        # Published without the addend, since operands are freed there after their last use.
        # Buffers of the steps come on top of values here, and are made small where they must be.
        args, _ = network(text, **sizes)
        smallest_buffers = 128
        plan = eb.plan(*args, memory_limit=8 * elements + smallest_buffers)
        assert plan.loops == ()
        assert plan.peak_bytes >= 8 * (elements - 1)


class TestPublishedHoisting:
    def test_what_does_not_carry_a_loop_is_made_outside_of_it_for_free(self) -> None:
        args, _ = network("g[a4 F1] h[F1 a1] s[a1 a2] t[a2 a3]", a=10, F=4)
        path = [(2, 3), (1, 2), (0, 1)]
        plain = eb.Plan.build(*args, path=path)
        inside = eb.Loop("F1", node=2, batch_size=1)
        assert eb.Plan.build(*args, path=path, loops=inside).macs == plain.macs
        deep = eb.Plan.build(*args, path=path, loops=inside, levels={0: 1})
        assert deep.macs == plain.macs + 3 * 1000

    def test_a_loop_over_the_result_repeats_nothing_that_is_hoisted(self) -> None:
        args, _ = network("g[i1 F1] h[F1 a1] s[a1 F2] t[F2 a2]", i=10, a=10, F=4)
        path = [(1, 2), (0, 2), (0, 1)]
        loop = eb.Loop("i1", node=2, batch_size=1)
        assert eb.Plan.build(*args, path=path, loops=loop).macs == 720


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


class TestPublishedGates:
    K = network("g[a1 i1 K] h[a2 i2 K] p[i1 i3] q[i2 i4]", a=12, i=12, K=100)[0]

    def policy(self, threshold: float, **fields: Any) -> eb.BatchPolicy:
        return eb.BatchPolicy(
            is_batchable_contracted_index=lambda index: index.label == "K",
            batch_target_size=lambda index: 20,
            peak_threshold=threshold,
            **fields,
        )

    def test_no_loop_is_opened_while_the_peak_is_below_the_threshold(self) -> None:
        free = eb.plan(*self.K)
        for threshold in (inf, 10.0 * free.peak_bytes, float(free.peak_bytes)):
            plan = eb.plan(*self.K, policy=self.policy(threshold))
            assert (plan.loops, plan.macs, plan.fits) == ((), free.macs, True)

    def test_external_roles_do_not_fall_back_on_contracted_ones(self) -> None:
        policy = eb.BatchPolicy(
            is_batchable_contracted_index=yes, batch_spectator_indices=True, peak_threshold=1
        )
        plan = quietly(lambda: eb.plan(*self.K, policy=policy))
        assert {loop.role for loop in plan.loops} <= {eb.Role.CONTRACTED}

    def test_spectators_stay_whole_unless_they_are_let_in(self) -> None:
        policy = eb.BatchPolicy(is_batchable_external_index=yes, peak_threshold=1)
        plan = quietly(lambda: eb.plan(*self.K, policy=policy))
        assert plan.loops == ()

    def test_above_the_threshold_the_contracted_index_is_cut_and_nothing_repeated(self) -> None:
        # Published for 30, 30, 500 elements: threshold 0.9 of the peak cuts K, and so does 1 byte.
        free = eb.plan(*self.K)
        tight = eb.plan(*self.K, policy=self.policy(0.9 * free.peak_bytes))
        hopeless = quietly(lambda: eb.plan(*self.K, policy=self.policy(1)))
        for plan, fits in ((tight, True), (hopeless, False)):
            assert {(loop.index, loop.batch_size) for loop in plan.loops} == {("K", 20)}
            assert (plan.macs, plan.fits) == (free.macs, fits)
            assert plan.peak_bytes < free.peak_bytes

    def test_evaluations_decide_the_order_of_volatile_operands(self) -> None:
        args, _ = network("A[i1 a1 x] B[i2 a2 x] t[a1 a2 i1 i2]", **USUAL)
        leaf = eb.BatchPolicy(is_volatile_leaf=lambda operand: operand.number == 2)
        for fields in ({"volatile": [2]}, {"policy": leaf}):
            plan = eb.plan(*args, iterations=10, **fields)
            assert nested(plan.tree) == order((0, 1), 2)
            assert plan.macs == 4_000_000 + 1_000_000
            assert "14,000,000  macs, for which order" in plan.explain()
            assert eb.plan(*args, iterations=1, **fields).macs == 4_004_000


CHAIN = network("g[a4 F1] h[F1 F2] s[F2 a2] t[a2 a3]", a=12, F=6)[0]
CUBE = network("g[F1 a1] h[a1 a2] t[a2 a3]", F=60, a=6)[0]


@cache
def alternatives() -> list[eb.Plan]:
    """Every order of `CUBE` with up to two loops over its labels, three elements a trip."""
    policy = dataclasses.replace(eb.BatchPolicy.auto(1), batch_target_size=lambda _: 3)
    labels = dict.fromkeys(label for term in CUBE[1::2] for label in term)
    places = [(label, node) for label in labels for node in range(2)]
    plans = []
    for path in ([(0, 1), (0, 1)], [(0, 2), (0, 1)], [(1, 2), (0, 1)]):
        for some in itertools.chain(*(permutations(places, n) for n in range(3))):
            loops = [eb.Loop(label, node=node, batch_size=3) for label, node in some]
            with contextlib.suppress(eb.PlanError), warnings.catch_warnings():
                warnings.simplefilter("ignore", eb.BudgetWarning)
                plans.append(
                    eb.Plan.build(*CUBE, path=path, loops=loops, policy=policy, buffer_bytes=64)
                )
    return plans


class TestSelection:
    def policy(self, threshold: float) -> eb.BatchPolicy:
        auto = eb.BatchPolicy.auto(int(threshold))
        return dataclasses.replace(auto, batch_target_size=lambda _: 3)

    @pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9, 1.0])
    def test_time_takes_the_fewest_macs_and_then_the_fewest_loops(self, share: float) -> None:
        every = alternatives()
        free, least = eb.plan(*CUBE).peak_bytes, min(plan.peak_bytes for plan in every)
        threshold = least + int(share * (free - least))
        plan = quietly(lambda: eb.plan(*CUBE, policy=self.policy(threshold)))
        fitting = [other for other in every if other.peak_bytes <= threshold]
        best = min(fitting, key=lambda p: (p.macs, len(p.loops), p.peak_bytes))
        assert plan.fits
        assert (plan.macs, len(plan.loops)) == (best.macs, len(best.loops))

    @pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9, 1.0])
    def test_space_takes_the_fewest_macs_and_then_the_lowest_peak(self, share: float) -> None:
        every = alternatives()
        free, least = eb.plan(*CUBE).peak_bytes, min(plan.peak_bytes for plan in every)
        threshold = least + int(share * (free - least))
        make = lambda: eb.plan(*CUBE, policy=self.policy(threshold), objective="space")  # noqa: E731
        plan = quietly(make)
        fitting = [other for other in every if other.peak_bytes <= threshold]
        best = min(fitting, key=lambda p: (p.macs, p.peak_bytes))
        assert plan.fits
        assert plan.macs == best.macs
        assert plan.peak_bytes <= best.peak_bytes

    def test_the_fallback_of_time_is_the_fewest_macs_at_their_lowest_peak(self) -> None:
        every = alternatives()
        plan = quietly(lambda: eb.plan(*CUBE, policy=self.policy(1)))
        fewest = min(other.macs for other in every)
        lowest = min(other.peak_bytes for other in every if other.macs == fewest)
        assert not plan.fits
        assert plan.macs == fewest
        assert plan.peak_bytes <= lowest

    def test_the_fallback_of_space_is_the_lowest_peak(self) -> None:
        every = alternatives()
        plan = quietly(lambda: eb.plan(*CUBE, policy=self.policy(1), objective="space"))
        assert not plan.fits
        assert plan.peak_bytes <= min(other.peak_bytes for other in every)

    def test_fallbacks_differ_where_the_lowest_peak_repeats_work(self) -> None:
        time, space = (
            quietly(lambda o=o: eb.plan(*CHAIN, policy=self.policy(1), objective=o))  # type: ignore[misc]
            for o in eb.Objective
        )
        assert time.macs < space.macs
        assert space.peak_bytes < time.peak_bytes

    def test_space_without_a_policy_has_the_lower_peak_of_equal_macs(self) -> None:
        time, space = (eb.plan(*CHAIN, objective=o) for o in eb.Objective)
        assert space.macs == time.macs
        assert space.peak_bytes <= time.peak_bytes

    def test_planned_loops_take_the_target_or_its_whole_tiles(self) -> None:
        free = eb.plan(*CUBE)
        policy = self.policy(free.peak_bytes - 8)
        for tiles, width in ((None, 3), ({"F1": 4, "a1": 2, "a2": 2, "a3": 2}, None)):
            plan = quietly(lambda t=tiles: eb.plan(*CUBE, policy=policy, tiles=t))  # type: ignore[misc]
            assert plan.loops
            for loop in plan.loops:
                expected = width or (4 if loop.index == "F1" else 2)
                assert loop.batch_size == expected

    @pytest.mark.parametrize("objective", list(eb.Objective))
    def test_nothing_is_cut_above_volatile_operands_if_so_asked(self, objective: str) -> None:
        strict = dataclasses.replace(
            self.policy(1), persistent_only=True, is_volatile_leaf=lambda t: t.number == 3
        )
        plan = quietly(lambda: eb.plan(*CHAIN, policy=strict, objective=objective))
        made: list[frozenset[int]] = [frozenset({k}) for k in range(4)]
        for entry in plan.path:
            parts = [made.pop(place) for place in sorted(entry, reverse=True)]
            made.append(parts[0] | parts[1])
            step = len(plan.path) - len(made) + 1
            opened = [loop for loop in plan.loops if loop.node == step - 1]
            assert not opened or 3 not in made[-1]

    def test_contributions_of_a_policy_are_planned_for(self) -> None:
        plain = self.policy(eb.plan(*TestPublishedGates.K).peak_bytes * 0.9)
        heavy = dataclasses.replace(plain, accumulation_factor=1.0)
        for policy in (plain, heavy):
            plan = quietly(lambda p=policy: eb.plan(*TestPublishedGates.K, policy=p))  # type: ignore[misc]
            assert plan.meter().workspace_bytes == plan.workspace_bytes
            assert plan.fits == (plan.peak_bytes <= policy.peak_threshold)

    def test_what_is_planned_under_a_policy_equals_numpy(self) -> None:
        rng = np.random.default_rng(1)
        arrays = [rng.standard_normal(shape) for shape in LADDER_SHAPES]
        expected = np.einsum(LADDER, *arrays, optimize=True)
        plain = eb.plan(LADDER, *arrays)
        least = plain.operand_bytes + plain.result_bytes
        for share in (0.1, 0.5, 0.9):
            policy = eb.BatchPolicy.auto(int(least + share * plain.workspace_bytes))
            for objective in eb.Objective:
                result = eb.einsum(
                    LADDER, *arrays, policy=policy, objective=objective, tiles={"a": 3}
                )
                assert np.allclose(result, expected)
