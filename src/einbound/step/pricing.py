"""Rough seconds of the pieces of a step, from constants measured on one core.

The figures only rank ways of one step against each other; they promise nothing about a machine.
Measured with NumPy 2.4 and OpenBLAS 0.3.31 on one thread of a server core with AVX-512.
"""

from __future__ import annotations

import numpy as np

from einbound.step.form import Kernel

#: Bound of each buffer when no limit asks for less: packing pays up to the size of a cache.
DEFAULT_BUFFER_BYTES = 4 * 1024 * 1024
#: Blocks that are added into their destination stay in half of a second-level cache.
ACCUMULATE_BYTES = 512 * 1024
#: Terms from which a sum takes so much longer than adding its block that the block may lie beyond
#: the second-level cache: narrow ones make BLAS copy the other operand into panels once for each.
#: 144x5184x5184 in blocks of 432 columns takes 89 ms, of 1728 81, 864x864x864 14.2 and 13.4.
LONG_SUM_TERMS = 512
#: Elements that c_einsum's iterator may buffer per array, whatever np.setbufsize says.
EINSUM_BUFFER_ELEMENTS = 8192

CALL_SECONDS = 1.5e-6
#: Per byte of an operand that is not in memory, and per request for a block of it: a solid-state
#: disk through a file system, asked by a Python function. No more than an order of magnitude.
READ_BYTE_SECONDS = 1e-9
READ_SECONDS = 50e-6
ITEM_SECONDS = 18e-9
#: Caches behind the first one: bytes, and seconds for each byte of a product that is fetched anew
#: from beyond, on top of the arithmetic. Least squares of the logarithms over 440 steps of plans.
CACHES = ((1 << 20, 0.01e-9), (32 << 20, 0.037e-9))
#: The same for the operand across the vectors where BLAS copies it into panels: these pass the
#: second-level cache once more, while those of the operand along the vectors stay in it.
ACROSS_BYTE_SECONDS = 0.05e-9
STREAM_FROM_BYTES = CACHES[0][0]
#: Bound of buffers where larger ones than by default are predicted to pay.
MOST_BUFFER_BYTES = CACHES[-1][0]
ROW_SECONDS = 3.5e-9
#: Per byte packed from and to memory, and within the caches; buffers are often cold.
FAR_BYTE_SECONDS = 0.1e-9
NEAR_BYTE_SECONDS = 0.04e-9
#: Per element where none lie side by side, within the caches and from memory.
SCATTERED_SECONDS = 0.9e-9
FAR_SCATTERED_SECONDS = 2.2e-9
#: Adding a block that is still in the cache: per row, of a destination in the caches and of one in
#: memory, and per byte of the block. In all, adding to 20 MB through a buffer of half an L2 takes
#: 0.025 ns per byte, to 2 MB 0.018 ns.
STAGED_ROW_SECONDS = 2e-9
FAR_STAGED_ROW_SECONDS = 7e-9
STAGED_BYTE_SECONDS = 0.02e-9
#: Per byte of a large destination that blocks are added to: its lines are first fetched. From
#: beyond all caches that takes longer (1.4 GB in 78.7 MB: 0.11 ns per byte in all).
SCATTER_BYTE_SECONDS = 0.008e-9
FAR_SCATTER_BYTE_SECONDS = 0.06e-9
#: Per byte of fresh pages at their first touch (measured 0.70 to 0.72 in a virtual machine, huge
#: pages or not); the memory of the workspace is touched once in a run.
TOUCH_BYTE_SECONDS = 0.35e-9
#: Of one product in a trip of a loop: slices, dispatch, the walk.
TRIP_SECONDS = 6e-6
#: Multiply-adds per second of gemm on large matrices, by type character.
GEMM_RATE = {"f": 110e9, "d": 54e9, "F": 28e9, "D": 11e9}
#: The same of gemv, and seconds per row or column that it passes along.
GEMV_RATE = {"f": 25e9, "d": 12e9, "F": 10e9, "D": 5.5e9}
GEMV_VECTOR_SECONDS = 1.2e-9
#: OpenBLAS multiplies matrices of at most so many multiply-adds where they lie; it copies those of
#: larger products, and complex ones, into panels first, and runs a little slower on these. Seconds
#: of the copies per element of an operand, and per product: 300x80x80 runs at 43e9, 80x80x80 at
#: 58e9, and 16x16x12 at 38e9 where it lies, at 14e9 in panels.
SMALL_MACS = 10**6
SMALL_TYPES = "fd"
IN_PLACE_GAIN = 1.12
PANEL_SECONDS = {"f": 0.15e-9, "d": 0.25e-9, "F": 0.2e-9, "D": 0.3e-9}
PANELS_SECONDS = 30e-9
#: Where both operands lie along the summed axis, it does so for at least so many terms and at most
#: so many elements of the product only: 24x24x31 runs at 23e9, 24x24x32 at 37e9, 30x48x64 at 29e9.
LEAST_DOT_TERMS = 32
MOST_DOTS = 1250
DOT_GAIN = 0.85
#: Bytes that one instruction works on; rows, columns and terms by which a matrix seems larger to
#: a kernel: columns are rounded up and cost a part of a vector more, dots end in a sum of lanes.
VECTOR_BYTES = 64
SPARE_ROWS, SPARE_VECTOR, SPARE_TERMS = 2, 0.4, 4
SPARE_DOT_ROWS, SPARE_DOT_TERMS = 1, 8
#: Per row of a matrix that starts half a page or more after the one before: 240 rows of 22
#: or 64 doubles, 32 KiB and 8 KiB apart, took 5 to 10 ns each, 1024 of 8 doubles, 2 KiB apart, 17.
#: Where they are multiplied in place, as 320 rows of 90 doubles 64 KiB apart, it is more.
DISTANT_ROW_SECONDS = 5e-9
DISTANT_IN_PLACE_SECONDS = 6e-9
DISTANT_BYTES = 2048
#: Plain loops: boolean ones stop at the first true product, half goes through float32.
LOOP_RATE = {"?": 4e9, "e": 0.4e9, "g": 0.3e9, "G": 0.15e9, "O": 0.02e9}
OTHER_LOOP_RATE = 1.5e9
BLAS_LOOP_RATE = 0.8e9
EINSUM_RATE = 3e9
EINSUM_SCATTERED_RATE = 0.8e9
#: Contiguous elements from which c_einsum's inner loop is fast.
EINSUM_RUN = 16


def matmul_seconds(
    dtype: np.dtype,
    kernel: Kernel,
    items: int,
    m: int,
    n: int,
    k: int,
    *,
    along_sums: bool = False,
    distant_rows: int = 0,
) -> float:
    """Seconds of one call of matmul on `items` matrices of m x n x k that lie in the caches.

    Args:
        dtype: Element type.
        kernel: What NumPy runs for each matrix.
        items: Number of matrices.
        m: Rows of each.
        n: Columns of each, along which the kernel's vectors lie.
        k: Terms of each sum.
        along_sums: Whether the operands are contiguous along the summed axis; a vector beside a
            matrix does not matter.
        distant_rows: Rows of the three matrices that lie far from the one before.
    """
    macs, in_place = m * n * k, True
    if kernel is Kernel.LOOP:
        rate = BLAS_LOOP_RATE if dtype.char in GEMM_RATE else loop_rate(dtype)
        return CALL_SECONDS + items * (ITEM_SECONDS + macs / rate)
    if kernel is Kernel.GEMM:
        in_place = runs_in_place(dtype, m, n, k, along_sums)
        each = _gemm_seconds(dtype, m, n, k, along_sums, in_place)
    else:
        vectors = m * n if along_sums else k
        each = macs / GEMV_RATE[dtype.char] + vectors * GEMV_VECTOR_SECONDS
    each += distant_rows * (DISTANT_IN_PLACE_SECONDS if in_place else DISTANT_ROW_SECONDS)
    return CALL_SECONDS + items * (ITEM_SECONDS + each)


def passing_seconds(n_bytes: int) -> float:
    """Seconds of so many different bytes of a product, each fetched once, beside the arithmetic."""
    return n_bytes * sum(seconds for size, seconds in CACHES if n_bytes > size)


def runs_in_place(dtype: np.dtype, m: int, n: int, k: int, along_sums: bool) -> bool:
    """Whether BLAS multiplies matrices where they lie, without copies into panels."""
    if dtype.char not in SMALL_TYPES or m * n * k > SMALL_MACS:
        return False
    return not along_sums or (k >= LEAST_DOT_TERMS and m * n <= MOST_DOTS)


def _gemm_seconds(
    dtype: np.dtype, m: int, n: int, k: int, along_sums: bool, in_place: bool
) -> float:
    """Seconds of one matrix product whose arrays lie in the caches."""
    rate = GEMM_RATE[dtype.char]
    if not in_place:
        panels = (m + n) * k * PANEL_SECONDS[dtype.char] + PANELS_SECONDS
        return m * n * (k + SPARE_TERMS) / rate + panels
    if along_sums:
        filled = (m + SPARE_DOT_ROWS) * (n + SPARE_DOT_ROWS) * (k + SPARE_DOT_TERMS)
        return filled / (rate * DOT_GAIN)
    lanes = VECTOR_BYTES // dtype.itemsize
    columns = _rounded(n, lanes) + SPARE_VECTOR * lanes
    return (m + SPARE_ROWS) * columns * (k + SPARE_TERMS) / (rate * IN_PLACE_GAIN)


def _rounded(n: int, lanes: int) -> int:
    """Columns up to the next whole vector, or to the next power of two within one."""
    return -(-n // lanes) * lanes if n > lanes else 1 << (n - 1).bit_length()


def loop_rate(dtype: np.dtype) -> float:
    """Multiply-adds per second of NumPy's own loops."""
    return LOOP_RATE.get(dtype.char, OTHER_LOOP_RATE)


def copy_seconds(elements: int, run: int, itemsize: int, *, arrays: int = 2, total: int) -> float:
    """Seconds to pass once over `elements`, of which `run` at a time lie side by side.

    Args:
        elements: Elements that are written.
        run: Elements that are contiguous in all arrays; 1 if none are.
        itemsize: Bytes per element.
        arrays: Arrays that are read or written.
        total: Elements of the array that they are a part of; large ones come from memory.
    """
    is_far = total * itemsize > STREAM_FROM_BYTES
    if run <= 1:
        each = FAR_SCATTERED_SECONDS if is_far else SCATTERED_SECONDS
    else:
        each = ROW_SECONDS / run + itemsize * (FAR_BYTE_SECONDS if is_far else NEAR_BYTE_SECONDS)
    return arrays / 2 * elements * each


def staged_seconds(elements: int, run: int, itemsize: int, *, total: int) -> float:
    """Seconds to add a block that was just computed to its destination.

    Args:
        elements: Elements of the block.
        run: Elements that are contiguous in both; 1 if none are.
        itemsize: Bytes per element.
        total: Elements of the destination; a large one lies in memory.
    """
    is_far = total * itemsize > STREAM_FROM_BYTES
    if run <= 1:
        return 1.5 * elements * (FAR_SCATTERED_SECONDS if is_far else SCATTERED_SECONDS)
    row = FAR_STAGED_ROW_SECONDS if is_far else STAGED_ROW_SECONDS
    return elements * (row / run + itemsize * STAGED_BYTE_SECONDS)


def scatter_seconds(n_bytes: int) -> float:
    """Seconds that a destination of so many bytes costs more when written block by block."""
    if n_bytes > CACHES[-1][0]:
        return n_bytes * FAR_SCATTER_BYTE_SECONDS
    return n_bytes * SCATTER_BYTE_SECONDS if n_bytes > STREAM_FROM_BYTES else 0.0


def einsum_seconds(dtype: np.dtype, macs: int, is_contiguous: bool) -> float:
    """Seconds of one call of c_einsum."""
    if dtype.char in GEMM_RATE:
        rate = EINSUM_RATE if is_contiguous else EINSUM_SCATTERED_RATE
        rate *= 8 / dtype.itemsize if is_contiguous else 1
    else:
        rate = loop_rate(dtype)
    return 2 * CALL_SECONDS + macs / rate
