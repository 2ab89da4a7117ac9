"""The collector's second line of defence: what goes, what stays, what counts."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from otelchain import Redactor
from otelchain.redaction import PolicyRule
from otelchain_collector.redaction import stage
from otelchain_collector.redaction.found import Finding
from otelchain_collector.redaction.stage import Redaction
from otelchain_collector.redaction.trees import fill, tree_of
from otelchain_collector.signals import LOGS, METRICS, SIGNALS, TRACES, Signal
from otlp_requests import START, log_record, logs_request, request, span, text
from planted_requests import Planter

SECRET = "sk-proj-Q77xAb2Cd3Ef4Gh5Ij6Kl7Mn8Op9Qr"
DEFAULT = Redaction(Redactor())
RECEIVED = START + 10**9


def redacted(message: Any, redaction: Redaction = DEFAULT, signal: Signal = TRACES) -> Any:
    """Return a request as it is decoded, and what was found."""
    body, findings, _ = redaction.redacted(signal, message.SerializeToString(), RECEIVED)
    return type(message).FromString(body), findings


def attributes(message: Any) -> dict[str, Any]:
    [one] = message.resource_spans[0].scope_spans[0].spans
    return {attribute.key: tree_of(attribute.value) for attribute in one.attributes}


def many(*spans: Any) -> Any:
    """Return a request that is large enough to be looked at in columns."""
    filler = [span(attributes=[text("input.value", "word " * 400)]) for _ in range(100)]
    message = request(*filler, *spans)
    assert message.ByteSize() > stage._LEAST_BYTES_FOR_COLUMNS
    return message


# --- what stays --------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [request, many])
def test_a_clean_request_keeps_its_bytes_and_has_no_findings(make: Callable[..., Any]) -> None:
    message = make(
        span(
            attributes=[
                text("gen_ai.request.model", "gpt-4o"),
                text("otelchain.run.id", "fd82e951-a974-4f5a-8c1d-cc050fb71ae9"),
                text("gen_ai.input.messages", json.dumps([{"content": 'two\nlines, "quoted"'}])),
                text("already", "[REDACTED:email] and [card:k1:b55c2e91fb8602a0]"),
                KeyValue(key="gen_ai.usage.input_tokens", value=AnyValue(int_value=412)),
            ]
        )
    )
    body = message.SerializeToString()

    result = DEFAULT.redacted(TRACES, body, RECEIVED)

    assert result.body is body
    assert result.findings == []


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_second_pass_changes_no_byte_and_finds_nothing(signal: Signal) -> None:
    message = Planter().request(signal)
    body, findings, _ = DEFAULT.redacted(signal, message.SerializeToString(), RECEIVED)
    assert findings

    assert DEFAULT.redacted(signal, body, RECEIVED)[:2] == (body, [])


@pytest.mark.parametrize("make", [request, many])
def test_only_the_span_that_leaks_is_changed_and_ids_and_times_are_not(
    make: Callable[..., Any],
) -> None:
    leaking = span(name="a", attributes=[text("k", f"x {SECRET}")])
    others = [span(name="b"), span(name="c")]
    message = make(others[0], leaking, others[1])

    after, findings = redacted(message)

    [one] = [each for each in after.resource_spans[0].scope_spans[0].spans if each.name == "a"]
    assert one.attributes[0].value.string_value == "x [REDACTED:openai_key]"
    one.attributes[0].value.string_value = f"x {SECRET}"
    assert after == message
    assert [finding.span_id for finding in findings] == [leaking.span_id.hex()]


# --- what goes ---------------------------------------------------------------------------------

scalars = st.one_of(
    st.text(max_size=8),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.none(),
)
secrets = st.one_of(
    st.just(SECRET),
    st.text(max_size=5).map(lambda before: f"{before} {SECRET}"),
    st.just(json.dumps({"a": [f"\n{SECRET}"]})),
    st.just(json.dumps(json.dumps({SECRET: 1}))),
)
trees = st.recursive(
    st.one_of(scalars, secrets),
    lambda children: st.one_of(
        st.lists(children, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=5), secrets), children, max_size=3),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.one_of(st.text(max_size=5), secrets), trees, max_size=3), st.booleans())
@settings(max_examples=150)
def test_a_secret_in_any_tree_of_values_never_survives(
    values: dict[str, Any], is_large: bool
) -> None:
    one = span(attributes=[KeyValue(key=key) for key in values])
    for attribute, value in zip(one.attributes, values.values(), strict=True):
        fill(attribute.value, value)
    assert [tree_of(attribute.value) for attribute in one.attributes] == list(values.values())

    message = many(one) if is_large else request(one)
    body, findings, _ = DEFAULT.redacted(TRACES, message.SerializeToString(), RECEIVED)

    assert SECRET.encode()[8:] not in body
    assert bool(findings) == (SECRET in json.dumps(values, ensure_ascii=False))
    assert DEFAULT.redacted(TRACES, body, RECEIVED).findings == []


def test_the_key_of_an_attribute_says_that_its_value_is_secret() -> None:
    message = request(
        span(
            attributes=[
                text("http.request.header.authorization", "what no pattern knows"),
                KeyValue(key="app.password", value=AnyValue(int_value=271828)),
                text("session.id", "s-1"),
            ]
        )
    )

    after, findings = redacted(message)

    assert attributes(after) == {
        "http.request.header.authorization": "[REDACTED:secret]",
        "app.password": "[REDACTED:secret]",
        "session.id": "s-1",
    }
    assert {finding.attribute for finding in findings} == {
        "http.request.header.authorization",
        "app.password",
    }


def test_two_keys_that_redaction_makes_equal_are_both_kept() -> None:
    message = request(span(attributes=[text(f"{SECRET}{n}", str(n)) for n in range(2)]))

    after, _ = redacted(message)

    assert attributes(after) == {"[REDACTED:openai_key]": "0", "[REDACTED:openai_key]#2": "1"}


def test_rules_bound_to_a_place_apply_there_alone() -> None:
    rules = [
        PolicyRule(name="owner", pattern="ACME-[0-9]+", places=["resource"]),
        PolicyRule(name="scoped", pattern="ACME-[0-9]+", places=["scope"]),
        PolicyRule(name="wrong", pattern="ACME-[0-9]+", places=["errors"]),
    ]
    message = request(
        span(name="ACME-1", attributes=[text("k", "ACME-2"), text("error.message", "ACME-3")]),
        service="ACME-4",
    )
    message.resource_spans[0].scope_spans[0].scope.name = "ACME-5"

    after, findings = redacted(message, Redaction(Redactor(rules=rules)))

    assert attributes(after) == {"k": "ACME-2", "error.message": "[REDACTED:wrong]"}
    resource_spans = after.resource_spans[0]
    assert resource_spans.resource.attributes[0].value.string_value == "[REDACTED:owner]"
    assert resource_spans.scope_spans[0].scope.name == "[REDACTED:scoped]"
    assert resource_spans.scope_spans[0].spans[0].name == "ACME-1"
    assert {(finding.service_name, finding.scope_name) for finding in findings} == {
        ("[REDACTED:owner]", "[REDACTED:scoped]")
    }


def test_removal_takes_the_attribute_and_is_counted() -> None:
    redaction = Redaction(Redactor(action="remove"))
    message = request(span(attributes=[text("db.password", "hunter2"), text("a", "b")]))

    after, findings = redacted(message, redaction)

    assert attributes(after) == {"a": "b"}
    assert [(each.attribute, each.rule, each.count) for each in findings] == [
        ("db.password", "secret", 1)
    ]


def test_strict_leaves_ids_and_names_but_no_content() -> None:
    redaction = Redaction(Redactor(preset="strict"))
    message = request(
        span(
            attributes=[
                text("gen_ai.request.model", "gpt-4o"),
                text("input.value", "what was said"),
                text("unknown.key", "who knows"),
            ]
        )
    )

    after, _ = redacted(message, redaction)

    assert attributes(after) == {
        "gen_ai.request.model": "gpt-4o",
        "input.value": "[withheld: 13 bytes]",
        "unknown.key": "[withheld: 9 bytes]",
    }


# --- what fails --------------------------------------------------------------------------------


def broken(text: str) -> str:
    if "boom" in text:
        raise ValueError(text)
    return text


def test_a_rule_that_raises_costs_the_value_alone_and_is_counted_as_failed() -> None:
    redaction = Redaction(Redactor(callables=[broken]))
    message = request(span(attributes=[text("a", "boom hunter2"), text("b", "fine")]))

    after, findings = redacted(message, redaction)

    assert attributes(after) == {"a": "<redaction failed: broken>", "b": "fine"}
    assert [(each.attribute, each.rule, each.failed) for each in findings] == [
        ("a", "broken", True)
    ]


def test_a_fault_of_ours_costs_the_texts_of_one_record(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = stage.redact

    def faulty(message: Any, redactor: Redactor) -> Any:
        if getattr(message, "name", "") == "bad":
            raise KeyError(SECRET)
        return real(message, redactor)

    monkeypatch.setattr(stage, "redact", faulty)
    bad = span(name="bad", attributes=[text("a", SECRET)])
    message = request(bad, span(name="good", attributes=[text("a", SECRET)]))

    after, findings = redacted(message)

    first, second = after.resource_spans[0].scope_spans[0].spans
    assert (first.span_id, first.start_time_unix_nano) == (bad.span_id, bad.start_time_unix_nano)
    assert (first.name, len(first.attributes)) == ("<redaction failed: record>", 0)
    assert second.attributes[0].value.string_value == "[REDACTED:openai_key]"
    assert [(each.rule, each.failed) for each in findings] == [
        ("record", True),
        ("openai_key", False),
    ]
    assert SECRET not in caplog.text
    assert "KeyError" in caplog.text


def test_a_span_that_cannot_be_read_costs_no_other_its_redaction() -> None:
    message = request(span(name="AAAA"), span(attributes=[text("a", SECRET)]))
    body = message.SerializeToString().replace(b"AAAA", b"\xff\xff\xff\xff")

    after, findings, _ = DEFAULT.redacted(TRACES, body, RECEIVED)

    assert SECRET.encode() not in after
    assert b"\xff\xff\xff\xff" in after
    assert len(findings) == 1


def test_what_is_no_request_is_left_to_the_decoder() -> None:
    assert DEFAULT.redacted(TRACES, b"\xff no protobuf", RECEIVED) == (
        b"\xff no protobuf",
        [],
        None,
    )


# --- what counts -------------------------------------------------------------------------------


def test_a_finding_tells_where_and_how_often_and_not_what() -> None:
    one = span(
        attributes=[text("input.value", f"{SECRET} then bob@example.com and al@example.com")]
    )
    one.events.add(name="note").attributes.append(text("message", "carol@example.com"))

    _, findings = redacted(request(one))

    around = (RECEIVED, "traces", "shop", "tests")
    ids = (one.trace_id.hex(), one.span_id.hex())
    assert set(findings) == {
        Finding(*around, "input.value", "openai_key", False, 1, *ids),
        Finding(*around, "input.value", "email", False, 2, *ids),
        Finding(*around, "message", "email", False, 1, *ids),
    }


def test_what_stands_around_is_counted_once_a_request_with_the_first_record() -> None:
    first, second = span(), span()
    message = request(first, second)
    message.resource_spans[0].resource.attributes.append(text("owner", "bob@example.com"))
    message.resource_spans[0].scope_spans[0].scope.version = SECRET

    _, findings = redacted(message)

    assert [(each.attribute, each.span_id, each.count) for each in findings] == [
        ("owner", first.span_id.hex(), 1),
        ("scope.version", first.span_id.hex(), 1),
    ]


@pytest.mark.parametrize("signal", [LOGS, METRICS])
def test_findings_of_other_signals_name_them(signal: Signal) -> None:
    message = signal.request()
    if signal is LOGS:
        message = logs_request(log_record(body=AnyValue(string_value=SECRET)))
    else:
        scope = message.resource_metrics.add().scope_metrics.add()
        scope.metrics.add(name="m", description=SECRET)

    _, findings = redacted(message, signal=signal)

    assert [(each.signal, each.attribute) for each in findings] == [
        (signal.name, "log.body" if signal is LOGS else "metric.description")
    ]
