"""Equations from other programs' output, and as source that needs NumPy only."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import einbound as eb
from einbound.forest.build import planted
from einbound.forest.export import exported
from einbound.forest.forest import Forest, Kind
from equation_trees import random_case
from forests import direct, random_forest, random_leaves
from systems import random_system
from test_equations import evaluated

EXTENTS = {"o": 2, "v": 3}


def random_arrays(equations: eb.Equations) -> dict[str, np.ndarray]:
    """Small whole numbers, in the shapes that the spaces tell."""
    rng = np.random.default_rng(7)
    return {k: rng.integers(-2, 3, shape).astype(float) for k, shape in equations.shapes.items()}


def imported(terms: dict[str, Any], **more: Any) -> tuple[eb.Equations, dict[str, np.ndarray]]:
    equations = eb.Equations.from_pdaggerq(terms, sizes=EXTENTS, **more)
    return equations, random_arrays(equations)


def test_an_energy_from_pdaggerq() -> None:
    terms = [
        ["+1.00", "f(i,i)"],
        ["+1.00", "f(i,a)", "t1(a,i)"],
        ["-0.50", "<j,i||j,i>"],
        ["+0.25", "<j,i||a,b>", "t2(a,b,j,i)"],
        ["-0.50", "<j,i||a,b>", "t1(a,i)", "t1(b,j)"],
    ]
    equations, x = imported({"E": terms}, volatile=["t1", "t2"])
    assert equations.tensors == ("f_oo", "f_ov", "t1", "eri_oooo", "eri_oovv", "t2")
    assert equations.volatile == {"t1", "t2"}
    wanted = (
        np.einsum("ii", x["f_oo"])
        + np.einsum("ia,ai", x["f_ov"], x["t1"])
        - 0.5 * np.einsum("jiji", x["eri_oooo"])
        + 0.25 * np.einsum("jiab,abji", x["eri_oovv"], x["t2"])
        - 0.5 * np.einsum("jiab,ai,bj", x["eri_oovv"], x["t1"], x["t1"])
    )
    assert evaluated(equations, x)["E"] == wanted


def test_antisymmetric_operators_of_pdaggerq() -> None:
    terms = [["-1.00", "P(i,j)", "P(a,b)", "<k,a||c,j>", "t1(b,k)", "t1(c,i)"]]
    equations, x = imported({"R2[a,b,i,j]": terms})
    one = -np.einsum("kacj,bk,ci->abij", x["eri_ovvo"], x["t1"], x["t1"])
    two = one - one.transpose(0, 1, 3, 2)
    assert np.array_equal(evaluated(equations, x)["R2"], two - two.transpose(1, 0, 2, 3))


@pytest.mark.parametrize(
    ("operator", "orders"),
    [
        ("PP2(i,a;j,b)", [(0, 1, 2), (1, 0, 2)]),
        ("PP3(i,a;j,b;k,c)", [(0, 1, 2), (1, 0, 2), (2, 1, 0)]),
        ("PP6(i,a;j,b;k,c)", list(permutations(range(3)))),
    ],
)
def test_pair_operators_of_pdaggerq_add_up(operator: str, orders: list[tuple[int, ...]]) -> None:
    terms = [["+1.00", operator, "t3(a,b,c,i,j,k)"]]
    equations, x = imported({"R[a,b,c,i,j,k]": terms})
    made = [x["t3"].transpose([*order, *(n + 3 for n in order)]) for order in orders]
    assert np.array_equal(evaluated(equations, x)["R"], sum(made))


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["d(i,m)", "f(m,j)"], "f_oo[i,j]"),
        (["d(m,i)", "d(m,n)", "f(n,j)"], "f_oo[i,j]"),
        (["d(i,j)", "t0"], "d_oo[i,j] t0"),
        (["d(m,m)", "f(i,j)"], "d_oo[m,m] f_oo[i,j]"),
        (["d(m,n)", "f(i,j)"], "d_oo[m,n] f_oo[i,j]"),
        (["<i,m|j,m>"], "int_oooo[i,m,j,m]"),
        (["<i,m||j,m>_abab"], "eri_abab_oooo[i,m,j,m]"),
        (["f_aa(i,j)"], "f_aa_oo[i,j]"),
        (["t2_abab(a1,b,i,j)"], "t2_abab[a1,b,i,j]"),
        (["h(i,j)", "r0"], "h_oo[i,j] r0"),
        (["h", "t2_(i,j)"], "h t2_[i,j]"),
    ],
)
def test_factors_of_pdaggerq(words: list[str], meant: str) -> None:
    equations = eb.Equations.from_pdaggerq({"R[i,j]": [["+1.0", *words]]})
    assert str(equations.system.equations[0].terms[0]) == meant


def test_tensors_of_pdaggerq_get_the_names_that_are_asked_for() -> None:
    equations = eb.Equations.from_pdaggerq(
        {"R[p,q]": [["+1.0", "f(p,q)"], ["2", "<p,q||r,r>", "t2(r,s,s,r)"]]},
        names={"f": "fock", "<||>": "v_{space}_bar", "t2": "T"},
        spaces={"g": "p q r s"},
    )
    assert equations.tensors == ("fock", "v_gggg_bar", "T")


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["+1.0", "{a*(p)"], eb.EquationsError, "term 0 of 'R': '{a.*' is no tensor and no"),
        (["x", "f(i,j)"], eb.EquationsError, "'x' is no number; expected one such as '.0.25'"),
        (["1/0", "f(i,j)"], eb.EquationsError, "'1/0' is no number"),
        (["1", "f(i,1)"], eb.EquationsError, "'f.i,1.' is no tensor and no permutation"),
        (["1", "P(i,k)", "f(i,j)"], eb.EquationsError, "'P.i,k.' permutes 'k', which is no index"),
        (["1", "P(i)", "f(i,j)"], eb.EquationsError, "'P.i.' exchanges nothing; expected"),
        (["1", "PP3(i,i;j,j)", "f(i,j)"], eb.EquationsError, "has 2 groups; expected 3"),
        (["1", "f(i,x)"], eb.EquationsError, "index 'x' is in no space, and the name of a tensor"),
        (["1", "t1(i)"], eb.EquationsError, "index 'j' of R.i,j. is not in the term t1.i."),
        ("+1.0", TypeError, "term 0 of 'R' is '.1.0'; expected a list of texts"),
        ([1.0, "f(i,j)"], TypeError, "term 0 of 'R' is .*; expected a list of texts, a number"),
    ],
)
def test_wrong_terms_of_pdaggerq_are_refused(
    words: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        eb.Equations.from_pdaggerq({"R[i,j]": [words]})


def test_an_error_points_at_the_word_of_pdaggerq() -> None:
    with pytest.raises(eb.EquationsError, match="is no tensor") as caught:
        eb.Equations.from_pdaggerq({"R[i,j]": [["+1.0", "a*(p)"]]})
    assert (caught.value.text, caught.value.spans) == ("a*(p)", ((0, 5),))


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("R[a", eb.EquationsError, "found the end of the line; expected an index or the ']'"),
        ("R = 1", eb.EquationsError, "found '='; expected nothing behind a tensor"),
        (3, TypeError, "target 3 is no text; expected one such as 'R2.a,b,i,j.'"),
    ],
)
def test_targets_of_pdaggerq_must_be_tensors(
    target: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        eb.Equations.from_pdaggerq({target: [["+1.0"]]})


def test_terms_of_pdaggerq_must_be_lists() -> None:
    with pytest.raises(TypeError, match="the terms of 'E' are 'x'; expected a list of terms"):
        eb.Equations.from_pdaggerq({"E": "x"})


SCRIPT = '''
"""Residuals."""
import numpy as np
from numpy import einsum

o = slice(None, 2)
v = slice(2, None)

#    -1.0000 P(i,j)<k,a||c,j>*t1(b,k)*t1(c,i)
part = -1.0 * einsum('kacj,bk,ci->abij', g[o, v, v, o], t1, t1, optimize=['einsum_path', (0, 1)])
r2 = 1.0 * part + -1.0 * np.einsum('abij->abji', part)
part = 0.5 * np.einsum("abij->abij", t2, optimize=True)
r2 -= part / 2 - 2 * alpha * t2_like
energy = numpy.einsum('ii', f[o, o]) * scale
energy += 2j
'''


def test_a_script_of_einsum_lines() -> None:
    equations = eb.Equations.from_einsum(SCRIPT.replace(" - 2 * alpha * t2_like", ""))
    assert str(equations) == (
        "part_1[a,b,i,j] = - g_ovvo[k,a,c,j] t1[b,k] t1[c,i]\n"
        "part[a,b,i,j] = 0.5 t2[a,b,i,j]\n"
        "r2[a,b,i,j] = part_1[a,b,i,j] - part_1[a,b,j,i] - 1/2 part[a,b,i,j]\n"
        "energy = f_oo[i,i] scale + 2.0j"
    )
    assert equations.targets == ("r2", "energy")


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_a_script_means_what_python_computes(seed: int) -> None:
    rng = random.Random(seed)
    script, made = random_script(rng)
    arrays: dict[str, Any] = {
        "A": np.array([[1.0, 2], [-1, 3]]),
        "B": np.array([[2.0, -1], [1, 1]]),
        "s": 3.0,
        "g": np.arange(16.0).reshape(4, 4),
        "o": slice(0, 2),
        "w": slice(2, 4),
        "np": np,
    }
    names = dict(arrays)
    exec(script, names)
    given_ = {"A": arrays["A"], "B": arrays["B"], "s": np.array(3.0)}
    given_["g_ow"] = arrays["g"][:2, 2:]
    equations = eb.Equations.from_einsum(script, targets=made)
    values = evaluated(equations, {name: given_[name] for name in equations.tensors})
    for name in made:
        assert np.allclose(values[name], names[name], rtol=1e-12)
    assert eb.Equations.parse(str(equations)) == equations


def random_script(rng: random.Random) -> tuple[str, list[str]]:
    """Assignments to matrices and scalars, each made from given arrays and earlier ones."""
    matrices, scalars = ["A", "B", "x"], ["s"]
    lines = ["x = np.einsum('ij,ji->ij', A, B)"]
    for _ in range(rng.randint(1, 6)):
        is_matrix = rng.random() < 0.7
        name = rng.choice("xyz" if is_matrix else "pq")
        known = matrices if is_matrix else scalars
        signs = ["=", "+=", "-="] if name in known else ["="]
        terms = [_term(rng, matrices, scalars, is_matrix) for _ in range(rng.randint(1, 2))]
        lines.append(f"{name} {rng.choice(signs)} {rng.choice([' + ', ' - ']).join(terms)}")
        if name not in known:
            known.append(name)
    return "\n".join(lines), [*matrices[2:], *scalars[1:]]


def _term(rng: random.Random, matrices: list[str], scalars: list[str], is_matrix: bool) -> str:
    def matrix() -> str:
        return rng.choice([*matrices, "g[o, w]"])

    output = rng.choice(["ik", "ki"]) if is_matrix else ""
    call = rng.choice(
        [
            f"np.einsum('ij,jk->{output}', {matrix()}, {matrix()})",
            f"np.einsum('ij,kj,ji->{output}', {matrix()}, {matrix()}, {matrix()}, optimize=True)",
            f"np.einsum('ik->{output}', {matrix()})",
        ]
    )
    turned = f"{rng.choice(matrices)}.transpose({rng.choice(['', '1, 0', '(1, 0)', '0, 1'])})"
    plain = rng.choice([*matrices, turned]) if is_matrix else rng.choice(scalars)
    number = rng.choice(["2", "-0.5", "1 / 4", rng.choice(scalars)])
    scalar = f"np.einsum('ij,ij', {matrix()}, {matrix()})"
    factors = [number, rng.choice([call, plain])]
    if rng.random() < 0.3:
        factors.append(scalar)
    return " * ".join(f"({each})" for each in factors)


def test_what_a_script_overwrites_before_it_is_read_is_left_out() -> None:
    equations = eb.Equations.from_einsum("x = einsum('i', a)\ny = 2 * x\ny = 3 * b\nx = 2 * c\n")
    assert str(equations) == "y = 3 b\nx = 2 c"


def test_a_script_may_begin_with_zeros() -> None:
    script = "r = np.zeros((2, 3))\nr += np.einsum('ij->ij', a)"
    assert str(eb.Equations.from_einsum(script)) == "r[i,j] = a[i,j]"


def test_a_given_tensor_keeps_its_name_from_what_is_made_of_it() -> None:
    equations = eb.Equations.from_einsum("t = einsum('ij->ij', t) / 2\nt += einsum('ij->ji', t)")
    assert str(equations) == "t_1[i,j] = 1/2 t[i,j]\nt_2[i,j] = t_1[i,j] + t_1[j,i]"


def test_a_tensor_cut_by_slices_has_as_many_axes() -> None:
    equations = eb.Equations.from_einsum(
        "F = f[o, v] - 2 * einsum('jb,ijba->ia', t, g[o, o, v, v])"
    )
    assert str(equations) == "F[i,a] = f_ov[i,a] - 2 t[j,b] g_oovv[i,j,b,a]"
    assert str(eb.Equations.from_einsum("F = 2 * f[o, v]")) == "F[a,b] = 2 f_ov[a,b]"


def test_longer_names_of_slices_are_kept_apart() -> None:
    equations = eb.Equations.from_einsum("r = einsum('ij->ij', h[occ, vir])\nq = einsum('i', e[o])")
    assert equations.tensors == ("h_occ_vir", "e_o")


def test_a_given_tensor_stands_for_all_of_it_as_some_call_has_it() -> None:
    script = (
        "tau = t2 + 0.5 * einsum('ia,jb->ijab', t1, t1)\n"
        "tau -= (t2 - tau).transpose(1, 0, 2, 3).copy() / 2\n"
        "e = einsum('ijab,mnef->', eris.oovv, t2) + einsum('ijab,ijab->', tau, eris.g[o, o, v, v])"
    )
    assert str(eb.Equations.from_einsum(script)) == (
        "tau_1[m,n,e,f] = t2[m,n,e,f] + 0.5 t1[m,e] t1[n,f]\n"
        "tau[m,n,e,f] = tau_1[m,n,e,f] - 1/2 t2[n,m,e,f] + 1/2 tau_1[n,m,e,f]\n"
        "e = eris_oovv[i,j,a,b] t2[m,n,e,f] + tau[i,j,a,b] eris_g_oovv[i,j,a,b]"
    )


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("r = einsum('ij->ij', a).transpose(0, 0)", "expected the numbers of 2 axes, each once"),
        ("r = einsum('ij->ij', a).transpose(n, 0)", "expected the numbers of 2 axes, each once"),
        ("r = einsum('ij->ij', a).reshape(4)", "expected sums of numbers times einsum calls"),
        ("r = ", "the source is no Python: .*line 1"),
        ("for i in x:\n    pass", "found 'for i in x:'; expected assignments to names"),
        ("r[0] = 1", "found 'r.0. = 1'; expected assignments to names"),
        ("print(1)", "found 'print.1.'; expected assignments to names"),
        ("r *= 2", "found 'r .= 2'; expected assignments to names"),
        ("r += 2", "found 'r .= 2'; 'r' is not assigned before; expected '=' first"),
        ("r = a", "found 'r = a'; 'r' is only another name of 'a'; use that one"),
        ("r = a @ b", "found 'a @ b'; expected sums of numbers times einsum calls and names"),
        ("r = f(a)", "found 'f.a.'; expected sums of numbers times einsum calls and names"),
        ("r = True * a", "found 'True'; expected a finite number"),
        ("r = a / b", "found 'b'; expected a number other than 0 behind '/'"),
        ("r = a / 0", "found '0'; expected a number other than 0 behind '/'"),
        ("r = einsum('i->i', a) * einsum('i->i', a)", "expected a number or a scalar as a factor"),
        ("r = 1e300 * 1e300", "expected a finite number"),
        ("r = einsum(x, a)", "expected the subscripts of einsum as text"),
        ("r = einsum('i,i', a)", "line 1: .*operand"),
        ("r = einsum('i->i', a, out=b)", "expected no keyword but optimize= in einsum calls"),
        ("r = einsum('i->i', a + b)", "found 'a . b'; expected a name, or a given tensor cut by"),
        ("r = einsum('i->i', a[:2])", "found 'a.:2.'; expected a name, or a given tensor cut by"),
        ("r = 2*einsum('i->i', a)\nq = einsum('i->i', r[o])", "found 'r.o.'; expected a name, or"),
        ("r = einsum('i->i', a)\nr += 2", "a term has 0 indices and 'r' has 1; expected as many"),
        ("r = np.zeros(3)", "line 1: nothing is added to 'r'; expected a sum of einsum calls"),
        ("r = einsum('i->i', a) + einsum('ij->i', a)", "a.i,j. has 2 indices, and a.i. has 1"),
        ("import x", "there is no equation; expected one"),
    ],
)
def test_wrong_scripts_are_refused(script: str, message: str) -> None:
    with pytest.raises(eb.EquationsError, match=message):
        eb.Equations.from_einsum(script)


def test_an_error_points_into_the_script() -> None:
    with pytest.raises(eb.EquationsError, match="line 2: found 'b @ c'") as caught:
        eb.Equations.from_einsum("é = 2 * ö\nr = 'é' and 1 + b @ c\n".replace("'é' and ", "ö + "))
    assert caught.value.text is not None
    ((start, stop),) = caught.value.spans
    assert caught.value.text[start:stop] == "b @ c"


def test_a_script_is_text() -> None:
    with pytest.raises(TypeError, match="source is 3; expected the text of a Python script"):
        eb.Equations.from_einsum(3)  # type: ignore[arg-type]  # that is the point


def ran(forest: Forest, arrays: list[np.ndarray]) -> list[Any]:
    """What the exported source computes with NumPy alone."""
    names: dict[str, Any] = {}
    exec(exported(forest), names)
    given_ = [v for v in forest.values if v.kind is Kind.LEAF and v.constant is None]
    values = dict(zip([v.name for v in given_], arrays, strict=True))
    made = names["evaluate"](**values)
    return [made[forest.values[n].name] for n in forest.targets]


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_exported_forests_compute_the_same(seed: int) -> None:
    forest = random_forest(random.Random(seed))
    assume(all(i >= 0 for each in forest.productions for i in each.network.output))
    leaves = random_leaves(forest, seed)
    before = [leaf.copy() for leaf in leaves]
    for mine, theirs in zip(ran(forest, leaves), direct(forest, leaves), strict=True):
        assert np.allclose(mine, theirs, rtol=1e-12, atol=1e-12 * np.max(np.abs(theirs), initial=0))
        assert not any(np.shares_memory(mine, leaf) for leaf in leaves)
    assert all(np.array_equal(a, b) for a, b in zip(before, leaves, strict=True))


@given(st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_exported_equations_compute_what_they_mean(seed: int) -> None:
    case = random_case(seed)
    equations = eb.Equations.parse(case.text)
    arrays = {name: case.arrays[name] for name in equations.tensors}
    names: dict[str, Any] = {}
    exec(equations.to_numpy({name: a.shape for name, a in arrays.items()}), names)
    made = names["evaluate"](**arrays)["R"]
    assert np.allclose(made, case.value, rtol=1e-12, atol=1e-9)


def test_exported_names_are_names_and_differ() -> None:
    system = eb.Equations.parse("X[i] = A[i]\nclass[i] = X[i] B[i]\nnp[i] = X[i]").system
    forest = planted(system, {"A": (2,), "B": (2,)})
    values = tuple(replace(v, name="A B") if v.name == "X" else v for v in forest.values)
    source = exported(replace(forest, values=values), "f")
    names: dict[str, Any] = {}
    exec(source, names)
    made = names["f"](A=np.array([1.0, 2]), B=np.array([3.0, 4]))
    assert {k: v.tolist() for k, v in made.items()} == {"class": [3.0, 8.0], "np": [1.0, 2.0]}


def evaluate(source: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """What exported source computes with NumPy alone."""
    names: dict[str, Any] = {}
    exec(source, names)
    made: dict[str, Any] = names["evaluate"](**arrays)
    return made


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float32", "complex128"])
def test_exported_source_keeps_the_element_type(dtype: str) -> None:
    text = "R[i,j] = - 2 A[i,k] B[k,j] + 3 A[i,j]; X[i] = - A[i,i]; Y[i,j] = A[i,j]"
    rng = np.random.default_rng(0)
    given_ = {name: rng.integers(0, 9, (4, 4)).astype(dtype) for name in "AB"}
    a, b = given_["A"], given_["B"]
    program, plain = eb.Program(text), eb.Equations.parse(text)
    program(given_)
    for source in (plain.to_numpy({"A": (4, 4), "B": (4, 4)}), program.to_numpy()):
        made = evaluate(source, given_)
        np.testing.assert_array_equal(made["R"], 3 * a - 2 * (a @ b))
        np.testing.assert_array_equal(made["X"], -a.diagonal())
        assert {array.dtype for array in made.values()} == {np.dtype(dtype)}
        assert not any(np.shares_memory(array, a) for array in made.values())


def test_numbers_that_wrap_around_are_exported_as_they_are_computed() -> None:
    text = "R[i] = 300 A[i] B[i] - A[i]"
    given_ = {name: np.arange(5, dtype=np.uint8) for name in "AB"}
    program = eb.Program(text)
    wanted = program(given_)["R"]
    np.testing.assert_array_equal(evaluate(program.to_numpy(), given_)["R"], wanted)


@given(st.integers(0, 2**20), st.sampled_from([1, 10]))
@settings(max_examples=20, deadline=None)
def test_exported_programs_compute_what_they_compute(seed: int, iterations: int) -> None:
    system = random_system(seed)
    program, arrays = eb.Program(system.equations, iterations=iterations), system.arrays(0)
    made, wanted = program(arrays), system.values(arrays)
    exported_ = evaluate(program.to_numpy(), arrays)
    assert list(exported_) == list(made)
    scale = 1 + max(float(np.abs(each).max()) for each in wanted.values())
    for name, array in exported_.items():
        np.testing.assert_allclose(array, wanted[name], rtol=0, atol=1e-12 * scale**2)


def test_an_exported_program_makes_shared_values_once() -> None:
    terms = "A[i,j] B[j,k] C[k,l] - 2 A[i,j] B[j,k] D[k,l]"
    equations = eb.Equations.parse(f"R[i,l] = {terms}", dict.fromkeys("ijkl", 9))
    for source, n_reads in ((equations.to_numpy(), 2), (eb.Program(equations).to_numpy(), 1)):
        body = source.partition("):\n")[2]
        assert body.count("A") == n_reads
