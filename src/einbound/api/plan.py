"""The public plan: what will be computed, what it takes, and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from einbound.api.document import compare, read_document, write_document
from einbound.api.engines import NUMPY, engine_of
from einbound.api.handwritten import build_tree
from einbound.api.instant import instant_of
from einbound.api.limits import limits_of
from einbound.api.operands import Layout, Operand, as_operand, see_operand, union_bytes
from einbound.api.optimize import chosen_effort, chosen_path
from einbound.api.planning import Made, compiled, planned, refused, warn_of
from einbound.api.rows import report_of
from einbound.api.rules import rules_of
from einbound.api.setting import Setting, check_out, out_of, setting_of
from einbound.api.tiles import parsed_tiles
from einbound.backends.sizes import Metered
from einbound.errors import ExpressionError, PlanError
from einbound.expr.expression import split_arguments
from einbound.expr.number import whole
from einbound.plan.effort import Origin, Proof
from einbound.plan.gate import moved
from einbound.plan.policy import BatchPolicy
from einbound.plan.rules import Objective
from einbound.plan.tree import Loop, Tree
from einbound.report.progress import reporting
from einbound.report.text import explanation, plan_table
from einbound.step.pricing import DEFAULT_BUFFER_BYTES

Array = NDArray[Any]
ProgressLike = bool | Callable[[int, int], object] | None


class Plan:
    """A contraction that is planned, metered and ready to run.

    Made by `einbound.plan`, `Plan.build` or `Plan.from_json`. It depends on shapes, layouts,
    dtypes and limits, never on values; calling it is safe in threads.
    """

    __slots__ = ("_again", "_made", "instant")

    def __init__(self, made: Made) -> None:
        self._made = made
        self._again = lru_cache(maxsize=16)(self._plan_again)
        self.instant = instant_of(made)
        # Compiled now, so that the first run takes no more memory than later ones.
        made.executable.prepare()

    @property
    def fits(self) -> bool:
        """Every limit is kept, and the threshold of a policy."""
        return self._made.fits

    @property
    def proven(self) -> bool:
        """No plan that keeps the limits has fewer multiply-adds.

        With `volatile=` and `iterations=` it is the multiply-adds of all evaluations that count.
        """
        return self._made.proven

    @property
    def proof(self) -> Proof:
        """What was searched, and whether to its end."""
        return self._made.proof

    # what it is -----------------------------------------------------------------------------

    @property
    def peak_bytes(self) -> int:
        """Most bytes of arrays alive at once: operands, intermediates, buffers, result."""
        return self._made.peak_bytes

    @property
    def workspace_bytes(self) -> int:
        """Most bytes alive at once of what is neither operand nor result."""
        return self._made.executable.metered.workspace_bytes

    @property
    def overhead_bytes(self) -> int:
        """Constant bound of interpreter objects and NumPy's ufunc buffers, beside `peak_bytes`."""
        return self._made.executable.overhead_bytes

    @property
    def macs(self) -> int:
        """Multiply-adds of all pairwise steps, over all trips, of one evaluation."""
        return self._made.executable.metered.macs

    @property
    def seconds(self) -> float:
        """Rough estimate of the run time."""
        return self._made.executable.metered.seconds

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The batch loops, outermost first for each step, the last step first."""
        return self._made.executable.tree.loops

    @property
    def levels(self) -> dict[int, int]:
        """For each step, how many of the loops around its reader are open at its production."""
        return dict(enumerate(self._made.executable.tree.levels))

    @property
    def path(self) -> tuple[tuple[int, ...], ...]:
        """The order as an opt_einsum path."""
        return self._made.executable.tree.path

    @property
    def tree(self) -> object:
        """The order as nested tuples of operand numbers."""
        return self._made.executable.tree.nested

    @property
    def operand_bytes(self) -> int:
        """Bytes that the operands cover; ranges that they share count once."""
        return self._made.setting.operand_bytes

    @property
    def bytes_read(self) -> int:
        """Bytes that one evaluation reads from operands that are not in memory."""
        return self._made.executable.metered.bytes_read

    @property
    def result_bytes(self) -> int:
        """Bytes of the result; 0 if it is a view of an operand."""
        return self._made.executable.result_bytes

    def meter(self) -> Metered:
        """A fresh reading of what a run takes, from a walk over sizes."""
        return replace(self._made.executable.meter(), operand_bytes=self.operand_bytes)

    def explain(self) -> str:
        """The plan with its reasons: order, ways, loops and what they bought, the peak."""
        return explanation(report_of(self._made))

    def __reduce__(self) -> tuple[Any, ...]:
        ready, setting = self._made.executable, self._made.setting
        if setting.effort is not None:
            # Clocks are functions, which seldom can be pickled.
            timeless = replace(setting.effort, deadline_seconds=None, clock=None)
            setting = replace(setting, effort=timeless)
        # Whoever reads the pickle has compilers and processors of its own.
        engine, setting = setting.engine, replace(setting, engine=NUMPY)
        asked = str(engine.backend), engine.n_threads
        return _compiled_again, (setting, ready.tree, ready.buffer_bytes, self._made.proof, asked)

    def __copy__(self) -> Plan:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Plan:
        return self

    def __str__(self) -> str:
        return plan_table(report_of(self._made))

    def __repr__(self) -> str:
        return (
            f"<einbound.Plan {self._made.setting.expression} peak_bytes={self.peak_bytes} "
            f"macs={self.macs} loops={len(self.loops)}>"
        )

    # how it is kept -------------------------------------------------------------------------

    def to_json(self) -> str:
        """The plan as text in a versioned schema."""
        return write_document(self._made)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan in `text`, checked in full; nothing runs.

        Raises:
            PlanError: The text is no plan, its numbers are not those of its tree, or a loop is not
                admitted by its policy.
        """
        loaded = read_document(text)
        made = compiled(loaded.setting, loaded.tree, loaded.buffer_bytes, loaded.proof)
        compare(loaded, made)
        return cls(made)

    @classmethod
    def build(
        cls,
        *args: Any,
        path: Sequence[Sequence[int]] | None = None,
        loops: Iterable[Loop] | Loop = (),
        levels: Mapping[int, int] | None = None,
        tiles: Mapping[Any, Any] | None = None,
        policy: BatchPolicy | None = None,
        memory_limit: int | str | None = None,
        workspace_limit: int | str | None = None,
        buffer_bytes: int = DEFAULT_BUFFER_BYTES,
        dtype: DTypeLike | Sequence[DTypeLike] | None = None,
        backend: str | None = None,
    ) -> Plan:
        """The plan that the caller wrote down, checked and metered.

        Args:
            args: Expression and operands, as for `einbound.plan`.
            path: An opt_einsum path; None for the order that is planned without a limit.
            loops: Batch loops; those of one step stand outermost first.
            levels: For a step, how many of the loops around its reader are open when it is
                produced; default: as far out as its indices allow.
            tiles: For a label, the width of its tiles or their boundaries; trips over it are made
                of whole tiles, and `batch_size` is the most that a trip may have, one tile apart.
            policy: A policy that must admit the loops, and whose threshold is compared.
            memory_limit: Bound of `peak_bytes`.
            workspace_limit: Bound of `workspace_bytes`.
            buffer_bytes: Bound of each accumulation or packing buffer.
            dtype: For operands given as shapes: one dtype, or one for each.
            backend: "numpy", "native", "auto" or None, as for `einbound.plan`.

        Raises:
            PlanError: The path, a loop or a level is illegal, or the policy does not admit a loop.
            BudgetError: The plan does not keep a limit.

        Example:
            >>> import einbound as eb
            >>> loop = eb.Loop("c", node=1, batch_size=4)
            >>> plan = eb.Plan.build("ab,bc,cd->ad", (8, 16), (16, 8), (8, 16),
            ...                      path=[(0, 1), (0, 1)], loops=[loop])
            >>> plan.macs
            2048
        """
        expression, operands = split_arguments(args)
        limits = limits_of(memory_limit, workspace_limit)
        setting = setting_of(expression, operands, limits, dtype=dtype)
        setting = replace(setting, engine=engine_of(backend))
        network = setting.network()
        setting = replace(setting, rules=rules_of(setting, policy=policy, tiles=tiles))
        edges = parsed_tiles(tiles, network)
        tree = build_tree(network, path, loops, {} if levels is None else levels, edges)
        buffer_bytes = whole(buffer_bytes, "buffer_bytes")
        if buffer_bytes < 0:
            raise PlanError(f"buffer_bytes is {buffer_bytes}; expected a number of at least 0")
        made = compiled(setting, tree, buffer_bytes, Proof(origin=Origin.GIVEN))
        if not made.keeps_limits:
            raise refused(made, as_written=True)
        warn_of(made, stacklevel=3, as_written=True)
        return cls(made)

    # how it runs ----------------------------------------------------------------------------

    def __call__(
        self, *operands: Any, out: Array | None = None, progress: ProgressLike = None
    ) -> Any:
        """The result of the contraction.

        Args:
            operands: The arrays. Where shapes, layouts or dtypes differ from what was planned, a
                plan within the same limits is made before anything is allocated.
            out: Array for the result.
            progress: True for a progress bar (needs rich), or a function of (done, total).

        Raises:
            BudgetError: The arrays need another plan, and none keeps the limits.
        """
        if self.instant is not None and progress is None and len(operands) == 2:
            result = self.instant(*operands, out)
            if result is not None:
                return result
        arrays = tuple([a if type(a) is np.ndarray else as_operand(a) for a in operands])
        return self._for(arrays, out).run(arrays, out, progress)

    def _for(self, arrays: tuple[Operand, ...], out: Array | None) -> Plan:
        """This plan, or one within the same limits for arrays of another kind."""
        setting = self._made.setting
        layouts = tuple([Layout.of(a) for a in arrays])
        # Without a limit nothing depends on how operands share memory.
        n_bytes = union_bytes(arrays) if setting.limits.is_set else setting.operand_bytes
        as_planned = layouts == setting.layouts and n_bytes <= setting.operand_bytes
        if out is None and setting.out is None and as_planned:
            return self
        if len(arrays) != len(setting.layouts):
            raise ExpressionError(
                f"the plan was called with {len(arrays)} operands; expected {len(setting.layouts)}",
                setting.expression.text,
            )
        given = None if out is None else out_of(out, arrays)
        setting = replace(setting, layouts=layouts, operand_bytes=union_bytes(arrays), out=given)
        return self._again(setting)

    def _plan_again(self, setting: Setting) -> Plan:
        """This plan's tree if it keeps the limits of the new setting, else a new plan."""
        ready = self._made.executable
        network = setting.network()
        if network == ready.job.network:
            made = compiled(setting, ready.tree, ready.buffer_bytes, self.proof)
            if made.fits:
                return Plan(made)
        if setting.rules is not None:
            rules = moved(setting.rules, ready.job.network, network)
            setting = replace(setting, rules=rules)
        made = planned(setting)
        warn_of(made, stacklevel=5)
        return Plan(made)

    def run(
        self, arrays: tuple[Operand, ...], out: Array | None = None, progress: ProgressLike = None
    ) -> Any:
        """The result for arrays of exactly the kind that was planned; nothing is checked.

        Args:
            arrays: Arrays with the shapes, strides and dtypes of the plan.
            out: Array for the result, if the plan was made for one.
            progress: As in a call of the plan.
        """
        ready = self._made.executable
        network = ready.job.network
        if out is not None:
            check_out(out)
        seen = [see_operand(a, k, network.accesses[k]) for k, a in enumerate(arrays)]
        if progress is None:
            result = ready.run(seen, out)
        else:
            with reporting(progress) as callback:
                result = ready.run(seen, out, callback)
        if out is not None:
            return out
        # A view is a new array also where its axes stand as they did.
        if network.is_view or ready.job.result.indices != network.output:
            result = result.transpose([ready.job.result.indices.index(i) for i in network.output])
        return _scalar(result)


def plan(
    *args: Any,
    memory_limit: int | str | None = None,
    workspace_limit: int | str | None = None,
    backend: str | None = None,
    optimize: Any = "auto",
    dtype: DTypeLike | Sequence[DTypeLike] | None = None,
    same: Iterable[tuple[int, int]] = (),
    order: str = "K",
    casting: str = "safe",
    objective: Objective | str = "time",
    policy: BatchPolicy | None = None,
    tiles: Mapping[Any, Any] | None = None,
    volatile: Iterable[int] | None = None,
    iterations: int = 1,
) -> Plan:
    """The plan of a contraction, from arrays or from shapes alone.

    Args:
        args: `(text, operand, ...)` or `(operand, labels, ..., [output labels])`; an operand is
            an array, a `Source` or a shape (a tuple of ints).
        memory_limit: Bound of everything alive at once, operands and result included: bytes,
            "512MiB", "1.5GB", or "80%" of what is available now.
        workspace_limit: Bound of what is neither operand nor result.
        backend: "numpy"; "native" for compiled kernels wherever there is one; "auto" for the faster
            of both in each step, as predicted; None for the default, "numpy" unless
            `einbound.options` says otherwise.
        optimize: "auto", "greedy", "optimal", True or False (all: einbound's own choice), an
            opt_einsum path, a cotengra tree, a function (inputs, output, sizes, limit) -> path, or
            an `einbound.Effort`, which says how hard the planner tries.
        dtype: For operands given as shapes: one dtype, or one for each; default float64.
        same: Pairs of operand numbers that will be the same array.
        order: Memory order of the result, as numpy.einsum has it.
        casting: Which casts are allowed.
        objective: "time": among plans of equal multiply-adds, the one that is predicted to be
            fastest; "space": the one with the lowest peak.
        policy: Which indices may be batched; its functions are asked now, once.
        tiles: For a label, the width of its tiles or their boundaries; loops take whole tiles.
        volatile: Numbers of the operands that change with every evaluation, besides those that
            the policy names.
        iterations: Evaluations in all. Order and loops are chosen for the multiply-adds of all of
            them: what has no volatile operand below counts once, unless it is made slice by slice
            inside a loop that is run again.

    Returns:
        A plan with `peak_bytes <= memory_limit` and `workspace_bytes <= workspace_limit`. Where
        the threshold of the policy cannot be kept, one that does not keep it, with a BudgetWarning.

    Raises:
        ExpressionError: Text, labels or shapes are wrong.
        PolicyError: The policy says something that makes no sense.
        BudgetError: No plan within the limit was found, after a search for the least peak.
        BackendError: The backend is not known, or "native" lacks a compiler.

    Example:
        >>> import einbound as eb
        >>> p = eb.plan("ij,jk,kl->il", (64, 256), (256, 256), (256, 64), workspace_limit=10_000)
        >>> p.fits, p.workspace_bytes <= 10_000
        (True, True)
    """
    engine = engine_of(backend)
    expression, operands = split_arguments(args)
    limits = limits_of(memory_limit, workspace_limit)
    setting = setting_of(
        expression, operands, limits, dtype=dtype, same=same, order=order, casting=casting
    )
    setting = replace(setting, engine=engine)
    rules = rules_of(
        setting,
        objective=objective,
        policy=policy,
        tiles=tiles,
        volatile=volatile,
        iterations=iterations,
    )
    path, effort = chosen_path(optimize, setting.network), chosen_effort(optimize)
    made = planned(replace(setting, path=path, rules=rules, effort=effort))
    warn_of(made, stacklevel=3)
    return Plan(made)


def _compiled_again(
    setting: Setting, tree: Tree, buffer_bytes: int, proof: Proof, asked: tuple[str, int]
) -> Plan:
    """The plan that a pickle holds; schedules and kernels are made afresh."""
    setting = replace(setting, engine=engine_of(*asked))
    return Plan(compiled(setting, tree, buffer_bytes, proof))


def _scalar(result: Array) -> Any:
    """The result as numpy.einsum returns it: a scalar if it has no axes."""
    return result if result.ndim else result[()]
