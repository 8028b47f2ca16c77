"""`optimize=` in all its forms, brought to a path, an effort, or the planner's own choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, isclass, signature
from operator import index as as_int
from typing import Any, TypeAlias

from einbound.errors import EinboundError, ExpressionError, PlanError
from einbound.expr.network import Network
from einbound.plan.effort import Effort

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
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: From here on every character is a letter for a long stretch; below lie signs.
_FIRST_LATER_LETTER = 192
_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def chosen_path(optimize: Any, make_network: Callable[[], Network]) -> Path | None:
    """The path that `optimize` asks for, or None for the planner's choice.

    A planner object is asked once. It gets fresh copies, so nothing that it does to its arguments
    reaches anybody.

    Args:
        optimize: True, False, None, an `Effort`, a preset, a pair (preset, limit in elements:
            ignored, since limits are bytes here), an explicit path with or without numpy's
            marker, what `numpy.einsum_path` or `opt_einsum.contract_path` return, a tree with
            `get_path()`, whose slices are left out, an object with `search(inputs, output, sizes)`
            that makes one, or a function (inputs, output, sizes, limit) -> path, which may lack
            the limit.
        make_network: Tells what is contracted; asked only for planners.

    Raises:
        ExpressionError: The name of a preset is not known.
        PlanError: A planner failed.
        TypeError: It is something else, or a planner returned something else.
    """
    if optimize is None or isinstance(optimize, bool | Effort):
        return None
    if isinstance(optimize, str):
        _check_preset(optimize)
        return None
    if isclass(optimize):
        raise TypeError(
            f"optimize is the class {optimize.__name__}; expected an instance; give "
            f"{optimize.__name__}()"
        )
    if hasattr(optimize, "get_path"):
        return plain_path(_asked(optimize, optimize.get_path))
    if callable(optimize) or hasattr(optimize, "search"):
        return _planned(optimize, make_network())
    if isinstance(optimize, Sequence):
        return _listed(optimize)
    raise TypeError(
        f"optimize is {optimize!r}; expected True, False, a preset such as 'auto', a path, a tree "
        "with get_path(), or a function that returns a path"
    )


def chosen_effort(optimize: Any) -> Effort | None:
    """The effort that `optimize` is, or None for the default one."""
    return optimize if isinstance(optimize, Effort) else None


def _planned(planner: Any, network: Network) -> Path:
    """The path of a planner of another library, or of the caller's own."""
    names = _names(network)
    terms = [tuple(names[i] for i in term) for term in network.inputs]
    output = tuple(names[i] for i in network.output)
    sizes = dict(zip(names, network.extents, strict=True))
    if not callable(planner):
        tree = _asked(planner, planner.search, terms, output, sizes)
        return _checked(planner, getattr(tree, "get_path", lambda: tree)())
    if not hasattr(planner, "search"):
        # As opt_einsum calls them; cotengra's take the order of labels from here.
        given = ([frozenset(term) for term in terms], frozenset(output), sizes, None)
    else:
        given = (terms, output, sizes, None)  # type: ignore[assignment]
    return _checked(planner, _asked(planner, planner, *given[: _n_taken(planner)]))


def _asked(planner: Any, method: Callable[..., Any], *given: Any) -> Any:
    """What a planner returns; an error of its own is told by its name."""
    try:
        return method(*given)
    except EinboundError:
        raise
    except Exception as error:
        raise PlanError(
            f"the planner {_name(planner)} given as optimize raised {type(error).__name__}: "
            f"{error}; expected a path; try it alone, or let einbound choose with optimize='auto'"
        ) from error


def _checked(planner: Any, path: Any) -> Path:
    try:
        return plain_path(path)
    except TypeError:
        raise TypeError(
            f"the planner {_name(planner)} given as optimize returned {path!r}; expected a path: a "
            "list of tuples of operand positions, such as [(0, 1), (0, 1)]"
        ) from None


def _name(planner: Any) -> str:
    return getattr(planner, "__name__", type(planner).__name__)


def _names(network: Network) -> tuple[str, ...]:
    """One text for each index: the caller's letters where all labels are some, else others."""
    labels = network.labels
    if all(isinstance(label, str) and len(label) == 1 for label in labels):
        return tuple(map(str, labels))
    later = range(_FIRST_LATER_LETTER, _FIRST_LATER_LETTER + max(len(labels) - len(_LETTERS), 0))
    return (*_LETTERS[: len(labels)], *map(chr, later))


def _n_taken(planner: Callable[..., Any]) -> int:
    """How many of (inputs, output, sizes, limit) a planner takes.

    Some know no limit; some have a fourth argument that is something else, with a default.
    """
    try:
        parameters = signature(planner).parameters.values()
    except ValueError:
        # Nothing is known about the arguments of some compiled functions.
        return 4
    if any(one.kind is Parameter.VAR_POSITIONAL for one in parameters):
        return 4
    by_place = [one for one in parameters if one.kind in _BY_PLACE]
    if len(by_place) < 4:
        return 3
    is_limit = by_place[3].default is Parameter.empty or "limit" in by_place[3].name
    return 4 if is_limit else 3


def _check_preset(name: str) -> None:
    if name not in PRESETS:
        raise ExpressionError(
            f"optimize={name!r} is not known; expected one of {', '.join(PRESETS)}"
        )


def _listed(entries: Sequence[Any]) -> Path | None:
    entries = list(entries)
    if len(entries) == 2:
        first, second = entries
        if isinstance(first, str) and isinstance(second, int | float):
            _check_preset(first)
            return None
        # A path with the account of it, as numpy and opt_einsum return them.
        if isinstance(first, Sequence) and (isinstance(second, str) or hasattr(second, "opt_cost")):
            return plain_path(first)
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
