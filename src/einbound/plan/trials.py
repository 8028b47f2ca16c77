"""Structures that are given the widest slices that fit, and metered, the cheapest ones first."""

from __future__ import annotations

from collections.abc import Iterable

from einbound.plan.frame import Frame
from einbound.plan.ledger import LEAST_BUFFER_BYTES, Ledger, Request, power_below
from einbound.plan.masks import Steps
from einbound.plan.price import Limit
from einbound.plan.rules import Objective
from einbound.plan.tree import Tree
from einbound.plan.widths import Candidate, Tally, Task, traded, widened

#: Plans that are metered of one batch.
_N_METERED, _N_METERED_SLOW = 2, 12
#: Structures whose widths are chosen with care.
_N_CAREFUL = 16
#: Nests priced while the widths of one plan are exchanged.
_N_TRADES_PRICED = 300
#: Parts of the room that one buffer may take.
_BUFFER_SHARES = (4, 32)


class Trials:
    """Structures tried for one request.

    Attributes:
        request: What is asked.
        ledger: The plans that were metered.
        tally: Counts the nests that were priced.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.request: Request = ledger.request
        self.ledger = ledger
        self.tally = Tally()
        self._frames: dict[Steps, Frame] = {}

    def meter(self, trees: Iterable[Tree], limit: Limit, *, slow: bool = False) -> int:
        """Refines and meters some structures; bytes that the nearest one lacked."""
        trees = list(dict.fromkeys(trees))
        if slow:
            # Careful widths only for those that are fastest with the first ones that fit.
            task = Task(limit, self._buffers(slow=False)[0], self.tally)
            trees.sort(key=lambda tree: self._rank(self._refined(tree, task, slow=False), 0))
            del trees[_N_CAREFUL:]
        ranked: dict[Tree, tuple[Candidate, int]] = {}
        for tree in trees:
            for buffer_bytes in self._buffers(slow=slow):
                made = self._refined(tree, Task(limit, buffer_bytes, self.tally), slow=slow)
                ranked.setdefault(made.frame.tree(made.nests), (made, buffer_bytes))
        order = sorted(ranked.items(), key=lambda item: self._rank(*item[1]))
        missing: int | None = None
        for number, (tree, (_, buffer_bytes)) in enumerate(order):
            if number >= (_N_METERED_SLOW if slow else _N_METERED) and (
                missing is None or missing <= 0
            ):
                break
            over = self.ledger.confirm_fitting(tree, buffer_bytes).over_bytes
            missing = over if missing is None else min(missing, over)
        return 0 if missing is None else missing

    def _rank(self, made: Candidate, buffer_bytes: int) -> tuple[float, ...]:
        price, rules = made.price, self.request.rules
        if rules.objective is Objective.SPACE:
            return price.macs, price.space.peak_bytes, -buffer_bytes
        if rules.by_policy:
            n_loops = len(made.nests.places())
            return price.macs, n_loops, price.seconds, price.space.peak_bytes, -buffer_bytes
        return (*price.key, -buffer_bytes)

    def _refined(self, tree: Tree, task: Task, *, slow: bool) -> Candidate:
        """The structure with the widest slices that fit, or as it is where none do."""
        frame = self._frame(tree.steps)
        nests = frame.nests(tree)
        raw = Candidate(frame, nests, task.price(frame, nests))
        rules = self.request.rules
        if rules.grid.is_fixed or rules.objective is Objective.SPACE:
            return raw
        found = widened(frame, nests, task, thorough=slow)
        if found is None:
            return raw
        return traded(found, task, _N_TRADES_PRICED) if slow else found

    def _frame(self, steps: Steps) -> Frame:
        frame = self._frames.get(steps)
        if frame is None:
            request = self.request
            frame = Frame(request.network, steps, request.itemsize, request.rules)
            self._frames[steps] = frame
        return frame

    def _buffers(self, *, slow: bool) -> tuple[int, ...]:
        """Buffer sizes that widths are chosen for."""
        request = self.request
        least = min(LEAST_BUFFER_BYTES, request.default_buffer_bytes)
        if request.rules.objective is Objective.SPACE:
            return (least,)
        shares = _BUFFER_SHARES if slow else _BUFFER_SHARES[-1:]
        sizes = [
            min(request.default_buffer_bytes, power_below(request.room_bytes // k)) for k in shares
        ]
        return tuple(dict.fromkeys(max(size, least) for size in sizes))
