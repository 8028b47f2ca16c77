"""The Python form of equations: of each target, numbers with einsum texts and names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from einbound.errors import EquationsError, ExpressionError
from einbound.expr.equation_rules import checked
from einbound.expr.equation_spaces import spaces_of
from einbound.expr.equation_sums import aligned, number
from einbound.expr.equations import Access, Declared, Equation, Factor, Space, System, Term, unread
from einbound.expr.expression import parse


def system_of(
    equations: Iterable[Equation],
    *,
    spaces: tuple[Space, ...] = (),
    targets: Iterable[str] = (),
    volatile: Iterable[str] = (),
    streamed: Iterable[str] = (),
    computed: Iterable[str] = (),
) -> System:
    """The system of some equations, which keeps all rules.

    Args:
        equations: In an order in which they can be evaluated.
        spaces: Kinds of indices.
        targets: What is returned besides what no equation reads.
        volatile: Tensors that change with every evaluation.
        streamed: Tensors that are read block by block.
        computed: Tensors that are computed on demand.

    Raises:
        EquationsError: A rule is broken.
    """
    made = tuple(equations)
    asked = _names(targets, "targets")
    known = [each.target.name for each in made]
    for name in asked:
        if name not in known:
            raise EquationsError(
                f"target {name!r} is made by no equation; expected one of "
                f"{', '.join(map(repr, known))}"
            )
    returned = {*unread(made), *asked}
    return checked(
        System(
            made,
            tuple(name for name in known if name in returned),
            spaces,
            _declared(
                _names(volatile, "volatile"),
                _names(streamed, "streamed"),
                _names(computed, "computed"),
            ),
        )
    )


def read_terms(
    terms: Mapping[str, Any],
    *,
    sizes: Mapping[str, Any] | None = None,
    spaces: Mapping[str, Any] | None = None,
    tiles: Mapping[str, Any] | None = None,
    targets: Iterable[str] = (),
    volatile: Iterable[str] = (),
    streamed: Iterable[str] = (),
    computed: Iterable[str] = (),
) -> System:
    """The system of a mapping from targets to lists of (number, einsum text, names of operands).

    Args:
        terms: An entry may read earlier targets. The output of a target's first term names the
            target's indices.
        sizes: Extents by space or index.
        spaces: Indices by space.
        tiles: Tiles by space or index.
        targets: What is returned besides what no entry reads.
        volatile: Tensors that change with every evaluation.
        streamed: Tensors that are read block by block.
        computed: Tensors that are computed on demand.

    Raises:
        EquationsError: An einsum text does not make sense, or a rule is broken.
        TypeError: An entry is no list of such triples.
    """
    return system_of(
        [_equation(name, entry) for name, entry in terms.items()],
        spaces=spaces_of((), spaces=spaces, sizes=sizes, tiles=tiles),
        targets=targets,
        volatile=volatile,
        streamed=streamed,
        computed=computed,
    )


def term_of(
    coefficient: Any, subscripts: Any, names: Sequence[str], where: str
) -> tuple[Term, tuple[str, ...]]:
    """One term and the labels of its result.

    Args:
        coefficient: A number.
        subscripts: Einsum text, in which labels are letters.
        names: The operands.
        where: What the caller calls the term.

    Raises:
        EquationsError: One of these makes no sense.
        TypeError: One of these is something else.
    """
    value = number(coefficient)
    if value is None:
        _refuse(where, f"has coefficient {coefficient!r}", "a finite number")
    if not isinstance(subscripts, str):
        _refuse(where, f"has subscripts {subscripts!r}", "einsum text such as 'ij,jk->ik'")
    if not names and subscripts.replace(" ", "") in ("", "->"):
        return Term(value, ()), ()
    try:
        expression = parse(subscripts, len(names))
    except ExpressionError as error:
        message = str(error).split("\n")[0]
        raise EquationsError(f"{where}: {message}", error.text, error.spans) from None
    if any(each.ellipsis is not None for each in (*expression.terms, expression.output)):
        raise EquationsError(f"{where} has an ellipsis; expected a letter for each axis")
    factors = tuple(
        Factor(name, tuple(map(str, each.labels)))
        for name, each in zip(names, expression.terms, strict=True)
    )
    return Term(value, factors), tuple(map(str, expression.output.labels))


def _equation(name: Any, entry: Any) -> Equation:
    if not isinstance(name, str):
        raise TypeError(f"target {name!r} is no text; expected the name of a tensor")
    if isinstance(entry, str) or not isinstance(entry, Sequence):
        _refuse(f"target {name!r}", f"is {entry!r}", "a list of (number, einsum text, names)")
    target: Factor | None = None
    terms: list[Term] = []
    for n, each in enumerate(entry):
        where = f"term {n} of {name!r}"
        if isinstance(each, str) or not isinstance(each, Sequence) or len(each) != 3:
            _refuse(where, f"is {each!r}", "(number, einsum text, names)")
        coefficient, subscripts, names = each
        term, output = term_of(coefficient, subscripts, _names(names, f"names of {where}"), where)
        target = target or Factor(name, output)
        if len(output) != len(target.indices):
            raise EquationsError(
                f"{where} has the indices {output}, and the first has {target.indices}; expected "
                "as many in each term"
            )
        terms.append(aligned(term, output, target.indices))
    return Equation(target or Factor(name), tuple(terms))


def _declared(
    volatile: tuple[str, ...], streamed: tuple[str, ...], computed: tuple[str, ...]
) -> tuple[Declared, ...]:
    both = sorted({*streamed} & {*computed})
    if both:
        raise EquationsError(f"{both[0]!r} is both streamed and computed; expected one of these")
    known = {name: Declared(name, is_volatile=True) for name in volatile}
    for names, access in ((streamed, Access.STREAMED), (computed, Access.COMPUTED)):
        for name in names:
            known[name] = replace(known.get(name, Declared(name)), access=access)
    return tuple(known[name] for name in sorted(known))


def _names(given: Any, what: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{what} is {given!r}; expected a sequence of names")
    names = tuple(given)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{what} has {name!r}; expected names of tensors as text")
    return names


def _refuse(where: str, what: str, expected: str) -> NoReturn:
    raise TypeError(f"{where} {what}; expected {expected}")
