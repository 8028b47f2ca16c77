"""Every program of a small network, one by one, priced by acting it out on sizes.

Independent of the planner: trees are nested tuples of operand numbers, indices are letters, and
the order of values made in one place is found by trying all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations, product
from math import prod

from einbound.expr.network import Access, Network


def network_of(equation: str, extents: Mapping[str, int]) -> Network:
    """The network of an explicit equation over letters."""
    inputs, output = equation.split("->")
    letters = sorted(set(equation) - set(",->"))
    terms = [tuple(letters.index(x) for x in term) for term in inputs.split(",")]
    accesses = tuple(Access(tuple((k,) for k in range(len(term)))) for term in terms)
    return Network(
        tuple(letters),
        tuple(extents[x] for x in letters),
        tuple(terms),
        tuple(letters.index(x) for x in output),
        accesses,
    )


Loop = tuple[int, int]  # index, slice extent


@dataclass(frozen=True)
class Node:
    """One value of a program: an operand, or a product with its nest and level."""

    operands: frozenset[int]
    carried: frozenset[int]
    below: frozenset[int]
    children: tuple[Node, ...] = ()
    opens: tuple[Loop, ...] = ()
    level: int = 0
    stored: bool = True


class Programs:
    """The programs of a network over given loops."""

    def __init__(
        self,
        network: Network,
        itemsize: int,
        loops: tuple[Loop, ...],
        *,
        pairs_loop: bool = False,
        contributions: bool = False,
    ) -> None:
        """The programs.

        Args:
            network: What is contracted.
            itemsize: Bytes per element.
            loops: What may be opened.
            pairs_loop: Whether products of two operands open loops too.
            contributions: Whether a product that is added up is stored first.
        """
        self.network, self.itemsize, self.loops = network, itemsize, loops
        self.pairs_loop, self.contributions = pairs_loop, contributions
        self.extents = network.extents
        everywhere = range(len(network.inputs))
        self.operands = []
        for k in everywhere:
            others = {i for j in everywhere if j != k for i in network.inputs[j]}
            kept = frozenset(network.inputs[k]) & (others | set(network.output))
            stored = len(kept) < len(network.inputs[k])
            self.operands.append(Node(frozenset([k]), kept, kept, stored=stored))

    def all(self) -> Iterator[Node]:
        """Every program."""
        everything = frozenset(range(len(self.operands)))
        yield from self.made(everything, ())

    def join(self, left: frozenset[int], right: frozenset[int]) -> Node:
        """The product of two sets of operands, without anything below."""
        own = left | right
        below = frozenset().union(*(self.operands[k].below for k in own))
        outside = {i for j, node in enumerate(self.operands) if j not in own for i in node.below}
        return Node(own, below & (outside | set(self.network.output)), below)

    def made(self, operands: frozenset[int], around: tuple[Loop, ...]) -> Iterator[Node]:
        """Every way to make a set inside these loops."""
        if len(operands) == 1:
            yield self.operands[min(operands)]
            return
        first, *rest = sorted(operands)
        for size in range(len(rest)):
            for others in combinations(rest, size):
                left = frozenset((first, *others))
                bare = self.join(left, operands - left)
                yield from self.nested(bare, left, operands - left, around)

    def nested(
        self, bare: Node, left: frozenset[int], right: frozenset[int], around: tuple[Loop, ...]
    ) -> Iterator[Node]:
        taken = {i for i, _ in around}
        able = [loop for loop in self.loops if loop[0] in bare.below and loop[0] not in taken]
        views = all(len(h) == 1 and not self.operands[min(h)].stored for h in (left, right))
        deepest = 0 if views and not self.pairs_loop else len(able)
        for depth in range(deepest + 1):
            for opens in permutations(able, depth):
                if len({i for i, _ in opens}) < depth:
                    continue
                inside = (*around, *opens)
                for one, other in product(self.placed(left, inside), self.placed(right, inside)):
                    yield Node(bare.operands, bare.carried, bare.below, (one, other), opens)

    def placed(self, operands: frozenset[int], inside: tuple[Loop, ...]) -> list[Node]:
        """Every way to make a half at every legal level."""
        node = self.join(operands, operands)
        if len(operands) == 1:
            # Views are read where they are; sums of one operand go out to their own indices.
            node = self.operands[min(operands)]
            level = max((k + 1 for k, (i, _) in enumerate(inside) if i in node.below), default=0)
            return [Node(node.operands, node.carried, node.below, (), (), level, node.stored)]
        found = []
        for level in range(len(inside), -1, -1):
            for way in self.made(operands, inside[:level]):
                found.append(
                    Node(way.operands, way.carried, way.below, way.children, way.opens, level)
                )
            if level and self.summed(node, inside[level - 1][0]):
                break
        return found

    def summed(self, node: Node, index: int) -> bool:
        return index in node.below and index not in node.carried

    def size(self, node: Node, loops: tuple[Loop, ...]) -> int:
        widths = dict(loops)
        return self.itemsize * prod(widths.get(i, self.extents[i]) for i in node.carried)

    def trips(self, loop: Loop) -> int:
        return -(-self.extents[loop[0]] // loop[1])

    def macs(self, node: Node, around: tuple[Loop, ...] = ()) -> int:
        """Multiply-adds of a node and all below."""
        if not node.children:
            return 0
        inside = (*around, *node.opens)
        union = node.children[0].carried | node.children[1].carried
        repeats = prod(self.trips(loop) for loop in inside if loop[0] not in union)
        own = prod(self.extents[i] for i in union) * repeats
        return own + sum(self.macs(child, inside[: child.level]) for child in node.children)

    def calls(self, node: Node, around: tuple[Loop, ...] = ()) -> int:
        """Products that run for a node and all below."""
        if not node.children:
            return 0
        inside = (*around, *node.opens)
        own = prod(self.trips(loop) for loop in inside)
        return own + sum(self.calls(child, inside[: child.level]) for child in node.children)

    def peak(self, node: Node) -> int:
        """Most bytes alive while a program runs."""
        return self.produced(node, ())[0]

    def produced(self, node: Node, around: tuple[Loop, ...]) -> tuple[int, int]:
        """(peak, bytes left) of making a node, values made outside `around` not counted."""
        own = self.size(node, around)
        if not node.children:
            return (own, own) if node.stored else (0, 0)
        inside = (*around, *node.opens)
        peak = live = 0
        for level in range(len(around), len(inside) + 1):
            if level == len(around) + 1:
                live += own
            jobs = [self.produced(one, inside[:level]) for one in self.due(node, inside, level)]
            peak = max(peak, live + together(jobs))
            live += sum(left for _, left in jobs)
        if not node.opens:
            live += own
        if self.contributions and any(i not in node.carried for i, _ in node.opens):
            live += self.size(node, inside)
        return max(peak, live), own

    def due(self, node: Node, inside: tuple[Loop, ...], level: int) -> list[Node]:
        """Values below a node that are made once `level` of the loops around it are open."""
        found = []
        for child in node.children:
            if child.level == level and child.stored:
                found.append(child)
            if child.children and level < child.level:
                found += self.due(child, (*inside[: child.level], *child.opens), level)
        return found


def together(jobs: list[tuple[int, int]]) -> int:
    """The least peak of making values one after the other and holding them all."""

    def peak(order: tuple[tuple[int, int], ...]) -> int:
        most = held = 0
        for top, left in order:
            most = max(most, held + top)
            held += left
        return most

    return min(peak(order) for order in permutations(jobs))


def staircase(points: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """The (bytes, multiply-adds) that none of the others beats, by rising bytes."""
    kept: list[tuple[int, int]] = []
    for peak, macs in sorted(points):
        if not kept or macs < kept[-1][1]:
            kept.append((peak, macs))
    return kept


def brute_frontier(programs: Programs) -> tuple[list[tuple[int, int]], int]:
    """The staircase of all programs, and how many there are."""
    points, n_programs = set(), 0
    for node in programs.all():
        n_programs += 1
        points.add((programs.peak(node), programs.macs(node)))
    return staircase(points), n_programs


def sampled(rng: random.Random, programs: Programs, n_loops: int = 4) -> Node:
    """One program at random, with few loops at any one place."""

    def make(operands: frozenset[int], around: tuple[Loop, ...], budget: int) -> Node:
        members = sorted(operands)
        if len(members) == 1:
            return programs.operands[members[0]]
        left = frozenset(rng.sample(members, rng.randint(1, len(members) - 1)))
        bare = programs.join(left, operands - left)
        taken = {i for i, _ in around}
        able = [loop for loop in programs.loops if loop[0] in bare.below - taken]
        opens: list[Loop] = []
        for loop in rng.sample(able, len(able)):
            new = loop[0] not in {i for i, _ in opens}
            if new and len(opens) < min(budget, 3) and rng.random() < 0.5:
                opens.append(loop)
        inside = (*around, *opens)
        children = tuple(
            place(half, inside, budget - len(opens)) for half in (left, operands - left)
        )
        return Node(bare.operands, bare.carried, bare.below, children, tuple(opens))

    def place(operands: frozenset[int], inside: tuple[Loop, ...], budget: int) -> Node:
        if len(operands) == 1:
            return programs.placed(operands, inside)[0]
        bare = programs.join(operands, operands)
        level = len(inside)
        while level and not programs.summed(bare, inside[level - 1][0]) and rng.random() < 0.6:
            level -= 1
        way = make(operands, inside[:level], budget)
        return Node(way.operands, way.carried, way.below, way.children, way.opens, level)

    return make(frozenset(range(len(programs.operands))), (), n_loops)
