"""Measured peaks see what was taken, and only that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from einbound.machine import peak
from einbound.machine.peak import (
    PROCESS_SLACK_BYTES,
    Growth,
    high_water_bytes,
    process_growth,
    run_fresh,
    tracked_growth,
)

SIZE = 48 * 2**20

needs_reset = pytest.mark.skipif(
    not peak.reset_high_water(), reason="this system does not reset high-water marks"
)


def test_tracked_growth_is_the_peak_not_the_rest() -> None:
    def action() -> None:
        np.ones(SIZE, np.uint8)

    assert SIZE <= tracked_growth(action) < SIZE + 2**16


def test_tracked_growth_counts_what_is_alive_at_once() -> None:
    def action() -> None:
        for _ in range(3):
            np.ones(SIZE, np.uint8)

    assert tracked_growth(action) < SIZE + 2**16


@needs_reset
def test_process_growth_sees_touched_pages() -> None:
    grown = process_growth(lambda: np.ones(SIZE, np.uint8))
    assert grown is not None
    assert SIZE - 2**20 <= grown < SIZE + PROCESS_SLACK_BYTES


@needs_reset
def test_an_earlier_peak_does_not_hide_a_later_one() -> None:
    np.ones(4 * SIZE, np.uint8)
    grown = process_growth(lambda: np.ones(SIZE, np.uint8))
    assert grown is not None
    assert grown >= SIZE - 2**20


def test_without_proc_the_high_water_mark_comes_from_the_resource_usage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("resource")
    monkeypatch.setattr(peak, "_STATUS", tmp_path / "status")
    known = high_water_bytes()
    assert known is not None
    assert known > 2**20


def test_where_nothing_is_told_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peak, "_STATUS", tmp_path / "status")
    monkeypatch.setitem(sys.modules, "resource", None)
    assert high_water_bytes() is None
    assert process_growth(lambda: None) is None


def test_the_slack_is_taken_off_the_process_only() -> None:
    assert Growth(5, None).counted_bytes == 5
    assert Growth(5, PROCESS_SLACK_BYTES).counted_bytes == 5
    assert Growth(5, PROCESS_SLACK_BYTES + 7).counted_bytes == 7


def test_a_fresh_process_reads_and_answers() -> None:
    assert run_fresh("json.tool", ["--compact"], '{"a":  1}') == '{"a":1}\n'


def test_a_child_that_fails_is_an_error() -> None:
    with pytest.raises(subprocess.CalledProcessError, match="exit status 1"):
        run_fresh("json.tool", [], "no json")
