"""Exact plans against a published table, and against every program there is."""

from __future__ import annotations

import gc
import random
from dataclasses import replace

import pytest

from brute import Loop, Programs, brute_frontier, network_of, sampled, staircase
from einbound.expr.network import Network
from einbound.plan.answers import ExactFound, NothingFound
from einbound.plan.contribution import Contribution
from einbound.plan.curve import Frontier, frontier, frontier_of
from einbound.plan.exact import Search, exact_plans, exact_search
from einbound.plan.floors import Floors
from einbound.plan.labels import Label, fit, nondominated
from einbound.plan.masks import bits
from einbound.plan.model import Count
from einbound.plan.peak import least_peak, least_within
from einbound.plan.problem import Instant, Problem, options_of
from einbound.plan.rows import Bounds, Row, Rows
from einbound.plan.splits import Split
from einbound.plan.states import Effort, Run
from einbound.plan.tree import Cut, Tree
from hash_seeds import printed_under_hash_seeds
from interpreter import Interpreter
from trees import random_network

# How many random networks are enumerated. Larger numbers were run by hand, without a difference.
N_SMALL = 60
N_LARGE = 12

# Equation, extents, trips, frontier without loops, exact frontier: (bytes, multiply-adds).
TABLE = [
    (
        "ab,bc,cd->ad",
        "a=8 b=16 c=8 d=16",
        "b:4 c:2",
        [(1536, 2048)],
        [(1280, 2048)],
    ),
    (
        "abx,bcx,cdx->adx",
        "a=6 b=6 c=6 d=6 x=8",
        "x:4 b:3",
        [(4608, 3456)],
        [(2496, 3456)],
    ),
    (
        "pac,pbd,ijcd->ijab",
        "a=6 b=6 c=6 d=6 i=4 j=4 p=12",
        "a:3 c:2 p:4",
        [(14976, 36288)],
        [(6336, 36288)],
    ),
    (
        "pkc,pld,ijcd,klab->ijab",
        "a=6 b=6 c=6 d=6 i=4 j=4 k=4 l=4 p=8",
        "c:3 k:4 l:2",
        [(6656, 23040)],
        [(5056, 23040)],
    ),
    (
        "abc,ad,debf,e->fca",
        "a=4 b=12 c=8 d=12 e=8 f=12",
        "a:4 b:2 c:2 d:2",
        [(7680, 60288), (18432, 25344)],
        [(4032, 60672), (4416, 60288), (7104, 29952), (8064, 25344)],
    ),
    (
        "a,abcd,bd,c->d",
        "a=4 b=4 c=12 d=8",
        "a:4 b:4 c:2 d:2",
        [(640, 1616)],
        [(128, 1696), (240, 1664), (288, 1648), (320, 1616)],
    ),
    (
        "ab,acde,cefg,d->fgb",
        "a=8 b=4 c=12 d=4 e=6 f=6 g=12",
        "d:4 e:2 f:2",
        [(4608, 30080), (6912, 25344)],
        [(3712, 30208), (4480, 30080), (4608, 25344)],
    ),
    (
        "abcd,ae,bfg,cefg,d->g",
        "a=12 b=12 c=6 d=4 e=6 f=6 g=8",
        "c:2 f:2 g:4",
        [(8064, 42336), (10368, 29952)],
        [(4096, 43200), (4672, 42912), (5248, 30528), (6912, 29952)],
    ),
    (
        "abcd,aefgh,e,fgc,b->hd",
        "a=4 b=8 c=12 d=4 e=12 f=4 g=8 h=4",
        "d:2 e:4 f:2",
        [(5632, 14592)],
        [(1920, 34176), (2112, 32640), (2688, 32448), (3200, 23552), (3584, 14592)],
    ),
    (
        "abcd,ae,efgh,bijg,icfjk->hdk",
        "a=8 b=6 c=8 d=12 e=12 f=12 g=6 h=4 i=6 j=4 k=4",
        "a:2 g:2 k:4",
        [(178176, 875520)],
        [(26112, 1032192), (30720, 949248), (46080, 875520)],
    ),
    (
        "ijad,pbd,pkc,ijae,qbe,qkc->",
        "a=4 b=4 c=4 d=4 e=4 i=2 j=2 k=2 p=6 q=6",
        "a:4 d:2 p:3",
        [(1056, 1520)],
        [(360, 2052), (480, 1520)],
    ),
    (
        "abcd,aefcg,ehij,hj,ibk,f->dkg",
        "a=8 b=6 c=6 d=4 e=6 f=8 g=8 h=4 i=4 j=6 k=4",
        "a:2 i:4",
        [(18432, 114432), (27648, 79488), (30912, 68160)],
        [
            (4096, 118272),
            (4144, 117696),
            (4480, 114432),
            (13312, 71808),
            (13504, 71232),
            (16944, 68736),
            (17088, 68160),
        ],
    ),
    ("ac,bd,cd->ab", "a=12 b=12 c=8 d=8", "a:3 c:4", None, [(1344, 1920)]),
    ("ab,cd,ef->abcdef", "a=2 b=3 c=2 d=3 e=2 f=3", "a:2 e:2", None, [(1800, 252)]),
    (
        "ij,jk,kl,lm,mn->in",
        "i=8 j=4 k=8 l=4 m=8 n=4",
        "k:4 m:2",
        [(384, 448)],
        [(384, 448)],
    ),
    ("ab,bc,cd,da->", "a=8 b=8 c=8 d=8", "a:4 b:2 c:8", None, [(40, 1088)]),
]


def case(equation: str, extents: str, trips: str) -> tuple[Network, dict[int, int]]:
    """A network and its trip counts by index number."""
    sizes = {x: int(n) for x, n in (pair.split("=") for pair in extents.split())}
    counts = {x: int(n) for x, n in (pair.split(":") for pair in trips.split())}
    network = network_of(equation, sizes)
    return network, {network.labels.index(x): n for x, n in counts.items()}


def options(network: Network, counts: dict[int, int]) -> tuple[Cut, ...]:
    return options_of(network, {i: (n,) for i, n in counts.items()})


def checked(found: Frontier) -> list[tuple[int, int]]:
    """The points of a frontier whose plans were counted again."""
    assert found.exhausted
    for point in found.points:
        count = Count(point.tree.check(), 8)
        assert (count.peak_bytes, count.macs) == (point.peak_bytes, point.macs)
    return [(point.peak_bytes, point.macs) for point in found.points]


def small_case(seed: int) -> tuple[Network, tuple[Loop, ...]]:
    """A random network with loops to choose from: private sums, hyper-indices, two widths."""
    rng = random.Random(seed)
    network = random_network(rng, rng.choice([2, 3, 3, 4]), rng.randint(2, 4))
    chosen = rng.sample(range(len(network.extents)), min(len(network.extents), rng.randint(1, 3)))
    loops = [(i, rng.randint(1, network.extents[i])) for i in chosen]
    if len(network.inputs) <= 3:
        loops.append((chosen[0], rng.randint(1, network.extents[chosen[0]])))
    return network, tuple(dict.fromkeys(loops))


def cuts(loops: tuple[Loop, ...]) -> tuple[Cut, ...]:
    return tuple(Cut(*loop) for loop in loops)


@pytest.mark.parametrize(
    ("equation", "extents", "trips", "plain", "exact"), TABLE, ids=[row[0] for row in TABLE]
)
def test_frontiers_equal_the_table(
    equation: str,
    extents: str,
    trips: str,
    plain: list[tuple[int, int]] | None,
    exact: list[tuple[int, int]],
) -> None:
    network, counts = case(equation, extents, trips)
    assert checked(frontier(network, 8, counts)) == exact
    without = checked(frontier(network, 8, {}))
    assert plain is None or without == plain


@pytest.mark.parametrize(("row", "n_programs"), [(0, 71), (1, 88), (2, 453), (3, 26377)])
def test_the_enumeration_has_every_program(row: int, n_programs: int) -> None:
    network, counts = case(*TABLE[row][:3])
    loops = tuple((i, network.extents[i] // n) for i, n in counts.items())
    points, n_found = brute_frontier(Programs(network, 8, loops, pairs_loop=True))
    assert (points, n_found) == (TABLE[row][4], n_programs)


@pytest.mark.parametrize("seed", range(N_SMALL))
def test_nothing_beats_the_search_among_all_programs(seed: int) -> None:
    network, loops = small_case(seed)
    programs = Programs(network, 8, loops, pairs_loop=len(network.inputs) <= 3)
    want, _ = brute_frontier(programs)
    assert checked(frontier_of(network, 8, cuts(loops))) == want
    lowest = least_peak(network, 8, cuts(loops))
    assert lowest.found.peak_bytes == lowest.lower_bound_bytes == want[0][0]
    assert Count(lowest.found.tree, 8).peak_bytes == want[0][0]
    for peak, macs in want:
        found = exact_search(network, 8, peak, cuts(loops))
        assert isinstance(found, ExactFound)
        assert (found.macs, found.exhausted) == (macs, True)
        count = Count(found.tree.check(), 8)
        assert (count.macs, count.calls, count.peak_bytes) == (
            found.macs,
            found.calls,
            found.peak_bytes,
        )
    below = exact_search(network, 8, want[0][0] - 1, cuts(loops))
    assert len(network.inputs) == 1 or below == NothingFound(below.states, True, below.bound_macs)


@pytest.mark.parametrize("seed", range(20))
def test_ties_go_to_the_fewest_products(seed: int) -> None:
    network, loops = small_case(seed)
    programs = Programs(network, 8, loops, pairs_loop=True)
    made = [(programs.macs(n), programs.calls(n), programs.peak(n)) for n in programs.all()]
    budget = min(peak for _, _, peak in made)
    found = exact_search(network, 8, budget, cuts(loops))
    assert isinstance(found, ExactFound)
    best = min((macs, calls) for macs, calls, peak in made if peak <= budget)
    assert (found.macs, found.calls) == best


@pytest.mark.parametrize("seed", range(N_LARGE))
def test_sampled_programs_never_beat_the_frontier(seed: int) -> None:
    rng = random.Random(1000 + seed)
    network = random_network(rng, rng.randint(5, 6), rng.randint(4, 6))
    loops = tuple((i, max(network.extents[i] // 2, 1)) for i in range(len(network.extents)))[:4]
    points = checked(frontier_of(network, 8, cuts(loops)))
    programs = Programs(network, 8, loops)
    for _ in range(300):
        node = sampled(rng, programs)
        peak, macs = programs.peak(node), programs.macs(node)
        assert any(p <= peak and m <= macs for p, m in points)
        assert staircase({*points, (peak, macs)}) == points


class EveryLoop(Rows):
    """Every loop is taken to be useful."""

    def _row(self, split: Split) -> Row:
        below = self.problem.splits.below[split.left | split.right]
        return replace(super()._row(split), useful=below)


class Everything(Run):
    """The plain dynamic program: every loop in every order."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._rows = EveryLoop(self.problem, self.bounds)

    def _pins(self, outer: int, inner: int) -> bool:
        return True


@pytest.mark.parametrize("seed", range(N_SMALL))
def test_fewer_loops_and_orders_lose_nothing(seed: int) -> None:
    rng = random.Random(2000 + seed)
    network = random_network(rng, rng.randint(3, 5), 4)
    loops = tuple(Cut(i, max(network.extents[i] // 2, 1)) for i in rng.sample(range(4), 3))
    problem = Problem(network, 8, loops)
    macs = 4 * int(problem.splits.fewest[-1]) + 1
    bounds = Bounds(macs, None)
    radix = problem.chains.radix
    labels, plain_labels = (
        kind(problem, bounds, Effort(10**6)).root() for kind in (Run, Everything)
    )
    points = staircase({(one.peak, one.cost // radix) for one in labels})
    assert points == staircase({(one.peak, one.cost // radix) for one in plain_labels})


@pytest.mark.parametrize("seed", range(2 * N_LARGE))
def test_bounds_with_loops_as_sets_lose_nothing(seed: int) -> None:
    rng = random.Random(4000 + seed)
    network = random_network(rng, rng.randint(4, 6), 5, largest=9)
    chosen = rng.sample(range(5), 3)
    widths = [(i, rng.randint(1, network.extents[i])) for i in (*chosen, chosen[0])]
    problem = Problem(
        network,
        8,
        tuple(Cut(*loop) for loop in widths),
        streamed=frozenset(rng.sample(range(4), rng.randint(0, 2))),
        volatile=frozenset(rng.sample(range(4), rng.randint(0, 2))),
        iterations=5,
    )
    search = Search(problem, Effort(10**6), None)
    lowest = least_within(search).found.peak_bytes
    for budget in (lowest, lowest + lowest // 4, search.plain[0].peak):
        bounds = Bounds(4 * search.fewest, budget)
        floors = Floors(problem, budget, 4 * search.fewest)
        plain = Run(problem, bounds, search.effort).root()
        quick = Run(problem, bounds, search.effort, floors).root()
        assert [(one.cost, one.peak) for one in quick] == [(one.cost, one.peak) for one in plain]
        assert all(floors.least <= search.macs(one) for one in plain)


@pytest.mark.parametrize("seed", range(N_LARGE))
def test_a_bound_on_macs_leaves_out_what_is_above_it_and_nothing_else(seed: int) -> None:
    rng = random.Random(7000 + seed)
    network = random_network(rng, rng.randint(3, 5), 5, largest=9)
    loops = tuple(Cut(i, 1) for i in rng.sample(range(5), 3))
    problem = Problem(network, 8, loops)
    lowest = least_within(Search(problem, Effort(10**6), None)).found
    for budget in (lowest.peak_bytes, lowest.peak_bytes + lowest.peak_bytes // 8):
        *_, best = exact_plans(problem, budget)
        assert isinstance(best, ExactFound)
        assert best.exhausted
        *_, same = exact_plans(problem, budget, most_macs=best.weighted_macs)
        assert isinstance(same, ExactFound)
        assert (same.weighted_macs, same.exhausted) == (best.weighted_macs, True)
        *_, less = exact_plans(problem, budget, most_macs=best.weighted_macs - 1)
        if best.weighted_macs > Search(problem, Effort(10**6), None).fewest:
            assert isinstance(less, NothingFound)
            assert (less.exhausted, less.bound_macs) == (True, best.weighted_macs)


class Ordered(Run):
    """Bytes only, but every loop in its own place of every nest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._by_groups = False


@pytest.mark.parametrize("seed", range(N_LARGE))
@pytest.mark.parametrize("n_deep", [None, 2])
@pytest.mark.parametrize("most_bytes", [0, 8, 64])
def test_loops_in_groups_reach_the_same_least_peak(
    seed: int, n_deep: int | None, most_bytes: int
) -> None:
    rng = random.Random(3000 + seed)
    network = random_network(rng, rng.randint(5, 6) - (most_bytes > 0), 4, largest=9)
    loops = tuple(Cut(i, max(network.extents[i] // 3, 1)) for i in rng.sample(range(4), 3))
    temporary = Contribution(network.extents, 8, most_bytes) if most_bytes else None
    problem, effort = Problem(network, 8, loops, temporary=temporary), Effort(10**6)
    lowest = least_within(Search(problem, effort, n_deep)).found.peak_bytes
    labels = Ordered(problem, Bounds(None, lowest, None, n_deep), effort).root()
    assert min(one.peak for one in labels) == lowest
    assert Ordered(problem, Bounds(None, lowest - 1, None, n_deep), effort).root() == []


def test_permuted_operands_have_equal_counts() -> None:
    network, counts = case(*TABLE[11][:3])
    rng = random.Random(0)
    found = set()
    for _ in range(20):
        order = rng.sample(range(6), 6)
        inputs = tuple(network.inputs[k] for k in order)
        permuted = Network(network.labels, network.extents, inputs, network.output, ())
        plan = exact_search(permuted, 8, 13400, options(permuted, counts))
        assert isinstance(plan, ExactFound)
        found.add((plan.macs, plan.calls, plan.peak_bytes))
    assert len(found) == 1


def test_plans_do_not_depend_on_the_hash_seed() -> None:
    program = (
        "from test_exact import *\n"
        "network, counts = case(*TABLE[8][:3])\n"
        "for point in frontier(network, 8, counts).points:\n"
        "    print(point.tree.steps, point.tree.opens, point.tree.levels)\n"
    )
    texts = printed_under_hash_seeds(program)
    assert len(texts) == 1
    assert len(texts.pop().splitlines()) == 5


def test_no_limit_gives_the_fewest_multiply_adds_without_loops() -> None:
    network, counts = case(*TABLE[7][:3])
    found = exact_search(network, 8, None, options(network, counts))
    assert isinstance(found, ExactFound)
    assert (found.peak_bytes, found.macs, found.tree.loops) == (10368, 29952, ())


def test_a_cap_on_depth_is_kept() -> None:
    network, counts = case(*TABLE[4][:3])
    capped = exact_search(network, 8, 7104, options(network, counts), n_deep=1)
    free = exact_search(network, 8, 7104, options(network, counts))
    assert isinstance(free, ExactFound)
    assert free.macs == 29952
    assert isinstance(capped, ExactFound)
    assert capped.macs > free.macs
    assert max(len(inside) for inside in capped.tree.inside) <= 1


def test_connected_plans_multiply_no_strangers() -> None:
    network, counts = case(*TABLE[5][:3])
    free = exact_search(network, 8, 240, options(network, counts))
    assert isinstance(free, ExactFound)
    assert free.macs == 1664
    joined = exact_search(network, 8, 10**6, options(network, counts), connected_only=True)
    assert isinstance(joined, ExactFound)
    below = joined.tree.below
    assert all(below[left] & below[right] for left, right in joined.tree.steps)


def test_a_disconnected_network_is_planned_all_the_same() -> None:
    network, counts = case(*TABLE[13][:3])
    found = exact_search(network, 8, 1800, options(network, counts), connected_only=True)
    assert isinstance(found, ExactFound)
    assert found.macs == 252


def test_little_effort_is_admitted() -> None:
    network, counts = case(*TABLE[11][:3])
    hurried = exact_search(network, 8, 13312, options(network, counts), effort=20)
    assert not hurried.exhausted
    lowest = least_peak(network, 8, options(network, counts), effort=5)
    assert not lowest.found.exhausted
    assert lowest.lower_bound_bytes <= 4096 <= lowest.found.peak_bytes
    assert Count(lowest.found.tree, 8).peak_bytes == lowest.found.peak_bytes


def test_the_least_peak_is_found_over_the_finest_slices() -> None:
    network, _ = case(*TABLE[0][:3])
    lowest = least_peak(network, 8)
    # The result, one element of the intermediate, and nothing else.
    assert lowest.found.peak_bytes == lowest.lower_bound_bytes == 8 * (8 * 16 + 1)


def test_the_least_peak_of_many_orders_is_proven_with_little_effort() -> None:
    extents = dict(zip("abcdef", (8, 6, 12, 6, 12, 12), strict=True))
    network = network_of("feb,dabf,fc,eb,fe,ac,cb->bfea", extents)
    result = 8 * 6 * 12 * 12 * 8
    lowest = least_peak(network, 8, effort=2_000)
    # One element of what grows, another one of what it is made from.
    assert lowest.found.peak_bytes == lowest.lower_bound_bytes == result + 16
    assert lowest.found.exhausted


def test_a_spent_effort_leaves_a_low_plan_and_tells_the_gap() -> None:
    extents = dict(zip("abcdefgh", (12, 8, 8, 6, 6, 4, 8, 12), strict=True))
    network = network_of("bcef,gb,gbh,ah,bg,bch,ga,dhc->hfbe", extents)
    widths = {"a": 1, "b": 1, "c": 2, "d": 1, "e": 2, "g": 2}
    slices = cuts(tuple((network.labels.index(x), width) for x, width in widths.items()))
    lowest = least_peak(network, 8, slices, effort=2_000)
    assert not lowest.found.exhausted
    result = 12 * 4 * 8 * 6 * 8
    assert result < lowest.lower_bound_bytes < lowest.found.peak_bytes < result + 1024
    assert Count(lowest.found.tree, 8).peak_bytes == lowest.found.peak_bytes


def test_one_operand_is_its_own_plan() -> None:
    network = network_of("ab->a", {"a": 4, "b": 3})
    found = exact_search(network, 8, None, ())
    assert found == ExactFound(Tree.plain(network, ()), 0, 0, 32, 0, True, 0, 0)
    assert checked(frontier(network, 8, {0: 2})) == [(32, 0)]
    assert isinstance(exact_search(network, 8, 31, ()), NothingFound)
    assert least_peak(network, 8).found.peak_bytes == 32


def test_counts_beyond_machine_integers_stay_exact() -> None:
    network = network_of("ij,jk,kl->il", dict.fromkeys("ijkl", 2**30 + 1))
    found = exact_search(network, 8, None, ())
    assert isinstance(found, ExactFound)
    assert found.macs == 2 * (2**30 + 1) ** 3
    less = exact_search(network, 8, found.peak_bytes - 1, (Cut(2, 2**20),))
    assert isinstance(less, ExactFound)
    assert (less.macs, Count(less.tree, 8).macs) == (found.macs, found.macs)


def test_empty_indices_cost_nothing() -> None:
    network = network_of("ij,jk,kl->il", {"i": 0, "j": 3, "k": 2, "l": 2})
    found = exact_search(network, 8, None, (Cut(0, 1), Cut(1, 1)))
    assert isinstance(found, ExactFound)
    assert found.macs == Count(found.tree, 8).macs


@pytest.mark.parametrize("seed", range(30))
def test_temporaries_are_priced_at_the_product(seed: int) -> None:
    network, loops = small_case(seed)

    def contribution(instant: Instant) -> int:
        """The slice that is added up, as the interpreter has it with a large buffer."""
        if all(instant.value >> cut.index & 1 for cut in instant.opens):
            return 0
        widths = {cut.index: cut.width for cut in (*instant.around, *instant.opens)}
        size = 8
        for i in bits(instant.value):
            size *= widths.get(i, network.extents[i])
        return size

    found = frontier_of(network, 8, cuts(loops), temporary=contribution)
    programs = Programs(network, 8, loops, pairs_loop=True, contributions=True)
    assert [(p.peak_bytes, p.macs) for p in found.points] == brute_frontier(programs)[0]
    for point in found.points:
        ran = Interpreter(point.tree, 8, buffer_bytes=2**60).run()
        assert (ran.peak, ran.macs) == (point.peak_bytes, point.macs)


def test_the_collector_is_left_as_it_was() -> None:
    network, counts = case(*TABLE[0][:3])
    gc.disable()
    try:
        frontier(network, 8, counts)
        assert not gc.isenabled()
    finally:
        gc.enable()
    frontier(network, 8, counts)
    assert gc.isenabled()


def label(cost: int, peak: int, *escapes: tuple[int, int, int]) -> Label:
    return Label(cost, peak, sum(item[2] for item in escapes), escapes, None)


def test_three_values_in_a_slot_are_compared_one_by_one() -> None:
    # (peak, held) of 10, 1 and 5, 4 and 8, 3: no pair stands for all three.
    items = ((0, -9, 1), (0, -5, 3), (0, -1, 4))
    assert fit(items, items)
    assert fit(items[1:], items)
    assert not fit(items, items[1:])
    assert not fit(((0, -9, 2),), items)
    # A value made further in, with a peak within what the other holds by then.
    assert fit(((1, 0, 4),), items)
    assert not fit(((1, -1, 4),), items)


def test_a_label_is_kept_unless_another_is_no_worse_in_all() -> None:
    cheap, low = label(1, 10, (0, 0, 5)), label(2, 9)
    same_total = label(2, 9, (0, 0, 6))
    assert nondominated([low, same_total, cheap], cost_matters=True) == [cheap, low]
    assert nondominated([low, same_total, cheap], cost_matters=False) == [low]


def test_bounds_on_multiply_adds_hold_for_every_split() -> None:
    network, counts = case(*TABLE[9][:3])
    problem = Problem(network, 8, options(network, counts))
    splits = problem.splits
    least = splits.fewest[-1]
    for subset in range(1, 1 << splits.n):
        assert splits.fewest[subset] + splits.rest[subset] >= least
    assert splits.rest[-1] == 0
