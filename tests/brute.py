"""Every program of a small network, one by one or put together, priced on sizes.

Independent of the planner: sets of operands and of indices instead of masks, no bounds, and the
order of values made in one place is found by trying all.
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
    return min(risen(list(order)) for order in permutations(jobs))


class Acted:
    """A run of one program, trip by trip, on sizes.

    Slices have their largest size in every trip for bytes, their own for multiply-adds.

    Attributes:
        peak: Most bytes alive so far.
        macs: Multiply-adds so far.
    """

    def __init__(self, programs: Programs, node: Node) -> None:
        self.programs = programs
        self.live = self.peak = self.macs = 0
        self.ranges: dict[int, int] = {}
        self.produce(node, ())

    def hold(self, n_bytes: int) -> None:
        self.live += n_bytes
        self.peak = max(self.peak, self.live)

    def produce(self, node: Node, around: tuple[Loop, ...]) -> int:
        """Makes a value, which stays alive; its bytes."""
        own = self.programs.size(node, around)
        if not node.children:
            own = own if node.stored else 0
            self.hold(own)
            return own
        inside, level = (*around, *node.opens), len(around)
        made = self.make(self.programs.due(node, inside, level), inside[:level])
        self.hold(own)
        self.loop(node, inside, level)
        self.live -= made
        return own

    def make(self, due: list[Node], around: tuple[Loop, ...]) -> int:
        """Makes values in the order that needs least; their bytes."""
        needs = {id(one): self.programs.produced(one, around) for one in due}
        orders = permutations(due) if len(due) > 1 else [tuple(due)]
        order = min(orders, key=lambda order: risen([needs[id(one)] for one in order]))
        return sum(self.produce(one, around) for one in order)

    def loop(self, node: Node, inside: tuple[Loop, ...], level: int) -> None:
        extents = self.programs.extents
        if level == len(inside):
            union = node.children[0].carried | node.children[1].carried
            self.macs += prod(self.ranges.get(i, extents[i]) for i in union)
            return
        index, width = inside[level]
        due = self.programs.due(node, inside, level + 1)
        for start in range(0, max(extents[index], 1), width):
            self.ranges[index] = min(width, extents[index] - start)
            made = self.make(due, inside[: level + 1])
            self.loop(node, inside, level + 1)
            self.live -= made
        del self.ranges[index]


#: (level, peak, bytes): a value that is made outside, and held until the loop there ends.
Escape = tuple[int, int, int]


class Composed:
    """The staircase of all programs, put together from ways to make smaller sets.

    A way is (multiply-adds, peak, escapes); one is left out only if another one with the very
    same escapes is no worse in both counts.
    """

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        self.known: dict[object, set[tuple[int, int, tuple[Escape, ...]]]] = {}

    def frontier(self) -> list[tuple[int, int]]:
        everything = frozenset(range(len(self.programs.operands)))
        return staircase({(peak, macs) for macs, peak, _ in self.ways(everything, ())})

    def ways(
        self, operands: frozenset[int], around: tuple[Loop, ...]
    ) -> set[tuple[int, int, tuple[Escape, ...]]]:
        """All ways to make a set inside these loops."""
        key = operands, around
        if key not in self.known:
            self.known[key] = unbeaten(self.made(operands, around))
        return self.known[key]

    def made(
        self, operands: frozenset[int], around: tuple[Loop, ...]
    ) -> Iterator[tuple[int, int, tuple[Escape, ...]]]:
        if len(operands) == 1:
            own = self.programs.operands[min(operands)]
            yield 0, self.programs.size(own, around) if own.stored else 0, ()
            return
        first, *rest = sorted(operands)
        bare = self.programs.join(operands, operands)
        free = [x for x in self.programs.loops if x[0] in bare.below - {i for i, _ in around}]
        nests = [
            (*around, *opens)
            for depth in range(len(free) + 1)
            for opens in permutations(free, depth)
            if len({i for i, _ in opens}) == depth
        ]
        for size in range(len(rest)):
            for others in combinations(rest, size):
                left = frozenset((first, *others))
                for inside in nests:
                    yield from self.joined(left, operands - left, inside, len(around))

    def joined(
        self, left: frozenset[int], right: frozenset[int], inside: tuple[Loop, ...], outer: int
    ) -> Iterator[tuple[int, int, tuple[Escape, ...]]]:
        """All ways to multiply two sets inside a nest of which some loops are further out."""
        programs = self.programs
        one, other = programs.join(left, left), programs.join(right, right)
        own = programs.size(programs.join(left, right), inside[:outer])
        union = one.carried | other.carried
        repeats = prod(programs.trips(loop) for loop in inside if loop[0] not in union)
        macs = repeats * prod(programs.extents[i] for i in union)
        for left_way, right_way in product(self.placed(left, inside), self.placed(right, inside)):
            items = (*left_way[1], *right_way[1])
            peak = live = 0
            for level in range(outer, len(inside) + 1):
                jobs = [(peak_, held) for at, peak_, held in items if at == level]
                live += own if level == outer + 1 else 0
                peak = max(peak, live + together(jobs))
                live += sum(held for _, held in jobs)
            live += own if len(inside) == outer else 0
            escapes = tuple(sorted(item for item in items if item[0] < outer))
            yield macs + left_way[0] + right_way[0], max(peak, live), escapes

    def placed(
        self, operands: frozenset[int], inside: tuple[Loop, ...]
    ) -> Iterator[tuple[int, tuple[Escape, ...]]]:
        """All ways to have a half, as multiply-adds and what waits at which level."""
        programs = self.programs
        node = programs.join(operands, operands)
        level = len(inside)
        if len(operands) == 1:
            node = programs.operands[min(operands)]
            while level and inside[level - 1][0] not in node.below:
                level -= 1
            own = programs.size(node, inside[:level])
            yield 0, ((level, own, own),) if node.stored else ()
            return
        while True:
            held = programs.size(node, inside[:level])
            for macs, peak, escapes in self.ways(operands, inside[:level]):
                yield macs, (*escapes, (level, peak, held))
            if not level or programs.summed(node, inside[level - 1][0]):
                return
            level -= 1


def unbeaten(
    ways: Iterator[tuple[int, int, tuple[Escape, ...]]],
) -> set[tuple[int, int, tuple[Escape, ...]]]:
    """The ways without those that are worse than one with the same escapes."""
    alike: dict[tuple[Escape, ...], set[tuple[int, int]]] = {}
    for macs, peak, escapes in ways:
        alike.setdefault(escapes, set()).add((peak, macs))
    return {
        (macs, peak, escapes)
        for escapes, points in alike.items()
        for peak, macs in staircase(points)
    }


def risen(jobs: list[tuple[int, int]]) -> int:
    """The peak of making values in this order and holding them all."""
    most = held = 0
    for top, left in jobs:
        most = max(most, held + top)
        held += left
    return most


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


@dataclass(frozen=True)
class Case:
    """A random network and how some of its indices are cut.

    Attributes:
        equation: Explicit, over letters.
        extents: Elements of each letter.
        batch_counts: Numbers of slices, which are equal, of the letters that may be cut.
    """

    equation: str
    extents: dict[str, int]
    batch_counts: dict[str, int]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        terms = self.equation.split("->")[0].split(",")
        return [tuple(self.extents[x] for x in term) for term in terms]

    @property
    def operand_bytes(self) -> int:
        return 8 * sum(prod(shape) for shape in self.shapes)

    @property
    def network(self) -> Network:
        return network_of(self.equation, self.extents)

    @property
    def programs(self) -> Programs:
        network = self.network
        cut = [
            (network.labels.index(x), self.extents[x] // n) for x, n in self.batch_counts.items()
        ]
        return Programs(network, 8, tuple(cut), pairs_loop=True)


def random_case(seed: int, n_operands: int, n_cut: int) -> Case:
    """A network of operands with one to four indices, hyper-indices and sums of one included."""
    rng = random.Random(seed)
    letters = "abcdefghijkl"[: n_operands + rng.randint(2, 3)]
    numbers = [rng.choice((1, 2, 2, 3, 3, 4)) for _ in range(n_operands)]
    terms = ["".join(rng.sample(letters, number)) for number in numbers]
    used = sorted(set("".join(terms)))
    output = "".join(rng.sample(used, min(rng.choice((0, 1, 2, 2, 3)), len(used))))
    extents = {x: rng.choice((4, 6, 8, 12, 16, 24)) for x in used}
    cut = sorted(rng.sample(used, min(n_cut, len(used))))
    counts = {x: rng.choice([n for n in (2, 3, 4) if extents[x] % n == 0]) for x in cut}
    return Case(f"{','.join(terms)}->{output}", extents, counts)
