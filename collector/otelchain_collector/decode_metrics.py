"""Turn an OTLP request for metrics (from a receiver) into rows, one per data point; pure."""

import math
from collections.abc import Callable
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Exemplar,
    ExponentialHistogramDataPoint,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    SummaryDataPoint,
)

from otelchain_collector.anyvalue import NonFinite, attributes_of, to_json
from otelchain_collector.around import Around, BadRecordError, check_time, scopes
from otelchain_collector.content_id import ContentIds
from otelchain_collector.decode import Decoded
from otelchain_collector.rows import MetricPointRow
from otelchain_collector.signals import METRICS


def decode_metrics(request: ExportMetricsServiceRequest, received_time_unix_nano: int) -> Decoded:
    """Read every data point of a request; one that cannot be stored costs no other."""
    decoded = Decoded([], [])
    ids = ContentIds()
    for around, metrics in scopes(request, METRICS, received_time_unix_nano):
        for metric in metrics:
            _decode_points(metric, around, ids, decoded)
    return decoded


def _decode_points(metric: Metric, around: Around, ids: ContentIds, decoded: Decoded) -> None:
    kind = metric.WhichOneof("data")
    if kind is None:  # No data, or of a kind of the future: there are no points to keep.
        return
    described = _described(metric, kind)
    for point in getattr(metric, kind).data_points:
        try:
            decoded.metric_points.append(_row(kind, point, described, around, ids))
        except BadRecordError as error:
            decoded.rejected.append(around.rejected(str(error), b"", b"", metric.name))


def _described(metric: Metric, kind: str) -> tuple[Any, ...]:
    data = getattr(metric, kind)
    return (
        metric.name,
        metric.description,
        metric.unit,
        to_json(attributes_of(metric.metadata)),
        kind,
        getattr(data, "aggregation_temporality", None),
        getattr(data, "is_monotonic", None),
    )


def _row(
    kind: str, point: Any, described: tuple[Any, ...], around: Around, ids: ContentIds
) -> MetricPointRow:
    check_time("start_time_unix_nano", point.start_time_unix_nano)
    check_time("time_unix_nano", point.time_unix_nano)
    values = _VALUES[kind](point)
    columns: tuple[Any, ...] = (
        *described,
        to_json(attributes_of(point.attributes)),
        point.start_time_unix_nano,
        point.time_unix_nano,
        point.flags,
        *(values.get(name) for name in _VALUE_COLUMNS),
        # A summary has none.
        to_json([_exemplar(each) for each in getattr(point, "exemplars", ())]),
        *around.scope_columns,
        *around.resource_columns,
        around.entity_refs,
        around.service_name,
    )
    return MetricPointRow._make((ids.of(columns), *columns, around.received_time_unix_nano))


_VALUE_COLUMNS = MetricPointRow._fields[
    MetricPointRow._fields.index("value_double") : MetricPointRow._fields.index("exemplars")
]


def _number(point: NumberDataPoint) -> dict[str, Any]:
    kind = point.WhichOneof("value")  # None with the flag "no recorded value".
    return {_NUMBERS[kind]: getattr(point, kind)} if kind else {}


_NUMBERS = {"as_double": "value_double", "as_int": "value_int"}


def _histogram(point: HistogramDataPoint) -> dict[str, Any]:
    return {
        "count": point.count,
        **_statistics(point),
        "explicit_bounds": list(point.explicit_bounds),
        "bucket_counts": list(point.bucket_counts),
    }


def _exponential_histogram(point: ExponentialHistogramDataPoint) -> dict[str, Any]:
    values = {
        "count": point.count,
        **_statistics(point),
        "scale": point.scale,
        "zero_count": point.zero_count,
        "zero_threshold": point.zero_threshold,
    }
    for side in ("positive", "negative"):
        if point.HasField(side):
            buckets = getattr(point, side)
            values[f"{side}_offset"] = buckets.offset
            values[f"{side}_bucket_counts"] = list(buckets.bucket_counts)
    return values


def _statistics(point: Any) -> dict[str, Any]:
    return {name: getattr(point, name) for name in ("sum", "min", "max") if point.HasField(name)}


def _summary(point: SummaryDataPoint) -> dict[str, Any]:
    return {
        "count": point.count,
        "sum": point.sum,
        "quantiles": [each.quantile for each in point.quantile_values],
        "quantile_values": [each.value for each in point.quantile_values],
    }


_VALUES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "gauge": _number,
    "sum": _number,
    "histogram": _histogram,
    "exponential_histogram": _exponential_histogram,
    "summary": _summary,
}


def _exemplar(exemplar: Exemplar) -> dict[str, Any]:
    return {
        "filtered_attributes": attributes_of(exemplar.filtered_attributes),
        "time_unix_nano": exemplar.time_unix_nano,
        "value": _exemplar_value(exemplar),
        "span_id": exemplar.span_id.hex(),
        "trace_id": exemplar.trace_id.hex(),
    }


def _exemplar_value(exemplar: Exemplar) -> float | None:
    """Return int or float; JSON text tells them apart by the decimal point."""
    kind = exemplar.WhichOneof("value")
    value: float | None = getattr(exemplar, kind) if kind else None
    return NonFinite(value) if value is not None and not math.isfinite(value) else value
