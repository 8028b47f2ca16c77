"""Measured kernels beside what they compute and move, as lines of text.

What peaks they show is fitted in `machine.calibration`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from numbers import Real
from typing import TypeVar

from einbound.errors import MachineError
from einbound.machine.fields import as_text, count, flag
from einbound.machine.roofline import Work

COLUMNS = (
    "backend",
    "digest",
    "routine",
    "label",
    "measured_ms",
    "model_ms",
    "kernels",
    "flops",
    "bytes",
    "flops_approx",
    "bytes_approx",
    "opaque",
)
#: Files of old have no such column.
ADDED_LATER = "routine"
#: No run counts so far; rates of more would not be finite numbers.
MOST_COUNT = 2**200
MS_STEP = Decimal("0.000001")
# Room for all digits of the largest float.
_WIDE = Context(prec=400)

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One measurement that was admitted.

    Attributes:
        backend: What ran it; peaks are fitted for each.
        digest: Identifies the problem.
        routine: The name of the routine.
        label: The decisions, rendered.
        measured_ms: Milliseconds that it took.
        model_ms: Milliseconds that the model says; None: it does not cover this.
        kernels: Kernels that ran one after the other.
        flops: Floating point operations of them all.
        bytes: Bytes to and from memory of them all.
        flops_approx: Whether `flops` is not exact.
        bytes_approx: Whether `bytes` is not exact.
        opaque: Whether the counts leave something out that nobody can see into.
    """

    backend: str
    digest: str
    routine: str = ""
    label: str = ""
    measured_ms: float
    model_ms: float | None = None
    kernels: int = 1
    flops: int
    bytes: int
    flops_approx: bool = False
    bytes_approx: bool = False
    opaque: bool = False

    def __post_init__(self) -> None:
        for name in ("backend", "digest", "routine", "label"):
            object.__setattr__(self, name, _one_field(as_text(name, getattr(self, name))))
        object.__setattr__(self, "measured_ms", _ms("measured_ms", self.measured_ms))
        if self.model_ms is not None:
            object.__setattr__(self, "model_ms", _ms("model_ms", self.model_ms))
        for name, least in (("kernels", 1), ("flops", 0), ("bytes", 0)):
            given = count(name, getattr(self, name), least)
            if given >= MOST_COUNT:
                raise MachineError(f"{name} is {given}; expected less than 2**200")
            object.__setattr__(self, name, given)
        for name in ("flops_approx", "bytes_approx", "opaque"):
            flag(name, getattr(self, name))

    @property
    def seconds(self) -> float:
        """What was measured, in seconds."""
        return self.measured_ms / 1e3

    @property
    def exact(self) -> Work:
        """The counts that are exact."""
        return Work(
            None if self.flops_approx or self.opaque else self.flops,
            None if self.bytes_approx or self.opaque else self.bytes,
        )

    @property
    def line(self) -> str:
        r"""The reading as one line of tab-separated text, times rounded down.

        Example:
            >>> Reading(backend="c", digest="d", measured_ms=0.12345678, flops=2, bytes=3).line
            'c\td\t\t\t0.123456\t\t1\t2\t3\t0\t0\t0'
        """
        model = "" if self.model_ms is None else _floored(self.model_ms)
        flags = (self.flops_approx, self.bytes_approx, self.opaque)
        cells = (
            *(self.backend, self.digest, self.routine, self.label),
            *(_floored(self.measured_ms), model),
            *map(str, (self.kernels, self.flops, self.bytes)),
            *(str(int(flag)) for flag in flags),
        )
        return "\t".join(cells)


@dataclass(frozen=True, slots=True)
class Readings:
    """What a text of readings holds.

    Attributes:
        rows: The readings, in the order of the text.
        n_malformed: Lines that are none and were left out.
    """

    rows: tuple[Reading, ...]
    n_malformed: int = 0


def write_readings(rows: Iterable[Reading]) -> str:
    """Text that `read_readings` reads: a line of names, then one line each.

    Law: what is read is what was written, times rounded down to nanoseconds
    (tests/test_calibration.py).
    """
    return "".join(f"{line}\n" for line in ("\t".join(COLUMNS), *(row.line for row in rows)))


def read_readings(text: str) -> Readings:
    r"""The readings in a text; lines that are none are counted, not complained about.

    Args:
        text: Tab-separated lines of `COLUMNS`; the line of names may be missing, and so may the
            column "routine", which files of old do not have.

    Example:
        >>> read_readings("c\td\tlabel\t1.5\t\t1\t2\t3\t0\t0\t0\nwhat?\n").n_malformed
        1
    """
    legacy = tuple(name for name in COLUMNS if name != ADDED_LATER)
    rows: list[Reading] = []
    n_malformed = 0
    for line in as_text("readings", text).split("\n"):
        cells = tuple(line.removesuffix("\r").split("\t"))
        if cells in (("",), COLUMNS, legacy):
            continue
        names = {len(COLUMNS): COLUMNS, len(legacy): legacy}.get(len(cells))
        row = None if names is None else _reading(dict(zip(names, cells, strict=True)))
        if row is None:
            n_malformed += 1
        else:
            rows.append(row)
    return Readings(tuple(rows), n_malformed)


def _reading(cells: dict[str, str]) -> Reading | None:
    """The reading of one line; None: it is malformed."""
    try:
        return Reading(
            backend=cells["backend"],
            digest=cells["digest"],
            routine=cells.get(ADDED_LATER, ""),
            label=cells["label"],
            measured_ms=_number(float, cells["measured_ms"]),
            model_ms=_number(float, cells["model_ms"]) if cells["model_ms"] else None,
            kernels=_number(int, cells["kernels"]),
            flops=_number(int, cells["flops"]),
            bytes=_number(int, cells["bytes"]),
            flops_approx=_FLAGS[cells["flops_approx"]],
            bytes_approx=_FLAGS[cells["bytes_approx"]],
            opaque=_FLAGS[cells["opaque"]],
        )
    except (ValueError, KeyError):
        return None


_FLAGS = {"0": False, "1": True, "false": False, "true": True}


def _number(kind: Callable[[str], N], cell: str) -> N:
    # Python also reads grouped digits, spaces and other scripts, which no file of readings has.
    if not cell.isascii() or cell != cell.strip() or "_" in cell:
        raise ValueError(cell)
    return kind(cell)


def _ms(name: str, given: object) -> float:
    """Milliseconds as a number of Python."""
    is_number = isinstance(given, Real) and not isinstance(given, bool)
    if not (is_number and math.isfinite(given) and given >= 0):  # type: ignore[arg-type,operator]
        raise MachineError(f"{name} is {given!r}; expected a finite number of at least 0")
    return abs(float(given))  # type: ignore[arg-type]


def _one_field(text: str) -> str:
    """Text without the characters that end a field or a line."""
    return text.translate({ord(each): " " for each in "\t\n\r"})


def _floored(ms: float) -> str:
    # Of the shortest decimal, not of the binary number, so that reading and writing again is exact.
    return f"{Decimal(repr(ms)).quantize(MS_STEP, ROUND_FLOOR, _WIDE):f}"
