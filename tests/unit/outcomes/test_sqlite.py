"""The file of the log: damage, versions, and who may read it."""

from __future__ import annotations

import sqlite3
import stat

import pytest
from harness.outcomes import make_record
from structlog.testing import capture_logs
from tiermesh.outcomes.adapters.sqlite import LAYOUT, open_outcomes
from tiermesh.outcomes.ports import START, Selection
from tiermesh.shared.errors import Unavailable


def ids(store):
    return [record.request_id for record in store.page(Selection(), after=START, count=1000)[0]]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log" / "outcomes.db"


def fill(path, count):
    store = open_outcomes(path)
    for n in range(count):
        store.add([make_record(n)])
    return store


def test_only_its_owner_may_read_it(path):
    store = fill(path, 1)
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    store.close()


def test_a_transaction_that_was_being_written_counts_as_not_written(path):
    store = fill(path, 20)
    wal = path.with_name(path.name + "-wal")
    whole = wal.read_bytes()
    # A crash in the middle of any write: what is read is always the first so many records, never part of one.
    seen = set()
    for cut in range(len(whole), 0, -len(whole) // 23):
        copy = path.parent / "copy.db"
        copy.write_bytes(path.read_bytes())
        copy.with_name("copy.db-wal").write_bytes(whole[: max(0, cut)])
        copy.with_name("copy.db-shm").unlink(missing_ok=True)
        again = open_outcomes(copy)
        found = ids(again)
        assert found == [f"r{n}" for n in range(len(found))]
        assert again.add([make_record(99)])
        seen.add(len(found))
        again.close()
    store.close()
    assert 20 in seen
    assert len(seen) > 3


@pytest.mark.parametrize(
    "damage", [b"this is no database, and never was one" * 50, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_damaged_file_is_put_aside_and_told_and_a_new_log_begins(path, damage):
    path.parent.mkdir()
    path.write_bytes(damage)
    with capture_logs() as logs:
        store = open_outcomes(path)
    assert [entry["log_level"] for entry in logs] == ["error"]
    assert path.with_name("outcomes.db.damaged-1").read_bytes() == damage
    assert store.add([make_record(1)])
    assert ids(store) == ["r1"]
    store.close()


def test_damage_within_the_file_is_found_at_the_start(path):
    store = fill(path, 300)
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    store.close()
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 8192] = b"\xee" * 8192
    path.write_bytes(content)
    with capture_logs() as logs:
        store = open_outcomes(path)
    assert logs
    assert ids(store) == []
    store.close()


def test_a_file_of_a_newer_version_is_left_alone(path):
    fill(path, 1).close()
    raw = sqlite3.connect(path)
    raw.execute(f"PRAGMA user_version = {LAYOUT + 1}")
    raw.close()
    with pytest.raises(Unavailable, match=f"layout {LAYOUT + 1}.*update"):
        open_outcomes(path)
    assert sqlite3.connect(path).execute("SELECT COUNT(*) FROM outcome").fetchone() == (1,)


def test_a_disk_that_is_full_is_an_error_of_the_mesh_and_loses_nothing(path):
    store = fill(path, 5)
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}").fetchone()
    with pytest.raises(Unavailable, match="full"):
        store.add([make_record(100 + n) for n in range(500)])
    assert ids(store) == [f"r{n}" for n in range(5)]
    store.close()


def test_what_is_dropped_gives_its_room_back(path):
    store = open_outcomes(path)
    store.add([make_record(n, trace_id="x" * 500) for n in range(4000)])
    before = store.holdings().size_bytes
    dropped = store.trim(max_bytes=before // 4, before_us=0)
    assert dropped > 2000
    assert path.stat().st_size < before // 2
    assert store.holdings().size_bytes <= before // 4
    assert store.trim(max_bytes=before // 4, before_us=0) == 0
    store.close()
