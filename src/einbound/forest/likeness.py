"""A product as it is whatever the order of its operands, of their axes and of its result's.

Sketches of many placements ask for plans of products that differ in nothing else. Axis orders
decide what is copied, not what fits, so that one plan is good for all of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from einbound.expr.network import Access, Network
from einbound.forest.canonical import Atom, canonical
from einbound.plan.grid import Grid
from einbound.plan.rules import Rules
from einbound.plan.tree import Cut, Tree


@dataclass(frozen=True, slots=True)
class Likeness:
    """What products have in common that differ in orders of axes and operands only.

    Attributes:
        network: The product, all axes in rising order.
        rules: What it keeps to.
        operands: The given number of each of its operands.
        indices: The given number of each of its indices.
    """

    network: Network
    rules: Rules
    operands: tuple[int, ...]
    indices: tuple[int, ...]

    @classmethod
    def of(cls, given: Network, rules: Rules) -> Likeness:
        """What a product has in common with others like it.

        Args:
            given: The product; all its operands are in memory.
            rules: What it keeps to.

        Law: the same network and rules for every order of axes and operands
        (tests/test_likeness.py).
        """
        n = len(given.inputs)
        # Operands are nodes, too, so that the order of what stands at one does not count.
        atoms: list[Atom] = [("", (k, n + i)) for k in range(n) for i in given.inputs[k]]
        nodes = canonical(atoms, _marks(given, rules)).order
        operands = tuple(node for node in nodes if node < n)
        indices = tuple(node - n for node in nodes if node >= n)
        number = {index: k for k, index in enumerate(indices)}
        inputs = tuple(tuple(sorted(number[i] for i in given.inputs[k])) for k in operands)
        network = Network(
            tuple(range(len(indices))),
            tuple(given.extents[i] for i in indices),
            inputs,
            tuple(sorted(number[i] for i in given.output)),
            tuple(Access(tuple((axis,) for axis in range(len(each)))) for each in inputs),
        )
        volatile = _volatile(rules)
        own = replace(
            rules,
            grid=Grid(tuple(rules.grid.modes[i] for i in indices)),
            volatile=frozenset(k for k, operand in enumerate(operands) if operand in volatile),
            refusals=(),
        )
        return cls(network, own, operands, indices)

    def restored(self, tree: Tree, given: Network) -> Tree:
        """A tree of the common network for the given one."""
        opens = tuple(
            tuple(Cut(self.indices[cut.index], cut.width, cut.edges) for cut in nest)
            for nest in tree.opens
        )
        number = dict(enumerate(self.operands))
        steps = tuple((number.get(a, a), number.get(b, b)) for a, b in tree.steps)
        return Tree(given, steps, opens, tree.levels)


def _marks(given: Network, rules: Rules) -> dict[int, int]:
    """For each operand and each index a number for what tells it from others by itself."""
    volatile = _volatile(rules)
    looks: list[tuple[Hashable, ...]] = [(0, k in volatile) for k in range(len(given.inputs))]
    for i, mode in enumerate(rules.grid.modes):
        how = mode.admitted, mode.target or 0, mode.edges
        looks.append((1, i in given.output, given.extents[i], *how))
    rank = {look: n for n, look in enumerate(sorted(set(looks), key=repr))}
    return {node: rank[look] for node, look in enumerate(looks)}


def _volatile(rules: Rules) -> frozenset[int]:
    """The operands of which it matters that they change."""
    return rules.volatile if rules.persistent_only else frozenset()
