"""Turn an OTLP request for logs (from a receiver) into rows (for the writer); pure."""

from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from otelchain_collector.anyvalue import attributes_of, to_json, value_of
from otelchain_collector.around import Around, BadRecordError, check_time, scopes
from otelchain_collector.content_id import ContentIds
from otelchain_collector.decode import Decoded
from otelchain_collector.rows import LogRow
from otelchain_collector.signals import LOGS


def decode_logs(request: ExportLogsServiceRequest, received_time_unix_nano: int) -> Decoded:
    """Read every log record of a request; one that cannot be stored costs no other."""
    decoded = Decoded([], [])
    ids = ContentIds()
    for around, records in scopes(request, LOGS, received_time_unix_nano):
        for record in records:
            try:
                decoded.logs.append(_row(record, around, ids))
            except BadRecordError as error:
                decoded.rejected.append(
                    around.rejected(str(error), record.trace_id, record.span_id, record.event_name)
                )
    return decoded


def _row(record: LogRecord, around: Around, ids: ContentIds) -> LogRow:
    time, observed = record.time_unix_nano, record.observed_time_unix_nano
    check_time("time_unix_nano", time)
    check_time("observed_time_unix_nano", observed)
    columns: tuple[Any, ...] = (
        # logs.proto: "Use Timestamp if it is present, otherwise use ObservedTimestamp."
        time or observed,
        time,
        observed,
        record.severity_number,
        record.severity_text,
        record.event_name,
        to_json(value_of(record.body)) if record.HasField("body") else None,
        to_json(attributes_of(record.attributes)),
        record.dropped_attributes_count,
        record.flags,
        _id_or_none(record.trace_id, 16),
        _id_or_none(record.span_id, 8),
        *around.scope_columns,
        *around.resource_columns,
        around.entity_refs,
        around.service_name,
    )
    return LogRow._make((ids.of(columns), *columns, around.received_time_unix_nano))


def _id_or_none(value: bytes, length: int) -> str | None:
    """Return an id as hex.

    logs.proto: a receiver assumes that a record whose id is not valid belongs to no trace.
    """
    return value.hex() if len(value) == length and any(value) else None
