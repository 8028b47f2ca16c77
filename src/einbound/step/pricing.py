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
#: Elements that c_einsum's iterator may buffer per array, whatever np.setbufsize says.
EINSUM_BUFFER_ELEMENTS = 8192

CALL_SECONDS = 1.5e-6
#: Per byte of an operand that is not in memory, and per request for a block of it: a solid-state
#: disk through a file system, asked by a Python function. No more than an order of magnitude.
READ_BYTE_SECONDS = 1e-9
READ_SECONDS = 50e-6
ITEM_SECONDS = 18e-9
#: Of a product whose arrays pass the second-level cache, seconds per byte beside the arithmetic;
#: the same once they pass a share of the third; and the least per byte there (6400 x 6400 x 4).
STREAM_SECONDS = 0.01e-9
STREAM_FROM_BYTES = 1024 * 1024
FAR_STREAM_SECONDS = 0.03e-9
FAR_STREAM_FROM_BYTES = 8 * 1024 * 1024
LEAST_STREAM_SECONDS = 0.065e-9
ROW_SECONDS = 3.5e-9
#: Per byte packed from and to memory, and within the caches; buffers are often cold.
FAR_BYTE_SECONDS = 0.1e-9
NEAR_BYTE_SECONDS = 0.04e-9
SCATTERED_SECONDS = 0.9e-9
#: Adding a block that is still in the cache: per row, and per byte of the block. In all, adding to
#: 20 MB through a buffer of half an L2 takes 0.025 ns per byte, to 2 MB 0.018 ns.
STAGED_ROW_SECONDS = 7e-9
STAGED_BYTE_SECONDS = 0.02e-9
#: Per byte of a large destination that blocks are added to: its lines are first fetched.
SCATTER_BYTE_SECONDS = 0.008e-9
#: Per byte of fresh pages at their first touch (measured 0.70 to 0.72 in a virtual machine, huge
#: pages or not); the memory of the workspace is touched once in a run.
TOUCH_BYTE_SECONDS = 0.35e-9
#: Of one product in a trip of a loop: slices, dispatch, the walk.
TRIP_SECONDS = 6e-6
#: Multiply-adds per second of gemm on large matrices, by type character.
GEMM_RATE = {"f": 120e9, "d": 55e9, "F": 28e9, "D": 11e9}
GEMV_RATE = {"f": 10e9, "d": 5e9, "F": 3.5e9, "D": 1.6e9}
#: Small matrices that both lie along the summed axis run this much longer: OpenBLAS has kernels
#: of its own for at most so many multiply-adds, and theirs for that case is the slowest.
ALONG_SUMS_FACTOR = 1.6
SMALL_MACS = 10**6
#: Per row of an operand matrix that starts at least a page after the one before: 240 rows of 22
#: or 64 doubles, 32 KiB and 8 KiB apart, took 5 to 10 ns each.
DISTANT_ROW_SECONDS = 5e-9
DISTANT_BYTES = 4096
#: Per double of the operands of a larger product, which OpenBLAS copies into panels: 300x80x80
#: runs at 43e9, 80x80x80 at 58e9.
PANEL_SECONDS = 0.25e-9
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
    moved: int,
    along_sums: bool = False,
    distant_rows: int = 0,
) -> float:
    """Seconds of one call of matmul on `items` matrices of m x n x k.

    Args:
        dtype: Element type.
        kernel: What NumPy runs for each matrix.
        items: Number of matrices.
        m: Rows of each.
        n: Columns of each.
        k: Terms of each sum.
        moved: Elements of the three arrays, each counted once.
        along_sums: Whether both operands are contiguous along the summed axis.
        distant_rows: Rows of one operand matrix or both that lie on pages of their own.
    """
    macs, n_bytes = m * n * k, moved * dtype.itemsize
    if kernel is Kernel.GEMM:
        each = _gemm_seconds(dtype, m, n, k)
        if along_sums and macs <= SMALL_MACS:
            each *= ALONG_SUMS_FACTOR
        each += distant_rows * DISTANT_ROW_SECONDS
    elif kernel is Kernel.LOOP:
        rate = BLAS_LOOP_RATE if dtype.char in GEMM_RATE else loop_rate(dtype)
        each = macs / rate
    else:
        each = macs / GEMV_RATE[dtype.char]
    seconds = items * (ITEM_SECONDS + each)
    if kernel is Kernel.GEMM and n_bytes > FAR_STREAM_FROM_BYTES:
        seconds = max(seconds + n_bytes * FAR_STREAM_SECONDS, n_bytes * LEAST_STREAM_SECONDS)
    elif kernel is Kernel.GEMM and n_bytes > STREAM_FROM_BYTES:
        seconds += n_bytes * STREAM_SECONDS
    return CALL_SECONDS + seconds


def _gemm_seconds(dtype: np.dtype, m: int, n: int, k: int) -> float:
    """Seconds of one matrix product whose arrays lie in the caches."""
    macs = m * n * k
    # Small extents leave registers of the kernel unused and edges unpacked.
    filled = (m + 2) * (n + 2) * (k + 4)
    seconds = filled / GEMM_RATE[dtype.char]
    if macs > SMALL_MACS:
        seconds += (m + n) * k * dtype.itemsize / 8 * PANEL_SECONDS
    return seconds


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
    if run <= 1:
        each = SCATTERED_SECONDS
    else:
        is_far = total * itemsize > STREAM_FROM_BYTES
        each = ROW_SECONDS / run + itemsize * (FAR_BYTE_SECONDS if is_far else NEAR_BYTE_SECONDS)
    return arrays / 2 * elements * each


def staged_seconds(elements: int, run: int, itemsize: int) -> float:
    """Seconds to add a block that was just computed to its destination.

    Args:
        elements: Elements of the block.
        run: Elements that are contiguous in both; 1 if none are.
        itemsize: Bytes per element.
    """
    if run <= 1:
        return 1.5 * elements * SCATTERED_SECONDS
    return elements * (STAGED_ROW_SECONDS / run + itemsize * STAGED_BYTE_SECONDS)


def scatter_seconds(n_bytes: int) -> float:
    """Seconds that a destination of so many bytes costs more when written block by block."""
    return n_bytes * SCATTER_BYTE_SECONDS if n_bytes > STREAM_FROM_BYTES else 0.0


def einsum_seconds(dtype: np.dtype, macs: int, is_contiguous: bool) -> float:
    """Seconds of one call of c_einsum."""
    if dtype.char in GEMM_RATE:
        rate = EINSUM_RATE if is_contiguous else EINSUM_SCATTERED_RATE
        rate *= 8 / dtype.itemsize if is_contiguous else 1
    else:
        rate = loop_rate(dtype)
    return 2 * CALL_SECONDS + macs / rate
