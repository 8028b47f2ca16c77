"""Axis orders of shared values, so that what makes and what reads them need no copies.

The axes of a value lie in memory as they are numbered, so an order is another numbering of them.
How long a production takes is for the layers above to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations
from math import prod
from typing import TypeAlias, TypeVar

from einbound.forest.forest import Forest, Kind, Production

T = TypeVar("T")
Order: TypeAlias = tuple[int, ...]
Orders: TypeAlias = Mapping[int, Order]
#: Rough seconds of a production of a forest; whether it adds to what is there already.
Seconds: TypeAlias = Callable[[Forest, Production, bool], float]

#: Elements from which the order of a value is chosen: smaller ones are in the caches anyway.
LEAST_ELEMENTS = 1 << 15
#: Axes of values all of whose orders are tried.
MOST_AXES = 4
#: Times that all values are tried again, each after something improved.
_N_SWEEPS = 4
#: Productions that may be priced; a bound on the time, about 0.2 ms each.
_MOST_PRICED = 6000
#: Part of the seconds around a value that another order must save.
_LEAST_GAIN = 0.01


def arranged(
    forest: Forest,
    seconds: Seconds,
    *,
    iterations: int = 1,
    least_elements: int | None = None,
) -> Forest:
    """The forest with shared values laid out as their makers and readers want them.

    Values are tried one by one, the largest first, each in all orders while the others stay.

    Args:
        forest: The forest.
        seconds: What a production takes.
        iterations: How often what is volatile is made, in all.
        least_elements: Elements of a value from which its order is chosen; None: the usual number.

    Law: the targets are the same (tests/test_forest_layouts.py).
    """
    choice = _Choice(forest, seconds, iterations)
    least = LEAST_ELEMENTS if least_elements is None else least_elements
    wanted = sorted(_free(forest, least), key=lambda value: -_size(forest, value))
    for _ in range(_N_SWEEPS):
        improved = [choice.improve(value) for value in wanted]
        if not any(improved):
            break
    return reordered(forest, choice.orders)


def reordered(forest: Forest, orders: Orders) -> Forest:
    """The same forest with the axes of some values in other orders.

    Args:
        forest: The forest.
        orders: For some values that are made, their present axes in the new order.
    """
    values = list(forest.values)
    for number, order in orders.items():
        value = values[number]
        shape = _permuted(value.shape, order)
        values[number] = replace(value, shape=shape, labels=_permuted(value.labels, order))
    productions = tuple(_rewritten(each, orders) for each in forest.productions)
    return replace(forest, values=tuple(values), productions=productions)


@dataclass
class _Choice:
    """The orders chosen so far, and what is known of the productions in them."""

    forest: Forest
    seconds: Seconds
    iterations: int
    orders: dict[int, Order] = field(default_factory=dict)
    priced: dict[tuple[int, tuple[Order, ...]], float] = field(default_factory=dict)

    @cached_property
    def first(self) -> frozenset[int]:
        """The productions that write their values, to which others add."""
        return frozenset(numbers[0] for numbers in self.forest.producers.values())

    def improve(self, value: int) -> bool:
        """Give a value its best order as the others are now; whether that is another one."""
        forest, before = self.forest, self.orders.get(value)
        around = (*forest.producers[value], *forest.readers.get(value, ()))
        plain = tuple(range(len(forest.values[value].shape)))
        kept = before or plain
        least = self._total(around) * (1 - _LEAST_GAIN)
        for order in permutations(plain):
            if order == kept or len(self.priced) > _MOST_PRICED:
                continue
            self.orders[value] = order
            found = self._total(around)
            if found < least:
                least, kept = found, order
        self.orders[value] = kept
        return kept != (before or plain)

    def _total(self, numbers: tuple[int, ...]) -> float:
        return sum(self._priced(number) for number in numbers)

    def _priced(self, number: int) -> float:
        forest = self.forest
        each = forest.productions[number]
        key = number, tuple(self.orders.get(value, ()) for value in (each.into, *each.operands))
        if key not in self.priced:
            times = self.iterations if forest.values[each.into].volatile else 1
            written = _rewritten(each, self.orders)
            self.priced[key] = times * self.seconds(forest, written, number not in self.first)
        return self.priced[key]


def _free(forest: Forest, least_elements: int) -> Iterator[int]:
    """The shared values whose order matters and may be chosen."""
    fixed = {value for each in forest.productions for value in _bound(forest, each)}
    for value in forest.producers:
        made = forest.values[value]
        is_large = _size(forest, value) >= least_elements and 2 <= len(made.shape) <= MOST_AXES
        if made.kind is Kind.SHARED and is_large and value not in fixed:
            yield value


def _bound(forest: Forest, production: Production) -> Iterator[int]:
    """Operands that keep their order: on diagonals, and those that a target is a copy of."""
    network, into = production.network, forest.values[production.into]
    is_copy = len(network.inputs) == 1 and network.inputs[0] == network.output
    is_all = into.kind is Kind.TARGET and len(forest.producers[production.into]) == 1
    for value, access in zip(production.operands, network.accesses, strict=True):
        is_plain = all(run == (n,) for n, run in enumerate(access.axes)) and not access.dropped
        if not is_plain or (is_copy and is_all):
            yield value


def _rewritten(production: Production, orders: Orders) -> Production:
    network = production.network
    inputs = tuple(
        _permuted(indices, orders[value]) if value in orders else indices
        for value, indices in zip(production.operands, network.inputs, strict=True)
    )
    output = network.output
    if production.into in orders:
        output = _permuted(output, orders[production.into])
    return replace(production, network=replace(network, inputs=inputs, output=output))


def _permuted(items: tuple[T, ...], order: Order) -> tuple[T, ...]:
    return tuple(items[axis] for axis in order)


def _size(forest: Forest, value: int) -> int:
    return prod(forest.values[value].shape)
