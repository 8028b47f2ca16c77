"""A forest as Python source that runs with NumPy alone."""

from __future__ import annotations

from collections.abc import Iterator
from keyword import iskeyword
from string import ascii_letters

from einbound.expr.equations import Coefficient
from einbound.forest.forest import Forest, Kind, Production, Value


def exported(forest: Forest, name: str = "evaluate") -> str:
    """Python source of a function of the leaves that returns the targets by name.

    One numpy.einsum call for each production, in order. It computes what the forest computes, up to
    rounding, without the loops and the limit of any plan; numbers are floats.

    Args:
        forest: What is computed.
        name: Of the function.

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
    last = {into: numbers[0] for into, numbers in forest.producers.items()}
    for production in forest.productions:
        into = names[production.into]
        begins = "" if last[production.into] == production.number else f"{into} + "
        lines.append(f"    {into} = {begins}{_product(forest, production, names)}")
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


def _product(forest: Forest, production: Production, names: dict[int, str]) -> str:
    """A number times an einsum call; numbers among the operands are part of the number."""
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
        axes = {
            axis: index for index, where in zip(indices, access.axes, strict=True) for axis in where
        }
        terms.append("".join(_letters(network.labels)[axes[axis]] for axis in sorted(axes)))
        operands.append(names[operand])
    if not operands:
        return _number(factor)
    output = "".join(_letters(network.labels)[index] for index in network.output)
    path = ", optimize=True" if len(operands) > 2 else ""
    call = f'np.einsum("{",".join(terms)}->{output}", {", ".join(operands)}{path})'
    if factor == 1:
        # A single operand comes back as a view of it; results are arrays of their own.
        return f"np.array({call})" if len(operands) == 1 else call
    return f"{_number(factor)} * {call}"


def _letters(labels: tuple[object, ...]) -> list[str]:
    """One letter for each label: its own, if that is one and not taken."""
    own = [str(label) for label in labels]
    free = iter([letter for letter in ascii_letters if letter not in own])
    return [each if each in ascii_letters and len(each) == 1 else next(free) for each in own]


def _number(value: Coefficient) -> str:
    text = repr(value if isinstance(value, complex) else float(value))
    return f"({text})" if text.startswith("-") else text
