"""The contract of otlp_checklist.py against a real collector, for every signal and transport."""

import gzip
import http.client
import json
import resource
import socket
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from claims import claims
from collector_process import RunningCollector, hold, wait_for_queue
from otelchain_collector.settings import CollectorSettings
from otlp_checklist import LINES
from otlp_clients import (
    JSON,
    PROTOBUF,
    RESPONSES,
    SERVICES,
    SIGNALS,
    TRANSPORTS,
    json_bytes,
    rows,
    send,
    send_http,
)
from otlp_requests import log_record, logs_request, metrics_request, point, request, span, text

MIB = 1024 * 1024
TABLES = {"traces": "spans", "logs": "logs", "metrics": "metric_points"}
every_signal = pytest.mark.parametrize("signal", SIGNALS)
every_transport = pytest.mark.parametrize("transport", TRANSPORTS)
both_encodings = pytest.mark.parametrize("media_type", [PROTOBUF, JSON])


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """One collector for all tests of this file; limits small enough to reach."""
    import collector_process

    folder = tmp_path_factory.mktemp("contract")
    limits = ("--max-request-bytes", "2MiB", "--queue-bytes", "4MiB")
    collector = collector_process.start(folder / "t.duckdb", folder / "log", *limits)
    yield collector
    collector.kill()


def one(signal: str, note: str = "shop", **fields: Any) -> Any:
    """Return a request with one good record of a service of its own."""
    if signal == "traces":
        return request(span(**fields), service=note)
    if signal == "logs":
        return logs_request(log_record(**fields), service=note)
    return metrics_request(point(**fields), service=note)


def late(signal: str) -> dict[str, int]:
    """Return a field that makes a record one that can never be stored."""
    field = "end_time_unix_nano" if signal == "traces" else "time_unix_nano"
    return {field: 2**64 - 1}


def count(collector: RunningCollector, signal: str, note: str) -> int:
    return len(rows(collector, f"FROM {TABLES[signal]} WHERE service_name = '{note}'"))


class Reply:
    """An answer over HTTP, with all that the contract says about it."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.code = response.status
        self.type = response.headers.get("content-type")
        self.headers = response.headers
        self.body = response.read()

    def status(self) -> Any:
        """Return the google.rpc.Status, as a message or as what JSON says."""
        return Status.FromString(self.body) if self.type == PROTOBUF else json.loads(self.body)

    def status_code(self) -> int:
        status = self.status()
        return int(status["code"] if isinstance(status, dict) else status.code)

    def message(self) -> str:
        status = self.status()
        return str(status["message"] if isinstance(status, dict) else status.message)


def call(
    collector: RunningCollector,
    path: str,
    payload: Any,
    media_type: str | None = PROTOBUF,
    method: str = "POST",
    **headers: str,
) -> Reply:
    connection = http.client.HTTPConnection(collector.http, timeout=30)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if media_type is not None:
        sent["Content-Type"] = media_type
    try:
        connection.request(method, path, payload, sent)
        return Reply(connection.getresponse())
    finally:
        connection.close()


def grpc_call(
    collector: RunningCollector, method: str, data: bytes, **options: Any
) -> "bytes | grpc.RpcError":
    with grpc.insecure_channel(collector.grpc, [("grpc.max_send_message_length", -1)]) as channel:
        try:
            return bytes(channel.unary_unary(method)(data, timeout=30, **options))
        except grpc.RpcError as error:
            return error


def export_method(signal: str) -> str:
    return f"/{SERVICES[signal]}/Export"


def trailing(error: Any) -> dict[str, bytes]:
    return dict(error.trailing_metadata())


# --- both transports ---------------------------------------------------------------------------


def test_every_line_of_the_contract_has_a_test_and_every_claim_has_its_line() -> None:
    assert claims("otlp").keys() == {line.id for line in LINES}


@pytest.mark.otlp("ports", "request-limit")
def test_ports_and_limit_have_the_recommended_defaults() -> None:
    settings = CollectorSettings()

    assert settings.grpc.endswith(":4317")
    assert settings.http.endswith(":4318")
    assert settings.max_request_bytes == 64 * MIB


@pytest.mark.otlp("three-signals", "full-success")
@every_transport
@every_signal
def test_a_stored_request_is_answered_without_partial_success(
    signal: str, transport: str, collector: RunningCollector
) -> None:
    note = f"full {transport}"
    message = one(signal, note)
    if transport == "grpc":
        body = grpc_call(collector, export_method(signal), message.SerializeToString())
        assert body == b""
    else:
        data = json_bytes(message) if transport == "http-json" else message.SerializeToString()
        media_type = JSON if transport == "http-json" else PROTOBUF
        reply = call(collector, f"/v1/{signal}", data, media_type)
        assert (reply.code, reply.type) == (200, media_type)
        assert reply.body == (b"{}" if media_type == JSON else b"")

    assert count(collector, signal, note) == 1


@pytest.mark.failure("gzip-refused")
@pytest.mark.otlp("compression")
@every_signal
@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_messages_over_grpc(
    compression: Any, signal: str, collector: RunningCollector
) -> None:
    note = f"grpc {compression}"
    data = one(signal, note).SerializeToString()

    answer = grpc_call(collector, export_method(signal), data, compression=compression)

    assert answer == b""
    assert count(collector, signal, note) == 1


def several_members(data: bytes) -> bytes:
    return gzip.compress(data[:20]) + gzip.compress(b"", mtime=0) + gzip.compress(data[20:])


@pytest.mark.failure("gzip-refused")
@pytest.mark.otlp("compression", "http-gzip-members")
@both_encodings
@every_signal
@pytest.mark.parametrize(
    ("encoding", "compress"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("gzip", several_members)],
    ids=["gzip", "deflate", "gzip members"],
)
def test_compressed_bodies_over_http(
    encoding: str,
    compress: Callable[[bytes], bytes],
    signal: str,
    media_type: str,
    collector: RunningCollector,
) -> None:
    note = f"{compress.__name__} {encoding} {media_type}"
    message = one(signal, note)
    data = json_bytes(message) if media_type == JSON else message.SerializeToString()

    reply = call(collector, f"/v1/{signal}", compress(data), media_type, Content_Encoding=encoding)

    assert reply.code == 200
    assert count(collector, signal, note) == 1


@pytest.mark.otlp("empty-request")
@every_transport
@every_signal
def test_an_empty_request_and_empty_parts_succeed(
    signal: str, transport: str, collector: RunningCollector
) -> None:
    message = one(signal)
    message.Clear()
    assert send(collector, signal, transport, message).ok

    entry = getattr(message, message.DESCRIPTOR.fields[0].name).add()
    scope = getattr(entry, entry.DESCRIPTOR.fields[1].name).add()
    if signal == "metrics":
        scope.metrics.add(name="without data")
        scope.metrics.add(name="without points").histogram.SetInParent()
    answer = send(collector, signal, transport, message)

    assert (answer.ok, answer.rejected, answer.message) == (True, 0, "")


@pytest.mark.otlp("partial-success")
@every_transport
@every_signal
def test_a_rejected_record_is_a_partial_success_with_count_and_reason(
    signal: str, transport: str, collector: RunningCollector
) -> None:
    note = f"partial {transport}"
    message = one(signal, note)
    message.MergeFrom(one(signal, note, **late(signal)))

    answer = send(collector, signal, transport, message)

    assert (answer.ok, answer.rejected) == (True, 1)
    assert "rejected: " in answer.message
    assert "is after 2262-04-11" in answer.message
    assert count(collector, signal, note) == 1


@pytest.mark.otlp("response-limit")
@every_transport
@every_signal
def test_a_response_stays_short_however_much_is_wrong(
    signal: str, transport: str, collector: RunningCollector
) -> None:
    message = one(signal, **late(signal))
    for index in range(2_000):
        field, value = next(iter(late(signal).items()))
        message.MergeFrom(one(signal, **{field: value - index}))

    answer = send(collector, signal, transport, message)

    assert (answer.ok, answer.rejected) == (True, 2_001)
    assert len(answer.message) <= 2_000


@pytest.mark.otlp("strindex")
@pytest.mark.parametrize("transport", ["grpc", "http-protobuf", "http-json"])
@every_signal
def test_indexes_into_a_string_table_are_read_as_empty(
    signal: str, transport: str, collector: RunningCollector
) -> None:
    note = f"strindex {transport}"
    indexed = KeyValue(key="k", value=AnyValue(string_value_strindex=7), key_strindex=3)

    assert send(collector, signal, transport, one(signal, note, attributes=[indexed])).ok

    [row] = rows(
        collector, f"SELECT attributes FROM {TABLES[signal]} WHERE service_name = '{note}'"
    )
    assert row["attributes"] == {"k": None}


@pytest.mark.otlp("duplicates")
@every_signal
def test_a_resend_is_stored_once_over_whichever_transport(
    signal: str, collector: RunningCollector
) -> None:
    message = one(signal, "resent")

    assert all(send(collector, signal, transport, message).ok for transport in TRANSPORTS * 2)

    assert count(collector, signal, "resent") == 1


@pytest.mark.otlp("root-parent", "flags", "ids")
@every_transport
def test_a_root_has_no_parent_and_flags_keep_all_their_bits(
    transport: str, collector: RunningCollector
) -> None:
    note = f"flags {transport}"

    for fields in ({"parent_span_id": b""}, {"parent_span_id": bytes(8)}):
        message = request(span(flags=2**32 - 1, **fields), service=note)
        assert send(collector, "traces", transport, message).rejected == 0

    found = rows(
        collector, f"SELECT parent_span_id, flags FROM spans WHERE service_name = '{note}'"
    )
    assert found == [{"parent_span_id": None, "flags": 2**32 - 1}] * 2


@pytest.mark.failure("gzip-bomb")
@pytest.mark.otlp("request-limit", "http-too-large", "http-status-body")
@both_encodings
@every_signal
def test_a_body_over_the_limit_is_413_also_when_it_is_so_once_decompressed(
    signal: str, media_type: str, collector: RunningCollector
) -> None:
    plain = call(collector, f"/v1/{signal}", bytes(2 * MIB + 1), media_type)
    bomb = gzip.compress(bytes(50 * MIB))
    packed = call(collector, f"/v1/{signal}", bomb, media_type, Content_Encoding="gzip")

    for reply in (plain, packed):
        assert (reply.code, reply.type) == (413, media_type)
        assert reply.status_code() == code_pb2.RESOURCE_EXHAUSTED
        assert "2097152 bytes" in reply.message()


@pytest.mark.otlp("drop-only-what-is-lost")
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux's prlimit")
def test_trouble_of_the_store_is_retryable_for_every_signal_and_transport(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "t.duckdb")
    sent = [(signal, way, one(signal, "full disk")) for signal in SIGNALS for way in TRANSPORTS]
    _, hard = resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (100, hard))

    refused = [send(collector, *each) for each in sent]

    assert {answer.code for answer in refused} == {503, grpc.StatusCode.UNAVAILABLE}
    resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    assert all(send(collector, *each).ok for each in sent)
    assert [count(collector, signal, "full disk") for signal in SIGNALS] == [3, 3, 3]


# --- gRPC --------------------------------------------------------------------------------------


@pytest.mark.failure("wrong-retry-code")
@pytest.mark.otlp("request-limit", "grpc-oversize")
@every_signal
@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_message_over_the_limit_is_resource_exhausted_without_retry_info(
    compression: Any, signal: str, collector: RunningCollector
) -> None:
    error: Any = grpc_call(
        collector, export_method(signal), bytes(4 * MIB), compression=compression
    )

    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert not {"google.rpc.retryinfo-bin", "grpc-status-details-bin"} & trailing(error).keys()


@pytest.mark.failure("queue-without-bound", "wrong-retry-code")
@pytest.mark.otlp("grpc-overload", "grpc-retry-info")
@every_signal
def test_a_full_queue_is_unavailable_with_retry_info_in_both_places(
    signal: str, collector: RunningCollector
) -> None:
    with hold(collector, 2 * MIB - 1), hold(collector, 2 * MIB - 1):
        error: Any = grpc_call(collector, export_method(signal), bytes(1 * MIB))
    wait_for_queue(collector, 0)

    assert error.code() == grpc.StatusCode.UNAVAILABLE
    found = trailing(error)
    status = Status.FromString(found["grpc-status-details-bin"])
    retry = RetryInfo()
    assert status.details[0].Unpack(retry)
    assert RetryInfo.FromString(found["google.rpc.retryinfo-bin"]) == retry
    # At once would be six times in no time, and the exporters' deadline is 10 s.
    assert 0 < retry.retry_delay.seconds <= 2


@pytest.mark.otlp("grpc-bad-data")
@every_signal
@pytest.mark.parametrize("data", [b"garbage!", b"\x0a\xff", b"\x0a\x05abc"])
def test_a_message_that_is_not_otlp_is_invalid_argument(
    data: bytes, signal: str, collector: RunningCollector
) -> None:
    error: Any = grpc_call(collector, export_method(signal), data)

    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "ServiceRequest in protobuf" in error.details()


@pytest.mark.otlp("grpc-concurrent")
@every_signal
def test_many_calls_on_one_connection_run_at_once(signal: str, collector: RunningCollector) -> None:
    messages = [one(signal, "concurrent").SerializeToString() for _ in range(50)]
    with grpc.insecure_channel(collector.grpc) as channel:
        export = channel.unary_unary(export_method(signal))
        answers = [export.future(message, timeout=30) for message in messages]
        assert [answer.result() for answer in answers] == [b""] * 50

    assert count(collector, signal, "concurrent") == 50


@pytest.mark.otlp("grpc-unknown")
@pytest.mark.parametrize(
    "method",
    [
        "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
        "/opentelemetry.proto.collector.trace.v1.TraceService/Import",
    ],
)
def test_any_other_method_is_unimplemented(method: str, collector: RunningCollector) -> None:
    error: Any = grpc_call(collector, method, b"")

    assert error.code() == grpc.StatusCode.UNIMPLEMENTED


# --- HTTP --------------------------------------------------------------------------------------


@pytest.mark.otlp("http-post", "http-status-body")
@both_encodings
@every_signal
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_only_post_is_allowed(
    method: str, signal: str, media_type: str, collector: RunningCollector
) -> None:
    reply = call(collector, f"/v1/{signal}", b"", media_type, method)

    assert (reply.code, reply.type) == (405, media_type)
    assert reply.headers["allow"] == "POST"
    assert method in reply.message()


@pytest.mark.failure("page-for-success")
@pytest.mark.otlp("http-post", "http-no-redirect", "http-status-body")
@both_encodings
@pytest.mark.parametrize(
    "path", ["/", "/v1/trace", "/v1/traces/", "/v1/logs/", "/V1/metrics", "/v1development/profiles"]
)
def test_any_other_path_is_404_and_never_a_redirect(
    path: str, media_type: str, collector: RunningCollector
) -> None:
    reply = call(collector, path, b"", media_type)

    assert (reply.code, reply.type) == (404, media_type)
    assert "/v1/traces" in reply.message()


@pytest.mark.failure("page-for-success")
@every_signal
def test_the_doubled_path_of_a_common_mistake_works(
    signal: str, collector: RunningCollector
) -> None:
    path = f"/v1/{signal}/v1/{signal}"

    assert call(collector, path, one(signal, "doubled").SerializeToString()).code == 200
    assert count(collector, signal, "doubled") == 1


@pytest.mark.otlp("http-one-port", "http-response-type")
@every_signal
@pytest.mark.parametrize(
    "media_type", [f"{PROTOBUF}; charset=utf-8", f"{JSON};charset=UTF-8", "Application/JSON"]
)
def test_a_media_type_may_have_parameters_and_any_case(
    media_type: str, signal: str, collector: RunningCollector
) -> None:
    message = one(signal, media_type)
    plain = JSON if "json" in media_type.lower() else PROTOBUF
    data = json_bytes(message) if plain == JSON else message.SerializeToString()

    reply = call(collector, f"/v1/{signal}", data, media_type)

    assert (reply.code, reply.type) == (200, plain)
    assert count(collector, signal, media_type) == 1


@pytest.mark.otlp("http-response-type", "json-int64")
@both_encodings
@every_signal
def test_a_partial_success_is_written_in_the_encoding_of_the_request(
    signal: str, media_type: str, collector: RunningCollector
) -> None:
    message = one(signal, **late(signal))
    data = json_bytes(message) if media_type == JSON else message.SerializeToString()

    reply = call(collector, f"/v1/{signal}", data, media_type)

    assert (reply.code, reply.type) == (200, media_type)
    if media_type == JSON:
        [count_, message_] = json.loads(reply.body)["partialSuccess"].values()
        assert (count_, type(message_)) == ("1", str)
    else:
        assert RESPONSES[signal].FromString(reply.body).HasField("partial_success")


@pytest.mark.otlp("http-bad-data", "http-status-body")
@every_signal
@pytest.mark.parametrize(
    ("media_type", "data", "encoding"),
    [
        (PROTOBUF, b"garbage!", "identity"),
        (PROTOBUF, b"\x0a\x05abc", "identity"),
        (PROTOBUF, b"not gzip", "gzip"),
        (PROTOBUF, gzip.compress(b"x" * 99, mtime=0)[:-9], "gzip"),
        (PROTOBUF, b"not zlib", "deflate"),
        (JSON, b"", "identity"),
        (JSON, b"{", "identity"),
        (JSON, b"[]", "identity"),
        (JSON, b'{"resourceSpans": 1, "resourceLogs": 1, "resourceMetrics": 1}', "identity"),
        (JSON, b"[" * 100_000, "identity"),
        (JSON, b"\xff\xfe", "identity"),
    ],
)
def test_what_cannot_be_decoded_is_400(
    media_type: str, data: bytes, encoding: str, signal: str, collector: RunningCollector
) -> None:
    reply = call(collector, f"/v1/{signal}", data, media_type, Content_Encoding=encoding)

    assert (reply.code, reply.type) == (400, media_type)
    assert reply.status_code() == code_pb2.INVALID_ARGUMENT
    assert reply.message()


@pytest.mark.otlp("http-media-type", "http-status-body")
@every_signal
@pytest.mark.parametrize(
    ("media_type", "encoding", "answered_in"),
    [
        (None, "identity", JSON),
        ("text/plain", "identity", JSON),
        (PROTOBUF, "br", PROTOBUF),
        (JSON, "zstd", JSON),
        (PROTOBUF, "gzip, gzip", PROTOBUF),
    ],
)
def test_an_unknown_media_type_or_encoding_is_415(
    media_type: str | None,
    encoding: str,
    answered_in: str,
    signal: str,
    collector: RunningCollector,
) -> None:
    reply = call(collector, f"/v1/{signal}", b"", media_type, Content_Encoding=encoding)

    assert (reply.code, reply.type) == (415, answered_in)
    assert reply.message()


@pytest.mark.failure("queue-without-bound", "wrong-retry-code")
@pytest.mark.otlp("http-overload", "http-status-body")
@both_encodings
@every_signal
def test_a_full_queue_is_503_with_retry_after(
    signal: str, media_type: str, collector: RunningCollector
) -> None:
    with hold(collector, 2_000_000), hold(collector, 2_000_000):
        reply = call(collector, f"/v1/{signal}", bytes(1_900_000), media_type)
    wait_for_queue(collector, 0)

    assert (reply.code, reply.type) == (503, media_type)
    assert reply.headers["retry-after"] == "1"
    assert reply.status_code() == code_pb2.UNAVAILABLE


@pytest.mark.otlp("http-keep-alive")
@every_signal
def test_a_connection_serves_one_request_after_the_other(
    signal: str, collector: RunningCollector
) -> None:
    connection = http.client.HTTPConnection(collector.http, timeout=30)
    for payload in (one(signal).SerializeToString(), b"garbage!", b""):
        connection.request("POST", f"/v1/{signal}", payload, {"Content-Type": PROTOBUF})
        response = connection.getresponse()
        response.read()
        assert response.status in (200, 400)
        assert connection.sock is not None
    connection.close()


@pytest.mark.otlp("http-disconnect")
@every_signal
def test_a_client_that_goes_away_may_come_again(signal: str, collector: RunningCollector) -> None:
    data = one(signal, "came again").SerializeToString()
    host, port = collector.http.rsplit(":", 1)
    head = (
        f"POST /v1/{signal} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {PROTOBUF}\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    ).encode()
    for sent in (head[:30], head, head + data[:20], head + data):
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(sent)
    wait_for_queue(collector, 0)

    assert send_http(collector, signal, PROTOBUF, data).ok
    assert count(collector, signal, "came again") == 1


@pytest.mark.otlp("http-chunked")
@both_encodings
@every_signal
def test_a_chunked_body_without_a_length(
    signal: str, media_type: str, collector: RunningCollector
) -> None:
    note = f"chunked {media_type}"
    message = one(signal, note)
    data = json_bytes(message) if media_type == JSON else message.SerializeToString()
    connection = http.client.HTTPConnection(collector.http, timeout=30)
    connection.request(
        "POST",
        f"/v1/{signal}",
        iter([data[:9], data[9:]]),
        {"Content-Type": media_type},
        encode_chunked=True,
    )

    assert connection.getresponse().status == 200
    connection.close()
    assert count(collector, signal, note) == 1


@pytest.mark.otlp("http-expect")
@every_signal
def test_a_client_that_asks_first_is_told_to_go_on_or_refused(
    signal: str, collector: RunningCollector
) -> None:
    data = one(signal, "asked").SerializeToString()
    host, port = collector.http.rsplit(":", 1)
    for length, answer in ((len(data), b"HTTP/1.1 100 "), (3_000_000, b"HTTP/1.1 413 ")):
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(
                f"POST /v1/{signal} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                f"Content-Type: {PROTOBUF}\r\nContent-Length: {length}\r\n\r\n".encode()
            )
            assert connection.recv(100).startswith(answer)
            if length == len(data):
                connection.sendall(data)
                assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
    assert count(collector, signal, "asked") == 1


# --- JSON --------------------------------------------------------------------------------------


@pytest.mark.otlp("json-keys")
@every_signal
def test_keys_in_snake_case_are_unknown(signal: str, collector: RunningCollector) -> None:
    data = json_bytes(one(signal, "snake"))
    for word in (b"Spans", b"Logs", b"Metrics"):
        data = data.replace(b"resource" + word, b"resource_" + word.lower())

    assert send_http(collector, signal, JSON, data).ok
    assert count(collector, signal, "snake") == 0


@pytest.mark.otlp("json-enums")
@pytest.mark.parametrize(
    ("signal", "fields", "key"),
    [
        ("traces", {"kind": 2}, "kind"),
        ("logs", {}, "severityNumber"),
    ],
)
def test_the_name_of_an_enum_is_refused(
    signal: str, fields: dict[str, Any], key: str, collector: RunningCollector
) -> None:
    number = b"2" if signal == "traces" else b"9"
    named = json_bytes(one(signal, **fields)).replace(
        f'"{key}": '.encode() + number, f'"{key}": "SOME_NAME"'.encode()
    )

    answer = send_http(collector, signal, JSON, named)

    assert (answer.ok, answer.rejected) == (True, 1)
    assert f"{key} is not an integer" in answer.message


@pytest.mark.otlp("json-ids")
def test_ids_of_a_log_record_are_hexadecimal_and_its_bytes_are_base64(
    collector: RunningCollector,
) -> None:
    record = log_record(
        trace_id=b"\xab" * 16,
        span_id=b"\xcd" * 8,
        body=AnyValue(bytes_value=b"\xff"),
        attributes=[text("k", "v")],
    )
    data = json_bytes(logs_request(record, service="hex"))
    upper = data.replace(b"abab", b"ABAB").replace(b"cdcd", b"CDCD")
    assert upper != data

    assert send_http(collector, "logs", JSON, upper).rejected == 0

    [row] = rows(collector, "SELECT trace_id, span_id, body FROM logs WHERE service_name = 'hex'")
    assert row == {"trace_id": "ab" * 16, "span_id": "cd" * 8, "body": {"@bytes": "/w=="}}
