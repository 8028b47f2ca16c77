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

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from einbound.errors import EquationsError
from einbound.expr.equation_fault import fault
from einbound.expr.equation_sums import (
    LABEL,
    UNIT,
    Permutation,
    Sum,
    gathered,
    number,
    product,
    scaled,
)
from einbound.expr.equation_tokens import Kind, Token, tokens
from einbound.expr.equations import Coefficient, Factor, Space, Term

#: Products of sums and permutations are written out; no system that a person means has more terms.
MOST_TERMS = 1 << 16
MOST_NESTED = 100
#: Python refuses to read integers of more digits than some thousands; floats end before.
MOST_DIGITS = 400


@dataclass(frozen=True, slots=True)
class Line:
    """One equation as it is written: a target, what is done to it, and a sum.

    Attributes:
        target: With the labels of this line.
        sign: "=", "+=" or "-=".
        terms: Expanded.
    """

    target: Factor
    sign: str
    terms: Sum


@dataclass(frozen=True, slots=True)
class Said:
    """A name that a declaration is about.

    Attributes:
        word: The declaration.
        name: A tensor.
    """

    word: str
    name: Factor


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
    reader = _Reader(text, tokens(text))
    lines: list[Line] = []
    spaces: list[Space] = []
    said: list[Said] = []
    while reader.now.text:
        first, then = reader.now, reader.all[min(reader.at + 1, len(reader.all) - 1)]
        if first.kind is Kind.END:
            reader.next()
        elif then.kind is not Kind.NAME:
            lines.append(reader.line())
        elif first.text == "space":
            spaces.append(reader.space())
        else:
            said += reader.said()
    return Statements(tuple(lines), tuple(spaces), tuple(said))


WORDS = ("target", "volatile", "streamed", "computed")


@dataclass
class _Reader:
    text: str
    all: tuple[Token, ...]
    at: int = 0
    depth: int = 0
    target: Factor = field(default_factory=lambda: Factor(""))

    @property
    def now(self) -> Token:
        return self.all[self.at]

    def next(self) -> Token:
        """The current token; the reader goes on to the next."""
        token = self.now
        self.at = min(self.at + 1, len(self.all) - 1)
        return token

    def skips(self, *signs: str) -> Token | None:
        """The current token, passed, if it is one of these signs."""
        return self.next() if self.now.kind is Kind.SIGN and self.now.text in signs else None

    def expect(self, what: Kind | str, role: str, opened: Token | None = None) -> Token:
        """The current token, passed, which must be what it is expected to be."""
        if self.now.kind is what or (self.now.kind is Kind.SIGN and self.now.text == what):
            return self.next()
        raise self.unexpected(role, opened)

    def unexpected(self, role: str, opened: Token | None = None) -> EquationsError:
        spans = [self.now.span] + ([opened.span] if opened else [])
        behind = f" that closes {opened.text!r}" if opened else ""
        return self.fault(f"found {self.now}; expected {role}{behind}", *spans)

    def fault(self, message: str, *spans: tuple[int, int]) -> EquationsError:
        return fault(message, self.text, *spans)

    def ended(self, role: str) -> None:
        """Pass the end of a statement."""
        if self.now.kind is not Kind.END:
            raise self.unexpected(role)
        self.next()

    # Equations.

    def line(self) -> Line:
        """An equation."""
        self.target = self.tensor("a tensor or a declaration")
        sign = self.skips("=", "+=", "-=")
        if sign is None:
            raise self.unexpected("'=', '+=' or '-=' behind the target of an equation")
        terms = self.sum()
        self.ended("an operator, a factor or the end of the equation")
        if sign.text == "-=":
            terms = scaled(terms, Fraction(-1))
        return Line(self.target, sign.text, terms)

    def sum(self) -> Sum:
        """A sum of products, expanded."""
        sign = self.skips("+", "-")
        made = self.signed(sign)
        while sign := self.skips("+", "-"):
            made += self.signed(sign)
            self.check_size(len(made), sign)
        return made

    def signed(self, sign: Token | None) -> Sum:
        made = self.product()
        return scaled(made, Fraction(-1)) if sign and sign.text == "-" else made

    def product(self) -> Sum:
        """A product, expanded; operators act on all that stands right of them."""
        first = self.now
        items = [self.item()]
        while True:
            if self.skips("*"):
                items.append(self.item())
            elif self.skips("/"):
                items.append(self.divisor())
            elif self.now.kind in (Kind.NUMBER, Kind.NAME) or self.now.text == "(":
                items.append(self.item())
            else:
                break
        if isinstance(items[-1], Permutation):
            raise self.unexpected("a factor that the permutation operator acts on")
        made: Sum = (UNIT,)
        for item in reversed(items):
            try:
                made = item(made) if isinstance(item, Permutation) else product(item, made)
            except OverflowError:
                raise self.fault(
                    "the coefficient is too large; expected a number below 1e308", first.span
                ) from None
            self.check_size(len(made), first)
        return made

    def check_size(self, n_terms: int, at: Token) -> None:
        if n_terms > MOST_TERMS:
            raise self.fault(
                f"the equation expands to more than {MOST_TERMS} terms; name parts of it as "
                "intermediates",
                at.span,
            )

    def item(self) -> Sum | Permutation:
        """One factor."""
        if self.now.kind is Kind.NUMBER:
            return (Term(self.number(), ()),)
        if self.now.kind is Kind.NAME:
            after = self.all[self.at + 1]
            if after.text == "(" and after.span[0] == self.now.span[1]:
                return self.operator()
            return (Term(Fraction(1), (self.tensor("a factor"),)),)
        if opened := self.skips("("):
            return self.parenthesised(opened)
        raise self.unexpected("a number, a tensor, 'P(' or '('")

    def parenthesised(self, opened: Token) -> Sum:
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise self.fault(
                f"more than {MOST_NESTED} parentheses are open; name parts as intermediates",
                opened.span,
            )
        made = gathered(self.sum())
        self.expect(")", "an operator, a factor or the ')'", opened)
        self.depth -= 1
        return made

    def divisor(self) -> Sum:
        if self.now.kind is not Kind.NUMBER:
            raise self.unexpected("a number behind '/', since only numbers divide")
        span = self.now.span
        by = self.number()
        if by == 0:
            raise self.fault("0 is behind '/'; expected a number other than 0", span)
        return (Term(1 / by, ()),)

    def number(self) -> Coefficient:
        token = self.next()
        text = token.text
        made: Coefficient | None = None
        if not text.isdigit():
            made = number(complex(text) if text[-1] in "jJ" else float(text))
        elif len(text) <= MOST_DIGITS:
            made = number(int(text))
        if made is None:
            raise self.fault(f"{text[:20]} is too large; expected a number below 1e308", token.span)
        return made

    def tensor(self, role: str) -> Factor:
        """A tensor with its indices."""
        name = self.expect(Kind.NAME, role)
        opened = self.skips("[")
        if opened is None:
            return Factor(name.text, (), name.span)
        labels = tuple(label for label, _ in self.labels())
        closed = self.expect("]", "an index or the ']'", opened)
        return Factor(name.text, labels, (name.span[0], closed.span[1]))

    def labels(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Labels up to the next sign that is no comma, each with its place."""
        while self.now.kind is not Kind.SIGN or self.now.text == ",":
            if self.now.kind is Kind.END or self.now.text == "tiles":
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

    def operator(self) -> Permutation:
        """A permutation operator."""
        name, opened = self.next(), self.next()
        if name.text not in ("P", "S"):
            raise self.fault(
                f"{name.text!r} is no operator; expected P(i,j) or S(i,j), brackets around the "
                "indices of a tensor, or '*' before a parenthesis",
                name.span,
            )
        groups: list[tuple[str, ...]] = [()]
        slash: int | None = None
        parts: list[tuple[str, ...]] = []
        has_groups = False
        while True:
            found = tuple(self.labels())
            self.check_permuted(found, name)
            parts.append(tuple(label for label, _ in found))
            sign = self.skips(";", "/")
            if sign is None:
                break
            has_groups |= sign.text == ";"
            if sign.text == "/":
                if slash is not None:
                    raise self.fault("a second '/'; expected one at most", sign.span)
                slash = len(parts)
        closed = self.expect(")", "an index, ';', '/' or the ')'", opened)
        if has_groups:
            groups = parts
        else:
            slash = None if slash is None else len(parts[0])
            groups = [(label,) for part in parts for label in part]
        made = Permutation(tuple(groups), slash, antisymmetric=name.text == "P")
        self.check_operator(made, (name.span[0], closed.span[1]))
        return made

    def check_permuted(self, found: tuple[tuple[str, tuple[int, int]], ...], name: Token) -> None:
        for label, span in found:
            if label not in self.target.indices:
                raise self.fault(
                    f"{name.text}(...) permutes {label!r}, which is no index of {self.target}; "
                    "expected indices of the target",
                    span,
                )

    def check_operator(self, made: Permutation, span: tuple[int, int]) -> None:
        labels = [label for group in made.groups for label in group]
        n_groups = len(made.groups)
        if n_groups < 2 or made.first in (0, n_groups) or len({*map(len, made.groups)}) > 1:
            raise self.fault(
                f"{self.text[slice(*span)]} exchanges nothing; expected two indices or more, such "
                "as P(i,j), on both sides of a '/', and groups of equally many, such as S(ia;jb)",
                span,
            )
        if len({*labels}) < len(labels):
            raise self.fault(
                f"{self.text[slice(*span)]} has an index twice; expected each once", span
            )

    # Declarations.

    def said(self) -> Iterator[Said]:
        """A declaration of tensors."""
        word = self.next()
        if word.text not in WORDS:
            raise self.fault(
                f"{word.text!r} declares nothing, and it is no equation; expected '[' or '=' "
                f"behind it, or one of space, {', '.join(WORDS)}",
                word.span,
            )
        while self.now.kind is not Kind.END:
            name = self.expect(Kind.NAME, f"the name of a tensor behind {word.text!r}")
            yield Said(word.text, Factor(name.text, (), name.span))
            self.skips(",")
        self.next()

    def space(self) -> Space:
        """A declaration of a space."""
        self.next()
        name = self.expect(Kind.NAME, "the name of a space")
        self.expect(":", "':' between the name of a space and its indices")
        labels = tuple(label for label, _ in self.labels())
        if not labels:
            raise self.unexpected(f"an index of space {name.text!r}")
        extent = self.integer("the extent of the space") if self.skips("=") else None
        tiles = self.tiles() if self.now.text == "tiles" else None
        self.ended("'= EXTENT', 'tiles WIDTH' or the end of the declaration")
        return Space(name.text, labels, extent, tiles, name.span)

    def tiles(self) -> int | tuple[int, ...]:
        self.next()
        opened = self.skips("(")
        if opened is None:
            return self.integer("the width of tiles, or their boundaries in parentheses")
        bounds = []
        while not self.skips(")"):
            bounds.append(self.integer("a boundary of tiles or the ')'"))
            self.skips(",")
        return tuple(bounds)

    def integer(self, role: str) -> int:
        if not self.now.text.isdigit() or len(self.now.text) > MOST_DIGITS:
            raise self.unexpected(f"{role}, an integer")
        return int(self.next().text)
