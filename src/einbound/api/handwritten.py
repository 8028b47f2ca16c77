"""Trees that a caller writes down: a path, loops by label, levels by step."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

from einbound.api.optimize import plain_path
from einbound.errors import PlanError
from einbound.expr.index import EllipsisLabel
from einbound.expr.network import Network
from einbound.expr.number import whole
from einbound.plan.grid import Grid
from einbound.plan.order import first_order
from einbound.plan.tree import Cut, Loop, Tree, steps_from_path


def build_tree(
    network: Network,
    path: Sequence[Sequence[int]] | None,
    loops: Iterable[Loop] | Loop,
    levels: Mapping[int, int],
    tiles: Sequence[tuple[int, ...]],
) -> Tree:
    """The legal tree that the caller describes.

    Args:
        network: What is contracted.
        path: An opt_einsum path; None for the order of the fewest multiply-adds.
        loops: Batch loops by label; those of one step outermost first.
        levels: Production level of a step; default as far out as its indices allow.
        tiles: Of each index, the boundaries of the tiles that trips are made of, or none.

    Raises:
        PlanError: A step, label, width or level does not exist or is illegal.
    """
    n_operands = len(network.inputs)
    steps: tuple[tuple[int, int], ...] = ()
    if path is not None:
        steps = steps_from_path(plain_path(path), n_operands)
    elif n_operands > 1:
        steps = first_order(network)
    loops, levels = _loops(loops, len(steps)), _levels(levels)
    grid = Grid.with_tiles(network, tiles)
    opens: list[tuple[Cut, ...]] = [()] * len(steps)
    for loop in loops:
        _check_step(loop.node, len(steps), f"the loop over {loop.index!r}")
        opens[loop.node] += (_cut(network, grid, loop),)
    for step, level in levels.items():
        _check_step(step, len(steps), f"level {level}")
    tree = Tree(network, steps, tuple(opens), (0,) * len(steps)).with_default_levels(levels)
    tree.check()
    for loop in loops:
        _check_claims(tree, loop)
    return tree


def _loops(loops: Iterable[Loop] | Loop, n_steps: int) -> tuple[Loop, ...]:
    """The loops with plain integers for numbers, and the last step for -1."""
    loops = tuple(loops) if isinstance(loops, Iterable) else (loops,)
    for loop in loops:
        if not isinstance(loop, Loop):
            raise TypeError(
                f"loops has {loop!r} of type {type(loop).__name__}; expected einbound.Loop values "
                "such as Loop('a', node=0, batch_size=4)"
            )
    nodes = [whole(loop.node, f"node of the loop over {loop.index!r}") for loop in loops]
    return tuple(
        replace(
            loop,
            node=n_steps - 1 if node == -1 and n_steps else node,
            batch_size=whole(loop.batch_size, f"batch_size of the loop over {loop.index!r}"),
            n_batches=whole(loop.n_batches, f"n_batches of the loop over {loop.index!r}"),
        )
        for loop, node in zip(loops, nodes, strict=True)
    )


def _levels(levels: Mapping[int, int]) -> dict[int, int]:
    if not isinstance(levels, Mapping):
        raise TypeError(
            f"levels is {levels!r} of type {type(levels).__name__}; expected a mapping of steps "
            "to numbers of loops, such as {0: 1}"
        )
    return {
        whole(step, "a step of levels"): whole(level, f"level of step {step}")
        for step, level in levels.items()
    }


def _check_step(step: int, n_steps: int, what: str) -> None:
    if not 0 <= step < n_steps:
        have = f"steps are numbered 0 to {n_steps - 1}" if n_steps else "there is no step"
        raise PlanError(f"{what} is given to step {step}; {have}")


def index_of(network: Network, label: Hashable, what: str) -> int:
    """The number of the index with this label.

    Args:
        network: Where it is looked up.
        label: As the caller wrote it; dimensions of an ellipsis also as they are printed.
        what: How the message begins.

    Raises:
        PlanError: The expression does not have it.
    """
    for index, known in enumerate(network.labels):
        if label in (known, str(known) if isinstance(known, EllipsisLabel) else known):
            return index
    have = ", ".join(str(known) for known in network.labels)
    raise PlanError(f"{what} {label!r}, which the expression does not have; it has {have}")


def _cut(network: Network, grid: Grid, loop: Loop) -> Cut:
    """The trips of at most `batch_size` elements, or of the balanced width of `n_batches`."""
    index = index_of(network, loop.index, "a loop cuts")
    if loop.batch_size > 0 and grid.modes[index].edges:
        return grid.within(index, loop.batch_size)
    if loop.batch_size:
        return Cut(index, loop.batch_size)
    if loop.n_batches < 1:
        raise PlanError(
            f"the loop over {loop.index!r} has neither batch_size nor n_batches; give one of them"
        )
    return grid.cut(index, loop.n_batches)


def _check_claims(tree: Tree, loop: Loop) -> None:
    """What the caller said about a loop beyond its index and width must be so."""
    role, combine = tree.kind(loop.node, index_of(tree.network, loop.index, "a loop cuts"))
    claims: tuple[tuple[str, str | None, str], ...] = (
        ("role", loop.role, role),
        ("combine", loop.combine, combine),
    )
    for name, said, found in claims:
        if said is not None and said is not found:
            raise PlanError(
                f"the loop over {loop.index!r} at step {loop.node} is said to have {name} "
                f"{said}; there it is {found}; leave {name} out or correct it"
            )
