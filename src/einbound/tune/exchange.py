"""Winners as text that people read, compare and check into source; and back."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any

from einbound.errors import KernelError
from einbound.tune.records import Record, record_of

log = logging.getLogger(__name__)

FORMAT = "einbound kernels 1"


def exported(winners: Iterable[Record]) -> str:
    """Winners as text, the same for the same winners in any order.

    Args:
        winners: One for each product and context.

    Example:
        >>> print(exported([]), end="")
        {
         "format": "einbound kernels 1",
         "winners": []
        }
    """
    rows = sorted(winners, key=lambda each: (each.problem, each.context.key, each.decisions))
    data = {"format": FORMAT, "winners": [_unfolded(each) for each in rows]}
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def imported(text: str) -> tuple[Record, ...]:
    """The winners in a text; entries that are none are told in the log and left out.

    Raises:
        KernelError: The text is not what `exported` writes.
    """
    try:
        data = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise KernelError(f"tuned kernels are no JSON: {error}; give an exported file") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else data
        raise KernelError(f"the format of tuned kernels is {found!r}; expected {FORMAT!r}")
    rows = data.get("winners")
    if not isinstance(rows, list):
        raise KernelError(f"winners of tuned kernels are {rows!r}; expected a list")
    found_records = []
    for row in rows:
        try:
            found_records.append(record_of(json.dumps(_folded(row))))
        except (KernelError, ValueError, TypeError, KeyError) as error:
            log.warning("an entry of tuned kernels is left out: %s", error)
    return tuple(found_records)


def _unfolded(record: Record) -> dict[str, Any]:
    """A record with its texts of JSON as what they say, one thing a line."""
    data: dict[str, Any] = json.loads(record.to_json())
    return {
        **data,
        "problem": json.loads(record.problem),
        "decisions": [json.dumps(each) for each in json.loads(record.decisions)],
    }


def _folded(row: dict[str, Any]) -> dict[str, Any]:
    decisions = [json.loads(each) for each in row["decisions"]]
    return {
        **row,
        "problem": json.dumps(row["problem"], sort_keys=True),
        "decisions": json.dumps(decisions),
    }
