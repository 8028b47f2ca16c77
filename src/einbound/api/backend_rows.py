"""What multiplies, in words: the backend of a plan or a program, and the way of each product."""

from __future__ import annotations

from einbound.api.engines import NUMPY, Engine
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
