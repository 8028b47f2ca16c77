"""Scopes around partial sums: what a caller wants to hold while a loop adds up.

A block-sparse method that drops small blocks must drop fewer while only a part of a sum is there:
with n trips its threshold is divided by n, and nested loops multiply. NumPy drops nothing, so that
here it is only told when such loops begin and end, and how many trips they have.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeAlias

from einbound.schedule.instructions import Loop, Schedule, flat

#: Makes the scope of a loop that adds up in some number of trips.
Guard: TypeAlias = Callable[[int], AbstractContextManager[Any]]


@dataclass
class Guards:
    """The scopes that are open in one run.

    Used as a context manager around the run: what an error leaves open is closed, inner first.

    Attributes:
        guard: Makes a scope; called in the caller's context.
        sums: Numbers of the loops that add up.
        opened: The scopes that are open, outermost first.
    """

    guard: Guard
    sums: frozenset[int]
    opened: list[AbstractContextManager[Any]] = field(default_factory=list)
    caller: contextvars.Context = field(default_factory=contextvars.copy_context)

    def spans(self, loop: Loop) -> Iterator[tuple[int, int]]:
        """Where the trips of a loop start and stop; in between its scope is open if it adds up."""
        if loop.number not in self.sums:
            yield from loop.spans()
            return
        scope = self.guard(loop.n_trips)
        self.caller.run(scope.__enter__)
        self.opened.append(scope)
        yield from loop.spans()
        self.caller.run(self.opened.pop().__exit__, None, None, None)

    def __enter__(self) -> Guards:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self.opened:
            self.caller.run(self.opened.pop().__exit__, kind, error, trace)


def summing_loops(schedule: Schedule) -> frozenset[int]:
    """The loops of more than one trip whose trips add up in some value."""
    partial = {loop for cell in schedule.cells for loop in cell.partial}
    loops = (each for each in flat(schedule.body) if isinstance(each, Loop))
    return frozenset(each.number for each in loops if each.number in partial and each.n_trips > 1)
