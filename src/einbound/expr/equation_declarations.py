"""Declarations: spaces of indices, and what is said of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from einbound.expr.equation_cursor import Cursor
from einbound.expr.equation_tokens import Kind
from einbound.expr.equations import Space, Span

WORDS = ("target", "volatile", "streamed", "computed")


@dataclass(frozen=True, slots=True)
class Said:
    """What a declaration says of one tensor.

    Attributes:
        word: One of `WORDS`.
        name: The tensor.
        span: Where it is named.
    """

    word: str
    name: str
    span: Span


def said(cursor: Cursor) -> Iterator[Said]:
    """What a declaration of tensors says.

    Raises:
        EquationsError: It is none.
    """
    word = cursor.next()
    if word.text not in WORDS:
        raise cursor.fault(
            f"{word.text!r} declares nothing, and it is no equation; expected '[' or '=' behind "
            f"it, or one of space, {', '.join(WORDS)}",
            word.span,
        )
    while cursor.now.kind is not Kind.END:
        name = cursor.expect(Kind.NAME, f"the name of a tensor behind {word.text!r}")
        yield Said(word.text, name.text, name.span)
        cursor.skips(",")
    cursor.next()


def space(cursor: Cursor) -> Space:
    """What a declaration of a space says.

    Raises:
        EquationsError: Something else stands there.
    """
    cursor.next()
    name = cursor.expect(Kind.NAME, "the name of a space")
    cursor.expect(":", "':' between the name of a space and its indices")
    labels = tuple(label for label, _ in cursor.labels())
    if not labels:
        raise cursor.unexpected(f"an index of space {name.text!r}")
    extent = cursor.integer("the extent of the space") if cursor.skips("=") else None
    tiles = _tiles(cursor) if cursor.now.text == "tiles" else None
    cursor.ended("'= EXTENT', 'tiles WIDTH' or the end of the declaration")
    return Space(name.text, labels, extent, tiles, name.span)


def _tiles(cursor: Cursor) -> int | tuple[int, ...]:
    cursor.next()
    if cursor.skips("(") is None:
        return cursor.integer("the width of tiles, or their boundaries in parentheses")
    bounds = []
    while not cursor.skips(")"):
        bounds.append(cursor.integer("a boundary of tiles or the ')'"))
        cursor.skips(",")
    return tuple(bounds)
