"""The answer to whether a claim about a search holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from einbound.space.traversal import render_path
from einbound.space.tree import Path

D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Verification(Generic[D]):
    """Whether what was claimed holds: true, or false and then why.

    Attributes:
        reason: The first thing that is false; empty if nothing is.
        step: The number of the event that tells it; None: no single event does.
        path: The node it is about; None: no single node.

    Example:
        >>> print(Verification("the score was told as 3, and is 4", 0, (("tile", 8),)))
        step 0: the score was told as 3, and is 4 (tile=8)
        >>> bool(Verification())
        True
    """

    reason: str = ""
    step: int | None = None
    path: Path[D] | None = None

    def __bool__(self) -> bool:
        return not self.reason

    def __str__(self) -> str:
        if not self.reason:
            return "confirmed"
        step = "" if self.step is None else f"step {self.step}: "
        where = "" if self.path is None else f" ({render_path(self.path) or 'the root'})"
        return f"{step}{self.reason}{where}"
