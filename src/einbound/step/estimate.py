"""Seconds and hidden bytes of a blocked form, put together from the prices of its pieces."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from einbound.step import pricing
from einbound.step.blocked import Buffer, Core, Way
from einbound.step.blocking import Widths, pack_order, product_order
from einbound.step.form import Kernel, kernel
from einbound.step.pair import CARRIERS, A, B, C, Pair


def hidden_bytes(core: Core, widths: Widths) -> int:
    """Most bytes that c_einsum's iterator takes: one buffer per array, measured up to two."""
    if core is not Core.EINSUM:
        return 0
    elements = min(prod(widths.widths), pricing.EINSUM_BUFFER_ELEMENTS)
    return 3 * elements * widths.pair.work.itemsize


def way_seconds(way: Way, widths: Widths) -> float:
    """Seconds of all calls of a way, packs and stages included."""
    pair, size = way.pair, way.pair.work.itemsize
    trips = [-(-pair.axes[block.axis].extent // block.width) for block in way.blocks]
    n_trips = prod(trips)
    call = core_seconds(way.core, widths, way.fixed) + len(trips) * pricing.CALL_SECONDS
    seconds = n_trips * call
    if way.core is Core.MATMUL:
        arranged = frozenset({A, B, C}) - (way.fixed if way.product is None else way.fixed - {C})
        loops = [(block.axis, n) for block, n in zip(way.blocks, trips, strict=True)]
        seconds += passing_seconds(widths, way.fixed, loops, arranged)
    for pack in way.packs:
        depth = max((d + 1 for d, x in enumerate(way.blocks) if x.axis in pack.order), default=0)
        run, total = _shared_run(widths, pack), n_elements(pair, pack.side)
        once = pricing.copy_seconds(prod(pack.extents), run, size, total=total)
        seconds += prod(trips[:depth]) * (once + pricing.CALL_SECONDS)
    if way.product is not None:
        run, block = _shared_run(widths, way.product), prod(way.product.extents)
        once = pricing.staged_seconds(block, run, size, total=pair.c.n_elements)
        seconds += n_trips * (once + pricing.CALL_SECONDS)
        seconds += pricing.scatter_seconds(pair.c.nbytes)
    return seconds


def n_elements(pair: Pair, side: int) -> int:
    """Elements of one of the arrays; 0 if it is absent."""
    view = pair.views[side]
    return 0 if view is None else view.n_elements


def _shared_run(widths: Widths, buffer: Buffer) -> int:
    """Elements that lie side by side both in a buffer and in the array that it stands for."""
    if not buffer.order:
        return 1
    inner = buffer.order[-1]
    view = widths.pair.views[buffer.side]
    assert view is not None
    stride = widths.pair.axes[inner].strides[buffer.side]
    return widths.widths[inner] if stride == view.dtype.itemsize else 1


def core_seconds(core: Core, widths: Widths, fixed: frozenset[int]) -> float:
    """Seconds of the call in one full block; `fixed` are the arrays that lie as they are."""
    pair = widths.pair
    if core is Core.MATMUL:
        return _matmul_seconds(widths, fixed)
    elements = prod(widths.widths)
    run = _inner_run(widths)
    if core is Core.EINSUM:
        return pricing.einsum_seconds(pair.work, elements, run >= pricing.EINSUM_RUN)
    arrays = 3 if core is Core.MULTIPLY else 2
    size = pair.work.itemsize
    once = pricing.copy_seconds(elements, run, size, arrays=arrays, total=elements)
    return pricing.CALL_SECONDS + once


def passing_seconds(
    widths: Widths,
    fixed: frozenset[int],
    loops: Sequence[tuple[int, int]] = (),
    arranged: frozenset[int] = frozenset(),
) -> float:
    """Seconds of fetching what passes the caches in all calls of matmul.

    What a cache still holds when a batch or a block comes back to it is not fetched again.

    Args:
        widths: The matrices of one call, and its batch, in NumPy's order: that of the destination.
        fixed: The arrays that lie as they are.
        loops: Axis and trips of each loop around the call, outermost first.
        arranged: The arrays that lie in buffers, which these loops fill anew.
    """
    pair, form, size = widths.pair, widths.form, widths.pair.work.itemsize
    passed = [cache for cache in pricing.CACHES if pair.n_bytes > cache[0]]
    if not passed:
        return 0.0
    matrices = [size * widths.size(first + second) for first, second in map(form.matrix, (A, B, C))]
    nest = [(CARRIERS[pair.axes[i].group], widths.widths[i]) for i in form.batch]
    around = [(frozenset(CARRIERS[pair.axes[i].group]) - arranged, n) for i, n in loops]
    seconds = 0.0
    for cache_bytes, byte_seconds in passed:
        distinct, fetched = list(matrices), list(matrices)
        for carriers, n in reversed([*around, *nest]):
            is_kept = sum(distinct) <= cache_bytes
            for side in (A, B, C):
                if side in carriers:
                    distinct[side] *= n
                if side in carriers or not is_kept:
                    fetched[side] *= n
        if sum(distinct) > cache_bytes:
            seconds += sum(fetched) * byte_seconds
            if cache_bytes == pricing.STREAM_FROM_BYTES and _has_panels(widths, fixed):
                across = B if _is_turned(widths, fixed) else A
                seconds += fetched[across] * pricing.ACROSS_BYTE_SECONDS
    return seconds


def _has_panels(widths: Widths, fixed: frozenset[int]) -> bool:
    """Whether BLAS copies the matrices of one full block into panels."""
    pair, form = widths.pair, widths.form
    m, n, k = (widths.size(run) for run in (form.rows, form.columns, form.sums))
    along = all(_lies_along_sums(widths, side, fixed) for side in (A, B))
    is_gemm = kernel(pair, form, fixed, m, n, k) is Kernel.GEMM
    return is_gemm and not pricing.runs_in_place(pair.work, m, n, k, along)


def _matmul_seconds(widths: Widths, fixed: frozenset[int]) -> float:
    """Seconds of one call of matmul on one full block that lies in the caches."""
    pair, form = widths.pair, widths.form
    m, n, k = (widths.size(run) for run in (form.rows, form.columns, form.sums))
    kind = kernel(pair, form, fixed, m, n, k)
    # Vectors lie along an operand's free axis; where both have one, the destination decides.
    is_row = m > 1 and not _lies_along_sums(widths, A, fixed)
    is_column = n > 1 and not _lies_along_sums(widths, B, fixed)
    if is_row and (not is_column or _is_turned(widths, fixed)):
        m, n = n, m
    return pricing.matmul_seconds(
        pair.work,
        kind,
        widths.size(form.batch),
        m,
        n,
        k,
        along_sums=not (is_row or is_column),
        distant_rows=sum(_distant_rows(widths, side) for side in fixed),
    )


def _lies_along_sums(widths: Widths, side: int, fixed: frozenset[int]) -> bool:
    """Whether neighbours in the matrices of an operand, as the call sees them, are terms."""
    pair, form = widths.pair, widths.form
    if side in fixed:
        return pair.axes[form.sums[-1]].strides[side] == pair.work.itemsize
    return pack_order(pair, form, side)[-1] in form.sums


def _is_turned(widths: Widths, fixed: frozenset[int]) -> bool:
    """Whether neighbours in the matrices of the destination belong to one column."""
    pair, form = widths.pair, widths.form
    order = form.rows if C in fixed else product_order(pair, form)
    if C in fixed:
        return bool(order) and pair.axes[order[-1]].strides[C] == pair.work.itemsize
    return bool(order) and order[-1] in form.rows


def _distant_rows(widths: Widths, side: int) -> int:
    """Rows of one matrix of an array, or its columns, that start far from each other."""
    rows = 1
    for run in widths.form.matrix(side):
        if run and abs(widths.pair.axes[run[-1]].strides[side]) >= pricing.DISTANT_BYTES:
            rows *= widths.size(run)
    return rows if rows > 1 else 0


def _inner_run(widths: Widths) -> int:
    """Elements along the longest axis that is contiguous in every array that carries it."""
    pair = widths.pair
    best = 1
    for i, axis in enumerate(pair.axes):
        strides = [
            axis.strides[side] == view.dtype.itemsize
            for side, view in enumerate(pair.views)
            if view is not None and side in CARRIERS[axis.group]
        ]
        if all(strides):
            best = max(best, widths.widths[i])
    return best
