"""Plans of a forest for given placements: halves, loops, order, trees, and the meter's word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from einbound.errors import ScheduleError
from einbound.forest.blocks import Block, ForestPlan
from einbound.forest.forest import Forest
from einbound.forest.fusion import Part, Staged, bundled
from einbound.forest.inline import inlined
from einbound.forest.kept import halves
from einbound.forest.rooms import Furnished, furnished, held_bytes
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
        parts: What it was made from.
        buffer_bytes: Bound of each buffer of a step.
        metered: What a run takes.
        over_bytes: Bytes by which it passes its limit.
    """

    plan: ForestPlan
    parts: tuple[Part, ...]
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

    @property
    def blamed(self) -> Iterator[str]:
        """Names of the values that are alive where it passes its limit."""
        return (self.forest.values[value].name for value in self.made.blamed)


@dataclass(frozen=True, slots=True)
class Sketch:
    """A draft before it is metered: bytes are those of its values and of trees alone.

    Attributes:
        prelude: Makes the kept values; None if there are none.
        main: Makes the targets.
        kept_bytes: Bytes of the kept values.
        over_bytes: Bytes by which it passes the limit, at least.
        excess_bytes: The same, of all productions together.
        blamed: Names of the values that are alive where it passes the limit.
        macs: Multiply-adds of all evaluations, roughly where trips are uneven.
    """

    prelude: Outline | None
    main: Outline
    kept_bytes: int
    over_bytes: int
    excess_bytes: int
    macs: int
    blamed: frozenset[str]

    @property
    def rank(self) -> tuple[int, int]:
        """What sketches are compared by: what is in the way, then what they compute."""
        return self.excess_bytes, self.macs


class _TooMuch(Exception):
    """Values alone take more than was asked for."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """One half of what placements mean, whatever the limit.

    Attributes:
        forest: What it computes.
        orders: Orders in which its parts can run, those that are known.
        more: Makes the orders that follow.
    """

    forest: Forest
    orders: list[tuple[Part, ...]]
    more: Iterator[tuple[Part, ...]]

    def __iter__(self) -> Iterator[tuple[Part, ...]]:
        """All orders, each made when it is first asked for."""
        yield from self.orders
        for order in self.more:
            self.orders.append(order)
            yield order


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
    frames: dict[Placements, tuple[_Frame, ...] | None] = field(default_factory=dict)

    @cached_property
    def rough(self) -> Tools:
        """What sketches are made with."""
        return self.tools.sketching()

    def within(self, limit: Limit) -> Drafts:
        """The drafts of the same forest within another limit."""
        return Drafts(self.forest, limit, self.tools, self.iterations, frames=self.frames)

    def draft(self, placements: Placements) -> Draft | None:
        """The plan of some placements, whether it fits or not; None: they are not legal."""
        if placements not in self.made:
            sketch = self.sketch(placements)
            self.made[placements] = None if sketch is None else self._draft(placements, sketch)
        return self.made[placements]

    def sketch(self, placements: Placements, most: int | None = None) -> Sketch | None:
        """The plan of some placements before it is metered; None: they are not legal.

        Args:
            placements: Where values live.
            most: None is returned, too, where values alone pass the limit by more than this many
                bytes, of all productions together.
        """
        if placements not in self.sketches:
            try:
                self.sketches[placements] = self._sketch(placements, most)
            except _TooMuch:
                return None
        return self.sketches[placements]

    def _sketch(self, placements: Placements, most: int | None) -> Sketch | None:
        if placements not in self.frames:
            self.frames[placements] = self._framed(placements)
        frames = self.frames[placements]
        if frames is None:
            return None
        kept_bytes = sum(self._bytes(value) for value in placements.kept)
        main = self._outline(frames[0], self.limit.less(kept_bytes), most)
        prelude = self._outline(frames[1], self.limit, most) if len(frames) > 1 else None
        if main is None or (prelude is None and len(frames) > 1):
            return None
        made = [main.made] if prelude is None else [main.made, prelude.made]
        return Sketch(
            prelude,
            main,
            kept_bytes,
            max(each.over_bytes for each in made),
            sum(each.excess_bytes for each in made),
            self.iterations * main.made.macs + sum(each.macs for each in made[1:]),
            frozenset(name for each in (main, prelude) if each for name in each.blamed),
        )

    def _bytes(self, value: int) -> int:
        return self.tools.itemsize * prod(self.forest.values[value].shape)

    def _framed(self, placements: Placements) -> tuple[_Frame, ...] | None:
        """The main half and the prelude, if there is one; None: the placements are not legal."""
        names = [value.name for value in self.forest.values]
        staged = {names[each.value]: each.axes for each in placements.staged}
        kept = {names[value] for value in placements.kept}
        rest = inlined(self.forest, placements.inline)
        both = halves(rest, [v.number for v in rest.values if v.name in kept])
        frames = []
        for forest in filter(None, (both.main, both.prelude)):
            here = [
                Staged(value, staged[forest.values[value].name])
                for value in forest.producers
                if forest.values[value].name in staged
            ]
            parts = bundled(forest, here)
            if isinstance(parts, Witness):
                return None
            frames.append(_Frame(forest, [], self._orders(forest, parts)))
        return tuple(frames)

    def _outline(self, frame: _Frame, limit: Limit, most: int | None) -> Outline | None:
        """The best of some orders with trees and widths; None: there is no order."""
        forest = frame.forest
        best: Outline | None = None
        is_legal = False
        for order in frame:
            is_legal = True
            if most is not None and held_bytes(forest, order, limit, self.rough) > most:
                continue
            outline = Outline(forest, order, furnished(forest, order, limit, self.rough))
            if best is None or outline.made.rank < best.made.rank:
                best = outline
            if best.made.over_bytes == 0:
                break
        if best is None and is_legal:
            raise _TooMuch
        return best

    def _orders(self, forest: Forest, parts: tuple[Part, ...]) -> Iterator[tuple[Part, ...]]:
        """Orders to try: as if no tree had loops, then as if none needed anything."""
        seen = set()
        for counts in (True, False):
            needs = {
                each.number: self.rough.grow(forest, each, each.network, None).workspace_bytes
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
        return self._confirmed(outline, limit, self.rough)

    def _confirmed(self, outline: Outline, limit: Limit, tools: Tools) -> Half | None:
        best: Half | None = None
        made, room = outline.made, limit
        for n_before in range(_N_ROUNDS):
            try:
                half = self._metered(outline.forest, outline.parts, made.block, limit)
            except ScheduleError:
                # Parts that do not go together after all.
                return best
            if best is None or _key(half) < _key(best):
                best = half
            if half.over_bytes == 0 or made.over_bytes > 0:
                break
            # Less than what is left over anyway changes nothing; a little more may do.
            changes = (made.spare_bytes or 0) + 1
            room = room.less(max(half.over_bytes, changes) if n_before else changes)
            made = furnished(outline.forest, outline.parts, room, tools)
        return best

    def _metered(self, forest: Forest, parts: tuple[Part, ...], block: Block, limit: Limit) -> Half:
        plan, buffer_bytes = ForestPlan(forest, block), self.tools.buffers[-1]
        metered = self.tools.meter(plan, buffer_bytes)
        return Half(plan, parts, buffer_bytes, metered, over_bytes(metered, limit))

    def judged(self, draft: Draft) -> Draft:
        """A draft that was made for another limit, compared with this one."""
        prelude, main = draft.prelude, draft.main
        rest = self.limit.less(draft.kept_bytes)
        if prelude is not None:
            prelude = replace(prelude, over_bytes=over_bytes(prelude.metered, self.limit))
        main = replace(main, over_bytes=over_bytes(main.metered, rest))
        return replace(draft, prelude=prelude, main=main)

    def finished(self, draft: Draft) -> Draft:
        """The same with trees that were searched with care, and with the largest buffers."""
        prelude = draft.prelude
        if prelude is not None:
            prelude = self._enlarged(self._careful(prelude, self.limit), self.limit)
        rest = self.limit.less(draft.kept_bytes)
        main = self._enlarged(self._careful(draft.main, rest), rest)
        macs = self.iterations * main.metered.macs + (prelude.metered.macs if prelude else 0)
        return replace(draft, prelude=prelude, main=main, macs=macs)

    def _careful(self, half: Half, limit: Limit) -> Half:
        """The same half with better trees, if they fit as well and compute no more."""
        forest, parts = half.plan.forest, half.parts
        made = furnished(forest, parts, limit, self.tools)
        better = self._confirmed(Outline(forest, parts, made), limit, self.tools)
        gains = better is not None and better.over_bytes <= half.over_bytes
        if gains and better is not None and better.metered.macs <= half.metered.macs:
            return better
        return half

    def _enlarged(self, half: Half, limit: Limit) -> Half:
        for buffer_bytes in self.tools.buffers[:-1]:
            metered = self.tools.meter(half.plan, buffer_bytes)
            if over_bytes(metered, limit) <= half.over_bytes:
                return replace(half, buffer_bytes=buffer_bytes, metered=metered)
        return half


def _key(half: Half) -> tuple[int, int, int]:
    return half.over_bytes, half.metered.macs, half.metered.space_bytes
