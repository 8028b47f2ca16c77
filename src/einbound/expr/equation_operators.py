"""Permutation operators as they are written: `P(i,j)`, `P(i/jk)`, `S(ia;jb)`."""

from __future__ import annotations

from dataclasses import dataclass, field

from einbound.expr.equation_cursor import Cursor
from einbound.expr.equation_sums import Permutation
from einbound.expr.equations import Factor


def operator(cursor: Cursor, target: Factor) -> Permutation:
    """An operator, passed; the cursor is at its letter.

    Args:
        cursor: Behind the letter an opening parenthesis follows.
        target: Of the equation; only its indices can be permuted.

    Raises:
        EquationsError: Something else stands there.
    """
    name, opened = cursor.next(), cursor.next()
    if name.text not in ("P", "S"):
        raise cursor.fault(
            f"{name.text!r} is no operator; expected P(i,j) or S(i,j), brackets around the indices "
            "of a tensor, or '*' before a parenthesis",
            name.span,
        )
    written = _Written()
    written.part(_labels(cursor, name.text, target))
    while sign := cursor.skips(";", "/"):
        if sign.text == "/" and written.slash is not None:
            raise cursor.fault("a second '/' in one operator; expected one at most", sign.span)
        if sign.text == "/":
            written.slash = len(written.parts)
        written.has_groups |= sign.text == ";"
        written.part(_labels(cursor, name.text, target))
    closed = cursor.expect(")", "an index, ';', '/' or the ')'", opened)
    made = written.operator(antisymmetric=name.text == "P")
    _check(cursor, made, (name.span[0], closed.span[1]))
    return made


@dataclass
class _Written:
    """The labels between semicolons and slashes."""

    parts: list[tuple[str, ...]] = field(default_factory=list)
    slash: int | None = None
    has_groups: bool = False

    def part(self, labels: tuple[str, ...]) -> None:
        self.parts.append(labels)

    def operator(self, *, antisymmetric: bool) -> Permutation:
        if self.has_groups:
            return Permutation(tuple(self.parts), self.slash, antisymmetric)
        groups = tuple((label,) for part in self.parts for label in part)
        first = None if self.slash is None else len(self.parts[0])
        return Permutation(groups, first, antisymmetric)


def _labels(cursor: Cursor, name: str, target: Factor) -> tuple[str, ...]:
    found = tuple(cursor.labels())
    for label, span in found:
        if label not in target.indices:
            raise cursor.fault(
                f"{name}(...) permutes {label!r}, which is no index of {target}; expected indices "
                "of the target",
                span,
            )
    return tuple(label for label, _ in found)


def _check(cursor: Cursor, made: Permutation, span: tuple[int, int]) -> None:
    written = cursor.text[slice(*span)]
    labels = [label for group in made.groups for label in group]
    n_groups = len(made.groups)
    if n_groups < 2 or made.first in (0, n_groups) or len({*map(len, made.groups)}) > 1:
        raise cursor.fault(
            f"{written} exchanges nothing; expected two indices or more, such as P(i,j), on both "
            "sides of a '/', and groups of equally many, such as S(ia;jb)",
            span,
        )
    if len({*labels}) < len(labels):
        raise cursor.fault(f"{written} has an index twice; expected each once", span)
