"""A number that its field cannot hold costs its own record, in every numeric field of OTLP/JSON.

The fields are those of the protobuf descriptors; which number fits which is worked out by hand from
opentelemetry-proto/docs/specification.md (JSON Protobuf Encoding) and the ranges of the types.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

import collector_process
from collector_process import RunningCollector
from otelchain_collector.otlp_fields import _is_repeated
from otelchain_collector.otlp_json import parse_json
from otelchain_collector.signals import LOGS, METRIC_KINDS, METRICS, SIGNALS, TRACES, Signal
from otlp_clients import JSON, rows, send_http
from otlp_requests import START

INT32, INT64, UINT32, UINT64, DOUBLE, ENUM = "int32", "int64", "uint32", "uint64", "double", "enum"
TYPES = {
    FieldDescriptor.CPPTYPE_INT32: INT32,
    FieldDescriptor.CPPTYPE_INT64: INT64,
    FieldDescriptor.CPPTYPE_UINT32: UINT32,
    FieldDescriptor.CPPTYPE_UINT64: UINT64,
    FieldDescriptor.CPPTYPE_DOUBLE: DOUBLE,
    FieldDescriptor.CPPTYPE_ENUM: ENUM,
}
INTEGERS = {INT32, INT64, UINT32, UINT64}
#: A number as it is written in JSON, and the types that can hold it.
NUMBERS: dict[str, set[str]] = {
    "1": {*INTEGERS, DOUBLE, ENUM},
    '"1"': {*INTEGERS, DOUBLE},
    "3.0": {*INTEGERS, DOUBLE},
    "-1": {INT32, INT64, DOUBLE, ENUM},
    '"-1"': {INT32, INT64, DOUBLE},
    "1.5": {DOUBLE},
    '"1.5"': {DOUBLE},
    "2147483648": {INT64, UINT32, UINT64, DOUBLE},
    '"-2147483649"': {INT64, DOUBLE},
    "4294967296": {INT64, UINT64, DOUBLE},
    "9223372036854775808": {UINT64, DOUBLE},
    '"9223372036854775808"': {UINT64, DOUBLE},
    '"-9223372036854775809"': {DOUBLE},
    "18446744073709551616": {DOUBLE},
    '"18446744073709551616"': {DOUBLE},
    '"99999999999999999999"': {DOUBLE},
    "1e300": {DOUBLE},
    "1" * 300: {DOUBLE},
    "NaN": {DOUBLE},
    "-Infinity": {DOUBLE},
    '"Infinity"': {DOUBLE},
    "1e400": set(),
    "-1e400": set(),
    '"1e400"': set(),
    "1" * 400: set(),
    "1" * 5_000: set(),
    "-" + "1" * 5_000: set(),
    f'"{"1" * 5_000}"': set(),
    f"0.{'1' * 5_000}": {DOUBLE},
    "true": set(),
    '"many"': set(),
    '""': set(),
    '"\\u0661"': set(),
    "{}": set(),
    "[]": set(),
    "[1]": set(),
}


class Field(NamedTuple):
    """A numeric field: the keys that lead to it, each with whether it is repeated; its type."""

    path: tuple[tuple[str, bool], ...]
    type: str

    def __str__(self) -> str:
        return ".".join(key for key, _ in self.path)


def numeric_fields(
    descriptor: Descriptor, without: str = "", above: tuple[Descriptor, ...] = ()
) -> Iterator[Field]:
    """Walk a message; values inside values, which never end, once."""
    for field in descriptor.fields:
        step = (field.json_name, _is_repeated(field))
        if field.json_name == without:
            continue
        if field.message_type is None:
            if field.cpp_type in TYPES:
                yield Field((step,), TYPES[field.cpp_type])
        elif field.message_type not in above:
            for path, kind in numeric_fields(field.message_type, above=(*above, descriptor)):
                yield Field((step, *path), kind)


def json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)


TRACE_ID = "0123456789abcdef" * 2
RECORD: dict[str, Any] = {
    "traces": {
        "traceId": TRACE_ID,
        "startTimeUnixNano": str(START),
        "endTimeUnixNano": str(START + 1),
    },
    "logs": {"timeUnixNano": str(START)},
    "metrics": {"name": "m"},
}
POINT = {"timeUnixNano": str(START)}
GOOD: dict[str, Any] = {
    "traces": {"name": "good"},
    "logs": {"body": {"stringValue": "good"}},
    "metrics": {"name": "good", "gauge": {"dataPoints": [{**POINT, "asInt": "3"}]}},
}


def record_fields(signal: Signal) -> list[Field]:
    descriptor = signal.request.DESCRIPTOR
    for name in (signal.resources, signal.scopes, signal.records):
        descriptor = descriptor.fields_by_name[name].message_type
    return list(numeric_fields(descriptor))


def fields_around(signal: Signal) -> list[Field]:
    resource = signal.request.DESCRIPTOR.fields_by_name[signal.resources].message_type
    scope = resource.fields_by_name[signal.scopes].message_type
    return [
        *numeric_fields(resource, without=json_name(signal.scopes)),
        *(
            Field(((json_name(signal.scopes), True), *path), kind)
            for path, kind in numeric_fields(scope, without=json_name(signal.records))
        ),
    ]


def holder(signal: Signal, field: Field) -> dict[str, Any]:
    """Return a record, or what is around records, that has PLACEHOLDER in a field."""
    tree: Any = "PLACEHOLDER"
    for key, repeated in reversed(field.path):
        tree = {key: [tree] if repeated else tree}
    if signal is METRICS and field.path[0][0] in METRIC_KINDS_JSON and len(field.path) > 2:
        [point] = tree[field.path[0][0]]["dataPoints"]
        tree[field.path[0][0]]["dataPoints"] = [{**POINT, **point}]
    return tree


METRIC_KINDS_JSON = {json_name(kind) for kind in METRIC_KINDS}


def good(signal: Signal, number: int) -> dict[str, Any]:
    ids = {"spanId": f"{number:016x}"} if signal is TRACES else {}
    times = {"timeUnixNano": str(START + number)} if signal is LOGS else {}
    return {**RECORD[signal.name], **ids, **times, **GOOD[signal.name]}


def resource(signal: Signal, service: str, *records: Any, **fields: Any) -> dict[str, Any]:
    attribute = {"key": "service.name", "value": {"stringValue": service}}
    scope = {json_name(signal.records): list(records)}
    return {"resource": {"attributes": [attribute]}, json_name(signal.scopes): [scope], **fields}


def body(signal: Signal, resources: list[Any], numbers: list[str]) -> bytes:
    text = json.dumps({json_name(signal.resources): resources})
    for number in numbers:
        text = text.replace('"PLACEHOLDER"', number, 1)
    return text.encode()


def with_bad_records(signal: Signal, field: Field, service: str, numbers: list[str]) -> bytes:
    """Return a request with a good record before and after one for each number."""
    bad = [
        {
            **RECORD[signal.name],
            **({"spanId": f"{number + 9:016x}"} if signal is TRACES else {}),
            **holder(signal, field),
        }
        for number in range(len(numbers))
    ]
    records = [good(signal, 1), *bad, good(signal, 2)]
    return body(signal, [resource(signal, service, *records)], numbers)


def with_bad_around(signal: Signal, field: Field, service: str, numbers: list[str]) -> bytes:
    """Return a request with a good resource before and after one for each number."""
    bad = []
    for number in range(len(numbers)):
        held = holder(signal, field)
        entry = resource(signal, "bad", good(signal, number + 9))
        if json_name(signal.scopes) in held:
            entry[json_name(signal.scopes)][0] |= held[json_name(signal.scopes)][0]
        else:
            entry |= held
        bad.append(entry)
    first, last = (resource(signal, service, good(signal, number)) for number in (1, 2))
    return body(signal, [first, *bad, last], numbers)


EVERY = [
    pytest.param(signal, field, with_bad, id=f"{signal.name} {field}")
    for signal in SIGNALS
    for fields, with_bad in (
        (record_fields(signal), with_bad_records),
        (fields_around(signal), with_bad_around),
    )
    for field in fields
]
every_field = pytest.mark.parametrize(("signal", "field", "with_bad"), EVERY)


def test_the_walk_finds_fields_of_every_kind() -> None:
    found = {str(each.values[1]) for each in EVERY}

    assert {
        "kind",
        "events.attributes.value.intValue",
        "severityNumber",
        "histogram.dataPoints.bucketCounts",
        "histogram.dataPoints.explicitBounds",
        "exponentialHistogram.dataPoints.positive.bucketCounts",
        "summary.dataPoints.quantileValues.quantile",
        "gauge.dataPoints.exemplars.asDouble",
        "sum.aggregationTemporality",
        "resource.droppedAttributesCount",
        "scopeSpans.scope.attributes.value.doubleValue",
    } <= found


@every_field
def test_a_number_is_read_where_its_type_can_hold_it_and_else_rejected_alone(
    signal: Signal, field: Field, with_bad: Any
) -> None:
    numbers = [*NUMBERS, "null"]
    # null means that a field is not set; in a list it stands for nothing.
    fits = [field.type in NUMBERS[number] for number in NUMBERS] + [not field.path[-1][1]]

    # One at a time, and all in one request, which orjson does not read.
    found = []
    for number in numbers:
        request = parse_json(signal, with_bad(signal, field, "s", [number]), START)
        assert str(request.message).count('"good"') >= 2
        assert len(request.unreadable) <= 1
        found.append(request.unreadable == [])
    together = parse_json(signal, with_bad(signal, field, "s", numbers), START)

    assert dict(zip(numbers, found, strict=True)) == dict(zip(numbers, fits, strict=True))
    assert len(together.unreadable) == fits.count(False)
    for rejected in together.unreadable:
        assert len(rejected.reason) < 200
        assert "int_max" not in rejected.reason


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    folder = tmp_path_factory.mktemp("numbers")
    collector = collector_process.start(folder / "t.duckdb", folder / "log")
    yield collector
    collector.kill()


STORED_GOOD = {
    "traces": "spans WHERE name = 'good'",
    "logs": "logs WHERE CAST(body AS VARCHAR) = '\"good\"'",
    "metrics": "metric_points WHERE name = 'good'",
}


@every_field
def test_a_request_with_every_number_is_taken_and_its_good_records_stored(
    signal: Signal, field: Field, with_bad: Any, collector: RunningCollector
) -> None:
    service = f"{signal.name} {field}"

    body = with_bad(signal, field, service, [*NUMBERS, "null"])
    # The store keeps a span once.
    body = body.replace(TRACE_ID.encode(), hashlib.md5(service.encode()).hexdigest().encode())

    answer = send_http(collector, signal.name, JSON, body)

    assert answer.ok, answer
    where = f"service_name = '{service}'"
    assert len(rows(collector, f"FROM {STORED_GOOD[signal.name]} AND {where}")) == 2
