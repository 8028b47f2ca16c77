"""The front door: `einsum` with a byte limit, plan and run in one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from einbound.api.engines import NUMPY, engine_of
from einbound.api.instant import Instant
from einbound.api.limits import limits_of
from einbound.api.operands import as_operand
from einbound.api.optimize import chosen_effort, chosen_path
from einbound.api.options import NO_OPTIONS, current_options
from einbound.api.plan import Array, Plan, ProgressLike
from einbound.api.planning import N_PLANS_KEPT, planned, warn_of
from einbound.api.rules import rules_of
from einbound.api.setting import Setting, out_of, setting_of
from einbound.expr.expression import split_arguments
from einbound.plan.policy import BatchPolicy
from einbound.plan.rules import Objective
from einbound.step.dtypes import check_casting
from einbound.step.memory_order import check_order


def einsum(
    *args: Any,
    out: Array | None = None,
    memory_limit: int | str | None = None,
    workspace_limit: int | str | None = None,
    backend: str | None = None,
    optimize: Any = "auto",
    dtype: DTypeLike | None = None,
    order: str = "K",
    casting: str = "safe",
    progress: ProgressLike = None,
    objective: Objective | str = "time",
    policy: BatchPolicy | None = None,
    tiles: Mapping[Any, Any] | None = None,
) -> Any:
    """The contraction of the operands, within a byte limit.

    Args:
        args: `(text, operand, ...)` or `(operand, labels, ..., [output labels])`, as for
            numpy.einsum; labels may be any hashable values, operands arrays or `Source`s.
        out: Array for the result; it may be strided and may overlap an operand.
        memory_limit: Bound of everything alive at once, operands and result included: bytes,
            "512MiB", "1.5GB", or "80%" of what is available now.
        workspace_limit: Bound of what is neither operand nor result.
        backend: "numpy", "native", "auto" or None, as for `einbound.plan`.
        optimize: As for `einbound.plan`.
        dtype: Dtype to compute in.
        order: Memory order of a new result.
        casting: Which casts are allowed.
        progress: True for a progress bar (needs rich), or a function of (done, total).
        objective: "time" or "space", as for `einbound.plan`.
        policy: Which indices may be batched, as for `einbound.plan`.
        tiles: For a label, the width of its tiles or their boundaries; loops take whole tiles.

    Returns:
        An array; a scalar if the result has no axes; a view where numpy.einsum gives a view.

    Raises:
        ExpressionError: Text, labels or shapes are wrong.
        DTypeError: A dtype cannot be contracted or cast.
        BudgetError: No plan within the limit was found; nothing was allocated.
        BackendError: The backend is not known, or "native" lacks a compiler.

    Law: equal to numpy.einsum in value, dtype and shape (docs/semantics.md lists the policies).

    Example:
        >>> import numpy as np
        >>> a, b = np.ones((2, 3)), np.ones((3, 4))
        >>> einsum("ij,jk->ik", a, b, memory_limit="1 KiB").tolist()
        [[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]]
    """
    usual = (optimize, dtype, order, casting, objective)
    is_plain = type(optimize) is type(objective) is str and usual == _DEFAULTS
    is_plain = is_plain and memory_limit is None and workspace_limit is None
    is_plain = is_plain and policy is None and tiles is None
    options = current_options()
    is_plain = is_plain and (options is NO_OPTIONS or options.is_backend_alone)
    asked = backend if options is NO_OPTIONS else (backend, options)
    if is_plain and out is None and progress is None:
        known = _known_product(args, asked)
        if known is not None:
            return known
    engine = engine_of(backend)
    check_order(order)
    check_casting(casting)
    expression, operands = split_arguments(args)
    arrays = tuple([a if type(a) is np.ndarray else as_operand(a) for a in operands])
    limits = limits_of(memory_limit, workspace_limit)
    setting = setting_of(expression, arrays, limits, dtype=dtype, order=order, casting=casting)
    path, effort = chosen_path(optimize, setting.network), chosen_effort(optimize)
    given, rules = None if out is None else out_of(out, arrays), None
    if policy is not None or tiles is not None or objective != "time":
        rules = rules_of(setting, objective=objective, policy=policy, tiles=tiles)
    if engine is not NUMPY or any(each is not None for each in (path, effort, rules, given)):
        setting = replace(setting, path=path, out=given, rules=rules, effort=effort, engine=engine)
    made = _plan_of(setting)
    if not made.fits:
        warn_of(planned(setting), stacklevel=3)
    if made.instant is not None and out is None and progress is None:
        if is_plain and isinstance(args[0], str):
            _remember((args[0], *[a.shape for a in arrays], asked), made.instant)
        result = made.instant(*arrays)
        if result is not None:
            return result
    return made.run(arrays, out, progress)


_DEFAULTS = ("auto", None, "K", "safe", "time")
#: Products seen with default arguments, by text, shapes and what they were asked to run on.
_PRODUCTS: dict[tuple[Any, ...], Instant] = {}
_MAX_PRODUCTS = 512


@lru_cache(maxsize=N_PLANS_KEPT)
def _plan_of(setting: Setting) -> Plan:
    return Plan(planned(setting))


def _known_product(args: tuple[Any, ...], asked: Any) -> Any:
    """The product of two arrays, if one like it was computed before; else None."""
    try:
        text, a, b = args
        instant = _PRODUCTS.get((text, a.shape, b.shape, asked))
    except (AttributeError, TypeError, ValueError):
        return None
    return None if instant is None else instant(a, b)


def _remember(key: tuple[Any, ...], instant: Instant) -> None:
    if len(_PRODUCTS) >= _MAX_PRODUCTS:
        _PRODUCTS.clear()
    _PRODUCTS[key] = instant
