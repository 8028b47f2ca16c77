"""How much memory buys how many multiply-adds: the public staircase of one contraction."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import DTypeLike

from einbound.api.handwritten import index_of
from einbound.api.limits import NO_LIMITS
from einbound.api.plan import Plan
from einbound.api.planning import compiled
from einbound.api.setting import Setting, setting_of
from einbound.api.staircase import BudgetPoint, Quest, Stair, spread
from einbound.errors import DTypeError, PlanError
from einbound.expr.expression import split_arguments
from einbound.expr.network import Network
from einbound.expr.number import whole
from einbound.plan.curve import balanced
from einbound.plan.effort import Effort
from einbound.report.curve import CurveReport, CurveRow, curve_table

#: Numbers of slices of every index, the more the fewer indices there are; 0: single elements.
_GRIDS = ((4, 0), (2, 8, 0), (2, 4, 8, 0))
#: Loops to choose from in all, about: the work and the memory for it grow steeply with them.
_N_LOOPS = 16

#: For each index that may be cut, the numbers of slices to choose from.
_Slices = dict[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _Basis:
    """What a curve stands on."""

    setting: Setting
    stairs: tuple[Stair, ...]
    slices: tuple[tuple[int, tuple[int, ...]], ...]
    exact: bool


class BudgetCurve(tuple[BudgetPoint, ...]):
    """The points by rising peak, each with fewer multiply-adds than the one before.

    Made by `einbound.budget_curve`; printed it is a table.
    """

    _basis: _Basis

    def __new__(cls, basis: _Basis) -> BudgetCurve:
        """The curve that stands on a basis."""
        curve = super().__new__(cls, [stair.point for stair in basis.stairs])
        curve._basis = basis
        return curve

    @property
    def exact(self) -> bool:
        """No plan over the slices of `grid` lies below, whatever its order, nests and levels.

        With temporaries this is known only where steps turn out to need none at the peak; else
        the points are the best found.
        """
        return self._basis.exact

    @property
    def grid(self) -> dict[Hashable, tuple[int, ...]]:
        """Of each index that may be cut, the numbers of slices to choose from, by label."""
        labels = self._basis.setting.network().labels
        return {labels[index]: numbers for index, numbers in self._basis.slices}

    def plan(self, number: int) -> Plan:
        """The plan of a point, ready to run.

        Args:
            number: Position of the point; negative from the end, as in a tuple.
        """
        stair = self._basis.stairs[number]
        return Plan(compiled(self._basis.setting, stair.tree, stair.buffer_bytes))

    def __str__(self) -> str:
        setting = self._basis.setting
        rows = [CurveRow(p.peak_bytes, p.workspace_bytes, p.macs, p.seconds) for p in self]
        grid = tuple((str(label), numbers) for label, numbers in self.grid.items())
        dtype = str(setting.dtypes().work)
        return curve_table(
            CurveReport(str(setting.expression), dtype, tuple(rows), grid, self.exact)
        )

    def __getnewargs__(self) -> tuple[_Basis]:
        return (self._basis,)


def budget_curve(
    *args: Any,
    dtype: DTypeLike | Sequence[DTypeLike] | None = None,
    batch_counts: Mapping[Any, int] | None = None,
    temporaries: bool = True,
    points: int | None = None,
    optimize: Effort | None = None,
) -> BudgetCurve:
    """The fewest multiply-adds for every peak: a staircase over all orders and loops.

    Args:
        args: `(text, operand, ...)` or `(operand, labels, ..., [output labels])`; an operand is
            an array or a shape (a tuple of ints).
        dtype: For operands given as shapes: one dtype, or one for each; default float64.
        batch_counts: The labels that may be cut, each with its number of slices, whose extents
            differ by one at most. None: all may, in the numbers of slices that `grid` tells.
        temporaries: Whether peaks include what steps take besides values: copies and buffers.
            Every point is then metered on its schedule, with buffers that add up to 1/64 to the
            least peak where that makes it faster. False: peaks are those of values alone.
        points: Points at most, spread evenly in the logarithm of the peak; both ends are kept.
        optimize: How hard to try, with which numbers of slices and which depth.

    Returns:
        A tuple of points with `exact`, `grid` and `plan(number)`. Networks of more than 13
        operands, and those for which the effort does not suffice, get the best plans found.

    Raises:
        ExpressionError: Text, labels or shapes are wrong.
        PlanError: A label is not in the expression, or a number does not fit.
        DTypeError: The elements have no known size.

    Law: it equals the staircase of all programs (tests/test_curve.py).

    Example:
        >>> import einbound as eb
        >>> curve = eb.budget_curve("ab,bc,cd->ad", (8, 16), (16, 8), (8, 16),
        ...                         batch_counts={"b": 4, "c": 2}, temporaries=False)
        >>> [(point.peak_bytes, point.macs) for point in curve], curve.exact
        ([(4352, 2048)], True)
    """
    expression, operands = split_arguments(args)
    setting = setting_of(expression, operands, NO_LIMITS, dtype=dtype)
    if not setting.dtypes().has_known_bytes:
        raise DTypeError(
            "a curve of bytes was asked for operands of dtype object, whose elements take memory "
            "that no shape tells; expected a numeric dtype; convert them"
        )
    effort, n_points, network = _effort(optimize), _n_points(points), setting.network()
    is_fixed = batch_counts is not None
    slices = _free(network, effort) if batch_counts is None else _given(batch_counts, network)
    options = [balanced(i, network.extents[i], n) for i, numbers in slices.items() for n in numbers]
    stairs, exact = Quest(setting, tuple(options), is_fixed, temporaries, effort).stairs()
    return BudgetCurve(_Basis(setting, spread(stairs, n_points), tuple(slices.items()), exact))


def _given(batch_counts: Mapping[Any, int], network: Network) -> _Slices:
    """The numbers of slices that the caller settled."""
    if not isinstance(batch_counts, Mapping):
        raise TypeError(
            f"batch_counts is {batch_counts!r} of type {type(batch_counts).__name__}; expected a "
            "mapping of labels to numbers of slices, such as {'a': 4}"
        )
    slices: _Slices = {}
    for label, given in batch_counts.items():
        index = index_of(network, label, "batch_counts cuts")
        number, most = whole(given, f"batch_counts of {label!r}"), max(network.extents[index], 1)
        if not 1 <= number <= most:
            raise PlanError(
                f"batch_counts cuts {label!r} into {number} slices; expected 1 to {most}, since "
                f"{label!r} has {network.extents[index]} elements"
            )
        slices[index] = (number,)
    return slices


def _free(network: Network, effort: Effort) -> _Slices:
    """Some numbers of slices of every index that has more than one element."""
    long = [i for i, extent in enumerate(network.extents) if extent > 1]
    n_widths = _N_LOOPS // max(len(long), 1)
    planned = next((grid for grid in reversed(_GRIDS) if len(grid) <= n_widths), _GRIDS[0])
    wanted = planned if effort.widths is None else effort.widths
    return {i: _numbers(wanted, network.extents[i]) for i in long}


def _numbers(wanted: tuple[int, ...], extent: int) -> tuple[int, ...]:
    return tuple(sorted({min(n, extent) if n else extent for n in wanted} - {1}))


def _n_points(points: int | None) -> int | None:
    if points is None:
        return None
    n_points = whole(points, "points")
    if n_points < 2:
        raise PlanError(
            f"points is {n_points}; expected at least 2, one for each end, or None for all"
        )
    return n_points


def _effort(optimize: Effort | None) -> Effort:
    if optimize is not None and not isinstance(optimize, Effort):
        raise TypeError(
            f"optimize is {optimize!r} of type {type(optimize).__name__}; expected an "
            "einbound.Effort or None: a curve is over all orders"
        )
    effort = Effort() if optimize is None else optimize
    if effort.deadline_seconds is not None:
        raise PlanError(
            f"optimize has deadline_seconds={effort.deadline_seconds}; a curve counts its work in "
            "states; leave it out"
        )
    return effort
