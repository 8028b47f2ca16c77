"""Loops around a whole order: what other libraries call slicing; plans elsewhere start from it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from einbound.plan.descend import worst_step, worth
from einbound.plan.frame import Frame
from einbound.plan.masks import Terms, bits, mask_of
from einbound.plan.nests import Hoist, Nests
from einbound.plan.price import Price
from einbound.plan.reconfigure import reconfigured
from einbound.plan.widths import Task

#: Indices cut for a whole network, at most.
_N_SLICES = 60
#: Steps of sets of one and two indices that are counted, at most.
_N_STEPS_COUNTED = 40_000
#: Operands of the subtrees that are solved anew after every cut.
_N_LEAVES = 7


@dataclass(frozen=True, slots=True)
class Start:
    """An order with loops to begin a search with; it need not fit.

    Attributes:
        frame: The order.
        nests: Its loops.
    """

    frame: Frame
    nests: Nests


def sliced(frame: Frame, task: Task, hoist: Hoist, *, repair: bool = True) -> Start:
    """An order with one index cut after another until it fits, or as near as it comes.

    After every cut the order is repaired for a single slice, in which all is made anew.

    Args:
        frame: The order to start from.
        task: What to keep to.
        hoist: Where values are made that have nothing to do with a cut index.
        repair: Whether the order may change.
    """
    network, units = frame.network, 0
    terms = Terms.of(network)
    price = task.price(frame, _at_root(frame, units, hoist))
    for _ in range(_N_SLICES):
        index = None
        if not price.space.fits(task.limit):
            index = _best_slice(frame, units, hoist, price, task)
        if index is None:
            break
        units |= 1 << index
        if repair:
            cut, n_solved = terms.with_units(units), 2 * len(terms.masks)
            steps = reconfigured(cut, frame.steps, n_leaves=_N_LEAVES, n_solved=n_solved)
            frame = Frame(network, steps, frame.itemsize, frame.rules)
        price = task.price(frame, _at_root(frame, units, hoist))
    return Start(frame, _at_root(frame, units, hoist))


def least_sliced(frame: Frame, task: Task) -> Start | None:
    """The order under the one or two cuts with the fewest multiply-adds that fit, if any do.

    Args:
        frame: The order.
        task: What to keep to.
    """
    cuts = bits(frame.useful[-1])
    sets = [mask_of(cut) for n in (1, 2) for cut in combinations(cuts, n)]
    tried = [
        _at_root(frame, units, hoist)
        for units in sets[: _N_STEPS_COUNTED // max(len(frame.steps), 1)]
        for hoist in (Hoist.FREE, Hoist.INSIDE)
    ]
    fitting = (nests for nests in sorted(tried, key=frame.macs) if task.fits(frame, nests))
    return next((Start(frame, nests) for nests in fitting), None)


def _at_root(frame: Frame, units: int, hoist: Hoist) -> Nests:
    n = len(frame.steps)
    cuts = tuple(frame.finest[i] for i in bits(units))
    return Nests((*((),) * (n - 1), cuts), (hoist,) * n)


def _best_slice(frame: Frame, units: int, hoist: Hoist, price: Price, task: Task) -> int | None:
    worst = worst_step(price, task)
    indices = frame.carried[frame.n + worst]
    for child in frame.steps[worst]:
        indices |= frame.carried[child]
    best: tuple[float, int] | None = None
    for index in bits(indices & ~units & frame.useful[-1]):
        after = task.price(frame, _at_root(frame, units | 1 << index, hoist))
        score = worth(price, after, task)
        if score > 0 and (best is None or score > best[0]):
            best = (score, index)
    return None if best is None else best[1]
