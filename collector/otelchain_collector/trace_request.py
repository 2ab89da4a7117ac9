"""A request as both encodings give it: readable spans as a message, the others as reasons."""

from dataclasses import dataclass, field

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otelchain_collector.rows import RejectedSpan


class MalformedRequestError(Exception):
    """The body as a whole cannot be decoded; the text says where and why."""


@dataclass(frozen=True)
class TraceRequest:
    """One Export request."""

    message: ExportTraceServiceRequest
    unreadable: list[RejectedSpan] = field(default_factory=list)
