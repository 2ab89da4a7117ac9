"""Distinct secrets in every place that can carry content; none may reach the file or its WAL."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.callbacks.manager import dispatch_custom_event
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

import otelchain.provider
from fakes import FakeModel, FakeRetriever
from otelchain import OtelCallbackHandler, Redactor, configure

PLACES = [
    "input",
    "prompt",
    "system",
    "variable",
    "output",
    "tool argument",
    "tool result",
    "tool definition",
    "document",
    "document metadata",
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


def planted(place: str) -> str:
    """A provider key of the published shape, different in every place and found by its middle."""
    mark = "".join(word.capitalize() for word in place.split())
    return f"sk-proj-{mark}{'0Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St'}{len(mark)}"


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
    FakeModel(messages=iter(["x"])).invoke(f"plain {planted('prompt')}", config)
    streaming = FakeModel(messages=iter([AIMessage(f"a {planted('token stream')} b")]))
    list(streaming.stream("go", config))
    lookup.invoke({"q": planted("tool argument")}, config)
    documents = [
        Document(f"text {planted('document')}", metadata={"k": planted("document metadata")})
    ]
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
    await asyncio.to_thread(use_every_place, callbacks)


@pytest.fixture(autouse=True)
def _forget_the_last_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otelchain.provider, "_configured", None)


MODES: dict[str, Callable[[Any], OtelCallbackHandler]] = {
    "mask": OtelCallbackHandler,
    "hash": lambda provider: OtelCallbackHandler(
        provider, redactor=Redactor(action="hash", hash_key="k" * 32)
    ),
    "remove": lambda provider: OtelCallbackHandler(provider, redactor=Redactor(action="remove")),
    "partial": lambda provider: OtelCallbackHandler(provider, redactor=Redactor(action="partial")),
    "strict": lambda provider: OtelCallbackHandler(
        provider, redactor=Redactor(preset="strict", detectors=[])
    ),
    "content off": lambda provider: OtelCallbackHandler(
        provider, redactor=Redactor(detectors=[]), capture_content=False
    ),
}


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
@pytest.mark.parametrize("mode", MODES)
def test_no_planted_secret_is_in_the_bytes_of_the_file(
    mode: str, protocol: str, start_collector: Any, tmp_path: Path
) -> None:
    # One that redacts nothing itself: what the handler lets through would be found.
    collector = start_collector(tmp_path / "traces.duckdb", "--redaction", "off")
    address = collector.grpc if protocol == "grpc" else collector.http
    provider = configure("app", f"http://{address}", protocol=protocol, set_global=False)
    use_every_place([MODES[mode](provider)])
    provider.shutdown()
    # Killed, so that the write-ahead log stays beside the file and is searched too.
    collector.kill()

    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sum(map(len, files.values())) > 10_000, files.keys()
    # Names and ids that the application chose (run name, session) stay facts with content off and
    # in strict: there the detectors alone guard them, and they were switched off here.
    chosen = {"run name", "session"} if mode in ("content off", "strict") else set()
    leaked = [
        (place, name)
        for place in PLACES
        for name, content in files.items()
        if planted(place)[8:30].encode() in content and place not in chosen
    ]
    assert leaked == []


def test_the_search_finds_a_secret_that_is_there(start_collector: Any, tmp_path: Path) -> None:
    """The test above can fail: without redaction every place leaks."""
    collector = start_collector(tmp_path / "traces.duckdb", "--redaction", "off")
    provider = configure("app", f"http://{collector.http}", set_global=False)
    use_every_place([OtelCallbackHandler(provider, redactor=Redactor(detectors=[]))])
    provider.shutdown()
    collector.kill()

    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert [place for place in PLACES if planted(place)[8:30].encode() not in content] == []


def test_a_secret_keeps_its_pseudonym_from_span_to_span(
    tracer_provider: Any, finished_spans: Any
) -> None:
    redactor = Redactor(action="hash", hash_key="k" * 32)
    handler = OtelCallbackHandler(tracer_provider, redactor=redactor)
    for _ in range(2):
        RunnableLambda(str).invoke(f"key {planted('input')}", {"callbacks": [handler]})

    first, second = [
        json.loads(span.attributes["otelchain.input"]) for span in finished_spans.all()
    ]
    assert first == second
    assert planted("input") not in first
