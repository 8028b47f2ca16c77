"""Schedules as text, one instruction per line, for people and golden files."""

from __future__ import annotations

from collections.abc import Iterator

from einbound.expr.network import Network
from einbound.schedule.cells import Cell, Place
from einbound.schedule.instructions import (
    Add,
    Alloc,
    Contract,
    Free,
    Instruction,
    Loop,
    Read,
    Scatter,
    Schedule,
    See,
    Slice,
    Sum,
)


def listing(schedule: Schedule, network: Network) -> str:
    """The instructions of a schedule, indented by loop."""
    return "\n".join(_Lines(schedule, network).block(schedule.body, ""))


class _Lines:
    def __init__(self, schedule: Schedule, network: Network) -> None:
        self.schedule = schedule
        self.network = network

    def block(self, body: tuple[Instruction, ...], indent: str) -> Iterator[str]:
        for instruction in body:
            if isinstance(instruction, Loop):
                yield indent + self.head(instruction)
                yield from self.block(instruction.body, indent + "    ")
            else:
                yield indent + self.line(instruction)

    def head(self, loop: Loop) -> str:
        label = self.network.labels[loop.index]
        size = f"at most {loop.width}" if loop.edges else f"{loop.width}"
        cut = f", cut at {' '.join(map(str, loop.edges))}" if loop.edges else ""
        return (
            f"for {label} in {loop.n_trips} slices of {size}{cut} "
            f"(loop {loop.number}, step {loop.step}):"
        )

    def line(self, instruction: Instruction) -> str:
        match instruction:
            case Alloc():
                return f"alloc   {self.name(instruction.cell)}"
            case See():
                return f"see     {self.name(instruction.cell)} = {self.name(instruction.source)}"
            case Slice():
                label = self.network.labels[self.cell(instruction.source).indices[instruction.axis]]
                return (
                    f"slice   {self.name(instruction.cell)} = "
                    f"{self.name(instruction.source)} along {label}"
                )
            case Contract():
                factor = "" if instruction.factor == 1 else f"{instruction.factor} * "
                return (
                    f"contract {self.name(instruction.into)} {_sign(instruction)} "
                    f"{factor}{self.name(instruction.left)} * {self.name(instruction.right)}"
                )
            case Sum() | Read() | Add() | Scatter():
                word, sign = _word(instruction)
                source = self.name(instruction.source)
                return f"{word:7} {self.name(instruction.into)} {sign} {source}"
            case Free():
                return f"free    {self.name(instruction.cell)}"
            case Loop():
                raise AssertionError("a loop is printed by its block")

    def cell(self, number: int) -> Cell:
        return self.schedule.cells[number]

    def name(self, number: int) -> str:
        """A cell as text: %number, its kind, its indices; sliced indices have a loop number."""
        cell = self.cell(number)
        loops = dict(cell.slices)
        labels = [
            str(self.network.labels[i]) + (f"@{loops[i]}" if i in loops else "")
            for i in cell.indices
        ]
        kind = {Place.OPERAND: "in", Place.RESULT: "out"}.get(cell.place, "")
        return f"%{number}{kind}[{' '.join(labels)}]"


def _sign(what: Contract | Sum) -> str:
    if what.onto:
        return "+="
    return f"+= (after the first of loops {what.adds})" if what.adds else "="


def _word(what: Sum | Read | Add | Scatter) -> tuple[str, str]:
    match what:
        case Sum():
            return "sum", _sign(what)
        case Add():
            return "add", "+="
        case Read():
            return "read", "="
        case Scatter():
            return "scatter", "="
