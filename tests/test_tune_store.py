"""Records that are kept: by many processes, through damage, and as text."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einbound.errors import KernelError
from einbound.kernels.decisions import RegisterTile, RowBlock
from einbound.kernels.problem import MatmulProblem
from einbound.machine.limits import CacheLevel, HardwareLimits
from einbound.tune.exchange import exported, imported
from einbound.tune.records import (
    Context,
    Outcome,
    Record,
    decisions_of,
    decisions_text,
    reading_of,
    record_of,
)
from einbound.tune.store import APPLICATION_ID, SCHEMA, Store

PROBLEM = MatmulProblem(m=64, n=32, k=16)
CONTEXT = Context("a core", "cc 1", "-O2", "0.1")
PATH = (("row-block", RowBlock(16)), ("register-tile", RegisterTile(4, 2, 8)))
RECORD = Record(
    problem=PROBLEM.key,
    decisions=decisions_text(PATH),
    label="bm16 > rm4",
    context=CONTEXT,
    source="abc",
    seconds=1e-3,
    ratio=0.5,
    model_seconds=2e-3,
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache" / "kernels.db")


# Rows --------------------------------------------------------------------------------------------


def test_what_is_kept_is_read_back_in_order(store: Store) -> None:
    failed = replace(RECORD, outcome=Outcome.CRASHED, reason="signal 11", seconds=None, ratio=None)
    for record in (RECORD, failed, RECORD):
        store.add(record)
    assert store.records(PROBLEM, CONTEXT) == (RECORD, failed, RECORD)


def test_there_is_one_winner_for_each_key(store: Store) -> None:
    store.crown([RECORD])
    faster = replace(RECORD, seconds=5e-4)
    store.crown([faster])
    assert store.winner(PROBLEM, CONTEXT) == faster
    assert store.winners() == (faster,)


@pytest.mark.parametrize("name", ["cpu", "compiler", "flags", "version"])
def test_any_changed_part_of_the_key_misses(store: Store, name: str) -> None:
    store.crown([RECORD])
    store.add(RECORD)
    other = replace(CONTEXT, **{name: "other"})
    assert store.winner(PROBLEM, other) is None
    assert store.records(PROBLEM, other) == ()
    assert store.winner(replace(PROBLEM, k=17), CONTEXT) is None


def test_a_problem_is_known_by_its_canonical_form(store: Store) -> None:
    store.crown([RECORD])
    same = replace(PROBLEM, batch=(1,), epilogue_reason="said otherwise")
    assert store.winner(same, CONTEXT) == RECORD


def test_reading_makes_no_file(store: Store) -> None:
    assert store.winners() == ()
    assert store.clear() == 0
    assert not store.path.exists()


def test_clearing_leaves_nothing_and_counts(store: Store) -> None:
    store.add(RECORD)
    store.crown([RECORD])
    assert store.clear() == 2
    assert (store.records(), store.winners()) == ((), ())


def test_the_folder_is_for_its_owner_alone(store: Store) -> None:
    store.add(RECORD)
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700


# Damage ------------------------------------------------------------------------------------------


def test_a_damaged_file_is_moved_aside_and_told(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.path.parent.mkdir()
    store.path.write_bytes(b"no database at all" * 100)
    assert store.winner(PROBLEM, CONTEXT) is None
    store.crown([RECORD])
    assert store.winner(PROBLEM, CONTEXT) == RECORD
    assert [each.name for each in store.path.parent.glob("*.damaged-*")] == ["kernels.db.damaged-0"]
    assert "is damaged and was moved to" in caplog.text


def test_a_cut_file_is_no_error(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.crown(replace(RECORD, problem=str(n)) for n in range(100))
    whole = store.path.read_bytes()
    for length in (0, 50, 100, 4096, len(whole) // 2):
        store.path.write_bytes(whole[:length])
        store.records()
        store.add(RECORD)
        assert RECORD in store.records()


@pytest.mark.parametrize(
    ("application", "schema"), [(APPLICATION_ID, SCHEMA + 1), (0x1234, SCHEMA), (0, 0)]
)
def test_files_of_others_and_of_later_versions_are_left_as_they_are(
    store: Store, application: int, schema: int, caplog: pytest.LogCaptureFixture
) -> None:
    store.path.parent.mkdir()
    with sqlite3.connect(store.path) as file:
        file.execute("CREATE TABLE theirs (x)")
        file.execute(f"PRAGMA application_id = {application}")
        file.execute(f"PRAGMA user_version = {schema}")
    file.close()
    before = store.path.read_bytes()
    store.add(RECORD)
    assert store.records() == ()
    assert store.path.read_bytes() == before
    assert "are left alone: its marks are" in caplog.text


def test_a_line_that_is_no_record_is_left_out(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.add(RECORD)
    with sqlite3.connect(store.path) as file:
        file.execute("UPDATE records SET line = '{\"what\": 1}'")
    file.close()
    store.add(RECORD)
    assert store.records() == (RECORD,)
    assert "is left out" in caplog.text


def test_a_folder_that_cannot_be_made_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "kernels.db")
    store.add(RECORD)
    assert store.records() == ()
    assert "cannot be used" in caplog.text


def test_a_file_that_is_locked_is_no_error(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(Store.add.__globals__, "BUSY_SECONDS", 0.0)
    store.add(RECORD)
    other = sqlite3.connect(store.path)
    other.execute("BEGIN EXCLUSIVE")
    store.add(RECORD)
    assert store.records() == ()
    other.rollback()
    other.close()
    assert store.records() == (RECORD,)
    assert "database is locked" in caplog.text


CHILD = """
import sys
from pathlib import Path
from einbound.tune.records import record_of
from einbound.tune.store import Store
store = Store(Path(sys.argv[1]))
for _ in range(5):
    store.add(record_of(sys.argv[2]))
"""


def test_many_processes_write_at_once_and_lose_nothing(store: Store) -> None:
    command = [sys.executable, "-c", CHILD, str(store.path), RECORD.to_json()]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    children = [subprocess.Popen(command, env=environment) for _ in range(3)]
    assert [child.wait() for child in children] == [0] * 3
    assert store.records() == (RECORD,) * 15


# Text --------------------------------------------------------------------------------------------


@given(
    st.text(max_size=8),
    st.floats(0, 1e6) | st.none(),
    st.sampled_from([each for each in Outcome if each is not Outcome.MEASURED]),
)
def test_a_record_is_read_as_it_was_written(
    text: str, seconds: float | None, outcome: Outcome
) -> None:
    record = replace(RECORD, label=text, source=text, context=replace(CONTEXT, cpu=text))
    if seconds is None:
        record = replace(record, outcome=outcome, reason=text, seconds=None, ratio=None)
    else:
        record = replace(record, seconds=seconds)
    assert record_of(record.to_json()) == record
    assert imported(exported([record])) == (record,)


def test_decisions_are_read_as_they_were_written() -> None:
    assert decisions_of(decisions_text(PATH)) == tuple(each for _, each in PATH)


@pytest.mark.parametrize("text", ["", "{}", '{"context": {}}', "[" * 9999, '{"context": 1}'])
def test_text_that_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(KernelError, match="is no record"):
        record_of(text)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"seconds": None}, "expected a time if and only if it was measured"),
        ({"outcome": "wrong"}, "expected a time if and only if it was measured"),
        ({"seconds": float("inf")}, "seconds of a record is inf; expected a finite number"),
        ({"ratio": -1.0}, "ratio of a record is -1.0; expected a finite number"),
    ],
)
def test_records_that_make_no_sense_are_refused(change: dict[str, object], match: str) -> None:
    with pytest.raises(KernelError, match=match):
        replace(RECORD, **change)  # type: ignore[arg-type]


def test_exported_text_does_not_depend_on_the_order_of_winners() -> None:
    other = replace(RECORD, problem=replace(PROBLEM, m=128).key)
    assert exported([RECORD, other]) == exported([other, RECORD])


def test_one_more_winner_adds_lines_and_changes_none() -> None:
    other = replace(RECORD, problem=replace(PROBLEM, m=128).key)
    one, two = exported([RECORD]).splitlines(), exported([RECORD, other]).splitlines()
    left = [line for line in one if line not in two]
    assert [line.rstrip(",") for line in left] in ([], ["  }"])


def test_entries_that_are_no_winners_are_left_out_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = json.loads(exported([RECORD]))
    data["winners"] += [{}, 5, {**data["winners"][0], "seconds": "fast"}]
    with caplog.at_level(logging.WARNING):
        assert imported(json.dumps(data)) == (RECORD,)
    assert caplog.text.count("an entry of tuned kernels is left out") == 3


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "tuned kernels are no JSON"),
        ('{"format": "x"}', "the format of tuned kernels is 'x'; expected 'einbound kernels 1'"),
        ('{"format": "einbound kernels 1"}', "winners of tuned kernels are None; expected a list"),
        ("5", "the format of tuned kernels is 5"),
    ],
)
def test_other_text_is_refused(text: str, match: str) -> None:
    with pytest.raises(KernelError, match=match):
        imported(text)


# Readings ----------------------------------------------------------------------------------------


def test_a_record_becomes_a_reading_with_exact_flops() -> None:
    limits = HardwareLimits(simd_vector_bytes=32)
    reading = reading_of(RECORD, limits)
    assert (reading.backend, reading.flops) == ("native float32", 2 * 64 * 32 * 16)
    assert (reading.measured_ms, reading.model_ms) == (1.0, 2.0)
    assert reading.exact.n_bytes is not None


def test_bytes_that_a_cache_holds_are_no_exact_count() -> None:
    limits = HardwareLimits(simd_vector_bytes=32, levels=(CacheLevel(2**20, 8, 64, 1e11),))
    assert reading_of(RECORD, limits).exact.n_bytes is None
