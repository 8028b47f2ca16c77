"""Which dtype a contraction computes in and returns, by numpy.einsum's rules.

One common dtype for all operands is fixed first, so that the answer does not depend on the order
of contraction. Nothing here casts; arrays are not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import DTypeLike

from einbound.errors import DTypeError

Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]

#: Kinds of dtype that einsum multiplies and adds: bool, integers, floats, complex, objects.
_KINDS = frozenset("biufcO")
_TAKEN = "einsum takes bool, integer, float, complex and object"


@dataclass(frozen=True, slots=True)
class Dtypes:
    """The dtypes of one contraction.

    Attributes:
        operands: Dtype of each operand as given.
        work: Dtype of every intermediate and of all sums, in native byte order: the common dtype,
            or float32 where that is float16.
        result: Dtype of the result: the common dtype, or that of `out`.
    """

    operands: tuple[np.dtype, ...]
    work: np.dtype
    result: np.dtype

    @property
    def has_known_bytes(self) -> bool:
        """Whether the elements take no memory besides the arrays; False with objects."""
        return not any(dtype.hasobject for dtype in (*self.operands, self.work, self.result))


def resolve(
    operand_dtypes: Sequence[np.dtype],
    dtype: DTypeLike | None = None,
    casting: str = "safe",
    out_dtype: np.dtype | None = None,
) -> Dtypes:
    """The dtypes that numpy.einsum would compute in and return.

    Args:
        operand_dtypes: Dtype of each operand; at least one.
        dtype: Dtype to compute in; None for the common dtype of the operands and `out`.
        casting: Which casts of operands to the common dtype, and between it and `out`, are fine.
        out_dtype: Dtype of `out`, if there is one.

    Raises:
        DTypeError: A dtype cannot be contracted, or a cast is not allowed by `casting`.
        ValueError: `casting` is none of numpy's rules.

    Example:
        >>> resolve([np.dtype("float16"), np.dtype("int8")]).work
        dtype('float32')
    """
    rule = check_casting(casting)
    given = tuple([np.dtype(each) for each in operand_dtypes])
    if out_dtype is not None and out_dtype.kind not in _KINDS:
        raise DTypeError(f"out has dtype {out_dtype}; {_TAKEN}; give an out of one of these")
    if dtype is None:
        common = _common(given, out_dtype)
        returned = common
    else:
        returned = np.dtype(dtype)
        common = returned.newbyteorder("=")
        if common.kind not in _KINDS:
            raise DTypeError(f"dtype is {returned}; {_TAKEN}; give one of these")
    for number, each in enumerate(given):
        _check_cast(each, common, rule, f"operand {number} has dtype {each}", "is computed in")
    if out_dtype is not None:
        # numpy opens `out` for reading and writing, so the cast must be allowed both ways.
        _check_cast(out_dtype, common, rule, f"out has dtype {out_dtype}", "is computed in")
        _check_cast(common, out_dtype, rule, f"the result has dtype {common}", "goes to out of")
        returned = out_dtype
    work = np.dtype(np.float32) if common == np.float16 else common
    return Dtypes(given, work, returned)


def check_casting(casting: str) -> Casting:
    """`casting`, if it is one of numpy's rules.

    Raises:
        TypeError: `casting` is no text.
        ValueError: `casting` is another text.
    """
    rules: tuple[Casting, ...] = get_args(Casting)
    if not isinstance(casting, str):
        raise TypeError(
            f"casting is {casting!r} of type {type(casting).__name__}; expected one of "
            f"{', '.join(map(repr, rules))}"
        )
    for rule in rules:
        if rule == casting:
            return rule
    raise ValueError(f"casting is {casting!r}; expected one of {', '.join(map(repr, rules))}")


def _common(given: tuple[np.dtype, ...], out_dtype: np.dtype | None) -> np.dtype:
    for number, each in enumerate(given):
        if each.kind not in _KINDS:
            raise DTypeError(f"operand {number} has dtype {each}; {_TAKEN}; convert it first")
    # numpy.result_type takes 64 arguments; einsum here takes any number of operands.
    distinct = dict.fromkeys(given if out_dtype is None else (*given, out_dtype))
    return np.result_type(*distinct)


def _check_cast(source: np.dtype, target: np.dtype, rule: Casting, what: str, how: str) -> None:
    if not np.can_cast(source, target, rule):
        raise DTypeError(
            f"{what} and {how} {target}, which casting={rule!r} does not allow; "
            "convert it first, or give a dtype or a casting that allows it"
        )
