"""Random networks and random legal trees with loops, for property tests."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from einbound.expr.network import Access, Network
from einbound.plan.tree import Cut, Tree
from einbound.step.view import View


def random_network(
    rng: random.Random, n_operands: int, n_indices: int, largest: int = 6
) -> Network:
    """A network whose operands may share any indices, hyper-indices and private ones included."""
    extents = tuple(rng.randint(1, largest) for _ in range(n_indices))
    inputs = [
        tuple(rng.sample(range(n_indices), rng.randint(0, min(4, n_indices))))
        for _ in range(n_operands)
    ]
    used = sorted({i for indices in inputs for i in indices})
    output = tuple(i for i in rng.sample(used, len(used)) if rng.random() < 0.4)
    accesses = tuple(Access(tuple((k,) for k in range(len(ix)))) for ix in inputs)
    return Network(tuple("abcdefghijklmnop"[:n_indices]), extents, tuple(inputs), output, accesses)


def random_tree(
    rng: random.Random, network: Network, n_loops: int = 4, *, uneven: bool = False
) -> Tree:
    """A legal tree with random loops anywhere and random legal levels.

    Args:
        rng: Source of chance.
        network: What is contracted.
        n_loops: Loops at most.
        uneven: Trips start anywhere instead of at multiples of a width.
    """
    cut = uneven_cut if uneven else even_cut
    n = len(network.inputs)
    left = list(range(n))
    steps: list[tuple[int, int]] = []
    while len(left) > 1:
        pair = (left.pop(rng.randrange(len(left))), left.pop(rng.randrange(len(left))))
        steps.append(pair)
        left.append(n + len(steps) - 1)
    plain = Tree.plain(network, steps)
    opens: list[tuple[Cut, ...]] = [()] * len(steps)
    levels = [0] * len(steps)
    tree = plain
    for step in range(len(steps) - 1, -1, -1):
        value = n + step
        if value != plain.root:
            tree = Tree(network, tuple(steps), tuple(opens), tuple(levels))
            levels[step] = _legal_level(rng, tree, value)
            tree = Tree(network, tuple(steps), tuple(opens), tuple(levels))
        taken = {cut.index for cut in tree.around(value)}
        free = [i for i in sorted(plain.below[value]) if i not in taken]
        chosen = rng.sample(free, min(len(free), rng.choice([0, 0, 1, 1, 2])))[:n_loops]
        n_loops -= len(chosen)
        opens[step] = tuple(cut(rng, i, network.extents[i]) for i in chosen)
        tree = Tree(network, tuple(steps), tuple(opens), tuple(levels))
    return tree.check()


def even_cut(rng: random.Random, index: int, extent: int) -> Cut:
    """A loop of any width."""
    return Cut(index, rng.randint(1, max(extent, 1)))


def uneven_cut(rng: random.Random, index: int, extent: int) -> Cut:
    """A loop whose trips start anywhere."""
    inner = range(1, extent)
    starts = sorted(rng.sample(inner, rng.randint(0, len(inner))))
    return Cut.between(index, (0, *starts, extent))


def _legal_level(rng: random.Random, tree: Tree, value: int) -> int:
    enclosing = tree.inside[tree.parents[value]]
    level = len(enclosing)
    while level and rng.random() < 0.6:
        index = enclosing[level - 1].index
        if index in tree.below[value] and index not in tree.carried[value]:
            break
        level -= 1
    return level


def random_arrays(network: Network, dtype: str = "int64", seed: int = 0) -> list[np.ndarray]:
    """One C-ordered array per operand; small whole numbers, so that sums are exact."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-3, 4, [network.extents[i] for i in indices]).astype(dtype)
        for indices in network.inputs
    ]


def views_of(network: Network, arrays: list[np.ndarray]) -> tuple[View, ...]:
    """The layouts of arrays that carry exactly the indices of a network's operands."""
    return tuple(
        View(indices, array.shape, array.strides, array.dtype)
        for indices, array in zip(network.inputs, arrays, strict=True)
    )


def reference(network: Network, arrays: list[np.ndarray]) -> np.ndarray:
    """The result by numpy's own einsum."""
    args: list[Any] = []
    for indices, array in zip(network.inputs, arrays, strict=True):
        args += [array, list(indices)]
    return np.asarray(np.einsum(*args, list(network.output)))
