"""A bad span, log record or data point costs only itself, over every transport."""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector_process import RunningCollector
from otlp_clients import SIGNALS, TRANSPORTS, Answer, json_bytes, rows, send
from otlp_requests import (
    START,
    field,
    log_record,
    logs_request,
    metrics_request,
    point,
    replace_once,
    request,
    span,
    text,
)
from otlp_wire import protobuf_request

Record = Span | LogRecord | NumberDataPoint
every_signal = pytest.mark.parametrize("signal", SIGNALS)
every_transport = pytest.mark.parametrize("transport", TRANSPORTS)

MAKERS: dict[str, Callable[..., Any]] = {"traces": span, "logs": log_record, "metrics": point}
REQUESTS: dict[str, Callable[..., Any]] = {
    "traces": request,
    "logs": logs_request,
    "metrics": metrics_request,
}
TABLES = {"traces": "spans", "logs": "logs", "metrics": "metric_points"}
ATTRIBUTES = {"traces": 9, "logs": 6, "metrics": 7}
TIMES = {"traces": "end_time_unix_nano", "logs": "time_unix_nano", "metrics": "time_unix_nano"}


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    import collector_process

    folder = tmp_path_factory.mktemp("bad")
    # Questions about values of 20 MB want more than a quarter of the default limit.
    memory = ("--memory-limit-bytes", "2147483648")
    collector = collector_process.start(folder / "t.duckdb", folder / "log", *memory)
    yield collector
    collector.kill()


def among_good(signal: str, bad: Record, note: str) -> Any:
    """Return a request with a good record on each side of a bad one, for a service of its own."""
    make = MAKERS[signal]
    return REQUESTS[signal](make(), bad, make(), service=note)


def stored(collector: RunningCollector, signal: str, note: str) -> list[dict[str, Any]]:
    return rows(collector, f"FROM {TABLES[signal]} WHERE service_name = '{note}'")


def reasons(collector: RunningCollector, signal: str, note: str) -> list[str]:
    where = f"WHERE service_name = '{note}' AND signal = '{signal}'"
    return [
        row["reason"] for row in rows(collector, f"SELECT reason FROM rejected_records {where}")
    ]


def assert_rejected_alone(
    collector: RunningCollector, signal: str, note: str, answer: Answer, reason: str
) -> None:
    assert (answer.ok, answer.rejected) == (True, 1), answer
    assert reason in answer.message
    [kept] = reasons(collector, signal, note)
    assert reason in kept
    assert len(stored(collector, signal, note)) == 2


# --- the wire ----------------------------------------------------------------------------------


def deep_protobuf(signal: str, note: str) -> bytes:
    value = AnyValue(string_value="core").SerializeToString()
    for _ in range(1_000):
        value = field(5, field(1, value))  # AnyValue.array_value, ArrayValue.values
    good, bad, last = (MAKERS[signal]().SerializeToString() for _ in range(3))
    bad += field(ATTRIBUTES[signal], field(1, b"deep") + field(2, value))
    return protobuf_request(signal, note, good, bad, last)


def deep_json(signal: str, note: str) -> bytes:
    bad = MAKERS[signal](attributes=[text("deep", "PLACEHOLDER")])
    value = '{"arrayValue":{"values":[' * 1_000 + '{"stringValue":"core"}' + "]}}" * 1_000
    return json_bytes(among_good(signal, bad, note)).replace(
        b'{"stringValue": "PLACEHOLDER"}', value.encode()
    )


def in_transport(signal: str, transport: str, message: Any) -> bytes:
    return json_bytes(message) if transport == "http-json" else bytes(message.SerializeToString())


# --- rejected ----------------------------------------------------------------------------------


@pytest.mark.failure("bad-ids")
@pytest.mark.otlp("ids")
@every_transport
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"trace_id": bytes(16)}, "trace_id is all zero"),
        ({"trace_id": b""}, "trace_id has not 16 bytes"),
        ({"trace_id": b"seven b"}, "trace_id has not 16 bytes"),
        ({"span_id": bytes(8)}, "span_id is all zero"),
        ({"span_id": b"x" * 16}, "span_id has not 8 bytes"),
        ({"parent_span_id": b"abc"}, "parent_span_id has not 8 bytes"),
        ({"start_time_unix_nano": 2**64 - 1}, "start_time_unix_nano is after"),
    ],
)
def test_a_span_with_an_id_or_start_that_is_not_valid(
    fields: dict[str, Any], reason: str, transport: str, collector: RunningCollector
) -> None:
    note = f"{transport} {fields}".replace("'", "")

    answer = send(collector, "traces", transport, among_good("traces", span(**fields), note))

    assert_rejected_alone(collector, "traces", note, answer, reason)


@pytest.mark.failure("times-out-of-range")
@pytest.mark.otlp("times")
@every_transport
@every_signal
@pytest.mark.parametrize("time", [2**63 - 1, 2**63, 2**64 - 1])
def test_a_time_that_the_store_cannot_hold(
    time: int, signal: str, transport: str, collector: RunningCollector
) -> None:
    note = f"{time} {transport}"
    bad = MAKERS[signal](**{TIMES[signal]: time})

    answer = send(collector, signal, transport, among_good(signal, bad, note))

    assert_rejected_alone(collector, signal, note, answer, " is after 2262-04-11")


@pytest.mark.failure("broken-utf-8")
@every_transport
@every_signal
def test_text_that_is_not_utf_8(signal: str, transport: str, collector: RunningCollector) -> None:
    note = f"cut {transport}"
    bad = MAKERS[signal](attributes=[text("k", "PLACEHOLDER")])
    whole = in_transport(signal, transport, among_good(signal, bad, note))
    data = replace_once(whole, b"PLACEHOLDER", b"half \xe4\xb8 cut")

    answer = send(collector, signal, transport, data)

    assert_rejected_alone(collector, signal, note, answer, "not UTF-8")


@every_transport
@every_signal
def test_values_nested_a_thousand_deep(
    signal: str, transport: str, collector: RunningCollector
) -> None:
    note = f"deep {transport}"
    make = deep_json if transport == "http-json" else deep_protobuf

    answer = send(collector, signal, transport, make(signal, note))

    assert_rejected_alone(collector, signal, note, answer, "nested")


@pytest.mark.failure("broken-utf-8")
@every_transport
@every_signal
@pytest.mark.parametrize("part", ["resource", "scope"])
def test_text_that_is_not_utf_8_around_records_costs_those_records_only(
    part: str, signal: str, transport: str, collector: RunningCollector
) -> None:
    note = f"{part} {transport}"
    message = REQUESTS[signal](MAKERS[signal](), MAKERS[signal](), service="lost")
    resource = getattr(message, message.DESCRIPTOR.fields[0].name)[0]
    scope = getattr(resource, resource.DESCRIPTOR.fields[1].name)[0]
    broken = resource.resource if part == "resource" else scope.scope
    broken.attributes.append(text("k", "PLACEHOLDER"))
    message.MergeFrom(REQUESTS[signal](MAKERS[signal](), service=note))
    whole = in_transport(signal, transport, message)

    answer = send(
        collector, signal, transport, replace_once(whole, b"PLACEHOLDER", b"half \xe4\xb8 cut")
    )

    assert (answer.ok, answer.rejected) == (True, 2)
    assert f"'s {part} cannot be decoded" in answer.message
    assert len(stored(collector, signal, note)) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"timeUnixNano": "-1"}, "timeUnixNano is out of range"),
        ({"timeUnixNano": -1}, "timeUnixNano is out of range"),
        ({"timeUnixNano": "18446744073709551616"}, "timeUnixNano is out of range"),
        ({"timeUnixNano": 1e30}, "timeUnixNano is out of range"),
        ({"timeUnixNano": "1969-12-31"}, "timeUnixNano is not an integer"),
        ({"attributes": [{"key": "k", "value": {"intValue": "9223372036854775808"}}]}, "intValue"),
        ({"attributes": [{"key": "k", "value": {"intValue": "-9223372036854775809"}}]}, "intValue"),
        ({"attributes": [{"key": "k", "value": {"intValue": 1.5}}]}, "intValue is not an integer"),
        ({"attributes": [{"key": "k", "value": {"boolValue": "true"}}]}, "boolValue is not true"),
        ({"flags": -1}, "flags is out of range"),
    ],
)
@pytest.mark.parametrize("signal", ["logs", "metrics"])
def test_a_wrong_value_in_json(
    change: dict[str, Any], reason: str, signal: str, collector: RunningCollector
) -> None:
    note = json.dumps(change)[:60]
    tree = json.loads(json_bytes(among_good(signal, MAKERS[signal](), note)))
    if signal == "logs":
        tree["resourceLogs"][0]["scopeLogs"][0]["logRecords"][1].update(change)
    else:
        gauge = tree["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["gauge"]
        gauge["dataPoints"][1].update(change)

    answer = send(collector, signal, "http-json", json.dumps(tree).encode())

    assert_rejected_alone(collector, signal, note, answer, reason)


@pytest.mark.failure("bad-ids")
@pytest.mark.otlp("ids", "json-ids")
@pytest.mark.parametrize(
    ("trace_id", "reason"),
    [
        ("W47/95gDgQPSabYzgT/GDA==", "traceId is not hexadecimal"),
        ("0af76519 16cd43dd8448eb211c80319c", "traceId is not hexadecimal"),
        ("0af7651916cd43dd8448eb211c80319", "traceId is not hexadecimal"),
        ("", "trace_id has not 16 bytes"),
        (7, "traceId is not a string"),
    ],
)
def test_an_id_in_json_that_is_not_valid(
    trace_id: Any, reason: str, collector: RunningCollector
) -> None:
    note = f"id {trace_id}"
    tree = json.loads(json_bytes(among_good("traces", span(), note)))
    tree["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["traceId"] = trace_id

    answer = send(collector, "traces", "http-json", json.dumps(tree).encode())

    assert_rejected_alone(collector, "traces", note, answer, reason)


@every_signal
@pytest.mark.parametrize("record", [7, None, [], "span"])
def test_a_record_in_json_that_is_no_object(
    record: Any, signal: str, collector: RunningCollector
) -> None:
    note = f"no object {record}"
    tree = json.loads(json_bytes(among_good(signal, MAKERS[signal](), note)))
    for entry in _all_objects(tree):
        for key in ("spans", "logRecords", "dataPoints"):
            if key in entry:
                entry[key][1] = record

    answer = send(collector, signal, "http-json", json.dumps(tree).encode())

    assert_rejected_alone(collector, signal, note, answer, "is not an object")


@every_transport
def test_a_metric_of_which_nothing_can_be_read_costs_its_own_points_only(
    transport: str, collector: RunningCollector
) -> None:
    note = f"metric {transport}"
    message = metrics_request(point(), service=note)
    metrics = message.resource_metrics[0].scope_metrics[0].metrics
    metrics.add(name="bad", unit="PLACEHOLDER").gauge.data_points.extend([point(), point()])
    whole = in_transport("metrics", transport, message)

    answer = send(
        collector, "metrics", transport, replace_once(whole, b"PLACEHOLDER", b"half \xe4\xb8 cut")
    )

    assert (answer.ok, answer.rejected) == (True, 2)
    assert len(stored(collector, "metrics", note)) == 1


# --- kept, as it is or changed in one place ----------------------------------------------------


@pytest.mark.failure("huge-attribute")
@every_transport
@every_signal
def test_a_value_of_20_megabytes_is_cut_alone_with_size_and_hash(
    signal: str, transport: str, collector: RunningCollector
) -> None:
    note = f"large {transport}"
    value = "x" + "é" * 9_999_999 + "y"  # the limit is in the middle of a character
    attributes = [text("before", "b"), text("prompt", value), text("after", "a")]
    message = among_good(signal, MAKERS[signal](attributes=attributes), note)

    answer = send(collector, signal, transport, message)

    assert (answer.ok, answer.rejected) == (True, 0)
    found = rows(
        collector,
        "SELECT attributes ->> 'before' AS b, attributes ->> 'after' AS a, "
        "right(attributes ->> 'prompt', 103) AS marker, strlen(attributes ->> 'prompt') AS size "
        f"FROM {TABLES[signal]} WHERE service_name = '{note}' AND attributes::VARCHAR <> '{{}}'",
    )
    digest = hashlib.sha256(value.encode()).hexdigest()
    marker = f"… [cut: 20000000 bytes, sha256 {digest}]"
    assert [(row["b"], row["a"]) for row in found] == [("b", "a")]
    assert found[0]["marker"].endswith(marker)
    assert found[0]["size"] == 8 * 1024 * 1024 - 1 + len(marker.encode())
    assert len(rows(collector, f"FROM {TABLES[signal]} WHERE service_name = '{note}'")) == 3


def test_a_long_value_is_cut_wherever_it_is(start_collector: Any, tmp_path: Any) -> None:
    collector = start_collector(tmp_path / "t.duckdb", "--max-attribute-bytes", "1KiB")
    long = [text("k", "x" * 2_000)]
    sent = span(attributes=long, links=[{"attributes": long}])
    sent.events.add(name="e", attributes=long)
    message = request(sent, span())
    message.resource_spans[0].scope_spans[0].scope.attributes.extend(long)
    message.resource_spans[0].resource.attributes.extend(long)
    record = log_record(body=AnyValue(bytes_value=bytes(2_000)))
    many = [AnyValue(int_value=7)] * 2_000
    measured = point()
    measured.attributes.add(key="k").value.array_value.values.extend(many)

    for transport in TRANSPORTS:
        assert send(collector, "traces", transport, message).rejected == 0
        assert send(collector, "logs", transport, logs_request(record)).rejected == 0
        assert send(collector, "metrics", transport, metrics_request(measured)).rejected == 0

    columns = ("attributes", "events", "links", "scope_attributes", "resource_attributes")
    [row, _] = rows(collector, f"SELECT {', '.join(columns)} FROM spans ORDER BY span_id")
    for column in columns:
        assert json.dumps(row[column]).count("[cut: 2000 bytes, sha256 ") == 1, column
    [logged] = rows(collector, "SELECT body FROM logs")
    assert logged["body"].startswith('{"@bytes":"AAAA')
    assert "[cut: 2681 bytes, sha256 " in logged["body"]
    [point_row] = rows(collector, "SELECT attributes ->> 'k' AS k FROM metric_points")
    assert point_row["k"].startswith("[7,7,7,")
    assert "[cut: 4001 bytes, sha256 " in point_row["k"]
    assert "cut 5 values of more than --max-attribute-bytes" in collector.log.read_text()


@pytest.mark.failure("conflicting-keys")
@pytest.mark.otlp("duplicate-keys")
@every_transport
@every_signal
def test_of_two_equal_keys_the_last_wins(
    signal: str, transport: str, collector: RunningCollector
) -> None:
    note = f"twice {transport}"
    nested = AnyValue()
    nested.kvlist_value.values.extend([text("n", "1"), text("n", "2")])
    attributes = [text("k", "first"), text("k", "last"), KeyValue(key="nested", value=nested)]
    message = REQUESTS[signal](MAKERS[signal](attributes=attributes), service=note)

    assert send(collector, signal, transport, message).rejected == 0

    [row] = stored(collector, signal, note)
    assert row["attributes"] == {"k": "last", "nested": {"n": "2"}}


@pytest.mark.otlp("enums")
@every_transport
def test_enum_numbers_of_the_future_are_kept(transport: str, collector: RunningCollector) -> None:
    note = f"enum {transport}"
    spans = request(span(kind=99, status={"code": 98}), service=note)
    logs = logs_request(log_record(severity_number=97), service=note)
    points = metrics_request(service=note)
    sums = points.resource_metrics[0].scope_metrics[0].metrics.add(name="sum").sum
    sums.aggregation_temporality = 96
    sums.data_points.append(point())

    for signal, message in zip(SIGNALS, (spans, logs, points), strict=True):
        assert send(collector, signal, transport, message).rejected == 0

    [kept_span] = stored(collector, "traces", note)
    assert (kept_span["kind"], kept_span["status_code"]) == (99, 98)
    assert stored(collector, "logs", note)[0]["severity_number"] == 97
    assert stored(collector, "metrics", note)[0]["aggregation_temporality"] == 96


@pytest.mark.otlp("unknown-fields", "json-keys")
@every_transport
@every_signal
def test_fields_of_the_future_are_ignored(
    signal: str, transport: str, collector: RunningCollector
) -> None:
    note = f"future {transport}"
    if transport == "http-json":
        tree = json.loads(json_bytes(REQUESTS[signal](MAKERS[signal](), service=note)))
        for entry in _all_objects(tree):
            entry["ofTheFuture"] = {"deep": [1, {"k": None}]}
            entry["snake_case"] = "ignored"
        data = json.dumps(tree).encode()
    else:
        unknown = b"\xfa\x3e\x03new"  # field 1007, three bytes
        data = (
            protobuf_request(signal, note, MAKERS[signal]().SerializeToString() + unknown) + unknown
        )

    assert send(collector, signal, transport, data).rejected == 0
    assert len(stored(collector, signal, note)) == 1


def _all_objects(tree: Any) -> list[dict[str, Any]]:
    if isinstance(tree, list):
        return [found for each in tree for found in _all_objects(each)]
    if not isinstance(tree, dict):
        return []
    return [tree, *(found for each in list(tree.values()) for found in _all_objects(each))]


@pytest.mark.failure("lone-surrogate")
@every_signal
def test_half_a_surrogate_pair_in_json_becomes_a_replacement_character(
    signal: str, collector: RunningCollector
) -> None:
    note = "surrogate"
    good = MAKERS[signal](attributes=[text("k", "cut PLACEHOLDER")])
    data = json_bytes(among_good(signal, good, note)).replace(b"PLACEHOLDER", rb"\ud83d")

    answer = send(collector, signal, "http-json", data)

    assert (answer.ok, answer.rejected) == (True, 0)
    assert {"k": "cut \ufffd"} in [row["attributes"] for row in stored(collector, signal, note)]


@pytest.mark.otlp("json-int64")
@every_signal
@pytest.mark.parametrize("write", [str, int])
def test_64_bit_integers_in_json_are_text_or_numbers(
    write: Callable[[int], Any], signal: str, collector: RunningCollector
) -> None:
    note = f"written as {write.__name__}"
    value = KeyValue(key="k", value=AnyValue(int_value=2**53 + 1))
    record = MAKERS[signal](attributes=[value], **{TIMES[signal]: START + 2**53 % 1000 + 1})
    tree = json.loads(json_bytes(REQUESTS[signal](record, service=note)))
    for entry in _all_objects(tree):
        for key, number in entry.items():
            if key.endswith("UnixNano") or key == "intValue":
                entry[key] = write(int(number))

    assert send(collector, signal, "http-json", json.dumps(tree).encode()).rejected == 0

    [row] = stored(collector, signal, note)
    assert row["attributes"] == {"k": 2**53 + 1}
    assert row[TIMES[signal]] == START + 2**53 % 1000 + 1


@pytest.mark.otlp("json-ids")
def test_ids_in_json_may_be_written_in_upper_case(collector: RunningCollector) -> None:
    note = "upper case"
    sent = span(span_id=b"\xab\xcd\xef\x01\x02\x03\x04\x05", parent_span_id=b"\xff" * 8)
    tree = json.loads(json_bytes(request(sent, service=note)))
    for entry in _all_objects(tree):
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in entry:
                entry[key] = entry[key].upper()

    assert send(collector, "traces", "http-json", json.dumps(tree).encode()).rejected == 0

    [row] = stored(collector, "traces", note)
    assert (row["span_id"], row["parent_span_id"]) == ("abcdef0102030405", "f" * 16)


@pytest.mark.failure("clock-skew")
@pytest.mark.otlp("times")
@every_transport
def test_an_end_before_the_start_is_kept_as_it_is(
    transport: str, collector: RunningCollector
) -> None:
    note = f"backwards {transport}"

    answer = send(
        collector, "traces", transport, request(span(end_time_unix_nano=START - 5), service=note)
    )

    assert (answer.ok, answer.rejected) == (True, 0)
    assert stored(collector, "traces", note)[0]["end_time_unix_nano"] == START - 5


@every_signal
def test_what_careless_writers_of_json_let_through_is_what_it_says(
    signal: str, collector: RunningCollector
) -> None:
    note = "careless"
    sent = MAKERS[signal](
        attributes=[
            KeyValue(key="n", value=AnyValue(double_value=float("nan"))),
            text("k", "two PLACEHOLDER lines"),
        ]
    )
    data = json_bytes(among_good(signal, sent, note))
    data = data.replace(b'"NaN"', b"NaN").replace(b"PLACEHOLDER", b"\n")

    answer = send(collector, signal, "http-json", data)

    assert (answer.ok, answer.rejected) == (True, 0)
    assert {"n": {"@double": "NaN"}, "k": "two \n lines"} in [
        row["attributes"] for row in stored(collector, signal, note)
    ]
