"""The demonstration: a contraction that would not fit, run inside a limit and measured.

What is shown is computed by the public functions; nothing here is special to the demonstration
but the choice of the example.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

import einbound as eb
from einbound.machine.peak import (
    PROCESS_SLACK_BYTES,
    Growth,
    process_growth,
    run_fresh,
    tracked_growth,
)
from einbound.report.figures import columns, exact_bytes
from einbound.run import allocator

Array = NDArray[np.float64]

#: Largest difference between the two runs, relative to the largest element: they sum the same
#: 6400 * 300 products in another order, and rounding grows with the square root of their number.
TOLERANCE = 1e-12

#: The limit leaves one part in this many of the workspace that the plan without a limit takes.
PARTS = 4


@dataclass(frozen=True, slots=True)
class Example:
    """One contraction with its sizes.

    Attributes:
        expression: Einsum text.
        inputs: The labels of each operand.
        sizes: Extent of each label.
    """

    expression: str
    inputs: tuple[tuple[str, ...], ...]
    sizes: Mapping[str, int]

    @classmethod
    def load(cls, sizes: Mapping[str, int]) -> Example:
        """The particle-particle ladder of coupled cluster theory, with some sizes replaced."""
        text = (files("einbound") / "data" / "ppl_df_s.json").read_text()
        network = json.loads(text)
        inputs = tuple(tuple(labels) for labels in network["inputs"])
        return cls(network["eq"], inputs, {**network["sizes"], **sizes})

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each operand."""
        return tuple(tuple(self.sizes[label] for label in labels) for labels in self.inputs)

    def operands(self) -> tuple[Array, ...]:
        """Random operands, the same in every process."""
        generator = np.random.default_rng(0)
        return tuple(generator.standard_normal(shape) for shape in self.shapes)


def demonstrate(sizes: Mapping[str, int]) -> bool:
    """Whether the demonstration kept its limit and its result; it is printed as it goes.

    Args:
        sizes: Extents that replace the example's own.
    """
    example = Example.load(sizes)
    free = eb.plan(example.expression, *example.shapes)
    limit_bytes = free.peak_bytes - free.workspace_bytes + free.workspace_bytes // PARTS
    plan = eb.plan(example.expression, *example.shapes, memory_limit=limit_bytes)
    print(f"without a limit, {example.expression} takes {exact_bytes(free.peak_bytes)},")
    print(f"{exact_bytes(free.workspace_bytes)} of them workspace; a quarter of that is allowed:\n")
    print(f"{plan}\n")

    operands = example.operands()
    # The bar is the one thing that needs an optional package; the rest is shown without it too.
    within = plan(*operands, progress=find_spec("rich") is not None)
    without = free(*operands)
    scale = float(np.abs(without).max(initial=0.0)) or 1.0
    difference = float(np.abs(within - without, out=within).max(initial=0.0)) / scale
    print(f"largest difference to the run without a limit: {difference:.1e} of the largest element")

    operands_bytes = sum(array.nbytes for array in operands)
    grown = _measured(plan, example)
    print()
    print("\n".join(_peaks(limit_bytes, plan, operands_bytes, grown)))
    # What is measured includes objects of the interpreter, which limits do not bound.
    seen_bytes = operands_bytes + grown.counted_bytes - plan.overhead_bytes
    kept = seen_bytes <= plan.peak_bytes <= limit_bytes
    equal = difference <= TOLERANCE
    print(f"\nlimit {'kept' if kept else 'NOT KEPT'}, results {'equal' if equal else 'NOT EQUAL'}")
    return kept and equal


def _peaks(limit_bytes: int, plan: eb.Plan, operands_bytes: int, grown: Growth) -> list[str]:
    process = "not measurable here"
    if grown.process_bytes is not None:
        process = exact_bytes(operands_bytes + grown.process_bytes)
    overhead = f"arrays; objects of the interpreter come to at most {plan.overhead_bytes:,} more"
    slack = f"high-water mark; up to {PROCESS_SLACK_BYTES:,} are no arrays"
    rows = [
        ("limit", exact_bytes(limit_bytes), ""),
        ("modelled peak", exact_bytes(plan.peak_bytes), overhead),
        (
            "tracked peak",
            exact_bytes(operands_bytes + grown.tracked_bytes),
            "operands + growth that tracemalloc sees, objects included",
        ),
        ("process peak", process, f"operands + growth of a fresh process's {slack}"),
    ]
    return columns(rows, "<><")


def _measured(plan: eb.Plan, example: Example) -> Growth:
    task = {"plan": plan.to_json(), "sizes": dict(example.sizes)}
    answer = json.loads(run_fresh("einbound.demo", [], json.dumps(task)))
    return Growth(answer["tracked_bytes"], answer["process_bytes"])


def measure(task: Mapping[str, Any]) -> Growth:
    """How much one run of a plan takes above its operands, in this process.

    Args:
        task: "plan", the plan's JSON, and "sizes", the example's extents.
    """
    plan = eb.Plan.from_json(task["plan"])
    operands = Example.load(task["sizes"]).operands()
    _warm_blas()
    process_bytes = process_growth(lambda: plan(*operands))
    # Large buffers come from the system directly; for tracemalloc's count they must not.
    allocator.MAPPED_FROM_BYTES = sys.maxsize
    return Growth(tracked_growth(lambda: plan(*operands)), process_bytes)


def _warm_blas() -> None:
    # The first product makes BLAS take its buffers, once per process.
    square = np.ones((256, 256))
    np.matmul(square, square)


if __name__ == "__main__":
    growth = measure(json.load(sys.stdin))
    json.dump(
        {"tracked_bytes": growth.tracked_bytes, "process_bytes": growth.process_bytes}, sys.stdout
    )
