"""OTLP/gRPC as opentelemetry-proto/docs/specification.md says, against a real collector process."""

import json
import logging
import urllib.request
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from collector_process import RunningCollector, hold, wait_for_queue
from otlp_requests import body, replace_once, request, span, text

MIB = 1024 * 1024
SERVICE = "/opentelemetry.proto.collector.{}/Export"


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """One collector for all tests of this file; limits small enough to reach."""
    import collector_process

    folder = tmp_path_factory.mktemp("grpc")
    limits = ("--max-request-bytes", "8MiB", "--queue-bytes", "16MiB")
    collector = collector_process.start(folder / "t.duckdb", folder / "log", *limits)
    yield collector
    collector.kill()


@pytest.fixture(name="channel")
def _channel(collector: RunningCollector) -> Iterator[Any]:
    with grpc.insecure_channel(collector.grpc, [("grpc.max_send_message_length", -1)]) as channel:
        yield channel


def export_bytes(channel: Any, data: bytes, **options: Any) -> ExportTraceServiceResponse:
    call = channel.unary_unary(SERVICE.format("trace.v1.TraceService"))
    return ExportTraceServiceResponse.FromString(call(data, timeout=30, **options))


def failure(channel: Any, data: bytes, service: str = "trace.v1.TraceService") -> Any:
    with pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary(SERVICE.format(service))(data, timeout=30)
    return raised.value


def names(collector: RunningCollector, *spans: Any) -> list[str]:
    ids = ", ".join(f"'{each.span_id.hex()}'" for each in spans)
    query = {"sql": f"SELECT name FROM spans WHERE span_id IN ({ids}) ORDER BY span_id"}
    post = urllib.request.Request(
        f"http://{collector.http}/sql",
        json.dumps(query).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(post, timeout=30) as response:
        return [row[0] for row in json.load(response)["rows"]]


def test_spans_are_stored_and_the_answer_is_empty(
    collector: RunningCollector, channel: Any
) -> None:
    sent = span(name="grpc")

    response = TraceServiceStub(channel).Export(request(sent), timeout=30)

    assert not response.HasField("partial_success")
    assert names(collector, sent) == ["grpc"]


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_messages_are_stored(
    compression: Any, collector: RunningCollector, channel: Any
) -> None:
    sent = span(name="compressed")

    export_bytes(channel, body(sent), compression=compression)

    assert names(collector, sent) == ["compressed"]


def test_an_empty_request_succeeds(channel: Any) -> None:
    assert export_bytes(channel, b"") == ExportTraceServiceResponse()


def test_a_rejected_span_is_a_partial_success_with_count_and_reason(
    collector: RunningCollector, channel: Any
) -> None:
    good, bad = span(name="good"), span(trace_id=bytes(16))

    partial = export_bytes(channel, body(good, bad)).partial_success

    assert partial.rejected_spans == 1
    assert "trace_id is all zero" in partial.error_message
    assert names(collector, good, bad) == ["good"]


def test_broken_text_costs_its_own_span_only(collector: RunningCollector, channel: Any) -> None:
    good, bad = span(name="good"), span(name="bad", attributes=[text("k", "PLACEHOLDER")])
    data = replace_once(body(good, bad), b"PLACEHOLDER", b"half \xe4\xb8 cut")

    assert export_bytes(channel, data).partial_success.rejected_spans == 1
    assert names(collector, good, bad) == ["good"]


def test_a_message_that_is_not_otlp_is_invalid_argument(channel: Any) -> None:
    error = failure(channel, b"garbage!")

    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "ExportTraceServiceRequest" in error.details()


def test_a_message_larger_than_grpcs_own_limit_is_stored(
    collector: RunningCollector, channel: Any
) -> None:
    sent = span(name="large", attributes=[text("prompt", "x" * (5 * MIB))])

    export_bytes(channel, body(sent))

    assert names(collector, sent) == ["large"]


def test_a_message_over_the_limit_is_resource_exhausted_without_a_delay(channel: Any) -> None:
    error = failure(channel, bytes(8 * MIB + 1))

    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    # With a RetryInfo a client would send it again.
    assert "retryinfo" not in str(error.trailing_metadata())


def test_the_limit_is_the_size_after_decompression(channel: Any) -> None:
    call = channel.unary_unary(SERVICE.format("trace.v1.TraceService"))

    with pytest.raises(grpc.RpcError) as raised:
        call(bytes(64 * MIB), timeout=30, compression=grpc.Compression.Gzip)

    assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED  # type: ignore[attr-defined]


def test_a_full_queue_is_unavailable_with_the_delay_where_each_client_looks(
    collector: RunningCollector, channel: Any
) -> None:
    with hold(collector, 8 * MIB - 1), hold(collector, 8 * MIB - 1):
        error = failure(channel, bytes(1 * MIB))
    # The next test needs the room that these two give back.
    wait_for_queue(collector, 0)

    assert error.code() == grpc.StatusCode.UNAVAILABLE
    trailing = dict(error.trailing_metadata())
    # Python's exporter reads only this one.
    assert RetryInfo.FromString(trailing["google.rpc.retryinfo-bin"]).retry_delay.seconds == 1
    status = Status.FromString(trailing["grpc-status-details-bin"])
    assert status.code == grpc.StatusCode.UNAVAILABLE.value[0]
    retry = RetryInfo()
    assert status.details[0].Unpack(retry)
    assert retry.retry_delay.seconds == 1


def test_many_calls_on_one_connection_run_at_once(
    collector: RunningCollector, channel: Any
) -> None:
    spans = [span(name="parallel") for _ in range(50)]
    call = channel.unary_unary(SERVICE.format("trace.v1.TraceService"))

    answers = [call.future(body(each), timeout=30) for each in spans]

    assert [answer.result() for answer in answers] == [b""] * 50
    assert names(collector, *spans) == ["parallel"] * 50


def test_the_real_exporter_is_understood(
    collector: RunningCollector, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = OTLPSpanExporter(f"http://{collector.grpc}", compression=grpc.Compression.Gzip)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with caplog.at_level(logging.WARNING):
        started = provider.get_tracer("real").start_span("exported")
        started.end()
        provider.shutdown()

    assert caplog.records == []
    sent = span(span_id=started.get_span_context().span_id.to_bytes(8, "big"))
    assert names(collector, sent) == ["exported"]
