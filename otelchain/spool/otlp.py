"""Spans as the bytes of an OTLP request, and back.

The way back makes objects that an exporter cannot tell from the spans that were written: encoded
again they are the same request, byte for byte.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope as ScopeMessage
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceState

_IS_REMOTE = trace_pb2.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK


def encode(spans: Sequence[ReadableSpan]) -> bytes:
    """Return the request that an exporter would send.

    Raises:
        Exception: A span cannot be encoded; the exporters could not send it either.
    """
    return bytes(encode_spans(spans).SerializePartialToString())


def decode(content: bytes) -> list[ReadableSpan]:
    """Build the spans of a request.

    Raises:
        Exception: The bytes are not a request that an exporter wrote.
    """
    request = ExportTraceServiceRequest.FromString(content)
    spans: list[ReadableSpan] = []
    for group in request.resource_spans:
        resource = Resource(_attributes(group.resource.attributes), group.schema_url)
        for scoped in group.scope_spans:
            scope = _scope(scoped.scope, scoped.schema_url)
            spans.extend(_StoredSpan(span, resource, scope) for span in scoped.spans)
    return spans


class _StoredSpan(ReadableSpan):
    """The SDK counts what it dropped in private containers; here it is what the file says."""

    def __init__(
        self, span: trace_pb2.Span, resource: Resource, scope: InstrumentationScope
    ) -> None:
        super().__init__(
            span.name,
            context=_context(span.trace_id, span.span_id, span.trace_state),
            parent=_parent(span),
            resource=resource,
            attributes=_attributes(span.attributes),
            events=[_StoredEvent(event) for event in span.events],
            links=[_StoredLink(link) for link in span.links],
            kind=SpanKind(span.kind - 1),  # OTLP's 0 is "unspecified", which no SDK sends
            status=Status(StatusCode(span.status.code), span.status.message or None),
            start_time=span.start_time_unix_nano,
            end_time=span.end_time_unix_nano,
            instrumentation_scope=scope,
        )
        self._dropped = (
            span.dropped_attributes_count,
            span.dropped_events_count,
            span.dropped_links_count,
        )

    @property
    def dropped_attributes(self) -> int:
        return self._dropped[0]

    @property
    def dropped_events(self) -> int:
        return self._dropped[1]

    @property
    def dropped_links(self) -> int:
        return self._dropped[2]


class _StoredEvent(Event):
    def __init__(self, event: trace_pb2.Span.Event) -> None:
        super().__init__(event.name, _attributes(event.attributes), event.time_unix_nano)
        self._dropped = event.dropped_attributes_count

    @property
    def dropped_attributes(self) -> int:
        return self._dropped


class _StoredLink(Link):
    def __init__(self, link: trace_pb2.Span.Link) -> None:
        remote = bool(link.flags & _IS_REMOTE)
        context = _context(link.trace_id, link.span_id, link.trace_state, remote)
        super().__init__(context, _attributes(link.attributes))
        self._dropped = link.dropped_attributes_count

    @property
    def dropped_attributes(self) -> int:
        return self._dropped


def _context(
    trace_id: bytes, span_id: bytes, trace_state: str = "", is_remote: bool = False
) -> SpanContext:
    return SpanContext(
        int.from_bytes(trace_id, "big"),
        int.from_bytes(span_id, "big"),
        is_remote,
        trace_state=TraceState.from_header([trace_state]) if trace_state else None,
    )


def _parent(span: trace_pb2.Span) -> SpanContext | None:
    if not span.parent_span_id:
        return None
    remote = bool(span.flags & _IS_REMOTE)
    return _context(span.trace_id, span.parent_span_id, is_remote=remote)


def _scope(scope: ScopeMessage, schema_url: str) -> InstrumentationScope:
    return InstrumentationScope(
        scope.name, scope.version, schema_url, _attributes(scope.attributes)
    )


def _attributes(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    return getattr(value, kind)
