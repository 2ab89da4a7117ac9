"""``otelchain reindex``: stored spans say what a fresh import of them would say."""

import json
import re
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
from otelchain_collector.exchange.reindex import Reindexed
from otelchain_collector.exchange.reindex import reindex as reindex_store
from otelchain_collector.normalise import Normalised
from otelchain_collector.rules import RULES_VERSION
from otelchain_collector.store import Store
from otlp_clients import rows, send
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


def reindex(database: Path) -> Reindexed:
    with closing(Store.open(database)) as store:
        return reindex_store(store, lambda _: None)


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
    monkeypatch.setattr("otelchain_collector.exchange.reindex.PAGE_ROWS", 5)
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
from otelchain_collector.store import Store

reindex.PAGE_ROWS = 5
pages = []


def advance(count):
    pages.append(count)
    if len(pages) == 2:
        os.kill(os.getpid(), signal.SIGKILL)


reindex.reindex(Store.open(Path(sys.argv[1])), advance)
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


# --- which rules a file has seen ---


def _forget_rules(database: Path) -> None:
    """Make the file one whose rows came before anybody took down by which rules."""
    with duckdb.connect(str(database)) as connection:
        connection.execute("DELETE FROM normalisation_rules")


def _rules(database: Path) -> int:
    with closing(Store.open(database)) as store:
        return store.rules_version


def test_a_new_file_has_todays_rules_and_an_old_one_has_them_after_a_reindex(
    database: Path, tmp_path: Path
) -> None:
    assert _rules(tmp_path / "new.duckdb") == RULES_VERSION
    assert _rules(database) == RULES_VERSION
    _forget_rules(database)
    assert _rules(database) == 0

    reindex(database)

    assert _rules(database) == RULES_VERSION


def test_an_interrupted_reindex_leaves_the_file_at_the_old_rules(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.exchange.reindex.PAGE_ROWS", 5)
    _forget_rules(database)

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with closing(Store.open(database)) as store, pytest.raises(KeyboardInterrupt):
        reindex_store(store, stop)

    assert _rules(database) == 0


def test_rows_that_an_older_version_adds_count_as_its_own(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.rules.RULES_VERSION", RULES_VERSION + 1)
    reindex(database)
    monkeypatch.undo()
    _rules(database)  # the older one opens it, and may add rows
    monkeypatch.setattr("otelchain_collector.rules.RULES_VERSION", RULES_VERSION + 1)

    assert _rules(database) == RULES_VERSION


# --- a collector that has the file open ---


_COMMAND = "from otelchain.cli import main; main()"


@pytest.fixture(name="collector")
def _collector(tmp_path: Path) -> Iterator[RunningCollector]:
    """Return a collector with 1,200 spans that say nothing, as an old version left them."""
    many = [
        span(
            start_time_unix_nano=START - 1_200 + place,
            attributes=[text("openinference.span.kind", "TOOL"), text("input.value", "{}")],
        )
        for place in range(1_200)
    ]
    database = make_database(tmp_path / "c.duckdb", request(*many), request(*_spans()))
    _blank(database)
    _forget_rules(database)
    collector = collector_process.start(database, tmp_path / "log")
    yield collector
    collector.kill()


def test_a_collector_does_it_while_it_collects(collector: RunningCollector, tmp_path: Path) -> None:
    assert "were read by older rules (version 0" in collector.log.read_text()
    assert "run: otelchain reindex" in collector.log.read_text()
    working = subprocess.Popen(
        [sys.executable, "-c", _COMMAND, "reindex", "--database", str(collector.database)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    sent = 0
    while working.poll() is None or sent == 0:
        ids = {"span_id": (10**6 + sent).to_bytes(8, "big"), "name": "meanwhile"}
        answer = send(collector, "traces", "http", request(span(**ids)))
        assert (answer.ok, answer.rejected) == (True, 0)
        sent += 1
    said, complaints = working.communicate()

    # What came meanwhile may have been looked at; it said already what it has to say.
    assert (working.returncode, complaints) == (0, b"")
    assert re.fullmatch(rb"read \d+ spans; changed 1209\n", said)
    again = command("reindex", "--database", str(collector.database))
    assert again.stdout == f"read {1_209 + sent} spans; changed 0\n".encode()
    assert collector.stop() == 0
    assert _rules(collector.database) == RULES_VERSION
    assert _as_imported_afresh(collector.database, tmp_path)


def _as_imported_afresh(database: Path, tmp_path: Path) -> bool:
    (tmp_path / "out.jsonl").write_bytes(export("otlp-json", database))
    imported("otlp-json", tmp_path / "fresh.duckdb", str(tmp_path / "out.jsonl"))
    return contents(tmp_path / "fresh.duckdb") == contents(database)


def ask_page(collector: RunningCollector, place: Any, token: str = "") -> tuple[int, Any]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    status, _, body = collector_process.ask(
        collector, "POST", "/reindex", json.dumps(place), headers
    )
    return status, json.loads(body)


def test_it_may_be_left_after_any_page(collector: RunningCollector, tmp_path: Path) -> None:
    status, page = ask_page(collector, {})

    assert (status, page["spans"], page["changed"]) == (200, 500, 500)
    # One of the others started earlier still.
    assert page["following"] == {"table": "spans", "start": START - 701}
    # Only who has come from the start to the end has done everything.
    assert ask_page(collector, {"table": "pending_spans", "start": 0})[0] == 200
    assert ask_page(collector, {"table": "pending_spans", "start": 2**62})[1]["following"] is None
    collector.stop()
    assert _rules(collector.database) == 0

    reindex(collector.database)

    assert _rules(collector.database) == RULES_VERSION
    assert _as_imported_afresh(collector.database, tmp_path)


def test_a_run_that_turned_out_to_be_pending_goes_when_it_ends(tmp_path: Path) -> None:
    attributes = [text("otelchain.run.type", "tool"), text("otelchain.run.status", "pending")]
    started = span(attributes=attributes)
    database = make_database(tmp_path / "p.duckdb", request(started))
    with duckdb.connect(str(database)) as connection:
        connection.execute("UPDATE pending_spans SET run_status = 'ok'")
        connection.execute("INSERT INTO spans BY NAME SELECT * EXCLUDE (row_id) FROM pending_spans")
        connection.execute("DELETE FROM pending_spans")
    collector = collector_process.start(database, tmp_path / "log")
    try:
        assert b"changed 1" in command("reindex", "--database", str(database)).stdout
        assert _counts(collector) == [0, 1]

        del started.attributes[1]
        send(collector, "traces", "http", request(started))

        assert _counts(collector) == [1, 0]
    finally:
        collector.kill()


def _counts(collector: RunningCollector) -> list[int]:
    sql = "SELECT (SELECT count(*) FROM spans) AS s, (SELECT count(*) FROM pending_spans) AS p"
    [found] = rows(collector, sql)
    return [found["s"], found["p"]]


def test_two_at_once_both_come_to_the_end(collector: RunningCollector) -> None:
    command_line = ["-c", _COMMAND, "reindex", "--database", str(collector.database)]
    both = [
        subprocess.Popen([sys.executable, *command_line], stdout=subprocess.PIPE) for _ in range(2)
    ]

    said = b"".join(each.communicate()[0] for each in both)

    assert [each.returncode for each in both] == [0, 0]
    assert sum(map(int, re.findall(rb"changed (\d+)", said))) == 1_209


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ({"table": "logs"}, "table must be one of: spans, pending_spans"),
        ({"table": "spans; DROP TABLE spans"}, "table must be one of"),
        ({"start": -1}, "start must be a whole number"),
        ({"start": "0"}, "start must be a whole number"),
        ({"from": 0}, "the body must be an object with: start, table"),
        ([], "the body must be an object"),
    ],
)
def test_a_page_that_is_none_is_refused(place: Any, text: str, collector: RunningCollector) -> None:
    status, answer = ask_page(collector, place)

    assert status == 400
    assert text in answer["error"]


def test_it_needs_a_token_that_may_maintain_the_collector(tmp_path: Path) -> None:
    user, keeper = "u" * 20, "k" * 20
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{user} write read sql metrics\n{keeper} maintain\n")
    tokens.chmod(0o600)
    log = tmp_path / "log"
    collector = collector_process.start(tmp_path / "c.duckdb", log, "--token-file", str(tokens))
    try:
        assert ask_page(collector, {}, user)[0] == 403
        assert ask_page(collector, {}, "")[0] == 401
        assert ask_page(collector, {}, keeper)[0] == 200
        (tmp_path / "user").write_text(user)
        result = asked(
            *("reindex", "--database", str(collector.database)),
            *("--token-file", str(tmp_path / "user")),
        )
        assert result.returncode == 2
        assert b"it needs the permission 'maintain'" in result.stderr
    finally:
        collector.kill()


def test_a_file_that_is_not_there_is_refused_and_not_made(tmp_path: Path) -> None:
    result = asked("reindex", "--database", str(tmp_path / "no.duckdb"))

    assert result.returncode == 2
    assert b"there is no database" in result.stderr
    assert list(tmp_path.iterdir()) == []
