"""The grammar of einsum text: terms of labels, with places in the text for error messages.

    expression = term {"," term} ["->" term]
    term       = {label} ["..." {label}]

Whitespace is ignored everywhere. Shapes are not known here.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass

from einbound.errors import ExpressionError

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Term:
    """The labels of one operand or of the result.

    Attributes:
        labels: The labels in order, the ellipsis left out.
        ellipsis: How many labels stand before the ellipsis; None without one.
    """

    labels: tuple[Hashable, ...]
    ellipsis: int | None = None

    def expand(self, dimensions: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        """The labels with `dimensions` in the place of the ellipsis."""
        if self.ellipsis is None or not dimensions:
            return self.labels
        return self.labels[: self.ellipsis] + dimensions + self.labels[self.ellipsis :]

    def __str__(self) -> str:
        names = [str(label) for label in self.labels]
        if self.ellipsis is not None:
            names.insert(self.ellipsis, "...")
        are_letters = all(isinstance(label, str) and len(label) == 1 for label in self.labels)
        return ("" if are_letters else " ").join(names)


@dataclass(frozen=True, slots=True)
class Places:
    """Where one term stands in the text.

    Attributes:
        term: The whole term, as (start, stop); start equals stop for an empty term.
        labels: Each label.
        ellipsis: The ellipsis, if there is one.
    """

    term: Span
    labels: tuple[Span, ...]
    ellipsis: Span | None


Fault = tuple[str, list[Span]]

# All that nearly every text consists of: no place has to be found before it is accepted.
_PLAIN = re.compile(r"[A-Za-z,]*(?:->[A-Za-z]*)?")
# ASCII punctuation is kept back so that a slip of the finger is no label; so is the one-character
# ellipsis that word processors make of three dots.
_NO_LABEL = re.compile("[\x00-\x1f!-+/:-=?@\\[-^`{-\x7f\u2026]")
_STRAY_ARROW = re.compile(r"-(?!>)|(?<!-)>")


def read(text: str) -> tuple[tuple[Term, ...], Term | None]:
    """The terms of the operands and of the output, None where the text has no arrow.

    Raises:
        ExpressionError: The text breaks the grammar; the error points at the place.
    """
    compact = "".join(text.split())
    if _PLAIN.fullmatch(compact) is None:
        _check(text, compact)
    inputs, arrow, output = compact.partition("->")
    terms = tuple([_term(part) for part in inputs.split(",")])
    return terms, _term(output) if arrow else None


def locate(text: str) -> tuple[Places, ...]:
    """The places of all terms of a text that `read` accepts; the output, if any, comes last."""
    at = _positions(text)
    places = []
    start = 0
    for part in re.split(r",|->", "".join(text.split())):
        places.append(_places(part, start, at, len(text)))
        start += len(part)
        start += 2 if at[start : start + 1] and text[at[start]] == "-" else 1
    return tuple(places)


def _term(part: str) -> Term:
    before, dots, after = part.partition("...")
    return Term(tuple(before + after), len(before) if dots else None)


def _places(part: str, start: int, at: list[int], end: int) -> Places:
    spans = [(place, place + 1) for place in at[start : start + len(part)]]
    if not spans:
        place = at[start] if start < len(at) else end
        return Places((place, place), (), None)
    term = (spans[0][0], spans[-1][1])
    dots = part.find("...")
    if dots < 0:
        return Places(term, tuple(spans), None)
    ellipsis = (spans[dots][0], spans[dots + 2][1])
    return Places(term, (*spans[:dots], *spans[dots + 3 :]), ellipsis)


def _positions(text: str) -> list[int]:
    return [place for place, character in enumerate(text) if not character.isspace()]


def _check(text: str, compact: str) -> None:
    for faults in (_bad_labels, _bad_arrows, _bad_ellipses, _bad_commas):
        if fault := faults(compact):
            message, spans = fault
            at = _positions(text)
            places = tuple((at[start], at[stop - 1] + 1) for start, stop in spans)
            raise ExpressionError(message, text, places)


def _bad_labels(compact: str) -> Fault | None:
    bad = _NO_LABEL.search(compact)
    if bad is None:
        return None
    return (
        f"{bad.group()!r} is not a label; expected a letter, a digit, '_' or a character outside "
        "ASCII, and three dots for an ellipsis",
        [bad.span()],
    )


def _bad_arrows(compact: str) -> Fault | None:
    if stray := _STRAY_ARROW.search(compact):
        return (
            f"{stray.group()!r} is not part of an arrow; write '->' before the output",
            [stray.span()],
        )
    arrows = [found.span() for found in re.finditer("->", compact)]
    if len(arrows) > 1:
        return f"the text has {len(arrows)} arrows; write '->' once at most", arrows
    return None


def _bad_ellipses(compact: str) -> Fault | None:
    start = 0
    for part in re.split(r"(,|->)", compact):
        runs = [found.span() for found in re.finditer(r"\.+", part)]
        wrong = [(start + a, start + b) for a, b in runs if b - a != 3]
        if wrong:
            return "a dot is not part of an ellipsis; an ellipsis is three dots, '...'", wrong
        if len(runs) > 1:
            return (
                f"the term {part!r} has {len(runs)} ellipses; a term takes one at most",
                [(start + a, start + b) for a, b in runs],
            )
        start += len(part)
    return None


def _bad_commas(compact: str) -> Fault | None:
    output = compact.find("->")
    if output < 0:
        return None
    commas = [found.span() for found in re.finditer(",", compact) if found.start() > output]
    if not commas:
        return None
    return "the output has a comma; the output is one term, without commas", commas
