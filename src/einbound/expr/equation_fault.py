"""Errors that point into a text of several lines."""

from __future__ import annotations

from einbound.errors import EquationsError
from einbound.expr.equations import Span


def fault(message: str, text: str | None, *spans: Span | None) -> EquationsError:
    r"""An error that shows the line of the first span, with carets below all spans of that line.

    Args:
        message: What was given, what was expected, what to do.
        text: All of the text; None where there is none, or only records made otherwise.
        spans: Places in it; None for what came otherwise.

    Example:
        >>> print(fault("no 'q' here", "a = b\nc = q", (10, 11)))
        line 2: no 'q' here
            c = q
                ^
    """
    places = [span for span in spans if span is not None]
    if text is None or not places:
        return EquationsError(message)
    start = text.rfind("\n", 0, places[0][0]) + 1
    stop = text.find("\n", start)
    stop = len(text) if stop < 0 else stop
    line = text[start:stop].rstrip()
    # A text may end where something is missing: then the caret stands behind its last line.
    marks = [(max(a, start) - start, min(b, stop) - start) for a, b in places if start <= a <= stop]
    padded = line.ljust(max(b for _, b in marks))
    return EquationsError(f"line {line_of(text, places[0])}: {message}", padded, tuple(marks))


def line_of(text: str, span: Span) -> int:
    """The number of the line that a span begins on, from 1."""
    return text.count("\n", 0, span[0]) + 1
