"""What the collector says about itself: metrics, readiness, logs without content."""

import io
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.testclient import TestClient

import collector_process
from collector_process import RunningCollector, ask
from otelchain_collector import logs
from otelchain_collector.budget import ByteBudget
from otelchain_collector.decode import Decoded
from otelchain_collector.health import Health
from otelchain_collector.store import Inserted, Store
from otelchain_collector.tokens import Tokens
from otelchain_collector.writer import Writer
from otlp_requests import body, span, text

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}
SECRET = "sk-planted-7f3a9c"


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    folder = tmp_path_factory.mktemp("observed")
    collector = collector_process.start(folder / "t.duckdb", folder / "log", "--log-format=json")
    yield collector
    collector.kill()


def scraped(collector: RunningCollector) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return the samples by name and sorted label values, through Prometheus' own parser."""
    _, headers, content = ask(collector, "GET", "/metrics", "", {})
    assert headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, tuple(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(content.decode())
        for sample in family.samples
    }


def test_requests_are_counted_by_transport_signal_and_outcome(collector: RunningCollector) -> None:
    def counted() -> dict[tuple[str, ...], float]:
        return {
            labels: value
            for (name, labels), value in scraped(collector).items()
            if name == "otelchain_requests_total"
        }

    before = counted()
    ask(collector, "POST", "/v1/traces", body(span()), PROTOBUF)
    ask(collector, "POST", "/v1/traces", b"\xff\xff", PROTOBUF)
    ask(collector, "POST", "/v1/nothing", b"", PROTOBUF)
    with grpc.insecure_channel(collector.grpc) as channel:
        channel.unary_unary(METHOD)(body(span(), span()), timeout=30)
        with pytest.raises(grpc.RpcError):
            channel.unary_unary(METHOD)(b"\xff\xff", timeout=30)

    # A call is counted just after its client has the answer.
    for _ in range(100):
        grown = {key: value - before.get(key, 0) for key, value in counted().items()}
        if sum(grown.values()) == 5:
            break
        time.sleep(0.01)
    assert {key: value for key, value in grown.items() if value} == {
        ("accepted", "traces", "http"): 1,
        ("refused", "traces", "http"): 1,
        ("refused", "other", "http"): 1,
        ("accepted", "traces", "grpc"): 1,
        ("refused", "traces", "grpc"): 1,
    }


def test_a_client_that_goes_before_its_request_has_arrived_is_counted_as_gone(
    collector: RunningCollector,
) -> None:
    gone = "otelchain_requests_total", ("gone", "traces", "http")
    refused = "otelchain_requests_total", ("refused", "traces", "http")
    before = scraped(collector)

    collector_process.hold(collector, 1).close()

    for _ in range(500):
        now = scraped(collector)
        if now.get(gone, 0) + now.get(refused, 0) > before.get(gone, 0) + before.get(refused, 0):
            break
        time.sleep(0.01)
    assert now.get(gone, 0) - before.get(gone, 0) == 1
    assert now.get(refused, 0) == before.get(refused, 0)


def test_spans_commits_and_sizes_are_shown(collector: RunningCollector) -> None:
    def value(name: str, *labels: str) -> float:
        return now[f"otelchain_{name}", labels] - before.get((f"otelchain_{name}", labels), 0)

    before = scraped(collector)
    twice = span()
    ask(collector, "POST", "/v1/traces", body(twice, span(trace_id=bytes(16))), PROTOBUF)
    ask(collector, "POST", "/v1/traces", body(twice), PROTOBUF)
    now = scraped(collector)

    assert value("records_total", "span_stored") == 1
    assert value("records_total", "rejected") == 1
    assert value("records_total", "duplicate") == 1
    assert value("commit_seconds_count") == 2
    assert now["otelchain_commit_seconds_bucket", ("+Inf",)] >= 2
    wal = collector.database.with_name("t.duckdb.wal")
    assert now["otelchain_wal_bytes", ()] == wal.stat().st_size > 0
    assert now["otelchain_database_bytes", ()] == collector.database.stat().st_size > 0
    assert now["otelchain_duckdb_memory_bytes", ()] > 0
    assert now["otelchain_queue_limit_bytes", ()] == 128 * 1024 * 1024
    assert 0 <= now["otelchain_last_commit_age_seconds", ()] < 60
    assert now["otelchain_commit_failed", ()] == 0
    for name in ("queue_bytes", "readers_running", "readers_waiting", "commit_running_seconds"):
        assert now[f"otelchain_{name}", ()] == 0


def test_no_answer_is_kept_guessed_run_framed_or_shared_with_other_sites(
    collector: RunningCollector,
) -> None:
    requests: list[tuple[str, str, bytes | str]] = [
        ("GET", "/healthz", ""),
        ("GET", "/readyz", ""),
        ("GET", "/metrics", ""),
        ("GET", "/queries", ""),
        ("POST", "/queries/traces", "{}"),
        ("POST", "/sql", '{"sql": "SELECT 1"}'),
        ("POST", "/sql", '{"sql": "DROP TABLE spans"}'),
        ("POST", "/v1/traces", "{}"),
        ("POST", "/v1/logs", "{}"),
        ("OPTIONS", "/v1/traces", ""),
        ("OPTIONS", "/sql", ""),
        ("GET", "/nothing", ""),
    ]
    cross_site = {
        **JSON,
        "origin": "https://evil.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type",
    }

    for method, path, data in requests:
        _, headers, _ = ask(collector, method, path, data, cross_site)

        assert headers["cache-control"] == "no-store", path
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["referrer-policy"] == "no-referrer", path
        assert headers["content-security-policy"].startswith("default-src 'none'"), path
        assert not [name for name in headers if name.startswith("access-control")], path


class _SlowStore(Store):
    """A real store whose next insert waits, as on a disk that hangs."""

    hangs: threading.Event

    def insert(self, rows: Any, findings: Any = ()) -> Inserted:
        assert self.hangs.wait(30)
        return super().insert(rows, findings)


def test_readiness_turns_to_503_while_a_commit_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.health.STALLED_SECONDS", 0.2)
    store = _SlowStore.open(tmp_path / "t.duckdb")
    assert isinstance(store, _SlowStore)
    store.hangs = threading.Event()
    writer, budget = Writer(store), ByteBudget(1000)
    health = Health(writer, store, budget, Tokens())
    client = TestClient(Starlette(routes=health.routes()))

    def ready() -> tuple[int, str]:
        answer = client.get("/readyz")
        return answer.status_code, answer.json()["status"]

    assert ready() == (503, "starting")
    writer.start()
    health.phase = "ready"
    assert ready() == (200, "ready")

    from otelchain_collector.decode import decode
    from otlp_requests import request

    decoded: Decoded = decode(request(span()), 1)
    acknowledged = writer.submit(decoded, budget.reserve())
    time.sleep(0.5)
    status, said = ready()
    assert (status, said.partition(":")[0]) == (503, "commits stall")
    assert client.get("/livez").status_code == 200

    store.hangs.set()
    acknowledged.result(30)
    assert ready() == (200, "ready")
    writer.close()
    assert ready() == (503, "the writer has ended; restart the collector")
    store.close()


def test_each_line_of_a_json_log_is_an_object(collector: RunningCollector) -> None:
    bad = span(trace_id=bytes(16), name=SECRET, attributes=[text("key", SECRET)])
    ask(collector, "POST", "/v1/traces", body(bad), PROTOBUF)

    lines = [json.loads(line) for line in collector.log.read_text().splitlines()]

    assert [line for line in lines if line["level"] == "warning"]
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
        assert set(line) >= {"level", "logger", "message"}


def test_the_level_hides_what_is_below_it(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "t.duckdb", "--log-level", "error")
    ask(collector, "POST", "/v1/traces", body(span(trace_id=bytes(16))), PROTOBUF)
    collector.stop()

    assert collector.log.read_text() == ""


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_logged_error_shows_where_and_what_kind_but_not_its_text(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logs.set_up(form, "info")
        try:
            int(SECRET)
        except ValueError:
            logging.getLogger("otelchain_collector.test").exception("a request failed")
    finally:
        root.handlers[:], root.level = handlers, level

    said = stream.getvalue()
    assert "a request failed" in said
    assert "ValueError" in said
    assert __file__ in said
    assert SECRET not in said.replace("int(SECRET)", "")


def test_no_failure_writes_what_a_client_sent_into_the_log(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    options = ["--max-request-bytes", "1MiB", "--queue-bytes", "2MiB", "--log-level", "debug"]
    collector = start_collector(tmp_path / "t.duckdb", *options)
    secret = SECRET.encode()
    attributes = [text("prompt", SECRET)]
    broken_text = body(span(name="x" + SECRET)).replace(b"x" + secret, b"\xff" + secret)
    sent: list[tuple[str, str, bytes | str, dict[str, str]]] = [
        # Spans that are rejected: ids, times, text.
        ("POST", "/v1/traces", body(span(trace_id=bytes(16), attributes=attributes)), PROTOBUF),
        (
            *("POST", "/v1/traces"),
            *(body(span(end_time_unix_nano=2**64 - 1, name=SECRET)), PROTOBUF),
        ),
        ("POST", "/v1/traces", broken_text, PROTOBUF),
        # Requests that are no OTLP at all, too large, of a strange type, or to a strange place.
        ("POST", "/v1/traces", b"\xff" + secret, PROTOBUF),
        ("POST", "/v1/traces", f'{{"resourceSpans": "{SECRET}"', JSON),
        ("POST", "/v1/traces", f'{{"resourceSpans": "{SECRET}"}}', JSON),
        ("POST", "/v1/traces", secret, {**PROTOBUF, "content-encoding": "gzip"}),
        ("POST", "/v1/traces", secret, {**PROTOBUF, "content-encoding": SECRET}),
        ("POST", "/v1/traces", secret, {"content-type": SECRET}),
        ("POST", "/v1/traces", secret * 100_000, PROTOBUF),
        ("POST", f"/{SECRET}", secret, PROTOBUF),
        ("POST", "/v1/logs", secret, PROTOBUF),
        # Questions.
        ("POST", "/sql", json.dumps({"sql": f"SELECT '{SECRET}'::INTEGER"}), JSON),
        ("POST", "/sql", json.dumps({"sql": f"SELECT error('{SECRET}')"}), JSON),
        ("POST", "/sql", json.dumps({"sql": SECRET}), JSON),
        ("POST", "/sql", json.dumps({"sql": "SELECT 1", SECRET: SECRET}), JSON),
        ("POST", "/queries/traces", json.dumps({"params": {"limit": SECRET}}), JSON),
        ("POST", f"/queries/{SECRET}", "{}", JSON),
        ("GET", "/queries", "", {"host": SECRET, "authorization": f"Bearer {SECRET}"}),
    ]
    statuses = {ask(collector, *each)[0] for each in sent}
    with grpc.insecure_channel(collector.grpc) as channel:
        for data in (b"\xff" + secret, broken_text, body(span(span_id=bytes(8), name=SECRET))):
            try:
                channel.unary_unary(METHOD)(
                    data, timeout=30, metadata=(("authorization", f"Bearer {SECRET}"),)
                )
            except grpc.RpcError:
                continue
    ask_raw(collector, f"{SECRET} / HTTP/1.1\r\n\r\n")
    ask_raw(collector, f"GET / HTTP/1.1\r\n{SECRET}\r\n\r\n")
    assert collector.stop() == 0

    assert statuses <= {200, 400, 404, 413, 415}
    log = collector.log.read_text()
    assert "rejected" in log
    assert SECRET not in log
    assert SECRET[3:] not in log


def ask_raw(collector: RunningCollector, request: str) -> None:
    host, port = collector.http.rsplit(":", 1)
    import socket

    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(request.encode())
        connection.recv(4096)


@pytest.mark.skipif(not hasattr(__import__("os"), "getuid"), reason="needs file modes")
def test_the_database_its_log_and_the_discovery_file_are_for_their_owner_only(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "t.duckdb")
    ask(collector, "POST", "/v1/traces", body(span()), PROTOBUF)

    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.glob("t.duckdb*")}
    assert modes == {
        "t.duckdb": "0o600",
        "t.duckdb.wal": "0o600",
        "t.duckdb.collector.json": "0o600",
    }


def test_a_link_in_the_place_of_the_discovery_file_is_not_followed(tmp_path: Path) -> None:
    from otelchain_collector import discovery

    victim = tmp_path / "victim"
    victim.write_text("precious")
    database = tmp_path / "t.duckdb"
    mine = discovery.Discovery(4242, "127.0.0.1:1", "127.0.0.1:2", "0")
    path = discovery.discovery_path(database)
    path.symlink_to(victim)
    path.with_name(f"{path.name}.4242").symlink_to(victim)

    discovery.write(database, mine)

    assert victim.read_text() == "precious"
    assert not path.is_symlink()
