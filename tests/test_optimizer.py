"""Orders for other libraries keep a limit there, and orders of theirs keep it here."""

from __future__ import annotations

import copy
import pickle
import random
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from math import dist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einbound as eb
from einbound.api.optimize import chosen_effort, chosen_path
from einbound.api.optimizer import network_of
from einbound.plan.effort import Effort
from einbound.plan.foreign import NEAR, Hunt, Room
from einbound.plan.held import Held
from einbound.plan.masks import Steps
from hash_seeds import printed_under_hash_seeds
from test_order import every_tree
from trees import random_network

ctg: Any = pytest.importorskip("cotengra")
oe: Any = pytest.importorskip("opt_einsum")
PathOptimizer: Any = oe.paths.PathOptimizer

#: NumPy's einsum buffers, 8192 elements for each of at most three arrays, and interpreter objects.
SLACK_BYTES = 256 * 1024
SEEDS = st.integers(0, 10**6)

LADDER = "Pac,Pbd,ijcd->ijab"
SIZES = {"P": 40, "a": 16, "b": 16, "c": 16, "d": 16, "i": 6, "j": 6}


def split(text: str) -> tuple[list[str], str]:
    inputs, output = text.split("->")
    return inputs.split(","), output


def operands(text: str, sizes: dict[str, int], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal([sizes[c] for c in term]) for term in split(text)[0]]


def measured(run: Callable[[], Any]) -> tuple[Any, int]:
    """What a warmed run returns, and by how many traced bytes it rises above its start."""
    run()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = run()
        return result, tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def hunt(network: Any, room: Room = Room(), itemsize: int = 8) -> Hunt:  # noqa: B008
    return Hunt(network, itemsize, room, Effort())


def mixed_case(seed: int) -> tuple[str, dict[str, int]]:
    """A text of three to six operands whose products take some hundred kilobytes."""
    rng = random.Random(seed)
    labels = "abcdef"[: rng.randint(4, 6)]
    sizes = {label: rng.randint(10, 26) for label in labels}
    terms = ["".join(rng.sample(labels, rng.randint(1, 4))) for _ in range(rng.randint(3, 6))]
    used = sorted(set("".join(terms)))
    return (
        f"{','.join(terms)}->{''.join(rng.sample(used, min(len(used), rng.randint(0, 3))))}",
        sizes,
    )


# what is found ------------------------------------------------------------------------------


@given(SEEDS, st.sampled_from(["memory", "workspace", "both"]), st.floats(0, 1))
@settings(max_examples=60)
def test_no_order_that_fits_has_fewer_macs(seed: int, kind: str, share: float) -> None:
    rng = random.Random(seed)
    network = random_network(rng, rng.randint(2, 5), rng.randint(2, 6))
    n = len(network.inputs)
    held = Held(network, 8)
    # Steps of one tree in another sequence are one order.
    every = {held.ordered(steps) for steps in every_tree(tuple(range(n)), n)}
    readings = [held.read(steps) for steps in every]
    peaks, works = (
        sorted({getattr(r, name) for r in readings}) for name in ("peak_bytes", "workspace_bytes")
    )
    peak, work = (each[int(share * (len(each) - 1))] for each in (peaks, works))
    room = Room(peak if kind != "workspace" else None, work if kind != "memory" else None)
    fitting = [
        held.macs(steps)
        for steps, reading in zip(every, readings, strict=True)
        if not room.over_bytes(reading)
    ]
    found = hunt(network, room).unsliced()
    assert (found.over_bytes == 0) == bool(fitting)
    if fitting:
        assert found.macs == min(fitting)
    assert room.over_bytes(held.read(found.steps)) == found.over_bytes


@given(SEEDS, st.floats(0, 1))
@settings(max_examples=30)
def test_no_slices_that_fit_are_much_better(seed: int, share: float) -> None:
    rng = random.Random(seed)
    network = random_network(rng, rng.randint(2, 4), rng.randint(2, 5))
    n = len(network.inputs)
    read = []
    ones = sum(1 << i for i, extent in enumerate(network.extents) if extent == 1)
    for cut in range(1 << len(network.extents)):
        if cut & ones:
            continue
        held = Held(network, 8, cut)
        every = {held.ordered(steps) for steps in every_tree(tuple(range(n)), n)}
        read += [(held.read(steps).peak_bytes, held.macs(steps)) for steps in every]
    limit = int(min(read)[0] + share * (max(read)[0] - min(read)[0]))
    fewest = min(macs for peak, macs in read if peak <= limit)
    found = hunt(network, Room(limit)).sliced()
    assert found.over_bytes == 0
    assert fewest <= found.macs <= NEAR * fewest


@given(SEEDS)
@settings(max_examples=30)
def test_a_refusal_names_the_least_peak_of_all_orders(seed: int) -> None:
    rng = random.Random(seed)
    network = random_network(rng, rng.randint(2, 5), rng.randint(2, 6))
    held, n = Held(network, 8), len(network.inputs)
    peaks = [held.read(held.ordered(steps)).peak_bytes for steps in every_tree(tuple(range(n)), n)]
    assert hunt(network, Room(0)).unsliced().reading.peak_bytes == min(peaks)


@given(SEEDS)
@settings(max_examples=30)
def test_the_part_that_runs_first_makes_the_peak_lower(seed: int) -> None:
    rng = random.Random(seed)
    network = random_network(rng, rng.randint(3, 6), rng.randint(3, 6))
    held, n = Held(network, 8), len(network.inputs)
    steps = hunt(network).unsliced().steps
    shuffled = relabelled(steps, n, rng)
    assert held.read(held.ordered(shuffled)).peak_bytes <= held.read(shuffled).peak_bytes
    assert held.read(held.ordered(shuffled)) == held.read(held.ordered(steps))


def relabelled(steps: Steps, n: int, rng: random.Random) -> Steps:
    """The same tree depth first, of two parts a random one first."""
    made: list[tuple[int, int]] = []

    def make(value: int) -> int:
        if value < n:
            return value
        parts = list(steps[value - n])
        rng.shuffle(parts)
        made.append((make(parts[0]), make(parts[1])))
        return n + len(made) - 1

    make(n + len(steps) - 1)
    return tuple(made)


@given(SEEDS)
@settings(max_examples=10)
def test_permuted_operands_have_equal_macs(seed: int) -> None:
    rng = random.Random(seed)
    network = random_network(rng, 6, 7)
    least = hunt(network, Room(0)).unsliced().reading.peak_bytes
    found: set[tuple[bool, int]] = set()
    for _ in range(20):
        order = rng.sample(range(6), 6)
        permuted = type(network)(
            network.labels, network.extents, tuple(network.inputs[k] for k in order),
            network.output, (),
        )  # fmt: skip
        made = hunt(permuted, Room(least)).unsliced()
        found.add((made.over_bytes == 0, made.macs))
    assert len(found) == 1
    assert found.pop()[0]


def test_a_path_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "import einbound as eb\n"
        "terms = [frozenset(t) for t in ('ab', 'bcd', 'ce', 'def', 'fa', 'ag')]\n"
        "print(eb.Optimizer('1 MB')(terms, frozenset('g'), dict.fromkeys('abcdefg', 6)))"
    )
    assert len(printed_under_hash_seeds(code)) == 1


def test_orders_of_many_operands_are_found_and_cut() -> None:
    # A lattice of 4 by 4 tensors, bonds named by the tensors that they join.
    places = [(row, column) for row in range(4) for column in range(4)]
    bonds = [(p, q) for p in places for q in places if p < q and dist(p, q) == 1]
    inputs = [[f"{p}{q}" for p, q in bonds if place in (p, q)] for place in places]
    args: tuple[Any, ...] = inputs, [], {f"{p}{q}": 8 for p, q in bonds}
    free = eb.Optimizer().search(*args)
    assert not free.sliced_inds
    tree = eb.Optimizer("300 kB").search(*args)
    assert tree.nslices > 1
    assert tree.peak_size() < free.peak_size()


# what it really takes -----------------------------------------------------------------------


@pytest.mark.parametrize("share", [1.0, 0.4, 0.15])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_measured_never_passes_the_limit(seed: int, share: float) -> None:
    text, sizes = mixed_case(seed)
    arrays = operands(text, sizes)
    args = (*split(text), {c: sizes[c] for c in sizes if c in text})
    n_bytes = sum(array.nbytes for array in arrays)
    whole = least_memory_limit(args, 10**12)
    limit = n_bytes + int((whole - n_bytes) * share)
    expected = np.einsum(text, *arrays, optimize="greedy")
    for contract in (oe.contract, ctg.einsum):
        try:
            result, rise = measured(partial(contract, text, *arrays, optimize=eb.Optimizer(limit)))
        except eb.BudgetError:
            # With its own peak as the limit an order fits.
            assert share < 1
            continue
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9)
        assert n_bytes + rise <= limit + SLACK_BYTES


def least_memory_limit(args: tuple[Any, ...], most: int) -> int:
    """The peak of the order that is found under a limit, as counted for executors."""
    return hunt(network_of(*args), Room(most)).unsliced().reading.peak_bytes


@pytest.mark.parametrize("cut", ["a", "ab", "abd", "b", "bc", "bcd", "ad", "axd"])
def test_gathered_slices_are_counted(cut: str) -> None:
    text, sizes = "abmx,bcx,cdnx->admnx", dict(a=3, b=4, c=5, d=4, m=60, n=70, x=2)
    arrays = operands(text, sizes)
    network = network_of(*split(text), sizes)
    held = Held(network, 8, sum(1 << network.labels.index(label) for label in cut))
    steps = held.ordered(((0, 1), (3, 2)))
    tree = ctg.ContractionTree.from_path(*split(text), sizes, ssa_path=steps)
    for label in cut:
        tree.remove_ind_(label)
    result, rise = measured(lambda: tree.contract(arrays))
    np.testing.assert_allclose(result, np.einsum(text, *arrays), rtol=1e-9, atol=1e-9)
    modelled = held.read(steps).peak_bytes
    assert held.operand_bytes + rise <= modelled + SLACK_BYTES
    # A count that is far off would refuse what fits.
    assert modelled <= 3 * (held.operand_bytes + rise)


@pytest.mark.parametrize("seed", range(8))
def test_trees_run_in_the_order_that_was_counted(seed: int) -> None:
    text, sizes = mixed_case(seed)
    args = (*split(text), {label: sizes[label] for label in sizes if label in text})
    network = network_of(*args)
    whole = hunt(network, Room(10**12)).unsliced()
    held = Held(network, 8).operand_bytes
    for limit in (whole.reading.peak_bytes, (whole.reading.peak_bytes + held) // 2):
        found = hunt(network, Room(limit)).sliced()
        if found.over_bytes:
            continue
        tree = eb.Optimizer(limit).search(*args)
        assert executed(tree) == found.steps
        assert tree.total_flops() == found.macs


def executed(tree: Any) -> Steps:
    """The products of a tree as cotengra runs them."""
    number = {leaf: k for k, leaf in enumerate(tree.gen_leaves())}
    steps = []
    for product, left, right in tree.traverse():
        steps.append((number[left], number[right]))
        number[product] = tree.N + len(steps) - 1
    return tuple(steps)


# what libraries see -------------------------------------------------------------------------


def test_it_is_a_path_optimizer_where_opt_einsum_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planner = eb.Optimizer("1 MB")
    assert isinstance(planner, oe.paths.PathOptimizer)
    assert isinstance(planner, eb.Optimizer)
    monkeypatch.delitem(sys.modules, "opt_einsum.paths")
    assert planner.__class__ is eb.Optimizer


def test_copies_and_pickles_are_the_same() -> None:
    planner = eb.Optimizer("1 MB", 10_000, "float32", effort=Effort(trials=2))
    for twin in (copy.deepcopy(planner), pickle.loads(pickle.dumps(planner))):
        assert repr(twin) == repr(planner)
        assert isinstance(twin, oe.paths.PathOptimizer)
    assert repr(planner).startswith("Optimizer(1000000, 10000, 'float32', effort=Effort(")


def test_opt_einsum_runs_its_path() -> None:
    arrays = operands(LADDER, SIZES)
    expected = np.einsum(LADDER, *arrays, optimize="greedy")
    result = oe.contract(LADDER, *arrays, optimize=eb.Optimizer("4 MB"))
    np.testing.assert_allclose(result, expected)
    expression = oe.contract_expression(
        LADDER, *[a.shape for a in arrays], optimize=eb.Optimizer("4 MB")
    )
    np.testing.assert_allclose(expression(*arrays), expected)


def test_cotengra_runs_its_slices() -> None:
    arrays = operands(LADDER, SIZES)
    expected = np.einsum(LADDER, *arrays, optimize="greedy")
    result = ctg.einsum(LADDER, *arrays, optimize=eb.Optimizer("500 kB"))
    np.testing.assert_allclose(result, expected)


def test_quimb_contracts_with_it() -> None:
    tensors = pytest.importorskip("quimb.tensor")
    network = tensors.TN2D_rand(2, 3, D=8, seed=1)
    expected = network.contract(optimize="greedy")
    limited = network.contract(optimize=eb.Optimizer("60 kB"))
    assert limited == pytest.approx(expected, rel=1e-9)


def test_xarray_hands_it_to_opt_einsum() -> None:
    xarray = pytest.importorskip("xarray")
    arrays = operands("ab,bc,cd->ad", SIZES)
    named = [
        xarray.DataArray(x, dims=[*d]) for x, d in zip(arrays, ("ab", "bc", "cd"), strict=True)
    ]
    result = xarray.dot(*named, dim=("b", "c"), optimize=eb.Optimizer("1 MB"))
    np.testing.assert_allclose(result, np.einsum("ab,bc,cd->ad", *arrays))


def test_one_operand_is_its_own_path() -> None:
    assert eb.Optimizer(1)([{"a", "b"}], {"a"}, {"a": 2, "b": 3}) == [(0,)]
    assert eb.Optimizer(1).search(["ab"], "a", {"a": 2, "b": 3}).N == 1


# what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "kind", "text"),
    [
        (
            {"memory_limit": 320_000},
            "path",
            r"memory_limit=320000 bytes is too small for a path of another library; the smallest "
            r"found holds \d+ bytes there, 524288 of them for intermediate '....' "
            r"\(operands 237568, result 73728\); a path has no loops; "
            r"einbound\.einsum\(\.\.\., memory_limit=320000\) opens the loops that keep the limit",
        ),
        (
            {"workspace_limit": 10_000},
            "path",
            r"workspace_limit=10000 bytes is too small for a path .* a path has no loops; "
            r"einbound\.einsum\(\.\.\., workspace_limit=10000\) opens",
        ),
        (
            {"memory_limit": 320_000},
            "tree",
            r"too small for a tree of another library; .* a tree has loops around all of it only; "
            r"einbound\.einsum\(\.\.\., memory_limit=320000\) opens",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_way_out(
    limits: dict[str, Any], kind: str, text: str
) -> None:
    planner = eb.Optimizer(**limits)
    ask = planner if kind == "path" else planner.search
    with pytest.raises(eb.BudgetError, match=text):
        ask(*split(LADDER), SIZES)


def test_a_refusal_carries_its_numbers() -> None:
    with pytest.raises(eb.BudgetError, match="for the operands") as caught:
        eb.Optimizer(1000)(*split("ab,bc,cd->ad"), SIZES)
    error = caught.value
    assert (error.limit_bytes, error.culprit) == (1000, "the operands")
    assert error.smallest_bytes > error.lower_bound_bytes > 1000
    assert not error.certified
    planner = eb.Optimizer(error.smallest_bytes)
    assert len(planner(*split("ab,bc,cd->ad"), SIZES)) == 2


@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        (
            lambda: eb.Optimizer(dtype=object),
            eb.PlanError,
            "Optimizer was given dtype object, whose elements take memory that no shape tells; "
            "expected a numeric dtype",
        ),
        (lambda: eb.Optimizer("much"), ValueError, "memory_limit='much' is no amount of memory"),
        (
            lambda: eb.Optimizer()(*split("ab,bc->ac"), SIZES, 100),
            eb.PlanError,
            "memory_limit=100 was given beside an Optimizer; it counts elements of one "
            r"intermediate; give einbound\.Optimizer\(memory_limit=\.\.\.\) in bytes instead",
        ),
        (
            lambda: eb.Optimizer()(["ab", "bz"], "a", {"a": 2, "b": 3}),
            eb.PlanError,
            r"inputs \['ab', 'bz'\], output 'a' and sizes {'a': 2, 'b': 3}; expected one or more "
            "inputs and the size of each of their labels, and no other label in the output",
        ),
        (lambda: eb.Optimizer()(["ab"], "az", SIZES), eb.PlanError, "no other label in the output"),
        (lambda: eb.Optimizer()([], "", {}), eb.PlanError, "expected one or more inputs"),
    ],
)
def test_wrong_questions_are_refused(
    ask: Callable[[], Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        ask()


def test_trees_need_cotengra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cotengra", None)
    with pytest.raises(
        eb.BackendError,
        match=r"cotengra is not installed; install it with pip install einbound\[interop\]",
    ):
        eb.Optimizer().search(*split(LADDER), SIZES)


# orders of theirs, our limit ----------------------------------------------------------------

NETWORK = "ab,bcd,ce,def,fa,ag->g"
NETWORK_SIZES = dict(zip("abcdefg", (9, 8, 7, 10, 6, 5, 4), strict=True))


def shapes(text: str = NETWORK) -> list[tuple[int, ...]]:
    return [tuple(NETWORK_SIZES[c] for c in term) for term in split(text)[0]]


class Custom(PathOptimizer):  # type: ignore[misc]  # its type is not known where it is absent
    """A path optimizer as people write them: sets of labels in, pairs out."""

    def __call__(
        self, inputs: Any, output: Any, size_dict: Any, memory_limit: Any = None
    ) -> list[tuple[int, int]]:
        assert all(isinstance(term, frozenset) for term in (*inputs, output))
        return [(0, 1)] * (len(inputs) - 1)


def cotengra_tree() -> Any:
    return ctg.einsum_tree(NETWORK, *shapes(), optimize="greedy")


PLANNERS: dict[str, Callable[[], Any]] = {
    "DynamicProgramming": oe.DynamicProgramming,
    "RandomGreedy": lambda: oe.RandomGreedy(max_repeats=2),
    "BranchBound": oe.BranchBound,
    "custom subclass": Custom,
    "opt_einsum function": lambda: oe.paths.greedy,
    "opt_einsum contract_path": lambda: oe.contract_path(NETWORK, *shapes(), shapes=True),
    "numpy einsum_path": lambda: np.einsum_path(NETWORK, *map(np.zeros, shapes())),
    "numpy path": lambda: np.einsum_path(NETWORK, *map(np.zeros, shapes()))[0],
    "HyperOptimizer": lambda: ctg.HyperOptimizer(
        max_repeats=2, methods=["greedy"], optlib="random", parallel=False
    ),
    "ReusableHyperOptimizer": lambda: ctg.ReusableHyperOptimizer(
        max_repeats=2, methods=["greedy"], optlib="random", parallel=False
    ),
    "GreedyOptimizer": ctg.GreedyOptimizer,
    "OptimalOptimizer": ctg.OptimalOptimizer,
    "cotengra function": lambda: ctg.pathfinders.path_basic.optimize_greedy,
    "ContractionTree": cotengra_tree,
    "sliced ContractionTree": lambda: cotengra_tree().slice(target_slices=8),
    "Optimizer": eb.Optimizer,
    "generator of a path": lambda: lambda inputs, output, sizes: ((0, 1) for _ in inputs[1:]),
    "Effort": lambda: Effort(trials=1),
}


@pytest.mark.parametrize("name", PLANNERS)
def test_a_limit_is_kept_around_every_planner(name: str) -> None:
    arrays = operands(NETWORK, NETWORK_SIZES)
    limit = sum(a.nbytes for a in arrays) + 1000
    plan = eb.plan(NETWORK, *arrays, memory_limit=limit, optimize=PLANNERS[name]())
    assert plan.peak_bytes <= limit
    expected = np.einsum(NETWORK, *arrays, optimize="greedy")
    np.testing.assert_allclose(plan(*arrays), expected)
    result = eb.einsum(NETWORK, *arrays, memory_limit=limit, optimize=PLANNERS[name]())
    np.testing.assert_allclose(result, expected)


@pytest.mark.parametrize("name", ["DynamicProgramming", "OptimalOptimizer", "Optimizer"])
def test_labels_that_are_no_letters_reach_planners_as_letters(name: str) -> None:
    a, b, c = np.ones((4, 5)), np.ones((5, 6)), np.ones((6, 7))
    args = (a, ["row", 1], b, [1, ("x", 2)], c, [("x", 2), None], ["row", None])
    assert eb.plan(*args, optimize=PLANNERS[name]()).path == eb.plan(*args).path


def test_a_tree_keeps_its_order_and_not_its_slices() -> None:
    tree = cotengra_tree()
    sliced = tree.slice(target_slices=8)
    plan = eb.plan(NETWORK, *shapes(), optimize=sliced)
    assert plan.path == tuple(tuple(sorted(pair)) for pair in sliced.get_path())
    assert plan.loops == ()


def test_a_tree_can_be_searched_for() -> None:
    class Searcher:
        def search(self, inputs: Any, output: Any, sizes: Any) -> Any:
            return ctg.ContractionTree.from_path(inputs, output, sizes, path=[(1, 2), (0, 1)])

    assert eb.plan("ab,bc,cd->ad", (9, 8), (8, 7), (7, 9), optimize=Searcher()).path[0] == (1, 2)


def test_a_planner_is_asked_once_and_keeps_its_hands_off() -> None:
    asked = 0

    def greedy_hands(inputs: Any, output: Any, sizes: Any, limit: Any) -> list[tuple[int, int]]:
        nonlocal asked
        asked += 1
        n = len(inputs)
        inputs.clear()
        sizes.clear()
        return [(0, 1)] * (n - 1)

    arrays = operands(NETWORK, NETWORK_SIZES)
    result = eb.einsum(NETWORK, *arrays, optimize=greedy_hands, memory_limit="100 kB")
    assert asked == 1
    np.testing.assert_allclose(result, np.einsum(NETWORK, *arrays, optimize="greedy"))


def test_a_planner_sees_the_letters_of_the_caller() -> None:
    seen: list[Any] = []

    def planner(inputs: Any, output: Any, sizes: Any) -> list[tuple[int, int]]:
        seen.extend([inputs, output, sizes])
        return [(0, 1), (0, 1)]

    eb.plan("xy,yz,zw->xw", (2, 3), (3, 4), (4, 5), optimize=planner)
    assert seen == [
        [{"x", "y"}, {"y", "z"}, {"z", "w"}],
        {"x", "w"},
        {"x": 2, "y": 3, "z": 4, "w": 5},
    ]


def test_more_indices_than_letters_have_different_names() -> None:
    n = 60
    text = [[k, k + 1] for k in range(n)]
    args: list[Any] = [part for k in range(n) for part in ((2, 2), text[k])]
    seen: list[Any] = []

    def planner(inputs: Sequence[Any], output: Any, sizes: Any) -> list[tuple[int, int]]:
        seen.append(sizes)
        return [(0, 1)] * (len(inputs) - 1)

    eb.plan(*args, [0, n], optimize=planner)
    assert len(seen[0]) == n + 1


def failing(inputs: Any, output: Any, sizes: Any, limit: Any) -> None:
    raise KeyError("q")


@pytest.mark.parametrize(
    ("optimize", "error", "text"),
    [
        (
            failing,
            eb.PlanError,
            "the planner failing given as optimize raised KeyError: 'q'; expected a path; try it "
            "alone, or let einbound choose with optimize='auto'",
        ),
        (
            lambda *_: 7,
            TypeError,
            "the planner <lambda> given as optimize returned 7; expected a path: a list of tuples "
            r"of operand positions, such as \[\(0, 1\), \(0, 1\)\]",
        ),
        (lambda *_: [(0, 1)], eb.PathError, "path"),
        (lambda *_: [(0, 7)], eb.PathError, r"path entry \(0, 7\) does not fit the 3 values left"),
        (
            oe.DynamicProgramming,
            TypeError,
            r"optimize is the class DynamicProgramming; expected an instance; give "
            r"DynamicProgramming\(\)",
        ),
        (eb.Optimizer(10), eb.BudgetError, "a path has no loops"),
        ("random-greedy-7", eb.ExpressionError, "optimize='random-greedy-7' is not known"),
        (object(), TypeError, "optimize is <object object at .*>; expected True, False, a preset"),
    ],
)
def test_a_planner_at_fault_is_named(optimize: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        eb.plan("ab,bc,cd->ad", (2, 3), (3, 4), (4, 5), optimize=optimize)


def test_an_effort_is_no_path() -> None:
    effort = Effort(states=10)

    def nothing() -> Any:
        raise AssertionError

    assert chosen_path(effort, nothing) is None
    assert chosen_effort(effort) is effort
    assert chosen_effort("auto") is None


def test_no_way_out_is_promised_where_operands_and_result_pass_the_limit() -> None:
    sizes = dict.fromkeys("abcd", 30)
    terms = ["ab", "bc", "cd"]
    with pytest.raises(
        eb.BudgetError, match=r"no loops; nothing keeps the limit: operands and result take 28800$"
    ) as caught:
        eb.Optimizer(28_799)(terms, "ad", sizes)
    assert caught.value.lower_bound_bytes > caught.value.limit_bytes
    with pytest.raises(eb.BudgetError, match=r"memory_limit=28800\) opens the loops"):
        eb.Optimizer(28_800)(terms, "ad", sizes)


def test_an_effort_that_is_none_is_refused() -> None:
    optimizer: Any = eb.Optimizer
    with pytest.raises(TypeError, match="effort is 5 of type int; expected an einbound"):
        optimizer("1 MB", effort=5)
