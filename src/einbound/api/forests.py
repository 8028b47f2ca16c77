"""From a forest and its limits to plans that fit: planner, search of trees, and meter wired."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from einbound.api.engines import NUMPY, Engine
from einbound.api.limits import Limits
from einbound.api.paces import accessed, production_seconds
from einbound.expr.index import Index, Operand
from einbound.expr.network import Network
from einbound.forest.blocks import ForestPlan
from einbound.forest.drafts import Draft, Half
from einbound.forest.forest import Forest, Kind, Production
from einbound.forest.layouts import arranged
from einbound.forest.likeness import Likeness
from einbound.forest.planner import Planned, plan_forest
from einbound.forest.tools import Grown, Tools
from einbound.plan.effort import Effort
from einbound.plan.gate import settled
from einbound.plan.grid import Grid
from einbound.plan.ledger import Metered, over_bytes
from einbound.plan.order import N_EXACT, greedy_orders, optimal_orders
from einbound.plan.policy import BatchPolicy, BatchScheduler
from einbound.plan.price import Limit
from einbound.plan.rules import Rules
from einbound.plan.search import search
from einbound.plan.tree import Tree
from einbound.run.executable import Job, compile_tree
from einbound.run.forest import ForestExecutable, compile_forest
from einbound.step.pricing import DEFAULT_BUFFER_BYTES, MOST_BUFFER_BYTES
from einbound.step.view import View

#: Bounds of buffers to choose from; the last is the least that is tried anywhere.
BUFFERS = tuple(
    DEFAULT_BUFFER_BYTES >> n for n in range(0, 32, 2) if DEFAULT_BUFFER_BYTES >> n > 64
)
_LEAST_BUFFER = 64
#: Trees that are remembered: a forest is planned again for other limits and other kept values.
N_TREES_KEPT = 4096
#: A forest asks for many trees, so each is searched less hard than a single plan.
EFFORT = Effort(states=2000)
#: Of trees that are only compared, sketches of trees, harder still.
ROUGH = Effort(states=200)
#: Predicted seconds from which buffers beyond the usual ones are tried, and the part of these that
#: each doubling must save; buffers are a small part of what a forest holds.
_STRETCHED_FROM_SECONDS = 2e-2
_STRETCHED_GAIN = 0.005
#: Leading bits in which rooms of rough trees differ where nothing is repeated, and where it is.
_ROOM_BITS = (1, 4)


#: What a tree is searched for: the product, what it keeps to, and how hard it is searched.
Asked: TypeAlias = tuple[Job, Rules, Effort]

#: The boundaries of the tiles of an index, by its label and extent.
Edges: TypeAlias = Callable[[Hashable, int], tuple[int, ...]]


def _no_edges(label: Hashable, extent: int) -> tuple[int, ...]:
    """Every element is a tile."""
    return ()


@dataclass
class Known:
    """The plans of one product that were searched for.

    Attributes:
        asked: The product, and how it is searched.
        found: Each room that was asked for, and the best plan within it.
    """

    asked: Asked
    found: list[tuple[int | None, Grown]] = field(default_factory=list)

    def grown(self, room: int | None) -> Grown:
        """The best plan within a room."""
        made = self._among(room)
        if made is None:
            made = _grown(self.asked, room)
            self.found.append((room, made))
        return made

    def _among(self, room: int | None) -> Grown | None:
        """The plan that is best for a room, if it is among those that are known for some rooms."""
        for asked, grown in self.found:
            if room is None:
                if asked is None:
                    return grown
                continue
            # What is best for a larger room and keeps this one is best for this one.
            keeps, is_larger = grown.workspace_bytes <= room, asked is None or room <= asked
            if is_larger and keeps:
                return grown
            # What passes a room least passes every smaller one least.
            if not grown.fits and not keeps:
                return grown
        return None


@dataclass(frozen=True, slots=True)
class Sort:
    """A product up to its order of axes and operands, with plans found with little effort.

    Attributes:
        like: What it has in common with others of its sort.
        known: The plans of these.
    """

    like: Likeness
    known: Known

    def grown(self, room: int | None) -> Grown:
        """A plan for about a room: one for less of it, if that repeats nothing."""
        made = free = self.known.grown(None)
        if room is None or free.workspace_bytes <= room:
            return free
        for n_bits in _ROOM_BITS:
            made = self.known.grown(rounded_room(room, n_bits))
            if made.fits and made.macs <= free.macs:
                return made
        if not made.fits and made.workspace_bytes <= room:
            made = self.known.grown(room)
        return made


@dataclass
class Workshop:
    """Plans of single productions and readings of whole forests, each made once.

    Attributes:
        views: The layout of each leaf, by name; kept values are contiguous.
        work: Element type of values.
        policy: A batch policy, or None.
        edges: Tile boundaries of an index by its label; missing: none.
    """

    views: Mapping[str, View]
    work: np.dtype[Any]
    policy: BatchPolicy | None = None
    edges: Edges = _no_edges
    _known: dict[Asked, Known] = field(default_factory=dict)
    _jobs: dict[Any, tuple[Production, Job, Rules]] = field(default_factory=dict)
    _sorts: dict[Any, Sort] = field(default_factory=dict)
    _sketched: dict[Any, tuple[Production, Grown]] = field(default_factory=dict)
    _rules: dict[Any, Rules] = field(default_factory=dict)
    _made: dict[tuple[ForestPlan, int], ForestExecutable] = field(default_factory=dict)

    def tools(self) -> Tools:
        """What the planner is given."""
        buffers = *BUFFERS, _LEAST_BUFFER
        return Tools(self.grow, self.sketched, self.meter, self.rules, self.work.itemsize, buffers)

    def leaves(self, forest: Forest) -> tuple[View, ...]:
        """The layouts of the leaves of a forest."""
        return tuple(
            self._view(forest, value.number) for value in forest.values if value.kind is Kind.LEAF
        )

    def meter(self, plan: ForestPlan, buffer_bytes: int) -> Metered:
        """What a run of a plan takes."""
        return self.executable(plan, buffer_bytes).metered

    def executable(self, plan: ForestPlan, buffer_bytes: int) -> ForestExecutable:
        """The plan made ready to run."""
        return compile_forest(plan, self.leaves(plan.forest), self.work, buffer_bytes)

    def rules(self, forest: Forest, production: Production) -> Rules:
        """What the policy says about a production, asked once."""
        network = production.network
        changes = frozenset(
            k for k, value in enumerate(production.operands) if forest.values[value].volatile
        )
        key = network, changes
        if key not in self._rules:
            self._rules[key] = self._settled(network, changes)
        return self._rules[key]

    def _settled(self, network: Network, changes: frozenset[int]) -> Rules:
        edges = [
            self.edges(label, extent)
            for label, extent in zip(network.labels, network.extents, strict=True)
        ]
        if self.policy is None:
            return Rules(Grid.with_tiles(network, edges), volatile=changes)
        indices = [
            Index(label, extent, tiles or None)
            for label, extent, tiles in zip(network.labels, network.extents, edges, strict=True)
        ]
        operands = [
            Operand(k, tuple(indices[i] for i in term), self.work)
            for k, term in enumerate(network.inputs)
        ]
        rules = settled(self.policy, network, operands, edges=edges, volatile=changes)
        # The forest's peak is what a threshold bounds, so that it is part of the room.
        return replace(rules, threshold_bytes=None)

    def grow(
        self, forest: Forest, production: Production, network: Network, room: int | None
    ) -> Grown:
        """The best plan of a production within a room."""
        asked = *self._asked(forest, production, network), EFFORT
        known = self._known.setdefault(asked, Known(asked))
        return _named(known.grown(room), network)

    def sketched(
        self, forest: Forest, production: Production, network: Network, room: int | None
    ) -> Grown:
        """A plan of a production within about a room, found with little effort."""
        key = id(production), network.extents, room
        if key not in self._sketched:
            sort = self._sort(forest, production, network)
            made = sort.grown(room)
            tree = sort.like.restored(made.tree, network)
            self._sketched[key] = production, replace(made, tree=tree)
        return self._sketched[key][1]

    def _sort(self, forest: Forest, production: Production, network: Network) -> Sort:
        rules = self.rules(forest, production)
        key = production.network, rules.volatile, network.extents
        if key not in self._sorts:
            like = Likeness.of(network, _narrowed(rules, network))
            asked = _contiguous_job(like.network, self.work), like.rules, ROUGH
            self._sorts[key] = Sort(like, self._known.setdefault(asked, Known(asked)))
        return self._sorts[key]

    def seconds(self, forest: Forest, production: Production, onto: bool) -> float:
        """Rough seconds of a production in its best order without loops.

        Args:
            forest: What it is in.
            production: Its operands and its value in any order of their axes.
            onto: Whether it adds to what is there.
        """
        leaves = {
            value: self._view(forest, value)
            for value in production.operands
            if forest.values[value].kind is Kind.LEAF
        }
        return production_seconds(production, leaves, self.work, onto)

    def _asked(self, forest: Forest, production: Production, network: Network) -> tuple[Job, Rules]:
        key = id(production), network.extents
        if key not in self._jobs:
            rules = _narrowed(self.rules(forest, production), network)
            self._jobs[key] = production, self._job(forest, production, network), rules
        return self._jobs[key][1:]

    def _job(self, forest: Forest, production: Production, network: Network) -> Job:
        operands = tuple(
            accessed(self._view(forest, value), network, k)
            for k, value in enumerate(production.operands)
        )
        extents = tuple(network.extents[i] for i in network.output)
        result = View.contiguous(network.output, extents, self.work)
        labels = tuple(range(len(network.labels)))
        return Job(replace(network, labels=labels), operands, result, self.work, result_given=True)

    def _view(self, forest: Forest, value: int) -> View:
        made = forest.values[value]
        if made.kind is Kind.LEAF and made.name in self.views:
            return self.views[made.name]
        return View.contiguous(tuple(range(len(made.shape))), made.shape, self.work)


def rounded_room(n_bytes: int, n_bits: int) -> int:
    """The largest number of a few leading bits that is not larger: of rooms alike, one is asked."""
    shift = max(n_bytes.bit_length() - n_bits, 0)
    return n_bytes >> shift << shift


def _narrowed(rules: Rules, network: Network) -> Rules:
    """The rules inside common loops: an index that one of these cuts is not cut again."""
    modes = tuple(
        mode if mode.extent == extent else replace(mode, extent=extent, edges=(), admitted=False)
        for mode, extent in zip(rules.grid.modes, network.extents, strict=True)
    )
    return replace(rules, grid=Grid(modes))


def _contiguous_job(network: Network, work: np.dtype[Any]) -> Job:
    """A product of new arrays."""
    carried = (*network.inputs, network.output)
    views = [View.contiguous(i, tuple(network.extents[k] for k in i), work) for i in carried]
    return Job(network, tuple(views[:-1]), views[-1], work, result_given=True)


def _named(grown: Grown, network: Network) -> Grown:
    return replace(grown, tree=replace(grown.tree, network=network))


@lru_cache(maxsize=N_TREES_KEPT)
def _grown(asked: Asked, room: int | None) -> Grown:
    """The best plan of one product within a room."""
    job, rules, effort = asked
    if room is None or not rules.grid.admitted:
        return _without_loops(job, room)
    found = search(
        job.network,
        job.work.itemsize,
        Limit(None, room),
        lambda tree, buffer_bytes: compile_tree(job, tree, buffer_bytes).metered,
        rules=rules,
        effort=effort,
        default_buffer_bytes=DEFAULT_BUFFER_BYTES,
    )
    least = compile_tree(job, found.tree, _LEAST_BUFFER).metered
    counts = least if least.workspace_bytes < found.metered.workspace_bytes else found.metered
    return Grown(found.tree, counts.workspace_bytes, counts.macs, found.fits)


def _without_loops(job: Job, room: int | None) -> Grown:
    """The best order of one product as it is: the fewest multiply-adds within a room."""
    n_operands = len(job.network.inputs)
    orders = optimal_orders if n_operands <= N_EXACT else greedy_orders
    plans = []
    for steps in orders(job.network, 1 if room is None else 8):
        tree = Tree.plain(job.network, steps)
        counts = compile_tree(job, tree, _LEAST_BUFFER).metered
        over = 0 if room is None else max(counts.workspace_bytes - room, 0)
        plans.append((over, counts.macs, counts.workspace_bytes, tree))
    over, macs, workspace_bytes, tree = min(plans, key=lambda plan: plan[:3])
    return Grown(tree, workspace_bytes, macs, over == 0)


@dataclass(frozen=True)
class Ready:
    """A forest planned within its limits and made ready to run.

    Attributes:
        planned: What was decided.
        prelude: Makes the values that are kept, in the order of the main half's last leaves; None
            if there are none.
        main: Makes the targets from the leaves and the kept values.
        limit: Bytes beside the leaves.
    """

    planned: Planned
    prelude: ForestExecutable | None
    main: ForestExecutable
    limit: Limit


def ready_forest(
    forest: Forest,
    leaves: Sequence[View],
    work: np.dtype[Any],
    limits: Limits,
    *,
    operand_bytes: int | None = None,
    policy: BatchPolicy | None = None,
    scheduler: BatchScheduler | None = None,
    iterations: int = 1,
    edges: Edges = _no_edges,
    engine: Engine = NUMPY,
) -> Ready:
    """A forest planned and compiled."""
    names = [value.name for value in forest.values if value.kind is Kind.LEAF]
    shop = Workshop(dict(zip(names, leaves, strict=True)), work, policy, edges)
    held = sum(leaf.nbytes for leaf in leaves) if operand_bytes is None else operand_bytes
    limit = limits.budget(held)
    chosen = scheduler or BatchScheduler(policy.scheduler if policy else BatchScheduler.ORDERED)
    forest = arranged(forest, shop.seconds, iterations=iterations)
    planned = plan_forest(forest, limit, shop.tools(), scheduler=chosen, iterations=iterations)
    draft = _stretched(planned.draft, shop, limit)
    planned = replace(planned, draft=draft)

    def compiled(half: Half, limit: Limit) -> ForestExecutable:
        plain = shop.executable(half.plan, half.buffer_bytes)
        made: ForestExecutable = engine.with_kernels(plain, limit)
        return made

    prelude = None if draft.prelude is None else compiled(draft.prelude, limit)
    return Ready(planned, prelude, compiled(draft.main, limit.less(draft.kept_bytes)), limit)


def _stretched(draft: Draft, shop: Workshop, limit: Limit) -> Draft:
    """The same with larger buffers than the usual ones, as long as they pay."""
    prelude = None if draft.prelude is None else _with_room(draft.prelude, shop, limit)
    main = _with_room(draft.main, shop, limit.less(draft.kept_bytes))
    return replace(draft, prelude=prelude, main=main)


def _with_room(half: Half, shop: Workshop, limit: Limit) -> Half:
    if half.over_bytes > 0 or half.buffer_bytes < DEFAULT_BUFFER_BYTES:
        return half
    while half.metered.seconds >= _STRETCHED_FROM_SECONDS:
        size = 2 * half.buffer_bytes
        if size > MOST_BUFFER_BYTES:
            break
        metered = shop.meter(half.plan, size)
        pays = metered.seconds <= half.metered.seconds * (1 - _STRETCHED_GAIN)
        if not pays or over_bytes(metered, limit) > 0:
            break
        half = replace(half, buffer_bytes=size, metered=metered)
    return half
