"""Problems of search: a tree, scores of its leaves, bounds that hold, an incumbent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any

from hypothesis import strategies as st

from einbound.space import Path, Tree
from space_trees import Say, Spec, Steps, grown, reached, specs

#: Scores and bounds; halves are exact.
Number = int | float


@dataclass(frozen=True)
class Problem:
    """A search problem with the answer at hand, for the definition is short.

    Attributes:
        spec: What the tree is.
        prices: The score of a payload; None: it has none. Numbers past the end start over.
        slacks: By how much the bound of a node stays below the least score; None: no opinion.
        incumbent: What a score must be below.
    """

    spec: Spec
    prices: tuple[Number | None, ...]
    slacks: tuple[Number | None, ...]
    incumbent: Number | None

    @property
    def tree(self) -> Tree[int, int]:
        """The tree, fresh, everything below its root lazy."""
        return grown(self.spec).tree

    def score(self, payload: int) -> Number | None:
        """The price of a payload."""
        return self.prices[payload % len(self.prices)]

    def bound(self, path: Path[int], subtree: Tree[int, int]) -> Number | None:
        """A number that is at most every score below, or None."""
        place = sum((n + 1) * (decision + 1) for n, (_, decision) in enumerate(path))
        slack = self.slacks[place % len(self.slacks)]
        below = [price for steps, price in self.priced if steps[: len(path)] == path]
        if slack is None:
            return None
        return min(below, default=float("inf")) - slack

    @cached_property
    def priced(self) -> tuple[tuple[Steps, Number], ...]:
        """The path and the score of every leaf in reach that has one, in their order."""
        leaves = [
            (path, self.score(node.payload))
            for path, node in reached(self.spec)
            if isinstance(node, Spec) and node.payload is not None
        ]
        return tuple((path, price) for path, price in leaves if price is not None)

    def winner(self) -> tuple[Steps | None, Number | None]:
        """The first of the leaves of the least score, if that is below the incumbent."""
        found: tuple[Steps | None, Number | None] = (None, None)
        least = float("inf") if self.incumbent is None else self.incumbent
        for path, price in self.priced:
            if price < least:
                found, least = (path, price), price
        return found

    def asked(self, **changes: Any) -> dict[str, Any]:
        """The arguments of a search."""
        given = {"score": self.score, "bound": self.bound, "incumbent": self.incumbent}
        return {"tree": self.tree, **given, **changes}


def numbers(low: int, high: int) -> st.SearchStrategy[Number]:
    return st.integers(low, high) | st.integers(2 * low, 2 * high).map(lambda n: n / 2)


@st.composite
def wide_specs(draw: st.DrawFn) -> Spec:
    """Trees that branch at the root, since a leaf alone is little to search."""
    ways = st.builds(Say, st.sampled_from(["child", "child", "unknown"]), below=specs(3))
    wide = Spec("root", tuple(draw(st.lists(ways, min_size=2, max_size=3))))
    numbers = count()

    def numbered(spec: Spec) -> Spec:
        if spec.payload is not None:
            return replace(spec, payload=next(numbers))
        return replace(spec, ways=tuple(renewed(say) for say in spec.ways))

    def renewed(say: Say) -> Say:
        if say.below is None:
            return say
        below = numbered(say.below) if isinstance(say.below, Spec) else renewed(say.below)
        return replace(say, below=below)

    return numbered(wide)


def problems() -> st.SearchStrategy[Problem]:
    """Problems of up to some dozens of leaves, ties likely."""
    prices = st.lists(st.none() | numbers(-3, 6), min_size=3, max_size=12).map(tuple)
    # Few exact bounds and low incumbents, or else little would be left to do.
    slacks = st.lists(st.none() | numbers(0, 4), min_size=3, max_size=9).map(tuple)
    incumbents = st.none() | numbers(2, 9)
    return st.builds(Problem, wide_specs(), prices, slacks, incumbents)
