"""A forest with fewer multiply-adds: what is computed twice is shared, sums are factored.

Both together and greedily: of all shares and folds the one that saves most is made, until nothing
saves. What they save is known from the best orders of the products with and without the shared
parts, so that an order that is not a product's own best is taken where it is the cheaper one for
the forest. Memory is not looked at; where the values live, and whether at all, is decided by
placement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from einbound.forest.algebra import Algebra
from einbound.forest.factor import Fold, Folding
from einbound.forest.forest import Forest
from einbound.forest.parts import Cost, Prices
from einbound.forest.sharing import Share, Sharing
from einbound.forest.tidy import tidied
from einbound.forest.translation import algebra_of, forest_of, names_of


class Way(Enum):
    """How multiply-adds were saved."""

    SHARED = "shared"
    FOLDED = "folded"


@dataclass(frozen=True, slots=True)
class Gain:
    """One change of a forest.

    Attributes:
        way: What was done.
        values: The values that it made, as far as later changes left them.
        n_products: The products that it changed.
        macs: Multiply-adds saved in all evaluations.
        reads: Elements less that sums and copies of one tensor read; negative if more.
    """

    way: Way
    values: tuple[str, ...]
    n_products: int
    macs: int
    reads: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A forest, and what was done to make it.

    Attributes:
        forest: The result.
        gains: The changes, in order.
        before: Cost of all evaluations of the forest as it was given.
        after: Cost of all evaluations of the result.
    """

    forest: Forest
    gains: tuple[Gain, ...]
    before: Cost
    after: Cost


def optimised(forest: Forest, iterations: int = 1) -> Forest:
    """The forest with fewest multiply-adds that `rewritten` finds."""
    return rewritten(forest, iterations).forest


def rewritten(forest: Forest, iterations: int = 1, *, is_integral: bool = False) -> Rewritten:
    """The forest with shared values and folded sums, and an account of them.

    Each product stands for its best order. Work that no volatile tensor takes part in counts once
    and may become a value of its own that is kept; all other work counts `iterations` times.

    Args:
        forest: As planted, or any other.
        iterations: How often it is evaluated, at least 1.
        is_integral: It is evaluated in integers, so that 2 V T + 3 V B is not 2 V (T + 3/2 B).

    Law: the result computes the same, and its `after.macs` is at most `before.macs`
    (tests/test_sharing.py::test_a_rewritten_forest_computes_the_same).

    Example:
        V T + V B is V (T + B):

        >>> from einbound.expr.equations import Equation, Factor, System, Term
        >>> from einbound.forest.build import planted
        >>> terms = [Term(1, (Factor("V", ("i", "k")), Factor(x, ("k", "j")))) for x in "TB"]
        >>> system = System((Equation(Factor("R", ("i", "j")), tuple(terms)),), ("R",))
        >>> done = rewritten(planted(system, {name: (8, 8) for name in "VTB"}))
        >>> done.before, done.after, done.gains[0].values
        (Cost(macs=1024, reads=0), Cost(macs=512, reads=128), ('s1',))
    """
    given = algebra_of(forest)
    prices = Prices(given.registry, iterations)
    search = _Search(prices, Sharing(prices), Folding(prices), is_integral)
    before = prices.of(given)
    start = tidied(given)
    found = [search.run(start, first) for first in (_folds, _shares, _both)]
    best = min(found, key=lambda each: (prices.of(each.algebra).total, len(each.algebra.sums)))
    after = prices.of(best.algebra)
    if after.macs > before.macs or after.total >= before.total:
        return Rewritten(forest, (), before, before)
    names = names_of(best.algebra)
    gains = tuple(
        Gain(
            change.way,
            tuple(names[value] for value in change.values if value in names),
            change.n_products,
            change.saved.macs,
            change.saved.reads,
        )
        for change in best.changes
    )
    return Rewritten(forest_of(best.algebra, forest), gains, before, after)


_Candidate = Share | Fold


@dataclass(frozen=True, slots=True)
class _Change:
    way: Way
    values: tuple[int, ...]
    n_products: int
    saved: Cost


@dataclass(frozen=True, slots=True)
class _Run:
    algebra: Algebra
    changes: tuple[_Change, ...] = ()


@dataclass(frozen=True)
class _Search:
    prices: Prices
    sharing: Sharing
    folding: Folding
    is_integral: bool

    def run(self, algebra: Algebra, first: _Look) -> _Run:
        """What is left when nothing saves: what `first` looks at is done before anything else."""
        run = _Run(algebra)
        for look in (first, _both):
            while (better := self._better(run, look)) is not None:
                run = better
        return run

    def _better(self, run: _Run, look: _Look) -> _Run | None:
        """The forest after the change that saves most; None if none saves."""
        before = self.prices.of(run.algebra)
        ranked = sorted(look(self, run.algebra), key=lambda each: (-each.saving, each.order))
        for each in ranked:
            algebra = tidied(each.applied(run.algebra))
            if self.is_integral and not algebra.is_integral:
                continue
            after = self.prices.of(algebra)
            if after.macs <= before.macs and after.total < before.total:
                made = tuple(value for value in algebra.sums if value not in run.algebra.sums)
                saved = Cost(before.macs - after.macs, before.reads - after.reads)
                way = Way.SHARED if isinstance(each, Share) else Way.FOLDED
                change = _Change(way, made, each.n_products, saved)
                return _Run(algebra, (*run.changes, change))
        return None


_Look = Callable[[_Search, Algebra], Iterator[_Candidate]]


def _shares(search: _Search, algebra: Algebra) -> Iterator[_Candidate]:
    yield from search.sharing.shares(algebra)


def _folds(search: _Search, algebra: Algebra) -> Iterator[_Candidate]:
    yield from search.folding.folds(algebra)


def _both(search: _Search, algebra: Algebra) -> Iterator[_Candidate]:
    yield from _shares(search, algebra)
    yield from _folds(search, algebra)
