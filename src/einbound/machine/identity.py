"""Which processor this is, as a key of what was compiled or measured for it."""

from __future__ import annotations

import platform
from functools import cache
from hashlib import sha256
from pathlib import Path

#: Lines of /proc/cpuinfo that tell what code a processor can run and how fast.
_TELLING = (
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "stepping",
    "flags",
    "CPU implementer",
    "CPU part",
    "CPU variant",
    "Features",
)
#: Hexadecimal digits of a key: 64 bits tell all processors of a person apart.
N_DIGITS = 16


@cache
def cpu_identity(root: Path = Path("/")) -> str:
    """A word that differs between processors that run or time compiled code differently.

    Args:
        root: Where proc is mounted; another folder in tests.

    Example:
        >>> len(cpu_identity())
        16
    """
    found = {name: "" for name in _TELLING}
    try:
        text = (root / "proc" / "cpuinfo").read_text()
    except OSError:
        text = ""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in found and not found[name.strip()]:
            found[name.strip()] = value.strip()
    return key_of("\n".join([platform.machine(), platform.processor(), *found.values()]))


def key_of(text: str) -> str:
    """A short word for a text, equal on all machines."""
    return sha256(text.encode()).hexdigest()[:N_DIGITS]
