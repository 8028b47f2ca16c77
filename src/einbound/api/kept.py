"""Values that stay from one call to the next: made when they are missing, dropped when stale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import RLock

from einbound.api.operands import Array, Operand
from einbound.api.prints import Check, Print
from einbound.api.stages import Part, Stages
from einbound.backends.reads import Window
from einbound.errors import BudgetError
from einbound.run.guards import Guard


@dataclass(frozen=True, slots=True)
class Held:
    """What is kept, at one moment; replaced as a whole, so that it is never half of anything.

    Attributes:
        stages: What it belongs to.
        values: The arrays by name.
        prints: Of the tensors that they were made from.
    """

    stages: Stages | None = None
    values: Mapping[str, Array] = field(default_factory=dict)
    prints: Mapping[str, Print] = field(default_factory=dict)

    def without(self, names: Iterable[str], prints: Mapping[str, Print]) -> Held:
        """The same without some values, and with other prints."""
        gone = frozenset(names)
        values = {name: array for name, array in self.values.items() if name not in gone}
        return Held(self.stages, values, prints)

    def plus(self, values: Mapping[str, Array]) -> Held:
        """The same with more values."""
        return Held(self.stages, {**self.values, **values}, self.prints)


@dataclass
class KeptValues:
    """The kept values of one program.

    One thread at a time makes values; the others wait for them. What a call got stays its own,
    whatever happens here.

    Attributes:
        check: How changed tensors are found.
        held: What is kept now.
    """

    check: Check
    held: Held = field(default_factory=Held)
    _lock: RLock = field(default_factory=RLock)

    def of(
        self,
        stages: Stages,
        leaves: Mapping[str, Array | Window],
        given: Mapping[str, Operand],
        guard: Guard | None = None,
    ) -> tuple[Array, ...]:
        """The kept values for some tensors, in order; missing and stale ones are made.

        Args:
            stages: What the program runs.
            leaves: Each leaf, as a run takes it.
            given: The tensors, as the caller has them.
            guard: Makes scopes around partial sums.
        """
        if not stages.kept:
            return ()
        with self._lock:
            if self.held.stages is not stages:
                self.held = Held(stages)
            self._drop_stale(stages, given)
            missing = [name for name in stages.kept if name not in self.held.values]
            if missing:
                self._make(self._part(stages, missing), leaves, guard)
            held = self.held
        return tuple(held.values[name] for name in stages.kept)

    def drop(self, names: Iterable[str] | None = None) -> None:
        """Forget kept values: these, those made from these tensors, or all."""
        with self._lock:
            held = self.held
            if names is None or held.stages is None:
                self.held = Held()
                return
            gone = frozenset(names)
            needs = held.stages.needs
            stale = [name for name in held.values if name in gone or needs[name] & gone]
            self.held = held.without(stale, held.prints)

    def _part(self, stages: Stages, missing: list[str]) -> Part:
        """What makes the missing values beside the others; all of them if there is no room."""
        try:
            return stages.part(missing)
        except BudgetError:
            self.held = self.held.without(self.held.values, self.held.prints)
            return stages.part(stages.kept)

    def _drop_stale(self, stages: Stages, given: Mapping[str, Operand]) -> None:
        """Drop what was made from tensors that are no longer the same."""
        read = frozenset[str]().union(*stages.needs.values())
        prints = {name: Print.of(given[name], self.check) for name in given if name in read}
        known = self.held.prints
        changed = {
            name
            for name, each in prints.items()
            if name not in known or not known[name].is_same(each)
        }
        if changed:
            stale = [name for name in self.held.values if stages.needs[name] & changed]
            self.held = self.held.without(stale, prints)

    def _make(self, part: Part, leaves: Mapping[str, Array | Window], guard: Guard | None) -> None:
        """Make values; only when all of them are there are any kept."""
        values = {**leaves, **self.held.values}
        forest = part.executable.plan.forest
        arrays = part.executable.run(
            [values[forest.values[n].name] for n in range(len(part.executable.leaves))], guard=guard
        )
        for array in arrays:
            array.flags.writeable = False
        self.held = self.held.plus(dict(zip(part.made, arrays, strict=True)))
