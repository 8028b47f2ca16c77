"""Batch policies: the record, the gate as a truth table, and what its functions are asked."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import einbound as eb
from einbound.api.planning import planned
from einbound.plan.gate import Gate, Gates
from einbound.plan.tree import Role
from policies import LADDER, LADDER_SHAPES, asked, no, refusals, yes


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
        with pytest.raises(eb.PolicyError, match="accumulation_factor is inf; expected at most 1e"):
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
