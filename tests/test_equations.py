"""Equations mean what they say, and print as text that says the same."""

from __future__ import annotations

import random
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import einbound as eb
from einbound.errors import ScheduleError
from einbound.expr.equations import Access
from einbound.forest.build import planted
from einbound.forest.forest import Forest, Kind
from einbound.run.forest import compile_forest
from equation_trees import EXTENT, LABELS, random_case
from forests import direct, random_plan, views


def computed(forest: Forest, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The targets of a forest by numpy.einsum."""
    productions = tuple(replace(p, factor=in_floats(p.factor)) for p in forest.productions)
    return direct(replace(forest, productions=productions), leaves_of(forest, arrays))


def leaves_of(forest: Forest, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [
        arrays[value.name] if value.constant is None else np.array(in_floats(value.constant))
        for value in forest.values
        if value.kind is Kind.LEAF
    ]


def in_floats(number: Fraction | complex) -> complex:
    return number if isinstance(number, complex) else float(number)


def evaluated(equations: eb.Equations, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    shapes = {name: array.shape for name, array in arrays.items()}
    made = computed(planted(equations.system, shapes), arrays)
    return dict(zip(equations.targets, made, strict=True))


@given(st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_a_text_means_the_sum_of_products_that_it_writes(seed: int) -> None:
    case = random_case(seed)
    equations = eb.Equations.parse(case.text, sizes=dict.fromkeys(LABELS, EXTENT))
    arrays = {name: case.arrays[name] for name in equations.tensors}
    assert np.allclose(evaluated(equations, arrays)["R"], case.value, rtol=1e-12, atol=1e-9)
    assert equations.shapes == {name: array.shape for name, array in arrays.items()}


@given(st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_a_schedule_of_equations_computes_what_they_mean(seed: int) -> None:
    case = random_case(seed)
    equations = eb.Equations.parse(case.text)
    shapes = {name: case.arrays[name].shape for name in equations.tensors}
    forest = planted(equations.system, shapes)
    leaves = [each.astype(complex) for each in leaves_of(forest, case.arrays)]
    plan = random_plan(random.Random(seed), forest)
    try:
        ready = compile_forest(plan, views(leaves), np.dtype(complex), 1024)
    except ScheduleError:
        # Loops that are common to productions that do not go together.
        assume(False)
    assert np.allclose(ready.run(leaves)[0], case.value, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("text", ["R = 2", "R = 3/4 + 2j", "R = 2 A", "R = A[i,i] - 1", "R = B B"])
def test_scalars_are_computed_too(text: str) -> None:
    arrays = {"A": np.eye(2) if "[" in text else np.array(3.0), "B": np.array(2.0)}
    wanted = {"R = 2": 2, "R = 3/4 + 2j": 0.75 + 2j, "R = 2 A": 6, "R = A[i,i] - 1": 1}
    equations = eb.Equations.parse(text)
    used = {name: arrays[name] for name in equations.tensors}
    assert evaluated(equations, used)["R"] == wanted.get(text, 4)
    names: dict[str, Any] = {}
    exec(equations.to_numpy({name: a.shape for name, a in used.items()}), names)
    assert names["evaluate"](**used)["R"] == wanted.get(text, 4)


@given(st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_printed_equations_parse_to_the_same_equations(seed: int) -> None:
    equations = eb.Equations.parse(random_case(seed).text)
    again = eb.Equations.parse(str(equations))
    assert again == equations
    assert hash(again) == hash(equations)
    assert str(again) == str(equations)
    assert eb.Equations.from_json(equations.to_json()) == equations
    assert eval(repr(equations), {"Equations": eb.Equations}) == equations


numbers = st.one_of(
    st.integers(-(10**20), 10**20),
    st.fractions(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.complex_numbers(allow_nan=False, allow_infinity=False),
)


@given(st.lists(numbers, min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_numbers_of_every_kind_survive_being_printed(coefficients: list[complex]) -> None:
    equations = eb.Equations.from_terms({"R": [(n, "ij->ij", ["A"]) for n in coefficients]})
    assert eb.Equations.parse(str(equations)) == equations
    assert [t.coefficient for t in equations.system.equations[0].terms] == coefficients
    scalars = eb.Equations.from_terms({"R": [(n, "->", ()) for n in coefficients]})
    assert eb.Equations.parse(str(scalars)) == scalars


def right_side(text: str, **more: object) -> str:
    (line,) = str(eb.Equations.parse(text, **more)).splitlines()  # type: ignore[arg-type]  # any
    return line.split(" = ")[1]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("A[i,j]", "A[i,j]"),
        ("A[ij]", "A[i,j]"),
        ("A[i j]", "A[i,j]"),
        ("-A[i,j]", "- A[i,j]"),
        ("+ 2 A[ij]", "2 A[i,j]"),
        ("2*A[ij]", "2 A[i,j]"),
        ("A[ij] / 2", "1/2 A[i,j]"),
        ("1/2 A[ij]", "1/2 A[i,j]"),
        ("3/4/2 A[ij]", "3/8 A[i,j]"),
        ("0.1 A[ij]", "0.1 A[i,j]"),
        ("1e-3A[ij]", "0.001 A[i,j]"),
        (".5 2j A[ij]", "1.0j A[i,j]"),
        ("(1 + 2j) A[ij]", "(1.0 + 2.0j) A[i,j]"),
        ("2j (1j) A[ij]", "- 2.0 A[i,j]"),
        ("alpha A[ij] beta", "alpha A[i,j] beta"),
        ("x i1[ij]", "x i1[i,j]"),
        ("A[i1,i] B[i1j]", "A[i1,i] B[i1,j]"),
        ("A[i_1,i] B[i_1j]", "A[i_1,i] B[i_1,j]"),
        ("A[i] (B[j] - 2 (C[j] + D[j]))", "A[i] B[j] - 2 A[i] C[j] - 2 A[i] D[j]"),
        ("-(A[ij] - B[ij])", "- A[i,j] + B[i,j]"),
        ("P(i,j) A[ij]", "A[i,j] - A[j,i]"),
        ("P(ij) A[ij]", "A[i,j] - A[j,i]"),
        ("S(i,j) A[ij]", "A[i,j] + A[j,i]"),
        ("A[i] P(i,j) B[ji]", "A[i] B[j,i] - A[i] B[i,j]"),
        ("1/2 P(i,j) 2 (A[ij] + B[ij])", "A[i,j] - A[j,i] + B[i,j] - B[j,i]"),
        ("P(i,j) A[ik] B[kj]", "A[i,k] B[k,j] - A[j,k] B[k,i]"),
    ],
)
def test_the_right_side(written: str, meant: str) -> None:
    assert right_side(f"R[ij] = {written}") == meant


@pytest.mark.parametrize(
    ("operator", "meant"),
    [
        ("P(i,j,k)", "ijk -ikj -jik +jki +kij -kji"),
        ("S(i,j,k)", "ijk +ikj +jik +jki +kij +kji"),
        ("P(i/jk)", "ijk -jik -kji"),
        ("P(i/j,k)", "ijk -jik -kji"),
        ("P(ij/k)", "ijk -kji -ikj"),
        ("S(i/jk)", "ijk +jik +kji"),
        ("P(i,j) P(i,k)", "ijk -jik -kji +kij"),
    ],
)
def test_operators_on_three_indices(operator: str, meant: str) -> None:
    equations = eb.Equations.parse(f"R[ijk] = {operator} A[ijk]")
    terms = equations.system.equations[0].terms
    signs = {Fraction(1): "+", Fraction(-1): "-"}
    made = [signs[t.coefficient] + "".join(t.factors[0].indices) for t in terms]  # type: ignore[index]  # these are exact
    wanted = [each if each[0] in "+-" else f"+{each}" for each in meant.split()]
    assert made[0] == wanted[0]
    assert sorted(made) == sorted(wanted)


@pytest.mark.parametrize(
    ("operator", "meant"),
    [
        ("S(ia;jb)", ["iajb", "jbia"]),
        ("S(i,a;j,b)", ["iajb", "jbia"]),
        ("P(ij/ab)", ["iajb", "aijb", "baji", "ijab", "iabj", "aibj"]),
    ],
)
def test_operators_on_pairs_and_on_halves(operator: str, meant: list[str]) -> None:
    terms = eb.Equations.parse(f"R[iajb] = {operator} A[iajb]").system.equations[0].terms
    assert sorted("".join(t.factors[0].indices) for t in terms) == sorted(meant)


def test_an_operator_on_halves_counts_exchanges() -> None:
    terms = eb.Equations.parse("R[iajb] = P(ij/ab) A[iajb]").system.equations[0].terms
    assert [t.coefficient for t in terms] == [1, -1, -1, -1, -1, 1]


CONTINUED = """
# Lines go on behind operators, before them, inside brackets and behind a backslash.
R[i,j] =      # like this
    A[i,
      j]
    - 2 *
      B[i,j] \\
      alpha; E = C[i,i]

"""


def test_lines_go_on_where_they_must() -> None:
    assert str(eb.Equations.parse(CONTINUED)) == "R[i,j] = A[i,j] - 2 B[i,j] alpha\nE = C[i,i]"


def test_later_lines_add_under_their_own_labels() -> None:
    equations = eb.Equations.parse("R[i,j] = A[i,j]\nR[p,i] += B[p,j] C[j,i]\nR[j,i] -= D[j,i]")
    assert str(equations) == "R[i,j] = A[i,j] + B[i,j1] C[j1,j] - D[i,j]"


def test_a_target_is_complete_behind_its_last_line() -> None:
    equations = eb.Equations.parse("R[i] = A[i]\nX[i] = B[i]\nR[i] += X[i]")
    assert [each.target.name for each in equations.system.equations] == ["X", "R"]
    assert equations.targets == ("R",)


def test_the_first_line_of_a_target_may_add() -> None:
    assert str(eb.Equations.parse("R[i] -= A[i]")) == "R[i] = - A[i]"


def test_what_no_equation_reads_is_returned_and_what_is_asked_for() -> None:
    text = "X[i] = A[i]\nY[i] = X[i] X[i]\nE = Y[i]\nF[i] = Y[i]"
    assert eb.Equations.parse(text).targets == ("E", "F")
    asked = eb.Equations.parse(f"target Y, E\n{text}")
    assert asked.targets == ("Y", "E", "F")
    assert str(asked).startswith("target Y\n")
    assert asked.tensors == ("A",)


DECLARED = """\
space occ: i j k l = 3
space vir: a b c d = 6 tiles (0, 2, 6)
space P: P tiles 4
volatile T1 T2
streamed B
computed V
R[i,a] = T1[i,a] + V[i,j,a,b] T2[b,j] + B[P,i,b] B[P,j,a] T1[j,b]"""


def test_declarations_are_kept_and_printed() -> None:
    equations = eb.Equations.parse(DECLARED)
    assert str(equations) == DECLARED
    assert equations.volatile == {"T1", "T2"}
    assert [equations.access(name) for name in equations.tensors] == [
        Access.GIVEN,
        Access.COMPUTED,
        Access.GIVEN,
        Access.STREAMED,
    ]
    assert equations.system.space_of("a12") == equations.system.space_of("b")


def test_spaces_sizes_and_tiles_are_taken_from_arguments_too() -> None:
    equations = eb.Equations.parse(
        "R[ia] = T[ia] V[P]",
        spaces={"occ": "ij", "vir": ["a", "b c"]},
        sizes={"occ": np.int64(3), "vir": 4, "P": 5},
        tiles={"vir": [0, 2, 4], "P": 2},
    )
    assert str(equations).splitlines()[:3] == [
        "space occ: i j = 3",
        "space vir: a b c = 4 tiles (0, 2, 4)",
        "space P: P = 5 tiles 2",
    ]
    assert equations.shapes == {"T": (3, 4), "V": (5,)}


def test_a_label_that_a_space_lists_belongs_to_no_other() -> None:
    equations = eb.Equations.parse("R = A[i, i1]", spaces={"occ": "i", "act": ["i1"]})
    owners = [equations.system.space_of(label) for label in ("i", "i1", "i2")]
    assert [owner.name for owner in owners if owner] == ["occ", "act", "occ"]


def test_the_python_form_is_the_text_form() -> None:
    terms = {
        "X": [(1, "ijcd->cdij", ("T",))],
        "R": [
            (0.5, "Pac,Pbd,cdij->ijab", ("B", "B", "X")),
            (Fraction(1, 3), "abij->ijab", ("V",)),
            (-1, "pqia,ib->pqab", ("W", "t")),
        ],
        "E": [(2, "ii", ("F",)), (1j, "", ())],
    }
    equations = eb.Equations.parse(terms)
    assert str(equations) == (
        "X[c,d,i,j] = T[i,j,c,d]\n"
        "R[i,j,a,b] = 0.5 B[P,a,c] B[P,b,d] X[c,d,i,j] + 1/3 V[a,b,i,j] - W[i,j,i1,a] t[i1,b]\n"
        "E = 2 F[i,i] + 1.0j"
    )
    assert equations == eb.Equations.from_terms(terms)


def test_declarations_of_the_python_form_are_those_of_the_text() -> None:
    made = eb.Equations.from_terms(
        {"X": [(1, "i->i", ("A",))], "R": [(1, "i,i,ij->", ("X", "T", "B"))]},
        targets=["X"],
        volatile=["T"],
        streamed=["B"],
        computed=["A"],
        sizes={"i": 2},
    )
    text = "volatile T\nstreamed B\ncomputed A\ntarget X\nX[i] = A[i]\nR = X[i] T[i] B[i,j]"
    assert made == eb.Equations.parse(text, sizes={"i": 2})


def test_equations_cannot_be_changed() -> None:
    equations = eb.Equations.parse("R = 1")
    with pytest.raises(FrozenInstanceError, match="system"):
        equations.system = equations.system  # type: ignore[misc]  # that is the point


def test_a_forest_knows_what_is_not_in_memory() -> None:
    equations = eb.Equations.parse("streamed B\ncomputed V\nR[i] = A[i] B[i] + V[i] B[i] B[i]")
    forest = planted(equations.system, {"A": (2,), "B": (2,), "V": (2,)})
    assert [p.network.streamed for p in forest.productions] == [{1}, {0, 1, 2}]


def test_volatile_tensors_make_volatile_values() -> None:
    equations = eb.Equations.parse("volatile T\nX[i] = A[i]\nY[i] = T[i] X[i]\nR = Y[i] U[i]")
    forest = planted(equations.system, {"A": (2,), "T": (2,), "U": (2,)}, volatile=["U"])
    assert {v.name for v in forest.values if v.volatile} == {"T", "U", "Y", "R"}
