"""What `import einbound` loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"

OPTIONAL = {
    "rich", "scipy", "opt_einsum", "cotengra", "cotengrust", "threadpoolctl", "torch", "jax",
    "cupy", "dask", "h5py", "zarr", "matplotlib", "hypothesis", "pytest",
}  # fmt: skip
HEAVY = {"sqlite3", "asyncio", "multiprocessing", "concurrent.futures", "tracemalloc", "argparse"}


@pytest.fixture(scope="module")
def loaded() -> frozenset[str]:
    """Modules that `import einbound` loads beyond those of `import numpy`."""
    program = (
        "import sys, numpy; before = set(sys.modules); import einbound; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    return frozenset(done.stdout.split())


def test_the_import_is_seen_at_all(loaded: frozenset[str]) -> None:
    assert "einbound" in loaded


def test_no_optional_package_is_loaded(loaded: frozenset[str]) -> None:
    assert {name.split(".")[0] for name in loaded} & OPTIONAL == set()


def test_no_heavy_part_of_the_standard_library_is_loaded(loaded: frozenset[str]) -> None:
    assert loaded & HEAVY == set()


def test_only_numpy_is_loaded_of_other_distributions(loaded: frozenset[str]) -> None:
    tops = {name.split(".")[0] for name in loaded}
    assert tops - set(sys.stdlib_module_names) <= {"einbound", "numpy"}
