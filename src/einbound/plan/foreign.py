"""Orders, with slices or without, that executors of other libraries run within byte limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from math import inf, log

from einbound.expr.network import Network
from einbound.plan.answers import NothingFound
from einbound.plan.effort import Effort
from einbound.plan.exact import exact_search
from einbound.plan.held import Held, Reading
from einbound.plan.masks import Steps, bits
from einbound.plan.order import greedy_orders, linear_order
from einbound.plan.peak import least_peak
from einbound.plan.problem import Instant
from einbound.plan.splits import N_OPERANDS

#: Sets of cut indices that are tried before indices are cut one by one.
N_CUTS = 48
#: Multiple of a bound on multiply-adds from which on no better cuts are looked for.
NEAR = 1.05


@dataclass(frozen=True, slots=True)
class Room:
    """Byte limits in the counting of `Held`; None: any number.

    Attributes:
        memory_bytes: Bound of everything, operands included.
        workspace_bytes: Bound of what is neither operand nor result.
    """

    memory_bytes: int | None = None
    workspace_bytes: int | None = None

    def over_bytes(self, reading: Reading) -> int:
        """Bytes by which a reading passes the limits; 0 if it keeps them."""
        over = 0
        if self.memory_bytes is not None:
            over = max(over, reading.peak_bytes - self.memory_bytes)
        if self.workspace_bytes is not None:
            over = max(over, reading.workspace_bytes - self.workspace_bytes)
        return over


@dataclass(frozen=True, slots=True)
class Candidate:
    """An order under some cuts, with its counts.

    Attributes:
        steps: The products in the order in which they run.
        cut: The cut indices, as a mask.
        macs: Multiply-adds over all slices.
        reading: What is held.
        over_bytes: Bytes by which the limits are passed.
    """

    steps: Steps
    cut: int
    macs: int
    reading: Reading
    over_bytes: int

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """What candidates are compared by: bytes over, macs, number of cuts, peak."""
        return self.over_bytes, self.macs, self.cut.bit_count(), self.reading.peak_bytes


@dataclass(frozen=True)
class Hunt:
    """One search for an order that a foreign executor runs within limits.

    Attributes:
        network: At least two operands.
        itemsize: Bytes per element.
        room: The limits.
        effort: How hard orders are looked for.
    """

    network: Network
    itemsize: int
    room: Room
    effort: Effort

    def unsliced(self) -> Candidate:
        """The order of the fewest multiply-adds that fits, or the nearest one there is."""
        return self.under(0)

    def sliced(self) -> Candidate:
        """The same where indices may be cut to single elements around the whole order.

        Sets of cuts are taken up by the fewest multiply-adds that they cost without a limit,
        which no further cut lowers, until none can be much better than what fits.
        """
        best, n_tried = self.under(0), 0
        heap = [(self.floor(0), 1 << i, False) for i in self.cuttable] if self.is_small else []
        while heap and n_tried < N_CUTS:
            floor, cut, is_known = heappop(heap)
            if not best.over_bytes and best.macs <= NEAR * floor:
                break
            if not is_known:
                heappush(heap, (self.floor(cut), cut, True))
                continue
            n_tried += 1
            best = min(best, self.under(cut), key=lambda one: one.rank)
            for further in self.further(cut):
                heappush(heap, (floor, further, False))
        return self.dive(best)

    def dive(self, made: Candidate) -> Candidate:
        """Cuts one index after another, each time the one that buys room at the least cost."""
        while made.over_bytes:
            deeper = [self.under(made.cut | 1 << i) for i in self.cuttable if not made.cut >> i & 1]
            here = made
            useful = [one for one in deeper if one.over_bytes < here.over_bytes]
            if not useful:
                return made
            made = min(useful, key=lambda one: (_price(here, one), one.rank))
        return made

    @cached_property
    def is_small(self) -> bool:
        """Whether orders are searched exactly."""
        return len(self.network.inputs) <= N_OPERANDS

    @cached_property
    def cuttable(self) -> tuple[int, ...]:
        """The indices that a cut makes smaller."""
        held = Held(self.network, self.itemsize)
        used = 0
        for mask in held.terms.masks:
            used |= mask
        return tuple(i for i in bits(used) if self.network.extents[i] > 1)

    def further(self, cut: int) -> Iterator[int]:
        """Sets with one more index, each set from one other set only."""
        for i in self.cuttable:
            if 1 << i > cut:
                yield cut | 1 << i

    def floor(self, cut: int) -> int:
        """Fewest multiply-adds under some cuts, whatever is held."""
        held = Held(self.network, self.itemsize, cut)
        found = exact_search(held.sliced, self.itemsize, None, ())
        assert not isinstance(found, NothingFound), "without a limit there is an order"
        return found.macs * held.n_slices

    def under(self, cut: int) -> Candidate:
        """The best order under some cuts: one that fits, else the one that is least over."""
        held = Held(self.network, self.itemsize, cut)
        made = [self.read(held, steps) for steps in self.orders(held)]
        return min(made, key=lambda one: one.rank)

    def orders(self, held: Held) -> Iterator[Steps]:
        """Orders to choose from; the exact one within the limits where there is one."""
        if not self.is_small:
            yield from self.many
            return
        allowance = self.allowance(held)
        # Beside the result, what every product but the last one must leave free.
        short = 0 if allowance is None else allowance.short_bytes
        every = (1 << len(self.network.inputs)) - 1

        def temporary(instant: Instant) -> int:
            is_last = instant.halves[0] | instant.halves[1] == every
            return held.temporary_bytes(instant) + (0 if is_last else short)

        found = exact_search(
            held.sliced,
            self.itemsize,
            None if allowance is None else allowance.last_bytes,
            (),
            effort=self.effort.states,
            temporary=temporary,
        )
        if isinstance(found, NothingFound):
            found = least_peak(held.sliced, self.itemsize, (), temporary=temporary).found
        yield found.tree.steps

    def allowance(self, held: Held) -> Allowance | None:
        """What products may hold beside operands and what stands all the time."""
        whole, beside = self.room.memory_bytes, self.room.workspace_bytes
        if whole is None and beside is None:
            return None
        most = inf if whole is None else whole - held.operand_bytes - held.standing_bytes
        work = inf if beside is None else beside - held.standing_bytes
        last = min(most, work + held.result_bytes)
        # Of slices the result is in what stands all the time.
        other = min(most, work) if held.n_slices == 1 else last
        return Allowance(int(last), int(last - other))

    @cached_property
    def many(self) -> tuple[Steps, ...]:
        """Good orders of many operands."""
        found = greedy_orders(self.network, self.effort.trials, seed=self.effort.seed)
        return (*found, linear_order(self.network))

    def read(self, held: Held, steps: Steps) -> Candidate:
        """A candidate with its counts."""
        steps = held.ordered(steps)
        reading = held.read(steps)
        return Candidate(steps, held.cut, held.macs(steps), reading, self.room.over_bytes(reading))


@dataclass(frozen=True, slots=True)
class Allowance:
    """Bytes that products may hold.

    Attributes:
        last_bytes: During the last product, its value included.
        short_bytes: By how much less during all others.
    """

    last_bytes: int
    short_bytes: int


def _price(before: Candidate, after: Candidate) -> float:
    """Growth of multiply-adds for each halving of what is held."""
    fall = log(max(before.reading.peak_bytes, 1) / max(after.reading.peak_bytes, 1))
    growth = log(max(after.macs, 1) / max(before.macs, 1))
    return growth / fall if fall > 0 else inf
