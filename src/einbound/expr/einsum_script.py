"""Python scripts made of numpy.einsum lines, read as equations; nothing of them is run.

A script assigns again what an equation makes once: each value that a later line replaces gets a
name of its own, and the last keeps the script's, unless a given tensor has it. Arrays that a line
cuts by names of slices, such as `v[o, o, v, v]`, are tensors of their own: `v_oovv`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from typing import Any

from einbound.errors import EquationsError
from einbound.expr.equation_spaces import spaces_of
from einbound.expr.equation_sums import aligned
from einbound.expr.equation_terms import system_of
from einbound.expr.equations import Equation, Factor, System, Term
from einbound.expr.script_source import Script
from einbound.expr.script_sums import ONE, Pieces, Sums, called, labels_of

_ZEROS = frozenset(["zeros", "zeros_like"])


def read_script(
    source: str,
    *,
    sizes: Mapping[str, Any] | None = None,
    spaces: Mapping[str, Any] | None = None,
    tiles: Mapping[str, Any] | None = None,
    targets: Iterable[str] = (),
    volatile: Iterable[str] = (),
) -> System:
    """The system that a script computes.

    Args:
        source: Assignments of sums of numbers times einsum calls; imports, docstrings and slices
            are passed over.
        sizes: Extents by space or index.
        spaces: Indices by space.
        tiles: Tiles by space or index.
        targets: What is returned besides what no line reads.
        volatile: Tensors that change with every evaluation.

    Raises:
        EquationsError: A line is something else; the error points into it.
        TypeError: The source is no text.
    """
    if not isinstance(source, str):
        raise TypeError(f"source is {source!r}; expected the text of a Python script")
    script = Script(source)
    statements = script.statements()
    values = _Values(script, labels_of(statements))
    for statement in statements:
        values.statement(statement)
    return system_of(
        values.equations(),
        spaces=spaces_of((), spaces=spaces, sizes=sizes, tiles=tiles),
        targets=targets,
        volatile=volatile,
    )


@dataclass(eq=False)
class _Value:
    """One value of a name: what is added up in it until the name means another value."""

    name: str
    line: int
    #: What stands for it in terms until all names are known; no identifier begins with a digit.
    key: str
    terms: list[Term] = field(default_factory=list)
    indices: tuple[str, ...] | None = None
    is_read: bool = False


@dataclass
class _Values:
    script: Script
    given: dict[str, tuple[str, ...]]
    now: dict[str, _Value] = field(default_factory=dict)
    all: list[_Value] = field(default_factory=list)

    @property
    def sums(self) -> Sums:
        return Sums(self.script, self.read, self.given)

    def read(self, name: str) -> Factor | None:
        """The current value of a name, which from now on is read."""
        value = self.now.get(name)
        if value is None:
            return None
        value.is_read = True
        return Factor(value.key, value.indices or ())

    # Statements.

    def statement(self, node: ast.stmt) -> None:
        """Enter what a line assigns."""
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Pass():
                pass
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.Assign(value=ast.Call(func=ast.Name(id="slice"))):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.assign(node, name, value)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add() | ast.Sub(), value=value):
                sign = -ONE if isinstance(node.op, ast.Sub) else ONE
                self.add(node, name, value, sign)
            case _:
                self.script.refuse(node, "expected assignments to names with '=', '+=' or '-='")

    def assign(self, node: ast.stmt, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Name):
            self.script.refuse(node, f"{name!r} is only another name of {value.id!r}; use that one")
        self.enter(node, name, () if called(value) in _ZEROS else self.sums.sum(value))

    def add(self, node: ast.stmt, name: str, value: ast.expr, sign: Fraction) -> None:
        before = self.now.get(name)
        if before is None:
            self.script.refuse(node, f"{name!r} is not assigned before; expected '=' first")
        pieces = self.sums.scaled(value, value, sign)
        if before.is_read:
            # Who read it got what it was until here.
            self.enter(node, name, (self.sums.whole(name), *pieces))
        else:
            self.extend(node, before, pieces)
            # Complete only here, behind all that it now reads.
            self.all.remove(before)
            self.all.append(before)

    def enter(self, node: ast.stmt, name: str, pieces: Pieces) -> None:
        value = _Value(name, node.lineno, f"{len(self.all)} {name}")
        self.extend(node, value, pieces)
        self.all.append(value)
        self.now[name] = value

    def extend(self, node: ast.stmt, value: _Value, pieces: Pieces) -> None:
        for piece in pieces:
            if value.indices is None:
                known = (each.output for each in pieces if not each.is_invented)
                value.indices = next(known, piece.output)
            if len(piece.output) != len(value.indices):
                self.script.refuse(
                    node,
                    f"a term has {len(piece.output)} indices and {value.name!r} has "
                    f"{len(value.indices)}; expected as many; a given tensor is read as "
                    "einsum('ij->ij', a)",
                )
            value.terms.append(aligned(piece.term, piece.output, value.indices))

    # Equations.

    def equations(self) -> list[Equation]:
        """One equation for each value that is needed, under a name of its own."""
        names = self.names()
        alive = self.alive()
        return [_equation(each, names) for each in self.all if each.key in alive]

    def names(self) -> dict[str, str]:
        """The name of each value by its key."""
        terms = (term for value in self.all for term in value.terms)
        # Keys among them do no harm: no name is one.
        given = {factor.name for term in terms for factor in term.factors}
        used = given | {value.name for value in self.all}
        names: dict[str, str] = {}
        for value in self.all:
            name = value.name
            if self.now[name] is not value or name in given:
                name = next(each for n in count(1) if (each := f"{value.name}_{n}") not in used)
                used.add(name)
            names[value.key] = name
        return names

    def alive(self) -> set[str]:
        """The values that are left at the end, and all that they are made from."""
        values = {each.key: each for each in self.all}
        alive: set[str] = set()
        todo = [each.key for each in self.now.values()]
        while todo:
            key = todo.pop()
            if key in values and key not in alive:
                alive.add(key)
                todo += [factor.name for term in values[key].terms for factor in term.factors]
        return alive


def _equation(value: _Value, names: Mapping[str, str]) -> Equation:
    if not value.terms:
        raise EquationsError(
            f"line {value.line}: nothing is added to {value.name!r}; expected a sum of einsum calls"
        )
    terms = tuple(
        replace(
            term,
            factors=tuple(replace(f, name=names.get(f.name, f.name)) for f in term.factors),
        )
        for term in value.terms
    )
    return Equation(Factor(names[value.key], value.indices or ()), terms, value.line)
