"""Networks of the benchmarks and seeded operands for them, in several memory layouts.

The same network and seed give the same numbers in every layout, so that one reference serves
all of them. Nothing here measures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "benchmarks"
SHIPPED = ROOT / "tests" / "data" / "networks"
WINDOWED = HERE / "data"
#: Fixed seed of all operands; an operand's stream is seeded by (SEED, its number).
SEED = 20240

LAYOUTS = ("plain", "strided", "transposed")


@dataclass(frozen=True, slots=True)
class Window:
    """An operand that is a sliding-window view.

    Attributes:
        base: Shape of the array that is stored.
        window: Window extents, one per entry of `axes`.
        axes: Axes of the base over which the window slides.
    """

    base: tuple[int, ...]
    window: tuple[int, ...]
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Network:
    """One contraction of the benchmarks.

    Attributes:
        name: File name without its ending.
        equation: The einsum text.
        shapes: Shape of each operand.
        output_shape: Shape of the result.
        dtype: Name of the dtype of all operands.
        windows: For some operand numbers, the sliding window that the operand is.
    """

    name: str
    equation: str
    shapes: tuple[tuple[int, ...], ...]
    output_shape: tuple[int, ...]
    dtype: str
    windows: dict[int, Window]

    @property
    def result_elements(self) -> int:
        """Number of elements of the result."""
        return prod(self.output_shape)

    @property
    def result_bytes(self) -> int:
        """Bytes of the result."""
        return self.result_elements * np.dtype(self.dtype).itemsize


def load(path: Path) -> Network:
    """The network stored in one JSON file."""
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    sizes = data["sizes"]
    windows = {
        int(number): Window(tuple(w["base"]), tuple(w["window"]), tuple(w["axes"]))
        for number, w in data.get("windows", {}).items()
    }
    return Network(
        name=data.get("name", path.stem),
        equation=data["eq"],
        shapes=tuple(tuple(sizes[i] for i in indices) for indices in data["inputs"]),
        output_shape=tuple(sizes[i] for i in data["output"]),
        dtype=data.get("dtype", "float64"),
        windows=windows,
    )


def files(folder: Path, most_operands: int = 6) -> tuple[Path, ...]:
    """JSON files of the networks in `folder` that have at most `most_operands` operands."""
    if not folder.is_dir():
        raise SystemExit(f"{folder} is no folder of networks; expected one JSON file per network")
    found = sorted(folder.glob("*.json"))
    return tuple(path for path in found if len(load(path).shapes) <= most_operands)


def operands(network: Network, layout: str = "plain") -> tuple[np.ndarray, ...]:
    """The operands of `network`, every page of them touched.

    Args:
        network: The network.
        layout: "plain" (C order), "strided" (first axis reversed, every second element of the
            last), or "transposed" (stored with all axes reversed). Sliding windows stay windows.
    """
    return _made(network, layout, _filled)


def blanks(network: Network, layout: str = "plain") -> tuple[np.ndarray, ...]:
    """Arrays laid out as the operands are, without their numbers: to plan with."""
    return _made(network, layout, lambda array, number: array)


def _made(
    network: Network, layout: str, filled: Callable[[np.ndarray, int], np.ndarray]
) -> tuple[np.ndarray, ...]:
    made = []
    for number, shape in enumerate(network.shapes):
        window = network.windows.get(number)
        stored = shape if window is None else window.base
        chosen = "plain" if window is not None else layout
        array = filled(_blank(stored, np.dtype(network.dtype), chosen), number)
        if window is not None:
            view = np.lib.stride_tricks.sliding_window_view(array, window.window, window.axes)
            assert view.shape == shape, f"window gives {view.shape}, the network says {shape}"
            array = view
        made.append(array)
    return tuple(made)


def _blank(shape: tuple[int, ...], dtype: np.dtype, layout: str) -> np.ndarray:
    if layout == "plain":
        return np.zeros(shape, dtype)
    if layout == "transposed":
        return np.zeros(shape[::-1], dtype).T
    if layout == "strided":
        base = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)
        base.fill(0)  # gaps are resident too: they count as operand bytes
        return base[::-1, ..., ::2]
    raise ValueError(f"layout {layout!r} is unknown; expected one of {', '.join(LAYOUTS)}")


def _filled(array: np.ndarray, number: int) -> np.ndarray:
    # Plane by plane: no second copy of the operand ever exists, which a control group's limit
    # would not allow, and the stream is the same for every layout.
    rng = np.random.default_rng((SEED, number))
    if array.ndim < 2:
        array[...] = rng.standard_normal(array.shape)
        return array
    for plane in array:
        plane[...] = rng.standard_normal(plane.shape)
    return array


def operand_bytes(arrays: Sequence[np.ndarray]) -> int:
    """Bytes of the union of the operands' real byte ranges, strided gaps included."""
    bounds = sorted(np.lib.array_utils.byte_bounds(array) for array in arrays)
    total, reached = 0, 0
    for low, high in bounds:
        total += max(0, high - max(low, reached))
        reached = max(reached, high)
    return total
