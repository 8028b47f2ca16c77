"""Kernels of one product, the most promising first: by the model, corrected by what was measured.

A model of traffic does not know how good the code of a register tile is; one measurement of a tile
tells, and counts for all kernels with it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from math import inf

from einbound.kernels.decisions import Decision
from einbound.kernels.spec import KernelSpec
from einbound.space.traversal import enumerate_leaves
from einbound.space.tree import Path, Tree
from einbound.tune.records import decisions_text


@dataclass(frozen=True, slots=True)
class Candidate:
    """A leaf of the tree.

    Attributes:
        path: Its decisions.
        spec: Its parameters.
        model_seconds: What the model says; None: it does not cover this.
    """

    path: Path[Decision]
    spec: KernelSpec
    model_seconds: float | None = None

    @property
    def kind(self) -> Hashable:
        """What is compiled alike: candidates of one kind differ in sizes of blocks alone."""
        spec = self.spec
        return spec.pipeline, spec.packed, spec.tile, spec.swapped


@dataclass
class Ranking:
    """Candidates in the order in which they are worth a try.

    The model's time of a candidate is multiplied by the least ratio of measured to predicted time
    of its kind; a kind that was never measured has the least ratio of all, so that it gets its try.

    Attributes:
        candidates: All of them, in the order of the tree.
        first: The decisions of the one that comes first; None: the model's best.
        remaining: Places of those that were not handed out.
        ratios: The least ratio of each kind.
    """

    candidates: tuple[Candidate, ...]
    first: Path[Decision] | None = None
    remaining: list[int] = field(init=False)
    ratios: dict[Hashable, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.remaining = list(range(len(self.candidates)))

    @classmethod
    def of(
        cls,
        tree: Tree[Decision, KernelSpec],
        score: Callable[[KernelSpec], float | None],
        first: Path[Decision] | None = None,
    ) -> Ranking:
        """The kernels of a tree by a model.

        Args:
            tree: All kernels that are proposed; undecided ones are among them.
            score: The seconds that the model predicts; None: it does not cover a kernel.
            first: The decisions of the untuned choice, which comes first; None: the model's best.
        """
        found = enumerate_leaves(tree)
        return cls(tuple(Candidate(path, spec, score(spec)) for path, spec in found), first)

    def candidate(self, decisions: str) -> Candidate:
        """The candidate with these decisions."""
        return next(each for each in self.candidates if decisions_text(each.path) == decisions)

    def next(self) -> Candidate | None:
        """The most promising one that was not handed out yet; None: there is none."""
        if not self.remaining:
            return None
        number = min(self.remaining, key=self._rank)
        self.remaining.remove(number)
        return self.candidates[number]

    def learn(self, candidate: Candidate, seconds: float) -> None:
        """Take in that a candidate took so long."""
        if candidate.model_seconds:
            seen = seconds / candidate.model_seconds
            self.ratios[candidate.kind] = min(seen, self.ratios.get(candidate.kind, inf))

    def _rank(self, number: int) -> tuple[bool, float, int]:
        candidate = self.candidates[number]
        return candidate.path != self.first, self._expected(candidate), number

    def _expected(self, candidate: Candidate) -> float:
        if candidate.model_seconds is None:
            return inf
        unseen = min(self.ratios.values(), default=1.0)
        return candidate.model_seconds * self.ratios.get(candidate.kind, unseen)
