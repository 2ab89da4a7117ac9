"""A damaged write-ahead log: what is whole is kept, the rest laid aside, and the loss is told."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from collector_process import RunningCollector
from otelchain_collector import wal
from otelchain_collector.errors import StoreError
from otelchain_collector.salvage import log_of, logs_laid_aside, open_salvaged
from otelchain_collector.store import Store

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
        raise duckdb.IOException("IO Error: Failure while replaying WAL file: no such table")

    with pytest.raises(duckdb.IOException, match="no such table"):
        open_salvaged(database, fail)

    assert log_of(database).read_bytes() == killed[1]
    assert logs_laid_aside(database) == []
