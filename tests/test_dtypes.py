"""Dtypes are numpy.einsum's, sums in half precision aside, which are kept in single."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from einbound.errors import DTypeError
from einbound.step.dtypes import check_casting, resolve

NAMES = [*"?bBheflqQgFDO", ">f8", ">i4"]
RULES = ["no", "equiv", "safe", "same_kind", "unsafe"]
REFUSED = ["M8[s]", "m8[s]", "S3", "U3", "V4", [("a", "f8")]]
TAKEN = "einsum takes bool, integer, float, complex and object"

names = st.sampled_from(NAMES)


def numpys_dtype(given_names: list[str], **keywords: Any) -> np.dtype | None:
    """The dtype that numpy.einsum returns, None where it raises a TypeError."""
    operands = [np.ones((2, 2)).astype(name) for name in given_names]
    text = ",".join(["ij"] * len(operands)) + "->i"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # casts that lose the imaginary part
        try:
            found: np.dtype = np.einsum(text, *operands, **keywords).dtype
            return found
        except TypeError:
            return None


@settings(max_examples=500)
@given(
    st.lists(names, min_size=1, max_size=3),
    st.none() | names,
    st.sampled_from(RULES),
    st.none() | names,
)
def test_results_and_refusals_are_numpys(
    given_names: list[str], dtype: str | None, casting: str, out: str | None
) -> None:
    used = {*given_names, dtype, out}
    # Whether an object becomes a real number depends on its value: complex ones raise.
    assume("O" not in used or used.isdisjoint("FD"))
    keywords: dict[str, Any] = {} if out is None else {"out": np.ones(2).astype(out)}
    expected = numpys_dtype(given_names, dtype=dtype, casting=casting, **keywords)
    operands = [np.dtype(name) for name in given_names]
    out_dtype = None if out is None else np.dtype(out)
    if expected is None:
        with pytest.raises(DTypeError, match=f"which casting='{casting}' does not allow"):
            resolve(operands, dtype, casting, out_dtype)
    else:
        assert resolve(operands, dtype, casting, out_dtype).result == expected


@given(st.lists(names, min_size=1, max_size=4))
def test_work_is_native_and_never_half(given_names: list[str]) -> None:
    found = resolve([np.dtype(name) for name in given_names])
    assert found.work.isnative
    assert found.work != np.float16
    assert found.result.isnative
    assert found.work == (np.float32 if found.result == np.float16 else found.result)


def test_the_common_dtype_does_not_depend_on_the_order_of_operands() -> None:
    kinds = [np.dtype(name) for name in ("i1", "u2", "f2")]
    assert resolve(kinds).work == resolve(kinds[::-1]).work == np.float32
    assert resolve([np.dtype("i4"), np.dtype("f4")]).work == np.float64


def test_out_takes_part_in_the_common_dtype() -> None:
    narrow = [np.dtype("i2")] * 2
    assert resolve(narrow, out_dtype=np.dtype("i8")).work == np.int64
    assert resolve(narrow, out_dtype=np.dtype("f4")).work == np.float32


def test_a_given_dtype_is_worked_in_and_goes_to_out() -> None:
    found = resolve([np.dtype("i1")], dtype="f8", casting="unsafe", out_dtype=np.dtype("i1"))
    assert found.work == np.float64
    assert found.result == np.int8


def test_a_byte_order_that_is_asked_for_is_only_the_results() -> None:
    found = resolve([np.dtype("f8")], dtype=">f8")
    assert found.result == np.dtype(">f8")
    assert found.work.isnative


def test_hundreds_of_operands_have_a_common_dtype() -> None:
    assert resolve([np.dtype("f4")] * 300 + [np.dtype("c8")]).work == np.complex64


def test_objects_take_memory_that_is_not_known() -> None:
    assert not resolve([np.dtype("O"), np.dtype("f8")]).has_known_bytes
    assert not resolve([np.dtype("O")], dtype="f8", casting="unsafe").has_known_bytes
    assert resolve([np.dtype("f8")]).has_known_bytes


@pytest.mark.parametrize("name", REFUSED, ids=str)
def test_an_operand_without_arithmetic_is_named(name: Any) -> None:
    dtype = np.dtype(name)
    with pytest.raises(DTypeError) as caught:
        resolve([np.dtype("f8"), dtype])
    assert str(caught.value) == f"operand 1 has dtype {dtype}; {TAKEN}; convert it first"


def test_variable_length_text_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"^operand 0 has dtype StringDType\(\); einsum takes"):
        resolve([np.dtypes.StringDType()])


def test_a_dtype_and_an_out_without_arithmetic_are_named() -> None:
    with pytest.raises(DTypeError, match=rf"^dtype is <U3; {TAKEN}; give one of these$"):
        resolve([np.dtype("f8")], dtype="U3", casting="unsafe")
    with pytest.raises(DTypeError, match=rf"^out has dtype \|V4; {TAKEN}; give an out of one of"):
        resolve([np.dtype("f8")], out_dtype=np.dtype("V4"))


REMEDY = "convert it first, or give a dtype or a casting that allows it"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"dtype": "f4"},
            "operand 1 has dtype float64 and is computed in float32, which casting='safe' does not "
            f"allow; {REMEDY}",
        ),
        (
            {"out_dtype": np.dtype("f4"), "casting": "safe"},
            "the result has dtype float64 and goes to out of float32, which casting='safe' does "
            f"not allow; {REMEDY}",
        ),
        (
            {"out_dtype": np.dtype("c16"), "dtype": "f8", "casting": "same_kind"},
            "out has dtype complex128 and is computed in float64, which casting='same_kind' does "
            f"not allow; {REMEDY}",
        ),
    ],
    ids=["operand", "result", "out"],
)
def test_a_cast_that_is_not_allowed_is_told_in_full(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(DTypeError, match=f"^{message}$"):
        resolve([np.dtype("f4"), np.dtype("f8")], **arguments)


@pytest.mark.parametrize("casting", ["blah", "same_value", ""])
def test_an_unknown_casting_is_refused(casting: str) -> None:
    message = f"^casting is '{casting}'; expected one of 'no', 'equiv', 'safe', 'same_kind', 'unsaf"
    with pytest.raises(ValueError, match=message):
        check_casting(casting)


def test_a_casting_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^casting is None of type NoneType; expected one of 'no'"):
        check_casting(None)  # type: ignore[arg-type]
