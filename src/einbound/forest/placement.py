"""Where shared values live, as a tree of decisions, with a bound on what completions cost.

Values are decided readers first: once all that is made from a value is decided, the products that
will read it are known, and what they refuse is refused for good.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import combinations
from math import prod
from typing import TypeAlias

from einbound.forest.drafts import Placements
from einbound.forest.floors import Floors
from einbound.forest.forest import Forest, Kind
from einbound.forest.fusion import Staged, broken, common
from einbound.forest.inline import inlined, n_inlined
from einbound.forest.kept import frontier
from einbound.forest.rooms import common_mode
from einbound.forest.tools import Tools
from einbound.plan.price import Limit
from einbound.space.number import INFINITY
from einbound.space.placement import Inline, LoopId, Materialize, Placement, StageAt
from einbound.space.tree import Child, Choice, Excluded, Judged, Leaf, Path, Refuted, Tree
from einbound.space.witness import Witness

#: Productions that computing one value in line may add.
_MOST_MORE = 8
#: Operands that a product may get by that.
_MOST_OPERANDS = 10


class Keeping(Enum):
    """Whether a value that never changes is made once, or in every evaluation."""

    KEPT = "kept"
    ANEW = "made anew"

    def __str__(self) -> str:
        return self.value


Decision: TypeAlias = Placement | Keeping
Space: TypeAlias = Tree[Decision, Placements]


@dataclass(frozen=True)
class Site:
    """What a tree of placements is made from.

    Attributes:
        forest: What is computed.
        limit: Bytes beside the leaves.
        tools: What loops the rules admit.
        has_loops: Whether the scheduler knows common loops.
        iterations: Evaluations in all.
        given: What is decided already, of the values that are not open.
        n_open: Values to decide, the largest ones, at most; None: all.
    """

    forest: Forest
    limit: Limit
    tools: Tools
    has_loops: bool = True
    iterations: int = 1
    given: Placements = Placements()  # noqa: RUF009
    n_open: int | None = None
    _inlined: dict[frozenset[int], _Rest] = field(default_factory=dict)

    @cached_property
    def all_shared(self) -> tuple[int, ...]:
        """The shared values, those read last first."""
        values = self.forest.values
        return tuple(v for v in reversed(self.forest.producers) if values[v].kind is Kind.SHARED)

    @cached_property
    def shared(self) -> tuple[int, ...]:
        """The values to decide, in the same order."""
        largest = sorted(self.all_shared, key=lambda value: (-self.n_bytes(value), value))
        chosen = set(largest[: self.n_open])
        return tuple(value for value in self.all_shared if value in chosen)

    @cached_property
    def largest_first(self) -> tuple[int, ...]:
        """The values to decide by falling size."""
        return tuple(sorted(self.shared, key=lambda value: (-self.n_bytes(value), value)))

    @cached_property
    def closed(self) -> frozenset[int]:
        """The values about which nothing is asked."""
        return frozenset(self.all_shared) - frozenset(self.shared)

    @cached_property
    def start(self) -> Placements:
        """What is decided of these."""
        return self.given.of(self.closed)

    @cached_property
    def frontier(self) -> frozenset[int]:
        """The values that can be kept."""
        return frozenset(frontier(self.forest))

    @cached_property
    def loops(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """All loops, or pairs of loops, that a value could be staged at: the value and its axes."""
        found: list[tuple[int, tuple[int, ...]]] = []
        for value in self.all_shared:
            shape = self.forest.values[value].shape
            axes = [axis for axis, extent in enumerate(shape) if extent > 1]
            found += [(value, (axis,)) for axis in axes]
            found += [(value, pair) for pair in combinations(axes, 2)]
        return tuple(found)

    def staged(self, placement: StageAt) -> Staged:
        """What staging at one of these loops means."""
        return Staged(*self.loops[placement.loop.number])

    @cached_property
    def floors(self) -> Floors:
        """Bounds on multiply-adds."""
        return Floors(self.forest, self.iterations)

    @cached_property
    def least_macs(self) -> int:
        """Multiply-adds that no plan is below."""
        return self.floors.macs(self.start, frozenset(self.shared), self.frontier)

    @cached_property
    def plain_macs(self) -> int:
        """Multiply-adds of the products as they are, each in its best order, without loops."""
        return self.floors.macs(Placements(kept=self.frontier), frozenset(), self.frontier)

    def floor(self, placements: Placements) -> int:
        """Multiply-adds that no plan with these placements is below."""
        return self.floors.macs(placements, frozenset(), self.frontier)

    def others(self, value: int, placements: Placements) -> Iterator[Placements]:
        """The placements that differ in one value, as far as the tree admits that.

        What is decided of values behind it may be refused for it; then there is no draft.
        """
        depth = self.shared.index(value)
        prefix = placements.of(self.closed.union(self.shared[:depth]))
        for decision, judged in self._ways(depth, value, prefix):
            if isinstance(judged, Child):
                yield from self._changed(placements, value, decision)

    def _changed(
        self, placements: Placements, value: int, decision: Decision
    ) -> Iterator[Placements]:
        """Placements with another decision about one value."""
        inline, kept = placements.inline - {value}, placements.kept - {value}
        staged = tuple(each for each in placements.staged if each.value != value)
        if isinstance(decision, StageAt):
            after = sorted((*staged, self.staged(decision)), key=_by_value)
            yield Placements(inline, tuple(after), kept)
        elif isinstance(decision, Inline):
            yield Placements(inline | {value}, staged, kept)
        else:
            if value in self.frontier:
                yield Placements(inline, staged, kept | {value})
            yield Placements(inline, staged, kept)

    def path(self, placements: Placements) -> Path[Decision]:
        """The decisions that lead to placements."""
        loops = {staged: number for number, staged in enumerate(self.loops)}
        staged = {each.value: (each.value, each.axes) for each in placements.staged}
        path: list[tuple[str, Decision]] = []
        for value in self.all_shared:
            name = self.forest.values[value].name
            if value in placements.inline:
                path.append((name, Inline()))
            elif value in staged:
                path.append((name, StageAt(LoopId(self.identity, loops[staged[value]]))))
            else:
                path.append((name, Materialize()))
                if value in self.frontier:
                    keeping = Keeping.KEPT if value in placements.kept else Keeping.ANEW
                    path.append((_between(name), keeping))
        return tuple(path)

    def rest(self, inline: frozenset[int]) -> _Rest:
        """The forest without some values, and the numbers of the others in it."""
        if inline not in self._inlined:
            left = [v.number for v in self.forest.values if v.number not in inline]
            number = {value: n for n, value in enumerate(left)}
            self._inlined[inline] = _Rest(inlined(self.forest, inline), number)
        return self._inlined[inline]

    def n_bytes(self, value: int) -> int:
        """Bytes of a whole value."""
        return self.tools.itemsize * prod(self.forest.values[value].shape)

    @cached_property
    def result_bytes(self) -> int:
        """Bytes of the targets, which every plan takes beside the leaves."""
        return sum(self.n_bytes(target) for target in self.forest.targets)

    @property
    def is_hopeless(self) -> bool:
        """Whether the targets alone pass the limit."""
        return self.limit.peak_bytes is not None and self.limit.peak_bytes < self.result_bytes

    def target(self, n_bytes: int) -> Limit:
        """Another limit of the same kind: bytes beside the leaves."""
        peak, workspace = self.limit.peak_bytes, self.limit.workspace_bytes
        return Limit(
            None if peak is None else n_bytes,
            None if workspace is None else max(n_bytes - self.result_bytes, 0),
        )

    def tree(self) -> Space:
        """All placements of all shared values."""
        return self.below(0, self.start)

    def below(self, depth: int, so_far: Placements) -> Space:
        """What is left to decide, once the first values are decided."""
        if depth == len(self.shared):
            return Leaf(replace(so_far, staged=tuple(sorted(so_far.staged, key=_by_value))))
        value = self.shared[depth]
        name = self.forest.values[value].name
        return Choice(name, tuple(self._ways(depth, value, so_far)))

    def _ways(
        self, depth: int, value: int, so_far: Placements
    ) -> Iterator[tuple[Decision, Judged[Decision, Placements]]]:
        yield Materialize(), self._whole(depth, value, so_far)
        for number, (staged, axes) in enumerate(self.loops):
            if staged == value:
                loop = StageAt(LoopId(self.identity, number))
                yield loop, self._at_loops(depth, Staged(value, axes), so_far)
        after = replace(so_far, inline=so_far.inline | {value})
        yield Inline(), self._in_line(value, so_far, Child(_Below(self, depth + 1, after)))

    @property
    def identity(self) -> str:
        """What identifies the loops."""
        return "+".join(self.forest.values[target].name for target in self.forest.targets)

    def _whole(self, depth: int, value: int, so_far: Placements) -> Judged[Decision, Placements]:
        limit, needed = self.limit.peak_bytes, self._least_bytes(value)
        if limit is not None and needed > limit:
            return Refuted(
                Witness.of("a whole value and what is made from it must fit", limit, bytes=needed)
            )
        below = Child(_Below(self, depth + 1, so_far))
        if value not in self.frontier:
            return below
        kept = replace(so_far, kept=so_far.kept | {value})
        ways = ((Keeping.KEPT, Child(_Below(self, depth + 1, kept))), (Keeping.ANEW, below))
        return Child(Choice(_between(self.forest.values[value].name), ways))

    def _least_bytes(self, value: int) -> int:
        """Bytes that are alive at once if a value is whole: itself, and a target made from it."""
        forest = self.forest
        made = (forest.productions[reader].into for reader in forest.readers.get(value, ()))
        return self.n_bytes(value) + max(
            (self.n_bytes(into) for into in made if into in forest.targets), default=0
        )

    def _at_loops(
        self, depth: int, staged: Staged, so_far: Placements
    ) -> Judged[Decision, Placements]:
        """The verdict on staging a value, from what is decided of all that is made from it."""
        rest = self.rest(so_far.inline)
        cuts: list[tuple[tuple[int, int], ...]] = []
        for axis in staged.axes:
            loop = common(rest.forest, rest.number[staged.value], axis)
            if isinstance(loop, Witness):
                return Refuted(loop)
            refused = broken(rest.forest, loop, frozenset(self._decided(depth, so_far, rest)))
            if refused is not None:
                return Refuted(refused)
            cuts.append(loop.cuts)
        after = replace(so_far, staged=(*so_far.staged, staged))
        child: Judged[Decision, Placements] = Child(_Below(self, depth + 1, after))
        if not self.has_loops:
            return Excluded(Witness("forest_descent opens no common loops"), child)
        if any(common_mode(rest.forest, each, self.tools) is None for each in cuts):
            return Excluded(Witness("the policy admits the loop in every production"), child)
        if len(cuts) > 1 and self._one_suffices(staged):
            return Excluded(Witness("a second loop is opened where one may not suffice"), child)
        return child

    def _decided(self, depth: int, so_far: Placements, rest: _Rest) -> Iterator[int]:
        """The values that are made and read in one go, in the numbers of the forest that is left.

        Of a kept value makers and readers run apart.
        """
        for value in (*self.closed, *self.shared[: depth + 1], *self.forest.targets):
            if value in rest.number and value not in so_far.kept:
                yield rest.number[value]

    def _one_suffices(self, staged: Staged) -> bool:
        """Whether the finest slice over one axis takes little of the limit."""
        if self.limit.peak_bytes is None:
            return True
        widest = max(self.forest.values[staged.value].shape[axis] for axis in staged.axes)
        return _SMALL * self.n_bytes(staged.value) <= self.limit.peak_bytes * widest

    def _in_line(
        self, value: int, so_far: Placements, child: Child[Decision, Placements]
    ) -> Judged[Decision, Placements]:
        rest = self.rest(so_far.inline)
        forest, number = rest.forest, rest.number[value]
        more = n_inlined(forest, number)
        if more > _MOST_MORE:
            return Excluded(
                Witness.of("few productions are added in line", _MOST_MORE, productions=more), child
            )
        longest = max(
            len(forest.productions[reader].operands)
            + forest.productions[reader].operands.count(number)
            * max(len(forest.productions[maker].operands) - 1 for maker in forest.producers[number])
            for reader in forest.readers[number]
        )
        if longest > _MOST_OPERANDS:
            return Excluded(
                Witness.of("products stay short in line", _MOST_OPERANDS, operands=longest), child
            )
        return child

    def bound(self, path: Path[Decision], subtree: Space) -> float | None:
        """Multiply-adds that no completion of a path is below; inf where none can fit."""
        so_far, undecided = self._read(path)
        if self._over(so_far, undecided):
            return INFINITY
        return self.floors.macs(so_far, undecided, self.frontier)

    def _read(self, path: Path[Decision]) -> tuple[Placements, frozenset[int]]:
        """What a path decided, and the values that it leaves open."""
        inline, staged = set(self.start.inline), list(self.start.staged)
        kept, n = set(self.start.kept), 0
        open_keeping = False
        for _, decision in path:
            if isinstance(decision, Keeping):
                open_keeping = False
                if decision is Keeping.KEPT:
                    kept.add(self.shared[n - 1])
                continue
            if isinstance(decision, Inline):
                inline.add(self.shared[n])
            elif isinstance(decision, StageAt):
                staged.append(self.staged(decision))
            else:
                open_keeping = self.shared[n] in self.frontier
            n += 1
        # A value about which only the placement is decided counts as if it might be kept.
        anew = n - 1 if open_keeping else n
        placements = Placements(frozenset(inline), tuple(staged), frozenset(kept))
        return placements, frozenset(self.shared[anew:])

    def _over(self, so_far: Placements, undecided: frozenset[int]) -> bool:
        """Whether what is decided to be whole passes the limit already."""
        limit = self.limit.peak_bytes
        if limit is None:
            return False
        kept = sum(self.n_bytes(value) for value in so_far.kept)
        return kept + self.result_bytes > limit


def _between(name: str) -> str:
    return f"{name} between evaluations"


def _by_value(staged: Staged) -> int:
    return staged.value


#: A finest slice of one part in so many of the limit is small.
_SMALL = 4


@dataclass(frozen=True, slots=True)
class _Rest:
    """A forest in which some values are computed in line, and the new numbers of the others."""

    forest: Forest
    number: dict[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class _Below:
    """Makes a subtree."""

    site: Site
    depth: int
    so_far: Placements

    def __call__(self) -> Space:
        return self.site.below(self.depth, self.so_far)
