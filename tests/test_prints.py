"""What tells one tensor from another, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import einbound as eb
from einbound.api.prints import Check, Print

Array = np.ndarray[Any, Any]
#: An array that is too large to be compared by its elements.
LARGE = np.arange(4000.0).reshape(50, 80)


def is_same(one: Any, other: Any, check: Check = Check.IDENTITY) -> bool:
    return Print.of(one, check).is_same(Print.of(other, check))


@pytest.mark.parametrize(
    ("view", "same"),
    [
        (lambda a: a[:], True),
        (lambda a: a.T.T, True),
        (lambda a: a.T, False),
        (lambda a: a[::-1], False),
        (lambda a: a[1:], False),
        (lambda a: a.reshape(80, 50), False),
        (lambda a: a.view(np.int64), False),
        (lambda a: a.copy(), False),
    ],
)
def test_large_arrays_are_the_same_in_the_same_place(
    view: Callable[[Array], Array], same: bool
) -> None:
    assert is_same(LARGE, view(LARGE)) is same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LARGE[:, :40], LARGE[:, 40:]),
        (LARGE[:, ::2], LARGE[:, :40]),
        (LARGE, np.frombuffer(LARGE.data).reshape(50, 80)),
    ],
)
def test_other_places_strides_and_owners_are_other_arrays(one: Array, other: Array) -> None:
    assert one.shape == other.shape
    assert not is_same(one, other)


def test_two_arrays_that_are_gone_are_not_the_same() -> None:
    memory = bytearray(8 * 4000)
    first, second = (Print.of(np.frombuffer(memory), Check.IDENTITY) for _ in range(2))
    assert first.place == second.place
    assert not first.is_same(second)


@pytest.mark.parametrize("n", [5, 5000])
def test_digests_are_of_elements_wherever_they_lie(n: int) -> None:
    a = np.arange(2.0 * n).reshape(2, n)
    for other in (a.copy(), np.asfortranarray(a), np.repeat(a, 2, 1)[:, ::2]):
        assert is_same(a, other, Check.DIGEST)
    for other in (a + 1, a.reshape(n, 2), a.view(np.int64), a[::-1]):
        assert not is_same(a, other, Check.DIGEST)


def test_small_arrays_are_compared_by_elements_in_any_case() -> None:
    a = np.arange(512.0)
    assert is_same(a, a.copy())
    before = Print.of(a, Check.IDENTITY)
    a[7] = -1
    assert not before.is_same(Print.of(a, Check.IDENTITY))


def test_what_is_not_in_memory_is_the_same_if_the_same_function_reads_it() -> None:
    def read(cuts: Any) -> Array:
        block: Array = LARGE[cuts]
        return block

    source = eb.Source(LARGE.shape, LARGE.dtype, read)
    assert is_same(source, eb.Source(LARGE.shape, LARGE.dtype, read))
    assert not is_same(source, eb.Source(LARGE.shape, LARGE.dtype, lambda cuts: LARGE[cuts]))
    assert not is_same(source, eb.Source((80, 50), LARGE.dtype, read))
