"""Why a branch is refused, left out or undecided: the rule with its numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from einbound.errors import SpaceError
from einbound.space.document import read, written

Value: TypeAlias = int | float | str | None

_SCHEMA = "einbound.witness"


@dataclass(frozen=True, slots=True)
class Witness:
    """A rule and the numbers that it was judged by.

    Its text is one sentence: ``bm must divide m (bm = 16, m = 20)``.

    Attributes:
        rule: What must hold, or what the policy is, in words.
        values: Names and numbers of this case, in the order in which they are told.
        limit: The number that must not be passed; None where the rule has none.

    Example:
        >>> str(Witness.of("a tile must fit", limit=1024, tile_bytes=4096))
        'a tile must fit (tile_bytes = 4096, limit 1024)'
    """

    rule: str
    values: tuple[tuple[str, Value], ...] = ()
    limit: Value = None

    def __post_init__(self) -> None:
        if not isinstance(self.rule, str):
            raise SpaceError(f"the rule of a witness is {self.rule!r}; expected a sentence")
        for name, value in (*self.values, ("limit", self.limit)):
            if not isinstance(value, int | float | str | None):
                raise SpaceError(
                    f"{name} of the witness {self.rule!r} is {value!r} of type "
                    f"{type(value).__name__}; expected a Python number, a text or None"
                )

    @classmethod
    def of(cls, rule: str, limit: Value = None, **values: Value) -> Witness:
        """The same, with the numbers as keywords."""
        return cls(rule, tuple(values.items()), limit)

    def __str__(self) -> str:
        told = [f"{name} = {value}" for name, value in self.values]
        if self.limit is not None:
            told.append(f"limit {self.limit}")
        return f"{self.rule} ({', '.join(told)})" if told else self.rule

    def to_json(self) -> str:
        """The witness as JSON text; what is read back is equal.

        Example:
            >>> Witness.from_json(Witness("bm must divide m", (("bm", 16), ("m", 20))).to_json())
            Witness(rule='bm must divide m', values=(('bm', 16), ('m', 20)), limit=None)
        """
        return written(_SCHEMA, asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Witness:
        """The witness in what `to_json` wrote.

        Args:
            text: The JSON text.

        Raises:
            SpaceError: The text is something else, of another version, or damaged.
        """
        return read(text, _SCHEMA, _witness)


def _witness(fields: dict[str, Any]) -> Witness:
    values = tuple((str(name), value) for name, value in fields["values"])
    return Witness(fields["rule"], values, fields["limit"])
