"""How a way runs on NumPy arrays: one closure per way, made once.

Only calls that write into memory they are given, so that nothing is allocated behind the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from einbound.backends.looks import (
    Array,
    block_matrix_look,
    block_view,
    fused_look,
    indices_look,
    matrix_look,
    product_look,
    same,
    spread_look,
)
from einbound.step.blocked import Block, Buffer, Core, Way
from einbound.step.pair import CARRIERS, A, B, C, Group

Bytes: TypeAlias = NDArray[np.uint8]
Take: TypeAlias = Callable[[int], Bytes]
Give: TypeAlias = Callable[[Bytes], None]


#: Taken once, since users may put einbound's einsum in the place of numpy's.
_numpys_einsum = np.einsum


class Kernel(Protocol):
    """Runs one step on arrays of the layouts that its way was made for."""

    def __call__(
        self, a: Array, b: Array | None, c: Array, accumulate: bool, take: Take, give: Give
    ) -> None:
        """Write the step's value into `c`, or add it."""


#: Work on one block: a, b, c over fused axes, whether to add, the buffers.
Body: TypeAlias = Callable[[Any, Any, Any, bool, list[Array]], None]


def compile_way(way: Way, factor: float | complex = 1) -> Kernel:
    """The kernel of a way; it takes buffers with `take` and hands all of them back with `give`.

    The arrays have the extents and strides of the way's views. `accumulate` may only be true
    if the way was made for it.

    Args:
        way: A way to do a step.
        factor: What the product is multiplied by, block by block.
    """
    if way.core is Core.FILL:
        return _fill
    if way.native is not None:
        native: Kernel = way.native.kernel(factor)
        return native
    if factor != 1:
        return _staged(way, factor)
    if not way.blocks and not way.buffers:
        return _direct(way)
    is_one_product = way.core is Core.MATMUL and not (way.blocks or way.packs)
    staged = _one_stage(way) if is_one_product and not way.pair.work.hasobject else _staged(way)
    if way.packs or way.always or way.blocks_sums or way.product is None:
        return staged
    # Without an addition nothing needs the blocks: the first trip writes in one call.
    at_once = _direct(way)

    def kernel(
        a: Array, b: Array | None, c: Array, accumulate: bool, take: Take, give: Give
    ) -> None:
        (staged if accumulate else at_once)(a, b, c, accumulate, take, give)

    return kernel


def run_way(
    way: Way, a: Array, b: Array | None, c: Array, accumulate: bool, take: Take, give: Give
) -> None:
    """Compile a way and run it once."""
    compile_way(way)(a, b, c, accumulate, take, give)


def _fill(a: Array, b: Array | None, c: Array, accumulate: bool, take: Take, give: Give) -> None:
    if not accumulate:
        c[...] = 0


def _direct(way: Way) -> Kernel:
    """The kernel of a way that is one call on views."""
    call = _core(way)
    if way.core is Core.MATMUL:
        looks = [matrix_look(way, side) for side in (A, B, C)]
        if not any(looks):
            return _matmul_as_is
        look_a, look_b, look_c = (look or same for look in looks)

        def matmul(
            a: Array, b: Array | None, c: Array, accumulate: bool, take: Take, give: Give
        ) -> None:
            np.matmul(look_a(a), look_b(b), look_c(c))  # type: ignore[arg-type]

        return matmul
    fuse_a, fuse_b, fuse_c = (fused_look(way.pair, side) for side in (A, B, C))

    def kernel(
        a: Array, b: Array | None, c: Array, accumulate: bool, take: Take, give: Give
    ) -> None:
        call(fuse_a(a), None if b is None else fuse_b(b), fuse_c(c), accumulate, [])

    return kernel


def _one_stage(way: Way) -> Kernel:
    """The kernel of one whole matrix product into a buffer that is then added or copied."""
    assert way.product is not None, f"nothing to stage in {way}"
    pair, product = way.pair, way.product
    look_a, look_b = (matrix_look(way, side) or same for side in (A, B))
    indices = [i for n in product.order for i in pair.axes[n].indices]
    look_c = indices_look(pair.c, indices, product.extents) or same
    look_made = product_look(way) or same
    n_bytes, shape, work = product.n_bytes, product.extents, pair.work

    def kernel(
        a: Array, b: Array | None, c: Array, accumulate: bool, take: Take, give: Give
    ) -> None:
        buffer = take(n_bytes)
        try:
            made: Array = np.ndarray(shape, work, buffer)
            np.matmul(look_a(a), look_b(b), look_made(made))  # type: ignore[arg-type]
            into = look_c(c)
            if accumulate:
                np.add(into, made, into, casting="unsafe")
            else:
                np.copyto(into, made, casting="unsafe")
        finally:
            give(buffer)

    return kernel


def _matmul_as_is(
    a: Array, b: Array | None, c: Array, accumulate: bool, take: Take, give: Give
) -> None:
    np.matmul(a, b, c)  # type: ignore[arg-type]


def _staged(way: Way, factor: float | complex = 1) -> Kernel:
    """The kernel of a way with loops or buffers."""
    fuse_a, fuse_b, fuse_c = (fused_look(way.pair, side) for side in (A, B, C))
    body = _body(way, factor)
    work = way.pair.work
    buffers = way.buffers
    is_optional = way.product is not None and not way.always and not way.blocks_sums

    def kernel(
        a: Array, b: Array | None, c: Array, accumulate: bool, take: Take, give: Give
    ) -> None:
        taken: list[Bytes] = []
        flat: list[Array] = []
        try:
            for buffer in buffers[:-1] if is_optional and not accumulate else buffers:
                if work.hasobject:
                    flat.append(np.empty(buffer.n_bytes // work.itemsize, work))
                    continue
                taken.append(take(buffer.n_bytes))
                flat.append(np.ndarray(buffer.n_bytes // work.itemsize, work, taken[-1]))
            body(fuse_a(a), None if b is None else fuse_b(b), fuse_c(c), accumulate, flat)
        finally:
            flat.clear()
            while taken:
                give(taken.pop())

    return kernel


def _body(way: Way, factor: float | complex) -> Body:
    """The loops, packs and stages around the core, built from the inside out."""
    buffers = way.buffers
    product = None if way.product is None else len(buffers) - 1
    body = _core(way) if factor == 1 else _scaled(_core(way), factor)
    if way.product is not None and product is not None:
        body = _stage(way, body, way.product, product, way.always and way.total is None)
    depths = {side: _depth(way, side) for side in range(len(way.packs))}
    outer = sum(not _is_sum(way, block) for block in way.blocks)
    for depth in range(len(way.blocks), -1, -1):
        if way.total is not None and depth == outer:
            body = _stage(way, body, way.total, len(way.packs), True)
        for number, pack in enumerate(way.packs):
            if depths[number] == depth:
                body = _packed(way, body, pack, number)
        if depth:
            body = _loop(way, body, way.blocks[depth - 1])
    return body


def _is_sum(way: Way, block: Block) -> bool:
    return way.pair.axes[block.axis].group is Group.SUM


def _depth(way: Way, number: int) -> int:
    """Number of loops that must be open before an operand's block is packed."""
    order = way.packs[number].order
    return max((d + 1 for d, block in enumerate(way.blocks) if block.axis in order), default=0)


#: Slices of one loop that are made once and kept with the kernel: 0.3 KiB each.
_KEPT_CUTS = 256


def _loop(way: Way, body: Body, block: Block) -> Body:
    """`body` for each slice of one axis."""
    pair = way.pair
    extent, width = pair.axes[block.axis].extent, block.width
    is_sum = _is_sum(way, block)
    before = [
        (slice(None),) * pair.carried[side].index(block.axis)
        if side in CARRIERS[pair.axes[block.axis].group] and pair.views[side] is not None
        else None
        for side in (A, B, C)
    ]

    def cut(at: int) -> list[tuple[slice, ...] | None]:
        block = (slice(at, at + width),)
        return [None if axes is None else axes + block for axes in before]

    starts = range(0, extent, width)
    # Cuts are small objects that no limit counts, so only few are kept.
    few = list(map(cut, starts)) if extent <= _KEPT_CUTS * width else []

    def loop(a: Any, b: Any, c: Any, add: bool, buffers: list[Array]) -> None:
        for cut_a, cut_b, cut_c in few or map(cut, starts):
            body(
                a if cut_a is None else a[cut_a],
                b if cut_b is None else b[cut_b],
                c if cut_c is None else c[cut_c],
                add,
                buffers,
            )
            add = add or is_sum

    return loop


def _packed(way: Way, body: Body, pack: Buffer, number: int) -> Body:
    """`body` on a copy of one operand's block."""
    block = block_view(way, pack)
    if pack.side == A:

        def pack_a(a: Any, b: Any, c: Any, add: bool, buffers: list[Array]) -> None:
            packed = block(buffers[number], a.shape)
            np.copyto(packed, a, casting="unsafe")
            body(packed, b, c, add, buffers)

        return pack_a

    def pack_b(a: Any, b: Any, c: Any, add: bool, buffers: list[Array]) -> None:
        packed = block(buffers[number], b.shape)
        np.copyto(packed, b, casting="unsafe")
        body(a, packed, c, add, buffers)

    return pack_b


def _stage(way: Way, body: Body, buffer: Buffer, number: int, always: bool) -> Body:
    """`body` into a buffer that is then added or copied into the block of c."""
    block = block_view(way, buffer)

    def stage(a: Any, b: Any, c: Any, add: bool, buffers: list[Array]) -> None:
        if not (add or always):
            body(a, b, c, False, buffers)
            return
        made = block(buffers[number], c.shape)
        body(a, b, made, False, buffers)
        if add:
            np.add(c, made, out=c, casting="unsafe")
        else:
            np.copyto(c, made, casting="unsafe")

    return stage


def _scaled(body: Body, factor: float | complex) -> Body:
    """`body`, and what it wrote multiplied in place."""

    def scaled(a: Any, b: Any, c: Any, add: bool, buffers: list[Array]) -> None:
        body(a, b, c, add, buffers)
        np.multiply(c, factor, out=c, casting="unsafe")

    return scaled


def _core(way: Way) -> Body:
    """The one call of a block."""
    return _CORES[way.core](way)


def _matmul(way: Way) -> Body:
    look_a, look_b, look_c = (block_matrix_look(way, side) for side in (A, B, C))

    def matmul(a: Any, b: Any, c: Any, add: bool, buffers: list[Array]) -> None:
        np.matmul(look_a(a), look_b(b), look_c(c))

    return matmul


def _multiply(way: Way) -> Body:
    pair = way.pair
    look_a, look_b = spread_look(way, A), spread_look(way, B)
    same = all(view is not None and view.dtype == pair.work for view in pair.views)

    def multiply(a: Any, b: Any, c: Any, add: bool, buffers: list[Array]) -> None:
        a, b = look_a(a), look_b(b)
        if same:
            np.multiply(a, b, c)
        else:
            np.multiply(a, b, out=c, dtype=pair.work, casting="unsafe")

    return multiply


def _einsum(way: Way) -> Body:
    a_axes, b_axes, c_axes = (list(way.pair.carried[side]) for side in (A, B, C))

    def einsum(a: Any, b: Any, c: Any, add: bool, buffers: list[Array]) -> None:
        _numpys_einsum(a, a_axes, b, b_axes, c_axes, out=c, optimize=False)

    return einsum


def _reduce(way: Way) -> Body:
    pair = way.pair
    carried, kept = pair.carried[A], pair.carried[C]
    # The axes that stay, in c's order, then the summed ones.
    order = tuple(carried.index(i) for i in (*kept, *pair.groups[Group.SUM]))
    summed = tuple(range(len(kept), len(carried)))

    def reduce(a: Any, b: Any, c: Any, add: bool, buffers: list[Array]) -> None:
        np.add.reduce(a.transpose(order), axis=summed, dtype=pair.work, out=c)

    return reduce


def _copy(way: Way) -> Body:
    def copy(a: Any, b: Any, c: Any, add: bool, buffers: list[Array]) -> None:
        if add:
            np.add(c, a, out=c, casting="unsafe")
        else:
            np.copyto(c, a, casting="unsafe")

    return copy


_CORES: dict[Core, Callable[[Way], Body]] = {
    Core.MATMUL: _matmul,
    Core.MULTIPLY: _multiply,
    Core.EINSUM: _einsum,
    Core.REDUCE: _reduce,
    Core.COPY: _copy,
}
