"""The log events of the GenAI conventions: opt-in, redacted, tied to the span of their run."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from opentelemetry.sdk.trace import TracerProvider

from fakes import FakeModel, FinishedSpans, StreamingModel
from otelchain import ConfigurationError, OtelCallbackHandler, log_events

logs = pytest.importorskip("opentelemetry.sdk._logs")
export = pytest.importorskip("opentelemetry.sdk._logs.export")
if not hasattr(export, "InMemoryLogRecordExporter"):
    pytest.skip("this OpenTelemetry has no log events", allow_module_level=True)

DETAILS = "gen_ai.client.inference.operation.details"
SECRET = "sk-proj-0Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9StUvWxYz"
Make = Callable[..., OtelCallbackHandler]


@pytest.fixture(name="exporter")
def _exporter() -> Any:
    return export.InMemoryLogRecordExporter()


@pytest.fixture(name="make")
def _make(tracer_provider: TracerProvider, exporter: Any) -> Make:
    def make(**arguments: Any) -> OtelCallbackHandler:
        provider = logs.LoggerProvider(shutdown_on_exit=False)
        provider.add_log_record_processor(export.SimpleLogRecordProcessor(exporter))
        return OtelCallbackHandler(tracer_provider, logger_provider=provider, **arguments)

    return make


def records(exporter: Any, event: str) -> list[Any]:
    found = [each.log_record for each in exporter.get_finished_logs()]
    return [record for record in found if record.event_name == event]


def test_a_model_call_is_an_event_with_its_details_under_its_span(
    make: Make, exporter: Any, finished_spans: FinishedSpans
) -> None:
    usage: Any = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    model = FakeModel(messages=iter([AIMessage("hello", usage_metadata=usage)]))

    model.invoke("hi", {"callbacks": [make()]})

    (record,) = records(exporter, DETAILS)
    (span,) = finished_spans.all()
    assert span.context
    assert (record.trace_id, record.span_id) == (span.context.trace_id, span.context.span_id)
    assert record.timestamp == span.end_time
    facts = dict(record.attributes)
    assert facts["gen_ai.operation.name"] == "chat"
    assert facts["gen_ai.request.model"] == "fake-1"
    assert facts["gen_ai.usage.input_tokens"] == 3
    for key in ("gen_ai.input.messages", "gen_ai.output.messages"):
        assert facts[key] == (span.attributes or {})[key]
    assert json.loads(facts["gen_ai.input.messages"])[0]["parts"][0]["content"] == "hi"


def test_streams_and_async_calls_have_their_event_too(make: Make, exporter: Any) -> None:
    handler = make()
    list(StreamingModel(messages=iter([])).stream("hi", {"callbacks": [handler]}))
    asyncio.run(FakeModel(messages=iter(["a"])).ainvoke("hi", {"callbacks": [handler]}))

    streamed, called = records(exporter, DETAILS)
    assert streamed.attributes["gen_ai.usage.output_tokens"] == 3
    assert "gen_ai.output.messages" in called.attributes


@pytest.mark.parametrize(
    ("arguments", "config"),
    [({"capture_content": False}, {}), ({}, {"tags": ["otelchain.capture=false"]})],
    ids=["handler", "run"],
)
def test_where_the_span_has_no_content_the_event_has_none(
    make: Make, exporter: Any, arguments: Any, config: Any
) -> None:
    handler = make(**arguments)

    FakeModel(messages=iter(["PrivateMark"])).invoke(
        "PrivateMark", {"callbacks": [handler], **config}
    )
    with pytest.raises(RuntimeError, match="PrivateMark"):
        failing_model().invoke("x", {"callbacks": [handler], **config})

    found = exporter.get_finished_logs()
    assert len(found) == 3
    assert "PrivateMark" not in str([each.log_record.attributes for each in found])


def failing_model() -> FakeModel:
    class Failing(FakeModel):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError(f"PrivateMark {SECRET}")

    return Failing(messages=iter([]))


def test_an_exception_of_a_genai_operation_is_an_event_and_redacted(
    make: Make, exporter: Any, finished_spans: FinishedSpans
) -> None:
    with pytest.raises(RuntimeError):
        failing_model().invoke("x", {"callbacks": [make()]})

    (record,) = records(exporter, "gen_ai.client.operation.exception")
    (span,) = finished_spans.all()
    assert span.context
    assert record.span_id == span.context.span_id
    assert record.severity_number.name == "WARN"
    assert record.attributes["exception.type"] == "RuntimeError"
    assert SECRET not in str(record.attributes)
    assert "REDACTED" in record.attributes["exception.message"]
    (details,) = records(exporter, DETAILS)
    assert details.attributes["error.type"] == "RuntimeError"


def test_secrets_are_redacted_in_events(make: Make, exporter: Any) -> None:
    FakeModel(messages=iter([f"the key is {SECRET}"])).invoke(
        f"use {SECRET}", {"callbacks": [make()]}
    )

    (record,) = records(exporter, DETAILS)
    assert SECRET not in str(record.attributes)
    assert str(record.attributes).count("REDACTED") >= 2


def test_a_rubric_verdict_is_an_evaluation(make: Make, exporter: Any) -> None:
    evaluation = {
        "result": "needs_revision",
        "criteria": [{"name": "a", "passed": True}, {"name": "b", "passed": False}],
        "explanation": "too long",
    }

    RunnableLambda(lambda _: {"_rubric_evaluations": [evaluation]}).invoke(
        1, {"callbacks": [make()]}
    )

    (record,) = records(exporter, "gen_ai.evaluation.result")
    assert dict(record.attributes) == {
        "gen_ai.evaluation.name": "rubric",
        "gen_ai.evaluation.score.label": "needs_revision",
        "gen_ai.evaluation.score.value": 0.5,
        "gen_ai.evaluation.explanation": "too long",
    }


def test_other_runs_have_no_event(make: Make, exporter: Any) -> None:
    RunnableLambda(lambda value: value).invoke(1, {"callbacks": [make()]})

    assert exporter.get_finished_logs() == ()


def test_an_opentelemetry_without_events_is_refused(tracer_provider: TracerProvider) -> None:
    class OldLogger:
        def emit(self, record: Any) -> None: ...

    class OldProvider:
        def get_logger(self, *args: Any) -> OldLogger:
            return OldLogger()

    with pytest.raises(ConfigurationError, match="install a newer opentelemetry-sdk"):
        OtelCallbackHandler(tracer_provider, logger_provider=OldProvider())  # type: ignore[arg-type]


def test_events_that_cannot_be_sent_cost_no_span(
    make: Make, finished_spans: FinishedSpans, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(log_events.LogEvents, "_emit", fail)

    FakeModel(messages=iter(["a"])).invoke("x", {"callbacks": [make()]})
    with pytest.raises(RuntimeError):
        failing_model().invoke("x", {"callbacks": [make()]})

    assert [(span.attributes or {})["otelchain.run.status"] for span in finished_spans.all()] == [
        "ok",
        "error",
    ]
