"""`otelchain.capture=false` on one runnable: no content of it and of what runs below, all facts."""

import asyncio
import json
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any
from uuid import UUID, uuid4

import pytest
from langchain_core.callbacks.manager import dispatch_custom_event
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import ToolException, tool
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

from fakes import FakeModel, FakeRetriever, FinishedSpans
from otelchain import OtelCallbackHandler, run_facts, traced_embeddings, withheld
from otelchain.conformance.spans import texts
from otelchain.live import pending_span
from otelchain.runs import OpenRun, OpenRuns

MARK = "PrivateMark"

GATES: dict[str, dict[str, Any]] = {
    "tag": {"tags": ["otelchain.capture=false"]},
    "metadata": {"metadata": {"otelchain.capture": False}},
    "metadata text": {"metadata": {"otelchain.capture": "False"}},
    "misspelt": {"metadata": {"otelchain.capture": "flase"}},
}


def leaks(spans: list[ReadableSpan]) -> list[str]:
    return [
        f"{FinishedSpans.run_name(span)}: {place}"
        for span in spans
        for place, text in texts(span)
        if MARK in text
    ]


@tool
def lookup(q: str) -> str:
    """Look up PrivateMark."""
    return f"{MARK} {q}"


@tool
def fragile(q: str) -> str:
    """Refuse PrivateMark."""
    raise ToolException(f"{MARK} refused")


fragile.handle_tool_error = True


def everything(value: Any) -> Any:
    """Use every kind of run below a step, in its thread, in another one and in a task."""
    dispatch_custom_event("progress", {"note": MARK})
    prompt = ChatPromptTemplate.from_template(MARK + " {question}")
    model = FakeModel(messages=iter([AIMessage(f"answer {MARK}")] * 20))
    chain = prompt | model.bind(stop=[MARK], tools=[{"name": MARK}]) | StrOutputParser()
    chain.invoke({"question": MARK}, {"tags": [MARK], "metadata": {"note": MARK}})
    list(chain.stream({"question": MARK}))
    chain.batch([{"question": MARK}] * 2)
    lookup.invoke({"q": MARK})
    fragile.invoke({"q": MARK})
    documents = [Document(f"text {MARK}", metadata={"k": MARK})]
    FakeRetriever(documents=documents).invoke(MARK)
    traced_embeddings(DeterministicFakeEmbedding(size=3)).embed_query(MARK)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(copy_context().run, lookup.invoke, {"q": MARK}).result()
    return value


async def everything_async(value: Any) -> Any:
    model = FakeModel(messages=iter([AIMessage(f"answer {MARK}")] * 20))
    await asyncio.create_task(model.ainvoke(MARK))
    async for _ in model.astream(MARK):
        pass
    await lookup.ainvoke({"q": MARK})
    await FakeRetriever(documents=[Document(MARK)]).ainvoke(MARK)
    return value


def broken(value: Any) -> Any:
    raise ValueError(f"cannot use {MARK}")


def guarded(step: Any, gate: dict[str, Any], **more: Any) -> Runnable[Any, Any]:
    return RunnableLambda(step, name="private", **more).with_config(**gate)


SPELLINGS: dict[str, dict[str, Any]] = {
    **{
        f"tag {tag}": {"tags": [tag]}
        for tag in (
            *("OTELCHAIN.CAPTURE=false", "otelchain.capture:false", "otelchain.capture: False"),
            *("otelchain_capture=false", " otelchain.capture = FALSE", "OtelChain_Capture:False"),
        )
    },
    "upper case key": {"metadata": {"OTELCHAIN.CAPTURE": False}},
    "key with _": {"metadata": {"otelchain_capture": "false"}},
}
NOT_UNDERSTOOD: dict[str, dict[str, Any]] = {
    **{
        f"tag {tag}": {"tags": [tag]}
        for tag in (
            *(
                "otelchain.capture",
                "otelchain.capture=",
                "otelchain.capture=no",
                "otelchain:capture",
            ),
            *(
                "otelchain.captrue=false",
                "otelchain.capture_content=true",
                "otel-chain.capture=true",
            ),
        )
    },
    "no word": {"metadata": {"otelchain.capture": None}},
    "number": {"metadata": {"otelchain.capture": 0}},
    "another key": {"metadata": {"otelchain-capture": True}},
}


def _ran(handler: OtelCallbackHandler, gate: dict[str, Any]) -> None:
    guarded(str, gate).invoke(MARK, {"callbacks": [handler]})


@pytest.mark.parametrize("gate", SPELLINGS.values(), ids=SPELLINGS)
def test_letter_case_and_separators_of_the_switch_do_not_matter(
    handler: OtelCallbackHandler,
    finished_spans: FinishedSpans,
    caplog: pytest.LogCaptureFixture,
    gate: dict[str, Any],
) -> None:
    run_facts._warn_of_switch.cache_clear()
    _ran(handler, gate)

    assert leaks(finished_spans.all()) == []
    assert caplog.text == ""


def test_what_only_looks_like_the_switch_turns_content_off_and_is_told_once(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, caplog: pytest.LogCaptureFixture
) -> None:
    run_facts._warn_of_switch.cache_clear()
    for gate in NOT_UNDERSTOOD.values():
        _ran(handler, gate)

    assert len(finished_spans.all()) == len(NOT_UNDERSTOOD)
    assert leaks(finished_spans.all()) == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize(
    "gate",
    [
        {"tags": ["otelchain.capture=true", "captured", "otelchain", "capture=false"]},
        {"metadata": {"otelchain.capture": "TRUE", "otelchain": "capture", "capture": False}},
        {"tags": ["OTELCHAIN_CAPTURE:True"]},
    ],
)
def test_what_says_true_or_is_another_word_leaves_content_on(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, gate: dict[str, Any]
) -> None:
    _ran(handler, gate)

    assert leaks(finished_spans.all()) != []


@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
def test_a_step_with_content_off_leaves_no_content_of_it_and_of_what_runs_below(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, gate: dict[str, Any]
) -> None:
    chain = RunnableLambda(lambda _: [guarded(everything, gate).invoke(MARK), "out"][1])

    chain.invoke("in", {"callbacks": [handler]})

    spans = finished_spans.all()
    assert len(spans) > 20
    assert leaks(spans) == []
    root = next(span for span in spans if span.parent is None)
    assert (root.attributes or {})["otelchain.input"] == '"in"'  # above it nothing is off


def test_the_same_application_without_the_gate_is_full_of_it(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    RunnableLambda(everything).invoke(MARK, {"callbacks": [handler]})

    assert len(leaks(finished_spans.all())) > 20


def test_it_holds_in_tasks_and_async_streams(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    gate = GATES["tag"]
    chain = guarded(lambda value: value, gate, afunc=everything_async)

    async def run() -> None:
        await chain.ainvoke(MARK, {"callbacks": [handler]})
        async for _ in chain.astream(MARK, {"callbacks": [handler]}):
            pass
        await chain.abatch([MARK, MARK], {"callbacks": [handler]})

    asyncio.run(run())

    assert leaks(finished_spans.all()) == []


def test_facts_stay_and_the_switch_itself_too(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    usage: Any = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    model = FakeModel(messages=iter([AIMessage(MARK, usage_metadata=usage)]))
    config: Any = {"callbacks": [handler], "tags": ["mine", "otelchain.capture=false"]}

    model.with_config(metadata={"otelchain.capture": False}).invoke(MARK, config)
    FakeRetriever(documents=[Document(MARK, id="7")]).invoke(MARK, config)

    of_model, of_retriever = (dict(span.attributes or {}) for span in finished_spans.all())
    assert of_model["gen_ai.usage.input_tokens"] == 3
    assert of_model["gen_ai.request.model"] == "fake-1"
    assert of_model["otelchain.tags"] == ("otelchain.capture=false",)
    assert json.loads(str(of_model["otelchain.metadata"]))["otelchain.capture"] is False
    assert of_retriever["otelchain.retrieval.document_count"] == 1
    (document,) = json.loads(str(of_retriever["gen_ai.retrieval.documents"]))
    assert document["id"] == "7"
    assert "content" not in document


@pytest.mark.parametrize("wraps", [False, True], ids=["itself", "as the cause of another"])
def test_its_error_passes_the_runs_above_without_its_text(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, wraps: bool
) -> None:
    inner = guarded(broken, GATES["tag"])

    def outer(value: Any) -> Any:
        try:
            inner.invoke(value)
        except ValueError as error:
            if wraps:
                raise RuntimeError(f"failed: {error}") from None
            raise

    chain = RunnableLambda(outer) | RunnableLambda(lambda value: value)

    with pytest.raises((ValueError, RuntimeError)):
        chain.invoke("in", {"callbacks": [handler]})

    spans = finished_spans.all()
    assert leaks(spans) == []
    assert all((span.attributes or {})["error.type"] for span in spans)
    assert len(spans) == 3


def test_an_error_of_a_run_beside_it_keeps_its_text(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    def outer(value: Any) -> Any:
        with pytest.raises(ValueError, match=MARK):
            guarded(broken, GATES["tag"]).invoke(value)
        raise KeyError("of the outer step itself")

    with pytest.raises(KeyError):
        RunnableLambda(outer).invoke("in", {"callbacks": [handler]})

    outer_span = finished_spans.all()[-1]
    assert "of the outer step itself" in str(outer_span.status.description)


@pytest.mark.parametrize("group", [False, True], ids=["one", "group"])
@pytest.mark.skipif(sys.version_info < (3, 11), reason="no exception groups before 3.11")
def test_its_error_inside_an_exception_group_is_withheld(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, group: bool
) -> None:
    async def outer(value: Any) -> Any:
        async with asyncio.TaskGroup() as tasks:  # type: ignore[attr-defined,unused-ignore]
            tasks.create_task(guarded(broken, GATES["tag"]).ainvoke(value))
            if group:
                tasks.create_task(guarded(broken, GATES["tag"]).ainvoke(value))

    with pytest.raises(BaseException, match="unhandled errors"):
        asyncio.run(RunnableLambda(outer).ainvoke("in", {"callbacks": [handler]}))

    assert leaks(finished_spans.all()) == []


def private_tool(step: Any) -> Any:
    """A tool that is tagged itself: LangChain hands such a tag to nothing below."""

    @tool
    def private(q: str) -> str:
        """Answer."""
        return str(step(ensure_config()))

    private.tags = ["otelchain.capture=false"]
    return private


def test_what_runs_below_is_not_told_but_is_below_it_all_the_same(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    private_tool(lambda _: everything(MARK)).invoke({"q": MARK}, {"callbacks": [handler]})

    spans = finished_spans.all()
    assert len(spans) > 20
    assert leaks(spans) == []


@pytest.mark.parametrize("between", [0, 5], ids=["at once", "after it was forgotten"])
def test_a_child_that_starts_after_the_run_ended_is_below_it_too(
    handler: OtelCallbackHandler,
    finished_spans: FinishedSpans,
    monkeypatch: pytest.MonkeyPatch,
    between: int,
) -> None:
    monkeypatch.setattr("otelchain.runs.ENDED_KEPT", 3)
    kept: list[Any] = []
    private_tool(kept.append).invoke({"q": MARK}, {"callbacks": [handler]})
    for _ in range(between):
        RunnableLambda(lambda value: value).invoke("in", {"callbacks": [handler]})

    # What a background worker keeps.
    lookup.invoke({"q": MARK}, {"callbacks": kept[0]["callbacks"]})

    spans = finished_spans.all()
    assert len(spans) == 2 + between
    assert leaks(spans) == []


def test_a_question_is_known_again_in_another_error() -> None:
    pytest.importorskip("langgraph")
    from langgraph.errors import GraphInterrupt
    from langgraph.types import Interrupt

    question, other = Interrupt(MARK, id="1"), Interrupt("public", id="2")
    runs = OpenRuns()
    above = open_run(runs, None)
    raised = GraphInterrupt((question,))  # kept, so that no later error gets its number
    withheld.hand_up(open_run(runs, above.run_id), raised, runs)

    assert withheld.comes_from_below(above, GraphInterrupt((other, question)))
    assert not withheld.comes_from_below(above, GraphInterrupt((other,)))


def open_run(runs: OpenRuns, parent: UUID | None) -> OpenRun:
    span = trace.INVALID_SPAN
    run = OpenRun(uuid4(), parent, "chain", span, 0, None, {})  # type: ignore[arg-type]
    runs.add(run)
    return run


def test_what_is_sent_of_an_open_run_holds_no_content(
    handler: OtelCallbackHandler, tracer_provider: TracerProvider
) -> None:
    seen: list[ReadableSpan | None] = []

    def step(value: Any) -> Any:
        runs = handler._recorder.runs
        seen.extend(pending_span(run.span) for run in runs._runs.values())  # type: ignore[arg-type]
        return value

    guarded(step, GATES["tag"]).invoke(MARK, {"callbacks": [handler]})

    (open_run,) = [span for span in seen if span]
    assert leaks([open_run]) == []


def test_openinference_attributes_are_without_content_too(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    handler = OtelCallbackHandler(tracer_provider, openinference=True)

    guarded(everything, GATES["tag"]).invoke(MARK, {"callbacks": [handler]})

    assert leaks(finished_spans.all()) == []


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_a_node_of_a_graph_keeps_its_content_its_question_and_its_error_to_itself(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, asynchronous: bool
) -> None:
    pytest.importorskip("langgraph")
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, StateGraph
    from langgraph.types import Command, interrupt

    def ask(state: Any) -> Any:
        everything(MARK)
        if interrupt({"question": MARK}) == "fail":
            raise ValueError(MARK)
        return {"x": 1}

    inner = StateGraph(dict)
    inner.add_node("ask", ask, metadata={"otelchain.capture": False})
    inner.add_edge(START, "ask")
    outer = StateGraph(dict)
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "inner")
    app = outer.compile(checkpointer=InMemorySaver())
    config: Any = {"callbacks": [handler], "configurable": {"thread_id": str(uuid4())}}

    def call(value: Any) -> None:
        if asynchronous:
            asyncio.run(app.ainvoke(value, config))
        else:
            app.invoke(value, config)

    call({"x": 0})
    with pytest.raises(ValueError, match=MARK):
        call(Command(resume="fail"))

    spans = finished_spans.all()
    assert leaks(spans) == []
    nodes = [span for span in spans if FinishedSpans.run_name(span) == "ask"]
    assert [(node.attributes or {})["langgraph.node"] for node in nodes] == ["ask", "ask"]
    assert [(node.attributes or {})["otelchain.run.status"] for node in nodes] == [
        "interrupted",
        "error",
    ]


def test_below_a_run_with_content_off_it_cannot_be_switched_on_again(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    def step(value: Any) -> Any:
        return lookup.invoke({"q": MARK}, {"metadata": {"otelchain.capture": True}})

    guarded(step, {"tags": ["otelchain.capture=false"]}).invoke(MARK, {"callbacks": [handler]})

    assert leaks(finished_spans.all()) == []


def test_nothing_is_logged(handler: OtelCallbackHandler, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "otelchain"):
        guarded(everything, GATES["tag"]).invoke(MARK, {"callbacks": [handler]})

    assert caplog.text == ""
