"""The log in one SQLite file.

SQLite's write-ahead log is what makes it whole after a crash: a transaction that was being written is
found by its checksum to be incomplete, and counts as not written. Rows are only added, and dropped
from the old end; a record is never changed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tiermesh.api.outcome.v1 import record_pb2
from tiermesh.outcomes.ports import START, Holdings, Place, Selection
from tiermesh.shared.errors import Unavailable
from tiermesh.shared.telemetry import get_logger

LAYOUT = 1
"""Of the tables, kept as `user_version`."""
_TABLES = """
CREATE TABLE IF NOT EXISTS outcome (
    row INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    arrived_us INTEGER NOT NULL,
    record BLOB NOT NULL,
    UNIQUE (tenant, request_id, arrived_us)
);
CREATE INDEX IF NOT EXISTS outcome_by_arrival ON outcome (arrived_us, row);
CREATE TABLE IF NOT EXISTS feedback (
    row INTEGER PRIMARY KEY,
    outcome INTEGER NOT NULL REFERENCES outcome (row) ON DELETE CASCADE,
    record BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS feedback_by_outcome ON feedback (outcome);
"""
_CHUNK = 500
"""Rows dropped in one transaction, so that dropping many does not hold up what is being filed."""
_EVER = 2**63 - 1
_TRIM_TO = 0.9
"""Share of the cap that is left when the cap has been reached, so that it is not reached again at once."""
_log = get_logger(__name__)


class SqliteOutcomes:
    """An `OutcomeStore`. Not to be used by two threads at once.

    Args:
        connection: To the file; see `open_outcomes`.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def add(self, outcomes: Sequence[record_pb2.Outcome]) -> list[record_pb2.Outcome]:
        """Files records in one transaction; returns those that were not there before."""
        new = []
        with _told(), self._db:
            for outcome in outcomes:
                done = self._db.execute(
                    "INSERT OR IGNORE INTO outcome (tenant, request_id, arrived_us, record) VALUES (?, ?, ?, ?)",
                    (
                        outcome.tenant,
                        outcome.request_id,
                        outcome.arrived.ToMicroseconds(),
                        outcome.SerializeToString(),
                    ),
                )
                if done.rowcount:
                    new.append(outcome)
        return new

    def add_feedback(self, tenant: str, request_id: str, feedback: record_pb2.Feedback) -> bool:
        """Files an opinion on a tenant's newest request of that id; returns whether there is one."""
        with _told(), self._db:
            done = self._db.execute(
                "INSERT INTO feedback (outcome, record) SELECT row, ? FROM outcome"
                " WHERE tenant = ? AND request_id = ? ORDER BY arrived_us DESC LIMIT 1",
                (feedback.SerializeToString(), tenant, request_id),
            )
            return done.rowcount > 0

    def page(self, selection: Selection, *, after: Place, count: int) -> tuple[list[record_pb2.Outcome], Place]:
        """Returns up to `count` records after a place, with their feedback, and where to go on."""
        where, values = _where(selection)
        with _told():
            rows = self._db.execute(
                f"SELECT row, arrived_us, record FROM outcome WHERE (arrived_us, row) > (?, ?){where}"  # noqa: S608 -- fixed words
                " ORDER BY arrived_us, row LIMIT ?",
                (after.arrived_us, after.row, *values, count),
            ).fetchall()
            marks = ",".join("?" * len(rows))
            opinions: dict[int, list[bytes]] = {}
            for owner, record in self._db.execute(
                f"SELECT outcome, record FROM feedback WHERE outcome IN ({marks}) ORDER BY row",  # noqa: S608 -- only marks
                [row for row, _, _ in rows],
            ):
                opinions.setdefault(owner, []).append(record)
        found = []
        for row, _, record in rows:
            outcome = record_pb2.Outcome.FromString(record)
            outcome.feedback.extend(record_pb2.Feedback.FromString(one) for one in opinions.get(row, ()))
            found.append(outcome)
        return found, Place(rows[-1][1], rows[-1][0]) if rows else after

    def place_of_newest(self, selection: Selection, count: int) -> Place:
        """Returns the place after which the newest `count` records lie."""
        where, values = _where(selection)
        with _told():
            found = self._db.execute(
                f"SELECT arrived_us, row FROM outcome WHERE 1{where} ORDER BY arrived_us DESC, row DESC LIMIT 1 OFFSET ?",  # noqa: S608 -- fixed words
                (*values, count),
            ).fetchone()
        return Place(*found) if found else START

    def trim(self, *, max_bytes: int, before_us: int) -> int:
        """Drops records from before a time, then the oldest until the log fits; returns how many."""
        dropped = 0
        with _told():
            while gone := self._drop(before_us):
                dropped += gone
            full = self._size_bytes() > max_bytes
            while full and self._size_bytes() > max_bytes * _TRIM_TO and (gone := self._drop(_EVER)):
                dropped += gone
            if dropped:
                # A script, since a statement that returns no rows is stepped only once, which frees one page.
                self._db.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")
        return dropped

    def holdings(self) -> Holdings:
        """Returns what the log holds."""
        with _told():
            count, oldest, newest = self._db.execute(
                "SELECT COUNT(*), MIN(arrived_us), MAX(arrived_us) FROM outcome"
            ).fetchone()
            (opinions,) = self._db.execute("SELECT COUNT(*) FROM feedback").fetchone()
            return Holdings(count, opinions, self._size_bytes(), oldest, newest)

    def _drop(self, before_us: int) -> int:
        with self._db:
            done = self._db.execute(
                "DELETE FROM outcome WHERE row IN"
                " (SELECT row FROM outcome WHERE arrived_us < ? ORDER BY arrived_us, row LIMIT ?)",
                (before_us, _CHUNK),
            )
            return done.rowcount

    def _size_bytes(self) -> int:
        pages, free, size = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)


def open_outcomes(path: Path) -> SqliteOutcomes:
    """Opens the log, and makes it where there is none.

    A file that is damaged is put aside under another name and told; the log begins anew.

    Raises:
        Unavailable: the file cannot be opened or made, or is of a newer tiermesh.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        return SqliteOutcomes(_connect(path))
    except sqlite3.OperationalError as error:
        raise Unavailable(f"{path}: cannot be opened: {error}") from None
    except sqlite3.DatabaseError as error:
        aside = _free_name(path)
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
        _log.error("the log of outcomes is damaged and put aside; a new one begins", error=str(error), aside=str(aside))
        return SqliteOutcomes(_connect(path))


def _connect(path: Path) -> sqlite3.Connection:
    # Only its owner may read it, from the first byte on.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=5.0, check_same_thread=False)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > LAYOUT:
            raise Unavailable(f"{path}: has layout {version}, and this tiermesh knows {LAYOUT}; update it")
        # Before the first table is made, or it has no effect.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        # A process that dies loses nothing that was committed; a machine that does may lose the last moments.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA journal_size_limit = 4194304")
        connection.executescript(_TABLES)
        connection.execute(f"PRAGMA user_version = {LAYOUT}")
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("its check fails")
    except BaseException:
        connection.close()
        raise
    return connection


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return aside


def _where(selection: Selection) -> tuple[str, list[int | str]]:
    words, values = "", list[int | str]()
    if selection.since_us is not None:
        words += " AND arrived_us >= ?"
        values.append(selection.since_us)
    if selection.until_us is not None:
        words += " AND arrived_us < ?"
        values.append(selection.until_us)
    if selection.tenant:
        words += " AND tenant = ?"
        values.append(selection.tenant)
    if selection.with_feedback:
        words += " AND EXISTS (SELECT 1 FROM feedback WHERE feedback.outcome = outcome.row)"
    return words, values


@contextmanager
def _told() -> Iterator[None]:
    """Turns what SQLite raises into an error of the mesh."""
    try:
        yield
    except sqlite3.Error as error:
        raise Unavailable(f"the log of outcomes cannot be used: {error}") from error
