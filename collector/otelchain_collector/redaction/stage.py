"""A request's bytes → the same without what the policy finds, and what that was (before decoding).

Most requests are clean: otelchain's own handler has redacted what it sends. So a first look tells
whether there is anything at all; only records in which there may be are redacted value by value,
and only those in which there was are written again. All others keep their bytes.
"""

import logging
from pathlib import Path
from typing import Any, Literal, NamedTuple

from google.protobuf import message_factory
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from otelchain.redaction import Redactor
from otelchain.redaction.loading import load
from otelchain.redaction.places import fact_place
from otelchain.redaction.presets import OFF
from otelchain.redaction.replacing import failed
from otelchain.redaction.tally import Tally
from otelchain_collector.identity_key import IdentityKey
from otelchain_collector.opaque import Envelope, OpaqueMetric
from otelchain_collector.otlp_arrow import FlatSpans, NotTakenError, flat_spans
from otelchain_collector.otlp_protobuf import taken_out
from otelchain_collector.otlp_request import service_name
from otelchain_collector.redaction.found import Finding
from otelchain_collector.redaction.messages import (
    Removed,
    Texts,
    gather,
    redact,
    resource_place,
)
from otelchain_collector.redaction.span_texts import are_clean, spans_are_clean
from otelchain_collector.rows import RejectedRecord
from otelchain_collector.signals import METRIC_KINDS, METRICS, TRACES, Signal

# In columns the first look costs 1 ms a request and then 8 µs a span, in messages 24 µs a span:
# they meet at some 70 spans of a model's run.
_LEAST_BYTES_FOR_COLUMNS = 192 * 1024

_RECORD = "record"  # stands for a rule, where the fault is ours

_logger = logging.getLogger(__name__)


class Redacted(NamedTuple):
    """A request as it may be stored.

    ``flat`` are its spans in columns, where they were read and the request is as it was.
    """

    body: bytes
    findings: list[Finding]
    flat: FlatSpans | None = None


class Redaction:
    """Applies a policy to requests; for one thread.

    Args:
        redactor: The policy.
        identity_key: For the identities of what it changes; without it, one of this process.
    """

    def __init__(self, redactor: Redactor, identity_key: IdentityKey | None = None) -> None:
        self.redactor = redactor
        self.identity_key = identity_key or IdentityKey(None)
        self._look = redactor.first_look

    @classmethod
    def of(
        cls, policy: str, database: Path | Literal[":memory:"] = ":memory:"
    ) -> "Redaction | None":
        """Read a policy: a file, a preset, or nothing for the default; None for ``off``.

        Args:
            policy: The policy.
            database: Where what it leaves is stored.

        Raises:
            RedactionPolicyError: It cannot be used.
        """
        redactor = load(policy)
        kept_beside = None if database == ":memory:" else Path(database)
        return None if policy == OFF else cls(redactor, IdentityKey(kept_beside))

    def redacted(self, signal: Signal, body: bytes, received_time_unix_nano: int) -> Redacted:
        """Redact a request in protobuf; one that has no envelope stays as it is."""
        flat = None
        if signal is TRACES and self._look.tells and len(body) >= _LEAST_BYTES_FOR_COLUMNS:
            try:
                flat = flat_spans(body)
                if spans_are_clean(flat, self._look):
                    return Redacted(body, [], flat)
            except NotTakenError:
                pass
            except Exception as error:  # noqa: BLE001 - a fault of ours, whose text may hold values
                _logger.error("a request could not be looked at: %s", type(error).__name__)
        try:
            envelope: Any = Envelope.FromString(body)
        except DecodeError:
            return Redacted(body, [])
        request = _Request(self, signal, received_time_unix_nano)
        request.redact(envelope)
        if not request.findings:
            return Redacted(body, [], flat)
        return Redacted(envelope.SerializeToString(), request.findings)

    def part(self, kind: type[Message], body: bytes) -> tuple[Any, list[Removed]]:
        """Return one message, redacted, and what was found; None where it cannot be read.

        A fault of ours costs the texts of this message, and is counted.
        """
        message = kind()
        try:
            message.ParseFromString(body)
        except DecodeError:
            return None, []
        try:
            return message, [] if self._is_clean(message) else redact(message, self.redactor)
        except Exception as error:  # noqa: BLE001 - its text may hold the value
            _logger.error("a record could not be redacted: %s", type(error).__name__)
            tally = Tally()
            tally.failed(_RECORD)
            return _without_texts(message), [Removed(_RECORD, tally)]

    def rejected(self, record: RejectedRecord, findings: list[Finding]) -> RejectedRecord:
        """Redact what is kept of a record that cannot be stored, which may not have been read."""
        tally = Tally()
        scrubber = self.redactor.at(fact_place("rejected"))
        texts: dict[str, Any] = {
            field: scrubber.text(text, tally)
            for field in ("reason", "trace_id", "span_id", "name")
            if (text := getattr(record, field))
        }
        if record.service_name:
            place = resource_place("service.name")
            texts["service_name"] = self.redactor.at(place).text(record.service_name, tally)
        if not tally:
            return record
        kept = record._replace(**texts)
        around = (record.received_time_unix_nano, record.signal, kept.service_name, "")
        ids = (kept.trace_id or "", kept.span_id or "")
        findings += _findings(around, [Removed("rejected", tally)], ids)
        return kept

    def _is_clean(self, message: Message) -> bool:
        gathered = Texts([], set())
        gather(message, gathered)
        return are_clean(gathered, self._look)


class _Request:
    """One pass over an envelope."""

    def __init__(self, redaction: Redaction, signal: Signal, received_time_unix_nano: int) -> None:
        self.findings: list[Finding] = []
        self._redaction = redaction
        self._signal = signal
        self._record = _record_class(signal)
        self._received_time_unix_nano = received_time_unix_nano

    def redact(self, envelope: Any) -> None:
        for opaque in envelope.resources:
            resource, removed = self._part(opaque, "resource", Resource)
            removed += self._schema_url(opaque)
            service = service_name(resource) if resource is not None else None
            for scope in opaque.scopes:
                removed = self._scope(scope, service, removed)

    def _scope(self, opaque: Any, service: str | None, around: list[Removed]) -> list[Removed]:
        """Redact a scope; return what was found around it and has no record to be counted with."""
        scope, removed = self._part(opaque, "scope", InstrumentationScope)
        around = around + removed + self._schema_url(opaque)
        names = (
            self._received_time_unix_nano,
            self._signal.name,
            service,
            scope.name if scope is not None else "",
        )
        for number, body in enumerate(opaque.records):
            record, removed = self._redaction.part(self._record, body)
            if record is not None and removed:
                opaque.records[number] = record.SerializeToString()
            elif record is None and self._signal is METRICS:
                opaque.records[number], removed = self._broken_metric(body)
            if removed or around:
                self.findings += _findings(names, around + removed, _ids(record))
                around = []
        return around

    def _broken_metric(self, body: bytes) -> tuple[bytes, list[Removed]]:
        """Redact a metric of which a data point cannot be read; the parser keeps the others."""
        try:
            opaque: Any = OpaqueMetric.FromString(body)
        except DecodeError:
            return body, []
        points = [point for kind in METRIC_KINDS for point in taken_out(opaque, kind)]
        metric, removed = self._redaction.part(self._record, opaque.SerializeToString())
        kind = metric and metric.WhichOneof("data")
        if not kind:
            return body, []
        kept: Any = OpaqueMetric()
        data = getattr(kept, kind)
        point_class = type(getattr(metric, kind).data_points.add())
        del getattr(metric, kind).data_points[:]
        for point in points:
            read: Any
            read, found = self._redaction.part(point_class, point)
            data.data_points.append(read.SerializeToString() if found else point)
            removed += found
        # On the wire two halves of a message, one behind the other, are the whole.
        return metric.SerializeToString() + kept.SerializeToString() if removed else body, removed

    def _part(self, opaque: Any, name: str, kind: type[Message]) -> tuple[Any, list[Removed]]:
        message, removed = self._redaction.part(kind, getattr(opaque, name))
        if removed:
            setattr(opaque, name, message.SerializeToString())
        return message, removed

    def _schema_url(self, opaque: Any) -> list[Removed]:
        if not opaque.schema_url:
            return []
        tally = Tally()
        place = resource_place("schema_url")
        text = opaque.schema_url.decode(errors="replace")
        redacted = self._redaction.redactor.at(place).text(text, tally)
        if not tally:
            return []
        opaque.schema_url = redacted.encode()
        return [Removed(place.key, tally)]


def _record_class(signal: Signal) -> type[Message]:
    message: Any = signal.request.DESCRIPTOR
    for name in (signal.resources, signal.scopes, signal.records):
        message = message.fields_by_name[name].message_type
    kind: type[Message] = message_factory.GetMessageClass(message)
    return kind


def _ids(record: Any) -> tuple[str, str]:
    """Return the ids of a span or log record in hex; empty where there are none."""
    trace_id, span_id = getattr(record, "trace_id", b""), getattr(record, "span_id", b"")
    return trace_id.hex(), span_id.hex()


def _findings(
    around: tuple[int, str, str | None, str], removed: list[Removed], ids: tuple[str, str]
) -> list[Finding]:
    return [
        Finding(*around, attribute, rule, is_failure, count, *ids)
        for attribute, tally in removed
        for is_failure, counts in ((False, tally.findings), (True, tally.failures))
        for rule, count in counts.items()
    ]


def _without_texts(message: Any) -> Message:
    """Keep the ids, times and numbers of a record alone, also of what it is made of.

    A metric must not lose its data points: they are the records that were sent.
    """
    kept: Message = type(message)()
    for field, value in message.ListFields():
        is_repeated = not isinstance(value, (int, float, bytes, str, Message))
        if field.message_type is not None:
            if field.message_type.name in _VALUES:
                continue
            part = getattr(kept, field.name)
            if is_repeated:
                part.extend(map(_without_texts, value))
            else:
                part.CopyFrom(_without_texts(value))
                part.SetInParent()
        elif field.type == field.TYPE_STRING:
            if not is_repeated:
                setattr(kept, field.name, failed(_RECORD))
        elif is_repeated:
            getattr(kept, field.name).extend(value)
        else:
            setattr(kept, field.name, value)
    return kept


_VALUES = {"KeyValue", "AnyValue", "EntityRef"}
