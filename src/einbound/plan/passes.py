"""One pass over all orders: the plans that keep to one limit with one buffer size."""

from __future__ import annotations

from einbound.plan.descend import descend, sliced_and_repaired
from einbound.plan.explore import Effort, Pool, explore, moves, polished, sliced_at_root
from einbound.plan.frame import Frame
from einbound.plan.nests import Nests
from einbound.plan.order import N_EXACT
from einbound.plan.widths import Candidate, Task, traded

#: Nests priced in one pass over all orders, by number of operands.
_PRICED_PER_PASS = {3: 2000, 4: 3000, 5: 4000, 6: 5000, 7: 8000, 8: 10000, 9: 12000, 10: 14000}
#: Orders whose best plan is polished.
_N_LEADERS = 3
#: Orders that are searched for deep nests.
_N_DEEP = 8
#: Plans whose loops exchange widths, and nests priced for each.
_N_TRADED = 12
_N_TRADES_PRICED = 300
#: Predicted seconds from which they do.
_SLOW_SECONDS = 5e-3
#: Nests priced while one plan is polished, at most.
_N_POLISHED = 1500
#: Steps priced in one descent on many operands, at most: a price costs its number of steps.
_N_STEPS_PRICED = 200_000
#: Indices cut for a whole network, at most.
_N_SLICES = 60


def collect(frames: list[Frame], task: Task, pool: Pool) -> Pool:
    """The plans within a limit, best first."""
    if frames[0].n > N_EXACT:
        return _collect_large(frames, task, pool)
    stop = task.tally.n_priced + _PRICED_PER_PASS.get(frames[0].n, 1000)
    n_equal = 0
    for frame in frames:
        if pool.macs is not None and frame.plain_macs >= pool.macs:
            n_equal += 1
            if frame.plain_macs > pool.macs or n_equal > 3:
                break
        # Orders come by rising multiply-adds: the first are the likeliest and get most.
        share = max((stop - task.tally.n_priced) // 4, 100)
        explore(frame, task, pool, Effort(n_deep=4, beam=10, n_priced=share))
    if pool.macs is None or pool.macs > frames[0].plain_macs:
        collect_deep(frames, task, pool)
    leaders = sorted(pool.leaders.values(), key=lambda c: c.price.key)
    for candidate in leaders[:_N_LEADERS]:
        if pool.macs is None or candidate.frame.plain_macs <= pool.macs:
            polished(candidate, task, pool, _N_POLISHED)
    for candidate in [c for c in pool.candidates[:_N_TRADED] if c.price.seconds > _SLOW_SECONDS]:
        pool.add(traded(candidate, task, _N_TRADES_PRICED))
    return pool


def collect_deep(frames: list[Frame], task: Task, pool: Pool) -> None:
    """Adds plans with many loops: one by one where they help most, and all at the last step."""
    for number, frame in enumerate(frames):
        # While nothing fits all orders are tried: what follows is a refusal.
        if number >= _N_DEEP and pool.candidates:
            return
        if pool.macs is None or frame.plain_macs < pool.macs:
            descend(frame, Nests.none(len(frame.steps)), task, pool, _N_POLISHED)
            sliced_at_root(frame, task, pool)


def short_nests(
    frames: list[Frame], task: Task, n_priced: int, macs: int | None
) -> list[Candidate]:
    """The nests of up to two moves that fit by their price, fewest multiply-adds first.

    Args:
        frames: The orders.
        task: What to keep to.
        n_priced: Nests to price, at most.
        macs: Only nests with fewer multiply-adds than this; None: all.
    """
    found: list[Candidate] = []
    stop = task.tally.n_priced + n_priced
    for frame in frames:
        seen: set[Nests] = set()
        plain = Nests.none(len(frame.steps))
        for first in (plain, *moves(frame, plain)):
            for nests in (first, *moves(frame, first)):
                if nests in seen or task.tally.n_priced >= stop:
                    continue
                seen.add(nests)
                if macs is None or frame.macs(frame.place(nests)[0]) < macs:
                    price = task.price(frame, nests)
                    if price.space.fits(task.limit):
                        found.append(Candidate(frame, nests, price))
    found.sort(key=lambda candidate: candidate.price.key)
    return found


def _slice(frame: Frame, task: Task, pool: Pool) -> None:
    """Adds a plan whose order was repaired for the indices that are cut at its last step."""
    sliced = sliced_and_repaired(frame.network, frame.steps, frame.itemsize, task, _N_SLICES)
    if sliced is not None:
        descend(*sliced, task, pool, _N_STEPS_PRICED // frame.n)


def _collect_large(frames: list[Frame], task: Task, pool: Pool) -> Pool:
    """The plans within a limit on many operands: loops anywhere, and loops at the end."""
    for frame in frames:
        plain = Nests.none(len(frame.steps))
        descend(frame, plain, task, pool, _N_STEPS_PRICED // frame.n)
        if pool.macs is not None and pool.macs <= frame.plain_macs:
            break
        _slice(frame, task, pool)
    return pool
