"""Read a binary OTLP request (from a receiver) so that one broken record costs no other.

protobuf refuses a whole message for one string that is not UTF-8 (an SDK that cuts a long prompt in
the middle of a character sends such) and for values nested more than 100 messages deep. When that
happens, the envelope is read again with records as opaque bytes, and each is tried alone.
"""

from typing import Any, NamedTuple

from google.protobuf.message import DecodeError, Message

from otelchain_collector.opaque import CLASSES, Envelope
from otelchain_collector.otlp_request import MalformedRequestError, OtlpRequest
from otelchain_collector.rows import RejectedRecord
from otelchain_collector.signals import Signal

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
        return OtlpRequest(signal.request.FromString(body))
    except DecodeError:
        return _record_by_record(signal, body, received_time_unix_nano)


class _Around(NamedTuple):
    """What is known about the records of one scope; ``broken`` is the part that is not."""

    signal: Signal
    broken: str | None
    service_name: str | None
    received_time_unix_nano: int


def _record_by_record(signal: Signal, body: bytes, received_time_unix_nano: int) -> OtlpRequest:
    try:
        envelope: Any = Envelope.FromString(body)
    except DecodeError as error:
        name = signal.request.DESCRIPTOR.name
        raise MalformedRequestError(f"the body is not an {name} in protobuf") from error
    request = OtlpRequest(signal.request())
    for opaque in envelope.resources:
        target = getattr(request.message, signal.resources).add()
        broken = None if _read_into(target.resource, opaque.resource) else "resource"
        target.schema_url = opaque.schema_url.decode(errors="replace")
        around = _Around(signal, broken, _service_name(target), received_time_unix_nano)
        for opaque_scope in opaque.scopes:
            _read_scope(opaque_scope, getattr(target, signal.scopes).add(), around, request)
    return request


def _read_scope(opaque: Any, target: Any, around: _Around, request: OtlpRequest) -> None:
    target.schema_url = opaque.schema_url.decode(errors="replace")
    if not _read_into(target.scope, opaque.scope) and around.broken is None:
        around = around._replace(broken="scope")
    records = getattr(target, around.signal.records)
    for body in opaque.records:
        if around.broken is not None:
            reason = _UNREADABLE_AROUND.format(noun=around.signal.noun, part=around.broken)
            request.unreadable.append(_rejected(body, reason, around))
        elif not _read_into(records.add(), body):
            del records[-1]
            reason = _UNREADABLE.format(noun=around.signal.noun)
            request.unreadable.append(_rejected(body, reason, around))


def _read_into(message: Message, body: bytes) -> bool:
    try:
        message.ParseFromString(body)
    except DecodeError:
        message.Clear()
        return False
    return True


def _rejected(body: bytes, reason: str, around: _Around) -> RejectedRecord:
    head: Any = CLASSES[around.signal.name]()
    _read_into(head, body)
    return RejectedRecord(
        around.received_time_unix_nano,
        reason,
        head.trace_id.hex(),
        head.span_id.hex(),
        head.name.decode(errors="replace"),
        around.service_name,
    )


def _service_name(resource_entry: Any) -> str | None:
    for attribute in resource_entry.resource.attributes:
        if attribute.key == "service.name":
            return str(attribute.value.string_value)
    return None
