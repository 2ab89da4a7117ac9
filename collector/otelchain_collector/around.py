"""What the records of one scope have in common, and the checks that all decoders make."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from otelchain_collector.anyvalue import attributes_of, to_json
from otelchain_collector.rows import RejectedRecord
from otelchain_collector.signals import Signal

# 2262-04-11T23:47:16.854775806Z. make_timestamp_ns() refuses the next one ("infinity"), so that a
# single row with it would break every query of the runs view.
LAST_TIME_UNIX_NANO = 2**63 - 2


class BadRecordError(Exception):
    """The record cannot be stored; the text is the reason.

    It has no value of the record in it, so that equal faults have equal reasons.
    """


class Around(NamedTuple):
    """The scope and the resource around a record.

    ``scope_columns`` and ``resource_columns`` are in the order that all tables have them.
    """

    resource: dict[str, Any]
    scope_name: str
    scope_columns: tuple[Any, ...]
    resource_columns: tuple[Any, ...]
    entity_refs: str | None
    signal: str
    received_time_unix_nano: int

    @property
    def service_name(self) -> str | None:
        """The service that sent it, when the resource names one as text."""
        name = self.resource.get("service.name")
        return name if isinstance(name, str) else None

    def rejected(self, reason: str, trace_id: bytes, span_id: bytes, name: str) -> RejectedRecord:
        """Return the row for a record that cannot be stored."""
        received = self.received_time_unix_nano
        return RejectedRecord(
            received,
            reason,
            trace_id.hex(),
            span_id.hex(),
            name,
            self.service_name,
            self.signal,
        )


def scopes(
    request: Any, signal: Signal, received_time_unix_nano: int
) -> Iterator[tuple[Around, Sequence[Any]]]:
    """Yield the records of each scope of a request with what is around them."""
    for resource_entry in getattr(request, signal.resources):
        resource = attributes_of(resource_entry.resource.attributes)
        resource_columns = (
            to_json(resource),
            resource_entry.resource.dropped_attributes_count,
            resource_entry.schema_url,
        )
        entity_refs = _entity_refs(resource_entry.resource)
        for scope_entry in getattr(resource_entry, signal.scopes):
            around = Around(
                resource,
                scope_entry.scope.name,
                _scope_columns(scope_entry),
                resource_columns,
                entity_refs,
                signal.name,
                received_time_unix_nano,
            )
            yield around, getattr(scope_entry, signal.records)


def _entity_refs(resource: Any) -> str | None:
    if not resource.entity_refs:
        return None
    return to_json(
        [
            {
                "schema_url": each.schema_url,
                "type": each.type,
                "id_keys": list(each.id_keys),
                "description_keys": list(each.description_keys),
            }
            for each in resource.entity_refs
        ]
    )


def _scope_columns(scope_entry: Any) -> tuple[Any, ...]:
    scope = scope_entry.scope
    attributes = to_json(attributes_of(scope.attributes))
    dropped = scope.dropped_attributes_count
    return (scope.name, scope.version, attributes, dropped, scope_entry.schema_url)


def check_id(field: str, value: bytes, length: int) -> None:
    """Refuse an id that OTLP calls invalid.

    Raises:
        BadRecordError: It has another length, or is all zero.
    """
    if len(value) != length:
        raise BadRecordError(f"{field} has not {length} bytes")
    if not any(value):
        raise BadRecordError(f"{field} is all zero")


def check_time(field: str, unix_nano: int) -> None:
    """Refuse a time that a BIGINT of nanoseconds cannot hold.

    Raises:
        BadRecordError: It is too late.
    """
    if unix_nano > LAST_TIME_UNIX_NANO:
        raise BadRecordError(f"{field} is after 2262-04-11, the last day of the store")
