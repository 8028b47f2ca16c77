"""Which operands of a planned step can be packed once, when the plan is prepared."""

from __future__ import annotations

from collections.abc import Collection

from einbound.plan.tree import Tree


def persistent_sides(tree: Tree, step: int, persistent: Collection[int]) -> frozenset[str]:
    """The sides of a step that read a persistent operand where it lies: "A", "B", both or none.

    An operand that is summed or read from a file first is not there before the plan runs, and
    neither is an intermediate.

    Args:
        tree: The plan's record.
        step: Position in the path.
        persistent: Numbers of the operands that do not change between evaluations.

    Example:
        >>> from einbound.expr.network import Network
        >>> network = Network(tuple("abcd"), (8,) * 4, ((0, 1), (1, 2), (2, 3)), (0, 3), ())
        >>> tree = Tree.from_path(network, [(0, 1), (0, 1)])
        >>> [sorted(persistent_sides(tree, step, {1, 2})) for step in (0, 1)]
        [['B'], ['A']]
    """
    return frozenset(
        side
        for side, value in zip("AB", tree.steps[step], strict=True)
        if value < tree.n_operands and value in persistent and not tree.stored[value]
    )
