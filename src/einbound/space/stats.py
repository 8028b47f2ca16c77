"""The ledger of a search: how much of a tree was dealt with, and by what."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass

from einbound.errors import SpaceError
from einbound.space.document import read, written

_SCHEMA = "einbound.search_stats"


@dataclass(frozen=True, slots=True)
class SearchStats:
    """How often each thing happened in a search; zero by default, and ledgers add.

    Attributes:
        expanded: Choices entered.
        scored: Leaves that the score priced.
        unscored: Leaves that the score declined to price; these never win.
        fathomed: Subtrees, single leaves among them, left out because their bound was not below
            the threshold.
        refuted: Refuted children met, never entered.
        excluded: Excluded children met, never entered; lifted, they might be.
        unknown: Unknown children entered, and no bound asked for them.

    Example:
        >>> sum([SearchStats(expanded=1, scored=2), SearchStats(scored=3)]).scored
        5
    """

    expanded: int = 0
    scored: int = 0
    unscored: int = 0
    fathomed: int = 0
    refuted: int = 0
    excluded: int = 0
    unknown: int = 0

    def __post_init__(self) -> None:
        for name, n in asdict(self).items():
            if not isinstance(n, int) or isinstance(n, bool) or n < 0:
                raise SpaceError(f"{name} is {n!r}; expected a count, a whole number from 0 on")

    def __add__(self, other: SearchStats) -> SearchStats:
        if not isinstance(other, SearchStats):
            return NotImplemented
        return SearchStats(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def __radd__(self, other: int) -> SearchStats:
        # sum() starts from the number 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def to_json(self) -> str:
        """The ledger as JSON text.

        Example:
            >>> SearchStats.from_json(SearchStats(scored=3).to_json()).scored
            3
        """
        return written(_SCHEMA, asdict(self))

    @classmethod
    def from_json(cls, text: str) -> SearchStats:
        """The ledger in what `to_json` wrote.

        Args:
            text: The JSON text.

        Raises:
            SpaceError: The text is something else, of another version, or damaged.
        """
        return read(text, _SCHEMA, lambda fields: cls(*(fields[name] for name in cls.__slots__)))
