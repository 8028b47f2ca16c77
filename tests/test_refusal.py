"""Refusals are honest: the smallest peak that is named can be had, and so can all above it."""

from __future__ import annotations

import random
import string
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einbound as eb
from brute import Node, random_case
from einbound.api.limits import NO_LIMITS
from einbound.api.planning import compiled
from einbound.api.setting import setting_of
from einbound.expr.expression import parse
from einbound.expr.network import Network
from einbound.plan.tree import Cut, Tree


def small_case(seed: int) -> tuple[str, list[tuple[int, ...]]]:
    rng = random.Random(seed)
    extents = {
        label: rng.choice([2, 3, 4]) for label in string.ascii_lowercase[: rng.randint(3, 5)]
    }
    terms = [
        "".join(rng.sample(sorted(extents), rng.randint(1, 3))) for _ in range(rng.randint(3, 4))
    ]
    labels = sorted(set("".join(terms)))
    output = "".join(label for label in labels if rng.random() < 0.3)
    shapes = [tuple(extents[label] for label in term) for term in terms]
    return f"{','.join(terms)}->{output}", shapes


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("limit", ["memory_limit", "workspace_limit"])
def test_every_limit_from_the_smallest_peak_on_is_accepted(limit: str, seed: int) -> None:
    text, shapes = small_case(seed)
    with pytest.raises(eb.BudgetError) as info:
        eb.plan(text, *shapes, **{limit: 0})  # type: ignore[arg-type]
    smallest = info.value.smallest_bytes
    for more in (0, 8, 40):
        plan = eb.plan(text, *shapes, **{limit: smallest + more})  # type: ignore[arg-type]
        used = plan.peak_bytes if limit == "memory_limit" else plan.workspace_bytes
        assert used <= smallest + more


@pytest.mark.parametrize(
    ("text", "shapes", "limit"),
    [
        ("ef,a,abc,ecf->", ((4, 4), (2,), (2, 3, 6), (4, 6, 4)), 1340),
        ("df,fca,ea,ec->c", ((6, 6), (6, 2, 6), (4, 6), (4, 2)), 1152),
    ],
)
def test_limits_that_can_be_kept_are_not_refused(
    text: str, shapes: tuple[tuple[int, ...], ...], limit: int
) -> None:
    assert eb.plan(text, *shapes, memory_limit=limit).peak_bytes <= limit


@pytest.mark.parametrize("limit", ["memory_limit", "workspace_limit"])
def test_a_refusal_tells_how_far_its_peak_is_from_the_least_of_all(limit: str) -> None:
    shapes = ((5, 6), (6, 7), (7, 8), (8, 5))
    with pytest.raises(eb.BudgetError, match=r"bytes below that|so this is the least") as info:
        eb.plan("ab,bc,cd,de->ae", *shapes, **{limit: 0})  # type: ignore[arg-type]
    error = info.value
    gap = error.smallest_bytes - error.lower_bound_bytes
    assert error.certified == (gap == 0)
    assert 0 <= gap <= 128
    assert f"no plan can need less than {error.lower_bound_bytes}" in str(error)
    assert f"{gap} bytes below that" in str(error) or gap == 0


def tree_of(network: Network, root: Node) -> Tree:
    """A program as the planner writes it."""
    # Programs number the letters in their own order.
    place = [network.labels.index(letter) for letter in sorted(map(str, network.labels))]
    steps: list[tuple[int, int]] = []
    opens: list[tuple[Cut, ...]] = []
    levels: list[int] = []

    def add(node: Node) -> int:
        if not node.children:
            return min(node.operands)
        left, right = map(add, node.children)
        steps.append((left, right))
        opens.append(tuple(Cut(place[index], width) for index, width in node.opens))
        levels.append(node.level)
        return len(network.inputs) + len(steps) - 1

    add(root)
    return Tree(network, tuple(steps), tuple(opens), tuple(levels)).check()


@pytest.mark.parametrize("seed", [1, 4, 7, 8, 9, 10, 11, 12, 14, 15, 17, 21, 22])
def test_a_certified_smallest_peak_is_the_least_of_all_programs(seed: int) -> None:
    case = random_case(77 + seed, 2 + seed % 2, 0)
    setting = setting_of(parse(case.equation, len(case.shapes)), case.shapes, NO_LIMITS)
    network, finest = setting.network(), replace(case, batch_counts=case.extents)
    trees = [tree_of(network, node) for node in finest.programs.all()]
    least = min(compiled(setting, tree, 1).peak_bytes for tree in trees)
    with pytest.raises(eb.BudgetError, match="the smallest peak found is") as info:
        eb.plan(case.equation, *case.shapes, memory_limit=0)
    error = info.value
    assert error.smallest_bytes == least
    # The eighth is one product with a buffer, which only the meter knows.
    assert error.certified == (seed != 8)


def test_some_smallest_peaks_are_certified_and_others_tell_a_gap() -> None:
    known = []
    for seed in range(12):
        text, shapes = small_case(seed)
        with pytest.raises(eb.BudgetError, match=r"bytes below that|so this is the least") as info:
            eb.plan(text, *shapes, memory_limit=0)
        known.append((info.value.certified, "so this is the least" in str(info.value)))
    assert all(certified == told for certified, told in known)
    assert any(certified for certified, _ in known)


def test_a_plan_near_the_least_is_returned() -> None:
    text, shapes = "Pac,Pbd,ijcd->ijab", ((16, 6, 6), (16, 6, 6), (4, 4, 6, 6))
    with pytest.raises(eb.BudgetError, match="too small") as info:
        eb.plan(text, *shapes, memory_limit=1)
    smallest = info.value.smallest_bytes
    assert eb.plan(text, *shapes, memory_limit=smallest).peak_bytes <= smallest


@pytest.mark.parametrize("name", ["memory_limit", "workspace_limit"])
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("eb,ba,ef,af,cda->f", ((16, 8), (8, 2), (16, 8), (2, 8), (1, 24, 2))),
        ("ce,baed,ah,d,->bcaeh", ((5, 24), (3, 1, 24, 16), (1, 24), (16,), ())),
        ("cd,bac,cb,a,a->c", ((4, 16), (12, 1, 4), (4, 12), (1,), (1,))),
    ],
)
def test_one_byte_below_the_smallest_is_refused(
    name: str, text: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    with pytest.raises(eb.BudgetError) as info:
        eb.plan(text, *shapes, **{name: 0})  # type: ignore[arg-type]
    smallest = info.value.smallest_bytes
    with pytest.raises(eb.BudgetError):
        eb.plan(text, *shapes, **{name: smallest - 1})  # type: ignore[arg-type]
    assert eb.plan(text, *shapes, **{name: smallest}).fits  # type: ignore[arg-type]


KNOWN = [
    ("dcf,f,ca,hbd,gfbg->dch", ((3, 12, 4), (4,), (12, 3), (16, 16, 3), (1, 4, 16, 1)), 12760, 8),
    ("dc,ae,ed,feb,aefd,bf->", ((3, 3), (6, 6), (6, 3), (3, 6, 6), (6, 6, 3, 3), (6, 3)), 4149, 14),
    ("b,acdb,dc,ac,ba->d", ((3,), (8, 5, 6, 3), (6, 5), (8, 5), (3, 8)), 6640, 8),
    ("cba,b,b,cab,ac->ac", ((6, 8, 5), (8,), (8,), (6, 5, 8), (5, 6)), 4520, 8),
    ("dca,b,bda,ab,da->", ((5, 8, 5), (6,), (6, 5, 5), (5, 6), (5, 5)), 3320, 8),
]


@pytest.mark.parametrize(("text", "shapes", "limit", "more"), KNOWN)
def test_a_few_bytes_more_cost_no_multiply_adds(
    text: str, shapes: tuple[tuple[int, ...], ...], limit: int, more: int
) -> None:
    tight, wide = (eb.plan(text, *shapes, memory_limit=n) for n in (limit, limit + more))
    assert wide.macs <= tight.macs


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.sampled_from([8, 16, 24, 40, 64]))
def test_multiply_adds_never_rise_with_a_limit_near_the_least(seed: int, more: int) -> None:
    text, shapes = small_case(seed)
    with pytest.raises(eb.BudgetError, match="too small") as info:
        eb.plan(text, *shapes, memory_limit=0)
    smallest = info.value.smallest_bytes
    found = [
        eb.plan(text, *shapes, memory_limit=n).macs
        for n in (smallest, smallest + more, smallest + 2 * more)
    ]
    assert found == sorted(found, reverse=True)


def test_numbers_alone_are_refused_as_everything_else_is() -> None:
    with pytest.raises(eb.BudgetError, match="memory_limit=32 bytes is too small") as caught:
        eb.plan(",,->", (), (), (), memory_limit=32)
    assert caught.value.smallest_bytes == 40
