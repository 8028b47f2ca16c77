"""Values computed in line: their productions substituted into the products that read them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from einbound.expr.equations import Coefficient
from einbound.expr.network import Access, Network
from einbound.forest.forest import Forest, Production, Value


@dataclass(frozen=True, slots=True)
class _Product:
    """A production that is not numbered yet."""

    into: int
    operands: tuple[int, ...]
    network: Network
    factor: Coefficient


def inlined(forest: Forest, values: Iterable[int]) -> Forest:
    """The same results without some shared values: what reads them computes them.

    A value that is a sum of several products makes as many of each product that reads it.

    Args:
        forest: The forest.
        values: Numbers of shared values; the others are numbered anew in the same order.

    Law: the targets are the same (tests/test_placement.py).
    """
    gone = frozenset(values)
    made: dict[int, list[_Product]] = {}
    kept: list[_Product] = []
    for each in forest.productions:
        product = _Product(each.into, each.operands, each.network, each.factor)
        into = made.setdefault(each.into, []) if each.into in gone else kept
        into += _expanded(product, made)
    return _numbered(forest, [v for v in forest.values if v.number not in gone], kept)


def expansions(forest: Forest, number: int, values: Iterable[int]) -> tuple[Network, ...]:
    """The products that one production becomes once some values are computed in line."""
    gone = frozenset(values)
    made: dict[int, list[_Product]] = {}
    for each in forest.productions[: number + 1]:
        product = _Product(each.into, each.operands, each.network, each.factor)
        if each.number == number:
            return tuple(one.network for one in _expanded(product, made))
        if each.into in gone:
            made.setdefault(each.into, []).extend(_expanded(product, made))
    raise AssertionError(f"there is no production {number}")


def n_inlined(forest: Forest, value: int) -> int:
    """Productions that there are more, once a value is computed in line."""
    makers = len(forest.producers[value])
    more = -makers
    for reader in forest.readers.get(value, ()):
        more += makers ** forest.productions[reader].operands.count(value) - 1
    return more


def _expanded(product: _Product, made: dict[int, list[_Product]]) -> list[_Product]:
    for k, value in enumerate(product.operands):
        if value in made:
            joined = [_joined(product, k, maker) for maker in made[value]]
            return [each for one in joined for each in _expanded(one, made)]
    return [product]


def _joined(reader: _Product, k: int, maker: _Product) -> _Product:
    """A product in which one operand is replaced by what it is made from."""
    outer, inner = reader.network, maker.network
    number = dict(zip(inner.output, axis_indices(outer, k), strict=True))
    labels, extents = list(outer.labels), list(outer.extents)
    for index, (label, extent) in enumerate(zip(inner.labels, inner.extents, strict=True)):
        if index not in number:
            number[index] = len(labels)
            labels.append(_fresh(label, labels))
            extents.append(extent)
    terms = [axis_indices(outer, n) for n in range(len(outer.inputs))]
    below = [tuple(number[i] for i in axis_indices(inner, n)) for n in range(len(inner.inputs))]
    terms[k : k + 1] = below
    more = len(below) - 1
    streamed = {n + k for n in inner.streamed}
    streamed |= {n if n < k else n + more for n in outer.streamed if n != k}
    network = _network(labels, extents, terms, outer.output, frozenset(streamed))
    operands = (*reader.operands[:k], *maker.operands, *reader.operands[k + 1 :])
    return _Product(reader.into, operands, network, reader.factor * maker.factor)


def axis_indices(network: Network, operand: int) -> tuple[int, ...]:
    """The index of each axis of an operand's array."""
    found: dict[int, int] = {}
    pairs = zip(network.inputs[operand], network.accesses[operand].axes, strict=True)
    for index, axes in pairs:
        found.update(dict.fromkeys(axes, index))
    return tuple(found[axis] for axis in range(len(found)))


def _network(
    labels: list[Hashable],
    extents: list[int],
    terms: list[tuple[int, ...]],
    output: tuple[int, ...],
    streamed: frozenset[int],
) -> Network:
    """The network of operands given by the index of each of their axes."""
    inputs = tuple(tuple(dict.fromkeys(term)) for term in terms)
    accesses = tuple(
        Access(tuple(tuple(k for k, i in enumerate(term) if i == n) for n in indices))
        for term, indices in zip(terms, inputs, strict=True)
    )
    return Network(tuple(labels), tuple(extents), inputs, output, accesses, streamed)


def _fresh(label: Hashable, known: list[Hashable]) -> Hashable:
    """The label, primed as often as it takes to be a new one."""
    while label in known:
        label = f"{label}'"
    return label


def _numbered(forest: Forest, values: list[Value], products: list[_Product]) -> Forest:
    number = {value.number: n for n, value in enumerate(values)}
    return Forest(
        tuple(replace(value, number=n) for n, value in enumerate(values)),
        tuple(
            Production(
                n,
                number[each.into],
                tuple(number[value] for value in each.operands),
                each.network,
                each.factor,
            )
            for n, each in enumerate(products)
        ),
        tuple(number[value] for value in forest.targets),
    )
