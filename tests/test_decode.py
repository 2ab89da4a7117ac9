"""OTLP request to rows: every field kept, bad spans rejected alone."""

import json
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from otelchain_collector import decode as decode_module
from otelchain_collector.decode import decode
from otelchain_collector.otlp_protobuf import parse_protobuf
from otelchain_collector.otlp_request import MalformedRequestError
from otelchain_collector.signals import TRACES
from otlp_requests import START, TRACE_ID, body, field, replace_once, request, span, text

RECEIVED = START + 5


def test_every_field_of_a_span_arrives_in_its_column() -> None:
    message = ExportTraceServiceRequest()
    resource_spans = message.resource_spans.add(schema_url="https://resource.schema")
    resource_spans.resource.attributes.append(text("service.name", "shop"))
    resource_spans.resource.dropped_attributes_count = 1
    scope_spans = resource_spans.scope_spans.add(schema_url="https://scope.schema")
    scope_spans.scope.name = "library"
    scope_spans.scope.version = "1.2"
    scope_spans.scope.attributes.append(text("scope.key", "scope value"))
    scope_spans.scope.dropped_attributes_count = 2
    sent = scope_spans.spans.add(
        trace_id=TRACE_ID,
        span_id=b"\xab" * 8,
        parent_span_id=b"\xcd" * 8,
        trace_state="vendor=1",
        flags=0x301,
        name="GET /",
        kind=Span.SPAN_KIND_SERVER,
        start_time_unix_nano=START,
        end_time_unix_nano=START + 123_456_789,
        dropped_attributes_count=3,
        dropped_events_count=4,
        dropped_links_count=5,
    )
    sent.attributes.append(text("a.b", "c"))
    sent.status.code = 2
    sent.status.message = "no"
    event = sent.events.add(name="tick", time_unix_nano=START + 1, dropped_attributes_count=6)
    event.attributes.append(text("e", "f"))
    sent.links.add(
        trace_id=b"\x01" * 16,
        span_id=b"\x02" * 8,
        trace_state="s",
        flags=1,
        dropped_attributes_count=7,
        attributes=[text("l", "m")],
    )

    [row] = decode(message, RECEIVED).rows

    assert row[:25] == (
        "0af7651916cd43dd8448eb211c80319c",
        "abababababababab",
        "cdcdcdcdcdcdcdcd",
        "vendor=1",
        0x301,
        "GET /",
        2,
        START,
        START + 123_456_789,
        2,
        "no",
        '{"a.b":"c"}',
        3,
        (
            '[{"name":"tick","time_unix_nano":1796083200000000001,"attributes":{"e":"f"},'
            '"dropped_attributes_count":6}]'
        ),
        4,
        (
            '[{"trace_id":"01010101010101010101010101010101","span_id":"0202020202020202",'
            '"trace_state":"s","flags":1,"attributes":{"l":"m"},"dropped_attributes_count":7}]'
        ),
        5,
        "library",
        "1.2",
        '{"scope.key":"scope value"}',
        2,
        "https://scope.schema",
        '{"service.name":"shop"}',
        1,
        "https://resource.schema",
    )
    assert row.service_name == "shop"
    assert row.run_status == "error"
    assert row.received_time_unix_nano == RECEIVED


def test_every_field_of_the_trace_messages_has_a_column_or_a_reason() -> None:
    # A new version of the protocol has to be looked at.
    known = {
        ResourceSpans: {"resource", "scope_spans", "schema_url"},
        ScopeSpans: {"scope", "spans", "schema_url"},
        Span: {
            *("trace_id", "span_id", "trace_state", "parent_span_id", "flags", "name", "kind"),
            *("start_time_unix_nano", "end_time_unix_nano", "status"),
            *("attributes", "dropped_attributes_count", "events", "dropped_events_count"),
            *("links", "dropped_links_count"),
        },
    }
    for message, fields in known.items():
        assert {field.name for field in message.DESCRIPTOR.fields} == fields


def test_a_root_has_no_parent() -> None:
    rows = decode(request(span(parent_span_id=b""), span(parent_span_id=bytes(8))), RECEIVED).rows

    assert [row.parent_span_id for row in rows] == [None, None]


bad_spans = pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"trace_id": bytes(16)}, "trace_id is all zero"),
        ({"trace_id": b""}, "trace_id has not 16 bytes"),
        ({"trace_id": b"short"}, "trace_id has not 16 bytes"),
        ({"span_id": bytes(8)}, "span_id is all zero"),
        ({"span_id": b"x" * 16}, "span_id has not 8 bytes"),
        ({"parent_span_id": b"xyz"}, "parent_span_id has not 8 bytes"),
        (
            {"start_time_unix_nano": 2**64 - 1},
            "start_time_unix_nano is after 2262-04-11, the last day of the store",
        ),
        (
            {"end_time_unix_nano": 2**63 - 1},
            "end_time_unix_nano is after 2262-04-11, the last day of the store",
        ),
    ],
)


def test_equal_faults_have_equal_reasons_whatever_the_values() -> None:
    faults: list[list[dict[str, Any]]] = [
        [{field: bytes(range(1, length))} for length in (2, 4, 40)]
        for field in ("trace_id", "span_id", "parent_span_id")
    ]
    faults += [
        [{field: time} for time in (2**63 - 1, 2**63, 2**64 - 1)]
        for field in ("start_time_unix_nano", "end_time_unix_nano")
    ]
    for fault in faults:
        rejected = decode(request(*(span(**fields) for fields in fault)), RECEIVED).rejected

        assert len(rejected) == 3
        assert len({record.reason for record in rejected}) == 1


@bad_spans
def test_a_bad_span_is_rejected_alone_with_its_reason(fields: dict[str, Any], reason: str) -> None:
    decoded = decode(request(span(name="before"), span(**fields), span(name="after")), RECEIVED)

    assert [row.name for row in decoded.rows] == ["before", "after"]
    [rejected] = decoded.rejected
    assert rejected.reason == reason
    assert (rejected.name, rejected.service_name) == ("step", "shop")
    assert rejected.received_time_unix_nano == RECEIVED


def test_the_last_time_that_the_store_can_hold_is_kept() -> None:
    decoded = decode(request(span(end_time_unix_nano=2**63 - 2)), RECEIVED)

    assert [row.end_time_unix_nano for row in decoded.rows] == [2**63 - 2]


def test_an_end_before_the_start_and_an_unknown_kind_are_kept_as_they_are() -> None:
    [row] = decode(request(span(end_time_unix_nano=START - 1, kind=99)), RECEIVED).rows

    assert (row.end_time_unix_nano, row.kind) == (START - 1, 99)


def test_a_fault_in_the_normaliser_does_not_cost_the_span(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(decode_module, "normalise", fail)

    [row] = decode(request(span(status={"code": 2})), RECEIVED).rows

    assert (row.name, row.dialect, row.run_status) == ("step", "other", "error")
    assert "could not be normalised" in caplog.text


def _broken_text() -> bytes:
    bad = span(name="bad", attributes=[text("k", "PLACEHOLDER")])
    data = body(span(name="first"), bad, span(name="last"))
    return replace_once(data, b"PLACEHOLDER", b"half \xe4\xb8 cut")


def _deep_value() -> bytes:
    value = AnyValue(string_value="core").SerializeToString()
    for _ in range(1_000):
        value = field(5, field(1, value))  # AnyValue.array_value, ArrayValue.values
    attribute = field(9, field(1, b"deep") + field(2, value))
    bad = field(2, span(name="bad").SerializeToString() + attribute)
    first, last = (field(2, span(name=name).SerializeToString()) for name in ("first", "last"))
    scope = field(1, field(1, b"tests"))
    resource = field(1, request(span()).resource_spans[0].resource.SerializeToString())
    return field(1, resource + field(2, scope + first + bad + last))


@pytest.mark.parametrize("make", [_broken_text, _deep_value])
def test_a_span_that_protobuf_cannot_read_does_not_cost_its_neighbours(make: Any) -> None:
    parsed = parse_protobuf(TRACES, make(), RECEIVED)
    decoded = decode(parsed.message, RECEIVED)

    assert [row.name for row in decoded.rows] == ["first", "last"]
    assert [row.service_name for row in decoded.rows] == ["shop", "shop"]
    assert [row.scope_name for row in decoded.rows] == ["tests", "tests"]
    [rejected] = parsed.unreadable
    assert rejected.reason == (
        "the span cannot be decoded: text that is not UTF-8, or values nested too deep"
    )
    assert (rejected.trace_id, rejected.name, rejected.service_name) == (
        TRACE_ID.hex(),
        "bad",
        "shop",
    )


def test_broken_text_in_a_resource_costs_the_spans_of_that_resource_only() -> None:
    broken = replace_once(
        body(span(name="lost"), service="PLACEHOLDER"), b"PLACEHOLDER", b"\xff" * 11
    )
    # Two serialised requests one after the other are one request with both their resources.
    parsed = parse_protobuf(TRACES, broken + body(span(name="kept")), RECEIVED)

    assert [row.name for row in decode(parsed.message, RECEIVED).rows] == ["kept"]
    assert [(bad.name, bad.service_name) for bad in parsed.unreadable] == [("lost", None)]
    assert "resource cannot be decoded" in parsed.unreadable[0].reason


@pytest.mark.parametrize("garbage", [b"not protobuf at all", b"\x0a\xff", b"\x0a\x05abc"])
def test_a_body_that_is_no_request_is_malformed(garbage: bytes) -> None:
    with pytest.raises(MalformedRequestError, match="not an ExportTraceServiceRequest"):
        parse_protobuf(TRACES, garbage, RECEIVED)


def test_fields_of_a_later_protocol_are_ignored() -> None:
    unknown_field = b"\xfa\x3e\x03new"  # field 1007, three bytes

    parsed = parse_protobuf(TRACES, body(span(name="x")) + unknown_field, RECEIVED)

    assert [row.name for row in decode(parsed.message, RECEIVED).rows] == ["x"]


def test_an_empty_request_has_no_rows() -> None:
    decoded = decode(ExportTraceServiceRequest(), RECEIVED)

    assert (decoded.rows, decoded.rejected) == ([], [])


def test_json_columns_hold_json() -> None:
    [row] = decode(request(span()), RECEIVED).rows

    for column in (row.attributes, row.events, row.links, row.scope_attributes):
        json.loads(column)
