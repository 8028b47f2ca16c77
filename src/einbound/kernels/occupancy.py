"""Workgroups that a multiprocessor keeps resident, from what one of them needs.

The rules are those of the CUDA C++ Programming Guide, "Hardware Multithreading", and of its
occupancy calculator.
"""

from __future__ import annotations

from dataclasses import dataclass

from einbound.machine.limits import HardwareLimits

#: Threads of a warp, which all GPUs of this family have.
WARP = 32
#: Registers are handed out to warps in this many at once.
REGISTER_UNIT = 256
#: Shared bytes that the system takes of every workgroup, from sm_80 on.
RESERVED_SHARED_BYTES = 1024
#: Registers of a thread beside accumulators and operands: addresses, counters, masks.
BASE_REGISTERS = 32


@dataclass(frozen=True, slots=True)
class Needs:
    """What one workgroup takes.

    Attributes:
        threads: Its threads.
        registers: 32-bit registers of each.
        shared_bytes: Shared memory.
    """

    threads: int
    registers: int
    shared_bytes: int


def resident_workgroups(needs: Needs, limits: HardwareLimits) -> int:
    """Workgroups that fit one multiprocessor at once; 0: not even one does.

    Args:
        needs: What one takes; registers above the cap of a thread are spilled and not counted.
        limits: The processor.

    Example:
        >>> limits = HardwareLimits(max_threads_per_sm=2048, registers_per_sm=65536)
        >>> resident_workgroups(Needs(threads=256, registers=64, shared_bytes=0), limits)
        4
    """
    registers = min(needs.registers, limits.max_registers_per_thread or needs.registers)
    warps = -(-needs.threads // WARP)
    of_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    rooms = [
        (limits.max_threads_per_sm, warps * WARP),
        (limits.registers_per_sm, warps * of_warp),
        (limits.shared_bytes_per_sm, needs.shared_bytes + RESERVED_SHARED_BYTES),
        (limits.max_workgroups_per_sm, 1),
    ]
    known = [room // each for room, each in rooms if room is not None and each]
    return min(known, default=1)


def spilled_registers(registers: int, limits: HardwareLimits) -> int:
    """Registers of a thread that no register is left for."""
    return max(0, registers - (limits.max_registers_per_thread or registers))


def blocktile_registers(tm: int, tn: int, n_bytes: int) -> int:
    """32-bit registers of a thread with tm x tn results and an operand of each for every row.

    Args:
        tm: Rows of a thread.
        tn: Columns of a thread.
        n_bytes: Bytes of a result.
    """
    words = -(-n_bytes // 4)
    return (tm * tn + tm + tn) * words + BASE_REGISTERS


def mma_registers(bm: int, bn: int, tile_k: int, width: int, n_bytes: tuple[int, int]) -> int:
    """32-bit registers of a lane that holds its part of a bm x bn block and of both operands.

    Args:
        bm: Rows.
        bn: Columns.
        tile_k: Depth of one matrix instruction.
        width: Lanes.
        n_bytes: Bytes of an operand's number, and of a result's.
    """
    operand, result = n_bytes
    held = bm * bn * result + (bm + bn) * tile_k * operand
    return -(-held // (4 * width)) + BASE_REGISTERS
