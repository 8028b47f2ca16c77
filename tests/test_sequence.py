"""Parts of a forest run in an order that can run and keeps the peak low."""

from __future__ import annotations

import random
from itertools import permutations
from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from einbound.forest.forest import Forest
from einbound.forest.fusion import Bundle, common
from einbound.forest.sequence import sequenced
from einbound.space.witness import Witness
from sums import written
from test_placement import is_legal, legal_forest


def peak(forest: Forest, order: tuple[object, ...]) -> int:
    """Bytes alive at most: a value from its first use here to its last, or to the end.

    What is used elsewhere, too, and targets stay.
    """
    alive: dict[int, set[int]] = {}
    for value, makers in forest.producers.items():
        users = (*makers, *forest.readers.get(value, ()))
        here = [order.index(n) for n in users if n in order]
        if here:
            stays = value in forest.targets or len(here) < len(users)
            end = len(order) if stays else max(here) + 1
            alive[value] = set(range(min(here), end))
    size = {value: 8 * prod(forest.values[value].shape) for value in alive}
    return max(
        sum(size[value] for value, times in alive.items() if now in times)
        for now in range(len(order))
    )


def legal_here(forest: Forest, order: tuple[int, ...]) -> bool:
    place = {number: n for n, number in enumerate(order)}
    return all(
        place[maker] < place[reader]
        for value, makers in forest.producers.items()
        for maker in makers
        for reader in forest.readers.get(value, ())
        if maker in place and reader in place
    )


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_some_parts_in_any_order_are_put_in_the_best_that_can_run(seed: int) -> None:
    rng, forest = random.Random(seed), legal_forest(seed)
    every = [each.number for each in forest.productions]
    some = tuple(rng.sample(every, rng.randint(1, min(5, len(every)))))
    best = sequenced(forest, some, {}, 8)
    assert not isinstance(best, Witness)
    legal = [order for order in permutations(some) if legal_here(forest, order)]
    assert best in legal
    assert peak(forest, best) == min(peak(forest, order) for order in legal)


def test_what_is_inside_a_loop_is_put_in_order_too() -> None:
    forest = written(
        {
            "s": [(1, "ij,jk->ik", ("x", "x"))],
            "y": [(1, "ij,jk->ik", ("s", "x"))],
            "z": [(1, "ij,kj->ik", ("s", "x"))],
        },
        {"x": (4, 4)},
        targets=("y", "z"),
    )
    value = next(v.number for v in forest.values if v.name == "s")
    loop = next(
        found for axis in range(2) if not isinstance(found := common(forest, value, axis), Witness)
    )
    inside = tuple(sorted(loop.inside, reverse=True))
    assert not is_legal(forest, inside)
    made = sequenced(forest, (Bundle(loop, inside),), {}, 8)
    assert not isinstance(made, Witness)
    (bundle,) = made
    assert isinstance(bundle, Bundle)
    body = tuple(each for each in bundle.body if isinstance(each, int))
    assert sorted(body) == sorted(inside)
    assert is_legal(forest, body)
