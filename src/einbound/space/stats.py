"""The ledger of a search: how much of a tree was dealt with, and by what."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True, order=True)
class SearchStats:
    """How often each thing happened in a search; zero by default, and ledgers add.

    Attributes:
        expanded: Choices entered.
        scored: Leaves that have a score.
        unscored: Leaves without one; these never win.
        fathomed: Subtrees left out because their bound was not below the threshold.
        refuted: Refuted children met, never entered.
        excluded: Excluded children met, never entered.
        unknown: Unknown children met.
    """

    expanded: int = 0
    scored: int = 0
    unscored: int = 0
    fathomed: int = 0
    refuted: int = 0
    excluded: int = 0
    unknown: int = 0

    def __add__(self, other: SearchStats) -> SearchStats:
        return SearchStats(*map(sum, zip(astuple(self), astuple(other), strict=True)))
