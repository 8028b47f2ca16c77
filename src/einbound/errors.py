"""Every exception and warning of the package, sorted by who must act.

Texts follow one form: what was given, what was expected, what to do.
"""

from __future__ import annotations

from functools import partial
from typing import Any


class EinboundError(Exception):
    """Base of all errors raised by einbound."""


class ExpressionError(EinboundError, ValueError):
    """The einsum text, its labels or the shapes do not make sense.

    Attributes:
        text: The expression as the caller wrote it, or None for the interleaved form.
        spans: Places in `text`, as (start, stop), that the message is about.
    """

    def __init__(
        self, message: str, text: str | None = None, spans: tuple[tuple[int, int], ...] = ()
    ) -> None:
        self.text = text
        self.spans = spans
        super().__init__(message if text is None else f"{message}\n{_pointed(text, spans)}")


class EquationsError(ExpressionError):
    """A system of equations does not make sense, or does not fit its arrays."""


class PlanError(EinboundError, ValueError):
    """A hand-written or loaded plan is illegal; the message names the rule."""


class PathError(PlanError, RuntimeError):
    """A contraction path does not fit the operands; a RuntimeError too, as numpy raises."""


class ScheduleError(EinboundError, ValueError):
    """A schedule breaks a rule of the cell table; the message names the rule."""


class DTypeError(EinboundError, TypeError):
    """A dtype cannot be contracted or cast as asked."""


class BackendError(EinboundError, ImportError):
    """A backend or optional package is absent or not known."""


class LimitError(EinboundError, ValueError):
    """A limit is no amount of memory; the message repeats it and says what is."""


class PolicyError(EinboundError, ValueError):
    """A field of a batch policy, or what one of its functions says, makes no sense."""


class MachineError(EinboundError, ValueError):
    """A description of a processor, or a record of measurements, makes no sense."""


class KernelError(EinboundError, ValueError):
    """A matrix product or a decision about its kernel makes no sense; the message says which."""


class BuildError(EinboundError, RuntimeError):
    """A compiler or what it made does not do what it must.

    Attributes:
        command: The command line, or "" where none was started.
        output: What the compiler said.
    """

    def __init__(self, message: str, *, command: str = "", output: str = "") -> None:
        super().__init__(message)
        self.command = command
        self.output = output

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), command=self.command, output=self.output), self.args


class SpaceError(EinboundError, ValueError):
    """A tree of decisions, a search of it or a record of one makes no sense."""


class BudgetError(EinboundError, ValueError):
    """No plan that was found stays within the limit.

    Attributes:
        limit_bytes: The limit that was asked for.
        smallest_bytes: The smallest peak found, in the limit's own counting.
        lower_bound_bytes: No plan can go below this; above the limit, no plan at all keeps it.
        culprit: The array that sets `smallest_bytes`.
        culprit_bytes: Its size.
    """

    def __init__(
        self,
        message: str,
        *,
        limit_bytes: int,
        smallest_bytes: int,
        lower_bound_bytes: int,
        culprit: str,
        culprit_bytes: int,
    ) -> None:
        super().__init__(message)
        self.limit_bytes = limit_bytes
        self.smallest_bytes = smallest_bytes
        self.lower_bound_bytes = lower_bound_bytes
        self.culprit = culprit
        self.culprit_bytes = culprit_bytes

    @property
    def certified(self) -> bool:
        """Whether `smallest_bytes` is proven to be the least: no plan has a smaller peak.

        Law: it is the least of all programs (tests/test_refusal.py).
        """
        return self.smallest_bytes == self.lower_bound_bytes

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls the class with the message alone, and pools of processes would hang.
        return partial(type(self), **self.__dict__), self.args


class BudgetWarning(UserWarning):
    """A plan was returned that does not fit the threshold it was given."""


class MemoryRiskWarning(UserWarning):
    """No limit was given and the modelled peak exceeds the memory available."""


def _pointed(text: str, spans: tuple[tuple[int, int], ...]) -> str:
    text = "".join(" " if character.isspace() else character for character in text)
    marks = [" "] * len(text)
    for start, stop in spans:
        marks[start : max(stop, start + 1)] = "^" * max(stop - start, 1)
    return f"    {text}\n    {''.join(marks)}".rstrip()
