"""Defaults that a program sets once, and the only reader of the environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from einbound.backends.backend import Backend
from einbound.errors import BackendError
from einbound.expr.number import whole
from einbound.machine.memory import parse_bytes

if TYPE_CHECKING:
    from pathlib import Path

#: Names of environment variables.
COMPILER, CACHE, THREADS = "CC", "EINBOUND_CACHE", "EINBOUND_THREADS"
#: The folder below a user's cache.
_FOLDER = "einbound"


@dataclass(frozen=True, slots=True)
class Options:
    """What holds where a call says nothing.

    Attributes:
        memory_limit: Bound of everything alive at once in a call; None: no limit.
        backend: "numpy", "native" or "auto"; None: "numpy".
        threads: Threads that may share one step of a compiled kernel; None: what
            $EINBOUND_THREADS says, else 1. Those of BLAS are its own.
        cache: The folder of compiled objects and records; None: what $EINBOUND_CACHE says, else
            the user's cache.
        tuned: Whether kernels are chosen by what was measured on this machine (`einbound.tune`);
            else plans do not depend on local records. A path: kernels are pinned to the winners
            in that file alone, as `einbound cache export` writes it.
    """

    memory_limit: int | str | None = None
    backend: str | None = None
    threads: int | None = None
    cache: str | os.PathLike[str] | None = None
    tuned: bool | str | os.PathLike[str] = False

    def __post_init__(self) -> None:
        if self.memory_limit is not None:
            parse_bytes(self.memory_limit, name="memory_limit")
        if self.backend is not None:
            Backend.of(self.backend)
        if self.threads is not None:
            _check_threads(self.threads, "threads")
        if self.cache is not None and not isinstance(self.cache, (str, os.PathLike)):
            raise TypeError(
                f"cache is {self.cache!r} of type {type(self.cache).__name__}; expected the path "
                "of a folder"
            )
        if not isinstance(self.tuned, (bool, str, os.PathLike)):
            raise TypeError(
                f"tuned is {self.tuned!r} of type {type(self.tuned).__name__}; expected True, "
                "False, or the path of an exported file"
            )

    @property
    def is_backend_alone(self) -> bool:
        """Whether a product that was seen under them before is done as it was then."""
        return self.memory_limit is None and not self.tuned

    @property
    def n_threads(self) -> int:
        """Threads that may share one step."""
        if self.threads is not None:
            return self.threads
        said = os.environ.get(THREADS, "").strip()
        if not said:
            return 1
        try:
            number = int(said)
        except ValueError:
            number = 0
        return _check_threads(number or said, f"${THREADS}")

    @property
    def cache_folder(self) -> Path:
        """The folder of compiled objects and records, as a path that does not start here.

        Raises:
            BackendError: The user has no home in which it could be.
        """
        from pathlib import Path

        said = os.environ.get(CACHE, "").strip() if self.cache is None else self.cache
        base = os.environ.get("XDG_CACHE_HOME", "").strip()
        try:
            if said:
                return Path(said).expanduser().absolute()
            return (Path(base) if base else Path.home() / ".cache").absolute() / _FOLDER
        except RuntimeError as error:
            raise BackendError(
                f"the cache folder {str(said or '~/.cache')!r} cannot be found: {error}; name one "
                "in $EINBOUND_CACHE or in einbound.options(cache=...)"
            ) from None

    @property
    def pinned(self) -> str | None:
        """The text of the winners that alone count; None: there is no such file.

        Raises:
            BackendError: The file cannot be read.
        """
        if isinstance(self.tuned, bool):
            return None
        from pathlib import Path

        try:
            return Path(self.tuned).expanduser().read_text(encoding="utf-8")
        except (OSError, RuntimeError, UnicodeDecodeError) as error:
            raise BackendError(
                f"tuned kernels {str(self.tuned)!r} cannot be read: {error}; give a file that "
                "`einbound cache export` wrote, or True"
            ) from None

    @property
    def compiler(self) -> str | None:
        """The compiler that the environment names."""
        return os.environ.get(COMPILER, "").strip() or None


NO_OPTIONS = Options()
_options: ContextVar[Options] = ContextVar("einbound_options", default=NO_OPTIONS)


def current_options() -> Options:
    """The options that hold here."""
    return _options.get()


@contextmanager
def options(**given: Any) -> Iterator[Options]:
    """Defaults for all calls inside a `with` statement; inner ones win, arguments of calls too.

    They hold in the thread, or the task, that sets them.

    Args:
        given: Fields of `Options`: `memory_limit`, `backend`, `threads`, `cache`, `tuned`.

    Raises:
        TypeError: There is no such option.
        BackendError: The backend is not known.
        LimitError: The limit is no amount of memory.

    Example:
        >>> import numpy as np
        >>> import einbound as eb
        >>> with eb.options(memory_limit="1MiB"):
        ...     print(eb.plan("ij,jk->ik", (8, 8), (8, 8)).explain().split("limits")[1][3:42])
        memory_limit 1,048,576 bytes (1.00 MiB)
    """
    names = [field.name for field in fields(Options)]
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise TypeError(f"option {unknown[0]!r} is not known; expected one of {', '.join(names)}")
    token = _options.set(replace(_options.get(), **given))
    try:
        yield _options.get()
    finally:
        _options.reset(token)


def _check_threads(given: object, name: str) -> int:
    number = whole(given, name) if not isinstance(given, str) else 0
    if number < 1:
        raise ValueError(f"{name} is {given!r}; expected a whole number of threads, at least 1")
    return number
