"""What a search is asked, and the plans that the meter confirmed: the best, and the nearest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Protocol

from einbound.expr.network import Network
from einbound.plan.effort import Deadline, Effort, Proof
from einbound.plan.gate import repeated_steps
from einbound.plan.model import Count
from einbound.plan.price import Limit
from einbound.plan.rules import Objective, Rules
from einbound.plan.tree import Tree
from einbound.step.pricing import MOST_BUFFER_BYTES, TOUCH_BYTE_SECONDS, TRIP_SECONDS

#: The smallest buffer that is tried.
LEAST_BUFFER_BYTES = 64
#: Factor between buffers that are tried one after another.
_BUFFER_STEP = 4
#: Part of the room beside the result that may stay free: narrow slices cost more than a tight fit.
_HEADROOM_SHARE = 8
#: Part of the peak, operands included, that buffers may add where low peaks are wanted.
_BUFFER_SHARE = 64
#: Plans whose predicted seconds differ by less than this factor count as equally fast.
_SAME_SECONDS = 1.02
#: Predicted seconds from which buffers beyond the usual ones are tried, and the part of the
#: seconds that each doubling must save.
_STRETCHED_FROM_SECONDS = 2e-2
_STRETCHED_GAIN = 0.03


class Metered(Protocol):
    """Counts of a plan's real schedule."""

    @property
    def space_bytes(self) -> int:
        """Peak of the result and everything else alive at once, operands not counted."""

    @property
    def workspace_bytes(self) -> int:
        """Peak of what is neither operand nor result."""

    @property
    def macs(self) -> int:
        """Multiply-adds of all pairwise steps."""

    @property
    def calls(self) -> int:
        """Pairwise steps that run."""

    @property
    def seconds(self) -> float:
        """Predicted time."""


Meter = Callable[[Tree, int], Metered]


@dataclass(frozen=True)
class Request:
    """What a search is asked.

    Attributes:
        network: What is contracted.
        itemsize: Bytes per element of every value.
        budget: Bytes that the plan must not pass, operands not counted.
        meter: Counts of the real schedule of a tree under a buffer size in bytes.
        rules: What the plan keeps to besides, and how plans are compared.
        effort: How hard to try.
        is_eager: The effort is the caller's own: it is spent in full for a proof.
        operand_bytes: Bytes of the operands.
        default_buffer_bytes: Largest buffer of an accumulation or a packed operand.
        headroom_bytes: Bytes of the budget that are better left free.
        deadline: When to end; shared by all searches for this request.
    """

    network: Network
    itemsize: int
    budget: Limit
    meter: Meter
    rules: Rules
    effort: Effort
    is_eager: bool
    operand_bytes: int
    default_buffer_bytes: int
    headroom_bytes: int
    deadline: Deadline

    @cached_property
    def limit(self) -> Limit:
        """The budget, and the peak that a policy asks for, together."""
        if self.rules.threshold_bytes is None:
            return self.budget
        asked = self.rules.threshold_bytes - self.operand_bytes
        peak = self.budget.peak_bytes
        return replace(self.budget, peak_bytes=asked if peak is None else min(asked, peak))

    @cached_property
    def result_bytes(self) -> int:
        """Bytes of the result."""
        return self.itemsize * prod(self.network.result_shape)

    @cached_property
    def room_bytes(self) -> int:
        """Bytes that the limit leaves beside the result; 0 without a limit."""
        rooms = [self.limit.workspace_bytes]
        if self.limit.peak_bytes is not None:
            rooms.append(self.limit.peak_bytes - self.result_bytes)
        return max(min((room for room in rooms if room is not None), default=0), 0)

    @property
    def is_by_time(self) -> bool:
        """Whether predicted seconds come next after multiply-adds."""
        return self.rules.objective is Objective.TIME and not self.rules.by_policy

    @cached_property
    def spare_bytes(self) -> int:
        """Bytes that are left free where that costs no multiply-adds."""
        if not self.is_by_time or self.room_bytes <= self.headroom_bytes:
            return 0
        return min(self.headroom_bytes, self.room_bytes // _HEADROOM_SHARE)

    def weighted_macs(self, tree: Tree, macs: int) -> int:
        """Multiply-adds of a tree in all evaluations.

        Args:
            tree: The tree.
            macs: Its multiply-adds in one evaluation.
        """
        rules, count = self.rules, Count(tree, 1)
        if not rules.volatile or rules.iterations == 1:
            return macs
        repeated = repeated_steps(tree, rules.volatile)
        return sum(
            count.step_macs(step) * (rules.iterations if repeated[step] else 1)
            for step in range(len(tree.steps))
        )


@dataclass(frozen=True, slots=True)
class Least:
    """Counts that no plan of a tree is below, whatever its buffers."""

    space_bytes: int
    macs: int
    workspace_bytes: int = 0
    calls: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A plan with what the meter says about it.

    Attributes:
        tree: The plan.
        buffer_bytes: The buffer it was metered with.
        metered: Its counts.
        macs: Multiply-adds of all evaluations.
        seconds: Predicted time with the cost of trips and fresh memory.
        key: What plans are compared by; the least is best.
        over_bytes: Bytes by which it passes the limit; 0 if it keeps it.
    """

    tree: Tree
    buffer_bytes: int
    metered: Metered
    macs: int
    seconds: float
    key: tuple[float, ...]
    over_bytes: int


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome of a search.

    Attributes:
        tree: The plan: the best that fits, or the one with the smallest peak.
        buffer_bytes: The buffer it was metered with.
        metered: Its counts.
        fits: Whether it keeps the budget.
        considered: Nests priced, states explored and plans metered on the way.
        proof: What the search can say about it.
        keeps_threshold: Whether it keeps the peak that a policy asks for, too.
        least: Bytes that every plan needs, as far as a refusal made them known.
    """

    tree: Tree
    buffer_bytes: int
    metered: Metered
    fits: bool
    considered: int
    proof: Proof = field(default_factory=Proof)
    keeps_threshold: bool = True
    least: Limit = Limit(None, None)  # noqa: RUF009


@dataclass
class Ledger:
    """The plans that were metered for one request.

    Attributes:
        request: What is asked.
        limit: The bytes to keep to.
        lowest: Lower peaks come before fewer multiply-adds.
        best: The best plan that keeps the limit.
        nearest: The plan that passes the limit by the fewest bytes.
        plans: All plans, by tree and buffer.
    """

    request: Request
    limit: Limit
    lowest: bool = False
    best: Confirmed | None = None
    nearest: Confirmed | None = None
    plans: dict[tuple[Tree, int], Confirmed] = field(default_factory=dict)

    def confirm(self, tree: Tree, buffer_bytes: int) -> Confirmed:
        """What the meter says, kept if it is the best so far."""
        known = self.plans.get((tree, buffer_bytes))
        return known or self._kept(self._priced(tree, buffer_bytes))

    def _priced(self, tree: Tree, buffer_bytes: int) -> Confirmed:
        request = self.request
        counts = request.meter(tree.check(), buffer_bytes)
        seconds = counts.seconds + counts.calls * TRIP_SECONDS
        seconds += counts.workspace_bytes * TOUCH_BYTE_SECONDS
        macs, over = request.weighted_macs(tree, counts.macs), over_bytes(counts, self.limit)
        key = self._key(tree, counts, macs, seconds)
        return Confirmed(tree, buffer_bytes, counts, macs, seconds, key, over)

    def _kept(self, made: Confirmed) -> Confirmed:
        over, key = made.over_bytes, made.key
        self.plans[made.tree, made.buffer_bytes] = made
        if over <= 0 and (self.best is None or key < self.best.key):
            self.best = made
        if self.nearest is None or (over, key) < (self.nearest.over_bytes, self.nearest.key):
            self.nearest = made
        return made

    def may_gain(self, tree: Tree) -> bool:
        """Whether a tree may be better than the best one, from what its values alone take.

        Buffers come on top of that, so a tree that is no better by its values is none.
        """
        count = Count(tree, self.request.itemsize)
        least = Least(count.peak_bytes, count.macs)
        over = over_bytes(least, self.limit)
        if self.best is None:
            return self.nearest is None or over < self.nearest.over_bytes
        macs = self.request.weighted_macs(tree, count.macs)
        # Seconds come last, and nothing is known of them yet.
        return over <= 0 and self._key(tree, least, macs, 0.0)[:-1] < self.best.key[:-1]

    def _key(self, tree: Tree, counts: Metered, macs: int, seconds: float) -> tuple[float, ...]:
        rules, space = self.request.rules, counts.space_bytes
        if self.lowest or rules.by_policy or rules.objective is Objective.SPACE:
            values = Count(tree, self.request.itemsize).peak_bytes
            # Buffers of a few bytes save next to nothing and take a hundred times as long.
            whole = self.request.operand_bytes + values
            charged = max(values, space - whole // _BUFFER_SHARE)
            if self.lowest:
                return charged, macs, seconds
            if rules.objective is Objective.SPACE:
                return macs, charged, seconds
            # Widths that the policy leaves open are no reason for a slow plan.
            rough = 0.0 if rules.grid.is_fixed else seconds
            return macs, sum(map(len, tree.opens)), rough, values, seconds
        tight = over_bytes(counts, self.limit.less(self.request.spare_bytes)) > 0
        return macs, tight, seconds, counts.calls, space

    def confirm_fitting(self, tree: Tree, buffer_bytes: int) -> Confirmed:
        """The plan with a large buffer with which it fits, or with the least.

        Args:
            tree: The plan.
            buffer_bytes: The largest buffer to try.
        """
        made = self.confirm(tree, buffer_bytes)
        if made.over_bytes <= 0 or buffer_bytes <= LEAST_BUFFER_BYTES:
            return made
        least = self.confirm(tree, LEAST_BUFFER_BYTES)
        if least.over_bytes > 0:
            return least
        # A step has a few buffers at most, so one of about what is left is the largest that fits.
        tried = min(buffer_bytes, power_below(self._left_bytes(least) + LEAST_BUFFER_BYTES))
        while tried > LEAST_BUFFER_BYTES:
            made = self.confirm(tree, tried)
            if made.over_bytes <= 0:
                return made
            tried //= _BUFFER_STEP
        return least

    def _left_bytes(self, made: Confirmed) -> int:
        """Bytes of the limit that a plan leaves."""
        limit, counts = self.limit, made.metered
        left = [
            given - used
            for given, used in (
                (limit.peak_bytes, counts.space_bytes),
                (limit.workspace_bytes, counts.workspace_bytes),
            )
            if given is not None
        ]
        return max(min(left, default=self.request.default_buffer_bytes), 0)

    def enlarge(self, most_bytes: int) -> None:
        """Meters the best plan with larger buffers, as long as they fit and change something."""
        best = self.best
        if best is None:
            return
        if self._is_enough(self.confirm(best.tree, most_bytes)):
            return
        buffer_bytes = power_below(min(self._left_bytes(best) + best.buffer_bytes, most_bytes))
        while buffer_bytes > best.buffer_bytes:
            if self._is_enough(self.confirm(best.tree, buffer_bytes)):
                return
            buffer_bytes //= 2

    def _stretch(self) -> None:
        """Gives the best plan larger buffers than the usual ones, as long as they pay."""
        request, made = self.request, self.simplest
        if made is None or self.lowest or not request.is_by_time:
            return
        if made.buffer_bytes < max(request.default_buffer_bytes, 1):
            return
        growth = made.buffer_bytes
        while growth >= made.buffer_bytes // _BUFFER_STEP:
            size = made.buffer_bytes + growth
            if made.seconds < _STRETCHED_FROM_SECONDS or size > MOST_BUFFER_BYTES:
                return
            larger = self._priced(made.tree, size)
            if larger.over_bytes > 0 or larger.key[:2] > made.key[:2]:
                growth //= 2
                continue
            saved = made.seconds - larger.seconds
            if saved < _STRETCHED_GAIN * made.seconds * growth / made.buffer_bytes:
                return
            made, growth = self._kept(larger), size

    def _is_enough(self, made: Confirmed) -> bool:
        """Whether a plan keeps the limit, with room to spare where the best one does."""
        best = self.best
        return made.over_bytes <= 0 and best is not None and made.key[:2] <= best.key[:2]

    @property
    def simplest(self) -> Confirmed | None:
        """Of the plans that are as good as the best within the model's reach, the simplest.

        Seconds are only predicted: differences of a few in a hundred mean nothing.
        """
        best = self.best
        if best is None or self.lowest or not self.request.is_by_time:
            return best
        equal = [
            made
            for made in self.plans.values()
            if made.over_bytes <= 0
            and made.key[:2] == best.key[:2]
            and made.seconds <= best.seconds * _SAME_SECONDS
        ]
        return min(equal, key=lambda made: (len(made.tree.loops), made.key))

    def found(self, proof: Proof, n_considered: int = 0) -> Found:
        """The outcome."""
        self._stretch()
        chosen = self.simplest or self.nearest
        assert chosen is not None, "every search meters at least one plan"
        request = self.request
        return Found(
            chosen.tree,
            chosen.buffer_bytes,
            chosen.metered,
            over_bytes(chosen.metered, request.budget) <= 0,
            n_considered + len(self.plans),
            proof,
            over_bytes(chosen.metered, request.limit) <= 0,
        )


def power_below(n_bytes: int) -> int:
    """The largest power of two that is not above a number, at least 1."""
    return 1 << max(n_bytes.bit_length() - 1, 0)


def over_bytes(counts: Metered, limit: Limit) -> int:
    """Bytes by which a plan exceeds a limit; 0 if it keeps it."""
    over = 0
    if limit.peak_bytes is not None:
        over = max(over, counts.space_bytes - limit.peak_bytes)
    if limit.workspace_bytes is not None:
        over = max(over, counts.workspace_bytes - limit.workspace_bytes)
    return over
