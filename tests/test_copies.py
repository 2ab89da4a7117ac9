"""``otelchain snapshot`` and ``otelchain compact``: whole copies, or none."""

import asyncio
import http.client
import os
import select
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from starlette.requests import Request

import collector_process
from collector_process import RunningCollector, ask
from otelchain.cli import fetching
from otelchain.cli.root import cli
from otelchain_collector.decode import decode
from otelchain_collector.errors import StoreError
from otelchain_collector.hosts import AllowedHosts
from otelchain_collector.rewrite import rewrite
from otelchain_collector.salvage import log_of
from otelchain_collector.snapshot import SnapshotSpoiledError, _checksums, _Snapshots
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer
from otlp_requests import START, body, request, span, text

Start = Callable[..., RunningCollector]
# Redaction would take random text for secrets, and make it short.
UNTOUCHED = ("--redaction", "off")


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> Path:
    """A closed database of 3,000 spans, 1,000 of them in the log, in three row groups."""
    database = tmp_path / "t.duckdb"
    store = Store.open(database)
    for number in range(3):
        store.insert(some(1_000))
        if number < 2:
            store.database.checkpoint()
    store.insert_pending(some(5))
    store.database.writing.close()
    store.database._connection.close()
    assert log_of(database).stat().st_size > 100_000
    return database


def some(count: int) -> list[object]:
    return list(
        decode(
            request(*[span(attributes=[text("k", "v" * 300)]) for _ in range(count)]), START
        ).rows
    )


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments], standalone_mode=True)


def rows(database: Path, sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(database), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def contents(database: Path) -> dict[str, list[tuple[object, ...]]]:
    tables = [name for (name,) in rows(database, "SELECT table_name FROM duckdb_tables()")]
    return {name: rows(database, f'SELECT * FROM "{name}" ORDER BY ALL') for name in tables}


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def send(collector: RunningCollector, count: int) -> None:
    connection = http.client.HTTPConnection(collector.http, timeout=30)
    data = body(*[span(attributes=[text("k", os.urandom(500).hex())]) for _ in range(count)])
    try:
        connection.request("POST", "/v1/traces", data, {"content-type": "application/x-protobuf"})
        assert connection.getresponse().status == 200
    finally:
        connection.close()


@pytest.mark.failure("file-growth")
def test_compact_keeps_every_row_and_makes_the_file_small(database: Path) -> None:
    store = Store.open(database)
    store.database.writing.execute("DELETE FROM spans WHERE rowid < 1500")
    store.close()
    before, size = contents(database), database.stat().st_size
    # DuckDB 1.5 writes the SQL of a view in another form each time.
    views = "SELECT table_name, column_name, data_type FROM duckdb_columns() ORDER BY ALL"
    columns = rows(database, views)
    database.chmod(0o640)

    result = run("compact", "--database", database)

    assert result.exit_code == 0, result.output
    assert contents(database) == before
    assert len(before["spans"]) == 1_500
    assert rows(database, views) == columns
    assert rows(database, "SELECT count(*) FROM runs") == [(1_505,)]
    # Three row groups of 1,000, of which one and a half are empty, have become one.
    assert database.stat().st_size < size
    groups = "SELECT count(DISTINCT row_group_id) FROM pragma_storage_info('spans')"
    assert rows(database, groups) == [(1,)]
    assert rows(
        database, "SELECT tags['storage_version'] FROM duckdb_databases() WHERE NOT internal"
    ) == [("v1.5.0+",)]
    assert (files(database.parent), mode(database)) == (["t.duckdb"], 0o640)


def make_large(database: Path) -> None:
    """Make it 21,000 spans with 40 MB of attributes."""
    store = Store.open(database)
    store.database.writing.execute(
        "INSERT INTO spans SELECT spans.* REPLACE "
        "(json_object('k', repeat(md5(spans.span_id || i), 64)) AS attributes) "
        "FROM spans, range(6) AS copies(i)"
    )
    store.close()


def test_the_log_of_changed_rows_does_not_grow_with_the_table(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_large(database)
    monkeypatch.setattr("otelchain_collector.row_copies.ROW_GROUP_ROWS", 4_096)
    log = database.with_name(f"t.duckdb.draft-{os.getpid()}.wal")
    sizes = []

    def look(_: int, __: int) -> None:
        sizes.append(log.stat().st_size if log.exists() else 0)

    rewrite(database, lambda _, rows: rows, look)

    # 4,096 rows are some 9 MB.
    assert 2_000_000 < max(sizes) < 15_000_000
    assert rows(database, "SELECT count(*) FROM spans") == [(21_000,)]


def test_what_is_written_on_the_way_lies_beside_the_database_and_is_for_its_owner_only(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = tmp_path / "working"
    working.mkdir()
    monkeypatch.chdir(working)
    # Less than the 40 MB that the rows have, so that some are spilled.
    monkeypatch.setattr("otelchain_collector.database.DEFAULT_MEMORY_LIMIT_BYTES", 16 * 1024**2)
    make_large(database)
    found: dict[str, int] = {}

    def look(_: int, __: int) -> None:
        found.update((path.name, mode(path)) for path in tmp_path.rglob("*.draft-*"))
        found.update((path.name, mode(path)) for path in tmp_path.rglob("*.draft-*.tmp/*"))
        assert files(working) == []

    rewrite(database, lambda _, rows: rows, look)

    assert any(name.startswith("duckdb_temp") for name in found), found
    assert {name for name, bits in found.items() if bits & 0o077} == set()
    assert files(tmp_path) == ["t.duckdb", "working"]


def test_compact_leaves_a_link_to_the_file_a_link(database: Path, tmp_path: Path) -> None:
    Store.open(database).close()
    link = tmp_path / "elsewhere" / "link.duckdb"
    link.parent.mkdir()
    link.symlink_to(database)
    before = database.stat().st_ino

    assert run("compact", "--database", link).exit_code == 0

    assert (link.is_symlink(), files(link.parent)) == (True, ["link.duckdb"])
    assert database.stat().st_ino != before


def test_a_collector_goes_on_with_a_compacted_file(
    database: Path, start_collector: Start, tmp_path: Path
) -> None:
    assert run("compact", "--database", database).exit_code == 0
    collector = start_collector(database, *UNTOUCHED)

    send(collector, 10)

    assert collector.stop() == 0
    assert rows(database, "SELECT count(*) FROM spans") == [(3_010,)]


def test_a_file_that_a_collector_has_open_is_not_compacted(
    database: Path, start_collector: Start
) -> None:
    collector = start_collector(database, *UNTOUCHED)

    result = run("compact", "--database", database)

    assert result.exit_code == 2
    assert f"in use by the collector with PID {collector.process.pid}" in result.output


def test_a_rewriting_that_fails_leaves_the_file_as_it_was(database: Path) -> None:
    Store.open(database).close()
    before = database.read_bytes()

    def loses_a_row(table: str, rows: pa.Table) -> pa.Table:
        # Changed rows come in three pieces, of 1,024 rows at most.
        return rows.slice(1) if table == "spans" else rows

    with pytest.raises(StoreError, match="2997 rows of spans instead of 3000; nothing was changed"):
        rewrite(database, loses_a_row)

    assert database.read_bytes() == before
    assert files(database.parent) == ["t.duckdb"]


def test_no_byte_of_what_a_rewriting_changed_is_left(database: Path) -> None:
    store = Store.open(database)
    # In a column that is not compressed beyond recognition, as attributes are.
    secret = os.urandom(40).hex()
    store.insert(list(decode(request(span(name=secret)), START).rows))
    store.close()
    assert secret.encode() in database.read_bytes()

    def redacted(table: str, rows: pa.Table) -> pa.Table:
        if table != "spans":
            return rows
        place = rows.schema.get_field_index("name")
        kept = [each.replace(secret, "[gone]") for each in rows.column(place).to_pylist()]
        return rows.set_column(place, "name", pa.array(kept))

    rewrite(database, redacted)

    assert secret.encode() not in database.read_bytes()
    assert files(database.parent) == ["t.duckdb"]
    assert rows(database, "SELECT count(*) FROM spans WHERE name = '[gone]'")[0] == (1,)


def test_a_snapshot_into_a_folder_says_so(database: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()

    result = CliRunner().invoke(cli, ["snapshot", str(folder), "--database", str(database)])

    assert result.exit_code == 2
    assert f"{str(folder)!r} is a folder; name a file in it" in result.output
    assert list(folder.iterdir()) == []


def test_a_snapshot_of_a_file_holds_its_log_too_and_leaves_it_alone(database: Path) -> None:
    before, log = database.read_bytes(), log_of(database).read_bytes()
    copy = database.with_name("copy.duckdb")
    copy.write_text("an older one")

    result = run("snapshot", copy, "--database", database)

    assert result.exit_code == 0, result.output
    assert "3000 spans" in result.output
    assert (database.read_bytes(), log_of(database).read_bytes()) == (before, log)
    assert contents(copy) == contents(database)
    assert mode(copy) == 0o600
    assert files(copy.parent) == ["copy.duckdb", "t.duckdb", "t.duckdb.wal"]


def test_a_snapshot_of_a_running_collector_is_what_was_committed_when_it_was_asked(
    tmp_path: Path, start_collector: Start
) -> None:
    database, copy = tmp_path / "live.duckdb", tmp_path / "copy.duckdb"
    collector = start_collector(database, *UNTOUCHED)
    send(collector, 500)
    stop = threading.Event()
    sent = [500]

    def keep_sending() -> None:
        while not stop.is_set():
            send(collector, 20)
            sent[0] += 20

    thread = threading.Thread(target=keep_sending)
    thread.start()
    found = []
    for _ in range(3):
        before = sent[0]
        result = run("snapshot", copy, "--database", database)
        assert result.exit_code == 0, result.output
        [(spans,)] = rows(copy, "SELECT count(*) FROM spans")
        # One request may be committed and not counted here yet.
        assert before <= spans <= sent[0] + 20
        found.append(spans)
    stop.set()
    thread.join()

    assert mode(copy) == 0o600
    assert found == sorted(found)
    assert collector.stop() == 0
    assert rows(database, "SELECT count(*) FROM spans") == [(sent[0],)]


def test_a_snapshot_that_a_checkpoint_overtakes_is_never_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.snapshot._PIECE_BYTES", 100_000)
    monkeypatch.setattr("otelchain_collector.checkpoints.HELD_WAL_BYTES", 1)
    store = Store.open(tmp_path / "t.duckdb")
    store.insert(some(1_000))
    writer = Writer(store)
    snapshots = _Snapshots(writer, store.database, AllowedHosts(()))
    size = snapshots._begin()

    async def pieces(disturb: Callable[[], None]) -> int:
        received = 0
        async for piece in snapshots._pieces(size):
            received += len(piece)
            disturb()
        return received

    assert asyncio.run(pieces(lambda: store.insert(some(10)))) == size
    with pytest.raises(SnapshotSpoiledError):
        # As the writer does when its log has grown too large meanwhile.
        asyncio.run(pieces(lambda: writer.checkpoint_if_due()))
    store.close()


# A collector that holds back its checkpoints for 4 MiB of log, and makes them in between as ever.
IMPATIENT = """
from otelchain_collector import __main__, checkpoints
checkpoints.HELD_WAL_BYTES = 4 * 1024 * 1024
__main__.main()
"""


@pytest.fixture(name="impatient")
def _impatient(tmp_path: Path) -> Iterator[RunningCollector]:
    database = tmp_path / "live.duckdb"
    program = ("-c", IMPATIENT)
    collector = collector_process.start(database, tmp_path / "log", *UNTOUCHED, program=program)
    yield collector
    collector.kill()


def test_a_snapshot_that_checkpoints_overtake_goes_on_with_what_has_changed(
    impatient: RunningCollector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(40):
        send(impatient, 512)
    read = fetching._read
    received: list[int] = []

    def slowly(response: object, size: int) -> bytes:
        """Send 6 MB between two pieces of the first two rounds, so that they cannot be whole."""
        found = read(response, size)
        if len(received) in {2, 12}:
            for _ in range(12):
                send(impatient, 512)
        received.append(len(found))
        return found

    monkeypatch.setattr("otelchain.cli.fetching._read", slowly)

    # What the collector has sent ahead of the checkpoint may be all of it.
    for attempt in range(8):
        received.clear()
        copy = tmp_path / f"copy{attempt}.duckdb"
        result = run("snapshot", copy, "--endpoint", impatient.http)
        assert result.exit_code == 0, result.output
        if "a checkpoint had to be made before a snapshot" in impatient.log.read_text():
            break
    else:
        raise AssertionError("no checkpoint overtook a snapshot")

    assert sum(received) < 2.5 * copy.stat().st_size
    assert impatient.stop() == 0
    whole = {span_id for (span_id,) in rows(impatient.database, "SELECT span_id FROM spans")}
    copied = [span_id for (span_id,) in rows(copy, "SELECT span_id FROM spans")]
    assert len(copied) == len(set(copied)) >= 40 * 512
    assert set(copied) <= whole
    # Every block of it can be read.
    assert contents(copy)["spans"]


def test_a_request_with_more_checksums_than_any_file_has_is_refused(
    tmp_path: Path, start_collector: Start
) -> None:
    collector = start_collector(tmp_path / "live.duckdb")
    kind = {"content-type": "application/octet-stream"}

    status, _, answer = ask(collector, "POST", "/snapshot", bytes(33 * 1024 * 1024), kind)

    assert (status, b"more checksums" in answer) == (413, True)


def test_there_is_one_snapshot_at_a_time_and_nobody_holds_it_for_ever(
    tmp_path: Path, start_collector: Start
) -> None:
    collector = start_collector(tmp_path / "live.duckdb", *UNTOUCHED)
    for _ in range(20):
        send(collector, 512)
    connection = http.client.HTTPConnection(collector.http, timeout=30)
    connection.request("GET", "/snapshot")
    response = connection.getresponse()
    response.read(1000)
    arguments = ["snapshot", tmp_path / "copy.duckdb", "--endpoint", collector.http]

    second = run(*arguments)
    response.close()
    connection.close()

    assert second.exit_code == 2
    assert "another one is being sent" in second.output
    for _ in range(100):
        if run(*arguments).exit_code == 0:
            return
        time.sleep(0.1)
    raise AssertionError("the first snapshot is still held")


def test_a_collector_that_ends_on_the_way_leaves_no_half_of_a_snapshot(
    tmp_path: Path, start_collector: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = start_collector(tmp_path / "live.duckdb", *UNTOUCHED)
    for _ in range(20):
        send(collector, 512)
    read = fetching._read

    def cut(response: object, size: int) -> bytes:
        found = read(response, size)
        collector.process.kill()
        return found

    monkeypatch.setattr("otelchain.cli.fetching._read", cut)
    (tmp_path / "copies").mkdir()

    result = run("snapshot", tmp_path / "copies" / "c.duckdb", "--endpoint", collector.http)

    assert result.exit_code == 2
    assert "does not answer" in result.output
    assert files(tmp_path / "copies") == []


def test_a_snapshot_needs_the_permission_to_ask_sql(tmp_path: Path, start_collector: Start) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("aaaaaaaaaaaaaaaaaaaa read\nbbbbbbbbbbbbbbbbbbbb sql\n")
    tokens.chmod(0o600)
    collector = start_collector(tmp_path / "t.duckdb", "--token-file", str(tokens))
    arguments = ["snapshot", tmp_path / "c.duckdb", "--endpoint", f"http://{collector.http}"]

    def with_token(token: str) -> Result:
        given = tmp_path / "token"
        given.write_text(token)
        return run(*arguments, "--token-file", given)

    refused, permitted = with_token("aaaaaaaaaaaaaaaaaaaa"), with_token("bbbbbbbbbbbbbbbbbbbb")

    assert (refused.exit_code, permitted.exit_code) == (2, 0)
    assert "needs the permission 'sql'" in refused.output
    assert (tmp_path / "c.duckdb").exists()


def killed_while_it_writes(file: Path, *arguments: str) -> Path:
    """Kill a command as soon as its draft of a file is there; return the draft."""
    command = [sys.executable, "-c", "from otelchain.cli import main; main()", *arguments]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    draft = file.with_name(f"{file.name}.draft-{process.pid}")
    while not draft.exists():
        assert process.poll() is None
        time.sleep(0.001)
    process.kill()
    process.wait()
    return draft


@pytest.mark.parametrize("command", ["compact", "snapshot", "export"])
def test_what_a_killed_command_left_is_removed_by_the_next_one(
    command: str, database: Path, tmp_path: Path
) -> None:
    Store.open(database).close()
    before = contents(database)
    copy = tmp_path / ("copy.jsonl" if command == "export" else "copy.duckdb")
    arguments = {
        "compact": ["compact", "--database", str(database)],
        "snapshot": ["snapshot", str(copy), "--database", str(database)],
        "export": ["export", "otlp-json", "-o", str(copy), "--database", str(database)],
    }[command]
    left = killed_while_it_writes(database if command == "compact" else copy, *arguments)
    assert left.exists()
    assert contents(database) == before
    if command == "compact":
        said = run("doctor", "--database", database).output
        assert f"{str(left)!r} was left by a command that was killed" in said

    result = run(*arguments)

    assert result.exit_code == 0, result.output
    assert files(tmp_path) == sorted(
        {"t.duckdb", copy.name} if command != "compact" else {"t.duckdb"}
    )
    assert contents(database) == before


def test_a_draft_of_a_process_that_runs_and_names_like_it_are_left_alone(database: Path) -> None:
    Store.open(database).close()
    others = [
        f"t.duckdb.draft-{os.getppid()}",
        "t.duckdb.draft-old",
        "t.duckdb.1",
        "t.duckdb-draft-1",
    ]
    for name in others:
        database.with_name(name).write_text("mine")

    assert run("compact", "--database", database).exit_code == 0

    assert files(database.parent) == sorted([*others, "t.duckdb"])


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("t.duckdb", "is a database that is in use"),
        ("absent/c.duckdb", "does not exist; create it"),
        ("with-log.duckdb", "would be taken for the log"),
    ],
)
def test_a_place_that_cannot_take_a_snapshot_is_named(
    file: str, expected: str, database: Path
) -> None:
    database.with_name("with-log.duckdb.wal").write_bytes(b"")

    result = run("snapshot", database.parent / file, "--database", database)

    assert result.exit_code == 2
    assert expected in result.output


def test_checksums_are_read_of_one_request_at_a_time(
    tmp_path: Path, start_collector: Start
) -> None:
    collector = start_collector(tmp_path / "live.duckdb", *UNTOUCHED)
    host, port = collector.http.rsplit(":", 1)
    head = b"POST /snapshot HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
    with (
        socket.create_connection((host, int(port)), timeout=30) as one,
        socket.create_connection((host, int(port)), timeout=30) as other,
    ):
        for sock in (one, other):
            sock.sendall(head + bytes(8))
        # Whichever comes second is answered although its body has not come.
        [refused], _, _ = select.select([one, other], [], [], 30)
        said = refused.recv(65_536)
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in said.lower()
        read = other if refused is one else one
        read.sendall(b"\0")
        assert read.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_no_more_checksums_are_kept_than_the_file_has_blocks() -> None:
    sent = [bytes([1]) * 20, bytes([2]) * 20, bytes([3]) * 20]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": sent.pop(0), "more_body": bool(sent)}

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)

    assert asyncio.run(_checksums(request, 24)) == bytes([1]) * 20 + bytes([2]) * 4
    assert not sent


def test_a_page_of_reindex_has_a_small_body(tmp_path: Path, start_collector: Start) -> None:
    collector = start_collector(tmp_path / "live.duckdb")
    kind = {"content-type": "application/json"}

    assert ask(collector, "POST", "/reindex", b" " * 1022 + b"{}", kind)[0] == 200
    assert ask(collector, "POST", "/reindex", b" " * 1023 + b"{}", kind)[0] == 413
