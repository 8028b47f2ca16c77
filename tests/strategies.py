"""Hypothesis strategies: einsum calls that numpy accepts, networks, texts of any kind, arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from einbound.expr.expression import parse
from einbound.expr.network import Network

LETTERS = "abcdefXY"


@dataclass(frozen=True)
class Call:
    """The text and the shapes of one einsum call.

    Attributes:
        text: Subscripts.
        shapes: Shape of each operand.
    """

    text: str
    shapes: tuple[tuple[int, ...], ...]

    def arrays(self, dtype: Any = np.float64) -> list[np.ndarray]:
        """Operands of small whole numbers, so that sums are exact in most dtypes."""
        return [filled(shape, number + 1).astype(dtype) for number, shape in enumerate(self.shapes)]


def filled(shape: Sequence[int], seed: int = 1) -> np.ndarray:
    """Whole numbers from -5 to 5, the same for the same shape and seed."""
    n = int(np.prod(shape, dtype=int))
    return np.array([(7 * k + 3 * seed) % 11 - 5 for k in range(n)], float).reshape(shape)


@st.composite
def calls(
    draw: st.DrawFn,
    *,
    max_operands: int = 4,
    min_extent: int = 0,
    max_extent: int = 4,
    ellipsis: bool = True,
    repeats: bool = True,
    broadcast: bool = True,
) -> Call:
    """Calls that numpy.einsum accepts.

    Args:
        draw: Given by hypothesis.
        max_operands: Operands at most.
        min_extent: Smallest extent of an index.
        max_extent: Largest extent of an index.
        ellipsis: Whether terms may have an ellipsis.
        repeats: Whether an operand may have a label more than once.
        broadcast: Whether an operand may have size 1 where another has more.
    """
    extents = {label: draw(st.integers(min_extent, max_extent)) for label in LETTERS}
    dimensions = draw(st.lists(st.integers(max(min_extent, 1), 3), max_size=2 if ellipsis else 0))
    terms, shapes = [], []
    for _ in range(draw(st.integers(1, max_operands))):
        labels = draw(st.lists(st.sampled_from(LETTERS), max_size=4, unique=not repeats))
        small = {label for label in labels if broadcast and draw(st.booleans())}
        sizes = [1 if label in small and extents[label] else extents[label] for label in labels]
        own = dimensions[draw(st.integers(0, len(dimensions))) :]
        own = [1 if broadcast and draw(st.booleans()) else n for n in own]
        if own or (ellipsis and draw(st.booleans())):
            place = draw(st.integers(0, len(labels)))
            terms.append("".join([*labels[:place], "...", *labels[place:]]))
            shapes.append((*sizes[:place], *own, *sizes[place:]))
        else:
            terms.append("".join(labels))
            shapes.append(tuple(sizes))
    text = ",".join(terms)
    if draw(st.integers(0, 3)):
        text += "->" + _output(draw, text)
    return Call(_spaced(draw, text), tuple(shapes))


def _output(draw: st.DrawFn, inputs: str) -> str:
    labels = sorted(set(inputs) - set(".,"))
    kept = draw(st.lists(st.sampled_from(labels), unique=True)) if labels else []
    if "..." in inputs:
        kept.insert(draw(st.integers(0, len(kept))), "...")
    return "".join(kept)


def _spaced(draw: st.DrawFn, text: str) -> str:
    # numpy takes spaces between tokens, not inside an arrow or an ellipsis.
    if draw(st.integers(0, 2)):
        return text
    for token in (",", "->", "..."):
        text = text.replace(token, draw(st.sampled_from([token, f" {token}", f" {token} "])))
    return text


@st.composite
def networks(draw: st.DrawFn, *, max_operands: int = 5, min_extent: int = 1) -> Network:
    """Networks without diagonals and broadcasting, as planners see them."""
    call = draw(
        calls(
            max_operands=max_operands,
            min_extent=min_extent,
            ellipsis=False,
            repeats=False,
            broadcast=False,
        )
    )
    return parse(call.text, len(call.shapes)).bind(call.shapes)


#: Texts that the grammar refuses, as well as some that it takes.
texts = st.text(st.sampled_from("abij.,-> %'é"), max_size=12)


@st.composite
def strided(draw: st.DrawFn, shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
    """An array of `shape` with any order of axes, gaps, negative and zero strides."""
    axes = draw(st.permutations(range(len(shape))))
    gaps = [draw(st.sampled_from([1, 1, 2])) for _ in shape]
    backward = [draw(st.integers(0, 4)) == 0 for _ in shape]
    repeated = [draw(st.integers(0, 9)) == 0 for _ in shape]
    base = np.ones([shape[a] * gaps[a] for a in axes], dtype)
    base = base[tuple(slice(None, None, gaps[a]) for a in axes)]
    array = base.transpose(np.argsort(axes))
    array = array[tuple(slice(None, None, -1 if b else 1) for b in backward)]
    first = array[tuple(slice(0, 1) if r else slice(None) for r in repeated)]
    return first if 0 in shape else np.broadcast_to(first, shape)
