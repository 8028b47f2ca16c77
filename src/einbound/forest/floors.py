"""Multiply-adds that no plan of a forest is below, given where some of its values live."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations

from einbound.expr.network import Network
from einbound.forest.drafts import Placements
from einbound.forest.forest import Forest
from einbound.forest.inline import expansions, inlined
from einbound.plan.model import Count
from einbound.plan.order import N_EXACT, first_order
from einbound.plan.tree import Tree

#: Operands up to which a product with values in line is priced; longer ones count nothing.
_MOST_OPERANDS = 6
#: Undecided values below one product up to which all ways to compute them in line are compared.
_MOST_OPEN = 4


@dataclass
class Floors:
    """Bounds for one forest.

    Attributes:
        forest: The forest.
        iterations: Evaluations in all.
    """

    forest: Forest
    iterations: int
    _rests: dict[frozenset[int], tuple[Forest, dict[int, int]]] = field(default_factory=dict)
    _least: dict[tuple[frozenset[int], int, frozenset[int]], int] = field(default_factory=dict)

    def macs(self, so_far: Placements, undecided: frozenset[int], frontier: frozenset[int]) -> int:
        """Multiply-adds in all evaluations.

        Each product counts as in its best order without loops. Where a value that it reads is
        not decided, it counts as the cheaper of reading it and of computing it, and what makes
        that value counts nothing.

        Args:
            so_far: What is decided.
            undecided: Values of which nothing is.
            frontier: Values that can be kept.
        """
        forest, number = self._rest(so_far.inline)
        left = frozenset(number[value] for value in undecided)
        once = self._once(forest, {number[v] for v in frontier & (so_far.kept | undecided)})
        total = 0
        for each in forest.productions:
            if each.into in left:
                continue
            least = self._product(so_far.inline, forest, each.number, left)
            total += least * (1 if each.number in once else self.iterations)
        return total

    def _rest(self, inline: frozenset[int]) -> tuple[Forest, dict[int, int]]:
        if inline not in self._rests:
            kept = [v.number for v in self.forest.values if v.number not in inline]
            number = {value: n for n, value in enumerate(kept)}
            self._rests[inline] = inlined(self.forest, inline), number
        return self._rests[inline]

    def _once(self, forest: Forest, kept: set[int]) -> set[int]:
        """The productions that need not run again if some values are kept."""
        needed = set(forest.targets)
        again = set()
        for each in reversed(forest.productions):
            if each.into in needed and each.into not in kept:
                needed.update(each.operands)
                again.add(each.number)
        return {each.number for each in forest.productions} - again

    def _product(
        self, inline: frozenset[int], forest: Forest, number: int, undecided: frozenset[int]
    ) -> int:
        """The fewest multiply-adds of a product and of all that may be computed inside of it."""
        near = self._below(forest, number, undecided)
        key = inline, number, near
        if key not in self._least:
            self._least[key] = self._cheapest(forest, number, near)
        return self._least[key]

    def _cheapest(self, forest: Forest, number: int, near: frozenset[int]) -> int:
        if len(near) > _MOST_OPEN:
            return 0
        return min(
            sum(
                fewest_macs(network)
                for network in expansions(forest, number, chosen)
                if not chosen or len(network.inputs) <= _MOST_OPERANDS
            )
            for n in range(len(near) + 1)
            for chosen in combinations(sorted(near), n)
        )

    def _below(self, forest: Forest, number: int, undecided: frozenset[int]) -> frozenset[int]:
        """The undecided values from which a product is made through undecided values only."""
        found: set[int] = set()
        todo = list(forest.productions[number].operands)
        while todo:
            value = todo.pop()
            if value in undecided and value not in found:
                found.add(value)
                for maker in forest.producers[value]:
                    todo += forest.productions[maker].operands
        return frozenset(found)


def fewest_macs(network: Network) -> int:
    """The multiply-adds of the best order of a product; 0 where only a good one is known."""
    labels: tuple[Hashable, ...] = tuple(range(len(network.labels)))
    return _fewest(replace(network, labels=labels))


@lru_cache(maxsize=4096)
def _fewest(network: Network) -> int:
    if not 1 < len(network.inputs) <= N_EXACT:
        return 0
    return Count(Tree.plain(network, first_order(network)), 1).macs
