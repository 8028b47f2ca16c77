"""Where a shared value lives: in line, staged at a loop, or kept as a whole.

Placements are ordered from the least kept to the most: in line, staged at the loops of a schedule
by their numbers, materialised. A loop means something in its own schedule only: to compare loops of
two schedules is an error, even for equality. They hash differently, so both can be keys of one
dictionary.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import total_ordering
from typing import Any, Self

from einbound.errors import SpaceError
from einbound.space.document import read, written

_SCHEMA = "einbound.placement"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class LoopId:
    """One loop of one schedule; loops of other schedules cannot be compared with it.

    Attributes:
        schedule: What identifies the schedule: a name or a digest.
        number: Number of the loop in it, from 0, the outermost of a nest first.

    Example:
        >>> LoopId("ij,jk->ik", 0) < LoopId("ij,jk->ik", 1)
        True
    """

    schedule: str
    number: int

    def __post_init__(self) -> None:
        if not isinstance(self.schedule, str) or not self.schedule:
            raise SpaceError(
                f"the schedule of a loop is {self.schedule!r}; expected what identifies it, as text"
            )
        if not isinstance(self.number, int) or isinstance(self.number, bool) or self.number < 0:
            raise SpaceError(
                f"the number of a loop is {self.number!r}; expected a whole number from 0 on"
            )

    def __eq__(self, other: object) -> bool:
        return self.number == self._fellow(other) if isinstance(other, LoopId) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self.number < self._fellow(other) if isinstance(other, LoopId) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.schedule, self.number))

    def __str__(self) -> str:
        return f"loop {self.number} of {self.schedule}"

    def _fellow(self, other: LoopId) -> int:
        if self.schedule != other.schedule:
            raise SpaceError(
                f"{self} cannot be compared with {other}; expected loops of one schedule"
            )
        return other.number


@total_ordering
class Placement:
    """Where a shared value lives: `Inline`, `StageAt` or `Materialize`."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return _rank(self) < _rank(other) if isinstance(other, Placement) else NotImplemented

    def to_json(self) -> str:
        """The placement as JSON text.

        Example:
            >>> Placement.from_json(StageAt(LoopId("s", 2)).to_json())
            StageAt(loop=LoopId(schedule='s', number=2))
        """
        loop = asdict(self.loop) if isinstance(self, StageAt) else None
        return written(_SCHEMA, {"placement": type(self).__name__, "loop": loop})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The placement in what `to_json` wrote.

        Args:
            text: The JSON text.

        Raises:
            SpaceError: The text is something else, of another version, damaged, or a placement
                of another class than this.
        """
        placement = read(text, _SCHEMA, _placement)
        if not isinstance(placement, cls):
            raise SpaceError(f"the document has placement {placement}; expected {cls.__name__}")
        return placement


@dataclass(frozen=True, slots=True)
class Inline(Placement):
    """Computed anew wherever it is read."""

    def __str__(self) -> str:
        return "inline"


@dataclass(frozen=True, slots=True)
class StageAt(Placement):
    """Kept while one trip of a loop lasts: made anew by loops outside, shared by loops inside.

    Attributes:
        loop: Where it is kept.
    """

    loop: LoopId

    def __post_init__(self) -> None:
        if not isinstance(self.loop, LoopId):
            raise SpaceError(f"a value cannot be staged at {self.loop!r}; expected a LoopId")

    def __str__(self) -> str:
        return f"stage at {self.loop}"


@dataclass(frozen=True, slots=True)
class Materialize(Placement):
    """Kept as a whole from the first use to the last."""

    def __str__(self) -> str:
        return "materialize"


def _rank(placement: Placement) -> tuple[int | LoopId, ...]:
    if isinstance(placement, StageAt):
        return (1, placement.loop)
    return (0,) if isinstance(placement, Inline) else (2,)


def _placement(fields: dict[str, Any]) -> Placement:
    if fields["placement"] == "StageAt":
        return StageAt(LoopId(**fields["loop"]))
    known: dict[str, Placement] = {"Inline": Inline(), "Materialize": Materialize()}
    if fields["placement"] not in known:
        raise SpaceError(
            f"no placement is called {fields['placement']!r}; "
            "expected 'Inline', 'StageAt' or 'Materialize'"
        )
    return known[fields["placement"]]
