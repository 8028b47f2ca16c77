"""Rules and proofs in a document: read back into records, every field checked."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from math import inf
from typing import Any

from einbound.errors import PlanError
from einbound.expr.network import Network
from einbound.plan.effort import Origin, Proof
from einbound.plan.grid import Grid, Mode
from einbound.plan.rules import Objective, Refusal, Rules
from einbound.plan.tree import Role


def rules_data(rules: Rules) -> dict[str, Any]:
    """Rules as what JSON can hold; equal rules give equal data."""
    return {**asdict(rules), "volatile": sorted(rules.volatile)}


def rules_from(data: dict[str, Any] | None, network: Network) -> Rules | None:
    """The rules in a document; None if it has none.

    Args:
        data: What `rules_data` made of rules.
        network: What they are for.

    Raises:
        PlanError: A field is no such value, or is not for this network.
    """
    if data is None:
        return None
    modes = data["grid"]["modes"]
    if len(modes) != len(network.extents):
        raise PlanError(f"rules are given for {len(modes)} indices; expected {network.labels}")
    factor = data["accumulation_factor"]
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 <= factor < inf:
        raise PlanError(f"accumulation_factor is {factor!r}; expected a number of at least 0")
    volatile = frozenset(whole(k, "volatile") for k in data["volatile"])
    if volatile and max(volatile) >= len(network.inputs):
        raise PlanError(f"operand {max(volatile)} is volatile; there are {len(network.inputs)}")
    return Rules(
        Grid(tuple(_mode(mode, index, network) for index, mode in enumerate(modes))),
        Objective(data["objective"]),
        by_policy=_truth(data["by_policy"], "by_policy"),
        threshold_bytes=maybe_whole(data["threshold_bytes"], "threshold_bytes"),
        volatile=volatile,
        iterations=max(whole(data["iterations"], "iterations"), 1),
        persistent_only=_truth(data["persistent_only"], "persistent_only"),
        accumulation_factor=factor,
        refusals=tuple(
            Refusal(str(each["index"]), Role(each["role"]).value, str(each["why"]))
            for each in data["refusals"]
        ),
    )


def proof_from(data: dict[str, Any] | None) -> Proof:
    """The proof in a document; one that says nothing if it has none."""
    if data is None:
        return Proof()
    return Proof(
        depth=maybe_whole(data["depth"], "depth"),
        widths=tuple(whole(n, "widths") for n in data["widths"]),
        modes=whole(data["modes"], "modes"),
        outer_products=_truth(data["outer_products"], "outer_products"),
        exhausted=_truth(data["exhausted"], "exhausted"),
        bound_macs=whole(data["bound_macs"], "bound_macs"),
        states=whole(data["states"], "states"),
        reproducible=_truth(data["reproducible"], "reproducible"),
        # Documents of before there was more than one origin do not name it.
        origin=Origin(data.get("origin", Origin.OWN)),
    )


def whole(value: Any, name: str) -> int:
    """`value`, if it is a whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise PlanError(f"{name} is {value!r}; expected a whole number of at least 0")
    return value


def maybe_whole(value: Any, name: str) -> int | None:
    """`value`, if it is None or a whole number of at least 0."""
    return None if value is None else whole(value, name)


def _truth(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise PlanError(f"{name} is {value!r}; expected true or false")
    return value


def _mode(data: dict[str, Any], index: int, network: Network) -> Mode:
    label, extent = network.labels[index], network.extents[index]
    edges = tuple(whole(edge, "edges") for edge in data["edges"])
    if data["extent"] != extent:
        raise PlanError(f"rules have extent {data['extent']!r} for {label!r}, which has {extent}")
    is_rising = all(low < high for low, high in pairwise(edges))
    if edges and not (is_rising and edges[0] == 0 and edges[-1] == extent):
        raise PlanError(f"the tiles of {label!r} have edges {edges}; expected 0 up to {extent}")
    admitted, target = _truth(data["admitted"], "admitted"), maybe_whole(data["target"], "target")
    if admitted and target == 0:
        raise PlanError(f"{label!r} is admitted with a target of 0 elements; expected at least 1")
    return Mode(extent, edges, admitted, target)
