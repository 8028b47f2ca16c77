"""Laws of programs on random systems: right, within every limit, never cheaper for less room."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einbound as eb
from einbound.api.program import Program
from systems import RandomSystem, random_system

CALLS = 3


def smallest_bytes(system: RandomSystem, scheduler: str = "ordered") -> int:
    with pytest.raises(eb.BudgetError, match="too small") as caught:
        eb.Program(system.equations, 0, iterations=CALLS, scheduler=scheduler)(system.arrays(0))
    return caught.value.smallest_bytes


def checked(system: RandomSystem, limit: int | None, scheduler: str = "ordered") -> Program:
    """A program that was called twice, with all that it says compared with what came out."""
    program = eb.Program(system.equations, limit, iterations=CALLS, scheduler=scheduler)
    for seed in range(2):
        arrays = system.arrays(seed)
        wanted, results = system.values(arrays), program(arrays)
        assert set(results) == set(program.equations.targets)
        for name, array in results.items():
            scale = 1 + max(float(np.abs(each).max()) for each in wanted.values())
            np.testing.assert_allclose(array, wanted[name], rtol=0, atol=1e-12 * scale**2)
            array[...] = np.nan
    meter = program.meter()
    assert program.peak_bytes == meter.peak_bytes == sum(row.n_bytes for row in meter.alive)
    assert limit is None or meter.peak_bytes <= limit
    return program


@given(st.integers(0, 2**20), st.sampled_from(["ordered", "forest_descent"]))
@settings(max_examples=8, deadline=None)
def test_limits_from_the_smallest_on_are_kept_and_cost_no_less(seed: int, scheduler: str) -> None:
    system = random_system(seed)
    free = checked(system, None, scheduler=scheduler)
    least = smallest_bytes(system, scheduler=scheduler)
    for limit in (least, max(least, free.peak_bytes)):
        kept = checked(system, limit, scheduler=scheduler)
        assert kept.meter().macs(CALLS) >= free.meter().macs(CALLS)
    assert kept.meter().macs(CALLS) == free.meter().macs(CALLS)


@pytest.mark.parametrize("seed", [16, 41, 58])
def test_the_smallest_peak_found_is_a_limit_that_is_kept(seed: int) -> None:
    system = random_system(seed)
    least = smallest_bytes(system)
    assert checked(system, least).peak_bytes <= least
