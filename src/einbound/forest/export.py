"""A forest as Python source that runs with NumPy alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from keyword import iskeyword
from string import ascii_letters
from typing import Any

import numpy as np

from einbound.expr.equations import Coefficient
from einbound.expr.number import element
from einbound.forest.forest import Forest, Kind, Production, Value


def exported(forest: Forest, name: str = "evaluate", *, work: np.dtype[Any] | None = None) -> str:
    """Python source of a function of the leaves that returns the targets by name.

    One numpy.einsum call for each production, in order. It computes what the forest computes, up to
    rounding, without the loops and the limit of any plan.

    Args:
        forest: What is computed.
        name: Of the function.
        work: Element type that numbers are written for. None: tensors may be of any; then whole
            numbers that tensors are multiplied by are integers, so that integers stay integers.

    Law: it computes the same numbers (tests/test_equations_export.py).

    Example:
        >>> from einbound.expr.equation_lines import read_system
        >>> from einbound.forest.build import planted
        >>> system = read_system("R[i,k] = 1/2 A[i,j] B[j,k]")
        >>> print(exported(planted(system, {"A": (2, 3), "B": (3, 4)})))
        import numpy as np
        <BLANKLINE>
        <BLANKLINE>
        def evaluate(*, A, B):
            R = 0.5 * np.einsum("ij,jk->ik", A, B)
            return {"R": R}
        <BLANKLINE>
    """
    names = _identifiers(forest)
    given = [v for v in forest.values if v.kind is Kind.LEAF and v.constant is None]
    arguments = ", ".join(names[value.number] for value in given)
    lines = ["import numpy as np", "", "", f"def {name}({'*, ' if given else ''}{arguments}):"]
    first = {into: numbers[0] for into, numbers in forest.producers.items()}
    for each in forest.productions:
        into = names[each.into]
        begun = "" if first[each.into] == each.number else into
        lines.append(f"    {into} = {_Product.of(forest, each, names).added_to(begun, work)}")
    results = (f'"{forest.values[n].name}": {names[n]}' for n in forest.targets)
    lines.append(f"    return {{{', '.join(results)}}}")
    return "\n".join([*lines, ""])


def _identifiers(forest: Forest) -> dict[int, str]:
    """A name for each value: its own, where that is a name and not taken."""
    taken = {"np"}
    names: dict[int, str] = {}
    for value in forest.values:
        names[value.number] = next(each for each in _candidates(value) if each not in taken)
        taken.add(names[value.number])
    return names


def _candidates(value: Value) -> Iterator[str]:
    if value.name.isidentifier() and not iskeyword(value.name):
        yield value.name
    stem = value.name if value.name.isidentifier() else "value"
    number = value.number
    while True:
        yield f"{stem}_{number}"
        number += 1


@dataclass(frozen=True, slots=True)
class _Product:
    """A production as source.

    Attributes:
        factor: The numbers in it, multiplied.
        call: numpy.einsum of its tensors; empty if there are none.
        is_view: Whether that may come back as a view of its only tensor.
    """

    factor: Coefficient
    call: str
    is_view: bool = False

    @classmethod
    def of(cls, forest: Forest, production: Production, names: dict[int, str]) -> _Product:
        """The production, with names for values."""
        network = production.network
        factor: Coefficient = production.factor
        terms: list[str] = []
        operands: list[str] = []
        for operand, indices, access in zip(
            production.operands, network.inputs, network.accesses, strict=True
        ):
            constant = forest.values[operand].constant
            if constant is not None:
                factor = factor * constant
                continue
            where = {k: i for i, axes in zip(indices, access.axes, strict=True) for k in axes}
            terms.append("".join(_letters(network.labels)[where[axis]] for axis in sorted(where)))
            operands.append(names[operand])
        if not operands:
            return cls(factor, "")
        output = "".join(_letters(network.labels)[index] for index in network.output)
        path = ", optimize=True" if len(operands) > 2 else ""
        call = f'np.einsum("{",".join(terms)}->{output}", {", ".join(operands)}{path})'
        return cls(factor, call, len(operands) == 1)

    def added_to(self, begun: str, work: np.dtype[Any] | None) -> str:
        """The sum of what is begun, if anything is, and this.

        A minus stands before a product of integers, not in a number: unsigned ones have no -2.
        """
        factor = self.factor
        is_less = not isinstance(factor, complex) and factor < 0
        number = self._number(-factor if is_less else factor, work)
        text = f"{number} * {self.call}" if number and self.call else number or self.call
        if begun:
            return f"{begun} {'-' if is_less else '+'} {text}"
        if is_less:
            return f"-({text})" if number.isdigit() and self.call else f"-{text}"
        # Results are arrays of their own.
        return f"np.array({text})" if self.is_view and not number else text

    def _number(self, number: Coefficient, work: np.dtype[Any] | None) -> str:
        """A number before the call, nothing where that is 1."""
        if number == 1 and self.call:
            return ""
        if isinstance(number, complex):
            text = repr(number)
        elif work is not None:
            text = repr(element(number, work))
        else:
            # A product of numbers alone may be larger than any integer of an array.
            is_whole = self.call and Fraction(number).denominator == 1
            text = repr(int(number) if is_whole else float(number))
        return f"({text})" if text.startswith("-") else text


def _letters(labels: tuple[object, ...]) -> list[str]:
    """One letter for each label: its own, if that is one and not taken."""
    own = [str(label) for label in labels]
    free = iter([letter for letter in ascii_letters if letter not in own])
    return [each if each in ascii_letters and len(each) == 1 else next(free) for each in own]
