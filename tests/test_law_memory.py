"""Modelled peak = metered peak, and what is measured never exceeds it.

Fresh processes plan and run many contractions of some MB; each run is measured by tracemalloc, by
the resident pages of its mappings and by the process's high-water mark. The same checks must fail
for runs that are spoiled on purpose.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from einbound.machine.peak import reset_high_water
from native_tools import needs_compiler

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
#: What the process may grow by beyond the model: heap fragments, pages of code touched first.
PROCESS_SLACK_BYTES = 8 << 20
#: Objects of the measuring itself: the text of /proc/self/status.
MEASURING_BYTES = 12 << 10
#: Of one ufunc call: three buffers of 512 elements of 16 bytes.
UFUNC_BYTES = 3 * 512 * 16

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="process peaks are read from /proc"
)
needs_reset = pytest.mark.skipif(
    not reset_high_water(), reason="this system does not reset high-water marks"
)

Row = dict[str, Any]


def child(script: str, task: str = "") -> Any:
    """What a fresh process answers to a task."""
    done = subprocess.run(
        [sys.executable, str(TESTS / script)],
        input=task + "\n",
        capture_output=True,
        text=True,
        env={
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'benchmarks'}:{TESTS}",
            "OPENBLAS_NUM_THREADS": "1",
            "PATH": os.environ.get("PATH", os.defpath),
        },
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@cache
def rows(kind: str, seed: int, n_cases: int) -> tuple[Row, ...]:
    """The rows of random cases that were not refused."""
    task = json.dumps({"kind": kind, "seed": seed, "n_cases": n_cases})
    return tuple(row for row in child("law_child.py", task) if "refused" not in row)


def spoiled(how: str, text: str, sizes: dict[str, int]) -> Row:
    """The row of one case in a process that breaks the law in a known way."""
    (row,) = child("law_child.py", json.dumps({"spoiled": how, "text": text, "sizes": sizes}))
    return dict(row)


def broken(row: Row) -> list[str]:
    """Which parts of the law a row breaks."""
    promised = row["peak_bytes"] - row["held_bytes"]
    allowed = promised + row["overhead_bytes"] + MEASURING_BYTES
    parts = {
        "meter": row["metered_alike"],
        "limit": row["limit_bytes"] is None or row["peak_bytes"] <= row["limit_bytes"],
        "tracked": row["tracked_bytes"] <= allowed,
        "unmapped": row["unmapped_bytes"] <= allowed,
        "process": row["process_bytes"] <= allowed + PROCESS_SLACK_BYTES,
        "left": row["left_bytes"] == row["outside"] == 0,
        "again": row["same_again"],
    }
    return [part for part, kept in parts.items() if not kept]


CASES = [
    ("limited", 1, 5),
    ("limited", 2, 5),
    ("handwritten", 3, 8),
    ("handwritten", 4, 8),
    ("given", 5, 3),
    ("streamed", 7, 4),
]


@pytest.mark.parametrize(("kind", "seed", "n_cases"), CASES)
def test_no_run_takes_more_than_its_plan_says(kind: str, seed: int, n_cases: int) -> None:
    found = rows(kind, seed, n_cases)
    assert len(found) >= 2 * n_cases
    assert [(row, broken(row)) for row in found if broken(row)] == []


@needs_compiler
def test_no_run_on_kernels_takes_more_than_its_plan_says() -> None:
    found = rows("native", 8, 5)
    assert [(row, broken(row)) for row in found if broken(row)] == []
    assert sum(row["n_native"] for row in found) > 10


def test_the_random_runs_are_of_every_kind() -> None:
    found = [row for case in CASES for row in rows(*case)]
    layouts = {layout for row in found for layout in row["layouts"]}
    assert layouts == {"plain", "transposed", "turned", "stepped", "reversed", "window"}
    dtypes = {frozenset(row["dtypes"]) for row in found}
    assert {d for some in dtypes for d in some} == {"<f2", "<f4", "<f8", "<c16"}
    assert any(len(some) > 1 for some in dtypes)
    plans = {row["plan"] for row in found}
    assert plans >= {"free", "k=1", "k=2", "k=4", "k=16", "k=64", "tree 0", "stepped", "over"}
    assert max(row["workspace_bytes"] for row in found) > 8 << 20
    assert max(row["calls"] for row in found) > 100


SPOILED = {
    "reversed matmul": ("ab,bc,cd->ad", {"a": 3000, "b": 900, "c": 16, "d": 16}, ["process"]),
    "hoard": (
        "ab,bc,cd->ad",
        {"a": 400, "b": 400, "c": 400, "d": 400},
        ["tracked", "unmapped", "process"],
    ),
    "forget": ("ab,bc,cd->ad", {"a": 400, "b": 400, "c": 400, "d": 400}, ["left"]),
    # The result comes to life when the large intermediate is gone.
    "no cut": ("ab,bc,ca,ad->ad", dict.fromkeys("abcd", 900), ["tracked"]),
}


@needs_reset
@pytest.mark.parametrize("how", sorted(SPOILED))
def test_a_spoiled_run_is_caught(how: str) -> None:
    text, sizes, parts = SPOILED[how]
    assert broken(spoiled(how, text, sizes)) == parts


@needs_reset
def test_no_numpy_call_of_a_run_takes_more_than_ufunc_buffers() -> None:
    found = {name: (tracked, process) for name, tracked, process in child("law_numpy.py")}
    tracked, process = found.pop("never: matmul reversed")
    assert tracked <= MEASURING_BYTES
    assert process > 8 << 20
    assert len(found) >= 30
    for name, (tracked, process) in found.items():
        # c_einsum has buffers of its own size, which a plan counts as workspace.
        buffers = 3 * 8192 * 16 if name.startswith("einsum") else UFUNC_BYTES
        assert tracked <= buffers + MEASURING_BYTES, name
        assert process <= buffers + (1 << 20), name
