"""The search for loops of large orders: one loop at a time where it lowers most per work added.

The measure is the excess summed over all steps: the peak alone does not move while another
step is as large.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log

from einbound.plan.frame import Frame
from einbound.plan.masks import bits
from einbound.plan.nests import Hoist, Nests
from einbound.plan.price import Price
from einbound.plan.widths import Candidate, Task, widened

# Indices looked at per round: those of the largest arrays near the worst step.
_N_INDICES = 12
_N_VALUES = 5
# Work that every loop is taken to add, so that a free loop is not infinitely good.
_FREE_WORK = 0.02


def descend(
    frame: Frame, nests: Nests, task: Task, n_priced: int, most_macs: int | None = None
) -> Candidate:
    """The order with loops added anywhere until it fits, or as near as it comes.

    Args:
        frame: The order.
        nests: Loops to start from.
        task: What to keep to.
        n_priced: Nests to price, at most.
        most_macs: Multiply-adds from which on a plan is of no use; None: any number.
    """
    stop = task.tally.n_priced + n_priced
    made = _narrowed(frame, nests, task, stop, most_macs)
    if not made.fits(task):
        return made
    found = _relaxed(widened(frame, made.nests, task, thorough=False) or made, task)
    return _relaxed(_lightened(found, task, stop), task)


def rebuilt(found: Candidate, task: Task, n_priced: int) -> Candidate:
    """The plan after each of its loops was left out and others took its place, if that is better.

    Args:
        found: A plan that fits.
        task: What to keep to.
        n_priced: Nests to price, about.
    """
    frame, stop = found.frame, task.tally.n_priced + n_priced
    better: Candidate | None = found
    while better is not None:
        found, better = better, None
        bare = [found.nests.without(place) for place in found.nests.places()]
        for nests in sorted(bare, key=frame.macs):
            left = stop - task.tally.n_priced
            if left <= 0:
                break
            made = descend(frame, nests, task, left, found.price.macs)
            if made.fits(task) and made.price.macs < found.price.macs:
                better = made
                break
    return found


def _relaxed(found: Candidate, task: Task) -> Candidate:
    """The plan with values made outside of loops that repeat them, as far as that fits.

    Args:
        found: A plan that fits.
        task: What to keep to.
    """
    frame, nests = found.frame, found.nests
    freed = {
        step: frame.macs(nests.with_hoist(step, Hoist.FREE))
        for step, hoist in enumerate(nests.hoists)
        if hoist is Hoist.INSIDE
    }
    for step in sorted(freed, key=lambda step: (freed[step], step)):
        tried = nests.with_hoist(step, Hoist.FREE)
        if frame.macs(tried) <= frame.macs(nests) and task.fits(frame, tried):
            nests = tried
    return found if nests is found.nests else Candidate(frame, nests, task.price(frame, nests))


def _narrowed(
    frame: Frame, nests: Nests, task: Task, stop: int, most_macs: int | None
) -> Candidate:
    price = task.price(frame, nests)
    while not price.space.fits(task.limit) and task.tally.n_priced < stop:
        if most_macs is not None and price.macs >= most_macs:
            break
        chosen = _best_move(frame, nests, price, task)
        if chosen is None:
            break
        nests, price = chosen
    return Candidate(frame, nests, price)


def _best_move(frame: Frame, nests: Nests, price: Price, task: Task) -> tuple[Nests, Price] | None:
    best: tuple[float, Nests, Price] | None = None
    for tried in _moves(frame, nests, price, task):
        after = task.price(frame, tried)
        score = worth(price, after, task)
        if score > 0 and (best is None or score > best[0]):
            best = (score, tried, after)
    return None if best is None else (best[1], best[2])


def worth(before: Price, after: Price, task: Task) -> float:
    """How much a change lowers what is alive, by the work that it adds."""
    gain = before.excess(task.limit) - after.excess(task.limit)
    added = max(0.0, log(max(after.macs, 1)) - log(max(before.macs, 1)))
    return gain / (added + _FREE_WORK)


def _moves(frame: Frame, nests: Nests, price: Price, task: Task) -> Iterator[Nests]:
    spine = _spine(frame, worst_step(price, task))
    large = _largest(frame, nests, spine)
    seen: dict[int, None] = {}
    for value in large[:_N_VALUES]:
        seen |= dict.fromkeys(i for i in bits(frame.carried[value]) if frame.loopable >> i & 1)
    for index in list(seen)[:_N_INDICES]:
        for step in _sites(frame, spine, index):
            if not _is_cut(frame, nests, step, index):
                places = list(_inserted(frame, nests, step, index))
                yield from places if len(places) < 3 else (places[0], places[-1])
    inside, levels = frame.place(nests)
    for value in sorted(large[: 2 * _N_VALUES]):
        step, reader = value - frame.n, frame.parents[value]
        hoisted = step >= 0 and reader >= 0 and levels[value] < len(inside[reader])
        if hoisted and nests.hoists[step] is Hoist.FREE:
            yield nests.with_hoist(step, Hoist.INSIDE)


def _inserted(frame: Frame, nests: Nests, step: int, index: int) -> Iterator[Nests]:
    """The nests with a loop more at one step, in every position."""
    opens, cut = nests.opens[step], frame.finest[index]
    for position in range(len(opens) + 1):
        yield nests.with_opens(step, (*opens[:position], cut, *opens[position:]))


def _is_cut(frame: Frame, nests: Nests, step: int, index: int) -> bool:
    """Whether a loop over `index` is open at a step, above it or below it."""
    value = frame.n + step
    while value >= 0:
        if any(cut.index == index for cut in nests.opens[value - frame.n]):
            return True
        value = frame.parents[value]
    stack = [child for child in frame.steps[step] if child >= frame.n]
    while stack:
        below = stack.pop() - frame.n
        if any(cut.index == index for cut in nests.opens[below]):
            return True
        stack += [child for child in frame.steps[below] if child >= frame.n]
    return False


def worst_step(price: Price, task: Task) -> int:
    """The step where most is alive, measured by the limit."""
    return max(range(len(price.live)), key=lambda step: (_over(price.live[step], task), step))


def _largest(frame: Frame, nests: Nests, spine: list[int]) -> list[int]:
    """The stored values that may be alive at the first step of a spine, largest slices first."""
    inside, _ = frame.place(nests)
    values: set[int] = set()
    for step in spine:
        values |= {frame.n + step, *frame.steps[step]}
    stored = [value for value in values if frame.stored[value]]
    return sorted(stored, key=lambda v: (-frame.size(v, inside[v]), v))


def _over(live: tuple[int, int], task: Task) -> float:
    peak, workspace = task.limit.peak_bytes, task.limit.workspace_bytes
    return max(
        live[0] / max(peak, 1) if peak is not None else 0.0,
        live[1] / max(workspace, 1) if workspace is not None else 0.0,
    )


def _spine(frame: Frame, step: int) -> list[int]:
    """A step and all steps that read it, up to the last."""
    spine = []
    value = frame.n + step
    while value >= 0:
        spine.append(value - frame.n)
        value = frame.parents[value]
    return spine


def _sites(frame: Frame, spine: list[int], index: int) -> list[int]:
    """Steps at which a loop over an index is worth a try: nearest, where it is summed, last."""
    able = [step for step in spine if frame.useful[step] >> index & 1]
    if not able:
        return []
    ends = next(
        (k for k, s in enumerate(able) if not frame.carried[frame.n + s] >> index & 1),
        len(able) - 1,
    )
    chosen = (0, ends, min(ends + 1, len(able) - 1), (ends + len(able) - 1) // 2, len(able) - 1)
    return [able[k] for k in dict.fromkeys(chosen)]


def _lightened(found: Candidate, task: Task, stop: int) -> Candidate:
    """The plan after loops were left out or moved where that saves multiply-adds."""
    frame, improved = found.frame, True
    while improved and task.tally.n_priced < stop:
        improved = False
        for place in found.nests.places():
            better = _moved(frame, found, place, task)
            if better is not None:
                found, improved = better, True
                break
    return found


def _moved(frame: Frame, found: Candidate, place: tuple[int, int], task: Task) -> Candidate | None:
    step, position = place
    cut = found.nests.opens[step][position]
    bare = found.nests.without(place)
    tried = [bare]
    for other in _spine(frame, step):
        if frame.useful[other] >> cut.index & 1 and not _is_cut(frame, bare, other, cut.index):
            opens = bare.opens[other]
            tried += [
                bare.with_opens(other, (cut, *opens)),
                bare.with_opens(other, (*opens, cut)),
            ]
    below = [child - frame.n for child in frame.steps[step] if child >= frame.n]
    for other in below:
        if frame.useful[other] >> cut.index & 1 and not _is_cut(frame, bare, other, cut.index):
            tried.append(bare.with_opens(other, (*bare.opens[other], cut)))
    best = found
    for nests in tried:
        if frame.macs(nests) > best.price.macs:
            continue
        price = task.price(frame, nests)
        fits = price.space.fits(task.limit)
        if fits and (price.macs, price.calls) < (best.price.macs, best.price.calls):
            best = Candidate(frame, nests, price)
    return None if best is found else best
