"""`instrument`: every run of the process, once, in every thread."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from opentelemetry.sdk.trace import TracerProvider

from fakes import FakeModel, FinishedSpans
from otelchain import ConfigurationError, OtelCallbackHandler, instrument, uninstrument
from otelchain.instrumentation import OtelchainInstrumentor, _installed


@pytest.fixture(autouse=True)
def _off_afterwards() -> Iterator[None]:
    yield
    uninstrument()
    _installed.warned = False


def run_names(finished_spans: FinishedSpans) -> list[str]:
    return [FinishedSpans.run_name(span) for span in finished_spans.all()]


def test_a_run_is_traced_without_a_handler_in_sight(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    instrument(tracer_provider=tracer_provider)
    (RunnableLambda(str) | FakeModel(messages=iter("a"))).invoke(1, {"run_name": "chain"})

    assert sorted(run_names(finished_spans)) == ["FakeModel", "chain", "str"]


def test_a_new_thread_is_traced_too(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    instrument(tracer_provider=tracer_provider)
    thread = threading.Thread(target=lambda: RunnableLambda(str).invoke(1))
    thread.start()
    thread.join()

    assert run_names(finished_spans) == ["str"]


@pytest.mark.parametrize("where", ["chain", "step", "both"])
def test_together_with_with_config_there_is_one_span_per_run(
    where: str, tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    instrument(tracer_provider=tracer_provider)
    mine = OtelCallbackHandler(tracer_provider)
    step = RunnableLambda(str)
    if where in {"step", "both"}:
        step = step.with_config(callbacks=[mine])  # type: ignore[assignment]
    chain = (step | RunnableLambda(len)).with_config(run_name="chain")
    chain.invoke(1, {"callbacks": [mine]} if where in {"chain", "both"} else {})

    assert sorted(run_names(finished_spans)) == ["chain", "len", "str"]


def test_instrumenting_twice_is_once(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    handler = instrument(tracer_provider=tracer_provider)

    assert instrument() is handler
    RunnableLambda(str).invoke(1)
    assert run_names(finished_spans) == ["str"]


def test_instrumenting_twice_with_other_settings_is_refused(
    tracer_provider: TracerProvider,
) -> None:
    instrument(tracer_provider=tracer_provider)

    with pytest.raises(ConfigurationError, match="call uninstrument"):
        instrument(tracer_provider=tracer_provider, capture_content=False)


def test_after_uninstrument_nothing_is_traced_and_it_can_be_switched_on_again(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    instrument(tracer_provider=tracer_provider)
    uninstrument()
    RunnableLambda(str).invoke(1)
    assert finished_spans.all() == []

    instrument(tracer_provider=tracer_provider)
    RunnableLambda(str).invoke(1)
    assert run_names(finished_spans) == ["str"]


def test_another_tracer_is_named_once(
    tracer_provider: TracerProvider,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    module = "openinference.instrumentation.langchain"
    monkeypatch.setitem(sys.modules, module, ModuleType(module))

    with caplog.at_level(logging.WARNING, "otelchain"):
        instrument(tracer_provider=tracer_provider)
        uninstrument()
        instrument(tracer_provider=tracer_provider)

    (record,) = caplog.records
    assert "OpenInference" in record.getMessage()


def test_auto_instrumentation_finds_us_under_our_own_name() -> None:
    found = [
        point
        for point in entry_points(group="opentelemetry_instrumentor")
        if "otelchain" in point.value
    ]
    if not found:
        pytest.skip("the distribution is not installed here, only on the path")
    (point,) = found

    assert point.name == "otelchain"
    assert point.load() is OtelchainInstrumentor


def test_the_entry_point_takes_what_auto_instrumentation_passes(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    OtelchainInstrumentor().instrument(tracer_provider=tracer_provider, skip_dep_check=True)
    RunnableLambda(str).invoke(1)
    OtelchainInstrumentor().uninstrument()

    assert run_names(finished_spans) == ["str"]


def test_a_variable_asks_for_nested_spans() -> None:
    script = (
        "from otelchain import boundary, instrument\n"
        "instrument()\n"
        "print(len(boundary._originals) == len(boundary._BOUNDARIES))"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OTELCHAIN_NESTED_SPANS": "true",
    }
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )

    assert result.stdout.strip() == "True"


def test_a_breakpoint_of_a_graph_is_an_interrupt_here_too(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    pytest.importorskip("langgraph.callbacks")
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, StateGraph

    graph = StateGraph(dict)
    graph.add_node("ask", lambda state: {"a": 1})
    graph.add_edge(START, "ask")
    app = graph.compile(checkpointer=InMemorySaver(), interrupt_before=["ask"])
    config: Any = {"configurable": {"thread_id": "t"}}
    instrument(tracer_provider=tracer_provider)

    app.invoke({"a": 0}, config)
    app.invoke(None, config)

    roots = [dict(span.attributes or {}) for span in finished_spans.all() if span.parent is None]
    assert [root["otelchain.run.status"] for root in roots] == ["interrupted", "ok"]
    assert roots[1]["otelchain.run.resumed"] is True
    assert len(finished_spans.all()[-1].links) == 1


def test_uninstrument_leaves_langgraph_as_it_was(tracer_provider: TracerProvider) -> None:
    callbacks = pytest.importorskip("langgraph.callbacks")
    original = callbacks._configure_graph_callbacks

    instrument(tracer_provider=tracer_provider)
    assert callbacks._configure_graph_callbacks is not original
    uninstrument()

    assert callbacks._configure_graph_callbacks is original
