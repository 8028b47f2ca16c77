"""Trees that a caller writes down: a path, loops by label, levels by step."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from einbound.errors import PlanError
from einbound.expr.network import Network
from einbound.plan.order import first_order
from einbound.plan.tree import Combine, Cut, Loop, Role, Tree, steps_from_path


def build_tree(
    network: Network,
    path: Sequence[Sequence[int]] | None,
    loops: tuple[Loop, ...],
    levels: Mapping[int, int],
) -> Tree:
    """The legal tree that the caller describes.

    Args:
        network: What is contracted.
        path: An opt_einsum path; None for the order of the fewest multiply-adds.
        loops: Batch loops by label; those of one step outermost first.
        levels: Production level of a step; default as far out as its indices allow.

    Raises:
        PlanError: A step, label, width or level does not exist or is illegal.
    """
    n_operands = len(network.inputs)
    if n_operands == 1:
        steps: tuple[tuple[int, int], ...] = ()
    elif path is None:
        steps = first_order(network)
    else:
        steps = steps_from_path(path, n_operands)
    opens: list[tuple[Cut, ...]] = [()] * len(steps)
    for loop in loops:
        _check_step(loop.node, len(steps), f"the loop over {loop.index!r}")
        opens[loop.node] += (Cut(_index(network, loop.index), _width(network, loop)),)
    for step, level in levels.items():
        _check_step(step, len(steps), f"level {level}")
    tree = Tree(network, steps, tuple(opens), (0,) * len(steps)).with_default_levels(levels)
    tree.check()
    for loop in loops:
        _check_claims(tree, loop)
    return tree


def _check_step(step: int, n_steps: int, what: str) -> None:
    if not 0 <= step < n_steps:
        have = f"steps are numbered 0 to {n_steps - 1}" if n_steps else "there is no step"
        raise PlanError(f"{what} is given to step {step}; {have}")


def _index(network: Network, label: Hashable) -> int:
    for index, known in enumerate(network.labels):
        if known == label:
            return index
    have = ", ".join(str(known) for known in network.labels)
    raise PlanError(f"a loop cuts {label!r}, which the expression does not have; it has {have}")


def _width(network: Network, loop: Loop) -> int:
    """The slice width: `batch_size`, or the balanced width of `n_batches` trips."""
    extent = network.extents[_index(network, loop.index)]
    if loop.batch_size:
        return loop.batch_size
    if loop.n_batches < 1:
        raise PlanError(
            f"the loop over {loop.index!r} has neither batch_size nor n_batches; give one of them"
        )
    return max(-(-extent // loop.n_batches), 1)


def _check_claims(tree: Tree, loop: Loop) -> None:
    """What the caller said about a loop beyond its index and width must be so."""
    role, combine = tree.kind(loop.node, _index(tree.network, loop.index))
    claims: tuple[tuple[str, Role | Combine | None, Role | Combine], ...] = (
        ("role", loop.role, role),
        ("combine", loop.combine, combine),
    )
    for name, said, found in claims:
        if said is not None and said is not found:
            raise PlanError(
                f"the loop over {loop.index!r} at step {loop.node} is said to have {name} "
                f"{said.value}; there it is {found.value}; leave {name} out or correct it"
            )
