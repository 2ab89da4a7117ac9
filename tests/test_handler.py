"""One handler under real LangChain runs: spans, parents, statuses, facts."""

import asyncio
import gc
import inspect
import json
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from threading import Barrier, Thread
from typing import Any
from uuid import uuid4

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.callbacks.manager import adispatch_custom_event, dispatch_custom_event
from langchain_core.documents import Document
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import (
    Runnable,
    RunnableGenerator,
    RunnableLambda,
    RunnableParallel,
)
from langchain_core.tools import ToolException, tool
from opentelemetry import context, trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind, StatusCode

from fakes import FakeModel, FakeRetriever, FinishedSpans, StreamingModel
from otelchain import OtelCallbackHandler, Redactor
from otelchain.content import ContentGate
from otelchain.runs import OpenRun
from otelchain.snapshot import snapshot


def model(*answers: AIMessage | str) -> FakeModel:
    return FakeModel(messages=iter(answers or ("hello",)))


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def parent_name(spans: dict[str, ReadableSpan], name: str) -> str | None:
    parent = spans[name].parent
    ids = {span.context.span_id: other for other, span in spans.items() if span.context}
    return ids[parent.span_id] if parent else None


def chain_of_four(chat: Runnable[Any, Any]) -> Runnable[Any, str]:
    prompt = ChatPromptTemplate.from_messages([("system", "You are {role}."), ("human", "{q}")])
    return prompt | chat | StrOutputParser()


# --- hooks -------------------------------------------------------------------------------------


def test_every_hook_of_langchain_is_handled() -> None:
    hooks = {name for name in dir(BaseCallbackHandler) if name.startswith("on_")}

    assert hooks <= set(vars(OtelCallbackHandler))


def test_the_graph_hooks_are_handled_when_langgraph_is_installed() -> None:
    callbacks = pytest.importorskip("langgraph.callbacks")

    assert issubclass(OtelCallbackHandler, callbacks.GraphCallbackHandler)
    assert {"on_interrupt", "on_resume"} <= set(vars(OtelCallbackHandler))


# --- the tree --------------------------------------------------------------------------------


def test_a_chain_gives_one_span_per_run_under_its_parent(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    chain_of_four(model()).with_config(callbacks=[handler], run_name="ask").invoke(
        {"role": "kind", "q": "hi"}
    )

    spans = finished_spans()
    assert set(spans) == {"ask", "ChatPromptTemplate", "FakeModel", "StrOutputParser"}
    assert {parent_name(spans, name) for name in spans if name != "ask"} == {"ask"}
    assert parent_name(spans, "ask") is None
    assert set(finished_spans.statuses().values()) == {"ok"}


def test_an_async_chain_gives_the_same_tree(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    chain = chain_of_four(model()).with_config(callbacks=[handler], run_name="ask")
    asyncio.run(chain.ainvoke({"role": "kind", "q": "hi"}))

    spans = finished_spans()
    assert {name: parent_name(spans, name) for name in spans} == {
        "ask": None,
        "ChatPromptTemplate": "ask",
        "FakeModel": "ask",
        "StrOutputParser": "ask",
    }


def test_parallel_branches_hang_under_their_own_parallel_step(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    branches = {str(n): RunnableLambda(lambda x: x).with_config(run_name=f"b{n}") for n in range(8)}
    step = RunnableParallel(branches).with_config(callbacks=[handler], run_name="all")
    step.invoke(1)

    spans = finished_spans()
    assert {parent_name(spans, f"b{n}") for n in range(8)} == {"all"}


def test_the_root_hangs_under_the_span_of_the_application(
    handler: OtelCallbackHandler, tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    with tracer_provider.get_tracer("app").start_as_current_span("request"):
        RunnableLambda(str).invoke(1, {"callbacks": [handler], "run_name": "step"})

    assert parent_name(finished_spans(), "step") == "request"


def test_the_ambient_context_is_untouched_by_a_call(
    handler: OtelCallbackHandler, tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    async def application() -> None:
        await chain_of_four(model()).ainvoke({"role": "r", "q": "q"}, {"callbacks": [handler]})
        assert trace.get_current_span() is trace.INVALID_SPAN

    asyncio.run(application())


def test_a_run_whose_parent_was_never_seen_becomes_a_root_that_says_so(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    run_id = uuid4()
    handler.on_tool_start({"name": "search"}, "x", run_id=run_id, parent_run_id=uuid4())
    handler.on_tool_end("y", run_id=run_id)

    span = finished_spans()["search"]
    assert span.parent is None
    assert facts(span)["otelchain.run.parent_unknown"] is True


def test_a_child_that_starts_after_its_parent_ended_still_finds_it(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    outer, late = uuid4(), uuid4()
    handler.on_chain_start(None, {}, run_id=outer, name="outer")
    handler.on_chain_end({}, run_id=outer)
    handler.on_chain_start(None, {}, run_id=late, parent_run_id=outer, name="late")
    handler.on_chain_end({}, run_id=late)

    assert parent_name(finished_spans(), "late") == "outer"


def test_a_handler_attached_twice_gives_each_run_once(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    step = RunnableLambda(str).with_config(callbacks=[handler], run_name="step")
    step.invoke(1, {"callbacks": [handler]})

    assert [FinishedSpans.run_name(span) for span in finished_spans.all()] == ["step"]


def test_two_handlers_of_one_provider_give_each_run_once_and_share_parents(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    outer, inner = OtelCallbackHandler(tracer_provider), OtelCallbackHandler(tracer_provider)
    step = RunnableLambda(str).with_config(run_name="step", callbacks=[inner])
    chain = RunnableLambda(str).with_config(run_name="first") | step
    chain.invoke(1, {"callbacks": [outer], "run_name": "chain"})

    spans = finished_spans()
    assert set(spans) == {"chain", "first", "step"}
    assert {parent_name(spans, "first"), parent_name(spans, "step")} == {"chain"}


def test_the_handler_that_started_a_run_decides_what_its_end_records(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    bare = OtelCallbackHandler(tracer_provider, capture_content=False)
    full = OtelCallbackHandler(tracer_provider)
    RunnableLambda(str).invoke(1, {"callbacks": [bare, full]})

    assert "otelchain.output" not in facts(finished_spans()["str"])


def test_a_run_id_used_again_is_a_new_run(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    run_id = uuid4()
    for _ in range(2):
        RunnableLambda(str).invoke(1, {"callbacks": [handler], "run_id": run_id})

    assert len(finished_spans.all()) == 2


def test_sixteen_threads_give_whole_traces(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    def ask(number: int) -> None:
        chain = chain_of_four(model()).with_config(callbacks=[handler], run_name=f"ask {number}")
        chain.invoke({"role": "r", "q": str(number)})

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(320)))

    traces: dict[int, list[ReadableSpan]] = {}
    for span in finished_spans.all():
        assert span.context
        traces.setdefault(span.context.trace_id, []).append(span)
    assert len(traces) == 320
    for spans in traces.values():
        (root,) = [span for span in spans if span.parent is None]
        assert [span.parent.span_id for span in spans if span.parent] == [root.context.span_id] * 3  # type: ignore[union-attr]


# --- models ----------------------------------------------------------------------------------


def test_a_chat_model_run_has_the_facts_of_the_genai_conventions(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    answer = AIMessage(
        "hello",
        id="msg-1",
        usage_metadata={
            "input_tokens": 10,
            "output_tokens": 4,
            "total_tokens": 14,
            "input_token_details": {"cache_read": 3, "cache_creation": 2},
            "output_token_details": {"reasoning": 1},
        },
        response_metadata={"finish_reason": "stop", "model_name": "fake-1-2026", "id": "resp-1"},
    )
    chat = model(answer).bind(temperature=0.5, max_tokens=7, stop=["END"])
    chat.invoke("hi", {"callbacks": [handler], "metadata": {"session_id": "s1", "user_id": "u1"}})

    span = finished_spans()["FakeModel"]
    assert (span.name, span.kind) == ("chat fake-1", SpanKind.CLIENT)
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "fake-1",
        "gen_ai.response.model": "fake-1-2026",
        "gen_ai.response.id": "resp-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 7,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.usage.input_tokens": 10,  # cached tokens are part of it, not on top
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.usage.cache_write.input_tokens": 2,
        "gen_ai.usage.reasoning.output_tokens": 1,
        "gen_ai.conversation.id": "s1",
        "user.id": "u1",
        "otelchain.run.type": "chat_model",
        "otelchain.run.status": "ok",
    }
    assert expected.items() <= facts(span).items()
    assert json.loads(facts(span)["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]}
    ]
    assert json.loads(facts(span)["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "hello"}],
            "finish_reason": "stop",
        }
    ]


def test_a_streamed_answer_has_its_usage_once_and_a_time_to_first_token(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    chat = StreamingModel(messages=iter([]))

    async def read() -> str:
        chunks = chat.astream("count", {"callbacks": [handler]})
        return "".join([str(chunk.content) async for chunk in chunks])

    assert asyncio.run(read()) == "one two three"
    found = facts(finished_spans()["StreamingModel"])
    assert found["gen_ai.usage.input_tokens"] == 5
    assert found["gen_ai.usage.output_tokens"] == 3
    assert found["gen_ai.request.stream"] is True
    assert found["gen_ai.response.time_to_first_chunk"] > 0
    (message,) = json.loads(found["gen_ai.output.messages"])
    assert message["parts"] == [{"type": "text", "content": "one two three"}]


def test_a_plain_llm_run_is_a_text_completion(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    FakeListLLM(responses=["fine"]).invoke("how are you?", {"callbacks": [handler]})

    found = facts(finished_spans()["FakeListLLM"])
    assert found["gen_ai.operation.name"] == "text_completion"
    assert json.loads(found["gen_ai.input.messages"])[0]["parts"][0]["content"] == "how are you?"
    assert json.loads(found["gen_ai.output.messages"])[0]["parts"][0]["content"] == "fine"


@pytest.mark.parametrize("kind", ["plain", "chat", "retriever", "tool"])
def test_an_async_call_without_a_chain_around_it_ends_as_ok(
    kind: str, handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    steps: dict[str, tuple[Runnable[Any, Any], Any]] = {
        "plain": (FakeListLLM(responses=["fine"]), "q"),
        "chat": (model(), "q"),
        "retriever": (FakeRetriever(), "q"),
        "tool": (search, {"q": "x"}),
    }
    step, value = steps[kind]
    asyncio.run(step.ainvoke(value, {"callbacks": [handler]}))

    (span,) = finished_spans.all()
    assert facts(span)["otelchain.run.status"] == "ok"
    assert {
        "gen_ai.output.messages",
        "gen_ai.tool.call.result",
        "gen_ai.retrieval.documents",
    } & set(facts(span))


def test_tool_calls_and_tool_definitions_are_recorded(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    call = {"name": "search", "args": {"q": "x"}, "id": "call-1", "type": "tool_call"}
    chat = model(AIMessage("", tool_calls=[call])).bind(tools=[{"name": "search"}])  # type: ignore[list-item]
    chat.invoke("find", {"callbacks": [handler]})

    found = facts(finished_spans()["FakeModel"])
    assert json.loads(found["gen_ai.tool.definitions"]) == [{"name": "search"}]
    (message,) = json.loads(found["gen_ai.output.messages"])
    assert message["parts"] == [
        {"type": "tool_call", "id": "call-1", "name": "search", "arguments": {"q": "x"}}
    ]


def test_an_empty_list_of_messages_does_no_harm(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    run_id = uuid4()
    handler.on_chat_model_start({"name": "m"}, [[]], run_id=run_id)
    handler.on_llm_error(ValueError("x"), run_id=run_id)

    assert finished_spans.statuses() == {"m": "error"}


# --- tools, retrievers, prompts --------------------------------------------------------------


@tool
def search(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def failing(q: str) -> str:
    """Fail in a way the model may read."""
    raise ToolException("index is closed")


def test_a_tool_run_has_arguments_result_and_call_id(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    call = {"name": "search", "args": {"q": "x"}, "id": "call-1", "type": "tool_call"}
    search.invoke(call, {"callbacks": [handler]})

    span = finished_spans()["search"]
    assert span.name == "execute_tool search"
    assert {
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.id": "call-1",
        "gen_ai.tool.call.arguments": '{"q":"x"}',
        "gen_ai.tool.call.result": '"found x"',
        "gen_ai.tool.description": "Look something up.",
    }.items() <= facts(span).items()


def test_a_structured_tool_result_stays_json_when_it_travels_in_a_tool_message(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    @tool
    def verify(code: str) -> dict[str, Any]:
        """Check something."""
        return {"ok": False, "failures": ["x"]}

    call = {"name": "verify", "args": {"code": "x"}, "id": "call-1", "type": "tool_call"}
    verify.invoke(call, {"callbacks": [handler]})

    result = facts(finished_spans()["verify"])["gen_ai.tool.call.result"]
    assert json.loads(result) == {"ok": False, "failures": ["x"]}


def test_an_error_that_a_tool_handed_back_is_its_own_status_and_no_otel_error(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    from langchain_core.tools import StructuredTool

    broken = StructuredTool.from_function(failing, handle_tool_error=True)
    call = {"name": "failing", "args": {"q": "x"}, "id": "call-1", "type": "tool_call"}
    broken.invoke(call, {"callbacks": [handler]})

    span = finished_spans()["failing"]
    assert facts(span)["otelchain.run.status"] == "handled_error"
    assert span.status.status_code is StatusCode.UNSET


def test_a_retriever_run_has_query_documents_scores_and_count(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    documents = [
        Document("first", id="d1", metadata={"score": 0.9, "source": "a.md"}),
        Document("second", metadata={"relevance_score": float("nan")}),
    ]
    FakeRetriever(documents=documents).invoke("where?", {"callbacks": [handler]})

    found = facts(finished_spans()["FakeRetriever"])
    assert found["gen_ai.retrieval.query.text"] == "where?"
    assert found["otelchain.retrieval.document_count"] == 2
    assert json.loads(found["gen_ai.retrieval.documents"]) == [
        {
            "rank": 1,
            "id": "d1",
            "score": 0.9,
            "length_chars": 5,
            "sha256": sha256(b"first").hexdigest(),
            "content": "first",
            "metadata": {"score": 0.9, "source": "a.md"},
        },
        {
            "rank": 2,
            "length_chars": 6,
            "sha256": sha256(b"second").hexdigest(),
            "content": "second",
            "metadata": {"relevance_score": "NaN"},
        },
    ]


def test_a_prompt_run_has_its_templates_and_variables(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    prompt = ChatPromptTemplate.from_messages([("system", "You are {role}."), ("human", "{q}")])
    prompt.invoke({"role": "kind", "q": "hi"}, {"callbacks": [handler]})

    found = facts(finished_spans()["ChatPromptTemplate"])
    assert found["otelchain.run.type"] == "prompt"
    assert json.loads(found["otelchain.input"]) == {"role": "kind", "q": "hi"}
    templates = json.loads(found["otelchain.prompt.template"])
    assert [template["template"] for template in templates] == ["You are {role}.", "{q}"]


def test_the_input_of_a_streamed_chain_is_the_real_one(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    chain = chain_of_four(model()).with_config(run_name="ask", callbacks=[handler])
    list(chain.stream({"role": "kind", "q": "hi"}))

    found = facts(finished_spans()["ask"])
    assert json.loads(found["otelchain.input"]) == {"role": "kind", "q": "hi"}
    assert json.loads(found["otelchain.output"]) == "hello"


def test_tags_metadata_and_retry_attempts_are_facts(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    outcomes = iter([ValueError("first"), None])

    def flaky(value: int) -> int:
        error = next(outcomes)
        if error:
            raise error
        return value

    step = RunnableLambda(flaky).with_retry(wait_exponential_jitter=False)
    step.invoke(1, {"callbacks": [handler], "tags": ["beta"], "metadata": {"tenant": "t1"}})

    runs = [facts(span) for span in finished_spans.all()]
    assert [run.get("otelchain.retry.attempt") for run in runs] == [None, 2, None]
    assert [run["otelchain.run.status"] for run in runs] == ["error", "ok", "ok"]
    assert "beta" in runs[1]["otelchain.tags"]
    assert json.loads(runs[0]["otelchain.metadata"]) == {"tenant": "t1"}


def test_a_custom_event_is_an_event_of_the_run_that_sent_it(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    def step(value: int) -> int:
        dispatch_custom_event("halfway", {"done": 5})
        return value

    async def async_step(value: int) -> int:
        await adispatch_custom_event("halfway", {"done": 5})
        return value

    RunnableLambda(step).invoke(1, {"callbacks": [handler]})
    asyncio.run(RunnableLambda(async_step).ainvoke(1, {"callbacks": [handler]}))

    for span in finished_spans.all():
        (event,) = span.events
        assert event.name == "halfway"
        assert dict(event.attributes or {}) == {"otelchain.event.data": '{"done":5}'}


# --- how runs end ----------------------------------------------------------------------------


def test_a_failed_run_has_type_text_and_stack_of_its_error(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    with pytest.raises(LookupError):
        FakeRetriever(error=LookupError("no index")).invoke("q", {"callbacks": [handler]})

    span = finished_spans()["FakeRetriever"]
    assert facts(span)["otelchain.run.status"] == "error"
    assert facts(span)["error.type"] == "LookupError"
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "no index")
    (event,) = span.events
    attributes = dict(event.attributes or {})
    assert attributes["exception.type"] == "LookupError"
    assert attributes["exception.message"] == "no index"
    assert "_get_relevant_documents" in str(attributes["exception.stacktrace"])


def test_a_cancelled_task_ends_every_run_as_cancelled_and_not_as_error(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    class Slow(FakeRetriever):
        async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
            await asyncio.sleep(60)

    async def application() -> None:
        chain = RunnableLambda(str) | Slow()
        task = asyncio.create_task(chain.ainvoke(1, {"callbacks": [handler], "run_name": "search"}))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(application())
    # langchain-core reports no end of a cancelled retriever; its parent's end closes it.
    assert finished_spans.statuses() == {"str": "ok", "Slow": "cancelled", "search": "cancelled"}
    assert {span.status.status_code for span in finished_spans.all()} == {StatusCode.UNSET}


def test_a_stream_that_its_reader_left_is_abandoned_and_not_an_error(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    async def numbers(values: AsyncIterator[Any]) -> AsyncIterator[int]:
        async for _ in values:
            for number in range(100):
                yield number

    async def application() -> None:
        from langchain_core.runnables import RunnableGenerator

        stream = RunnableGenerator(numbers).astream(1, {"callbacks": [handler]})
        async for _ in stream:
            break
        await stream.aclose()

    asyncio.run(application())
    gc.collect()
    assert finished_spans.statuses() == {"numbers": "abandoned"}
    assert finished_spans()["numbers"].status.status_code is StatusCode.UNSET


def test_ctrl_c_ends_the_runs_as_cancelled(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    def interrupted(value: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RunnableLambda(interrupted).invoke(1, {"callbacks": [handler]})

    assert finished_spans.statuses() == {"interrupted": "cancelled"}


def test_the_siblings_of_a_failed_batch_item_do_not_stay_open(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    class Choosy(FakeModel):
        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            if messages[0].content == "bad":
                raise ValueError("bad")
            return super()._generate(messages, *args, **kwargs)

    def step(value: Any, config: Any) -> Any:
        batch = [[HumanMessage("ok")], [HumanMessage("bad")], [HumanMessage("ok")]]
        return Choosy(messages=iter("abc")).generate(batch, callbacks=config["callbacks"])

    with pytest.raises(ValueError, match="bad"):
        RunnableLambda(step).invoke(1, {"callbacks": [handler]})

    statuses = [facts(span)["otelchain.run.status"] for span in finished_spans.all()]
    assert sorted(statuses) == ["abandoned", "abandoned", "error", "error"]


def interrupted_retriever(handler: OtelCallbackHandler) -> None:
    with pytest.raises(KeyboardInterrupt):
        FakeRetriever(error=KeyboardInterrupt()).invoke("q", {"callbacks": [handler]})


def test_a_retriever_that_ctrl_c_left_ends_when_its_call_is_gone_without_another_run(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    interrupted_retriever(handler)
    gc.collect()

    assert handler.stats().open == 0
    assert finished_spans.statuses() == {"FakeRetriever": "abandoned"}


def test_it_ends_with_the_next_run_of_any_thread(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    interrupted_retriever(handler)
    gc.collect()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(RunnableLambda(str).invoke, 1, {"callbacks": [handler]}).result()

    assert finished_spans.statuses() == {"FakeRetriever": "abandoned", "str": "ok"}


def test_a_retriever_whose_call_is_still_on_the_stack_ends_with_the_next_run_of_its_thread(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    try:
        FakeRetriever(error=KeyboardInterrupt()).invoke("q", {"callbacks": [handler]})
    except KeyboardInterrupt:  # its traceback holds the frames of the call
        RunnableLambda(str).invoke(1, {"callbacks": [handler]})

    assert finished_spans.statuses() == {"FakeRetriever": "abandoned", "str": "ok"}


def test_a_retriever_that_works_for_long_is_not_taken_for_left(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    class Slow(FakeRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
            gc.collect()
            with ThreadPoolExecutor(1) as pool:
                pool.submit(RunnableLambda(str).invoke, 1, {"callbacks": [handler]}).result()
            assert handler.stats().open == 1
            return []

        async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
            await asyncio.sleep(0)
            return self._get_relevant_documents(query, run_manager=run_manager)

    Slow().invoke("q", {"callbacks": [handler]})
    asyncio.run(Slow().ainvoke("q", {"callbacks": [handler]}))

    statuses = [facts(span)["otelchain.run.status"] for span in finished_spans.all()]
    assert statuses == ["ok"] * 4


@pytest.mark.skipif(not hasattr(FakeModel, "stream_events"), reason="no v3 streams")
@pytest.mark.parametrize("read", ["one event", "all"])
@pytest.mark.filterwarnings("ignore:The method")  # v3 streams are beta
@pytest.mark.filterwarnings("ignore:.*beta")
def test_a_v3_stream_ends_when_nothing_is_left_that_could_read_on(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, read: str
) -> None:
    def use(model: Any) -> None:
        stream = model.stream_events("x", {"callbacks": [handler]}, version="v3")
        for number, _ in enumerate(stream):
            gc.collect()
            assert number or handler.stats().open == 1
            if read == "one event":
                break

    use(StreamingModel(messages=iter([])))
    gc.collect()

    assert handler.stats().open == 0
    wanted = "abandoned" if read == "one event" else "ok"
    assert finished_spans.statuses() == {"StreamingModel": wanted}


def test_a_retriever_that_calls_others_is_not_taken_for_left(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    class Outer(FakeRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
            RunnableLambda(str).invoke(query, {"callbacks": [handler]})
            return FakeRetriever().invoke(query, {"callbacks": [handler]})

    Outer().invoke("q", {"callbacks": [handler]})

    assert finished_spans.statuses() == {"Outer": "ok", "str": "ok", "FakeRetriever": "ok"}


@pytest.mark.parametrize("how", ["batch", "generate"])
def test_the_roots_of_a_batch_are_not_taken_for_left(
    how: str, handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    config: Any = {"callbacks": [handler]}
    if how == "batch":
        (RunnableLambda(str) | RunnableLambda(len)).batch([1, 2, 3], config)
    else:
        model(*"abc").generate([[HumanMessage(text)] for text in "abc"], callbacks=[handler])

    assert {facts(span)["otelchain.run.status"] for span in finished_spans.all()} == {"ok"}
    assert handler.stats().open == 0


def test_the_siblings_of_a_failed_batch_item_without_a_parent_end_too(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    class Failing(FakeModel):
        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            if messages[0].content == "bad":
                raise ValueError("bad")
            return super()._generate(messages, *args, **kwargs)

    batch = [[HumanMessage(text)] for text in ("ok", "bad", "ok")]
    with pytest.raises(ValueError, match="bad"):
        Failing(messages=iter("abc")).generate(batch, callbacks=[handler])

    statuses = [facts(span)["otelchain.run.status"] for span in finished_spans.all()]
    assert sorted(statuses) == ["abandoned", "abandoned", "error"]


@pytest.mark.parametrize(
    "key", [_SUPPRESS_INSTRUMENTATION_KEY, "suppress_instrumentation"], ids=["private", "text"]
)
def test_suppressed_instrumentation_records_nothing(
    key: str, handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    token = context.attach(context.set_value(key, True))
    RunnableLambda(str).invoke(1, {"callbacks": [handler]})
    context.detach(token)

    assert finished_spans.all() == []


def test_open_runs_are_bounded_and_the_oldest_is_ended_with_a_mark(
    tracer_provider: TracerProvider,
    finished_spans: FinishedSpans,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTELCHAIN_MAX_OPEN_RUNS", "2")
    handler = OtelCallbackHandler(tracer_provider)
    for number in range(3):
        handler.on_chain_start(None, {}, run_id=uuid4(), name=f"run {number}")

    span = finished_spans()["run 0"]
    assert facts(span)["otelchain.run.status"] == "abandoned"
    assert "too many open runs" in facts(span)["otelchain.run.end_reason"]


def test_runs_that_are_open_at_the_end_of_the_process_are_ended(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    from otelchain import lifetime

    handler.on_chain_start(None, {}, run_id=uuid4(), name="forgotten")
    lifetime.end_all()

    assert finished_spans.statuses() == {"forgotten": "abandoned"}


# --- LangGraph -------------------------------------------------------------------------------


def test_an_interrupted_graph_is_no_error_and_its_resume_is_marked(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    pytest.importorskip("langgraph")
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command, interrupt

    def approve(state: Any) -> Any:
        return {"answer": interrupt({"question": "refund?"})}

    graph = StateGraph(dict)
    graph.add_node("approve", approve)
    graph.add_edge(START, "approve")
    graph.add_edge("approve", END)
    app = graph.compile(checkpointer=InMemorySaver())
    config: Any = {"callbacks": [handler], "configurable": {"thread_id": "t1"}}

    app.invoke({"q": 1}, config)
    app.invoke(Command(resume="yes"), config)

    runs = [facts(span) for span in finished_spans.all() if not span.name.startswith("_")]
    told = [(run["otelchain.run.name"], run["otelchain.run.status"]) for run in runs]
    assert told == [
        ("approve", "interrupted"),
        ("LangGraph", "interrupted"),
        ("approve", "ok"),
        ("LangGraph", "ok"),
    ]
    assert {span.status.status_code for span in finished_spans.all()} == {StatusCode.UNSET}
    assert json.loads(runs[0]["otelchain.interrupt.value"]) == [{"question": "refund?"}]
    assert len(runs[1]["otelchain.interrupt.ids"]) == 1
    assert runs[3]["otelchain.run.resumed"] is True
    assert runs[3]["otelchain.input.kind"] == "Command"
    assert runs[0]["langgraph.node"] == "approve"
    assert runs[0]["langgraph.step"] == 1
    assert runs[0]["langgraph.checkpoint_ns"].startswith("approve:")
    assert runs[2]["langgraph.checkpoint_ns"] == runs[0]["langgraph.checkpoint_ns"]
    assert runs[1]["gen_ai.conversation.id"] == "t1"


# --- content ---------------------------------------------------------------------------------


def test_without_content_capture_facts_stay_and_content_goes(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    handler = OtelCallbackHandler(tracer_provider, capture_content=False)
    documents = [Document("text of the document", id="d1", metadata={"score": 0.5})]
    FakeRetriever(documents=documents).invoke(
        "question", {"callbacks": [handler], "metadata": {"tenant": "t1"}, "tags": ["vip"]}
    )

    found = facts(finished_spans()["FakeRetriever"])
    assert json.loads(found["gen_ai.retrieval.documents"]) == [
        {
            "rank": 1,
            "id": "d1",
            "score": 0.5,
            "length_chars": 20,
            "sha256": sha256(b"text of the document").hexdigest(),
        }
    ]
    assert found["otelchain.retrieval.document_count"] == 1
    assert not {"question", "tenant", "vip", "text of the document"} & set(str(found).split("'"))


@pytest.mark.parametrize(
    ("variable", "value", "captured"),
    [
        ("OTELCHAIN_CAPTURE_CONTENT", "false", False),
        ("OTELCHAIN_CAPTURE_CONTENT", "true", True),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "false", False),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "NO_CONTENT", False),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "EVENT_ONLY", False),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY", True),
    ],
)
def test_a_variable_switches_content_off(
    tracer_provider: TracerProvider,
    finished_spans: FinishedSpans,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    captured: bool,
) -> None:
    monkeypatch.setenv(variable, value)
    handler = OtelCallbackHandler(tracer_provider)
    RunnableLambda(str).invoke(1, {"callbacks": [handler]})

    assert ("otelchain.input" in facts(finished_spans()["str"])) is captured


# --- the application never notices -----------------------------------------------------------


def test_a_failure_of_ours_is_logged_once_and_the_run_still_ends(
    handler: OtelCallbackHandler,
    finished_spans: FinishedSpans,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*args: Any) -> Any:
        raise RuntimeError("text of the user")

    monkeypatch.setattr("otelchain.payloads.chain_output", broken)
    with caplog.at_level(logging.ERROR, "otelchain"):
        for _ in range(2):
            assert RunnableLambda(str).invoke(1, {"callbacks": [handler]}) == "1"

    assert [facts(span)["otelchain.run.status"] for span in finished_spans.all()] == ["ok", "ok"]
    (record,) = caplog.records
    assert "on_chain_end: RuntimeError" in record.getMessage()
    assert "text of the user" not in caplog.text


def test_two_handlers_of_different_settings_do_not_disturb_each_other(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    full = OtelCallbackHandler(tracer_provider)
    bare = OtelCallbackHandler(tracer_provider, capture_content=False, run_inline=False)
    RunnableLambda(str).invoke(1, {"callbacks": [full]})
    RunnableLambda(str).invoke(1, {"callbacks": [bare]})

    assert ["otelchain.input" in facts(span) for span in finished_spans.all()] == [True, False]
    assert (full.run_inline, bare.run_inline) == (True, False)


def test_the_hooks_return_nothing_to_langchain() -> None:
    hooks = [
        vars(OtelCallbackHandler)[name] for name in dir(BaseCallbackHandler) if name[:3] == "on_"
    ]

    assert not any(inspect.iscoroutinefunction(hook) for hook in hooks)


def test_a_redactor_that_fails_costs_the_content_and_not_the_span(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    def broken(text: str) -> str:
        raise RuntimeError("no")

    handler = OtelCallbackHandler(tracer_provider, redactor=Redactor(callables=[broken]))
    RunnableLambda(str).invoke("private", {"callbacks": [handler], "metadata": {"a": "private"}})

    (span,) = finished_spans.all()
    assert "private" not in str(facts(span))
    assert facts(span)["otelchain.run.status"] == "ok"
    assert "redaction failed" in facts(span)["otelchain.input"]


def test_the_trace_policy_of_a_graph_node_is_honoured(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    types = pytest.importorskip("langgraph.types")
    from langgraph.graph import START, StateGraph

    if not hasattr(types, "TracePolicy"):
        pytest.skip("this langgraph has no TracePolicy")
    policy = types.TracePolicy(
        process_inputs=lambda value: {"kept": 1}, process_outputs=lambda value: {"kept": 2}
    )
    graph = StateGraph(dict)
    graph.add_node("node", lambda state: {"a": "private"}, trace_policy=policy)
    graph.add_edge(START, "node")
    graph.compile().invoke({"a": "also private"}, {"callbacks": [handler]})

    node = next(facts(span) for span in finished_spans.all() if "langgraph.node" in facts(span))
    assert (node["otelchain.input"], node["otelchain.output"]) == ('{"kept":1}', '{"kept":2}')


def test_the_users_own_redactor_is_used(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    redactor = Redactor(patterns={"ticket": r"TICKET-\d+"})
    handler = OtelCallbackHandler(tracer_provider, redactor=redactor)
    RunnableLambda(str).invoke("see TICKET-42", {"callbacks": [handler]})

    assert facts(finished_spans()["str"])["otelchain.input"] == '"see [REDACTED:ticket]"'


# --- streams, branches and tasks -------------------------------------------------------------


async def _one_to_three(values: AsyncIterator[Any]) -> AsyncIterator[int]:
    async for _ in values:
        for number in (1, 2, 3):
            yield number


@pytest.mark.parametrize("how", ["wait_for", "ensure_future"])
def test_a_stream_whose_steps_are_awaited_in_tasks_of_their_own_ends_well(
    how: str, handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    """As servers do that send a heartbeat between two tokens."""

    async def read() -> list[int]:
        stream = RunnableGenerator(_one_to_three).astream(1, {"callbacks": [handler]})
        found: list[int] = []
        while True:
            step = stream.__anext__()
            try:
                found.append(
                    await asyncio.wait_for(step, 5)
                    if how == "wait_for"
                    else await asyncio.ensure_future(step)
                )
            except StopAsyncIteration:
                return found

    assert asyncio.run(read()) == [1, 2, 3]
    assert finished_spans.statuses() == {"_one_to_three": "ok"}
    assert facts(finished_spans()["_one_to_three"])["otelchain.output"] == "6"


def test_a_branch_that_works_on_after_its_sibling_failed_ends_as_what_it_is(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    async def fails(value: int) -> int:
        await asyncio.sleep(0.01)
        raise ValueError("no")

    async def takes_longer(value: int) -> str:
        await asyncio.sleep(0.1)
        return "done"

    async def application() -> None:
        step = RunnableParallel(a=RunnableLambda(fails), b=RunnableLambda(takes_longer))
        with pytest.raises(ValueError, match="no"):
            await step.ainvoke(1, {"callbacks": [handler], "run_name": "both"})
        await asyncio.sleep(0.2)

    asyncio.run(application())
    assert finished_spans.statuses() == {"fails": "error", "both": "error", "takes_longer": "ok"}
    assert facts(finished_spans()["takes_longer"])["otelchain.output"] == '"done"'


def test_a_task_that_lives_on_does_not_keep_its_ended_runs(handler: OtelCallbackHandler) -> None:
    async def worker() -> int:
        for _ in range(50):
            await model("a").ainvoke("q", {"callbacks": [handler]})
            await FakeRetriever().ainvoke("q", {"callbacks": [handler]})
        gc.collect()
        return sum(type(each) is OpenRun for each in gc.get_objects())

    gc.collect()
    before = sum(type(each) is OpenRun for each in gc.get_objects())
    assert asyncio.run(worker()) < before + 5  # of 100


def test_two_starts_of_a_run_at_the_same_moment_make_one_span(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    handlers = [OtelCallbackHandler(tracer_provider) for _ in range(2)]
    started: list[Any] = []

    class Count(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            started.append(span)

    tracer_provider.add_span_processor(Count())

    def report(handler: OtelCallbackHandler, run_id: Any, barrier: Barrier) -> None:
        barrier.wait()
        handler.on_chain_start(None, {}, run_id=run_id, name="x")

    for _ in range(200):
        run_id, barrier = uuid4(), Barrier(2)
        threads = [Thread(target=report, args=(each, run_id, barrier)) for each in handlers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for each in handlers:
            each.on_chain_end({}, run_id=run_id)

    assert (len(started), len(finished_spans.all())) == (200, 200)


@pytest.mark.parametrize("tags", [[1], [None, "a"], [object()], [("x",)]])
def test_tags_that_are_no_text_do_not_cost_the_span(
    tags: Any, handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    RunnableLambda(str).invoke(1, {"callbacks": [handler], "tags": tags})

    assert len(facts(finished_spans()["str"])["otelchain.tags"]) == len(tags)


def test_an_odd_interrupt_still_ends_its_run(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    errors = pytest.importorskip("langgraph.errors")
    outer, inner = uuid4(), uuid4()
    metadata = {"thread_id": "t"}
    handler.on_chain_start(None, {}, run_id=outer, name="graph", metadata=metadata)
    handler.on_chain_start(None, {}, run_id=inner, parent_run_id=outer, name="node")
    handler.on_chain_error(errors.GraphInterrupt(5), run_id=inner)
    handler.on_chain_end({}, run_id=outer)

    assert finished_spans.statuses() == {"node": "interrupted", "graph": "interrupted"}


def test_runs_that_we_end_count_in_the_metrics(tracer_provider: TracerProvider) -> None:
    reader = InMemoryMetricReader()
    handler = OtelCallbackHandler(
        tracer_provider, meter_provider=MeterProvider([reader], shutdown_on_exit=False)
    )
    outer = uuid4()
    handler.on_chain_start(None, {}, run_id=outer, name="chain")
    handler.on_tool_start({"name": "search"}, "x", run_id=uuid4(), parent_run_id=outer)
    handler.on_chain_error(ValueError("x"), run_id=outer)

    text = str(reader.get_metrics_data())
    assert "gen_ai.execute_tool.duration" in text


SECRET = "sk-proj-0Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St"


@pytest.mark.parametrize(
    "value",
    [
        {"password (old)": "hunter2"},
        {"db  password é": "hunter2"},
        {'api"key': "hunter2"},
        {"secret\n": "hunter2"},
        {"1": SECRET, 1: "x"},
        '{"a": "' + SECRET + '", "a": "x"}',
        [{"deep": [{"api  key": "hunter2"}]}],
    ],
)
def test_no_spelling_of_a_name_hides_what_stands_under_it(
    value: Any, handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    RunnableLambda(lambda given: 1).invoke(value, {"callbacks": [handler]})

    recorded = facts(finished_spans()["RunnableLambda"])["otelchain.input"]
    assert "hunter2" not in recorded
    assert SECRET not in recorded


@given(
    st.recursive(
        st.text() | st.integers() | st.booleans(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_the_quick_way_records_what_the_careful_way_records(value: Any) -> None:
    gate = ContentGate(Redactor(), capture=True, max_value_bytes=100_000)
    quick = gate.fact_json("key", value)["key"]
    tree = gate.redactor.value(snapshot(value, 100_000).tree)

    assert json.loads(str(quick)) == json.loads(orjson.dumps(tree))


def test_a_number_that_is_an_identifier_leaves_valid_json(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    RunnableLambda(lambda given: 1).invoke(4111111111111111, {"callbacks": [handler]})

    assert json.loads(facts(finished_spans()["RunnableLambda"])["otelchain.input"]) == (
        "[REDACTED:card]"
    )


def test_a_span_has_a_budget_for_all_its_events_together(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTELCHAIN_MAX_SPAN_BYTES", "10000")
    handler = OtelCallbackHandler(tracer_provider)
    text = "x" * 3_000

    def step(value: int) -> str:
        for _ in range(100):
            dispatch_custom_event("progress", text)
        return text

    RunnableLambda(step).invoke(1, {"callbacks": [handler]})

    (span,) = finished_spans.all()
    events = [str((event.attributes or {})["otelchain.event.data"]) for event in span.events]
    digest = sha256(f'"{text}"'.encode()).hexdigest()
    assert len(events) == 100
    assert [json.loads(event) for event in events[:3]] == [text] * 3
    named = f"[over the span's budget: 3002 bytes, sha256 {digest}]"
    assert {json.loads(event) for event in events[3:]} == {named}
    assert json.loads(facts(span)["otelchain.output"]) == named
    assert facts(span)["otelchain.output.truncated"] is True
