"""Whatever is wrong with equations is said, with the place where it is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einbound as eb
from einbound.expr.equations import Equation, Factor, Space, System, Term
from einbound.forest.build import planted

# A text, what is said of it, and what the carets stand below.
TEXTS = [
    ("R[i] = A[i] ? B", "'?' means nothing here; expected names, numbers", "?"),
    ("R[i] = A[i", "found the end of the line; expected an index or the ']' that closes", " ["),
    ("R[i] = A[i\n2 B[i]", "line 2: '2' is no index; expected a letter, or a letter", "2"),
    ("R[i = A[i]", "found '='; expected an index or the ']' that closes '\\['", "=["),
    ("R[i] = (A[i] + B[i]", "expected an operator, a factor or the '\\)' that closes", " ("),
    ("R[i] = A[i] + B[i])", "found '\\)'; expected an operator, a factor or the end", ")"),
    ("R[i] = A[2]", "'2' is no index; expected a letter, or a letter and digits", "2"),
    ("R[i] = A[i_]", "'i_' is no index; expected a letter", "i_"),
    ("R[i] A[i]", "'R' declares|found 'A'; expected '=', '\\+=' or '-='", "A"),
    ("R[i] =", "found the end of the line; expected a number, a tensor, 'P\\('", " "),
    ("R[i] = A[i] +", "found the end of the line; expected a number, a tensor", " "),
    ("R[i] = A[i] + * B[i]", "found '\\*'; expected a number, a tensor", "*"),
    ("= A[i]", "found '='; expected a tensor or a declaration", "="),
    ("2 = A", "found '2'; expected a tensor or a declaration", "2"),
    ("R[i] = A[i] / B", "found 'B'; expected a number behind '/', since only", "B"),
    ("R[i] = A[i] / 0", "0 is behind '/'; expected a number other than 0", "0"),
    ("R[i] = 1e999 A[i]", "1e999 is too large; expected a number below 1e308", "1e999"),
    ("R = 1e300 * 1e300", "a coefficient is too large here", "1e300"),
    ("R = (1e308 + 1e308)", "a coefficient is too large here", "("),
    ("R[i] = A(i)", "'A' is no operator; expected P\\(i,j\\) or S\\(i,j\\), brackets", "A"),
    ("R[ij] = P(i,k) A[ij]", "P\\(...\\) permutes 'k', which is no index of R\\[i,j\\]", "k"),
    ("R[ij] = P(i) A[ij]", "P\\(i\\) exchanges nothing; expected two indices or more", "P(i)"),
    ("R[ij] = P(i/) A[ij]", "P\\(i/\\) exchanges nothing; expected", "P(i/)"),
    ("R[ijk] = S(ij;k) A[ijk]", "S\\(ij;k\\) exchanges nothing; expected", "S(ij;k)"),
    ("R[ij] = P(i,i) A[ij]", "P\\(i,i\\) has an index twice; expected each once", "P(i,i)"),
    ("R[ijk] = P(i/j/k) A[ijk]", "a second '/' in one operator; expected one", "/"),
    ("R[ij] = P(i,j", "found the end of the line; expected an index, ';', '/'", " ("),
    ("R[ij] = A[ij] P(i,j)", "expected a factor that the permutation operator acts on", " "),
    ("R[i,i] = A[i]", "index 'i' occurs twice in the target R\\[i,i\\]; expected each", "R[i,i]"),
    ("R[i,j] = A[i,j] + B[i]", "index 'j' of R\\[i,j\\] is not in the term B\\[i\\]", "B[i]"),
    ("R[i] = 2", "index 'i' of R\\[i\\] is not in the term 2; expected every", "R[i]"),
    ("R[i] = A[i]\nR[i] = B[i]", "R\\[i\\] is made twice, on line 1 too; expected one '='", "R[i]"),
    ("R[i] = A[i]\nR[ij] += B[ij]", "R\\[i,j\\] is added to R\\[i\\] of line 1", "R[ij]"),
    ("R[i] = A[i]\nR[j] += B[i]", "index 'j' of R\\[j\\] is not in the term B\\[i\\]", "B[i]"),
    ("R[i] = X[i]\nX[i] = A[i]", "X\\[i\\] is read before it is complete \\(line 2\\)", "X[i]"),
    ("R[i] = X[i]\nX[i] = R[i]", "R\\[i\\] is made from X\\[i\\], which is made from 'R'", "X[i]"),
    ("R[i] = A[i] R[i]", "R\\[i\\] is made from R\\[i\\], which is made from 'R'", "R[i]"),
    (
        "R[i] = A[i] + A[ij]",
        "A\\[i,j\\] has 2 indices, and A\\[i\\] has 1 index; expected",
        "A[ij]A[i]",
    ),
    ("targt R\nR = 1", "'targt' declares nothing, and it is no equation; expected", "targt"),
    ("target X\nR = 1", "target 'X' is made by no equation; expected a target", "X"),
    ("volatile X\nR = A", "'X' is said to be volatile, but no equation reads it", "X"),
    ("streamed R\nR = A\nS = R", "'R' is said to be streamed, but an equation makes it", "R"),
    ("streamed A\ncomputed A\nR = A", "'A' is both streamed and computed; expected one", "A"),
    ("volatile A[i]\nR = A", "found '\\['; expected the name of a tensor behind", "["),
    ("space o i = 3\nR = 1", "found 'i'; expected ':' between the name of a space", "i"),
    ("space o: = 3\nR = 1", "found '='; expected an index of space 'o'", "="),
    ("space o: i = x\nR = 1", "found 'x'; expected the extent of the space, an integer", "x"),
    ("space o: i = 3 4\nR = 1", "found '4'; expected '= EXTENT', 'tiles WIDTH'", "4"),
    ("space o: i tiles x\nR = 1", "found 'x'; expected the width of tiles, or their", "x"),
    ("space o: i tiles (1 x\nR = 1", "found 'x'; expected a boundary of tiles", "x"),
    ("space o: i tiles 0\nR = 1", "space 'o' has tiles of 0; expected 1 or more", "o"),
    ("space o: i tiles (3, 1)\nR = 1", "space 'o' has tiles between \\(3, 1\\); expected", "o"),
    ("space o: i = 4 tiles (1, 4)\nR = 1", "tiles over 3 elements, from 1 to 4, and ext", "o"),
    ("space o: i\nspace v: i\nR = 1", "index 'i' is in two spaces, 'o' and 'v'", "v"),
    ("space o: i\nspace o: j\nR = 1", "space 'o' is declared twice; expected one", "o"),
    (
        "space o: i j = 2\nspace v: a = 3\nR[i,a] = A[i,a] B[a,i]\n  - A[a,i]",
        "axis 0 of 'A' has 3 elements in A\\[a,i\\] and 2 in A\\[i,a\\] \\(line 3\\)",
        "A[a,i]",
    ),
    ("", "there is no equation; expected one, such as", None),
    ("# nothing\n\n", "there is no equation; expected one, such as", None),
    (f"R = {'(' * 101}1", "more than 100 parentheses are open; name parts", "("),
    ("R[abcdefghi] = P(abcdefghi) A[abcdefghi]", "expands to more than 65536 terms", "P"),
    (f"R = {'9' * 500}", "99999999999999999999 is too large; expected a number", "9" * 500),
]


def below_carets(error: eb.EquationsError) -> str:
    assert error.text is not None
    padded = error.text.ljust(max(stop for _, stop in error.spans))
    return "".join(padded[start:stop] or " " for start, stop in error.spans)


@pytest.mark.parametrize(("text", "message", "place"), TEXTS)
def test_a_wrong_text_is_refused_at_the_place(text: str, message: str, place: str | None) -> None:
    with pytest.raises(eb.EquationsError, match=message) as caught:
        eb.Equations.parse(text)
    if place is None:
        assert caught.value.text is None
    else:
        assert below_carets(caught.value) == place


def test_an_error_shows_its_line_with_carets() -> None:
    with pytest.raises(eb.EquationsError, match="line 3: index 'j' of") as caught:
        eb.Equations.parse("# head\nX[k] = A[k]\nR[i,j] = X[i] X[j] + X[i]  # tail\nE = X[k]")
    assert str(caught.value).splitlines()[1:] == [
        "    R[i,j] = X[i] X[j] + X[i]  # tail",
        "                         ^^^^",
    ]


PIECES = [*"Rij[]()=+-*/,:;\n# ", "P(", "1", "2.5", "space", "volatile", "R[i]", " = ", "A[i]", "é"]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused_inside_of_it(text: str) -> None:
    error = refusal(text)
    if error is None:
        equations = eb.Equations.parse(text)
        assert eb.Equations.parse(str(equations)) == equations
    elif error.text is None:
        assert re.search("no equation", str(error))
    else:
        assert any(error.text.rstrip() == line.rstrip() for line in text.split("\n"))
        assert all(0 <= start <= stop <= len(error.text) + 1 for start, stop in error.spans)


def refusal(text: str) -> eb.EquationsError | None:
    try:
        eb.Equations.parse(text)
    except eb.EquationsError as error:
        return error
    return None


ARGUMENTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"spaces": {"o": "i2x!"}}, eb.EquationsError, "'i2x!' of space 'o' is no index"),
    ({"spaces": {"o": ""}}, eb.EquationsError, "space 'o' has no index; expected one"),
    ({"spaces": {"o": 3}}, TypeError, "space 'o' is 3; expected its indices, as text"),
    ({"spaces": {"o": [3]}}, TypeError, r"space 'o' is \[3\]; expected its indices"),
    ({"spaces": {"v": "i"}}, eb.EquationsError, "index 'i' is in two spaces, 'w' and 'v'"),
    ({"spaces": {"w": "j"}}, eb.EquationsError, "space 'w' is in spaces= and in the text"),
    ({"sizes": {"w": 3}}, eb.EquationsError, "'w' has extent 3 in sizes= and 2 in the text"),
    ({"sizes": {"a": -1}}, eb.EquationsError, "'a' has extent -1 in sizes=; expected 0 or more"),
    ({"sizes": {"a": 2.5}}, TypeError, "the extent of 'a' is 2.5 of type float"),
    ({"sizes": {"i1": 3}}, eb.EquationsError, "'i1' in sizes= is an index of space 'w'"),
    ({"sizes": {"occ": 3}}, eb.EquationsError, "'occ' in sizes= is no space and no index"),
    ({"tiles": {"a": "x"}}, TypeError, "a boundary of the tiles of 'a' is 'x'"),
    ({"tiles": {"a": 0}}, eb.EquationsError, "space 'a' has tiles of 0; expected 1 or more"),
    ({"sizes": 3}, TypeError, "sizes is 3; expected a mapping by space, such as"),
    ({"spaces": {3: "i"}}, TypeError, "spaces has the key 3; expected the name of a space"),
    ({"tiles": {"a": None}}, TypeError, "the width of the tiles of 'a' is None"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), ARGUMENTS)
def test_wrong_spaces_are_refused(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        eb.Equations.parse("space w: i = 2\nR = A[i]", **arguments)


TERMS: list[tuple[Any, type[Exception], str]] = [
    (3, TypeError, "equations are 3 of type int; expected text, or a mapping"),
    ({3: []}, TypeError, "target 3 is no text; expected the name of a tensor"),
    ({"R": "x"}, TypeError, "target 'R' is 'x'; expected a list of"),
    ({"R": []}, eb.EquationsError, "R has no terms; expected one or more"),
    ({"R": [(1, "i->i")]}, TypeError, "term 0 of 'R' is .*; expected .number, einsum text"),
    ({"R": [(1, "i->i", "A")]}, TypeError, "names of term 0 of 'R' is 'A'; expected a seq"),
    ({"R": [(1, "i->i", [2])]}, TypeError, "names of term 0 of 'R' has 2; expected names"),
    ({"R": [("1", "i->i", ["A"])]}, TypeError, "has coefficient '1'; expected a finite number"),
    ({"R": [(True, "i->i", ["A"])]}, TypeError, "has coefficient True; expected a finite"),
    ({"R": [(float("nan"), "i->i", ["A"])]}, TypeError, "has coefficient nan; expected a fin"),
    ({"R": [(10**400, "i->i", ["A"])]}, TypeError, "has coefficient 10+; expected a finite"),
    ({"R": [(1, 2, ["A"])]}, TypeError, "has subscripts 2; expected einsum text"),
    ({"R": [(1, "i->j", ["A"])]}, eb.EquationsError, "term 0 of 'R': .*'j'"),
    ({"R": [(1, "i->i", ["A", "B"])]}, eb.EquationsError, "term 0 of 'R': .*2 operands"),
    ({"R": [(1, "...i->i", ["A"])]}, eb.EquationsError, "term 0 of 'R'.*"),
    ({"R": [(1, "...i", ["A"])]}, eb.EquationsError, "term 0 of 'R' has an ellipsis; expected"),
    (
        {"R": [(1, "i->i", ["A"]), (1, "ij->ij", ["B"])]},
        eb.EquationsError,
        r"term 1 of 'R' has the indices \('i', 'j'\), and the first has \('i',\)",
    ),
    ({"R": [(1, "0->0", ["A"])]}, eb.EquationsError, "'0' is no index of 'R'; expected a letter"),
    ({"2R": [(1, "i->i", ["A"])]}, eb.EquationsError, "'2R' is no name of a tensor; expected"),
    ({"R": [(1, "i->i", ["X"])], "X": [(1, "i->i", ["A"])]}, eb.EquationsError, "is read before"),
]


@pytest.mark.parametrize(("terms", "error", "message"), TERMS)
def test_wrong_python_forms_are_refused(terms: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        eb.Equations.parse(terms)


GOOD = {"R": [(1, "i->i", ["A"])]}


@pytest.mark.parametrize(
    ("said", "error", "message"),
    [
        (
            {"targets": ["X"]},
            eb.EquationsError,
            "target 'X' is made by no equation; expected one of",
        ),
        ({"volatile": ["X"]}, eb.EquationsError, "'X' is said to be volatile, but no equation"),
        ({"volatile": "A"}, TypeError, "volatile is 'A'; expected a sequence of names"),
        ({"streamed": ["A"], "computed": ["A"]}, eb.EquationsError, "'A' is both streamed and"),
    ],
)
def test_wrong_declarations_are_refused(
    said: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        eb.Equations.from_terms(GOOD, **said)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "the document has schema None; expected 'einbound.equations'"),
        ("x", "the text is no JSON"),
        (eb.Equations.parse("R = 1").to_json().replace("R = 1", "R = "), "is damaged"),
        ('{"schema": "einbound.equations", "version": 1}', "it has no field 'text'"),
    ],
)
def test_what_to_json_did_not_write_is_refused(text: str, message: str) -> None:
    with pytest.raises(eb.EquationsError, match=message):
        eb.Equations.from_json(text)


def test_records_that_break_rules_are_refused_too() -> None:
    read = Term(1.0, (Factor("A", ("i",)),))
    made = Equation(Factor("R", ("i",)), (read,))
    for system, message in (
        (System((made, made), ("R",)), r"R\[i\] is made twice; expected"),
        (System((made,), ("X",)), "target 'X' is made by no equation; expected one of 'R'"),
        (System((made,), ("R",), (Space("o", ("ij",)),)), "'ij' of space 'o' is no index"),
        (System((Equation(Factor("R"), ()),), ("R",)), "R has no terms; expected one or more"),
    ):
        with pytest.raises(eb.EquationsError, match=message):
            eb.Equations(system)


SHAPES: list[tuple[str, dict[str, tuple[int, ...]], str, str]] = [
    ("R[i] = A[i] B[i]", {"A": (2,)}, "tensor 'B' has no shape; expected one for every", "B[i]"),
    ("R[i] = A[i]", {"A": (2, 3)}, r"A\[i\] has 1 indices, and 'A' of shape \(2, 3\)", "A[i]"),
    (
        "R[i] = A[i] B[i]",
        {"A": (2,), "B": (3,)},
        r"index 'i' has 2 elements, and 3 in B\[i\], whose shape is \(3,\); expected one",
        "B[i]",
    ),
    (
        "R[i] = A[i] + B[i]",
        {"A": (2,), "B": (3,)},
        r"index 'i' of R\[i\] has 3 elements in the term B\[i\] and 2 in one before",
        "B[i]",
    ),
    (
        "space occ: i = 4\nR[i] = A[i]",
        {"A": (2,)},
        "index 'i' of space 'occ' has 4 elements, and 2 in A",
        "A[i]",
    ),
]


@pytest.mark.parametrize(("text", "shapes", "message", "place"), SHAPES)
def test_shapes_that_do_not_fit_are_refused_at_the_place(
    text: str, shapes: dict[str, tuple[int, ...]], message: str, place: str
) -> None:
    with pytest.raises(eb.EquationsError, match=message) as caught:
        planted(eb.Equations.parse(text).system, shapes)
    assert below_carets(caught.value) == place


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("R[i] = A[i]", "axis 0 of A.i. is not known, since index 'i' belongs to no space; give"),
        ("space o: i\nR[i] = A[i]", "index 'i' belongs to space 'o' of no extent; give an array"),
    ],
)
def test_a_shape_that_nothing_tells_is_refused(text: str, message: str) -> None:
    with pytest.raises(eb.EquationsError, match=message):
        _ = eb.Equations.parse(text).shapes


def test_volatile_tensors_must_be_given_ones() -> None:
    system = eb.Equations.parse("R = A").system
    with pytest.raises(eb.EquationsError, match="'R' is said to be volatile, and is no tensor"):
        planted(system, {"A": ()}, volatile=["R"])
