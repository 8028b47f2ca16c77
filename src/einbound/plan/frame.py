"""Fast recount of one order under many nests of loops, temporaries included.

Agrees with `model.Count` where no temporaries are charged; keeps nothing but numbers, so that
a search can ask thousands of times. What a plan really needs is metered on its schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from einbound.expr.network import Network
from einbound.plan.masks import Steps, Terms, bits, carried_masks, mask_of
from einbound.plan.nests import Hoist, Nests
from einbound.plan.price import Price, Space
from einbound.plan.rate import ADDED_BYTE_SECONDS, Shape
from einbound.plan.rules import Rules
from einbound.plan.tree import Cut, Tree, trips
from einbound.step.pricing import READ_BYTE_SECONDS, READ_SECONDS, TOUCH_BYTE_SECONDS


@dataclass(frozen=True, slots=True)
class _Item:
    """A value that waits in a slot."""

    value: int
    peak: int
    held: int


def changing(steps: Steps, n_operands: int, volatile: frozenset[int]) -> list[bool]:
    """Of each value, whether a volatile operand lies below it."""
    changes = [value in volatile for value in range(n_operands)]
    for left, right in steps:
        changes.append(changes[left] or changes[right])
    return changes


class Frame:
    """One order with everything about it that no loop changes.

    Attributes:
        network: What is contracted.
        steps: The order.
        rules: The loops that there may be, and how often products count.
        plain_macs: Multiply-adds without loops, of all evaluations.
    """

    def __init__(
        self, network: Network, steps: Steps, itemsize: int, rules: Rules | None = None
    ) -> None:
        self.network = network
        self.rules = Rules.free(network) if rules is None else rules
        self.steps = steps
        self.extents = network.extents
        self.itemsize = itemsize
        self.n = n = len(network.inputs)
        terms = Terms.of(network)
        self.carried = carried_masks(terms, steps)
        self.below = list(terms.masks)
        self.parents = [-1] * (n + len(steps))
        for step, (left, right) in enumerate(steps):
            self.below.append(self.below[left] | self.below[right])
            self.parents[left] = self.parents[right] = n + step
        self.unions = [self.carried[left] | self.carried[right] for left, right in steps]
        self.products = [terms.sizes[union] for union in self.unions]
        self.changes = changing(steps, n, self.rules.volatile)
        self.weighs = bool(self.rules.volatile) and self.rules.iterations > 1
        self.plain_macs = self.macs(Nests.none(len(steps)))
        self.shapes = [
            Shape.of(self.carried[left], self.carried[right], self.carried[n + step], terms.sizes)
            for step, (left, right) in enumerate(steps)
        ]
        self.full = [itemsize * terms.sizes[mask] for mask in self.carried]
        self._once: dict[tuple[int, tuple[Cut, ...]], float] = {}
        # Operands are views; one that is summed first, or not in memory, is a value of its own.
        self.stored = [
            k in network.streamed or len(bits(terms.masks[k])) < len(indices)
            for k, indices in enumerate(network.inputs)
        ] + [True] * len(steps)
        # Of operands that are not in memory, the bytes that one reading of all of it brings.
        self.streamed = {
            k: itemsize * terms.sizes[mask_of(network.inputs[k])] for k in network.streamed
        }
        grid = self.rules.grid
        self.finest = [grid.finest(index) for index in range(len(network.extents))]
        cuts = [cut for cut in self.finest if cut.width < network.extents[cut.index]]
        self.loopable = mask_of(cut.index for cut in cuts) & grid.admitted
        self.useful = [self._useful(step) for step in range(len(steps))]

    def _useful(self, step: int) -> int:
        """The indices that a step may loop over with profit.

        Those below a part that takes memory: cutting others lowers nothing.
        """
        if self.rules.persistent_only and self.changes[self.n + step]:
            return 0
        left, right = self.steps[step]
        below = (self.below[left] if self.stored[left] else 0) | (
            self.below[right] if self.stored[right] else 0
        )
        return below & self.loopable

    def nests(self, tree: Tree) -> Nests:
        """The loops and levels of a tree of this order."""
        outside = []
        for step in range(len(self.steps)):
            reader = self.parents[self.n + step]
            around = () if reader < 0 else tree.inside[reader][tree.levels[step] :]
            outside.append(mask_of(cut.index for cut in around))
        return Nests(tree.opens, tuple(outside))

    def trips(self, cut: Cut) -> int:
        """Number of trips of a loop."""
        return trips(cut, self.network)

    def tree(self, nests: Nests) -> Tree:
        """The plan's record."""
        _, levels = self.place(nests)
        n = self.n
        return Tree(self.network, self.steps, nests.opens, tuple(levels[n:]))

    def place(self, nests: Nests) -> tuple[list[tuple[Cut, ...]], list[int]]:
        """Of each value, the loops around its product and how many enclose its production."""
        n, parents = self.n, self.parents
        inside: list[tuple[Cut, ...]] = [()] * len(parents)
        levels = [0] * len(parents)
        for step in range(len(self.steps) - 1, -1, -1):
            value = n + step
            reader = parents[value]
            around = inside[reader] if reader >= 0 else ()
            if around:
                level = levels[value] = self._level(value, around, nests.hoists[step])
                around = around[:level]
            inside[value] = around + nests.opens[step]
        for value in range(n if self.steps else 0):
            around = inside[parents[value]]
            levels[value] = self._level(value, around, Hoist.FREE)
            inside[value] = around[: levels[value]]
        return inside, levels

    def _level(self, value: int, around: tuple[Cut, ...], hoist: Hoist | int) -> int:
        level = len(around)
        if hoist is Hoist.INSIDE:
            return level
        if isinstance(hoist, int):
            while level and hoist >> around[level - 1].index & 1:
                level -= 1
            return level
        stop = self.below[value]
        if hoist is Hoist.FULL:
            stop &= ~self.carried[value]
        while level and not stop >> around[level - 1].index & 1:
            level -= 1
        return level

    def size(self, value: int, cuts: tuple[Cut, ...]) -> int:
        """Bytes of the slice of a value that one trip sees."""
        size, mask = self.full[value], self.carried[value]
        for cut in cuts:
            if mask >> cut.index & 1:
                size = size // self.extents[cut.index] * cut.width
        return size

    def window(self, value: int, cuts: tuple[Cut, ...]) -> int:
        """Bytes of a streamed operand that one trip reads."""
        size, mask = self.streamed[value], self.carried[value]
        for cut in cuts:
            if mask >> cut.index & 1:
                size = size // self.extents[cut.index] * cut.width
        return size

    def macs(self, nests: Nests) -> int:
        """Multiply-adds over all trips and in all evaluations."""
        return self._macs(*self.place(nests))

    def _macs(self, inside: list[tuple[Cut, ...]], levels: list[int]) -> int:
        total = 0
        weights = self._weights(levels) if self.weighs else None
        for step, product in enumerate(self.products):
            for cut in inside[self.n + step]:
                if not self.unions[step] >> cut.index & 1:
                    product *= self.trips(cut)
            total += product if weights is None else weights[self.n + step] * product
        return total

    def _weights(self, levels: list[int]) -> list[int]:
        """How often each value is made: once if it never changes and no loop is around it."""
        weights = [self.rules.iterations] * len(levels)
        for value in range(len(levels) - 1, self.n - 1, -1):
            reader = self.parents[value]
            if not self.changes[value] and (not levels[value] or weights[reader] == 1):
                weights[value] = 1
        return weights

    def price(self, nests: Nests, buffer_bytes: int) -> Price:
        """Counts under `nests`, where accumulation may use `buffer_bytes` at a time."""
        inside, levels = self.place(nests)
        walk = _Walk(self, nests, inside, levels, buffer_bytes)
        space = walk.space()
        macs = self._macs(inside, levels)
        calls, seconds = self._tally(nests, inside)
        seconds += space.workspace_bytes * TOUCH_BYTE_SECONDS
        return Price(space, macs, calls, seconds, tuple(walk.live()))

    def space(self, nests: Nests, buffer_bytes: int) -> Space:
        """Bytes needed under `nests`; the cheaper half of `price`."""
        inside, levels = self.place(nests)
        return _Walk(self, nests, inside, levels, buffer_bytes).space()

    def _tally(self, nests: Nests, inside: list[tuple[Cut, ...]]) -> tuple[int, float]:
        """Products that run, and seconds that they take."""
        n_calls, seconds = 0, self._read_seconds(inside)
        for step, shape in enumerate(self.shapes):
            value = self.n + step
            cuts = inside[value]
            calls = 1
            for cut in cuts:
                calls *= self.trips(cut)
            n_calls += calls
            once = self._once.get((step, cuts))
            if once is None:
                once = self._once[step, cuts] = shape.seconds(cuts, self.itemsize)
            seconds += calls * once
            carried = self.carried[value]
            if not all(carried >> cut.index & 1 for cut in nests.opens[step]):
                outer = len(cuts) - len(nests.opens[step])
                firsts = 1
                for depth, cut in enumerate(cuts):
                    if depth < outer or carried >> cut.index & 1:
                        firsts *= self.trips(cut)
                added = self.size(value, cuts)
                seconds += (calls - firsts) * added * ADDED_BYTE_SECONDS
        return n_calls, seconds

    def _read_seconds(self, inside: list[tuple[Cut, ...]]) -> float:
        """Seconds to read the operands that are not in memory, over all trips."""
        seconds = 0.0
        for value in self.streamed:
            calls = 1
            for cut in inside[value]:
                calls *= self.trips(cut)
            once = READ_SECONDS + self.window(value, inside[value]) * READ_BYTE_SECONDS
            seconds += calls * once
        return seconds


class _Walk:
    """One bottom-up pass over an order: slots, peaks and bytes alive at every product."""

    def __init__(
        self,
        frame: Frame,
        nests: Nests,
        inside: list[tuple[Cut, ...]],
        levels: list[int],
        buffer_bytes: int,
    ) -> None:
        self.frame = frame
        self.nests = nests
        self.inside = inside
        self.levels = levels
        self.buffer_bytes = buffer_bytes
        n_values = len(inside)
        self.peaks = [0] * n_values
        self.escapes: list[dict[int, list[_Item]]] = [{} for _ in range(n_values)]
        # Where each value is made: the reader whose slot it is in, bytes held there, and how
        # many of them are the result's.
        self.hosts: list[tuple[int, int, int]] = [(-1, 0, 0)] * n_values
        self.tops = [0] * n_values
        self.workspace = 0

    def space(self) -> Space:
        """Bytes needed by the whole order."""
        frame = self.frame
        for value in range(frame.n):
            if frame.stored[value]:
                self.peaks[value] = frame.size(value, self.inside[value])
            if value in frame.streamed:
                window = frame.window(value, self.inside[value])
                self.peaks[value] += min(window, self.buffer_bytes)
        for step in range(len(frame.steps)):
            self._produce(step)
        return Space(self.peaks[-1], self.workspace)

    def _produce(self, step: int) -> None:
        frame, value = self.frame, self.frame.n + step
        inside = self.inside[value]
        outer = len(inside) - len(self.nests.opens[step])
        waiting = self._waiting(step, inside)
        if outer:
            self.escapes[value] = {j: items for j, items in waiting.items() if j < outer}
        own = frame.size(value, inside[:outer])
        result = own if frame.parents[value] < 0 else 0
        held = peak = workspace = 0
        for depth in range(outer, len(inside) + 1):
            alone = held - result if depth > outer else held
            for item in _in_order(waiting.get(depth, ())):
                self.hosts[item.value] = (value, held, held - alone)
                peak = max(peak, held + item.peak)
                workspace = max(workspace, alone + item.peak)
                held += item.held
                alone += item.held
            if depth == outer:
                held += own
        held += self._temporary(step, inside)
        self.tops[value] = held
        self.peaks[value] = max(peak, held)
        self.workspace = max(workspace, held - result)

    def _waiting(self, step: int, inside: tuple[Cut, ...]) -> dict[int, list[_Item]]:
        frame = self.frame
        waiting: dict[int, list[_Item]] = {}
        for child in frame.steps[step]:
            if frame.stored[child]:
                level = self.levels[child]
                held = frame.size(child, inside[:level])
                waiting.setdefault(level, []).append(_Item(child, self.peaks[child], held))
            for level, items in self.escapes[child].items():
                waiting.setdefault(level, []).extend(items)
        return waiting

    def _temporary(self, step: int, inside: tuple[Cut, ...]) -> int:
        """Bytes of a contribution on its way into a value that is added up."""
        frame, value = self.frame, self.frame.n + step
        carried = frame.carried[value]
        if all(carried >> cut.index & 1 for cut in self.nests.opens[step]):
            return 0
        return min(self.buffer_bytes, frame.size(value, inside))

    def live(self) -> Iterator[tuple[int, int]]:
        """(peak, workspace) bytes alive at the product of every step, first step first."""
        n_values = len(self.inside)
        bases: list[tuple[int, int]] = [(0, 0)] * n_values
        root = n_values - 1
        for value in range(root - 1, -1, -1):
            host, held, result = self.hosts[value]
            if host >= 0:
                base, among = bases[host]
                bases[value] = (base + held, among + result)
        for value in range(self.frame.n, n_values):
            base, result = bases[value]
            top = base + self.tops[value]
            if value == root:
                result = self.frame.full[root]
            yield top, top - result


def _in_order(items: list[_Item] | tuple[()]) -> list[_Item] | tuple[()]:
    """Items of one slot in the order that needs least: by falling difference of peak and held."""
    if len(items) < 2:
        return items
    return sorted(items, key=lambda item: (item.held - item.peak, item.value))
