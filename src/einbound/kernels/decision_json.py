"""Decisions as text, and back."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any, get_args

from einbound.errors import KernelError
from einbound.kernels.decisions import Decision, GeometryChoice

#: Every class that the text may name.
_CLASSES: dict[str, type] = {
    each.__name__: each for each in (*get_args(Decision), *get_args(GeometryChoice))
}


def to_json(decision: Decision) -> str:
    """The decision as JSON: its class under "is", then its fields.

    Example:
        >>> from einbound.kernels.decisions import Twin
        >>> to_json(Twin("swizzled"))
        '{"is": "Twin", "kind": "swizzled"}'
    """
    return json.dumps(_plain(decision))


def from_json(text: str) -> Decision:
    """The decision that `to_json` wrote.

    Raises:
        KernelError: The text is no decision, or has fields that its class does not use.

    Example:
        >>> from_json('{"is": "RowBlock", "bm": 16}')
        RowBlock(bm=16)
    """
    try:
        given = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise KernelError(f"the text of a decision is no JSON: {error}") from None
    decision = _record(given)
    if not isinstance(decision, Decision):
        raise KernelError(f"{given!r} is no decision; expected one of {_names(Decision)}")
    return decision


def _plain(value: object) -> object:
    if not is_dataclass(value):
        return value
    held = {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return {"is": type(value).__name__, **held}


def _record(given: object) -> object:
    if isinstance(given, list):
        return tuple(given)
    if not isinstance(given, dict):
        return given
    made: Any = _CLASSES.get(str(given.get("is")))
    if made is None:
        raise KernelError(f'{given!r} has no known class under "is"; known: {", ".join(_CLASSES)}')
    expected = [each.name for each in fields(made)]
    held = {name: _record(value) for name, value in given.items() if name != "is"}
    if sorted(held) != sorted(expected):
        raise KernelError(
            f"{given['is']} has the fields {', '.join(held) or 'none'}; expected "
            f"{', '.join(expected) or 'none'}"
        )
    return made(**held)


def _names(union: object) -> str:
    return ", ".join(each.__name__ for each in get_args(union))
