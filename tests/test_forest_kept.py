"""Values that stay between evaluations: which ones, and what the forest is without making them."""

from __future__ import annotations

import numpy as np
import pytest

from einbound.forest.forest import Forest
from einbound.forest.kept import frontier, halves, retained
from forests import direct, random_leaves
from sums import written

SQUARE = {"A": (3, 3), "B": (3, 3), "T": (3, 3)}
PRODUCT = "ab,bc->ac"


def names(forest: Forest) -> list[str]:
    return [value.name for value in forest.values]


@pytest.mark.parametrize(
    "terms",
    [
        [(1, "ab->ab", ("K",)), (1, "ab->ab", ("A",))],
        [(2, "ab->ab", ("K",))],
        [(1, "ab->ba", ("K",))],
        [(1, "ab,ab->ab", ("K", "A"))],
        [(1, "ab->ab", ("K",))],
    ],
)
def test_what_reads_more_than_a_copy_of_a_kept_value_does_not_read_that(
    terms: list[tuple[int, str, tuple[str, ...]]],
) -> None:
    forest = written(
        {
            "K": [(1, PRODUCT, ("A", "B"))],
            "X": terms,
            "Y": [(1, PRODUCT, ("X", "X"))],
            "R": [(1, PRODUCT, ("K", "T")), (1, PRODUCT, ("Y", "T"))],
        },
        SQUARE,
        targets=("R",),
        volatile=("T",),
    )
    both = halves(forest, [names(forest).index("K"), names(forest).index("Y")])
    assert both.prelude is not None
    leaves = random_leaves(forest, 1)
    made = direct(both.prelude, leaves)
    wanted = direct(forest, leaves)
    np.testing.assert_array_equal(direct(both.main, [*leaves, *made])[0], wanted[0])


def with_target(*terms: tuple[int, str, tuple[str, ...]], changes: bool = True) -> Forest:
    """A forest with a target G of these terms, and one that may change."""
    return written(
        {"G": list(terms), "R": [(1, PRODUCT, ("A", "T"))]},
        {**SQUARE, "s": ()},
        targets=("G", "R"),
        volatile=("T",) if changes else (),
    )


@pytest.mark.parametrize(
    ("terms", "is_kept"),
    [
        ([(1, "ab->ab", ("A",)), (1, "ab->ab", ("B",))], True),
        ([(1, "ab,ab->ab", ("A", "B"))], True),
        ([(1, "ab->a", ("A",))], True),
        ([(1, "ab->ba", ("A",))], False),
        ([(2, "ab->ab", ("A",))], False),
        ([(2, ",ab->ab", ("s", "A"))], False),
    ],
)
def test_a_target_that_is_more_than_one_tensor_is_worth_keeping(
    terms: list[tuple[int, str, tuple[str, ...]]], is_kept: bool
) -> None:
    forest = retained(with_target(*terms))
    assert ("G_kept" in names(forest)) is is_kept
    assert [names(forest)[value] for value in frontier(forest)] == ["G_kept"] * is_kept


def test_where_nothing_changes_nothing_is_worth_keeping() -> None:
    forest = with_target((1, PRODUCT, ("A", "B")), changes=False)
    assert retained(forest) == forest
    shared = written(
        {"K": [(1, PRODUCT, ("A", "B"))], "R": [(1, PRODUCT, ("K", "K"))]},
        {"A": (3, 3), "B": (3, 3)},
        targets=("R",),
    )
    assert frontier(shared) == ()
