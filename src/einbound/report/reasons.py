"""Why a plan is as it is: what a policy admitted, what was searched, how evaluations count.

Sections of `plan.explain()`; pure functions from records to lines.
"""

from __future__ import annotations

from dataclasses import dataclass

from einbound.plan.effort import Origin, Proof
from einbound.report.figures import columns, count, exact_bytes, kept, ratio


@dataclass(frozen=True, slots=True)
class ModeRow:
    """One index as a policy sees it.

    Attributes:
        index: Its label.
        role: "contracted" or "external".
        target: Most elements of a trip; None: the planner's choice, or not asked.
        n_trips: Trips of that width; None: the planner's choice.
        used: Numbers of trips of the loops over it that the plan has.
        refused: The gate that is closed; empty: it is admitted.
    """

    index: str
    role: str
    target: int | None
    n_trips: int | None
    used: tuple[int, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """What a batch policy admitted and what became of its threshold.

    Attributes:
        modes: Every index.
        objective: "time" or "space".
        threshold_bytes: Peak that it asks for; None: it is infinite.
        peak_bytes: Peak of the plan.
        fallback: What the plan is if the threshold is not kept.
        persistent_only: The volatile operands above which nothing is cut; empty: no such rule.
        accumulation_factor: Part of a contribution that counts beside its accumulator.
    """

    modes: tuple[ModeRow, ...]
    objective: str
    threshold_bytes: int | None
    peak_bytes: int
    fallback: str
    persistent_only: tuple[int, ...] = ()
    accumulation_factor: float = 0.0


@dataclass(frozen=True, slots=True)
class Weight:
    """Multiply-adds of several evaluations.

    Attributes:
        once_macs: Of what is done once and kept.
        each_macs: Of what every evaluation repeats.
        iterations: Evaluations in all.
    """

    once_macs: int
    each_macs: int
    iterations: int

    @property
    def macs(self) -> int:
        """Multiply-adds of all evaluations."""
        return self.once_macs + self.iterations * self.each_macs


def policy_lines(policy: PolicyReport) -> list[str]:
    """The indices with what was decided on each, then the threshold and what else holds."""
    head = ("index", "role", "target", "trips", "in the plan", "")
    lines = columns([head, *map(_mode, policy.modes)], "<<>><<") if policy.modes else []
    if policy.threshold_bytes is None:
        lines.append("peak_threshold is infinite: no loop is opened")
    else:
        threshold = policy.threshold_bytes
        verdict = kept(policy.peak_bytes, threshold)
        lines.append(f"peak_threshold {exact_bytes(threshold)}: {verdict}")
        if policy.peak_bytes > threshold:
            lines.append(f"objective {policy.objective!r}: the plan has {policy.fallback}")
    if policy.persistent_only:
        numbers = ", ".join(map(str, policy.persistent_only))
        lines.append(f"persistent_only: no loop at a value with operand {numbers} below")
    if policy.accumulation_factor:
        lines.append(
            f"accumulation_factor {policy.accumulation_factor:g}: so much of a contribution counts "
            "beside the value that it is added to"
        )
    return lines


def _mode(row: ModeRow) -> tuple[str, ...]:
    if row.refused:
        return (row.index, row.role, "-", "-", "-", f"refused: {row.refused}")
    target = "any" if row.target is None else count(row.target)
    n_trips = "any" if row.n_trips is None else count(row.n_trips)
    used = ", ".join(f"{count(n)} trips" for n in row.used) or "no loop"
    return (row.index, row.role, target, n_trips, used, "admitted")


def weight_lines(weight: Weight) -> list[str]:
    """The sums that order and loops were chosen for."""
    n_times = count(weight.iterations)
    rows = [
        ("once", count(weight.once_macs), "macs of steps that no volatile operand reaches"),
        (
            "each",
            count(weight.each_macs),
            f"macs in each of {n_times} evaluations",
        ),
        ("all", count(weight.macs), "macs, for which order and loops were chosen"),
    ]
    return columns(rows, "<><")


def origin_lines(proof: Proof | None) -> list[str]:
    """Where the order comes from, if it is not the planner's own."""
    return [] if proof is None or proof.origin is Origin.OWN else [_ORIGINS[proof.origin]]


_ORIGINS = {
    Origin.GIVEN: "this order was given",
    Origin.COTENGRA: "this order began as one of cotengra's; our own led to no better plan",
}


def search_lines(proof: Proof | None, macs: int) -> list[str]:
    """What was searched, and what is not ruled out; nothing where nothing was searched.

    Args:
        proof: What the search could say.
        macs: Multiply-adds of the plan, as the search counts them.
    """
    if proof is None or not (proof.states or proof.exhausted):
        return []
    outer = "all" if proof.outer_products else "all without products of values that share no index"
    depth = "any number" if proof.depth is None else f"at most {proof.depth}"
    trips = f", in {', '.join(map(str, proof.widths))} trips" if proof.widths else ""
    end = "to the end of all these" if proof.exhausted else "not to the end: best found"
    rows = [
        ("orders", outer),
        ("loops", f"{depth} around a production, over {proof.modes} indices{trips}"),
        ("states", f"{count(proof.states)}, {end}"),
    ]
    if 0 < proof.bound_macs < macs:
        gap = f"at least {count(proof.bound_macs)} in any of these; the plan has "
        rows.append(("macs", gap + ratio(macs, proof.bound_macs)))
    if not proof.reproducible:
        rows.append(("again", "not reproducible: a deadline cut the search short"))
    return columns(rows, "<<")
