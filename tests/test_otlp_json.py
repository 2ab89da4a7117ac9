"""OTLP/JSON by opentelemetry-proto/docs/specification.md, section JSON Protobuf Encoding."""

import json
import math
from typing import Any

import pytest

from otelchain_collector.anyvalue import to_json, value_of
from otelchain_collector.otlp_json import parse_json
from otelchain_collector.otlp_request import MalformedRequestError, OtlpRequest
from otelchain_collector.signals import TRACES
from otlp_requests import START, TRACE_ID

RECEIVED = START + 5


def document(*spans: Any) -> dict[str, Any]:
    service = {"key": "service.name", "value": {"stringValue": "shop"}}
    scope_spans = {"scope": {"name": "js"}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": {"attributes": [service]}, "scopeSpans": [scope_spans]}]}


def json_span(**fields: Any) -> dict[str, Any]:
    return {
        "traceId": TRACE_ID.hex(),
        "spanId": "00f067aa0ba902b7",
        "name": "step",
        "startTimeUnixNano": str(START),
        "endTimeUnixNano": str(START + 1),
        **fields,
    }


def parse(body: Any) -> OtlpRequest:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_json(TRACES, data, RECEIVED)


def parsed_spans(request: OtlpRequest) -> Any:
    return request.message.resource_spans[0].scope_spans[0].spans


def test_the_example_of_the_specification_is_read() -> None:
    # https://github.com/open-telemetry/opentelemetry-proto/blob/main/examples/trace.json
    body = b"""{
      "resourceSpans": [{
        "resource": {"attributes": [
          {"key": "service.name", "value": {"stringValue": "my.service"}}]},
        "scopeSpans": [{
          "scope": {"name": "my.library", "version": "1.0.0", "attributes": [
            {"key": "my.scope.attribute", "value": {"stringValue": "some scope attribute"}}]},
          "spans": [{
            "traceId": "5B8EFFF798038103D269B633813FC60C",
            "spanId": "EEE19B7EC3C1B174",
            "parentSpanId": "EEE19B7EC3C1B173",
            "name": "I'm a server span",
            "startTimeUnixNano": "1544712660000000000",
            "endTimeUnixNano": "1544712661000000000",
            "kind": 2,
            "attributes": [{"key": "my.span.attr", "value": {"stringValue": "some value"}}]
          }]
        }]
      }]
    }"""

    [span] = parsed_spans(parse(body))

    assert span.trace_id.hex() == "5b8efff798038103d269b633813fc60c"
    assert span.span_id.hex() == "eee19b7ec3c1b174"
    assert span.parent_span_id.hex() == "eee19b7ec3c1b173"
    assert span.name == "I'm a server span"
    assert span.start_time_unix_nano == 1544712660000000000
    assert span.end_time_unix_nano == 1544712661000000000
    assert span.kind == 2
    assert span.attributes[0].key == "my.span.attr"


def test_64_bit_integers_come_as_text_or_number() -> None:
    [span] = parsed_spans(
        parse(document(json_span(startTimeUnixNano=START, endTimeUnixNano=str(2**64 - 1))))
    )

    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (START, 2**64 - 1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": "x"}, '"x"'),
        ({"stringValue": ""}, '""'),
        ({"boolValue": False}, "false"),
        ({"intValue": "-9223372036854775808"}, "-9223372036854775808"),
        ({"intValue": 7}, "7"),
        ({"doubleValue": 1}, "1.0"),
        ({"doubleValue": "1.5e3"}, "1500.0"),
        ({"doubleValue": "NaN"}, '{"@double":"NaN"}'),
        ({"doubleValue": "-Infinity"}, '{"@double":"-Infinity"}'),
        ({"bytesValue": "AP8="}, '{"@bytes":"AP8="}'),
        ({"bytesValue": "-_8"}, '{"@bytes":"+/8="}'),
        ({"arrayValue": {"values": [{"intValue": 1}, {}]}}, "[1,null]"),
        ({"arrayValue": {}}, "[]"),
        ({"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": True}}]}}, '{"k":true}'),
        ({"kvlistValue": {}}, "{}"),
        ({}, "null"),
        ({"stringValue": None}, "null"),
        ({"ofTheFuture": 1}, "null"),
    ],
)
def test_every_kind_of_value_is_read(value: Any, expected: str) -> None:
    request = parse(document(json_span(attributes=[{"key": "k", "value": value}])))

    [attribute] = parsed_spans(request)[0].attributes
    assert to_json(value_of(attribute.value)) == expected


def test_unknown_keys_and_snake_case_are_ignored() -> None:
    request = parse(
        {**document(json_span(trace_state="ignored", future={"a": [1]})), "resource_spans": [{}]}
    )

    [span] = parsed_spans(request)
    assert span.trace_state == ""


def test_null_means_not_set() -> None:
    [span] = parsed_spans(parse(document(json_span(attributes=None, status=None, kind=None))))

    assert (len(span.attributes), span.kind) == (0, 0)


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    body = json.dumps(document(json_span(name="cut \ud83d"))).encode()
    assert b"\\ud83d" in body

    [span] = parsed_spans(parse(body))

    assert span.name == "cut \ufffd"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kind": "SPAN_KIND_SERVER"}, "kind is not an integer"),
        ({"kind": True}, "kind is not an integer"),
        ({"traceId": "W47/95gDgQPSabYzgT/GDA=="}, "traceId is not hexadecimal"),
        ({"spanId": 12}, "spanId is not a string"),
        ({"startTimeUnixNano": "soon"}, "startTimeUnixNano is not an integer"),
        ({"startTimeUnixNano": "1_000"}, "startTimeUnixNano is not an integer"),
        ({"startTimeUnixNano": -1}, "startTimeUnixNano is out of range"),
        ({"flags": 2**32}, "flags is out of range"),
        ({"kind": 2**40}, "kind is out of range"),
        ({"name": ["x"]}, "name is not a string"),
        ({"attributes": {"k": "v"}}, "attributes is not an array"),
        ({"attributes": ["k"]}, "attributes is not an object"),
        ({"status": "error"}, "status is not an object"),
        (
            {"attributes": [{"key": "k", "value": {"doubleValue": "much"}}]},
            "doubleValue is not a number",
        ),
        (
            {"attributes": [{"key": "k", "value": {"boolValue": 1}}]},
            "boolValue is not true or false",
        ),
        ({"attributes": [{"key": "k", "value": {"bytesValue": "%"}}]}, "bytesValue is not base64"),
    ],
)
def test_a_span_with_a_wrong_value_is_rejected_alone(fields: dict[str, Any], reason: str) -> None:
    request = parse(document(json_span(name="first"), json_span(**fields), json_span(name="last")))

    assert [span.name for span in parsed_spans(request)] == ["first", "last"]
    [rejected] = request.unreadable
    assert rejected.reason == reason
    assert rejected.service_name == "shop"


def test_a_span_nested_too_deep_is_rejected_alone() -> None:
    value: dict[str, Any] = {"stringValue": "core"}
    for _ in range(150):
        value = {"arrayValue": {"values": [value]}}
    request = parse(
        document(json_span(attributes=[{"key": "k", "value": value}]), json_span(name="last"))
    )

    assert [span.name for span in parsed_spans(request)] == ["last"]
    assert "nested more than 100 messages deep" in request.unreadable[0].reason


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b"[]", "the body is not an object"),
        (b'{"resourceSpans": 1}', "resourceSpans is not an array"),
        (b'{"resourceSpans": [1]}', "resourceSpans is not an object"),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": {}}]}]}', "spans is not an array"),
        (b'{"resourceSpans": [NaN]}', "resourceSpans is not an object"),
        (b"\xff\xfe", "the body is not JSON"),
        (b"[" * 100_000, "not JSON: more than 400 brackets are never closed"),
        (b"\xef\xbb\xbf{}", "not JSON: it starts with a byte order mark"),
    ],
)
def test_a_body_of_another_form_is_malformed(body: bytes, message: str) -> None:
    with pytest.raises(MalformedRequestError, match=message):
        parse(body)


@pytest.mark.parametrize("body", [b"{}", b'{"resourceSpans": []}', b'{"resourceSpans": null}'])
def test_an_empty_request_has_no_spans(body: bytes) -> None:
    assert len(parse(body).message.resource_spans) == 0


def test_an_infinite_number_in_text_is_infinite() -> None:
    value = {"doubleValue": "Infinity"}
    request = parse(document(json_span(attributes=[{"key": "k", "value": value}])))

    assert parsed_spans(request)[0].attributes[0].value.double_value == math.inf


@pytest.mark.parametrize("part", ["resource", "scope"])
def test_a_wrong_value_around_spans_costs_those_spans_only(part: str) -> None:
    broken, good = document(json_span(name="lost")), document(json_span(name="kept"))
    place = broken["resourceSpans"][0]
    if part == "scope":
        place = place["scopeSpans"][0]
    place[part] = {"droppedAttributesCount": "many"}

    request = parse({"resourceSpans": broken["resourceSpans"] + good["resourceSpans"]})

    assert [span.name for span in request.message.resource_spans[1].scope_spans[0].spans] == [
        "kept"
    ]
    [rejected] = request.unreadable
    assert (rejected.name, rejected.reason) == (
        "lost",
        f"the span's {part} cannot be decoded: droppedAttributesCount is not an integer",
    )
