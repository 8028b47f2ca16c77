"""Which C compilers there may be, and what they are told; starting them is `build`'s."""

from __future__ import annotations

import platform
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

#: Tried in this order where the caller names none.
NAMES = ("cc", "gcc", "clang")
#: A wheel that brings a compiler of its own: `pip install "einbound[native]"`.
ZIG = "ziglang"
INSTALL = 'install gcc or clang, name a compiler in $CC, or pip install "einbound[native]"'

#: What every object is compiled with. GCC 12 makes code of these kernels that is as fast with -O2
#: as with -O3; multiply-adds may be fused, and nothing else of IEEE arithmetic is given up.
FLAGS = (
    *("-O2", "-std=gnu11", "-shared", "-fPIC", "-ffp-contract=fast", "-fno-math-errno"),
    *("-fno-trapping-math", "-Wno-psabi"),
)
#: zig instruments its output by default.
ZIG_FLAGS = ("-fno-sanitize=undefined",)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler that was found to run.

    Attributes:
        command: The words that start it.
        version: What it says about itself, one line.
    """

    command: tuple[str, ...]
    version: str

    @property
    def is_zig(self) -> bool:
        """Whether it is that of the wheel."""
        return ZIG in self.command

    @property
    def flags(self) -> tuple[str, ...]:
        """What it is told besides the names of files."""
        is_x86 = platform.machine().lower() in ("x86_64", "amd64", "i686")
        target = "-march=native" if is_x86 else "-mcpu=native"
        return (*FLAGS, target, *(ZIG_FLAGS if self.is_zig else ()))


def commands(
    wish: str | None,
    which: Callable[[str], str | None] = shutil.which,
    has_zig: bool | None = None,
) -> tuple[tuple[str, ...], ...]:
    """The commands of compilers that may be there, the preferred one first.

    Args:
        wish: What the caller names, with arguments if need be, as $CC; then no other is tried.
        which: Finds a program by its name.
        has_zig: Whether the wheel is installed; None: looked up.

    Example:
        >>> commands("ccache gcc-12"), commands(None, {"gcc": "/usr/bin/gcc"}.get, has_zig=False)
        ((('ccache', 'gcc-12'),), (('/usr/bin/gcc',),))
    """
    if wish is not None and wish.strip():
        return (_words(wish),)
    found = [(path,) for path in map(which, NAMES) if path is not None]
    if find_spec(ZIG) is not None if has_zig is None else has_zig:
        return (*found, (sys.executable, "-m", ZIG, "cc"))
    return tuple(found)


def _words(wish: str) -> tuple[str, ...]:
    """The words of a command; where a quote is left open, all of it is the name of a program."""
    try:
        return tuple(shlex.split(wish))
    except ValueError:
        return (wish,)
