"""The open database: opened anew after some checkpoints, without anybody noticing."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest

import collector_process
from otelchain_collector import open_database
from otelchain_collector.decode import decode
from otelchain_collector.errors import StoreError, StoreUnavailableError
from otelchain_collector.store import Inserted, Store
from otlp_clients import rows, send
from otlp_requests import START, request, span, text

LIMIT_BYTES = 96 * 1024 * 1024
# Half of it is left when it has been packed: a hexadecimal digit of chance has 4 bits.
TEXT_BYTES = 16_000
SPANS = 6_144
EVERYTHING = "SELECT count(*), sum(length(attributes::VARCHAR)) FROM spans"


@pytest.fixture(name="store")
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(open_database, "_RENEWAL_CHECKPOINTS", 3)
    return Store.open(tmp_path / "t.duckdb", memory_limit_bytes=LIMIT_BYTES)


def insert(store: Store, first: int, count: int = 512, size: int = 10) -> Inserted:
    chance = random.Random(first)
    spans = [
        span(
            trace_id=chance.randbytes(16),
            span_id=chance.randbytes(8),
            start_time_unix_nano=START + first + index,
            end_time_unix_nano=START + first + index + 1,
            attributes=[text("k", chance.randbytes(size // 2).hex())],
        )
        for index in range(count)
    ]
    return store.insert(decode(request(*spans), START).rows)


def stored(store: Store) -> int:
    with store.database.cursor() as cursor:
        [(count,)] = cursor.execute("SELECT count(*) FROM spans").fetchall()
    return int(count)


def renewals(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the number of checkpoints before each time it is opened."""
    begun: list[int] = []
    connect = open_database.connect

    def noting(*arguments: Any) -> Any:
        begun.append(store.database.checkpoints)
        return connect(*arguments)

    monkeypatch.setattr(open_database, "connect", noting)
    return begun


def test_after_some_checkpoints_it_is_opened_anew_with_all_that_was_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = renewals(store, monkeypatch)
    for number in range(8):
        insert(store, 512 * number)
        store.database.checkpoint()

    # Opened at first: 1. Each opening counts as a checkpoint, and three come before the next.
    assert opened == [5, 9]
    assert stored(store) == 8 * 512
    assert insert(store, 512) == Inserted(stored=0, duplicates=512)
    assert store.database.reopened == 0
    assert store.damage is None


def test_what_is_opened_anew_is_guarded_as_before(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = renewals(store, monkeypatch)
    for _ in range(4):
        store.database.checkpoint()
    assert opened

    with store.database.cursor() as cursor:
        for statement in ("SET threads = 1", "SELECT * FROM read_text('/etc/hostname')"):
            with pytest.raises(duckdb.Error, match=r"locked|disabled by configuration"):
                cursor.execute(statement)


def test_a_full_cache_is_a_reason_too(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "t.duckdb", memory_limit_bytes=LIMIT_BYTES)
    for first in range(0, SPANS, 512):
        insert(store, first, size=TEXT_BYTES)
    store.database.checkpoint()
    with store.database.cursor() as cursor:
        before = cursor.execute(EVERYTHING).fetchall()
    assert store.database.memory_bytes() > LIMIT_BYTES / 4

    store.database.checkpoint()

    assert store.database.memory_bytes() < LIMIT_BYTES / 20
    with store.database.cursor() as cursor:
        assert cursor.execute(EVERYTHING).fetchall() == before


def test_not_while_somebody_reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = renewals(store, monkeypatch)
    insert(store, 0)
    cursor = store.database.cursor()
    cursor.execute("SELECT span_id FROM spans")
    first = cursor.fetchmany(10)
    for number in range(1, 6):
        insert(store, 512 * number)
        store.database.checkpoint()

    assert not opened
    assert len(first) + len(cursor.fetchall()) == 512
    cursor.close()
    store.database.checkpoint()

    assert opened
    assert stored(store) == 6 * 512


def test_who_wants_to_read_meanwhile_waits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    insert(store, 0)
    opening, go_on = threading.Event(), threading.Event()
    connect = open_database.connect

    def slowly(*arguments: Any) -> Any:
        opening.set()
        assert go_on.wait(10)
        return connect(*arguments)

    monkeypatch.setattr(open_database, "connect", slowly)
    with ThreadPoolExecutor() as threads:
        checkpoints = threads.submit(lambda: [store.database.checkpoint() for _ in range(4)])
        assert opening.wait(10)
        answer = threads.submit(stored, store)
        time.sleep(0.05)
        assert not answer.done()
        go_on.set()

        assert answer.result(10) == 512
        checkpoints.result(10)


def test_a_file_that_cannot_be_opened_anew_now_is_mended_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(store, 0)

    def taken(*_: object) -> Any:
        raise StoreError("t.duckdb is locked by process 1 (backup)")

    with monkeypatch.context() as patch:
        patch.setattr(open_database, "connect", taken)
        for _ in range(2):
            store.database.checkpoint()
        with pytest.raises(StoreUnavailableError, match=r"opened again: t\.duckdb is locked"):
            store.database.checkpoint()
        with pytest.raises(StoreUnavailableError, match="ask in a second"):
            store.database.cursor()
        with pytest.raises(StoreUnavailableError, match="locked by process 1"):
            store.database.mend()

    store.database.mend()

    assert stored(store) == 512
    assert insert(store, 0) == Inserted(stored=0, duplicates=512)


def test_a_database_in_memory_is_never_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_database, "_RENEWAL_CHECKPOINTS", 0)
    store = Store.open(":memory:")
    insert(store, 0)

    store.database.checkpoint()

    assert stored(store) == 512


JSON = {"Content-Type": "application/json"}
# A checkpoint after every batch, and each time the file is opened anew.
RESTLESS = """
from otelchain_collector import __main__, checkpoints, open_database
open_database._RENEWAL_CHECKPOINTS = 0
checkpoints._LEAST_WAL_BYTES = checkpoints._MOST_WAL_BYTES = 1
__main__.main()
"""


def test_senders_and_askers_of_a_collector_notice_nothing(tmp_path: Path) -> None:
    collector = collector_process.start(
        tmp_path / "t.duckdb", tmp_path / "log", program=("-c", RESTLESS)
    )
    stop = threading.Event()

    def ask() -> list[int]:
        counts = []
        while not stop.is_set():
            [row] = rows(collector, "SELECT count(*) AS n FROM spans")
            counts.append(row["n"])
            status, _, _ = collector_process.ask(
                collector, "POST", "/queries/slow-tools", "{}", JSON
            )
            assert status == 200
        return counts

    def store_some(number: int) -> None:
        for batch in range(20):
            chance = random.Random(1000 * number + batch)
            spans = [span(trace_id=chance.randbytes(16)) for _ in range(10)]
            answer = send(collector, "traces", ("grpc", "http")[number % 2], request(*spans))
            assert answer.ok, answer

    with ThreadPoolExecutor() as threads:
        asking = threads.submit(ask)
        list(threads.map(store_some, range(4)))
        stop.set()
        counts = asking.result(30)

    assert counts == sorted(counts)
    [row] = rows(collector, "SELECT count(*) AS n FROM spans")
    assert row["n"] == 4 * 20 * 10
    assert collector.stop() == 0
    assert "ERROR" not in collector.log.read_text()
