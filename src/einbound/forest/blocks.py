"""How a forest runs: its productions in order, some of them together inside loops.

The loops of single productions are in their trees. A loop here is common to several productions,
so that a value may live for one trip only. Records; where they come from is in `planner`, what
they become in `lower`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from einbound.forest.forest import Forest
from einbound.plan.tree import Tree


@dataclass(frozen=True)
class Member:
    """One production, with the plan of what it does inside the loops around it.

    Attributes:
        production: Its number.
        tree: The plan of its network in which every index that a loop around it cuts is as wide as
            the widest trip.
    """

    production: int
    tree: Tree


@dataclass(frozen=True)
class Together:
    """One loop around several productions.

    A value made inside whose axis the loop cuts lives for one trip if all its readers are inside
    too; else its trips are scattered. A value that a production sums over the loop's index is
    complete only behind the loop, and nothing inside reads it.

    Attributes:
        number: The loop's identity in the forest.
        label: What the index is called in reports.
        extent: Elements of the index.
        width: Elements of the widest trip.
        edges: As in `Cut`: where trips start, and the extent, if they are not all of `width`.
        cuts: For each production inside, the index of its network that is cut, as a pair
            (production, index).
        body: What a trip does.
    """

    number: int
    label: str
    extent: int
    width: int
    edges: tuple[int, ...]
    cuts: tuple[tuple[int, int], ...]
    body: Block


Item: TypeAlias = Member | Together
Block: TypeAlias = tuple[Item, ...]


@dataclass(frozen=True)
class ForestPlan:
    """A forest with everything decided.

    Attributes:
        forest: What is computed. Values that a placement computes in line are gone from it.
        block: What runs, in order.
        kept: Values that stay alive from one evaluation to the next.
    """

    forest: Forest
    block: Block
    kept: frozenset[int] = frozenset()

    def is_result(self, value: int) -> bool:
        """Whether a value outlives the run."""
        return value in self.kept or value in self.forest.targets

    def lives(self, block: Block, here: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
        """For each item of a block, the values that begin before it and those that end behind it.

        Args:
            block: Items inside the same common loops.
            here: The numbers of these, outermost first.
        """
        touched = [self._touched(item) for item in block]
        lives: list[tuple[list[int], list[int]]] = [([], []) for _ in block]
        for value, home in self.homes.items():
            items = [n for n, values in enumerate(touched) if value in values]
            if home == here and items:
                lives[items[0]][0].append(value)
                if not self.is_result(value):
                    lives[items[-1]][1].append(value)
        return lives

    def _touched(self, item: Item) -> set[int]:
        """The values that the productions of an item read or write."""
        made = [self.forest.productions[member.production] for member in members((item,))]
        return {value for each in made for value in (each.into, *each.operands)}

    @cached_property
    def homes(self) -> dict[int, tuple[int, ...]]:
        """For each value that is made, the numbers of the common loops in which it lives.

        These are the loops around all that make or read it, as far as none adds up in it: a sum
        over a loop's trips lives outside of it.
        """
        paths = dict(_paths(self.block, ()))
        homes = {}
        for value, makers in self.forest.producers.items():
            users = [*makers, *self.forest.readers.get(value, ())]
            home = [] if self.is_result(value) else list(paths[makers[0]])
            for number, loop in enumerate(home):
                inside = all(loop in paths[user][number : number + 1] for user in users)
                if not inside or any(self._sums(loop, maker) for maker in makers):
                    del home[number:]
                    break
            homes[value] = tuple(loop.number for loop in home)
        return homes

    def _sums(self, loop: Together, maker: int) -> bool:
        return dict(loop.cuts)[maker] not in self.forest.productions[maker].network.output


def members(block: Block) -> Iterator[Member]:
    """All productions of a block, in order."""
    for item in block:
        if isinstance(item, Member):
            yield item
        else:
            yield from members(item.body)


def _paths(
    block: Block, around: tuple[Together, ...]
) -> Iterator[tuple[int, tuple[Together, ...]]]:
    """Each production with the common loops around it, outermost first."""
    for item in block:
        if isinstance(item, Member):
            yield item.production, around
        else:
            yield from _paths(item.body, (*around, item))
