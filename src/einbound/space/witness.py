"""Why a branch is refused, left out or undecided: the rule with its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = int | float | str | None


@dataclass(frozen=True, slots=True)
class Witness:
    """A rule and the numbers that it was judged by.

    Its text is one sentence: ``bm must divide m (bm = 16, m = 20)``.

    Attributes:
        rule: What must hold, or what the policy is, in words.
        values: Names and numbers of this case, in the order in which they are told.
        limit: The number that must not be passed; None where the rule has none.
    """

    rule: str
    values: tuple[tuple[str, Value], ...] = ()
    limit: Value = None

    @classmethod
    def of(cls, rule: str, limit: Value = None, **values: Value) -> Witness:
        """The same, with the numbers as keywords."""
        return cls(rule, tuple(values.items()), limit)

    def __str__(self) -> str:
        told = [f"{name} = {value}" for name, value in self.values]
        if self.limit is not None:
            told.append(f"limit {self.limit}")
        return f"{self.rule} ({', '.join(told)})" if told else self.rule
