"""Schedules with one thing changed, and what a schedule means without its loops and lifetimes.

A schedule may be refused or run; what runs must give what its instructions say.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from einbound.schedule.cells import Cell, Place
from einbound.schedule.instructions import (
    Add,
    Alloc,
    Contract,
    Free,
    Instruction,
    Loop,
    Read,
    Scatter,
    Schedule,
    See,
    Slice,
    Sum,
    flat,
    reads,
)

#: Where an instruction stands: its position in each body around it, outermost first.
Path: TypeAlias = tuple[int, ...]
Body: TypeAlias = tuple[Instruction, ...]
#: A change, and None where it does not apply.
Edit: TypeAlias = Callable[[random.Random, Schedule], Schedule | None]


def paths(body: Body, around: Path = ()) -> Iterator[tuple[Path, Instruction]]:
    """All instructions with their paths."""
    for n, instruction in enumerate(body):
        yield (*around, n), instruction
        if isinstance(instruction, Loop):
            yield from paths(instruction.body, (*around, n))


def replaced(body: Body, path: Path, new: Body) -> Body:
    """A body with other instructions in the place of one."""
    n, *inner = path
    if inner:
        loop = body[n]
        assert isinstance(loop, Loop)
        new = (replace(loop, body=replaced(loop.body, tuple(inner), new)),)
    return (*body[:n], *new, *body[n + 1 :])


def refitted(schedule: Schedule) -> Schedule:
    """The same with the table's lives as many as there are reads, which hides a change."""
    lives = [0] * len(schedule.cells)
    for instruction in flat(schedule.body):
        for cell in reads(instruction):
            if 0 <= cell < len(lives):
                lives[cell] += 1
    cells = tuple(replace(cell, life=n) for cell, n in zip(schedule.cells, lives, strict=True))
    return replace(schedule, cells=cells)


def dropped(rng: random.Random, schedule: Schedule) -> Schedule:
    """One instruction is gone."""
    path, _ = rng.choice(list(paths(schedule.body)))
    return replace(schedule, body=replaced(schedule.body, path, ()))


def unlooped(rng: random.Random, schedule: Schedule) -> Schedule | None:
    """The body of one loop stands in its place."""
    loops = [(path, i) for path, i in paths(schedule.body) if isinstance(i, Loop)]
    if not loops:
        return None
    path, loop = rng.choice(loops)
    assert isinstance(loop, Loop)
    return replace(schedule, body=replaced(schedule.body, path, loop.body))


def doubled(rng: random.Random, schedule: Schedule) -> Schedule:
    """One instruction occurs twice."""
    path, i = rng.choice(list(paths(schedule.body)))
    return replace(schedule, body=replaced(schedule.body, path, (i, i)))


def swapped(rng: random.Random, schedule: Schedule) -> Schedule | None:
    """Two neighbours change places."""
    pairs = [path for path, _ in paths(schedule.body) if path[-1]]
    if not pairs:
        return None
    path = rng.choice(pairs)
    before = (*path[:-1], path[-1] - 1)
    at = dict(paths(schedule.body))
    body = replaced(schedule.body, path, (at[before],))
    return replace(schedule, body=replaced(body, before, (at[path],)))


def moved(rng: random.Random, schedule: Schedule) -> Schedule:
    """One instruction stands somewhere else, maybe in another loop."""
    path, i = rng.choice(list(paths(schedule.body)))
    body = replaced(schedule.body, path, ())
    places: list[tuple[Path, Instruction | None]] = [*paths(body), ((len(body),), None)]
    to, there = rng.choice(places)
    if isinstance(there, Loop) and rng.random() < 0.5:
        inside = replace(there, body=(*there.body, i))
        return replace(schedule, body=replaced(body, to, (inside,)))
    return replace(schedule, body=replaced(body, to, (i,) if there is None else (i, there)))


def wrapped(rng: random.Random, schedule: Schedule) -> Schedule | None:
    """One instruction stands inside a loop of its own."""
    if not schedule.extents:
        return None
    path, i = rng.choice(list(paths(schedule.body)))
    number = 1 + max((i.number for i in flat(schedule.body) if isinstance(i, Loop)), default=-1)
    index = rng.randrange(len(schedule.extents))
    extent = schedule.extents[index]
    loop = Loop(number, index, extent, rng.randint(1, max(extent, 1)), -1, (i,))
    return replace(schedule, body=replaced(schedule.body, path, (loop,)))


def repeated(rng: random.Random, schedule: Schedule) -> Schedule | None:
    """One product or sum is added up over a loop that nothing in it depends on."""
    writers = [(p, i) for p, i in paths(schedule.body) if isinstance(i, Contract | Sum)]
    if not writers or not schedule.extents:
        return None
    path, i = rng.choice(writers)
    number = 1 + max((i.number for i in flat(schedule.body) if isinstance(i, Loop)), default=-1)
    index = rng.randrange(len(schedule.extents))
    extent = schedule.extents[index]
    adds = (*i.adds, number)
    loop = Loop(number, index, extent, 1, -1, (replace(i, adds=adds),))
    cells = list(schedule.cells)
    cells[i.into] = replace(cells[i.into], partial=adds)
    return Schedule(
        tuple(cells),
        replaced(schedule.body, path, (loop,)),
        schedule.results,
        schedule.extents,
    )


def in_one_instruction(rng: random.Random, schedule: Schedule) -> Schedule | None:
    """One field of one instruction is another."""
    path, i = rng.choice(list(paths(schedule.body)))
    new = _changed(rng, schedule, i)
    return None if new is None else replace(schedule, body=replaced(schedule.body, path, (new,)))


def _changed(rng: random.Random, schedule: Schedule, i: Instruction) -> Instruction | None:
    fields: dict[str, Any] = {
        name: rng.randint(-1, len(schedule.cells))
        for name in ("cell", "source", "left", "right", "into")
        if hasattr(i, name)
    }
    loops = sorted({0, 1, *(each.number for each in flat(schedule.body) if isinstance(each, Loop))})
    match i:
        case Contract() | Sum():
            fields["adds"] = tuple(rng.sample(loops, rng.randint(0, min(2, len(loops)))))
            fields["onto"] = not i.onto
        case Slice():
            fields["axis"] = rng.randint(-3, 3)
            fields["loop"] = rng.choice(loops)
        case See():
            fields["axes"] = _other_axes(rng, schedule, i)
        case Loop():
            fields |= {
                "number": rng.choice(loops),
                "index": rng.randint(-1, len(schedule.extents)),
                "extent": i.extent + rng.choice([-1, 1]),
                "width": rng.randint(0, i.extent + 1),
                "edges": tuple(sorted(rng.choices(range(i.extent + 1), k=rng.randint(1, 4)))),
            }
        case _:
            pass
    name = rng.choice(sorted(fields))
    return replace(i, **{name: fields[name]})


def _other_axes(rng: random.Random, schedule: Schedule, i: See) -> tuple[tuple[int, ...], ...]:
    n_axes = len(schedule.cells[i.source].indices)
    axes = [list(run) for run in i.axes or [(n,) for n in range(n_axes)]]
    rng.shuffle(axes)
    if axes and rng.random() < 0.5:
        rng.choice(axes).append(rng.randint(-1, n_axes))
    if axes and rng.random() < 0.3:
        axes.pop()
    return tuple(tuple(run) for run in axes)


def in_the_table(rng: random.Random, schedule: Schedule) -> Schedule:
    """One field of one cell is another."""
    cell = rng.choice(schedule.cells)
    loops = [0, 1, *(each.number for each in flat(schedule.body) if isinstance(each, Loop))]
    n_indices, n_cells = len(schedule.extents), len(schedule.cells)
    options = {
        "life": cell.life + rng.choice([-1, 1]),
        "scope": _other(rng, cell.scope, rng.choice(loops)),
        "partial": _other(rng, cell.partial, rng.choice(loops)),
        "indices": _other(rng, cell.indices, rng.randint(-1, n_indices)),
        "slices": _other(rng, cell.slices, (rng.randint(-1, n_indices), rng.choice(loops))),
        "source": rng.choice([None, rng.randint(-1, n_cells)]),
        "place": rng.choice(list(Place)),
        "number": rng.randrange(n_cells),
        "depth": cell.depth + 1,
    }
    name = rng.choice(sorted(options))
    changes: dict[str, Any] = {name: options[name]}
    made = replace(cell, **changes)
    cells = tuple(made if each is cell else each for each in schedule.cells)
    return replace(schedule, cells=cells)


def _other(rng: random.Random, given: tuple[Any, ...], new: Any) -> tuple[Any, ...]:
    made = list(given)
    kind = rng.choice(["drop", "put", "change", "mix"])
    if kind == "put" or not made:
        made.insert(rng.randint(0, len(made)), new)
    elif kind == "drop":
        made.pop(rng.randrange(len(made)))
    elif kind == "change":
        made[rng.randrange(len(made))] = new
    else:
        rng.shuffle(made)
    return tuple(made)


def in_the_results(rng: random.Random, schedule: Schedule) -> Schedule:
    """One result is another cell."""
    results = _other(rng, schedule.results, rng.randint(-1, len(schedule.cells)))
    return replace(schedule, results=results)


EDITS: tuple[Edit, ...] = (
    dropped,
    unlooped,
    doubled,
    swapped,
    moved,
    wrapped,
    repeated,
    in_one_instruction,
    in_the_table,
    in_the_results,
)


@dataclass
class Meaning:
    """A schedule read as plain einsum calls on whole arrays: no loops, no slices, no lifetimes.

    Attributes:
        schedule: The schedule.
        arrays: What each cell is a view of, or itself has.
    """

    schedule: Schedule
    arrays: dict[int, np.ndarray]

    @classmethod
    def of(cls, schedule: Schedule, leaves: list[np.ndarray]) -> list[np.ndarray]:
        """The results."""
        self = cls(schedule, dict(enumerate(leaves)))
        for instruction in flat(schedule.body):
            self._do(instruction)
        return [self.arrays[number] for number in schedule.results]

    def _do(self, i: Instruction) -> None:
        match i:
            case Alloc():
                cell = self.schedule.cells[i.cell]
                shape = tuple(self.schedule.extents[n] for n in cell.indices)
                self.arrays[i.cell] = np.full(shape, np.nan)
            case Slice():
                self.arrays[i.cell] = self.arrays[i.source]
            case See():
                self.arrays[i.cell] = _renamed(self.arrays[i.source], i.axes)
            case Contract():
                made = i.factor * self._einsum(i.into, i.left, i.right)
                self._put(i.into, made, adds=i.onto)
            case Sum():
                self._put(i.into, self._einsum(i.into, i.source), adds=i.onto)
            case Read() | Scatter() | Add():
                self._put(i.into, self._einsum(i.into, i.source), adds=isinstance(i, Add))
            case Loop() | Free():
                pass

    def _einsum(self, into: int, *read: int) -> np.ndarray:
        terms = [self.schedule.cells[number].indices for number in (*read, into)]
        # numpy.einsum knows few numbers.
        small = {index: n for n, index in enumerate({i: 0 for term in terms for i in term})}
        *inputs, output = ([small[i] for i in term] for term in terms)
        args: list[Any] = []
        for number, term in zip(read, inputs, strict=True):
            args += [self.arrays[number], term]
        return np.asarray(np.einsum(*args, output))

    def _put(self, into: int, made: np.ndarray, *, adds: bool) -> None:
        self.arrays[into][...] = self.arrays[into] + made if adds else made


def _renamed(array: np.ndarray, axes: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """A view with one axis for each run of axes."""
    if not axes:
        return array
    shape = tuple(array.shape[run[0]] for run in axes)
    strides = tuple(sum(array.strides[n] for n in run) for run in axes)
    return np.lib.stride_tricks.as_strided(array, shape, strides)


def root(schedule: Schedule, cell: int) -> Cell:
    """The cell with memory that a cell looks into."""
    made = schedule.cells[cell]
    return made if made.source is None else root(schedule, made.source)
