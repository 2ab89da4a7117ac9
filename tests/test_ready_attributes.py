"""Attributes put on a span past the SDK's cleaning: the outcome is the SDK's, in every case."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.runnables import RunnableLambda
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext

from otelchain import OtelCallbackHandler, ready_attributes

LIMITS = {
    "none": SpanLimits(),
    "three attributes": SpanLimits(max_span_attributes=3),
    "no attributes": SpanLimits(max_span_attributes=0),
    "four characters": SpanLimits(max_span_attribute_length=4),
}


def span_with(limits: SpanLimits) -> Span:
    provider = TracerProvider(span_limits=limits, shutdown_on_exit=False)
    span = provider.get_tracer("test").start_span("run", attributes={"a": "first", "b": "second"})
    assert isinstance(span, Span)
    return span


def content(span: ReadableSpan) -> tuple[dict[str, Any], int]:
    return dict(span.attributes or {}), span.dropped_attributes


@pytest.mark.parametrize("limits", LIMITS.values(), ids=list(LIMITS))
@given(
    attributes=st.dictionaries(
        st.sampled_from("abcdef"),
        st.text(max_size=9)
        | st.integers()
        | st.booleans()
        | st.floats(allow_nan=False)
        | st.lists(st.text(max_size=9)),
        max_size=5,
    )
)
def test_what_is_put_on_a_span_is_what_the_sdk_would_set(
    limits: SpanLimits, attributes: dict[str, Any]
) -> None:
    put, set_by_sdk = span_with(limits), span_with(limits)

    ready_attributes.put(put, attributes)
    set_by_sdk.set_attributes(attributes)

    assert content(put) == content(set_by_sdk)


def test_an_ended_span_takes_no_more_attributes(caplog: pytest.LogCaptureFixture) -> None:
    span = span_with(SpanLimits())
    span.end()

    ready_attributes.put(span, {"late": "x"})

    assert "late" not in content(span)[0]
    assert "ended span" in caplog.text


def test_a_span_of_another_kind_is_given_its_attributes_by_its_own_method() -> None:
    class Foreign(NonRecordingSpan):
        def set_attributes(self, attributes: Any) -> None:
            self.given = attributes

    span = Foreign(SpanContext(1, 2, is_remote=False))
    ready_attributes.put(span, {"a": "x"})

    assert span.given == {"a": "x"}


def test_the_spans_of_the_installed_sdk_are_not_cleaned_a_second_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    span = span_with(SpanLimits())
    monkeypatch.setattr(Span, "set_attributes", None)

    ready_attributes.put(span, {"c": "x"})

    assert content(span)[0]["c"] == "x"


def test_a_limit_on_lengths_holds_for_the_payload_of_a_run() -> None:
    ended: list[ReadableSpan] = []
    provider = TracerProvider(
        span_limits=SpanLimits(max_span_attribute_length=20), shutdown_on_exit=False
    )

    class Keep(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            ended.append(span)

    provider.add_span_processor(Keep())
    handler = OtelCallbackHandler(provider)

    def twice(value: str) -> str:
        return value * 2

    RunnableLambda(twice).invoke("x" * 100, {"callbacks": [handler]})

    attributes = ended[0].attributes or {}
    assert len(str(attributes["otelchain.input"])) == 20
    assert len(str(attributes["otelchain.output"])) == 20
