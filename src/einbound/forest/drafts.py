"""Plans of a forest for given placements: halves, loops, order, trees, and the meter's word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from einbound.errors import ScheduleError
from einbound.forest.blocks import ForestPlan
from einbound.forest.forest import Forest
from einbound.forest.fusion import Part, Staged, bundled
from einbound.forest.inline import inlined
from einbound.forest.kept import halves
from einbound.forest.rooms import Furnished, furnished
from einbound.forest.sequence import sequenced
from einbound.forest.tools import Tools
from einbound.plan.ledger import Metered, over_bytes
from einbound.plan.price import Limit
from einbound.space.witness import Witness

#: How often a plan that the meter refuses is made anew with less room.
_N_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Placements:
    """Where the shared values of a forest live; those that are not named, as a whole.

    Attributes:
        inline: Computed anew wherever they are read.
        staged: Made for one trip of common loops, by rising number.
        kept: Made once and kept between evaluations.
    """

    inline: frozenset[int] = frozenset()
    staged: tuple[Staged, ...] = ()
    kept: frozenset[int] = frozenset()

    def of(self, values: frozenset[int]) -> Placements:
        """What is decided of some values."""
        staged = tuple(each for each in self.staged if each.value in values)
        return Placements(self.inline & values, staged, self.kept & values)


@dataclass(frozen=True, slots=True)
class Half:
    """A forest's plan with what a run of it takes.

    Attributes:
        plan: The plan.
        buffer_bytes: Bound of each buffer of a step.
        metered: What a run takes.
        over_bytes: Bytes by which it passes its limit.
    """

    plan: ForestPlan
    buffer_bytes: int
    metered: Metered
    over_bytes: int


@dataclass(frozen=True, slots=True)
class Draft:
    """A whole plan: what is made once, and what every evaluation does.

    Attributes:
        placements: Where values live.
        prelude: Makes the kept values, its targets; None if there are none.
        main: Makes the targets; kept values are its last leaves.
        kept_bytes: Bytes of the kept values.
        macs: Multiply-adds of all evaluations.
    """

    placements: Placements
    prelude: Half | None
    main: Half
    kept_bytes: int
    macs: int

    @property
    def halves(self) -> tuple[Half, ...]:
        """What runs, in order."""
        return (self.main,) if self.prelude is None else (self.prelude, self.main)

    @property
    def over_bytes(self) -> int:
        """Bytes by which it passes the limit; 0 if it keeps it."""
        return max(half.over_bytes for half in self.halves)

    @property
    def space_bytes(self) -> int:
        """Peak of kept values, results and everything else alive, leaves not counted."""
        main = self.main.metered.space_bytes + self.kept_bytes
        return main if self.prelude is None else max(main, self.prelude.metered.space_bytes)

    @property
    def key(self) -> tuple[int, int, int, int]:
        """What drafts are compared by; of equal ones that which repeats less is better."""
        return self.over_bytes, self.macs, self.main.metered.macs, self.space_bytes


@dataclass(frozen=True, slots=True)
class Outline:
    """One half of a sketch.

    Attributes:
        forest: What it computes.
        parts: Its productions in order, some inside loops.
        made: The same with trees and widths.
    """

    forest: Forest
    parts: tuple[Part, ...]
    made: Furnished


@dataclass(frozen=True, slots=True)
class Sketch:
    """A draft before it is metered: bytes are those of its values and of trees alone.

    Attributes:
        prelude: Makes the kept values; None if there are none.
        main: Makes the targets.
        kept_bytes: Bytes of the kept values.
        over_bytes: Bytes by which it passes the limit, at least.
        macs: Multiply-adds of all evaluations, roughly where trips are uneven.
    """

    prelude: Outline | None
    main: Outline
    kept_bytes: int
    over_bytes: int
    macs: int


@dataclass
class Drafts:
    """The drafts of one forest, each made once.

    Attributes:
        forest: What is computed; names of its values are distinct.
        limit: Bytes beside the leaves.
        tools: Trees and meter.
        iterations: Evaluations in all.
    """

    forest: Forest
    limit: Limit
    tools: Tools
    iterations: int = 1
    sketches: dict[Placements, Sketch | None] = field(default_factory=dict)
    made: dict[Placements, Draft | None] = field(default_factory=dict)

    def draft(self, placements: Placements) -> Draft | None:
        """The plan of some placements, whether it fits or not; None: they are not legal."""
        if placements not in self.made:
            sketch = self.sketch(placements)
            self.made[placements] = None if sketch is None else self._draft(placements, sketch)
        return self.made[placements]

    def sketch(self, placements: Placements) -> Sketch | None:
        """The plan of some placements before it is metered; None: they are not legal."""
        if placements not in self.sketches:
            self.sketches[placements] = self._sketch(placements)
        return self.sketches[placements]

    def _sketch(self, placements: Placements) -> Sketch | None:
        names = [value.name for value in self.forest.values]
        staged = {names[each.value]: each.axes for each in placements.staged}
        kept = {names[value] for value in placements.kept}
        rest = inlined(self.forest, placements.inline)
        both = halves(rest, [v.number for v in rest.values if v.name in kept])
        kept_bytes = sum(self._bytes(value) for value in placements.kept)
        main = self._outline(both.main, staged, self.limit.less(kept_bytes))
        if main is None:
            return None
        over, macs = main.made.over_bytes, self.iterations * main.made.macs
        if both.prelude is None:
            return Sketch(None, main, kept_bytes, over, macs)
        prelude = self._outline(both.prelude, staged, self.limit)
        if prelude is None:
            return None
        over, macs = max(over, prelude.made.over_bytes), macs + prelude.made.macs
        return Sketch(prelude, main, kept_bytes, over, macs)

    def _bytes(self, value: int) -> int:
        return self.tools.itemsize * prod(self.forest.values[value].shape)

    def _outline(
        self, forest: Forest, staged: Mapping[str, tuple[int, ...]], limit: Limit
    ) -> Outline | None:
        here = [
            Staged(value, staged[forest.values[value].name])
            for value in forest.producers
            if forest.values[value].name in staged
        ]
        parts = bundled(forest, here)
        if isinstance(parts, Witness):
            return None
        best: Outline | None = None
        for order in self._orders(forest, parts):
            outline = Outline(forest, order, furnished(forest, order, limit, self.tools))
            if best is None or _rank(outline) < _rank(best):
                best = outline
            if best.made.over_bytes == 0:
                break
        return best

    def _orders(self, forest: Forest, parts: tuple[Part, ...]) -> Iterable[tuple[Part, ...]]:
        """Orders to try: as if no tree had loops, then as if none needed anything."""
        seen = set()
        for counts in (True, False):
            needs = {
                each.number: self.tools.grow(forest, each, each.network, None).workspace_bytes
                for each in forest.productions
                if counts
            }
            order = sequenced(forest, parts, needs, self.tools.itemsize)
            if not isinstance(order, Witness) and order not in seen:
                seen.add(order)
                yield order

    def _draft(self, placements: Placements, sketch: Sketch) -> Draft | None:
        prelude, macs = None, 0
        if sketch.prelude is not None:
            prelude = self._fitted(sketch.prelude, self.limit)
            if prelude is None:
                return None
            macs = prelude.metered.macs
        main = self._fitted(sketch.main, self.limit.less(sketch.kept_bytes))
        if main is None:
            return None
        macs += self.iterations * main.metered.macs
        return Draft(placements, prelude, main, sketch.kept_bytes, macs)

    def _fitted(self, outline: Outline, limit: Limit) -> Half | None:
        """The plan of an outline, made with less room while the meter says that it passes."""
        best: Half | None = None
        made, room = outline.made, limit
        for _ in range(_N_ROUNDS):
            try:
                half = self._metered(ForestPlan(outline.forest, made.block), limit)
            except ScheduleError:
                # Parts that do not go together after all.
                return best
            if best is None or _key(half) < _key(best):
                best = half
            if half.over_bytes == 0 or made.over_bytes > 0:
                break
            room = room.less(half.over_bytes)
            made = furnished(outline.forest, outline.parts, room, self.tools)
        return best

    def _metered(self, plan: ForestPlan, limit: Limit) -> Half:
        buffer_bytes = self.tools.buffers[-1]
        metered = self.tools.meter(plan, buffer_bytes)
        return Half(plan, buffer_bytes, metered, over_bytes(metered, limit))

    def judged(self, draft: Draft) -> Draft:
        """A draft that was made for another limit, compared with this one."""
        prelude, main = draft.prelude, draft.main
        rest = self.limit.less(draft.kept_bytes)
        if prelude is not None:
            prelude = replace(prelude, over_bytes=over_bytes(prelude.metered, self.limit))
        main = replace(main, over_bytes=over_bytes(main.metered, rest))
        return replace(draft, prelude=prelude, main=main)

    def enlarged(self, draft: Draft) -> Draft:
        """The same with the largest buffers that fit."""
        prelude = draft.prelude
        if prelude is not None:
            prelude = self._enlarged(prelude, self.limit)
        main = self._enlarged(draft.main, self.limit.less(draft.kept_bytes))
        return replace(draft, prelude=prelude, main=main)

    def _enlarged(self, half: Half, limit: Limit) -> Half:
        for buffer_bytes in self.tools.buffers[:-1]:
            metered = self.tools.meter(half.plan, buffer_bytes)
            if over_bytes(metered, limit) <= half.over_bytes:
                return Half(half.plan, buffer_bytes, metered, half.over_bytes)
        return half


def _rank(outline: Outline) -> tuple[int, int]:
    return outline.made.over_bytes, outline.made.macs


def _key(half: Half) -> tuple[int, int, int]:
    return half.over_bytes, half.metered.macs, half.metered.space_bytes
