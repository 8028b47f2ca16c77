"""One search under one budget: plans are collected, confirmed by a meter, and the best is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Protocol

from einbound.expr.network import Network
from einbound.plan.bound import lower_bound
from einbound.plan.effort import Proof
from einbound.plan.explore import Pool
from einbound.plan.frame import Frame
from einbound.plan.masks import Steps
from einbound.plan.order import N_EXACT
from einbound.plan.passes import collect, collect_deep, short_nests
from einbound.plan.price import Limit
from einbound.plan.tree import Tree
from einbound.plan.widths import Candidate, Tally, Task
from einbound.step.pricing import TOUCH_BYTE_SECONDS, TRIP_SECONDS

Budget = Limit

#: Buffer sizes below the default that are tried when a plan does not fit, largest first.
_SMALL_BUFFERS = (1 << 16, 1 << 12, 1 << 8, 1 << 6)
#: Those that are tried on one plan, whose loops are kept.
_SMALLER_BUFFERS = (1 << 16, 1 << 14, 1 << 12, 1 << 10, 1 << 8, 1 << 6)


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


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome of a search.

    Attributes:
        tree: The plan: the best that fits, or the one with the smallest peak.
        buffer_bytes: The buffer it was metered with.
        metered: Its counts.
        fits: Whether it keeps the budget.
        considered: Nests priced and plans metered on the way.
        proof: What the search can say about it.
        keeps_threshold: Whether it keeps the peak that a policy asks for, too.
    """

    tree: Tree
    buffer_bytes: int
    metered: Metered
    fits: bool
    considered: int
    proof: Proof = Proof()
    keeps_threshold: bool = True


@dataclass(frozen=True, slots=True)
class _Confirmed:
    """A plan with what the meter says about it."""

    tree: Tree
    buffer_bytes: int
    metered: Metered
    key: tuple[int, bool, float, int, int]
    over_bytes: int


class Session:
    """One search: what it is asked, and the best it has confirmed."""

    def __init__(
        self,
        network: Network,
        itemsize: int,
        budget: Budget,
        meter: Meter,
        headroom_bytes: int,
    ) -> None:
        self.network = network
        self.itemsize = itemsize
        self.budget = budget
        self.meter = meter
        room = self.room_bytes()
        share = room // _HEADROOM_SHARE if room > headroom_bytes else 0
        self.headroom_bytes = min(headroom_bytes, share)
        self.best: _Confirmed | None = None
        self.nearest: _Confirmed | None = None
        self.tally = Tally()
        self.metered: dict[tuple[Tree, int], _Confirmed] = {}

    def frames(self, orders: Iterable[Steps]) -> list[Frame]:
        """The orders, fewest multiply-adds first."""
        frames = [Frame(self.network, steps, self.itemsize) for steps in orders]
        frames.sort(key=lambda frame: frame.plain_macs)
        return frames

    def unlimited(self, orders: tuple[Steps, ...], buffer_bytes: int) -> Found:
        """The fastest of the orders with the fewest multiply-adds, without loops."""
        frames = self.frames(orders)
        for frame in frames:
            if frame.plain_macs == frames[0].plain_macs:
                self.confirm(Tree.plain(self.network, frame.steps), buffer_bytes)
        return self.found()

    def limited(self, orders: tuple[Steps, ...], default_buffer_bytes: int) -> Found:
        """The best plan within the budget, or the nearest one that was met."""
        frames = self.frames(orders)
        if not frames[0].steps:
            self.confirm(Tree.plain(self.network, ()), default_buffer_bytes)
            return self.found()
        if self.is_hopeless():
            self.refuse(frames, min(default_buffer_bytes, _SMALL_BUFFERS[-1]))
            return self.found()
        self.pass_over(frames, default_buffer_bytes)
        if self.best is None and default_buffer_bytes > _SMALL_BUFFERS[-1]:
            self.pass_over(frames, _SMALL_BUFFERS[-1])
        for buffer_bytes in self.buffers(default_buffer_bytes):
            if self.best is not None and self.best.buffer_bytes < buffer_bytes:
                self.confirm(self.best.tree, buffer_bytes)
            few = len(self.network.inputs) <= N_EXACT
            if few and self.best is not None and not self.is_settled(frames):
                self.pass_over(frames, buffer_bytes)
        if len(self.network.inputs) <= N_EXACT and not self.is_settled(frames):
            self.meter_all(frames)
        self.enlarge(default_buffer_bytes)
        return self.found()

    def enlarge(self, default_buffer_bytes: int) -> None:
        """Meters the best plan with the buffers between the few sizes that were tried."""
        best = self.best
        if best is not None:
            buffer_bytes = 2 * best.buffer_bytes
            while buffer_bytes < default_buffer_bytes:
                if self.confirm(best.tree, buffer_bytes).over_bytes > 0:
                    return
                buffer_bytes *= 2

    def meter_all(self, frames: list[Frame]) -> None:
        """Meters what prices say may fit, fewest multiply-adds first, until something fits.

        Steps may need more than was priced; near the least workspace only the meter knows which.
        """
        least = _SMALL_BUFFERS[-1]
        most = None if self.best is None else self.best.metered.macs
        n_metered, n_priced = _RESCUE if self.best is None else _IMPROVE
        task = Task(self.budget, least, self.tally)
        for candidate in short_nests(frames, task, n_priced, most)[:n_metered]:
            tree = candidate.frame.tree(candidate.nests)
            if self.confirm(tree, least).over_bytes <= 0:
                return

    def is_hopeless(self) -> bool:
        """Whether no plan can keep the budget."""
        least = lower_bound(self.network, self.itemsize)
        result = self.itemsize * prod(self.network.result_shape)
        peak, workspace = self.budget.peak_bytes, self.budget.workspace_bytes
        return (peak is not None and peak < least) or (
            workspace is not None and workspace < least - result
        )

    def refuse(self, frames: list[Frame], buffer_bytes: int) -> None:
        """Looks for the smallest peak only."""
        for frame in frames:
            # A limit that needs no loops is not to be refused.
            self.confirm(Tree.plain(self.network, frame.steps), buffer_bytes)
        pool = Pool()
        collect_deep(frames, Task(self.budget, buffer_bytes, self.tally), pool)
        self.confirm_pool(pool, buffer_bytes)

    def pass_over(self, frames: list[Frame], buffer_bytes: int) -> None:
        """Searches all orders with one buffer size, first with the headroom left free."""
        if self.headroom_bytes:
            self.attempt(frames, self.budget.less(self.headroom_bytes), buffer_bytes)
        if not self.is_settled(frames):
            self.attempt(frames, self.budget, buffer_bytes)

    def room_bytes(self) -> int:
        """Bytes that the budget leaves beside the result; 0 without a budget."""
        room = self.budget.workspace_bytes
        if self.budget.peak_bytes is not None:
            left = self.budget.peak_bytes - self.itemsize * prod(self.network.result_shape)
            room = left if room is None else min(room, left)
        return 0 if room is None else room

    def buffers(self, default_buffer_bytes: int) -> tuple[int, ...]:
        """Buffer sizes below the default that leave noticeably more room."""
        room = self.room_bytes()
        largest = min(default_buffer_bytes, room)
        return tuple(b for b in _SMALL_BUFFERS if room // 32 < b < largest)

    def is_settled(self, frames: list[Frame]) -> bool:
        """Whether the best plan repeats nothing."""
        return self.best is not None and self.best.metered.macs <= frames[0].plain_macs

    def attempt(self, frames: list[Frame], limit: Limit, buffer_bytes: int) -> None:
        """Searches under a limit; where the meter asks for more, again with that set aside."""
        ceiling = None if self.best is None else self.best.metered.macs
        for _ in range(_N_RETRIES):
            pool = collect(frames, Task(limit, buffer_bytes, self.tally), Pool(ceiling))
            missing = self.confirm_pool(pool, buffer_bytes)
            if missing <= 0 or self.metered_out():
                return
            limit = limit.less(missing)

    def metered_out(self) -> bool:
        """Whether as many plans were metered as a search may."""
        return len(self.metered) >= _N_METERED

    def confirm_pool(self, pool: Pool, buffer_bytes: int) -> int:
        """Meters the best plans; bytes that the nearest one lacked if none fits."""
        missing: int | None = None
        tried = _worth_metering(pool) or ([pool.nearest] if pool.nearest else [])
        for candidate in tried:
            worse = self.best is not None and candidate.price.macs > self.best.metered.macs
            if self.metered_out() or (worse and missing is not None and missing <= 0):
                break
            tree = candidate.frame.tree(candidate.nests)
            over = self.confirm(tree, buffer_bytes).over_bytes
            fewer = self.best is None or candidate.price.macs < self.best.metered.macs
            if over > 0 and pool.candidates and fewer:
                over = self.with_smaller_buffers(tree, buffer_bytes)
            missing = over if missing is None else min(missing, over)
        return missing if pool.candidates and missing is not None else 0

    def with_smaller_buffers(self, tree: Tree, buffer_bytes: int) -> int:
        """Bytes that a plan lacks with the largest buffers with which it fits, or with least."""
        over = 0
        for smaller in _SMALLER_BUFFERS:
            if smaller < buffer_bytes:
                over = self.confirm(tree, smaller).over_bytes
                if over <= 0:
                    break
        return over

    def confirm(self, tree: Tree, buffer_bytes: int) -> _Confirmed:
        """What the meter says, kept if it is the best so far."""
        known = self.metered.get((tree, buffer_bytes))
        if known is not None:
            return known
        counts = self.meter(tree.check(), buffer_bytes)
        over = over_bytes(counts, self.budget)
        tight = over_bytes(counts, self.budget.less(self.headroom_bytes)) > 0
        seconds = counts.seconds + counts.calls * TRIP_SECONDS
        seconds += counts.workspace_bytes * TOUCH_BYTE_SECONDS
        key = (counts.macs, tight, seconds, counts.calls, counts.space_bytes)
        made = _Confirmed(tree, buffer_bytes, counts, key, over)
        self.metered[tree, buffer_bytes] = made
        if over <= 0 and (self.best is None or key < self.best.key):
            self.best = made
        if self.nearest is None or (over, key) < (self.nearest.over_bytes, self.nearest.key):
            self.nearest = made
        return made

    def simplest(self) -> _Confirmed | None:
        """Of the plans that are as good as the best within the model's reach, that of fewest loops.

        Seconds are only predicted: differences of a few in a hundred mean nothing.
        """
        best = self.best
        if best is None:
            return None
        macs, tight, seconds, *_ = best.key
        equal = [
            made
            for made in self.metered.values()
            if made.over_bytes <= 0
            and made.key[:2] == (macs, tight)
            and made.key[2] <= seconds * _SAME_SECONDS
        ]
        return min(equal, key=lambda made: (len(made.tree.loops), made.key))

    def found(self) -> Found:
        """The outcome."""
        chosen = self.simplest() or self.nearest
        assert chosen is not None, "every search meters at least one plan"
        return Found(
            chosen.tree,
            chosen.buffer_bytes,
            chosen.metered,
            self.best is not None,
            self.tally.n_priced + len(self.metered),
        )


#: Part of the room beside the result that may stay free: narrow slices cost more than a tight fit.
_HEADROOM_SHARE = 8
#: Plans metered in one search, and of one pool, at most: a meter costs as much as 50 prices.
_N_METERED = 56
_N_CONFIRMED = 24
_N_CONFIRMED_QUICKLY = 8
#: Predicted seconds from which plans of equal multiply-adds are chosen with more care.
_SLOW_SECONDS = 5e-3
#: Plans whose predicted seconds differ by less than this factor count as equally fast.
_SAME_SECONDS = 1.02
#: Plans metered and nests priced before a refusal, and for fewer multiply-adds than the best has.
_RESCUE = (400, 12_000)
_IMPROVE = (40, 3_000)
#: Passes under ever tighter limits while the meter asks for more than was priced.
_N_RETRIES = 3


def _worth_metering(pool: Pool) -> list[Candidate]:
    """The best plans; few where all are so fast that a choice is not worth its time."""
    is_slow = pool.candidates and pool.candidates[0].price.seconds > _SLOW_SECONDS
    return pool.candidates[: _N_CONFIRMED if is_slow else _N_CONFIRMED_QUICKLY]


def over_bytes(counts: Metered, limit: Limit) -> int:
    """Bytes by which a plan exceeds a limit; 0 if it keeps it."""
    over = 0
    if limit.peak_bytes is not None:
        over = max(over, counts.space_bytes - limit.peak_bytes)
    if limit.workspace_bytes is not None:
        over = max(over, counts.workspace_bytes - limit.workspace_bytes)
    return over
