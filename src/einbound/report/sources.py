"""Operands that are not in memory, as a plan's report tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from einbound.report.figures import columns, count, human_bytes


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One operand that is not in memory.

    Attributes:
        operand: Its number.
        labels: Its labels.
        n_bytes: Its size.
        block_bytes: The largest block that is read at once.
        n_blocks: Blocks that one evaluation reads.
        read_bytes: Bytes that one evaluation reads.
    """

    operand: int
    labels: str
    n_bytes: int
    block_bytes: int
    n_blocks: int
    read_bytes: int


def source_lines(rows: Sequence[SourceRow]) -> list[str]:
    """One line for each operand that is not in memory, below a head; none without any."""
    if not rows:
        return []
    cells = [
        (
            *(f"operand {row.operand}", row.labels, human_bytes(row.n_bytes)),
            *(human_bytes(row.block_bytes), count(row.n_blocks), human_bytes(row.read_bytes)),
        )
        for row in rows
    ]
    head = ("source", "labels", "size", "block", "blocks", "read in all")
    return columns([head, *cells], "<<>>>>")
