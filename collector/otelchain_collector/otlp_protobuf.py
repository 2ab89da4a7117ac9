"""Read a binary OTLP request (from a receiver) so that one broken record costs no other.

protobuf refuses a whole message for one string that is not UTF-8 (an SDK that cuts a long prompt in
the middle of a character sends such) and for values nested more than 100 messages deep. When that
happens, the envelope is read again with records as opaque bytes, and each is tried alone.
"""

from typing import Any, NamedTuple

from google.protobuf.message import DecodeError, Message

from otelchain_collector.opaque import CLASSES, Envelope, OpaqueMetric
from otelchain_collector.otlp_request import MalformedRequestError, OtlpRequest, service_name
from otelchain_collector.rows import RejectedRecord
from otelchain_collector.signals import METRIC_KINDS, METRICS, Signal

_UNREADABLE = "the {noun} cannot be decoded: text that is not UTF-8, or values nested too deep"
_UNREADABLE_AROUND = (
    "the {noun}'s {part} cannot be decoded: text that is not UTF-8, or nested too deep"
)


def parse_protobuf(signal: Signal, body: bytes, received_time_unix_nano: int) -> OtlpRequest:
    """Read a request.

    Raises:
        MalformedRequestError: Not even its envelope can be decoded.
    """
    try:
        return OtlpRequest(signal.request.FromString(body), len(body))
    except DecodeError:
        return _record_by_record(signal, body, received_time_unix_nano)


class _Around(NamedTuple):
    """What is known about the records of one scope; ``broken`` is the part that is not."""

    signal: Signal
    broken: str | None
    service_name: str | None
    received_time_unix_nano: int

    def rejected(self, trace_id: str | None, span_id: str | None, name: str) -> RejectedRecord:
        reason = _UNREADABLE if self.broken is None else _UNREADABLE_AROUND
        return RejectedRecord(
            self.received_time_unix_nano,
            reason.format(noun=self.signal.noun, part=self.broken),
            trace_id,
            span_id,
            name,
            self.service_name,
            self.signal.name,
        )


def _record_by_record(signal: Signal, body: bytes, received_time_unix_nano: int) -> OtlpRequest:
    try:
        envelope: Any = Envelope.FromString(body)
    except DecodeError as error:
        name = signal.request.DESCRIPTOR.name
        raise MalformedRequestError(f"the body is not an {name} in protobuf") from error
    request = OtlpRequest(signal.request(), len(body))
    for opaque in envelope.resources:
        target = getattr(request.message, signal.resources).add()
        broken = None if _read_into(target.resource, opaque.resource) else "resource"
        target.schema_url = opaque.schema_url.decode(errors="replace")
        around = _Around(signal, broken, service_name(target.resource), received_time_unix_nano)
        for opaque_scope in opaque.scopes:
            _read_scope(opaque_scope, getattr(target, signal.scopes).add(), around, request)
    return request


def _read_scope(opaque: Any, target: Any, around: _Around, request: OtlpRequest) -> None:
    target.schema_url = opaque.schema_url.decode(errors="replace")
    if not _read_into(target.scope, opaque.scope) and around.broken is None:
        around = around._replace(broken="scope")
    read = _read_metric if around.signal is METRICS else _read_record
    for body in opaque.records:
        read(body, getattr(target, around.signal.records), around, request)


def _read_record(body: bytes, records: Any, around: _Around, request: OtlpRequest) -> None:
    if around.broken is None:
        if _read_into(records.add(), body):
            return
        del records[-1]
    head: Any = CLASSES[around.signal.name]()
    _read_into(head, body)
    name = head.name.decode(errors="replace")
    request.unreadable.append(around.rejected(head.trace_id.hex(), head.span_id.hex(), name))


def _read_metric(body: bytes, metrics: Any, around: _Around, request: OtlpRequest) -> None:
    """Add the readable data points of a metric; each other one is rejected alone."""
    opaque: Any = OpaqueMetric()
    _read_into(opaque, body)
    points = [point for kind in METRIC_KINDS for point in taken_out(opaque, kind)]
    rejected = around.rejected(None, None, opaque.name.decode(errors="replace"))
    metric = metrics.add()
    kind = _read_into(metric, opaque.SerializeToString()) and metric.WhichOneof("data")
    if around.broken is not None or not kind:
        del metrics[-1]
        # What has no points either was a metric once.
        request.unreadable.extend([rejected] * max(1, len(points)))
        return
    target = getattr(metric, kind).data_points
    for point in points:
        if not _read_into(target.add(), point):
            del target[-1]
            request.unreadable.append(rejected)


def taken_out(opaque: Any, kind: str) -> list[bytes]:
    """Take the data points out of an OpaqueMetric's data of a kind, if it has some."""
    if not opaque.HasField(kind):
        return []
    data = getattr(opaque, kind)
    points = list(data.data_points)
    del data.data_points[:]
    return points


def _read_into(message: Message, body: bytes) -> bool:
    try:
        message.ParseFromString(body)
    except DecodeError:
        message.Clear()
        return False
    return True
