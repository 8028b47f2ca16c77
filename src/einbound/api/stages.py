"""A program planned for one case: what is made once, what every call runs, what depends on what."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf, prod
from typing import Any

import numpy as np

from einbound.api.engines import NUMPY, Engine
from einbound.api.forests import Ready, ready_forest
from einbound.api.given import Case
from einbound.api.limits import NO_LIMITS, Limits
from einbound.api.planning import SMALL_PEAK_BYTES
from einbound.api.tiles import tile_edges
from einbound.errors import BudgetError, BudgetWarning, MemoryRiskWarning
from einbound.expr.equations import System
from einbound.expr.index import Index, Operand
from einbound.expr.number import element
from einbound.forest.build import planted
from einbound.forest.forest import Forest, Kind, Value
from einbound.forest.kept import halves, retained
from einbound.forest.rewriting import Rewritten, rewritten
from einbound.machine.memory import available_bytes
from einbound.plan.policy import BatchPolicy, BatchScheduler
from einbound.run.forest import ForestExecutable
from einbound.step.view import View


@dataclass(frozen=True)
class Wish:
    """What a caller wants of a program.

    Attributes:
        system: The equations.
        limits: The byte limits.
        policy: A batch policy, or None.
        scheduler: Whether loops may be common to several terms.
        volatile: Tensors that change with every evaluation, besides those that are declared.
        iterations: Evaluations that are planned for.
        dtype: Element type to compute in; None: the common one of the tensors.
        engine: What products run on.
    """

    system: System
    limits: Limits
    policy: BatchPolicy | None
    scheduler: BatchScheduler
    volatile: frozenset[str]
    iterations: int
    dtype: np.dtype[Any] | None = None
    engine: Engine = NUMPY

    def changing(self, case: Case) -> frozenset[str]:
        """All tensors that change with every evaluation, by declaration, argument or policy."""
        declared = {each.name for each in self.system.declared if each.is_volatile}
        policy = self.policy
        if policy is None or policy.is_volatile_leaf is None:
            return self.volatile | declared
        labels = {factor.name: factor.indices for factor in reversed(tuple(self.system.factors))}
        marked = set()
        for number, (name, layout) in enumerate(zip(self.system.leaves, case.layouts, strict=True)):
            indices = tuple(
                Index(label, extent)
                for label, extent in zip(labels[name], layout.shape, strict=True)
            )
            if policy.is_volatile(Operand(number, indices, layout.dtype)):
                marked.add(name)
        return self.volatile | declared | marked

    def threshold(self) -> int | None:
        """Bytes that a policy wants the peak to stay within; None: any number."""
        if self.policy is None or self.policy.peak_threshold == inf:
            return None
        return int(self.policy.peak_threshold)


@dataclass(frozen=True)
class Part:
    """What makes some of the kept values.

    Attributes:
        executable: What runs; its targets are the values, by number.
        made: Names of these values, in the order of the results.
        given: Names of the kept values that it reads, its last leaves.
    """

    executable: ForestExecutable
    made: tuple[str, ...]
    given: tuple[str, ...]


@dataclass(frozen=True)
class Stages:
    """A program planned for one case.

    Attributes:
        wish: What was asked for.
        case: What it was planned for.
        rewritten: The terms with their shared values, and what these save.
        ready: The plan, and what runs.
        limits: The limits that it keeps, of a policy's threshold the smaller one.
        constants: For each leaf that the equations bring, its array, by name.
    """

    wish: Wish
    case: Case
    rewritten: Rewritten
    ready: Ready
    limits: Limits
    constants: Mapping[str, np.ndarray[Any, Any]]
    _parts: dict[tuple[str, ...], Part] = field(default_factory=dict)

    @property
    def main(self) -> ForestExecutable:
        """What every call runs."""
        return self.ready.main

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """Names of the kept values, the last leaves of what every call runs."""
        prelude = self.ready.prelude
        return () if prelude is None else _names(prelude.plan.forest, prelude.plan.forest.targets)

    @property
    def operand_bytes(self) -> int:
        """Bytes of the tensors and of the numbers that the equations bring."""
        return self.case.operand_bytes + self.case.work.itemsize * len(self.constants)

    @cached_property
    def kept_bytes(self) -> int:
        """Bytes of the kept values."""
        return sum(self._bytes(value) for value in _kept_values(self.ready, self.kept))

    @property
    def peak_bytes(self) -> int:
        """Most bytes alive at once in any call."""
        return max(self.first_peak_bytes, self.later_peak_bytes)

    @property
    def first_peak_bytes(self) -> int:
        """Most bytes alive while the kept values are made."""
        prelude = self.ready.prelude
        return self.operand_bytes + (0 if prelude is None else prelude.metered.space_bytes)

    @property
    def later_peak_bytes(self) -> int:
        """Most bytes alive while the targets are made from the kept values."""
        return self.operand_bytes + self.kept_bytes + self.main.metered.space_bytes

    @cached_property
    def needs(self) -> dict[str, frozenset[str]]:
        """For each kept value, the tensors that it is made from."""
        prelude = self.ready.prelude
        if prelude is None:
            return {}
        forest = prelude.plan.forest
        found: dict[int, frozenset[str]] = {
            value.number: frozenset((value.name,) if value.constant is None else ())
            for value in forest.values
            if value.kind is Kind.LEAF
        }
        for each in forest.productions:
            read = frozenset[str]().union(*(found[value] for value in each.operands))
            found[each.into] = found.get(each.into, frozenset()) | read
        return {forest.values[value].name: found[value] for value in forest.targets}

    def part(self, made: Iterable[str]) -> Part:
        """What makes some of the kept values from the others; planned at first use."""
        names = frozenset(made)
        wanted = tuple(name for name in self.kept if name in names)
        if wanted not in self._parts:
            self._parts[wanted] = self._part(wanted)
        return self._parts[wanted]

    def _part(self, made: tuple[str, ...]) -> Part:
        prelude = self.ready.prelude
        assert prelude is not None, "nothing is kept"
        if made == self.kept:
            return Part(prelude, made, ())
        whole = prelude.plan.forest
        number = {value.name: value.number for value in whole.values}
        given = tuple(sorted((n for n in self.kept if n not in made), key=number.__getitem__))
        aim = replace(whole, targets=tuple(number[name] for name in made))
        forest = halves(aim, [number[name] for name in given]).main
        held = self.operand_bytes + sum(self._bytes(whole.values[number[name]]) for name in given)
        ready = _ready(self.wish, self.case, forest, self.limits, held, iterations=1)
        return Part(_fitting(ready, self.limits, held).main, made, given)

    @cached_property
    def free(self) -> Stages:
        """The same program where there are no limits, for comparison."""
        wish = replace(self.wish, limits=NO_LIMITS, policy=None)
        return self if wish == self.wish else planned_stages(wish, self.case, warns=False)

    def _bytes(self, value: Value) -> int:
        return self.case.work.itemsize * prod(value.shape)


def planned_stages(wish: Wish, case: Case, *, warns: bool = True) -> Stages:
    """The plan of a program for one case.

    Args:
        wish: What is asked for.
        case: For which tensors.
        warns: Tell if the plan may not fit into this machine.

    Raises:
        BudgetError: None that was found keeps the limits.
        EquationsError: Shapes do not fit the equations.
    """
    plain = planted(case.said(wish.system), case.shapes(wish.system), wish.changing(case))
    better = rewritten(plain, wish.iterations, is_integral=case.work.kind in "iu")
    forest = retained(better.forest)
    constants = {
        value.name: np.asarray(element(value.constant, case.work), case.work)
        for value in forest.values
        if value.constant is not None
    }
    held = case.operand_bytes + case.work.itemsize * len(constants)
    limits, threshold = wish.limits, wish.threshold()
    if threshold is not None:
        asked = threshold if limits.memory_bytes is None else limits.memory_bytes
        limits = replace(limits, memory_bytes=min(threshold, asked))
    ready = _ready(wish, case, forest, limits, held, iterations=wish.iterations)
    if threshold is None or ready.planned.fits:
        _fitting(ready, limits, held)
    else:
        ready, limits = _beyond(wish, case, forest, held, ready), wish.limits
    stages = Stages(wish, case, better, ready, limits, constants)
    for half in filter(None, (ready.prelude, ready.main)):
        # Made here, so that calls hold nothing but arrays.
        half.kernels  # noqa: B018
    if warns and not limits.is_set:
        _warn_of_memory(stages.peak_bytes)
    return stages


def _warn_of_memory(peak_bytes: int) -> None:
    """Warn of a program without a limit that takes more memory than there is."""
    if peak_bytes > SMALL_PEAK_BYTES and peak_bytes > (free := available_bytes()):
        warnings.warn(
            f"the program needs {peak_bytes} bytes and {free} are available; "
            'give memory_limit="80%" to stay within them',
            MemoryRiskWarning,
            stacklevel=5,
        )


def _beyond(wish: Wish, case: Case, forest: Forest, held: int, low: Ready) -> Ready:
    """What a policy gets whose threshold no plan keeps: a plan within the limits, and a warning."""
    ready = low
    if not _keeps(low, wish.limits, held):
        ready = _ready(wish, case, forest, wish.limits, held, iterations=wish.iterations)
        _fitting(ready, wish.limits, held)
    warnings.warn(
        f"peak_threshold={wish.threshold()} bytes is not kept: the program takes "
        f"{ready.planned.draft.space_bytes + held}; raise the threshold, admit more loops, or give "
        "a memory_limit, which is never passed",
        BudgetWarning,
        stacklevel=6,
    )
    return ready


def _ready(
    wish: Wish, case: Case, forest: Forest, limits: Limits, held: int, *, iterations: int
) -> Ready:
    """A forest planned within what limits leave beside `held` bytes."""
    return ready_forest(
        forest,
        leaf_views(forest, case, wish.system),
        case.work,
        limits,
        operand_bytes=held,
        policy=wish.policy,
        scheduler=wish.scheduler,
        iterations=iterations,
        edges=partial(_tile_edges, wish.system),
        engine=wish.engine,
    )


def _tile_edges(system: System, label: Hashable, extent: int) -> tuple[int, ...]:
    """The tiles that the space of an index has; labels are the system's, digits and all."""
    space = system.space_of(str(label))
    if space is None or space.tiles is None:
        return ()
    return tile_edges(space.name, space.tiles, extent)


def leaf_views(forest: Forest, case: Case, system: System) -> tuple[View, ...]:
    """The layout of each leaf: of tensors as they are given, of anything else as a new array."""
    layouts = dict(zip(system.leaves, case.layouts, strict=True))
    views = []
    for value in forest.values:
        if value.kind is Kind.LEAF:
            axes = tuple(range(len(value.shape)))
            layout = layouts.get(value.name)
            if layout is None:
                views.append(View.contiguous(axes, value.shape, case.work))
            else:
                views.append(View(axes, layout.shape, layout.strides, layout.dtype, layout.aligned))
    return tuple(views)


def _keeps(ready: Ready, limits: Limits, held: int) -> bool:
    """Whether what was planned for one limit keeps others."""
    draft = ready.planned.draft
    workspace = max(half.metered.workspace_bytes for half in draft.halves) + draft.kept_bytes
    needs = (held + draft.space_bytes, limits.memory_bytes), (workspace, limits.workspace_bytes)
    return all(limit is None or taken <= limit for taken, limit in needs)


def _fitting(ready: Ready, limits: Limits, held: int) -> Ready:
    """The same, if it keeps the limits.

    Raises:
        BudgetError: It does not.
    """
    draft = ready.planned.draft
    if ready.planned.fits or not limits.is_set:
        return ready
    forest = draft.main.plan.forest
    asked = limits.memory_bytes
    name, limit_bytes = "memory_limit", asked or 0
    needed, bound = held + draft.space_bytes, held
    bound += ready.main.work.itemsize * sum(prod(forest.values[t].shape) for t in forest.targets)
    if asked is None:
        assert limits.workspace_bytes is not None, "a limit that is not set is not broken"
        name, limit_bytes, bound = "workspace_limit", limits.workspace_bytes, 0
        needed = max(half.metered.workspace_bytes for half in draft.halves) + draft.kept_bytes
    raise BudgetError(
        f"{name}={limit_bytes} bytes is too small; the smallest peak found is {needed} bytes "
        f"(tensors {held}, kept values {draft.kept_bytes}); no plan can need less than {bound}; "
        f"raise {name} to {needed}",
        limit_bytes=limit_bytes,
        smallest_bytes=needed,
        lower_bound_bytes=bound,
        culprit="the tensors" if held >= draft.space_bytes else "values and buffers",
        culprit_bytes=max(held, draft.space_bytes),
    )


def _names(forest: Forest, numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(forest.values[number].name for number in numbers)


def _kept_values(ready: Ready, kept: tuple[str, ...]) -> tuple[Value, ...]:
    values = {value.name: value for value in ready.main.plan.forest.values}
    return tuple(values[name] for name in kept)
