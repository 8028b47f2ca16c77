"""The gate that a loop must pass, and the rules that follow from it.

A policy's functions are asked here, once; what is left is plain data. A loop that is not admitted
is refused with the name of the gate that is closed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from math import inf

from einbound.errors import PlanError
from einbound.expr.index import Index, Operand
from einbound.expr.network import Network
from einbound.plan.grid import Grid, Mode
from einbound.plan.policy import BatchPolicy
from einbound.plan.rules import Objective, Refusal, Rules
from einbound.plan.tree import Cut, Role, Tree


class Gate(StrEnum):
    """What can keep a loop from being opened, named by the policy's field."""

    CONTRACTED = "is_batchable_contracted_index"
    EXTERNAL = "is_batchable_external_index"
    THRESHOLD = "peak_threshold"
    SPECTATORS = "batch_spectator_indices"
    TARGET = "batch_target_size"
    PERSISTENT = "persistent_only"


@dataclass(frozen=True, slots=True)
class Gates:
    """What a policy says about one index.

    Attributes:
        contracted: It is admitted where it is summed.
        external: It is admitted where it lies on the result.
        finite_threshold: The threshold is finite.
        spectators: Indices of the result may be cut.
        target: A trip may have some elements.
        persistent_only: Nothing is cut at a volatile value.
    """

    contracted: bool = True
    external: bool = True
    finite_threshold: bool = True
    spectators: bool = True
    target: bool = True
    persistent_only: bool = False

    def closed(self, role: Role, *, is_volatile: bool = False) -> Gate | None:
        """The first gate that is closed for a loop in a role at a value; None: it is admitted.

        Law: the truth table of tests/test_policy.py.
        """
        is_external = role is Role.EXTERNAL
        gates = {
            Gate.EXTERNAL: self.external or not is_external,
            Gate.CONTRACTED: self.contracted or is_external,
            Gate.THRESHOLD: self.finite_threshold,
            Gate.SPECTATORS: self.spectators or not is_external,
            Gate.TARGET: self.target,
            Gate.PERSISTENT: not (self.persistent_only and is_volatile),
        }
        return next((gate for gate, is_open in gates.items() if not is_open), None)


def role_of(network: Network, index: int) -> Role:
    """Whether an index is summed or lies on the result."""
    return Role.EXTERNAL if index in network.output else Role.CONTRACTED


def settled(
    policy: BatchPolicy,
    network: Network,
    operands: Sequence[Operand],
    *,
    edges: Sequence[tuple[int, ...]],
    objective: Objective = Objective.TIME,
    volatile: Iterable[int] = (),
    iterations: int = 1,
) -> Rules:
    """The rules that a policy sets for a network; all its functions are asked now.

    Args:
        policy: The policy.
        network: What is contracted.
        operands: Its operands as predicates see them.
        edges: Of each index, the boundaries of its tiles, or none.
        objective: How ties are broken.
        volatile: Operands that change with every evaluation, besides those the policy names.
        iterations: Evaluations in all.

    Raises:
        PolicyError: A function of the policy says something that makes no sense.
        TypeError: It returns a value of another type.
    """
    modes, refusals = [], []
    for number, index in enumerate(indices_of(network, edges)):
        role = role_of(network, number)
        mode, gate = _mode(policy, index, role, edges[number])
        modes.append(mode)
        if gate is not None:
            refusals.append(Refusal(str(index.label), role.value, _why(policy, gate, mode)))
    marked = [operand.number for operand in operands if policy.is_volatile(operand)]
    is_finite = policy.peak_threshold < inf
    return Rules(
        Grid(tuple(modes)),
        objective,
        by_policy=True,
        threshold_bytes=int(policy.peak_threshold) if is_finite else None,
        volatile=frozenset((*volatile, *marked)),
        iterations=iterations,
        persistent_only=policy.persistent_only,
        accumulation_factor=policy.accumulation_factor,
        refusals=tuple(refusals),
    )


def indices_of(network: Network, edges: Sequence[tuple[int, ...]]) -> tuple[Index, ...]:
    """The indices of a network as predicates see them, by number."""
    return tuple(
        Index(label, extent, tiles or None)
        for label, extent, tiles in zip(network.labels, network.extents, edges, strict=True)
    )


def _mode(
    policy: BatchPolicy, index: Index, role: Role, edges: tuple[int, ...]
) -> tuple[Mode, Gate | None]:
    """How an index may be cut, and the gate that is closed if it may not."""
    # Each index has one role, and only the predicate of that role is asked; a target only of
    # what it admits, for functions that know no other index.
    is_external = role is Role.EXTERNAL
    admits = policy.admits_external(index) if is_external else policy.admits_contracted(index)
    target = policy.target(index) if admits and policy.batch_target_size is not None else None
    gate = Gates(
        contracted=admits,
        external=admits,
        finite_threshold=policy.peak_threshold < inf,
        spectators=policy.batch_spectator_indices,
        target=policy.batch_target_size is None or bool(target),
    ).closed(role)
    return Mode(index.extent, edges, gate is None, target), gate


def _why(policy: BatchPolicy, gate: Gate, mode: Mode) -> str:
    said = {Gate.THRESHOLD: policy.peak_threshold, Gate.TARGET: mode.target}
    return f"{gate.value} is {said.get(gate, False)}"


def moved(rules: Rules, planned: Network, network: Network) -> Rules:
    """The same rules for arrays of other shapes than were planned.

    Args:
        rules: The rules.
        planned: The network that they were settled for.
        network: That of the new shapes.

    Raises:
        PlanError: They say nothing about an index, or its tiles do not cover its new extent.
    """
    if network == planned:
        return rules
    known = dict(zip(planned.labels, rules.grid.modes, strict=True))
    modes = []
    for label, extent in zip(network.labels, network.extents, strict=True):
        mode = known.get(label, None if rules.by_policy else Mode(extent))
        if mode is None:
            raise PlanError(
                f"the arrays have dimension {label}, about which the policy was not asked when the "
                "plan was made; plan again"
            )
        if mode.edges and mode.extent != extent:
            raise PlanError(
                f"index {str(label)!r} has extent {extent} and was planned with tiles up to "
                f"{mode.extent}; plan again with tiles that fit"
            )
        modes.append(replace(mode, extent=extent))
    return replace(rules, grid=Grid(tuple(modes)))


def volatile_steps(tree: Tree, volatile: frozenset[int]) -> tuple[bool, ...]:
    """Of each step, whether one of the operands below it is volatile."""
    changes = [k in volatile for k in range(tree.n_operands)]
    for left, right in tree.steps:
        changes.append(changes[left] or changes[right])
    return tuple(changes[tree.n_operands :])


def repeated_steps(tree: Tree, volatile: frozenset[int]) -> tuple[bool, ...]:
    """Of each step, whether every evaluation repeats it.

    What changes is repeated, and what stays the same but is made slice by slice inside the loops
    of a reader that is repeated: its slices are not kept.
    """
    n, repeated = tree.n_operands, list(volatile_steps(tree, volatile))
    for step in range(len(tree.steps) - 2, -1, -1):
        if tree.around(n + step):
            repeated[step] |= repeated[tree.parents[n + step] - n]
    return tuple(repeated)


def check_loops(tree: Tree, rules: Rules) -> None:
    """Refuse a plan with a loop that its rules do not admit.

    Raises:
        PlanError: There is one; the message names index, role and gate.
    """
    volatile = volatile_steps(tree, rules.volatile)
    for step, opens in enumerate(tree.opens):
        for cut in opens:
            _check_gate(tree, rules, cut, step, volatile[step])
            _check_trips(tree.network, rules.grid.modes[cut.index], cut, step)


def _check_gate(tree: Tree, rules: Rules, cut: Cut, step: int, is_volatile: bool) -> None:
    network = tree.network
    label, role = str(network.labels[cut.index]), role_of(network, cut.index)
    why = None
    if not rules.grid.modes[cut.index].admitted:
        known = [r.why for r in rules.refusals if r.index == label]
        why = known[0] if known else "it is not admitted"
    elif Gates(persistent_only=rules.persistent_only).closed(role, is_volatile=is_volatile):
        why = f"{Gate.PERSISTENT.value} is True, and a volatile operand is below"
    if why is not None:
        raise PlanError(
            f"step {step} opens a loop over {label!r}, in the {role.value} role, which the policy "
            f"does not admit: {why}; change the policy or remove the loop"
        )


def _check_trips(network: Network, mode: Mode, cut: Cut, step: int) -> None:
    """A loop's trips are whole tiles, within the target but for single tiles."""
    label = str(network.labels[cut.index])
    if not mode.edges:
        if mode.target is not None and cut.width > mode.target:
            raise PlanError(_too_wide(step, label, cut.width, mode.target))
        return
    edges = frozenset(mode.edges)
    bounds = cut.edges or (*range(0, mode.extent, cut.width), mode.extent)
    for start, stop in pairwise(bounds):
        if stop not in edges:
            raise PlanError(
                f"step {step} has a trip over {label!r} that ends at {stop}, inside a tile; "
                f"expected whole tiles, which end at {', '.join(map(str, mode.edges[1:]))}"
            )
        is_one_tile = mode.edges[bisect_right(mode.edges, start)] >= stop
        if mode.target is not None and stop - start > mode.target and not is_one_tile:
            raise PlanError(_too_wide(step, label, stop - start, mode.target))


def _too_wide(step: int, label: str, width: int, target: int) -> str:
    return (
        f"step {step} has a trip of {width} elements over {label!r}; batch_target_size is "
        f"{target}; plan again"
    )
