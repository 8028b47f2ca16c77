"""A trace proves its search, and one that was tampered with does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from math import inf
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from einbound.errors import SpaceError
from einbound.machine.peak import tracked_growth
from einbound.space import (
    Child,
    Choice,
    Event,
    Excluded,
    Fathomed,
    Leaf,
    Left,
    Limit,
    Met,
    Path,
    Refuted,
    Scored,
    SearchStats,
    Trace,
    Tree,
    Unknown,
    Verdict,
    Verification,
    Witness,
    search,
    verify_bound,
    verify_trace,
)
from space_problems import Number, Problem, problems
from space_trees import Steps

ORDERS = ["depth_first", "best_first"]
limits = st.none() | st.builds(Limit, leaves=st.integers(0, 4))


def traced(problem: Problem, **how: Any) -> Trace[int]:
    trace = search(**problem.asked(**how)).trace
    assert trace is not None
    return trace


def verified(problem: Problem, trace: Trace[int], **how: Any) -> Verification[int]:
    given = {"incumbent": problem.incumbent, **how}
    return verify_trace(problem.tree, problem.score, problem.bound, trace, **given)


def price(payload: float) -> float:
    return payload


SPACE: Tree[str, float] = Choice(
    "size",
    (
        ("s", Child(Leaf(4.0))),
        ("m", Refuted(Witness.of("m must divide n", n=7, m=2, limit=7))),
        ("l", Child(Choice("way", (("x", Child(Leaf(6.0))), ("y", Child(Leaf(5.0))))))),
        ("u", Unknown("may spill", Leaf(3.0))),
        ("e", Excluded("never worth it", Child(Leaf(1.0)))),
    ),
)


def floor(path: Path[str], subtree: Tree[str, float]) -> float | None:
    """Bounds of SPACE that hold."""
    return {(): 0.5, ("l",): 5.0}.get(tuple(decision for _, decision in path))


def space_trace(**how: Any) -> Trace[str]:
    trace = search(SPACE, price, floor, **how).trace
    assert trace is not None
    return trace


# --- what is true is confirmed ---


@given(problems(), st.sampled_from(ORDERS), limits)
def test_the_trace_of_every_search_is_confirmed_and_says_what_its_result_says(
    problem: Problem, order: str, limit: Limit | None
) -> None:
    result = search(**problem.asked(order=order, limit=limit))
    assert result.trace is not None
    verification = verified(problem, result.trace)
    assert verification, str(verification)
    for each in fields(result.trace.outcome):
        assert getattr(result, each.name) == getattr(result.trace.outcome, each.name)


@pytest.mark.parametrize("order", ORDERS)
def test_traces_of_trees_deeper_than_the_recursion_limit_are_confirmed(order: str) -> None:
    tree: Tree[int, float] = Leaf(0.0)
    for payload in range(1_200):
        tree = Choice("level", ((0, Child(tree)), (1, Child(Leaf(float(payload))))))
    trace = search(tree, price, lambda path, subtree: 0, order=order).trace
    assert verify_trace(tree, price, lambda path, subtree: 0, trace)


def test_a_trace_tells_what_happened() -> None:
    size = "size"
    assert space_trace(limit=Limit(leaves=1)).events == (
        Scored(0, ((size, "s"),), 4.0, inf),
        Met(1, ((size, "m"),), Verdict.REFUTED, Witness.of("m must divide n", 7, n=7, m=2)),
        Fathomed(2, ((size, "l"),), 5.0, 4.0),
        Met(3, ((size, "u"),), Verdict.UNKNOWN, "may spill"),
        Left(4, ((size, "u"),), 0.5),
        Met(5, ((size, "e"),), Verdict.EXCLUDED, "never worth it"),
    )


# --- what is false is found ---


def dropped(events: list[Event[int]], at: int, data: st.DataObject) -> None:
    del events[at]


def doubled(events: list[Event[int]], at: int, data: st.DataObject) -> None:
    events.insert(data.draw(st.integers(0, len(events))), events[at])


def reordered(events: list[Event[int]], at: int, data: st.DataObject) -> None:
    other = data.draw(st.integers(0, len(events) - 1))
    events[at], events[other] = events[other], events[at]


def edited(events: list[Event[int]], at: int, data: st.DataObject) -> None:
    event = events[at]
    name = data.draw(st.sampled_from([each.name for each in fields(event)]))
    events[at] = replace(event, **{name: altered(name, getattr(event, name), data)})


def altered(name: str, value: Any, data: st.DataObject) -> Any:
    """Another value for a field."""
    if name == "path":
        return data.draw(st.sampled_from([value[:-1], (*value, ("a", 0)), (("z", 0), *value[1:])]))
    if name == "verdict":
        return data.draw(st.sampled_from(Verdict))
    if name == "witness":
        return f"not {value}"
    return data.draw(st.none() | st.integers(-4, 8) | st.integers(-8, 16).map(lambda n: n / 2))


@given(
    problems(),
    st.sampled_from(ORDERS),
    limits,
    st.sampled_from([dropped, doubled, reordered, edited]),
    st.data(),
)
def test_events_that_were_tampered_with_are_found(
    problem: Problem,
    order: str,
    limit: Limit | None,
    tamper: Callable[[list[Event[int]], int, st.DataObject], None],
    data: st.DataObject,
) -> None:
    trace = traced(problem, order=order, limit=limit)
    assume(trace.events)
    events = list(trace.events)
    tamper(events, data.draw(st.integers(0, len(events) - 1)), data)
    assume(tuple(events) != trace.events)
    assert not verified(problem, replace(trace, events=tuple(events)))


@given(problems(), st.sampled_from(["dropped", "doubled", "swapped"]), st.data())
def test_new_numbers_do_not_hide_tampering_with_a_depth_first_search(
    problem: Problem, tamper: str, data: st.DataObject
) -> None:
    trace = traced(problem)
    assume(len(trace.events) > 1)
    events = list(trace.events)
    at = data.draw(st.integers(0, len(events) - 2))
    pair = events[at : at + 2]
    instead = {"dropped": pair[1:], "doubled": [pair[0], *pair], "swapped": pair[::-1]}
    events[at : at + 2] = instead[tamper]
    told = tuple(replace(event, step=step) for step, event in enumerate(events))
    verification = verified(problem, replace(trace, events=told))
    assert not verification
    # What is wrong is found where it begins, or where that shows first.
    assert verification.step is None or verification.step >= at


@given(problems(), st.sampled_from(ORDERS), limits, st.data())
def test_an_outcome_that_does_not_follow_is_found(
    problem: Problem, order: str, limit: Limit | None, data: st.DataObject
) -> None:
    trace = traced(problem, order=order, limit=limit)
    outcome = trace.outcome
    name = data.draw(st.sampled_from([each.name for each in fields(outcome)]))
    others = [event.path for event in trace.events if event.path != outcome.path]
    false: dict[str, Any] = {
        "path": data.draw(st.sampled_from([*others, (("z", 0),)])),
        "score": 99,
        "stats": outcome.stats + SearchStats(**{data.draw(st.sampled_from(COUNTS)): 1}),
        "proven": not outcome.proven,
        "gap": 99,
    }
    told = replace(outcome, **{name: false[name]})
    verification = verified(problem, replace(trace, outcome=told))
    assert not verification
    assert str(verification).startswith(f"the {name} was told as ")


COUNTS = [each.name for each in fields(SearchStats)]


@given(problems(), st.sampled_from(ORDERS), st.data())
def test_a_bound_that_exceeds_the_score_of_what_it_fathomed_is_found(
    problem: Problem, order: str, data: st.DataObject
) -> None:
    raised = data.draw(st.integers(1, 6))

    def bound(path: Steps, subtree: Tree[int, int]) -> Number | None:
        below = problem.bound(path, subtree)
        return None if below is None else below + raised * (len(path) % 2)

    result = search(**problem.asked(bound=bound, order=order))
    verification = verify_trace(problem.tree, problem.score, bound, result.trace)
    wrong = result.score != problem.winner()[1]
    assert not (wrong and verification)
    if wrong:
        assert "exceeds the score" in verification.reason
        assert not verify_bound(problem.tree, problem.score, bound)


def test_a_bound_that_exceeds_a_score_is_found_by_an_audit_only() -> None:
    def bound(path: Path[str], subtree: Tree[str, float]) -> float | None:
        return 10 if path and path[-1][1] == "l" else None

    tree = Choice("size", (("s", Child(Leaf(9.0))), ("l", Child(Leaf(5.0)))))
    trace = search(tree, price, bound).trace
    assert verify_trace(tree, price, bound, trace, audit=False)
    told = str(verify_trace(tree, price, bound, trace))
    assert told == "step 1: the bound 10 exceeds the score 5.0 of this leaf below (size=l)"


@pytest.mark.parametrize("order", ORDERS)
def test_a_bound_that_exceeds_a_score_is_found_though_it_left_nothing_out(order: str) -> None:
    def bound(path: Path[str], subtree: Tree[str, float]) -> float | None:
        return {(): 0, ("l",): 5, ("l", "x"): 2}.get(tuple(each for _, each in path))

    below = Choice("way", (("x", Child(Leaf(3.0))),))
    tree = Choice("size", (("l", Child(below)), ("s", Child(Leaf(9.0)))))
    trace = search(tree, price, bound, order=order).trace
    assert trace is not None
    assert trace.outcome.score == 3.0
    verification = verify_trace(tree, price, bound, trace, audit=False)
    assert verification.reason == "the bound 5 exceeds the score 3.0"
    assert verification.path == (("size", "l"), ("way", "x"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"step": 7}, "step 2: the number was told as 7, and is 2 (size=l)"),
        ({"bound": 6.0}, "step 2: the bound was told as 6.0, and is 5.0 (size=l)"),
        ({"threshold": 4.5}, "step 2: the threshold was told as 4.5, and is 4.0 (size=l)"),
        ({"path": ()}, "step 0: an event of Scored is not due (size=s)"),
    ],
)
def test_the_first_false_step_is_named(change: dict[str, Any], told: str) -> None:
    trace = space_trace()
    events = [*trace.events]
    events[2] = replace(events[2], **change)
    assert str(verify_trace(SPACE, price, floor, replace(trace, events=tuple(events)))) == told


def test_a_fathom_that_was_not_due_is_named() -> None:
    trace = space_trace()
    hasty = replace(trace, events=(Fathomed(0, (), 0.5, inf),))
    told = str(verify_trace(SPACE, price, floor, hasty))
    assert told == "step 0: the bound 0.5 is below the threshold inf (the root)"


def test_events_that_come_too_early_or_never_are_named() -> None:
    trace = space_trace()
    early = replace(trace, events=(trace.events[1], trace.events[0], *trace.events[2:]))
    told = str(verify_trace(SPACE, price, floor, early))
    assert told == "step 0: an event of Scored is due before (size=s)"
    short = replace(trace, events=trace.events[:-1])
    told = str(verify_trace(SPACE, price, floor, short))
    assert told == "an event of Met was never told (size=e)"


def test_another_tree_score_bound_or_incumbent_is_told_apart() -> None:
    trace = space_trace(incumbent=4.5)
    assert verify_trace(SPACE, price, floor, trace, incumbent=4.5)
    assert not verify_trace(Leaf(4.0), price, floor, trace)
    assert not verify_trace(SPACE, lambda payload: payload - 0.5, floor, trace)
    assert not verify_trace(SPACE, price, None, trace)
    told = str(verify_trace(SPACE, price, floor, trace, incumbent=4))
    assert told == "the incumbent was told as 4.5, and is 4"


def test_a_trace_that_was_not_kept_cannot_be_verified() -> None:
    trace = search(SPACE, price, trace=False).trace
    with pytest.raises(SpaceError, match="there is no trace to verify; search with trace=True"):
        verify_trace(SPACE, price, None, trace)
    result: Any = search(SPACE, price)
    with pytest.raises(SpaceError, match=r"is no trace; expected the trace of a result of search"):
        verify_trace(SPACE, price, None, result)


def test_expanded_nodes_are_not_kept_so_that_deep_trees_can_be_verified() -> None:
    tree: Tree[int, float] = Leaf(0.0)
    for _ in range(4_000):
        tree = Choice("level", ((0, Child(tree)),))
    trace = search(tree, price).trace
    # The paths of all nodes would take 64 MiB together.
    assert tracked_growth(lambda: verify_trace(tree, price, None, trace)) < 4 * 2**20


# --- bounds by themselves ---


@given(problems())
def test_bounds_that_rise_along_paths_and_never_exceed_a_score_are_confirmed(
    problem: Problem,
) -> None:
    def bound(path: Steps, subtree: Tree[int, int]) -> Number:
        return min((s for p, s in problem.priced if p[: len(path)] == path), default=inf)

    assert verify_bound(problem.tree, problem.score, bound)


def test_a_bound_that_falls_along_a_path_is_found() -> None:
    def bound(path: Path[str], subtree: Tree[str, float]) -> float:
        return 1.0 if path and path[-1][1] == "x" else 2.0

    told = str(verify_bound(SPACE, price, bound))
    assert told == "the bound falls from 2.0 to 1.0 (size=l > way=x)"


def test_bounds_are_not_asked_of_what_cannot_be_entered_or_is_unknown() -> None:
    asked: list[Path[str]] = []

    def bound(path: Path[str], subtree: Tree[str, float]) -> None:
        asked.append(path)

    assert verify_bound(SPACE, price, bound)
    assert ["".join(each for _, each in path) for path in asked] == ["", "s", "l", "lx", "ly"]


# --- as text ---


@given(problems(), st.sampled_from(ORDERS), limits)
def test_a_trace_comes_back_from_json(problem: Problem, order: str, limit: Limit | None) -> None:
    trace = traced(problem, order=order, limit=limit)
    assert Trace.from_json(trace.to_json()) == trace


def test_witnesses_come_back_from_json() -> None:
    trace = space_trace()
    assert Trace.from_json(trace.to_json()) == trace
    tree: Tree[str, float] = Choice("a", (("b", Refuted(Witness.of("x < y", inf, x="inf"))),))
    unbounded = search(tree, price).trace
    assert unbounded is not None
    assert Trace.from_json(unbounded.to_json()) == unbounded


def test_decisions_of_any_type_are_written_by_the_caller() -> None:
    tree = Choice("tile", (((8, 4), Child(Leaf(1.0))),))
    trace = search(tree, price).trace
    assert trace is not None
    with pytest.raises(SpaceError, match=r"decision \(8, 4\) is of type tuple, .* give encode="):
        trace.to_json()
    assert Trace.from_json(trace.to_json(encode=list), decode=tuple) == trace


@pytest.mark.parametrize(
    "damage",
    [
        ('"scored"', '"told"'),
        ('"events"', '"event"'),
        ('"depth_first"', '"any_first"'),
        ('"step": 0', '"number": 0'),
        ('"step": 0', '"step": "0"'),
        ('"score": 4.0', '"score": "four"'),
        ('"score": 4.0', '"score": {"float": "nan"}'),
        ('"threshold": 4.0', '"threshold": [4]'),
        ('"proven": true', '"proven": 1'),
        ("einbound.search_trace", "einbound.plan"),
        ("{", "["),
    ],
)
def test_a_damaged_text_is_an_error(damage: tuple[str, str]) -> None:
    text = space_trace().to_json()
    assert damage[0] in text
    with pytest.raises(SpaceError, match=r"damaged|schema|no JSON"):
        Trace.from_json(text.replace(*damage))
