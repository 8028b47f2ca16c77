"""One matrix product, as much of it as the choice of a kernel depends on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from math import prod
from typing import Protocol

from einbound.errors import KernelError
from einbound.kernels.groups import Groups
from einbound.kernels.kinds import chosen
from einbound.kernels.problem_fields import (
    check_epilogue,
    checked_extent,
    checked_extents,
    checked_flag,
    checked_operands,
    checked_precision,
    checked_strides,
)
from einbound.kernels.product import Product
from einbound.machine.precision import Precision
from einbound.step.blocked import Way
from einbound.step.pair import Pair

#: Why no tail can be fused where nothing else is said.
NO_TAIL = "no elementwise step reads this product alone"


class Counted(Protocol):
    """A step of a plan as a meter counts it."""

    @property
    def way(self) -> Way | None:
        """How it is done; None: it does not run."""


class BLayout(StrEnum):
    """How the second operand lies in memory."""

    PLAIN = "plain"
    TRANSPOSED = "transposed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulProblem:
    """C[m, n] += sum over k of A[m, k] B[k, n], for every element of a batch.

    Extents are Python integers of any size, at least 1. Formats and layouts may be given as text,
    `batch` and `outer_k` as one number, `hoistable` as any collection of "A" and "B".

    Attributes:
        m: Rows of the result.
        n: Columns of the result.
        k: The innermost contracted extent.
        batch: Extents of batch loops, outermost first.
        outer_k: Extents of contracted loops around `k`, outermost first.
        a_dtype: Format in which A is stored.
        b_dtype: Format in which B is stored.
        out_dtype: Format in which C is stored.
        b_layout: How B lies in memory.
        hoistable: Operands ("A", "B") that are persistent, packed once when a plan is prepared.
        epilogue: Name of an elementwise tail with this product as its only reader; None: none.
        epilogue_reason: Why there is none; None: nothing is to be said.
        zeroed: Whether C is set to zero in the same routine.
        a_strides: Elements between neighbours along m and k; None: contiguous.
        b_strides: The same along k and n.
        c_strides: The same along m and n.
        groups: The axes of which batch, m, n and k are made, with all strides; those above are
            then the innermost ones of these. None: one axis each.

    Example:
        >>> problem = MatmulProblem(m=64, n=32, k=16, batch=4, a_dtype="f16", hoistable="B")
        >>> print(problem)
        4 x (64 x 32 x 16) float16 float32 -> float32, B plain, hoistable B
    """

    m: int
    n: int
    k: int
    batch: tuple[int, ...] = ()
    outer_k: tuple[int, ...] = ()
    a_dtype: Precision = Precision.FLOAT32
    b_dtype: Precision = Precision.FLOAT32
    out_dtype: Precision = Precision.FLOAT32
    b_layout: BLayout = BLayout.PLAIN
    hoistable: frozenset[str] = frozenset()
    epilogue: str | None = None
    epilogue_reason: str | None = None
    zeroed: bool = False
    a_strides: tuple[int, int] | None = None
    b_strides: tuple[int, int] | None = None
    c_strides: tuple[int, int] | None = None
    groups: Groups | None = None

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            object.__setattr__(self, name, checked_extent(name, getattr(self, name)))
        for name in ("batch", "outer_k"):
            object.__setattr__(self, name, checked_extents(name, getattr(self, name)))
        for name in ("a_dtype", "b_dtype", "out_dtype"):
            object.__setattr__(self, name, checked_precision(name, getattr(self, name)))
        object.__setattr__(self, "b_layout", chosen(BLayout, self.b_layout, "b_layout"))
        object.__setattr__(self, "hoistable", checked_operands(self.hoistable))
        check_epilogue(self.epilogue, self.epilogue_reason)
        checked_flag("zeroed", self.zeroed)
        if self.groups is not None:
            object.__setattr__(self, "groups", Groups.of(self.groups))
            _check_groups(self, self.groups)
        for name in ("a_strides", "b_strides", "c_strides"):
            given = getattr(self if self.groups is None else self.groups, name)
            object.__setattr__(self, name, None if given is None else checked_strides(name, given))
        _check_layout(self)

    @classmethod
    def from_step(
        cls,
        step: Pair | Way | Counted,
        *,
        hoistable: Iterable[str] = (),
        epilogue: str | None = None,
        epilogue_reason: str | None = None,
    ) -> MatmulProblem:
        """The problem that one step of a plan poses to a kernel.

        Args:
            step: A step of a plan, `plan.meter().steps[number]`, the way in which that would be
                done without a kernel, or its fused axes alone.
            hoistable: Operands ("A", "B") that do not change between evaluations.
            epilogue: Name of an elementwise tail of the step, if it has one.
            epilogue_reason: Why it has none.

        Raises:
            KernelError: The step is no matrix product, or its elements are no numbers that kernels
                know; the message says what it is.

        Example:
            >>> import einbound as eb
            >>> plan = eb.plan("bik,bkj->bij", (3, 8, 4), (3, 4, 6))
            >>> MatmulProblem.from_step(plan.meter().steps[0]).macs
            576
        """
        way = step if isinstance(step, Pair | Way) else getattr(step, "way", None)
        if not isinstance(way, Pair | Way):
            raise KernelError(
                f"{step!r} is no step that runs; expected one of a plan, for example "
                "plan.meter().steps[0]"
            )
        pair = way.pair if isinstance(way, Way) else way
        product = Product.of(pair)
        groups, (a, b, c) = product.groups, product.dtypes
        *outer_k, k = (axis.extent for axis in groups.k)
        return cls(
            m=prod(axis.extent for axis in groups.m),
            n=prod(axis.extent for axis in groups.n),
            k=k,
            batch=tuple(axis.extent for axis in groups.batch),
            outer_k=tuple(outer_k),
            a_dtype=a,
            b_dtype=b,
            out_dtype=c,
            b_layout=BLayout(groups.b_layout),
            hoistable=frozenset(hoistable),
            epilogue=epilogue,
            epilogue_reason=epilogue_reason,
            zeroed=not (isinstance(way, Way) and way.accumulate),
            groups=groups,
        )

    @property
    def n_batch(self) -> int:
        """Number of products."""
        return prod(self.batch)

    @property
    def depth(self) -> int:
        """Terms of each sum: the extents of all contracted loops, multiplied."""
        return self.k * prod(self.outer_k)

    @property
    def macs(self) -> int:
        """Multiply-adds of all products."""
        return self.m * self.n * self.depth * self.n_batch

    @property
    def unfused_because(self) -> str:
        """Why the epilogue cannot be fused, where there is none."""
        return self.epilogue_reason or NO_TAIL

    @property
    def canonical(self) -> MatmulProblem:
        """The same problem without what no kernel can tell: loops of one trip, strides of one.

        Law: it is its own canonical form and has as many multiply-adds
        (tests/test_problem.py).
        """
        depth = tuple(n for n in (*self.outer_k, self.k) if n > 1) or (1,)
        is_told = self.groups is not None or (self.a_strides is None and self.b_strides is None)
        if not is_told and self.k == 1:
            # Strides along another loop than k are not known.
            depth = (*depth, 1)
        kept = replace(
            self,
            batch=tuple(n for n in self.batch if n > 1),
            outer_k=depth[:-1],
            k=depth[-1],
            epilogue_reason=None,
            groups=self.groups and self.groups.without_units,
        )
        if not _is_simple(kept):
            return kept
        a, b, c = (_told(kept, name) for name in ("a_strides", "b_strides", "c_strides"))
        return replace(kept, groups=None, a_strides=a, b_strides=b, c_strides=c)

    @property
    def key(self) -> str:
        """Text that is equal for problems with equal canonical forms."""
        return self.canonical.to_json()

    def to_json(self) -> str:
        """The record as one line of text that `from_json` reads; defaults are left out."""
        data = {k: v for k, v in asdict(self).items() if v != _DEFAULTS.get(k)}
        if self.hoistable:
            data["hoistable"] = sorted(self.hoistable)
        return json.dumps(data, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> MatmulProblem:
        """The record in `text`.

        Raises:
            KernelError: It is no JSON, or a field is missing, not known or makes no sense.

        Example:
            >>> MatmulProblem.from_json('{"m": 2, "n": 3, "k": 4}').macs
            24
        """
        try:
            data = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise KernelError(f"a problem is no JSON: {error}; give what to_json wrote") from None
        names = [field.name for field in fields(cls)]
        if not isinstance(data, dict) or not {"m", "n", "k"} <= set(data) <= set(names):
            raise KernelError(
                f"{text!r} is no problem; expected an object with m, n, k and others of "
                f"{', '.join(names)}"
            )
        return cls(**data)

    def __str__(self) -> str:
        batch = f"{'*'.join(map(str, self.batch))} x " if self.batch else ""
        depth = "*".join(map(str, (*self.outer_k, self.k)))
        parts = [f"B {self.b_layout}"]
        if self.hoistable:
            parts.append(f"hoistable {' '.join(sorted(self.hoistable))}")
        if self.epilogue:
            parts.append(f"then {self.epilogue}")
        formats = f"{self.a_dtype} {self.b_dtype} -> {self.out_dtype}"
        return f"{batch}({self.m} x {self.n} x {depth}) {formats}, {', '.join(parts)}"


_DEFAULTS = {field.name: field.default for field in fields(MatmulProblem)}


def _check_groups(problem: MatmulProblem, groups: Groups) -> None:
    """Nothing, if the axes of the groups make the extents of the problem.

    Raises:
        KernelError: They make others.
    """
    depth = (*problem.outer_k, problem.k)
    if (
        prod(axis.extent for axis in groups.m) != problem.m
        or prod(axis.extent for axis in groups.n) != problem.n
        or tuple(axis.extent for axis in groups.k) != depth
        or tuple(axis.extent for axis in groups.batch) != problem.batch
    ):
        raise KernelError(
            f"the groups are {groups}; expected axes that make batch {problem.batch}, "
            f"m {problem.m}, n {problem.n} and k {depth}"
        )


def _check_layout(problem: MatmulProblem) -> None:
    """Nothing, if the strides of B are those of its layout.

    Raises:
        KernelError: They are not.
    """
    if problem.b_strides is None or problem.b_layout is BLayout.UNKNOWN:
        return
    is_plain = problem.b_layout is BLayout.PLAIN
    extent = problem.n if is_plain else problem.k
    if extent > 1 and problem.b_strides[1 if is_plain else 0] != 1:
        raise KernelError(
            f"b_layout is {str(problem.b_layout)!r} and b_strides are {problem.b_strides}; "
            f"expected a stride of 1 along {'n' if is_plain else 'k'}, or another b_layout"
        )


def _is_simple(problem: MatmulProblem) -> bool:
    """Whether strides along m, n and k tell all that the groups do."""
    groups = problem.groups
    if groups is None:
        return True
    return not groups.batch and max(map(len, (groups.m, groups.n, groups.k))) == 1


def _told(problem: MatmulProblem, name: str) -> tuple[int, int] | None:
    """Strides that are not those of rows that lie one after the other; else None."""
    depth = problem.k * prod(problem.outer_k)
    m, n, k = problem.m, problem.n, problem.k
    by_layout = {BLayout.PLAIN: (n, 1), BLayout.TRANSPOSED: (1, depth)}
    extents, usual = {
        "a_strides": ((m, k), (depth, 1)),
        "b_strides": ((k, n), by_layout.get(problem.b_layout)),
        "c_strides": ((m, n), (n, 1)),
    }[name]
    given = getattr(problem, name)
    if given is None or usual is None:
        return given  # type: ignore[no-any-return]
    # Along an axis of one element nothing is stepped.
    same = all(x == y or n == 1 for x, y, n in zip(given, usual, extents, strict=True))
    return None if same else given
