"""Metrics of the GenAI conventions, and the handler's own counts."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

from fakes import FakeModel, FakeRetriever, StreamingModel
from otelchain import OtelCallbackHandler, Redactor
from otelchain.handler import HandlerStats


@pytest.fixture(name="reader")
def _reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture(name="metered")
def _metered(reader: InMemoryMetricReader, tracer_provider: TracerProvider) -> OtelCallbackHandler:
    provider = MeterProvider([reader], shutdown_on_exit=False)
    return OtelCallbackHandler(tracer_provider, meter_provider=provider)


def points(reader: InMemoryMetricReader) -> dict[str, Any]:
    collected = reader.get_metrics_data()
    assert collected is not None
    return {
        metric.name: metric.data.data_points[0]
        for resource in collected.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.data.data_points
    }


def test_a_model_call_counts_its_duration_and_its_tokens(
    metered: OtelCallbackHandler, reader: InMemoryMetricReader
) -> None:
    usage: Any = {
        "input_tokens": 10,
        "output_tokens": 4,
        "total_tokens": 14,
        "input_token_details": {"cache_read": 3},
    }
    FakeModel(messages=iter([AIMessage("x", usage_metadata=usage)])).invoke(
        "q", {"callbacks": [metered]}
    )

    found = points(reader)
    duration = found["gen_ai.client.inference.duration"]
    assert duration.count == 1
    assert dict(duration.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "fake-1",
    }
    assert found["gen_ai.client.inference.usage.input_tokens"].value == 10
    assert found["gen_ai.client.inference.usage.output_tokens"].value == 4
    assert found["gen_ai.client.inference.usage.cache_read.input_tokens"].value == 3


def test_a_streamed_call_counts_its_time_to_first_chunk(
    metered: OtelCallbackHandler, reader: InMemoryMetricReader
) -> None:
    list(StreamingModel(messages=iter([])).stream("q", {"callbacks": [metered]}))

    assert points(reader)["gen_ai.client.inference.time_to_first_chunk"].count == 1


def test_a_streamed_call_counts_the_time_between_its_chunks(
    metered: OtelCallbackHandler,
    reader: InMemoryMetricReader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = [10.0]
    monkeypatch.setattr("otelchain.recorder.time_ns", lambda: int(seconds[0] * 1e9))
    run_id = uuid4()
    metered.on_chat_model_start({}, [[HumanMessage("q")]], run_id=run_id, name="m")
    for waited in (4.0, 1.0, 0.5, 0.25):
        seconds[0] += waited
        metered.on_llm_new_token("x", run_id=run_id)
    seconds[0] += 8
    metered.on_llm_error(ValueError("broke off"), run_id=run_id)

    found = points(reader)
    between = found["gen_ai.client.inference.time_per_output_chunk"]
    assert (between.count, between.sum, between.min, between.max) == (3, 1.75, 0.25, 1.0)
    assert found["gen_ai.client.inference.time_to_first_chunk"].sum == 4.0


def test_a_call_that_does_not_stream_has_no_time_between_chunks(
    metered: OtelCallbackHandler, reader: InMemoryMetricReader
) -> None:
    FakeModel(messages=iter([AIMessage("x")])).invoke("q", {"callbacks": [metered]})

    assert "gen_ai.client.inference.time_per_output_chunk" not in points(reader)


def test_a_tool_and_a_failed_retriever_count_their_durations(
    metered: OtelCallbackHandler, reader: InMemoryMetricReader
) -> None:
    @tool
    def lookup(q: str) -> str:
        """Look it up."""
        return q

    lookup.invoke({"q": "x"}, {"callbacks": [metered]})
    with pytest.raises(LookupError):
        FakeRetriever(error=LookupError("secret text")).invoke("q", {"callbacks": [metered]})

    found = points(reader)
    assert dict(found["gen_ai.execute_tool.duration"].attributes)["gen_ai.tool.name"] == "lookup"
    retrieval = dict(found["gen_ai.client.operation.duration"].attributes)
    assert retrieval == {"gen_ai.operation.name": "retrieval", "error.type": "LookupError"}


def test_open_dropped_and_failed_are_readable_and_metered(
    reader: InMemoryMetricReader, tracer_provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTELCHAIN_MAX_OPEN_RUNS", "2")
    handler = OtelCallbackHandler(
        tracer_provider, meter_provider=MeterProvider([reader], shutdown_on_exit=False)
    )
    for number in range(3):
        handler.on_chain_start(None, {}, run_id=uuid4(), name=f"run {number}")
    handler.on_chat_model_start(None, 5, run_id=uuid4())  # no list of messages

    assert handler.stats() == HandlerStats(open=2, started=4, dropped=2, failed=1)
    found = points(reader)
    assert found["otelchain.runs.open"].value == 2
    assert found["otelchain.runs.dropped"].value == 2
    assert found["otelchain.hooks.failed"].value == 1


@pytest.mark.parametrize("number", [200])
def test_cancelled_retrievers_and_abandoned_streams_leave_no_open_run(
    number: int, handler: OtelCallbackHandler
) -> None:
    class Slow(FakeRetriever):
        async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
            await asyncio.sleep(60)

    async def application() -> None:
        tasks = [
            asyncio.create_task(Slow().ainvoke("q", {"callbacks": [handler]}))
            for _ in range(number)
        ]
        await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(number):
            stream = StreamingModel(messages=iter([])).astream("q", {"callbacks": [handler]})
            async for _ in stream:
                break
            await stream.aclose()

    asyncio.run(application())

    assert handler.stats() == HandlerStats(open=0, started=2 * number, dropped=0, failed=0)


def test_what_the_redactor_found_and_where_it_failed_is_metered_by_rule(
    reader: InMemoryMetricReader, tracer_provider: TracerProvider
) -> None:
    def broken(text: str) -> str:
        if "Bob" in text:
            raise ValueError(text)
        return text

    handler = OtelCallbackHandler(
        tracer_provider,
        redactor=Redactor(callables=[broken]),
        meter_provider=MeterProvider([reader], shutdown_on_exit=False),
    )
    for question in ("I am Bob", "bob@example.com"):
        RunnableLambda(str).invoke(question, {"callbacks": [handler]})

    found = points(reader)
    assert found["otelchain.redaction.findings"].value == 2  # input and output
    assert found["otelchain.redaction.findings"].attributes == {"otelchain.redaction.rule": "email"}
    assert found["otelchain.redaction.failures"].value == 2
    assert found["otelchain.redaction.failures"].attributes == {
        "otelchain.redaction.rule": "broken"
    }
