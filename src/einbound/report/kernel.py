"""Why a kernel was chosen: what there was to choose from, what was not, and how the search went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from einbound.kernels.bounds import model_score, score_bound
from einbound.kernels.cost import Cost, cost
from einbound.kernels.decisions import Decision, Pipeline, render_path
from einbound.kernels.family import family_tree, lift_lattice
from einbound.kernels.menu import Menu
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.machine.limits import HardwareLimits
from einbound.report.figures import columns, count, duration, exact_bytes
from einbound.space.search import SearchResult, search
from einbound.space.trace import verify_trace
from einbound.space.traversal import (
    count_choices,
    depth,
    enumerate_leaves,
    exclusions,
    refutations,
    unknowns,
)
from einbound.space.tree import Path, Reason, Tree
from einbound.space.witness import Witness

#: Kernels that are listed beside the one that was picked.
_N_LISTED = 5

Judgment = tuple[Path[Decision], Reason]


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """One search for the kernel of a product.

    Attributes:
        problem: The product.
        limits: The processor.
        menu: What was proposed.
        tree: All kernels of that.
        found: What the search found.
    """

    problem: MatmulProblem
    limits: HardwareLimits
    menu: Menu
    tree: Tree[Decision, KernelSpec]
    found: SearchResult[Decision, KernelSpec]

    @classmethod
    def of(
        cls,
        problem: MatmulProblem,
        limits: HardwareLimits,
        menu: Menu | None = None,
        *,
        lifted: bool = False,
    ) -> KernelChoice:
        """The choice among what a menu proposes.

        Args:
            problem: The product.
            limits: The processor.
            menu: What is proposed; None: `Menu.default(limits)`.
            lifted: Whether lattices of tile sizes are proposed, too.
        """
        menu = menu or Menu.default(limits)
        tree: Tree[Decision, KernelSpec] = family_tree(problem, limits, menu)
        if lifted:
            tree = lift_lattice(tree)
        score, bound = model_score(problem, limits), score_bound(problem, limits, menu)
        return cls(problem, limits, menu, tree, search(tree, score, bound))

    @property
    def is_verified(self) -> bool:
        """Whether an independent replay of the search confirms it, bounds included."""
        score = model_score(self.problem, self.limits)
        bound = score_bound(self.problem, self.limits, self.menu)
        return bool(verify_trace(self.tree, score, bound, self.found.trace))

    def explain(self) -> str:
        """Census, refusals, the pick and why, and the ledger, as text."""
        sections = [
            ("product", [str(self.problem)]),
            ("census", self._census()),
            ("refused, since no completion is legal", _grouped(refutations(self.tree))),
            ("left out by policy, and can be lifted", _grouped(exclusions(self.tree))),
            ("undecided until built", _grouped(unknowns(self.tree))),
            ("pick", self._pick()),
            ("others", self._others()),
            ("search", self._ledger()),
        ]
        return "\n\n".join(
            "\n".join([title, *(f"  {line}" for line in lines)])
            for title, lines in sections
            if lines
        )

    def _census(self) -> list[str]:
        leaves = enumerate_leaves(self.tree)
        rows = [
            ("kernels", count(len(leaves)), ""),
            ("decisions", count(count_choices(self.tree)), f"at most {depth(self.tree)} on a path"),
            ("refused", count(len(refutations(self.tree))), "branches, with all that is below"),
            ("left out", count(len(exclusions(self.tree))), "branches"),
            ("undecided", count(len(unknowns(self.tree))), "branches"),
        ]
        return columns(rows, "<><")

    def _pick(self) -> list[str]:
        found = self.found
        if found.best is None or found.path is None:
            return ["none: no kernel that is proposed has a price by the model"]
        priced = cost(found.best, self.problem, self.limits)
        assert priced is not None, "what was picked has a price"
        return [*_steps(found.path), f"predicted {duration(priced.seconds)}", *_parts(priced)]

    def _others(self) -> list[str]:
        """The next best kernels, and the best of each pipeline that was not picked."""
        priced = sorted(
            (
                (made.seconds, number, path)
                for number, (path, spec) in enumerate(enumerate_leaves(self.tree))
                if (made := cost(spec, self.problem, self.limits)) is not None
                and path != self.found.path
            ),
            key=lambda each: each[:2],
        )
        best = self.found.score
        if best is None or not priced:
            return []
        told = priced[:_N_LISTED]
        pipelines = {_pipeline(path) for _, _, path in told} | {_pipeline(self.found.path or ())}
        for each in priced[_N_LISTED:]:
            if _pipeline(each[2]) not in pipelines:
                pipelines.add(_pipeline(each[2]))
                told.append(each)
        rows = [(f"{seconds / best:.3f}x", render_path(path)) for seconds, _, path in told]
        return columns(rows, "><")

    def _ledger(self) -> list[str]:
        found = self.found
        rows = [
            (field.name, count(getattr(found.stats, field.name))) for field in fields(found.stats)
        ]
        n_leaves = len(enumerate_leaves(self.tree))
        told = ["proven: no kernel that is proposed costs less" if found.proven else "not proven"]
        if n_leaves:
            told.append(f"{found.stats.scored} of {n_leaves} kernels were priced")
        if self.is_verified:
            told.append("an independent replay confirms every step")
        else:
            told.append("AN INDEPENDENT REPLAY DOES NOT CONFIRM THIS; please report it")
        return [*columns(rows, "<>"), *told]


def _pipeline(path: Path[Decision]) -> Decision | None:
    return next((each for _, each in path if isinstance(each, Pipeline)), None)


def _steps(path: Path[Decision]) -> list[str]:
    return columns([(level, str(decision)) for level, decision in path], "<<")


def _parts(priced: Cost) -> Iterator[str]:
    """What the time consists of, and which part decides."""
    parts = [("compute", priced.compute_seconds, f"{count(priced.flops)} flops with padding")]
    parts += [
        (f"from {each.source}", each.seconds, exact_bytes(each.bytes)) for each in priced.transfers
    ]
    parts.append(("packing", priced.packing_seconds, ""))
    parts.append(("overhead", priced.overhead_seconds, "launches, dispatches and waits"))
    longest = max(parts, key=lambda each: each[1])
    rows = [
        (name, duration(seconds), _decides(told) if name == longest[0] else told)
        for name, seconds, told in parts
    ]
    yield from columns(rows, "<><")
    if priced.occupancy is not None:
        yield f"occupancy {priced.occupancy:.0%}, {priced.n_waves} waves"


def _decides(told: str) -> str:
    return f"{told}; this decides" if told else "this decides"


def _grouped(judged: Sequence[Judgment]) -> list[str]:
    """Judgments by rule: how many, and the first of them with its numbers."""
    groups: dict[str, list[Judgment]] = {}
    for path, reason in judged:
        groups.setdefault(reason.rule if isinstance(reason, Witness) else reason, []).append(
            (path, reason)
        )
    lines: list[str] = []
    for rule, found in groups.items():
        path, reason = found[0]
        lines.append(f"{len(found)} x {rule}")
        lines.append(f"    {render_path(path)}")
        if isinstance(reason, Witness) and (numbers := _numbers(reason)):
            lines.append(f"    {numbers}")
    return lines


def _numbers(witness: Witness) -> str:
    return str(witness)[len(witness.rule) :].strip(" ()")


def explain_all(choices: Iterable[tuple[str, KernelChoice | str]]) -> str:
    """The explanations of several steps, one after the other.

    Args:
        choices: Pairs of a step's contraction, such as "ik,kj->ij", and its choice, or why it has
            none.
    """
    return "\n\n".join(
        f"{text}\n\n{choice if isinstance(choice, str) else choice.explain()}"
        for text, choice in choices
    )
