"""Everything that a plan is a function of, and the job that follows from it.

Hashable, so that equal calls find the same plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import index as as_int
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from einbound.api.engines import NUMPY, Engine
from einbound.api.limits import NO_LIMITS, Limits
from einbound.api.operands import Array, Layout, Operand, as_operand, union_bytes
from einbound.errors import DTypeError, ExpressionError
from einbound.expr.expression import Expression
from einbound.expr.network import Network
from einbound.plan.effort import Effort
from einbound.plan.price import Limit
from einbound.plan.rules import Rules
from einbound.run.executable import Job
from einbound.step.dtypes import Dtypes, resolve
from einbound.step.memory_order import result_axis_order
from einbound.step.view import View

#: Among plans of equal cost those are preferred that leave this much of a limit free, so that
#: interpreter objects, which no limit counts, lie within it too.
HEADROOM_BYTES = 64 * 1024
#: Part of what a limit leaves beside the operands that blocks leave free, at most.
_HEADROOM_SHARE = 8


@dataclass(frozen=True, slots=True)
class Out:
    """The caller's result array: its layout, and whether it overlaps an operand."""

    layout: Layout
    overlaps: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """What decides a plan.

    Attributes:
        expression: The labels.
        layouts: The layout of each operand.
        operand_bytes: Bytes that the operands cover; ranges that they share count once.
        limits: The byte limits.
        path: A given order, as an opt_einsum path; None for the planner's choice.
        dtype: Dtype to compute in, or None for the common one.
        order: Memory order of a new result: "K", "A", "C" or "F".
        casting: Which casts are allowed.
        out: The caller's result array, if any.
        rules: What a policy, tiles and an objective ask for besides; None: nothing.
        effort: How hard the planner tries; None: the default.
        engine: What its products run on.
    """

    expression: Expression
    layouts: tuple[Layout, ...]
    operand_bytes: int
    limits: Limits = NO_LIMITS
    path: tuple[tuple[int, ...], ...] | None = None
    dtype: np.dtype[Any] | None = None
    order: str = "K"
    casting: str = "safe"
    out: Out | None = None
    rules: Rules | None = None
    effort: Effort | None = None
    engine: Engine = NUMPY

    def network(self) -> Network:
        """The network of the operands' shapes."""
        network = self.expression.bind([layout.shape for layout in self.layouts])
        streamed = frozenset(k for k, layout in enumerate(self.layouts) if layout.streamed)
        return replace(network, streamed=streamed) if streamed else network

    def dtypes(self) -> Dtypes:
        """The dtypes of operands, intermediates and result.

        Raises:
            DTypeError: A dtype or a cast is not allowed, or a limit is asked for objects.
        """
        given = tuple(layout.dtype for layout in self.layouts)
        # Nothing is computed for a view, so every dtype is as good as another.
        is_view = self.out is None and self.network().is_view
        dtypes = Dtypes(given, given[0], given[0]) if is_view else self._computed(given)
        if self.limits.is_set and not dtypes.has_known_bytes:
            raise DTypeError(
                "a byte limit was given for operands of dtype object, whose elements take memory "
                "that no shape tells; expected a numeric dtype; convert them, or give no limit"
            )
        return dtypes

    def _computed(self, given: tuple[np.dtype[Any], ...]) -> Dtypes:
        out = None if self.out is None else self.out.layout
        # A result without axes is assigned, as in `out[()] = value`, which casts freely.
        assigned = out is not None and not out.shape
        dtypes = resolve(
            given, self.dtype, self.casting, None if out is None or assigned else out.dtype
        )
        return replace(dtypes, result=out.dtype) if out is not None and assigned else dtypes

    def job(self, network: Network, dtypes: Dtypes) -> Job:
        """The layouts that a schedule is made for."""
        job = self._job(network, dtypes)
        if network.streamed and self.limits.is_set:
            job = replace(job, room=self._room())
        if self.rules is None:
            return job
        return replace(job, accumulation_factor=self.rules.accumulation_factor)

    def _room(self) -> Limit:
        """What blocks may fill: some of a limit stays free, as it does with other plans."""
        budget = self.limits.budget(self.operand_bytes)
        given = [n for n in (budget.peak_bytes, budget.workspace_bytes) if n is not None]
        return budget.less(min(HEADROOM_BYTES, max(min(given), 0) // _HEADROOM_SHARE))

    def _job(self, network: Network, dtypes: Dtypes) -> Job:
        views = tuple(
            layout.view(access, indices)
            for layout, access, indices in zip(
                self.layouts, network.accesses, network.inputs, strict=True
            )
        )
        if self.out is not None:
            layout = self.out.layout
            if layout.shape != network.result_shape:
                raise ExpressionError(
                    f"out has shape {layout.shape}; the result has shape {network.result_shape}; "
                    "give an array of that shape"
                )
            result = View(network.output, layout.shape, layout.strides, layout.dtype)
            return Job(network, views, result, dtypes.work, True, self.out.overlaps)
        if network.is_view:
            return Job(network, views, views[0], views[0].dtype)
        indices = result_axis_order(self.order, network.output, views, _summed(network))
        extents = tuple(network.extents[i] for i in indices)
        result = View.contiguous(indices, extents, dtypes.result)
        return Job(network, views, result, dtypes.work)


def setting_of(
    expression: Expression,
    operands: Sequence[Any],
    limits: Limits,
    *,
    dtype: DTypeLike | Sequence[DTypeLike] | None = None,
    same: Iterable[tuple[int, int]] = (),
    order: str = "K",
    casting: str = "safe",
) -> Setting:
    """The setting of a call with arrays, shapes, or a mixture of both."""
    shapes = [_shape_of(operand) for operand in operands]
    if all(shape is None for shape in shapes):
        arrays = [as_operand(operand) for operand in operands]
        layouts = tuple(Layout.of(a) for a in arrays)
        if isinstance(dtype, (list, tuple)):
            raise ExpressionError(
                f"dtype is {dtype!r}, but all operands are arrays, which have dtypes of their own; "
                "give one dtype to compute in, or shapes instead of arrays"
            )
        forced = None if dtype is None else np.dtype(dtype)  # type: ignore[arg-type]
        return Setting(
            expression, layouts, union_bytes(arrays), limits, None, forced, order, casting
        )
    layouts = tuple(
        Layout.of(as_operand(operand)) if shape is None else Layout.fresh(shape, kind)
        for operand, shape, kind in zip(operands, shapes, _dtypes(dtype, len(shapes)), strict=True)
    )
    return Setting(
        expression, layouts, _planned_bytes(layouts, same), limits, None, None, order, casting
    )


def _summed(network: Network) -> tuple[int, ...]:
    """The indices that are not on the result, sorted by label if Python can sort them."""
    on_result = set(network.output)
    summed = [i for i in range(len(network.extents)) if i not in on_result]
    with suppress(TypeError):
        summed.sort(key=network.labels.__getitem__)  # type: ignore[arg-type]
    return tuple(summed)


def _shape_of(operand: Any) -> tuple[int, ...] | None:
    """The shape that `operand` is, or None if it is an array."""
    if isinstance(operand, tuple) and all(
        isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in operand
    ):
        return tuple(int(n) for n in operand)
    return None


def _dtypes(dtype: Any, n_operands: int) -> list[np.dtype[Any]]:
    if dtype is None:
        return [np.dtype(np.float64)] * n_operands
    if isinstance(dtype, (list, tuple)):
        if len(dtype) != n_operands:
            raise ExpressionError(
                f"dtype names {len(dtype)} dtypes for {n_operands} operands; "
                "expected one for all, or one each"
            )
        return [np.dtype(each) for each in dtype]
    return [np.dtype(dtype)] * n_operands


def _planned_bytes(layouts: tuple[Layout, ...], same: Iterable[tuple[int, int]]) -> int:
    first = list(range(len(layouts)))
    for left, right in _pairs(same):
        for operand in (left, right):
            if not 0 <= operand < len(layouts):
                raise ExpressionError(
                    f"same names operand {operand}; there are operands 0 to {len(layouts) - 1}"
                )
        if layouts[left] != layouts[right]:
            raise ExpressionError(
                f"same says that operands {left} and {right} are one array, but their shapes or "
                f"dtypes differ: {layouts[left].shape} and {layouts[right].shape}"
            )
        low, high = sorted((first[left], first[right]))
        first = [low if f == high else f for f in first]
    return sum(layouts[k].n_bytes for k in set(first))


def _pairs(same: Any) -> list[tuple[int, int]]:
    try:
        return [(as_int(left), as_int(right)) for left, right in same]
    except (TypeError, ValueError):
        raise TypeError(
            f"same is {same!r}; expected pairs of operand numbers, such as [(0, 1)]"
        ) from None


def out_of(out: Array, operands: Sequence[Operand]) -> Out:
    """The layout of the caller's result array and whether it overlaps an operand.

    Whether it is what an operand that is not in memory is read from cannot be known.

    Raises:
        TypeError: `out` is no array.
    """
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is of type {type(out).__name__}; expected a numpy array")
    arrays = [a for a in operands if isinstance(a, np.ndarray)]
    return Out(Layout.of(out), any(np.may_share_memory(out, a) for a in arrays))


def check_out(out: Array) -> None:
    """Refuse a result array that cannot be written.

    Raises:
        ExpressionError: It is read-only.
    """
    if not out.flags.writeable:
        raise ExpressionError("out is read-only; give an array that can be written")
