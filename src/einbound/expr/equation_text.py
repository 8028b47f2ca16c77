"""The text form of equations: its grammar, and what the statements say.

    text        = statement {end statement}            end = newline | ";"
    statement   = equation | declaration | nothing
    equation    = tensor ("=" | "+=" | "-=") sum
    sum         = ["+" | "-"] product {("+" | "-") product}
    product     = item {["*"] item | "/" number}
    item        = number | tensor | operator | "(" sum ")"
    tensor      = name ["[" labels "]"]
    operator    = ("P" | "S") "(" groups ")"           nothing between the letter and "("
    groups      = labels ["/" labels] | labels (";" | "/") labels {";" labels}
    labels      = label {[","] label}
    label       = letter [["_"] digits]
    declaration = "space" name ":" labels ["=" integer] ["tiles" (integer | "(" integers ")")]
                | ("target" | "volatile" | "streamed" | "computed") name {[","] name}

A line goes on where brackets are open, behind an operator, before one, and after a backslash.
What equations mean together is judged elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from einbound.errors import EquationsError
from einbound.expr.equation_cursor import MOST_DIGITS, Cursor
from einbound.expr.equation_declarations import Said, said, space
from einbound.expr.equation_operators import operator
from einbound.expr.equation_sums import UNIT, Permutation, Sum, gathered, number, product, scaled
from einbound.expr.equation_tokens import Kind, Token, tokens
from einbound.expr.equations import Coefficient, Factor, Space, Term

#: Products of sums and permutations are written out; no system that a person means has more terms.
MOST_TERMS = 1 << 16
MOST_NESTED = 100


@dataclass(frozen=True, slots=True)
class Line:
    """One equation as it is written: a target, what is done to it, and a sum.

    Attributes:
        target: With the labels of this line.
        sets: Whether it is written with "="; else the terms are added.
        terms: Expanded.
    """

    target: Factor
    sets: bool
    terms: Sum


@dataclass(frozen=True, slots=True)
class Statements:
    """All that a text says, in its order."""

    lines: tuple[Line, ...]
    spaces: tuple[Space, ...]
    said: tuple[Said, ...]


def statements(text: str) -> Statements:
    """What a text says.

    Raises:
        EquationsError: The text breaks the grammar; the error points at the place.

    Example:
        >>> print(*statements("R[ij] = 1/2 (A[ij] - 2 B[i] C[j])").lines[0].terms, sep=", ")
        A[i,j], B[i] C[j]
    """
    cursor = Cursor(text, tokens(text))
    lines: list[Line] = []
    spaces: list[Space] = []
    declared: list[Said] = []
    while cursor.now.text:
        if cursor.now.kind is Kind.END:
            cursor.next()
        elif cursor.now.kind is not Kind.NAME or cursor.after.kind is not Kind.NAME:
            lines.append(_line(cursor))
        elif cursor.now.text == "space":
            spaces.append(space(cursor))
        else:
            declared += said(cursor)
    return Statements(tuple(lines), tuple(spaces), tuple(declared))


def tensor(text: str) -> Factor:
    """The tensor that a text is.

    Raises:
        EquationsError: It is something else.

    Example:
        >>> tensor("R[abij]").indices
        ('a', 'b', 'i', 'j')
    """
    cursor = Cursor(text, tokens(text))
    made = cursor.tensor("a tensor with its indices")
    cursor.ended("nothing behind a tensor")
    return made


def _line(cursor: Cursor) -> Line:
    target = cursor.tensor("a tensor or a declaration")
    sign = cursor.skips("=", "+=", "-=")
    if sign is None:
        raise cursor.unexpected("'=', '+=' or '-=' behind the target of an equation")
    terms = _Sums(cursor, target).sum()
    cursor.ended("an operator, a factor or the end of the equation")
    return Line(target, sign.text == "=", _signed(terms, sign))


def _signed(what: Sum, sign: Token | None) -> Sum:
    return scaled(what, Fraction(-1)) if sign and sign.text[0] == "-" else what


@dataclass
class _Sums:
    """The right side of one equation."""

    cursor: Cursor
    target: Factor
    depth: int = 0

    def sum(self) -> Sum:
        """A sum of products, expanded."""
        sign = self.cursor.skips("+", "-")
        made = list(_signed(self.product(), sign))
        while sign := self.cursor.skips("+", "-"):
            made += _signed(self.product(), sign)
            self.check_size(len(made), sign)
        return tuple(made)

    def product(self) -> Sum:
        """A product, expanded; operators act on all that stands right of them."""
        first = self.cursor.now
        items = [self.item()]
        while True:
            if self.cursor.skips("*"):
                items.append(self.item())
            elif self.cursor.skips("/"):
                items.append(self.divisor())
            elif self.cursor.now.kind in (Kind.NUMBER, Kind.NAME) or self.cursor.now.text == "(":
                items.append(self.item())
            else:
                break
        if isinstance(items[-1], Permutation):
            raise self.cursor.unexpected("a factor that the permutation operator acts on")
        made: Sum = (UNIT,)
        for item in reversed(items):
            n_each = item.n_terms if isinstance(item, Permutation) else len(item)
            self.check_size(n_each * len(made), first)
            try:
                made = item(made) if isinstance(item, Permutation) else product(item, made)
            except OverflowError:
                raise self.too_large(first) from None
        return made

    def too_large(self, at: Token) -> EquationsError:
        return self.cursor.fault(
            "a coefficient is too large here; expected a number below 1e308", at.span
        )

    def check_size(self, n_terms: int, at: Token) -> None:
        if n_terms > MOST_TERMS:
            raise self.cursor.fault(
                f"the equation expands to more than {MOST_TERMS} terms; name parts of it as "
                "intermediates",
                at.span,
            )

    def item(self) -> Sum | Permutation:
        """One factor."""
        if self.cursor.now.kind is Kind.NUMBER:
            return (Term(self.number(), ()),)
        if self.cursor.now.kind is Kind.NAME:
            after = self.cursor.after
            if after.text == "(" and after.span[0] == self.cursor.now.span[1]:
                return operator(self.cursor, self.target)
            return (Term(Fraction(1), (self.cursor.tensor("a factor"),)),)
        if opened := self.cursor.skips("("):
            return self.parenthesised(opened)
        raise self.cursor.unexpected("a number, a tensor, 'P(' or '('")

    def parenthesised(self, opened: Token) -> Sum:
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise self.cursor.fault(
                f"more than {MOST_NESTED} parentheses are open; name parts as intermediates",
                opened.span,
            )
        try:
            made = gathered(self.sum())
        except OverflowError:
            raise self.too_large(opened) from None
        self.cursor.expect(")", "an operator, a factor or the ')'", opened)
        self.depth -= 1
        return made

    def divisor(self) -> Sum:
        if self.cursor.now.kind is not Kind.NUMBER:
            raise self.cursor.unexpected("a number behind '/', since only numbers divide")
        span = self.cursor.now.span
        by = self.number()
        if by == 0:
            raise self.cursor.fault("0 is behind '/'; expected a number other than 0", span)
        return (Term(1 / by, ()),)

    def number(self) -> Coefficient:
        token = self.cursor.next()
        text = token.text
        made: Coefficient | None = None
        if not text.isdigit():
            made = number(complex(text) if text[-1] in "jJ" else float(text))
        elif len(text) <= MOST_DIGITS:
            made = number(int(text))
        if made is None:
            raise self.cursor.fault(
                f"{text[:20]} is too large; expected a number below 1e308", token.span
            )
        return made
