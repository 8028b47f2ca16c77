"""Records as JSON texts that say what they are, in which version, and are read with suspicion."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, TypeVar

from einbound.errors import SpaceError

T = TypeVar("T")

# JSON has no infinities.
_FLOAT = "$float"


def written(schema: str, fields: Mapping[str, Any], *, version: int = 1) -> str:
    """The JSON text of a record; equal records give equal text.

    Args:
        schema: What the record is.
        fields: Its data: texts, numbers, booleans, None, and lists and dictionaries of these.
        version: Raised whenever what is written changes its meaning.

    Raises:
        SpaceError: Something in the data has no JSON form.

    Example:
        >>> written("einbound.tile", {"rows": 8})
        '{"schema": "einbound.tile", "version": 1, "rows": 8}'
    """
    try:
        return json.dumps({"schema": schema, "version": version, **_finite(fields)})
    except (TypeError, ValueError, RecursionError) as error:
        raise SpaceError(
            f"the {schema} cannot be written: {error}; expected texts, numbers and None"
        ) from None


def read(text: str, schema: str, build: Callable[[dict[str, Any]], T], *, version: int = 1) -> T:
    """The record that `build` makes from the fields of a JSON text.

    Args:
        text: What `written` came back with.
        schema: What the record must be.
        build: Makes the record from its fields, whose names and types nobody has checked.
        version: What the text must have for its version.

    Raises:
        SpaceError: The text is something else, of another version, or damaged.

    Example:
        >>> read('{"schema": "einbound.tile", "version": 1, "rows": 8}', "einbound.tile", dict)
        {'rows': 8}
    """
    fields = _fields(text, schema, version)
    try:
        return build(fields)
    except SpaceError as error:
        raise SpaceError(f"the {schema} is damaged: {error}") from None
    except KeyError as error:
        raise SpaceError(f"the {schema} is damaged: it has no field {error}") from None
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise SpaceError(f"the {schema} is damaged: {error}") from None


def _fields(text: str, schema: str, version: int) -> dict[str, Any]:
    try:
        told: object = json.loads(text, object_hook=_float)
    except (ValueError, TypeError, RecursionError) as error:
        raise SpaceError(f"the text is no JSON: {error}; expected what to_json() wrote") from None
    found = told.pop("schema", None) if isinstance(told, dict) else type(told).__name__
    if not isinstance(told, dict) or found != schema:
        raise SpaceError(f"the document has schema {found!r}; expected {schema!r}")
    said = told.pop("version", None)
    if said != version or isinstance(said, bool):
        raise SpaceError(
            f"the {schema} has version {said!r}; this einbound reads version {version}; "
            "write it again, or use the einbound that wrote it"
        )
    return told


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return {_FLOAT: str(float(value))}
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def _float(told: dict[str, Any]) -> Any:
    return float(told[_FLOAT]) if told.keys() == {_FLOAT} else told
