"""Rows of the store → OTLP/JSON requests that give the same rows again.

A row is a dictionary of a table's columns (pages.py, parquet_files.py); doubles are numbers or
text, JSON is text. The form is that of opentelemetry-proto/docs/specification.md, section JSON
Protobuf Encoding, which the OpenTelemetry Collector's file exporter writes too: lowerCamelCase, ids
in hex, 64-bit integers as text, what has its default left out.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from otelchain_collector.exchange.stored_values import any_value, key_values
from otelchain_collector.signals import LOGS, METRICS, TRACES, Signal

Row = Mapping[str, Any]

_RESOURCE = (
    "resource_attributes",
    "resource_dropped_attributes_count",
    "resource_schema_url",
    "resource_entity_refs",
)
_SCOPE = (
    "scope_name",
    "scope_version",
    "scope_attributes",
    "scope_dropped_attributes_count",
    "scope_schema_url",
)
# What the data points of one metric have in common.
_METRIC = (
    *("name", "description", "unit", "metadata"),
    *("kind", "aggregation_temporality", "is_monotonic"),
)


def request(signal: Signal, rows: Iterable[Row]) -> bytes:
    """Return one Export request with these rows, in their order within each scope."""
    resources: dict[Any, dict[str, Any]] = {}
    scopes: dict[Any, list[Any]] = {}
    metrics: dict[Any, list[Any]] = {}
    for row in rows:
        around = tuple(row[name] for name in _RESOURCE)
        inside = (around, *(row[name] for name in _SCOPE))
        if inside not in scopes:
            scopes[inside] = _add_scope(signal, row, around, resources)
        records = scopes[inside]
        if signal is METRICS:
            metric = (inside, *(row[name] for name in _METRIC))
            if metric not in metrics:
                metrics[metric] = _add_metric(row, records)
            metrics[metric].append(_point(row))
        else:
            records.append(_RECORDS[signal.name](row))
    return orjson.dumps({_RESOURCES[signal.name]: list(resources.values())})


def _add_scope(
    signal: Signal, row: Row, around: Any, resources: dict[Any, dict[str, Any]]
) -> list[Any]:
    scopes = "scope" + signal.name.title() if signal is not TRACES else "scopeSpans"
    if around not in resources:
        resources[around] = _resource(row) | {scopes: []}
    records: list[Any] = []
    entry = _without_defaults(
        {
            "scope": _without_defaults(
                {
                    "name": row["scope_name"],
                    "version": row["scope_version"],
                    "attributes": _attributes(row["scope_attributes"]),
                    "droppedAttributesCount": row["scope_dropped_attributes_count"],
                }
            )
        }
    )
    entry[_RECORDS_NAME[signal.name]] = records
    if row["scope_schema_url"]:
        entry["schemaUrl"] = row["scope_schema_url"]
    resources[around][scopes].append(entry)
    return records


def _resource(row: Row) -> dict[str, Any]:
    refs = row["resource_entity_refs"]
    resource = _without_defaults(
        {
            "attributes": _attributes(row["resource_attributes"]),
            "droppedAttributesCount": row["resource_dropped_attributes_count"],
            "entityRefs": [_entity_ref(each) for each in orjson.loads(refs)] if refs else [],
        }
    )
    return {"resource": resource} | _without_defaults({"schemaUrl": row["resource_schema_url"]})


def _entity_ref(stored: dict[str, Any]) -> dict[str, Any]:
    return {
        "schemaUrl": stored["schema_url"],
        "type": stored["type"],
        "idKeys": stored["id_keys"],
        "descriptionKeys": stored["description_keys"],
    }


def _span(row: Row) -> dict[str, Any]:
    return _without_defaults(
        {
            "traceId": row["trace_id"],
            "spanId": row["span_id"],
            "traceState": row["trace_state"],
            "parentSpanId": row["parent_span_id"],
            "flags": row["flags"],
            "name": row["name"],
            "kind": row["kind"],
            "startTimeUnixNano": _whole(row["start_time_unix_nano"]),
            "endTimeUnixNano": _whole(row["end_time_unix_nano"]),
            "attributes": _attributes(row["attributes"]),
            "droppedAttributesCount": row["dropped_attributes_count"],
            "events": [_event(event) for event in orjson.loads(row["events"])],
            "droppedEventsCount": row["dropped_events_count"],
            "links": [_link(link) for link in orjson.loads(row["links"])],
            "droppedLinksCount": row["dropped_links_count"],
            "status": _without_defaults(
                {"message": row["status_message"], "code": row["status_code"]}
            ),
        }
    )


def _event(stored: dict[str, Any]) -> dict[str, Any]:
    return _without_defaults(
        {
            "timeUnixNano": _whole(stored["time_unix_nano"]),
            "name": stored["name"],
            "attributes": key_values(stored["attributes"]),
            "droppedAttributesCount": stored["dropped_attributes_count"],
        }
    )


def _link(stored: dict[str, Any]) -> dict[str, Any]:
    return _without_defaults(
        {
            "traceId": stored["trace_id"],
            "spanId": stored["span_id"],
            "traceState": stored["trace_state"],
            "attributes": key_values(stored["attributes"]),
            "droppedAttributesCount": stored["dropped_attributes_count"],
            "flags": stored["flags"],
        }
    )


def _log_record(row: Row) -> dict[str, Any]:
    record = _without_defaults(
        {
            "timeUnixNano": _whole(row["time_unix_nano"]),
            "observedTimeUnixNano": _whole(row["observed_time_unix_nano"]),
            "severityNumber": row["severity_number"],
            "severityText": row["severity_text"],
            "attributes": _attributes(row["attributes"]),
            "droppedAttributesCount": row["dropped_attributes_count"],
            "flags": row["flags"],
            "traceId": row["trace_id"],
            "spanId": row["span_id"],
            "eventName": row["event_name"],
        }
    )
    if row["body"] is not None:  # An empty body is another thing than none.
        record["body"] = any_value(orjson.loads(row["body"]))
    return record


def _add_metric(row: Row, records: list[Any]) -> list[Any]:
    points: list[Any] = []
    kind = str(row["kind"])
    first, *others = kind.split("_")
    records.append(
        _without_defaults(
            {
                "name": row["name"],
                "description": row["description"],
                "unit": row["unit"],
                "metadata": _attributes(row["metadata"]),
            }
        )
        | {
            first + "".join(word.title() for word in others): {
                "dataPoints": points,
                **_without_defaults(
                    {
                        "aggregationTemporality": row["aggregation_temporality"],
                        "isMonotonic": row["is_monotonic"],
                    }
                ),
            }
        }
    )
    return points


def _point(row: Row) -> dict[str, Any]:
    point = _without_defaults(
        {
            "attributes": _attributes(row["attributes"]),
            "startTimeUnixNano": _whole(row["start_time_unix_nano"]),
            "timeUnixNano": _whole(row["time_unix_nano"]),
            "flags": row["flags"],
            "exemplars": [_exemplar(each) for each in orjson.loads(row["exemplars"])],
            "explicitBounds": _doubles(row["explicit_bounds"]),
            "bucketCounts": _wholes(row["bucket_counts"]),
            "scale": row["scale"],
            "zeroThreshold": _double(row["zero_threshold"]),
            "quantileValues": _quantiles(row),
        }
    )
    # Zero is another thing than none in these.
    for column, name, write in _MEASURED:
        if row[column] is not None:
            point[name] = write(row[column])
    for side in ("positive", "negative"):
        if row[f"{side}_offset"] is not None:
            counts = _wholes(row[f"{side}_bucket_counts"])
            point[side] = {"offset": row[f"{side}_offset"], "bucketCounts": counts}
    return point


def _exemplar(stored: dict[str, Any]) -> dict[str, Any]:
    exemplar = _without_defaults(
        {
            "filteredAttributes": key_values(stored["filtered_attributes"]),
            "timeUnixNano": _whole(stored["time_unix_nano"]),
            "spanId": stored["span_id"],
            "traceId": stored["trace_id"],
        }
    )
    value = any_value(stored["value"])
    if "intValue" in value:
        exemplar["asInt"] = value["intValue"]
    elif "doubleValue" in value:
        exemplar["asDouble"] = value["doubleValue"]
    return exemplar


def _quantiles(row: Row) -> list[dict[str, Any]]:
    pairs = zip(_doubles(row["quantiles"]), _doubles(row["quantile_values"]), strict=True)
    return [{"quantile": quantile, "value": value} for quantile, value in pairs]


def _attributes(text: str) -> list[dict[str, Any]]:
    return key_values(orjson.loads(text))


def _whole(number: int) -> str | None:
    return str(number) if number else None


def _wholes(numbers: Iterable[int] | None) -> list[str]:
    return [str(number) for number in numbers or ()]


def _double(number: float | str | None) -> float | str | None:
    """Return a double as OTLP/JSON has it: a number, or a word where JSON has none."""
    if number is None:
        return None
    value = float(number)
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _doubles(numbers: Iterable[float | str] | None) -> list[Any]:
    return [_double(number) for number in numbers or ()]


def _without_defaults(message: dict[str, Any]) -> dict[str, Any]:
    # Minus zero is no default, though it equals one.
    return {
        key: value
        for key, value in message.items()
        if value or (isinstance(value, float) and math.copysign(1, value) < 0)
    }


_MEASURED: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("value_double", "asDouble", _double),
    ("value_int", "asInt", str),
    ("count", "count", str),
    ("sum", "sum", _double),
    ("min", "min", _double),
    ("max", "max", _double),
    ("zero_count", "zeroCount", str),
)
_RECORDS: dict[str, Callable[[Row], dict[str, Any]]] = {
    TRACES.name: _span,
    LOGS.name: _log_record,
}
_RESOURCES = {
    TRACES.name: "resourceSpans",
    LOGS.name: "resourceLogs",
    METRICS.name: "resourceMetrics",
}
_RECORDS_NAME = {TRACES.name: "spans", LOGS.name: "logRecords", METRICS.name: "metrics"}
