"""Bearer tokens on both ports of a real collector: who gets in, who may do what."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
    OTLPSpanExporter as GrpcSpanExporter,
)
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import collector_process
import otelchain
from collector_process import RunningCollector, ask, readiness
from otelchain_collector.errors import CollectorError
from otelchain_collector.tokens import Tokens, Verdict
from otlp_requests import body, span
from stored_runs import asked

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}
ALL, WRITE, READ, SQL, METRICS, MAINTAIN = (f"{name}-token-of-the-tests" for name in "awrsmt")
TOKEN_FILE = f"""\
# every permission
{ALL}
{WRITE} write
{READ}  read   # named queries
{SQL}   sql
{METRICS} metrics
{MAINTAIN} maintain
"""


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokens")


@pytest.fixture(name="token_file", scope="module")
def _token_file(folder: Path) -> Path:
    path = folder / "tokens"
    path.write_text(TOKEN_FILE)
    path.chmod(0o600)
    return path


@pytest.fixture(name="collector", scope="module")
def _collector(folder: Path, token_file: Path) -> Iterator[RunningCollector]:
    collector = collector_process.start(
        folder / "t.duckdb", folder / "log", "--token-file", str(token_file)
    )
    yield collector
    collector.kill()


def bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}


REQUESTS: dict[str, tuple[str, str, bytes | str, dict[str, str]]] = {
    "write": ("POST", "/v1/traces", body(span()), PROTOBUF),
    "read": ("POST", "/queries/traces", "{}", JSON),
    "sql": ("POST", "/sql", '{"sql": "SELECT 1"}', JSON),
    "metrics": ("GET", "/metrics", "", {}),
    "maintain": ("GET", "/reindex", "", {}),
}


@pytest.mark.parametrize("needed", REQUESTS)
@pytest.mark.parametrize(
    "token", [ALL, WRITE, READ, SQL, METRICS, MAINTAIN, None, "of-somebody-else-here"]
)
def test_each_request_needs_its_own_permission(
    collector: RunningCollector, needed: str, token: str | None
) -> None:
    method, path, data, headers = REQUESTS[needed]
    may = {ALL: set(REQUESTS), WRITE: {"write"}, READ: {"read"}, SQL: {"sql"}, METRICS: {"metrics"}}
    may[MAINTAIN] = {"maintain"}

    status, answered, content = ask(collector, method, path, data, {**headers, **bearer(token)})

    if token not in may:
        assert status == 401
        assert answered["www-authenticate"].startswith('Bearer realm="otelchain"')
    elif needed in may[token]:
        assert status == 200
    else:
        assert status == 403
        assert f'scope="{needed}"' in answered["www-authenticate"]
    if status != 200 and needed == "write":
        code = code_pb2.UNAUTHENTICATED if status == 401 else code_pb2.PERMISSION_DENIED
        assert answered["content-type"] == "application/x-protobuf"
        assert Status.FromString(content).code == code


def test_the_status_of_a_refused_json_request_is_json(collector: RunningCollector) -> None:
    status, headers, content = ask(collector, "POST", "/v1/traces", "{}", JSON)

    assert (status, headers["content-type"]) == (401, "application/json")
    assert json.loads(content) == {
        "code": code_pb2.UNAUTHENTICATED,
        "message": "a token is needed; send it as: Authorization: Bearer TOKEN",
    }


@pytest.mark.parametrize("path", ["/", "/nothing", "//sql", "/v1", "/questions/x", "/SQL", "/sql/"])
def test_no_path_answers_without_a_token(collector: RunningCollector, path: str) -> None:
    for method in ("GET", "POST", "OPTIONS", "DELETE", "HEAD"):
        assert ask(collector, method, path, "", {})[0] == 401


@pytest.mark.parametrize(
    ("token", "sees_counts"),
    [
        (None, False),
        ("of-somebody-else-here", False),
        (WRITE, False),
        (METRICS, True),
        (READ, True),
    ],
)
def test_readiness_shows_counts_to_who_may_see_them(
    collector: RunningCollector, token: str | None, sees_counts: bool
) -> None:
    status, _, content = ask(collector, "GET", "/readyz", "", bearer(token))

    assert status == 200
    assert ("spans_stored" in json.loads(content)) is sees_counts
    if not sees_counts:
        assert json.loads(content) == {"status": "ready"}


def test_two_authorization_headers_are_refused_over_both_transports(
    collector: RunningCollector,
) -> None:
    lines = f"Authorization: Bearer {ALL}\r\n" * 2
    host, port = collector.http.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(f"GET /queries HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
        assert connection.recv(12) == b"HTTP/1.1 401"
    twice = (("authorization", f"Bearer {ALL}"), ("authorization", f"Bearer {WRITE}"))
    with grpc.insecure_channel(collector.grpc) as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(METHOD)(body(span()), metadata=twice, timeout=20)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED  # type: ignore[attr-defined]
    assert "more than one" in str(refused.value.details())  # type: ignore[attr-defined]


def test_a_question_is_stopped_with_the_token_that_it_was_asked_with(
    collector: RunningCollector,
) -> None:
    answers: list[tuple[int, bytes]] = []

    def question() -> None:
        sql = "SELECT sum(a.range & b.range) FROM range(100000000) a, range(1000000) b"
        data = json.dumps({"sql": sql, "id": "mine"})
        status, _, content = ask(collector, "POST", "/sql", data, {**JSON, **bearer(SQL)})
        answers.append((status, content))

    def stop(token: str) -> int:
        return ask(collector, "DELETE", "/questions/mine", "", bearer(token))[0]

    asking = threading.Thread(target=question)
    asking.start()
    time.sleep(2)  # It has begun, and a process for it too.
    assert [stop(token) for token in (WRITE, READ, METRICS, ALL)] == [404] * 4
    assert asking.is_alive()
    while stop(SQL) != 204:
        assert asking.is_alive()
        time.sleep(0.05)
    asking.join()

    assert answers == [(400, b'{"error":"the question was cancelled"}')]


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_needs_no_token(collector: RunningCollector, path: str) -> None:
    assert ask(collector, "GET", path, "", {})[0] == 200


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (ALL, None),
        (WRITE, None),
        (READ, grpc.StatusCode.PERMISSION_DENIED),
        ("of-somebody-else-here", grpc.StatusCode.UNAUTHENTICATED),
        (None, grpc.StatusCode.UNAUTHENTICATED),
    ],
)
def test_a_call_needs_permission_to_write(
    collector: RunningCollector, token: str | None, code: grpc.StatusCode | None
) -> None:
    metadata = tuple(bearer(token).items())
    with grpc.insecure_channel(collector.grpc) as channel:
        call = channel.unary_unary(METHOD)
        if code is None:
            assert call(body(span()), timeout=30, metadata=metadata) == b""
            return
        with pytest.raises(grpc.RpcError) as refused:
            call(body(span()), timeout=30, metadata=metadata)

    assert refused.value.code() is code  # type: ignore[attr-defined]
    # With details a client would take it for something to try again.
    trailing = dict(refused.value.trailing_metadata())  # type: ignore[attr-defined]
    assert "grpc-status-details-bin" not in trailing


@pytest.mark.parametrize("exporter", [OTLPSpanExporter, GrpcSpanExporter])
def test_an_exporter_shows_its_token_by_the_standard_variable(
    collector: RunningCollector, monkeypatch: pytest.MonkeyPatch, exporter: Any
) -> None:
    is_grpc = exporter is GrpcSpanExporter
    address = collector.grpc if is_grpc else collector.http
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{address}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{WRITE}")
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter()))
    before = readiness(collector, METRICS)["spans_stored"]

    provider.get_tracer("tokens").start_span("with a token").end()
    provider.shutdown()

    assert readiness(collector, METRICS)["spans_stored"] == before + 1


def test_the_command_shows_the_token_of_a_file_or_of_the_variable(
    collector: RunningCollector, tmp_path: Path
) -> None:
    question = ("sql", "SELECT 42 AS answer", "--format", "csv")
    endpoint = ("--endpoint", collector.http)
    mine = tmp_path / "mine"
    mine.write_text(f"# for questions\n{SQL} sql\n")

    from_file = asked(*question, *endpoint, "--token-file", str(mine))
    from_variable = asked(*question, *endpoint, OTELCHAIN_TOKEN=SQL)
    discovered = asked(*question, "--database", str(collector.database), OTELCHAIN_TOKEN=SQL)

    assert {one.stdout for one in (from_file, from_variable, discovered)} == {b"answer\r\n42\r\n"}


def test_python_shows_the_token_of_a_file_or_of_the_variable(
    collector: RunningCollector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, endpoint = tmp_path / "mine", f"http://{collector.http}"
    mine.write_text(ALL)
    from_file = otelchain.open(endpoint, token_file=mine).sql("SELECT 1 AS one")

    monkeypatch.setenv("OTELCHAIN_TOKEN", READ)
    traces = otelchain.open(endpoint)
    with pytest.raises(otelchain.OtelchainError, match="it needs the permission 'sql'"):
        traces.runs()

    assert list(from_file["one"]) == [1]
    assert "trace_id" in traces.query("traces", limit=1).columns


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("", "a token is needed; send it as: Authorization: Bearer TOKEN; set OTELCHAIN_TOKEN"),
        ("of-somebody-else-here", "the token is not one of this collector's; set OTELCHAIN_TOKEN"),
        (READ, "it needs the permission 'sql'; set OTELCHAIN_TOKEN or --token-file"),
    ],
)
def test_the_command_says_what_to_do_about_a_refusal(
    collector: RunningCollector, token: str, said: str
) -> None:
    refused = asked("sql", "SELECT 1", "--endpoint", collector.http, OTELCHAIN_TOKEN=token)

    assert refused.returncode == 2
    assert f"http://{collector.http} does not let you ask this: " in refused.stderr.decode()
    assert said in refused.stderr.decode()


def test_a_changed_file_is_read_again_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("the-first-token-of-all\n")
    path.chmod(0o600)
    tokens = Tokens(path=path)

    def verdict(token: str) -> Verdict:
        tokens._looked_at = time.monotonic() - 60
        return tokens.check((f"Bearer {token}",), "write")

    path.write_text("the-second-token-of-all write\n")
    assert verdict("the-first-token-of-all") is Verdict.INVALID
    assert verdict("the-second-token-of-all") is Verdict.ALLOWED
    path.write_text("short\n")
    assert verdict("the-second-token-of-all") is Verdict.ALLOWED
    path.unlink()
    assert verdict("the-second-token-of-all") is Verdict.ALLOWED


def test_a_running_collector_takes_a_new_token(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    path = tmp_path / "tokens"
    path.write_text("the-first-token-of-all\n")
    collector = start_collector(tmp_path / "t.duckdb", "--token-file", str(path))
    new = path.with_name("new")
    new.write_text("the-second-token-of-all\n")
    new.replace(path)

    def status(token: str) -> int:
        return ask(collector, "GET", "/queries", "", bearer(token))[0]

    for _ in range(100):
        if status("the-second-token-of-all") == 200:
            break
        time.sleep(0.05)
    assert (status("the-first-token-of-all"), status("the-second-token-of-all")) == (401, 200)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "there is no token in"),
        ("# nothing\n\n", "there is no token in"),
        ("short\n", "cannot be used: it needs 16 or more of the characters"),
        ("with-a-colon:and-more-of-it\n", "cannot be used"),
        ("long-enough-for-a-token reed\n", "what a token may do is any of write, read, sql"),
        (b"\xff\xfe\n", "it is not UTF-8 text"),
    ],
)
def test_a_token_file_that_cannot_be_used_is_named_without_its_content(
    tmp_path: Path, content: str | bytes, said: str
) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(CollectorError, match=said) as refused:
        Tokens(path=path)

    assert str(path) in str(refused.value)
    for word in ("short", "colon", "long-enough", "reed"):
        assert word not in str(refused.value).replace(str(path), "")


@pytest.mark.parametrize(
    "authorization",
    [
        (),
        ("",),
        ("Bearer",),
        ("Bearer ",),
        (f"Basic {ALL}",),
        (ALL,),
        (f"Bearer {ALL}x",),
        (f"Bearer {ALL[:-1]}",),
        (f"Bearer {ALL}", f"Bearer {ALL}"),
    ],
)
def test_what_is_not_the_token_does_not_pass(authorization: tuple[str, ...]) -> None:
    assert Tokens(ALL).check(authorization, "read") is not Verdict.ALLOWED


@pytest.mark.parametrize("authorization", [f"Bearer {ALL}", f"bearer  {ALL} ", f"BEARER {ALL}"])
def test_the_scheme_may_be_written_in_any_case(authorization: str) -> None:
    assert Tokens(ALL).check((authorization,), "read") is Verdict.ALLOWED


@pytest.mark.skipif(os.name != "posix", reason="needs file modes")
@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_token_file_that_everybody_can_read_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: bool
) -> None:
    path = tmp_path / "tokens"
    path.write_text(ALL)
    path.chmod(mode)

    Tokens(path=path)

    assert ("chmod 600" in caplog.text) is warned
    assert ALL not in caplog.text


def test_another_address_is_possible_with_a_token(
    start_collector: Callable[..., RunningCollector],
    token_file: Path,
    tmp_path: Path,
) -> None:
    collector = start_collector(
        tmp_path / "t.duckdb", "--http", "0.0.0.0:0", "--token-file", str(token_file)
    )

    log = collector.log.read_text()
    assert "ANYONE" not in log
    assert "travel unencrypted" in log
    question = ("sql", "SELECT 1", "--database", str(collector.database))
    assert asked(*question, OTELCHAIN_TOKEN=SQL).returncode == 0


def test_another_address_without_a_token_is_warned_about_loudly(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "t.duckdb", "--http", "0.0.0.0:0", "--allow-remote")

    assert "ANYONE who reaches" in collector.log.read_text()
