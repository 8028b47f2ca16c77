"""The benchmarks' measuring child sees what a call takes, whoever allocates it."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
NETWORK = BENCHMARKS / "data" / "windows_hankel.json"
LIMIT_BYTES = 32 << 20
TEN_MIB = 10 << 20
#: Interpreter objects and page rounding of a call that takes one array.
SLACK_BYTES = 1 << 20

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="process peaks are read from /proc"
)


def stand_in(**options: int) -> dict[str, Any]:
    """What the child measures of a call that takes the given bytes."""
    task = {"network": str(NETWORK), "engine": "stand-in", "options": options}
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "trial.py")],
        input=json.dumps(task) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def grown(answer: dict[str, Any]) -> int:
    """Measured bytes without operands and result."""
    taken: int = answer["measured_bytes"] - answer["operand_bytes"] - answer["result_bytes"]
    return taken


def test_a_call_at_its_limit_is_measured_within_it() -> None:
    answer = stand_in(array_bytes=LIMIT_BYTES)
    assert LIMIT_BYTES - SLACK_BYTES <= grown(answer) <= LIMIT_BYTES + SLACK_BYTES


def test_an_overshoot_of_ten_mebibytes_is_caught() -> None:
    answer = stand_in(array_bytes=LIMIT_BYTES + TEN_MIB)
    assert grown(answer) > LIMIT_BYTES + TEN_MIB - SLACK_BYTES
    assert answer["process_bytes"] > LIMIT_BYTES + TEN_MIB - SLACK_BYTES


def test_an_overshoot_by_plain_malloc_is_caught() -> None:
    answer = stand_in(array_bytes=LIMIT_BYTES, hidden_bytes=TEN_MIB)
    assert answer["tracked_bytes"] < LIMIT_BYTES + SLACK_BYTES
    assert grown(answer) > LIMIT_BYTES + SLACK_BYTES


def test_an_overshoot_in_a_mapping_is_caught_to_the_page() -> None:
    answer = stand_in(array_bytes=LIMIT_BYTES, mapped_bytes=TEN_MIB // 10)
    assert answer["tracked_bytes"] >= LIMIT_BYTES + TEN_MIB // 10


def test_a_sliding_window_counts_the_bytes_that_are_stored() -> None:
    answer = stand_in(array_bytes=0)
    sizes = json.loads(NETWORK.read_text(encoding="utf-8"))["sizes"]
    stored = sum(sizes[i] + sizes["w"] - 1 for i in "ts")
    assert answer["operand_bytes"] == 8 * (
        stored + sizes["t"] * sizes["p"] + sizes["s"] * sizes["q"]
    )


@pytest.mark.parametrize("layout", ["plain", "strided", "transposed"])
def test_every_layout_holds_the_same_numbers(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    networks = importlib.import_module("networks")
    network = networks.Network("n", "ij,kji->k", ((3, 4), (2, 4, 3)), (2,), "float64", {})
    plain = networks.operands(network)
    made = networks.operands(network, layout)
    assert all(np.array_equal(a, b) for a, b in zip(plain, made, strict=True))
    doubled = 2 if layout == "strided" else 1
    gaps = 2 * 8 * (doubled - 1)  # the last gap of each operand is outside its byte range
    assert networks.operand_bytes(made) == 8 * (12 + 24) * doubled - gaps


def test_paired_ratios_have_their_median_inside_the_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    ratios = importlib.import_module("ratios")
    found = ratios.paired([1.0, 1.2, 1.1, 1.4, 0.9], [2.0] * 5)
    assert (found.low, found.median, found.high) == (0.45, 0.55, 0.7)
    assert ratios.geometric_mean([0.5, 2.0, 8.0]) == pytest.approx(2.0)


def test_a_sliced_plan_is_counted_with_nothing_hoisted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    candidates = importlib.import_module("candidates")
    networks = importlib.import_module("networks")
    network = networks.Network("n", "ij,jk,kl->il", ((4, 8), (8, 5), (5, 6)), (4, 6), "float64", {})
    arrays = networks.blanks(network)
    sliced = candidates.Candidate("by hand", ((0, 1), (2, 3)), ("l",), 6, 6 * 4 * 8 * 5 + 120)
    assert candidates.held(network, arrays, sliced).macs == sliced.macs
    assert candidates.held(network, arrays, sliced, hoisted=True).macs == 4 * 8 * 5 + 120
