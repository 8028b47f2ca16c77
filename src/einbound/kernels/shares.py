"""Chunks of a task that each of several workers takes: about as much work for all of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd

from einbound.kernels.cpu_blocking import balanced

#: Chunks for each worker from which on blocks are left as they are: cuts between them are fine.
MANY_CHUNKS = 16
#: Multiply-adds, in vectors, that copying a number to a panel takes as long as: one cycle each
#: (`kernels.runs`), with two multiply-adds started in it.
PACKED_NUMBER = 2


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks of a task: blocks of rows, in each block of columns, of each product of a batch.

    Attributes:
        m: Rows.
        n: Columns.
        bm: Rows of a block.
        bn: Columns of a block.
        n_batch: Products.
    """

    m: int
    n: int
    bm: int
    bn: int
    n_batch: int = 1

    @property
    def row_blocks(self) -> int:
        """Blocks along the rows."""
        return -(-self.m // self.bm)

    @property
    def column_blocks(self) -> int:
        """Blocks along the columns."""
        return -(-self.n // self.bn)

    @property
    def number(self) -> int:
        """All chunks."""
        return self.row_blocks * self.column_blocks * self.n_batch

    def elements(self, stop: int) -> int:
        """Elements of the result in the chunks before one."""
        products, chunk = divmod(stop, self.row_blocks * self.column_blocks)
        column, row = divmod(chunk, self.row_blocks)
        done = min(column * self.bn, self.n)
        beside = min(row * self.bm, self.m) * min(self.bn, self.n - done)
        return products * self.m * self.n + done * self.m + beside

    def cuts(self, n_workers: int) -> tuple[int, ...]:
        """Where the chunks of each worker start, and where the last one's stop.

        Args:
            n_workers: Workers; no worker is without a chunk unless there are fewer chunks.

        Example:
            >>> Chunks(m=100, n=100, bm=100, bn=40).cuts(2)
            (0, 1, 3)
        """
        if self.number < n_workers:
            return tuple(self.number * worker // n_workers for worker in range(n_workers + 1))
        found, everything = [0], self.elements(self.number)
        for worker in range(1, n_workers):
            least, most = found[-1] + 1, self.number - (n_workers - worker)
            target = everything * worker // n_workers
            after = bisect_left(range(self.number), target, key=self.elements)
            near = min(after, after - 1, key=lambda cut: abs(self.elements(cut) - target))
            found.append(min(max(near, least), most))
        return (*found, self.number)

    def busiest(self, n_workers: int, lanes: int) -> int:
        """What the worker with the most to do has to, for each step over k.

        Args:
            n_workers: Workers.
            lanes: Numbers in a vector.

        Returns:
            Multiply-adds, with numbers that are copied to panels as so many of them as take the
            same time.
        """
        return max(
            sum(
                rows * columns + PACKED_NUMBER * lanes * (rows + columns)
                for rows, columns in self._runs(first, stop)
            )
            for first, stop in pairwise(self.cuts(n_workers))
        )

    def _runs(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """Rows and columns of chunks that share a panel of columns."""
        while first < stop:
            row = first % self.row_blocks
            count = min(stop - first, self.row_blocks - row)
            column = first // self.row_blocks % self.column_blocks
            rows = min((row + count) * self.bm, self.m) - row * self.bm
            yield rows, min(self.bn, self.n - column * self.bn)
            first += count


def shared(chunks: Chunks, n_workers: int, units: tuple[int, int], lanes: int) -> Chunks:
    """Chunks that keep all workers at work, of blocks that are no larger than those given.

    Tiles start where they did, so that elements are computed by the same operations.

    Args:
        chunks: The chunks as one worker would take them.
        n_workers: Workers.
        units: Rows and columns of a register tile.
        lanes: Numbers in a vector.

    Law: unless it has as many chunks as workers or more, it is as it was given
    (tests/test_shares.py).

    Example:
        >>> shared(Chunks(m=1024, n=1024, bm=344, bn=480), 2, (4, 48), 8)
        Chunks(m=1024, n=1024, bm=344, bn=384, n_batch=1)
    """
    if n_workers == 1 or chunks.number == n_workers or chunks.number >= MANY_CHUNKS * n_workers:
        return chunks

    def work(each: Chunks) -> tuple[int, int]:
        return each.busiest(n_workers, lanes), each.number

    return min([chunks, *_finer(chunks, n_workers, units)], key=work)


def _finer(chunks: Chunks, n_workers: int, units: tuple[int, int]) -> Iterator[Chunks]:
    """Chunks of smaller blocks, at least one for each worker and, if that can be, as many."""
    for n_rows in range(chunks.row_blocks, chunks.row_blocks + n_workers + 1):
        each = n_rows * chunks.n_batch
        least = max(chunks.column_blocks, -(-n_workers // each))
        even = n_workers // gcd(n_workers, each)
        for n_columns in dict.fromkeys((least, -(-least // even) * even)):
            finer = replace(
                chunks,
                bm=_cut(chunks.m, chunks.bm, n_rows, units[0]),
                bn=_cut(chunks.n, chunks.bn, n_columns, units[1]),
            )
            if finer.number >= n_workers:
                yield finer


def _cut(extent: int, most: int, number: int, unit: int) -> int:
    """The size of so many equal blocks, in whole units and no larger than before."""
    return min(most, balanced(extent, -(-extent // number), unit))
