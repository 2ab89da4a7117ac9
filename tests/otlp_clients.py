"""OTLP requests over every transport, against a running collector, for tests.

The JSON is made here from protobuf's own mapping and the differences that the specification names,
so it owes nothing to the collector's reader.
"""

import base64
import gzip
import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from collector_process import RunningCollector

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
SIGNALS = ("traces", "logs", "metrics")
TRANSPORTS = ("grpc", "http-protobuf", "http-json")
SERVICES = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
}
RESPONSES: dict[str, Any] = {
    "traces": trace_service_pb2.ExportTraceServiceResponse,
    "logs": logs_service_pb2.ExportLogsServiceResponse,
    "metrics": metrics_service_pb2.ExportMetricsServiceResponse,
}
_HEX = {"traceId", "spanId", "parentSpanId"}


@dataclass
class Answer:
    """What came back: the code of HTTP or gRPC, and the rejected records of a success."""

    ok: bool
    code: Any
    rejected: int = 0
    message: str = ""


def send(
    collector: RunningCollector, signal: str, transport: str, request: Message | bytes
) -> Answer:
    """Send a request; bytes go as they are."""
    if transport == "grpc":
        return send_grpc(collector, signal, request)
    if isinstance(request, bytes):
        data = request
    else:
        data = json_bytes(request) if transport == "http-json" else request.SerializeToString()
    return send_http(collector, signal, JSON if transport == "http-json" else PROTOBUF, data)


def send_grpc(collector: RunningCollector, signal: str, request: Message | bytes) -> Answer:
    data = request if isinstance(request, bytes) else request.SerializeToString()
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(collector.grpc, options) as channel:
        try:
            body = channel.unary_unary(f"/{SERVICES[signal]}/Export")(data, timeout=60)
        except grpc.RpcError as error:
            call: Any = error
            return Answer(False, call.code(), message=call.details())
    return _success(grpc.StatusCode.OK, RESPONSES[signal].FromString(body))


def send_http(
    collector: RunningCollector, signal: str, media_type: str, data: bytes, encoding: str = ""
) -> Answer:
    headers = {"Content-Type": media_type}
    if encoding:
        headers["Content-Encoding"] = encoding
        data = gzip.compress(data, 1)
    connection = http.client.HTTPConnection(collector.http, timeout=60)
    try:
        connection.request("POST", f"/v1/{signal}", data, headers)
        reply = connection.getresponse()
        body = reply.read()
    finally:
        connection.close()
    if reply.status != 200:
        return Answer(False, reply.status, message=body.decode(errors="replace"))
    if media_type == PROTOBUF:
        return _success(200, RESPONSES[signal].FromString(body))
    partial = json.loads(body).get("partialSuccess", {})
    counts = [int(value) for key, value in partial.items() if key.startswith("rejected")]
    return Answer(True, 200, sum(counts), partial.get("errorMessage", ""))


def _success(code: Any, response: Any) -> Answer:
    partial = response.partial_success
    counts = [value for field, value in partial.ListFields() if field.name != "error_message"]
    return Answer(True, code, sum(counts), partial.error_message)


def json_bytes(request: Message) -> bytes:
    """Write a request in OTLP/JSON."""
    tree = MessageToDict(request, use_integers_for_enums=True)
    for entry in _objects(tree):
        for key in _HEX & entry.keys():
            entry[key] = base64.b64decode(entry[key]).hex()
    return json.dumps(tree).encode()


def _objects(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from _objects(each)


def rows(collector: RunningCollector, sql: str) -> list[dict[str, Any]]:
    """Ask the collector; return a dictionary per row, with JSON columns read."""
    connection = http.client.HTTPConnection(collector.http, timeout=60)
    try:
        payload = json.dumps({"sql": sql}).encode()
        connection.request("POST", "/sql", payload, {"Content-Type": JSON})
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    columns = [(column["name"], column["type"]) for column in answer["columns"]]
    return [
        {
            name: json.loads(value) if kind == "JSON" and value is not None else value
            for (name, kind), value in zip(columns, row, strict=True)
        }
        for row in answer["rows"]
    ]
