"""What multiplies, in words: the backend of a plan or a program, and the way of each product."""

from __future__ import annotations

from collections.abc import Iterator

from einbound.api.engines import NUMPY, Engine
from einbound.report.program import WayRow
from einbound.run.forest import ForestExecutable
from einbound.step.blocked import Way


def backend_words(engine: Engine) -> str:
    """What multiplies; empty where that is NumPy and nobody asked for more."""
    if engine == NUMPY:
        return ""
    if engine.ways is None:
        return f"{engine.backend}: NumPy alone, since {engine.why}"
    threads = f"{engine.n_threads} thread{'s' if engine.n_threads > 1 else ''}"
    version = engine.ways.toolchain.compiler.version
    return f"{engine.backend}: kernels by {version}, {threads}, processor {engine.profile}"


def way_name(way: Way) -> str:
    """What is called, and what happens to its operands and its product."""
    if way.native is not None:
        return str(way.native)
    name = f"pack, {way.core.value}" if way.packs else way.core.value
    if way.product is None:
        return name
    return f"{name}, {'add' if way.accumulate or way.blocks_sums else 'copy'}"


def way_rows(ready: ForestExecutable, texts: tuple[str, ...]) -> Iterator[WayRow]:
    """How each product of a forest is done, in the order in which they run.

    Args:
        ready: What runs.
        texts: What each production is, by number.
    """
    for step, count in sorted(ready.metered.steps.items()):
        if count.way is not None:
            production, _ = ready.lowered.steps[step]
            yield WayRow(texts[production], way_name(count.way), count.way.why)
