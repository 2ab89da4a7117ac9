"""otelchain tail: every run that arrives, once, from a file and from a collector, until Ctrl-C."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import otelchain_queries
from collector_process import RunningCollector
from otelchain.reading.arrivals import Arrivals
from otelchain.reading.file_source import FileSource
from otelchain.reading.following import Following
from otelchain.reading.place import Place
from otelchain.reading.source import Source, SourceError
from otlp_requests import body, span
from stored_runs import START_UNIX_NANO, add_runs, make_store, run
from terminal import STYLES, on_terminal

SECOND_NANO = 10**9


@pytest.fixture(name="tail")
def _tail() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start the command with its output in pipes; it ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        code = "from otelchain.cli import main; main()"
        command = [sys.executable, "-c", code, "tail", "--interval", "0.05", *arguments]
        started.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def send(collector: RunningCollector, *names: str) -> None:
    request = urllib.request.Request(
        f"http://{collector.http}/v1/traces",
        body(*(span(name=name) for name in names)),
        {"content-type": "application/x-protobuf"},
    )
    urllib.request.urlopen(request, timeout=30).close()


def names(process: "subprocess.Popen[str]", count: int) -> list[str]:
    assert process.stdout is not None
    return [json.loads(process.stdout.readline())["name"] for _ in range(count)]


def test_it_follows_a_collector_over_a_restart_and_ends_on_ctrl_c(
    tmp_path: Path,
    start_collector: Callable[..., RunningCollector],
    tail: Callable[..., "subprocess.Popen[str]"],
) -> None:
    database = tmp_path / "traces.duckdb"
    collector = start_collector(database)
    send(collector, "old", "older")
    process = tail("--database", str(database), "--format", "jsonl", "--lines", "1")
    first = names(process, 1)

    send(collector, "new-1", "new-2")
    second = names(process, 2)
    collector.stop()
    send(start_collector(database), "after the restart")
    third = names(process, 1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)

    assert first[0] in {"old", "older"}
    assert sorted(second) == ["new-1", "new-2"]
    assert third == ["after the restart"]
    assert (out, process.returncode) == ("", 0)
    assert "Traceback" not in err


def test_it_follows_a_file_that_no_collector_has_open(
    tmp_path: Path, tail: Callable[..., "subprocess.Popen[str]"]
) -> None:
    database = make_store(tmp_path / "x.duckdb", [run(1, None, "first", "chain")])
    process = tail("--database", str(database), "--format", "jsonl")
    assert names(process, 1) == ["first"]

    # Nothing has changed, so that the command does not have it open.
    second = run(2, 1, "second", "tool", received_time_unix_nano=START_UNIX_NANO + 1)
    add_runs(database, [second])

    assert names(process, 1) == ["second"]


def test_a_line_says_when_how_and_what(tmp_path: Path) -> None:
    failed = run(
        *(2, 1, "look\x1b[2Jup" + "検" * 60, "tool"), status="error", error_type="TimeoutError"
    )
    database = str(make_store(tmp_path / "x.duckdb", [failed]))

    shown = on_terminal(70, "tail", "--database", database, interrupt_after="[2Jup")

    line = STYLES.sub("", shown).splitlines()[0]
    assert line.split()[:5] == ["23:04:54.123Z", "error", "1.00", "s", "4bf92f35"]
    assert "look\\x1b[2Jup" in line
    assert "Traceback" not in shown


def test_a_reader_that_leaves_ends_it(
    tmp_path: Path, tail: Callable[..., "subprocess.Popen[str]"]
) -> None:
    database = make_store(
        tmp_path / "x.duckdb", [run(n, None, "x" * 2000, "chain") for n in range(1, 200)]
    )
    process = tail("--database", str(database), "--lines", "200")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()

    assert process.wait(timeout=30) == 141
    assert process.stderr is not None
    assert process.stderr.read() == ""


def test_a_file_is_asked_again_only_when_it_has_changed_or_could_not_be_read(
    tmp_path: Path,
) -> None:
    def ask(source: Source) -> int:
        source.query(otelchain_queries.load("arrivals"), {})
        return 1

    path = make_store(tmp_path / "x.duckdb", [run(1, None, "a", "chain")])
    following = Following(Place(path))
    first = [following.ask(ask), following.ask(ask), following.ask(ask, unchanged=True)]

    add_runs(path, [run(2, None, "b", "chain")])
    # As when another process has it open: the file has changed, and cannot be read yet.
    with pytest.raises(SourceError):
        following.ask(_refuse)
    second = [following.ask(ask), following.ask(ask)]

    assert (first, second) == ([1, None, 1], [1, None])


def _refuse(_: Source) -> int:
    raise SourceError("locked")


class Stream:
    """Runs with the seconds at which they were received."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def arrive(self, name: str, received_seconds: float, status: str = "ok") -> None:
        self.rows.append(
            {"name": name, "at": int(received_seconds * SECOND_NANO), "status": status}
        )

    def store(self, path: Path) -> FileSource:
        runs = [
            run(
                *(number, None, row["name"], "chain"),
                status=row["status"],
                received_time_unix_nano=START_UNIX_NANO + row["at"],
            )
            for number, row in enumerate(self.rows, start=1)
        ]
        path.unlink(missing_ok=True)
        return FileSource(make_store(path, runs))


def arrivals(filters: Mapping[str, str] | None = None) -> Arrivals:
    return Arrivals(otelchain_queries.load("arrivals"), filters or {})


def told(found: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in found]


def test_the_newest_of_one_request_come_in_the_order_in_which_it_goes_on(tmp_path: Path) -> None:
    stream, path = Stream(), tmp_path / "x.duckdb"
    for name in "abcd":
        stream.arrive(name, 100)
    source = stream.store(path)

    # All that is told apart is the span id, since they started together.
    assert told(arrivals().new(source)) == ["a", "b", "c", "d"]
    assert told(arrivals().newest(source, 10)) == ["a", "b", "c", "d"]
    assert told(arrivals().newest(source, 2)) == ["c", "d"]


def test_every_run_is_told_once_also_one_that_overtook_another(tmp_path: Path) -> None:
    stream, cursor, path = Stream(), arrivals(), tmp_path / "x.duckdb"
    stream.arrive("a", 100)
    stream.arrive("b", 101)
    assert told(cursor.newest(stream.store(path), 10)) == ["a", "b"]
    assert told(cursor.new(stream.store(path))) == []

    stream.arrive("c", 104)
    assert told(cursor.new(stream.store(path))) == ["c"]
    # Received before c, stored after it; and one with the very time of c.
    stream.arrive("d", 103.5)
    stream.arrive("e", 104)
    assert told(cursor.new(stream.store(path))) == ["d", "e"]
    assert told(cursor.new(stream.store(path))) == []
    assert not cursor.behind


def test_only_the_newest_are_told_at_first_and_the_others_never(tmp_path: Path) -> None:
    stream, cursor, path = Stream(), arrivals(), tmp_path / "x.duckdb"
    for number in range(20):
        stream.arrive(f"run-{number:02}", 100 + number / 10)

    assert told(cursor.newest(stream.store(path), 2)) == ["run-18", "run-19"]
    assert told(cursor.new(stream.store(path))) == []
    stream.arrive("last", 110)
    assert told(cursor.new(stream.store(path))) == ["last"]


def test_what_does_not_match_is_passed_over(tmp_path: Path) -> None:
    stream, path = Stream(), tmp_path / "x.duckdb"
    cursor = arrivals({"status": "error"})
    stream.arrive("good", 100)
    assert told(cursor.newest(stream.store(path), 10)) == []
    stream.arrive("bad", 101, "error")
    stream.arrive("good too", 102)

    assert told(cursor.new(stream.store(path))) == ["bad"]


def test_more_than_an_answer_takes_comes_in_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain.reading.arrivals._PAGE_ROWS", 3)
    stream, cursor, path = Stream(), arrivals(), tmp_path / "x.duckdb"
    assert told(cursor.newest(stream.store(path), 10)) == []
    # Seven in one request, which all have one time, and then some.
    for number in range(7):
        stream.arrive(f"at once {number}", 100)
    for number in range(4):
        stream.arrive(f"then {number}", 101 + number)

    source, found = stream.store(path), []
    for _ in range(10):
        found += told(cursor.new(source))
        if not cursor.behind:
            break

    assert sorted(found) == sorted(row["name"] for row in stream.rows)


def test_a_pending_run_is_told_again_when_it_has_ended(tmp_path: Path) -> None:
    cursor, path = arrivals(), tmp_path / "x.duckdb"
    started = {"status": "pending", "received_time_unix_nano": START_UNIX_NANO}
    source = FileSource(make_store(path, [run(1, None, "a", "chain", **started)]))
    before = cursor.newest(source, 10) + cursor.new(source)

    add_runs(path, [run(1, None, "a", "chain", received_time_unix_nano=START_UNIX_NANO + 1)])

    assert [(row["status"], row["duration_ms"]) for row in before] == [("pending", None)]
    assert [row["status"] for row in cursor.new(source)] == ["ok"]
    assert cursor.new(source) == []
