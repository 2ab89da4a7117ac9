"""The spool: what survives an outage of the collector, a killed process, a full disk."""

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import duckdb
import pytest
from opentelemetry import context
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otelchain.provider
from collector_process import RunningCollector
from otelchain import ConfigurationError, configure
from otelchain.spool import outage, replay, sender
from otelchain.spool.exporter import SpoolingExporter
from otelchain.spool.files import Spool

Start = Callable[..., RunningCollector]
MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otelchain.provider, "_configured", None)
    monkeypatch.setattr(outage, "_LONGEST_PAUSE_SECONDS", 0.5)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> Path:
    return tmp_path / "traces.duckdb"


@pytest.fixture(name="configured")
def _configured(root: Path) -> Iterator[Callable[..., TracerProvider]]:
    """Call configure() with the spool; shut the providers down after the test."""
    made = []

    def call(endpoint: str, **arguments: Any) -> TracerProvider:
        made.append(configure(endpoint=endpoint, set_global=False, spool=root, **arguments))
        return made[-1]

    yield call
    for provider in made:
        provider.shutdown()


def exporter_of(provider: TracerProvider) -> SpoolingExporter:
    processor: Any
    (processor,) = provider._active_span_processor._span_processors
    batches = getattr(processor, "_batch_processor", None)  # since SDK 1.33
    exporter = batches._exporter if batches else processor.span_exporter
    assert isinstance(exporter, SpoolingExporter)
    return exporter


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def emit(provider: TracerProvider, *names: str) -> None:
    """End these spans, each in a batch of its own."""
    tracer = provider.get_tracer("tests")
    for name in names:
        tracer.start_span(name).end()
        assert provider.force_flush()


def batches(root: Path) -> list[Path]:
    """Return the waiting files, oldest first."""
    return sorted(root.glob("*/*.otlp"), key=lambda path: path.name)


def stored_names(collector: RunningCollector) -> list[str]:
    """Stop a collector and return the names of its spans in the order of arrival."""
    assert collector.stop() == 0
    with duckdb.connect(str(collector.database), read_only=True) as connection:
        rows = connection.execute("SELECT name FROM spans ORDER BY rowid").fetchall()
    return [name for (name,) in rows]


APPLICATION = """
import os, sys
from otelchain import configure
endpoint, spool, *names = sys.argv[1:]
provider = configure("app", endpoint, spool=spool)
def emit(*names):
    for name in names:
        provider.get_tracer("tests").start_span(name).end()
        assert provider.force_flush()
emit(*names)
print("emitted", flush=True)
"""


def start_application(
    endpoint: str, root: Path, *names: str, after: str = "sys.stdin.read()"
) -> "subprocess.Popen[str]":
    """Start a process that has emitted these spans when this returns."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", APPLICATION + after, endpoint, str(root), *names],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "emitted\n"
    return process


def end(process: "subprocess.Popen[str]", number: int | None = None) -> None:
    """Kill a process with a signal, or let it come to its end."""
    if number is not None:
        process.send_signal(number)
    process.communicate(timeout=60)


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen within a minute")


class Server:
    """A receiver whose answers the test decides on."""

    def __init__(self) -> None:
        self.address = ""
        self.answer: Callable[[list[str]], int] = lambda names: 200
        self.received: list[list[str]] = []

    def accepted(self) -> list[str]:
        return [name for names in self.received for name in names]


@pytest.fixture(name="server")
def _server() -> Iterator[Server]:
    server = Server()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = ExportTraceServiceRequest.FromString(
                self.rfile.read(int(self.headers["Content-Length"]))
            )
            names = [
                span.name
                for group in request.resource_spans
                for scoped in group.scope_spans
                for span in scoped.spans
            ]
            code = server.answer(names)
            if code == 200:
                server.received.append(names)
            self.send_response(code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    server.address = f"http://127.0.0.1:{http.server_port}"
    yield server
    http.shutdown()
    http.server_close()


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_an_outage_longer_than_the_exporter_waits_loses_nothing_and_keeps_the_order(
    protocol: str, configured: Any, root: Path, database: Path, start_collector: Start
) -> None:
    port = free_port()
    provider = configured(f"http://127.0.0.1:{port}", protocol=protocol)
    names = [f"step {number}" for number in range(20)]
    emit(provider, *names)
    # The exporter has given up twice: a batch in memory, then its file.
    wait_until(lambda: exporter_of(provider)._sender._outage._failures >= 2)
    assert len(batches(root)) == 20

    option = "--grpc" if protocol == "grpc" else "--http"
    collector = start_collector(database, option, f"127.0.0.1:{port}")
    emit(provider, "after the outage")
    assert exporter_of(provider).force_flush(60_000)

    assert batches(root) == []
    assert stored_names(collector) == [*names, "after the outage"]


def test_without_an_outage_nothing_is_written_and_nothing_is_left(
    configured: Any, root: Path, database: Path, start_collector: Start
) -> None:
    collector = start_collector(database)
    provider = configured(f"http://{collector.http}")
    emit(provider, "one", "two")
    assert exporter_of(provider).force_flush()
    assert [path.name for path in root.glob("*/*")] == ["lock"]
    provider.shutdown()

    assert list(root.iterdir()) == []
    assert stored_names(collector) == ["one", "two"]


def test_what_a_killed_process_left_is_sent_by_the_next_one(
    configured: Any, root: Path, database: Path, start_collector: Start
) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    end(start_application(nowhere, root, "one", "two"), signal.SIGKILL)
    end(start_application(nowhere, root, "three"), signal.SIGKILL)
    (left,) = [path.parent for path in batches(root) if path == batches(root)[0]]
    (left / "00000000000000000001-1.tmp").write_bytes(b"not finished")

    collector = start_collector(database)
    configured(f"http://{collector.http}").shutdown()

    assert stored_names(collector) == ["one", "two", "three"]
    assert list(root.iterdir()) == []


def test_a_process_that_ends_in_an_outage_leaves_its_spans_to_the_next_one(
    configured: Any, root: Path, database: Path, start_collector: Start
) -> None:
    script = "provider.get_tracer('tests').start_span('at exit').end()"
    end(start_application(f"http://127.0.0.1:{free_port()}", root, "one", after=script))
    assert len(batches(root)) == 2

    collector = start_collector(database)
    configured(f"http://{collector.http}").shutdown()

    assert stored_names(collector) == ["one", "at exit"]


def test_a_process_takes_over_from_one_that_dies_beside_it(
    configured: Any,
    root: Path,
    database: Path,
    start_collector: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sender, "_ADOPT_SECONDS", 0.01)
    collector = start_collector(database)
    other = start_application(f"http://127.0.0.1:{free_port()}", root, "other")
    (waiting,) = batches(root)
    provider = configured(f"http://{collector.http}")
    emit(provider, "here")
    assert exporter_of(provider).force_flush()
    assert waiting.exists()  # the other process lives

    end(other, signal.SIGKILL)
    wait_until(lambda: not waiting.exists())
    assert stored_names(collector) == ["here", "other"]


def test_a_forked_child_has_a_spool_of_its_own(
    configured: Any, root: Path, database: Path, start_collector: Start
) -> None:
    script = """
if os.fork() == 0:
    emit("child")
    os.kill(os.getpid(), 9)
os.wait()
emit("parent again")
os.kill(os.getpid(), 9)
"""
    end(start_application(f"http://127.0.0.1:{free_port()}", root, "parent", after=script))
    assert len({path.parent for path in batches(root)}) == 2

    collector = start_collector(database)
    configured(f"http://{collector.http}").shutdown()

    assert stored_names(collector) == ["parent", "child", "parent again"]


def test_a_forked_child_does_not_hold_what_its_parent_left(
    configured: Any, root: Path, server: Server
) -> None:
    script = """
started, start = os.pipe()
child = os.fork()
if child == 0:
    os.write(start, b"x")
    sys.stdin.read()
os.read(started, 1)
print(child, flush=True)
os.kill(os.getpid(), 9)
"""
    with start_application(f"http://127.0.0.1:{free_port()}", root, "parent", after=script) as dead:
        assert dead.stdout is not None
        child = int(dead.stdout.readline())
        dead.wait(60)
        try:
            configured(server.address).shutdown()
        finally:
            os.kill(child, signal.SIGKILL)

    assert server.accepted() == ["parent"]


def test_a_full_spool_drops_the_oldest_spans_and_says_so_once(
    configured: Any,
    root: Path,
    database: Path,
    start_collector: Start,
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    provider = configured(f"http://127.0.0.1:{port}", spool_max_bytes=10_000)
    tracer = provider.get_tracer("tests")
    for number in range(20):
        tracer.start_span(f"{number:02d}", attributes={"text": "x" * 2_000}).end()
        assert provider.force_flush()
        assert sum(path.stat().st_size for path in batches(root)) <= 10_000
    # 2,000 bytes and a few hundred around them: four fit.
    assert len(batches(root)) == 4

    collector = start_collector(database, "--http", f"127.0.0.1:{port}")
    assert exporter_of(provider).force_flush(60_000)
    wait_until(lambda: "dropped from the full spool" in caplog.text)

    names = stored_names(collector)
    assert names[-3:] == ["17", "18", "19"]
    assert len(names) in (4, 5)  # The one that is on its way is not dropped.
    assert caplog.text.count("is full (10000 bytes)") == 1
    assert f"{20 - len(names)} spans were dropped" in caplog.text


@pytest.mark.parametrize("damage", ["other bytes", "cut short", "empty"])
def test_a_damaged_file_is_set_aside_and_holds_up_nothing(
    damage: str,
    configured: Any,
    root: Path,
    database: Path,
    start_collector: Start,
    caplog: pytest.LogCaptureFixture,
) -> None:
    end(start_application(f"http://127.0.0.1:{free_port()}", root, "a", "b"), signal.SIGKILL)
    damaged = batches(root)[0]
    content = damaged.read_bytes()
    damaged.write_bytes(
        {"other bytes": b"\xff" * 50, "cut short": content[:-20], "empty": b""}[damage]
    )

    collector = start_collector(database)
    provider = configured(f"http://{collector.http}")
    wait_until(lambda: batches(root) == [])
    emit(provider, "c")

    assert stored_names(collector) == ["b", "c"]
    assert [path.name for path in root.glob("*/*.corrupt")] == [damaged.name + ".corrupt"]
    assert caplog.text.count("set aside") == 1


def test_files_are_for_this_user_only(configured: Any, root: Path) -> None:
    emit(configured(f"http://127.0.0.1:{free_port()}"), "secret")

    (file,) = batches(root)
    modes = [path.stat().st_mode & 0o777 for path in (root, file.parent, file)]
    assert modes == [0o700, 0o700, 0o600]
    (group,) = ExportTraceServiceRequest.FromString(file.read_bytes()).resource_spans
    assert group.scope_spans[0].spans[0].name == "secret"


def test_processes_that_share_a_directory_send_each_batch_once(
    configured: Any, root: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No answer comes too late, and this process looks for what others left all the time.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "20")
    monkeypatch.setattr(sender, "_ADOPT_SECONDS", 0.01)
    server.answer = lambda names: 503
    flush = "provider._active_span_processor._span_processors[0]._batch_processor._exporter"
    processes = [
        start_application(
            server.address,
            root,
            *(f"{number} {letter}" for letter in "abc"),
            after=f"sys.stdin.read(); sys.exit(not {flush}.force_flush(30_000))",
        )
        for number in range(2)
    ]
    provider = configured(server.address)
    emit(provider, "here")
    assert len(batches(root)) == 7

    server.answer = lambda names: 200
    for process in processes:
        end(process)
        assert process.returncode == 0
    assert exporter_of(provider).force_flush(60_000)

    names = server.accepted()
    assert sorted(names) == ["0 a", "0 b", "0 c", "1 a", "1 b", "1 c", "here"]
    for number in "01":
        own = [name for name in names if name[0] == number]
        assert own == sorted(own)


def test_a_batch_that_the_collector_refuses_does_not_keep_the_others_out(
    configured: Any, root: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer = lambda names: 400 if "bad" in names else 200
    provider = configured(server.address)
    emit(provider, "first", "bad", *(f"good {number}" for number in range(5)))
    wait_until(lambda: list(root.glob("*/*.refused")) != [])

    assert exporter_of(provider).force_flush(60_000)
    assert server.accepted() == ["first", *(f"good {number}" for number in range(5))]
    assert caplog.text.count("set aside") == 1


def test_a_collector_that_takes_nothing_for_a_while_refuses_nothing(
    configured: Any, root: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "_REFUSALS", 1)
    # Its disk is full: an empty request has nothing to store.
    taken = threading.Event()

    def answer(names: list[str]) -> int:
        if "two" in names:  # It overtakes just when there is room again.
            taken.set()
        return 503 if names and not taken.is_set() else 200

    server.answer = answer
    provider = configured(server.address)
    emit(provider, "one", "two", "three")

    assert exporter_of(provider).force_flush(60_000)
    assert sorted(server.accepted()) == ["one", "three", "two"]
    assert list(root.glob("*/*.refused")) == []


def test_a_file_is_kept_until_the_collector_has_acknowledged_it(
    configured: Any, root: Path, server: Server
) -> None:
    end(start_application(f"http://127.0.0.1:{free_port()}", root, "one"), signal.SIGKILL)
    kept: list[int] = []

    def answer(names: list[str]) -> int:
        kept.append(len(batches(root)))
        return 200

    server.answer = answer
    assert exporter_of(configured(server.address)).force_flush()
    wait_until(lambda: batches(root) == [])

    assert kept == [1]


def test_a_collector_that_hangs_does_not_hold_up_the_batch_processor(
    configured: Any, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
    go_on = threading.Event()
    server.answer = lambda names: 200 if go_on.wait(60) else 503
    provider = configured(server.address)
    tracer = provider.get_tracer("tests")
    names = [f"{number}" for number in range(4_000)]  # twice what the processor's queue holds
    for number, name in enumerate(names):
        tracer.start_span(name).end()
        if number % 500 == 499:
            assert provider.force_flush()
    assert server.received == []

    go_on.set()
    assert exporter_of(provider).force_flush(60_000)
    assert server.accepted() == names


def test_a_disk_that_takes_nothing_leaves_what_there_is_without_a_spool(
    configured: Any, root: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer = lambda names: 503
    provider = configured(server.address)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        emit(provider, "lost", "lost too")
        server.answer = lambda names: 200
        emit(provider, "sent")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert server.accepted() == ["sent"]
    assert [path.name for path in root.glob("*/*")] == ["lock"]
    assert caplog.text.count("cannot be spooled") == 1


def test_a_spool_that_somebody_deletes_is_made_again(
    configured: Any, root: Path, server: Server
) -> None:
    server.answer = lambda names: 503
    provider = configured(server.address)
    emit(provider, "one")
    for path in sorted(root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    root.rmdir()
    emit(provider, "two")

    server.answer = lambda names: 200
    assert exporter_of(provider).force_flush(60_000)
    assert server.accepted()[-1] == "two"


class ContextAtExport(InMemorySpanExporter):
    """Keep whether the spans of an export's own requests are suppressed."""

    def __init__(self, result: SpanExportResult) -> None:
        super().__init__()
        self.result = result
        self.suppressed: set[object] = set()

    def export(self, spans: Any) -> SpanExportResult:
        key = context._SUPPRESS_INSTRUMENTATION_KEY
        self.suppressed.add(context.get_value(key))
        return self.result


def test_requests_of_the_spool_are_not_traced(root: Path) -> None:
    inner = ContextAtExport(SpanExportResult.SUCCESS)
    spooling: SpanExporter = SpoolingExporter(inner, Spool(root, MIB))
    provider = TracerProvider(shutdown_on_exit=False)
    span = provider.get_tracer("tests").start_span("one")
    span.end()

    assert spooling.export([span]) is SpanExportResult.SUCCESS  # type: ignore[list-item]
    spooling.shutdown()
    assert inner.suppressed == {True}


def test_an_export_after_the_shutdown_fails(root: Path) -> None:
    spooling = SpoolingExporter(InMemorySpanExporter(), Spool(root, MIB))
    spooling.shutdown()
    spooling.shutdown()

    assert spooling.export([]) is SpanExportResult.FAILURE
    assert list(root.iterdir()) == []


def test_the_variables_name_the_directory_and_its_size(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTELCHAIN_SPOOL", str(root))
    monkeypatch.setenv("OTELCHAIN_SPOOL_MAX_BYTES", "12345")
    provider = configure(set_global=False)

    spool = exporter_of(provider)._sender._spool
    assert (spool.root, spool._max_bytes) == (root, 12345)
    provider.shutdown()


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        ({"spool": "/dev/null/spool"}, {}, "spool directory /dev/null/spool cannot be used: Not a"),
        ({"spool": "x", "spool_max_bytes": 0}, {}, "spool_max_bytes must be .* above 0, not 0"),
        ({}, {"OTELCHAIN_SPOOL": "/dev/null"}, "spool directory /dev/null cannot be used"),
        ({}, {"OTELCHAIN_SPOOL_MAX_BYTES": "1G"}, "OTELCHAIN_SPOOL_MAX_BYTES must be .*, not '1G'"),
    ],
)
def test_a_spool_that_cannot_be_used_is_named(
    arguments: dict[str, Any],
    variables: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(ConfigurationError, match=message):
        configure(set_global=False, **arguments)
