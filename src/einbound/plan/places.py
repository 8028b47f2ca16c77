"""Where a half of a product can be made: the levels, and the bytes that are then held."""

from __future__ import annotations

from einbound.plan.chains import Chain
from einbound.plan.problem import Problem

#: Where a half is made: number of groups of loops open, bytes held there, and the chain to make
#: it in; no chain for an operand that is read as it is.
Place = tuple[int, int, Chain | None]


#: Of an operand that is read as it is: it takes no bytes, at whatever level.
_READ: tuple[Place, ...] = ((0, 0, None),)


def places(problem: Problem, half: int, inside: Chain) -> tuple[Place, ...]:
    """Where a half can be made, innermost first: bytes never fall outwards.

    Args:
        problem: What is searched.
        half: Its operands.
        inside: All loops around the product.
    """
    if problem.is_view(half):
        return _READ
    found = inside.places.get(half)
    if found is None:
        found = inside.places[half] = _places(problem, half, inside)
    return found


def _places(problem: Problem, half: int, inside: Chain) -> tuple[Place, ...]:
    mask, outer = problem.splits.carried[half], inside.outer
    here = inside.level, inside.sizes[mask], inside
    if outer is None:
        return (here,)
    if not half & (half - 1):
        return (here,) if inside.cut & mask else places(problem, half, outer)
    # Outside a loop over what it sums itself it would be added up once per trip.
    if inside.cut & problem.splits.below[half] & ~mask:
        return (here,)
    return (here, *places(problem, half, outer))
