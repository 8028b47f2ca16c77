"""Kept values of programs: whose they are, when they are made anew, and within which bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import einbound as eb
import einbound.api.prints
from test_program import Builds, assert_close, columns, kept_program, two

Array = np.ndarray[Any, Any]


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    return Builds(monkeypatch)


def test_nothing_can_write_over_a_kept_value() -> None:
    program, given = kept_program(), columns()
    program(given)
    held = program._kept.held.values
    assert len(held) == 2
    for array in held.values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_another_element_type_makes_kept_values_anew(builds: Builds) -> None:
    program, given = kept_program(), columns()
    program(given)
    given["t"] = given["t"] * 1j
    results = program(given)
    assert_close(results, two(given))
    assert [array.dtype for array in results.values()] == [np.dtype(complex)] * 2
    assert [len(made) for made in builds.made] == [2, 2, 2, 2]


def test_a_kept_value_can_be_forgotten_by_its_name(builds: Builds) -> None:
    program, given = kept_program(), columns()
    program(given)
    (first, _), _ = builds.made
    program.reset(first)
    program(given)
    assert builds.made[2] == (first,)


def test_only_tensors_that_kept_values_are_made_from_are_digested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digested: list[int] = []
    digest = einbound.api.prints._digest

    def noted(array: Array) -> bytes:
        digested.append(id(array))
        return digest(array)

    monkeypatch.setattr(einbound.api.prints, "_digest", noted)
    program, given = kept_program(check="digest"), columns()
    program(given)
    assert digested == [id(given["A"]), id(given["C"])]


def test_numbers_in_equations_are_no_tensors_that_change() -> None:
    program = eb.Program("volatile T; target G; G = A[i,i] + 2; R[i] = G T[i]", iterations=9)
    program(A=np.eye(3), T=np.ones(3))
    assert program._stages is not None
    assert program._stages.needs == {"G_kept": frozenset({"A"})}


def test_a_rebuilt_value_leaves_room_for_the_other_kept_ones() -> None:
    text = """
    volatile t u
    R[i] = A[i,j] A[j,k] A[k,l] t[l]
    S[i] = C[i,j] C[j,k] u[k]
    """
    rng = np.random.default_rng(0)
    given = {name: rng.standard_normal((30, 30)) for name in "AC"}
    given |= {name: rng.standard_normal(30) for name in "tu"}
    held = sum(array.nbytes for array in given.values())
    limit = held + 2 * 30**2 * 8 + 1500
    program = eb.Program(text, limit, iterations=1000)
    program(given)
    stages = program._stages
    assert stages is not None
    assert stages.kept_bytes == 2 * 30**2 * 8
    for name in stages.kept:
        part = stages.part([name])
        beside = 30**2 * 8 * len(part.given)
        assert part.given
        assert held + beside + part.executable.metered.space_bytes <= limit


def test_the_peak_is_that_of_the_first_call_where_making_kept_values_takes_more() -> None:
    text = "volatile t; R[i] = A[j,k] A[k,l] A[l,j] t[i]"
    given = {"A": np.random.default_rng(0).standard_normal((30, 30)), "t": np.ones(4)}
    program = eb.Program(text, iterations=1000)
    program(given)
    assert program.kept_bytes == 8
    assert program.meter().peak_bytes == program.peak_bytes >= 2 * given["A"].nbytes
    assert program.meter().each.peak_bytes < program.peak_bytes
