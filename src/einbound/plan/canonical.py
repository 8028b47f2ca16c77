"""Networks renumbered so that the order in which operands are given changes no plan.

Colours of operands are refined until they tell apart what can be told apart; what is left tied is
told apart by choice, and of all choices the one is taken whose network comes first in the order of
tuples. Nothing here searches plans.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias, TypeVar

from einbound.expr.network import Network
from einbound.plan.grid import Grid, Mode
from einbound.plan.ledger import Meter
from einbound.plan.masks import Steps
from einbound.plan.rules import Rules
from einbound.plan.tree import Cut, Tree

#: Ties of a network that are broken in all ways, at most: what may be left are networks of many
#: equal operands in unequal places.
_N_CHOSEN = 200

Key = TypeVar("Key", bound=Any)
#: The operands that an index stands on, with its place on each.
Places: TypeAlias = list[tuple[int, int]]


@dataclass(frozen=True)
class Canonical:
    """A network that is the same for every order of the operands, and the way back.

    Attributes:
        given: The network as it was given.
        operands: The given number of each operand, in canonical order.
    """

    given: Network
    operands: tuple[int, ...]

    @classmethod
    def of(
        cls, network: Network, rules: Rules, traits: Sequence[tuple[Hashable, ...]] = ()
    ) -> Canonical:
        """The canonical order of a network.

        Equal networks come out equal whatever the order of their operands, up to exchanges that
        change nothing, and so does all that is found for them. Not certain beyond 200 choices
        among operands that look alike, which only networks of many equal operands ask for.

        Args:
            network: The network.
            rules: What tells indices and operands apart besides their places.
            traits: What else tells operands apart, for each one; sortable.

        Law: one network for all orders (tests/test_canonical.py).
        """
        colours = _index_colours(network, rules.grid)
        keys = []
        for k, indices in enumerate(network.inputs):
            own = [colours[i] for i in indices]
            others = k in network.streamed, k in rules.volatile, traits[k] if traits else ()
            # As equations are mostly written, what bears the result's first indices comes first.
            keys.append((min(own, default=-1), own, others))
        ranks = _ranked(keys)
        if len({*ranks}) < len(ranks):
            return cls(network, _walked(network, _Choice(network, colours).order(ranks)))
        return cls(network, _walked(network, _sorted_by(ranks)))

    @cached_property
    def indices(self) -> tuple[int, ...]:
        """The given number of each index: canonical numbers rise as operands bring them in."""
        inputs, extents = self.given.inputs, self.given.extents
        rest = sorted(range(len(extents)), key=extents.__getitem__)
        return tuple(dict.fromkeys(chain(*(inputs[k] for k in self.operands), rest)))

    @property
    def is_given(self) -> bool:
        """Whether the network was given in its canonical order."""
        return _is_rising(self.operands) and _is_rising(self.indices)

    @cached_property
    def network(self) -> Network:
        """The network in canonical order."""
        given = self.given
        if self.is_given:
            return given
        numbers = _inverse(self.indices)
        places = _inverse(self.operands)
        return Network(
            tuple(given.labels[i] for i in self.indices),
            tuple(given.extents[i] for i in self.indices),
            tuple(tuple(numbers[i] for i in given.inputs[k]) for k in self.operands),
            tuple(numbers[i] for i in given.output),
            tuple(given.accesses[k] for k in self.operands) if given.accesses else (),
            frozenset(places[k] for k in given.streamed),
        )

    def rules(self, rules: Rules) -> Rules:
        """Rules of the given network for the canonical one."""
        if self.is_given:
            return rules
        places = _inverse(self.operands)
        modes = tuple(rules.grid.modes[i] for i in self.indices)
        volatile = frozenset(places[k] for k in rules.volatile)
        return replace(rules, grid=Grid(modes), volatile=volatile)

    def steps(self, steps: Steps) -> Steps:
        """An order of the given network for the canonical one."""
        return _renumbered(steps, _inverse(self.operands))

    def metering(self, meter: Meter) -> Meter:
        """A meter of trees of the given network for those of the canonical one."""
        if self.is_given:
            return meter
        return lambda tree, buffer_bytes: meter(self.restored(tree), buffer_bytes)

    def restored(self, tree: Tree) -> Tree:
        """A tree of the canonical network for the given one."""
        if self.is_given:
            return tree
        indices = self.indices
        opens = tuple(
            tuple([Cut(indices[cut.index], cut.width, cut.edges) for cut in nest])
            for nest in tree.opens
        )
        steps = _renumbered(tree.steps, dict(enumerate(self.operands)))
        return Tree(self.given, steps, opens, tree.levels)


class _Choice:
    """The search for the first of all networks that ties can be broken into.

    Attributes:
        network: The network.
        colours: Of each index, what tells it from others by itself.
    """

    def __init__(self, network: Network, colours: Sequence[int]) -> None:
        self.network = network
        self.colours = colours
        self._left = _N_CHOSEN
        self._places: list[Places] = [[] for _ in network.extents]
        for k, indices in enumerate(network.inputs):
            for place, i in enumerate(indices):
                self._places[i].append((k, place))
        self._best: tuple[tuple[tuple[int, ...], ...], tuple[int, ...], list[int]] | None = None

    def order(self, ranks: list[int]) -> tuple[int, ...]:
        """The operands in canonical order.

        Args:
            ranks: What is known of their order.
        """
        self._explore(self._refined(ranks, range(len(ranks))), [])
        assert self._best is not None, "the first choices lead to an order"
        return self._best[1]

    def _explore(self, ranks: list[int], chosen: list[int]) -> int:
        """Breaks all ties in all ways, but for those that are images of others.

        Returns:
            The number of choices from which on there is something new.
        """
        tied = _first_tie(ranks)
        while tied and self._left <= 0:
            ranks = self._apart(tied[0], tied, ranks)
            tied = _first_tie(ranks)
        if not tied:
            return self._compare(_sorted_by(ranks), chosen)
        depth = len(chosen)
        for k in tied:
            if self._best is not None and self._left <= 0:
                break
            self._left -= 1
            news = self._explore(self._apart(k, tied, ranks), [*chosen, k])
            if news < depth:
                return news
        return depth

    def _apart(self, chosen: int, tied: Sequence[int], ranks: Sequence[int]) -> list[int]:
        """The ranks with one operand after the others that it is tied with, and what follows."""
        split = [*ranks]
        split[chosen] += len(tied) - 1
        return self._refined(split, (chosen,))

    def _compare(self, order: tuple[int, ...], chosen: list[int]) -> int:
        numbers: dict[int, int] = {}
        inputs = tuple(
            tuple([numbers.setdefault(i, len(numbers)) for i in self.network.inputs[k]])
            for k in order
        )
        if self._best is None or inputs < self._best[0]:
            self._best = inputs, order, chosen
        elif inputs == self._best[0]:
            # An exchange that changes nothing takes the best choices to these, from the first one
            # in which they differ.
            pairs = zip(chosen, self._best[2], strict=False)
            return next((k for k, (a, b) in enumerate(pairs) if a != b), 0)
        return len(chosen)

    def _refined(self, ranks: Sequence[int], changed: Iterable[int]) -> list[int]:
        """The ranks with all told apart that stand in different places.

        Args:
            ranks: The ranks.
            changed: Operands whose ranks others have not been told yet.
        """
        ranks = [*ranks]
        while changed:
            around = _Around(self.colours, self._places, ranks)
            later: dict[int, int] = {}
            for members in self._tied_around(changed, ranks):
                keys = [[around[i] for i in self.network.inputs[k]] for k in members]
                for k, n_before in zip(members, _ranked(keys), strict=True):
                    if n_before:
                        later[k] = ranks[k] + n_before
            for k, rank in later.items():
                ranks[k] = rank
            changed = later
        return ranks

    def _tied_around(self, changed: Iterable[int], ranks: Sequence[int]) -> list[list[int]]:
        """Operands of one rank each, where some of them share an index with changed ones."""
        indices = {i for k in changed for i in self.network.inputs[k]}
        near = {ranks[k] for i in indices for k, _ in self._places[i]}
        alike: dict[int, list[int]] = {rank: [] for rank in near}
        for k, rank in enumerate(ranks):
            if rank in near:
                alike[rank].append(k)
        return [members for members in alike.values() if len(members) > 1]


class _Around(dict[int, tuple[Any, ...]]):
    """Where indices stand: what each is by itself, with the ranks of its operands and its places.

    Each is made once, so that equal ones are soon seen to be equal.
    """

    def __init__(
        self, colours: Sequence[int], places: Sequence[Places], ranks: Sequence[int]
    ) -> None:
        super().__init__()
        self._colours, self._places, self._ranks = colours, places, ranks

    def __missing__(self, i: int) -> tuple[Any, ...]:
        places = sorted([(self._ranks[k], place) for k, place in self._places[i]])
        self[i] = made = (self._colours[i], *places)
        return made


def _walked(network: Network, operands: Sequence[int]) -> tuple[int, ...]:
    """The same operands, each followed by its neighbours, as equations are mostly written."""
    readers: list[list[int]] = [[] for _ in network.extents]
    for k in operands:
        for i in network.inputs[k]:
            readers[i].append(k)
    walked: dict[int, None] = {}
    for start in operands:
        met = [start]
        for k in met:
            if k not in walked:
                walked[k] = None
                met += chain.from_iterable(readers[i] for i in network.inputs[k])
    return tuple(walked)


def _index_colours(network: Network, grid: Grid) -> list[int]:
    """What tells indices apart wherever they are: place on the result, extent, rules."""
    places, inside = {i: place for place, i in enumerate(network.output)}, len(network.output)
    return _ranked([(places.get(i, inside), *_facts(mode)) for i, mode in enumerate(grid.modes)])


def _facts(mode: Mode) -> tuple[Any, ...]:
    return mode.extent, mode.edges, mode.admitted, -1 if mode.target is None else mode.target


def _ranked(keys: Sequence[Key]) -> list[int]:
    """For each key, how many lie before it."""
    order = sorted(range(len(keys)), key=keys.__getitem__)
    ranks, before = [0] * len(keys), -1
    for number, k in enumerate(order):
        is_new = before < 0 or keys[k] != keys[before]
        ranks[k] = number if is_new else ranks[before]
        before = k
    return ranks


def _sorted_by(ranks: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(ranks)), key=ranks.__getitem__))


def _first_tie(ranks: Sequence[int]) -> list[int]:
    """The operands of the first rank that several have."""
    seen: dict[int, list[int]] = {}
    for k, rank in enumerate(ranks):
        seen.setdefault(rank, []).append(k)
    tied = [rank for rank, alike in seen.items() if len(alike) > 1]
    return seen[min(tied)] if tied else []


def _renumbered(steps: Steps, operands: Mapping[int, int]) -> Steps:
    """Steps with other numbers of operands; which half stands left stays as it is."""
    return tuple((operands.get(a, a), operands.get(b, b)) for a, b in steps)


def _inverse(numbers: Sequence[int]) -> dict[int, int]:
    return {number: place for place, number in enumerate(numbers)}


def _is_rising(numbers: Iterable[int]) -> bool:
    return all(number == place for place, number in enumerate(numbers))
