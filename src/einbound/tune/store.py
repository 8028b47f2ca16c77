"""Records and winners in one SQLite file, which many processes may use at once.

A store never fails a caller: what cannot be read or written is told in the log, and then there is
nothing in it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from einbound.errors import KernelError
from einbound.kernels.problem import MatmulProblem
from einbound.tune.records import Context, Record, record_of

log = logging.getLogger(__name__)

#: What tells our files from others ("einb"), and the layout of their tables from later ones.
APPLICATION_ID = 0x65696E62
SCHEMA = 1
#: Seconds that one process waits for another one's write.
BUSY_SECONDS = 5.0
#: Files that were moved aside, at most; more are overwritten.
_MOST_ASIDE = 9

_TABLES = """
CREATE TABLE records (
    number INTEGER PRIMARY KEY,
    problem TEXT NOT NULL,
    context TEXT NOT NULL,
    line TEXT NOT NULL
);
CREATE INDEX records_by_key ON records (problem, context);
CREATE TABLE winners (
    problem TEXT NOT NULL,
    context TEXT NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (problem, context)
);
"""

T = TypeVar("T")


class _Foreign(Exception):
    """A file that is not ours, or that a later version wrote."""


@dataclass(frozen=True, slots=True)
class Store:
    """The records of one file; one row for each measurement, one winner for each key.

    Every call opens the file anew, so that a store may be used from any thread and after a fork.

    Attributes:
        path: The file; it is made, with its folder, at the first write.
    """

    path: Path

    def add(self, record: Record) -> None:
        """Keep what came of a candidate."""
        row = (record.problem, record.context.key, record.to_json())
        self._write("INSERT INTO records (problem, context, line) VALUES (?, ?, ?)", [row])

    def crown(self, records: Iterable[Record]) -> None:
        """Make each record the winner of its problem and context."""
        rows = [(each.problem, each.context.key, each.to_json()) for each in records]
        self._write("INSERT OR REPLACE INTO winners VALUES (?, ?, ?)", rows)

    def records(
        self, problem: MatmulProblem | None = None, context: Context | None = None
    ) -> tuple[Record, ...]:
        """What was tried, in the order in which that happened.

        Args:
            problem: Of this product only; None: of all.
            context: In this context only; None: in all.
        """
        return self._read("SELECT line FROM records {} ORDER BY number", problem, context)

    def winner(self, problem: MatmulProblem, context: Context) -> Record | None:
        """The kernel that was found best; None: nothing is known."""
        found = self._read("SELECT line FROM winners {}", problem, context)
        return found[0] if found else None

    def winners(self) -> tuple[Record, ...]:
        """All winners, in an order that depends on nothing but them."""
        return self._read("SELECT line FROM winners {} ORDER BY problem, context", None, None)

    def clear(self) -> int:
        """The number of rows that were there, and are no more."""

        def emptied(file: sqlite3.Connection) -> int:
            return sum(
                file.execute(f"DELETE FROM {table}").rowcount for table in ("records", "winners")
            )

        return self._attempt(emptied, 0) if self._is_there else 0

    @property
    def _is_there(self) -> bool:
        """Whether the file can be seen; `Path.exists` raises where a folder may not be entered."""
        return os.path.exists(self.path)

    def _read(
        self, query: str, problem: MatmulProblem | None, context: Context | None
    ) -> tuple[Record, ...]:
        if not self._is_there:
            return ()
        asked = {
            "problem": problem and problem.key,
            "context": context and context.key,
        }
        given = {name: value for name, value in asked.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in given)
        text = query.format(f"WHERE {where}" if where else "")

        def asked_for(file: sqlite3.Connection) -> list[str]:
            return [line for (line,) in file.execute(text, list(given.values()))]

        lines: list[str] = self._attempt(asked_for, [])
        return tuple(_understood(lines, self.path))

    def _write(self, statement: str, rows: list[tuple[str, str, str]]) -> None:
        self._attempt(lambda file: file.executemany(statement, rows) and None, None)

    def _attempt(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """What work on the open file gives; a file that is damaged is moved aside once."""
        for is_last in (False, True):
            try:
                with _opened(self.path) as file:
                    return work(file)
            except _Foreign as error:
                log.warning("tuned kernels in %s are left alone: %s", self.path, error)
                return otherwise
            except sqlite3.OperationalError as error:
                # Locked for too long, read-only, a full disk: the file itself may be sound.
                log.warning("tuned kernels in %s cannot be used: %s", self.path, error)
                return otherwise
            except (sqlite3.DatabaseError, OSError) as error:
                log.warning("tuned kernels in %s cannot be used: %s", self.path, error)
                if is_last or not isinstance(error, sqlite3.DatabaseError):
                    return otherwise
                _move_aside(self.path)
        return otherwise


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The file, open for one transaction, its tables there."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as file, file:
        _prepare(file)
        yield file


def _prepare(file: sqlite3.Connection) -> None:
    found = _marks(file)
    if found == (APPLICATION_ID, SCHEMA):
        return
    # Another process may be at the same; who comes second finds the tables made.
    file.execute("BEGIN IMMEDIATE")
    found = _marks(file)
    if found == (APPLICATION_ID, SCHEMA):
        return
    is_empty = not file.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    if found != (0, 0) or not is_empty:
        raise _Foreign(
            f"its marks are {found}; expected {(APPLICATION_ID, SCHEMA)} of this version"
        )
    for statement in _TABLES.split(";"):
        file.execute(statement)
    file.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    file.execute(f"PRAGMA user_version = {SCHEMA}")


def _marks(file: sqlite3.Connection) -> tuple[int, int]:
    ((application,),) = file.execute("PRAGMA application_id").fetchall()
    ((version,),) = file.execute("PRAGMA user_version").fetchall()
    return application, version


def _understood(lines: Iterable[str], path: Path) -> Iterator[Record]:
    for line in lines:
        try:
            yield record_of(line)
        except KernelError as error:
            log.warning("a line of %s is left out: %s", path, error)


def _move_aside(path: Path) -> None:
    """Give a damaged file another name, so that a new one can be made."""
    names = [path.with_name(f"{path.name}.damaged-{n}") for n in range(_MOST_ASIDE + 1)]
    aside = next((name for name in names if not name.exists()), names[-1])
    try:
        os.replace(path, aside)
    except OSError as error:
        # Another process was faster, or the folder may not be written to.
        log.warning("%s is damaged and cannot be moved aside: %s", path, error)
    else:
        log.warning("%s is damaged and was moved to %s", path, aside)
