"""The model of register tiles against a plain enumeration of its own definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einbound.kernels.decisions import RegisterTile
from einbound.kernels.register_tile import (
    MicroKernel,
    alternatives,
    lane_ladder,
    own_tile,
    two_row_twin,
)

kernels = st.builds(
    MicroKernel,
    vector_bytes=st.sampled_from([8, 16, 32, 64]),
    element_bytes=st.sampled_from([2, 4, 8]),
    m=st.integers(1, 70),
    n=st.integers(1, 600),
)


@pytest.mark.parametrize(
    ("vector_bytes", "element_bytes", "lanes"),
    [
        (4, 4, ()),
        (8, 4, (2,)),
        (8, 8, ()),
        (16, 4, (4,)),
        (32, 4, (8,)),
        (64, 4, (16, 8)),
        (64, 8, (8, 4)),
        (128, 2, (64, 32, 16)),
    ],
)
def test_lanes_halve_down_to_32_bytes(
    vector_bytes: int, element_bytes: int, lanes: tuple[int, ...]
) -> None:
    assert lane_ladder(vector_bytes, element_bytes) == lanes


@pytest.mark.parametrize(
    ("n", "own", "others"),
    [
        # 512 columns are measured to be better off with 3 vectors than with 2.
        (512, "rm4 rn3 lanes8", ["rm4 rn2 lanes8"]),
        # 28 columns are better off with 2, for all that 3 has the same price.
        (28, "rm4 rn2 lanes8", ["rm4 rn3 lanes8"]),
        (24, "rm4 rn3 lanes8", []),
        (20, "rm4 rn2 lanes8", []),
        (7, None, []),
    ],
)
def test_tiles_of_float32_in_32_bytes_are_the_published_ones(
    n: int, own: str | None, others: list[str]
) -> None:
    kernel = MicroKernel(32, 4, 512, n)
    found = own_tile(kernel)
    assert (found and found.label) == own
    assert [tile.label for tile in alternatives(kernel)] == others


@given(kernels)
def test_the_models_own_tile_has_the_least_price(kernel: MicroKernel) -> None:
    found = own_tile(kernel)
    rows = min(4, kernel.m)
    cap = 3 if kernel.vector_bytes == 32 else 6
    prices = []
    for lanes in lane_ladder(kernel.vector_bytes, kernel.element_bytes):
        for rn in range(1, cap + 1):
            if rn * lanes <= kernel.n:
                vectors, passes = -(-kernel.n // lanes), -(-kernel.n // (rn * lanes))
                prices.append((vectors * (rows + 1) + rows * passes, -lanes, rn))
    if found is None:
        assert not prices
        return
    rm, rn, lanes = found.sizes
    price = kernel.price(rn, lanes)
    assert rm == rows
    assert price == min(prices)[0]
    assert -lanes == min(prices)[1]


@given(kernels)
def test_alternatives_fit_the_registers_and_the_columns(kernel: MicroKernel) -> None:
    found = alternatives(kernel)
    budget = 19 if kernel.vector_bytes == 32 else 34
    assert len(set(found)) == len(found) <= 3
    assert own_tile(kernel) not in found
    for tile in found:
        rm, rn, lanes = tile.sizes
        assert rm * rn + rm + rn <= budget
        assert rn * lanes <= kernel.n
        assert lanes == max(each for each in kernel.ladder)


@given(kernels)
def test_a_tile_without_a_tail_is_never_missed(kernel: MicroKernel) -> None:
    own = own_tile(kernel)
    if own is None:
        return
    lanes = kernel.ladder[0]
    rows = min(4, kernel.m)
    budget = 19 if kernel.vector_bytes == 32 else 34
    whole = [
        rn
        for rn in range(2, kernel.n // lanes + 1)
        if kernel.n % (rn * lanes) == 0 and rows * rn + rows + rn <= budget
    ]
    if whole:
        assert RegisterTile(rows, max(whole), lanes) in {own, *alternatives(kernel)}


@given(kernels)
def test_a_twin_of_two_rows_exists_where_there_are_four(kernel: MicroKernel) -> None:
    twin = two_row_twin(kernel)
    if kernel.m < 4 or own_tile(kernel) is None:
        assert twin is None
        return
    assert twin is not None
    rm, rn, lanes = twin.sizes
    assert rm == 2
    assert rn * lanes <= kernel.n
    assert rm * rn + rm + rn <= (19 if kernel.vector_bytes == 32 else 34)
