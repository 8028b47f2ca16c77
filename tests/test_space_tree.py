"""Trees of decisions: what is in reach, what is made when, lifted policies, trees of any depth."""

from __future__ import annotations

import copy
import gc
import operator as op
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from threading import Barrier, BrokenBarrierError, Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import einbound.space as space
from einbound.errors import SpaceError
from einbound.space.once import Once
from einbound.space.tree import Child, Choice, Excluded, Leaf, Path, Refuted, Tree, Unknown
from einbound.space.witness import Witness
from space_trees import Say, Spec, Steps, grown, reached, specs

N_DEEP = 100_000
#: Enough for Python to give up, where more would take long.
N_RECURSION = 5_000

#: The library for calls that a type checker would refuse.
untyped: Any = space

EXAMPLE: Tree[str, int] = Choice(
    "a",
    (
        ("first", Child(Leaf(5))),
        ("second", Child(Choice("b", (("x", Child(Leaf(3))), ("y", Child(Leaf(2))))))),
        ("third", Unknown("may spill", Leaf(1))),
        ("fourth", Refuted("does not divide")),
        ("fifth", Excluded("too small", Child(Leaf(0)))),
    ),
)


def told(spec: Spec, kind: str) -> list[tuple[Steps, str]]:
    """Paths and witnesses of one kind of verdict, by the definition."""
    verdicts = [(path, say) for path, say in reached(spec) if isinstance(say, Say)]
    return [(path, say.witness) for path, say in verdicts if say.kind == kind]


def completions(spec: Spec) -> list[tuple[Steps, int]]:
    """Paths and payloads of all leaves, by the definition."""
    trees = [(path, node) for path, node in reached(spec) if isinstance(node, Spec)]
    return [(path, node.payload) for path, node in trees if node.payload is not None]


def most_decisions(spec: Spec) -> int:
    """The depth, by the definition."""
    if spec.payload is not None:
        return 0
    below = [say.below for say in spec.ways if isinstance(say.below, Spec)]
    return 1 + max(map(most_decisions, below), default=0)


def without(spec: Spec, is_lifted: Callable[[int], bool]) -> Spec:
    """The tree without the policies against some decisions, by the definition."""

    def say(decision: int, verdict: Say) -> Say:
        if verdict.kind == "excluded" and is_lifted(decision):
            assert isinstance(verdict.below, Say)
            return say(decision, verdict.below)
        if isinstance(verdict.below, Spec):
            return Say(verdict.kind, verdict.witness, without(verdict.below, is_lifted))
        return verdict

    return Spec(spec.level, tuple(map(say, range(len(spec.ways)), spec.ways)), spec.payload)


def everything(tree: Tree[int, int]) -> tuple[Any, ...]:
    """All that can be asked of a tree."""
    collected = (space.enumerate_leaves, space.refutations, space.exclusions, space.unknowns)
    return (*(ask(tree) for ask in collected), space.count_choices(tree), space.depth(tree))


def deep(n: int = N_DEEP, payload: int = 0) -> Tree[int, int]:
    """One path of n decisions, all given, with a refuted child beside the last."""
    tree: Tree[int, int] = Leaf(payload)
    for level in range(n):
        tree = Choice(
            "level", ((level, Child(tree)), *(((-1, Refuted("odd")),) if level == 0 else ()))
        )
    return tree


def deep_and_lazy(n: int = N_DEEP) -> Tree[int, int]:
    """The same depth, every level made when it is asked for."""
    return Choice("level", ((n, Child(partial(deep_and_lazy, n - 1))),)) if n else Leaf(0)


# What is in reach.


@given(specs())
def test_collectors_are_what_the_definition_says(spec: Spec) -> None:
    tree = grown(spec).tree
    assert list(space.enumerate_leaves(tree)) == completions(spec)
    assert list(space.leaves(tree)) == [payload for _, payload in completions(spec)]
    assert list(space.refutations(tree)) == told(spec, "refuted")
    assert list(space.exclusions(tree)) == told(spec, "excluded")
    assert list(space.unknowns(tree)) == told(spec, "unknown")
    assert space.depth(tree) == most_decisions(spec)
    choices = [node for _, node in reached(spec) if isinstance(node, Spec) and node.payload is None]
    assert space.count_choices(tree) == len(choices)


@given(specs())
def test_nothing_below_a_refuted_or_excluded_child_is_in_reach(spec: Spec) -> None:
    tree = grown(spec).tree
    closed = {path for path, _ in (*space.refutations(tree), *space.exclusions(tree))}
    for path, _ in space.enumerate_leaves(tree):
        assert not closed & {path[:n] for n in range(len(path) + 1)}


def test_an_unknown_child_is_reported_and_entered() -> None:
    nested: Tree[str, int] = Choice("c", (("z", Unknown("settles late", EXAMPLE)),))
    assert space.unknowns(nested) == (
        ((("c", "z"),), "settles late"),
        ((("c", "z"), ("a", "third")), "may spill"),
    )
    assert space.leaves(nested) == (5, 3, 2, 1)


def test_a_leaf_alone_has_no_decision() -> None:
    assert everything(Leaf(7)) == ((((), 7),), (), (), (), 0, 0)


def test_a_choice_without_a_way_out_is_a_decision_without_leaves() -> None:
    tree: Tree[int, int] = Choice("a", ((1, Refuted("odd")), (2, Excluded("dear", Refuted("x")))))
    assert space.leaves(tree) == ()
    assert (space.count_choices(tree), space.depth(tree)) == (1, 1)


def test_a_path_is_rendered_by_the_label_that_is_given() -> None:
    path: Path[int] = (("bm", 16), ("bk", 8))
    assert space.render_path(path) == "bm=16 > bk=8"
    assert space.render_path(path, label=hex) == "bm=0x10 > bk=0x8"
    assert space.render_path(()) == ""


# What is made, and when.


@given(specs())
def test_building_a_choice_makes_nothing_below(spec: Spec) -> None:
    assert grown(spec).made == Counter()


@given(specs())
def test_collectors_make_every_reachable_subtree_once_and_no_excluded_one(spec: Spec) -> None:
    result = grown(spec)
    for _ in range(2):
        everything(result.tree)
    paths = [path for path, node in reached(spec) if isinstance(node, Spec) and path]
    assert result.made == Counter(paths)


def in_threads(n_threads: int, act: Callable[[], object]) -> None:
    """The same act in many threads that start together."""
    barrier = Barrier(n_threads, timeout=30)

    def start() -> None:
        barrier.wait()
        act()

    threads = [Thread(target=start) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert not any(thread.is_alive() for thread in threads)


def test_threads_that_ask_at_once_get_one_subtree() -> None:
    second = Barrier(2)
    made: list[Tree[int, object]] = []
    seen: list[Tree[int, object]] = []

    def make() -> Tree[int, object]:
        leaf: Leaf[object] = Leaf(object())
        made.append(leaf)
        # A second thread gets this far only if nothing holds it back.
        with suppress(BrokenBarrierError):
            second.wait(timeout=0.2)
        return leaf

    child: Child[int, object] = Child(make)
    in_threads(8, lambda: seen.append(child.subtree))
    assert len(made) == 1
    assert [tree is made[0] for tree in seen] == [True] * 8


def test_threads_that_walk_one_tree_make_each_part_once() -> None:
    spec = Spec(
        "a",
        tuple(Say("child", "", Spec("b", (Say("child", "", Spec("", (), n)),))) for n in range(50)),
    )
    result = grown(spec)
    found: list[tuple[int, ...]] = []
    in_threads(4, lambda: found.append(space.leaves(result.tree)))
    assert found == [tuple(range(50))] * 4
    assert set(result.made.values()) == {1}


def test_a_callable_that_failed_is_asked_again() -> None:
    busy = [OSError("busy")]

    def make() -> Tree[int, int]:
        if busy:
            raise busy.pop()
        return Leaf(1)

    child: Child[int, int] = Child(make)
    with pytest.raises(OSError, match="busy"):
        _ = child.subtree
    assert child.subtree == Leaf(1)


def test_a_subtree_that_asks_for_itself_is_refused() -> None:
    verdicts: list[Child[int, int]] = []
    verdicts.append(Child(lambda: verdicts[0].subtree))
    for _ in range(2):
        with pytest.raises(SpaceError, match=r"a subtree asks for itself .*; expected a callable"):
            _ = verdicts[0].subtree


def test_what_interrupts_the_making_leaves_the_subtree_to_be_made() -> None:
    calls: list[int] = []

    def make() -> Tree[int, int]:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return Leaf(7)

    child: Child[int, int] = Child(make)
    with pytest.raises(KeyboardInterrupt):
        _ = child.subtree
    assert child.subtree == Leaf(7)


def test_a_value_made_once_lets_its_maker_go() -> None:
    class Maker:
        def __call__(self) -> int:
            return 3

    once = Once(Maker())
    assert (once.get(), once.get()) == (3, 3)
    assert not any(isinstance(each, Maker) for each in gc.get_referents(once))


# Policies lifted.


@given(specs(), st.sets(st.integers(0, 3)))
def test_lifting_gives_the_same_tree_without_these_policies(spec: Spec, some: set[int]) -> None:
    lifted = space.lift_where(grown(spec).tree, some.__contains__)
    assert everything(lifted) == everything(grown(without(spec, some.__contains__)).tree)


@given(specs(), st.sets(st.integers(0, 3)))
def test_lifting_keeps_every_leaf_and_adds_only_what_was_excluded(
    spec: Spec, some: set[int]
) -> None:
    tree = grown(spec).tree
    before = space.enumerate_leaves(tree)
    hidden = {path for path, _ in space.exclusions(tree)}
    after = space.enumerate_leaves(space.lift_where(tree, some.__contains__))
    assert [leaf for leaf in after if leaf in before] == list(before)
    for path, _ in set(after) - set(before):
        (lifted,) = hidden & {path[:n] for n in range(len(path) + 1)}
        assert lifted[-1][1] in some


@given(specs())
def test_lifting_makes_nothing_but_what_the_first_level_hides(spec: Spec) -> None:
    result = grown(spec)
    space.lift_where(result.tree, lambda _: True)
    hidden = [((spec.level, n), ("lifted", 0)) for n, _ in enumerate(spec.ways)]
    assert set(result.made) <= set(hidden)


@given(specs())
def test_a_lift_makes_no_part_of_the_tree_twice(spec: Spec) -> None:
    result = grown(spec)
    for _ in range(2):
        everything(space.lift_where(result.tree, lambda decision: decision > 0))
    assert all(n == 1 for n in result.made.values())


def test_one_policy_is_lifted_at_a_time_and_the_law_stays() -> None:
    verdict: Excluded[int, int] = Excluded("dear", Excluded("odd size", Refuted("does not fit")))
    once = space.lift_excluded(verdict)
    assert once == Excluded("odd size", Refuted("does not fit"))
    assert space.lift_excluded(once) == Refuted("does not fit")


@pytest.mark.parametrize("verdict", [Child(Leaf(1)), Unknown("may spill", Leaf(1)), Refuted("odd")])
def test_what_is_not_excluded_is_lifted_to_itself(verdict: Child[int, int]) -> None:
    assert space.lift_excluded(verdict) is verdict


def test_an_excluded_unknown_child_is_unknown_when_lifted() -> None:
    hidden: Excluded[int, int] = Excluded("dear", lambda: Unknown("may spill", lambda: Leaf(1)))
    lifted = space.lift_where(Choice("a", ((1, hidden),)), lambda _: True)
    assert space.unknowns(lifted) == (((("a", 1),), "may spill"),)
    assert space.leaves(lifted) == (1,)


# Trees as records.


def test_trees_that_were_given_the_same_are_equal() -> None:
    same = pickle.loads(pickle.dumps(EXAMPLE))
    assert same == EXAMPLE
    assert same is not EXAMPLE
    assert hash(same) == hash(EXAMPLE)


@pytest.mark.parametrize(
    "other",
    [
        Leaf(1),
        Choice("b", ((1, Child(Leaf(1))),)),
        Choice("a", ((2, Child(Leaf(1))),)),
        Choice("a", ((1, Child(Leaf(2))),)),
        Choice("a", ((1, Unknown("x", Leaf(1))),)),
        Choice("a", ((1, Child(lambda: Leaf(1))),)),
        Choice("a", ((1, Child(Leaf(1))), (2, Refuted("x")))),
        "a",
    ],
    ids=repr,
)
def test_trees_that_differ_anywhere_are_not_equal(other: object) -> None:
    assert Choice("a", ((1, Child(Leaf(1))),)) != other


def test_a_lazy_tree_is_pickled_as_it_was_given() -> None:
    tree = deep_and_lazy(3)
    space.leaves(tree)
    again = pickle.loads(pickle.dumps(tree))
    assert repr(again.children[0][1]) == "Child(...)"
    assert space.enumerate_leaves(again) == space.enumerate_leaves(tree)


def test_comparing_makes_nothing() -> None:
    def make() -> Tree[int, int]:
        raise AssertionError("made")

    tree: Tree[int, int] = Choice("a", ((1, Child(make)), (2, Excluded("dear", Child(make)))))
    assert tree == copy.copy(tree)
    assert hash(tree) == hash(copy.copy(tree))
    assert repr(tree) == "Choice('a', {1: Child, 2: Excluded})"


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="cannot assign to field 'level'"):
        untyped.Choice("a", ()).level = "z"


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        (Child(Leaf(payload=5)), "Child(Leaf(payload=5))"),
        (Child(lambda: Leaf(1)), "Child(...)"),
        (Unknown("why", Leaf(1)), "Unknown('why', Leaf(payload=1))"),
        (Excluded("why", Excluded("too", Refuted("x"))), "Excluded('why', Excluded)"),
        (Refuted("why"), "Refuted(witness='why')"),
    ],
)
def test_a_record_is_shown_no_deeper_than_its_first_decision(record: object, shown: str) -> None:
    assert repr(record) == shown


def test_a_subtree_in_many_places_is_compared_and_written_once() -> None:
    # Written out as a tree, this has 2**200 leaves.
    def shared() -> Tree[int, int]:
        tree: Tree[int, int] = Leaf(0)
        for _ in range(200):
            tree = Choice("a", ((0, Child(tree)), (1, Child(tree))))
        return tree

    assert shared() == shared()
    assert len(pickle.dumps(shared())) < 50_000
    assert pickle.loads(pickle.dumps(shared())) == shared()


# Deep trees.


@pytest.fixture(scope="module")
def deep_tree() -> Tree[int, int]:
    return deep()


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Spares the time that the collector takes to look at everything again and again."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("make", [None, deep_and_lazy], ids=["given", "lazy"])
@pytest.mark.usefixtures("no_collector")
def test_collectors_reach_the_end_of_a_deep_tree(
    make: Callable[[], Tree[int, int]] | None, deep_tree: Tree[int, int]
) -> None:
    tree = make() if make else deep_tree
    ((path, payload),) = space.enumerate_leaves(tree)
    assert (len(path), payload) == (N_DEEP, 0)
    assert space.depth(tree) == space.count_choices(tree) == N_DEEP
    assert space.leaves(tree) == (0,)
    assert space.unknowns(tree) == space.exclusions(tree) == ()
    refuted = {len(path) for path, _ in space.refutations(tree)}
    assert refuted == (set() if make else {N_DEEP})


@pytest.mark.usefixtures("no_collector")
def test_a_deep_tree_is_lifted_and_lifted_again(deep_tree: Tree[int, int]) -> None:
    hidden: Tree[int, int] = Choice("top", ((1, Excluded("dear", Child(deep_tree))),))
    lifted = space.lift_where(space.lift_where(hidden, lambda _: True), lambda _: True)
    assert space.leaves(lifted) == (0,)


@pytest.mark.usefixtures("no_collector")
def test_a_deep_tree_is_pickled_and_compared(deep_tree: Tree[int, int]) -> None:
    again = pickle.loads(pickle.dumps(deep_tree))
    assert again == deep_tree
    assert hash(again) == hash(deep_tree)
    assert repr(again) == repr(deep_tree) == f"Choice('level', {{{N_DEEP - 1}: Child}})"


def test_a_difference_far_down_is_found() -> None:
    assert deep(N_RECURSION) != deep(N_RECURSION, payload=1)
    assert deep(N_RECURSION) == copy.deepcopy(deep(N_RECURSION))


def test_many_policies_on_one_decision_are_lifted_together() -> None:
    verdict: Any = Child(Leaf(1))
    for n in range(N_RECURSION):
        verdict = Excluded(f"policy {n}", verdict)
    assert verdict == pickle.loads(pickle.dumps(verdict))
    assert repr(verdict) == f"Excluded('policy {N_RECURSION - 1}', Excluded)"
    assert isinstance(hash(verdict), int)
    tree: Tree[int, int] = Choice("a", ((0, verdict),))
    assert space.leaves(space.lift_where(tree, lambda _: True)) == (1,)


class Payload:
    """What counts how many of it there are."""

    n_alive = 0

    def __init__(self) -> None:
        Payload.n_alive += 1

    def __del__(self) -> None:
        Payload.n_alive -= 1


@pytest.mark.usefixtures("no_collector")
def test_deep_trees_are_freed() -> None:
    def lazy(n: int) -> Tree[int, Payload]:
        return Choice("a", ((n, Child(lambda: lazy(n - 1))),)) if n else Leaf(Payload())

    given: Tree[int, Payload] = Leaf(Payload())
    for n in range(N_DEEP):
        given = Choice("a", ((n, Child(given)),))
    made = lazy(N_DEEP)
    space.leaves(made)
    lifted = space.lift_where(lazy(N_RECURSION), lambda _: True)
    space.leaves(lifted)
    assert Payload.n_alive == 3
    del given, made, lifted
    gc.collect()
    assert Payload.n_alive == 0


# What is refused.


def bad_children(children: Any) -> Callable[[], object]:
    return lambda: Choice("bm", children)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (bad_children(((16, Leaf(1)),)), r"bm=16 has Leaf\(payload=1\) for its verdict; expected"),
        (bad_children((Child(Leaf(1)),)), r"choice 'bm' has Child\(Leaf.* expected pairs"),
        (bad_children(((1, 2, 3),)), r"choice 'bm' has \(1, 2, 3\) among its children"),
        (bad_children("ab"), "choice 'bm' has 'a' among its children"),
        (bad_children(7), "the children of choice 'bm' are 7; expected pairs"),
        (
            bad_children(((1, Refuted("x")), (1, Refuted("y")))),
            "choice 'bm' has decision 1 twice; a decision identifies its child",
        ),
        (bad_children((([1], Refuted("x")),)), r"decision \[1\] of choice 'bm' cannot be hashed"),
        (lambda: untyped.Choice(3, ()), "the level of a choice is 3; expected its name"),
        (lambda: untyped.Child(3), r"Child was given 3; expected a tree"),
        (lambda: untyped.Child(Refuted("x")), "Child was given Refuted.*expected a tree"),
        (lambda: untyped.Unknown("x", None), "Unknown was given None; expected a tree"),
        (lambda: untyped.Unknown(Leaf(1), Leaf(1)), "Unknown has witness Leaf"),
        (lambda: untyped.Excluded("x", Leaf(1)), "Excluded was given Leaf.*a verdict"),
        (lambda: untyped.Excluded(1, Refuted("x")), "Excluded has witness 1; expected"),
        (lambda: untyped.Refuted(None), "Refuted has witness None; expected a Witness"),
        (lambda: untyped.lift_excluded(Leaf(1)), "Leaf.* is not a verdict"),
        (lambda: untyped.leaves(Child(Leaf(1))), r"Child\(Leaf.* is not a tree"),
        (lambda: untyped.lift_where(Refuted("x"), bool), "Refuted.* is not a tree"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(build: Callable[[], object], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        build()


def test_a_callable_that_makes_no_tree_is_named_with_its_level_and_decision() -> None:
    wrong: Any = untyped.Child(lambda: 3)
    tree: Tree[int, int] = Choice("bm", ((16, wrong),))
    for _ in range(2):
        with pytest.raises(SpaceError, match="the callable of bm=16 made 3; expected a tree"):
            space.leaves(tree)


def test_an_exclusion_that_hides_no_verdict_is_named_when_it_is_lifted() -> None:
    wrong: Any = untyped.Excluded("dear", lambda: Leaf(1))
    tree: Tree[int, int] = Choice("bm", ((16, wrong),))
    with pytest.raises(SpaceError, match=r"the callable of bm=16 made Leaf.* expected a verdict"):
        space.lift_where(tree, lambda _: True)


def test_a_verdict_that_a_lift_brought_out_knows_its_place() -> None:
    wrong: Any = untyped.Excluded("dear", lambda: untyped.Child(lambda: None))
    tree: Tree[int, int] = Choice("bm", ((16, wrong),))
    lifted = space.lift_where(tree, lambda _: True)
    with pytest.raises(SpaceError, match="the callable of bm=16 made None"):
        space.leaves(lifted)
    with pytest.raises(SpaceError, match="the callable of a verdict made None"):
        _ = untyped.Child(lambda: None).subtree


# Records as JSON.

VALUES = st.one_of(
    st.integers(), st.floats(allow_nan=False), st.text(max_size=5), st.none(), st.booleans()
)
WITNESSES = st.builds(
    Witness,
    st.text(max_size=10),
    st.lists(st.tuples(st.text(max_size=5), VALUES), max_size=3).map(tuple),
    VALUES,
)
COUNTS = st.integers(0, 10**30)
STATS = st.builds(space.SearchStats, *[COUNTS] * 7)
PLACEMENTS: st.SearchStrategy[space.Placement] = st.one_of(
    st.just(space.Inline()),
    st.just(space.Materialize()),
    st.builds(space.StageAt, st.builds(space.LoopId, st.just("s"), st.integers(0, 9))),
)


@given(st.one_of(WITNESSES, STATS, PLACEMENTS))
def test_records_come_back_from_json(record: Witness | space.SearchStats | space.Placement) -> None:
    text = record.to_json()
    back = type(record).from_json(text)
    assert back == record
    assert hash(back) == hash(record)
    assert back.to_json() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the text is no JSON: .*expected what to_json"),
        ("[1]", "the document has schema 'list'; expected 'einbound.search_stats'"),
        (Witness("x").to_json(), "has schema 'einbound.witness'; expected 'einbound.search_stats'"),
        ("VERSION", "has version 2; this einbound reads version 1; write it again"),
        ("MISSING", "the einbound.search_stats is damaged: it has no field 'scored'"),
        ("NEGATIVE", "the einbound.search_stats is damaged: scored is -1; expected a count"),
    ],
)
def test_other_texts_are_no_ledger(text: str, message: str) -> None:
    good = space.SearchStats().to_json()
    damaged = {
        "VERSION": good.replace('"version": 1', '"version": 2'),
        "MISSING": good.replace('"scored"', '"scores"'),
        "NEGATIVE": good.replace('"scored": 0', '"scored": -1'),
    }
    with pytest.raises(SpaceError, match=message):
        space.SearchStats.from_json(damaged.get(text, text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"StageAt"', '"Nowhere"', "no placement is called 'Nowhere'; expected 'Inline'"),
        ('"number": 1', '"number": -1', "the number of a loop is -1; expected a whole number"),
        ('"number": 1', '"depth": 1', "the einbound.placement is damaged: .*'depth'"),
        ('"StageAt"', '"Inline"', "the document has placement inline; expected StageAt"),
    ],
)
def test_other_texts_are_no_placement(old: str, new: str, message: str) -> None:
    text = space.StageAt(space.LoopId("s", 1)).to_json()
    with pytest.raises(SpaceError, match=message):
        space.StageAt.from_json(text.replace(old, new))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: untyped.Witness(3), "the rule of a witness is 3; expected a sentence"),
        (
            lambda: untyped.Witness.of("fits", bm=[1]),
            r"bm of the witness 'fits' is \[1\] of type list",
        ),
        (lambda: untyped.Witness.of("fits", limit=(1,)), "limit of the witness 'fits' is"),
        (lambda: space.SearchStats(scored=-1), "scored is -1; expected a count"),
        (lambda: untyped.SearchStats(scored=1.0), "scored is 1.0; expected a count"),
        (lambda: space.LoopId("", 1), "the schedule of a loop is ''; expected what identifies"),
        (lambda: space.LoopId("s", True), "the number of a loop is True; expected a whole number"),
        (lambda: untyped.StageAt(3), "a value cannot be staged at 3; expected a LoopId"),
    ],
)
def test_records_of_nonsense_are_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        build()


def test_a_witness_reads_as_a_sentence() -> None:
    assert str(Witness.of("bm must divide m", bm=16, m=20)) == "bm must divide m (bm = 16, m = 20)"
    assert str(Witness.of("it must fit", limit=10)) == "it must fit (limit 10)"
    assert str(Witness("never")) == "never"


# Ledgers and placements.


@given(STATS, STATS, STATS)
def test_ledgers_add_from_zero_in_any_order(
    a: space.SearchStats, b: space.SearchStats, c: space.SearchStats
) -> None:
    assert a + space.SearchStats() == a
    assert a + b == b + a
    assert sum([a, b, c]) == a + (b + c)
    assert (a + b).fathomed == a.fathomed + b.fathomed


def test_a_ledger_and_a_number_do_not_add() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = 1 + space.SearchStats()
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = untyped.SearchStats() + 1


@given(st.lists(PLACEMENTS, max_size=5))
def test_placements_are_ordered_from_the_least_kept_to_the_most(
    placements: list[space.Placement],
) -> None:
    def key(each: space.Placement) -> tuple[int, int]:
        kinds = (space.Inline, space.StageAt, space.Materialize)
        return kinds.index(type(each)), each.loop.number if isinstance(each, space.StageAt) else 0

    assert sorted(placements) == sorted(placements, key=key)
    for a, b in pairwise(sorted(placements)):
        assert a <= b
        assert b >= a
        assert (a < b) == (a != b) == (b > a)


@pytest.mark.parametrize("compare", [op.eq, op.ne, op.lt, op.le, op.gt, op.ge])
@pytest.mark.parametrize("wrapped", [space.StageAt, lambda loop: loop], ids=["placement", "loop"])
def test_loops_of_two_schedules_cannot_be_compared(
    wrapped: Callable[[space.LoopId], Any], compare: Callable[[Any, Any], bool]
) -> None:
    mine, other = wrapped(space.LoopId("mine", 1)), wrapped(space.LoopId("other", 1))
    message = "loop 1 of mine cannot be compared with loop 1 of other; expected loops of one"
    with pytest.raises(SpaceError, match=message):
        compare(mine, other)
    assert len({mine, other}) == 2
    assert mine != "loop 1 of mine"


def test_a_placement_says_what_it_is() -> None:
    stage = space.StageAt(space.LoopId("s", 2))
    path = (("T1", space.Inline()), ("T2", stage), ("T3", space.Materialize()))
    assert space.render_path(path) == "T1=inline > T2=stage at loop 2 of s > T3=materialize"


def test_the_package_has_every_documented_name() -> None:
    documented = """
    Leaf Choice Child Unknown Excluded Refuted leaves enumerate_leaves refutations exclusions
    unknowns lift_excluded count_choices depth render_path search SearchStats SearchResult
    verify_trace Inline StageAt Materialize
    """
    assert set(documented.split()) <= set(space.__all__)
    assert all(callable(getattr(space, name)) for name in documented.split())
