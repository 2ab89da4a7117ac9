"""Turn an OTLP request (from a receiver) into rows (for the writer); pure, one bad span at a time.

This is the plain decoder; span_columns, the fast one, has to give the same rows.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otelchain_collector.anyvalue import attributes_of, to_json
from otelchain_collector.around import Around, BadRecordError, check_id, check_time, scopes
from otelchain_collector.dialects.status import PENDING
from otelchain_collector.normalise import Event, Normalised, SpanFacts, normalise
from otelchain_collector.redaction.found import Finding
from otelchain_collector.rows import LogRow, MetricPointRow, RejectedRecord, SpanRow
from otelchain_collector.signals import TRACES
from otelchain_collector.span_table import Spans

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decoded:
    """The records of one request: those that can be stored and those that cannot.

    ``rows`` are spans, ``pending`` are runs that had not ended when they were sent; both are a list
    of SpanRow or a table. A request has one signal; what the others would fill is empty.
    ``findings`` are what had to be taken out of the request before.
    """

    rows: Spans
    rejected: list[RejectedRecord]
    pending: Spans = field(default_factory=list)
    logs: list[LogRow] = field(default_factory=list)
    metric_points: list[MetricPointRow] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many records there are, of all kinds."""
        kinds = (self.rows, self.rejected, self.pending, self.logs, self.metric_points)
        return sum(map(len, kinds))


def decode(request: ExportTraceServiceRequest, received_time_unix_nano: int) -> Decoded:
    """Read every span of a request; a span that cannot be stored does not touch its neighbours."""
    rows: list[SpanRow] = []
    pending: list[SpanRow] = []
    rejected: list[RejectedRecord] = []
    for around, spans in scopes(request, TRACES, received_time_unix_nano):
        for span in spans:
            try:
                row = _row(span, around)
            except BadRecordError as error:
                rejected.append(_rejected(span, around, str(error)))
            except orjson.JSONEncodeError:
                rejected.append(_rejected(span, around, "attribute values nested too deep"))
            else:
                (pending if row.run_status == PENDING else rows).append(row)
    return Decoded(rows, rejected, pending)


def _row(span: Span, around: Around) -> SpanRow:
    parent_span_id = _parent(span.parent_span_id)
    check_id("trace_id", span.trace_id, 16)
    check_id("span_id", span.span_id, 8)
    start, end = span.start_time_unix_nano, span.end_time_unix_nano
    check_time("start_time_unix_nano", start)
    check_time("end_time_unix_nano", end)
    attributes = attributes_of(span.attributes)
    events = [_event(event) for event in span.events]
    status = span.status
    facts = SpanFacts(
        span.name,
        span.kind,
        status.code,
        status.message,
        attributes,
        events,
        around.scope_name,
        around.resource,
        start,
        end,
    )
    return SpanRow._make(
        (
            span.trace_id.hex(),
            span.span_id.hex(),
            parent_span_id,
            span.trace_state,
            span.flags,
            span.name,
            span.kind,
            start,
            end,
            status.code,
            status.message,
            to_json(attributes),
            span.dropped_attributes_count,
            _events_json(span, events) if events else "[]",
            span.dropped_events_count,
            to_json([_link(link) for link in span.links]) if span.links else "[]",
            span.dropped_links_count,
            *around.scope_columns,
            *around.resource_columns,
            *normalised(facts),
            around.received_time_unix_nano,
            around.entity_refs,
        )
    )


def _parent(parent_span_id: bytes) -> str | None:
    # Some SDKs write the invalid id, eight zero bytes, where a root has nothing.
    if not any(parent_span_id):
        return None
    check_id("parent_span_id", parent_span_id, 8)
    return parent_span_id.hex()


def _event(event: Span.Event) -> Event:
    return Event(event.name, event.time_unix_nano, attributes_of(event.attributes))


def _events_json(span: Span, events: Sequence[Event]) -> str:
    return to_json(
        [
            {
                "name": event.name,
                "time_unix_nano": event.time_unix_nano,
                "attributes": event.attributes,
                "dropped_attributes_count": raw.dropped_attributes_count,
            }
            for event, raw in zip(events, span.events, strict=True)
        ]
    )


def _link(link: Span.Link) -> dict[str, Any]:
    return {
        "trace_id": link.trace_id.hex(),
        "span_id": link.span_id.hex(),
        "trace_state": link.trace_state,
        "flags": link.flags,
        "attributes": attributes_of(link.attributes),
        "dropped_attributes_count": link.dropped_attributes_count,
    }


def normalised(facts: SpanFacts) -> Normalised:
    """Return what a span says about its run; never raises."""
    try:
        return normalise(facts)
    except Exception:  # a fault of ours in reading a span must not cost the span
        _logger.exception("a span of scope %r could not be normalised", facts.scope_name)
        return Normalised("other", run_status="error" if facts.status_code == 2 else "ok")


def _rejected(span: Span, around: Around, reason: str) -> RejectedRecord:
    return around.rejected(reason, span.trace_id, span.span_id, span.name)
