"""A place among the tokens of a text, from which all parts of the grammar read on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from einbound.errors import EquationsError
from einbound.expr.equation_fault import fault
from einbound.expr.equation_sums import LABEL
from einbound.expr.equation_tokens import Kind, Token
from einbound.expr.equations import Factor, Span

#: Python refuses to read integers of more digits than some thousands; floats end before.
MOST_DIGITS = 400


@dataclass
class Cursor:
    """Where reading is.

    Attributes:
        text: All of the text.
        tokens: Of the text; the last is an end.
        at: Number of the current token.
    """

    text: str
    tokens: tuple[Token, ...]
    at: int = 0

    @property
    def now(self) -> Token:
        """The current token."""
        return self.tokens[self.at]

    @property
    def after(self) -> Token:
        """The token behind the current one."""
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def next(self) -> Token:
        """The current token, passed."""
        token = self.now
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def skips(self, *signs: str) -> Token | None:
        """The current token, passed, if it is one of these signs."""
        return self.next() if self.now.kind is Kind.SIGN and self.now.text in signs else None

    def expect(self, what: Kind | str, role: str, opened: Token | None = None) -> Token:
        """The current token, passed, which must be what it is expected to be."""
        if self.now.kind is what or (self.now.kind is Kind.SIGN and self.now.text == what):
            return self.next()
        raise self.unexpected(role, opened)

    def ended(self, role: str) -> None:
        """Pass the end of a statement, which must be here."""
        if self.now.kind is not Kind.END:
            raise self.unexpected(role)
        self.next()

    def unexpected(self, role: str, opened: Token | None = None) -> EquationsError:
        """An error that points at the current token, and at the bracket that is open."""
        spans = [self.now.span, *([opened.span] if opened else [])]
        behind = f" that closes {opened.text!r}" if opened else ""
        return self.fault(f"found {self.now}; expected {role}{behind}", *spans)

    def fault(self, message: str, *spans: Span) -> EquationsError:
        """An error that points into the text."""
        return fault(message, self.text, *spans)

    def integer(self, role: str) -> int:
        """An integer, passed."""
        if not self.now.text.isdigit() or len(self.now.text) > MOST_DIGITS:
            raise self.unexpected(f"{role}, an integer")
        return int(self.next().text)

    def tensor(self, role: str) -> Factor:
        """A tensor with its indices, passed."""
        name = self.expect(Kind.NAME, role)
        opened = self.skips("[")
        if opened is None:
            return Factor(name.text, (), name.span)
        labels = tuple(label for label, _ in self.labels())
        closed = self.expect("]", "an index or the ']'", opened)
        return Factor(name.text, labels, (name.span[0], closed.span[1]))

    def labels(self) -> Iterator[tuple[str, Span]]:
        """Labels up to the next sign that is no comma, each with its place."""
        while self.now.kind in (Kind.NAME, Kind.NUMBER) or self.now.text == ",":
            if self.now.text == "tiles":
                return
            token = self.next()
            at = token.span[0]
            while token.text != "," and at < token.span[1]:
                found = LABEL.match(self.text, at, token.span[1])
                if found is None:
                    raise self.fault(
                        f"{token.text!r} is no index; expected a letter, or a letter and digits "
                        "such as 'i1', and as many of these as the tensor has axes",
                        token.span,
                    )
                at = found.end()
                yield found.group(), found.span()
