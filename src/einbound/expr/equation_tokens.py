"""Words, numbers and signs of equations, each with its place; which line ends end a statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from einbound.expr.equation_fault import fault
from einbound.expr.equations import Span


class Kind(Enum):
    """What a token is."""

    NUMBER = "a number"
    NAME = "a name"
    SIGN = "a sign"
    END = "the end of the line"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text.

    Attributes:
        kind: What it is.
        text: As it is written; empty at the end of the text.
        span: Where it stands.
    """

    kind: Kind
    text: str
    span: Span

    def __str__(self) -> str:
        if self.kind is Kind.END and self.text != ";":
            return f"{self.kind.value}"
        return f"{self.text!r}"


_PIECES = re.compile(
    r"""
    (?P<NUMBER> (?: [0-9]+ (?:\.[0-9]*)? | \.[0-9]+ ) (?:[eE][+-]?[0-9]+)? (?:[jJ](?!\w))? )
  | (?P<NAME> [^\W\d]\w* )
  | (?P<SIGN> \+= | -= | [-=+*/()\[\],:;] )
  | (?P<END> \n )
  | (?P<SKIP> [^\S\n]+ | \#[^\n]* | \\[^\S\n]*\n )
    """,
    re.VERBOSE,
)
_OPENING, _CLOSING = frozenset("(["), frozenset(")]")
#: A line that ends with one of these goes on; so does one whose next line begins with an operator.
_GOES_ON = frozenset(["=", "+=", "-=", "+", "-", "*", "/", ",", ":"])
_OPERATORS = frozenset("+-*/")


def tokens(text: str) -> tuple[Token, ...]:
    """All tokens that matter, the last of which is an end.

    Raises:
        EquationsError: A character means nothing here.
    """
    return tuple(_statements(list(_pieces(text)), len(text)))


def _pieces(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        found = _PIECES.match(text, at)
        if found is None:
            raise fault(
                f"{text[at]!r} means nothing here; expected names, numbers, brackets, '+ - * /', "
                "'= += -=' and comments after '#'",
                text,
                (at, at + 1),
            )
        at = found.end()
        if found.lastgroup is not None and found.lastgroup != "SKIP":
            yield Token(Kind[found.lastgroup], found.group(), found.span())


def _statements(pieces: list[Token], length: int) -> Iterator[Token]:
    """The pieces without the line ends behind which a statement goes on."""
    depth = 0
    before: Token | None = None
    for piece, after in zip(pieces, _following(pieces), strict=True):
        depth += (piece.text in _OPENING) - (piece.text in _CLOSING)
        if piece.text == ";" and depth <= 0:
            piece = Token(Kind.END, ";", piece.span)
        if piece.kind is Kind.END:
            goes_on = after is not None and after.text in _OPERATORS
            is_inside = before is not None and before.text in _GOES_ON
            if depth > 0 or before is None or before.kind is Kind.END or goes_on or is_inside:
                continue
        yield piece
        before = piece
    yield Token(Kind.END, "", (length, length))


def _following(pieces: list[Token]) -> list[Token | None]:
    """For each piece, the first one from it on that is no line end."""
    found: list[Token | None] = []
    after: Token | None = None
    for piece in reversed(pieces):
        after = after if piece.text == "\n" else piece
        found.append(after)
    return found[::-1]
