"""The front door: `einsum` with a byte limit, plan and run in one call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from einbound.api.limits import Limits
from einbound.api.optimize import chosen_path
from einbound.api.plan import Array, Plan, ProgressLike, check_backend
from einbound.api.planning import planned
from einbound.api.setting import check_out, out_of, setting_of
from einbound.expr.expression import split_arguments
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
) -> Any:
    """The contraction of the operands, within a byte limit.

    Args:
        args: `(text, operand, ...)` or `(operand, labels, ..., [output labels])`, as for
            numpy.einsum; labels may be any hashable values.
        out: Array for the result; it may be strided and may overlap an operand.
        memory_limit: Bound of everything alive at once, operands and result included: bytes,
            "512MiB", "1.5GB", or "80%" of what is available now.
        workspace_limit: Bound of what is neither operand nor result.
        backend: "numpy" or None.
        optimize: As for `einbound.plan`.
        dtype: Dtype to compute in.
        order: Memory order of a new result.
        casting: Which casts are allowed.
        progress: True for a progress bar (needs rich), or a function of (done, total).

    Returns:
        An array; a scalar if the result has no axes; a view where numpy.einsum gives a view.

    Raises:
        ExpressionError: Text, labels or shapes are wrong.
        DTypeError: A dtype cannot be contracted or cast.
        BudgetError: No plan within the limit was found; nothing was allocated.

    Law: equal to numpy.einsum in value, dtype and shape (docs/semantics.md lists the policies).

    Example:
        >>> import numpy as np
        >>> a, b = np.ones((2, 3)), np.ones((3, 4))
        >>> einsum("ij,jk->ik", a, b, memory_limit="1 KiB").tolist()
        [[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]]
    """
    check_backend(backend)
    expression, operands = split_arguments(args)
    arrays = [np.asarray(operand) for operand in operands]
    check_order(order)
    check_casting(casting)
    setting = setting_of(
        expression,
        arrays,
        Limits.parse(memory_limit, workspace_limit),
        dtype=dtype,
        order=order,
        casting=casting,
    )
    network = setting.network()
    if out is not None:
        check_out(out, network)
        setting = replace(setting, out=out_of(out, arrays))
    path = chosen_path(optimize, network)
    made = planned(replace(setting, path=path))
    return Plan(made)(*arrays, out=out, progress=progress)
