"""What equations must keep to before they mean anything; shapes are not known here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from einbound.expr.equation_fault import fault, line_of
from einbound.expr.equation_sums import LABEL, NAME
from einbound.expr.equations import Access, Equation, Factor, Space, Span, System


def checked(system: System) -> System:
    """The same system, which keeps all rules.

    Raises:
        EquationsError: It breaks a rule; the error points into its text, if it has one.
    """
    for rule in (_names, _targets, _order, _terms, _ranks, _declared, _spaces, _extents):
        for message, spans in rule(system):
            raise fault(message, system.text, *spans)
    return system


#: What is wrong, and where.
Broken = Iterator[tuple[str, tuple[Span | None, ...]]]


def _names(system: System) -> Broken:
    for factor in (*(each.target for each in system.equations), *system.factors):
        if NAME.fullmatch(factor.name) is None or not factor.name.isidentifier():
            yield (
                f"{factor.name!r} is no name of a tensor; expected letters, digits and '_', and "
                "no digit first",
                (factor.span,),
            )
        for label in factor.indices:
            if LABEL.fullmatch(label) is None:
                yield (
                    f"{label!r} is no index of {factor.name!r}; expected a letter, or a letter "
                    "and digits such as 'i1'",
                    (factor.span,),
                )


def _targets(system: System) -> Broken:
    if not system.equations:
        yield "there is no equation; expected one, such as 'R[i,k] = A[i,j] B[j,k]'", ()
    made: dict[str, Factor] = {}
    for equation in system.equations:
        target = equation.target
        if target.name in made:
            before = made[target.name].span
            yield (
                f"{target} is made twice{_on(system, before)}; expected one '=' for each target, "
                "and '+=' for what is added to it",
                (target.span,),
            )
        made[target.name] = target
        twice = [label for label in target.indices if target.indices.count(label) > 1]
        if twice:
            yield (
                f"index {twice[0]!r} occurs twice in the target {target}; expected each index of "
                "a target once; sum with a delta tensor to fill a diagonal",
                (target.span,),
            )
        if not equation.terms:
            yield f"{target} has no terms; expected one or more", (target.span,)
    for name in system.targets:
        if name not in made:
            yield f"target {name!r} is made by no equation; expected one of {_list(made)}", ()


def _order(system: System) -> Broken:
    made: set[str] = set()
    later = {each.target.name: each for each in system.equations}
    for equation in system.equations:
        for term in equation.terms:
            for factor in term.factors:
                if factor.name not in later or factor.name in made:
                    continue
                if equation.target.name in _reached(later, factor.name):
                    yield (
                        f"{equation.target} is made from {factor}, which is made from "
                        f"{equation.target.name!r}; expected no cycle",
                        (factor.span,),
                    )
                yield (
                    f"{factor} is read before it is complete"
                    f"{_on(system, later[factor.name].target.span)}; expected equations in an "
                    "order in which they can be evaluated",
                    (factor.span,),
                )
        made.add(equation.target.name)


def _reached(made: dict[str, Equation], name: str) -> set[str]:
    """All that a value is made from, itself included."""
    reached: set[str] = set()
    todo = [name]
    while todo:
        name = todo.pop()
        if name in reached:
            continue
        reached.add(name)
        if name in made:
            todo += [factor.name for term in made[name].terms for factor in term.factors]
    return reached


def _terms(system: System) -> Broken:
    for equation in system.equations:
        for term in equation.terms:
            missing = [label for label in equation.target.indices if label not in term.indices]
            if missing:
                yield (
                    f"index {missing[0]!r} of {equation.target} is not in the term {term}; "
                    "expected every index of a target in each of its terms",
                    term.spans or (equation.target.span,),
                )


def _ranks(system: System) -> Broken:
    known = {each.target.name: each.target for each in system.equations}
    for factor in system.factors:
        first = known.setdefault(factor.name, factor)
        if len(first.indices) != len(factor.indices):
            yield (
                f"{factor} has {_count(len(factor.indices))}, and {first} has "
                f"{_count(len(first.indices))}{_on(system, first.span)}; expected as many wherever "
                "a tensor occurs",
                (factor.span, first.span),
            )


def _declared(system: System) -> Broken:
    made = {equation.target.name for equation in system.equations}
    for each in system.declared:
        word = "volatile" if each.access is Access.GIVEN else each.access.value
        if each.name in made:
            yield (
                f"{each.name!r} is said to be {word}, but an equation makes it; expected a "
                "tensor that is given",
                (each.span,),
            )
        if each.name not in system.leaves:
            yield (
                f"{each.name!r} is said to be {word}, but no equation reads it; expected one of "
                f"{_list(system.leaves)}",
                (each.span,),
            )


def _spaces(system: System) -> Broken:
    owners: dict[str, Space] = {}
    names: set[str] = set()
    for space in system.spaces:
        if space.name in names:
            yield f"space {space.name!r} is declared twice; expected one", (space.span,)
        names.add(space.name)
        for label in space.labels:
            other = owners.setdefault(label, space)
            if LABEL.fullmatch(label) is None:
                yield (
                    f"{label!r} of space {space.name!r} is no index; expected a letter, or a "
                    "letter and digits",
                    (space.span,),
                )
            if other is not space:
                yield (
                    f"index {label!r} is in two spaces, {other.name!r} and {space.name!r}; "
                    "expected each index in one",
                    (space.span, other.span),
                )
        message = _tiled(space)
        if message:
            yield message, (space.span,)


def _tiled(space: Space) -> str | None:
    """What is wrong with the tiles of a space, if anything."""
    match space.tiles:
        case None:
            return None
        case int(width):
            if width < 1:
                return f"space {space.name!r} has tiles of {width}; expected 1 or more"
            return None
        case bounds:
            rises = all(a < b for a, b in pairwise(bounds))
            if len(bounds) < 2 or not rises:
                return (
                    f"space {space.name!r} has tiles between {bounds}; expected boundaries that "
                    "rise strictly, of which the last is the end"
                )
            if space.extent is not None and bounds[-1] - bounds[0] != space.extent:
                return (
                    f"space {space.name!r} has tiles over {bounds[-1] - bounds[0]} elements, from "
                    f"{bounds[0]} to {bounds[-1]}, and extent {space.extent}; expected the same"
                )
            return None


def _extents(system: System) -> Broken:
    known: dict[tuple[str, int], tuple[int, Factor]] = {}
    for factor in (*(each.target for each in system.equations), *system.factors):
        for axis, label in enumerate(factor.indices):
            extent = system.extent_of(label)
            if extent is None:
                continue
            before, other = known.setdefault((factor.name, axis), (extent, factor))
            if before != extent:
                yield (
                    f"axis {axis} of {factor.name!r} has {extent} elements in {factor} and "
                    f"{before} in {other}{_on(system, other.span)}; expected one extent",
                    (factor.span, other.span),
                )


def _on(system: System, span: Span | None) -> str:
    """Which line is meant, where that helps."""
    if system.text is None or span is None or "\n" not in system.text.strip():
        return ""
    return f" (line {line_of(system.text, span)})"


def _count(n: int) -> str:
    return "1 index" if n == 1 else f"{n} indices"


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
