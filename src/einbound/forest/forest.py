"""A forest: values, and the products that are added into them, in an order that can run.

The same as a list of einsum calls, each adding into one value. Nothing here knows loops or bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from einbound.expr.equations import Coefficient
from einbound.expr.network import Network


class Kind(Enum):
    """What a value is for."""

    LEAF = "leaf"
    SHARED = "shared"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class Value:
    """One tensor of a forest.

    Attributes:
        number: Position among the values; leaves come first.
        name: The caller's name, or one that was made up for a shared value.
        kind: What it is for.
        shape: Elements along each axis.
        labels: The label of each axis as some equation has it, for reports.
        volatile: Whether it changes with every evaluation, itself or by what it is made from.
        constant: The number that a leaf without axes is, where the system itself brings it.
    """

    number: int
    name: str
    kind: Kind
    shape: tuple[int, ...]
    labels: tuple[str, ...]
    volatile: bool = False
    constant: Coefficient | None = None


@dataclass(frozen=True)
class Production:
    """A number times a contraction, added into one value.

    Attributes:
        number: Position among the productions.
        into: The value that is added to.
        operands: The value of each operand, in the order of the network's inputs.
        network: The contraction; its output stands in the order of the value's axes. Index numbers
            are its own and mean nothing in another production.
        factor: What the contraction is multiplied by; 1 where there is one operand only, since
            a number times one tensor is a product with a constant leaf.
    """

    number: int
    into: int
    operands: tuple[int, ...]
    network: Network
    factor: Coefficient = 1


@dataclass(frozen=True)
class Forest:
    """Values and productions; every value is complete before it is read.

    Attributes:
        values: Leaves first, then what is made.
        productions: In an order that can run: all productions into a value come before the first
            that reads it.
        targets: Numbers of the values that are returned, in order.
    """

    values: tuple[Value, ...]
    productions: tuple[Production, ...]
    targets: tuple[int, ...]

    @cached_property
    def producers(self) -> dict[int, tuple[int, ...]]:
        """For each value that is made, the productions that add into it."""
        made: dict[int, tuple[int, ...]] = {}
        for each in self.productions:
            made[each.into] = (*made.get(each.into, ()), each.number)
        return made

    @cached_property
    def readers(self) -> dict[int, tuple[int, ...]]:
        """For each value that is read, the productions that read it, each once."""
        read: dict[int, tuple[int, ...]] = {}
        for each in self.productions:
            for value in dict.fromkeys(each.operands):
                read[value] = (*read.get(value, ()), each.number)
        return read
