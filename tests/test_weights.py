"""Exact plans under weights and tolls, against every program there is."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from brute import network_of
from brute_weights import Priced, WeightedPrograms
from einbound.expr.network import Network
from einbound.plan.answers import ExactFound, NothingFound
from einbound.plan.exact import exact_plans, exact_search
from einbound.plan.masks import mask_of
from einbound.plan.model import Count
from einbound.plan.problem import LOWEST, Instant, Problem, Toll
from einbound.plan.tree import Cut, Tree, trips
from trees import random_network

# How many random networks each claim is tried on. Larger numbers were run by hand.
N_CASES = 8


def random_problem(seed: int) -> Problem:
    """A small network with loops to choose from, some of them uneven."""
    rng = random.Random(seed)
    n_operands = rng.choice([2, 3, 3, 4])
    network = random_network(rng, n_operands, rng.randint(2, 4))
    n = len(network.extents)
    chosen = rng.sample(range(n), min(n, rng.randint(1, 3 if n_operands < 4 else 2)))
    cuts = [random_cut(rng, network, i) for i in chosen]
    if len(network.inputs) <= 3:
        cuts.append(random_cut(rng, network, chosen[0]))
    by_width = {(cut.index, cut.width): cut for cut in cuts}
    return Problem(network, 8, tuple(by_width.values()))


def random_cut(rng: random.Random, network: Network, index: int) -> Cut:
    extent = network.extents[index]
    if extent < 3 or rng.random() < 0.5:
        return Cut(index, rng.randint(1, extent))
    inner = sorted(rng.sample(range(1, extent), rng.randint(1, extent - 2)))
    return Cut.between(index, (0, *inner, extent))


def some(rng: random.Random, problem: Problem) -> frozenset[int]:
    """A few operands."""
    n = len(problem.network.inputs)
    return frozenset(rng.sample(range(n), rng.randint(1, n)))


def agree(problem: Problem, seed: int) -> list[ExactFound]:
    """The best plans under several budgets, none of which any program beats."""
    made = WeightedPrograms(problem).priced()
    peaks = sorted({one.peak for one in made})
    rng = random.Random(seed)
    found = []
    for budget in {*rng.sample(peaks, min(3, len(peaks))), peaks[0], peaks[-1]}:
        plan = last(problem, budget)
        assert isinstance(plan, ExactFound)
        assert plan.exhausted
        best = min((one.weighted, one.toll) for one in made if one.peak <= budget)
        assert plan.weighted_macs == plan.bound_macs == best[0]
        mine = [one for one in made if (one.weighted, one.toll) == best and one.peak <= budget]
        assert plan.peak_bytes in {one.peak for one in mine}
        assert tree_toll(problem, plan.tree) == best[1]
        count = Count(plan.tree.check(), 8)
        assert (plan.macs, plan.calls) == (count.macs, count.calls)
        lowest_wins(problem, plan, mine)
        found.append(plan)
    below = last(problem, peaks[0] - 1)
    assert isinstance(below, NothingFound)
    assert below.exhausted
    return found


def last(problem: Problem, budget: int | None) -> ExactFound | NothingFound:
    *_, plan = exact_plans(problem, budget)
    return plan


def lowest_wins(problem: Problem, plan: ExactFound, equal: list[Priced]) -> None:
    """Without a toll to pay the lowest of the cheapest plans is the answer."""
    if problem.toll is LOWEST:
        assert plan.peak_bytes == min(one.peak for one in equal)


def tree_toll(problem: Problem, tree: Tree) -> int:
    """The toll of a plan, counted on its tree."""
    n = tree.n_operands
    members = [frozenset([k]) for k in range(n)]
    for left, right in tree.steps:
        members.append(members[left] | members[right])
    total = 0
    for step in range(len(tree.steps)):
        value = n + step
        times = 1 if counts_once(problem, tree, members, value) else problem.iterations
        if problem.toll is None:
            total += times * Count(tree, 8).step_calls(step)
        else:
            total += problem.toll.price(instant(tree, members, value, times))
    return total


def counts_once(problem: Problem, tree: Tree, members: list[frozenset[int]], value: int) -> bool:
    while value >= 0:
        if not tree.around(value) and not members[value] & problem.volatile:
            return True
        value = tree.parents[value]
    return False


def instant(tree: Tree, members: list[frozenset[int]], value: int, times: int) -> Instant:
    step = value - tree.n_operands
    left, right = sorted(tree.steps[step], key=lambda child: min(members[child]))
    masks = [mask_of(tree.carried[v]) for v in (left, right, value)]
    halves = mask_of(members[left]), mask_of(members[right])
    around, opens = tree.around(value), tree.opens[step]
    return Instant(masks[0], masks[1], masks[2], around, opens, halves, times)


def opened(product: Instant) -> int:
    return len(product.opens)


def made_up(product: Instant) -> int:
    """Some number that rises with every loop."""
    repeats = 1 + 3 * len(product.opens) + len(product.around)
    return (product.left % 7 + product.value % 5 + 1) * repeats * product.evaluations


TOLLS: dict[str, Toll | None] = {
    "calls": None,
    "lowest": LOWEST,
    "loops": Toll(opened, 4),
    "made up": Toll(made_up, 10**6),
}


@pytest.mark.parametrize("seed", range(N_CASES))
@pytest.mark.parametrize("toll", TOLLS.values(), ids=TOLLS)
def test_tolls_decide_between_equal_multiply_adds(toll: Toll | None, seed: int) -> None:
    agree(replace(random_problem(seed), toll=toll), seed)


@pytest.mark.parametrize("seed", range(N_CASES))
@pytest.mark.parametrize("iterations", [1, 3, 1000])
def test_what_does_not_change_counts_once(iterations: int, seed: int) -> None:
    problem = random_problem(100 + seed)
    volatile = some(random.Random(seed), problem)
    agree(replace(problem, volatile=volatile, iterations=iterations), seed)


@pytest.mark.parametrize("seed", range(N_CASES))
def test_persistent_only_opens_no_loop_above_a_volatile_operand(seed: int) -> None:
    problem = random_problem(200 + seed)
    volatile = some(random.Random(seed), problem)
    problem = replace(problem, volatile=volatile, iterations=10, persistent_only=True)
    for plan in agree(problem, seed):
        tree = plan.tree
        below = [{k} for k in range(tree.n_operands)]
        for (left, right), opens in zip(tree.steps, tree.opens, strict=True):
            below.append(below[left] | below[right])
            assert not (opens and below[-1] & volatile)


@pytest.mark.parametrize("seed", range(2 * N_CASES))
def test_streamed_operands_are_held_in_slices(seed: int) -> None:
    problem = random_problem(300 + seed)
    agree(replace(problem, streamed=some(random.Random(seed), problem)), seed)


@pytest.mark.parametrize("seed", range(2 * N_CASES))
def test_all_of_it_together(seed: int) -> None:
    problem, rng = random_problem(400 + seed), random.Random(seed)
    agree(
        replace(
            problem,
            streamed=some(rng, problem),
            volatile=some(rng, problem),
            iterations=rng.choice([2, 50]),
            persistent_only=rng.random() < 0.3,
            toll=rng.choice([*TOLLS.values(), Toll(reads(problem.network), 10**9)]),
        ),
        seed,
    )


def reads(network: Network) -> Callable[[Instant], int]:
    """Elements that a product reads of its operands, where these are as far out as they can be."""

    def price(product: Instant) -> int:
        total = 0
        inside = (*product.around, *product.opens)
        for half, mask in zip(product.halves, (product.left, product.right), strict=True):
            if half & (half - 1):
                continue
            level = max((k + 1 for k, cut in enumerate(inside) if mask >> cut.index & 1), default=0)
            times = 1
            for cut in inside[:level]:
                if not mask >> cut.index & 1:
                    times *= trips(cut, network)
            total += times * network.size(network.inputs[half.bit_length() - 1])
        return total * product.evaluations

    return price


@pytest.mark.parametrize("seed", range(2 * N_CASES))
def test_streamed_operands_are_read_as_seldom_as_possible(seed: int) -> None:
    problem = random_problem(500 + seed)
    streamed = frozenset(range(len(problem.network.inputs)))
    toll = Toll(reads(problem.network), 10**9)
    agree(replace(problem, streamed=streamed, toll=toll), seed)


def test_a_persistent_product_is_made_once_and_reused() -> None:
    network = network_of("ij,jk,kl->il", {"i": 2, "j": 8, "k": 8, "l": 8})
    alone = exact_search(network, 8, None, ())
    assert isinstance(alone, ExactFound)
    assert (set(alone.tree.steps[0]), alone.weighted_macs) == ({0, 1}, 256)
    often = last(Problem(network, 8, (), volatile=frozenset([0]), iterations=10), None)
    assert isinstance(often, ExactFound)
    assert set(often.tree.steps[0]) == {1, 2}
    assert (often.macs, often.weighted_macs) == (640, 512 + 10 * 128)


def test_of_two_loops_with_slices_as_wide_the_one_with_fewer_trips_is_taken() -> None:
    network = network_of("ij,jk,kl->il", {"i": 2, "j": 8, "k": 8, "l": 4})
    many = Cut(2, 4, (0, 1, 2, 3, 4, 8))
    found = exact_search(network, 8, 8 * (8 + 8), (many, Cut(2, 4)))
    assert isinstance(found, ExactFound)
    assert {cut for opens in found.tree.opens for cut in opens} == {Cut(2, 4)}
    forced = exact_search(network, 8, 8 * (8 + 8), (many,))
    assert isinstance(forced, ExactFound)
    assert (forced.calls, forced.tree.opens[-1]) == (10, (many,))


def test_a_bound_is_stated_where_the_effort_is_spent() -> None:
    network = network_of("ab,ac,bc,abd,cd->d", dict.fromkeys("abcd", 16))
    problem = Problem(network, 8, tuple(Cut(i, 2) for i in range(4)))
    *_, best = exact_plans(problem, 400)
    assert isinstance(best, ExactFound)
    *_, hurried = exact_plans(problem, 400, effort=60)
    assert not hurried.exhausted
    assert 0 < hurried.bound_macs <= best.weighted_macs
