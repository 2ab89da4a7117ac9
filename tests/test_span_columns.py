"""The fast decoder gives what the plain one gives, for every kind of value, dialect and fault."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

from applications import APPLICATIONS
from otelchain import OtelCallbackHandler
from otelchain_collector import decoding, normalise_columns
from otelchain_collector.decode import Decoded, decode
from otelchain_collector.dialects import (
    gen_ai,
    langfuse,
    langsmith,
    openinference,
    openlit,
    openllmetry,
    otelchain,
    other,
)
from otelchain_collector.otlp_arrow import NotTakenError
from otelchain_collector.otlp_protobuf import parse_protobuf
from otelchain_collector.signals import TRACES
from otelchain_collector.span_columns import decode_columns
from otelchain_collector.span_table import rows_of as span_rows
from otlp_requests import START, TRACE_ID, body, field, replace_once, request, span, text
from stored_spans import rows_of

RECEIVED = START + 1
MAX_ATTRIBUTE_BYTES = 1024 * 1024
DIALECTS = (
    gen_ai.DIALECT,
    langfuse.DIALECT,
    langsmith.DIALECT,
    openinference.DIALECT,
    openlit.DIALECT,
    openllmetry.DIALECT,
    otelchain.DIALECT,
    other.DIALECT,
)
MARKS = (
    "otelchain.run.type",
    "openinference.span.kind",
    "langfuse.observation.type",
    "langsmith.span.kind",
    "traceloop.span.kind",
    "gen_ai.operation.name",
    "gen_ai.system",
    "telemetry.sdk.name",
    "llm.input_messages.0.message.content",
    "gen_ai.prompt.0.content",
)
NAMES = sorted(
    {
        name
        for dialect in DIALECTS
        for names in (
            *(attributes for _, attributes in dialect.columns.values()),
            dialect.inputs,
            dialect.outputs,
        )
        for name in names
    }
    | set(MARKS)
)
# What normalisers know: statuses, types, operations, JSON that they open, an error in a tool.
WORDS = (
    *("ok", "error", "pending", "handled_error", "chain", "chat_model", "tool", "retriever"),
    *("embedding", "invoke_agent", "AGENT", "TOOL", "RETRIEVER", "openlit", "1,2", "7", ""),
    *('["a", "b"]', '{"a": 1}', "{broken", '[{"page_content": "x"}]', "retry:attempt:2"),
    '{"status": "error", "tool_call_id": "1", "content": "no"}',
)


def plain(data: bytes) -> Decoded:
    parsed = parse_protobuf(TRACES, data, RECEIVED)
    decoded = decode(parsed.message, RECEIVED)
    decoded.rejected.extend(parsed.unreadable)
    return decoded


def as_lists(decoded: Decoded) -> tuple[list[Any], list[Any], list[Any]]:
    return span_rows(decoded.rows), span_rows(decoded.pending), decoded.rejected


def own_span(**attributes: str | int) -> Span:
    """Return a span of our handler that ended well, unless the attributes say otherwise."""
    values = {"otelchain.run.type": "tool", "otelchain.run.status": "ok", **attributes}
    return span(
        attributes=[
            text(key, value)
            if isinstance(value, str)
            else KeyValue(key=key, value=AnyValue(int_value=value))
            for key, value in values.items()
        ]
    )


def any_value(fields: dict[str, Any]) -> AnyValue:
    return AnyValue(**fields)


def chosen_from(items: Sequence[str]) -> st.SearchStrategy[str]:
    # As sampled_from, without all the items in every message of hypothesis.
    return st.integers(0, len(items) - 1).map(lambda place: items[place])


texts = st.one_of(chosen_from(WORDS), st.text(max_size=9))
scalars = st.one_of(
    texts.map(lambda value: {"string_value": value}),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: {"int_value": value}),
    st.integers(-1, 9).map(lambda value: {"int_value": value}),
    st.one_of(st.floats(), st.sampled_from([0.0, 3.0, math.nan, math.inf, -math.inf])).map(
        lambda value: {"double_value": value}
    ),
    st.booleans().map(lambda value: {"bool_value": value}),
    st.binary(max_size=5).map(lambda value: {"bytes_value": value}),
    st.just({}),
).map(any_value)
keys = st.one_of(chosen_from(NAMES), st.sampled_from(["@k", "a", "", "é"]))


def _lists(values: st.SearchStrategy[AnyValue]) -> st.SearchStrategy[AnyValue]:
    pairs = st.builds(KeyValue, key=keys, value=values)
    return st.one_of(
        st.lists(values, max_size=3).map(lambda items: AnyValue(array_value={"values": items})),
        st.lists(pairs, max_size=3).map(lambda items: AnyValue(kvlist_value={"values": items})),
    )


any_values = st.one_of(scalars, scalars, st.recursive(scalars, _lists, max_leaves=6))
pairs = st.one_of(
    st.builds(KeyValue, key=keys, value=any_values),
    st.builds(text, keys, texts),
    st.builds(KeyValue, key=keys),
)
attribute_lists = st.one_of(
    st.lists(pairs, max_size=8),
    # Our own spans that ended well are the ones that are read in columns.
    st.lists(pairs, max_size=8).map(
        lambda more: [
            text("otelchain.run.type", "chat_model"),
            *more,
            text("otelchain.run.status", "ok"),
        ]
    ),
)
counts = st.sampled_from([0, 1, 2**32 - 1])
events = st.builds(
    Span.Event,
    name=st.sampled_from(["exception", "", "tick"]),
    time_unix_nano=st.sampled_from([0, START, 2**64 - 1]),
    attributes=st.lists(
        st.one_of(pairs, st.builds(text, st.sampled_from(["exception.type"]), texts)), max_size=3
    ),
    dropped_attributes_count=counts,
)
links = st.builds(
    Span.Link,
    trace_id=st.sampled_from([TRACE_ID, b"", b"x"]),
    span_id=st.sampled_from([b"12345678", b""]),
    trace_state=texts,
    attributes=st.lists(pairs, max_size=2),
    dropped_attributes_count=counts,
    flags=counts,
)
ids = st.integers(1, 2**64 - 1).map(lambda number: number.to_bytes(8, "big"))
good_spans = st.builds(
    Span,
    trace_id=st.just(TRACE_ID),
    span_id=ids,
    parent_span_id=st.one_of(ids, st.sampled_from([b"", bytes(8)])),
    trace_state=texts,
    flags=counts,
    name=texts,
    kind=st.sampled_from([0, 1, 3, 99]),
    start_time_unix_nano=st.sampled_from([0, START, 2**63 - 2]),
    end_time_unix_nano=st.sampled_from([0, START, 2**63 - 2]),
    attributes=attribute_lists,
    dropped_attributes_count=counts,
    events=st.lists(events, max_size=2),
    dropped_events_count=counts,
    links=st.lists(links, max_size=2),
    dropped_links_count=counts,
    status=st.one_of(st.none(), st.builds(dict, code=st.sampled_from([0, 1, 2]), message=texts)),
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    message = ExportTraceServiceRequest()
    for _ in range(draw(st.integers(0, 2))):
        resource_spans = message.resource_spans.add(schema_url=draw(texts))
        if draw(st.booleans()):
            resource_spans.resource.attributes.extend(draw(st.lists(pairs, max_size=2)))
            resource_spans.resource.attributes.append(text("service.name", draw(texts)))
            resource_spans.resource.dropped_attributes_count = draw(counts)
        for _ in range(draw(st.integers(0, 2))):
            scope_spans = ScopeSpans(
                schema_url=draw(texts), spans=draw(st.lists(good_spans, max_size=4))
            )
            if draw(st.booleans()):
                scope_spans.scope.name = draw(st.sampled_from(["otelchain", "openlit.x", "y"]))
                scope_spans.scope.version = draw(texts)
                scope_spans.scope.attributes.extend(draw(st.lists(pairs, max_size=2)))
            resource_spans.scope_spans.append(scope_spans)
    return message.SerializeToString()


def test_a_payload_in_bytes_is_read_as_the_plain_decoder_reads_it() -> None:
    own = [text("otelchain.run.type", "chat_model"), text("otelchain.run.status", "ok")]
    payload = KeyValue(key="otelchain.output", value=AnyValue(bytes_value=b'{"a":1}'))
    data = body(span(attributes=[*own, payload]))

    assert as_lists(decode_columns(data, RECEIVED)) == as_lists(plain(data))


@settings(max_examples=200)
@given(requests())
def test_every_good_request_gives_the_rows_of_the_plain_decoder(data: bytes) -> None:
    # decode_columns itself: a request that it leaves to the plain decoder would prove nothing.
    assert as_lists(decode_columns(data, RECEIVED)) == as_lists(plain(data))


def as_received(data: bytes) -> Decoded:
    request = decoding.EncodedRequest(data, parse_protobuf)
    return decoding.decode_request(TRACES, request, RECEIVED, MAX_ATTRIBUTE_BYTES)


def all_in_columns(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], Decoded]:
    """Return the decoder of the receivers, with small requests taken for large ones."""
    monkeypatch.setattr(decoding, "_LEAST_BYTES_FOR_COLUMNS", 0)
    return as_received


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_spans_of_many_kinds_in_one_request_keep_their_own_columns(dialect: Any) -> None:
    spans = [
        span(attributes=[text(mark, "chain"), text(name, word)])
        for word, mark, name in itertools.product(("ok", "7"), MARKS[:7], NAMES[::3])
    ]
    spans += [
        span(attributes=[text(names[0], "ok"), KeyValue(key=names[0], value=AnyValue(int_value=7))])
        for _, names in dialect.columns.values()
    ]
    data = body(*spans)

    assert as_lists(decode_columns(data, RECEIVED)) == as_lists(plain(data))


def test_our_own_spans_that_ended_well_are_read_in_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    one_by_one = []
    normalised = normalise_columns.normalised
    monkeypatch.setattr(
        normalise_columns,
        "normalised",
        lambda facts: (one_by_one.append(facts.name), normalised(facts))[1],
    )
    spans = [own_span(**{"gen_ai.usage.input_tokens": count}) for count in range(9)]
    spans[4] = own_span(**{"otelchain.run.status": "error"})
    spans[4].name = "failed"
    data = body(*spans, span(name="foreign"))

    rows = span_rows(decode_columns(data, RECEIVED).rows)

    assert sorted(one_by_one) == ["failed", "foreign"]
    assert [row.input_tokens for row in rows] == [0, 1, 2, 3, None, 5, 6, 7, 8, None]
    assert [row.run_status for row in rows] == ["ok"] * 4 + ["error"] + ["ok"] * 5
    assert [row.dialect for row in rows] == ["otelchain"] * 9 + ["other"]


@pytest.mark.parametrize("name", APPLICATIONS)
def test_what_the_handler_really_sends_is_decoded_the_same(
    name: str, handler: OtelCallbackHandler, span_exporter: Any
) -> None:
    APPLICATIONS[name].run(handler)

    assert rows_of(span_exporter.get_finished_spans())  # compares both decoders


def with_value(encoded: bytes) -> bytes:
    """Return a request of a good span with an attribute whose AnyValue is given as bytes."""
    good = span(name="last").SerializeToString()
    attribute = field(9, field(1, b"k") + field(2, encoded))
    return field(1, field(2, field(2, good) + field(2, good.replace(b"last", b"odd!") + attribute)))


def encoded(**fields: Any) -> bytes:
    return AnyValue(**fields).SerializeToString()


def nested(depth: int) -> bytes:
    value = b""
    for _ in range(depth):
        value = field(5, field(1, value))
    return value


ODD = {
    "a text, then a number": encoded(string_value="a") + encoded(int_value=1),
    "a number, then no text": encoded(int_value=1) + encoded(string_value=""),
    "two numbers": encoded(int_value=1) + encoded(int_value=2),
    "a list and a number": encoded(array_value={}) + encoded(int_value=2),
    "a list in two pieces": encoded(array_value={"values": [AnyValue(int_value=1)]}) * 2,
    "an index into a string table": b"\x40\x02",
    "a list that is broken": field(5, b"\x0a\xff"),
    "a text in a list that is not UTF-8": field(5, field(1, field(1, b"\xff"))),
    "a text that is not UTF-8": field(1, b"\xff\xfe"),
    "lists in lists that protobuf reads": nested(23),
    "lists in lists near its limit": nested(30),
}


@pytest.mark.parametrize("name", ODD)
def test_what_no_exporter_writes_is_decoded_as_the_plain_decoder_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode_any = all_in_columns(monkeypatch)
    data = with_value(ODD[name])

    assert as_lists(decode_any(data)) == as_lists(plain(data))


bad_fields = pytest.mark.parametrize(
    "fields",
    [
        {"trace_id": bytes(16)},
        {"trace_id": b"short"},
        {"span_id": bytes(8)},
        {"span_id": b""},
        {"parent_span_id": b"xyz"},
        {"start_time_unix_nano": 2**64 - 1},
        {"end_time_unix_nano": 2**63 - 1},
    ],
    ids=lambda fields: str(*fields),
)


@bad_fields
def test_a_bad_span_costs_itself_only(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    decode_any = all_in_columns(monkeypatch)
    data = body(own_span(), span(**fields), own_span())
    with pytest.raises(NotTakenError):
        decode_columns(data, RECEIVED)

    decoded = decode_any(data)

    assert as_lists(decoded) == as_lists(plain(data))
    assert (len(decoded.rows), len(decoded.rejected)) == (2, 1)


def test_a_broken_text_costs_its_span_only(monkeypatch: pytest.MonkeyPatch) -> None:
    decode_any = all_in_columns(monkeypatch)
    data = replace_once(body(own_span(), own_span(x="PLACE")), b"PLACE", b"ab\xe4\xb8c")

    decoded = decode_any(data)

    assert as_lists(decoded) == as_lists(plain(data))
    assert (len(decoded.rows), len(decoded.rejected)) == (1, 1)


def test_a_parent_of_zeros_of_any_length_is_no_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    data = body(*(span(parent_span_id=bytes(length)) for length in (0, 3, 8)))

    decoded = all_in_columns(monkeypatch)(data)

    assert [row.parent_span_id for row in span_rows(decoded.rows)] == [None, None, None]


def test_a_fault_of_the_fast_decoder_is_logged_and_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    decode_any = all_in_columns(monkeypatch)
    monkeypatch.setattr(decoding, "decode_columns", lambda *_: 1 // 0)
    data = body(own_span())

    assert as_lists(decode_any(data)) == as_lists(plain(data))
    assert "ZeroDivisionError" in caplog.text


def test_entities_of_a_resource_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    message = request(own_span())
    message.resource_spans[0].resource.entity_refs.add(type="service", id_keys=["service.name"])
    data = message.SerializeToString()

    decoded = all_in_columns(monkeypatch)(data)

    assert as_lists(decoded) == as_lists(plain(data))
    [row] = span_rows(decoded.rows)
    assert '"type":"service"' in str(row.resource_entity_refs)


@pytest.mark.parametrize(
    ("size", "in_columns"), [(1_000, False), (50_000, True), (MAX_ATTRIBUTE_BYTES, False)]
)
def test_requests_are_read_in_columns_unless_they_are_small_or_may_hold_a_value_too_long(
    size: int, in_columns: bool
) -> None:
    spans = [own_span(x="y" * size) for _ in range(9)]

    rows = as_received(body(*spans)).rows

    assert isinstance(rows, list) is not in_columns
    assert len(rows) == 9
