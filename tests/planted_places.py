"""Applications that carry a distinct secret in every place that can carry content."""

from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.callbacks.manager import adispatch_custom_event, dispatch_custom_event
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import tool

from fakes import FakeModel, FakeRetriever
from otelchain import OtelCallbackHandler, Redactor

PLACES = [
    "input",
    "plain prompt",
    "system",
    "variable",
    "output",
    "tool argument",
    "tool result",
    "tool definition",
    "document",
    "document field",
    "query",
    "error text",
    "stack",
    "metadata",
    "tag",
    "stop sequence",
    "template",
    "custom event",
    "graph state",
    "interrupt",
    "session",
    "run name",
    "token stream",
]
# The way of the call comes last: no mark is the end of another, so what is found has one place.
_WAYS = ("ainvoke", "astream", "abatch")
ASYNC_PLACES = [
    *(f"{place} {way}" for place in ("input", "output", "progress") for way in _WAYS),
    *(f"{place} of the async run" for place in ("metadata", "tag", "session", "run name")),
    "async tool argument",
    "async tool result",
    "async tool error",
    "async document",
    "async query",
    "async retriever error",
    "async model error",
    "async error text",
    "async stack",
    "async partial stream",
    "async node result",
    "async node event",
    "async node error",
    "async graph state",
    "async interrupt",
]


def planted(place: str) -> str:
    """A provider key of the published shape, different in every place and found by its middle."""
    mark = _mark(place)
    return f"sk-proj-{mark}0Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St{len(mark)}"


def searched(place: str) -> str:
    """The middle of a planted secret, so that one that went in part only is found too."""
    return f"{_mark(place)}0Ab1Cd2E"


def found(content: bytes, places: Iterable[str]) -> set[str]:
    return {place for place in places if searched(place).encode() in content}


def _mark(place: str) -> str:
    return "".join(word.capitalize() for word in place.split())


def use_every_place(callbacks: list[Any]) -> None:
    """Run an application that carries a secret everywhere."""

    @tool
    def lookup(q: str) -> str:
        """Look it up."""
        return f"the key is {planted('tool result')}"

    def step(value: Any) -> Any:
        dispatch_custom_event("progress", {"note": planted("custom event")})
        return value

    def broken(value: Any) -> Any:
        local = planted("stack")
        raise ValueError(f"cannot use {planted('error text')} {local}")

    config: Any = {
        "callbacks": callbacks,
        "metadata": {"note": planted("metadata"), "session_id": planted("session")},
        "tags": [planted("tag")],
        "run_name": f"ask {planted('run name')}",
    }
    prompt = ChatPromptTemplate.from_messages(
        [
            ("system", f"system {planted('system')} and {planted('template')}"),
            ("human", "{question} {variable}"),
        ]
    )
    model = FakeModel(messages=iter([AIMessage(f"answer {planted('output')}")])).bind(
        stop=[planted("stop sequence")],
        tools=[{"name": "lookup", "description": planted("tool definition")}],
    )
    chain = RunnableLambda(step) | prompt | model | StrOutputParser()
    question = {"question": planted("input"), "variable": planted("variable")}
    chain.invoke(question, config)
    FakeModel(messages=iter(["x"])).invoke(f"plain {planted('plain prompt')}", config)
    streaming = FakeModel(messages=iter([AIMessage(f"a {planted('token stream')} b")]))
    list(streaming.stream("go", config))
    lookup.invoke({"q": planted("tool argument")}, config)
    documents = [Document(f"text {planted('document')}", metadata={"k": planted("document field")})]
    FakeRetriever(documents=documents).invoke(planted("query"), config)
    with pytest.raises(ValueError, match="cannot use"):
        RunnableLambda(broken).invoke(1, config)
    use_a_graph(config)


def use_a_graph(config: Any) -> None:
    pytest.importorskip("langgraph")
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, StateGraph
    from langgraph.types import interrupt

    def wait(state: Any) -> Any:
        return {"x": interrupt({"question": planted("interrupt")})}

    graph = StateGraph(dict)
    graph.add_node("wait", wait)
    graph.add_edge(START, "wait")
    app = graph.compile(checkpointer=InMemorySaver())
    configured = {**config, "configurable": {"thread_id": str(uuid4())}}
    app.invoke({"state": planted("graph state")}, configured)


async def use_every_place_async(callbacks: list[Any]) -> None:
    """Run an application that awaits everything and carries a secret everywhere."""
    config: RunnableConfig = {
        "callbacks": callbacks,
        "metadata": {
            "note": planted("metadata of the async run"),
            "session_id": planted("session of the async run"),
        },
        "tags": [planted("tag of the async run")],
        "run_name": f"ask {planted('run name of the async run')}",
    }
    await _chains(config)
    await _tools_and_retrievers(config)
    await _failing_models(config)
    await _async_graphs(config)


async def _chains(config: RunnableConfig) -> None:
    def chain(way: str) -> Runnable[str, str]:
        # The config is handed on by name: before Python 3.11 a task has no context of its own.
        async def step(value: str, config: RunnableConfig) -> str:
            await adispatch_custom_event(
                "progress", {"note": planted(f"progress {way}")}, config=config
            )
            return value

        answers = (AIMessage(f"answer {planted(f'output {way}')}") for _ in range(2))
        return RunnableLambda(step) | FakeModel(messages=answers) | StrOutputParser()

    await chain("ainvoke").ainvoke(planted("input ainvoke"), config)
    async for _ in chain("astream").astream(planted("input astream"), config):
        pass
    await chain("abatch").abatch([planted("input abatch"), "two"], config)

    async def broken(_: Any) -> Any:
        local = planted("async stack")
        raise ValueError(f"cannot use {planted('async error text')} {local}")

    [failure] = await RunnableLambda(broken).abatch([1], config, return_exceptions=True)
    assert isinstance(failure, ValueError)


async def _tools_and_retrievers(config: RunnableConfig) -> None:
    @tool
    async def lookup(q: str) -> str:
        """Look it up."""
        if q == "nothing":
            raise ValueError(f"no {planted('async tool error')}")
        return f"the key is {planted('async tool result')}"

    await lookup.ainvoke({"q": planted("async tool argument")}, config)
    with pytest.raises(ValueError, match="no sk-proj"):
        await lookup.ainvoke({"q": "nothing"}, config)
    documents = [Document(f"text {planted('async document')}")]
    await AsyncRetriever(documents=documents).ainvoke(planted("async query"), config)
    failing = AsyncRetriever(error=ValueError(f"no {planted('async retriever error')}"))
    with pytest.raises(ValueError, match="no sk-proj"):
        await failing.ainvoke("go", config)


class AsyncRetriever(FakeRetriever):
    """One that is awaited, not run on a thread."""

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        if self.error:
            raise self.error
        return self.documents


class BreakingModel(FakeModel):
    """Fails at once, or after the first words of a stream."""

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        raise ValueError(f"refused {planted('async model error')}")

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        text = f"so far {planted('async partial stream')}"
        yield ChatGenerationChunk(message=AIMessageChunk(text))
        raise ValueError(f"refused {planted('async model error')}")


async def _failing_models(config: RunnableConfig) -> None:
    with pytest.raises(ValueError, match="refused"):
        async for _ in BreakingModel(messages=iter([])).astream("go", config):
            pass
    with pytest.raises(ValueError, match="refused"):
        await BreakingModel(messages=iter([]), disable_streaming=True).ainvoke("go", config)


async def _async_graphs(config: RunnableConfig) -> None:
    pytest.importorskip("langgraph")
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, StateGraph
    from langgraph.types import interrupt

    async def note(state: Any, config: RunnableConfig) -> Any:
        event = {"note": planted("async node event")}
        await adispatch_custom_event("progress", event, config=config)
        return {"x": planted("async node result")}

    def wait(state: Any) -> Any:  # Not async: before Python 3.11 interrupt() needs a thread.
        return {"x": interrupt({"question": planted("async interrupt")})}

    async def broken(state: Any) -> Any:
        raise ValueError(f"cannot use {planted('async node error')}")

    def configured() -> Any:
        return {**config, "configurable": {"thread_id": str(uuid4())}}

    state = {"state": planted("async graph state")}
    waiting = StateGraph(dict).add_sequence([note, wait]).add_edge(START, "note")
    await waiting.compile(checkpointer=InMemorySaver()).ainvoke(state, configured())
    failing = StateGraph(dict).add_node(broken).add_edge(START, "broken").compile()
    with pytest.raises(ValueError, match="cannot use"):
        async for _ in failing.astream(state, configured()):
            pass


def _with_policy(**policy: Any) -> Callable[..., OtelCallbackHandler]:
    def make(provider: Any, **arguments: Any) -> OtelCallbackHandler:
        return OtelCallbackHandler(provider, redactor=Redactor(**policy), **arguments)

    return make


#: A provider, and more arguments of a handler → a handler that lets no content through.
MODES: dict[str, Callable[..., OtelCallbackHandler]] = {
    "mask": OtelCallbackHandler,
    "hash": _with_policy(action="hash", hash_key="k" * 32),
    "remove": _with_policy(action="remove"),
    "partial": _with_policy(action="partial"),
    "strict": _with_policy(preset="strict", detectors=[]),
    "content off": partial(_with_policy(detectors=[]), capture_content=False),
}
