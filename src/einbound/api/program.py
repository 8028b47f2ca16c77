"""The public program: equations planned together, run many times, with state between the runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from einbound.api.engines import NUMPY, engine_of
from einbound.api.equations import Equations
from einbound.api.given import Case, Given, expected_case, given_of
from einbound.api.kept import KeptValues
from einbound.api.limits import limits_of
from einbound.api.operands import Array, see_operand
from einbound.api.prints import Check
from einbound.api.program_rows import measured, program_report
from einbound.api.stages import Stages, Wish, planned_stages
from einbound.backends.reads import Window
from einbound.errors import EquationsError
from einbound.expr.equation_shapes import shapes_of
from einbound.expr.equations import System
from einbound.expr.network import Access
from einbound.expr.number import whole
from einbound.forest.export import exported
from einbound.plan.policy import BatchPolicy, BatchScheduler
from einbound.report.program import ProgramMeter, program_text
from einbound.run.guards import Guard

Word = TypeVar("Word", BatchScheduler, Check)
#: Cases whose plans one program remembers.
_N_CASES = 16


class Program:
    """Equations that are planned together within one limit, and evaluated many times.

    What no volatile tensor takes part in is made once and kept, if that is worth its bytes; later
    calls skip it. Calling a program is safe in threads; the limit holds for each call.

    Args:
        equations: `einbound.Equations`, or what `Equations.parse` takes.
        memory_limit: Bound of everything alive at once in a call: tensors, kept values,
            intermediates, copies, buffers, results.
        policy: An `einbound.BatchPolicy`.
        volatile: Names of tensors that change with every call, besides the declared ones.
        iterations: Calls that are planned for: work that is kept counts once.
        scheduler: "ordered" or "forest_descent"; None: that of the policy, else "ordered".
        workspace_limit: Bound of what is neither tensor nor result.
        dtype: Element type to compute in; None: the common one of the tensors.
        check: How changed tensors are found that are not volatile: by "identity" of the array and
            its memory, or by a "digest" of the elements, too. `reset` tells it in any case.
        guard: Makes a context manager around each loop that adds up, from its number of trips.
        backend: "numpy", "native", "auto" or None, as for `einbound.plan`.

    Raises:
        BudgetError: Nothing that was found keeps the limits.
        EquationsError: The equations make no sense.

    Example:
        >>> import numpy as np
        >>> import einbound as eb
        >>> program = eb.Program("R[i,k] = A[i,j] B[j,k] - 2 C[i,k]", memory_limit="1MiB")
        >>> a, b, c = np.ones((2, 3)), np.ones((3, 2)), np.ones((2, 2))
        >>> program(A=a, B=b, C=c)["R"].tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(
        self,
        equations: Equations | str | Mapping[str, Any],
        memory_limit: int | str | None = None,
        policy: BatchPolicy | None = None,
        volatile: Iterable[str] = (),
        iterations: int = 1,
        scheduler: BatchScheduler | str | None = None,
        *,
        workspace_limit: int | str | None = None,
        dtype: DTypeLike | None = None,
        check: Check | str = Check.IDENTITY,
        guard: Guard | None = None,
        backend: str | None = None,
    ) -> None:
        if not isinstance(equations, Equations):
            equations = Equations.parse(equations)
        if policy is not None and not isinstance(policy, BatchPolicy):
            raise TypeError(
                f"policy is {policy!r} of type {type(policy).__name__}; expected an "
                'einbound.BatchPolicy, such as BatchPolicy.auto("2GiB"), or None'
            )
        if guard is not None and not callable(guard):
            raise TypeError(
                f"guard is {guard!r} of type {type(guard).__name__}; expected a function of the "
                "number of trips that returns a context manager"
            )
        wish = Wish(
            equations.system,
            limits_of(memory_limit, workspace_limit),
            policy,
            _scheduler(scheduler, policy),
            _volatile(volatile, equations.system),
            _iterations(iterations),
            None if dtype is None else np.dtype(dtype).newbyteorder("="),
            engine_of(backend),
        )
        self._begin(equations, wish, _word(Check, check, "check"), guard)

    def _begin(self, equations: Equations, wish: Wish, check: Check, guard: Guard | None) -> None:
        self._equations, self._wish, self._guard = equations, wish, guard
        # Threads that ask for the same plan must get the same one, since kept values belong to it.
        self._planning = Lock()
        self._kept = KeptValues(check)
        # Not a method of its own: a program in a cycle would keep its values until it is collected.
        self._planned: Callable[[Case], Stages] = lru_cache(_N_CASES)(
            partial(planned_stages, self._wish)
        )
        self._stages: Stages | None = None
        with suppress(EquationsError):
            shapes = shapes_of(equations.system)
            self._stages = self._planned(expected_case(equations.system, shapes, self._wish.dtype))

    # what it is -----------------------------------------------------------------------------

    @property
    def equations(self) -> Equations:
        """The equations."""
        return self._equations

    @property
    def peak_bytes(self) -> int:
        """Most bytes alive at once in a call: tensors, kept and other values, buffers, results."""
        return self._known().peak_bytes

    @property
    def kept_bytes(self) -> int:
        """Bytes of the values that stay from one call to the next."""
        return self._known().kept_bytes

    @property
    def macs(self) -> int:
        """Multiply-adds of every call; what is kept was made before."""
        return self._known().main.metered.macs

    def meter(self) -> ProgramMeter:
        """What calls take, from a walk over sizes: bytes, multiply-adds, builds and uses."""
        return measured(self._known())

    def explain(self) -> str:
        """The plan with its reasons: terms, loops, where values live, what the limit costs."""
        stages = self._known()
        return program_text(program_report(stages))

    def to_numpy(self) -> str:
        """Source of a function `evaluate` of the tensors, with numpy.einsum calls alone.

        Values that terms share, and sums that are multiplied as one, are made once there, as they
        are here; nothing is kept from call to call, and no limit holds.

        Example:
            >>> import einbound as eb
            >>> text = "R[i,k] = A[i,j] B[j,k] - 2 A[i,j] C[j,k]"
            >>> program = eb.Program(eb.Equations.parse(text, dict.fromkeys("ijk", 9)))
            >>> print(program.to_numpy())
            import numpy as np
            <BLANKLINE>
            <BLANKLINE>
            def evaluate(*, A, B, C):
                s1 = -0.5 * np.einsum("jk->jk", B)
                s1 = s1 + np.einsum("jk->jk", C)
                R = -2.0 * np.einsum("jk,ij->ik", s1, A)
                return {"R": R}
            <BLANKLINE>
        """
        stages = self._known()
        return exported(stages.rewritten.forest, work=stages.case.work)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies, also in other processes, plan anew and keep values of their own."""
        # Whoever reads a pickle has compilers and processors of its own.
        engine, wish = self._wish.engine, replace(self._wish, engine=NUMPY)
        asked = str(engine.backend), engine.n_threads
        return _begun, (self._equations, wish, asked, self._kept.check, self._guard)

    def __repr__(self) -> str:
        names = ", ".join(self._equations.targets)
        state = "not planned yet" if self._stages is None else f"peak_bytes={self.peak_bytes}"
        return f"<einbound.Program of {names} {state}>"

    # how it runs ----------------------------------------------------------------------------

    def __call__(
        self, arrays: Mapping[str, Any] | None = None, /, **named: Any
    ) -> dict[str, Array]:
        """The targets by name, each a new array.

        Args:
            arrays: Tensors by name, as a mapping.
            named: Tensors by name. A tensor is an array or a number; an `einbound.Source` is read
                block by block, and so is what a function of slices returns, for a tensor that the
                equations declare as computed.

        Raises:
            BudgetError: These tensors need another plan, and none keeps the limits.
            DTypeError: Elements of a tensor are no numbers, or do not fit `dtype`.
            EquationsError: A tensor is missing or not known, or its shape does not fit.
        """
        system = self._wish.system
        given = given_of(system, {**(arrays or {}), **named}, self._wish.dtype)
        stages = self._for(given)
        leaves = _leaves(stages, given)
        tensors = dict(zip(system.leaves, given.operands, strict=True))
        kept = self._kept.of(stages, leaves, tensors, self._guard)
        forest = stages.main.plan.forest
        names = [forest.values[n].name for n in range(len(stages.main.leaves) - len(kept))]
        results = stages.main.run([*(leaves[name] for name in names), *kept], guard=self._guard)
        return dict(zip(system.targets, results, strict=True))

    def reset(self, *names: str) -> None:
        """Forget kept values: all, or those that are named or made from the tensors named.

        Args:
            names: Tensors whose elements were written over, or kept values.

        Raises:
            EquationsError: A name is neither.
        """
        known = {*self._wish.system.leaves, *(self._stages.kept if self._stages else ())}
        for name in names:
            if name not in known:
                raise EquationsError(
                    f"{name!r} is neither tensor nor kept value; expected one of "
                    f"{', '.join(map(repr, sorted(known)))}"
                )
        self._kept.drop(names or None)

    def _for(self, given: Given) -> Stages:
        """The plan for some tensors: the last one, if they are like those it was made for."""
        stages, case = self._stages, given.case
        if stages is not None and _serves(stages, case):
            return stages
        with self._planning:
            stages = self._planned(case)
        self._stages = stages
        return stages

    def _known(self) -> Stages:
        if self._stages is None:
            raise EquationsError(
                "the program is not planned yet, since the equations do not tell all extents; call "
                "it first, or give sizes to Equations.parse"
            )
        return self._stages


def _begun(
    equations: Equations, wish: Wish, asked: tuple[str, int], check: Check, guard: Guard | None
) -> Program:
    """The program that a pickle holds; plans, schedules and kernels are made afresh."""
    program = Program.__new__(Program)
    program._begin(equations, replace(wish, engine=engine_of(*asked)), check, guard)
    return program


def _serves(stages: Stages, case: Case) -> bool:
    known = stages.case
    fits = case.operand_bytes <= known.operand_bytes
    return fits and case.layouts == known.layouts and case.work == known.work


def _leaves(stages: Stages, given: Given) -> dict[str, Array | Window]:
    """Each leaf as a run takes it."""
    leaves: dict[str, Array | Window] = dict(stages.constants)
    for number, (name, operand) in enumerate(
        zip(stages.wish.system.leaves, given.operands, strict=True)
    ):
        axes = tuple((axis,) for axis in range(len(operand.shape)))
        leaves[name] = see_operand(operand, number, Access(axes))
    return leaves


def _scheduler(given: Any, policy: BatchPolicy | None) -> BatchScheduler:
    if given is None:
        return BatchScheduler.ORDERED if policy is None else BatchScheduler(policy.scheduler)
    return _word(BatchScheduler, given, "scheduler")


def _word(words: type[Word], given: Any, name: str) -> Word:
    for known in words:
        if known == given:
            return known
    names = " or ".join(repr(known.value) for known in words)
    raise EquationsError(f"{name} is {given!r}; expected {names}")


def _volatile(given: Any, system: System) -> frozenset[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(
            f"volatile is {given!r} of type {type(given).__name__}; expected names of tensors, "
            'such as ["T1", "T2"]'
        )
    names = frozenset(given)
    for name in sorted(names, key=str):
        if name not in system.leaves:
            raise EquationsError(
                f"{name!r} is said to be volatile, and is no tensor that is given; expected one of "
                f"{', '.join(map(repr, system.leaves))}"
            )
    return names


def _iterations(given: Any) -> int:
    number = whole(given, "iterations", expected="a number of calls of at least 1")
    if number < 1:
        raise EquationsError(f"iterations is {number}; expected a number of calls of at least 1")
    return number
