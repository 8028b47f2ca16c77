"""What came of one kernel on one machine: a record that is kept, whatever came of it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256

from einbound.errors import KernelError
from einbound.kernels.decision_json import from_json, to_json
from einbound.kernels.decisions import Decision
from einbound.kernels.floors import floor
from einbound.kernels.problem import MatmulProblem
from einbound.machine.limits import HardwareLimits
from einbound.machine.readings import Reading
from einbound.space.tree import Path

#: What is larger is no time: whole numbers of JSON may be too large to compute with.
LARGEST = sys.float_info.max


class Outcome(StrEnum):
    """What became of a candidate."""

    MEASURED = "measured"
    REFUSED = "refused"
    NOT_BUILT = "not built"
    TIMED_OUT = "timed out"
    CRASHED = "crashed"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Context:
    """All besides problem and decisions that a time depends on.

    Attributes:
        cpu: The processor.
        compiler: Its name and version.
        flags: What it was told.
        version: Of this package.
    """

    cpu: str
    compiler: str
    flags: str
    version: str

    def __post_init__(self) -> None:
        _check_text(self, ("cpu", "compiler", "flags", "version"))

    @property
    def key(self) -> str:
        """Text that is equal for equal contexts."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One candidate that was tried.

    Attributes:
        problem: The key of the product, `MatmulProblem.key`.
        decisions: The decisions of the kernel, outermost first, as `decisions_text` writes them.
        label: The same for people.
        context: Where it was tried.
        source: Digest of the source that was compiled; empty if there was none.
        outcome: What became of it.
        reason: Why nothing was measured; empty if something was.
        seconds: Median of one run.
        ratio: The same over that of the untuned choice in the same rounds.
        spread: Distance between the quartiles as a share of the median.
        contended: Whether something else used the core meanwhile.
        model_seconds: What the model says; None: it does not cover this.
    """

    problem: str
    decisions: str
    label: str
    context: Context
    source: str = ""
    outcome: Outcome = Outcome.MEASURED
    reason: str = ""
    seconds: float | None = None
    ratio: float | None = None
    spread: float = 0.0
    contended: bool = False
    model_seconds: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "outcome", Outcome(self.outcome))
        _check_text(self, ("problem", "decisions", "label", "source", "reason"))
        if not isinstance(self.contended, bool):
            raise KernelError(f"contended of a record is {self.contended!r}; expected a truth")
        for name in ("seconds", "ratio", "model_seconds", "spread"):
            given = getattr(self, name)
            may_miss = name != "spread"
            if not _is_amount(given) and not (may_miss and given is None):
                raise KernelError(f"{name} of a record is {given!r}; expected a finite number")
        if (self.outcome is Outcome.MEASURED) != (self.seconds is not None):
            raise KernelError(
                f"a record of outcome {str(self.outcome)!r} has {self.seconds} seconds; expected "
                "a time if and only if it was measured"
            )

    @property
    def is_measured(self) -> bool:
        """Whether it has a time."""
        return self.seconds is not None

    def to_json(self) -> str:
        """The record as one line of text that `record_of` reads; defaults are left out."""
        kept = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }
        kept["context"] = asdict(self.context)
        return json.dumps(kept, sort_keys=True)


def _check_text(record: Context | Record, names: tuple[str, ...]) -> None:
    for name in names:
        given = getattr(record, name)
        if not isinstance(given, str):
            raise KernelError(f"{name} of a record is {given!r}; expected text")


def _is_amount(given: object) -> bool:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return is_number and 0 <= given <= LARGEST  # type: ignore[operator]  # it is a number


@lru_cache(maxsize=1024)
def record_of(text: str) -> Record:
    """The record that `Record.to_json` wrote; lines are read often, and each is judged once.

    Raises:
        KernelError: The text is no such record, or its product or decisions are none.
    """
    try:
        data = json.loads(text)
        record = Record(**{**data, "context": Context(**data["context"])})
        MatmulProblem.from_json(record.problem)
        decisions_of(record.decisions)
        return record
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise KernelError(f"{text[:80]!r} is no record: {error}; give what to_json wrote") from None


def decisions_text(path: Path[Decision]) -> str:
    """The decisions of a path as one line of text, level names left out.

    Example:
        >>> from einbound.kernels.decisions import RowBlock
        >>> decisions_text([("row-block", RowBlock(16))])
        '[{"is": "RowBlock", "bm": 16}]'
    """
    return f"[{', '.join(to_json(decision) for _, decision in path)}]"


def decisions_of(text: str) -> tuple[Decision, ...]:
    """The decisions that `decisions_text` wrote.

    Raises:
        KernelError: The text is no list of decisions.

    Example:
        >>> decisions_of('[{"is": "RowBlock", "bm": 16}]')
        (RowBlock(bm=16),)
    """
    try:
        given = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise KernelError(f"decisions are no JSON: {error}") from None
    if not isinstance(given, list):
        raise KernelError(f"decisions are {text!r}; expected a list")
    return tuple(from_json(json.dumps(each)) for each in given)


def reading_of(record: Record, limits: HardwareLimits) -> Reading:
    """A measured record as a reading that peaks are fitted from.

    Bytes that a cache may hold from run to run are told as no exact count of what memory moves.

    Args:
        record: What was measured.
        limits: The processor.
    """
    problem = MatmulProblem.from_json(record.problem)
    least = floor(problem)
    kept = limits.levels[-1].bytes if limits.levels else 0
    assert record.seconds is not None, "only what was measured is a reading"
    model = record.model_seconds
    return Reading(
        backend=backend_of(problem),
        digest=sha256(record.problem.encode()).hexdigest()[:16],
        routine=record.source[:16],
        label=record.label,
        measured_ms=record.seconds * 1e3,
        model_ms=None if model is None else model * 1e3,
        flops=least.flops,
        bytes=least.bytes,
        bytes_approx=not least.bytes_exact or least.bytes <= kept,
    )


def backend_of(problem: MatmulProblem) -> str:
    """Whose peaks a product is held against: ours, by format."""
    return f"native {problem.out_dtype}"
