"""Processors by the names that callers give them."""

from __future__ import annotations

from einbound.errors import MachineError
from einbound.machine.cpu import detected
from einbound.machine.gpu import GPUS, gpu
from einbound.machine.limits import HardwareLimits

#: The processor that this runs on.
THIS_CPU = "cpu"


def target_limits(name: str) -> HardwareLimits:
    """The limits of a processor by its name.

    Args:
        name: "cpu" for this one, or a GPU that `machine.gpu` knows, such as "sm_90".

    Raises:
        MachineError: There is no such processor; the message lists those that there are.

    Example:
        >>> target_limits("sm_80").n_sm
        108
    """
    if name.lower() == THIS_CPU:
        return detected().limits
    if name.lower() not in GPUS:
        raise MachineError(
            f"target is {name!r}; expected {THIS_CPU} for this processor, or one of "
            f"{', '.join(GPUS)}"
        )
    return gpu(name)
