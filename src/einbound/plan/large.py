"""Plans of many operands: several orders, loops anywhere in each, and the meter's word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from einbound.plan.bound import lower_bound
from einbound.plan.descend import descend, rebuilt
from einbound.plan.effort import Deadline, Proof
from einbound.plan.frame import Frame
from einbound.plan.ledger import LEAST_BUFFER_BYTES, Found, Ledger, Request
from einbound.plan.masks import Steps
from einbound.plan.nests import Hoist, Nests
from einbound.plan.price import Limit
from einbound.plan.slices import Start, least_sliced, sliced
from einbound.plan.tree import Tree
from einbound.plan.widths import Candidate, Tally, Task

#: Steps priced in one descent, at most: a price costs its number of steps.
_N_STEPS_PRICED = 200_000
#: Plans that are rebuilt, loop by loop.
_N_REBUILT = 3
#: Multiple of the multiply-adds without loops below which no better plan is looked for.
NEAR = 1.01
#: Passes under ever tighter limits while the meter asks for more than was priced.
_N_RETRIES = 3
#: Buffer sizes that widths are chosen for, beside the default.
_SMALL_BUFFER_BYTES = 64


class LargeSearch:
    """One search for a good plan of many operands.

    Attributes:
        request: What is asked.
        frames: The orders, fewest multiply-adds first.
        ledger: The plans that were metered.
        tally: Counts the nests that were priced.
        most_macs: Multiply-adds from which on a plan is of no use; None: any number.
    """

    def __init__(
        self,
        request: Request,
        orders: Iterable[Steps],
        *,
        repair: bool,
        most_macs: int | None = None,
    ) -> None:
        self.request = request
        network, size, rules = request.network, request.itemsize, request.rules
        self.frames = [Frame(network, steps, size, rules) for steps in orders]
        self.frames.sort(key=lambda frame: frame.plain_macs)
        self.ledger = Ledger(request, request.limit)
        self.tally = Tally()
        self.most_macs = most_macs
        self._repair = repair

    @property
    def fewest_macs(self) -> int:
        """Multiply-adds of the best order without loops."""
        return self.frames[0].plain_macs

    def found(self) -> Found:
        """The best plan, or the one that comes nearest."""
        ledger, network = self.ledger, self.request.network
        default = self.request.default_buffer_bytes
        for frame in self.frames:
            if frame.plain_macs == self.fewest_macs or ledger.best is None:
                ledger.confirm(Tree.plain(network, frame.steps), default)
            if self.request.limit == Limit(None, None):
                continue
            if ledger.best is None and frame is self.frames[0]:
                ledger.confirm_fitting(Tree.plain(network, frame.steps), default)
        if ledger.best is None and self.request.rules.grid.admitted and not self.is_hopeless:
            self._pass_over(default)
            if ledger.best is None and default > _SMALL_BUFFER_BYTES:
                self._pass_over(_SMALL_BUFFER_BYTES)
        ledger.enlarge(default)
        return ledger.found(self._proof(), self.tally.n_priced)

    @property
    def is_hopeless(self) -> bool:
        """Whether the limit is below what every plan holds."""
        peak_bytes = self.request.limit.peak_bytes
        least_bytes = lower_bound(self.request.network, self.request.itemsize)
        return peak_bytes is not None and peak_bytes < least_bytes

    def thriftier(self, found: Found) -> Found:
        """The plan of the lowest peak that is found at no more multiply-adds.

        Args:
            found: The plan with the fewest multiply-adds.
        """
        ledger, frame = self.ledger, self._frame_of(found.tree.steps)
        ledger.confirm_fitting(found.tree, LEAST_BUFFER_BYTES)
        nests = frame.nests(found.tree)
        macs = frame.macs(nests)
        space = Task(Limit(0, None), LEAST_BUFFER_BYTES, self.tally).price(frame, nests).space
        peak_bytes = space.peak_bytes // 2
        while peak_bytes and not self.request.deadline.cuts():
            task = Task(Limit(peak_bytes, None), LEAST_BUFFER_BYTES, self.tally)
            made = descend(frame, nests, task, _N_STEPS_PRICED // frame.n, macs + 1)
            if not made.fits(task) or made.price.macs > macs:
                break
            ledger.confirm(frame.tree(made.nests), LEAST_BUFFER_BYTES)
            nests, peak_bytes = made.nests, made.price.space.peak_bytes // 2
        return ledger.found(self._proof(), self.tally.n_priced)

    def _frame_of(self, steps: Steps) -> Frame:
        known = (frame for frame in self.frames if frame.steps == steps)
        request = self.request
        return next(known, None) or Frame(request.network, steps, request.itemsize, request.rules)

    def _proof(self) -> Proof:
        effort, grid = self.request.effort, self.request.rules.grid
        return Proof(
            modes=grid.admitted.bit_count(),
            outer_products=effort.outer_products,
        )

    def _pass_over(self, buffer_bytes: int) -> None:
        """Searches all orders with one buffer size."""
        limit = self.request.limit
        for number in range(_N_RETRIES):
            if number and self.request.deadline.cuts():
                return
            task = Task(limit, buffer_bytes, self.tally)
            made = sorted(self._collect(task), key=lambda c: (c.over_bytes(task), *c.price.key))
            fitting = [candidate for candidate in made if candidate.fits(task)]
            missing: int | None = None
            for candidate in fitting or made[:1]:
                tree = candidate.frame.tree(candidate.nests)
                over = self.ledger.confirm_fitting(tree, buffer_bytes).over_bytes
                missing = over if missing is None else min(missing, over)
                if over <= 0:
                    break
            if not fitting:
                return
            if missing is None or missing <= 0:
                return
            limit = limit.less(missing)

    def _collect(self, task: Task) -> list[Candidate]:
        """Plans of each order: loops anywhere, loops at the end, and the best ones rebuilt."""
        found: list[Candidate] = []
        for start in self._starts(task):
            fewest = min((c.price.macs for c in found if c.fits(task)), default=self.most_macs)
            if fewest is not None and fewest <= NEAR * self.fewest_macs:
                return found
            n_priced = _N_STEPS_PRICED // start.frame.n
            if found and self.request.deadline.cuts():
                return found
            found.append(descend(start.frame, start.nests, task, n_priced, fewest))
        fitting = sorted((c for c in found if c.fits(task)), key=lambda c: c.price.key)
        for made in fitting[:_N_REBUILT]:
            if self.request.deadline.cuts():
                break
            found.append(rebuilt(made, task, _N_STEPS_PRICED // made.frame.n))
        return found

    def _starts(self, task: Task) -> Iterator[Start]:
        """What loops are added to until it fits: orders as they are, then cut ones."""
        for frame in self.frames:
            yield Start(frame, Nests.none(len(frame.steps)))
            for hoist in (Hoist.INSIDE, Hoist.FREE):
                yield sliced(frame, task, hoist, repair=self._repair)
            few = least_sliced(frame, task)
            if few is not None:
                yield few


def lowest_found(request: Request, orders: Iterable[Steps], *, repair: bool) -> Found:
    """The plan of the smallest peak that is found.

    What is found depends on which bytes are limited and not on how many, so that the peak that a
    refusal names is one that can be had, and every larger limit too.
    """
    peak_limited = request.budget.peak_bytes is not None
    nothing = Limit(0, None) if peak_limited else Limit(None, 0)
    # No deadline: a limit is given up only after the whole search.
    request = replace(request, deadline=Deadline())
    search = LargeSearch(request, orders, repair=repair)
    search.ledger = Ledger(request, nothing)
    for frame in search.frames:
        search.ledger.confirm(Tree.plain(request.network, frame.steps), LEAST_BUFFER_BYTES)
    for made in search._collect(Task(nothing, LEAST_BUFFER_BYTES, search.tally)):
        search.ledger.confirm(made.frame.tree(made.nests), LEAST_BUFFER_BYTES)
    return search.ledger.found(Proof(), search.tally.n_priced)
