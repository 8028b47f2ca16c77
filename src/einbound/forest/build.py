"""From equations and shapes to a forest: one production per term, nothing shared yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from einbound.errors import EquationsError
from einbound.expr.equations import Coefficient, Equation, Factor, System, Term
from einbound.expr.network import Access, Network
from einbound.forest.forest import Forest, Kind, Production, Value


def planted(
    system: System, shapes: Mapping[str, tuple[int, ...]], volatile: Iterable[str] = ()
) -> Forest:
    """The forest of a system of equations, as it is written.

    Args:
        system: The equations.
        shapes: Elements along each axis of every tensor that no equation makes.
        volatile: Names of tensors that change with every evaluation, besides those that the
            system declares.

    Raises:
        EquationsError: A tensor has no shape, a shape does not fit its indices, or an index has
            two extents.
    """
    planting = _Planting(system, shapes)
    planting.leaves({*volatile, *(each.name for each in system.declared if each.is_volatile)})
    for equation in system.equations:
        planting.equation(equation)
    return planting.forest()


@dataclass
class _Planting:
    system: System
    shapes: Mapping[str, tuple[int, ...]]
    leaf_values: list[Value] = field(default_factory=list)
    made: list[Value] = field(default_factory=list)
    productions: list[tuple[Value, Coefficient, tuple[Value, ...], Network]] = field(
        default_factory=list
    )
    at: dict[str, Value] = field(default_factory=dict)
    constants: dict[Coefficient, Value] = field(default_factory=dict)

    def leaves(self, volatile: set[str]) -> None:
        """Enter every tensor that no equation makes."""
        targets = {equation.target.name for equation in self.system.equations}
        for equation in self.system.equations:
            for factor in (each for term in equation.terms for each in term.factors):
                if factor.name in self.at or factor.name in targets:
                    continue
                if factor.name not in self.shapes:
                    raise EquationsError(
                        f"tensor {factor.name!r} has no shape; expected one for every tensor that "
                        f"no equation makes; give an array or a shape for {factor.name!r}"
                    )
                is_volatile = factor.name in volatile
                shape = tuple(self.shapes[factor.name])
                self._leaf(Value(0, factor.name, Kind.LEAF, shape, factor.indices, is_volatile))

    def equation(self, equation: Equation) -> None:
        """Enter what one equation makes."""
        extents: dict[str, int] = {}
        for term in equation.terms:
            for label, extent in self._extents(equation, term).items():
                if label in equation.target.indices and extents.setdefault(label, extent) != extent:
                    raise EquationsError(
                        f"index {label!r} of {_name(equation.target)} has {extents[label]} "
                        f"elements in one term and {extent} in {_term(term)}"
                    )
        target = equation.target
        kind = Kind.TARGET if target.name in self.system.targets else Kind.SHARED
        missing = [label for label in target.indices if label not in extents]
        if missing:
            raise EquationsError(
                f"index {missing[0]!r} of {_name(target)} is in none of its terms; expected every "
                "index of a target in each term"
            )
        shape = tuple(extents[label] for label in target.indices)
        operands = [self._operands(term) for term in equation.terms]
        is_volatile = any(value.volatile for each in operands for value in each)
        value = Value(0, target.name, kind, shape, target.indices, is_volatile)
        self.made.append(value)
        self.at[target.name] = value
        for term, read in zip(equation.terms, operands, strict=True):
            self._production(value, target, term, read)

    def forest(self) -> Forest:
        """All that was entered, numbered: leaves first."""
        values = [*self.leaf_values, *self.made]
        number = {value.name: n for n, value in enumerate(values)}
        productions = tuple(
            Production(
                n, number[into.name], tuple(number[each.name] for each in read), network, factor
            )
            for n, (into, factor, read, network) in enumerate(self.productions)
        )
        numbered = tuple(
            Value(n, v.name, v.kind, v.shape, v.labels, v.volatile, v.constant)
            for n, v in enumerate(values)
        )
        return Forest(numbered, productions, tuple(number[name] for name in self.system.targets))

    def _leaf(self, value: Value) -> Value:
        self.leaf_values.append(value)
        self.at[value.name] = value
        return value

    def _operands(self, term: Term) -> tuple[Value, ...]:
        """The values that a term multiplies; its number among them if nothing else is one."""
        read = tuple(self.at[factor.name] for factor in term.factors)
        if len(read) > 1 or (read and term.coefficient == 1):
            return read
        return (*read, self._constant(term.coefficient))

    def _constant(self, number: Coefficient) -> Value:
        known = self.constants.get(number)
        if known is None:
            # No tensor has such a name: names of tensors begin with a letter.
            name = f"{number}"
            known = self._leaf(Value(0, name, Kind.LEAF, (), (), constant=number))
            self.constants[number] = known
        return known

    def _production(self, into: Value, target: Factor, term: Term, read: tuple[Value, ...]) -> None:
        labels = tuple(dict.fromkeys(i for factor in term.factors for i in factor.indices))
        number = {label: n for n, label in enumerate(labels)}
        extents = self._sizes(term)
        terms = [factor.indices for factor in term.factors] + [()] * (len(read) - len(term.factors))
        inputs = tuple(tuple(dict.fromkeys(number[i] for i in each)) for each in terms)
        accesses = tuple(
            Access(tuple(tuple(k for k, i in enumerate(each) if number[i] == n) for n in indices))
            for each, indices in zip(terms, inputs, strict=True)
        )
        network = Network(
            labels,
            tuple(extents[label] for label in labels),
            inputs,
            tuple(number[label] for label in target.indices),
            accesses,
        )
        has_constant = len(read) > len(term.factors)
        self.productions.append((into, 1 if has_constant else term.coefficient, read, network))

    def _extents(self, equation: Equation, term: Term) -> dict[str, int]:
        """The extent of each label of one term, checked."""
        for factor in term.factors:
            if factor.name not in self.at:
                raise EquationsError(
                    f"{_name(factor)} is read in the equation for {_name(equation.target)}, "
                    "before the equation that makes it; expected intermediates first"
                )
            shape = self.at[factor.name].shape
            if len(shape) != len(factor.indices):
                raise EquationsError(
                    f"{_name(factor)} has {len(factor.indices)} indices and {factor.name!r} of "
                    f"shape {shape} has {len(shape)} axes; expected one index per axis"
                )
        missing = [i for i in equation.target.indices if i not in self._sizes(term)]
        if missing:
            raise EquationsError(
                f"index {missing[0]!r} of {_name(equation.target)} is not in {_term(term)}; "
                "expected every index of a target in each term"
            )
        return self._sizes(term)

    def _sizes(self, term: Term) -> dict[str, int]:
        extents: dict[str, int] = {}
        known = dict(self.system.sizes)
        for factor in term.factors:
            for label, extent in zip(factor.indices, self.at[factor.name].shape, strict=True):
                wanted = known.get(label, extent)
                if extents.setdefault(label, wanted) != extent:
                    raise EquationsError(
                        f"index {label!r} has {extents[label]} elements and {extent} in "
                        f"{_name(factor)}, whose shape is {self.at[factor.name].shape}; expected "
                        "one extent per index"
                    )
        return extents


def _name(factor: Factor) -> str:
    return f"{factor.name}[{','.join(factor.indices)}]" if factor.indices else factor.name


def _term(term: Term) -> str:
    return " ".join(_name(factor) for factor in term.factors) or str(term.coefficient)
