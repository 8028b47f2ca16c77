"""Forests as sums of products, to be rewritten, and back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from einbound.expr.equations import Coefficient
from einbound.expr.network import Access
from einbound.forest.algebra import Algebra
from einbound.forest.forest import Forest, Kind, Production, Value
from einbound.forest.parts import network
from einbound.forest.products import Body, Product, Sum, exact
from einbound.forest.registry import Registry


def algebra_of(forest: Forest) -> Algebra:
    """The sums of a forest; its constants become coefficients."""
    sums: dict[int, Sum] = {}
    for each in forest.productions:
        number, body = _read(forest, each)
        sums[each.into] = (*sums.get(each.into, ()), Product(number, body.numbered()))
    registry = Registry(forest.values)
    for value, total in sums.items():
        registry.learn(value, total)
    return Algebra(registry, sums, forest.targets)


def forest_of(algebra: Algebra, origin: Forest) -> Forest:
    """Sums as a forest again.

    Args:
        algebra: What was made of `origin`.
        origin: Its tensors keep their order, and products that are still there their labels.
    """
    writing = _Writing(algebra)
    writing.origin(origin)
    return writing.forest()


def names_of(algebra: Algebra) -> dict[int, str]:
    """The names that the values have in the forest."""
    values = algebra.registry.values
    taken = {value.name for value in values}
    free = (name for name in (f"s{n}" for n in count(1)) if name not in taken)
    return {
        value: next(free) if values[value].name.startswith("#") else values[value].name
        for value in _order(algebra)
    }


def _read(forest: Forest, production: Production) -> tuple[Coefficient, Body]:
    """A production as a coefficient and a body, with its network's index numbers."""
    number = exact(production.factor)
    factors = []
    given = production.network
    for value, indices, access in zip(
        production.operands, given.inputs, given.accesses, strict=True
    ):
        assert not access.dropped, "a forest's operands do not broadcast"
        constant = forest.values[value].constant
        if constant is not None:
            number = number * exact(constant)
            continue
        at = {axis: i for i, run in zip(indices, access.axes, strict=True) for axis in run}
        factors.append((value, tuple(at[axis] for axis in range(len(at)))))
    return number, Body(tuple(factors), given.output)


def _order(algebra: Algebra) -> Iterator[int]:
    """The values that are made, each after what it reads."""
    done: set[int] = set()
    sums = algebra.sums
    stack = [(value, False) for value in sorted(sums, reverse=True)]
    while stack:
        value, is_ready = stack.pop()
        if value in done or value not in sums:
            continue
        if is_ready:
            done.add(value)
            yield value
            continue
        stack.append((value, True))
        read = [v for product in sums[value] for v, _ in product.body.factors]
        stack += [(v, False) for v in reversed(read)]


@dataclass
class _Writing:
    algebra: Algebra
    leaves: list[Value] = field(default_factory=list)
    #: Names of values as the forest numbers them.
    number: dict[int, int] = field(default_factory=dict)
    constants: dict[Coefficient, int] = field(default_factory=dict)
    labels: dict[tuple[int, Body], tuple[str, ...]] = field(default_factory=dict)
    streamed: set[int] = field(default_factory=set)

    def origin(self, forest: Forest) -> None:
        """Enter the tensors that were given, and what products were called."""
        for value in forest.values:
            if value.kind is Kind.LEAF and value.constant is None:
                self.number[value.number] = len(self.leaves)
                self.leaves.append(replace(value, number=len(self.leaves)))
        for each in forest.productions:
            self.streamed.update(each.operands[k] for k in each.network.streamed)
            _, body = _read(forest, each)
            normal = self.algebra.registry.normal(body)
            labels = tuple(str(each.network.labels[i]) for i in normal.indices)
            self.labels.setdefault((each.into, normal.body), labels)

    def forest(self) -> Forest:
        """The forest."""
        names = names_of(self.algebra)
        for value in names:
            for product in self.algebra.sums[value]:
                if _needs_constant(product):
                    self._constant(product.coefficient)
        given = self.algebra.registry.values
        values = list(self.leaves)
        for value, name in names.items():
            self.number[value] = len(values)
            values.append(replace(given[value], number=len(values), name=name))
        productions: list[Production] = []
        for value in names:
            for product in self.algebra.sums[value]:
                productions.append(self._production(len(productions), value, product))
        targets = tuple(self.number[value] for value in self.algebra.targets)
        return Forest(tuple(values), tuple(productions), targets)

    def _constant(self, number: Coefficient) -> int:
        if number not in self.constants:
            self.constants[number] = len(self.leaves)
            leaf = Value(len(self.leaves), f"{number}", Kind.LEAF, (), (), constant=number)
            self.leaves.append(leaf)
        return self.constants[number]

    def _production(self, number: int, value: int, product: Product) -> Production:
        body = product.body
        made = network(body, self.algebra.registry.sizes(body))
        operands = tuple(self.number[v] for v, _ in body.factors)
        factor = product.coefficient
        if _needs_constant(product):
            made = replace(made, inputs=(*made.inputs, ()), accesses=(*made.accesses, Access(())))
            operands, factor = (*operands, self._constant(factor)), 1
        streamed = frozenset(k for k, (v, _) in enumerate(body.factors) if v in self.streamed)
        labels = self._labels(value, body)
        made = replace(made, labels=labels, streamed=streamed)
        return Production(number, self.number[value], operands, made, factor)

    def _labels(self, value: int, body: Body) -> tuple[str, ...]:
        """A label for each index: as it was given, or as an axis is called, with other digits."""
        normal = self.algebra.registry.normal(body)
        given = self.labels.get((value, normal.body))
        if given is not None:
            at = dict(zip(normal.indices, given, strict=True))
            return tuple(at[i] for i in range(len(at)))
        values = self.algebra.registry.values
        wanted = dict(zip(body.output, values[value].labels, strict=True))
        for v, indices in body.factors:
            for i, label in zip(indices, values[v].labels, strict=True):
                wanted.setdefault(i, label)
        taken: dict[str, None] = {}
        for i in body.indices:
            label = wanted[i]
            stem = re.sub(r"\d+$", "", label)
            digits = count(1)
            while label in taken:
                label = f"{stem}{next(digits)}"
            taken[label] = None
        return tuple(taken)


def _needs_constant(product: Product) -> bool:
    """Whether its number is an operand: where there are not two others to multiply."""
    n = len(product.body.factors)
    return n == 0 or (n == 1 and product.coefficient != 1)
