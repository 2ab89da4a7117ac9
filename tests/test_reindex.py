"""``otelchain reindex``: stored spans say what a fresh import of them would say."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

import collector_process
from collector_process import RunningCollector
from exchanged import contents, export, imported, make_database, write_lines
from otelchain_collector.dialects import otelchain
from otelchain_collector.exchange.reindex import Reindexing
from otelchain_collector.normalise import Normalised
from otlp_requests import START, request, span, text
from stored_runs import asked
from stored_runs import otelchain as command
from test_langsmith_import import _traced


def _spans() -> list[Any]:
    from test_otlp_json_files import _spans as every_value

    own = [text("otelchain.run.type", "tool"), text("otelchain.input", "x")]
    failed = span(attributes=[text("openinference.span.kind", "RETRIEVER")])
    failed.status.code = 2
    failed.events.add(name="exception", attributes=[text("exception.type", "E")])
    tagged = span(attributes=[*own, text("otelchain.tags", '["a","b"]')])
    pending = [*own, text("otelchain.run.status", "pending")]
    flat = span(
        attributes=[
            text("openinference.span.kind", "LLM"),
            text("llm.input_messages.0.message.content", "hi"),
        ]
    )
    return [*every_value(), span(attributes=own), failed, tagged, flat, span(attributes=pending)]


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> Path:
    # Many times, and many spans of one time.
    more = [span(start_time_unix_nano=START + number % 7) for number in range(50)]
    return make_database(tmp_path / "t.duckdb", request(*_spans(), *more))


def reindex(database: Path) -> tuple[int, int]:
    with closing(Reindexing(database)) as work:
        return work.run(lambda _: None)


def _blank(database: Path, where: str = "true") -> None:
    """Make rows as a version would have left them that knew no dialect."""
    columns = [name for name in Normalised._fields if name not in ("dialect", "run_status")]
    sets = ", ".join(f"{name} = NULL" for name in columns)
    with duckdb.connect(str(database)) as connection:
        for table in ("spans", "pending_spans"):
            connection.execute(
                f"UPDATE {table} SET dialect = 'other', run_status = 'ok', {sets} WHERE {where}"
            )


def test_nothing_changes_under_the_same_rules(database: Path) -> None:
    before = contents(database)

    assert reindex(database) == (59, 0)
    assert contents(database) == before


def test_rows_without_any_rule_become_those_of_a_fresh_import(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.exchange.reindex._PAGE_ROWS", 5)
    before = contents(database)
    _blank(database)
    assert contents(database) != before
    # Runs that were taken for ended ones, as a version without pending runs stored them.
    with duckdb.connect(str(database)) as connection:
        connection.execute("INSERT INTO spans BY NAME SELECT * EXCLUDE (row_id) FROM pending_spans")
        connection.execute("DELETE FROM pending_spans")

    assert reindex(database)[0] >= 59

    assert contents(database) == before
    (tmp_path / "out.jsonl").write_bytes(export("otlp-json", database))
    imported("otlp-json", tmp_path / "fresh.duckdb", str(tmp_path / "out.jsonl"))
    assert contents(tmp_path / "fresh.duckdb") == before
    assert reindex(database) == (59, 0)


def test_a_rule_that_changed_is_applied_to_stored_spans(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(otelchain._RUN_TYPES, "tool", "chain")

    assert reindex(database).changed == 4

    assert _types(database) == {"chain"}


def _types(database: Path) -> set[Any]:
    with duckdb.connect(str(database), read_only=True) as connection:
        sql = "SELECT DISTINCT run_type FROM runs WHERE dialect = 'otelchain'"
        return {row for (row,) in connection.execute(sql).fetchall()}


def test_runs_that_are_no_longer_pending_go_to_the_others(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(otelchain.DIALECT.columns, "run_status")  # type: ignore[attr-defined]
    monkeypatch.delitem(otelchain.DIALECT._single, "otelchain.run.status")

    reindex(database)

    with duckdb.connect(str(database), read_only=True) as connection:
        sql = "SELECT (SELECT count(*) FROM spans), (SELECT count(*) FROM pending_spans)"
        assert connection.execute(sql).fetchall() == [(59, 0)]


_KILLED = """
import os, signal, sys
from pathlib import Path
from otelchain_collector.exchange import reindex

reindex._PAGE_ROWS = 5
work = reindex.Reindexing(Path(sys.argv[1]))
pages = []


def advance(count):
    pages.append(count)
    if len(pages) == 2:
        os.kill(os.getpid(), signal.SIGKILL)


work.run(advance)
"""


def test_what_a_kill_interrupted_is_finished_by_another_run(database: Path) -> None:
    before = contents(database)
    _blank(database)
    blank = contents(database)

    result = subprocess.run([sys.executable, "-c", _KILLED, str(database)], check=False)

    assert result.returncode == -signal.SIGKILL
    with duckdb.connect(str(database)):  # What was committed is in the write-ahead log.
        pass
    between = contents(database)
    assert between not in (before, blank)
    assert {table: len(rows) for table, rows in between.items()} == {
        table: len(rows) for table, rows in before.items()
    }
    reindex(database)
    assert contents(database) == before


def test_imported_runs_of_langsmith_are_the_same_again(tmp_path: Path) -> None:
    database = tmp_path / "t.duckdb"
    imported("langsmith", database, str(write_lines(tmp_path / "runs.jsonl", _traced())))
    before = contents(database)
    _blank(database)

    assert reindex(database) == (8, 8)
    assert contents(database) == before


def test_the_time_of_arrival_and_what_was_sent_stay(database: Path) -> None:
    sql = "SELECT span_id, attributes, events, received_time_unix_nano FROM spans ORDER BY span_id"
    with duckdb.connect(str(database)) as connection:
        before = connection.execute(sql).fetchall()
    _blank(database)

    reindex(database)

    with duckdb.connect(str(database)) as connection:
        assert connection.execute(sql).fetchall() == before


def test_the_command_tells_what_it_did(database: Path) -> None:
    _blank(database, "dialect = 'otelchain'")

    result = command("reindex", "--database", str(database))

    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout == b"read 59 spans; changed 4\n"


@pytest.fixture(name="collector")
def _collector(tmp_path: Path) -> Iterator[RunningCollector]:
    collector = collector_process.start(tmp_path / "c.duckdb", tmp_path / "log")
    yield collector
    collector.kill()


def test_a_file_that_a_collector_holds_is_refused(collector: RunningCollector) -> None:
    result = asked("reindex", "--database", str(collector.database))

    assert result.returncode == 2
    said = result.stderr.decode()
    assert f"in use by the collector with PID {collector.process.pid}" in said
    assert "stop it" in said


def test_a_file_that_is_not_there_is_refused_and_not_made(tmp_path: Path) -> None:
    result = asked("reindex", "--database", str(tmp_path / "no.duckdb"))

    assert result.returncode == 2
    assert b"there is no database" in result.stderr
    assert list(tmp_path.iterdir()) == []
