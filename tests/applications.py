"""Four small applications whose answers to the three questions are known by hand."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig, RunnableLambda, RunnableParallel
from langchain_core.tools import tool

from fakes import FakeRetriever, StreamingModel
from otelchain import OtelCallbackHandler

SLOW_SECONDS = 0.3
MIN_DURATION = "250ms"


@tool
def slow_lookup(q: str) -> str:
    """Take longer than the threshold."""
    time.sleep(SLOW_SECONDS)
    return "late"


@tool
def fast_lookup(q: str) -> str:
    """Take no time."""
    return "at once"


@dataclass(frozen=True)
class Application:
    """An application and what the questions must answer about one run of it.

    `mixed` maps a parent's name to its kind and its failed, retried and succeeded children; a
    failed attempt that a later one made good counts as retried.
    """

    run: Callable[[OtelCallbackHandler], None]
    failed_retrievers: set[tuple[str, str]] = field(default_factory=set)
    slow_tools: set[str] = field(default_factory=set)
    mixed: dict[str, tuple[str, list[str], list[str], list[str]]] = field(default_factory=dict)


def run_sequence(handler: OtelCallbackHandler) -> None:
    """A sequence: an empty retriever, a slow and a fast tool."""
    chain = (
        RunnableLambda(str).with_config(run_name="prepare")
        | FakeRetriever().with_config(run_name="empty_index")
        | RunnableLambda(lambda documents: {"q": str(len(documents))})
        | slow_lookup
        | RunnableLambda(lambda text: {"q": text})
        | fast_lookup
    )
    chain.with_config(callbacks=[handler], run_name="sequence").invoke("where?")


def run_parallel(handler: OtelCallbackHandler) -> None:
    """Branches in a thread pool, one of which raises."""
    branches = RunnableParallel(
        broken=FakeRetriever(error=ConnectionError("index is down")).with_config(
            run_name="broken_index"
        ),
        fine=RunnableLambda(str).with_config(run_name="fine_branch"),
    ).with_config(run_name="branches")
    try:
        branches.invoke("where?", {"callbacks": [handler]})
    except ConnectionError:
        return
    raise AssertionError("the broken branch must fail")


def run_stream(handler: OtelCallbackHandler) -> None:
    """An async stream whose retriever fails and is replaced by another."""
    found = FakeRetriever(documents=[Document("Paris")]).with_config(run_name="spare_index")
    retriever = FakeRetriever(error=TimeoutError("no answer")).with_config(run_name="first_index")
    chain = (
        retriever.with_fallbacks([found]).with_config(run_name="with_spare")
        | RunnableLambda(lambda documents: {"context": documents[0].page_content})
        | ChatPromptTemplate.from_template("Answer from {context}")
        | StreamingModel(messages=iter([]))
        | StrOutputParser()
    ).with_config(run_name="stream")

    async def read() -> str:
        stream = chain.astream("where?", {"callbacks": [handler]})
        return "".join([token async for token in stream])

    assert asyncio.run(read()) == "one two three"


class State(TypedDict, total=False):
    q: str


def run_graph(handler: OtelCallbackHandler) -> None:
    """A graph with two parallel nodes, one of which fails once and is retried."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import RetryPolicy

    failures = iter([OSError("busy")])

    def flaky(state: State) -> Any:
        for error in failures:
            raise error
        return {}

    def slow(state: State, config: RunnableConfig) -> Any:
        slow_lookup.invoke({"q": "x"}, config)
        return {}

    graph = StateGraph(State)
    policy = RetryPolicy(initial_interval=0.01, jitter=False, max_attempts=3, retry_on=OSError)
    graph.add_node("flaky", flaky, retry_policy=policy)
    graph.add_node("slow", slow)
    for node in ("flaky", "slow"):
        graph.add_edge(START, node)
        graph.add_edge(node, END)
    graph.compile(name="graph").invoke({}, {"callbacks": [handler]})


APPLICATIONS = {
    "sequence": Application(
        run_sequence,
        failed_retrievers={("empty_index", "empty")},
        slow_tools={"slow_lookup"},
    ),
    "parallel": Application(
        run_parallel,
        failed_retrievers={("broken_index", "error")},
        mixed={"branches": ("mixed", ["broken_index"], [], ["fine_branch"])},
    ),
    "stream": Application(
        run_stream,
        failed_retrievers={("first_index", "error")},
        mixed={"with_spare": ("mixed", ["first_index"], [], ["spare_index"])},
    ),
    "graph": Application(
        run_graph,
        slow_tools={"slow_lookup"},
        mixed={"graph": ("retried", [], ["flaky"], ["flaky", "slow"])},
    ),
}
