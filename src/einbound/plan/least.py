"""Structures that need the fewest bytes, for limits that nearly nothing keeps."""

from __future__ import annotations

from einbound.plan.ledger import LEAST_BUFFER_BYTES
from einbound.plan.price import Limit
from einbound.plan.structures import Room, Structures
from einbound.plan.tree import Tree


def least_trees(structures: Structures, limit: Limit, n_states: int) -> tuple[Tree, ...]:
    """The structures that need the fewest bytes, with and without the result as limited."""
    trees = list(structures.finest())
    network = structures.request.network
    is_tiny = len(network.inputs) <= _N_PRICED[0] and len(network.extents) <= _N_PRICED[1]
    for given, with_result in ((limit.peak_bytes, True), (limit.workspace_bytes, False)):
        if given is not None:
            least = structures.lowest(with_result, n_states)
            trees.append(least.found.tree)
            if is_tiny:
                priced = structures.lowest(with_result, _N_STATES_NEAR_LEAST, LEAST_BUFFER_BYTES)
                trees.append(priced.found.tree)
            for more in _LEAST_STEPS:
                room = Room(least.found.peak_bytes + more, with_result)
                trees += next(structures.alike(room), [])
                if is_tiny:
                    trees += structures.drafts(room, _N_STATES_NEAR_LEAST).trees
    return tuple(dict.fromkeys(trees))


#: Bytes above the least at which more structures are looked for: temporaries may need less there.
_LEAST_STEPS = (0, 64)
_N_STATES_NEAR_LEAST = 500
#: Operands and indices up to which small temporaries matter near the least bytes.
_N_PRICED = (4, 5)
