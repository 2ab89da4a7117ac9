"""Finished spans as the collector stores them: encoded, decoded, normalised, in a DuckDB table."""

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan

from otelchain_collector.decode import decode
from otelchain_collector.rows import SpanRow
from otelchain_collector.span_columns import decode_columns
from otelchain_collector.span_table import rows_of as span_rows
from otelchain_collector.store import Store

RECEIVED_UNIX_NANO = 1_796_079_900_000_000_000


def rows_of(spans: Sequence[ReadableSpan]) -> list[SpanRow]:
    wire = encode_spans(spans).SerializeToString()
    decoded = decode(ExportTraceServiceRequest.FromString(wire), RECEIVED_UNIX_NANO)
    assert decoded.rejected == []
    in_columns = decode_columns(wire, RECEIVED_UNIX_NANO)
    for part, again in ((decoded.rows, in_columns.rows), (decoded.pending, in_columns.pending)):
        assert span_rows(again) == part, "the decoders do not agree"
    return span_rows(decoded.rows)


def ask(
    spans: Sequence[ReadableSpan], sql: str, values: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Store the spans and answer one question about them."""
    store = Store.open(":memory:")
    try:
        store.insert(rows_of(spans))
        answer = store.database.cursor().execute(sql, dict(values or {}))
        columns = [column[0] for column in answer.description or ()]
        return [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]
    finally:
        store.close()
