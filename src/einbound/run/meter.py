"""Metering: the walk of a schedule over sizes.

What a plan promises comes from here, and what runs is the same walk over arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from einbound.backends.sizes import Metered, SizesOps
from einbound.run.walk import walk
from einbound.schedule.instructions import Schedule
from einbound.step.reading import Intake
from einbound.step.view import View
from einbound.step.way import PairWays


def meter(
    schedule: Schedule,
    operands: tuple[View, ...],
    results: Mapping[int, View],
    work: np.dtype,
    buffer_bytes: int,
    result_given: bool,
    accumulation_factor: float = 0.0,
    intakes: Mapping[int, Intake] = MappingProxyType({}),
    pair_ways: Mapping[int, PairWays] = MappingProxyType({}),
) -> Metered:
    """What one run of `schedule` takes.

    Args:
        schedule: A valid schedule.
        operands: The layout of each operand.
        results: The layout of each result, by its cell.
        work: Element type of the stored cells.
        buffer_bytes: Bound of each buffer of a step.
        result_given: The caller owns the results, so they are alive from the start.
        accumulation_factor: Part of a contribution that counts beside what it is added to.
        intakes: How operands that are not in memory are read, by the cell that is written.
        pair_ways: What chooses the ways of some of the steps; the others get `pair_way`'s.
    """
    ops = SizesOps(
        schedule,
        results,
        work,
        buffer_bytes,
        result_given,
        accumulation_factor,
        intakes,
        pair_ways,
    )
    walk(schedule, ops, operands)
    return ops.metered()
