"""Expressions of a script as sums of terms: numbers, einsum calls, names, transposes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from string import ascii_letters
from typing import Any, TypeAlias

from einbound.expr.equation_sums import fresh, number, renamed
from einbound.expr.equation_terms import term_of
from einbound.expr.equations import Coefficient, Factor, Term
from einbound.expr.script_source import Script


@dataclass(frozen=True, slots=True)
class Piece:
    """A term with the labels of its result; a scalar has none.

    Attributes:
        term: A number times a product.
        output: The label of each axis of the result.
        is_invented: Whether these labels were made up, since no call has any for this tensor.
    """

    term: Term
    output: tuple[str, ...] = ()
    is_invented: bool = False


Pieces: TypeAlias = tuple[Piece, ...]
ONE = Fraction(1)


@dataclass(frozen=True, slots=True)
class Sums:
    """What the expressions of a script mean.

    Attributes:
        script: For errors.
        made: What stands for the current value of a name, with its labels; None for a name that
            is given.
        given: The labels of given tensors, as some einsum call has them.
    """

    script: Script
    made: Callable[[str], Factor | None]
    given: dict[str, tuple[str, ...]]

    def sum(self, node: ast.expr) -> Pieces:
        """The terms of an expression.

        Raises:
            EquationsError: It is no sum of products.
        """
        match node:
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return self.sum(left) + self.sum(right)
            case ast.BinOp(op=ast.Sub(), left=left, right=right):
                return self.sum(left) + self.scaled(node, right, -ONE)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.scaled(node, operand, -ONE)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.sum(operand)
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                ours, theirs = self.sum(left), self.sum(right)
                return tuple(self.times(node, a, b) for a in ours for b in theirs)
            case ast.BinOp(op=ast.Div(), left=left, right=right):
                return self.scaled(node, left, self.reciprocal(right))
            case ast.Call():
                return self.call(node)
        return (self.single(node),)

    def single(self, node: ast.expr) -> Piece:
        """A number or a name."""
        match node:
            case ast.Constant(value=int() | float() | complex() as value):
                made = number(value)
                if made is None:
                    self.script.refuse(node, "expected a finite number")
                return Piece(Term(made, ()))
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self.whole(self.operand(node), n_axes=_n_cuts(node))
        self.script.refuse(node, "expected sums of numbers times einsum calls and names")

    def call(self, node: ast.Call) -> Pieces:
        """An einsum call, or an expression with its axes in another order."""
        if called(node) == "einsum":
            return (self.einsum(node),)
        match node.func:
            case ast.Attribute(value=value, attr="copy") if not node.args:
                return self.sum(value)
            case ast.Attribute(value=value, attr="transpose"):
                return tuple(self.transposed(node, piece) for piece in self.sum(value))
        self.script.refuse(node, "expected sums of numbers times einsum calls and names")

    def transposed(self, node: ast.Call, piece: Piece) -> Piece:
        """The same with its axes in the order that a call of transpose says."""
        args, n_axes = node.args, len(piece.output)
        if len(args) == 1 and isinstance(args[0], ast.Tuple | ast.List):
            args = args[0].elts
        axes = [each.value for each in args if isinstance(each, ast.Constant)]
        order = [axis for axis in axes if isinstance(axis, int)]
        if not args:
            order = list(reversed(range(n_axes)))
        if sorted(order) != list(range(n_axes)) or len(order) < len(args):
            self.script.refuse(node, f"expected the numbers of {n_axes} axes, each once")
        return replace(piece, output=tuple(piece.output[axis] for axis in order))

    def scaled(self, node: ast.expr, operand: ast.expr, by: Coefficient) -> Pieces:
        """A number times an expression."""
        return tuple(self.times(node, Piece(Term(by, ())), each) for each in self.sum(operand))

    def reciprocal(self, node: ast.expr) -> Coefficient:
        """What division by an expression multiplies by."""
        pieces = self.sum(node)
        if len(pieces) != 1 or pieces[0].term.factors or not pieces[0].term.coefficient:
            self.script.refuse(node, "expected a number other than 0 behind '/'")
        return 1 / pieces[0].term.coefficient

    def times(self, node: ast.AST, left: Piece, right: Piece) -> Piece:
        """The product of two terms, of which one at most has indices."""
        if left.output and right.output:
            self.script.refuse(node, "expected a number or a scalar as a factor of a tensor")
        coefficient = number(left.term.coefficient * right.term.coefficient)
        if coefficient is None:
            self.script.refuse(node, "expected a finite number")
        # The labels of a scalar are all summed: they may be called anything else.
        if right.output:
            terms = _apart(left.term, right.term), right.term
        else:
            terms = left.term, _apart(right.term, left.term)
        factors = terms[0].factors + terms[1].factors
        tensor = right if right.output else left
        return Piece(Term(coefficient, factors), tensor.output, tensor.is_invented)

    def whole(self, name: str, n_axes: int = 0) -> Piece:
        """A value with all its indices: one that was made, a given tensor or a scalar."""
        invented = tuple(ascii_letters[:n_axes])
        factor = self.made(name) or Factor(name, self.given.get(name, invented))
        is_known = name in self.given or factor.name != name
        return Piece(Term(ONE, (factor,)), factor.indices, is_invented=not is_known)

    def einsum(self, node: ast.Call) -> Piece:
        """One call; which path it takes is nothing to us."""
        if any(each.arg != "optimize" for each in node.keywords):
            self.script.refuse(node, "expected no keyword but optimize= in einsum calls")
        if not node.args or not isinstance(node.args[0], ast.Constant):
            self.script.refuse(node, "expected the subscripts of einsum as text")
        names = [self.operand(each) for each in node.args[1:]]
        keys = [made.name if (made := self.made(name)) else name for name in names]
        try:
            term, output = term_of(1, node.args[0].value, keys, f"line {node.lineno}")
        except TypeError as error:
            self.script.refuse(node, str(error))
        return Piece(term, output)

    def operand(self, node: ast.expr) -> str:
        """The name of a tensor; cut by slices or reached through a dot, it is one of its own."""
        name = operand_name(node)
        is_part = isinstance(node, ast.Subscript) and self.made(operand_name(node.value) or "")
        if name is None or is_part:
            self.script.refuse(
                node, "expected a name, or a given tensor cut by names such as v[o, v]"
            )
        return name


def operand_name(node: ast.expr) -> str | None:
    """What the tensor is called that an expression stands for, if it is one.

    Example:
        >>> [operand_name(ast.parse(x, mode="eval").body) for x in ("t2", "v[o, v]", "eris.ovov")]
        ['t2', 'v_ov', 'eris_ovov']
    """
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return f"{name}_{attribute}"
        case ast.Subscript(value=value, slice=cut):
            whole = operand_name(value) if not isinstance(value, ast.Subscript) else None
            parts = cut.elts if isinstance(cut, ast.Tuple) else [cut]
            words = [each.id for each in parts if isinstance(each, ast.Name)]
            if whole is not None and words and len(words) == len(parts):
                return f"{whole}_{('' if max(map(len, words)) == 1 else '_').join(words)}"
    return None


def _n_cuts(node: ast.expr) -> int:
    """Slices that a tensor is cut by: it has so many axes."""
    if not isinstance(node, ast.Subscript):
        return 0
    return len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1


def labels_of(statements: Iterable[ast.stmt]) -> dict[str, tuple[str, ...]]:
    """The labels of each tensor as the first einsum call has them that reads it, each once."""
    known: dict[str, tuple[str, ...]] = {}
    for node in (each for statement in statements for each in ast.walk(statement)):
        if not (isinstance(node, ast.Call) and called(node) == "einsum" and node.args):
            continue
        text = getattr(node.args[0], "value", None)
        if not isinstance(text, str):
            continue
        terms = "".join(text.split()).partition("->")[0].split(",")
        for operand, labels in zip(node.args[1:], terms, strict=False):
            name = operand_name(operand)
            if name is not None and len({*labels}) == len(labels):
                known.setdefault(name, tuple(labels))
    return known


def called(node: Any) -> str | None:
    """The last word of the function that is called, if it is a call."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return None


def _apart(term: Term, other: Term) -> Term:
    """A term without any label of another."""
    names: dict[str, str] = {}
    taken = {*term.indices, *other.indices}
    for label in term.indices:
        if label in other.indices:
            names[label] = fresh(label, taken)
            taken.add(names[label])
    return renamed(term, names)
