"""Kernels tuned on this machine: `tune`, and where what was found is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from einbound.api.options import current_options
from einbound.api.plan import Plan, plan
from einbound.api.rows import report_of
from einbound.errors import BackendError, KernelError
from einbound.kernels.problem import MatmulProblem
from einbound.machine.calibration import fit
from einbound.report.tuning import CalibrationReport, ProductReport, TuneReport
from einbound.space.traversal import enumerate_leaves, exclusions, refutations, unknowns
from einbound.tune.build import Toolchain, find_compiler
from einbound.tune.measure import Clock, Rounds
from einbound.tune.profile import PROFILE
from einbound.tune.records import Record, reading_of
from einbound.tune.store import Store
from einbound.tune.tuner import BUDGET, Allowance, Stop
from einbound.tune.workshop import RECORDS, Workshop, disagreements


def tune(
    given: str | Plan | MatmulProblem,
    *operands: Any,
    budget: int = BUDGET,
    seconds: float | None = None,
    rounds: Rounds | None = None,
    **planning: Any,
) -> TuneReport:
    """What measuring kernels of a contraction found; the winners are kept for this machine.

    Every kernel is compared with NumPy before it is timed. The untuned choice stays unless another
    one is faster by more than the noise. Ctrl-C ends it early, and what was found by then is kept;
    the next call goes on from there.

    Args:
        given: Einsum text, a plan, or one matrix product.
        *operands: Arrays or shapes, if text is given.
        budget: Kernels that are measured for each product, those of earlier calls included.
        seconds: After these no further kernel is begun; None: no end.
        rounds: How often each is timed; None: the usual.
        **planning: What `einbound.plan` takes, if text is given.

    Raises:
        BackendError: There is no compiler.
        KernelError: Nothing that is given has a kernel.

    Example:
        >>> import einbound as eb
        >>> report = eb.tune("ik,kj->ij", (64, 64), (64, 64), budget=2)  # doctest: +SKIP
        >>> report.products[0].winner  # doctest: +SKIP
        'roles=as-given > fusion=unfused > pipeline=tensorized > ...'
    """
    _check(budget, seconds)
    named, skipped = _products(given, operands, planning)
    workshop = here()
    clock = Clock()
    end = None if seconds is None else clock.wall() + seconds
    reports: dict[str, ProductReport] = {}
    for title, problem in named:
        if problem.key in reports or any(_was_interrupted(each) for each in reports.values()):
            continue
        left = None if end is None else max(0.0, end - clock.wall())
        try:
            reports[problem.key] = _tuned(
                workshop, title, problem, Allowance(budget=budget, seconds=left), rounds
            )
        except KernelError as error:
            skipped.append((title, str(error)))
    if not reports:
        raise KernelError("\n".join(f"{text}: {reason}" for text, reason in skipped))
    return TuneReport(tuple(reports.values()), tuple(skipped))


def calibrate(rounds: Rounds | None = None) -> CalibrationReport:
    """What this machine was seen to do; the speeds of its register tiles are kept as its profile.

    Register tiles are compiled and timed, which takes about a minute. Peaks come from the records
    of all kernels that were measured before.

    Args:
        rounds: How often each tile is timed; None: the usual.

    Raises:
        BackendError: There is no compiler.
    """
    workshop = here().calibrated(rounds)
    records = tuple(
        each
        for each in workshop.store.records()
        if each.is_measured and each.context.cpu == workshop.context.cpu
    )
    return CalibrationReport(
        workshop.limits,
        fit(reading_of(each, workshop.limits) for each in records),
        disagreements(records, workshop.limits),
        workshop.toolchain.folder / PROFILE,
    )


def here() -> Workshop:
    """The workshop of this machine, with the options that hold here.

    Raises:
        BackendError: There is no compiler; the message says why.
    """
    options = current_options()
    compiler = find_compiler(options.compiler)
    if isinstance(compiler, str):
        raise BackendError(f"kernels are tuned by compiling them: {compiler}")
    return Workshop.here(Toolchain(compiler, options.cache_folder))


def records_file() -> Path:
    """The file in which records are kept; it need not be there."""
    return current_options().cache_folder / RECORDS


def kept() -> Store:
    """The records of this machine."""
    return Store(records_file())


def winners_of(made: Plan) -> tuple[Record, ...]:
    """The winners that are kept for the products of a plan, of all contexts.

    Args:
        made: The plan.
    """
    keys = {problem.key for _, problem in _products(made, (), {})[0]}
    return tuple(each for each in kept().winners() if each.problem in keys)


def _check(budget: int, seconds: float | None) -> None:
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise KernelError(f"budget is {budget!r}; expected a number of measurements, at least 1")
    if seconds is not None and not seconds >= 0:
        raise KernelError(f"seconds are {seconds!r}; expected a time of at least 0, or None")


def _products(
    given: str | Plan | MatmulProblem, operands: tuple[Any, ...], planning: dict[str, Any]
) -> tuple[list[tuple[str, MatmulProblem]], list[tuple[str, str]]]:
    """The products that are given, by contraction, and contractions that are none."""
    if isinstance(given, MatmulProblem | Plan) and (operands or planning):
        raise KernelError(
            f"operands or options of planning are given beside a {type(given).__name__}, which "
            "has them; give it alone"
        )
    if isinstance(given, MatmulProblem):
        return [("", given.canonical)], []
    made = (given if isinstance(given, Plan) else plan(given, *operands, **planning))._made
    named: list[tuple[str, MatmulProblem]] = []
    skipped: list[tuple[str, str]] = []
    for row in report_of(made).steps:
        step = made.executable.metered.steps[row.step]
        try:
            # Kernels are picked by the axes of a step alone, whatever else is to be done in it.
            pair = step if step.way is None else step.way.pair
            problem = MatmulProblem.from_step(pair).canonical
        except KernelError as error:
            skipped.append((row.contraction, str(error)))
        else:
            named.append((row.contraction, problem))
    return named, skipped


def _tuned(
    workshop: Workshop,
    title: str,
    problem: MatmulProblem,
    allowance: Allowance,
    rounds: Rounds | None,
) -> ProductReport:
    tuned = workshop.tune(problem, allowance, rounds)
    tree = workshop.tree(problem)
    return ProductReport(
        tuned,
        title,
        n_kernels=len(enumerate_leaves(tree)),
        n_refuted=len(refutations(tree)),
        n_excluded=len(exclusions(tree)),
        n_unknown=len(unknowns(tree)),
        disagreements=disagreements(tuned.records, workshop.limits),
    )


def _was_interrupted(report: ProductReport) -> bool:
    return report.tuned.stop is Stop.INTERRUPT
