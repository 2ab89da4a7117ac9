"""A damaged write-ahead log: what is whole is kept, the rest laid aside, and the loss is told."""

import json
import os
import random
import shutil
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from collector_process import RunningCollector
from otelchain_collector import wal
from otelchain_collector.database import connect, why_not_opened
from otelchain_collector.decode import decode
from otelchain_collector.errors import StoreError
from otelchain_collector.salvage import log_of, logs_laid_aside, open_salvaged
from otelchain_collector.store import Store
from otlp_requests import START, request, span, text

# Five transactions of twenty rows after a checkpoint, as a killed process leaves them.
WRITE = """
import os, sys
from pathlib import Path
from otelchain_collector.decode import decode
from otelchain_collector.store import Store
from otlp_requests import START, request, span, text
store = Store.open(Path(sys.argv[1]))
def add():
    spans = [span(attributes=[text("k", "v" * 300)]) for _ in range(20)]
    store.insert(decode(request(*spans), START).rows)
add()
store.database.checkpoint()
for _ in range(5):
    add()
os.kill(os.getpid(), 9)
"""


# Open it in a process that may not write further than so into any file.
OPEN_WITH_LITTLE = """
import resource, sys
from pathlib import Path
from otelchain_collector.errors import StoreError
from otelchain_collector.store import Store
resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, 256 * 1024))
try:
    Store.open(Path(sys.argv[1]), memory_limit_bytes=4 * 1024 * 1024)
except StoreError as error:
    print(error)
"""

REPLAYING = 'Failure while replaying WAL file "t.duckdb.wal": '
# What DuckDB 1.5 and 2.0 say, and what a word of the remedy is.
NOT_THE_LOG = [
    (
        duckdb.OutOfMemoryException,
        "Out of Memory Error: {}could not allocate block of size 256.0 KiB",
        "--memory-limit-bytes",
    ),
    (
        duckdb.OutOfMemoryException,
        (
            "Out of Memory Error: {}failed to offload data block of size 256.0 KiB (2.0 GiB/2.0 "
            "GiB used). This limit was set by the 'max_temp_directory_size' setting"
        ),
        "room on the disk",
    ),
    (
        duckdb.TransactionException,
        "TransactionContext Error: {}Failed to commit: failed to pin block of size 256.0 KiB",
        "--memory-limit-bytes",
    ),
    (
        duckdb.TransactionException,
        (
            'TransactionContext Error: {}Failed to commit: Cannot open file "t.duckdb.tmp/d": '
            "Too many open files"
        ),
        "start the collector again",
    ),
    *(
        (duckdb.IOException, f'IO Error: {{}}Could not write file "d-0.tmp": {said}', remedy)
        for said, remedy in (
            ("File too large", "room on the disk"),
            ("Disk quota exceeded", "room on the disk"),
            ("No space left on device", "room on the disk"),
            ("Input/output error", "start the collector again"),
            ("Read-only file system", "may write there"),
            ("Permission denied", "may write there"),
        )
    ),
    (
        duckdb.IOException,
        (
            "IO Error: {}Failed to read WAL of version 4 - can only read version 1, 2 and 3 "
            "(encrypted)"
        ),
        "pip install -U duckdb",
    ),
    (duckdb.InternalException, "INTERNAL Error: {}something new", "move the log away"),
]
THE_LOG = [
    (duckdb.SerializationException, "Serialization Error: {}not enough data in file"),
    (duckdb.CatalogException, "Catalog Error: {}Table with name spans does not exist!"),
    (duckdb.BinderException, 'Binder Error: {}Catalog "" does not exist!'),
    (duckdb.ConstraintException, "Constraint Error: {}Duplicate key"),
    (duckdb.TransactionException, "TransactionContext Error: {}Conflict on tuple deletion!"),
    (duckdb.InternalException, "INTERNAL Error: {}Invalid WAL entry type!"),
    (
        duckdb.InternalException,
        (
            "INTERNAL Error: {}Calling DatabaseManager::GetDefaultDatabase with no default "
            "database set"
        ),
    ),
    (duckdb.IOException, "IO Error: {}WAL does not match database file."),
    (
        duckdb.IOException,
        (
            "IO Error: {}This WAL was created for this database file, but the WAL checkpoint "
            "iteration does not match the database file."
        ),
    ),
    (
        duckdb.IOException,
        (
            "IO Error: {}Corrupt WAL file: entry at byte position 1 computed checksum 2 does not "
            "match stored checksum 3"
        ),
    ),
]


@pytest.fixture(name="killed", scope="module")
def _killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Return a database and its log: 20 spans in the file, 5 times 20 in the log."""
    database = tmp_path_factory.mktemp("killed") / "t.duckdb"
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    subprocess.run(
        [sys.executable, "-c", WRITE, str(database)], env={**os.environ, "PYTHONPATH": path}
    )
    return database.read_bytes(), log_of(database).read_bytes()


@pytest.fixture(name="database")
def _database(tmp_path: Path, killed: tuple[bytes, bytes]) -> Path:
    database = tmp_path / "t.duckdb"
    database.write_bytes(killed[0])
    log_of(database).write_bytes(killed[1])
    return database


def spans_of(store: Store) -> int:
    with store.database.cursor() as cursor:
        [(count,)] = cursor.execute("SELECT count(*) FROM spans").fetchall()
    return int(count)


def change(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def flip(path: Path, position: int, mask: int = 0xFF) -> None:
    change(path, position, bytes([path.read_bytes()[position] ^ mask]))


def test_a_whole_log_is_kept_whole(database: Path) -> None:
    state = wal.examine(log_of(database))
    store = Store.open(database)

    assert (state.fault, state.lost_bytes, spans_of(store)) == ("", 0, 120)
    assert store.database.log_losses == []
    assert logs_laid_aside(database) == []
    store.close()


def test_after_a_flipped_byte_the_transactions_before_it_are_kept(
    database: Path, killed: tuple[bytes, bytes]
) -> None:
    # In the fourth of the five transactions, which are equally long.
    flip(log_of(database), len(killed[1]) * 7 // 10)

    store = Store.open(database)

    assert spans_of(store) == 20 + 3 * 20
    [loss] = store.database.log_losses
    [aside] = logs_laid_aside(database)
    damaged = bytearray(killed[1])
    damaged[len(killed[1]) * 7 // 10] ^= 0xFF
    assert aside.read_bytes() == damaged
    assert (loss.reason, loss.file) == ("damaged", str(aside))
    assert loss.lost_bytes + loss.kept_bytes == len(killed[1])
    assert loss.lost_bytes == pytest.approx(len(killed[1]) * 2 / 5, rel=0.01)
    with store.database.cursor() as cursor:
        assert cursor.execute("SELECT * FROM wal_losses").fetchall() == [tuple(loss)]
    store.close()


@pytest.mark.failure("damaged-log")
def test_wherever_a_byte_is_flipped_the_database_opens_and_tells_what_it_lost(
    database: Path, killed: tuple[bytes, bytes]
) -> None:
    content, log = killed
    silent = []
    positions = [
        *range(60),
        *range(60, 100, 4),
        *range(100, len(log), len(log) // 30),
        len(log) - 1,
    ]
    for position in positions:
        for path in database.parent.iterdir():
            path.unlink()
        database.write_bytes(content)
        log_of(database).write_bytes(log)
        flip(log_of(database), position)

        store = Store.open(database)
        found = spans_of(store)
        if found < 120 and not store.database.log_losses:
            silent.append(position)
        assert found in range(20, 121, 20)
        store.close()

    assert silent == []


@pytest.mark.parametrize("share", [0.002, 0.1, 0.5, 0.99])
def test_a_log_that_was_cut_off_is_kept_up_to_its_last_transaction(
    share: float, database: Path, killed: tuple[bytes, bytes]
) -> None:
    size = int(len(killed[1]) * share)
    os.truncate(log_of(database), size)

    store = Store.open(database)

    assert spans_of(store) == 20 + int(5 * share) * 20
    [loss] = store.database.log_losses
    assert (loss.reason, loss.lost_bytes + loss.kept_bytes, loss.file) == ("torn", size, None)
    assert logs_laid_aside(database) == []
    store.close()


def test_zeros_after_the_end_cost_no_span(database: Path, killed: tuple[bytes, bytes]) -> None:
    change(log_of(database), len(killed[1]), bytes(5_000))

    store = Store.open(database)

    assert spans_of(store) == 120
    assert [(loss.reason, loss.lost_bytes) for loss in store.database.log_losses] == [
        ("damaged", 5_000)
    ]
    store.close()


def test_the_log_of_another_database_is_laid_aside(database: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.duckdb"
    Store.open(other).close()
    other.replace(database)

    store = Store.open(database)

    assert spans_of(store) == 0
    assert [loss.reason for loss in store.database.log_losses] == ["refused"]
    store.close()


def test_a_log_that_is_not_to_blame_stays_where_it_is(
    database: Path, killed: tuple[bytes, bytes]
) -> None:
    flip(database, 4096 + 20)  # Both of DuckDB's headers.
    flip(database, 8192 + 20)
    damaged = database.read_bytes()

    with pytest.raises(StoreError, match=r"is damaged .*; nothing was changed"):
        Store.open(database)

    assert database.read_bytes() == damaged
    assert log_of(database).read_bytes() == killed[1]


def test_the_log_of_a_running_collector_is_left_alone(database: Path) -> None:
    store = Store.open(database)
    flip(log_of(database), log_of(database).stat().st_size // 2)
    before = log_of(database).read_bytes()
    code = (
        "import sys; from pathlib import Path; from otelchain_collector.store import Store; "
        "Store.open(Path(sys.argv[1]))"
    )

    ended = subprocess.run(
        [sys.executable, "-c", code, str(database)], capture_output=True, text=True
    )

    assert "is locked by process" in ended.stderr
    assert log_of(database).read_bytes() == before
    store.close()


@pytest.mark.failure("damaged-log")
def test_a_collector_starts_and_says_what_it_lost(
    database: Path, killed: tuple[bytes, bytes], start_collector: Callable[..., RunningCollector]
) -> None:
    flip(log_of(database), len(killed[1]) // 2)

    collector = start_collector(database)

    with urllib.request.urlopen(f"http://{collector.http}/readyz") as response:
        losses = json.load(response)["log_losses"]
    assert [loss["reason"] for loss in losses] == ["damaged"]
    with urllib.request.urlopen(f"http://{collector.http}/metrics") as response:
        lost = f'otelchain_wal_lost_bytes{{reason="damaged"}} {float(losses[0]["lost_bytes"])}'
        assert lost in response.read().decode()
    assert str(logs_laid_aside(database)[0]) in collector.log.read_text()
    assert collector.stop() == 0
    with duckdb.connect(str(database), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM wal_losses").fetchall() == [(1,)]


def test_a_log_without_which_it_cannot_be_opened_either_is_put_back(
    database: Path, killed: tuple[bytes, bytes]
) -> None:
    def fail() -> None:
        raise duckdb.CatalogException(f"Catalog Error: {REPLAYING}no such table")

    with pytest.raises(duckdb.CatalogException, match="no such table"):
        open_salvaged(database, fail)

    assert log_of(database).read_bytes() == killed[1]
    assert logs_laid_aside(database) == []


@pytest.mark.parametrize(("kind", "said", "remedy"), NOT_THE_LOG)
def test_a_whole_log_stays_when_it_cannot_be_replayed_now(
    kind: type[duckdb.Error],
    said: str,
    remedy: str,
    database: Path,
    killed: tuple[bytes, bytes],
) -> None:
    message, opened = said.format(REPLAYING), []

    def fail_with_the_log() -> int:
        opened.append(log_of(database).exists())
        if opened[-1]:
            raise kind(message)
        return 1

    with pytest.raises(kind):
        open_salvaged(database, fail_with_the_log)

    assert opened == [True]
    assert log_of(database).read_bytes() == killed[1]
    told = why_not_opened(database, message)
    assert remedy in told
    assert str(log_of(database)) in told
    assert message in told


@pytest.mark.parametrize(("kind", "said"), THE_LOG)
def test_a_log_that_can_never_be_replayed_is_laid_aside(
    kind: type[duckdb.Error], said: str, database: Path, killed: tuple[bytes, bytes]
) -> None:
    def fail_with_the_log() -> int:
        if log_of(database).exists():
            raise kind(said.format(REPLAYING))
        return 1

    _, losses = open_salvaged(database, fail_with_the_log)

    assert [(loss.reason, loss.lost_bytes) for loss in losses] == [("refused", len(killed[1]))]
    assert [log.read_bytes() for log in logs_laid_aside(database)] == [killed[1]]


@pytest.mark.skipif(sys.platform == "win32", reason="no limits for one process")
def test_what_was_acknowledged_is_there_when_the_next_start_has_room(tmp_path: Path) -> None:
    database = tmp_path / "t.duckdb"
    chance = random.Random(1)
    store = Store.open(tmp_path / "written.duckdb")
    for _ in range(10):
        spans = [span(attributes=[text("k", chance.randbytes(10_000).hex())]) for _ in range(40)]
        store.insert(decode(request(*spans), START).rows)
    shutil.copy(tmp_path / "written.duckdb", database)
    shutil.copy(log_of(tmp_path / "written.duckdb"), log_of(database))
    store.close()
    path = os.pathsep.join(sys.path)

    with_little = subprocess.run(
        [sys.executable, "-c", OPEN_WITH_LITTLE, str(database)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )

    assert "room on the disk" in with_little.stdout, with_little.stderr
    assert logs_laid_aside(database) == []
    store = Store.open(database)
    assert (spans_of(store), store.database.log_losses) == (400, [])
    store.close()


def test_a_loss_is_noted_by_the_next_start_when_a_kill_came_before_the_note(
    database: Path, killed: tuple[bytes, bytes]
) -> None:
    flip(log_of(database), len(killed[1]) // 2)
    # As far as it comes before `Store` notes it.
    connection, [loss] = connect(database, 1 << 28, 0)
    connection.execute("PRAGMA disable_checkpoint_on_shutdown")
    connection.close()

    for _ in range(2):  # Once, however often it is opened.
        store = Store.open(database)
        with store.database.cursor() as cursor:
            [(found, *noted)] = cursor.execute("SELECT * FROM wal_losses").fetchall()
        assert noted == list(loss)[1:]
        assert 0 <= loss.found_time_unix_nano - found < 2 * 10**9  # The name has whole seconds.
        store.close()


def test_of_a_whole_log_that_was_laid_aside_everything_is_noted(
    database: Path, killed: tuple[bytes, bytes]
) -> None:
    aside = log_of(database).with_name("t.duckdb.wal.damaged-20991231T235959Z")
    log_of(database).rename(aside)

    store = Store.open(database)

    # A second before 2100.
    loss = (4102444799 * 10**9, "refused", len(killed[1]), 0, str(aside))
    assert [tuple(each) for each in store.database.log_losses] == [loss]
    store.close()


def test_a_copy_that_a_killed_process_made_before_it_cut_the_log_is_the_only_one(
    database: Path, killed: tuple[bytes, bytes]
) -> None:
    flip(log_of(database), len(killed[1]) // 2)
    aside = log_of(database).with_name("t.duckdb.wal.damaged-20991231T235959Z")
    shutil.copy(log_of(database), aside)

    store = Store.open(database)

    assert logs_laid_aside(database) == [aside]
    assert [loss.file for loss in store.database.log_losses] == [str(aside)]
    store.close()


def test_a_new_database_has_lost_nothing_of_an_older_one_of_its_name(
    database: Path, killed: tuple[bytes, bytes]
) -> None:
    log_of(database).rename(f"{log_of(database)}.damaged-20260102T030405Z")
    database.unlink()

    store = Store.open(database)

    assert store.database.log_losses == []
    store.close()
    store = Store.open(database)
    assert store.database.log_losses == []
    store.close()


def test_a_length_that_leads_beyond_the_end_is_damage_when_transactions_follow_it(
    database: Path, killed: tuple[bytes, bytes]
) -> None:
    # The first frame of a transaction in the middle: 2 MiB longer, as a torn one might be.
    log = killed[1]
    flush = struct.pack("<Q", 5)
    middle = log.index(flush, len(log) // 2) + 16 + 5
    flip(log_of(database), middle + 2, 0x20)

    state = wal.examine(log_of(database))

    assert (state.fault, state.whole_bytes) == ("damaged", middle)
