"""Contraction orders: exact ones against every tree, large ones against known figures."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from einbound.expr.network import Network
from einbound.plan.masks import Steps, Terms, carried_masks, order_macs
from einbound.plan.model import Count
from einbound.plan.order import first_order, greedy_order, optimal_orders
from einbound.plan.tree import Tree
from hash_seeds import printed_under_hash_seeds
from trees import random_network

SEEDS = st.integers(0, 10**6)


def network_of(text: str, sizes: dict[str, int]) -> Network:
    """The network of an einsum text with letters only."""
    inputs, output = text.split("->")
    letters = "".join(dict.fromkeys(inputs.replace(",", "") + output))
    terms = tuple(tuple(letters.index(c) for c in dict.fromkeys(t)) for t in inputs.split(","))
    kept = tuple(letters.index(c) for c in output)
    return Network(tuple(letters), tuple(sizes[c] for c in letters), terms, kept, ())


def stored_network(record: dict[str, Any]) -> Network:
    """The network of one of the files in tests/data/networks."""
    labels = tuple(record["sizes"])
    inputs = tuple(tuple(labels.index(i) for i in term) for term in record["inputs"])
    output = tuple(labels.index(i) for i in record["output"])
    return Network(labels, tuple(record["sizes"].values()), inputs, output, ())


def every_tree(values: tuple[int, ...], made: int) -> Iterator[Steps]:
    """Every order of the values, as steps whose products are numbered from `made`."""
    if len(values) == 1:
        yield ()
        return
    for i, left in enumerate(values):
        for right in values[i + 1 :]:
            rest = tuple(v for v in values if v not in (left, right))
            for steps in every_tree((*rest, made), made + 1):
                yield ((left, right), *steps)


def macs(network: Network, steps: Steps) -> int:
    return Count(Tree.plain(network, steps), 8).macs


def flops(network: Network, steps: Steps) -> int:
    """Two per multiply-add of a step that sums, else one."""
    terms = Terms.of(network)
    carried = carried_masks(terms, steps)
    total = 0
    for step, (left, right) in enumerate(steps):
        union = carried[left] | carried[right]
        sums = carried[len(network.inputs) + step] != union
        total += terms.sizes[union] * (2 if sums else 1)
    return total


@settings(max_examples=40)
@given(SEEDS, st.integers(2, 5))
def test_no_tree_has_fewer_macs_than_the_first_order(seed: int, n: int) -> None:
    network = random_network(random.Random(seed), n, 6)
    every = list(every_tree(tuple(range(n)), n))
    assert macs(network, first_order(network)) == min(macs(network, steps) for steps in every)


@pytest.mark.parametrize("seed", range(3))
def test_no_tree_of_six_operands_has_fewer_macs(seed: int) -> None:
    network = random_network(random.Random(seed), 6, 6)
    least = min(order_macs(Terms.of(network), s) for s in every_tree(tuple(range(6)), 6))
    assert macs(network, first_order(network)) == least


@settings(max_examples=40)
@given(SEEDS, st.integers(2, 5))
def test_the_orders_hold_the_least_peak_without_loops(seed: int, n: int) -> None:
    network = random_network(random.Random(seed), n, 6)
    # Operands with a sum of their own need memory that orders do not look at.
    network = Network(
        network.labels, network.extents, network.inputs, tuple(range(6)), network.accesses
    )

    def peak(steps: Steps) -> int:
        return Count(Tree.plain(network, steps), 1).peak_bytes

    least = min(peak(steps) for steps in every_tree(tuple(range(n)), n))
    assert min(peak(steps) for steps in optimal_orders(network)) == least


@given(SEEDS, st.integers(2, 7))
def test_orders_rise_in_macs_and_are_distinct(seed: int, n: int) -> None:
    network = random_network(random.Random(seed), n, 6)
    found = optimal_orders(network, 6)
    trees = {frozenset(Tree.plain(network, steps).below[n:]) for steps in found}
    counted = [macs(network, steps) for steps in found]
    assert counted[:6] == sorted(counted[:6])
    assert len(found) == len(set(found)) >= len(trees)


@given(SEEDS, st.integers(2, 6))
def test_masks_carry_what_the_tree_carries(seed: int, n: int) -> None:
    network = random_network(random.Random(seed), n, 6)
    for steps in optimal_orders(network, 3):
        tree = Tree.plain(network, steps)
        masks = carried_masks(Terms.of(network), steps)
        assert [sum(1 << i for i in indices) for indices in tree.carried] == masks
        assert order_macs(Terms.of(network), steps) == macs(network, steps)


@pytest.mark.parametrize("n", [4, 7, 10])
def test_macs_do_not_depend_on_the_order_of_operands(n: int) -> None:
    rng = random.Random(n)
    network = random_network(rng, n, 8)
    expected = macs(network, first_order(network))
    for _ in range(20):
        inputs = rng.sample(network.inputs, n)
        permuted = Network(network.labels, network.extents, tuple(inputs), network.output, ())
        assert macs(permuted, first_order(permuted)) == expected


def test_orders_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "import random; from trees import random_network;"
        "from einbound.plan.order import first_order, greedy_order;"
        "r = random.Random(5); small = random_network(r, 7, 8); large = random_network(r, 30, 25);"
        "print(first_order(small), greedy_order(large))"
    )
    said = printed_under_hash_seeds(code)
    assert len(said) == 1


def test_a_batch_index_is_no_outer_product() -> None:
    network = network_of("bgk,bkd,bk->bgd", {"b": 64, "g": 8, "k": 4096, "d": 128})
    steps = first_order(network)
    assert flops(network, steps) <= 5.390e8
    terms = Terms.of(network)
    assert max(terms.sizes[mask] for mask in carried_masks(terms, steps)[3:]) <= 2.10e6


def test_ten_operands_of_hyper_indices_reach_eighty_flops() -> None:
    text = "a,c,d,db,ab,cb,ac,cd,ad,b->dbc"
    network = network_of(text, dict.fromkeys("abcd", 2))
    assert flops(network, first_order(network)) == 80


def test_a_diagonal_between_two_matrices_is_applied_to_the_smaller() -> None:
    network = network_of("ki,k,kj,k->ij", {"k": 10**4, "i": 100, "j": 100})
    terms, steps = Terms.of(network), first_order(network)
    assert flops(network, steps) <= 2.1e8
    assert max(terms.sizes[mask] for mask in carried_masks(terms, steps)) <= 10**6


def test_seventeen_operands_of_a_batched_hyper_structure() -> None:
    letters = "ijklmnopqrstuvwxW"
    terms = [f"ABC{c}" for c in letters[:16]]
    sizes = {**dict.fromkeys(letters, 2), "A": 512, "B": 25, "C": 25}
    network = network_of(",".join([*terms, letters]) + "->ABCW", sizes)
    steps = first_order(network)
    masks = carried_masks(Terms.of(network), steps)
    largest = max(Terms.of(network).sizes[mask] for mask in masks[17:])
    assert largest <= 512 * 25 * 25 * 2**16
    assert macs(network, steps) <= 512 * 25 * 25 * 2**18


@pytest.mark.parametrize(
    "network",
    [
        Network(("i",), (3,), ((0,),) * 70, (0,), ()),
        Network(tuple(range(41)), (2,) * 41, tuple((k, k + 1) for k in range(40)), (0, 40), ()),
        Network(("i", "j"), (3, 4), ((0, 1), (0,)) * 150, (0,), ()),
        Network((), (), ((),) * 12, (), ()),
        Network(tuple(range(24)), (2,) * 24, tuple((k,) for k in range(24)), (3,), ()),
    ],
    ids=["seventy vectors", "chain", "hyper-index", "scalars", "disconnected"],
)
def test_many_operands_have_an_order(network: Network) -> None:
    tree = Tree.plain(network, greedy_order(network)).check()
    assert len(tree.steps) == len(network.inputs) - 1
    assert set(tree.carried[tree.root]) == set(network.output)


def test_a_chain_is_contracted_from_its_ends() -> None:
    network = Network(
        tuple(range(41)), (2,) * 41, tuple((k, k + 1) for k in range(40)), (0, 40), ()
    )
    assert macs(network, greedy_order(network)) == 39 * 8


@pytest.mark.parametrize(
    ("name", "most"),
    # Twice the fewest multiply-adds known from 48 trials of a randomised search.
    [("peps5x5_D4_norm", 2 * 3_951_000_000), ("reg3_n60_D4", 2 * 39_930_000)],
)
def test_large_networks_have_good_orders(
    name: str, most: int, network_file: Callable[[str], dict[str, Any]]
) -> None:
    network = stored_network(network_file(name))
    assert macs(network, greedy_order(network)) <= most
