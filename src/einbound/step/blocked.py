"""How one step is done: loops over blocks around one NumPy call, with the buffers it takes.

The record only; which way is chosen stands in `way`, how it runs in `backends.numpy_`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any, Protocol

from einbound.step.form import Form
from einbound.step.pair import A, B, C, Group, Pair


class Core(Enum):
    """The NumPy call in the innermost block, or a compiled kernel in its place."""

    MATMUL = "matmul"
    MULTIPLY = "multiply"
    EINSUM = "einsum"
    REDUCE = "sum"
    COPY = "copy"
    FILL = "fill"
    NATIVE = "native"


class Native(Protocol):
    """A compiled kernel that was chosen for one step; only who chose it knows more of it.

    Its text is its name.
    """

    def __hash__(self) -> int:
        """Ways are keys."""

    def kernel(self, factor: complex) -> Any:
        """A function that runs the step, as `backends.numpy_.Kernel`, times a factor."""


@dataclass(frozen=True, slots=True)
class Block:
    """A loop over slices of one axis, each of at most `width` elements."""

    axis: int
    width: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """A contiguous buffer for the block of one array.

    Attributes:
        side: Which of a, b, c it stands for.
        order: Axis numbers, outermost first.
        extents: Elements along each axis in a full block.
        n_bytes: Its size.
    """

    side: int
    order: tuple[int, ...]
    extents: tuple[int, ...]
    n_bytes: int


@dataclass(frozen=True, slots=True)
class Way:
    """A blocked form of one step, and what it takes.

    Attributes:
        pair: The layouts that it is made for.
        core: The call in the innermost block.
        form: The part of each axis in that call.
        blocks: Loops around the call, outermost first.
        packs: Buffers into which blocks of a and b are copied first.
        product: Buffer for the block that is added or copied into c, if one is needed.
        total: Buffer that gathers the trips over summed blocks where c cannot, in `work`.
        always: Whether `product` is used even if nothing is added.
        accumulate: Whether c may be added to.
        hidden_bytes: Buffers that NumPy itself takes in the call.
        workspace_bytes: All buffers at once, exactly.
        seconds: Rough estimate of the time, for ranking.
        native: The kernel that runs the whole step in one call, if one was chosen.
        why: Why it was, or was not, where there was a choice.
    """

    pair: Pair
    core: Core
    form: Form
    blocks: tuple[Block, ...] = ()
    packs: tuple[Buffer, ...] = ()
    product: Buffer | None = None
    total: Buffer | None = None
    always: bool = False
    accumulate: bool = False
    hidden_bytes: int = 0
    workspace_bytes: int = 0
    seconds: float = 0.0
    native: Native | None = None
    why: str = ""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """All buffers, in the order in which they are taken."""
        return self.packs + tuple(b for b in (self.total, self.product) if b is not None)

    @property
    def fixed(self) -> frozenset[int]:
        """The arrays that the call sees where they lie."""
        arranged = {buffer.side for buffer in self.packs}
        if self.always or self.total is not None:
            arranged.add(C)
        return frozenset({A, B, C} - arranged)

    @property
    def blocks_sums(self) -> bool:
        """Whether a loop runs over a summed axis, so that later trips must be added."""
        return any(self.pair.axes[block.axis].group is Group.SUM for block in self.blocks)

    @property
    def copied_bytes(self) -> int:
        """Bytes of the operands that are packed, each counted once."""
        views = self.pair.views
        return sum(
            view.n_elements * self.pair.work.itemsize
            for buffer in self.packs
            if (view := views[buffer.side]) is not None
        )

    def describe(self) -> str:
        """One line about what is done, without the names of indices."""
        if self.native is not None:
            return f"{self._call()} by {self.native}, with {_size(self.workspace_bytes)}"
        parts = [f"pack {'ab'[b.side]} ({_size(b.n_bytes)})" for b in self.packs]
        parts.append(self._call())
        if self.blocks:
            count = prod(
                -(-self.pair.axes[block.axis].extent // block.width) for block in self.blocks
            )
            parts[-1] += f" in {count} blocks"
        if self.product is not None:
            verb = "add" if self.accumulate or not self.always else "copy"
            parts.append(f"{verb} through {_size(self.product.n_bytes)}")
        elif not self.packs and self.core is Core.MATMUL:
            parts[-1] += ", on views"
        return ", then ".join(parts)

    def _call(self) -> str:
        axes = self.pair.axes
        widths = {block.axis: block.width for block in self.blocks}
        batch = prod(widths.get(i, axes[i].extent) for i in self.form.batch)
        if self.core in (Core.MATMUL, Core.NATIVE):
            m, n, k = (
                prod(widths.get(i, axes[i].extent) for i in run)
                for run in (self.form.rows, self.form.columns, self.form.sums)
            )
            return f"{self.core.value} {m}x{n}x{k}" + (f", {batch} in batch" if batch > 1 else "")
        sizes = "x".join(str(axis.extent) for axis in axes) or "1"
        return f"{self.core.value} {sizes}"


def _size(n_bytes: int) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes} B"
