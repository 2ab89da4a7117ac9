"""Names of the application's classes are its texts: they pass the redactor wherever they stand."""

import logging
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from fakes import FinishedSpans
from otelchain import OtelCallbackHandler

MAIL = "dana.reyes@example.com"
Failure = type(f"Err_{MAIL}", (ValueError,), {})
Left = type(f"Left_{MAIL}", (GeneratorExit,), {})
Input = type(f"Input_{MAIL}", (dict,), {})


class _Odd:
    def __repr__(self) -> str:
        raise Failure


def test_no_name_of_a_class_reaches_a_span_or_a_metric(
    tracer_provider: Any, finished_spans: FinishedSpans
) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    handler = OtelCallbackHandler(tracer_provider, meter_provider=provider)

    def fail(value: Any) -> Any:
        raise Failure("no")

    with pytest.raises(Failure):
        RunnableLambda(fail).invoke(Input(), {"callbacks": [handler]})
    run_id = uuid4()
    for error in (Failure("no"), Left()):
        handler.on_chat_model_start({}, [[HumanMessage("x")]], run_id=run_id, name="m")
        handler.on_llm_error(error, run_id=run_id)
    handler.on_chain_start({}, {"odd": _Odd(), "left": [Failure, Input()]}, run_id=run_id)
    handler.on_chain_end({}, run_id=run_id)

    spans = finished_spans.all()
    assert [span.attributes["otelchain.run.status"] for span in spans] == [
        *("error", "error", "abandoned", "ok")
    ]
    assert spans[0].attributes["otelchain.input.kind"] == "[REDACTED:email]"
    assert "[REDACTED:email]" in spans[0].attributes["error.type"]
    assert "[REDACTED:email]" in spans[2].attributes["otelchain.run.end_reason"]
    assert "dana" not in repr([span.to_json() for span in spans])
    metrics = reader.get_metrics_data()
    assert metrics is not None
    assert "[REDACTED:email]" in metrics.to_json()
    assert "dana" not in metrics.to_json()


def test_nor_the_log(handler: OtelCallbackHandler, caplog: pytest.LogCaptureFixture) -> None:
    class Odd:
        def __getattr__(self, name: str) -> Any:
            raise Failure

    run_id = uuid4()
    handler.on_chat_model_start({}, [[HumanMessage("x")]], run_id=run_id, name="m")
    with caplog.at_level(logging.DEBUG):
        handler.on_llm_end(Odd(), run_id=run_id)

    assert "on_llm_end: [REDACTED:email]" in caplog.text
    assert "dana" not in caplog.text
