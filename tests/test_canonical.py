"""The order in which operands are given changes no plan."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einbound as eb
from einbound.expr.network import Network
from einbound.plan.canonical import Canonical
from einbound.plan.effort import Effort
from einbound.plan.grid import Grid, Mode
from einbound.plan.model import Count
from einbound.plan.rules import Rules
from einbound.plan.tree import Tree
from trees import random_network, random_tree

SEEDS = st.integers(0, 10**6)
#: Networks of operands that look alike: an exchange changes nothing, or only seems to.
ALIKE = {
    "ring": "ab,bc,cd,de,ef,fg,gh,hi,ij,jk,kl,la->",
    "rings of two": "ab,ba,cd,dc,ef,fe,gh,hg,ij,ji,kl,lk->",
    "vectors": "a,a,a,a,a,a,a,a,a,a,a,a->a",
    "scalars": "a,b,c,d,e,f,g,h,i,j,k,l->",
    "rings of three and six": "ab,bc,ca,de,ef,fd,gh,hi,ij,jk,kl,lg->",
    "lattice": "abcd,efgh,ijkl,mnop,aeim,bfjn,cgko,dhlp->",
    "all pairs": "ab,ac,ad,ae,bc,bd,be,cd,ce,de->",
}


def network_of(text: str, extent: int = 4) -> Network:
    """A network whose indices all have one extent."""
    left, output = text.split("->")
    terms = left.split(",")
    numbers = {label: k for k, label in enumerate(dict.fromkeys("".join(terms)))}
    inputs = tuple(tuple(numbers[label] for label in term) for term in terms)
    return Network(
        tuple(numbers),
        (extent,) * len(numbers),
        inputs,
        tuple(map(numbers.__getitem__, output)),
        (),
    )


def shuffled(network: Network, rules: Rules, rng: random.Random) -> tuple[Network, Rules]:
    """The same with operands and indices in another order."""
    operands = rng.sample(range(len(network.inputs)), len(network.inputs))
    indices = rng.sample(range(len(network.extents)), len(network.extents))
    number = {i: k for k, i in enumerate(indices)}
    made = Network(
        tuple(network.labels[i] for i in indices),
        tuple(network.extents[i] for i in indices),
        tuple(tuple(number[i] for i in network.inputs[k]) for k in operands),
        tuple(number[i] for i in network.output),
        (),
        frozenset(operands.index(k) for k in network.streamed),
    )
    modes = tuple(rules.grid.modes[i] for i in indices)
    volatile = frozenset(operands.index(k) for k in rules.volatile)
    return made, replace(rules, grid=Grid(modes), volatile=volatile)


def without_unused(network: Network) -> Network:
    """The network with all its indices on operands."""
    used = sorted({i for indices in network.inputs for i in indices})
    return Network(
        tuple(network.labels[i] for i in used),
        tuple(network.extents[i] for i in used),
        tuple(tuple(map(used.index, indices)) for indices in network.inputs),
        tuple(map(used.index, network.output)),
        (),
    )


def seen(network: Network, rules: Rules) -> Any:
    """All that a search may see of a network in its canonical order."""
    form = Canonical.of(network, rules)
    made, asked = form.network, form.rules(rules)
    return made.extents, made.inputs, made.output, made.streamed, asked


def random_rules(rng: random.Random, network: Network) -> Rules:
    """Rules that tell some indices and operands apart."""
    modes = []
    for extent in network.extents:
        edges = (0, 1, extent) if extent > 2 and rng.random() < 0.3 else ()
        modes.append(Mode(extent, edges, rng.random() < 0.7, rng.choice((None, None, 1, 2))))
    n = range(len(network.inputs))
    return Rules(Grid(tuple(modes)), volatile=frozenset(k for k in n if rng.random() < 0.3))


@settings(max_examples=300)
@given(SEEDS, st.integers(1, 8), st.booleans())
def test_every_order_of_operands_and_indices_is_the_same_network(
    seed: int, n: int, alike: bool
) -> None:
    rng = random.Random(seed)
    network = without_unused(random_network(rng, n, 8, largest=1 if alike else 3))
    network = replace(network, streamed=frozenset(k for k in range(n) if rng.random() < 0.2))
    rules = Rules.free(network) if alike else random_rules(rng, network)
    expected = seen(network, rules)
    for _ in range(3):
        assert seen(*shuffled(network, rules, rng)) == expected


@pytest.mark.parametrize("name", ALIKE)
def test_operands_that_look_alike_are_told_apart_by_their_places(name: str) -> None:
    network, rng = network_of(ALIKE[name]), random.Random(name)
    free = Rules.free(network)
    assert len({repr(seen(*shuffled(network, free, rng))) for _ in range(8)}) == 1


def test_networks_that_only_look_alike_stay_different() -> None:
    two = "ab,bc,ca,de,ef,fd,gh,hi,ij,jk,kl,lg->", "ab,bc,cd,da,ef,fg,gh,he,ij,jk,kl,li->"
    made = [network_of(text) for text in two]
    assert len({repr(seen(network, Rules.free(network))) for network in made}) == 2


def test_more_equal_operands_than_there_are_choices_still_have_an_order() -> None:
    network = network_of("a," * 600 + "a->a")
    assert sorted(Canonical.of(network, Rules.free(network)).operands) == list(range(601))


@given(SEEDS, st.integers(2, 6))
def test_a_tree_that_is_restored_is_the_same_tree_of_the_given_network(seed: int, n: int) -> None:
    rng = random.Random(seed)
    network = random_network(rng, n, 6)
    form = Canonical.of(network, Rules.free(network))
    tree = random_tree(rng, form.network)
    back = form.restored(tree).check()
    assert back.network is network
    assert [{network.labels[i] for i in carried} for carried in back.carried[n:]] == [
        {form.network.labels[i] for i in carried} for carried in tree.carried[n:]
    ]
    one, other = Count(tree, 8), Count(back, 8)
    assert (one.macs, one.calls, one.peak_bytes) == (other.macs, other.calls, other.peak_bytes)
    assert form.steps(back.steps) == tree.steps


def counts_of_orders(text: str, shapes: Any, rng: random.Random, n: int, **options: Any) -> Any:
    """What plans take under some orders of the operands: one row if the order is no matter."""
    left, output = text.split("->")
    terms = left.split(",")
    rows: set[tuple[Any, ...]] = set()
    for number in range(n):
        order = list(range(len(terms)))
        if number:
            rng.shuffle(order)
        asked = ",".join(terms[k] for k in order) + "->" + output
        try:
            plan = eb.plan(asked, *(shapes[k] for k in order), order="C", **options)
        except eb.BudgetError as error:
            rows.add(("refused", error.smallest_bytes, error.lower_bound_bytes))
        else:
            rows.add((plan.macs, plan.peak_bytes, plan.workspace_bytes, plan.fits, plan.proven))
    return rows


TIGHT = "gafc,bga,edb,dbef,c->eb", ((3, 3, 4, 3), (8, 3, 3), (8, 2, 8), (2, 8, 8, 4), (3,))


@pytest.mark.parametrize(
    "options",
    [
        {"memory_limit": 7300, "optimize": Effort(states=20)},
        {"memory_limit": 7500, "tiles": {"e": 4}},
        {"memory_limit": 7500, "tiles": {"b": (0, 3, 8), "d": 1}},
    ],
    ids=["few states", "tiles", "uneven tiles"],
)
def test_ten_orders_have_equal_counts(options: Any) -> None:
    assert len(counts_of_orders(*TIGHT, random.Random(1), 10, **options)) == 1


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, Any, dict[str, Any]]:
    """An equation with shapes, and what is asked of its plan."""
    rng = random.Random(draw(SEEDS))
    network = random_network(rng, rng.randint(3, 5), 6, largest=draw(st.sampled_from([4, 9])))
    name = network.labels.__getitem__
    terms = ["".join(map(str, map(name, indices))) for indices in network.inputs]
    text = ",".join(terms) + "->" + "".join(map(str, map(name, network.output)))
    shapes = [tuple(network.extents[i] for i in indices) for indices in network.inputs]
    used = sorted({i for indices in network.inputs for i in indices})
    options: dict[str, Any] = {}
    flags = st.booleans()
    if draw(flags):
        options["optimize"] = Effort(states=draw(st.sampled_from([5, 40, 400])))
    if draw(flags) and used:
        options["tiles"] = {name(i): rng.randint(1, 4) for i in rng.sample(used, 1)}
    plain = eb.plan(text, *shapes)
    share = draw(st.sampled_from([2, 4, 8, 100]))
    limit = plain.peak_bytes - plain.workspace_bytes + plain.workspace_bytes // share
    if draw(flags):
        options["policy"] = eb.BatchPolicy(
            is_batchable_contracted_index=lambda index: str(index.label) in "abcd",
            is_batchable_external_index=lambda index: str(index.label) in "bcde",
            batch_target_size=draw(st.sampled_from([None, lambda index: 2])),
            peak_threshold=limit,
        )
        options["objective"] = draw(st.sampled_from(["time", "space"]))
    else:
        options["memory_limit"] = limit
    return text, shapes, options


@pytest.mark.filterwarnings("ignore::einbound.BudgetWarning")
@settings(max_examples=40)
@given(requests(), SEEDS)
def test_counts_do_not_depend_on_the_order_of_operands(
    request: tuple[str, Any, dict[str, Any]], seed: int
) -> None:
    text, shapes, options = request
    assert len(counts_of_orders(text, shapes, random.Random(seed), 4, **options)) == 1


def test_many_operands_in_any_order_have_equal_counts() -> None:
    text = "ab,bcd,ce,dfg,eh,fhi,gj,ikl,jm,kn,lmo,np,opq,qra->r"
    rng = random.Random(3)
    sizes = {label: rng.randint(2, 9) for label in "abcdefghijklmnopqr"}
    shapes = [tuple(sizes[label] for label in term) for term in text.split("->")[0].split(",")]
    plain = eb.plan(text, *shapes)
    limit = plain.peak_bytes - plain.workspace_bytes * 3 // 4
    assert len(counts_of_orders(text, shapes, rng, 4, memory_limit=limit)) == 1


def test_operands_that_differ_in_their_strides_only_are_told_apart() -> None:
    rows = np.zeros((12, 12))
    by_rows, by_columns, text = rows, rows.copy(order="F"), "ab,ab,ac,bd->cd"
    peaks = {
        eb.plan(text, *pair, rows.copy(), rows.copy(), order="C", memory_limit=6000).peak_bytes
        for pair in ((by_rows, by_columns), (by_columns, by_rows))
    }
    assert len(peaks) == 1


@given(SEEDS, st.integers(2, 6))
def test_the_path_of_a_tree_gives_its_steps_again(seed: int, n: int) -> None:
    rng = random.Random(seed)
    network = random_network(rng, n, 6)
    tree = random_tree(rng, network)
    assert Tree.from_path(network, tree.sided_path).steps == tree.steps
