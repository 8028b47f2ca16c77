"""Records of a plan: a binary tree, a nest of loops per step, a production level per step.

Only what is computed in which order and inside which loops. Lifetimes belong to
`schedule`, layouts and workspace to `step`, the choice of a tree to the planners.

Values are numbered: operand k is value k, step s makes value `n_operands + s`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType

from einbound.errors import PathError, PlanError
from einbound.expr.network import Network


class Role(StrEnum):
    """Whether a looped index is summed or lies on the result."""

    CONTRACTED = "contracted"
    EXTERNAL = "external"


class Combine(StrEnum):
    """How the trips of a loop make the value of the step that opens it."""

    ACCUMULATE = "accumulate"
    SCATTER = "scatter"


@dataclass(frozen=True, slots=True)
class Loop:
    """One batch loop of a plan, as users read it and write it.

    Attributes:
        index: Label of the index that is cut.
        role: Contracted or external; also as text.
        combine: Whether trips add up or fill disjoint blocks; also as text.
        extent: Elements of the index in all.
        batch_size: Elements of the index per trip, at most.
        n_batches: Number of trips.
        node: Step (position in the path) that opens the loop; -1 is the last one.
    """

    index: Hashable
    role: Role | str | None = None
    combine: Combine | str | None = None
    extent: int = 0
    batch_size: int = 0
    n_batches: int = 0
    node: int = -1

    def __post_init__(self) -> None:
        for name, kind in (("role", Role), ("combine", Combine)):
            given = getattr(self, name)
            if given is not None and not isinstance(given, kind):
                object.__setattr__(self, name, _member(kind, given, name, self.index))


@dataclass(frozen=True, slots=True)
class Cut:
    """One loop of a nest: an index cut into slices.

    Attributes:
        index: Number of the index.
        width: Most elements of one trip.
        edges: Where trips start, and the extent, if they do not all start at multiples of
            `width`; else empty.
    """

    index: int
    width: int
    edges: tuple[int, ...] = ()

    @classmethod
    def between(cls, index: int, edges: tuple[int, ...]) -> Cut:
        """The loop whose trips run from one of these places to the next.

        Args:
            index: Number of the index.
            edges: Where trips start, from 0, and the extent; rising.
        """
        widths = [stop - start for start, stop in pairwise(edges)]
        width = max(widths)
        is_even = all(each == width for each in widths[:-1])
        return cls(index, width, () if is_even else edges)


@dataclass(frozen=True)
class Tree:
    """A contraction order with its batch loops and production levels.

    Attributes:
        network: What is contracted.
        steps: The two values that each step multiplies.
        opens: The loops that each step opens around its production, outermost first.
        levels: How many of the loops around its reader are open when each step's value is
            produced; a smaller number hoists the value out of the inner loops. 0 for the last step.
    """

    network: Network
    steps: tuple[tuple[int, int], ...]
    opens: tuple[tuple[Cut, ...], ...]
    levels: tuple[int, ...]

    @classmethod
    def plain(cls, network: Network, steps: Iterable[tuple[int, int]]) -> Tree:
        """The tree without loops."""
        steps = tuple(steps)
        return cls(network, steps, ((),) * len(steps), (0,) * len(steps))

    @classmethod
    def from_path(cls, network: Network, path: Iterable[Iterable[int]]) -> Tree:
        """The tree without loops of an opt_einsum path (positions in a shrinking list)."""
        return cls.plain(network, steps_from_path(path, len(network.inputs)))

    @property
    def n_operands(self) -> int:
        """Number of operands."""
        return len(self.network.inputs)

    @property
    def root(self) -> int:
        """The value that is the result: the last step, or the only operand."""
        return self.n_operands + len(self.steps) - 1 if self.steps else 0

    def children(self, value: int) -> tuple[int, ...]:
        """The two values that make `value`; none for an operand."""
        return () if value < self.n_operands else self.steps[value - self.n_operands]

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """The value that each value is read by; -1 for the result."""
        parents = [-1] * (self.n_operands + len(self.steps))
        for step, pair in enumerate(self.steps):
            for child in pair:
                parents[child] = self.n_operands + step
        return tuple(parents)

    @cached_property
    def carried(self) -> tuple[tuple[int, ...], ...]:
        """The indices that each value has; an operand's own sums are already done."""
        network = self.network
        last_use = set(network.output)
        uses = [0] * len(network.extents)
        for indices in network.inputs:
            for i in indices:
                uses[i] += 1
        carried = [
            tuple(i for i in indices if uses[i] > 1 or i in last_use) for indices in network.inputs
        ]
        below = [dict.fromkeys(indices, 1) for indices in carried]
        for left, right in self.steps:
            counts = dict(below[left])
            for i, n in below[right].items():
                counts[i] = counts.get(i, 0) + n
            below.append(counts)
            both = dict.fromkeys((*carried[left], *carried[right]))
            carried.append(tuple(i for i in both if counts[i] < uses[i] or i in last_use))
        return tuple(carried)

    @cached_property
    def stored(self) -> tuple[bool, ...]:
        """For each operand, whether it is brought to a cell before it is read.

        So it is if an index of it is summed first, and if it is not in memory.
        """
        return tuple(
            k in self.network.streamed or len(self.carried[k]) < len(indices)
            for k, indices in enumerate(self.network.inputs)
        )

    @cached_property
    def below(self) -> tuple[frozenset[int], ...]:
        """All indices at or below each value that a loop may cut."""
        below = [frozenset(self.carried[k]) for k in range(self.n_operands)]
        for left, right in self.steps:
            below.append(below[left] | below[right])
        return tuple(below)

    @cached_property
    def inside(self) -> tuple[tuple[Cut, ...], ...]:
        """Of each value, all loops open when its parts are multiplied, outermost first."""
        inside: list[tuple[Cut, ...]] = [()] * (self.n_operands + len(self.steps))
        for step in range(len(self.steps) - 1, -1, -1):
            value = self.n_operands + step
            parent = self.parents[value]
            around = () if parent < 0 else inside[parent][: self.levels[step]]
            inside[value] = around + self.opens[step]
        for k in range(self.n_operands if self.steps else 0):
            enclosing = inside[self.parents[k]]
            inside[k] = enclosing[: outermost_level(enclosing, self.below[k])]
        return tuple(inside)

    def level(self, value: int) -> int:
        """How many loops around its reader are open when `value` is produced.

        An operand that is stored is produced as far out as its indices allow.
        """
        if value < self.n_operands:
            return len(self.inside[value])
        return self.levels[value - self.n_operands]

    def around(self, value: int) -> tuple[Cut, ...]:
        """The loops around the whole production of `value`, its own nest not included."""
        inside = self.inside[value]
        own = 0 if value < self.n_operands else len(self.opens[value - self.n_operands])
        return inside[: len(inside) - own]

    def kind(self, step: int, index: int) -> tuple[Role, Combine]:
        """Role and combination of a loop over `index` opened by `step`."""
        role = Role.EXTERNAL if index in self.network.output else Role.CONTRACTED
        carried = index in self.carried[self.n_operands + step]
        return role, Combine.SCATTER if carried else Combine.ACCUMULATE

    def partial(self, step: int) -> tuple[Cut, ...]:
        """The loops opened by `step` whose trips add up in its value."""
        return tuple(
            cut for cut in self.opens[step] if self.kind(step, cut.index)[1] is Combine.ACCUMULATE
        )

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """All loops, in the order in which a reader of the nest meets them: root first."""
        loops = []
        for step in range(len(self.steps) - 1, -1, -1):
            for cut in self.opens[step]:
                extent = self.network.extents[cut.index]
                role, combine = self.kind(step, cut.index)
                label = self.network.labels[cut.index]
                loops.append(
                    Loop(label, role, combine, extent, cut.width, trips(cut, self.network), step)
                )
        return tuple(loops)

    @property
    def nested(self) -> object:
        """The order as nested tuples of operand numbers."""
        made: list[object] = list(range(self.n_operands))
        for left, right in self.steps:
            made.append((made[left], made[right]))
        return made[-1]

    @property
    def path(self) -> tuple[tuple[int, ...], ...]:
        """The order as an opt_einsum path, positions rising within an entry."""
        return tuple([tuple(sorted(entry)) for entry in self.sided_path])

    @property
    def sided_path(self) -> tuple[tuple[int, ...], ...]:
        """The same with what stands left first, from which the steps can be had again."""
        if not self.steps:
            return ((0,),)
        left = list(range(self.n_operands))
        path = []
        for step, pair in enumerate(self.steps):
            places = tuple([left.index(value) for value in pair])
            path.append(places)
            for place in sorted(places, reverse=True):
                del left[place]
            left.append(self.n_operands + step)
        return tuple(path)

    def with_default_levels(self, fixed: Mapping[int, int] = MappingProxyType({})) -> Tree:
        """The same loops with every value produced as far out as its indices allow.

        Args:
            fixed: Levels of steps that are to be kept as given.
        """
        levels = [0] * len(self.steps)
        tree = Tree(self.network, self.steps, self.opens, tuple(levels))
        inside: dict[int, tuple[Cut, ...]] = {}
        for step in range(len(self.steps) - 1, -1, -1):
            value = self.n_operands + step
            around: tuple[Cut, ...] = ()
            if value != tree.root:
                around = inside[tree.parents[value]]
                levels[step] = fixed.get(step, outermost_level(around, tree.below[value]))
                around = around[: max(levels[step], 0)]
            elif step in fixed:
                levels[step] = fixed[step]
            inside[value] = around + self.opens[step]
        return Tree(self.network, self.steps, self.opens, tuple(levels))

    def check(self) -> Tree:
        """This tree, if it is legal.

        Raises:
            PlanError: A loop or a level breaks a rule; the message names step, index and rule.
        """
        for step, opens in enumerate(self.opens):
            value = self.n_operands + step
            seen = {cut.index for cut in self.around(value)}
            for cut in opens:
                self._check_cut(step, cut, seen)
                seen.add(cut.index)
            if value == self.root:
                if self.levels[step]:
                    raise PlanError(
                        f"step {step} makes the result and is given level {self.levels[step]}; "
                        "no loop encloses it, so its level is 0"
                    )
                continue
            self._check_level(step)
        return self

    def _check_cut(self, step: int, cut: Cut, seen: set[int]) -> None:
        network, value = self.network, self.n_operands + step
        label = network.labels[cut.index]
        if cut.index in seen:
            raise PlanError(
                f"step {step} opens a loop over {label!r} inside another loop over {label!r}; "
                "an index is cut once along a nest; remove one of the loops"
            )
        if cut.index not in self.below[value]:
            have = sorted(str(network.labels[i]) for i in self.below[value])
            raise PlanError(
                f"step {step} opens a loop over {label!r}, which no operand below it carries to a "
                f"product; it can loop over {', '.join(have) or 'nothing'}"
            )
        if not 1 <= cut.width <= max(network.extents[cut.index], 1):
            raise PlanError(
                f"the loop over {label!r} at step {step} has batch_size {cut.width}; "
                f"expected 1 to {network.extents[cut.index]}, the extent of {label!r}"
            )
        if cut.edges:
            self._check_edges(step, cut)

    def _check_edges(self, step: int, cut: Cut) -> None:
        extent, edges = self.network.extents[cut.index], cut.edges
        what = f"the loop over {self.network.labels[cut.index]!r} at step {step}"
        rises = all(start < stop for start, stop in pairwise(edges))
        if len(edges) < 2 or not rises or (edges[0], edges[-1]) != (0, extent):
            raise PlanError(
                f"{what} is cut at {edges}; expected rising numbers from 0 to {extent}, the extent"
            )
        if cut != (fits := Cut.between(cut.index, edges)):
            raise PlanError(
                f"{what} has batch_size {cut.width} and is cut at {edges}; these trips are "
                f"batch_size {fits.width} with {'' if fits.edges else 'no '}edges"
            )

    def _check_level(self, step: int) -> None:
        value, level = self.n_operands + step, self.levels[step]
        reader = self.parents[value]
        enclosing = self.inside[reader]
        if not 0 <= level <= len(enclosing):
            raise PlanError(
                f"step {step} is given level {level}; its reader, step {reader - self.n_operands}, "
                f"runs inside {len(enclosing)} loops, so the level is 0 to {len(enclosing)}"
            )
        for cut in enclosing[level:]:
            if cut.index in self.below[value] and cut.index not in self.carried[value]:
                label = self.network.labels[cut.index]
                raise PlanError(
                    f"step {step} is given level {level}, outside the loop over {label!r}, but "
                    f"sums {label!r} itself; a value must be made inside the loop that it sums"
                )


def _member(
    kind: type[Role] | type[Combine], given: object, name: str, index: Hashable
) -> Role | Combine:
    for member in kind:
        if member == given:
            return member
    known = " or ".join(repr(member.value) for member in kind)
    raise PlanError(f"the loop over {index!r} is said to have {name} {given!r}; expected {known}")


def trips(cut: Cut, network: Network) -> int:
    """Number of trips of one loop; an empty index still takes one."""
    if cut.edges:
        return len(cut.edges) - 1
    return max(-(-network.extents[cut.index] // cut.width), 1)


def outermost_level(enclosing: tuple[Cut, ...], below: frozenset[int]) -> int:
    """The fewest enclosing loops that must be open to make a value over the indices `below`."""
    level = len(enclosing)
    while level and enclosing[level - 1].index not in below:
        level -= 1
    return level


def steps_from_path(path: Iterable[Iterable[int]], n_operands: int) -> tuple[tuple[int, int], ...]:
    """Pairs of values from an opt_einsum path; n-ary entries are taken pair by pair.

    What an entry names first stands left, so that the path of a tree gives its steps again.

    Raises:
        PathError: An entry names a position that does not exist, or the path does not end in
            one value.
    """
    left = list(range(n_operands))
    steps: list[tuple[int, int]] = []
    for entry in path:
        places = [int(place) for place in entry]
        known = {*range(len(left))}
        if not places or len({*places}) != len(places) or not known.issuperset(places):
            raise PathError(
                f"path entry {tuple(entry)} does not fit the {len(left)} values left at that "
                f"point; expected distinct positions from 0 to {len(left) - 1}"
            )
        values = [left[place] for place in places]
        left = [value for value in left if value not in values]
        made = values[0]
        for value in values[1:]:
            steps.append((made, value))
            made = n_operands + len(steps) - 1
        left.append(made)
    if len(left) != 1:
        raise PathError(
            f"the path leaves {len(left)} values uncontracted; expected one; "
            "add entries that contract the rest"
        )
    return tuple(steps)
