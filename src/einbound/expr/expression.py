"""An einsum expression without sizes, from text or from interleaved labels.

Sizes come in at `Expression.bind`; dtypes and arrays are not known here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import EllipsisType
from typing import Any

import numpy as np

from einbound.errors import ExpressionError
from einbound.expr.binding import Place, bind
from einbound.expr.network import Network
from einbound.expr.subscripts import Places, Span, Term, locate, read

Labels = Sequence[Hashable | EllipsisType] | np.ndarray


@dataclass(frozen=True, slots=True)
class Expression:
    """The labels of every operand and of the result.

    Attributes:
        terms: The labels of each operand.
        output: The labels of the result; filled in where the caller left it implicit.
        text: What the caller wrote, or None for the interleaved form; not part of equality.
    """

    terms: tuple[Term, ...]
    output: Term
    text: str | None = field(default=None, compare=False)

    def bind(self, shapes: Sequence[Sequence[int]]) -> Network:
        """The network of this expression for operands of the given shapes.

        Args:
            shapes: Elements along each axis of each operand.

        Raises:
            ExpressionError: Ranks or sizes do not fit the labels, or an output without '...' would
                lose dimensions that '...' stands for.
        """
        if len(shapes) != len(self.terms):
            raise _wrong_number(self.terms, len(shapes), self.text)
        return bind(self.terms, self.output, shapes, self.error)

    def error(self, message: str, places: Iterable[Place] = ()) -> ExpressionError:
        """An error that points at `places` in the caller's text."""
        if self.text is None:
            return ExpressionError(message)
        terms = locate(self.text)
        # An implicit output is nowhere in the text.
        spans = [_span(terms[p.term], p.label) for p in places if p.term < len(terms)]
        return ExpressionError(message, self.text, tuple(dict.fromkeys(spans)))

    def __str__(self) -> str:
        return f"{','.join(map(str, self.terms))}->{self.output}"


@lru_cache(maxsize=1024)
def parse(subscripts: str, n_operands: int) -> Expression:
    """The expression that einsum text denotes.

    Args:
        subscripts: Terms separated by commas, then optionally '->' and the output.
        n_operands: How many operands the caller has.

    Raises:
        ExpressionError: The text breaks the grammar or does not fit the number of operands.

    Example:
        >>> str(parse("b...j, jk", 2))
        'b...j,jk->...bk'
    """
    terms, output = read(subscripts)
    if len(terms) != n_operands:
        raise _wrong_number(terms, n_operands, subscripts)
    return _expression(terms, output, subscripts)


def parse_interleaved(labels: Sequence[Labels], output: Labels | None) -> Expression:
    """The expression that one sequence of labels per operand denotes.

    Args:
        labels: Of each operand, hashable labels and at most one `...`.
        output: The same of the result; None for the implicit output.

    Raises:
        ExpressionError: A sequence has two ellipses, or the output has a label twice or one that
            no operand has.
        TypeError: A sequence of labels is no sequence, or a label is not hashable.

    Example:
        >>> parse_interleaved([["row", ...], ["row", 3]], None).output
        Term(labels=(3,), ellipsis=0)
    """
    terms = tuple([_labelled(each, f"operand {k}") for k, each in enumerate(labels)])
    return _expression(terms, None if output is None else _labelled(output, "the output"), None)


def split_arguments(args: Sequence[Any]) -> tuple[Expression, tuple[Any, ...]]:
    """The expression and the operands in the positional arguments of an einsum call.

    Args:
        args: `(text, operand, ...)` or `(operand, labels, ..., [output labels])`.

    Raises:
        ExpressionError: There is no operand, or the expression is wrong.
        TypeError: In the interleaved form, labels are no sequence of hashable values.
    """
    if args and isinstance(args[0], bytes):
        args = (args[0].decode("ascii", "replace"), *args[1:])
    if args and isinstance(args[0], str):
        return parse(args[0], len(args) - 1), tuple(args[1:])
    if len(args) < 2:
        raise ExpressionError(
            f"einsum was given {_count(len(args), 'argument')} and no text; expected the "
            "subscripts as text and then the operands, or operands that are each followed by a "
            "list of labels"
        )
    pairs = len(args) // 2 * 2
    output = args[-1] if pairs < len(args) else None
    return parse_interleaved(args[1:pairs:2], output), tuple(args[0:pairs:2])


def _expression(terms: tuple[Term, ...], output: Term | None, text: str | None) -> Expression:
    if output is None:
        return Expression(terms, _implicit(terms), text)
    expression = Expression(terms, output, text)
    known = {label for term in terms for label in term.labels}
    labels = output.labels
    if len(set(labels)) < len(labels):
        label = next(label for label in labels if labels.count(label) > 1)
        raise expression.error(
            f"output label {label!r} appears {labels.count(label)} times; repeated output labels "
            "are unsupported; name it once and place the result on a diagonal afterwards",
            [Place(len(terms), k) for k, other in enumerate(labels) if other == label],
        )
    if not known.issuperset(labels):
        place = next(k for k, label in enumerate(labels) if label not in known)
        raise expression.error(
            f"output label {labels[place]!r} is in no operand; expected labels of the operands "
            f"({', '.join(map(str, dict.fromkeys(_all_labels(terms)))) or 'there are none'})",
            [Place(len(terms), place)],
        )
    return expression


def _implicit(terms: tuple[Term, ...]) -> Term:
    counts: dict[Hashable, int] = {}
    for label in _all_labels(terms):
        counts[label] = counts.get(label, 0) + 1
    once: list[Any] = [label for label, count in counts.items() if count == 1]
    try:
        once.sort()
    except TypeError:
        # Labels of mixed kinds have no order of their own and keep that of appearance.
        once = [label for label, count in counts.items() if count == 1]
    return Term(tuple(once), 0 if any(term.ellipsis is not None for term in terms) else None)


def _all_labels(terms: tuple[Term, ...]) -> Iterable[Hashable]:
    return (label for term in terms for label in term.labels)


def _labelled(labels: Any, owner: str) -> Term:
    sequence = _sequence(labels, owner)
    dots = [k for k, label in enumerate(sequence) if label is ...]
    if len(dots) > 1:
        raise ExpressionError(
            f"the labels of {owner} have {len(dots)} ellipses; expected one at most"
        )
    plain = tuple([_plain(label, owner) for label in sequence if label is not ...])
    return Term(plain, dots[0] if dots else None)


def _sequence(labels: Any, owner: str) -> Sequence[Any]:
    if isinstance(labels, np.ndarray):
        labels = labels.tolist()
    if isinstance(labels, Sequence) and not isinstance(labels, str | bytes):
        return labels
    raise TypeError(
        f"the labels of {owner} are {labels!r} of type {type(labels).__name__}; expected a list or "
        "a tuple of labels; or give the subscripts as text in the first argument"
    )


def _plain(label: Any, owner: str) -> Hashable:
    if isinstance(label, np.generic):
        label = label.item()
    try:
        hash(label)
    except TypeError:
        raise TypeError(
            f"a label of {owner} is {label!r} of type {type(label).__name__}; expected hashable "
            "labels such as integers or text"
        ) from None
    return label  # type: ignore[no-any-return]  # hash() has just accepted it


def _span(places: Places, label: int | None) -> Span:
    if label is None:
        return places.term
    return places.labels[label] if label >= 0 else places.ellipsis or places.term


def _wrong_number(terms: tuple[Term, ...], n_operands: int, text: str | None) -> ExpressionError:
    message = (
        f"the expression has {_count(len(terms), 'term')} for {_count(n_operands, 'operand')}; "
        "expected one term per operand, separated by commas"
    )
    if text is None:
        return ExpressionError(message)
    places = locate(text)[: len(terms)]
    extra = [each.term for each in places[n_operands:]]
    return ExpressionError(message, text, tuple(extra or [(places[-1].term[1],) * 2]))


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"
