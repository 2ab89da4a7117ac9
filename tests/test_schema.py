"""Migrations: each once, in order; a newer file is not touched."""

from pathlib import Path

import duckdb
import pytest

from otelchain_collector.errors import SchemaTooNewError
from otelchain_collector.normalise import Normalised
from otelchain_collector.rows import LogRow, MetricPointRow, RejectedRecord, SpanRow
from otelchain_collector.schema import LATEST_VERSION, migrate, migrations, version_of


def columns(connection: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    return [row[0] for row in connection.execute(f"DESCRIBE {table}").fetchall()]


def test_a_new_database_gets_every_migration_once() -> None:
    with duckdb.connect() as connection:
        migrate(connection)
        migrate(connection)

        applied = connection.execute("SELECT version, name FROM schema_migrations").fetchall()
    assert applied[:2] == [(1, "spans"), (2, "runs")]
    assert [version for version, _ in applied] == list(range(1, LATEST_VERSION + 1))


def test_migrations_are_numbered_without_gaps() -> None:
    assert [migration.version for migration in migrations()] == list(range(1, LATEST_VERSION + 1))


def test_a_newer_database_is_refused_and_left_as_it_was() -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE schema_migrations (version INTEGER, name VARCHAR, "
            "applied_time_unix_nano BIGINT)"
        )
        connection.execute("INSERT INTO schema_migrations VALUES (999, 'future', 0)")

        with pytest.raises(SchemaTooNewError) as raised:
            migrate(connection)

        tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    assert tables == [("schema_migrations",)]
    assert "999" in str(raised.value)
    assert f"up to {LATEST_VERSION}" in str(raised.value)


def test_a_migration_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from otelchain_collector import schema

    bad = [
        schema.Migration(1, "bad", "CREATE TABLE half (x INTEGER); CREATE TABLE half (x INTEGER)")
    ]
    monkeypatch.setattr(schema, "migrations", lambda: bad)
    with duckdb.connect() as connection:
        with pytest.raises(duckdb.Error):
            migrate(connection)

        assert connection.execute("SELECT * FROM schema_migrations").fetchall() == []
        assert version_of(connection) == 0
        assert "half" not in str(connection.execute("SHOW TABLES").fetchall())


@pytest.mark.failure("replay-after-schema-change")
def test_a_schema_change_does_not_stay_in_the_write_ahead_log(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        migrate(connection)

        wal = tmp_path / "x.duckdb.wal"
        assert not wal.exists() or wal.stat().st_size == 0


def test_rows_have_a_value_for_each_column_of_their_tables() -> None:
    with duckdb.connect() as connection:
        migrate(connection)

        for row, table in (
            (SpanRow, "spans"),
            (RejectedRecord, "rejected_records"),
            (LogRow, "logs"),
            (MetricPointRow, "metric_points"),
        ):
            assert set(row._fields) == set(columns(connection, table))
        assert {*SpanRow._fields, "row_id"} == set(columns(connection, "pending_spans"))
    first = SpanRow._fields.index("dialect")
    last = SpanRow._fields.index("received_time_unix_nano")
    assert SpanRow._fields[first:last] == Normalised._fields


def test_the_runs_view_has_the_promised_columns() -> None:
    promised = (
        "trace_id span_id parent_span_id run_id parent_run_id name run_type status start_time "
        "end_time duration_ms inputs outputs error_type error model provider input_tokens "
        "output_tokens total_tokens session_id user_id agent_name tags metadata service_name "
        "langgraph_node langgraph_step langgraph_checkpoint_ns dialect"
    )
    with duckdb.connect() as connection:
        migrate(connection)

        assert set(promised.split()) <= set(columns(connection, "runs"))


def test_rejected_spans_of_an_older_schema_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from otelchain_collector import schema

    everything = migrations()
    with duckdb.connect() as connection:
        monkeypatch.setattr(schema, "migrations", lambda: everything[:3])
        migrate(connection)
        old = (1, "span_id is all zero", "0a", "00", "step", "shop")
        connection.execute(f"INSERT INTO rejected_spans VALUES {old}")
        monkeypatch.undo()
        migrate(connection)

        spans = connection.execute("SELECT * FROM rejected_spans").fetchall()
        records = connection.execute("SELECT * FROM rejected_records").fetchall()
    assert (spans, records) == ([old], [(*old, "traces")])
