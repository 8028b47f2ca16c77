"""Many random systems: what is shared, factored and fused equals direct evaluation."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import einbound as eb
from einbound.api.program import Program
from einbound.report.program import Home
from systems import RandomSystem, random_system

CALLS = 3
#: Systems of one test; ten tests are 540 systems.
N_SYSTEMS = 54


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_programs_equal_direct_evaluation_within_their_smallest_peak(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(N_SYSTEMS * block, N_SYSTEMS * (block + 1)):
        system = random_system(seed, longest=6)
        scheduler = ("ordered", "forest_descent")[seed % 2]
        free = eb.Program(system.equations, iterations=CALLS, scheduler=scheduler)
        assert_equal(free, system)
        with pytest.raises(eb.BudgetError) as caught:
            eb.Program(system.equations, 0, iterations=CALLS, scheduler=scheduler)(system.arrays(0))
        least = caught.value.smallest_bytes
        tight = eb.Program(system.equations, least, iterations=CALLS, scheduler=scheduler)
        assert_equal(tight, system)
        assert tight.peak_bytes <= min(least, free.peak_bytes)
        seen["limited"] += tight.peak_bytes < free.peak_bytes
        seen.update(row.home.value for row in free.meter().values)
        seen.update(row.home.value for row in tight.meter().values)
    assert min(seen[each] for each in ("limited", *Home)) > 0, seen


def assert_equal(program: Program, system: RandomSystem) -> None:
    """Two calls, between which what is volatile changes, give what numpy.einsum gives."""
    for call in range(2):
        arrays = system.arrays(call)
        wanted = system.values(arrays)
        scale = 1 + max(float(np.abs(each).max()) for each in wanted.values())
        for name, array in program(arrays).items():
            np.testing.assert_allclose(array, wanted[name], rtol=0, atol=1e-12 * scale**2)
