"""Branch and bound finds what looking at every leaf finds, and its ledger is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from einbound.errors import SpaceError
from einbound.space import (
    Child,
    Choice,
    Event,
    Excluded,
    Judged,
    Leaf,
    Limit,
    Path,
    Refuted,
    SearchResult,
    SearchStats,
    Tree,
    Unknown,
    search,
    verify_trace,
)
from space_problems import Number, Problem, problems
from space_trees import Say, Spec, Steps, grown

ORDERS = ["depth_first", "best_first"]
both_orders = pytest.mark.parametrize("order", ORDERS)


def choice(**ways: Judged[str, float] | float) -> Choice[str, float]:
    """A choice of which plain numbers are feasible leaves."""
    return Choice(
        "way",
        tuple(
            (name, Child(Leaf(way)) if isinstance(way, int | float) else way)
            for name, way in ways.items()
        ),
    )


def price(payload: float) -> float:
    return payload


def by_name(**bounds: float) -> Callable[[Path[str], Tree[str, float]], float | None]:
    """A bound that knows the last decision only."""
    return lambda path, subtree: bounds.get(path[-1][1]) if path else None


#: Whose result and ledger are published: kernel_family.md, section 10.
SYNTHETIC = choice(
    a=5,
    b=Child(choice(c=3, d=2)),
    e=Unknown("not known", choice(f=1)),
    g=Refuted("cannot be"),
    h=Excluded("not proposed", Child(Leaf(0))),
    i=Child(choice(j=2)),
)


# --- what is found ---


@given(problems())
def test_depth_first_finds_the_first_leaf_of_the_least_score(problem: Problem) -> None:
    result = search(**problem.asked())
    assert (result.path, result.score) == problem.winner()
    assert (result.proven, result.gap) == (True, 0)


@given(problems())
def test_best_first_finds_a_leaf_of_the_least_score(problem: Problem) -> None:
    result = search(**problem.asked(order="best_first"))
    path, score = problem.winner()
    assert result.score == score
    assert (result.path, score) in {*problem.priced, (None, None)}
    assert (result.path is None) == (path is None)
    assert (result.proven, result.gap) == (True, 0)


@given(problems(), st.sampled_from(ORDERS))
def test_without_a_bound_every_leaf_is_asked_once(problem: Problem, order: str) -> None:
    asked: Counter[int] = Counter()

    def score(payload: int) -> Number | None:
        asked[payload] += 1
        return problem.score(payload)

    result = search(**problem.asked(score=score, bound=None, order=order))
    assert result.score == problem.winner()[1]
    assert set(asked.values()) <= {1}
    assert asked.total() == result.stats.scored + result.stats.unscored
    assert result.stats.scored == len(list(problem.priced))


def ledger(problem: Problem) -> SearchStats:
    """What the seed says, word by word, on the spec."""
    counts: Counter[str] = Counter()
    threshold = inf if problem.incumbent is None else problem.incumbent

    def enter(spec: Spec, path: Steps) -> None:
        nonlocal threshold
        if spec.payload is not None:
            score = problem.score(spec.payload)
            counts["unscored" if score is None else "scored"] += 1
            threshold = threshold if score is None else min(threshold, score)
            return
        counts["expanded"] += 1
        for decision, say in enumerate(spec.ways):
            step = (*path, (spec.level, decision))
            if say.kind != "child":
                counts[say.kind] += 1
            if say.kind == "unknown" and isinstance(say.below, Spec):
                enter(say.below, step)
            elif say.kind == "child" and isinstance(say.below, Spec):
                judge(say.below, step)

    def judge(spec: Spec, path: Steps) -> None:
        bound = problem.bound(path, Leaf(0))
        if bound is not None and bound >= threshold:
            counts["fathomed"] += 1
        else:
            enter(spec, path)

    judge(problem.spec, ())
    return SearchStats(**counts)


@given(problems())
def test_the_ledger_of_a_depth_first_search_is_the_seeds(problem: Problem) -> None:
    assert search(**problem.asked()).stats == ledger(problem)


@given(problems(), st.sampled_from(ORDERS))
def test_names_of_levels_and_decisions_change_neither_pick_nor_ledger(
    problem: Problem, order: str
) -> None:
    def renamed(tree: Tree[int, int]) -> Tree[str, int]:
        if isinstance(tree, Leaf):
            return tree
        return Choice(
            f"not {tree.level}",
            tuple((f"no. {each}", judged(way)) for each, way in tree.children),
        )

    def judged(way: Judged[int, int]) -> Judged[str, int]:
        if isinstance(way, Child):
            return Child(renamed(way.subtree))
        if isinstance(way, Unknown):
            return Unknown(way.witness, renamed(way.subtree))
        if isinstance(way, Excluded):
            return Excluded(way.witness, judged(way.lifted))
        return way

    def bound(path: Path[str], subtree: Tree[str, int]) -> Number | None:
        steps = tuple((level[4:], int(decision[4:])) for level, decision in path)
        return problem.bound(steps, Leaf(0))

    plain = search(**problem.asked(order=order))
    other = search(renamed(problem.tree), problem.score, bound, problem.incumbent, order=order)
    assert (other.best, other.score, other.stats) == (plain.best, plain.score, plain.stats)


def test_the_published_search_has_its_published_ledger() -> None:
    result = search(SYNTHETIC, price, by_name(b=2.5, e=100, i=10), 5.5)
    assert (result.best, result.path) == (1, (("way", "e"), ("way", "f")))
    assert result.stats == SearchStats(3, 4, 0, 1, 1, 1, 1)
    assert search(SYNTHETIC, price, None, 5.5).stats == SearchStats(4, 5, 0, 0, 1, 1, 1)


@both_orders
def test_the_first_of_equal_leaves_wins(order: str) -> None:
    assert search(choice(a=2, b=1, c=1), price, order=order).path == (("way", "b"),)


@both_orders
def test_the_incumbent_beats_a_leaf_of_its_score(order: str) -> None:
    result = search(choice(a=2), price, incumbent=2, order=order)
    assert (result.best, result.score, result.path, result.proven) == (None, None, None, True)


@both_orders
def test_a_root_that_is_fathomed_leaves_an_empty_ledger(order: str) -> None:
    seen: list[Any] = []

    def bound(path: Path[str], subtree: Tree[str, float]) -> float:
        seen.append((path, subtree))
        return 2

    assert search(SYNTHETIC, price, bound, 2, order=order).stats == SearchStats(fathomed=1)
    assert seen == [((), SYNTHETIC)]


@both_orders
def test_a_root_may_be_a_leaf(order: str) -> None:
    leaf: Tree[str, float] = Leaf(4.0)
    result = search(leaf, price, order=order)
    assert (result.best, result.path, result.stats) == (4, (), SearchStats(scored=1))


@both_orders
def test_a_tree_without_leaves_has_no_best_one(order: str) -> None:
    tree = choice(a=Refuted("no"), b=Excluded("no", Child(Leaf(1.0))))
    result = search(tree, price, order=order)
    assert (result.best, result.proven, result.gap) == (None, True, 0)


@both_orders
def test_a_payload_without_a_score_never_wins(order: str) -> None:
    result = search(
        choice(a=3, b=1), lambda payload: None if payload == 1 else payload, order=order
    )
    assert (result.best, result.stats.unscored) == (3, 1)


@both_orders
def test_a_child_is_made_before_its_bound_is_asked_and_what_is_below_is_not(order: str) -> None:
    leaf = Spec("", payload=0)
    inner = Spec("b", (Say("child", below=leaf),))
    tree = grown(Spec("a", (Say("child", below=inner),)))
    made: dict[Path[int], set[Steps]] = {}

    def bound(path: Path[int], subtree: Tree[int, int]) -> float | None:
        made[path] = set(tree.made)
        return None if len(path) < 1 else 9

    search(tree.tree, float, bound, 9, order=order)
    assert made == {(): set(), (("a", 0),): {(("a", 0),)}}


@both_orders
def test_an_unknown_child_is_entered_without_asking_for_a_bound(order: str) -> None:
    tree = choice(a=5, b=Unknown("not known", choice(c=Unknown("nor this", Leaf(1.0)))))
    result = search(tree, price, by_name(b=inf, c=inf), order=order)
    assert (result.best, result.stats.unknown) == (1, 2)


# --- numbers ---


@both_orders
def test_an_infinite_price_counts_and_never_wins(order: str) -> None:
    result = search(choice(a=inf), price, order=order)
    assert (result.best, result.stats.scored) == (None, 1)


@both_orders
def test_an_infinite_bound_says_that_nothing_below_has_a_price(order: str) -> None:
    result = search(choice(a=1, b=2), price, by_name(a=inf), order=order)
    assert (result.best, result.stats.fathomed) == (2, 1)


@both_orders
def test_a_bound_of_minus_infinity_says_nothing(order: str) -> None:
    bound = by_name(a=-inf, b=-inf)
    assert search(choice(a=1, b=2), price, bound, order=order).stats.scored == 2


@both_orders
def test_whole_numbers_of_any_size_are_compared_exactly(order: str) -> None:
    big = 10**30
    result = search(choice(a=big + 1, b=big), price, order=order)
    assert (result.best, result.score) == (big, big)


@both_orders
def test_numpy_scalars_are_numbers(order: str) -> None:
    # Their annotations do not say so, but they are registered as real numbers.
    single: Any = np.float32
    zero: Any = np.int64(0)
    result = search(choice(a=2, b=1), single, lambda path, tree: zero, order=order)
    assert (type(result.score), result.score) == (float, 1.0)


@both_orders
@pytest.mark.parametrize(
    ("value", "told"),
    [(nan, "nan, which no number can be compared with"), ("3", "'3', which is no number")],
)
def test_a_score_or_bound_that_is_no_number_is_an_error_with_its_path(
    value: Any, told: str, order: str
) -> None:
    tree = choice(a=Child(choice(b=1)))
    with pytest.raises(SpaceError, match=f"the score of way=a > way=b is {told}; expected an int"):
        search(tree, lambda payload: value, order=order)
    with pytest.raises(SpaceError, match=f"the bound of way=a is {told}"):
        search(tree, price, by_name(a=value), order=order)
    with pytest.raises(SpaceError, match=f"the bound of the root is {told}"):
        search(tree, price, lambda path, subtree: value, order=order)
    with pytest.raises(SpaceError, match=f"the incumbent of the search is {told}"):
        search(tree, price, None, value, order=order)


def test_truth_values_are_no_scores() -> None:
    with pytest.raises(SpaceError, match="the score of the root is True, which is no number"):
        search(Leaf(1), lambda payload: True)


def test_an_order_that_is_not_known_is_an_error() -> None:
    known = "known are 'depth_first', 'best_first'"
    with pytest.raises(SpaceError, match=f"order 'breadth_first' is not known; {known}"):
        search(Leaf(1), price, order="breadth_first")


# --- what is raised ---


@both_orders
@pytest.mark.parametrize("where", ["making", "bounding", "scoring"])
def test_what_is_raised_comes_out_with_the_path_and_leaves_the_tree_usable(
    where: str, order: str
) -> None:
    broken = True

    def failing(at: str) -> None:
        if broken and where == at:
            raise OSError("planted")

    def made() -> Tree[str, float]:
        failing("making")
        return Leaf(1)

    def bound(path: Path[str], subtree: Tree[str, float]) -> float:
        if path:
            failing("bounding")
        return 0

    def score(payload: float) -> float:
        failing("scoring")
        return payload

    tree = choice(a=Child(made))
    with pytest.raises(OSError, match="planted") as raised:
        search(tree, score, bound, order=order)
    assert raised.value.__notes__ == [f"while {where} way=a"]
    broken = False
    assert search(tree, score, bound, order=order).best == 1


# --- depth ---


@pytest.fixture(scope="module")
def chain() -> Tree[int, str]:
    """A hundred thousand decisions, each with one way that is refuted."""
    tree: Tree[int, str] = Leaf("end")
    for _ in range(100_000):
        tree = Choice("level", ((0, Child(tree)), (1, Refuted("no"))))
    return tree


@both_orders
def test_trees_may_be_far_deeper_than_the_recursion_limit(
    chain: Tree[int, str], order: str
) -> None:
    result = search(chain, len, order=order, trace=False)
    assert result.path is not None
    assert (result.best, len(result.path)) == ("end", 100_000)
    assert result.stats == SearchStats(expanded=100_000, scored=1, refuted=100_000)


# --- best-first ---


def test_best_first_prices_one_leaf_if_the_bound_is_exact() -> None:
    tree = choice(a=Child(choice(b=5, c=4)), d=Child(choice(e=3, f=2)))
    exact = by_name(a=4, b=5, c=4, d=2, e=3, f=2)
    assert search(tree, price, exact, order="best_first").stats == SearchStats(2, 1, 0, 2)
    assert search(tree, price, exact).stats.scored == 4


def test_best_first_dives_where_bounds_are_equal() -> None:
    tree = choice(a=Child(choice(b=5, c=4)), d=Child(choice(e=3, f=2)))
    assert prices_asked(tree, "best_first") == prices_asked(tree, "depth_first") == [5, 4, 3, 2]


def test_best_first_gives_an_unknown_child_the_bound_of_its_parent() -> None:
    tree = choice(a=Child(choice(b=Unknown("not known", Leaf(5)))), c=4)
    result = search(tree, price, by_name(a=4, c=3), order="best_first")
    # What a says of b is known when b comes up, and c has closed it by then.
    assert result.stats == SearchStats(expanded=1, scored=1, fathomed=1)


def prices_asked(tree: Tree[str, float], order: str) -> list[float]:
    asked: list[float] = []

    def score(payload: float) -> float:
        asked.append(payload)
        return payload

    search(tree, score, order=order)
    return asked


# --- limits ---


@given(problems(), st.integers(0, 5), st.sampled_from(ORDERS))
def test_a_limit_on_leaves_is_kept_and_the_gap_holds(
    problem: Problem, n_leaves: int, order: str
) -> None:
    result = search(**problem.asked(order=order, limit=Limit(leaves=n_leaves)))
    assert result.stats.scored + result.stats.unscored <= n_leaves
    reached = result.score
    if reached is None:
        reached = inf if problem.incumbent is None else problem.incumbent
    least = problem.winner()[1]
    true_gap = 0 if least is None else reached - least
    assert result.gap is None or result.gap >= true_gap
    if result.proven:
        assert (result.gap, result.score) == (0, least)


@given(problems(), st.sampled_from(ORDERS))
def test_a_limit_that_is_not_reached_changes_nothing(problem: Problem, order: str) -> None:
    free = search(**problem.asked(order=order))
    n_leaves = free.stats.scored + free.stats.unscored
    assert search(**problem.asked(order=order, limit=Limit(leaves=n_leaves))) == free


@both_orders
def test_the_gap_is_the_score_less_the_smallest_open_bound(order: str) -> None:
    tree = choice(a=9, b=6, c=Child(choice(d=5)))
    bound = by_name(a=3, b=4, c=4.5)
    result = search(tree, price, bound, order=order, limit=Limit(leaves=1))
    assert (result.best, result.proven, result.gap) == (9, False, 5)


@both_orders
def test_the_gap_of_an_incumbent_that_nothing_has_beaten_is_told(order: str) -> None:
    result = search(choice(a=1), price, by_name(a=1), 8, order=order, limit=Limit(leaves=0))
    assert (result.best, result.proven, result.gap) == (None, False, 7)


@both_orders
def test_nothing_is_known_of_a_gap_without_bounds(order: str) -> None:
    result = search(choice(a=1, b=2), price, order=order, limit=Limit(leaves=1))
    assert (result.best, result.proven, result.gap) == (1, False, None)


@both_orders
def test_what_is_open_at_the_limit_and_cannot_win_is_no_gap(order: str) -> None:
    result = search(choice(a=1, b=2), price, by_name(a=1, b=2), order=order, limit=Limit(leaves=1))
    assert (result.best, result.proven, result.gap, result.stats.fathomed) == (1, True, 0, 1)


@both_orders
def test_time_is_what_the_clock_says(order: str) -> None:
    ticks = iter(range(100, 200))
    limit = Limit(seconds=3, clock=lambda: next(ticks))
    result = search(choice(a=4, b=3, c=2, d=1), price, order=order, limit=limit)
    # 100 at the start, then the root at 101 and a at 102; b comes up at 103.
    assert (result.best, result.proven) == (4, False)


def test_seconds_need_a_clock() -> None:
    with pytest.raises(SpaceError, match=r"limit of 2 seconds without a clock; give clock="):
        Limit(seconds=2)
    clock: Any = 5
    with pytest.raises(
        SpaceError, match=r"limit of 2 seconds with clock 5; give clock=, time\.per"
    ):
        Limit(seconds=2, clock=clock)


@pytest.mark.parametrize("now", [nan, "noon", None])
def test_a_clock_that_shows_no_time_is_refused(now: Any) -> None:
    limit = Limit(seconds=2, clock=lambda: now)
    with pytest.raises(SpaceError, match=f"clock of the limit shows {now!r}; expected seconds"):
        search(SYNTHETIC, price, limit=limit)


@both_orders
def test_a_clock_that_goes_back_or_breaks_loses_nothing(order: str) -> None:
    back = iter([0.0, *range(0, -100, -1)])
    limit = Limit(seconds=1, clock=lambda: next(back))
    assert search(SYNTHETIC, price, order=order, limit=limit).proven
    broken = iter([0.0, 1.0])
    with pytest.raises(StopIteration):
        search(SYNTHETIC, price, order=order, limit=Limit(seconds=9, clock=lambda: next(broken)))


def test_leaves_may_be_counted_by_numpy() -> None:
    limit = Limit(leaves=np.int64(1))  # type: ignore[arg-type]
    assert search(SYNTHETIC, price, limit=limit).stats.scored == 1


def test_a_fraction_is_a_score_and_one_beyond_any_float_is_not() -> None:
    def third(payload: float) -> Any:
        return Fraction(1, 3) + 10**400 if payload == 3 else Fraction(1, 3)

    result = search(choice(a=1), third)
    assert result.score == 1 / 3
    assert verify_trace(choice(a=1), third, None, result.trace)
    with pytest.raises(SpaceError, match=r"the score of way=a is Fraction.*beyond any float"):
        search(choice(a=3), third)


@pytest.mark.parametrize("seconds", [-1, nan, "2"])
def test_a_time_that_is_none_is_refused(seconds: Any) -> None:
    with pytest.raises(SpaceError, match=f"limit of {seconds!r} seconds; expected a number from 0"):
        Limit(seconds=seconds, clock=lambda: 0)


@pytest.mark.parametrize("leaves", [-1, 1.5, True])
def test_a_number_of_leaves_that_is_none_is_refused(leaves: Any) -> None:
    with pytest.raises(SpaceError, match=f"limit of {leaves} leaves; expected a whole number"):
        Limit(leaves=leaves)


def test_a_number_is_no_limit() -> None:
    number: Any = 5
    with pytest.raises(SpaceError, match=r"limit is 5; expected Limit\(leaves=\.\.\.\), Limit"):
        search(SYNTHETIC, price, limit=number)


@both_orders
def test_nothing_is_known_of_a_gap_to_a_score_that_no_float_holds(order: str) -> None:
    result = search(choice(a=10**400, b=2), price, order=order, limit=Limit(leaves=1))
    assert (result.score, result.gap) == (10**400, None)


# --- events ---


@given(problems(), st.sampled_from(ORDERS))
def test_events_can_be_streamed_and_need_not_be_kept(problem: Problem, order: str) -> None:
    streamed: list[Event[int]] = []
    kept = search(**problem.asked(order=order, on_event=streamed.append))
    silent = search(**problem.asked(order=order, trace=False))
    assert kept.trace is not None
    assert silent.trace is None
    assert tuple(streamed) == kept.trace.events
    assert found(silent) == found(kept)


def found(result: SearchResult[int, int]) -> list[Any]:
    return [result.best, result.score, result.path, result.stats, result.proven, result.gap]
