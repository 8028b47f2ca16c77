"""Coupled cluster written as equations gives PySCF's energies, within every limit."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einbound as eb

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
#: Hartree that two converged energies may differ by.
TOLERANCE = 1e-8
WATER = "O 0 0 0; H 0 0.757 0.587; H 0 -0.757 0.587"


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


def module(name: str) -> Any:
    return importlib.import_module(name)


def solved(problem: Any, **keywords: Any) -> Any:
    given = problem.text, problem.tensors, problem.occupied, problem.virtual
    return module("cc_solver").solve(*given, **keywords)


@pytest.fixture(scope="module")
def water() -> Any:
    pytest.importorskip("pyscf")
    sys.path.insert(0, str(EXAMPLES))
    try:
        return importlib.import_module("cc_problem").closed_shell(WATER, "sto-3g", timed=False)
    finally:
        sys.path.remove(str(EXAMPLES))


def test_closed_shell_energy_is_pyscfs(water: Any) -> None:
    found = solved(water)
    assert found.energy == pytest.approx(water.reference.energy, abs=TOLERANCE)


@pytest.mark.parametrize("scheduler", ["ordered", "forest_descent"])
def test_closed_shell_energy_stays_within_a_limit(water: Any, scheduler: str) -> None:
    limit = 100_000
    found = solved(water, memory_limit=limit, scheduler=scheduler)
    assert found.energy == pytest.approx(water.reference.energy, abs=TOLERANCE)
    assert found.planned_bytes <= limit
    assert found.measured_bytes <= limit


def test_spin_orbital_energy_is_pyscfs() -> None:
    pytest.importorskip("pyscf")
    problem = module("cc_problem").spin_orbital(WATER, "sto-3g", timed=False)
    found = solved(problem)
    assert found.energy == pytest.approx(problem.reference.energy, abs=TOLERANCE)


@pytest.mark.parametrize("name", ["CLOSED_SHELL", "SPIN_ORBITAL"])
def test_the_text_means_what_it_prints(name: str) -> None:
    equations = eb.Equations.parse(getattr(module("cc_equations"), name))
    assert eb.Equations.parse(str(equations)) == equations
    assert equations.targets == ("R1", "R2", "E")
    assert equations.volatile == {"t1", "t2"}


def test_diis_solves_a_linear_system_of_few_unknowns() -> None:
    # Amplitudes x with residual b - A x: iterations with the diagonal of A alone diverge.
    gaps = np.array([[-2.0, -3.0]])
    amplitudes = module("cc_solver").Amplitudes.zero(gaps)
    matrix = np.array([[2.0, 2.5], [3.5, 3.0]])
    right = np.array([1.0, -1.0])
    for _ in range(12):
        singles = (matrix @ amplitudes.singles[0] - right)[None]
        norm = amplitudes.improve(singles, np.zeros((1, 1, 2, 2)))
        if norm < 1e-12:
            break
    assert np.allclose(matrix @ amplitudes.singles[0], right, atol=1e-10)
