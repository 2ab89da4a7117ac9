"""Read an OTLP/JSON request (from a receiver); one broken record does not cost the others.

protobuf's own JSON reader is not OTLP's: it takes ids for base64, and accepts enum names and
snake_case keys. This one follows opentelemetry-proto/docs/specification.md, section JSON Protobuf
Encoding: lowerCamelCase keys only, hex ids in either case, enums as integers only, 64-bit integers
as text or number, other bytes as base64, unknown keys ignored.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from google.protobuf.message import Message

from otelchain_collector.json_document import load_json
from otelchain_collector.otlp_fields import (
    WrongValueError,
    as_array,
    as_object,
    fill,
    whole_text,
)
from otelchain_collector.otlp_request import MalformedRequestError, OtlpRequest, service_name
from otelchain_collector.record_limit import check_record_count
from otelchain_collector.rows import RejectedRecord
from otelchain_collector.signals import LOGS, METRIC_KINDS, METRICS, Signal


def parse_json(signal: Signal, body: bytes, received_time_unix_nano: int) -> OtlpRequest:
    """Read a request.

    Raises:
        MalformedRequestError: It is not JSON, or its envelope has not the right form.
        TooManyRecordsError: It has too many records.
    """
    request = OtlpRequest(signal.request(), len(body))
    try:
        document = as_object(_load(body), "the body")
        check_record_count(_record_count(signal, document))
        for entry in _objects(document, signal.resources):
            _read_resource(entry, signal, request, received_time_unix_nano)
    except WrongValueError as error:
        raise MalformedRequestError(f"the body is not OTLP/JSON: {error}") from error
    return request


def _record_count(signal: Signal, document: dict[str, Any]) -> int:
    """Count resources, scopes and records, with what record_limit counts of the latter."""
    count = 0
    level: list[Any] = [document]
    for field in (signal.resources, signal.scopes, signal.records):
        level = list(_inner(level, _json_name(field)))
        count += len(level)
    if signal is METRICS:
        data = [
            metric[kind]
            for metric in level
            if isinstance(metric, dict)
            for kind in _METRIC_KINDS & metric.keys()
        ]
        level = list(_inner(data, "dataPoints"))
        count += len(level)
    return count + sum(1 for name in ("events", "links", "exemplars") for _ in _inner(level, name))


def _inner(entries: list[Any], name: str) -> Iterator[Any]:
    """Yield what the lists of that name hold; other things are complained about later."""
    for entry in entries:
        if isinstance(entry, dict) and isinstance(inner := entry.get(name), list):
            yield from inner


class _Around(NamedTuple):
    """What is known about the records of one scope; ``broken`` says what is wrong around them."""

    signal: Signal
    broken: str | None
    service_name: str | None
    received_time_unix_nano: int


def _read_resource(
    entry: dict[str, Any], signal: Signal, request: OtlpRequest, received_time_unix_nano: int
) -> None:
    target = getattr(request.message, signal.resources).add()
    scopes = _json_name(signal.scopes)
    broken = _fill_part(target, entry, scopes, "resource", signal)
    around = _Around(signal, broken, service_name(target.resource), received_time_unix_nano)
    for scope_entry in _objects(entry, signal.scopes):
        _read_scope(scope_entry, getattr(target, signal.scopes).add(), around, request)


def _read_scope(entry: dict[str, Any], target: Any, around: _Around, request: OtlpRequest) -> None:
    name = _json_name(around.signal.records)
    broken = _fill_part(target, entry, name, "scope", around.signal)
    around = around._replace(broken=around.broken or broken)
    records = getattr(target, around.signal.records)
    for record in as_array(entry.get(name), name):
        if around.signal is METRICS:
            reasons = _add_metric(records, record, around.broken)
        else:
            reason = around.broken or _add(records, record)
            reasons = [] if reason is None else [reason]
        request.unreadable.extend(_rejected(record, reason, around) for reason in reasons)


def _fill_part(
    target: Message, entry: dict[str, Any], inner: str, part: str, signal: Signal
) -> str | None:
    """Fill a resource or scope but for what is in it, or return why it cannot be read."""
    try:
        fill(target, {key: entry[key] for key in entry.keys() - {inner}}, 2)
    except WrongValueError as error:
        return f"the {signal.noun}'s {part} cannot be decoded: {error}"
    return None


def _add_metric(metrics: Any, entry: Any, broken: str | None) -> list[str]:
    """Add the readable data points of a metric; return why each other one cannot be read."""
    if not isinstance(entry, dict):
        return ["it is not an object"]
    kinds = [kind for kind in map(_json_name, METRIC_KINDS) if isinstance(entry.get(kind), dict)]
    points = [point for kind in kinds for point in _points(entry[kind])]
    without = {kind: {**entry[kind], "dataPoints": None} for kind in kinds}
    broken = broken or _add(metrics, {**entry, **without})
    if broken is not None:
        # What has no points either was a metric once.
        return [broken] * max(1, len(points))
    kind = metrics[-1].WhichOneof("data")
    target = getattr(metrics[-1], kind).data_points if kind else ()
    return [reason for point in points if (reason := _add(target, point, 5)) is not None]


def _points(data: dict[str, Any]) -> list[Any]:
    points = data.get("dataPoints")
    return points if isinstance(points, list) else [points] if points is not None else []


def _add(records: Any, entry: Any, depth: int = 3) -> str | None:
    """Add a record, or return why it cannot be read."""
    try:
        fill(records.add(), as_object(entry, "it"), depth)
    except WrongValueError as error:
        del records[-1]
        return str(error)
    return None


def _rejected(entry: Any, reason: str, around: _Around) -> RejectedRecord:
    if not isinstance(entry, dict):
        entry = {}
    return RejectedRecord(
        around.received_time_unix_nano,
        reason,
        whole_text(entry.get("traceId")),
        whole_text(entry.get("spanId")),
        whole_text(entry.get("eventName" if around.signal is LOGS else "name")),
        around.service_name,
        around.signal.name,
    )


@cache
def _json_name(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(word.title() for word in others)


_METRIC_KINDS = frozenset(map(_json_name, METRIC_KINDS))


def _load(body: bytes) -> Any:
    try:
        return load_json(body)
    except ValueError as error:
        raise MalformedRequestError(f"the body is not JSON: {error}") from error


def _objects(parent: dict[str, Any], field: str) -> list[dict[str, Any]]:
    name = _json_name(field)
    return [as_object(entry, name) for entry in as_array(parent.get(name), name)]
