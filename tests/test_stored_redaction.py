"""``otelchain redact scan`` and ``apply``: what is stored already, counted by hand, then gone."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from otelchain import Redactor
from otelchain_collector import rewrite as copying
from otelchain_collector.errors import StoreError
from otelchain_collector.redaction import rewrite as redacting
from otelchain_collector.redaction.rewrite import rewrite
from otelchain_collector.redaction.stored import StoredRedaction
from otelchain_collector.schema import create
from otelchain_collector.signals import SIGNALS
from otlp_clients import send
from otlp_requests import request, span, text
from planted_requests import Planter
from stored_runs import asked

DEFAULT = StoredRedaction(Redactor())
SECRET = "sk-proj-Q77xAb2Cd3Ef4Gh5Ij6Kl7Mn8Op9Qr"


def no_progress(_: int, __: int) -> None:
    pass


@pytest.fixture(name="planted")
def _planted(start_collector: Any, tmp_path: Path) -> tuple[Path, Planter]:
    """A database with a secret in every place, some in deleted rows, and its log beside it."""
    folder = tmp_path / "store"
    folder.mkdir()
    planter = Planter()
    collector = start_collector(folder / "traces.duckdb", "--redaction", "off")
    for signal in SIGNALS:
        send(collector, signal.name, "http-protobuf", planter.request(signal))
    # A run that was pending and has ended: its first row is deleted.
    for status in ("pending", "ok"):
        attributes = [text("otelchain.run.status", status), text("a", planter.secret(status))]
        run = span(span_id=b"12345678", attributes=attributes)
        send(collector, "traces", "http-protobuf", request(run))
    bad = span(name=planter.secret("rejected"), end_time_unix_nano=2**63 - 1)
    send(collector, "traces", "http-protobuf", request(bad))
    collector.stop()
    collector = start_collector(folder / "traces.duckdb", "--redaction", "off")
    for signal in SIGNALS:
        send(collector, signal.name, "http-protobuf", planter.request(signal))
    normalised = {
        "otelchain.metadata": json.dumps({"note": planter.secret("metadata")}),
        "otelchain.run.type": "chain",
        "otelchain.run.name": planter.secret("run name"),
        "gen_ai.conversation.id": planter.secret("session"),
        "error.message": planter.secret("error"),
        "llm.input_messages.0.message.content": planter.secret("built input"),
    }
    attributes = [text(key, value) for key, value in normalised.items()]
    send(collector, "traces", "http-protobuf", request(span(attributes=attributes)))
    collector.kill()
    return folder, planter


def content(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def rows_of(database: Path) -> bytes:
    """Return everything that the tables hold, as text."""
    with duckdb.connect(str(database)) as connection:
        tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        return repr([connection.execute(f"FROM {name}").fetchall() for (name,) in tables]).encode()


def shape(database: Path) -> dict[str, Any]:
    """Return what redaction must not change: rows, ids, times, numbers, types, views.

    A digest of what a record said is no such id.
    """
    with duckdb.connect(str(database)) as connection:
        columns = connection.execute(
            "SELECT table_name, column_name, data_type, is_nullable FROM duckdb_columns() "
            "WHERE NOT internal ORDER BY ALL"
        ).fetchall()
        views = connection.execute(
            "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL"
        ).fetchall()
        kept: dict[str, Any] = {"columns": columns, "views": views}
        for table in sorted({column[0] for column in columns} - {view[0] for view in views}):
            exact = [
                name
                for of, name, kind, _ in columns
                if of == table
                and (kind not in ("VARCHAR", "JSON", "VARCHAR[]") or name.endswith("_id"))
                and not (of == "rejected_records" or name in ("session_id", "user_id", "record_id"))
            ]
            chosen = ", ".join(f'"{name}"' for name in exact) or "count(*)"
            kept[table] = connection.execute(f"SELECT {chosen} FROM {table}").fetchall()
        kept["runs"] = connection.execute("SELECT count(*), count(inputs) FROM runs").fetchall()
    return kept


def test_apply_leaves_no_byte_of_a_secret_in_file_or_log_and_changes_nothing_else(
    planted: tuple[Path, Planter],
) -> None:
    folder, planter = planted
    database = folder / "traces.duckdb"
    # Most of them stand in the bytes; some DuckDB compresses.
    assert len(planter.found_in(content(folder))) > 0.9 * len(planter.places)
    assert len(planter.found_in(rows_of(database))) > 0.9 * len(planter.places)
    before = shape(database)
    database.chmod(0o640)

    answer = asked("redact", "apply", "--database", str(database), "--yes", "--format", "json")

    assert answer.returncode == 0
    assert planter.found_in(content(folder)) == []
    assert planter.found_in(rows_of(database)) == []
    assert planter.found_in(answer.stdout + answer.stderr) == []
    assert json.loads(answer.stdout) != []
    assert shape(database) == before
    assert stat.S_IMODE(database.stat().st_mode) == 0o640
    assert {path.name for path in folder.iterdir()} <= {
        "traces.duckdb",
        "traces.duckdb.collector.json",
        "traces.duckdb.identity-key",
    }
    again = asked("redact", "scan", "--database", str(database), "--fail-on-rows")
    assert again.returncode == 0


def test_a_collector_goes_on_with_a_rewritten_file(
    planted: tuple[Path, Planter], start_collector: Any
) -> None:
    folder, _ = planted
    rewrite(folder / "traces.duckdb", DEFAULT, no_progress)

    collector = start_collector(folder / "traces.duckdb")
    assert send(collector, "traces", "grpc", request(span())).ok
    assert collector.stop() == 0


def small(path: Path, *spans: Any, start_collector: Any) -> Path:
    collector = start_collector(path, "--redaction", "off")
    send(collector, "traces", "http-protobuf", request(*spans))
    collector.stop()
    return path


def leaking() -> list[Any]:
    return [
        span(attributes=[text("input.value", f"try {SECRET} {SECRET} b@example.com")]),
        span(attributes=[text("input.value", f"use {SECRET}")]),
        span(name="clean"),
    ]


def test_a_scan_says_rule_place_count_and_spans_but_no_value(
    start_collector: Any, tmp_path: Path
) -> None:
    spans = leaking()
    database = small(tmp_path / "t.duckdb", *spans, start_collector=start_collector)

    answer = asked("redact", "scan", "--database", str(database), "--format", "json")

    ids = [each.span_id.hex() for each in spans]
    place = {"table": "spans", "column": "attributes", "attribute": "input.value", "failed": False}
    assert json.loads(answer.stdout) == [
        {**place, "rule": "openai_key", "count": 3, "rows": 2, "span_ids": ids[:2]},
        {**place, "rule": "email", "count": 1, "rows": 1, "span_ids": ids[:1]},
    ]
    assert SECRET.encode() not in answer.stdout + answer.stderr


def test_a_stricter_policy_finds_what_the_first_one_let_through(
    start_collector: Any, tmp_path: Path
) -> None:
    database = small(tmp_path / "t.duckdb", *leaking(), start_collector=start_collector)
    rewrite(database, DEFAULT, no_progress)
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rules]]\nname = "said"\npaths = ["input.value"]\n')

    answer = asked(
        *("redact", "scan", "--database", str(database), "--policy", str(policy)),
        *("--format", "json", "--fail-on-rows"),
    )

    assert answer.returncode == 1
    [found] = json.loads(answer.stdout)
    assert (found["rule"], found["rows"]) == ("said", 2)


def test_a_running_collector_is_scanned_through_and_not_rewritten(
    start_collector: Any, tmp_path: Path
) -> None:
    database = small(tmp_path / "t.duckdb", *leaking(), start_collector=start_collector)
    closed = asked("redact", "scan", "--database", str(database), "--format", "json")
    before = database.read_bytes()
    start_collector(database, "--redaction", "off")

    asking = asked("redact", "scan", "--database", str(database), "--format", "json")
    refused = asked("redact", "apply", "--database", str(database), "--yes")
    tried = asked("redact", "apply", "--database", str(database), "--format", "json")

    assert (tried.returncode, tried.stdout) == (0, closed.stdout)
    assert b"stop its collector and add --yes" in tried.stderr
    assert asking.stdout == closed.stdout
    assert refused.returncode == 2
    assert b"in use by the collector" in refused.stderr
    assert database.read_bytes() == before


def test_without_yes_nothing_is_written(start_collector: Any, tmp_path: Path) -> None:
    database = small(tmp_path / "t.duckdb", *leaking(), start_collector=start_collector)
    before = database.read_bytes()

    answer = asked("redact", "apply", "--database", str(database))

    assert answer.returncode == 0
    assert b"add --yes" in answer.stderr
    assert b"openai_key" in answer.stdout
    assert database.read_bytes() == before


@pytest.mark.parametrize(
    ("module", "name"), [(redacting, "_redacted"), (copying, "_sync"), (copying, "_keep_access")]
)
def test_when_it_fails_the_file_is_as_it_was_and_nothing_is_left_beside(
    module: Any, name: str, start_collector: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    database = small(folder / "t.duckdb", *leaking(), start_collector=start_collector)
    before = database.read_bytes()

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(module, name, fail)

    with pytest.raises(StoreError, match=r"cannot write .*t\.duckdb anew: .*No space left"):
        rewrite(database, DEFAULT, no_progress)

    assert database.read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["t.duckdb"]


def test_what_a_crash_left_beside_the_file_is_replaced_or_removed(
    start_collector: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    database = small(folder / "t.duckdb", *leaking(), start_collector=start_collector)
    # Of a process that has ended.
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    draft = f"t.duckdb.draft-{ended.pid}"
    (folder / draft).write_bytes(b"half a file")
    (folder / f"{draft}.wal").write_bytes(b"half a log")
    for spilled in (folder / f"{draft}.tmp", folder / "t.duckdb.tmp"):
        spilled.mkdir()
        (spilled / "duckdb_temp_1_1_storage_DEFAULT-0.tmp").write_text(SECRET)

    rewrite(database, DEFAULT, no_progress)

    assert SECRET.encode() not in content(folder)
    assert [path.name for path in folder.iterdir()] == ["t.duckdb"]


def test_a_link_stays_a_link(start_collector: Any, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    real = small(tmp_path / "disk" / "t.duckdb", *leaking(), start_collector=start_collector)
    link = tmp_path / "link.duckdb"
    link.symlink_to(real)

    rewrite(link, DEFAULT, no_progress)

    assert link.is_symlink()
    assert SECRET.encode() not in real.read_bytes()


def test_a_damaged_log_beside_the_file_is_named_and_nothing_is_rewritten_before_it_is_gone(
    start_collector: Any, tmp_path: Path
) -> None:
    database = small(tmp_path / "t.duckdb", *leaking(), start_collector=start_collector)
    link = tmp_path / "elsewhere" / "link.duckdb"
    link.parent.mkdir()
    link.symlink_to(database)
    before = database.read_bytes()
    aside = tmp_path / "t.duckdb.wal.damaged-20261130T000000Z"
    aside.write_text(SECRET)

    for name in (database, link):
        refused = asked("redact", "apply", "--database", str(name), "--yes")
        tried = asked("redact", "apply", "--database", str(name))
        scanned = asked("redact", "scan", "--database", str(name))

        assert (refused.returncode, refused.stdout) == (2, b"")
        assert f"{aside} would keep what is taken out" in " ".join(refused.stderr.decode().split())
        assert b"delete it or move it away" in b" ".join(refused.stderr.split())
        assert (tried.returncode, scanned.returncode) == (0, 0)
        for answer in (tried, scanned):
            assert f"not looked at: {aside}, a damaged log" in answer.stderr.decode()
        assert SECRET.encode() not in refused.stderr + tried.stderr + scanned.stderr
    assert database.read_bytes() == before

    aside.unlink()
    done = asked("redact", "apply", "--database", str(database), "--yes")
    assert done.returncode == 0
    assert b"damaged log" not in done.stderr
    assert SECRET.encode() not in database.read_bytes()


def test_tables_of_somebody_else_are_not_lost(start_collector: Any, tmp_path: Path) -> None:
    database = small(tmp_path / "t.duckdb", *leaking(), start_collector=start_collector)
    with duckdb.connect(str(database)) as connection:
        connection.execute("CREATE TABLE notes AS SELECT 'mine' AS note")

    with pytest.raises(StoreError, match=r"not otelchain's: notes\.note"):
        rewrite(database, DEFAULT, no_progress)

    with duckdb.connect(str(database)) as connection:
        assert connection.execute("FROM notes").fetchall() == [("mine",)]


def test_a_file_of_an_older_version_keeps_its_version(tmp_path: Path) -> None:
    database = tmp_path / "old.duckdb"
    with duckdb.connect(str(database)) as connection:
        create(connection, 3)
        connection.execute("INSERT INTO schema_migrations VALUES (3, 'pending_spans', 1)")
        connection.execute(
            "INSERT INTO rejected_spans VALUES (1, 'r', 'ab', 'cd', $name, NULL)",
            {"name": f"name {SECRET}"},
        )

    rewrite(database, DEFAULT, no_progress)

    with duckdb.connect(str(database)) as connection:
        assert connection.execute("FROM rejected_spans").fetchall() == [
            (1, "r", "ab", "cd", "name [REDACTED:openai_key]", None)
        ]
        assert connection.execute("FROM schema_migrations").fetchall() == [(3, "pending_spans", 1)]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "there is no database"),
        (lambda path: path.write_text("x" * 5000), "is not a DuckDB database"),
        (lambda path: duckdb.connect(str(path)).close(), "holds no traces"),
    ],
)
def test_what_is_no_database_of_ours_is_named(
    make: Callable[[Path], Any], reason: str, tmp_path: Path
) -> None:
    make(tmp_path / "t.duckdb")

    answer = asked("redact", "apply", "--database", str(tmp_path / "t.duckdb"), "--yes")

    assert answer.returncode == 2
    assert reason in answer.stderr.decode()
