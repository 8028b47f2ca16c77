"""The axis order of every stored value of a tree.

Hands the tree's sizes and loops to `step.layout`, which chooses.
"""

from __future__ import annotations

import numpy as np

from einbound.plan.tree import Tree
from einbound.step.view import View


def value_orders(
    tree: Tree,
    operands: tuple[View, ...],
    output: tuple[int, ...],
    *,
    work: np.dtype,
    buffer_bytes: int,
) -> tuple[tuple[int, ...], ...]:
    """The axis order of every value, operands first.

    Args:
        tree: A legal tree.
        operands: The layout of each operand.
        output: The axis order of the result.
        work: Element type of stored values.
        buffer_bytes: Bound of each buffer of a step.
    """
    orders = [*(view.indices for view in operands), *tree.carried[tree.n_operands :]]
    orders[tree.root] = output
    return tuple(orders)
