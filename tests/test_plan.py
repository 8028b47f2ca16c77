"""The public plan: what it tells, how it is written down, how it runs."""

from __future__ import annotations

import json
import string
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import einbound as eb
from hash_seeds import printed_under_hash_seeds

LADDER = "Pac,Pbd,ijcd->ijab"
SHAPES = ((30, 12, 12), (30, 12, 12), (5, 5, 12, 12))


@pytest.fixture
def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in SHAPES]


def ladder_plan(share: int = 4, **options: Any) -> eb.Plan:
    free = eb.plan(LADDER, *SHAPES)
    limit = free.operand_bytes + free.result_bytes + free.workspace_bytes // share
    return eb.plan(LADDER, *SHAPES, memory_limit=limit, **options)


def test_a_plan_keeps_its_limit_and_says_how() -> None:
    free, plan = eb.plan(LADDER, *SHAPES), ladder_plan()
    assert plan.fits
    assert plan.peak_bytes <= plan.operand_bytes + plan.result_bytes + free.workspace_bytes // 4
    assert plan.workspace_bytes < free.workspace_bytes
    assert plan.loops
    for loop in plan.loops:
        assert loop.n_batches == -(-loop.extent // loop.batch_size)
        assert loop.role in (eb.Role.CONTRACTED, eb.Role.EXTERNAL)
        assert loop.combine in (eb.Combine.ACCUMULATE, eb.Combine.SCATTER)
        assert 0 <= loop.node < len(plan.path)


def test_the_metered_peak_is_the_modelled_peak() -> None:
    for plan in (eb.plan(LADDER, *SHAPES), ladder_plan(4), ladder_plan(16)):
        metered = plan.meter()
        assert metered.peak_bytes == plan.peak_bytes
        assert plan.operand_bytes + metered.space_bytes == plan.peak_bytes
        assert metered.workspace_bytes == plan.workspace_bytes
        assert metered.macs == plan.macs


def test_limited_and_free_runs_agree(arrays: list[np.ndarray]) -> None:
    wanted = np.einsum(LADDER, *arrays, optimize=True)
    for plan in (eb.plan(LADDER, *SHAPES), ladder_plan(2), ladder_plan(16)):
        assert np.allclose(plan(*arrays), wanted, rtol=1e-12, atol=1e-10)


def test_the_same_plan_gives_the_same_bits(arrays: list[np.ndarray]) -> None:
    plan = ladder_plan()
    assert np.array_equal(plan(*arrays), plan(*arrays))
    assert np.array_equal(plan(*arrays), eb.Plan.from_json(plan.to_json())(*arrays))


def test_path_and_tree_are_one_order() -> None:
    plan = eb.plan("ab,bc,cd,de->ae", (4, 5), (5, 6), (6, 7), (7, 4))
    again = eb.plan("ab,bc,cd,de->ae", (4, 5), (5, 6), (6, 7), (7, 4), optimize=plan.path)
    assert (again.path, again.tree, again.macs) == (plan.path, plan.tree, plan.macs)


def test_a_plan_for_arrays_in_another_layout_keeps_the_limit(arrays: list[np.ndarray]) -> None:
    plan = ladder_plan(8)
    turned = [np.asfortranarray(a) for a in arrays]
    wanted = np.einsum(LADDER, *arrays, optimize=True)
    assert np.allclose(plan(*turned), wanted)


def test_a_call_that_needs_more_than_the_limit_is_refused_before_it_allocates() -> None:
    plan = eb.plan("ij,jk->ik", (8, 8), (8, 8), memory_limit=3 * 512)
    with pytest.raises(eb.BudgetError, match="memory_limit=1536 bytes is too small"):
        plan(np.ones((8, 9)), np.ones((9, 8)))
    small = np.ones((8, 4))
    assert np.array_equal(plan(small, small.T), 4 * np.ones((8, 8)))


def test_operands_that_share_memory_count_once() -> None:
    a = np.ones((100, 100))
    assert eb.plan("ij,jk->ik", a, a).operand_bytes == a.nbytes
    assert eb.plan("ij,jk->ik", a[:60], a[:, :60].T.copy().T).operand_bytes == 2 * 48000
    assert eb.plan("ij,jk->ik", (100, 100), (100, 100), same=[(0, 1)]).operand_bytes == a.nbytes


def test_a_plan_for_shared_memory_refuses_separate_arrays_that_break_its_limit() -> None:
    a = np.ones((100, 100))
    plan = eb.plan("ij,jk->ik", a, a, memory_limit=2 * a.nbytes)
    assert plan(a, a)[0, 0] == 100
    with pytest.raises(eb.BudgetError):
        plan(a, a.copy())


def test_the_wrong_number_of_operands_is_an_error() -> None:
    plan = eb.plan("ij,jk->ik", (2, 2), (2, 2))
    with pytest.raises(eb.ExpressionError, match="called with 3 operands; expected 2"):
        plan(np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2)))


def test_out_is_written_and_returned(arrays: list[np.ndarray]) -> None:
    wanted = np.einsum(LADDER, *arrays, optimize=True)
    whole = np.zeros((5, 10, 12, 12))
    out = whole[:, ::2]
    assert ladder_plan()(*arrays, out=out) is out
    assert np.allclose(out, wanted)
    assert not whole[:, 1::2].any()


def test_an_out_that_overlaps_an_operand_is_right() -> None:
    a = np.arange(16.0).reshape(4, 4)
    wanted = a @ a
    assert eb.einsum("ij,jk->ik", a, a, out=a) is a
    assert np.array_equal(a, wanted)


@pytest.mark.parametrize(
    ("out", "error", "text"),
    [
        (np.zeros((2, 3)), eb.ExpressionError, r"out has shape \(2, 3\); the result has shape"),
        ([[0.0]], TypeError, "out is of type list; expected a numpy array"),
        (np.zeros((2, 2), "f4"), eb.DTypeError, "goes to out of float32"),
    ],
)
def test_a_wrong_out_is_refused(out: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        eb.einsum("ij,jk->ik", np.ones((2, 2)), np.ones((2, 2)), out=out)


def test_a_read_only_out_is_refused() -> None:
    out = np.zeros((2, 2))
    out.flags.writeable = False
    with pytest.raises(eb.ExpressionError, match="out is read-only"):
        eb.einsum("ij,jk->ik", np.ones((2, 2)), np.ones((2, 2)), out=out)


def test_limits_of_objects_are_refused() -> None:
    a = np.ones((2, 2), object)
    assert eb.einsum("ij,jk->ik", a, a)[0, 0] == 2
    with pytest.raises(eb.DTypeError, match="dtype object, whose elements take memory"):
        eb.einsum("ij,jk->ik", a, a, memory_limit="1GiB")


@pytest.mark.parametrize("text", ["ij->ij", "...", "ij->ji"])
def test_a_view_is_a_new_array_on_the_same_memory(text: str) -> None:
    a = np.arange(6.0).reshape(2, 3).copy()
    for _ in range(2):
        view = eb.einsum(text, a)
        assert view is not a
        assert view.base is a


def test_a_plan_that_exceeds_the_machine_warns() -> None:
    with pytest.warns(eb.MemoryRiskWarning, match=r"needs \d+ bytes and \d+ are available"):
        eb.plan("i,j->ij", (2**22,), (2**22,))


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(
        eb.BackendError, match="backend 'torch' is not known; expected one of 'numpy'"
    ):
        eb.plan("i->", (3,), backend="torch")


def test_proven_means_that_no_plan_at_all_has_fewer_macs() -> None:
    assert eb.plan(LADDER, *SHAPES).proven
    assert ladder_plan(16).proven
    worse = eb.plan(LADDER, *SHAPES, optimize=[(0, 2), (0, 1)])
    assert worse.macs > eb.plan(LADDER, *SHAPES).macs
    assert not worse.proven
    letters = string.ascii_lowercase
    text = ",".join(map("".join, pairwise(letters))) + "->az"
    assert not eb.plan(text, *[(2, 2)] * (len(letters) - 1)).proven


class TestRefusals:
    def test_the_smallest_peak_that_is_named_can_be_had(self) -> None:
        with pytest.raises(eb.BudgetError, match="is too small; the smallest peak found") as info:
            eb.plan(LADDER, *SHAPES, memory_limit=1000)
        error = info.value
        assert error.limit_bytes == 1000
        assert error.limit_bytes < error.lower_bound_bytes <= error.smallest_bytes
        plan = eb.plan(LADDER, *SHAPES, memory_limit=error.smallest_bytes)
        assert plan.peak_bytes == error.smallest_bytes

    def test_culprit_and_proof_are_named(self) -> None:
        with pytest.raises(eb.BudgetError, match=r"51200 of them for the operands") as info:
            eb.plan("ij,jk,kl->il", (40, 40), (40, 40), (40, 80), memory_limit=60_000)
        assert (info.value.culprit, info.value.culprit_bytes) == ("the operands", 51200)
        assert "no plan can need less than" in str(info.value)

    def test_a_workspace_limit_is_refused_by_its_own_name(self) -> None:
        with pytest.raises(eb.BudgetError, match="raise workspace_limit to") as info:
            eb.plan("ij,jk,kl->il", (4, 4), (4, 4), (4, 4), workspace_limit=3)
        assert (info.value.lower_bound_bytes, info.value.certified) == (16, True)

    def test_operands_and_result_are_enough_for_a_product(self) -> None:
        plan = eb.plan("ij,jk->ik", (8, 8), (8, 8), memory_limit=3 * 512)
        assert (plan.peak_bytes, plan.workspace_bytes) == (1536, 0)


class TestHandWritten:
    def build(self, *loops: eb.Loop, **options: Any) -> eb.Plan:
        return eb.Plan.build(LADDER, *SHAPES, path=[(0, 1), (0, 1)], loops=loops, **options)

    def test_it_runs_as_written(self, arrays: list[np.ndarray]) -> None:
        plan = self.build(eb.Loop("a", node=1, batch_size=5), eb.Loop("P", node=0, batch_size=7))
        assert [(x.index, x.batch_size, x.n_batches, x.node) for x in plan.loops] == [
            ("a", 5, 3, 1),
            ("P", 7, 5, 0),
        ]
        assert plan.levels == {0: 1, 1: 0}
        assert np.allclose(plan(*arrays), np.einsum(LADDER, *arrays, optimize=True))

    def test_every_kind_of_loop_is_right(self, arrays: list[np.ndarray]) -> None:
        wanted = np.einsum(LADDER, *arrays, optimize=True)
        external, contracted = (
            eb.Loop("i", node=1, batch_size=2),
            eb.Loop("c", node=1, batch_size=5),
        )
        late, internal = eb.Loop("P", node=1, batch_size=9), eb.Loop("c", node=0, batch_size=4)
        for loops, levels in (
            ((external,), {}),
            ((external,), {0: 1}),
            ((contracted,), {}),
            ((contracted,), {0: 0}),
            ((late,), {}),
            ((internal,), {}),
            (
                (
                    late,
                    external,
                    eb.Loop("d", node=1, batch_size=5),
                    eb.Loop("b", node=0, batch_size=3),
                ),
                {},
            ),
        ):
            plan = self.build(*loops, levels=levels)
            assert np.allclose(plan(*arrays), wanted), plan.loops
            assert plan.meter().space_bytes + plan.operand_bytes == plan.peak_bytes

    def test_roles_and_combinations_are_those_of_the_tree(self) -> None:
        plan = self.build(
            eb.Loop("P", node=1, batch_size=10),
            eb.Loop("a", node=1, batch_size=6),
            eb.Loop("c", node=0, batch_size=6),
        )
        kinds = {x.index: (x.role, x.combine) for x in plan.loops}
        contracted, external = eb.Role.CONTRACTED, eb.Role.EXTERNAL
        assert kinds == {
            "P": (contracted, eb.Combine.ACCUMULATE),
            "a": (external, eb.Combine.SCATTER),
            "c": (contracted, eb.Combine.SCATTER),
        }

    def test_a_loop_without_a_step_belongs_to_the_last(self) -> None:
        (loop,) = self.build(eb.Loop("a", "external", "scatter", batch_size=4)).loops
        assert (loop.node, loop.role, loop.combine) == (1, "external", "scatter")

    @pytest.mark.parametrize("name", ["role", "combine"])
    def test_an_unknown_role_is_refused(self, name: str) -> None:
        make: Any = eb.Loop
        text = (
            f"the loop over 'a' is said to have {name} 'inner'; expected '(contracted|accumulate)'"
        )
        with pytest.raises(eb.PlanError, match=text):
            make("a", **{name: "inner"})

    def test_a_number_of_batches_may_be_given_instead_of_their_size(self) -> None:
        (loop,) = self.build(eb.Loop("a", node=1, batch_size=0, n_batches=5)).loops
        assert (loop.batch_size, loop.n_batches) == (3, 4)

    @pytest.mark.parametrize(
        ("loops", "options", "text"),
        [
            (
                [eb.Loop("z", node=1, batch_size=2)],
                {},
                "a loop cuts 'z', which the expression does not have",
            ),
            (
                [eb.Loop("a", node=7, batch_size=2)],
                {},
                "given to step 7; steps are numbered 0 to 1",
            ),
            (
                [eb.Loop("i", node=0, batch_size=2)],
                {},
                "step 0 opens a loop over 'i', which no operand below",
            ),
            ([eb.Loop("a", node=1, batch_size=99)], {}, "has batch_size 99; expected 1 to 12"),
            ([eb.Loop("a", node=1, batch_size=0)], {}, "has neither batch_size nor n_batches"),
            (
                [eb.Loop("a", node=1, batch_size=2), eb.Loop("a", node=1, batch_size=3)],
                {},
                "inside another loop over 'a'",
            ),
            ([eb.Loop("P", node=1, batch_size=2)], {"levels": {0: 0}}, "but sums 'P' itself"),
            ([], {"levels": {0: 4}}, "runs inside 0 loops, so the level is 0 to 0"),
            ([], {"levels": {1: 1}}, "no loop encloses it, so its level is 0"),
            ([], {"levels": {5: 0}}, "level 0 is given to step 5; steps are numbered 0 to 1"),
            (
                [eb.Loop("a", node=1, batch_size=2, role=eb.Role.CONTRACTED)],
                {},
                "said to have role contracted; there it is external",
            ),
        ],
    )
    def test_illegal_plans_are_refused(
        self, loops: list[eb.Loop], options: dict[str, Any], text: str
    ) -> None:
        with pytest.raises(eb.PlanError, match=text):
            self.build(*loops, **options)

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ([(0, 3), (0, 1)], r"path entry \(0, 3\) does not fit the 3 values left"),
            ([(0, 1)], "the path leaves 2 values uncontracted"),
            ([(0, 0), (0, 1)], "expected distinct positions from 0 to 2"),
        ],
    )
    def test_illegal_paths_are_refused(self, path: list[tuple[int, int]], text: str) -> None:
        with pytest.raises(eb.PathError, match=text):
            eb.Plan.build(LADDER, *SHAPES, path=path)

    def test_a_limit_binds_hand_written_plans_too(self) -> None:
        with pytest.raises(
            eb.BudgetError,
            match=r"is too small; the plan as written takes .*, or let einbound.plan choose",
        ):
            self.build(eb.Loop("a", node=1, batch_size=6), workspace_limit=1000)


class TestDocument:
    def test_a_plan_survives_json(self) -> None:
        plan = ladder_plan(16)
        again = eb.Plan.from_json(plan.to_json())
        assert again.to_json() == plan.to_json()
        assert (again.loops, again.levels, again.path) == (plan.loops, plan.levels, plan.path)
        assert (again.peak_bytes, again.macs, again.fits) == (plan.peak_bytes, plan.macs, True)
        assert str(again) == str(plan)

    def test_labels_and_layouts_survive_json(self) -> None:
        a = np.ones((6, 4), "f4", order="F")
        plan = eb.plan(a, ["row", 3], a, ["row", 4], [3, 4])
        again = eb.Plan.from_json(plan.to_json())
        assert np.array_equal(again(a, a), a.T @ a)

    def test_a_label_that_json_cannot_keep_is_refused(self) -> None:
        plan = eb.plan(np.ones(3), [("x", 1)], [("x", 1)])
        with pytest.raises(eb.PlanError, match=r"label \('x', 1\) is of type tuple"):
            plan.to_json()

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"version": 99}, "the plan has version 99; this einbound reads versions 1 to 2"),
            ({"schema": "other"}, "the document has schema 'other'; expected 'einbound.plan'"),
            ({"path": [[0, 9], [0, 1]]}, "the plan in the document is illegal: path entry"),
            (
                {"loops": [{"index": 1, "batch_size": 0, "node": 1}], "levels": [0, 0]},
                "has batch_size 0",
            ),
            ({"loops": [{"index": 77, "batch_size": 1, "node": 1}]}, "the document is damaged"),
            ({"levels": [0]}, "1 levels are given for 2 steps"),
            ({"promised": {"peak_bytes": 1}}, "the document promises peak_bytes = 1, its tree has"),
            ({"workspace_limit": 5}, "does not keep its own limits"),
            ({"buffer_bytes": -3}, "buffer_bytes is -3; expected a whole number"),
            ({"operands": []}, "is illegal"),
            ({"operands": 3}, "the document is damaged: TypeError"),
        ],
    )
    def test_a_changed_document_is_refused(self, change: dict[str, Any], text: str) -> None:
        data = json.loads(ladder_plan().to_json())
        with pytest.raises(eb.PlanError, match=text):
            eb.Plan.from_json(json.dumps({**data, **change}))

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '{"schema": "einbound.plan"}'])
    def test_what_is_no_plan_is_refused(self, text: str) -> None:
        with pytest.raises(eb.PlanError, match=r"document|no JSON|version"):
            eb.Plan.from_json(text)

    def test_every_missing_field_is_noticed(self) -> None:
        data = json.loads(ladder_plan().to_json())
        for name in data:
            rest = {key: value for key, value in data.items() if key != name}
            with pytest.raises(eb.PlanError):
                eb.Plan.from_json(json.dumps(rest))

    def test_plans_do_not_depend_on_the_hash_seed(self) -> None:
        code = (
            "import einbound as eb; print(eb.plan('abc,cd,dbe,ef->af', (4,5,6), (6,7), (7,5,8),"
            " (8,9), workspace_limit=900).to_json())"
        )
        texts = printed_under_hash_seeds(code)
        assert len(texts) == 1


class TestOptimize:
    ARGS = ("ab,bc,cd->ad", (4, 5), (5, 6), (6, 7))

    @pytest.mark.parametrize("optimize", [True, False, None, "greedy", "optimal", ("greedy", 1e9)])
    def test_presets_are_the_planners_own_choice(self, optimize: Any) -> None:
        assert eb.plan(*self.ARGS, optimize=optimize).path == eb.plan(*self.ARGS).path

    @pytest.mark.parametrize("marker", [[], ["einsum_path"]])
    def test_a_path_is_followed(self, marker: list[str]) -> None:
        assert eb.plan(*self.ARGS, optimize=[*marker, (1, 2), (0, 1)]).path == ((1, 2), (0, 1))

    def test_entries_of_many_operands_are_taken_pair_by_pair(self) -> None:
        assert eb.plan(*self.ARGS, optimize=[(0, 1, 2)]).path == ((0, 1), (0, 1))

    def test_a_function_that_makes_paths_is_asked(self) -> None:
        seen: list[Any] = []

        def planner(inputs: Any, output: Any, sizes: Any, limit: Any) -> list[tuple[int, int]]:
            seen.extend([inputs, output, sizes, limit])
            return [(1, 2), (0, 1)]

        assert eb.plan(*self.ARGS, optimize=planner).path == ((1, 2), (0, 1))
        assert len(seen[0]) == 3
        assert sorted(seen[2].values()) == [4, 5, 6, 7]

    def test_a_limit_is_kept_around_a_given_path(self) -> None:
        plan = eb.plan(
            "ab,bc,cd->ad",
            (40, 50),
            (50, 60),
            (60, 7),
            optimize=[(0, 1), (0, 1)],
            workspace_limit=3000,
        )
        assert plan.path == ((0, 1), (0, 1))
        assert plan.workspace_bytes <= 3000

    @pytest.mark.parametrize(
        ("optimize", "error", "text"),
        [
            ("fastest", eb.ExpressionError, "optimize='fastest' is not known; expected one of"),
            (3.5, TypeError, r"optimize is 3\.5; expected True, False, a preset"),
            ([(0, 1), 5], TypeError, "expected a path: a list of tuples"),
            ([(0, 9)], eb.PathError, r"path entry \(0, 9\) does not fit"),
        ],
    )
    def test_what_is_no_order_is_refused(
        self, optimize: Any, error: type[Exception], text: str
    ) -> None:
        with pytest.raises(error, match=text):
            eb.plan(*self.ARGS, optimize=optimize)


class TestInstantProducts:
    def test_a_second_call_gives_a_new_array(self) -> None:
        a = np.arange(16.0).reshape(4, 4)
        first = eb.einsum("ij,jk->ik", a, a)
        second = eb.einsum("ij,jk->ik", a, a)
        first[:] = 0
        assert np.array_equal(second, a @ a)
        assert np.array_equal(eb.einsum("ij,jk->ik", a, a), a @ a)

    @pytest.mark.parametrize(
        "text", ["ij,jk->ik", "ij,jk->ki", "ji,jk->ik", "ij,ij->ij", "i,j->ij"]
    )
    def test_other_layouts_under_the_same_text_are_right(self, text: str) -> None:
        rng = np.random.default_rng(1)
        for make in (np.array, np.asfortranarray, lambda x: np.array(x)[::-1], np.float32):
            shape = (4, 4) if "ij," in text or "ji," in text else (4,)
            a, b = (make(rng.standard_normal(shape)) for _ in range(2))
            for _ in range(2):
                got, wanted = eb.einsum(text, a, b), np.einsum(text, a, b)
                assert got.dtype == wanted.dtype
                assert got.strides == wanted.strides
                assert np.allclose(got, wanted, rtol=1e-5)

    def test_no_floating_point_warning_is_raised(self) -> None:
        a = np.array([[np.inf, 0.0], [0.0, 1.0]])
        for _ in range(2):
            assert np.isnan(eb.einsum("ij,jk->ik", a, a)).any()
