"""The search for plans within a limit, metered by an interpreter of the execution model."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einbound
from einbound.expr.network import Network
from einbound.plan.effort import Effort
from einbound.plan.frame import Frame
from einbound.plan.grid import Grid, Mode
from einbound.plan.masks import bits
from einbound.plan.model import Count
from einbound.plan.nests import Hoist, Nests
from einbound.plan.order import optimal_orders
from einbound.plan.rules import Objective, Rules
from einbound.plan.search import Budget, Found, lower_bound, search
from einbound.plan.tree import Cut, Tree
from einbound.plan.widths import Tally, Task, traded, widened
from hash_seeds import printed_under_hash_seeds
from interpreter import Interpreter
from test_order import every_tree, network_of, stored_network
from trees import random_network, random_tree

SEEDS = st.integers(0, 10**6)
SMALL = ("ao2mo_vvvv", "df_mp2x", "ppl_df_s", "quad_mixed_df", "ring_df", "t1t1t2_df", "thc_ppl")


@dataclass(frozen=True)
class Metered:
    space_bytes: int
    workspace_bytes: int
    macs: int
    calls: int
    seconds: float


class Meter:
    """Counts of the execution model itself, and a buffer of `packing` bytes for slow copies."""

    def __init__(self, packing: int = 0, itemsize: int = 8) -> None:
        self.packing = packing
        self.itemsize = itemsize
        self.n_calls = 0

    def __call__(self, tree: Tree, buffer_bytes: int) -> Metered:
        self.n_calls += 1
        ran = Interpreter(tree, self.itemsize, buffer_bytes, all_trips=False).run()
        count = Count(tree, self.itemsize)
        more = min(self.packing, buffer_bytes)
        seconds = count.macs * 5e-11 + count.calls * 1e-5 + self.packing / (1 + more) * 1e-6
        return Metered(ran.peak + more, ran.workspace + more, count.macs, count.calls, seconds)


def found(network: Network, budget: Budget, **options: Any) -> Found:
    options = {"default_buffer_bytes": 1 << 16, **options}
    meter = options.pop("meter", None) or Meter()
    made = search(network, 8, budget, meter, **options)
    assert made.tree.check() is made.tree
    assert made.metered.space_bytes >= Count(made.tree, 8).peak_bytes
    return made


def keeps(metered: Any, budget: Budget) -> bool:
    return (budget.peak_bytes is None or metered.space_bytes <= budget.peak_bytes) and (
        budget.workspace_bytes is None or metered.workspace_bytes <= budget.workspace_bytes
    )


def budget_of(network: Network, part: int) -> Budget:
    """The result and one part of the workspace that the plan without a limit needs."""
    free = found(network, Budget(None, None)).metered
    return Budget(8 * network.size(network.output) + free.workspace_bytes // part, None)


@given(SEEDS)
def test_prices_equal_the_count_and_the_interpreter(seed: int) -> None:
    rng = random.Random(seed)
    tree = random_tree(rng, random_network(rng, rng.randint(2, 5), 5, largest=4), n_loops=3)
    frame = Frame(tree.network, tree.steps, 8)
    hoists = tuple(rng.choice(list(Hoist)) for _ in tree.steps)
    nests = Nests(tree.opens, hoists)
    made = frame.tree(nests)
    indices = [cut.index for opens in tree.opens for cut in opens]
    if len(indices) != len(set(indices)):
        return
    count, price = Count(made.check(), 8), frame.price(nests, 0)
    assert (price.space.peak_bytes, price.macs, price.calls) == (
        count.peak_bytes,
        count.macs,
        count.calls,
    )
    ran = Interpreter(made, 8, 40, all_trips=False).run()
    space = frame.space(nests, 40)
    assert (space.peak_bytes, space.workspace_bytes) == (ran.peak, ran.workspace)
    # The same tree, taken as it is, has the same loops at the same places.
    assert frame.tree(frame.nests(made)) == made


@settings(max_examples=30)
@given(SEEDS, st.integers(2, 5), st.sampled_from([1, 2, 4, 16]))
def test_a_plan_that_is_said_to_fit_keeps_its_budget(seed: int, n: int, part: int) -> None:
    network = random_network(random.Random(seed), n, 6, largest=9)
    budget = budget_of(network, part)
    made = found(network, budget)
    assert made.fits == keeps(made.metered, budget)
    assert made.metered == Meter()(made.tree, made.buffer_bytes)
    assert made.metered.space_bytes >= lower_bound(network, 8)


@settings(max_examples=25)
@given(SEEDS, st.integers(3, 4), st.sampled_from([2, 4, 8]))
def test_no_single_loop_at_the_last_step_is_better(seed: int, n: int, part: int) -> None:
    network = random_network(random.Random(seed), n, 5, largest=9)
    budget = budget_of(network, part)
    made = found(network, budget, default_buffer_bytes=256)
    best = None
    for steps in every_tree(tuple(range(n)), n):
        plain = Tree.plain(network, steps)
        nests: list[tuple[Cut, ...]] = [()]
        for i in plain.below[plain.root]:
            nests += [(Cut(i, width),) for width in range(1, network.extents[i])]
        for opens in nests:
            loops = (*plain.opens[:-1], opens)
            tree = Tree(network, steps, loops, plain.levels).with_default_levels()
            if keeps(Meter()(tree, 256), budget):
                macs = Count(tree, 8).macs
                best = macs if best is None else min(best, macs)
    if best is not None:
        assert made.fits
        assert made.metered.macs <= best


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("part", [1, 2, 4, 16, 64])
def test_networks_of_chemistry_pay_next_to_nothing(
    name: str, part: int, network_file: Callable[[str], dict[str, Any]]
) -> None:
    network = stored_network(network_file(name))
    free = found(network, Budget(None, None), default_buffer_bytes=1 << 20)
    made = found(network, budget_of(network, part), default_buffer_bytes=1 << 20)
    assert made.fits
    assert made.metered.macs <= free.metered.macs * 1.002


@pytest.mark.parametrize("name", ["thc_ppl", "quad_mixed_df"])
def test_workspace_of_the_size_of_the_result_costs_nothing(
    name: str, network_file: Callable[[str], dict[str, Any]]
) -> None:
    network = stored_network(network_file(name))
    free = found(network, Budget(None, None))
    made = found(network, Budget(None, 8 * network.size(network.output)))
    assert made.fits
    assert made.metered.macs == free.metered.macs
    assert made.metered.calls <= 250


def test_eight_operands_within_256_elements(network_file: Callable[[str], dict[str, Any]]) -> None:
    network = stored_network(network_file("numpy_11825"))
    made = found(network, Budget(None, 2048))
    assert made.fits
    assert made.metered.macs <= 52_224


# Extents, and points (peak bytes, multiply-adds) of an exhaustive search with given trip counts.
FRONTIERS = {
    "ab,bc,cd->ad": ("a8 b16 c8 d16", [(1280, 2048)]),
    "abx,bcx,cdx->adx": ("a6 b6 c6 d6 x8", [(2496, 3456)]),
    "pac,pbd,ijcd->ijab": ("a6 b6 c6 d6 i4 j4 p12", [(6336, 36288)]),
    "pkc,pld,ijcd,klab->ijab": ("a6 b6 c6 d6 i4 j4 k4 l4 p8", [(5056, 23040)]),
    "abc,ad,debf,e->fca": (
        "a4 b12 c8 d12 e8 f12",
        [(4032, 60672), (4416, 60288), (7104, 29952), (8064, 25344)],
    ),
    "a,abcd,bd,c->d": ("a4 b4 c12 d8", [(128, 1696), (240, 1664), (288, 1648), (320, 1616)]),
    "ab,acde,cefg,d->fgb": (
        "a8 b4 c12 d4 e6 f6 g12",
        [(3712, 30208), (4480, 30080), (4608, 25344)],
    ),
    "abcd,ae,bfg,cefg,d->g": ("a12 b12 c6 d4 e6 f6 g8", [(4096, 43200), (5248, 30528)]),
    "abcd,aefgh,e,fgc,b->hd": ("a4 b8 c12 d4 e12 f4 g8 h4", [(1920, 34176), (3584, 14592)]),
    "abcd,ae,efgh,bijg,icfjk->hdk": (
        "a8 b6 c8 d12 e12 f12 g6 h4 i6 j4 k4",
        [(26112, 1032192), (46080, 875520)],
    ),
    "ijad,pbd,pkc,ijae,qbe,qkc->": ("a4 b4 c4 d4 e4 i2 j2 k2 p6 q6", [(360, 2052), (480, 1520)]),
    "abcd,aefcg,ehij,hj,ibk,f->dkg": (
        "a8 b6 c6 d4 e6 f8 g8 h4 i4 j6 k4",
        [(4096, 118272), (13312, 71808), (17088, 68160)],
    ),
    "ac,bd,cd->ab": ("a12 b12 c8 d8", [(1344, 1920)]),
    "ab,cd,ef->abcdef": ("a2 b3 c2 d3 e2 f3", [(1800, 252)]),
    "ij,jk,kl,lm,mn->in": ("i8 j4 k8 l4 m8 n4", [(384, 448)]),
    "ab,bc,cd,da->": ("a8 b8 c8 d8", [(40, 1088)]),
}


@pytest.mark.parametrize("text", FRONTIERS)
def test_points_of_exact_frontiers_are_reached(text: str) -> None:
    sizes, points = FRONTIERS[text]
    network = network_of(text, {size[0]: int(size[1:]) for size in sizes.split()})
    for peak_bytes, macs in points:
        made = found(network, Budget(peak_bytes, None), default_buffer_bytes=0)
        assert made.fits
        assert made.metered.macs <= macs


def test_without_a_budget_there_are_no_loops() -> None:
    network = random_network(random.Random(3), 5, 6)
    made = found(network, Budget(None, None), default_buffer_bytes=4096)
    assert made.fits
    assert made.tree.loops == ()
    assert made.buffer_bytes == 4096


def test_a_refusal_returns_the_smallest_peak_found() -> None:
    network = network_of("ab,bc,cd->ad", dict.fromkeys("abcd", 8))
    made = found(network, Budget(lower_bound(network, 8) - 1, None))
    assert not made.fits
    assert made.metered.space_bytes <= lower_bound(network, 8) + 8


def test_the_lower_bound_is_reached_by_two_operands() -> None:
    network = network_of("ab,bc->ac", dict.fromkeys("abc", 8))
    assert lower_bound(network, 8) == 512
    assert found(network, Budget(512, 0)).fits


@pytest.mark.parametrize(
    ("text", "bytes_"), [("ab->ba", 0), ("ab,bc->ac", 512), ("ab,bc,cd->ad", 520), ("a,b,c->", 16)]
)
def test_lower_bounds(text: str, bytes_: int) -> None:
    assert lower_bound(network_of(text, dict.fromkeys("abcd", 8)), 8) == bytes_


def test_an_empty_index_needs_no_intermediate() -> None:
    network = network_of("ab,bc,cd->ad", {"a": 8, "b": 0, "c": 4, "d": 2})
    assert lower_bound(network, 8) == 128
    assert found(network, Budget(128, None)).fits


@pytest.mark.parametrize("packing", [500, 5_000])
def test_a_meter_that_asks_for_more_is_obeyed(packing: int) -> None:
    network = network_of("pac,pbd,ijcd->ijab", dict.fromkeys("pabcdij", 12))
    budget = budget_of(network, 8)
    made = found(network, budget, meter=Meter(packing))
    assert made.fits
    assert keeps(made.metered, budget)


def test_a_smaller_buffer_is_tried_where_the_default_does_not_fit() -> None:
    network = network_of("ab,bc->ac", dict.fromkeys("abc", 64))
    made = found(network, Budget(None, 5000), meter=Meter(packing=1 << 20))
    assert made.fits
    assert made.buffer_bytes == 4096


def test_headroom_is_left_where_it_is_free() -> None:
    network = network_of("pac,pbd,ijcd->ijab", dict.fromkeys("pabcdij", 12))
    budget = budget_of(network, 2)
    tight = found(network, budget)
    roomy = found(network, budget, headroom_bytes=4000)
    assert roomy.metered.macs == tight.metered.macs
    assert budget.peak_bytes is not None
    assert roomy.metered.space_bytes <= budget.peak_bytes - 4000 < tight.metered.space_bytes


def test_given_orders_are_kept() -> None:
    network = network_of("ab,bc,cd->ad", {"a": 2, "b": 30, "c": 30, "d": 2})
    steps = ((0, 2), (1, 3))
    free = found(network, Budget(None, None), orders=(steps,))
    tight = found(network, Budget(200, None), orders=(steps,))
    assert free.tree.steps == tight.tree.steps == steps
    assert tight.fits


@settings(max_examples=15)
@given(SEEDS)
def test_same_input_same_plan_with_few_calls_of_the_meter(seed: int) -> None:
    network = random_network(random.Random(seed), 5, 6, largest=9)
    budget, meter = budget_of(network, 8), Meter()
    first = found(network, budget, meter=meter)
    assert meter.n_calls <= 60
    again = found(network, budget)
    assert (first.tree, first.buffer_bytes) == (again.tree, again.buffer_bytes)


def test_plans_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "import random; from test_search import *;"
        "network = random_network(random.Random(11), 6, 7, largest=9);"
        "print(found(network, budget_of(network, 8)).tree)"
    )
    said = printed_under_hash_seeds(code)
    assert len(said) == 1


def test_macs_do_not_depend_on_the_order_of_operands() -> None:
    text, sizes = "pkc,pld,ijcd,klab->ijab", dict.fromkeys("abcd", 6) | dict.fromkeys("ijkl", 4)
    network = network_of(text, sizes | {"p": 8})
    budget, rng, macs = Budget(5056, None), random.Random(0), set()
    for _ in range(20):
        inputs = tuple(rng.sample(network.inputs, 4))
        permuted = Network(network.labels, network.extents, inputs, network.output, ())
        macs.add(found(permuted, budget, default_buffer_bytes=0).metered.macs)
    assert macs == {23040}


@settings(max_examples=12)
@given(SEEDS, st.integers(3, 5))
def test_more_bytes_never_cost_multiply_adds(seed: int, n: int) -> None:
    network = random_network(random.Random(seed), n, 6, largest=9)
    costs = []
    for part in (32, 16, 8, 4, 2, 1):
        made = found(network, budget_of(network, part), default_buffer_bytes=256)
        if made.fits:
            costs.append(made.metered.macs)
    assert costs == sorted(costs, reverse=True)


@settings(max_examples=15)
@given(SEEDS, st.integers(3, 5), st.sampled_from([4, 16]))
def test_what_is_proven_is_no_more_than_the_plan_has(seed: int, n: int, part: int) -> None:
    network = random_network(random.Random(seed), n, 5, largest=9)
    made = found(network, budget_of(network, part), default_buffer_bytes=64)
    least = found(network, Budget(None, None)).metered.macs
    assert made.proof.reproducible
    if made.fits and made.proof.exhausted:
        assert least <= made.proof.bound_macs
    if made.fits and made.metered.macs == least:
        assert made.proof.bound_macs == least


def ruled(network: Network, **fields: Any) -> Rules:
    return Rules(Grid(tuple(Mode(extent, **fields) for extent in network.extents)))


@settings(max_examples=15)
@given(SEEDS, st.integers(2, 5), st.sampled_from([2, 8]))
def test_loops_keep_to_their_grid(seed: int, n: int, part: int) -> None:
    network = random_network(random.Random(seed), n, 5, largest=9)
    budget = budget_of(network, part)
    fixed = found(network, budget, rules=ruled(network, target=3), default_buffer_bytes=64)
    assert all(loop.batch_size == 3 for loop in fixed.tree.loops)
    modes = [Mode(e, edges=tuple(dict.fromkeys((0, e // 3, e)))) for e in network.extents]
    tiled = found(network, budget, rules=Rules(Grid(tuple(modes))), default_buffer_bytes=64)
    for opens in tiled.tree.opens:
        for cut in opens:
            allowed = set(modes[cut.index].edges)
            starts = cut.edges or range(0, network.extents[cut.index], cut.width)
            assert set(starts) <= allowed
    none = found(network, budget, rules=ruled(network, admitted=False))
    assert none.tree.loops == ()


def test_a_threshold_gives_way_where_a_budget_does_not() -> None:
    network = network_of("pac,pbd,ijcd->ijab", dict.fromkeys("pabcdij", 8))
    grid = Grid.free(network)
    for objective in Objective:
        rules = Rules(grid, objective, by_policy=True, threshold_bytes=1)
        made = found(network, Budget(None, None), rules=rules, operand_bytes=100)
        assert (made.fits, made.keeps_threshold) == (True, False)
    free = found(network, Budget(None, None)).metered
    by_time = Rules(grid, Objective.TIME, by_policy=True, threshold_bytes=1)
    by_space = Rules(grid, Objective.SPACE, by_policy=True, threshold_bytes=1)
    fast = found(network, Budget(None, None), rules=by_time)
    small = found(network, Budget(None, None), rules=by_space)
    assert fast.metered.macs == free.macs
    assert small.metered.space_bytes <= fast.metered.space_bytes < free.space_bytes
    assert not found(network, Budget(8, None), rules=by_time).fits


def test_space_asks_for_the_lowest_peak_of_equal_multiply_adds() -> None:
    network = network_of("pac,pbd,ijcd->ijab", dict.fromkeys("pabcdij", 8))
    budget = budget_of(network, 2)
    by_time = found(network, budget)
    by_space = found(network, budget, rules=Rules(Grid.free(network), Objective.SPACE))
    assert by_space.metered.macs == by_time.metered.macs
    assert by_space.metered.space_bytes < by_time.metered.space_bytes


def test_work_that_is_done_again_weighs_more() -> None:
    # Multiplying the small factors first is cheaper once; the large ones change nothing later.
    network = network_of("ab,bc,cd->ad", {"a": 2, "b": 40, "c": 40, "d": 40})
    once = found(network, Budget(None, None))
    again = Rules(Grid.free(network), volatile=frozenset({0}), iterations=1000)
    often = found(network, Budget(None, None), rules=again)
    assert once.tree.nested == (2, (0, 1)) or once.tree.nested == ((0, 1), 2)
    assert often.metered.macs > once.metered.macs


class Clock:
    """Seconds that pass with every look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_a_deadline_holds_for_few_operands_too() -> None:
    network = network_of("pac,pbd,ijcd->ijab", dict.fromkeys("pabcdij", 12))
    budget = budget_of(network, 8)
    for objective in Objective:
        rules = Rules(Grid.free(network), objective)
        hurried = Effort(deadline_seconds=0.5, clock=Clock())
        calm = Effort(deadline_seconds=1e9, clock=Clock())
        first = found(network, budget, rules=rules, effort=hurried)
        best = found(network, budget, rules=rules, effort=calm)
        assert first.fits
        assert best.proof.reproducible
        assert best.metered.macs <= first.metered.macs


def test_a_deadline_that_cuts_nothing_is_not_told() -> None:
    network = network_of("pac,pbd,ijcd->ijab", dict.fromkeys("pabcdij", 6))
    late = Effort(deadline_seconds=0.0, clock=Clock())
    assert found(network, Budget(None, None), effort=late).proof.reproducible


def test_a_seed_gives_the_same_plan_again() -> None:
    network = batched_network()
    budget = Budget(60_000, None)
    first = found(network, budget, effort=Effort(seed=3, trials=2))
    assert found(network, budget, effort=Effort(seed=3, trials=2)).tree == first.tree


def test_a_large_network_fits_a_quarter_for_little(
    network_file: Callable[[str], dict[str, Any]],
) -> None:
    network = stored_network(network_file("peps5x5_D4_norm"))

    def meter(tree: Tree, buffer_bytes: int) -> Metered:
        count = Count(tree, 8)
        return Metered(count.peak_bytes, count.peak_bytes, count.macs, count.calls, 0.0)

    free = found(network, Budget(None, None), meter=meter, default_buffer_bytes=0)
    budget = Budget(free.metered.space_bytes // 4, None)
    made = found(network, budget, meter=meter, default_buffer_bytes=0)
    assert made.fits
    assert made.metered.macs <= 1.1 * free.metered.macs


def test_bits_are_rising() -> None:
    assert bits(0b101001) == (0, 3, 5)


def batched_network() -> Network:
    """Sixteen small factors with a common batch around one large array."""
    small = [f"ABC{i}" for i in "ijklmnopqrstuvwx"]
    sizes = dict.fromkeys("ABijklmnopqrstuvwxW", 2) | {"C": 1}
    return network_of(",".join([*small, "ijklmnopqrstuvwxW"]) + "->ABCW", sizes)


def test_smaller_buffers_are_tried_before_loops_on_many_operands() -> None:
    packed = Meter(packing=1 << 20)
    made = found(
        batched_network(), Budget(None, 100_000), meter=packed, default_buffer_bytes=1 << 22
    )
    assert made.fits
    assert made.metered.macs == 527_840
    assert made.buffer_bytes < 1 << 20


@pytest.mark.parametrize(("least_seconds", "wanted"), [(0.1, 1 << 19), (1e-4, 1 << 16)])
def test_buffers_beyond_the_usual_ones_are_taken_while_they_pay(
    least_seconds: float, wanted: int
) -> None:
    def meter(tree: Tree, buffer_bytes: int) -> Metered:
        count = Count(tree, 8)
        seconds = least_seconds * (1 + (1 << 16) / min(buffer_bytes, 1 << 19))
        n_bytes = count.peak_bytes + buffer_bytes
        return Metered(n_bytes, n_bytes, count.macs, count.calls, seconds)

    network = network_of("ij,jk,kl->il", dict.fromkeys("ijkl", 8))
    free = found(network, Budget(None, None), meter=meter)
    assert free.buffer_bytes == wanted
    # Where the doubled buffer does not fit, a part of it may.
    room = Budget(free.metered.space_bytes - wanted // 4, None)
    tight = found(network, room, meter=meter)
    assert tight.fits
    assert tight.tree == free.tree
    if wanted > 1 << 16:
        assert wanted // 2 < tight.buffer_bytes < wanted


def test_of_equal_orders_of_many_operands_the_lower_peak_comes_first() -> None:
    made = found(batched_network(), Budget(None, None))
    assert made.metered.macs == 527_840
    assert made.metered.workspace_bytes < 50_000


@given(SEEDS, st.integers(3, 5), st.floats(0.05, 0.9))
def test_exchanged_widths_fit_and_are_no_worse(seed: int, n: int, part: float) -> None:
    network = random_network(random.Random(seed), n, n + 2)
    frame = Frame(network, optimal_orders(network, 1)[0], 8)
    space = frame.space(Nests.none(len(frame.steps)), 64)
    limit = Budget(None, int(part * space.workspace_bytes))
    cuts = tuple(Cut(i, 1) for i in bits(frame.useful[-1]) if frame.extents[i] > 1)
    nests = Nests.none(len(frame.steps)).with_opens(len(frame.steps) - 1, cuts[:3])
    task = Task(limit, 64, Tally())
    start = widened(frame, nests, task, thorough=False)
    if start is not None:
        after = traded(start, task, 200)
        assert after.price.space.fits(limit)
        assert after.price.key <= start.price.key


@pytest.mark.parametrize(
    ("text", "sizes", "limit"),
    [
        ("badc,cabd,a->da", {"a": 2, "b": 3, "c": 4, "d": 3}, 16),
        ("cab,a,bac->a", {"a": 4, "b": 4, "c": 2}, 16),
        ("de,ed,c->", {"c": 2, "d": 3, "e": 2}, 24),
        ("de,dacb,d,eabc->", {"a": 4, "b": 2, "c": 4, "d": 4, "e": 4}, 64),
    ],
)
def test_no_refusal_where_two_loops_fit_by_the_real_meter(
    text: str, sizes: dict[str, int], limit: int
) -> None:
    shapes = [tuple(sizes[i] for i in term) for term in text.split("->")[0].split(",")]
    made = einbound.plan(text, *shapes, workspace_limit=limit)
    assert made.workspace_bytes <= limit


@pytest.mark.parametrize(
    ("text", "sizes", "limit", "macs"),
    [
        ("ecad,ecad,aeb->b", {"a": 2, "b": 2, "c": 3, "d": 4, "e": 2}, 32, 56),
        ("bcda,d,dcf,acb->d", {"a": 2, "b": 2, "c": 4, "d": 4, "f": 4}, 64, 96),
    ],
)
def test_the_real_meter_decides_which_short_nest_has_fewest_macs(
    text: str, sizes: dict[str, int], limit: int, macs: int
) -> None:
    shapes = [tuple(sizes[i] for i in term) for term in text.split("->")[0].split(",")]
    assert einbound.plan(text, *shapes, workspace_limit=limit).macs <= macs


@pytest.mark.parametrize(
    ("text", "shapes", "limits"),
    [
        ("eb,ba,ef,af,cda->f", ((16, 8), (8, 2), (16, 8), (2, 8), (1, 24, 2)), (2818, 2832)),
        ("cb,bc,abc->a", ((5, 12), (12, 5), (24, 12, 5)), (12704, 12726)),
    ],
)
def test_more_bytes_never_cost_more_macs_where_buffers_matter(
    text: str, shapes: tuple[tuple[int, ...], ...], limits: tuple[int, int]
) -> None:
    less, more = (einbound.plan(text, *shapes, memory_limit=limit).macs for limit in limits)
    assert more <= less


@pytest.mark.parametrize(
    ("text", "sizes", "limit", "macs"),
    [
        (
            "acg,fai,f,e,ab,ebf->g",
            {"a": 16, "b": 24, "c": 16, "e": 24, "f": 24, "g": 16, "i": 8},
            171544,
            237312,
        ),
        (
            "c,dg,ec,gd,cfa,d->eg",
            {"a": 24, "c": 32, "d": 24, "e": 8, "f": 8, "g": 32},
            66008,
            11776,
        ),
        ("bda,b,a,dca,e->c", {"a": 24, "b": 16, "c": 24, "d": 32, "e": 24}, 246512, 31512),
    ],
)
def test_near_the_least_peak_the_fewest_macs_of_the_curve_are_reached(
    text: str, sizes: dict[str, int], limit: int, macs: int
) -> None:
    shapes = [tuple(sizes[i] for i in term) for term in text.split("->")[0].split(",")]
    made = einbound.plan(text, *shapes, memory_limit=limit)
    assert (made.fits, made.macs <= macs) == (True, True)


@settings(max_examples=12)
@given(SEEDS, st.integers(2, 4))
def test_more_bytes_never_cost_more_macs_just_above_the_least_peak(seed: int, n: int) -> None:
    rng = random.Random(seed)
    sizes = {label: rng.choice((2, 3, 4, 8)) for label in "abcd"}
    terms = ["".join(rng.sample("abcd", rng.randint(1, 3))) for _ in range(n)]
    used = sorted(set("".join(terms)))
    text = ",".join(terms) + "->" + "".join(rng.sample(used, rng.randint(0, min(len(used), 2))))
    shapes = [tuple(sizes[label] for label in term) for term in terms]
    with pytest.raises(einbound.BudgetError) as refused:
        einbound.plan(text, *shapes, memory_limit=1)
    limits = [refused.value.smallest_bytes + 8 * k for k in range(6)]
    costs = [einbound.plan(text, *shapes, memory_limit=limit).macs for limit in limits]
    assert costs == sorted(costs, reverse=True)
