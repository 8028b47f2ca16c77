"""`optimize=` in all its forms, brought to a path or to the planner's own choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from operator import index as as_int
from typing import Any, TypeAlias

from einbound.errors import ExpressionError
from einbound.expr.network import Network

Path: TypeAlias = tuple[tuple[int, ...], ...]

#: Names that users of numpy and opt_einsum type; all mean einbound's own search, which is exact
#: up to ten operands.
PRESETS = (
    "auto",
    "auto-hq",
    "optimal",
    "dp",
    "greedy",
    "eager",
    "opportunistic",
    "random-greedy",
    "random-greedy-128",
    "branch-all",
    "branch-2",
    "branch-1",
)
_MARKER = "einsum_path"


def chosen_path(optimize: Any, make_network: Callable[[], Network]) -> Path | None:
    """The path that `optimize` asks for, or None for the planner's choice.

    Args:
        optimize: True, False, None, a preset, a pair (preset, limit in elements: ignored, since
            limits are bytes here), an explicit path with or without numpy's marker, a tree with
            `get_path()`, or a function (inputs, output, size of each label, limit) -> path, which
            may lack the limit.
        make_network: Tells what is contracted; asked only for functions.

    Raises:
        ExpressionError: The name of a preset is not known.
        TypeError: It is something else.
    """
    if optimize is None or isinstance(optimize, bool):
        return None
    if isinstance(optimize, str):
        _check_preset(optimize)
        return None
    if hasattr(optimize, "get_path"):
        return plain_path(optimize.get_path())
    if callable(optimize):
        network = make_network()
        inputs = [frozenset(term) for term in network.inputs]
        sizes = dict(enumerate(network.extents))
        given = (inputs, frozenset(network.output), sizes, None)
        return plain_path(optimize(*given[: _n_taken(optimize)]))
    if isinstance(optimize, Sequence):
        return _listed(optimize)
    raise TypeError(
        f"optimize is {optimize!r}; expected True, False, a preset such as 'auto', a path, a tree "
        "with get_path(), or a function that returns a path"
    )


def _n_taken(planner: Callable[..., Any]) -> int:
    """How many of (inputs, output, sizes, limit) a planner takes; some know no limit."""
    try:
        signature(planner).bind(*range(4))
    except TypeError:
        return 3
    except ValueError:
        # Nothing is known about the arguments of some compiled functions.
        return 4
    return 4


def _check_preset(name: str) -> None:
    if name not in PRESETS:
        raise ExpressionError(
            f"optimize={name!r} is not known; expected one of {', '.join(PRESETS)}"
        )


def _listed(entries: Sequence[Any]) -> Path | None:
    entries = list(entries)
    is_pair = len(entries) == 2 and isinstance(entries[1], (int, float))
    if is_pair and isinstance(entries[0], str):
        _check_preset(entries[0])
        return None
    return plain_path(entries)


def plain_path(path: Any) -> Path:
    """The path as tuples of integers, without numpy's marker.

    Raises:
        TypeError: It is no sequence of sequences of positions.
    """
    try:
        entries = [e for k, e in enumerate(path) if k or not isinstance(e, str) or e != _MARKER]
        return tuple(tuple(as_int(place) for place in entry) for entry in entries)
    except TypeError:
        raise TypeError(
            f"the path is {path!r}; expected a path: a list of tuples of operand positions, "
            "such as [(0, 1), (0, 1)]"
        ) from None
