"""Python scripts made of numpy.einsum lines, read as equations; nothing of them is run.

A script assigns again what an equation makes once: each value that a later line replaces gets a
name of its own, and the last keeps the script's. Arrays that a line cuts by names of slices, such
as `v[o, o, v, v]`, are tensors of their own: `v_oovv`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from typing import Any, NoReturn

from einbound.errors import EquationsError
from einbound.expr.equation_fault import fault
from einbound.expr.equation_spaces import spaces_of
from einbound.expr.equation_sums import aligned, fresh, number, renamed
from einbound.expr.equation_terms import system_of, term_of
from einbound.expr.equations import Coefficient, Equation, Factor, Span, System, Term

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
    """
    if not isinstance(source, str):
        raise TypeError(f"source is {source!r}; expected the text of a Python script")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise EquationsError(f"the source is no Python: {error}; line {line}") from None
    script = _Script(source)
    for statement in tree.body:
        script.statement(statement)
    return system_of(
        script.equations(),
        spaces=spaces_of((), spaces=spaces, sizes=sizes, tiles=tiles),
        targets=targets,
        volatile=volatile,
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    """A term with the labels of its result; of a number, these are none."""

    term: Term
    output: tuple[str, ...]


@dataclass(eq=False)
class _Made:
    """One value of a name: what is added up in it until the name means another value."""

    name: str
    line: int
    #: What stands for it in terms until all names are known; no identifier begins with a digit.
    key: str
    terms: list[Term] = field(default_factory=list)
    indices: tuple[str, ...] | None = None
    is_read: bool = False


@dataclass
class _Script:
    source: str
    now: dict[str, _Made] = field(default_factory=dict)
    all: list[_Made] = field(default_factory=list)
    #: Offsets of lines in the text; ast counts columns in bytes of UTF-8.
    starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def equations(self) -> list[Equation]:
        """One equation for each value, under a name of its own."""
        used = {made.name for made in self.all} | {
            factor.name for made in self.all for term in made.terms for factor in term.factors
        }
        names: dict[str, str] = {}
        for made in self.all:
            name = made.name
            if self.now[name] is not made:
                name = next(each for n in count(1) if (each := f"{made.name}_{n}") not in used)
                used.add(name)
            names[made.key] = name
        alive = self.alive()
        return [self.equation(made, names) for made in self.all if made.key in alive]

    def alive(self) -> set[str]:
        """The values that are left at the end, and all that they are made from."""
        made = {each.key: each for each in self.all}
        alive: set[str] = set()
        todo = [each.key for each in self.now.values()]
        while todo:
            key = todo.pop()
            if key in made and key not in alive:
                alive.add(key)
                todo += [factor.name for term in made[key].terms for factor in term.factors]
        return alive

    def equation(self, made: _Made, names: Mapping[str, str]) -> Equation:
        if not made.terms:
            raise EquationsError(
                f"line {made.line}: nothing is added to {made.name!r}; expected a sum of einsum "
                "calls"
            )
        terms = tuple(
            replace(
                term,
                factors=tuple(
                    replace(each, name=names.get(each.name, each.name)) for each in term.factors
                ),
            )
            for term in made.terms
        )
        return Equation(Factor(names[made.key], made.indices or ()), terms, made.line)

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
                sign = -1 if isinstance(node.op, ast.Sub) else 1
                self.add(node, name, value, Fraction(sign))
            case _:
                self.refuse(node, "expected assignments to names with '=', '+=' or '-='")

    def assign(self, node: ast.stmt, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Name):
            self.refuse(node, f"{name!r} is only another name of {value.id!r}; use that one")
        pieces = [] if _called(value) in _ZEROS else self.sum(value)
        self.enter(node, name, pieces)

    def add(self, node: ast.stmt, name: str, value: ast.expr, sign: Fraction) -> None:
        before = self.now.get(name)
        if before is None:
            self.refuse(node, f"{name!r} is not assigned before; expected '=' first")
        pieces = [self.times(node, [_number(sign), each]) for each in self.sum(value)]
        if before.is_read:
            # Who read it got what it was until here.
            self.enter(node, name, [self.whole(node, name), *pieces])
        else:
            self.extend(node, before, pieces)
            # Complete only here, behind all that it now reads.
            self.all.remove(before)
            self.all.append(before)

    def enter(self, node: ast.stmt, name: str, pieces: list[_Piece]) -> None:
        made = _Made(name, node.lineno, f"{len(self.all)} {name}")
        self.extend(node, made, pieces)
        self.all.append(made)
        self.now[name] = made

    def extend(self, node: ast.stmt, made: _Made, pieces: list[_Piece]) -> None:
        for piece in pieces:
            if made.indices is None:
                made.indices = piece.output
            if len(piece.output) != len(made.indices):
                self.refuse(
                    node,
                    f"a term has {len(piece.output)} indices and {made.name!r} has "
                    f"{len(made.indices)}; expected as many; a given tensor is read as "
                    "einsum('ij->ij', a)",
                )
            made.terms.append(aligned(piece.term, piece.output, made.indices))

    # Expressions.

    def sum(self, node: ast.expr) -> list[_Piece]:
        """The terms of an expression."""
        match node:
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return self.sum(left) + self.sum(right)
            case ast.BinOp(op=ast.Sub(), left=left, right=right):
                return self.sum(left) + self.scaled(node, right, Fraction(-1))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.scaled(node, operand, Fraction(-1))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.sum(operand)
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                ours, theirs = self.sum(left), self.sum(right)
                return [self.times(node, [a, b]) for a in ours for b in theirs]
            case ast.BinOp(op=ast.Div(), left=left, right=right):
                return self.scaled(node, left, self.reciprocal(right))
            case ast.Constant(value=int() | float() | complex() as value):
                return [_number(self.constant(node, value))]
            case ast.Name(id=name):
                return [self.whole(node, name)]
            case ast.Call() if _called(node) == "einsum":
                return [self.einsum(node)]
        self.refuse(node, "expected sums of numbers times einsum calls and names")

    def scaled(self, node: ast.expr, operand: ast.expr, by: Coefficient) -> list[_Piece]:
        return [self.times(node, [_number(by), each]) for each in self.sum(operand)]

    def constant(self, node: ast.expr, value: Any) -> Coefficient:
        made = number(value)
        if made is None:
            self.refuse(node, "expected a finite number")
        return made

    def reciprocal(self, node: ast.expr) -> Coefficient:
        pieces = self.sum(node)
        if len(pieces) != 1 or pieces[0].term.factors or not pieces[0].term.coefficient:
            self.refuse(node, "expected a number other than 0 behind '/'")
        return 1 / pieces[0].term.coefficient

    def times(self, node: ast.AST, pieces: list[_Piece]) -> _Piece:
        """The product of two terms, of which one at most has indices."""
        left, right = pieces
        if left.output and right.output:
            self.refuse(node, "expected a number or a scalar as a factor of a tensor")
        coefficient = number(left.term.coefficient * right.term.coefficient)
        if coefficient is None:
            self.refuse(node, "expected a finite number")
        # The labels of a scalar are all summed: they may be called anything else.
        if right.output:
            terms = _apart(left.term, right.term), right.term
        else:
            terms = left.term, _apart(right.term, left.term)
        factors = terms[0].factors + terms[1].factors
        return _Piece(Term(coefficient, factors), left.output or right.output)

    def whole(self, node: ast.AST, name: str) -> _Piece:
        """A name without indices: a value that was made, or a scalar."""
        made = self.now.get(name)
        if made is None:
            return _Piece(Term(Fraction(1), (Factor(name),)), ())
        made.is_read = True
        indices = made.indices or ()
        factor = Factor(made.key, indices)
        return _Piece(Term(Fraction(1), (factor,)), indices)

    def einsum(self, node: ast.Call) -> _Piece:
        """One call; which path it takes is nothing to us."""
        extra = [each for each in node.keywords if each.arg not in ("optimize", "order", "out")]
        if extra or any(each.arg == "out" for each in node.keywords):
            self.refuse(node, "expected no keyword but optimize= in einsum calls")
        if not node.args or not isinstance(node.args[0], ast.Constant):
            self.refuse(node, "expected the subscripts of einsum as text")
        names = [self.operand(each) for each in node.args[1:]]
        try:
            term, output = term_of(1, node.args[0].value, names, f"line {node.lineno}")
        except TypeError as error:
            self.refuse(node, str(error))
        return _Piece(term, output)

    def operand(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                made = self.now.get(name)
                if made is None:
                    return name
                made.is_read = True
                return made.key
            case ast.Subscript(value=ast.Name(id=name), slice=cut) if name not in self.now:
                parts = cut.elts if isinstance(cut, ast.Tuple) else [cut]
                words = [each.id for each in parts if isinstance(each, ast.Name)]
                if len(words) == len(parts):
                    return f"{name}_{('' if max(map(len, words)) == 1 else '_').join(words)}"
        self.refuse(node, "expected a name, or a given tensor cut by names such as v[o, v]")

    # Errors.

    def refuse(self, node: ast.AST, message: str) -> NoReturn:
        """An error that points at a piece of the script."""
        start = self.offset(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))
        stop = self.offset(getattr(node, "end_lineno", 1), getattr(node, "end_col_offset", 0))
        span: Span = (start, stop)
        found = self.source[start:stop].split("\n")[0]
        raise fault(f"found {found!r}; {message}", self.source, span)

    def offset(self, line: int, column: int) -> int:
        text = self.source[self.starts[line - 1] :]
        return self.starts[line - 1] + len(text.encode()[:column].decode())


def _called(node: ast.expr) -> str | None:
    """The last word of the function that is called, if it is a call."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return None


def _number(value: Coefficient) -> _Piece:
    return _Piece(Term(value, ()), ())


def _apart(term: Term, other: Term) -> Term:
    """A term without any label of another."""
    names: dict[str, str] = {}
    taken = {*term.indices, *other.indices}
    for label in term.indices:
        if label in other.indices:
            names[label] = fresh(label, taken)
            taken.add(names[label])
    return renamed(term, names)
