"""Imports point one way, and every effect has one owner."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "einbound"
SRC = Path(__file__).parents[1] / "src" / PACKAGE

# Lowest first. Units of one set may not import each other.
LAYERS = [
    {"errors", "version"},
    {"expr", "space"},
    {"step", "machine"},
    {"plan"},
    {"schedule"},
    {"forest", "kernels"},
    {"tune"},
    {"backends"},
    {"run"},
    {"report"},
    {"api"},
    {"__init__"},
    {"demo"},
    {"cli"},
    {"__main__"},
]
RANK = {unit: rank for rank, units in enumerate(LAYERS) for unit in units}

# Modules with an effect or a heavy load, and the only ones that may import them.
OWNERS = {
    "subprocess": {"machine.peak", "tune.build"},
    "ctypes": {"tune.build", "backends.native"},
    "time": {"tune.measure"},
    "tracemalloc": {"machine.peak"},
    "mmap": {"run.allocator"},
    "os.environ": {"api.options"},
    "os.getenv": {"api.options"},
    "numpy.random": {"demo"},
    "random": {"plan.greedy", "plan.order", "plan.reconfigure"},
    "rich": {"report.progress"},
    "matplotlib": {"report.plots"},
    "torch": {"backends.array_api"},
    "cupy": {"backends.array_api"},
    "dask": {"backends.dask_"},
    "scipy": set[str](),
    "opt_einsum": set[str](),
    "cotengra": {"api.peer"},
}

MODULES = sorted(SRC.rglob("*.py"))


def name(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts)


def imports(tree: ast.AST, package: list[str]) -> Iterator[str]:
    """Absolute names imported anywhere in the file, function bodies included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def uses(tree: ast.AST) -> Iterator[str]:
    """Dotted names read anywhere in the file, with `np` spelled out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            dotted = ast.unparse(node)
            yield f"numpy.{dotted[3:]}" if dotted.startswith("np.") else dotted


def faults(source: str, me: str) -> list[str]:
    """What one module imports or uses and may not."""
    tree = ast.parse(source)
    unit = me.split(".")[0]
    found = []
    for target in imports(tree, [PACKAGE, *me.split(".")[:-1]]):
        top, *rest = target.split(".")
        if top == PACKAGE and rest[:1] != [unit]:
            # `from einbound import X` is the package's own front door.
            below = RANK.get(rest[0] if rest else "__init__", RANK["__init__"]) < RANK[unit]
            if not below:
                found.append(f"{me} may not import {target}")
    for target in {*imports(tree, []), *uses(tree)}:
        for owned, owners in OWNERS.items():
            if f"{target}.".startswith(f"{owned}.") and me not in owners:
                found.append(f"only {sorted(owners)} may use {owned}, not {me}")
    return found


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_point_down_and_effects_have_one_owner(path: Path) -> None:
    unit = name(path).split(".")[0]
    assert unit in RANK, f"{unit} has no layer; add it to LAYERS"
    assert faults(path.read_text(), name(path)) == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("plan.order", "from einbound.api.plan import Plan"),
        ("plan.order", "import einbound.run.walk"),
        ("plan.order", "from einbound import einsum"),
        ("plan.order", "from ..backends import numpy_"),
        ("step.ways", "from einbound.machine import memory"),
        ("plan.order", "import time"),
        ("plan.order", "import os\nos.environ['CC']"),
        ("run.walk", "def f():\n    from mmap import mmap"),
        ("backends.numpy_", "import numpy as np\nnp.random.rand(3)"),
        ("cli", "import rich.progress"),
    ],
)
def test_a_planted_breach_is_found(module: str, line: str) -> None:
    assert faults(line, module) != []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("plan.order", "from einbound.plan.tree import Tree"),
        ("plan.order", "from einbound.errors import PlanError"),
        ("cli", "import einbound as eb"),
        ("run.allocator", "import mmap"),
    ],
)
def test_a_lawful_import_is_not_a_fault(module: str, line: str) -> None:
    assert faults(line, module) == []
