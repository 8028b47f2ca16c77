"""Rough seconds of single productions of a forest, for whatever order their axes have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from einbound.expr.network import Network
from einbound.forest.forest import Production
from einbound.plan.order import N_EXACT, greedy_orders, optimal_orders
from einbound.plan.tree import Tree
from einbound.run.executable import Job, compile_tree
from einbound.step.pricing import DEFAULT_BUFFER_BYTES
from einbound.step.view import View
from einbound.step.way import pair_way, sum_way

#: Orders that are remembered; those of one product differ in the axes of its operands.
_N_ORDERS = 4096


def production_seconds(
    production: Production, leaves: Mapping[int, View], work: np.dtype[Any], onto: bool
) -> float:
    """Rough seconds of a production in its best order without loops.

    Args:
        production: Its operands and its value in any order of their axes.
        leaves: The layouts of those operands that are leaves, by value; others are contiguous.
        work: Element type.
        onto: Whether it adds to what is there.
    """
    network = production.network
    operands = tuple(
        accessed(leaves[value], network, k)
        if value in leaves
        else _contiguous(network, network.inputs[k], work)
        for k, value in enumerate(production.operands)
    )
    result = _contiguous(network, network.output, work)
    if not _is_one_step(network):
        plain = replace(network, labels=tuple(range(len(network.labels))))
        job = Job(plain, operands, result, work, result_given=True)
        return compile_tree(job, _order(plain), DEFAULT_BUFFER_BYTES).metered.seconds
    size = DEFAULT_BUFFER_BYTES
    if len(operands) == 1:
        return sum_way(operands[0], result, work, accumulate=onto, buffer_bytes=size).seconds
    left, right = operands
    return pair_way(left, right, result, work, accumulate=onto, buffer_bytes=size).seconds


def accessed(memory: View, network: Network, k: int) -> View:
    """The layout of an operand, one axis per index."""
    strides = tuple(sum(memory.strides[n] for n in run) for run in network.accesses[k].axes)
    extents = tuple(network.extents[i] for i in network.inputs[k])
    return View(network.inputs[k], extents, strides, memory.dtype, memory.aligned)


def _contiguous(network: Network, indices: tuple[int, ...], work: np.dtype[Any]) -> View:
    return View.contiguous(indices, tuple(network.extents[i] for i in indices), work)


def _is_one_step(network: Network) -> bool:
    """Whether a contraction is one call: of one operand, or of two that share all they sum."""
    if network.streamed or len(network.inputs) > 2:
        return False
    sums = [frozenset(indices).difference(network.output) for indices in network.inputs]
    return all(each == sums[0] for each in sums)


@lru_cache(maxsize=_N_ORDERS)
def _order(network: Network) -> Tree:
    """The order of the fewest multiply-adds; any of many operands."""
    orders = optimal_orders if len(network.inputs) <= N_EXACT else greedy_orders
    return Tree.plain(network, next(iter(orders(network, 1))))
