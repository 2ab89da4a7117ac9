"""The store: spans once, cursors beside the writer, files that cannot be used."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from otelchain_collector.decode import decode
from otelchain_collector.errors import RowsRefusedError, SchemaTooNewError, StoreError
from otelchain_collector.redaction.found import Finding
from otelchain_collector.rows import RejectedRecord, SpanRow
from otelchain_collector.store import RECENT_SPANS, Inserted, Store
from otlp_requests import START, request, span, text


def rows(count: int, first_start: int = START) -> list[SpanRow]:
    spans = [
        span(start_time_unix_nano=first_start + index, end_time_unix_nano=first_start + index + 9)
        for index in range(count)
    ]
    return decode(request(*spans), START).rows


def stored(store: Store) -> int:
    with store.database.cursor() as cursor:
        [(count,)] = cursor.execute("SELECT count(*) FROM spans").fetchall()
    return int(count)


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "t.duckdb")


def test_what_is_inserted_can_be_read_while_the_store_is_open(store: Store) -> None:
    sent = decode(request(span(name="a", attributes=[text("k.l", "v\0w")])), START).rows

    assert store.insert(sent) == Inserted(stored=1, duplicates=0)

    with store.database.cursor() as cursor:
        assert cursor.execute(
            "SELECT name, attributes ->> 'k.l', start_time_unix_nano, tags, service_name FROM spans"
        ).fetchall() == [("a", "v\0w", START, None, "shop")]


@pytest.mark.parametrize("most_are_characters", [100, 1_000])
def test_one_long_text_does_not_leave_those_beside_it_uncompressed(
    store: Store, most_are_characters: int
) -> None:
    # DuckDB's dictionary takes no row group with a text of 16 KiB.
    texts = ["x" * 20_000, *(f"{number:0{most_are_characters}}" for number in range(500))]
    spans = [span(attributes=[text("k", value)], status=Status(message=value)) for value in texts]
    store.insert(decode(request(*spans), START).rows)
    store.database.checkpoint()

    with store.database.cursor() as cursor:
        compressions = cursor.execute(
            "SELECT DISTINCT column_name, compression FROM pragma_storage_info('spans') "
            "WHERE segment_type <> 'VALIDITY' AND column_name IN ('attributes', 'status_message')"
        ).fetchall()
    assert ("attributes", "ZSTD") in compressions
    assert (("status_message", "ZSTD") in compressions) == (most_are_characters > 512)


def test_a_resend_adds_nothing(store: Store) -> None:
    batch = rows(100)

    assert store.insert(batch) == (100, 0)
    assert store.insert(batch) == (0, 100)
    assert stored(store) == 100


def test_a_resend_after_a_restart_adds_only_what_is_new(tmp_path: Path) -> None:
    batch = rows(100)
    store = Store.open(tmp_path / "t.duckdb")
    store.insert(batch[:60])
    store.close()

    store = Store.open(tmp_path / "t.duckdb")

    assert store.insert(batch) == (40, 60)
    assert stored(store) == 100


def test_a_resend_is_known_when_newer_spans_have_pushed_it_out_of_memory(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.store.RECENT_SPANS", 10)
    batch = rows(20)
    store.insert(batch)
    store.insert(rows(20, START + 10**9))
    assert len(store._recent) == 10 < RECENT_SPANS

    assert store.insert(batch) == (0, 20)


def test_a_span_twice_in_one_batch_is_stored_once_as_it_came_first(store: Store) -> None:
    [first] = rows(1)

    assert store.insert([first, first._replace(name="second")]) == (1, 1)

    with store.database.cursor() as cursor:
        assert cursor.execute("SELECT name FROM spans").fetchall() == [("step",)]


def test_the_same_ids_with_another_start_are_another_span_also_when_memory_has_forgotten_it(
    store: Store,
) -> None:
    [first] = rows(1)
    corrected, again = (
        first._replace(start_time_unix_nano=first.start_time_unix_nano - back) for back in (1, 2)
    )

    assert store.insert([first, corrected]) == (2, 0)
    assert store.insert([first, corrected]) == (0, 2)
    store.database._renew()
    assert not store._recent
    assert store.insert([first, corrected]) == (0, 2)
    assert store.insert([again]) == (1, 0)
    assert stored(store) == 3


def test_what_is_found_in_the_same_ids_with_another_start_is_counted(store: Store) -> None:
    [first] = rows(1)
    corrected = first._replace(start_time_unix_nano=first.start_time_unix_nano + 1)
    ids = (first.trace_id, first.span_id)
    found = Finding(START, "traces", "shop", "tests", "note", "email", False, 1, *ids)
    store.insert([first], [found])

    # The time range of the batch covers the start of the first one.
    store.insert([corrected, *rows(1)], [found])
    store.insert([first, corrected], [found])

    with store.database.cursor() as cursor:
        counted = cursor.execute("SELECT sum(count)::INT FROM redaction_findings").fetchall()
    assert counted == [(2,)]


def test_the_same_span_id_in_another_trace_is_another_span(store: Store) -> None:
    [first] = rows(1)

    assert store.insert([first, first._replace(trace_id="f" * 32)]) == (2, 0)


def test_a_batch_with_a_row_that_cannot_be_stored_stores_nothing(store: Store) -> None:
    batch = rows(3)
    batch[1] = batch[1]._replace(attributes="{not json: secret}")

    with pytest.raises(RowsRefusedError) as raised:
        store.insert(batch)

    assert stored(store) == 0
    assert "secret" not in str(raised.value)
    assert store.insert([batch[0], batch[2]]) == (2, 0)


@pytest.mark.parametrize("change", [{"flags": 2**63}, {"name": "\ud800"}, {"input_tokens": "many"}])
def test_a_row_that_arrow_refuses_is_told_apart_from_trouble_of_the_store(
    store: Store, change: dict[str, object]
) -> None:
    [row] = rows(1)

    with pytest.raises(RowsRefusedError):
        store.insert([row._replace(**change)])  # type: ignore[arg-type]


def test_rejected_spans_are_kept_with_their_reason(store: Store) -> None:
    store.reject(
        [RejectedRecord(START, "trace_id is all zero", "00", "01", "step", None, "traces")]
    )

    with store.database.cursor() as cursor:
        assert cursor.execute("SELECT * FROM rejected_records").fetchall() == [
            (START, "trace_id is all zero", "00", "01", "step", None, "traces")
        ]


ROUTE = ("0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7")


def refused(*ids: str | None, reason: str = "too late", signal: str = "traces") -> RejectedRecord:
    trace_id, span_id = ids or ROUTE
    return RejectedRecord(START, reason, trace_id, span_id, "step", None, signal)


def noted(store: Store) -> int:
    with store.database.cursor() as cursor:
        [(count,)] = cursor.execute("SELECT count(*) FROM rejected_records").fetchall()
    return int(count)


def test_a_span_that_is_refused_again_for_the_same_reason_is_noted_once(tmp_path: Path) -> None:
    for _ in range(2):  # Also by another process.
        store = Store.open(tmp_path / "t.duckdb")
        store.reject([refused(), refused()])
        store.reject([refused()._replace(received_time_unix_nano=START + 1)])
        store.close()
    store = Store.open(tmp_path / "t.duckdb")

    store.reject([refused(reason="another"), refused(ROUTE[0], "00f067aa0ba902b8")])

    assert noted(store) == 3
    store.close()


@pytest.mark.parametrize(
    "record",
    [
        refused(ROUTE[0], "0" * 16),
        refused("0" * 32, ROUTE[1]),
        refused(ROUTE[0][:-2], ROUTE[1]),
        refused(None, None),
        refused(signal="logs"),
        refused(None, None, signal="metrics"),
    ],
)
def test_records_that_nothing_tells_from_a_resend_are_all_noted(
    store: Store, record: RejectedRecord
) -> None:
    for _ in range(2):
        store.reject([record, record])

    assert noted(store) == 4


def test_a_cursor_can_neither_read_files_nor_change_settings(store: Store) -> None:
    with store.database.cursor() as cursor:
        for statement in ("SELECT * FROM read_text('/etc/hostname')", "SET threads = 1"):
            with pytest.raises(duckdb.Error):
                cursor.execute(statement)


def test_the_last_storable_time_does_not_break_the_runs_view(store: Store) -> None:
    store.insert(decode(request(span(end_time_unix_nano=2**63 - 2)), START).rows)

    with store.database.cursor() as cursor:
        [(end,)] = cursor.execute("SELECT end_time::VARCHAR FROM runs").fetchall()
    assert end == "2262-04-11 23:47:16.854775806"


def test_the_file_has_the_format_that_duckdb_1_5_reads(store: Store) -> None:
    with store.database.cursor() as cursor:
        [(tags,)] = cursor.execute(
            "SELECT tags FROM duckdb_databases() WHERE NOT internal"
        ).fetchall()
    assert tags["storage_version"].startswith("v1.5.0")


def test_a_closed_store_leaves_one_file(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "t.duckdb")
    store.insert(rows(10))

    store.close()

    assert [path.name for path in tmp_path.iterdir()] == ["t.duckdb"]


def test_a_file_that_another_process_holds_is_refused_with_its_pid(tmp_path: Path) -> None:
    database = tmp_path / "t.duckdb"
    code = (
        f"import duckdb; c = duckdb.connect({str(database)!r}); print('open', flush=True); input()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()

        with pytest.raises(StoreError) as raised:
            Store.open(database)

        holder.communicate("\n")
    assert f"{database} is locked by process {holder.pid}" in str(raised.value)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    database = tmp_path / "notes.txt"
    database.write_text("not a database\n" * 1_000)

    with pytest.raises(StoreError, match=r"notes\.txt is not a DuckDB database; name another"):
        Store.open(database)


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"the folder {tmp_path / 'absent'} does not exist"):
        Store.open(tmp_path / "absent" / "t.duckdb")


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"cannot open {tmp_path}"):
        Store.open(tmp_path)


def test_a_file_of_a_newer_otelchain_is_refused_by_name(tmp_path: Path) -> None:
    database = tmp_path / "t.duckdb"
    Store.open(database).close()
    with duckdb.connect(str(database)) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES (999, 'future', 0)")

    with pytest.raises(SchemaTooNewError, match=r"t\.duckdb: it has schema version 999"):
        Store.open(database)


def test_a_large_log_is_left_to_the_next_start_rather_than_held_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.open_database.CLOSING_CHECKPOINT_WAL_BYTES", 0)
    batch = rows(10)
    store = Store.open(tmp_path / "t.duckdb")
    store.insert(batch)

    store.close()

    assert (tmp_path / "t.duckdb.wal").stat().st_size > 0
    assert Store.open(tmp_path / "t.duckdb").insert(batch) == (0, 10)


def test_readers_are_interrupted_also_when_one_has_closed_its_cursor(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "t.duckdb")
    closed = store.database.cursor()
    closed.close()

    store.database.interrupt_readers()

    store.close()


def test_one_long_payload_does_not_leave_the_others_uncompressed(tmp_path: Path) -> None:
    said = "What the agent was asked and what it found. " * 10
    texts = [said] * 2_000 + [said * 50]
    spans = [
        span(start_time_unix_nano=START + number, attributes=[text("gen_ai.input.messages", value)])
        for number, value in enumerate(texts)
    ]
    store = Store.open(tmp_path / "t.duckdb")

    store.insert(decode(request(*spans), START).rows)
    store.database.checkpoint()

    with store.database.cursor() as cursor:
        found = cursor.execute(
            """
            SELECT DISTINCT compression
            FROM pragma_storage_info('spans')
            WHERE column_name = 'attributes' AND segment_type <> 'VALIDITY'
            """
        ).fetchall()
    assert found == [("ZSTD",)]
