"""Spans built from a spooled request are the spans that were written."""

from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from otelchain.spool import otlp

REMOTE = SpanContext(
    0x0AF7651916CD43DD8448EB211C80319C,
    0xB7AD6B7169203331,
    is_remote=True,
    trace_flags=TraceFlags(1),
    trace_state=TraceState([("vendor", "a:b"), ("other", "2")]),
)


def made(provider: TracerProvider, **arguments: Any) -> ReadableSpan:
    tracer = provider.get_tracer("scope", "1.2", "https://schema/scope", {"scope.key": "v"})
    span = tracer.start_span("step", **arguments)
    span.end()
    assert isinstance(span, ReadableSpan)
    return span


def everything() -> list[ReadableSpan]:
    """Return spans that set every field an exporter sends."""
    resource = Resource({"service.name": "app", "process.pid": 7}, "https://schema/resource")
    provider = TracerProvider(
        resource=resource,
        span_limits=SpanLimits(max_events=1, max_links=1, max_span_attributes=9),
        shutdown_on_exit=False,
    )
    values: dict[str, Any] = {
        "dropped": 1,
        "text": "é\U0001f600",
        "empty": "",
        "whole": -(2**63),
        "double": 0.1,
        "round": 1.0,
        "yes": True,
        "bytes": b"\x00\xff",
        "texts": ["a", "b"],
        "numbers": (1, 2),
    }
    rich = provider.get_tracer("scope").start_span(
        "rich",
        context=set_span_in_context(NonRecordingSpan(REMOTE)),
        kind=SpanKind.CLIENT,
        attributes=values,
        links=[Link(REMOTE, {"dropped": 1}), Link(REMOTE, {"kept": "link"})],
    )
    rich.add_event("dropped")
    rich.add_event("kept", {"event": "é"}, timestamp=1_796_083_200_000_000_001)
    rich.set_status(Status(StatusCode.ERROR, "it broke"))
    child = provider.get_tracer("scope").start_span("child", set_span_in_context(rich))
    child.set_status(StatusCode.OK)
    child.end()
    rich.end()
    assert isinstance(rich, ReadableSpan)
    assert isinstance(child, ReadableSpan)
    other = TracerProvider(resource=Resource({"service.name": "b"}), shutdown_on_exit=False)
    return [child, rich, made(provider), *(made(other, kind=kind) for kind in SpanKind)]


def test_the_spans_of_a_file_make_the_same_request_again() -> None:
    written = everything()
    content = otlp.encode(written)

    request = ExportTraceServiceRequest.FromString(content)
    assert encode_spans(otlp.decode(content)) == request
    assert otlp.encode(otlp.decode(content)) == content


def test_what_was_dropped_is_counted_still() -> None:
    written = everything()[1]
    rich = otlp.decode(otlp.encode(everything()))[1]

    assert rich.name == "rich"
    assert rich.dropped_attributes == written.dropped_attributes
    assert (rich.dropped_events, rich.dropped_links) == (1, 1)


def test_ids_parent_and_trace_state_are_the_same() -> None:
    spans: list[Any] = otlp.decode(otlp.encode(everything()))
    child, rich = spans[:2]

    assert rich.context.trace_id == child.context.trace_id == REMOTE.trace_id
    assert (rich.parent.span_id, rich.parent.is_remote) == (REMOTE.span_id, True)
    assert (child.parent.span_id, child.parent.is_remote) == (rich.context.span_id, False)
    assert rich.context.trace_state.to_header() == "vendor=a:b,other=2"


@pytest.mark.parametrize("content", [b"\xff" * 50, b"\x0a\xff\x01x"])
def test_bytes_that_are_no_request_raise(content: bytes) -> None:
    with pytest.raises(Exception, match="pars"):
        otlp.decode(content)
