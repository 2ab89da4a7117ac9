"""``otelchain demo --spans``: made-up spans are such as the collector stores, and have it all."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from otelchain.demo import many
from otelchain.demo.errors import DemoError
from otelchain_collector.answers import answer_query
from otelchain_collector.decode import decode
from otelchain_queries import load, names
from otlp_requests import rebuilt
from stored_runs import asked

END = 1_796_083_200 * 10**9  # 2026-12-01
WANTED = 30_000


@pytest.fixture(scope="module", autouse=True)
def _made_once() -> Iterator[None]:
    """Make the templates of a seed once for all tests: they take longer than the copies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many, "templates", cache(many.templates))
        yield


@pytest.fixture(name="database", scope="module")
def _database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "many.duckdb"
    many.write_many(path, WANTED, END)
    return path


@pytest.fixture(name="store")
def _store(database: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(database), read_only=True) as connection:
        yield connection


def one(store: duckdb.DuckDBPyConnection, sql: str) -> Any:
    [(value,)] = store.execute(sql).fetchall()
    return value


def test_there_are_about_as_many_as_wanted(store: duckdb.DuckDBPyConnection) -> None:
    assert one(store, "SELECT count(*) FROM spans") == pytest.approx(WANTED, rel=0.05)


def _attributes(text: str) -> list[KeyValue]:
    return [KeyValue(key=key, value=rebuilt(value)) for key, value in json.loads(text).items()]


def _as_sent(row: dict[str, Any]) -> ExportTraceServiceRequest:
    """Write a stored row back into the request that an exporter would have sent."""
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.extend(_attributes(row["resource_attributes"]))
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = row["scope_name"]
    scope_spans.scope.version = row["scope_version"]
    scope_spans.spans.append(
        Span(
            trace_id=bytes.fromhex(row["trace_id"]),
            span_id=bytes.fromhex(row["span_id"]),
            parent_span_id=bytes.fromhex(row["parent_span_id"] or ""),
            name=row["name"],
            kind=row["kind"],
            flags=row["flags"],
            start_time_unix_nano=row["start_time_unix_nano"],
            end_time_unix_nano=row["end_time_unix_nano"],
            attributes=_attributes(row["attributes"]),
            events=[
                Span.Event(
                    name=event["name"],
                    time_unix_nano=event["time_unix_nano"],
                    attributes=_attributes(json.dumps(event["attributes"])),
                )
                for event in json.loads(row["events"])
            ],
            status=Status(code=row["status_code"], message=row["status_message"]),
        )
    )
    return request


@pytest.mark.parametrize("table", ["spans", "pending_spans"])
def test_rows_are_what_the_collector_makes_of_such_spans(
    table: str, store: duckdb.DuckDBPyConnection
) -> None:
    # Of every service and kind of run a few, so of every dialect and every fact.
    sample = store.execute(
        f"""
        SELECT * FROM {table}
        QUALIFY row_number() OVER (
            PARTITION BY service_name, run_type, run_status, name ORDER BY span_id
        ) <= 5
        """
    )
    columns = [column[0] for column in sample.description or ()]
    rows = [dict(zip(columns, row, strict=True)) for row in sample.fetchall()]
    assert rows

    for row in rows:
        row.pop("row_id", None)
        decoded = decode(_as_sent(row), row["received_time_unix_nano"])
        (stored,) = [*decoded.rows, *decoded.pending]
        assert stored._asdict() == row


def test_every_dialect_type_and_end_occurs(store: duckdb.DuckDBPyConnection) -> None:
    def found(column: str) -> set[str]:
        rows = store.execute(f"SELECT DISTINCT {column} FROM runs").fetchall()
        return {row[0] for row in rows}

    assert found("dialect") == {"otelchain", "openinference", "gen_ai", "langsmith", "openllmetry"}
    types = {"agent", "chain", "llm", "tool", "retriever", "prompt", "parser"}
    assert found("run_type") == types
    ends = {"ok", "error", "handled_error", "cancelled", "interrupted", "abandoned", "pending"}
    assert found("status") == ends


def test_ids_are_those_of_one_span_each(store: duckdb.DuckDBPyConnection) -> None:
    assert one(store, "SELECT count(*) - count(DISTINCT trace_id || span_id) FROM runs") == 0


def test_nothing_that_stands_for_an_id_is_left(store: duckdb.DuckDBPyConnection) -> None:
    for table in ("spans", "pending_spans"):
        marks = "'@(run|session|user)@'"
        left = f"SELECT count(*) FROM {table} WHERE regexp_matches({table}::VARCHAR, {marks})"
        assert one(store, left) == 0


def test_parents_are_there_but_for_what_was_lost_or_never_sent(
    store: duckdb.DuckDBPyConnection,
) -> None:
    lost = store.execute(
        """
        SELECT dialect = 'langsmith', count(*) FROM runs
        ANTI JOIN runs AS parent
            ON parent.trace_id = runs.trace_id AND parent.span_id = runs.parent_span_id
        WHERE parent_span_id IS NOT NULL
        GROUP BY ALL
        """
    )
    counts = dict(lost.fetchall())

    roots = one(store, "SELECT count(*) FROM runs WHERE name = 'RunnableSequence'")
    assert counts[True] >= roots
    assert 0 < counts[False] < 60


def test_children_run_inside_their_parents(store: duckdb.DuckDBPyConnection) -> None:
    outside = """
        SELECT count(*) FROM runs JOIN runs AS parent
            ON parent.trace_id = runs.trace_id AND parent.span_id = runs.parent_span_id
        WHERE runs.start_time < parent.start_time OR runs.end_time > parent.end_time
    """
    assert one(store, outside) == 0


def test_a_session_is_one_users_with_one_service_and_has_turns(
    store: duckdb.DuckDBPyConnection,
) -> None:
    sessions = store.execute(
        """
        SELECT
            max(services), max(users), avg(turns) FROM (
                SELECT
                    count(DISTINCT service_name) AS services,
                    count(DISTINCT user_id) AS users,
                    count(DISTINCT trace_id) AS turns
                FROM runs
                GROUP BY session_id
            )
        """
    )
    [(services, users, turns)] = sessions.fetchall()

    assert (services, users) == (1, 1)
    assert turns > 3


def test_payloads_have_a_long_tail(store: duckdb.DuckDBPyConnection) -> None:
    sizes = "SELECT quantile_disc(len(inputs), [0.5, 0.999]) FROM runs WHERE run_type = 'llm'"
    median, rare = one(store, sizes)

    assert rare > 10 * median


def test_there_is_more_load_at_noon_than_at_midnight(store: duckdb.DuckDBPyConnection) -> None:
    hours = store.execute(
        "SELECT hour(start_time), count(*) FROM runs WHERE parent_span_id IS NULL GROUP BY 1"
    )
    by_hour = dict(hours.fetchall())

    assert by_hour[12] > 3 * by_hour[0]


def test_they_end_where_they_should(store: duckdb.DuckDBPyConnection) -> None:
    bounds = "SELECT [min(start_time_unix_nano), max(start_time_unix_nano)] FROM runs"
    first, last = one(store, bounds)

    assert abs(first - (END - many.DAYS * many.DAY_NANOS)) < many.DAY_NANOS
    roots = "SELECT max(start_time_unix_nano) FROM spans WHERE parent_span_id IS NULL"
    assert END - many.DAY_NANOS < one(store, f"{roots} AND service_name = 'billing'") < END
    assert last > END - many.DAY_NANOS


def test_every_question_can_be_asked_and_nearly_all_have_answers(
    store: duckdb.DuckDBPyConnection,
) -> None:
    counts = {name: len(answer_query(store, load(name), {}).rows) for name in names()}

    empty = {name for name, count in counts.items() if not count}
    # Tool definitions are not made up, and no collector has redacted anything here.
    assert empty <= {"tool-argument-errors", "rejected-spans", "redaction-findings"}


def test_the_same_seed_gives_the_same_spans_and_another_one_others(tmp_path: Path) -> None:
    def digest(name: str, seed: int) -> Any:
        path = tmp_path / name
        many.write_many(path, 500, END, seed=seed)
        with duckdb.connect(str(path), read_only=True) as connection:
            rows = "SELECT spans::VARCHAR AS row FROM spans"
            return one(connection, f"SELECT md5(string_agg(row ORDER BY row)) FROM ({rows})")

    assert digest("a", 1) == digest("b", 1)
    assert digest("a2", 1) != digest("c", 2)


def test_batches_join_without_a_seam(
    store: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "_TURNS_OF_A_BATCH", 700)
    added: list[int] = []

    many.write_many(tmp_path / "x.duckdb", WANTED, END, progress=added.append)

    assert len(added) > 2
    same = "SELECT md5(string_agg(span_id ORDER BY span_id)) FROM runs"
    with duckdb.connect(str(tmp_path / "x.duckdb"), read_only=True) as in_batches:
        assert one(in_batches, same) == one(store, same)
        pending = "SELECT count(row_id) - count(DISTINCT row_id) FROM pending_spans"
        assert one(in_batches, pending) == 0


def test_the_command_says_what_it_wrote_and_what_to_type_next(tmp_path: Path) -> None:
    database = tmp_path / "some spans.duckdb"

    ran = asked("demo", "--spans", "300", "--database", str(database))

    assert ran.returncode == 0, ran.stderr
    assert " spans of 30 days are in " in ran.stdout.decode()
    assert f"otelchain diagnose --since 24h --database '{database}'" in ran.stdout.decode()
    listed = asked("query", "traces", "--since", "30d", "--database", str(database))
    assert (listed.returncode, listed.stderr) == (0, b"")
    assert b"support-agent" in listed.stdout


def test_a_database_that_exists_is_left_alone(tmp_path: Path) -> None:
    database = tmp_path / "mine.duckdb"
    database.write_bytes(b"mine")

    ran = asked("demo", "--spans", "300", "--database", str(database))

    assert ran.returncode != 0
    assert database.read_bytes() == b"mine"
    with pytest.raises(DemoError, match="exists; give --database another name"):
        many.write_many(database, 1, END)


def test_a_half_made_database_does_not_stay(tmp_path: Path) -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        many.write_many(tmp_path / "half.duckdb", 300, END, progress=stop)

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=r"absent.*cannot be written"):
        many.write_many(tmp_path / "absent" / "x.duckdb", 300, END)


def test_spans_and_a_model_are_not_wanted_together(tmp_path: Path) -> None:
    ran = asked("demo", "--spans", "1", "--model", "a:b", "--database", str(tmp_path / "x.duckdb"))

    assert ran.returncode != 0
    assert b"give one of them" in ran.stderr
