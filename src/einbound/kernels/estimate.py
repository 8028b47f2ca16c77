"""The seconds of a kernel with their parts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transfer:
    """What crosses one boundary of the memory hierarchy.

    Attributes:
        source: The level that it comes from: "L2", "L3", "shared" or "memory".
        bytes: Bytes moved.
        seconds: How long that takes on its own.
    """

    source: str
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Predicted seconds of a kernel, or the least of all kernels that a commitment leaves.

    Attributes:
        compute_seconds: Multiply-adds, padding and idle units included.
        transfers: Traffic of each level, the nearest first.
        packing_seconds: Packing in the call.
        overhead_seconds: Launches, dispatches and waits.
        exposed: Share of what runs beside the longest part that it does not hide, 0 to 1.
        flops: Operations, padding included.
        occupancy: Share of the resident threads that a multiprocessor allows; None on a CPU.
        n_waves: Times that all multiprocessors are filled with workgroups; None on a CPU.
    """

    compute_seconds: float
    transfers: tuple[Transfer, ...]
    packing_seconds: float
    overhead_seconds: float
    exposed: float
    flops: int
    occupancy: float | None = None
    n_waves: int | None = None

    @property
    def seconds(self) -> float:
        """All of it.

        Compute and transfers overlap but for a share (the execution-cache-memory model of Hager,
        Treibig, Habich and Wellein, Concurrency and Computation 28(2), 2016, has the shares 0 and
        1); packing and overhead come on top.
        """
        parts = [self.compute_seconds, *(transfer.seconds for transfer in self.transfers)]
        longest = max(parts)
        beside = self.exposed * (sum(parts) - longest)
        return longest + beside + self.packing_seconds + self.overhead_seconds
