"""Systems of equations as text that is read back as the same system."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from einbound.expr.equations import Access, Coefficient, Equation, Space, System, Term, unread

WIDTH = 100


def printed(system: System) -> str:
    """The text of a system, declarations first; equal systems have equal texts.

    Law: reading it gives an equal system (tests/test_equations.py).
    """
    lines = [_space(space) for space in system.spaces]
    volatile = [each.name for each in system.declared if each.is_volatile]
    lines += _said("volatile", volatile)
    for access in (Access.STREAMED, Access.COMPUTED):
        lines += _said(access.value, [e.name for e in system.declared if e.access is access])
    always = unread(system.equations)
    lines += _said("target", [name for name in system.targets if name not in always])
    for equation in system.equations:
        lines += _wrapped(equation)
    return "\n".join(lines)


def _space(space: Space) -> str:
    text = f"space {space.name}: {' '.join(space.labels)}"
    if space.extent is not None:
        text += f" = {space.extent}"
    if isinstance(space.tiles, int):
        text += f" tiles {space.tiles}"
    elif space.tiles is not None:
        text += f" tiles ({', '.join(map(str, space.tiles))})"
    return text


def _said(word: str, names: list[str]) -> list[str]:
    return [" ".join([word, *names])] if names else []


def _wrapped(equation: Equation) -> Iterator[str]:
    """The lines of an equation, broken before operators."""
    line = f"{equation.target} ="
    for number, term in enumerate(equation.terms):
        piece = _term(term, is_first=number == 0)
        if number and len(line) + len(piece) >= WIDTH:
            yield line
            line = "   "
        line += f" {piece}"
    yield line


def _term(term: Term, *, is_first: bool) -> str:
    sign, size = _signed(term.coefficient)
    words = [] if size == "1" and term.factors else [size]
    words += map(str, term.factors)
    if sign == "-" or not is_first:
        words.insert(0, sign)
    return " ".join(words)


def _signed(number: Coefficient) -> tuple[str, str]:
    """Sign and size of a coefficient; one with two parts stands in parentheses."""
    if isinstance(number, complex):
        sign = "-" if number.imag < 0 else "+"
        if number.real == 0:
            return sign, f"{abs(number.imag)!r}j"
        return "+", f"({number.real!r} {sign} {abs(number.imag)!r}j)"
    size = abs(number)
    text = str(size) if isinstance(size, Fraction) else repr(size)
    return ("-" if number < 0 else "+"), "1" if size == 1 else text
