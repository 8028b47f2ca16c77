"""The only starter of compilers: finds one, builds objects, loads them, tries them in a child.

What they are told stands in `compilers`, where objects are kept in `objects`.
"""

from __future__ import annotations

import ctypes
import logging
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from einbound.errors import BuildError
from einbound.machine.identity import cpu_identity
from einbound.tune.compilers import INSTALL, Compiler, commands
from einbound.tune.objects import Objects, digest, unusable

_log = logging.getLogger(__name__)

#: Seconds for one object. GCC takes about one; a first use of zig builds its own runtime, which
#: took 91 on a loaded machine.
BUILD_SECONDS = 180.0
#: Seconds for a compiler to say its version.
VERSION_SECONDS = 60.0
#: Characters of a compiler's output that an error repeats.
_N_TOLD = 2000


@dataclass(frozen=True, slots=True)
class Finished:
    """A child process that ended, or was ended.

    Attributes:
        code: Its exit status, negative for a signal; None: it ran out of time and was killed.
        output: What it wrote to standard output.
        errors: What it wrote to standard error.
    """

    code: int | None
    output: str
    errors: str

    @property
    def fate(self) -> str:
        """How it ended, in words."""
        if self.code is None:
            return "ran out of time"
        if self.code < 0:
            name = next((each.name for each in signal.Signals if each == -self.code), "")
            return f"was ended by signal {-self.code} {name}".rstrip()
        return f"ended with status {self.code}"


def run_child(command: tuple[str, ...], seconds: float, given: str = "") -> Finished:
    """Start a program and wait for its end.

    Args:
        command: Its words.
        seconds: After these it is killed, and whatever it started.
        given: Its standard input.
    """
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return Finished(127, "", f"{command[0]}: {error.strerror}")
    with child:
        try:
            output, errors = child.communicate(given, timeout=seconds)
        except subprocess.TimeoutExpired:
            _kill(child)
            output, errors = child.communicate()
            return Finished(None, output, errors)
        except BaseException:
            _kill(child)
            raise
    return Finished(child.returncode, output, errors)


def _kill(child: subprocess.Popen[str]) -> None:
    """End a child with all that it started; it leads a session of its own."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


@lru_cache(maxsize=16)
def find_compiler(wish: str | None) -> Compiler | str:
    """A compiler that runs, or why there is none.

    Args:
        wish: The compiler that the caller names, as $CC; None: the first that is there.
    """
    if os.name != "posix":
        return f"objects are built on Linux and macOS only, and this is {os.name!r}"
    tried = []
    for command in commands(wish):
        found = run_child((*command, "--version"), VERSION_SECONDS)
        said = found.output.strip().splitlines()
        if found.code == 0 and said:
            return Compiler(command, said[0])
        tried.append(f"{shlex.join(command)} --version {found.fate}")
    if not tried:
        return f"no C compiler was found; {INSTALL}"
    return f"no C compiler runs: {'; '.join(tried)}; {INSTALL}"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Where objects come from: a compiler, this processor and a folder.

    Attributes:
        compiler: What compiles.
        folder: Where objects are kept.
    """

    compiler: Compiler
    folder: Path

    def key(self, source: str) -> str:
        """A word for all that an object depends on."""
        compiler = self.compiler
        parts = (source, *compiler.command, compiler.version, *compiler.flags, cpu_identity())
        return digest("\0".join(parts).encode())

    def build(self, source: str, seconds: float = BUILD_SECONDS) -> Path:
        """The object of a C source, compiled unless it is there already.

        Args:
            source: The text of one file.
            seconds: After these the compiler is killed.

        Raises:
            BuildError: The compiler refused it or ran out of time.
            BackendError: The folder cannot be used.
        """
        objects, key = Objects.opened(self.folder), self.key(source)
        try:
            found = objects.find(key)
            if found is not None:
                return found
            with objects.scratch() as scratch:
                made = self._compiled(source, Path(scratch), seconds)
                _log.debug("built %s with %s", key, self.compiler.version)
                return objects.put(key, made)
        except OSError as error:
            raise unusable(self.folder, error) from None

    def _compiled(self, source: str, scratch: Path, seconds: float) -> Path:
        """The object of a C source, in a folder of this build."""
        text, made = scratch / "kernel.c", scratch / "kernel.so"
        text.write_text(source)
        words = (*self.compiler.command, *self.compiler.flags, "-o", str(made), str(text))
        done = run_child(words, seconds)
        if done.code != 0 or not made.exists():
            raise BuildError(
                f"{shlex.join(self.compiler.command)} {done.fate} on a kernel's source; "
                f"command: {shlex.join(words)}; it said: {_first_lines(done.errors)}",
                command=shlex.join(words),
                output=done.errors,
            )
        return made


def _first_lines(text: str) -> str:
    return text.strip()[:_N_TOLD] or "nothing"


class Library:
    """An object that is loaded.

    Attributes:
        path: Its file.
        run: `einbound_run(task, a, b, c, workspace, first, stop)`, all addresses as integers.
        call: `einbound_call(task, a, b, c, workspace)`, the task an address and the others arrays.
    """

    __slots__ = ("call", "path", "run")

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            loaded = ctypes.CDLL(str(path))
            self.run: Any = loaded.einbound_run
            self.call: Any = loaded.einbound_call
        except (OSError, AttributeError) as error:
            raise BuildError(f"the object {path} cannot be loaded: {error}; remove it") from None
        self.run.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_int64] * 2
        self.call.argtypes = [ctypes.c_void_p] + [ctypes.py_object] * 4
        self.run.restype = self.call.restype = None


_loading = Lock()
_libraries: dict[Path, Library] = {}


def load(path: Path) -> Library:
    """The object in a file, loaded once in a process.

    Raises:
        BuildError: It cannot be loaded, or arrays are not laid out as it expects.
    """
    with _loading:
        if path not in _libraries:
            check_arrays()
            _libraries[path] = Library(path)
        return _libraries[path]


def check_arrays() -> None:
    """Nothing, if the address of an array's elements lies right behind its object's header.

    Raises:
        BuildError: It does not, in an interpreter or a NumPy that lays out arrays otherwise.
    """
    array = np.arange(3)
    place = id(array) + object.__basicsize__
    found = ctypes.c_void_p.from_address(place).value if sys.implementation.name == "cpython" else 0
    if found != array.ctypes.data:
        raise BuildError(
            f"arrays of NumPy {np.__version__} under {sys.implementation.name} do not hold the "
            f"address of their elements {object.__basicsize__} bytes into the object, where "
            "objects read it; use backend='numpy'"
        )
