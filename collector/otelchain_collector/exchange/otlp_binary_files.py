"""Binary files of the OpenTelemetry Collector's file exporter ⇄ requests.

With ``format: proto``, or with ``compression: zstd``, each message is preceded by its size in 4
bytes, big-endian (exporter/fileexporter/file_writer.go); with compression either each message or
the whole file is a frame of zstd. A message does not say of which signal it is.
"""

import io
import struct
from collections.abc import Callable, Iterator
from typing import IO, Any, Final, NamedTuple

import pyarrow as pa
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otelchain_collector.exchange.delivery import PROTOBUF, Request
from otelchain_collector.exchange.otlp_json_files import (
    REQUEST_BYTES,
    REQUEST_RECORDS,
    parts,
    requests_in,
)
from otelchain_collector.exchange.pages import RELATIONS, Ask, Filters, pages
from otelchain_collector.exchange.requests import request
from otelchain_collector.exchange.sources import MAX_DOCUMENT_BYTES, ZSTD, document
from otelchain_collector.json_document import load_json
from otelchain_collector.opaque import CLASSES, Envelope
from otelchain_collector.otlp_json import parse_json
from otelchain_collector.signals import LOGS, METRICS, TRACES, Signal

_SIZE: Final = struct.Struct(">I")

Complain = Callable[[str, int, str], None]


class _Message(NamedTuple):
    """One message of a file, by its number; or why there is none, and how many bytes are lost."""

    number: int
    body: bytes
    fault: str | None = None


def requests_in_binary(
    name: str, stream: io.BufferedReader, complain: Complain
) -> Iterator[Request]:
    """Yield the requests of an opened file; what cannot be read is a complaint."""
    for number, body, fault in _messages(stream):
        place = f"{name}:{number}"
        if fault is not None:
            complain(place, 1, fault)
            continue
        try:
            content = _decompressed(body) if body.startswith(ZSTD) else body
        except (OSError, pa.ArrowException, ValueError) as error:
            complain(place, 1, f"it is damaged: {str(error).splitlines()[0]}")
            continue
        if content.startswith(b"{"):
            yield from requests_in(document(name, number, content, load_json), complain)
        else:
            yield from _of_protobuf(place, content, complain)


def _messages(stream: io.BufferedReader) -> Iterator[_Message]:
    if stream.peek(1)[:1] == b"\n":  # One message, as it goes over the wire, and nothing else.
        body = stream.read(MAX_DOCUMENT_BYTES + 1)
        too_long = len(body) > MAX_DOCUMENT_BYTES
        yield _Message(1, body, _TOO_LONG if too_long else None)
        return
    number = 0
    while size := stream.read(_SIZE.size):
        number += 1
        length = _SIZE.unpack(size)[0] if len(size) == _SIZE.size else 0
        if length > MAX_DOCUMENT_BYTES:
            yield _Message(number, b"", f"{_TOO_LONG}, or the file is damaged from here on")
            return
        body = stream.read(length)
        if len(size) < _SIZE.size or len(body) < length:
            yield _Message(number, b"", "the file ends in the middle of it")
            return
        if body:  # An exporter with nothing to export.
            yield _Message(number, body)


_TOO_LONG: Final = f"longer than {MAX_DOCUMENT_BYTES >> 20} MiB"


def _decompressed(body: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(body), "zstd") as stream:
        content: bytes = stream.read(MAX_DOCUMENT_BYTES + 1)
    if len(content) > MAX_DOCUMENT_BYTES:
        raise ValueError(_TOO_LONG)
    return content


def _of_protobuf(place: str, body: bytes, complain: Complain) -> Iterator[Request]:
    try:
        envelope: Any = Envelope.FromString(body)
    except DecodeError:
        complain(place, 1, "it is neither OTLP in protobuf nor JSON")
        return
    records = [
        record
        for resource in envelope.resources
        for scope in resource.scopes
        for record in scope.records
    ]
    if not records:
        return
    signal = next(filter(None, map(_signal, records)), None)
    if signal is None:
        complain(place, len(records), "it holds no spans, log records or metrics that can be read")
        return
    whole = len(body) <= REQUEST_BYTES and len(records) <= REQUEST_RECORDS
    for part in [envelope] if whole else _divided(envelope):
        content = part.SerializeToString()
        yield Request(signal, content, place, _count(signal, part), PROTOBUF)


def _signal(record: bytes) -> Signal | None:
    """Tell what a record is by the fields that it must have; None when it says too little."""
    # A metric whose name has 16 bytes and whose description has 8 starts as a span does.
    span = _read(Span, record)
    if (
        span is not None
        and (len(span.trace_id), len(span.span_id)) == (16, 8)
        and (span.start_time_unix_nano or span.end_time_unix_nano)
    ):
        return TRACES
    metric = _read(Metric, record)
    if metric is not None and metric.name and metric.WhichOneof("data"):
        return METRICS
    log = _read(LogRecord, record)
    if log is not None and (
        log.time_unix_nano
        or log.observed_time_unix_nano
        or log.severity_number
        or log.HasField("body")
    ):
        return LOGS
    # A span in which a text is broken: then it is rejected as one.
    head = _read(CLASSES[TRACES.name], record) if span is metric is log is None else None
    if head is not None and (len(head.trace_id), len(head.span_id)) == (16, 8):
        return TRACES
    return None


def _read(kind: type[Message], record: bytes) -> Any:
    try:
        return kind.FromString(record)
    except DecodeError:  # It is of another kind, or a text in it is broken.
        return None


def _divided(envelope: Any) -> Iterator[Any]:
    """Yield the message in parts that a collector takes."""
    part, part_bytes, part_records = Envelope(), 0, 0
    for resource in envelope.resources:
        for scope in resource.scopes:
            target: Any = None
            for record in scope.records:
                too_large = part_bytes + len(record) > REQUEST_BYTES
                if part_records and (too_large or part_records == REQUEST_RECORDS):
                    yield part
                    part, part_bytes, part_records, target = Envelope(), 0, 0, None
                if target is None:
                    target = _opened(part, resource, scope)
                target.records.append(record)
                part_bytes += len(record)
                part_records += 1
    yield part


def _opened(part: Any, resource: Any, scope: Any) -> Any:
    """Return a new, empty scope in a part, with what is around its records."""
    around = part.resources.add(resource=resource.resource, schema_url=resource.schema_url)
    return around.scopes.add(scope=scope.scope, schema_url=scope.schema_url)


def _count(signal: Signal, envelope: Any) -> int:
    """Count spans and log records, and the data points of metrics."""
    records = (r for resource in envelope.resources for s in resource.scopes for r in s.records)
    return sum(_points(record) if signal is METRICS else 1 for record in records)


def _points(record: bytes) -> int:
    metric = _read(Metric, record)
    kind = metric.WhichOneof("data") if metric is not None else None
    return len(getattr(metric, kind).data_points) if kind else 1


def write_otlp_proto(
    signal: Signal,
    ask: Ask,
    filters: Filters,
    stream: IO[bytes],
    advance: Callable[[int], None],
) -> None:
    """Write the stored records of a signal; ``advance`` is told how many were written."""
    for rows in pages(ask, RELATIONS[signal.name], filters):
        for part in parts(signal, rows):
            message = parse_json(signal, request(signal, part), 0).message
            body = message.SerializeToString()
            stream.write(_SIZE.pack(len(body)) + body)
        advance(len(rows))
