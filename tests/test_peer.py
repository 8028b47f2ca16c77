"""Orders of cotengra's beside the planner's own, where it is installed."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import pytest

import einbound as eb
from einbound.api import peer, planning
from einbound.api.peer import cotengra_orders
from einbound.expr.network import Network
from einbound.plan.effort import Effort, Origin
from einbound.plan.masks import Steps
from einbound.plan.order import greedy_orders, linear_order
from einbound.plan.search import Budget
from hash_seeds import printed_under_hash_seeds
from test_large import lattice, planned
from trees import random_network

needs_cotengra = pytest.mark.usefixtures("installed")
#: A lattice whose plans at 1/16 of its workspace are better along an order of cotengra's.
LATTICE = lattice(3, 5, 3, largest=6)
LABELS = "abcdefghijklmnopqrstuv"
TEXT = ",".join("".join(LABELS[i] for i in term) for term in LATTICE.inputs) + "->"
SHAPES = [tuple(LATTICE.extents[i] for i in term) for term in LATTICE.inputs]


@pytest.fixture
def installed() -> None:
    pytest.importorskip("cotengra")


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cotengra", None)
    planning.planned.cache_clear()


def plan_of(part: int = 16, **effort: Any) -> eb.Plan:
    free = eb.plan(TEXT, *SHAPES)
    effort = {"trials": 1, **effort}
    limit = free.workspace_bytes // part
    return eb.plan(TEXT, *SHAPES, workspace_limit=limit, optimize=Effort(**effort))


def bare(inputs: tuple[tuple[int, ...], ...], extents: tuple[int, ...]) -> Network:
    return Network(tuple(map(str, range(len(extents)))), extents, inputs, (), ())


RING = tuple((i, (i + 1) % 12) for i in range(12))
ODD = {
    "equal matrices": bare(((0, 1),) * 14, (3, 4)),
    "one shared index": bare(((0,),) * 14, (3,)),
    "two rings": bare((*RING, *((a + 12, b + 12) for a, b in RING)), (3,) * 24),
    "numbers beside a ring": bare((*RING, (), ()), (3,) * 12),
    "diagonals and sums beside a ring": bare((*RING, (12, 12), (13,)), (3,) * 14),
    **{f"{n} at random": random_network(random.Random(n), n, n, largest=5) for n in (14, 20)},
}


@needs_cotengra
@pytest.mark.parametrize("name", ODD)
def test_orders_read_every_value_once(name: str) -> None:
    network = ODD[name]
    n, found = len(network.inputs), cotengra_orders(network, Effort(cotengra_trials=4))
    assert found
    for steps in found:
        assert sorted(value for pair in steps for value in pair) == list(range(2 * n - 2))
        assert all(max(pair) < n + step for step, pair in enumerate(steps))


@pytest.mark.parametrize(
    "network",
    [bare(((),) * 14, ()), bare(tuple((i,) for i in range(14)), (2,) * 14), bare(RING, (0,) * 12)],
)
def test_where_all_orders_are_alike_cotengra_is_not_asked(network: Network, absent: None) -> None:
    assert cotengra_orders(network, Effort(cotengra_trials=4)) == ()


@needs_cotengra
def test_orders_depend_on_the_seed_and_on_no_hash_and_no_random_state() -> None:
    code = (
        "from einbound.api.peer import cotengra_orders\n"
        "from einbound.plan.effort import Effort\n"
        "from test_peer import LATTICE\n"
        "print(cotengra_orders(LATTICE, Effort(cotengra_trials=6)))"
    )
    random.seed(1)
    before = random.getstate()
    found = cotengra_orders(LATTICE, Effort(cotengra_trials=6))
    assert printed_under_hash_seeds(code) == {f"{found}\n"}
    assert random.getstate() == before
    assert cotengra_orders(LATTICE, Effort(cotengra_trials=6, seed=1)) != found


@needs_cotengra
def test_an_order_of_cotengras_can_be_better_and_the_plan_says_so() -> None:
    own, made = plan_of(cotengra_trials=0), plan_of()
    assert made.macs < own.macs
    assert (own.proof.origin, made.proof.origin) == (Origin.OWN, Origin.COTENGRA)
    assert "this order began as one of cotengra's" in made.explain()
    assert "cotengra" not in own.explain()
    assert eb.Plan.from_json(made.to_json()).proof.origin is Origin.COTENGRA


def test_documents_that_name_no_origin_are_read() -> None:
    data = json.loads(eb.plan("ab,bc->ac", (2, 3), (3, 4)).to_json())
    del data["proof"]["origin"]
    assert eb.Plan.from_json(json.dumps(data)).proof.origin is Origin.OWN


def test_given_orders_are_told() -> None:
    shapes, path = [(2, 3), (3, 4), (4, 5)], [(1, 2), (0, 1)]
    given = eb.plan("ab,bc,cd->ad", *shapes, optimize=path)
    written = eb.Plan.build("ab,bc,cd->ad", *shapes, path=path)
    for made in (given, written):
        assert made.proof.origin is Origin.GIVEN
        assert "this order was given" in made.explain()
    assert "order was" not in eb.plan("ab,bc,cd->ad", *shapes).explain()


def test_without_cotengra_the_orders_are_our_own(absent: None) -> None:
    assert plan_of(part=4).proof.origin is Origin.OWN
    with pytest.raises(
        eb.BackendError,
        match=r"Effort\(cotengra_trials=2\) asks for cotengra's orders and cotengra is not "
        r"installed; install it with pip install einbound\[interop\]",
    ):
        plan_of(part=4, cotengra_trials=2)


class Broken:
    """A release that can do nothing that is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no {name}")


def test_a_release_that_fails_is_told_only_where_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer, "cotengra", lambda purpose: Broken())
    monkeypatch.setattr(peer, "find_spec", lambda name: object())
    assert cotengra_orders(LATTICE, Effort()) == ()
    with pytest.raises(
        eb.PlanError,
        match=r"cotengra was asked for 2 orders and raised AttributeError: no RandomGreedyOptimizer"
        r"; expected trees; give Effort\(cotengra_trials=0\) to do without",
    ):
        cotengra_orders(LATTICE, Effort(cotengra_trials=2))


def test_other_orders_make_no_plan_worse() -> None:
    network = lattice(2, 7, seed=1)
    free = planned(network, Budget(None, None)).metered
    budget = Budget(free.space_bytes // 4, None)
    own = planned(network, budget)
    for others in ((), (linear_order(network),), greedy_orders(network, 1, seed=3)):
        made = planned(network, budget, peer=lambda network, others=others: others)
        assert made.metered.macs <= own.metered.macs
        assert made.tree == own.tree or made.proof.origin is Origin.COTENGRA


def test_nobody_else_is_asked_where_loops_cost_nothing_or_nothing_can_fit() -> None:
    network = lattice(2, 7, seed=1)

    def unwanted(network: Network) -> tuple[Steps, ...]:
        raise AssertionError("asked")

    free = planned(network, Budget(None, None), peer=unwanted).metered
    assert planned(network, Budget(free.space_bytes, None), peer=unwanted).fits
    assert not planned(network, Budget(0, None), peer=unwanted).fits
    with pytest.raises(AssertionError, match="asked"):
        planned(network, Budget(free.space_bytes // 4, None), peer=unwanted)


@pytest.mark.parametrize("given", [-1, 2.5])
def test_trials_are_whole_numbers(given: Any) -> None:
    with pytest.raises((eb.PlanError, TypeError), match="cotengra_trials of an Effort is"):
        Effort(cotengra_trials=given)
