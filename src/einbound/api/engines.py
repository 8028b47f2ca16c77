"""Backends as plans see them: what multiplies, and why not something else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from einbound.api.options import Options, current_options
from einbound.backends.backend import Backend
from einbound.backends.sizes import Metered
from einbound.errors import BackendError
from einbound.plan.price import Limit
from einbound.step.pricing import DEFAULT_BUFFER_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from einbound.backends.native_ways import NativeWays
    from einbound.machine.limits import HardwareLimits
    from einbound.tune.records import Record


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
        """A word for the processor, and the records, that kernels are chosen by; "" for none."""
        if self.ways is None:
            return ""
        told = repr(self.ways.limits)
        winners = getattr(self.ways.choose, "pinned", None)
        if winners is not None:
            told += "".join(record.to_json() for record in winners)
        word: str = import_module("einbound.machine.identity").key_of(told)
        return word

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
        BackendError: It is not known, or "native" was asked for and there is no compiler; the
            file of tuned kernels cannot be read.
        KernelError: That file is another one.
    """
    options = current_options()
    backend = Backend.of(options.backend or Backend.NUMPY if given is None else given)
    if backend is Backend.NUMPY:
        return NUMPY
    threads = options.n_threads if n_threads is None else n_threads
    text = options.pinned
    measured = None if text is None else _pinned(text)
    try:
        if options.tuned is True:
            measured = _measured(options)
        engine = _engine(backend, threads, options.compiler, options.cache_folder, measured)
    except BackendError as error:
        engine = Engine(backend, None, str(error))
    if backend is Backend.NATIVE and engine.ways is None:
        raise BackendError(f"backend 'native' was asked for: {engine.why}; or use backend='auto'")
    return engine


@dataclass(frozen=True, slots=True)
class _Measured:
    """What was measured on this machine, as it is now, or the winners that are pinned."""

    winners: tuple[Record, ...]
    limits: HardwareLimits


def _pinned(text: str) -> _Measured:
    return _Measured(import_module("einbound.tune.exchange").imported(text), _limits())


def _measured(options: Options) -> _Measured:
    folder = options.cache_folder
    records = import_module("einbound.tune.workshop").RECORDS
    store = import_module("einbound.tune.store").Store(folder / records)
    profile = import_module("einbound.tune.profile").stored_profile(folder, _limits())
    return _Measured(store.winners(), profile)


def _limits() -> HardwareLimits:
    limits: HardwareLimits = import_module("einbound.machine.cpu").detected().limits
    return limits


@lru_cache(maxsize=64)
def _engine(
    backend: Backend,
    n_threads: int,
    compiler: str | None,
    cache: Path,
    measured: _Measured | None,
) -> Engine:
    build = import_module("einbound.tune.build")
    found = build.find_compiler(compiler)
    if isinstance(found, str):
        return Engine(backend, None, found)
    toolchain = build.Toolchain(found, cache)
    ways: NativeWays = _native().NativeWays(
        backend, toolchain, _limits(), n_threads, DEFAULT_BUFFER_BYTES
    )
    if measured is not None:
        context = import_module("einbound.tune.workshop").context_of(toolchain)
        choice = import_module("einbound.tune.choice").TunedChoice(context, None, measured.winners)
        ways = replace(ways, choose=choice, limits=measured.limits)
    return Engine(backend, ways)


def _native() -> Any:
    """The modules of kernels, which take as long to import as all others: at first use."""
    return import_module("einbound.backends.native_ways")
