"""Trees and widths for a sequence of parts: each as good as the room that is left there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from einbound.forest.blocks import Block, ForestPlan, Item, Member, Together
from einbound.forest.forest import Forest, Production
from einbound.forest.fusion import Part
from einbound.forest.tools import Grown, Tools
from einbound.plan.grid import Mode, cut_of
from einbound.plan.price import Limit
from einbound.plan.tree import Tree


@dataclass(frozen=True, slots=True)
class Furnished:
    """A block with all trees and widths, as far as is known before it is metered.

    Attributes:
        block: What runs.
        over_bytes: Bytes by which it passes its room, at most.
        excess_bytes: The same, of all productions together: it tells how much is in the way
            where one place alone decides what `over_bytes` is.
        macs: Multiply-adds, roughly where trips are uneven.
        spare_bytes: What all productions leave of their rooms; None: there is no limit.
        blamed: Values that are alive where it passes its room.
    """

    block: Block
    over_bytes: int
    excess_bytes: int
    macs: int
    spare_bytes: int | None = None
    blamed: frozenset[int] = frozenset()

    @property
    def rank(self) -> tuple[int, int]:
        """What blocks of the same productions are compared by."""
        return self.excess_bytes, self.macs


def furnished(forest: Forest, parts: tuple[Part, ...], limit: Limit, tools: Tools) -> Furnished:
    """A plan of parts in their order, within a limit wherever that is possible.

    Args:
        forest: What is computed.
        parts: All its productions, in an order that can run.
        limit: Bytes beside the leaves.
        tools: Plans of single productions.
    """
    return _Rooms(forest, limit, tools, parts).block()


def held_bytes(forest: Forest, parts: tuple[Part, ...], limit: Limit, tools: Tools) -> int:
    """Bytes by which values alone pass a limit, of all productions together.

    No plan of these parts in their order has a smaller `excess_bytes`: trees come on top, and
    wider trips hold more.
    """
    rooms = _Rooms(forest, limit, tools, parts)
    return rooms.held(rooms.bare.block, (), Alive(0, 0))


def trips_of(loop: Together) -> int:
    """Number of trips of a common loop."""
    return len(loop.edges) - 1 if loop.edges else -(-loop.extent // max(loop.width, 1))


@dataclass(frozen=True)
class _Rooms:
    forest: Forest
    limit: Limit
    tools: Tools
    parts: tuple[Part, ...]

    def block(self) -> Furnished:
        """Everything planned."""
        return self._filled(self.bare.block, (), Alive(0, 0))

    @cached_property
    def bare(self) -> ForestPlan:
        """The parts as a plan without trees and widths: it tells where values live."""
        return ForestPlan(
            self.forest,
            tuple(self._bare(self.parts, iter(range(len(self.forest.productions) * 2)))),
        )

    def _bare(self, parts: tuple[Part, ...], numbers: Iterator[int]) -> Iterator[Item]:
        for part in parts:
            if isinstance(part, int):
                yield Member(part, Tree.plain(self.forest.productions[part].network, ()))
                continue
            number = next(numbers)
            production, index = part.loop.cuts[0]
            network = self.forest.productions[production].network
            body = tuple(self._bare(part.body, numbers))
            extent = network.extents[index]
            label = str(network.labels[index])
            yield Together(number, label, extent, extent, (), part.loop.cuts, body)

    def _filled(self, block: Block, around: tuple[Together, ...], alive: Alive) -> Furnished:
        """A block with trees and widths.

        Args:
            block: Without these.
            around: The loops that are open, as wide as they are.
            alive: What lives outside of the block while it runs.
        """
        lives = self.bare.lives(block, tuple(loop.number for loop in around))
        items: list[Item] = []
        over = excess = macs = 0
        spare: int | None = None
        blamed, here = set[int](), set[int]()
        for item, (begin, end) in zip(block, lives, strict=True):
            for value in begin:
                alive = alive.plus(self._bytes(value, around), self.bare.is_result(value))
            here.update(begin)
            made = self._item(item, around, alive)
            items += made.block
            if made.over_bytes > 0:
                blamed |= here | made.blamed
            here.difference_update(end)
            over = max(over, made.over_bytes)
            excess, macs = excess + made.excess_bytes, macs + made.macs
            left = (spare, made.spare_bytes)
            spare = min((each for each in left if each is not None), default=None)
            for value in end:
                alive = alive.plus(-self._bytes(value, around), self.bare.is_result(value))
        return Furnished(tuple(items), over, excess, macs, spare, frozenset(blamed))

    def _item(self, item: Item, around: tuple[Together, ...], alive: Alive) -> Furnished:
        if isinstance(item, Together):
            return self._together(item, around, alive)
        production = self.forest.productions[item.production]
        room = alive.room(self.limit)
        grown = self._grown(production, around, room)
        macs = grown.macs * prod(trips_of(loop) for loop in around)
        block = (replace(item, tree=grown.tree),)
        if room is None:
            return Furnished(block, 0, 0, macs)
        over = max(grown.workspace_bytes - room, 0)
        return Furnished(block, over, over, macs, max(room - grown.workspace_bytes, 0))

    def _grown(
        self, production: Production, around: tuple[Together, ...], room: int | None
    ) -> Grown:
        network = production.network
        if around:
            extents = list(network.extents)
            for loop in around:
                extents[dict(loop.cuts)[production.number]] = loop.width
            network = replace(network, extents=tuple(extents))
        return self.tools.grow(self.forest, production, network, room and max(room, 0))

    def _together(self, item: Together, around: tuple[Together, ...], alive: Alive) -> Furnished:
        """A common loop in the fewest trips that fit, or else in the most."""
        loops = list(self._widths(item))
        # Trees come on top of what values take, so wider trips need not be planned.
        narrow = len(loops) - 1
        wide = next(
            n
            for n, loop in enumerate(loops)
            if n == narrow or not self.held(item.body, (*around, loop), alive)
        )
        best = self._looped(item, loops[wide], around, alive)
        if best.over_bytes == 0 or wide == narrow:
            return best
        best = min(best, self._looped(item, loops[narrow], around, alive), key=_rank)
        while best.over_bytes == 0 and narrow - wide > 1:
            middle = (wide + narrow) // 2
            made = self._looped(item, loops[middle], around, alive)
            if made.over_bytes == 0:
                best, narrow = made, middle
            else:
                wide = middle
        return best

    def _looped(
        self, item: Together, loop: Together, around: tuple[Together, ...], alive: Alive
    ) -> Furnished:
        made = self._filled(item.body, (*around, loop), alive)
        return replace(made, block=(replace(loop, body=made.block),))

    def held(self, block: Block, around: tuple[Together, ...], alive: Alive) -> int:
        """Bytes by which the values alone that are alive in a block pass the limit, cut finest."""
        lives = self.bare.lives(block, tuple(loop.number for loop in around))
        over = 0
        for item, (begin, end) in zip(block, lives, strict=True):
            for value in begin:
                alive = alive.plus(self._bytes(value, around), self.bare.is_result(value))
            if isinstance(item, Together):
                finest = list(self._widths(item))[-1]
                over += self.held(item.body, (*around, finest), alive)
            else:
                over += max(-(alive.room(self.limit) or 0), 0)
            for value in end:
                alive = alive.plus(-self._bytes(value, around), self.bare.is_result(value))
        return over

    def _widths(self, item: Together) -> Iterator[Together]:
        """The loop in more and more trips."""
        mode = common_mode(self.forest, item.cuts, self.tools)
        assert mode is not None, "a loop that is not admitted is not opened"
        targets = _targets(mode)
        for width in dict.fromkeys(targets):
            cut = cut_of(0, mode.extent, mode.edges, width)
            yield replace(item, width=cut.width, edges=cut.edges)

    def _bytes(self, value: int, around: tuple[Together, ...]) -> int:
        """Bytes of the cell of a value, whose home are all of the loops around."""
        shape = list(self.forest.values[value].shape)
        maker = self.forest.producers[value][0]
        output = self.forest.productions[maker].network.output
        for loop in around:
            index = dict(loop.cuts)[maker]
            if index in output:
                shape[output.index(index)] = loop.width
        return self.tools.itemsize * prod(shape)


def _rank(made: Furnished) -> tuple[int, int]:
    return made.rank


def _targets(mode: Mode) -> Iterator[int]:
    """Elements per trip to try, many first."""
    if mode.target is not None:
        yield mode.target
        return
    n_trips = 2
    while n_trips < mode.extent:
        yield -(-mode.extent // n_trips)
        n_trips += max(n_trips // 2, 1)
    yield 1


@dataclass(frozen=True, slots=True)
class Alive:
    """Bytes of values that are alive.

    Attributes:
        stored: Of those that are not returned.
        results: Of those that are.
    """

    stored: int
    results: int

    def plus(self, n_bytes: int, is_result: bool) -> Alive:
        """The same with one more value."""
        if is_result:
            return Alive(self.stored, self.results + n_bytes)
        return Alive(self.stored + n_bytes, self.results)

    def room(self, limit: Limit) -> int | None:
        """Bytes that a limit leaves; below 0 where it is passed; None: any number."""
        rooms = []
        if limit.peak_bytes is not None:
            rooms.append(limit.peak_bytes - self.stored - self.results)
        if limit.workspace_bytes is not None:
            rooms.append(limit.workspace_bytes - self.stored)
        return min(rooms, default=None)


def common_mode(forest: Forest, cuts: tuple[tuple[int, int], ...], tools: Tools) -> Mode | None:
    """How an index that several productions share may be cut; None: one of them refuses.

    Targets are upper bounds, so the least of all holds; tiles must be the same.
    """
    modes = []
    for number, index in cuts:
        production = forest.productions[number]
        rules = tools.rules(forest, production)
        changes = any(forest.values[value].volatile for value in production.operands)
        if rules.persistent_only and changes:
            return None
        modes.append(rules.grid.modes[index])
    if not all(mode.admitted for mode in modes) or len({mode.edges for mode in modes}) > 1:
        return None
    targets = [mode.target for mode in modes if mode.target is not None]
    return replace(modes[0], target=min(targets, default=None))
