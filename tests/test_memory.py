"""Limits as people write them, and memory as machines tell it."""

from __future__ import annotations

import os
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from einbound.errors import LimitError
from einbound.machine.memory import UNKNOWN_BYTES, available_bytes, parse_bytes

DECIMAL = {"kB": 1000, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15, "EB": 10**18}
BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50, "EiB": 2**60}
UNITS = {"": 1, "B": 1, **DECIMAL, **BINARY}


def never() -> int:
    raise AssertionError("the machine was asked although the limit is no share of it")


@given(st.integers(0, 10**30))
def test_a_number_of_bytes_is_itself(n: int) -> None:
    assert parse_bytes(n, never) == n
    assert parse_bytes(str(n), never) == n


@given(
    st.decimals(0, 10**6, places=3),
    st.sampled_from(sorted(UNITS)),
    st.sampled_from(["", " ", "  ", "\t"]),
    st.sampled_from([str, str.lower, str.upper]),
)
def test_text_is_amount_times_unit_rounded_down(
    amount: Any, unit: str, space: str, case: Any
) -> None:
    text = f"{space}{amount}{space}{case(unit)}{space}"
    assert parse_bytes(text, never) == int(Fraction(amount) * UNITS[unit])


@given(st.decimals(0, 100, places=2), st.integers(0, 2**50))
def test_a_share_never_exceeds_what_is_available(amount: Any, have: int) -> None:
    share = parse_bytes(f"{amount}%", lambda: have)
    assert share == int(Fraction(amount) * have / 100) <= have


@given(st.text())
def test_any_text_gives_a_count_or_a_refusal(text: str) -> None:
    try:
        count = parse_bytes(text, lambda: 1000)
    except LimitError as refusal:
        told = str(refusal)
    else:
        told = repr(text) if count >= 0 else ""
    assert repr(text) in told


def test_numpy_integers_are_numbers_of_bytes() -> None:
    assert parse_bytes(np.int64(7), never) == 7  # type: ignore[arg-type]  # as callers do


@pytest.mark.parametrize(
    "limit",
    [
        True, -1, 1.5, float("nan"), None, [1], "", "nan", "inf", "-1", "-1MB", "1e9", "2 gigs",
        "2G", "1_000", "101%", "-5%", "%", "MiB", "1 2 MB", "٣MB", "1.2.3GB",
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_amount_is_refused_with_its_value(limit: Any) -> None:
    shown = re.escape(
        f"memory_limit={limit!r} is no amount of memory; expected a number of bytes "
        '(an int of at least 0) or text such as "512MiB", "1.5GB" or "80%"'
    )
    with pytest.raises(LimitError, match=shown):
        parse_bytes(limit, lambda: 1000)


def test_the_refusal_names_the_limit_that_was_given() -> None:
    with pytest.raises(LimitError, match=r"^workspace_limit='x' is no amount"):
        parse_bytes("x", name="workspace_limit")


def test_a_share_of_an_unknown_amount_is_refused() -> None:
    with pytest.raises(LimitError, match="which this machine does not tell; give it in bytes"):
        parse_bytes("80%", lambda: UNKNOWN_BYTES)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal: 9000 kB\nMemFree: 1 kB\nMemAvailable: 8000 kB\n"}


def test_without_groups_the_machine_decides(tmp_path: Path) -> None:
    assert available_bytes(write(tmp_path, MEMINFO)) == 8000 * 1024


def test_the_tightest_group_of_the_chain_decides(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/outer/inner\n",
        "sys/fs/cgroup/outer/inner/memory.max": "max\n",
        "sys/fs/cgroup/outer/inner/memory.current": "50\n",
        "sys/fs/cgroup/outer/memory.max": "5000\n",
        "sys/fs/cgroup/outer/memory.current": "3000\n",
        "sys/fs/cgroup/outer/memory.stat": "anon 2000\ninactive_file 700\n",
    }
    assert available_bytes(write(tmp_path, MEMINFO | files)) == 2700


def test_a_container_whose_own_path_is_not_mounted_reads_the_mount(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/../host/path\n",
        "sys/fs/cgroup/memory.max": "4096\n",
        "sys/fs/cgroup/memory.current": "1000\n",
    }
    assert available_bytes(write(tmp_path, MEMINFO | files)) == 3096


def test_groups_of_version_one_bound_too(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "5:cpu,cpuacct:/a\n4:memory:/a\n",
        "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "6000\n",
        "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "5000\n",
        "sys/fs/cgroup/memory/a/memory.stat": "inactive_file 1\ntotal_inactive_file 20\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "5000\n",
    }
    assert available_bytes(write(tmp_path, MEMINFO | files)) == 1020


def test_a_group_over_its_limit_has_nothing_left(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": "1000\n",
        "sys/fs/cgroup/memory.current": "2000\n",
    }
    assert available_bytes(write(tmp_path, MEMINFO | files)) == 0


def test_without_proc_the_system_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf_names", {"SC_PHYS_PAGES": 1})
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 10, "SC_PAGE_SIZE": 4096}.get)
    assert available_bytes(tmp_path) == 40960


def test_a_machine_that_tells_nothing_is_said_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sysconf_names")
    assert available_bytes(tmp_path) == UNKNOWN_BYTES


def test_this_machine_has_memory() -> None:
    assert 0 < available_bytes() <= UNKNOWN_BYTES


def test_a_refused_limit_is_a_value_error_to_callers_who_know_no_more() -> None:
    assert issubclass(LimitError, ValueError)
