"""How rules and policies become verdicts of the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeAlias

from einbound.kernels.decisions import Decision
from einbound.kernels.launch import exceeded
from einbound.kernels.problem import BLayout
from einbound.kernels.site import Site
from einbound.kernels.spec import KernelSpec
from einbound.space.tree import (
    Child,
    Choice,
    Excluded,
    Judged,
    Leaf,
    Refuted,
    Tree,
    Unknown,
)
from einbound.space.witness import Witness

Node: TypeAlias = Tree[Decision, KernelSpec]
Verdict: TypeAlias = Judged[Decision, KernelSpec]


def choice(children: Iterable[tuple[Decision, Verdict]]) -> Choice[Decision, KernelSpec]:
    """The open decision that its children commit to; its level is derived from them.

    Where a menu proposes nothing, it has no children and no leaves.
    """
    judged = tuple(children)
    return Choice(judged[0][0].level if judged else "nothing", judged)


def legal(rules: Iterable[Witness | None], then: Callable[[], Verdict]) -> Verdict:
    """What follows where no rule is broken; otherwise refuted by the first that is.

    Args:
        rules: A witness for every broken rule, None for every other one.
        then: The judgment of what is legal.
    """
    broken = next((rule for rule in rules if rule is not None), None)
    return then() if broken is None else Refuted(broken)


def proposed(policies: Iterable[Witness | None], then: Callable[[], Verdict]) -> Verdict:
    """What follows where no policy objects; otherwise excluded by the first that does.

    Lifting that one leaves the others as they are.
    """
    objections = [policy for policy in policies if policy is not None]
    if not objections:
        return then()
    return Excluded(objections[0], lambda: proposed(islice(objections, 1, None), then))


def leaf(site: Site, spec: KernelSpec) -> Verdict:
    """A kernel with all decided, if it can be launched."""
    return legal([exceeded(site.problem, site.limits, spec)], lambda: Child(Leaf(spec)))


def laid_out(site: Site, make: Callable[[], Node]) -> Verdict:
    """What follows where B is read in place along its columns, if its layout is known.

    Where it is not, a kernel that needs it cannot be promised; whether the branch is refuted for
    that or left open, the menu says.
    """
    if site.problem.b_layout is not BLayout.UNKNOWN:
        return Child(make)
    unknown = Witness("B is read in place by vectors along its columns, and its layout is unknown")
    return Unknown(unknown, make) if site.menu.unknown_layouts else Refuted(unknown)
