"""Placements of shared values: legal, searched as if exhaustively, refused for reasons."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from einbound.api.forests import Workshop
from einbound.expr.expression import parse
from einbound.forest.drafts import Drafts, Placements
from einbound.forest.forest import Forest, Kind, Production, Value
from einbound.forest.fusion import Common, Staged, broken, bundled, common
from einbound.forest.inline import inlined, n_inlined
from einbound.forest.kept import frontier, halves, retained
from einbound.forest.placement import Site
from einbound.forest.planner import plan_forest
from einbound.forest.sequence import sequenced
from einbound.plan.price import Limit
from einbound.space.admissible import verify_bound
from einbound.space.placement import LoopId, Materialize, StageAt
from einbound.space.search import search
from einbound.space.traversal import leaves
from einbound.space.tree import Choice, Excluded, Refuted
from einbound.space.witness import Witness
from forests import direct, random_forest, random_leaves, views
from sums import written


def legal_forest(seed: int) -> Forest:
    forest = random_forest(random.Random(seed))
    assume(all(i >= 0 for each in forest.productions for i in each.network.output))
    return forest


def forest_that_shares(seed: int) -> Forest:
    """The first random forest from a seed on that has a shared value."""
    while True:
        forest = random_forest(random.Random(seed))
        if shared(forest) and all(i >= 0 for p in forest.productions for i in p.network.output):
            return forest
        seed += 1


def chained_forest(rng: random.Random) -> Forest:
    """Products of matrices, one to three of them shared."""
    names, equations = ["x", "z"], {}
    for n in range(rng.randint(1, 3)):
        text = rng.choice(["ij,jk->ik", "ij,kj->ik", "ij,ij->ij", "ji,jk->ik", "ij,jk->ki"])
        equations[f"s{n}"] = [(1, text, (rng.choice(names), rng.choice(names)))]
        names.append(f"s{n}")
    for n in range(2):
        text = rng.choice(["ij,jk->ik", "ij,ij->ij", "ij,jk->i"])
        equations[f"y{n}"] = [(1, text, (rng.choice(names[2:]), rng.choice(names)))]
    read = {name for terms in equations.values() for _, _, pair in terms for name in pair}
    targets = [name for name in equations if name not in read]
    used: dict[str, tuple[int, ...]] = {name: (4, 4) for name in ("x", "z") if name in read}
    return written(equations, used, targets=targets)


def shop_of(forest: Forest) -> Workshop:
    leaves = [v for v in forest.values if v.kind is Kind.LEAF]
    layouts = views([np.empty(v.shape) for v in leaves])
    return Workshop(
        {v.name: view for v, view in zip(leaves, layouts, strict=True)}, np.dtype(float)
    )


def with_volatile(forest: Forest, leaf: int) -> Forest:
    """The same where one leaf changes, and all that is made from it."""
    changes = {leaf}
    for each in forest.productions:
        if changes.intersection(each.operands):
            changes.add(each.into)
    values = tuple(replace(v, volatile=v.number in changes) for v in forest.values)
    return replace(forest, values=values)


def shared(forest: Forest) -> list[int]:
    return [v.number for v in forest.values if v.kind is Kind.SHARED]


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_retained_targets_are_the_same_whole_and_in_halves(seed: int) -> None:
    plain = legal_forest(seed)
    forest = retained(with_volatile(plain, 0))
    leaves_in = random_leaves(plain, seed)
    wanted = direct(plain, leaves_in)
    for got, want in zip(direct(forest, leaves_in), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    both = halves(forest, frontier(forest))
    made = [] if both.prelude is None else direct(both.prelude, leaves_in)
    for got, want in zip(direct(both.main, [*leaves_in, *made]), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_values_in_line_change_no_result(seed: int) -> None:
    forest = forest_that_shares(seed)
    chosen = shared(forest)[:2]
    assume(all(n_inlined(forest, value) < 8 for value in chosen))
    after = inlined(forest, chosen)
    # numpy.einsum goes through all indices of a product at once, 32 operands at most.
    assume(all(prod(each.network.extents) < 10**5 for each in after.productions))
    assume(all(len(each.operands) < 30 for each in after.productions))
    leaves = random_leaves(forest, seed)
    assert len(after.values) == len(forest.values) - len(chosen)
    for mine, theirs in zip(direct(after, leaves), direct(forest, leaves), strict=True):
        assert np.array_equal(mine, theirs)


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_both_halves_of_a_forest_give_its_results(seed: int) -> None:
    forest = forest_that_shares(seed)
    kept = shared(forest)[:2]
    both = halves(forest, kept)
    assert both.prelude is not None
    leaves = random_leaves(forest, seed)
    made = direct(both.prelude, leaves)
    for mine, theirs in zip(
        direct(both.main, [*leaves, *made]), direct(forest, leaves), strict=True
    ):
        assert np.array_equal(mine, theirs)


def test_only_what_never_changes_and_is_read_by_what_does_is_kept() -> None:
    forest = written(
        {
            "U": [(1, "ab,bc->ac", ("A", "A"))],
            "V": [(1, "ab,bc->ac", ("U", "A"))],
            "W": [(1, "ab,bc->ac", ("V", "T"))],
            "R": [(1, "ab,bc->ac", ("W", "V"))],
        },
        {"A": (3, 3), "T": (3, 3)},
        targets=("R",),
        volatile=("T",),
    )
    assert [forest.values[value].name for value in frontier(forest)] == ["V"]


def two_steps(first: str, second: str, n: int = 4) -> Forest:
    """S from x and x, and y from s and x."""
    inputs = first.partition("->")
    rank = len(inputs[2])
    values = (
        Value(0, "x", Kind.LEAF, (n, n), ("i", "j")),
        Value(1, "s", Kind.SHARED, (n,) * rank, ("i", "j")[:rank]),
        Value(2, "y", Kind.TARGET, (n,) * len(second.partition("->")[2]), ("i", "j")),
    )
    n_first, n_second = inputs[0].count(",") + 1, second.partition("->")[0].count(",") + 1
    productions = (
        Production(0, 1, (0,) * n_first, parse(first, n_first).bind([(n, n)] * n_first)),
        Production(
            1,
            2,
            (1,) * second.partition("->")[0].split(",").count(second.split(",")[0]) + (0,),
            parse(second, n_second).bind([values[1].shape] * (n_second - 1) + [(n, n)]),
        ),
    )
    return Forest(values, productions, (2,))


def site(forest: Forest, limit: int | None = None, *, has_loops: bool = True) -> Site:
    return Site(forest, Limit(limit, None), shop_of(forest).tools(), has_loops)


def verdict(where: Site, decision_axes: tuple[int, ...]) -> object:
    tree = where.tree()
    assert isinstance(tree, Choice)
    number = where.loops.index((where.shared[0], decision_axes))
    return dict(tree.children)[StageAt(LoopId(where.identity, number))]


def test_a_whole_value_above_the_limit_is_refuted_with_its_bytes() -> None:
    forest = two_steps("ij,jk->ik", "ij,jk->ik")
    tree = site(forest, 200).tree()
    assert isinstance(tree, Choice)
    refuted = dict(tree.children)[Materialize()]
    assert isinstance(refuted, Refuted)
    assert str(refuted.witness) == (
        "a whole value and what is made from it must fit (bytes = 256, limit 200)"
    )


def test_an_axis_that_a_reader_has_under_two_indices_is_refuted() -> None:
    forest = written(
        {"s": [(1, "ij,jk->ik", ("x", "x"))], "y": [(1, "ij,jk->ik", ("s", "s"))]},
        {"x": (4, 4)},
        targets=("y",),
    )
    refuted = verdict(site(forest), (0,))
    assert isinstance(refuted, Refuted)
    assert "a loop cuts one index of a production" in str(refuted.witness)


def test_an_axis_that_is_read_along_a_diagonal_is_refuted() -> None:
    forest = written(
        {"s": [(1, "ij,jk->ik", ("x", "x"))], "y": [(1, "ii,ik->ik", ("s", "x"))]},
        {"x": (4, 4)},
        targets=("y",),
    )
    refuted = verdict(site(forest), (0,))
    assert isinstance(refuted, Refuted)
    assert "along a diagonal" in str(refuted.witness)


def test_a_sum_that_is_read_inside_its_loop_is_refuted() -> None:
    forest = written(
        {
            "s": [(1, "ij,jk->ik", ("x", "x"))],
            "t": [(1, "ij,ik->jk", ("s", "x"))],
            "y": [(1, "ij,jk->ik", ("s", "t"))],
        },
        {"x": (4, 4)},
        targets=("y",),
    )
    loop = common(forest, 1, 0)
    assert isinstance(loop, Common)
    refused = broken(forest, loop)
    assert str(refused) == ("a sum over a loop is complete only behind it (value = t, reader = 2)")


def test_a_trip_that_would_add_to_two_parts_of_a_value_is_refused() -> None:
    forest = written(
        {
            "s": [(1, "ij,jk->ik", ("x", "x"))],
            "y": [(1, "ik,kl->il", ("s", "x")), (1, "ik,kl->li", ("s", "x"))],
        },
        {"x": (4, 4)},
        targets=("y",),
    )
    loop = common(forest, 1, 0)
    assert isinstance(loop, Common)
    refused = broken(forest, loop)
    assert str(refused) == "what a trip adds to a value is one part of it (value = y)"


def test_values_alone_rule_out_no_sketch_that_takes_less() -> None:
    forest = ladder_forest()
    tools = shop_of(forest).tools()
    for beside in (0, 100, 400, 1000):
        drafts = Drafts(forest, Limit(beside, None), tools)
        for placements in (Placements(), Placements(inline=frozenset(forest_shared(forest)))):
            sketch = drafts.sketch(placements)
            assert sketch is not None
            again = Drafts(forest, Limit(beside, None), tools)
            assert again.sketch(placements, sketch.excess_bytes) is not None


def ladder_forest() -> Forest:
    return written(
        {"s": [(1, "ij,jk->ik", ("x", "x"))], "y": [(1, "ij,jk->ik", ("s", "x"))]},
        {"x": (4, 4)},
        targets=("y",),
    )


def forest_shared(forest: Forest) -> list[int]:
    return [value.number for value in forest.values if value.kind is Kind.SHARED]


def test_a_value_between_two_passes_is_no_part_of_a_loop() -> None:
    forest = written(
        {
            "s": [(1, "ij,jk->ik", ("x", "x"))],
            "t": [(1, "ij,jk->ik", ("s", "x"))],
            "u": [(1, "ij,jk->ik", ("x", "t"))],
            "y": [(1, "ij,jk->ik", ("s", "u"))],
        },
        {"x": (4, 4)},
        targets=("y",),
    )
    parts = bundled(forest, [Staged(1, (0,))])
    assert not isinstance(parts, Witness)
    refused = sequenced(forest, parts, {}, 8)
    assert isinstance(refused, Witness)
    assert "two passes" in str(refused)


def test_forest_descent_has_every_common_loop_excluded_by_name() -> None:
    forest = two_steps("ij,jk->ik", "ij,jk->ik")
    excluded = verdict(site(forest, has_loops=False), (0,))
    assert isinstance(excluded, Excluded)
    assert str(excluded.witness) == "forest_descent opens no common loops"


@pytest.mark.parametrize("n_shared", [4, 5, 6])
def test_the_search_finds_what_trying_every_placement_of_many_values_finds(n_shared: int) -> None:
    """All values that are shared are decided, each in line, whole or in a loop over one axis."""
    forest = chain_of(n_shared)
    tools = shop_of(forest).tools()
    free = Drafts(forest, Limit(None, None), tools).draft(Placements())
    assert free is not None
    limit = Limit(int(free.space_bytes * 0.8), None)
    where, drafts = Site(forest, limit, tools), Drafts(forest, limit, tools)
    assert len(where.shared) == n_shared

    def score(placements: Placements) -> float | None:
        sketch = drafts.sketch(placements, 0)
        if sketch is None or sketch.over_bytes > 0:
            return None
        made = drafts.draft(placements)
        return None if made is None or made.over_bytes > 0 else made.macs

    every = leaves(where.tree())
    scores = [each for each in map(score, every) if each is not None]
    assert len(every) > 2**n_shared
    assert search(where.tree(), score, where.bound, trace=False).score == min(scores)
    planned = plan_forest(forest, limit, tools)
    assert planned.fits
    assert planned.draft.macs == min(scores)


def chain_of(n_shared: int) -> Forest:
    """A shared matrix, and vectors that are each made from what comes before and a matrix."""
    equations = {"s0": [(1, "ij,jk->ik", ("x", "x"))], "s1": [(1, "ij,jk->i", ("s0", "x"))]}
    for n in range(2, n_shared):
        equations[f"s{n}"] = [(1, ("i,ij->j", "i,ij->i")[n % 2], (f"s{n - 1}", "x"))]
    equations["y"] = [(1, "i,ij->j", (f"s{n_shared - 1}", "x"))]
    return written(equations, {"x": (4, 4)}, targets=("y",))


@given(st.integers(0, 2**32), st.sampled_from([0.9, 0.7, 0.5]))
@settings(max_examples=8, deadline=None)
def test_the_search_finds_what_trying_every_placement_finds(seed: int, part: float) -> None:
    forest = chained_forest(random.Random(seed))
    tools = shop_of(forest).tools()
    free = Drafts(forest, Limit(None, None), tools).draft(Placements())
    assert free is not None
    limit = Limit(int(free.space_bytes * part), None)
    where, drafts = Site(forest, limit, tools), Drafts(forest, limit, tools)
    every = leaves(where.tree())
    assume(len(every) <= 30)

    def score(placements: Placements) -> float | None:
        made = drafts.draft(placements)
        return None if made is None or made.over_bytes > 0 else made.macs

    scores = [each for each in map(score, every) if each is not None]
    assert search(where.tree(), score, where.bound, trace=False).score == min(scores, default=None)
    assert verify_bound(where.tree(), score, where.bound)
    planned = plan_forest(forest, limit, tools)
    assert planned.fits or not scores
    if scores:
        assert planned.draft.macs == min(scores)


@given(st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_small_sequences_have_the_lowest_peak_of_all(seed: int) -> None:
    forest = legal_forest(seed)
    numbers = tuple(each.number for each in forest.productions)
    assume(len(numbers) <= 5)
    best = sequenced(forest, numbers, {}, 8)
    assert not isinstance(best, Witness)
    legal = [order for order in permutations(numbers) if is_legal(forest, order)]
    assert best in legal
    assert peak(forest, best) == min(peak(forest, order) for order in legal)


def is_legal(forest: Forest, order: tuple[int, ...]) -> bool:
    place = {number: n for n, number in enumerate(order)}
    return all(
        place[maker] < place[reader]
        for value, makers in forest.producers.items()
        for maker in makers
        for reader in forest.readers.get(value, ())
    )


def peak(forest: Forest, order: tuple[object, ...]) -> int:
    """Bytes alive at most, each value from its first maker to its last reader."""
    highest = 0
    users = {
        value: [order.index(n) for n in (*makers, *forest.readers.get(value, ()))]
        for value, makers in forest.producers.items()
    }
    for now in range(len(order)):
        alive = [
            value
            for value, places in users.items()
            if min(places) <= now and (now <= max(places) or value in forest.targets)
        ]
        highest = max(highest, sum(8 * int(np.prod(forest.values[v].shape)) for v in alive))
    return highest
