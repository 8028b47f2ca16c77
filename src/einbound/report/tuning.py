"""What tuning tried, refused, pruned and measured, and which kernel won."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from einbound.kernels.problem import MatmulProblem
from einbound.machine.calibration import Accord, Agreement, Fit
from einbound.machine.limits import HardwareLimits
from einbound.report.figures import columns, count, duration
from einbound.tune.records import Outcome, Record
from einbound.tune.tuner import Tuned

#: Measured kernels that are listed.
_N_LISTED = 8


@dataclass(frozen=True, slots=True)
class ProductReport:
    """The tuning of one product.

    Attributes:
        tuned: What it came to.
        title: What the product is part of: a contraction, or empty.
        n_kernels: Kernels that are proposed.
        n_refuted: Branches of the tree that cannot be.
        n_excluded: Branches that a policy leaves out.
        n_unknown: Branches that only a build decides.
        disagreements: Measurements that were faster than the machine's peaks allow.
    """

    tuned: Tuned
    title: str = ""
    n_kernels: int = 0
    n_refuted: int = 0
    n_excluded: int = 0
    n_unknown: int = 0
    disagreements: tuple[Agreement, ...] = ()

    @property
    def winner(self) -> str:
        """The decisions of the kernel to take; empty if there is none."""
        return "" if self.tuned.record is None else self.tuned.record.label

    @property
    def ratio(self) -> float:
        """Seconds of the winner over those of the untuned choice."""
        return self.tuned.ratio

    @property
    def noise(self) -> float:
        """By which share the untuned choice differs from itself."""
        return self.tuned.noise

    @property
    def n_measured(self) -> int:
        """Kernels with a time."""
        return self.tuned.n_measured

    @property
    def data(self) -> dict[str, Any]:
        """The report as plain data, for programs."""
        tuned = self.tuned
        return {
            "title": self.title,
            "problem": json.loads(tuned.problem.to_json()),
            "context": asdict(tuned.context),
            "kernels": self.n_kernels,
            "refuted": self.n_refuted,
            "excluded": self.n_excluded,
            "unknown": self.n_unknown,
            "same": tuned.n_same,
            "pruned": tuned.n_pruned,
            "open": tuned.n_open,
            "bound_seconds": tuned.bound_seconds,
            "noise": tuned.noise,
            "ratio": tuned.ratio,
            "stop": str(tuned.stop),
            "winner": tuned.record and json.loads(tuned.record.decisions),
            "records": [json.loads(each.to_json()) for each in tuned.records],
            "disagreements": [_told(each) for each in self.disagreements],
        }

    def __str__(self) -> str:
        sections = [
            ("product", [str(self.tuned.problem)]),
            ("kernels", self._census()),
            ("measured", self._measured()),
            ("failed", self._failed()),
            ("winner", self._winner()),
            ("DISAGREEMENT WITH THE PEAKS", [_told(each) for each in self.disagreements]),
        ]
        parts = [self.title] if self.title else []
        parts += [
            "\n".join([title, *(f"  {line}" for line in lines)])
            for title, lines in sections
            if lines
        ]
        return "\n\n".join(parts)

    def _census(self) -> list[str]:
        tuned = self.tuned
        failed = sum(not each.is_measured for each in tuned.records)
        rows = [
            ("proposed", self.n_kernels, ""),
            ("refuted", self.n_refuted, "branches that cannot be"),
            ("excluded", self.n_excluded, "branches that can be lifted"),
            ("undecided", self.n_unknown, "branches that a build decides"),
            ("measured", tuned.n_measured, ""),
            ("failed", failed, ""),
            ("the same", tuned.n_same, "as another one, in all that they do"),
            ("pruned", tuned.n_pruned, f"nothing takes less than {duration(tuned.bound_seconds)}"),
            ("open", tuned.n_open, str(tuned.stop)),
        ]
        shown = [(name, count(n), why if n else "") for name, n, why in rows]
        return columns(shown, "<><")

    def _measured(self) -> list[str]:
        found = [each for each in self.tuned.records if each.seconds is not None]
        found.sort(key=lambda each: (each.ratio or 0.0, each.label))
        rows = [
            (
                duration(each.seconds or 0.0),
                f"{each.ratio or 1.0:.3f}x",
                f"+-{each.spread / 2:.1%}",
                "busy" if each.contended else "",
                each.label,
            )
            for each in found[:_N_LISTED]
        ]
        more = len(found) - len(rows)
        return columns(rows, ">>><<") + ([f"and {more} slower ones"] if more else [])

    def _failed(self) -> list[str]:
        groups: dict[tuple[Outcome, str], list[Record]] = {}
        for each in self.tuned.records:
            if not each.is_measured:
                groups.setdefault((each.outcome, each.reason), []).append(each)
        lines = []
        for (outcome, reason), found in groups.items():
            lines += [f"{len(found)} x {outcome}: {reason}", f"    {found[0].label}"]
        return lines

    def _winner(self) -> list[str]:
        tuned = self.tuned
        if tuned.record is None:
            return ["none: no kernel of this product could be run"]
        noise = f"the noise is {tuned.noise:.1%}"
        if tuned.winner == tuned.untuned:
            why = f"the untuned choice: none was faster by more than the noise; {noise}"
        else:
            why = f"{tuned.ratio:.3f}x of the untuned choice, in rounds of their own; {noise}"
        return [tuned.record.label, why]


@dataclass(frozen=True, slots=True)
class TuneReport:
    """The tuning of all products of a plan.

    Attributes:
        products: One report each; products that no kernel can tell apart share one.
        skipped: Contractions that no kernel is tuned for, each with the reason.
    """

    products: tuple[ProductReport, ...]
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def n_measured(self) -> int:
        """Kernels with a time."""
        return sum(each.n_measured for each in self.products)

    def to_json(self) -> str:
        """The report as JSON, for programs."""
        skipped = [{"contraction": text, "reason": reason} for text, reason in self.skipped]
        data = {"products": [each.data for each in self.products], "skipped": skipped}
        return json.dumps(data, indent=1)

    def __str__(self) -> str:
        skipped = [f"{text}\n\nnot tuned\n  {reason}" for text, reason in self.skipped]
        return "\n\n\n".join([*map(str, self.products), *skipped])


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """What a machine was seen to do.

    Attributes:
        limits: The processor, with the speeds of its register tiles.
        fits: The highest rates of all kernels that were measured.
        disagreements: Measurements that were faster than the peaks allow.
        path: The file that the profile is kept in.
    """

    limits: HardwareLimits
    fits: tuple[Fit, ...]
    disagreements: tuple[Agreement, ...]
    path: Path

    def __str__(self) -> str:
        by_speed = sorted(
            self.limits.tile_speeds, key=lambda each: (each.number, -each.share, each.rm, each.rn)
        )
        tiles = [
            (str(each.number), f"{each.rm} x {each.rn}", f"{each.share:.1%}") for each in by_speed
        ]
        peaks = [
            (each.backend, f"{peak.per_second:.4g} {unit}/s", f"shown by {peak.row.label}")
            for each in self.fits
            for unit, peak in (("flop", each.flops), ("byte", each.bytes))
            if peak is not None
        ]
        sections = [
            ("register tiles, of what the ports allow at the highest clock", columns(tiles, "<>>")),
            ("highest rates that were measured", columns(peaks, "<><") if peaks else []),
            ("DISAGREEMENT WITH THE PEAKS", [_told(each) for each in self.disagreements]),
            ("profile", [str(self.path)]),
        ]
        return "\n\n".join(
            "\n".join([title, *(f"  {line}" for line in lines)])
            for title, lines in sections
            if lines
        )


def tuned_table(winners: Iterable[Record]) -> str:
    """Winners by product, as a table.

    Args:
        winners: One for each product and context.

    Example:
        >>> tuned_table([])
        'no kernel was tuned yet'
    """
    rows = [
        (
            str(MatmulProblem.from_json(each.problem)),
            duration(each.seconds or 0.0),
            f"{each.ratio or 1.0:.3f}x",
            each.context.cpu,
            each.label,
        )
        for each in winners
    ]
    if not rows:
        return "no kernel was tuned yet"
    head = ("product", "time", "of untuned", "processor", "kernel")
    return "\n".join(columns([head, *rows], "<>><<"))


def _told(seen: Agreement) -> str:
    """A measurement that peaks do not allow, with the numbers that show it."""
    needs = seen.implied
    rates = []
    if needs.flops_per_second is not None:
        rates.append(f"{needs.flops_per_second:.4g} flop/s")
    if needs.bytes_per_second is not None:
        rates.append(f"{needs.bytes_per_second:.4g} byte/s")
    exactly = "" if seen.accord is Accord.VIOLATION else ", by counts that are not exact"
    return (
        f"{seen.row.label} took {duration(seen.row.seconds)}, which needs {' and '.join(rates)}"
        f"{exactly}"
    )
