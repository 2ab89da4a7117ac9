"""The collector as a process: what survives a kill, how it drains, why it cannot start."""

import http.client
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import grpc
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from collector_process import RunningCollector, hold
from otelchain_collector import discovery
from otelchain_collector.schema import LATEST_VERSION
from otlp_requests import START, body, span, text

Start = Callable[..., RunningCollector]
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> Path:
    return tmp_path / "traces.duckdb"


def post(address: str, data: bytes) -> int:
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request("POST", "/v1/traces", data, {"Content-Type": "application/x-protobuf"})
        return connection.getresponse().status
    finally:
        connection.close()


def export(address: str, data: bytes) -> None:
    with grpc.insecure_channel(address) as channel:
        channel.unary_unary(METHOD)(data, timeout=30)


def ready(collector: RunningCollector) -> tuple[int, str]:
    """Return the code of /readyz and its status up to the reason."""
    connection = http.client.HTTPConnection(collector.http, timeout=30)
    connection.request("GET", "/readyz")
    response = connection.getresponse()
    status = json.load(response)["status"]
    connection.close()
    return response.status, status.split(":")[0]


def stored_ids(database: Path) -> list[str]:
    with duckdb.connect(str(database), read_only=True) as connection:
        rows = connection.execute("SELECT span_id FROM spans").fetchall()
    return [span_id for (span_id,) in rows]


def refusal(*arguments: str) -> str:
    """Run a collector that cannot start; return its one line."""
    ended = subprocess.run(
        [sys.executable, "-m", "otelchain_collector", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    line, rest = ended.stderr.split("\n", 1)
    assert rest == ""
    return line


def ports_free(database: Path) -> list[str]:
    return ["--database", str(database), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]


@pytest.mark.failure("acknowledged-then-dropped", "queue-without-bound")
@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_nothing_acknowledged_is_missing_after_a_kill(
    transport: str, start_collector: Start, database: Path
) -> None:
    collector = start_collector(database)
    acknowledged: list[str] = []
    enough = threading.Event()

    def send() -> None:
        while True:
            spans = [span() for _ in range(20)]
            try:
                if transport == "grpc":
                    export(collector.grpc, body(*spans))
                else:
                    assert post(collector.http, body(*spans)) == 200
            except (OSError, http.client.HTTPException, grpc.RpcError):
                return
            acknowledged.extend(each.span_id.hex() for each in spans)
            if len(acknowledged) > 600:
                enough.set()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert enough.wait(60)
    collector.kill()
    for thread in threads:
        thread.join()

    stored = stored_ids(database)
    assert set(acknowledged) <= set(stored)
    assert len(stored) == len(set(stored))


@pytest.mark.failure("timeout-duplicates")
def test_a_request_that_is_sent_again_after_a_kill_is_stored_once(
    start_collector: Start, database: Path
) -> None:
    data = body(*(span() for _ in range(50)))
    collector = start_collector(database)
    assert post(collector.http, data) == 200
    collector.kill()
    collector = start_collector(database)

    assert post(collector.http, data) == 200
    export(collector.grpc, data)
    assert collector.stop() == 0

    assert len(stored_ids(database)) == 50


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux's prlimit")
def test_a_full_disk_is_answered_503_and_forgotten_when_there_is_room_again(
    start_collector: Start, database: Path
) -> None:
    collector = start_collector(database)
    assert post(collector.http, body(span())) == 200
    room = database.with_name("traces.duckdb.wal").stat().st_size
    data = body(*(span(attributes=[text("k", "v" * 1_000)]) for _ in range(100)))
    _, hard = resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (room + 100, hard))

    assert [post(collector.http, data), post(collector.http, data)] == [503, 503]
    assert ready(collector) == (503, "last commit failed")

    resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    assert post(collector.http, data) == 200
    assert ready(collector) == (200, "ready")
    assert collector.stop() == 0
    assert len(stored_ids(database)) == 101


@pytest.mark.failure("acknowledged-then-dropped")
def test_sigterm_finishes_open_requests_and_leaves_one_file(
    start_collector: Start, database: Path
) -> None:
    collector = start_collector(database)
    sent = span()
    data = body(sent)
    host, port = collector.http.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n" % len(data)
        )
        connection.sendall(data[:-1])
        time.sleep(0.2)  # Let the collector read it, so that the request is open.
        collector.process.terminate()
        time.sleep(0.2)
        connection.sendall(data[-1:])
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")

    assert collector.stop() == 0
    assert stored_ids(database) == [sent.span_id.hex()]
    assert sorted(path.name for path in database.parent.glob("traces*")) == ["traces.duckdb"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_code_0_even_with_clients_that_hang(
    number: signal.Signals, start_collector: Start, database: Path
) -> None:
    collector = start_collector(database)
    assert post(collector.http, body(span())) == 200
    with hold(collector, 1_000), grpc.insecure_channel(collector.grpc) as idle:
        grpc.channel_ready_future(idle).result(30)

        collector.process.send_signal(number)

        # An SDK retries for 7 s: a restart has to fit.
        assert collector.process.wait(timeout=7) == 0
    assert "Traceback" not in collector.log.read_text()


def test_a_question_that_runs_does_not_hold_up_the_end(
    start_collector: Start, database: Path
) -> None:
    collector = start_collector(database)
    endless = {"sql": "SELECT sum(a.range & b.range) FROM range(100000000) a, range(1000000) b"}
    connection = http.client.HTTPConnection(collector.http, timeout=30)
    answers: list[str] = []

    def question() -> None:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/sql", json.dumps(endless), headers)
        answers.append(connection.getresponse().read().decode())

    thread = threading.Thread(target=question)
    thread.start()
    time.sleep(0.5)

    assert collector.stop() == 0
    thread.join()
    connection.close()
    assert answers == ['{"error":"the collector is stopping; ask again in a second"}']


def test_an_exporter_loses_nothing_in_a_restart(start_collector: Start, database: Path) -> None:
    collector = start_collector(database)
    address = collector.http
    provider = TracerProvider(shutdown_on_exit=False)
    exporter = OTLPSpanExporter(f"http://{address}/v1/traces")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("restart")
    tracer.start_span("before").end()
    assert collector.stop() == 0

    sending = threading.Thread(target=lambda: tracer.start_span("during").end())
    sending.start()
    collector = start_collector(database, "--http", address)
    sending.join()
    provider.shutdown()
    collector.stop()

    with duckdb.connect(str(database), read_only=True) as connection:
        names = connection.execute("SELECT name FROM spans ORDER BY name").fetchall()
    assert names == [("before",), ("during",)]


def test_it_says_where_it_answers_while_it_runs(start_collector: Start, database: Path) -> None:
    collector = start_collector(database)

    found = discovery.read(database)

    assert found is not None
    assert (found.pid, found.http, found.grpc) == (
        collector.process.pid,
        collector.http,
        collector.grpc,
    )
    collector.stop()
    assert not discovery.discovery_path(database).exists()


def test_a_killed_collector_is_not_taken_for_a_running_one(
    start_collector: Start, database: Path
) -> None:
    start_collector(database).kill()

    assert discovery.discovery_path(database).exists()
    assert discovery.read(database) is None


@pytest.mark.parametrize(
    "content",
    [
        *("", "{}", "[1]", '{"pid": "x"}', "\ud800"),
        '{"pid": 1, "http": "[", "grpc": "127.0.0.1:4317", "version": "0"}',
        '{"pid": 1, "http": "127.0.0.1:4318", "grpc": "127.0.0.1:x", "version": "0"}',
    ],
)
def test_a_damaged_discovery_file_means_no_collector(content: str, database: Path) -> None:
    path = discovery.discovery_path(database)
    path.write_bytes(content.encode(errors="surrogatepass"))

    assert discovery.read(database) is None


@pytest.mark.skipif(os.name != "posix", reason="files have no owner to compare there")
def test_a_discovery_file_of_another_user_leads_nobody_away(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    discovery.write(database, discovery.Discovery(os.getpid(), "127.0.0.1:1", "127.0.0.1:2", "0"))
    real = os.fstat
    monkeypatch.setattr(os, "fstat", lambda file: _owned(real(file), os.getuid() + 1))

    assert discovery.read(database) is None


def _owned(found: os.stat_result, owner: int) -> os.stat_result:
    fields = list(found)
    fields[stat.ST_UID] = owner
    return os.stat_result(fields)


def test_the_discovery_file_of_another_collector_is_not_removed(database: Path) -> None:
    other = discovery.Discovery(os.getppid(), "127.0.0.1:1", "127.0.0.1:2", "0")
    discovery.write(database, other)

    discovery.remove(database)

    assert discovery.read(database) == other


@pytest.mark.parametrize("option", ["--http", "--grpc"])
def test_a_port_in_use_is_named_with_what_to_do(option: str, database: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        line = refusal(*ports_free(database), option, f"127.0.0.1:{port}")

    assert line == (
        f"Error: port {port} of 127.0.0.1 is in use, perhaps by another collector; stop the "
        f"program that uses it or choose another port with {option}"
    )
    assert not database.exists()


@pytest.mark.parametrize("option", ["--http", "--grpc"])
def test_two_collectors_cannot_share_a_port(
    option: str, start_collector: Start, database: Path
) -> None:
    first = start_collector(database)
    address = first.http if option == "--http" else first.grpc

    line = refusal(*ports_free(database.with_name("second.duckdb")), option, address)

    assert "is in use" in line


@pytest.mark.failure("locked-file")
def test_a_database_that_a_collector_holds_is_named_with_its_pid(
    start_collector: Start, database: Path
) -> None:
    collector = start_collector(database)

    assert refusal(*ports_free(database)) == (
        f"Error: {database} is in use by the collector with PID {collector.process.pid}, which "
        f"answers on http://{collector.http}; stop it or name another --database"
    )


READ = """
import sys, time, duckdb
with duckdb.connect(sys.argv[1], read_only=True):
    print("reading", flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.fixture(name="reader")
def _reader(database: Path) -> Iterator[Callable[[float], "subprocess.Popen[str]"]]:
    """Start a process that has the database open for so many seconds."""
    started: list[subprocess.Popen[str]] = []

    def read(seconds: float) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", READ, str(database), str(seconds)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout is not None
        assert started[-1].stdout.readline() == "reading\n"
        return started[-1]

    yield read
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.failure("locked-file")
def test_a_collector_waits_for_a_reader_that_finishes_soon(
    start_collector: Start,
    database: Path,
    tmp_path: Path,
    reader: Callable[[float], "subprocess.Popen[str]"],
) -> None:
    start_collector(database).stop()
    process = reader(60.0)
    waits = f"waiting for process {process.pid} ("
    log = tmp_path / "collector-1.log"

    def finish_soon() -> None:
        while not (log.exists() and waits in log.read_text()):
            time.sleep(0.01)
        process.kill()

    with ThreadPoolExecutor(1) as thread:
        finishing = thread.submit(finish_soon)
        collector = start_collector(database)
        finishing.result(10)

    assert waits in collector.log.read_text()
    assert post(collector.http, body(span())) == 200


@pytest.mark.failure("locked-file")
def test_a_reader_that_stays_is_named_with_its_pid(
    start_collector: Start, database: Path, reader: Callable[[float], "subprocess.Popen[str]"]
) -> None:
    start_collector(database).stop()
    process = reader(60.0)

    ended = subprocess.run(
        [sys.executable, "-m", "otelchain_collector", *ports_free(database)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (2, "")
    waiting, refused = ended.stderr.splitlines()
    assert f"waiting for process {process.pid} (" in waiting
    assert refused.startswith(f"Error: {database} is locked by process {process.pid} (")
    assert refused.endswith("; end that process or name another --database")


def test_a_database_of_a_newer_otelchain_is_refused(start_collector: Start, database: Path) -> None:
    start_collector(database).stop()
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            "INSERT INTO schema_migrations VALUES (?, 'future', ?)", [LATEST_VERSION + 1, START]
        )

    line = refusal(*ports_free(database))

    assert f"schema version {LATEST_VERSION + 1}" in line
    assert f"up to {LATEST_VERSION}" in line


def test_a_file_that_is_no_database_is_refused(database: Path) -> None:
    database.write_text("no database\n" * 500)

    assert refusal(*ports_free(database)) == (
        f"Error: {database} is not a DuckDB database; name another --database or move it away"
    )


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    line = refusal(*ports_free(tmp_path / "absent" / "traces.duckdb"))

    assert f"the folder {tmp_path / 'absent'} does not exist" in line


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--http", "0.0.0.0:0"], "--http 0.0.0.0:0 can be reached from other machines"),
        (["--grpc", "[::]:0"], "--grpc [::]:0 can be reached from other machines"),
        (["--grpc", "example.org:0"], "--grpc example.org:0 can be reached from other machines"),
        (["--http", "4318"], "--http must be HOST:PORT, such as 127.0.0.1:4317, not '4318'"),
        (["--http", "::1:4318"], "--http must be HOST:PORT"),
        (["--http", "127.0.0.1:70000"], "--http must be HOST:PORT"),
        (
            ["--max-request-bytes", "2GiB", "--queue-bytes", "4GiB"],
            "--max-request-bytes 2147483648 is more than an OTLP message can have",
        ),
        (["--queue-bytes", "64MiB"], "--queue-bytes 67108864 cannot hold a request"),
    ],
)
def test_settings_that_cannot_be_used_are_named(
    arguments: list[str], expected: str, database: Path
) -> None:
    assert f"Error: {expected}" in refusal(*ports_free(database), *arguments)
    assert not database.exists()


def test_another_address_is_possible_when_asked_for(start_collector: Start, database: Path) -> None:
    collector = start_collector(
        database, "--http", "0.0.0.0:0", "--grpc", "localhost:0", "--allow-remote"
    )

    port = collector.http.rsplit(":", 1)[1]
    assert collector.http.startswith("0.0.0.0:")
    assert collector.grpc.startswith("localhost:")
    assert post(f"127.0.0.1:{port}", body(span())) == 200
    export(collector.grpc, body(span()))


def test_variables_set_what_options_do_not(
    start_collector: Start, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTELCHAIN_COLLECTOR_MAX_REQUEST_BYTES", "1KiB")
    collector = start_collector(database)

    assert post(collector.http, bytes(1_025)) == 413


def test_the_ready_line_comes_from_variables_too(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables: dict[str, Any] = {
        "OTELCHAIN_DATABASE": str(database),
        "OTELCHAIN_COLLECTOR_GRPC": "127.0.0.1:0",
        "OTELCHAIN_COLLECTOR_HTTP": "[::1]:0",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    process = subprocess.Popen(
        [sys.executable, "-m", "otelchain_collector"], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()

    assert line.startswith(f"otelchain collector ready: database={database} grpc=127.0.0.1:")
    assert " http=[::1]:" in line
