"""Trouble with the disk, the memory and DuckDB itself: retryable answers, and over when it is over.

Everything here happens to a collector process; nobody restarts it.
"""

import http.client
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from collector_process import RunningCollector
from otlp_requests import body, span, text

Start = Callable[..., RunningCollector]
# Redaction would take random text for secrets, and make it short.
UNTOUCHED = ("--redaction", "off")

QUESTION = json.dumps({"sql": "SELECT count(*) FROM spans"}).encode()
# Gathers 2 GB of text.
HUNGRY = json.dumps(
    {"sql": "SELECT string_agg(repeat(md5(i::varchar), 20), ',') FROM range(3000000) r(i)"}
).encode()

pytestmark = pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="takes Linux's prlimit to make trouble"
)


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> Path:
    return tmp_path / "traces.duckdb"


class Sender:
    """Sends spans and knows which were acknowledged."""

    def __init__(self, collector: RunningCollector) -> None:
        self.collector = collector
        self.acknowledged: set[str] = set()

    def send(self, count: int = 10, value: Callable[[], str] = lambda: "v") -> int:
        """Return the status of the answer."""
        spans = [span(attributes=[text("k", value())]) for _ in range(count)]
        status = ask(self.collector, "/v1/traces", body(*spans))[0]
        if status == 200:
            self.acknowledged.update(each.span_id.hex() for each in spans)
        return status

    def send_until_stored(self) -> None:
        for _ in range(200):
            if self.send() == 200:
                return
            time.sleep(0.1)
        raise AssertionError(f"still refused: {ask(self.collector, '/readyz')}")


def ask(collector: RunningCollector, path: str, data: bytes | None = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(collector.http, timeout=30)
    kind = "application/x-protobuf" if path.startswith("/v1") else "application/json"
    try:
        connection.request("GET" if data is None else "POST", path, data, {"content-type": kind})
        response = connection.getresponse()
        content = response.read()
        is_json = response.headers["content-type"] == "application/json"
        return response.status, json.loads(content) if is_json else content
    finally:
        connection.close()


def wait_for(collector: RunningCollector, is_there: Callable[[dict[str, Any]], bool]) -> None:
    for _ in range(300):
        status, readiness = ask(collector, "/readyz")
        if is_there({**readiness, "code": status}):
            return
        time.sleep(0.1)
    raise AssertionError(f"did not come: {readiness}")


def random_text() -> str:
    return os.urandom(20_000).hex()


def limit_file_size(collector: RunningCollector, size: int) -> None:
    _, hard = resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (size, hard))


def end(sender: Sender) -> None:
    """Stop the collector and look for everything that it acknowledged, once."""
    assert sender.collector.stop() == 0
    with duckdb.connect(str(sender.collector.database), read_only=True) as connection:
        rows = connection.execute("SELECT span_id FROM spans").fetchall()
    stored = [span_id for (span_id,) in rows]
    assert len(stored) == len(set(stored))
    assert sender.acknowledged <= set(stored)


@pytest.mark.failure("out-of-memory")
def test_a_fatal_error_of_duckdb_needs_no_restart(start_collector: Start, database: Path) -> None:
    collector = start_collector(database, *UNTOUCHED)
    sender = Sender(collector)
    # More than an idle collector leaves in its log, so that it makes a checkpoint.
    for _ in range(5):
        assert sender.send(100, random_text) == 200
    limit_file_size(collector, 1024 * 1024)
    wait_for(collector, lambda readiness: readiness["database_reopened"] > 0)
    assert "FATAL Error" in collector.log.read_text()

    assert sender.send() == 503
    assert ask(collector, "/sql", QUESTION)[0] in {200, 503}
    assert ask(collector, "/metrics")[0] == 200

    limit_file_size(collector, resource.RLIM_INFINITY)
    wait_for(collector, lambda readiness: readiness["code"] == 200)
    assert sender.send() == 200
    assert ask(collector, "/sql", QUESTION)[1]["rows"] == [[len(sender.acknowledged)]]
    end(sender)


@pytest.mark.failure("out-of-memory", "hungry-reads")
def test_questions_that_take_all_memory_cost_no_span(
    start_collector: Start, database: Path
) -> None:
    # So little that also checkpoints fail, which DuckDB does not get over by itself.
    collector = start_collector(database, *UNTOUCHED, "--memory-limit-bytes", "64MiB")
    sender = Sender(collector)
    sender.send_until_stored()
    stop = threading.Event()
    answers = []

    def be_hungry() -> None:
        while not stop.is_set():
            answers.append(ask(collector, "/sql", HUNGRY)[0])

    threads = [threading.Thread(target=be_hungry) for _ in range(4)]
    for thread in threads:
        thread.start()
    statuses = [sender.send(200, random_text) for _ in range(4)]
    stop.set()
    for thread in threads:
        thread.join()

    assert set(statuses) <= {200, 503}
    assert set(answers) <= {400, 503}
    sender.send_until_stored()
    wait_for(collector, lambda readiness: readiness["code"] == 200)
    end(sender)


@pytest.fixture(name="small_disk")
def _small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 12 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "otelchain-test", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_costs_no_acknowledged_span_and_nobody_restarts_it(
    start_collector: Start, small_disk: Path
) -> None:
    collector = start_collector(small_disk / "traces.duckdb", *UNTOUCHED)
    sender = Sender(collector)
    sender.send_until_stored()
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(4 * 1024 * 1024))
    while sender.send(20, random_text) == 200:
        pass

    statuses = {sender.send(20, random_text) for _ in range(3)}
    wait_for(collector, lambda readiness: readiness["code"] == 503)
    assert statuses == {503}
    assert ask(collector, "/sql", QUESTION)[0] in {200, 503}

    ballast.unlink()
    sender.send_until_stored()
    wait_for(collector, lambda readiness: readiness["code"] == 200)
    assert sender.send(20, random_text) == 200
    end(sender)


@pytest.fixture(name="freeze")
def _freeze(tmp_path: Path) -> Iterator[Callable[[bool], None]]:
    """Let no file be made or removed in a folder, for root neither."""

    def set_frozen(frozen: bool) -> None:
        sign = "+i" if frozen else "-i"
        change = ["chattr", sign, str(tmp_path)]
        if subprocess.run(change, capture_output=True, check=False).returncode:
            pytest.skip("needs chattr, and a file system that knows it")

    yield set_frozen
    subprocess.run(["chattr", "-i", str(tmp_path)], capture_output=True, check=False)


def test_a_folder_that_becomes_read_only_costs_no_span(
    start_collector: Start, database: Path, freeze: Callable[[bool], None]
) -> None:
    collector = start_collector(database, *UNTOUCHED)
    sender = Sender(collector)
    for _ in range(5):
        assert sender.send(100, random_text) == 200
    freeze(True)
    # An idle collector with so much in its log makes a checkpoint, which needs a new log.
    time.sleep(2.5)
    statuses = {sender.send(20, random_text) for _ in range(3)}

    freeze(False)

    assert statuses <= {200, 503}
    sender.send_until_stored()
    wait_for(collector, lambda readiness: readiness["code"] == 200)
    end(sender)


def test_a_collector_that_cannot_write_its_folder_says_so(
    start_collector: Start, database: Path, freeze: Callable[[bool], None]
) -> None:
    freeze(True)

    ended = subprocess.run(
        [
            *(sys.executable, "-m", "otelchain_collector", "--database", str(database)),
            *("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (2, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"Error: cannot open {database}: ")
