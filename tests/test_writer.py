"""The writer: acknowledged after the commit, one bad row alone, trouble of the store passed on."""

import threading
import time
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import duckdb
import pytest

from otelchain_collector.budget import ByteBudget, QueueFullError, Reservation
from otelchain_collector.checkpoints import checkpoint_bytes
from otelchain_collector.decode import Decoded, decode
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.rows import RejectedRecord
from otelchain_collector.span_columns import decode_columns
from otelchain_collector.span_table import Spans
from otelchain_collector.store import Inserted, Store
from otelchain_collector.writer import Outcome, Writer
from otlp_requests import START, body, request, span


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "t.duckdb")


def some_spans(count: int) -> Decoded:
    return decode(request(*(span() for _ in range(count))), START)


def stored(store: Store) -> list[str]:
    with store.database.cursor() as cursor:
        return [name for (name,) in cursor.execute("SELECT span_id FROM spans").fetchall()]


def submit(writer: Writer, decoded: Decoded) -> "Future[Outcome]":
    return writer.submit(decoded, ByteBudget(1).reserve())


def write(store: Store, *requests: Decoded) -> list["Future[Outcome]"]:
    """Submit everything before the writer starts, so that it is one batch."""
    writer = Writer(store)
    submitted = [submit(writer, decoded) for decoded in requests]
    writer.start()
    writer.close()
    return submitted


def batch_sizes(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that the number of spans in each commit from now on is added to."""
    sizes: list[int] = []
    insert = store.insert
    monkeypatch.setattr(
        store, "insert", lambda rows, **_: (sizes.append(len(rows)), insert(rows))[1]
    )
    return sizes


def test_an_acknowledged_span_is_committed(store: Store) -> None:
    writer = Writer(store)
    writer.start()
    decoded = some_spans(3)

    assert submit(writer, decoded).result(10) == Outcome()

    # Another connection sees commits only.
    assert sorted(stored(store)) == [row.span_id for row in decoded.rows]
    writer.close()


def test_requests_that_wait_together_are_committed_together(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = batch_sizes(store, monkeypatch)

    write(store, some_spans(2), some_spans(3), some_spans(4))

    assert sizes == [9]


def test_a_small_batch_waits_for_a_request_that_is_being_decoded(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.writer._GATHER_SECONDS", 10)
    sizes = batch_sizes(store, monkeypatch)
    writer = Writer(store)
    writer.start()
    first, second = ByteBudget(1).reserve(), ByteBudget(1).reserve()
    writer.expect(first)
    writer.expect(second)
    acknowledged = [writer.submit(some_spans(2), first)]
    time.sleep(0.2)

    assert not sizes

    acknowledged.append(writer.submit(some_spans(3), second))
    wait(acknowledged, 5)
    writer.close()

    assert sizes == [5]


def test_a_request_waits_for_no_other_that_is_not_on_its_way(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.writer._GATHER_SECONDS", 10)
    writer = Writer(store)
    writer.start()
    broken, whole = ByteBudget(1).reserve(), ByteBudget(1).reserve()
    writer.expect(broken)
    writer.expect(whole)
    writer.forget(broken)

    assert writer.submit(some_spans(1), whole).result(5) == Outcome()

    writer.close()


@pytest.mark.parametrize(
    ("file_gib", "log_mib"), [(0, 16), (0.25, 16), (1, 32), (4, 64), (100, 64)]
)
def test_the_log_may_grow_with_the_root_of_the_file(file_gib: float, log_mib: int) -> None:
    assert checkpoint_bytes(int(file_gib * 2**30)) == log_mib * 2**20


def test_the_one_row_that_the_store_refuses_is_rejected_alone(store: Store) -> None:
    first, second, third = some_spans(7), some_spans(8), some_spans(9)
    bad = second.rows[5]._replace(metadata="{not json")
    second.rows[5] = bad

    outcomes = [future.result(0) for future in write(store, first, second, third)]

    assert [outcome.rejected for outcome in outcomes] == [0, 1, 0]
    assert "the store refuses it: ConversionException" in outcomes[1].reasons[0]
    assert len(stored(store)) == 23
    assert bad.span_id not in stored(store)
    with store.database.cursor() as cursor:
        assert cursor.execute(
            "SELECT trace_id, span_id, name, service_name FROM rejected_spans"
        ).fetchall() == [(bad.trace_id, bad.span_id, "step", "shop")]


def test_spans_that_the_decoder_rejected_are_recorded_and_counted(store: Store) -> None:
    decoded = some_spans(1)
    decoded.rejected.extend(
        [RejectedRecord(START, "span_id is all zero", "0a", "00", "x", None, "traces")] * 2
    )

    [future] = write(store, decoded)

    assert future.result(0) == Outcome(2, ("span_id is all zero (2)",))
    with store.database.cursor() as cursor:
        assert cursor.execute("SELECT reason FROM rejected_spans").fetchall() == [
            ("span_id is all zero",),
            ("span_id is all zero",),
        ]


def test_the_counts_tell_stored_duplicate_and_rejected_apart(store: Store) -> None:
    writer = Writer(store)
    decoded = some_spans(5)
    decoded.rejected.append(RejectedRecord(START, "reason", None, None, None, None, "traces"))
    submit(writer, decoded)
    submit(writer, Decoded(decoded.rows[:2], []))
    writer.start()

    writer.close()

    assert (writer.counts.stored, writer.counts.duplicates, writer.counts.rejected) == (5, 2, 1)


def test_a_failed_commit_is_not_acknowledged_and_the_next_one_may_work(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(store)
    writer.start()
    insert = store.insert

    def fail(_: object, **__: object) -> None:
        raise StoreUnavailableError("IO Error: No space left on device")

    monkeypatch.setattr(store, "insert", fail)
    decoded = some_spans(1)

    with pytest.raises(StoreUnavailableError, match="try again"):
        submit(writer, decoded).result(10)
    assert writer.failure == "IO Error: No space left on device"

    monkeypatch.setattr(store, "insert", insert)
    assert submit(writer, decoded).result(10) == Outcome()
    assert writer.failure is None
    assert len(stored(store)) == 1
    writer.close()


def test_an_error_that_nobody_foresaw_does_not_end_the_writer(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer = Writer(store)
    writer.start()
    with monkeypatch.context() as patch:
        patch.setattr(store, "insert", lambda rows, **_: 1 / 0)
        with pytest.raises(StoreUnavailableError):
            submit(writer, some_spans(1)).result(10)

    assert submit(writer, some_spans(1)).result(10) == Outcome()
    assert "ZeroDivisionError" in caplog.text
    writer.close()


def test_an_idle_moment_clears_a_failure_that_has_passed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.writer._IDLE_SECONDS", 0.01)
    checked = threading.Event()
    checkpoint = store.database.checkpoint
    monkeypatch.setattr(store.database, "checkpoint", lambda: (checkpoint(), checked.set()))
    writer = Writer(store)
    writer._failure = "IO Error"
    writer.start()

    assert checked.wait(10)
    writer.close()

    assert writer.failure is None


def test_a_large_log_is_checkpointed_in_an_idle_moment(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.writer._IDLE_SECONDS", 0.01)
    monkeypatch.setattr("otelchain_collector.checkpoints._LEAST_WAL_BYTES", 1)
    done = threading.Event()
    checkpoint = store.database.checkpoint
    monkeypatch.setattr(store.database, "checkpoint", lambda: (checkpoint(), done.set()))
    writer = Writer(store)
    writer.start()
    submit(writer, some_spans(100)).result(10)

    assert done.wait(10)
    writer.close()

    wal = tmp_path / "t.duckdb.wal"
    assert not wal.exists() or wal.stat().st_size == 0


def test_bytes_are_given_back_when_their_request_is_committed(store: Store) -> None:
    budget = ByteBudget(100)
    reservation = budget.reserve()
    reservation.add(60)
    writer = Writer(store)
    writer.start()

    writer.submit(some_spans(1), reservation).result(10)
    writer.close()

    assert budget.used_bytes == 0


def test_a_budget_refuses_what_does_not_fit_and_keeps_what_it_holds() -> None:
    budget = ByteBudget(100)
    first, second = budget.reserve(), budget.reserve()
    first.add(60)

    with pytest.raises(QueueFullError):
        second.add(41)
    second.add(40)
    first.release()
    first.release()

    assert budget.used_bytes == 40


def test_many_threads_submit_and_each_gets_its_own_answer(store: Store) -> None:
    writer = Writer(store)
    writer.start()
    budget = ByteBudget(10**6)
    futures: list[Future[Outcome]] = []

    def send(rejected: int) -> None:
        for _ in range(20):
            decoded = some_spans(2)
            decoded.rejected.extend(
                [RejectedRecord(START, "r", None, None, None, None, "traces")] * rejected
            )
            futures.append(future := writer.submit(decoded, Reservation(budget)))
            assert future.result(30).rejected == rejected

    threads = [threading.Thread(target=send, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()

    assert len(wait(futures).done) == 160
    assert len(stored(store)) == 320


def test_duckdb_trouble_is_not_blamed_on_the_rows(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def register(self, *_: object) -> None:
            raise duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate")

        def close(self) -> None: ...

    monkeypatch.setattr(store.database, "writing", Broken())

    [future] = write(store, some_spans(4))

    with pytest.raises(StoreUnavailableError):
        future.result(0)


def test_a_log_that_has_grown_large_is_checkpointed_although_requests_wait(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.writer.MAX_BATCH_RECORDS", 2)
    monkeypatch.setattr("otelchain_collector.checkpoints._MOST_WAL_BYTES", 1)
    log_bytes = []
    checkpoint = store.database.checkpoint
    monkeypatch.setattr(
        store.database,
        "checkpoint",
        lambda: (log_bytes.append(store.database.wal_bytes()), checkpoint()),
    )

    write(store, some_spans(2), some_spans(2), some_spans(2))

    assert len(log_bytes) == 3
    assert all(log_bytes)


def test_tables_and_rows_of_one_batch_are_stored_and_refused_each_for_itself(store: Store) -> None:
    in_rows, in_columns = some_spans(3), decode_columns(body(span(), span(), span()), START)
    bad = in_rows.rows[1]._replace(metadata="{not json")
    in_rows.rows[1] = bad

    outcomes = [future.result(0) for future in write(store, in_columns, in_rows, in_columns)]

    assert [outcome.rejected for outcome in outcomes] == [0, 1, 0]
    assert len(stored(store)) == 5
    assert bad.span_id not in stored(store)


def test_a_commit_that_only_a_checkpoint_cures_succeeds_while_senders_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert, checkpoint, is_full = store.insert, store.database.checkpoint, True

    def fails_while_memory_is_full(rows: Spans, **options: Any) -> Inserted:
        if is_full:
            raise StoreUnavailableError("failed to pin block of size 256.0 KiB")
        return insert(rows, **options)

    def gives_room() -> None:
        nonlocal is_full
        checkpoint()
        is_full = False

    store.insert(some_spans(1).rows)  # So that something is in the log.
    monkeypatch.setattr(store, "insert", fails_while_memory_is_full)
    monkeypatch.setattr(store.database, "checkpoint", gives_room)
    writer = Writer(store)
    refused, taken = (submit(writer, some_spans(1)) for _ in range(2))
    # One request to a batch, and no idle moment between them.
    monkeypatch.setattr("otelchain_collector.writer.MAX_BATCH_RECORDS", 1)

    writer.start()

    with pytest.raises(StoreUnavailableError):
        refused.result(10)
    assert taken.result(10) == Outcome()
    writer.close()
    assert writer.failure is None


@pytest.mark.parametrize("fails", [True, False])
def test_a_checkpoint_that_cures_nothing_does_not_follow_every_commit_that_fails(
    store: Store, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    checkpoint, checkpoints = store.database.checkpoint, 0

    def fail(*_: Any, **__: Any) -> Inserted:
        raise StoreUnavailableError("no space left on device")

    def counted() -> None:
        nonlocal checkpoints
        checkpoints += 1
        if fails:
            raise StoreUnavailableError("cannot checkpoint: no space left on device")
        checkpoint()

    store.insert(some_spans(1).rows)
    monkeypatch.setattr(store, "insert", fail)
    monkeypatch.setattr(store.database, "checkpoint", counted)
    monkeypatch.setattr("otelchain_collector.writer.MAX_BATCH_RECORDS", 1)
    writer = Writer(store)
    submitted = [submit(writer, some_spans(1)) for _ in range(20)]

    writer.start()
    writer.close()

    assert all(isinstance(each.exception(10), StoreUnavailableError) for each in submitted)
    assert checkpoints == 1
