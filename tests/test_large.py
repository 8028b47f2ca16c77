"""Plans of more operands than the exact search takes."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import pytest

from einbound.expr.network import Network
from einbound.plan.effort import Effort
from einbound.plan.frame import Frame
from einbound.plan.gate import check_loops
from einbound.plan.grid import Grid, Mode
from einbound.plan.ledger import Found
from einbound.plan.masks import Steps
from einbound.plan.nests import Hoist, Nests
from einbound.plan.order import greedy_orders, linear_order, optimal_orders
from einbound.plan.rules import Objective, Rules
from einbound.plan.search import Budget, search
from einbound.plan.tree import Tree
from test_search import Clock, Metered
from trees import random_network


class FrameMeter:
    """Counts of the frame, which agree with the interpreter's and are quick."""

    def __init__(self) -> None:
        self.frames: dict[Steps, Frame] = {}

    def __call__(self, tree: Tree, buffer_bytes: int) -> Metered:
        frame = self.frames.get(tree.steps)
        if frame is None:
            frame = self.frames[tree.steps] = Frame(tree.network, tree.steps, 8)
        price = frame.price(frame.nests(tree), buffer_bytes)
        space = price.space
        return Metered(
            space.peak_bytes, space.workspace_bytes, price.macs, price.calls, price.seconds
        )


def lattice(rows: int, columns: int, seed: int, largest: int = 4) -> Network:
    """A closed square lattice of operands, extents at random."""
    rng = random.Random(seed)
    sites = [(r, c) for r in range(rows) for c in range(columns)]
    bonds = [(s, t) for s, t in combinations(sites, 2) if abs(s[0] - t[0]) + abs(s[1] - t[1]) == 1]
    extents = tuple(rng.randint(2, largest) for _ in bonds)
    inputs = tuple(tuple(i for i, bond in enumerate(bonds) if site in bond) for site in sites)
    return Network(tuple(map(str, range(len(bonds)))), extents, inputs, (), ())


def planned(network: Network, budget: Budget, rules: Rules | None = None, **more: object) -> Found:
    options = {"default_buffer_bytes": 1 << 16, "effort": Effort(trials=1), **more}
    return search(network, 8, budget, FrameMeter(), rules=rules, **options)  # type: ignore[arg-type]


def best_global(network: Network, orders: tuple[Steps, ...], budget: Budget) -> int | None:
    """The fewest multiply-adds of an order with up to two indices cut around all of it."""
    grid, found = Grid.free(network), []
    for steps in orders:
        frame, n = Frame(network, steps, 8), len(steps)
        for cut in [c for k in (0, 1, 2) for c in combinations(range(len(network.extents)), k)]:
            opens = tuple(grid.finest(i) for i in cut)
            for hoist in (Hoist.INSIDE, Hoist.FREE):
                nests = Nests((*((),) * (n - 1), opens), (hoist,) * n)
                if frame.space(nests, 64).fits(budget):
                    found.append(frame.macs(nests))
    return min(found, default=None)


@pytest.mark.parametrize(("rows", "columns", "part"), [(2, 7, 2), (4, 4, 4)])
def test_large_plans_cost_no_more_than_global_slicing(rows: int, columns: int, part: int) -> None:
    network = lattice(rows, columns, seed=rows + columns + part)
    effort = Effort()
    free = planned(network, Budget(None, None), effort=effort)
    budget = Budget(free.metered.space_bytes // part, None)
    orders = (*greedy_orders(network, 4), linear_order(network))
    made, sliced = planned(network, budget, effort=effort), best_global(network, orders, budget)
    if sliced is not None:
        assert made.fits
        assert made.metered.macs <= sliced


@pytest.mark.parametrize("seed", [0, 1, 3, 4, 6, 7, 8])
def test_small_plans_cost_no_more_than_global_slicing(seed: int) -> None:
    n = 4 + seed % 3
    network = random_network(random.Random(seed), n, 7, largest=6)
    free = planned(network, Budget(None, None))
    budget = Budget(max(free.metered.space_bytes // 4, 8 * network.size(network.output)), None)
    made, sliced = planned(network, budget), best_global(network, optimal_orders(network), budget)
    if sliced is not None:
        assert made.fits
        assert made.metered.macs <= sliced


def by_policy(network: Network, threshold_bytes: int, objective: Objective) -> Rules:
    grid = Grid.free(network)
    return Rules(grid, objective, by_policy=True, threshold_bytes=threshold_bytes)


def test_a_threshold_is_kept_by_loops() -> None:
    network = lattice(2, 7, seed=1)
    free = planned(network, Budget(None, None)).metered
    for objective in Objective:
        made = planned(
            network, Budget(None, None), by_policy(network, free.space_bytes // 4, objective)
        )
        assert made.fits
        assert made.keeps_threshold
        assert made.metered.space_bytes <= free.space_bytes // 4


def test_a_threshold_out_of_reach_gives_speed_or_space() -> None:
    network = lattice(2, 7, seed=1)
    nothing = Budget(None, None)
    free = planned(network, nothing).metered
    fast = planned(network, nothing, by_policy(network, 1, Objective.TIME))
    small = planned(network, nothing, by_policy(network, 1, Objective.SPACE))
    for made in (fast, small):
        assert (made.fits, made.keeps_threshold) == (True, False)
    assert fast.metered.macs == free.macs
    assert fast.metered.space_bytes <= free.space_bytes
    assert small.metered.space_bytes < fast.metered.space_bytes // 4
    # The smallest peak is what a refusal names, too.
    refused = planned(network, Budget(0, None))
    assert small.metered.space_bytes <= refused.metered.space_bytes


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize("part", [4])
def test_a_budget_stays_hard_where_a_threshold_gives_way(objective: Objective, part: int) -> None:
    network = lattice(2, 7, seed=2)
    free = planned(network, Budget(None, None)).metered
    rules = by_policy(network, 1, objective)
    for budget in (
        Budget(free.space_bytes // part, None),
        Budget(None, free.workspace_bytes // part),
    ):
        made = planned(network, budget, rules)
        assert (made.fits, made.keeps_threshold) == (True, False)
        limits = (
            (made.metered.space_bytes, budget.peak_bytes),
            (made.metered.workspace_bytes, budget.workspace_bytes),
        )
        assert all(limit is None or used <= limit for used, limit in limits)
    assert not planned(network, Budget(0, None), rules).fits


def test_a_threshold_above_a_budget_changes_nothing() -> None:
    network = lattice(2, 7, seed=2)
    free = planned(network, Budget(None, None)).metered
    budget = Budget(free.space_bytes // 4, None)
    loose = planned(network, budget, by_policy(network, free.space_bytes // 2, Objective.TIME))
    tight = planned(network, budget, by_policy(network, free.space_bytes // 4, Objective.TIME))
    assert loose.keeps_threshold
    assert tight.keeps_threshold
    assert loose.tree == tight.tree


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize("part", [2, 10**6])
def test_loops_of_large_plans_keep_to_their_grid(objective: Objective, part: int) -> None:
    network = lattice(2, 7, seed=3, largest=9)
    modes = [
        Mode(
            extent,
            edges=(0, 1, extent) if index % 3 == 0 else (),
            admitted=index % 4 != 0,
            target=2 if index % 5 == 0 else None,
        )
        for index, extent in enumerate(network.extents)
    ]
    free = planned(network, Budget(None, None)).metered
    rules = replace(
        by_policy(network, free.space_bytes // part, objective), grid=Grid(tuple(modes))
    )
    made = planned(network, Budget(None, None), rules)
    check_loops(made.tree, rules)
    cuts = [cut for opens in made.tree.opens for cut in opens]
    assert cuts or objective is Objective.TIME
    for cut in cuts:
        mode = modes[cut.index]
        assert mode.admitted
        assert mode.target is None or cut == rules.grid.finest(cut.index)
        assert not mode.edges or cut.width == max(mode.extent - 1, 1)


def test_same_input_same_large_plan() -> None:
    network, effort = lattice(2, 7, seed=4), Effort(seed=5, trials=2)
    budget = Budget(planned(network, Budget(None, None)).metered.space_bytes // 8, None)
    first, again = (planned(network, budget, effort=effort) for _ in range(2))
    assert (first.tree, first.buffer_bytes) == (again.tree, again.buffer_bytes)


def test_a_deadline_ends_a_search_and_is_told() -> None:
    network = lattice(2, 7, seed=4)
    budget = Budget(planned(network, Budget(None, None)).metered.space_bytes // 8, None)
    hurried = Effort(deadline_seconds=0.5, clock=Clock())
    calm = Effort(trials=1, deadline_seconds=1e9, clock=Clock())
    assert not planned(network, budget, effort=hurried).proof.reproducible
    assert planned(network, budget, effort=calm).proof.reproducible
