"""The questions asked about what LangChain and LangGraph really report, not about rows by hand."""

from collections.abc import Iterator
from typing import Any, TypedDict

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, StateGraph

from fakes import FinishedSpans
from otelchain import OtelCallbackHandler
from otelchain_queries import load
from stored_spans import ask


@pytest.fixture(name="config")
def _config(handler: OtelCallbackHandler) -> dict[str, Any]:
    return {"callbacks": [handler]}


def answers(spans: FinishedSpans, name: str, **values: str) -> list[dict[str, Any]]:
    query = load(name)
    return ask(spans.all(), query.sql, query.bind(values))


def fails(_: object) -> str:
    raise ConnectionError("down")


def test_a_fallback_that_answered(config: Any, finished_spans: FinishedSpans) -> None:
    first = RunnableLambda(fails).with_config(run_name="first")
    second = RunnableLambda(lambda _: "ok").with_config(run_name="second")

    first.with_fallbacks([second]).invoke(1, config)

    (row,) = answers(finished_spans, "fallbacks")
    assert (row["failed_name"], row["used_name"]) == ("first", "second")
    assert row["error_type"] == "ConnectionError"
    assert [found["name"] for found in answers(finished_spans, "unseen-errors")] == ["first"]


def test_a_fallback_with_a_name_of_its_own(config: Any, finished_spans: FinishedSpans) -> None:
    second = RunnableLambda(lambda _: "ok").with_config(run_name="second")
    chain = RunnableLambda(fails).with_fallbacks([second]).with_config(run_name="ask")

    chain.invoke(1, config)

    (row,) = answers(finished_spans, "fallbacks")
    # LangChain gives its alternatives the name too; the run itself says which one answered.
    assert (row["name"], row["failed_name"], row["used_name"]) == ("ask", "ask", "RunnableLambda")
    assert (row["failed_count"], row["error_type"]) == (1, "ConnectionError")


def test_a_variable_that_was_not_given(config: Any, finished_spans: FinishedSpans) -> None:
    prompt = ChatPromptTemplate.from_template("Weather in {city}?")

    with pytest.raises(KeyError):
        prompt.invoke({"town": "Oslo"}, config)

    (row,) = answers(finished_spans, "unfilled-variables")
    assert row["kind"] == "missing"


def test_a_variable_that_reached_the_model(config: Any, finished_spans: FinishedSpans) -> None:
    GenericFakeChatModel(messages=iter(["fine"])).invoke("Weather in {city}?", config)

    (row,) = answers(finished_spans, "unfilled-variables")
    assert (row["kind"], row["variables"]) == ("literal", ["city"])


@tool
def square(number: int) -> int:
    """Square a number."""
    return number * number


def test_a_tool_that_refused_its_arguments(config: Any, finished_spans: FinishedSpans) -> None:
    with pytest.raises(ValueError, match="number"):
        square.invoke({"number": "many"}, config)

    (row,) = answers(finished_spans, "tool-argument-errors")
    assert (row["name"], row["problem"]) == ("square", "rejected")


class ModelOfTools(GenericFakeChatModel):
    """Takes tools, as every real chat model does."""

    model_name: str = "fake"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        definitions = [
            {
                "type": "function",
                "function": {"name": each.name, "parameters": each.args_schema.model_json_schema()},
            }
            for each in tools
        ]
        return self.bind(tools=definitions)

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model_name}

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        kwargs.pop("tools", None)
        return super()._generate(messages, *args, **kwargs)


def test_a_tool_call_that_does_not_fit_what_the_model_was_given(
    config: Any, finished_spans: FinishedSpans
) -> None:
    call = {"name": "square", "args": {"number": True, "other": 1}, "id": "1", "type": "tool_call"}
    model = ModelOfTools(messages=iter([AIMessage("", tool_calls=[call])])).bind_tools([square])

    def use(message: AIMessage) -> Any:
        return square.invoke(message.tool_calls[0]["args"])

    (model | RunnableLambda(use)).invoke("the square?", config)

    (row,) = answers(finished_spans, "tool-argument-errors")
    assert (row["problem"], row["arguments"]) == ("wrong type", ["number"])


def test_the_same_tool_call_twice(config: Any, finished_spans: FinishedSpans) -> None:
    def twice(_: object) -> list[Any]:
        return [square.invoke({"number": 3}), square.invoke({"number": 3})]

    RunnableLambda(twice).invoke(1, config)

    (row,) = answers(finished_spans, "repeated-tool-calls")
    assert (row["name"], row["calls"], row["tool_input"]) == ("square", 2, '{"number":3}')


class State(TypedDict):
    """What the graphs below carry."""

    count: int


def looping_graph(stop_at: int) -> Any:
    graph = StateGraph(State)
    graph.add_node("step", lambda state: {"count": state["count"] + 1})
    graph.add_edge(START, "step")
    graph.add_conditional_edges(
        "step", lambda state: "step" if state["count"] < stop_at else "__end__"
    )
    return graph.compile()


def test_a_graph_that_its_recursion_limit_stopped(
    config: Any, finished_spans: FinishedSpans
) -> None:
    with pytest.raises(GraphRecursionError):
        looping_graph(100).invoke({"count": 0}, {**config, "recursion_limit": 5})

    (row,) = answers(finished_spans, "agent-loops", recursion_limit="5")
    assert (row["kind"], row["steps"]) == ("stopped", 5)


def test_a_graph_that_went_another_way(config: Any, finished_spans: FinishedSpans) -> None:
    for stop_at in (1, 1, 3):
        looping_graph(stop_at).invoke({"count": 0}, config)

    (row,) = answers(finished_spans, "differing-trajectories")
    assert row["usual_trajectory"] == "step"
    assert row["trajectory"] == "step > step > step"
    assert (row["traces"], row["complete"]) == (1, True)


def attempts(failing: int) -> Iterator[bool]:
    yield from [True] * failing
    yield False


def test_a_storm_of_retries(config: Any, finished_spans: FinishedSpans) -> None:
    fail = attempts(3)

    def call(_: object) -> str:
        return fails(1) if next(fail) else "ok"

    retried = RunnableLambda(call).with_retry(stop_after_attempt=4, wait_exponential_jitter=False)
    retried.invoke(1, config)

    (row,) = answers(finished_spans, "retry-storms")
    assert (row["attempts"], row["failed_attempts"], row["last_status"]) == (4, 3, "ok")
    assert answers(finished_spans, "unseen-errors") == []


def test_errors_that_went_up_are_counted_once(config: Any, finished_spans: FinishedSpans) -> None:
    chain = RunnableLambda(lambda x: x).with_config(run_name="first") | RunnableLambda(
        fails
    ).with_config(run_name="second")

    with pytest.raises(ConnectionError):
        chain.invoke(1, config)

    rows = answers(finished_spans, "first-causes")
    assert [(row["name"], row["errors"], row["failed_traces"]) for row in rows] == [
        ("second", 1, 1)
    ]
