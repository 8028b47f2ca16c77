"""Plans under a policy: both objectives, and the expectations of a published design.

They are kept where they speak of orders, multiply-adds, gates and selections. Its peaks are not
ours: there operands are freed when read and two-operand products are never batched, here operands
are alive throughout, sums are made in place and every product may be batched.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import warnings
from functools import cache
from itertools import permutations
from math import inf
from typing import Any

import numpy as np
import pytest

import einbound as eb
from policies import LADDER, LADDER_SHAPES, quietly, yes


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

    def test_the_lowest_peak_of_equal_macs_is_found_though_a_plan_without_loops_fits(self) -> None:
        policy = eb.BatchPolicy(
            is_batchable_contracted_index=lambda index: index.label == "b",
            batch_target_size=lambda index: 4,
            is_volatile_leaf=lambda operand: operand.number == 0,
            persistent_only=True,
            peak_threshold=13440,
        )
        shapes = ((12, 12), (12, 12, 8), (8, 12))
        plan = eb.plan("ab,bac,db->a", *shapes, policy=policy, objective="space")
        assert plan.macs == eb.plan("ab,bac,db->a", *shapes).macs
        assert plan.peak_bytes <= 12704


@pytest.mark.parametrize("objective", ["time", "space"])
def test_where_no_loop_is_admitted_other_orders_are_tried(objective: str) -> None:
    plan = eb.plan(
        *("abc,b,ca->ab", (8, 3, 4), (3,), (4, 8)),
        policy=eb.BatchPolicy(peak_threshold=1e9),
        objective=objective,
        volatile=[0],
        iterations=5,
        memory_limit=1432,
    )
    assert plan.loops == ()
    assert plan.peak_bytes <= 1432
