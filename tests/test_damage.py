"""A damaged block of the database file: what is kept of it, and who goes on in spite of it."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from collector_process import RunningCollector, ask, readiness
from otelchain_collector.decode import decode
from otelchain_collector.decode_logs import decode_logs
from otelchain_collector.redaction.found import Finding
from otelchain_collector.store import Store
from otlp_clients import TRANSPORTS, send
from otlp_requests import START, log_record, logs_request, request, span, text
from stored_runs import asked

Start = Callable[..., RunningCollector]
SPANS = 10_000
# DuckDB's file: three headers, then blocks.
HEADERS_BYTES = 3 * 4_096
BLOCK_BYTES = 262_144


@pytest.fixture(name="content", scope="module")
def _content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a database of 10,000 spans, each with 2 KB that do not compress."""
    database = tmp_path_factory.mktemp("whole") / "t.duckdb"
    store = Store.open(database)
    for _ in range(10):
        spans = [span(attributes=[text("k", os.urandom(1_000).hex())]) for _ in range(SPANS // 10)]
        store.insert(decode(request(*spans), START).rows)
    store.insert_logs(decode_logs(logs_request(log_record(), log_record()), START).logs)
    store.insert_pending(decode(request(span(), span()), START).rows)
    store.close()
    return database.read_bytes()


@pytest.fixture(name="database")
def _database(tmp_path: Path, content: bytes) -> Path:
    database = tmp_path / "t.duckdb"
    database.write_bytes(content)
    return database


def damage(database: Path, *columns: str) -> None:
    """Flip a byte in the middle one of the blocks of each column, TABLE.COLUMN."""
    blocks = set()
    with duckdb.connect(str(database), read_only=True) as connection:
        for table, column in (each.split(".") for each in columns):
            found = connection.execute(
                # What zstd has packed goes on in further blocks.
                "SELECT DISTINCT unnest(list_append(additional_block_ids, block_id)) AS block "
                f"FROM pragma_storage_info('{table}') "
                "WHERE column_name = $1 AND block_id >= 0 ORDER BY block",
                [column],
            ).fetchall()
            blocks.add(found[len(found) // 2][0])
    content = bytearray(database.read_bytes())
    for block in blocks:
        content[HEADERS_BYTES + block * BLOCK_BYTES + BLOCK_BYTES // 2] ^= 0xFF
    database.write_bytes(content)


def readable(database: Path, columns: str = "*") -> int:
    with duckdb.connect(str(database), read_only=True) as connection:
        [(count,)] = connection.execute(f"SELECT count({columns}) FROM spans").fetchall()
    return int(count)


def sql(collector: RunningCollector, statement: str) -> tuple[int, Any]:
    kind = {"content-type": "application/json"}
    status, _, body = ask(collector, "POST", "/sql", json.dumps({"sql": statement}), kind)
    return status, json.loads(body)


def blocks(*arguments: str) -> tuple[int, str]:
    result = asked("doctor", "--read-all", "--format", "json", *arguments)
    found = [each for each in json.loads(result.stdout) if each["check"] == "blocks"]
    return result.returncode, "\n".join(f"{each['level']} {each['text']}" for each in found)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_damaged_block_does_not_keep_spans_out(
    transport: str, database: Path, start_collector: Start
) -> None:
    # Where the ids are: a span that starts when stored ones did is looked for there.
    damage(database, "spans.span_id")
    collector = start_collector(database, "--redaction", "off")

    answers = [send(collector, "traces", transport, request(span())).ok for _ in range(3)]

    assert answers == [True, True, True]
    assert "checksum" in readiness(collector)["damage"]
    assert b"otelchain_database_damaged 1.0" in ask(collector, "GET", "/metrics", b"", {})[2]
    assert collector.log.read_text().count("a part of the file is damaged") == 1
    assert collector.stop() == 0
    assert readable(database) == SPANS + 3


def test_spans_that_start_later_are_looked_for_as_ever(
    database: Path, start_collector: Start
) -> None:
    damage(database, "spans.span_id")
    collector = start_collector(database)
    late = span(start_time_unix_nano=START + 10**9)

    for _ in range(2):
        assert send(collector, "traces", "grpc", request(late)).ok

    assert readiness(collector)["damage"] is None
    assert collector.stop() == 0
    assert readable(database) == SPANS + 1


def test_a_question_that_meets_damage_says_what_to_do_and_others_are_answered(
    database: Path, start_collector: Start
) -> None:
    damage(database, "spans.attributes")
    collector = start_collector(database)

    status, answer = sql(collector, "SELECT max(attributes) FROM spans")

    assert status == 400
    assert answer["error"].endswith("'otelchain doctor --read-all' says which rows")
    assert sql(collector, "SELECT count(span_id) FROM spans")[1]["rows"] == [[SPANS]]
    assert send(collector, "traces", "grpc", request(span())).ok
    assert readiness(collector)["status"] == "ready"


@pytest.mark.parametrize("redacted", [False, True])
def test_logs_and_pending_runs_are_kept_too(redacted: bool, database: Path) -> None:
    damage(database, "spans.span_id", "pending_spans.span_id", "logs.record_id")
    store = Store.open(database)
    started, ended = (decode(request(span(), span()), START).rows for _ in range(2))
    records = decode_logs(logs_request(log_record(time_unix_nano=START)), START).logs
    findings = [found_in(started[0]), found_in(ended[0])] if redacted else []

    assert store.insert_pending(started, findings).stored == 2
    assert store.insert(ended, findings).stored == 2
    assert store.insert_logs(records).stored == 1

    with store.database.cursor() as cursor:
        [(pending,)] = cursor.execute("SELECT count(*) FROM pending_spans").fetchall()
        [(counted,)] = cursor.execute("SELECT count(*) FROM redaction_findings").fetchall()
    store.close()
    assert (pending, counted) == (4, 2 if redacted else 0)


def found_in(row: Any) -> Finding:
    values: dict[str, Any] = dict.fromkeys(Finding._fields, "x")
    values |= {"received_time_unix_nano": START, "failed": False, "count": 1}
    return Finding(**{**values, "trace_id": row.trace_id, "span_id": row.span_id})


def test_a_collector_starts_although_its_pending_runs_cannot_be_read(
    tmp_path: Path, start_collector: Start
) -> None:
    database = tmp_path / "pending.duckdb"
    chance = random.Random(1)
    started = [span(start_time_unix_nano=START + chance.randrange(10**15)) for _ in range(60_000)]
    rows = decode(request(*started), START).rows
    store = Store.open(database)
    store.insert_pending(rows)
    # After a deletion DuckDB reads rows for the first and the last time.
    store.insert(rows[:100])
    store.close()
    damage(database, "pending_spans.start_time_unix_nano")

    collector = start_collector(database)

    assert send(collector, "traces", "grpc", request(started[200])).ok
    assert sql(collector, "SELECT count(*) FROM spans")[1]["rows"] == [[101]]


@pytest.mark.parametrize("by", ["file", "collector"])
def test_doctor_tells_which_rows_cannot_be_read(
    by: str, database: Path, start_collector: Start
) -> None:
    damage(database, "spans.attributes")
    if by == "collector":
        start_collector(database)

    code, told = blocks("--database", str(database))

    # A block holds some 250 values, and is read with the 2,048 rows around it.
    assert code == 1
    assert told.startswith("error 2048 rows of spans cannot be read whole (row ids 4096-6143; ")
    assert "columns attributes)" in told


def test_doctor_says_that_every_row_can_be_read(database: Path) -> None:
    assert blocks("--database", str(database))[1] == "ok every row of every table can be read"


def test_compact_saves_what_can_be_read_when_it_is_asked_to(database: Path) -> None:
    damage(database, "spans.attributes")
    damaged = database.read_bytes()

    refused = asked("compact", "--database", str(database))

    assert refused.returncode == 2
    assert b"compact --leave-out-damaged" in refused.stderr
    assert database.read_bytes() == damaged

    saved = asked("compact", "--leave-out-damaged", "--database", str(database))

    assert saved.returncode == 0, saved.stderr
    assert b"2048 rows of spans could not be read" in saved.stderr
    assert readable(database, "attributes") == SPANS - 2_048
    assert blocks("--database", str(database))[1].startswith("ok")


def test_a_snapshot_of_a_damaged_file_is_refused(database: Path, tmp_path: Path) -> None:
    damage(database, "spans.attributes")

    result = asked("snapshot", str(tmp_path / "copy.duckdb"), "--database", str(database))

    assert result.returncode == 2
    assert b"doctor --read-all" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.duckdb"]
