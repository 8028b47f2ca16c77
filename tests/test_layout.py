"""Axis orders of intermediates: on the shipped networks no bytes are left to copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import opt_einsum  # type: ignore[import-untyped]
import pytest

from einbound.expr.network import Access, Network
from einbound.plan.tree import Tree
from einbound.step.form import forms
from einbound.step.layout import PACKED_BYTE_SECONDS, LayoutProblem, choose_layouts
from einbound.step.pair import A, B, C, Group
from einbound.step.view import View
from einbound.step.way import DEFAULT_BUFFER_BYTES, Way, pair_way

#: Bytes that the input's own layout leaves to copy: no order of an intermediate can help.
LEFT_BYTES = {
    "ao2mo_vvvv": 0,
    "circ5x5_d8": 0,
    "df_mp2x": 0,
    "numpy_11825": 0,
    "ppl_df_s": 0,
    "quad_mixed_df": 0,
    "t1t1t2_df": 0,
    "thc_ppl": 0,
    # The input kjcb holds the summed k and c apart: the smaller operand is packed.
    "ring_df": 8 * 24 * 24 * 90 * 90,
    # Forms without copies exist for every step here, but small inputs are packed since that is
    # estimated faster, and so are a few intermediates, which the sweeps over single orders leave.
    "peps5x5_D4_norm": 465_920,
    "reg3_n60_D4": 4096,
}
#: Intermediates that are copied although an order without copies exists; a fault to be mended.
COPIED_INTERMEDIATES = {"peps5x5_D4_norm": 3, "reg3_n60_D4": 2}


def network_of(record: Mapping[str, Any]) -> Network:
    labels = sorted(record["sizes"])
    number = {label: i for i, label in enumerate(labels)}
    inputs = tuple(tuple(number[x] for x in term) for term in record["inputs"])
    return Network(
        labels=tuple(labels),
        extents=tuple(record["sizes"][label] for label in labels),
        inputs=inputs,
        output=tuple(number[x] for x in record["output"]),
        accesses=tuple(Access(tuple((k,) for k in range(len(term)))) for term in inputs),
    )


def tree_of(network: Network) -> Tree:
    find = opt_einsum.paths.optimal if len(network.inputs) <= 8 else opt_einsum.paths.greedy
    inputs = [frozenset(term) for term in network.inputs]
    sizes = dict(enumerate(network.extents))
    return Tree.from_path(network, find(inputs, frozenset(network.output), sizes, None))


def contiguous(network: Network, indices: tuple[int, ...], dtype: np.dtype) -> View:
    return View.contiguous(indices, tuple(network.extents[i] for i in indices), dtype)


def problem_of(tree: Tree, dtype: np.dtype) -> LayoutProblem:
    """The layouts of a tree without loops."""
    network = tree.network
    sizes = dict(enumerate(network.extents))
    return LayoutProblem(
        steps=tree.steps,
        carried=tree.carried,
        extents=tuple({i: sizes[i] for i in carried} for carried in tree.carried),
        widths=(sizes,) * len(tree.steps),
        operands=tuple(contiguous(network, term, dtype) for term in network.inputs),
        result=contiguous(network, network.output, dtype),
        work=dtype,
        looped=((),) * len(tree.carried),
        calls=(1,) * len(tree.steps),
        buffer_bytes=DEFAULT_BUFFER_BYTES,
    )


def ways_of(problem: LayoutProblem, orders: tuple[tuple[int, ...], ...]) -> list[Way]:
    """How every step is done with values in these orders."""
    n_operands, last = len(problem.operands), len(problem.carried) - 1
    ways = []
    for step, (left, right) in enumerate(problem.steps):
        views = []
        for value in (left, right, n_operands + step):
            order = orders[value]
            view = View.contiguous(
                order, tuple(problem.extents[value][i] for i in order), problem.work
            )
            if value < n_operands:
                view = problem.operands[value]
            elif value == last:
                view = problem.result
            views.append(view.narrow(problem.widths[step]))
        a, b, c = views
        bound = problem.buffer_bytes
        ways.append(pair_way(a, b, c, problem.work, accumulate=False, buffer_bytes=bound))
    return ways


@pytest.mark.parametrize("name", sorted(LEFT_BYTES))
def test_no_bytes_are_left_to_copy_on_the_shipped_networks(
    name: str, network_file: Callable[[str], dict[str, Any]]
) -> None:
    record = network_file(name)
    problem = problem_of(tree_of(network_of(record)), np.dtype(record["dtype"]))
    ways = ways_of(problem, choose_layouts(problem))
    assert sum(way.copied_bytes for way in ways) <= LEFT_BYTES[name]


@pytest.mark.parametrize("name", sorted(LEFT_BYTES))
def test_no_intermediate_is_copied_but_for_the_known_few(
    name: str, network_file: Callable[[str], dict[str, Any]]
) -> None:
    record = network_file(name)
    problem = problem_of(tree_of(network_of(record)), np.dtype(record["dtype"]))
    ways = ways_of(problem, choose_layouts(problem))
    copied = [
        step[buffer.side]
        for step, way in zip(problem.steps, ways, strict=True)
        for buffer in way.packs
        if step[buffer.side] >= len(problem.operands)
    ]
    assert len(copied) <= COPIED_INTERMEDIATES.get(name, 0)


@pytest.mark.parametrize(
    ("name", "without_form"),
    [(name, {"ring_df": 1, "quad_mixed_df": 1}.get(name, 0)) for name in sorted(LEFT_BYTES)],
)
def test_every_step_has_a_form_on_views_unless_two_inputs_split_the_sum(
    name: str, without_form: int, network_file: Callable[[str], dict[str, Any]]
) -> None:
    record = network_file(name)
    problem = problem_of(tree_of(network_of(record)), np.dtype(record["dtype"]))
    pairs = [way.pair for way in ways_of(problem, choose_layouts(problem))]
    lacking = [
        pair
        for pair in pairs
        if pair.groups[Group.SUM] and all(form.looped for form in forms(pair, frozenset({A, B, C})))
    ]
    assert len(lacking) == without_form


@pytest.mark.parametrize("name", ["ppl_df_s", "t1t1t2_df", "df_mp2x", "thc_ppl", "peps5x5_D4_norm"])
def test_chosen_orders_are_estimated_faster_than_natural_ones(
    name: str, network_file: Callable[[str], dict[str, Any]]
) -> None:
    record = network_file(name)
    problem = problem_of(tree_of(network_of(record)), np.dtype(record["dtype"]))
    natural = list(problem.carried)
    natural[-1] = problem.result.indices

    def cost(orders: tuple[tuple[int, ...], ...]) -> float:
        ways = ways_of(problem, orders)
        return sum(way.seconds + PACKED_BYTE_SECONDS * way.copied_bytes for way in ways)

    assert cost(choose_layouts(problem)) < cost(tuple(natural))


@pytest.mark.parametrize("name", sorted(LEFT_BYTES))
def test_every_value_keeps_its_indices_and_the_result_its_order(
    name: str, network_file: Callable[[str], dict[str, Any]]
) -> None:
    record = network_file(name)
    problem = problem_of(tree_of(network_of(record)), np.dtype(record["dtype"]))
    orders = choose_layouts(problem)
    assert len(orders) == len(problem.carried)
    for order, carried in zip(orders, problem.carried, strict=True):
        assert sorted(order) == sorted(carried)
    assert orders[-1] == problem.result.indices
    assert orders == choose_layouts(problem)


def chain(looped: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Orders for ac,cbd->abd, then abd,bd->a; the second step sees slices of `looped`."""
    a, b, c, d = range(4)
    sizes = {a: 8, b: 6, c: 5, d: 7}
    widths = {**sizes, **dict.fromkeys(looped, 1)}
    dtype = np.dtype("f8")

    def stored(*indices: int) -> View:
        return View.contiguous(indices, tuple(sizes[i] for i in indices), dtype)

    problem = LayoutProblem(
        steps=((0, 1), (3, 2)),
        carried=((a, c), (c, b, d), (b, d), (a, b, d), (a,)),
        extents=tuple(
            {i: sizes[i] for i in own} for own in ((a, c), (c, b, d), (b, d), (a, b, d), (a,))
        ),
        widths=(sizes, widths),
        operands=(stored(a, c), stored(c, b, d), stored(b, d)),
        result=stored(a),
        work=dtype,
        looped=((), (), (), looped, ()),
        calls=(1, 1),
        buffer_bytes=DEFAULT_BUFFER_BYTES,
    )
    return choose_layouts(problem)


def test_summed_indices_follow_the_order_of_an_input() -> None:
    order = chain(())[3]
    assert order.index(1) < order.index(3)


@pytest.mark.parametrize("looped", [1, 3])
def test_an_index_that_the_reader_loops_over_is_outermost_in_its_group(looped: int) -> None:
    order = [i for i in chain((looped,))[3] if i in (1, 3)]
    assert order[0] == looped


def test_a_tree_of_one_operand_has_nothing_to_choose() -> None:
    view = View.contiguous((1, 0), (2, 3), np.dtype("f8"))
    problem = LayoutProblem(
        steps=(),
        carried=((1, 0),),
        extents=({0: 3, 1: 2},),
        widths=(),
        operands=(view,),
        result=view,
        work=np.dtype("f8"),
        looped=((),),
        calls=(),
        buffer_bytes=DEFAULT_BUFFER_BYTES,
    )
    assert choose_layouts(problem) == ((1, 0),)
