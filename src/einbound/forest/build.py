"""From equations and shapes to a forest: one production per term, nothing shared yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from einbound.errors import EquationsError
from einbound.expr.equation_fault import fault
from einbound.expr.equation_rules import checked
from einbound.expr.equations import Access as Reading
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
        EquationsError: A tensor has no shape, a shape does not fit its indices, an index has two
            extents, or `volatile` has a name that no equation reads.
    """
    planting = _Planting(checked(system), shapes)
    changing = tuple(volatile)
    for name in changing:
        if name not in system.leaves:
            raise EquationsError(
                f"{name!r} is said to be volatile, and is no tensor that is given; expected one of "
                f"{', '.join(map(repr, system.leaves))}"
            )
    planting.leaves({*changing, *(each.name for each in system.declared if each.is_volatile)})
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

    @property
    def unloaded(self) -> frozenset[str]:
        """The leaves that are not in memory: streamed, or computed on demand."""
        declared = self.system.declared
        return frozenset(each.name for each in declared if each.access is not Reading.GIVEN)

    def leaves(self, volatile: set[str]) -> None:
        """Enter every tensor that no equation makes."""
        first = {factor.name: factor for factor in reversed(tuple(self.system.factors))}
        for name in self.system.leaves:
            if name not in self.shapes:
                raise self.fault(
                    f"tensor {name!r} has no shape; expected one for every tensor that no equation "
                    f"makes; give an array or a shape for {name!r}",
                    first[name],
                )
            shape = tuple(self.shapes[name])
            self._leaf(Value(0, name, Kind.LEAF, shape, first[name].indices, name in volatile))

    def equation(self, equation: Equation) -> None:
        """Enter what one equation makes."""
        target = equation.target
        extents: dict[str, int] = {}
        for term in equation.terms:
            sizes = self._sizes(term)
            for label in target.indices:
                if extents.setdefault(label, sizes[label]) != sizes[label]:
                    raise self.fault(
                        f"index {label!r} of {target} has {sizes[label]} elements in the term "
                        f"{term} and {extents[label]} in one before; expected one extent",
                        *term.factors,
                    )
        kind = Kind.TARGET if target.name in self.system.targets else Kind.SHARED
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
        streamed = frozenset(n for n, value in enumerate(read) if value.name in self.unloaded)
        network = Network(
            labels,
            tuple(extents[label] for label in labels),
            inputs,
            tuple(number[label] for label in target.indices),
            accesses,
            streamed,
        )
        has_constant = len(read) > len(term.factors)
        self.productions.append((into, 1 if has_constant else term.coefficient, read, network))

    def _sizes(self, term: Term) -> dict[str, int]:
        """The extent of each label of one term, checked."""
        extents: dict[str, int] = {}
        for factor in term.factors:
            shape = self.at[factor.name].shape
            if len(shape) != len(factor.indices):
                raise self.fault(
                    f"{factor} has {len(factor.indices)} indices, and {factor.name!r} of shape "
                    f"{shape} has {len(shape)} axes; expected one index per axis",
                    factor,
                )
            for label, extent in zip(factor.indices, shape, strict=True):
                wanted = self.system.extent_of(label)
                if wanted is not None and wanted != extent:
                    name = getattr(self.system.space_of(label), "name", label)
                    raise self.fault(
                        f"index {label!r} of space {name!r} has {wanted} elements, and {extent} in "
                        f"{factor}, whose shape is {shape}; expected the extent of the space",
                        factor,
                    )
                if extents.setdefault(label, extent) != extent:
                    raise self.fault(
                        f"index {label!r} has {extents[label]} elements, and {extent} in {factor}, "
                        f"whose shape is {shape}; expected one extent per index",
                        factor,
                    )
        return extents

    def fault(self, message: str, *factors: Factor) -> EquationsError:
        """An error that points at some factors."""
        return fault(message, self.system.text, *(factor.span for factor in factors))
