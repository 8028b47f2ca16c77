"""What an exact search answers: a plan with what is proven of it, or that there is none."""

from __future__ import annotations

from dataclasses import dataclass

from einbound.expr.network import Network
from einbound.plan.model import Count
from einbound.plan.tree import Tree


@dataclass(frozen=True, slots=True)
class ExactFound:
    """A plan within the budget.

    Attributes:
        tree: The plan.
        macs: Its multiply-adds.
        calls: Its products.
        peak_bytes: Most bytes of intermediates and result alive at once.
        states: States that were explored.
        exhausted: Whether nothing was left out, so that no plan of the class is better.
        weighted_macs: Its multiply-adds in all evaluations, which are as few as possible.
        bound_macs: Weighted multiply-adds that no plan of the class within the budget is below.
    """

    tree: Tree
    macs: int
    calls: int
    peak_bytes: int
    states: int
    exhausted: bool
    weighted_macs: int
    bound_macs: int


@dataclass(frozen=True, slots=True)
class NothingFound:
    """No plan within the budget.

    Attributes:
        states: States that were explored.
        exhausted: Whether nothing was left out, so that no plan of the class exists.
        bound_macs: Weighted multiply-adds that no plan of the class within the budget is below.
    """

    states: int
    exhausted: bool
    bound_macs: int


@dataclass(frozen=True, slots=True)
class LeastPeak:
    """The plan that needs the fewest bytes.

    Attributes:
        found: The plan; `exhausted` tells whether its peak is proven to be the least.
        lower_bound_bytes: Bytes that every plan of the class needs.
    """

    found: ExactFound
    lower_bound_bytes: int


def alone(network: Network, itemsize: int) -> ExactFound:
    """The only plan of one operand."""
    tree = Tree.plain(network, ())
    return ExactFound(tree, 0, 0, Count(tree, itemsize).peak_bytes, 0, True, 0, 0)
