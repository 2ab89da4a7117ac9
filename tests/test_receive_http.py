"""OTLP/HTTP as opentelemetry-proto/docs/specification.md says, against a real collector process."""

import gzip
import http.client
import json
import logging
import socket
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.rpc import code_pb2
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from collector_process import RunningCollector, hold, readiness, wait_for_queue
from otlp_requests import START, TRACE_ID, body, replace_once, span, text

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
MIB = 1024 * 1024


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """One collector for all tests of this file; limits small enough to reach."""
    import collector_process

    folder = tmp_path_factory.mktemp("http")
    limits = ("--max-request-bytes", "2MiB", "--queue-bytes", "4MiB")
    collector = collector_process.start(folder / "t.duckdb", folder / "log", *limits)
    yield collector
    collector.kill()


class Reply:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.code = response.status
        self.headers = response.headers
        self.body = response.read()
        self.type = response.headers.get("content-type")

    def status(self) -> Status:
        assert self.type == PROTOBUF
        return Status.FromString(self.body)


def post(
    collector: RunningCollector,
    payload: bytes,
    content_type: str | None = PROTOBUF,
    *,
    path: str = "/v1/traces",
    method: str = "POST",
    **headers: str,
) -> Reply:
    connection = http.client.HTTPConnection(collector.http, timeout=30)
    try:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if content_type is not None:
            sent["Content-Type"] = content_type
        connection.request(method, path, payload, sent)
        return Reply(connection.getresponse())
    finally:
        connection.close()


def sql(collector: RunningCollector, statement: str) -> Any:
    reply = post(collector, json.dumps({"sql": statement}).encode(), JSON, path="/sql")
    assert reply.code == 200, reply.body
    return json.loads(reply.body)["rows"]


def names(collector: RunningCollector, *spans: Any) -> list[str]:
    ids = ", ".join(f"'{each.span_id.hex()}'" for each in spans)
    rows = sql(collector, f"SELECT name FROM spans WHERE span_id IN ({ids}) ORDER BY span_id")
    return [row[0] for row in rows]


def json_body(*spans: Any) -> bytes:
    entries = [
        {
            "traceId": each.trace_id.hex(),
            "spanId": each.span_id.hex(),
            "name": each.name,
            "startTimeUnixNano": str(each.start_time_unix_nano),
            "endTimeUnixNano": str(each.end_time_unix_nano),
        }
        for each in spans
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": entries}]}]}).encode()


def test_protobuf_is_stored_and_answered_with_an_empty_response(
    collector: RunningCollector,
) -> None:
    sent = span(name="protobuf")

    reply = post(collector, body(sent))

    # The serialised empty message has no bytes; partial_success must not be set.
    assert (reply.code, reply.type, reply.body) == (200, PROTOBUF, b"")
    assert names(collector, sent) == ["protobuf"]


def test_json_is_stored_and_answered_in_json(collector: RunningCollector) -> None:
    sent = span(name="json")

    reply = post(collector, json_body(sent), JSON)

    assert (reply.code, reply.type, reply.body) == (200, JSON, b"{}")
    assert names(collector, sent) == ["json"]


@pytest.mark.parametrize("content_type", [f"{PROTOBUF}; charset=utf-8", "Application/X-Protobuf"])
def test_a_media_type_may_have_parameters_and_any_case(
    content_type: str, collector: RunningCollector
) -> None:
    sent = span(name="typed")

    assert post(collector, body(sent), content_type).code == 200
    assert names(collector, sent) == ["typed"]


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("gzip", lambda data: gzip.compress(data[:50]) + gzip.compress(data[50:])),
        ("deflate", zlib.compress),
        ("identity", bytes),
    ],
)
def test_compressed_requests_are_stored(
    encoding: str, compress: Callable[[bytes], bytes], collector: RunningCollector
) -> None:
    sent = span(name="compressed")

    reply = post(collector, compress(body(sent)), Content_Encoding=encoding)

    assert reply.code == 200
    assert names(collector, sent) == ["compressed"]


def test_a_chunked_body_without_a_length_is_stored(collector: RunningCollector) -> None:
    sent = span(name="chunked")
    data = body(sent)
    connection = http.client.HTTPConnection(collector.http, timeout=30)
    connection.request(
        "POST",
        "/v1/traces",
        iter([data[:9], data[9:]]),
        {"Content-Type": PROTOBUF},
        encode_chunked=True,
    )

    assert connection.getresponse().status == 200
    connection.close()
    assert names(collector, sent) == ["chunked"]


@pytest.mark.parametrize(("content_type", "empty"), [(PROTOBUF, b""), (JSON, b"{}")])
def test_an_empty_request_succeeds(
    content_type: str, empty: bytes, collector: RunningCollector
) -> None:
    reply = post(collector, empty, content_type)

    assert (reply.code, reply.body) == (200, empty)


def test_a_rejected_span_is_a_partial_success_with_count_and_reason(
    collector: RunningCollector,
) -> None:
    good, bad = span(name="good"), span(span_id=b"short")

    reply = post(collector, body(good, bad))

    response = ExportTraceServiceResponse.FromString(reply.body)
    assert reply.code == 200
    assert response.partial_success.rejected_spans == 1
    assert "span_id has not 8 bytes" in response.partial_success.error_message
    assert names(collector, good) == ["good"]
    assert sql(collector, "SELECT reason FROM rejected_spans WHERE span_id = '73686f7274'") == [
        ["span_id has not 8 bytes"]
    ]


def test_a_partial_success_in_json_writes_the_count_as_text(collector: RunningCollector) -> None:
    reply = post(collector, json_body(span(span_id=b"short"), span()), JSON)

    partial = json.loads(reply.body)["partialSuccess"]
    assert partial["rejectedSpans"] == "1"
    assert "span_id has not 8 bytes" in partial["errorMessage"]


def test_broken_text_costs_its_own_span_only(collector: RunningCollector) -> None:
    good, bad = span(name="good"), span(name="bad", attributes=[text("k", "PLACEHOLDER")])
    data = replace_once(body(good, bad), b"PLACEHOLDER", b"half \xe4\xb8 cut")

    reply = post(collector, data)

    response = ExportTraceServiceResponse.FromString(reply.body)
    assert response.partial_success.rejected_spans == 1
    assert names(collector, good, bad) == ["good"]


def test_the_same_request_twice_is_stored_once(collector: RunningCollector) -> None:
    sent = span(name="once")

    assert [post(collector, body(sent)).code for _ in range(2)] == [200, 200]

    assert names(collector, sent) == ["once"]


@pytest.mark.parametrize("data", [b"garbage!", b"\x0a\xff"])
def test_a_body_that_is_not_otlp_is_400(data: bytes, collector: RunningCollector) -> None:
    reply = post(collector, data)

    assert reply.code == 400
    assert reply.status().code == code_pb2.INVALID_ARGUMENT
    assert "ExportTraceServiceRequest" in reply.status().message


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"resourceSpans": {}}'])
def test_a_body_that_is_not_otlp_json_is_400_in_json(
    data: bytes, collector: RunningCollector
) -> None:
    reply = post(collector, data, f"{JSON}; charset=utf-8")

    assert (reply.code, reply.type) == (400, JSON)
    assert json.loads(reply.body)["code"] == code_pb2.INVALID_ARGUMENT
    assert json.loads(reply.body)["message"].startswith("the body is not")


def test_a_body_that_is_not_gzip_is_400(collector: RunningCollector) -> None:
    reply = post(collector, body(span()), Content_Encoding="gzip")

    assert reply.code == 400
    assert "not valid gzip" in reply.status().message


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_only_post_is_allowed(method: str, collector: RunningCollector) -> None:
    reply = post(collector, b"", method=method)

    assert reply.code == 405
    assert reply.headers["allow"] == "POST"
    assert method in reply.status().message


@pytest.mark.parametrize("path", ["/", "/v1/trace", "/v1/traces/", "/v1development/profiles"])
def test_an_unknown_path_is_404_and_never_a_redirect(
    path: str, collector: RunningCollector
) -> None:
    reply = post(collector, body(span()), path=path)

    assert reply.code == 404
    assert "/v1/traces" in reply.status().message


def test_the_doubled_path_of_a_common_mistake_works(collector: RunningCollector) -> None:
    sent = span(name="doubled")

    assert post(collector, body(sent), path="/v1/traces/v1/traces").code == 200
    assert names(collector, sent) == ["doubled"]


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_an_unknown_media_type_is_415_with_a_status_in_json(
    content_type: str | None, collector: RunningCollector
) -> None:
    reply = post(collector, body(span()), content_type)

    assert (reply.code, reply.type) == (415, JSON)
    assert "Content-Type must be" in json.loads(reply.body)["message"]


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip"])
def test_an_unknown_content_encoding_is_415(encoding: str, collector: RunningCollector) -> None:
    reply = post(collector, body(span()), Content_Encoding=encoding)

    assert reply.code == 415
    assert encoding in reply.status().message


def test_a_body_over_the_limit_is_413(collector: RunningCollector) -> None:
    reply = post(collector, bytes(2 * MIB + 1))

    assert reply.code == 413
    assert reply.status().code == code_pb2.RESOURCE_EXHAUSTED
    assert "2097152 bytes" in reply.status().message


def test_the_limit_is_the_size_after_decompression(collector: RunningCollector) -> None:
    reply = post(collector, gzip.compress(bytes(300 * MIB)), Content_Encoding="gzip")

    assert reply.code == 413


def test_a_client_that_asks_first_is_refused_before_it_sends(collector: RunningCollector) -> None:
    host, port = collector.http.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            b"Content-Type: application/x-protobuf\r\nContent-Length: 3000000\r\n\r\n"
        )

        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_asks_first_is_told_to_go_on(collector: RunningCollector) -> None:
    sent = span(name="continued")
    data = body(sent)
    host, port = collector.http.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            b"Content-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n" % len(data)
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(data)

        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
    assert names(collector, sent) == ["continued"]


def test_a_full_queue_answers_503_and_when_to_come_again(collector: RunningCollector) -> None:
    with hold(collector, 2_000_000), hold(collector, 2_000_000):
        reply = post(collector, bytes(1_900_000))

        assert readiness(collector)["queue_bytes"] == 4_000_000

    assert reply.code == 503
    assert reply.headers["retry-after"] == "1"
    status = reply.status()
    assert status.code == code_pb2.UNAVAILABLE
    retry = RetryInfo()
    assert status.details[0].Unpack(retry)
    assert retry.retry_delay.seconds == 1
    wait_for_queue(collector, 0)
    assert post(collector, body(span())).code == 200


def test_connections_are_kept_alive(collector: RunningCollector) -> None:
    connection = http.client.HTTPConnection(collector.http, timeout=30)
    for _ in range(3):
        connection.request("POST", "/v1/traces", body(span()), {"Content-Type": PROTOBUF})
        response = connection.getresponse()
        response.read()
        assert response.status == 200
        assert connection.sock is not None
    connection.close()


def exchange(collector: RunningCollector, sent: bytes) -> bytes:
    """Send bytes; return all that comes back."""
    host, port = collector.http.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(sent)
        said = b""
        while piece := connection.recv(65_536):
            said += piece
    return said


def raw(first_line: str, *headers: str, data: bytes) -> bytes:
    lines = [first_line, "Host: localhost", "Connection: close", f"Content-Type: {PROTOBUF}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + data


GZIPPED = gzip.compress(body(span()))


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        # RFC 9112, 3.2.2
        (raw("POST http://127.0.0.1:9/v1/traces HTTP/1.1", "Content-Length: 0", data=b""), 200),
        (raw("POST HTTPS://LOCALHOST/v1/traces?a HTTP/1.1", "Content-Length: 0", data=b""), 200),
        (raw("POST http://localhost HTTP/1.1", "Content-Length: 0", data=b""), 404),
        # 2.2
        (b"\r\n\r\n" + raw("POST /v1/traces HTTP/1.1", "Content-Length: 0", data=b""), 200),
        (raw("POST /v1/traces HTTP/1.0", "Content-Length: 0", data=b""), 200),
        (raw("POST /v1/traces HTTP/2.0", "Content-Length: 0", data=b""), 505),
        # 6.3
        (
            raw(
                "POST /v1/traces HTTP/1.1",
                *("Content-Length: 5", "Transfer-Encoding: chunked"),
                data=b"0\r\n\r\n",
            ),
            400,
        ),
        (
            raw(
                "POST /v1/traces HTTP/1.1",
                "Transfer-Encoding: chunked",
                data=b"0\r\nX-Trailer: a\r\n\r\n",
            ),
            200,
        ),
        (raw("POST /v1/traces HTTP/1.1", "Content-Length: -1", data=b""), 400),
        (raw("POST /v1/traces HTTP/1.1", "Content-Length: 0", "X: " + "x" * 70_000, data=b""), 431),
        (raw("POST /v1/traces HTTP/1.1", "Content-Length: 0", "X: " + "x" * 60_000, data=b""), 200),
        (raw("POST /" + "x" * 70_000 + " HTTP/1.1", "Content-Length: 0", data=b""), 431),
        # RFC 9110, 5.3: two headers are one list.
        (
            raw(
                "POST /v1/traces HTTP/1.1",
                *("Content-Encoding: gzip", "Content-Encoding: gzip"),
                f"Content-Length: {len(GZIPPED)}",
                data=GZIPPED,
            ),
            415,
        ),
        (
            raw(
                "POST /v1/traces HTTP/1.1",
                *("Content-Encoding: identity", "Content-Encoding: GZIP"),
                f"Content-Length: {len(GZIPPED)}",
                data=GZIPPED,
            ),
            200,
        ),
        (
            raw(
                "POST /v1/traces HTTP/1.1",
                *(f"Content-Type: {JSON}", "Content-Length: 2"),
                data=b"{}",
            ),
            415,
        ),
    ],
)
def test_heads_of_requests_by_the_letter(
    collector: RunningCollector, sent: bytes, status: int
) -> None:
    head, _, content = exchange(collector, sent).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 %d " % status)
    if b"application/json" in head:
        assert json.loads(content)["message"]
    assert len(content) < 500


def test_the_host_of_an_absolute_target_counts(collector: RunningCollector) -> None:
    # A web page that names this collector by a name of its own must not reach it by a Host header.
    question = ('{"sql": "SELECT 1"}', "Content-Length: 19", f"Content-Type: {JSON}")
    lines = ["Host: localhost", "Connection: close", *question[1:], "", question[0]]

    def said(target: str) -> bytes:
        return exchange(collector, "\r\n".join([f"POST {target} HTTP/1.1", *lines]).encode())

    assert said("http://localhost/sql").startswith(b"HTTP/1.1 200 ")
    assert b"is not this collector's address" in said("http://evil.example/sql")


def test_health_and_readiness(collector: RunningCollector) -> None:
    health = post(collector, b"", None, path="/healthz", method="GET")
    ready = post(collector, b"", None, path="/readyz", method="GET")

    assert (health.code, json.loads(health.body)) == (200, {"status": "ok"})
    assert ready.code == 200
    counts = json.loads(ready.body)
    assert counts.pop("status") == "ready"
    assert counts.keys() == {
        *("spans_stored", "spans_pending", "log_records_stored", "data_points_stored"),
        *("records_duplicate", "records_rejected"),
        *("queue_bytes", "queue_limit_bytes", "log_losses", "database_reopened", "damage"),
    }


@pytest.mark.parametrize("compression", ["none", "gzip", "deflate"])
def test_the_real_exporter_is_understood(
    compression: str,
    collector: RunningCollector,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
    exporter = OTLPSpanExporter(f"http://{collector.http}/v1/traces")
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with caplog.at_level(logging.WARNING):
        provider.get_tracer("real").start_span(f"exported {compression}").end()
        provider.shutdown()

    assert caplog.records == []
    assert sql(collector, f"SELECT count(*) FROM spans WHERE name = 'exported {compression}'") == [
        [1]
    ]


def test_ids_are_stored_as_lower_case_hex(collector: RunningCollector) -> None:
    sent = span(span_id=b"\xab\xcd\xef\x01\x23\x45\x67\x89")

    post(collector, json_body(sent).replace(b"abcdef01", b"ABCDEF01"), JSON)

    assert sql(
        collector,
        "SELECT trace_id, start_time_unix_nano FROM spans WHERE span_id = 'abcdef0123456789'",
    ) == [[TRACE_ID.hex(), START]]


def test_the_log_names_reasons_and_no_content(collector: RunningCollector) -> None:
    secret = "name-with-a-secret"
    post(collector, body(span(name=secret, trace_id=bytes(16))))

    log = Path(collector.log).read_text()
    assert "trace_id is all zero" in log
    assert secret not in log
    assert "Traceback" not in log
