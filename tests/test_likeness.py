"""Products that differ in orders of axes and operands only are alike, and plans carry over."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from einbound.expr.expression import parse
from einbound.expr.network import Network
from einbound.forest.likeness import Likeness
from einbound.plan.grid import Grid, Mode
from einbound.plan.order import optimal_orders
from einbound.plan.rules import Rules
from einbound.plan.tree import Cut, Tree

EXTENTS = dict(zip("abcdef", (2, 2, 3, 3, 4, 2), strict=True))


def random_product(rng: random.Random) -> tuple[list[str], str]:
    terms = ["".join(rng.sample("abcdef", rng.randint(1, 3))) for _ in range(rng.randint(2, 4))]
    carried = sorted(set("".join(terms)))
    return terms, "".join(rng.sample(carried, rng.randint(0, min(3, len(carried)))))


def bound(terms: list[str], output: str) -> Network:
    shapes = [tuple(EXTENTS[label] for label in term) for term in terms]
    return parse(f"{','.join(terms)}->{output}", len(terms)).bind(shapes)


def rules_of(network: Network, fixed: str) -> Rules:
    modes = tuple(
        Mode(extent, admitted=str(label) not in fixed)
        for label, extent in zip(network.labels, network.extents, strict=True)
    )
    return Rules(Grid(modes))


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_products_are_alike_whatever_the_order_of_axes_and_operands(seed: int) -> None:
    rng = random.Random(seed)
    terms, output = random_product(rng)
    fixed = rng.choice(["", "a", "cd"])
    others = ["".join(rng.sample(term, len(term))) for term in rng.sample(terms, len(terms))]
    one, two = bound(terms, output), bound(others, "".join(rng.sample(output, len(output))))
    first = Likeness.of(one, rules_of(one, fixed))
    second = Likeness.of(two, rules_of(two, fixed))
    assert (first.network, first.rules) == (second.network, second.rules)


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_a_restored_tree_makes_the_same_values_in_the_same_loops(seed: int) -> None:
    rng = random.Random(seed)
    network = bound(*random_product(rng))
    like = Likeness.of(network, Rules.free(network))
    steps = next(iter(optimal_orders(like.network, 1)))
    chains = (*like.network.inputs, like.network.output)
    carried = [
        i for i in like.network.inputs[steps[0][0]] if sum(i in chain for chain in chains) > 1
    ]
    assume(carried)
    index = rng.choice(carried)
    cuts = ((Cut(index, 1),), *((),) * (len(steps) - 1))
    tree = like.restored(Tree(like.network, steps, cuts, (0,) * len(steps)), network).check()
    assert sorted(like.operands) == list(range(len(network.inputs)))
    assert [network.extents[i] for i in like.indices] == [*like.network.extents]
    (cut,) = tree.opens[0]
    assert cut.index == like.indices[index]
    assert any(cut.index in network.inputs[k] for k in tree.steps[0] if k < len(network.inputs))


def test_products_of_other_extents_or_rules_are_not_alike() -> None:
    network = bound(["ab", "bc"], "ac")
    free = Likeness.of(network, Rules.free(network))
    wider = replace(network, extents=(5, *network.extents[1:]))
    assert Likeness.of(wider, Rules.free(wider)).network != free.network
    assert Likeness.of(network, rules_of(network, "b")).rules != free.rules


def test_what_changes_counts_only_where_loops_keep_to_what_never_does() -> None:
    network = bound(["ab", "bc"], "ac")
    rules = Rules.free(network)
    changing = replace(rules, volatile=frozenset({0}))
    assert Likeness.of(network, changing).rules == rules
    kept = Likeness.of(network, replace(changing, persistent_only=True))
    assert kept.rules.volatile == {kept.operands.index(0)}
