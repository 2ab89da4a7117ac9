"""Read a binary OTLP request (from a receiver) so that one broken span does not cost the others.

protobuf refuses a whole message for one string that is not UTF-8 (an SDK that cuts a long prompt in
the middle of a character sends such) and for values nested more than 100 messages deep. When that
happens, the envelope is read again with spans as opaque bytes, and each is tried alone.
"""

from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from otelchain_collector.rows import RejectedSpan
from otelchain_collector.trace_request import MalformedRequestError, TraceRequest

_UNREADABLE = "the span cannot be decoded: text that is not UTF-8, or values nested too deep"
_UNREADABLE_AROUND = (
    "the span's {part} cannot be decoded: text that is not UTF-8, or nested too deep"
)


def parse_protobuf(body: bytes, received_time_unix_nano: int) -> TraceRequest:
    """Read a request.

    Raises:
        MalformedRequestError: Not even its envelope can be decoded.
    """
    try:
        return TraceRequest(ExportTraceServiceRequest.FromString(body))
    except DecodeError:
        return _span_by_span(body, received_time_unix_nano)


def _span_by_span(body: bytes, received_time_unix_nano: int) -> TraceRequest:
    try:
        envelope = _Envelope.FromString(body)
    except DecodeError as error:
        raise MalformedRequestError(
            "the body is not an ExportTraceServiceRequest in protobuf"
        ) from error
    request = TraceRequest(ExportTraceServiceRequest())
    for resource_spans in envelope.resource_spans:
        _read_resource_spans(resource_spans, request, received_time_unix_nano)
    return request


def _read_resource_spans(opaque: Any, request: TraceRequest, received_time_unix_nano: int) -> None:
    target = request.message.resource_spans.add()
    broken = not _read_into(target.resource, opaque.resource)
    target.schema_url = opaque.schema_url.decode(errors="replace")
    service_name = None if broken else _service_name(target)
    for opaque_scope in opaque.scope_spans:
        for reason, head in _read_scope_spans(opaque_scope, target, broken):
            request.unreadable.append(
                RejectedSpan(
                    received_time_unix_nano,
                    reason,
                    head.trace_id.hex(),
                    head.span_id.hex(),
                    head.name.decode(errors="replace"),
                    service_name,
                )
            )


def _read_scope_spans(
    opaque: Any, resource_spans: ResourceSpans, resource_broken: bool
) -> Iterator[tuple[str, Any]]:
    """Add the readable spans of a scope; yield the reason and the head of each other one."""
    target = ScopeSpans(schema_url=opaque.schema_url.decode(errors="replace"))
    scope_broken = not _read_into(target.scope, opaque.scope)
    for body in opaque.spans:
        span = Span()
        if resource_broken or scope_broken:
            part = "resource" if resource_broken else "scope"
            yield _UNREADABLE_AROUND.format(part=part), _head(body)
        elif _read_into(span, body):
            target.spans.append(span)
        else:
            yield _UNREADABLE, _head(body)
    resource_spans.scope_spans.append(target)


def _read_into(message: Message, body: bytes) -> bool:
    try:
        message.ParseFromString(body)
    except DecodeError:
        message.Clear()
        return False
    return True


def _head(body: bytes) -> Any:
    try:
        return _SpanHead.FromString(body)
    except DecodeError:
        return _SpanHead()


def _service_name(resource_spans: ResourceSpans) -> str | None:
    for attribute in resource_spans.resource.attributes:
        if attribute.key == "service.name":
            return attribute.value.string_value
    return None


def _opaque_messages() -> dict[str, type[Message]]:
    """Make the messages that trace.proto would have if strings and inner messages were bytes.

    On the wire they are the same.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name="otelchain_collector/opaque.proto", package="otelchain_collector", syntax="proto3"
    )
    for name, fields in _OPAQUE.items():
        message = file.message_type.add(name=name)
        for number, field, repeated, inner in fields:
            message.field.add(
                name=field,
                number=number,
                label=_LABELS[repeated],
                type=_TYPES[inner is not None],
                type_name=f".otelchain_collector.{inner}" if inner else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"otelchain_collector.{name}")
        )
        for name in _OPAQUE
    }


_LABELS = {
    False: descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
    True: descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED,
}
_TYPES = {
    False: descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    True: descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE,
}
# Number, name, repeated, inner message; the numbers are those of trace.proto.
_OPAQUE: dict[str, list[tuple[int, str, bool, str | None]]] = {
    "Envelope": [(1, "resource_spans", True, "OpaqueResourceSpans")],
    "OpaqueResourceSpans": [
        (1, "resource", False, None),
        (2, "scope_spans", True, "OpaqueScopeSpans"),
        (3, "schema_url", False, None),
    ],
    "OpaqueScopeSpans": [
        (1, "scope", False, None),
        (2, "spans", True, None),
        (3, "schema_url", False, None),
    ],
    "SpanHead": [
        (1, "trace_id", False, None),
        (2, "span_id", False, None),
        (5, "name", False, None),
    ],
}
_CLASSES: dict[str, Any] = _opaque_messages()
_Envelope = _CLASSES["Envelope"]
_SpanHead = _CLASSES["SpanHead"]
