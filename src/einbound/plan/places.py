"""Where a half of a product can be made: the levels, and the bytes that are then held."""

from __future__ import annotations

from einbound.plan.chains import Chain
from einbound.plan.problem import Problem

#: Where a half is made: number of groups of loops open, bytes held there, and the chain to make
#: it in; no chain for an operand that is read as it is.
Place = tuple[int, int, Chain | None]


def places(problem: Problem, half: int, inside: Chain) -> list[Place]:
    """Where a half can be made, innermost first: bytes never fall outwards.

    Args:
        problem: What is searched.
        half: Its operands.
        inside: All loops around the product.
    """
    found = inside.places.get(half)
    if found is None:
        found = inside.places[half] = _places(problem, half, inside)
    return found


def _places(problem: Problem, half: int, inside: Chain) -> list[Place]:
    splits, groups, level = problem.splits, inside.groups, inside.level
    mask = splits.carried[half]
    if problem.is_view(half):
        return [(level, 0, None)]
    if not half & (half - 1):
        while level and not groups[level - 1] & mask:
            level -= 1
        outer = inside.prefixes[level]
        return [(level, outer.sizes[mask], outer)]
    found: list[Place] = [(level, inside.sizes[mask], inside)]
    # Outside a loop over what it sums itself it would be added up once per trip.
    while level and not groups[level - 1] & splits.below[half] & ~mask:
        level -= 1
        outer = inside.prefixes[level]
        found.append((level, outer.sizes[mask], outer))
    return found
