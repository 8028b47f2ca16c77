"""Backends as plans see them: what multiplies, and why not something else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from einbound.api.options import current_options
from einbound.backends.backend import Backend
from einbound.backends.sizes import Metered
from einbound.errors import BackendError
from einbound.plan.price import Limit
from einbound.step.pricing import DEFAULT_BUFFER_BYTES

if TYPE_CHECKING:
    from einbound.backends.native_ways import NativeWays

#: Hexadecimal digits that tell processors apart.
_N_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Engine:
    """What a plan's products run on.

    Attributes:
        backend: What the caller asked for.
        ways: What chooses kernels; None: NumPy does everything.
        why: Why no kernels can be had; "" if they can, or nobody asked.
    """

    backend: Backend = Backend.NUMPY
    ways: NativeWays | None = None
    why: str = ""

    @property
    def n_threads(self) -> int:
        """Threads that may share a step of a kernel."""
        return 1 if self.ways is None else self.ways.n_threads

    @property
    def profile(self) -> str:
        """A word for the processor that kernels are chosen for; "" where none are."""
        if self.ways is None:
            return ""
        return sha256(repr(self.ways.limits).encode()).hexdigest()[:_N_DIGITS]

    def with_kernels(self, made: Any, limit: Limit) -> Any:
        """An executable of a plan, or of a forest, with kernels where they fit.

        Args:
            made: What runs with NumPy's ways; comes back as it is if there are no kernels.
            limit: Bytes that may be alive beside the operands. Where one is set, "auto" takes no
                more than NumPy would.

        Law: it keeps the limit if `made` does (tests/test_native_plans.py).
        """
        metered: Metered = made.metered
        if self.ways is None or not metered.steps:
            return made
        is_set = limit.peak_bytes is not None or limit.workspace_bytes is not None
        if is_set and self.backend is Backend.AUTO:
            limit = Limit(metered.space_bytes, metered.workspace_bytes)
        return made.choosing(_native().ways_by_step(self.ways, metered, limit))


NUMPY = Engine()


def engine_of(given: object, n_threads: int | None = None) -> Engine:
    """The engine that a caller names, with the options that hold here.

    Args:
        given: "numpy", "native", "auto", or None for the default.
        n_threads: Threads that may share a step; None: as the options say.

    Raises:
        BackendError: It is not known, or "native" was asked for and there is no compiler.
    """
    options = current_options()
    backend = Backend.of(options.backend or Backend.NUMPY if given is None else given)
    if backend is Backend.NUMPY:
        return NUMPY
    threads = options.n_threads if n_threads is None else n_threads
    engine = _engine(backend, threads, options.compiler, options.cache_folder)
    if backend is Backend.NATIVE and engine.ways is None:
        raise BackendError(f"backend 'native' was asked for: {engine.why}; or use backend='auto'")
    return engine


@lru_cache(maxsize=64)
def _engine(backend: Backend, n_threads: int, compiler: str | None, cache: Path) -> Engine:
    build = import_module("einbound.tune.build")
    found = build.find_compiler(compiler)
    if isinstance(found, str):
        return Engine(backend, None, found)
    ways: NativeWays = _native().NativeWays(
        backend,
        build.Toolchain(found, cache),
        import_module("einbound.machine.cpu").detected().limits,
        n_threads,
        DEFAULT_BUFFER_BYTES,
    )
    return Engine(backend, ways)


def _native() -> Any:
    """The modules of kernels, which take as long to import as all others: at first use."""
    return import_module("einbound.backends.native_ways")
