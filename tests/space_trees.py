"""Hypothesis strategies for trees of decisions with all four verdicts.

A `Spec` says what a tree is; `grown` makes the tree, lazily, and counts what was made. Laws compare
the library with short recursive definitions on the spec.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from hypothesis import strategies as st

from einbound.space.tree import Child, Choice, Excluded, Judged, Leaf, Refuted, Tree, Unknown

#: Decisions of one choice are numbers from 0; payloads are numbers, all different.
Steps: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Say:
    """A verdict: its kind ("child", "unknown", "excluded" or "refuted"), and what it holds."""

    kind: str
    witness: str = ""
    below: Spec | Say | None = None


@dataclass(frozen=True)
class Spec:
    """A tree: a payload at a leaf, otherwise a level and the verdicts of decisions 0, 1, ..."""

    level: str
    ways: tuple[Say, ...] = ()
    payload: int | None = None


@dataclass
class Grown:
    """A tree, and how often each part of it was made.

    Attributes:
        tree: What was grown.
        made: Number of calls, by the path to what the callable made; what an exclusion hides has
            one more step, ("lifted", 0), or 1 and so on for exclusions in exclusions.
    """

    tree: Tree[int, int]
    made: Counter[Steps] = field(default_factory=Counter)


def grown(spec: Spec) -> Grown:
    """The tree of a spec, everything below its root lazy."""
    result = Grown(Leaf(0))

    def tree(spec: Spec, path: Steps) -> Tree[int, int]:
        if spec.payload is not None:
            return Leaf(spec.payload)
        steps = [(*path, (spec.level, decision)) for decision in range(len(spec.ways))]
        ways = zip(spec.ways, steps, strict=True)
        return Choice(spec.level, tuple((step[-1][1], judged(way, step)) for way, step in ways))

    def lazily(below: Spec, path: Steps) -> Callable[[], Tree[int, int]]:
        def make() -> Tree[int, int]:
            result.made[path] += 1
            return tree(below, path)

        return make

    def hidden(say: Say, path: Steps, nth: int) -> Callable[[], Judged[int, int]]:
        def make() -> Judged[int, int]:
            result.made[(*path, ("lifted", nth))] += 1
            return judged(say, path, nth + 1)

        return make

    def judged(say: Say, path: Steps, nth: int = 0) -> Judged[int, int]:
        if isinstance(say.below, Say):
            return Excluded(say.witness, hidden(say.below, path, nth))
        if say.below is None:
            return Refuted(say.witness)
        below = lazily(say.below, path)
        return Child(below) if say.kind == "child" else Unknown(say.witness, below)

    result.tree = tree(spec, ())
    return result


def reached(spec: Spec, path: Steps = ()) -> Iterator[tuple[Steps, Spec | Say]]:
    """Every tree and every verdict in reach, by the definition: parents first, in order."""
    yield path, spec
    for decision, say in enumerate(spec.ways):
        step = (*path, (spec.level, decision))
        yield step, say
        if isinstance(say.below, Spec):
            yield from reached(say.below, step)


@st.composite
def specs(draw: st.DrawFn, max_depth: int = 4, max_ways: int = 4) -> Spec:
    """Trees of up to `max_depth` decisions, with all verdicts, exclusions in exclusions too."""
    numbers = count()

    def tree(depth: int) -> Spec:
        if depth == max_depth or draw(st.integers(0, 3)) == 0:
            return Spec("", payload=next(numbers))
        n_ways = draw(st.integers(0, max_ways))
        return Spec(draw(st.sampled_from("abc")), tuple(say(depth) for _ in range(n_ways)))

    def say(depth: int) -> Say:
        kinds = ["child", "child", "child", "unknown", "excluded", "refuted"]
        kind = draw(st.sampled_from(kinds))
        witness = "" if kind == "child" else f"{kind} {next(numbers)}"
        if kind == "excluded":
            return Say(kind, witness, say(depth))
        return Say(kind, witness, None if kind == "refuted" else tree(depth + 1))

    return tree(0)
