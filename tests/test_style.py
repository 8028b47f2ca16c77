"""The configured rules are alive, and the house rules that no tool knows are kept."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "src").rglob("*.py"))
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())

MOST_LINES_OF_A_MODULE = 500
MOST_LINES_OF_A_FUNCTION = 50

HEAD = '"""Planted."""\n\n'
BRANCHES = "".join(f"    if x == {n}:\n        return {n}\n" for n in range(11))

# One violation per selected rule family, and the rule that must name it.
PLANTED = {
    "E": ("E501", f'{HEAD}TEXT = "{"x" * 100}"\n'),
    "F": ("F401", f"{HEAD}import os\n"),
    "I": ("I001", f"{HEAD}import sys\nimport os\n\nprint(os, sys)\n"),
    "B": ("B006", f'{HEAD}\ndef f(x: list[int] = []) -> None:\n    """Nothing."""\n'),
    "UP": ("UP006", f"{HEAD}from typing import List\n\nX: List[int] = [1]\n"),
    "SIM": ("SIM118", f"{HEAD}X = {{1: 2}}\nY = 1 in X.keys()\n"),
    "RUF": ("RUF005", f"{HEAD}X = [1]\nY = [2] + X\n"),
    "PT": ("PT011", f"{HEAD}import pytest\n\nwith pytest.raises(ValueError):\n    int('x')\n"),
    "C90": ("C901", f'{HEAD}\ndef f(x: int) -> int:\n    """The x."""\n{BRANCHES}    return x\n'),
    "TID": ("TID252", f"{HEAD}from ..errors import PlanError\n\nprint(PlanError)\n"),
    "D": ("D103", f"{HEAD}\ndef f() -> None:\n    pass\n"),
}


def ruff_codes(source: str, filename: str = "src/einbound/plan/planted.py") -> set[str]:
    """The rules that our configuration finds broken in `source`."""
    command = [sys.executable, "-m", "ruff", "check", "--output-format=json", "--no-cache"]
    done = subprocess.run(
        [*command, "--stdin-filename", filename, "-"],
        input=source,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode in (0, 1), done.stderr
    return {fault["code"] for fault in json.loads(done.stdout)}


@pytest.mark.parametrize("family", CONFIG["tool"]["ruff"]["lint"]["select"])
def test_every_selected_rule_family_finds_its_planted_violation(family: str) -> None:
    code, source = PLANTED[family]
    assert code in ruff_codes(source)


def test_complexity_ten_is_allowed() -> None:
    source = PLANTED["C90"][1].replace("    if x == 10:\n        return 10\n", "")
    source = source.replace("    if x == 9:\n        return 9\n", "")
    assert "C901" not in ruff_codes(source)


def test_ignored_docstring_rules_of_tests_hold_in_tests_only() -> None:
    source = PLANTED["D"][1]
    assert ruff_codes(source, "tests/test_planted.py") == set()


def test_the_formatter_refuses_unformatted_text() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--check", "--stdin-filename", "planted.py", "-"],
        input="x = [1,2 ]\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 1


def test_mypy_refuses_an_untyped_function(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text("def f(x):\n    return x\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(planted)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert "no-untyped-def" in done.stdout


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("import pytest\n\n@pytest.mark.planted\ndef test_it(): pass\n", "planted"),
        ("import warnings\n\ndef test_it(): warnings.warn('planted')\n", "UserWarning: planted"),
    ],
    ids=["unknown marker", "warning"],
)
def test_pytest_fails_on(body: str, complaint: str, tmp_path: Path) -> None:
    planted = tmp_path / "test_planted.py"
    planted.write_text(body)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(planted)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode != 0
    assert complaint in done.stdout


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function from its first statement on, its docstring not counted."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def name(path: Path) -> str:
    return path.relative_to(ROOT / "src").as_posix()


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_modules_and_functions_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES_OF_A_MODULE
    long = {node.name: code_lines(node) for node in functions(path)}
    assert {k: n for k, n in long.items() if n > MOST_LINES_OF_A_FUNCTION} == {}


# The command line is the only part that speaks to a terminal.
SPEAKERS = {"einbound/cli.py", "einbound/demo.py"}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_the_library_is_quiet(path: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    printed = [c.lineno for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]
    assert name(path) in SPEAKERS or printed == []


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_nothing_catches_everything_in_silence(path: Path) -> None:
    handlers = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
    ]
    # Catching all to clean up and raise again hides nothing.
    assert [h.lineno for h in handlers if not isinstance(h.body[-1], ast.Raise)] == []


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_file_names_are_nouns_of_the_field(path: Path) -> None:
    drawers = {"utils", "util", "helpers", "common", "core", "misc", "base", "manager"}
    assert path.stem not in drawers


def test_the_typed_marker_ships() -> None:
    assert (ROOT / "src" / "einbound" / "py.typed").exists()


def test_numpy_is_the_only_dependency_of_the_core() -> None:
    assert CONFIG["project"]["dependencies"] == ["numpy>=2.2"]
