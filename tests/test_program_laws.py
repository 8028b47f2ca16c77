"""Laws of programs on random systems: right, within every limit, never cheaper for less room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einbound as eb
import einbound.run.forest
from einbound.api import engines
from einbound.api.program import Program
from einbound.run.allocator import Allocator
from einbound.run.forest import ForestExecutable
from hash_seeds import printed_under_hash_seeds
from native_tools import few_objects, needs_compiler
from systems import RandomSystem, random_system

CALLS = 3


def smallest_bytes(system: RandomSystem, **keywords: Any) -> int:
    with pytest.raises(eb.BudgetError, match="too small") as caught:
        eb.Program(system.equations, 0, iterations=CALLS, **keywords)(system.arrays(0))
    return caught.value.smallest_bytes


def checked(system: RandomSystem, limit: int | None, **keywords: Any) -> Program:
    """A program that was called twice, with all that it says compared with what came out."""
    program = eb.Program(system.equations, limit, iterations=CALLS, **keywords)
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


PLANS = """
import einbound as eb
from systems import random_system

for seed in (3, 41):
    system = random_system(seed, longest=3)
    for limit, scheduler in ((None, "forest_descent"), (0, "ordered")):
        try:
            program = eb.Program(system.equations, limit, iterations=3, scheduler=scheduler)
            program(system.arrays(0))
        except eb.BudgetError as error:
            program = eb.Program(system.equations, error.smallest_bytes, scheduler=scheduler)
            program(system.arrays(0))
        print(program.explain(), program.to_numpy())
"""


def test_plans_are_the_same_under_all_hash_seeds() -> None:
    (printed,) = printed_under_hash_seeds(PLANS)
    assert printed.count("in every call") == 4


class Gauge(Allocator):
    """The memory of one run with its results: what was alive at most."""

    def __init__(self, capacity_bytes: int) -> None:
        super().__init__(capacity_bytes)
        self.space_bytes = RUNNING[-1].metered.space_bytes
        self.made_bytes = 0
        self.most_bytes = 0
        GAUGES.append((RUNNING[-1], self))

    def limit(self, capacity_bytes: int) -> None:
        self.made_bytes = self.space_bytes - capacity_bytes
        self._see()
        super().limit(capacity_bytes)

    def _count(self, n_bytes: int) -> None:
        super()._count(n_bytes)
        self._see()

    def _see(self) -> None:
        self.most_bytes = max(self.most_bytes, self.live_bytes + self.made_bytes)


RUNNING: list[ForestExecutable] = []
GAUGES: list[tuple[ForestExecutable, Gauge]] = []


@contextmanager
def gauged() -> Iterator[list[tuple[ForestExecutable, Gauge]]]:
    """What every run inside takes."""
    walk = ForestExecutable._walk

    def noted(ready: ForestExecutable, *args: Any) -> Any:
        RUNNING.append(ready)
        return walk(ready, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(einbound.run.forest, "Allocator", Gauge)
        patch.setattr(ForestExecutable, "_walk", noted)
        patch.setattr(engines, "_engine", few_objects)
        yield GAUGES
    RUNNING.clear()
    GAUGES.clear()


@pytest.mark.parametrize(
    "backend",
    ["numpy", *(pytest.param(name, marks=needs_compiler) for name in ("native", "auto"))],
)
def test_runs_take_the_bytes_that_the_meter_says(backend: str) -> None:
    with gauged() as gauges:
        for seed in range(12):
            system = random_system(seed)
            free = checked(system, None, backend=backend)
            least = smallest_bytes(system, backend=backend)
            checked(system, (least + max(least, free.peak_bytes)) // 2, backend=backend)
        for ready, gauge in gauges:
            hidden = max(ready.hidden.values(), default=0)
            metered = ready.metered
            assert gauge.live_bytes == 0
            assert 0 <= metered.workspace_bytes - gauge.peak_bytes <= hidden
            assert 0 <= metered.space_bytes - gauge.most_bytes <= hidden
        assert sum(gauge.peak_bytes > 0 for _, gauge in gauges) > 24


@pytest.mark.parametrize("seed", [7, 11, 18, 24, 38, 9366])
def test_more_room_never_costs_multiply_adds(seed: int) -> None:
    system = random_system(seed)
    least = smallest_bytes(system)
    most = checked(system, None).peak_bytes
    limits = range(least, most + 1, max((most - least) // 10 // 8, 1) * 8)
    costs = [checked(system, limit).meter().macs(CALLS) for limit in limits]
    assert costs == sorted(costs, reverse=True)
