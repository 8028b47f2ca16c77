"""Which kernel a product gets: the one that was measured best here, else the untuned choice."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from einbound.errors import KernelError
from einbound.kernels.decisions import Decision
from einbound.kernels.emit_c import c_source
from einbound.kernels.family import family_tree
from einbound.kernels.member import member_of
from einbound.kernels.nest import nest_of
from einbound.kernels.pick import untuned
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.machine.limits import HardwareLimits
from einbound.space.tree import Child, Choice, Excluded, Refuted, Tree, Unknown
from einbound.tune.bench import source_digest
from einbound.tune.records import Context, Record, decisions_of
from einbound.tune.store import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TunedChoice:
    """Chooses kernels by what was measured.

    A winner is looked up by its decisions, so that a kernel that is not legal any more, or whose
    source has changed, is no winner.

    Attributes:
        context: The machine and its compiler.
        store: Where winners are; None: nowhere.
        pinned: The winners that alone count; None: those of the store do. Of these the processor
            must be the same, not the compiler.
    """

    context: Context
    store: Store | None = None
    pinned: tuple[Record, ...] | None = None

    def __call__(self, problem: MatmulProblem, limits: HardwareLimits) -> KernelSpec:
        """The kernel of a product.

        Raises:
            KernelError: There is none.
        """
        record = self.winner(problem)
        spec = None if record is None else replay(record, problem, limits)
        return untuned(problem, limits) if spec is None else spec

    def winner(self, problem: MatmulProblem) -> Record | None:
        """The record that decides; None: the untuned choice is taken."""
        if self.pinned is not None:
            return _pinned(self.pinned, problem, self.context)
        return None if self.store is None else self.store.winner(problem, self.context)


def replay(record: Record, problem: MatmulProblem, limits: HardwareLimits) -> KernelSpec | None:
    """The kernel that a record tells of; None: there is no such kernel any more.

    Args:
        record: A winner of this product.
        problem: The product.
        limits: The processor.
    """
    try:
        decisions = decisions_of(record.decisions)
        spec = spec_at(family_tree(problem, limits), decisions)
        if spec is None:
            log.warning("no kernel %s is proposed for %s any more", record.label, problem)
            return None
        source = c_source(nest_of(member_of(problem, spec, limits)))
    except KernelError as error:
        log.warning("the kernel %s of %s is left out: %s", record.label, problem, error)
        return None
    if record.source and record.source != source_digest(source):
        log.info("the kernel %s of %s was measured with other code", record.label, problem)
        return None
    return spec


def spec_at(tree: Tree[Decision, KernelSpec], decisions: Iterable[Decision]) -> KernelSpec | None:
    """The leaf that decisions lead to; None: they are refuted or not known there.

    Args:
        tree: All kernels that are proposed.
        decisions: One for each level, outermost first.

    Example:
        >>> from einbound.kernels.decisions import RowBlock
        >>> from einbound.space.tree import Leaf
        >>> spec_at(Choice("row-block", ((RowBlock(8), Child(Leaf("eight"))),)), [RowBlock(8)])
        'eight'
    """
    for decision in decisions:
        judged = dict(tree.children).get(decision) if isinstance(tree, Choice) else None
        while isinstance(judged, Excluded):
            judged = judged.lifted
        if judged is None or isinstance(judged, Refuted):
            return None
        assert isinstance(judged, Child | Unknown), "verdicts are a closed set"
        tree = judged.subtree
    return None if isinstance(tree, Choice) else tree.payload


def _pinned(winners: Iterable[Record], problem: MatmulProblem, context: Context) -> Record | None:
    key = problem.key
    found = [each for each in winners if each.problem == key and each.context.cpu == context.cpu]
    exact = [each for each in found if each.context == context]
    chosen = (exact or found)[:1]
    # Another compiler or version prints other code of the same decisions.
    return replace(chosen[0], source="") if chosen else None
