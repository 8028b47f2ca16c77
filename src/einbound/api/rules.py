"""From what a caller says of objective, policy, tiles and evaluations to the rules of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from einbound.api.setting import Setting
from einbound.api.tiles import parsed_tiles
from einbound.errors import ExpressionError
from einbound.expr.index import Operand
from einbound.expr.network import Network
from einbound.expr.number import whole
from einbound.plan.gate import indices_of, settled
from einbound.plan.grid import Grid
from einbound.plan.policy import BatchPolicy
from einbound.plan.rules import Objective, Rules


def rules_of(
    setting: Setting,
    *,
    objective: Objective | str = Objective.TIME,
    policy: BatchPolicy | None = None,
    tiles: Mapping[Any, Any] | None = None,
    volatile: Iterable[int] | None = None,
    iterations: int = 1,
) -> Rules | None:
    """What a plan keeps to besides bytes; None where nothing was said.

    Args:
        setting: What is planned.
        objective: "time" or "space".
        policy: A batch policy; it is asked about every index and operand now.
        tiles: For a label, the width of its tiles or their boundaries.
        volatile: Numbers of the operands that change with every evaluation.
        iterations: Evaluations in all.

    Raises:
        ExpressionError: The objective is not known, or a number is out of range.
        PlanError: Tiles do not fit their index.
        PolicyError: The policy says something that makes no sense.
        TypeError: Something is of another type.
    """
    asked = _objective(objective)
    if policy is not None and not isinstance(policy, BatchPolicy):
        raise TypeError(
            f"policy is {policy!r} of type {type(policy).__name__}; expected an "
            'einbound.BatchPolicy, such as BatchPolicy.auto("2GiB"), or None'
        )
    changing = _volatile(volatile, len(setting.layouts))
    n_times = _iterations(iterations)
    if policy is None and not tiles and not changing and n_times == 1 and asked is Objective.TIME:
        return None
    network = setting.network()
    edges = parsed_tiles(tiles, network)
    if policy is None:
        grid = Grid.with_tiles(network, edges)
        return Rules(grid, asked, volatile=changing, iterations=n_times)
    return settled(
        policy,
        network,
        _operands(setting, network, edges),
        edges=edges,
        objective=asked,
        volatile=changing,
        iterations=n_times,
    )


def _operands(
    setting: Setting, network: Network, edges: tuple[tuple[int, ...], ...]
) -> tuple[Operand, ...]:
    indices = indices_of(network, edges)
    return tuple(
        Operand(number, tuple(indices[i] for i in term), layout.dtype)
        for number, (term, layout) in enumerate(zip(network.inputs, setting.layouts, strict=True))
    )


def _objective(given: Any) -> Objective:
    for known in Objective:
        if known == given:
            return known
    names = " or ".join(repr(known.value) for known in Objective)
    raise ExpressionError(f"objective={given!r} is not known; expected {names}")


def _volatile(given: Any, n_operands: int) -> frozenset[int]:
    if given is None:
        return frozenset()
    try:
        numbers = frozenset(whole(number, "a number of volatile") for number in given)
    except TypeError:
        raise TypeError(
            f"volatile is {given!r}; expected the numbers of the operands that change with every "
            "evaluation, such as [2]"
        ) from None
    for number in sorted(numbers):
        if not 0 <= number < n_operands:
            raise ExpressionError(
                f"volatile names operand {number}; there are operands 0 to {n_operands - 1}"
            )
    return numbers


def _iterations(given: Any) -> int:
    expected = f"a number of evaluations, an integer from 1 to {_MOST_ITERATIONS}"
    number = whole(given, "iterations", expected=expected)
    if not 1 <= number <= _MOST_ITERATIONS:
        raise ExpressionError(f"iterations is {number}; expected {expected}")
    return number


#: More evaluations than this would drown in a float what is done once.
_MOST_ITERATIONS = 10**6
