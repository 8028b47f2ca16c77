"""Repair of large orders: small subtrees are cut out and solved exactly until nothing improves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from einbound.plan.masks import Steps, Terms, carried_masks
from einbound.plan.subsets import Nested, fewest, steps_of

if TYPE_CHECKING:
    from random import Random


@dataclass(slots=True)
class _Grown:
    """An order under repair: every product's two parts and every value's indices."""

    children: dict[int, tuple[int, int]]
    carried: dict[int, int]
    root: int

    def descending(self) -> list[int]:
        """All products, readers before what they read."""
        order, stack = [], [self.root]
        while stack:
            value = stack.pop()
            if value in self.children:
                order.append(value)
                stack += self.children[value]
        return order


def reconfigured(
    terms: Terms,
    steps: Steps,
    *,
    n_leaves: int,
    n_solved: int,
    random: Random | None = None,
) -> Steps:
    """The order after exact repair of its subtrees.

    Args:
        terms: The operands.
        steps: The order to start from.
        n_leaves: Leaves of the subtrees that are cut out, at most.
        n_solved: Subtrees that are solved, at most; bounds the time.
        random: Chooses where subtrees grow; None: at their largest values.
    """
    n = len(terms.masks)
    grown = _Grown(
        {n + s: pair for s, pair in enumerate(steps)},
        dict(enumerate(carried_masks(terms, steps))),
        n + len(steps) - 1,
    )
    solved: set[tuple[tuple[int, ...], int]] = set()
    improved = True
    while improved and n_solved > 0:
        improved = False
        for value in grown.descending():
            if value not in grown.children or n_solved <= 0:
                continue
            leaves = _leaves(grown, terms, value, n_leaves, random)
            key = (tuple(sorted(grown.carried[leaf] for leaf in leaves)), grown.carried[value])
            if len(leaves) < 3 or key in solved:
                continue
            solved.add(key)
            n_solved -= 1
            improved |= _repair(grown, terms, value, leaves)
    return steps_of(_nested(grown), n)


def _leaves(
    grown: _Grown, terms: Terms, value: int, n_leaves: int, random: Random | None
) -> list[int]:
    """Leaves of a subtree below `value`, grown at its largest values or at random ones."""
    leaves = list(grown.children[value])
    while len(leaves) < n_leaves:
        inner = [leaf for leaf in leaves if leaf in grown.children]
        if not inner:
            break
        if random is None:
            chosen = max(inner, key=lambda leaf: (terms.sizes[grown.carried[leaf]], leaf))
        else:
            chosen = random.choice(inner)
        leaves.remove(chosen)
        leaves += grown.children[chosen]
    return leaves


def _inner(grown: _Grown, value: int, leaves: set[int]) -> list[int]:
    found, stack = [], [value]
    while stack:
        top = stack.pop()
        if top not in leaves:
            found.append(top)
            stack += grown.children[top]
    return found


def _repair(grown: _Grown, terms: Terms, value: int, leaves: list[int]) -> bool:
    local = Terms(tuple(grown.carried[leaf] for leaf in leaves), grown.carried[value], terms.sizes)
    steps = steps_of(fewest(local, connected=True), len(leaves))
    carried = carried_masks(local, steps)
    after = sum(terms.sizes[carried[a] | carried[b]] for a, b in steps)
    inner = _inner(grown, value, set(leaves))
    before = sum(
        terms.sizes[grown.carried[a] | grown.carried[b]]
        for a, b in (grown.children[v] for v in inner)
    )
    if after >= before:
        return False
    for old in inner:
        del grown.children[old]
        if old != value:
            del grown.carried[old]
    fresh = max(grown.carried) + 1
    names = [*leaves, *range(fresh, fresh + len(steps) - 1), value]
    for step, (left, right) in enumerate(steps):
        made = names[len(leaves) + step]
        grown.children[made] = (names[left], names[right])
        grown.carried[made] = carried[len(leaves) + step]
    return True


def _nested(grown: _Grown) -> Nested:
    made: dict[int, Nested] = {}
    for value in reversed(grown.descending()):
        left, right = grown.children[value]
        made[value] = (made.get(left, left), made.get(right, right))
    return made.get(grown.root, grown.root)
