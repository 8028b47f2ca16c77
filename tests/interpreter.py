"""An interpreter of trees that knows sizes only, written from the execution model itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from einbound.plan.tree import Cut, Tree

Ranges = Mapping[int, int]


@dataclass
class Interpreter:
    """Runs a tree trip by trip on sizes: what is alive, what is multiplied.

    Slices have their largest size in every trip for bytes, their own for multiply-adds.

    Attributes:
        tree: The tree.
        itemsize: Bytes per element.
        buffer_bytes: Most that a contribution takes before it is added up.
        all_trips: Make every trip; False: the first of each loop, which is as good for bytes.
    """

    tree: Tree
    itemsize: int
    buffer_bytes: int = 0
    all_trips: bool = True
    live: int = 0
    peak: int = 0
    workspace: int = 0
    macs: int = 0
    calls: int = 0
    alive: dict[int, int] = field(default_factory=dict)

    def run(self) -> Interpreter:
        if self.tree.steps or self.tree.stored[0]:
            self.produce(self.tree.root, {})
        return self

    def allocate(self, value: int, around: tuple[Cut, ...]) -> None:
        widths = {cut.index: cut.width for cut in around}
        extents = self.tree.network.extents
        size = self.itemsize * prod(widths.get(i, extents[i]) for i in self.tree.carried[value])
        assert value not in self.alive, "a value is made once at a time"
        self.alive[value] = size
        self.live += size
        self.note(0)

    def note(self, temporary: int) -> None:
        self.peak = max(self.peak, self.live + temporary)
        result = self.alive.get(self.tree.root, 0)
        self.workspace = max(self.workspace, self.live - result + temporary)

    def free(self, value: int) -> None:
        self.live -= self.alive.pop(value)

    def due(self, value: int, level: int) -> list[int]:
        """Values below `value` that are made once `level` loops of its nest are open."""
        tree, found = self.tree, []
        for child in tree.children(value):
            if child < tree.n_operands:
                if tree.stored[child] and len(tree.inside[child]) == level:
                    found.append(child)
                continue
            if tree.level(child) == level:
                found.append(child)
            if level < len(tree.around(child)):
                found += self.due(child, level)
        return found

    def produce(self, value: int, ranges: Ranges) -> None:
        tree = self.tree
        if value < tree.n_operands:
            self.allocate(value, tree.inside[value])
            return
        around = tree.around(value)
        first = self.make(value, len(around), ranges)
        self.allocate(value, around)
        self.loop(value, len(around), ranges)
        for child in first:
            self.free(child)

    def make(self, value: int, level: int, ranges: Ranges) -> list[int]:
        """Makes what is due, in the order that needs least."""
        due = self.due(value, level)
        needs = {child: self.need(child) for child in due}
        for child in sorted(due, key=lambda c: (needs[c][1] - needs[c][0], c)):
            self.produce(child, ranges)
        return due

    def need(self, value: int) -> tuple[int, int]:
        """(peak, held) bytes of a production on its own."""
        alone = Interpreter(self.tree, self.itemsize, self.buffer_bytes, all_trips=False)
        alone.produce(value, {})
        return alone.peak, alone.live

    def loop(self, value: int, level: int, ranges: Ranges) -> None:
        inside = self.tree.inside[value]
        if level == len(inside):
            self.multiply(value, ranges)
            return
        cut = inside[level]
        for width in self.widths(cut):
            made = self.make(value, level + 1, {**ranges, cut.index: width})
            self.loop(value, level + 1, {**ranges, cut.index: width})
            for child in made:
                self.free(child)

    def widths(self, cut: Cut) -> list[int]:
        """Elements of each trip that is made."""
        extent = self.tree.network.extents[cut.index]
        starts = [*cut.edges[:-1]] if cut.edges else [*range(0, max(extent, 1), cut.width)]
        stops = [*starts[1:], extent]
        widths = [stop - start for start, stop in zip(starts, stops, strict=True)]
        return widths if self.all_trips else widths[:1]

    def multiply(self, value: int, ranges: Ranges) -> None:
        tree = self.tree
        left, right = tree.children(value)
        union = {*tree.carried[left], *tree.carried[right]}
        extents = tree.network.extents
        self.macs += prod(ranges.get(i, extents[i]) for i in union)
        self.calls += 1
        if tree.partial(value - tree.n_operands):
            widths = {cut.index: cut.width for cut in tree.inside[value]}
            slice_ = prod(widths.get(i, extents[i]) for i in tree.carried[value])
            self.note(min(self.buffer_bytes, self.itemsize * slice_))
