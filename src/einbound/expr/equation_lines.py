"""From what a text says, line by line, to one equation for each target."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from einbound.expr.equation_declarations import Said
from einbound.expr.equation_fault import fault
from einbound.expr.equation_rules import checked
from einbound.expr.equation_spaces import spaces_of
from einbound.expr.equation_sums import aligned
from einbound.expr.equation_text import Line, statements
from einbound.expr.equations import Access, Declared, Equation, System, unread


def read_system(
    text: str,
    *,
    sizes: Mapping[str, Any] | None = None,
    spaces: Mapping[str, Any] | None = None,
    tiles: Mapping[str, Any] | None = None,
) -> System:
    """The system that a text denotes.

    Args:
        text: Equations and declarations.
        sizes: Extents by space or index, beside those in the text.
        spaces: Indices by space, beside those in the text.
        tiles: Tiles by space or index, in place of those in the text.

    Raises:
        EquationsError: The text breaks the grammar or a rule; the error points at the place.
    """
    said = statements(text)
    all_spaces = spaces_of(said.spaces, spaces=spaces, sizes=sizes, tiles=tiles)
    equations = _equations(said.lines, text)
    made = {each.target.name for each in equations}
    asked = [each for each in said.said if each.word == "target"]
    for each in asked:
        if each.name not in made:
            raise fault(
                f"target {each.name!r} is made by no equation; expected a target of one",
                text,
                each.span,
            )
    targets = {*unread(equations), *(each.name for each in asked)}
    system = System(
        equations,
        tuple(each.target.name for each in equations if each.target.name in targets),
        all_spaces,
        _declared([each for each in said.said if each.word != "target"], text),
        text,
    )
    return checked(system)


def _equations(lines: Iterable[Line], text: str) -> tuple[Equation, ...]:
    """One equation for each target, in the order in which they are complete."""
    made: dict[str, Equation] = {}
    breaks = [at for at, character in enumerate(text) if character == "\n"]
    for line in lines:
        target = line.target
        begun = made.pop(target.name, None)
        if begun is None or line.sets:
            if begun is not None:
                raise fault(
                    f"{target} is made twice, on line {begun.line} too; expected one '=' for each "
                    "target, and '+=' for what is added to it",
                    text,
                    target.span,
                )
            number = bisect_left(breaks, (target.span or (0, 0))[0]) + 1
            made[target.name] = Equation(target, line.terms, number)
            continue
        to, ours = begun.target.indices, target.indices
        if len(to) != len(ours) or len({*ours}) < len(ours):
            raise fault(
                f"{target} is added to {begun.target} of line {begun.line}; expected as many "
                "indices, each once",
                text,
                target.span,
            )
        for term in line.terms:
            missing = [label for label in ours if label not in term.indices]
            if missing:
                raise fault(
                    f"index {missing[0]!r} of {target} is not in the term {term}; expected every "
                    "index of a target in each of its terms",
                    text,
                    *(term.spans or (target.span,)),
                )
        terms = tuple(aligned(term, ours, to) for term in line.terms)
        made[target.name] = replace(begun, terms=begun.terms + terms)
    return tuple(made.values())


def _declared(said: Iterable[Said], text: str) -> tuple[Declared, ...]:
    """What is said of each tensor, in the order of the names."""
    known: dict[str, Declared] = {}
    for each in said:
        name = each.name
        before = known.get(name, Declared(name, span=each.span))
        if each.word == "volatile":
            known[name] = replace(before, is_volatile=True)
            continue
        access = Access(each.word)
        if before.access not in (Access.GIVEN, access):
            raise fault(
                f"{name!r} is both {before.access.value} and {access.value}; expected one of these",
                text,
                each.span,
                before.span,
            )
        known[name] = replace(before, access=access)
    return tuple(known[name] for name in sorted(known))
