"""From labels and shapes to a network: ellipsis dimensions, sizes, broadcasting, diagonals.

What a label may be and how it is written belongs to the other modules of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import index as as_int
from typing import NamedTuple

from einbound.errors import ExpressionError
from einbound.expr.index import EllipsisLabel
from einbound.expr.network import Access, Network
from einbound.expr.subscripts import Term

#: Stands for the ellipsis in `Place.label`.
ELLIPSIS = -1


class Place(NamedTuple):
    """A place in an expression that an error points at.

    Attributes:
        term: Number of the operand; the number of operands for the output.
        label: Position among the term's labels; ELLIPSIS for the ellipsis; None for all of it.
    """

    term: int
    label: int | None


Fail = Callable[[str, Sequence[Place]], ExpressionError]


def bind(
    terms: tuple[Term, ...], output: Term, shapes: Sequence[Sequence[int]], fail: Fail
) -> Network:
    """The network of `terms` and `output` for operands of the given shapes.

    Args:
        terms: Labels of each operand.
        output: Labels of the result; each is in some operand, none is repeated.
        shapes: Elements along each axis of each operand.
        fail: Makes the error for a message and the places that it is about.

    Raises:
        ExpressionError: Ranks or sizes do not fit.
    """
    sizes = [tuple([as_int(n) for n in shape]) for shape in shapes]
    n_dimensions = [_ellipsis_rank(k, term, sizes[k], fail) for k, term in enumerate(terms)]
    longest = max(n_dimensions, default=0)
    dimensions = tuple([EllipsisLabel(k) for k in range(longest)])
    names = [
        term.expand(dimensions[longest - n :]) for term, n in zip(terms, n_dimensions, strict=True)
    ]
    extents = _extents(terms, names, sizes, fail)
    if longest and output.ellipsis is None:
        raise _dropped_dimensions(terms, dimensions, n_dimensions, extents, fail)
    numbers = {label: number for number, label in enumerate(extents)}
    sides = [_access(each, size, extents, numbers) for each, size in zip(names, sizes, strict=True)]
    return Network(
        labels=tuple(extents),
        extents=tuple(extents.values()),
        inputs=tuple([indices for indices, _ in sides]),
        output=tuple([numbers[label] for label in output.expand(dimensions)]),
        accesses=tuple([access for _, access in sides]),
    )


def _ellipsis_rank(operand: int, term: Term, shape: tuple[int, ...], fail: Fail) -> int:
    extra = len(shape) - len(term.labels)
    if extra == 0 or (extra > 0 and term.ellipsis is not None):
        return extra
    wanted = f"{len(term.labels)}{'' if term.ellipsis is None else ' or more'}"
    remedy = "; add '...' to its term to broadcast the rest" if extra > 0 else ""
    raise fail(
        f"operand {operand} of shape {shape} has {len(shape)} dimension{'s' * (len(shape) != 1)} "
        f"and its term '{term}' takes {wanted}; expected one label per dimension{remedy}",
        [Place(operand, None)],
    )


def _extents(
    terms: tuple[Term, ...],
    names: list[tuple[Hashable, ...]],
    sizes: list[tuple[int, ...]],
    fail: Fail,
) -> dict[Hashable, int]:
    """The extent of each label, in order of appearance; 1 gives way to any other size."""
    extents: dict[Hashable, int] = {}
    for operand, (labels, shape) in enumerate(zip(names, sizes, strict=True)):
        own: dict[Hashable, int] = {}
        for label, size in zip(labels, shape, strict=True):
            # As in numpy, the axes of a diagonal do not broadcast against each other.
            first = own.setdefault(label, size)
            if size < 0 or first != size:
                places = _places(terms[operand], operand, label)
                raise _own_sizes(label, operand, first, size, places, fail)
            known = extents.setdefault(label, size)
            if known == size or size == 1:
                continue
            if known != 1:
                raise _two_sizes(label, operand, terms, names, sizes, fail)
            extents[label] = size
    return extents


def _access(
    labels: tuple[Hashable, ...],
    shape: tuple[int, ...],
    extents: dict[Hashable, int],
    numbers: dict[Hashable, int],
) -> tuple[tuple[int, ...], Access]:
    """The indices of an operand and how its axes map to them."""
    axes: dict[int, tuple[int, ...]] = {}
    dropped: list[int] = []
    for axis, (label, size) in enumerate(zip(labels, shape, strict=True)):
        if size == extents[label]:
            number = numbers[label]
            axes[number] = (*axes.get(number, ()), axis)
        else:
            dropped.append(axis)
    return tuple(axes), Access(tuple(axes.values()), tuple(dropped))


def _own_sizes(
    label: Hashable, operand: int, first: int, size: int, places: list[Place], fail: Fail
) -> ExpressionError:
    if size < 0:
        return fail(
            f"index {label!r} has size {size} in operand {operand}; sizes must be 0 or more", places
        )
    return fail(
        f"index {label!r} has sizes {first} and {size} in operand {operand}; a label that is "
        "repeated takes the diagonal, so these sizes must be equal",
        places,
    )


def _two_sizes(
    label: Hashable,
    operand: int,
    terms: tuple[Term, ...],
    names: list[tuple[Hashable, ...]],
    sizes: list[tuple[int, ...]],
    fail: Fail,
) -> ExpressionError:
    other, known = next(
        (k, shape[labels.index(label)])
        for k, (labels, shape) in enumerate(zip(names, sizes, strict=True))
        if label in labels and shape[labels.index(label)] != 1
    )
    size = sizes[operand][names[operand].index(label)]
    return fail(
        f"index {label!r} has size {known} in operand {other} and {size} in operand {operand}; "
        "sizes must agree or be 1",
        [*_places(terms[other], other, label), *_places(terms[operand], operand, label)],
    )


def _dropped_dimensions(
    terms: tuple[Term, ...],
    dimensions: tuple[EllipsisLabel, ...],
    n_dimensions: list[int],
    extents: dict[Hashable, int],
    fail: Fail,
) -> ExpressionError:
    lost = ", ".join(f"{label} of size {extents[label]}" for label in dimensions)
    return fail(
        f"the output has no '...' and would drop the dimensions that '...' stands for ({lost}); "
        "add '...' to the output, or give these dimensions labels to sum them",
        [Place(k, ELLIPSIS) for k, n in enumerate(n_dimensions) if n] + [Place(len(terms), None)],
    )


def _places(term: Term, operand: int, label: Hashable) -> list[Place]:
    if isinstance(label, EllipsisLabel):
        return [Place(operand, ELLIPSIS)]
    return [Place(operand, k) for k, other in enumerate(term.labels) if other == label]
