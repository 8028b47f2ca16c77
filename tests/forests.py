"""Random forests with common loops, and their values by numpy.einsum."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from einbound.expr.network import Access, Network
from einbound.forest.blocks import Block, ForestPlan, Item, Member, Together
from einbound.forest.forest import Forest, Kind, Production, Value
from einbound.plan.tree import Cut, Tree
from einbound.step.view import View
from trees import random_tree

LABELS = "abcdef"


def random_forest(rng: random.Random) -> Forest:
    """Leaves, shared values and targets over a few labels, read under other labels, too."""
    extents = {label: rng.randint(1, 5) for label in LABELS}
    for label in LABELS[3:]:
        extents[label] = extents[rng.choice(LABELS[:3])]
    values: list[Value] = []
    for number in range(rng.randint(1, 3)):
        values.append(_value(rng, number, f"L{number}", Kind.LEAF, extents))
    productions: list[Production] = []
    for number in range(rng.randint(1, 4)):
        kind = rng.choice([Kind.SHARED, Kind.TARGET])
        value = _value(rng, len(values), f"V{number}", kind, extents)
        readable = [each for each in values if each.kind is not Kind.TARGET or rng.random() < 0.3]
        for _ in range(rng.randint(1, 2)):
            productions.append(_production(rng, len(productions), value, readable, extents))
        values.append(value)
    read = {operand for each in productions for operand in each.operands}
    values = [
        replace(each, kind=Kind.TARGET)
        if each.kind is Kind.SHARED and each.number not in read
        else each
        for each in values
    ]
    targets = tuple(each.number for each in values if each.kind is Kind.TARGET)
    return Forest(tuple(values), tuple(productions), targets)


def _value(
    rng: random.Random, number: int, name: str, kind: Kind, extents: dict[str, int]
) -> Value:
    labels = tuple(rng.sample(LABELS, rng.randint(0, 3)))
    return Value(number, name, kind, tuple(extents[label] for label in labels), labels)


def _production(
    rng: random.Random,
    number: int,
    into: Value,
    readable: list[Value],
    extents: dict[str, int],
) -> Production:
    """A product that carries every label of its target; an operand's axes may be renamed."""
    missing = set(into.labels)
    operands: list[int] = []
    terms: list[tuple[str, ...]] = []
    for _ in range(rng.randint(1, 3)):
        value = rng.choice(readable)
        operands.append(value.number)
        term: list[str] = []
        for label in value.labels:
            same = [x for x in LABELS if extents[x] == extents[label] and x not in term]
            term.append(label if label in same and rng.random() < 0.6 else rng.choice(same or [""]))
        terms.append(tuple(term))
    return _bound(rng, number, into, operands, terms, missing, readable, extents)


def _bound(
    rng: random.Random,
    number: int,
    into: Value,
    operands: list[int],
    terms: list[tuple[str, ...]],
    missing: set[str],
    readable: list[Value],
    extents: dict[str, int],
) -> Production:
    carried = {label for term in terms for label in term}
    for label in into.labels:
        if label not in carried:
            extra = [
                (value, axis)
                for value in readable
                for axis, n in enumerate(value.shape)
                if n == extents[label]
            ]
            if not extra:
                continue
            value, axis = rng.choice(extra)
            operands.append(value.number)
            terms.append(_term(value, axis, label, extents))
            carried.update(terms[-1])
    names = tuple(dict.fromkeys(label for term in terms for label in term))
    numbers = {label: n for n, label in enumerate(names)}
    inputs = tuple(tuple(dict.fromkeys(numbers[x] for x in term)) for term in terms)
    accesses = tuple(
        Access(tuple(tuple(k for k, x in enumerate(term) if numbers[x] == i) for i in indices))
        for term, indices in zip(terms, inputs, strict=True)
    )
    output = tuple(numbers.get(label, -1) for label in into.labels)
    network = Network(names, tuple(extents[x] for x in names), inputs, output, accesses)
    factor = 1 if len(operands) == 1 else rng.choice([1, 1, -1, 2, 3])
    return Production(number, into.number, tuple(operands), network, factor)


def _term(value: Value, axis: int, label: str, extents: dict[str, int]) -> tuple[str, ...]:
    term: list[str] = []
    for k, n in enumerate(value.shape):
        same = [x for x in LABELS if extents[x] == n and x not in term and x != label]
        term.append(label if k == axis else (same or [label])[0])
    return tuple(term)


def random_plan(rng: random.Random, forest: Forest) -> ForestPlan:
    """Random trees with loops, some productions together inside common loops."""
    numbers = [each.number for each in forest.productions]
    return ForestPlan(forest, tuple(_items(rng, forest, numbers, {}, [0])))


def _items(
    rng: random.Random,
    forest: Forest,
    numbers: list[int],
    cut: dict[int, dict[int, int]],
    count: list[int],
) -> list[Item]:
    items: list[Item] = []
    while numbers:
        n = rng.randint(1, len(numbers))
        group, numbers = numbers[:n], numbers[n:]
        chosen = _chosen(rng, forest, group, cut) if len(cut) < 2 else None
        if chosen is None or rng.random() < 0.3:
            items.extend(_member(rng, forest.productions[each], cut) for each in group)
            continue
        extent, indices = chosen
        edges = Cut(0, rng.randint(1, max(extent, 1)))
        if extent > 1 and rng.random() < 0.4:
            inner = sorted(rng.sample(range(1, extent), rng.randint(1, extent - 1)))
            edges = Cut.between(0, (0, *inner, extent))
        number, count[0] = count[0], count[0] + 1
        inside = {**cut, number: {**indices, -1: edges.width}}
        body: Block = tuple(_items(rng, forest, group, inside, count))
        pairs = tuple(sorted(indices.items()))
        items.append(Together(number, "x", extent, edges.width, edges.edges, pairs, body))
    return items


def _chosen(
    rng: random.Random, forest: Forest, group: list[int], cut: dict[int, dict[int, int]]
) -> tuple[int, dict[int, int]] | None:
    """One index of each production, all of one extent."""
    options = []
    for number in group:
        network = forest.productions[number].network
        taken = {each[number] for each in cut.values()}
        options.append([i for i in range(len(network.labels)) if i not in taken])
    if not all(options):
        return None
    first = forest.productions[group[0]].network
    index = rng.choice(options[0])
    label, extent = first.labels[index], first.extents[index]
    indices: dict[int, int] = {}
    for number, free in zip(group, options, strict=True):
        network = forest.productions[number].network
        same = [i for i in free if network.extents[i] == extent]
        named = [i for i in same if network.labels[i] == label]
        if not same:
            return None
        indices[number] = named[0] if named and rng.random() < 0.9 else rng.choice(same)
    return extent, indices


def _member(rng: random.Random, production: Production, cut: dict[int, dict[int, int]]) -> Member:
    extents = list(production.network.extents)
    for each in cut.values():
        extents[each[production.number]] = each[-1]
    network = replace(production.network, extents=tuple(extents))
    tree = random_tree(rng, network)
    around = {each[production.number] for each in cut.values()}
    if any(loop.index in around for opens in tree.opens for loop in opens):
        tree = Tree.plain(network, tree.steps)
    return Member(production.number, tree)


def random_leaves(forest: Forest, seed: int) -> list[np.ndarray]:
    """One array per leaf; small whole numbers, so that sums are exact."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-2, 3, value.shape).astype(float)
        for value in forest.values
        if value.kind is Kind.LEAF
    ]


def views(arrays: list[np.ndarray]) -> list[View]:
    """The layouts of leaves."""
    return [View(tuple(range(a.ndim)), a.shape, a.strides, a.dtype) for a in arrays]


def direct(forest: Forest, leaves: list[np.ndarray]) -> list[np.ndarray]:
    """The targets, one numpy.einsum after another."""
    made = list(leaves)
    for value in forest.values[len(leaves) :]:
        made.append(np.zeros(value.shape))
    for each in forest.productions:
        args: list[Any] = []
        for operand, access, indices in zip(
            each.operands, each.network.accesses, each.network.inputs, strict=True
        ):
            n_axes = sum(len(axes) for axes in access.axes)
            term = [0] * n_axes
            for index, axes in zip(indices, access.axes, strict=True):
                for axis in axes:
                    term[axis] = index
            args += [made[operand], term]
        args.append(list(each.network.output))
        made[each.into] = made[each.into] + each.factor * np.einsum(*args)
    return [made[number] for number in forest.targets]
