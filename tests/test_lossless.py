"""Every field that OTLP defines has a column or a reason, and arrives there over every transport.

The fields come from the protocol's own descriptors, so that a new version has to be looked at.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.metrics.v1 import metrics_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from collector_process import RunningCollector
from otlp_clients import SIGNALS, TRANSPORTS, rows, send
from otlp_requests import START, log_record, metrics_request, point, span, text

Place = tuple[str | int, ...]

#: Where each field is stored: a column, and the way into its JSON. The path is that of the messages
#: below the request, without the names of the parts that hold only others.
AROUND: dict[str, Place] = {
    "resource.attributes": ("resource_attributes",),
    "resource.dropped_attributes_count": ("resource_dropped_attributes_count",),
    "resource.entity_refs.schema_url": ("resource_entity_refs", 0, "schema_url"),
    "resource.entity_refs.type": ("resource_entity_refs", 0, "type"),
    "resource.entity_refs.id_keys": ("resource_entity_refs", 0, "id_keys"),
    "resource.entity_refs.description_keys": ("resource_entity_refs", 0, "description_keys"),
    "resource.schema_url": ("resource_schema_url",),
    "scope.name": ("scope_name",),
    "scope.version": ("scope_version",),
    "scope.attributes": ("scope_attributes",),
    "scope.dropped_attributes_count": ("scope_dropped_attributes_count",),
    "scope.schema_url": ("scope_schema_url",),
}
SPAN: dict[str, Place] = {
    **{
        name: (name,)
        for name in (
            *("trace_id", "span_id", "trace_state", "parent_span_id", "flags", "name", "kind"),
            *("start_time_unix_nano", "end_time_unix_nano", "attributes"),
            *("dropped_attributes_count", "dropped_events_count", "dropped_links_count"),
        )
    },
    **{
        f"events.{name}": ("events", 0, name)
        for name in ("time_unix_nano", "name", "attributes", "dropped_attributes_count")
    },
    **{
        f"links.{name}": ("links", 0, name)
        for name in (
            *("trace_id", "span_id", "trace_state", "attributes"),
            *("dropped_attributes_count", "flags"),
        )
    },
    "status.code": ("status_code",),
    "status.message": ("status_message",),
}
LOG: dict[str, Place] = {
    name: (name,)
    for name in (
        *("time_unix_nano", "observed_time_unix_nano", "severity_number", "severity_text", "body"),
        *("attributes", "dropped_attributes_count", "flags", "trace_id", "span_id", "event_name"),
    )
}
_POINT = ("attributes", "start_time_unix_nano", "time_unix_nano", "flags")
_EXEMPLAR: dict[str, Place] = {
    "exemplars.filtered_attributes": ("exemplars", 0, "filtered_attributes"),
    "exemplars.time_unix_nano": ("exemplars", 0, "time_unix_nano"),
    "exemplars.as_double": ("exemplars", 0, "value"),
    "exemplars.as_int": ("exemplars", 0, "value"),
    "exemplars.span_id": ("exemplars", 0, "span_id"),
    "exemplars.trace_id": ("exemplars", 0, "trace_id"),
}
_NUMBER: dict[str, Place] = {
    **{name: (name,) for name in _POINT},
    "as_double": ("value_double",),
    "as_int": ("value_int",),
    **_EXEMPLAR,
}
_STATISTICS = ("count", "sum", "min", "max")
KINDS: dict[str, dict[str, Place]] = {
    "gauge": _NUMBER,
    "sum": _NUMBER,
    "histogram": {
        **{name: (name,) for name in (*_POINT, *_STATISTICS, "bucket_counts", "explicit_bounds")},
        **_EXEMPLAR,
    },
    "exponential_histogram": {
        **{
            name: (name,)
            for name in (*_POINT, *_STATISTICS, "scale", "zero_count", "zero_threshold")
        },
        "positive.offset": ("positive_offset",),
        "positive.bucket_counts": ("positive_bucket_counts",),
        "negative.offset": ("negative_offset",),
        "negative.bucket_counts": ("negative_bucket_counts",),
        **_EXEMPLAR,
    },
    "summary": {
        **{name: (name,) for name in (*_POINT, "count", "sum")},
        "quantile_values.quantile": ("quantiles", 0),
        "quantile_values.value": ("quantile_values", 0),
    },
}
METRIC: dict[str, Place] = {
    **{name: (name,) for name in ("name", "description", "unit", "metadata")},
    **{
        f"{kind}.data_points.{path}": place
        for kind, places in KINDS.items()
        for path, place in places.items()
    },
    **{
        f"{kind}.aggregation_temporality": ("aggregation_temporality",)
        for kind in ("sum", "histogram", "exponential_histogram")
    },
    "sum.is_monotonic": ("is_monotonic",),
}
PLACES = {
    "traces": {**AROUND, **SPAN},
    "logs": {**AROUND, **LOG},
    "metrics": {**AROUND, **METRIC},
}
#: Fields of the protocol that are not walked below, and why nothing is missing for them.
REASONS = {
    "AnyValue": "every kind of it is one test here and in test_anyvalue.py",
    "ArrayValue": "part of AnyValue",
    "KeyValueList": "part of AnyValue",
    "KeyValue": "part of AnyValue; key_strindex is for profiles, common.proto: treat as empty",
    "TracesData": "what files hold; the request has the same field",
    "LogsData": "what files hold; the request has the same field",
    "MetricsData": "what files hold; the request has the same field",
}
REQUESTS: dict[str, Any] = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}
TABLES = {"traces": "spans", "logs": "logs", "metrics": "metric_points"}
#: Messages that only hold others, by the word of AROUND that stands for them.
_PARTS = {
    "resource_spans": "resource",
    "resource_logs": "resource",
    "resource_metrics": "resource",
    "scope_spans": "scope",
    "scope_logs": "scope",
    "scope_metrics": "scope",
    "spans": "",
    "log_records": "",
    "metrics": "",
}
_IDS = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}


class Filler:
    """Sets every field of a message to a value of its own, and notes what should be stored.

    Of a oneof it sets the alternative with the number ``turn``.
    """

    def __init__(self, turn: int) -> None:
        self.turn = turn
        self.expected: dict[str, Any] = {}
        self._numbers = itertools.count(1)

    def fill(self, message: Any, path: str = "") -> Any:
        for field in self._fields(message.DESCRIPTOR):
            self._set(message, field, _join(path, field.name))
        return message

    def _fields(self, descriptor: Descriptor) -> list[FieldDescriptor]:
        fields = []
        for field in descriptor.fields:
            oneof = field.containing_oneof
            chosen = oneof.fields[self.turn % len(oneof.fields)] if oneof else field
            if chosen is field:
                fields.append(field)
        return fields

    def _set(self, message: Any, field: FieldDescriptor, path: str) -> None:
        kind = field.message_type and field.message_type.name
        if kind == "KeyValue":
            getattr(message, field.name).append(text(path, path))
            self.expected[path] = {path: path}
        elif kind == "AnyValue":
            getattr(message, field.name).string_value = path
            self.expected[path] = path
        elif kind:
            inner = getattr(message, field.name)
            self.fill(inner.add() if field.is_repeated else inner, path)
        else:
            value = self._value(field, path)
            if field.is_repeated:
                getattr(message, field.name).append(value)
                value = [value]
            else:
                setattr(message, field.name, value)
            self.expected[path] = value.hex() if isinstance(value, bytes) else value

    def _value(self, field: FieldDescriptor, path: str) -> Any:
        number = next(self._numbers)
        if field.name in _IDS:
            return number.to_bytes(_IDS[field.name], "big")
        if field.name.endswith("time_unix_nano"):
            return START + number
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            return path
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            return 2
        if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            return True
        return number + 0.5 if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE else number


def _join(path: str, name: str) -> str:
    if name in _PARTS and "." not in path:
        return _PARTS[name]
    if (path, name) in (("resource", "resource"), ("scope", "scope")):
        return path
    return f"{path}.{name}" if path else name


def _paths(descriptor: Descriptor, path: str = "") -> Iterator[str]:
    for field in descriptor.fields:
        inner = _join(path, field.name)
        if field.message_type is None or field.message_type.name in ("KeyValue", "AnyValue"):
            yield inner
        else:
            yield from _paths(field.message_type, inner)


def _found(row: dict[str, Any], place: Place) -> Any:
    value: Any = row
    for step in place:
        value = value[step]
    return value


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    import collector_process

    folder = tmp_path_factory.mktemp("lossless")
    collector = collector_process.start(folder / "t.duckdb", folder / "log")
    yield collector
    collector.kill()


@pytest.mark.otlp("every-field")
@pytest.mark.parametrize("signal", SIGNALS)
def test_every_field_of_a_request_has_a_place(signal: str) -> None:
    assert set(_paths(REQUESTS[signal].DESCRIPTOR)) == set(PLACES[signal])


def test_every_message_of_the_protocol_is_walked_or_has_a_reason() -> None:
    walked = set()

    def walk(descriptor: Descriptor) -> None:
        if descriptor.name not in REASONS:
            walked.add(descriptor.name)
            for field in descriptor.fields:
                if field.message_type is not None:
                    walk(field.message_type)

    for request in REQUESTS.values():
        walk(request.DESCRIPTOR)

    files = (common_pb2, resource_pb2, trace_pb2, logs_pb2, metrics_pb2)
    defined = {name for file in files for name in file.DESCRIPTOR.message_types_by_name}
    assert defined - walked == set(REASONS)
    assert {field.name for field in common_pb2.KeyValue.DESCRIPTOR.fields} == {
        *("key", "value", "key_strindex"),
    }
    assert {field.name for field in common_pb2.AnyValue.DESCRIPTOR.fields} == {
        *("string_value", "bool_value", "int_value", "double_value", "array_value"),
        *("kvlist_value", "bytes_value", "string_value_strindex"),
    }


@pytest.mark.otlp("every-field")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("signal", SIGNALS)
def test_every_field_arrives_in_its_place(
    signal: str, transport: str, collector: RunningCollector
) -> None:
    seen = set()
    # Every kind of metric with every kind of number.
    for turn in range(2 * len(KINDS) if signal == "metrics" else 1):
        filler = Filler(turn)
        message = filler.fill(REQUESTS[signal]())
        # What differs makes the row another one than that of another transport.
        note = f"{transport} {turn}"
        getattr(message, message.DESCRIPTOR.fields[0].name)[0].schema_url = note
        filler.expected["resource.schema_url"] = note
        _give_ids_of_their_own(message, filler, f"{transport}{turn}")

        assert send(collector, signal, transport, message).rejected == 0

        [row] = rows(
            collector, f"SELECT * FROM {TABLES[signal]} WHERE resource_schema_url = '{note}'"
        )
        for path, value in filler.expected.items():
            assert _found(row, PLACES[signal][path]) == value, path
        seen |= filler.expected.keys()
    assert seen == set(PLACES[signal])


def _give_ids_of_their_own(message: Any, filler: Filler, note: str) -> None:
    if isinstance(message, ExportTraceServiceRequest):
        trace_id = note.encode().ljust(16)[:16]
        message.resource_spans[0].scope_spans[0].spans[0].trace_id = trace_id
        filler.expected["trace_id"] = trace_id.hex()


#: Name, value, and the JSON that collector/README.md promises.
VALUES: list[tuple[str, AnyValue, str]] = [
    (
        "text",
        AnyValue(string_value="h\u00e9 \U0001f600 \0 \u2028"),
        '"h\u00e9 \U0001f600 \\u0000 \u2028"',
    ),
    ("no text", AnyValue(string_value=""), '""'),
    ("true", AnyValue(bool_value=True), "true"),
    ("false", AnyValue(bool_value=False), "false"),
    ("zero", AnyValue(int_value=0), "0"),
    ("largest int64", AnyValue(int_value=2**63 - 1), "9223372036854775807"),
    ("smallest int64", AnyValue(int_value=-(2**63)), "-9223372036854775808"),
    ("beyond doubles", AnyValue(int_value=2**53 + 1), "9007199254740993"),
    ("a double", AnyValue(double_value=1.0), "1.0"),
    ("minus zero", AnyValue(double_value=-0.0), "-0.0"),
    ("smallest double", AnyValue(double_value=5e-324), "5e-324"),
    ("largest double", AnyValue(double_value=1.7976931348623157e308), "1.7976931348623157e+308"),
    ("NaN", AnyValue(double_value=math.nan), '{"@double":"NaN"}'),
    ("infinity", AnyValue(double_value=math.inf), '{"@double":"Infinity"}'),
    ("minus infinity", AnyValue(double_value=-math.inf), '{"@double":"-Infinity"}'),
    ("bytes", AnyValue(bytes_value=b"\x00\xff"), '{"@bytes":"AP8="}'),
    ("no bytes", AnyValue(bytes_value=b""), '{"@bytes":""}'),
    ("empty", AnyValue(), "null"),
    ("empty array", AnyValue(array_value=ArrayValue()), "[]"),
    ("empty list", AnyValue(kvlist_value=KeyValueList()), "{}"),
    (
        "nested",
        AnyValue(
            array_value=ArrayValue(
                values=[
                    AnyValue(),
                    AnyValue(int_value=1),
                    AnyValue(double_value=math.nan),
                    AnyValue(
                        kvlist_value=KeyValueList(
                            values=[
                                KeyValue(key="@bytes", value=AnyValue(bytes_value=b"x")),
                                KeyValue(key="a.b", value=AnyValue(bool_value=True)),
                                KeyValue(key="", value=AnyValue()),
                            ]
                        )
                    ),
                ]
            )
        ),
        '[null,1,{"@double":"NaN"},{"@@bytes":{"@bytes":"eA=="},"a.b":true,"":null}]',
    ),
]


def _with_every_value(signal: str) -> Any:
    """Return a request with every value wherever an AnyValue can be."""
    attributes = [KeyValue(key=name, value=value) for name, value, _ in VALUES]
    message = REQUESTS[signal]()
    resource = getattr(message, message.DESCRIPTOR.fields[0].name).add()
    resource.resource.attributes.extend(attributes)
    scope = getattr(resource, resource.DESCRIPTOR.fields[1].name).add()
    scope.scope.attributes.extend(attributes)
    record = getattr(scope, scope.DESCRIPTOR.fields[1].name).add()
    if signal == "traces":
        record.CopyFrom(span(attributes=attributes))
        record.events.add().attributes.extend(attributes)
        record.links.add().attributes.extend(attributes)
    elif signal == "logs":
        record.CopyFrom(log_record(attributes=attributes))
        record.body.kvlist_value.values.extend(attributes)
    else:
        record.name = "values"
        record.metadata.extend(attributes)
        record.gauge.data_points.add(attributes=attributes)
        record.gauge.data_points[0].exemplars.add().filtered_attributes.extend(attributes)
    return message


@pytest.mark.failure("lost-value-types")
@pytest.mark.otlp("every-value", "json-doubles")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("signal", SIGNALS)
def test_every_kind_of_value_arrives_exactly_wherever_it_can_be(
    signal: str, transport: str, collector: RunningCollector
) -> None:
    message = _with_every_value(signal)
    getattr(message, message.DESCRIPTOR.fields[0].name)[0].schema_url = f"values {transport}"

    assert send(collector, signal, transport, message).rejected == 0

    columns = {
        "traces": ("attributes", "events", "links"),
        "logs": ("attributes", "body"),
        "metrics": ("attributes", "metadata", "exemplars"),
    }[signal]
    table = f"FROM {TABLES[signal]} WHERE resource_schema_url = 'values {transport}'"
    for column in ("resource_attributes", "scope_attributes", *columns):
        # As text, because reading JSON would not tell 1 from 1.0, nor duplicate keys.
        [row] = rows(collector, f"SELECT {column}::VARCHAR AS found {table}")
        expected = ",".join(f'"{name}":{written}' for name, _, written in VALUES)
        assert row["found"].count("{" + expected + "}") == 1, column


@pytest.mark.otlp("json-doubles")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e300])
def test_a_measured_double_arrives_exactly(
    number: float, transport: str, collector: RunningCollector
) -> None:
    sent = point(as_double=number)

    assert send(collector, "metrics", transport, metrics_request(sent)).rejected == 0

    [row] = rows(
        collector,
        "SELECT value_double::VARCHAR AS found, value_int FROM metric_points "
        f"WHERE name = 'load' AND time_unix_nano = {sent.time_unix_nano}",
    )
    assert row["value_int"] is None
    found = float(row["found"])
    assert (math.isnan(found), math.copysign(1, found)) == (
        math.isnan(number),
        math.copysign(1, number) if not math.isnan(number) else math.copysign(1, found),
    )
    assert found == number or math.isnan(number)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_count_beyond_int64_arrives_exactly(transport: str, collector: RunningCollector) -> None:
    sent = metrics_request()
    histogram = sent.resource_metrics[0].scope_metrics[0].metrics.add(name=f"large {transport}")
    histogram.histogram.data_points.add(
        count=2**64 - 1, bucket_counts=[0, 2**64 - 1], explicit_bounds=[0.0]
    )

    assert send(collector, "metrics", transport, sent).rejected == 0

    [row] = rows(collector, f"SELECT * FROM metric_points WHERE name = 'large {transport}'")
    assert (row["count"], row["bucket_counts"]) == (2**64 - 1, [0, 2**64 - 1])
    # What it does not have is told apart from a zero.
    assert (row["sum"], row["min"], row["max"]) == (None, None, None)
