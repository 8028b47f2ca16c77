"""Text and labels mean what numpy.einsum takes them to mean; errors point at the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from einbound.errors import ExpressionError
from einbound.expr.expression import Expression, parse, parse_interleaved, split_arguments
from einbound.expr.index import EllipsisLabel, Index, Operand
from einbound.expr.network import Access, Network
from einbound.expr.subscripts import Term
from strategies import Call, calls, networks, texts


def bound(text: str, *shapes: tuple[int, ...]) -> Network:
    return parse(text, len(shapes)).bind(shapes)


def error_of(call: Callable[[], object]) -> Any:
    """The error that a call raises because of its values, or None."""
    try:
        call()
    except ValueError as error:
        return error
    return None


def plain_views(network: Network, operands: list[np.ndarray]) -> list[Any]:
    """Operands and integer labels for numpy, made from the accesses alone."""
    arguments: list[Any] = []
    for indices, access, array in zip(network.inputs, network.accesses, operands, strict=True):
        labels = [0] * array.ndim
        for index, axes in zip(indices, access.axes, strict=True):
            for axis in axes:
                labels[axis] = index
        kept = [axis for axis in range(array.ndim) if axis not in access.dropped]
        arguments += [array.squeeze(access.dropped), [labels[axis] for axis in kept]]
    return [*arguments, list(network.output)]


@settings(max_examples=400)
@given(calls())
def test_a_bound_network_computes_what_numpy_computes(call: Call) -> None:
    operands = call.arrays()
    expected = np.einsum(call.text, *operands)
    network = bound(call.text, *call.shapes)
    assert network.result_shape == expected.shape
    np.testing.assert_array_equal(np.einsum(*plain_views(network, operands)), expected)


@settings(max_examples=200)
@given(calls())
def test_every_axis_is_accounted_for_once(call: Call) -> None:
    network = bound(call.text, *call.shapes)
    for access, shape in zip(network.accesses, call.shapes, strict=True):
        axes = [axis for each in access.axes for axis in each]
        assert sorted([*axes, *access.dropped]) == list(range(len(shape)))
        assert all(shape[axis] == 1 for axis in access.dropped)


@given(calls())
def test_the_printed_expression_parses_to_itself(call: Call) -> None:
    expression = parse(call.text, len(call.shapes))
    assert parse(str(expression), len(call.shapes)) == expression


@given(networks())
def test_networks_without_diagonals_keep_the_order_of_the_axes(network: Network) -> None:
    for indices, access in zip(network.inputs, network.accesses, strict=True):
        assert access == Access(tuple((axis,) for axis in range(len(indices))))


@settings(max_examples=500)
@given(texts, st.integers(0, 3))
def test_every_refused_text_is_marked_inside_the_text(text: str, n_operands: int) -> None:
    error = error_of(lambda: parse(text, n_operands))
    if error is not None:
        assert error.text == text
        assert error.spans
        assert all(0 <= start <= stop <= len(text) for start, stop in error.spans)


@settings(max_examples=300)
@given(calls(max_operands=3), st.data())
def test_every_refused_shape_is_marked_inside_the_text(call: Call, data: st.DataObject) -> None:
    shape = st.lists(st.integers(0, 3), max_size=4).map(tuple)
    shapes = data.draw(st.tuples(*[shape for _ in call.shapes]))
    numpys_error = error_of(lambda: np.einsum(call.text, *[np.ones(each) for each in shapes]))
    error = error_of(lambda: bound(call.text, *shapes))
    assert (error is None) == (numpys_error is None)
    if error is not None:
        assert isinstance(error, ExpressionError)
        assert error.spans
        assert all(0 <= start <= stop <= len(call.text) for start, stop in error.spans)


# --- what is accepted


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("ij,jk", "ik"),
        ("ba", "ab"),
        ("ij,jh", "hi"),
        ("bA", "Ab"),
        ("ii", ""),
        ("i...j,j", "...i"),
        ("", ""),
        (",", ""),
    ],
)
def test_the_implicit_output_sorts_the_labels_that_occur_once(text: str, output: str) -> None:
    assert str(parse(text, text.count(",") + 1)).partition("->")[2] == output


@pytest.mark.parametrize(
    "text",
    [" i j , j k -> i k ", "ij,jk- >ik", "i\tj,\njk->ik", "ij,jk->ik\n"],
)
def test_whitespace_is_ignored_everywhere(text: str) -> None:
    assert parse(text, 2) == parse("ij,jk->ik", 2)


def test_whitespace_may_stand_inside_an_ellipsis() -> None:
    assert parse(". . . i -> . ..", 1) == parse("...i->...", 1)


def test_any_letter_digit_or_symbol_outside_ascii_is_a_label() -> None:
    assert parse("é1,1_,_漢->é漢", 3).output.labels == ("é", "漢")


def test_two_hundred_labels_and_operands_are_taken() -> None:
    labels = [chr(192 + k) for k in range(201)]
    text = ",".join(a + b for a, b in pairwise(labels))
    network = bound(f"{text}->{labels[0]}{labels[-1]}", *[(2, 2)] * 200)
    assert len(network.labels) == 201
    assert network.result_shape == (2, 2)


def test_any_hashable_is_an_interleaved_label() -> None:
    expression, operands = split_arguments((2.0, [("mu", 1), "x"], 3.0, ["x", None], [None]))
    assert operands == (2.0, 3.0)
    assert expression.terms == (Term((("mu", 1), "x")), Term(("x", None)))
    assert expression.output == Term((None,))


def test_interleaved_integers_sort_by_value() -> None:
    assert parse_interleaved([[26, 0]], None).output.labels == (0, 26)
    assert parse_interleaved([[100, 20, 3]], None).output.labels == (3, 20, 100)


def test_labels_that_do_not_sort_stay_in_order_of_appearance() -> None:
    assert parse_interleaved([["b", 1], ["a"]], None).output.labels == ("b", 1, "a")


def test_numpy_integers_are_the_same_labels_as_integers() -> None:
    expression = parse_interleaved([np.array([3, 1]), [np.int64(1), np.int8(5)]], None)
    assert expression == parse_interleaved([[3, 1], (1, 5)], None)
    assert all(type(label) is int for term in expression.terms for label in term.labels)


def test_an_interleaved_ellipsis_is_an_ellipsis() -> None:
    assert parse_interleaved([[..., "i"], ["i"]], [...]) == parse("...i,i->...", 2)


def test_text_arguments_are_the_text_and_the_operands() -> None:
    assert split_arguments(("i,i->", 1, 2)) == (parse("i,i->", 2), (1, 2))


def test_an_output_ellipsis_without_dimensions_is_taken() -> None:
    assert bound("i->i...", (3,)).result_shape == (3,)


# --- sizes


def test_size_one_broadcasts_in_either_order() -> None:
    network = bound("ij,j", (1, 4), (1,))
    assert network.extents == (1, 4)
    assert network.inputs == ((0, 1), ())
    assert network.accesses[1] == Access((), (0,))
    assert bound("j,ij", (1,), (1, 4)).result_shape == (1,)
    assert bound("i,i->i", (1,), (5,)).result_shape == (5,)


def test_size_one_broadcasts_to_zero() -> None:
    assert bound("i,i->i", (1,), (0,)).result_shape == (0,)
    assert bound("i,i->i", (0,), (1,)).result_shape == (0,)


def test_extent_one_everywhere_stays_an_index() -> None:
    assert bound("i,i->i", (1,), (1,)).inputs == ((0,), (0,))


def test_a_repeated_label_is_one_index_on_several_axes() -> None:
    network = bound("iji->ij", (3, 2, 3))
    assert network.inputs == ((0, 1),)
    assert network.accesses == (Access(((0, 2), (1,))),)


def test_a_diagonal_of_ones_broadcasts_as_a_whole() -> None:
    network = bound("ii,i->i", (1, 1), (3,))
    assert network.inputs == ((), (0,))
    assert network.accesses[0] == Access((), (0, 1))


def test_ellipsis_dimensions_align_at_the_right() -> None:
    network = bound("i...,...->...i", (2, 3, 4), (4,))
    assert network.result_shape == (3, 4, 2)
    assert [str(label) for label in network.labels] == ["i", "...0", "...1"]
    assert network.inputs == ((0, 1, 2), (2,))


def test_sizes_beyond_64_bits_are_exact() -> None:
    size: Any = np.int64(2**40)
    network = bound("ij,jk->ik", (size, size), (size, size))
    assert network.size(network.output) == 2**80


def test_records_are_plain_values() -> None:
    index = Index("a", 4)
    assert index.tiles is None
    assert Operand(0, (index,), np.dtype("f8")).indices == (index,)
    assert EllipsisLabel(1) == EllipsisLabel(1)


# --- refused texts: message and marks


def refusal(text: str, *shapes: tuple[int, ...]) -> str:
    with pytest.raises(ExpressionError) as caught:
        bound(text, *shapes)
    return str(caught.value)


LABELS = (
    "is not a label; expected a letter, a digit, '_' or a character outside ASCII, and three dots "
    "for an ellipsis"
)
ARROW = "is not part of an arrow; write '->' before the output"
ELLIPSES = "has 2 ellipses; a term takes one at most"
DOT = "a dot is not part of an ellipsis; an ellipsis is three dots, '...'"
COUNT = "expected one term per operand, separated by commas"
RANK = "expected one label per dimension"
EXTRA = "; add '...' to its term to broadcast the rest"
REPEATED = (
    "repeated output labels are unsupported; name it once and place the result on a diagonal "
    "afterwards"
)
DROPPED = "add '...' to the output, or give these dimensions labels to sum them"

REFUSED = [
    ("i%...", " ^", [(2,)], f"'%' {LABELS}"),
    ("i…", " ^", [(2,)], f"'…' {LABELS}"),
    ("i-j", " ^", [(2,)], f"'-' {ARROW}"),
    ("ij>i", "  ^", [(2, 2)], f"'>' {ARROW}"),
    ("i - > j ->", "  ^^^   ^^", [(2,)], "the text has 2 arrows; write '->' once at most"),
    (".i...", "^", [(2,)], DOT),
    ("j->..j", "   ^^", [(2,)], DOT),
    ("a....", " ^^^^", [(2,)], DOT),
    ("i,...a...", "  ^^^ ^^^", [(2,)], f"the term '...a...' {ELLIPSES}"),
    ("i->i,", "    ^", [(2,)], "the output has a comma; the output is one term, without commas"),
    ("ij, jk", "    ^^", [(2, 2)], f"the expression has 2 terms for 1 operand; {COUNT}"),
    ("ij->", "  ^", [(2, 2)] * 3, f"the expression has 1 term for 3 operands; {COUNT}"),
    (
        "i->i b",
        "     ^",
        [(2,)],
        "output label 'b' is in no operand; expected labels of the operands (i)",
    ),
    ("i->ii", "   ^^", [(2,)], f"output label 'i' appears 2 times; {REPEATED}"),
    (
        "ij,jk->ik",
        " ^ ^",
        [(2, 8), (6, 3)],
        "index 'j' has size 8 in operand 0 and 6 in operand 1; sizes must agree or be 1",
    ),
    (
        "i, i, i",
        "   ^  ^",
        [(1,), (2,), (3,)],
        "index 'i' has size 2 in operand 1 and 3 in operand 2; sizes must agree or be 1",
    ),
    (
        "...i, j ...",
        "^^^     ^^^",
        [(2, 4), (3, 5)],
        "index ...0 has size 2 in operand 0 and 5 in operand 1; sizes must agree or be 1",
    ),
    (
        "iji",
        "^ ^",
        [(1, 2, 3)],
        "index 'i' has sizes 1 and 3 in operand 0; a label that is repeated takes the diagonal, so "
        "these sizes must be equal",
    ),
    ("ij", " ^", [(2, -1)], "index 'j' has size -1 in operand 0; sizes must be 0 or more"),
    (
        "ij",
        "^^",
        [(2,)],
        f"operand 0 of shape (2,) has 1 dimension and its term 'ij' takes 2; {RANK}",
    ),
    (
        "i, j",
        "   ^",
        [(2,), (2, 3)],
        f"operand 1 of shape (2, 3) has 2 dimensions and its term 'j' takes 1; {RANK}{EXTRA}",
    ),
    (
        "i...j",
        "^^^^^",
        [(2,)],
        f"operand 0 of shape (2,) has 1 dimension and its term 'i...j' takes 2 or more; {RANK}",
    ),
    (
        "i... -> i",
        " ^^^    ^",
        [(2, 3, 4)],
        "the output has no '...' and would drop the dimensions that '...' stands for (...0 of size "
        f"3, ...1 of size 4); {DROPPED}",
    ),
]


@pytest.mark.parametrize(("text", "marks", "shapes", "message"), REFUSED)
def test_a_refusal_says_what_was_expected_and_points_at_it(
    text: str, marks: str, shapes: list[tuple[int, ...]], message: str
) -> None:
    assert refusal(text, *shapes) == f"{message}\n    {text}\n    {marks}"


def test_marks_stay_below_their_text_across_line_breaks() -> None:
    assert refusal("i,\nj%", (2,), (2,)).splitlines()[1:] == ["    i, j%", "        ^"]


def test_interleaved_refusals_name_operand_label_and_sizes() -> None:
    expression = parse_interleaved([["a", 7], [7]], None)
    message = "index 7 has size 2 in operand 0 and 3 in operand 1; sizes must agree or be 1"
    with pytest.raises(ExpressionError, match=f"^{message}$") as caught:
        expression.bind([(2, 2), (3,)])
    assert caught.value.text is None
    assert caught.value.spans == ()


def test_an_expression_is_bound_to_as_many_shapes_as_it_has_terms() -> None:
    message = f"the expression has 1 term for 2 operands; {COUNT}"
    with pytest.raises(ExpressionError, match=f"^{message}$"):
        parse_interleaved([["a"]], None).bind([(2,), (2,)])


@pytest.mark.parametrize(
    ("arguments", "n"),
    [((), "0 arguments"), ((3.0,), "1 argument")],
    ids=["nothing", "one operand"],
)
def test_arguments_without_labels_are_refused(arguments: tuple[Any, ...], n: str) -> None:
    message = (
        f"einsum was given {n} and no text; expected the subscripts as text and then the "
        "operands, or operands that are each followed by a list of labels"
    )
    with pytest.raises(ExpressionError, match=f"^{message}$"):
        split_arguments(arguments)


@pytest.mark.parametrize("labels", [0, "ij", {1, 2}, None])
def test_labels_that_are_no_sequence_are_a_type_error(labels: Any) -> None:
    message = re.escape(
        f"the labels of operand 1 are {labels!r} of type {type(labels).__name__}; expected a list "
        "or a tuple of labels; or give the subscripts as text in the first argument"
    )
    with pytest.raises(TypeError, match=f"^{message}$"):
        split_arguments((1.0, [], 2.0, labels))


def test_an_unhashable_label_is_a_type_error() -> None:
    message = (
        r"^a label of operand 0 is \[1\] of type list; expected hashable labels such as integers "
        "or text$"
    )
    with pytest.raises(TypeError, match=message):
        parse_interleaved([[[1], 2]], None)  # type: ignore[list-item]  # what is tested


def test_two_interleaved_ellipses_are_refused() -> None:
    message = "^the labels of the output have 2 ellipses; expected one at most$"
    with pytest.raises(ExpressionError, match=message):
        parse_interleaved([[..., 1]], [..., 1, ...])


def test_an_expression_without_text_equals_the_same_with_text() -> None:
    assert parse_interleaved([["i"]], None) == Expression((Term(("i",)),), Term(("i",)))
    assert parse("i", 1) == parse_interleaved([["i"]], None)
