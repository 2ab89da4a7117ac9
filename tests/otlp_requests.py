"""OTLP requests for tests, with every field of a span set to something to look for."""

import base64
import itertools
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint
from opentelemetry.proto.trace.v1.trace_pb2 import Span

TRACE_ID = bytes.fromhex("0af7651916cd43dd8448eb211c80319c")
#: 2026-11-30T00:00:00Z
START = 1_796_083_200_000_000_000

_span_ids = itertools.count(1)


def text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def span(**fields: Any) -> Span:
    """Return a good span with an id of its own; fields replace what it has."""
    values = {
        "trace_id": TRACE_ID,
        "span_id": next(_span_ids).to_bytes(8, "big"),
        "name": "step",
        "start_time_unix_nano": START,
        "end_time_unix_nano": START + 1_000_000,
        **fields,
    }
    return Span(**values)


def request(*spans: Span, service: str = "shop") -> ExportTraceServiceRequest:
    """Return a request of one resource and one scope."""
    message = ExportTraceServiceRequest()
    resource_spans = message.resource_spans.add()
    resource_spans.resource.attributes.append(text("service.name", service))
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = "tests"
    scope_spans.spans.extend(spans)
    return message


def body(*spans: Span, service: str = "shop") -> bytes:
    """Return a request as it goes over the wire."""
    return request(*spans, service=service).SerializeToString()


def replace_once(data: bytes, old: bytes, new: bytes) -> bytes:
    """Put bytes in the place of others of the same length."""
    assert data.count(old) == 1
    assert len(old) == len(new)
    return data.replace(old, new)


def log_record(**fields: Any) -> LogRecord:
    """Return a good log record unlike any other; fields replace what it has."""
    values = {
        "time_unix_nano": START + next(_span_ids),
        "severity_number": 9,
        "body": AnyValue(string_value="done"),
        **fields,
    }
    return LogRecord(**values)


def logs_request(*records: LogRecord, service: str = "shop") -> ExportLogsServiceRequest:
    """Return a request of one resource and one scope."""
    message = ExportLogsServiceRequest()
    resource_logs = message.resource_logs.add()
    resource_logs.resource.attributes.append(text("service.name", service))
    scope_logs = resource_logs.scope_logs.add()
    scope_logs.scope.name = "tests"
    scope_logs.log_records.extend(records)
    return message


def point(**fields: Any) -> NumberDataPoint:
    """Return a good data point of a gauge or sum unlike any other; fields replace what it has."""
    values = {"time_unix_nano": START + next(_span_ids), "as_int": 1, **fields}
    return NumberDataPoint(**values)


def metrics_request(*points: NumberDataPoint, service: str = "shop") -> Any:
    """Return a request of one resource, one scope and one gauge, `load`."""
    message = ExportMetricsServiceRequest()
    resource_metrics = message.resource_metrics.add()
    resource_metrics.resource.attributes.append(text("service.name", service))
    scope_metrics = resource_metrics.scope_metrics.add()
    scope_metrics.scope.name = "tests"
    scope_metrics.metrics.add(name="load").gauge.data_points.extend(points)
    return message


def field(number: int, payload: bytes) -> bytes:
    """Write a field on the wire; protobuf itself refuses to write what it cannot read."""
    length, size = len(payload), b""
    while length > 0x7F:
        size += bytes([length & 0x7F | 0x80])
        length >>= 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + payload


def rebuilt(tree: Any) -> AnyValue:
    """Read the JSON of collector/README.md back into an AnyValue."""
    value = AnyValue()
    if isinstance(tree, bool):
        value.bool_value = tree
    elif isinstance(tree, str):
        value.string_value = tree
    elif isinstance(tree, int):
        value.int_value = tree
    elif isinstance(tree, float):
        value.double_value = tree
    elif isinstance(tree, list):
        value.array_value.values.extend(map(rebuilt, tree))
        value.array_value.SetInParent()
    elif isinstance(tree, dict) and tree.keys() == {"@bytes"}:
        value.bytes_value = base64.b64decode(tree["@bytes"])
    elif isinstance(tree, dict) and tree.keys() == {"@double"}:
        value.double_value = float(tree["@double"])
    elif isinstance(tree, dict):
        value.kvlist_value.SetInParent()
        for key, item in tree.items():
            plain = key[1:] if key.startswith("@") else key
            value.kvlist_value.values.add(key=plain, value=rebuilt(item))
    return value
