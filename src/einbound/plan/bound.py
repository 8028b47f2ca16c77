"""What every plan of a network must hold, whatever its order and loops."""

from __future__ import annotations

from math import prod

from einbound.expr.network import Network


def lower_bound(network: Network, itemsize: int) -> int:
    """Bytes that every plan must hold at once: the result, and one element of a value before it.

    A product of three or more operands has an intermediate, cut to no less than one element
    while the result receives its contribution. Operands are views and count nothing.
    """
    if len(network.inputs) == 1:
        return 0
    result = itemsize * prod(network.result_shape)
    has_intermediate = len(network.inputs) > 2 and all(network.extents)
    return result + (itemsize if has_intermediate else 0)
