"""What an exact search is about: a network, loops to choose from, and what is admitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from einbound.expr.network import Network
from einbound.plan.chains import Chain, Chains
from einbound.plan.labels import Label, Made
from einbound.plan.masks import Steps, Terms, bits, mask_of
from einbound.plan.splits import Split, Splits, subset_masks
from einbound.plan.tree import Cut, Tree


@dataclass(frozen=True, slots=True)
class Instant:
    """One product while it runs, as prices see it; masks of indices.

    Attributes:
        left: What one half carries.
        right: What the other half carries.
        value: What the product carries.
        around: The loops around the whole production of the value, outermost first.
        opens: The loops it opens itself, outermost first.
        halves: The operands below each half, as masks of operands.
        evaluations: How often it counts: once, or with every evaluation.
    """

    left: int
    right: int
    value: int
    around: tuple[Cut, ...]
    opens: tuple[Cut, ...]
    halves: tuple[int, int]
    evaluations: int


#: Bytes that one product needs beside its operands and its value. They may depend on which loops
#: there are, not on their order.
Temporary = Callable[[Instant], int]


@dataclass(frozen=True, slots=True)
class Toll:
    """What decides between plans of equal multiply-adds: the least of it, summed over products.

    Attributes:
        price: Of one product, all its trips together, in all evaluations if these matter. It
            depends on the order of loops at most through where a streamed operand is read. No
            loop lowers it: a plan of the fewest multiply-adds without loops is taken to have the
            least.
        most: What a price is at most; a larger one counts as this. 0: there is no price, and the
            lowest peak decides.
    """

    price: Callable[[Instant], int]
    most: int


#: No toll: of the plans with the fewest multiply-adds the lowest one.
LOWEST = Toll(lambda _: 0, 0)


@dataclass(frozen=True)
class Problem:
    """What is searched: a network, the loops to choose from, and what is admitted.

    Attributes:
        network: Two to `splits.N_OPERANDS` operands.
        itemsize: Bytes per element.
        options: The loops to choose from; several widths of one index are different loops.
        connected: Leave out products of parts that share no index, if that is possible.
        temporary: Price of what a product needs for itself; None: nothing.
        toll: What decides between plans of equal multiply-adds; None: the number of products.
        volatile: The operands that change with every evaluation.
        iterations: Evaluations in all. A value without a volatile operand below that is made
            outside all loops, and all that is made for it, counts once; everything else counts
            with every evaluation.
        persistent_only: No loops at values with a volatile operand below.
        streamed: The operands that are read slice by slice, as far out as their indices allow. A
            slice is held, and while it is made it is there a second time. Those of the network are
            read in blocks as small as need be, so that of them only what is held counts.
        order: The only order that is admitted; None: every one.
        counts_result: Whether the result takes bytes; else all else is counted without it.
    """

    network: Network
    itemsize: int
    options: tuple[Cut, ...]
    connected: bool = False
    temporary: Temporary | None = None
    toll: Toll | None = None
    volatile: frozenset[int] = frozenset()
    iterations: int = 1
    persistent_only: bool = False
    streamed: frozenset[int] = frozenset()
    order: Steps | None = None
    counts_result: bool = True

    @cached_property
    def terms(self) -> Terms:
        """The network as masks."""
        return Terms.of(self.network)

    @cached_property
    def changing(self) -> int:
        """The volatile operands, as a mask of operands."""
        return mask_of(self.volatile)

    @cached_property
    def views(self) -> int:
        """The operands that are read as they are, as a mask of operands."""
        pairs = zip(self.network.inputs, self.terms.masks, strict=True)
        whole = sum(1 << k for k, (ix, mask) in enumerate(pairs) if mask.bit_count() == len(ix))
        return whole & ~mask_of(self.streamed | self.network.streamed)

    @cached_property
    def pinned(self) -> tuple[int, ...]:
        """The indices of each operand that is made in one place: summed first, or streamed."""
        return tuple(m for k, m in enumerate(self.terms.masks) if not self.views >> k & 1)

    @cached_property
    def chains(self) -> Chains:
        """The chains of its loops; those of a single trip bring nothing and are left out.

        Where an operand is summed first they can bring something: it is made inside.
        """
        extents, used = self.network.extents, 0
        for mask in self.terms.masks:
            used |= mask
        cuts = [
            cut
            for cut in self.options
            if used >> cut.index & 1 and (cut.width < extents[cut.index] or self.pinned)
        ]
        repeats = self.iterations if self.changing else 1
        most = None if self.toll is None else (len(self.network.inputs) - 1) * self.toll.most
        return Chains(self.network, self.itemsize, cuts, most, repeats)

    @cached_property
    def splits(self) -> Splits:
        """The tables of its subsets."""
        terms, root = self.terms, self.chains.root
        _, carried = subset_masks(terms)
        n_bytes = np.array([float(root.least[mask]) for mask in carried.tolist()])
        n_bytes[[1 << k for k in bits(self.views)]] = 0.0
        n_bytes[-1] = float(root.sizes[int(carried[-1])]) if self.counts_result else 0.0
        weights = None
        if self.changing and self.iterations > 1:
            subsets = np.arange(len(n_bytes))
            weights = np.where(subsets & self.changing, float(self.iterations), 1.0)
        return Splits(terms, n_bytes, weights, connected=self.connected, order=self.order)

    def is_view(self, subset: int) -> bool:
        """Whether a subset is one operand that is read as it is."""
        return not subset & (subset - 1) and bool(subset & self.views)

    def read(self, operand: int, chain: Chain) -> Label:
        """The label of an operand that is made inside a chain."""
        number = operand.bit_length() - 1
        peak = chain.sizes[self.terms.masks[number]]
        if number in self.streamed:
            peak += chain.sizes[mask_of(self.network.inputs[number])]
        return Label(0, peak, 0, (), None)

    @cached_property
    def _prices(self) -> dict[tuple[int, int, int, int, int], tuple[int, int]]:
        return {}

    def prices(
        self, split: Split, inside: Chain, n_around: int, evaluations: int
    ) -> tuple[int, int]:
        """The temporary bytes and the toll of a product.

        Args:
            split: The halves.
            inside: All loops around the product.
            n_around: How many of these are around the whole production of its value.
            evaluations: How often it counts.
        """
        key = split.left, split.right, inside.number, n_around, evaluations
        prices = self._prices.get(key)
        if prices is None:
            carried, (left, right) = self.splits.carried, (split.left, split.right)
            masks = carried[left], carried[right], carried[left | right]
            cuts = tuple(self.chains.cuts[k] for k in inside.numbers)
            instant = Instant(*masks, cuts[:n_around], cuts[n_around:], (left, right), evaluations)
            n_bytes = 0 if self.temporary is None else self.temporary(instant)
            toll = 0 if self.toll is None else min(self.toll.price(instant), self.toll.most)
            prices = self._prices[key] = n_bytes, toll
        return prices

    def forget(self) -> None:
        """Lets go of what runs have left for each other, which takes far more than what it is for.

        The tables of subsets stay, and so do labels.
        """
        self.chains.forget()
        self._prices.clear()

    def tree(self, label: Label) -> Tree:
        """The tree of a label of all operands."""
        nodes = _Nodes([], [], [])
        self._add((1 << len(self.network.inputs)) - 1, label.made, self.chains.root, nodes)
        parts = tuple(nodes.steps), tuple(nodes.opens), tuple(nodes.levels)
        return Tree(self.network, *parts).check()

    def _add(self, subset: int, made: Made | None, around: Chain, nodes: _Nodes) -> int:
        """The number of a value whose products were added, the ones below it first."""
        if made is None:
            return subset.bit_length() - 1
        inside = around
        groups = [made.opens] if made.grouped else [(number,) for number in made.opens]
        for group in groups if made.opens else []:
            inside = inside.plus_group(group)
        pair = (made.left, subset ^ made.left)
        parts = zip(pair, made.parts, made.levels, strict=True)
        values = [
            self._add(half, part.made, inside.prefix(level), nodes) for half, part, level in parts
        ]
        nodes.steps.append((min(values), max(values)))
        nodes.opens.append(tuple(self.chains.cuts[k] for k in made.opens))
        nodes.levels.append(len(around.numbers))
        return len(self.network.inputs) + len(nodes.steps) - 1


class _Nodes(NamedTuple):
    """The products of a tree, as far as they are known."""

    steps: list[tuple[int, int]]
    opens: list[tuple[Cut, ...]]
    levels: list[int]


def options_of(network: Network, counts: dict[int, Iterable[int]]) -> tuple[Cut, ...]:
    """The loops that cut indices into given numbers of balanced slices.

    Args:
        network: What is contracted.
        counts: For each index that may be cut, the numbers of trips to choose from.
    """
    return tuple(
        dict.fromkeys(
            Cut(i, max(-(-network.extents[i] // n_trips), 1))
            for i, numbers in counts.items()
            for n_trips in numbers
        )
    )
