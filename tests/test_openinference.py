"""OpenInference's attributes beside ours: the right names, nothing unredacted, nothing lost."""

import inspect
import json
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

from fakes import FakeModel, FakeRetriever, FinishedSpans
from otelchain import OtelCallbackHandler, traced_embeddings, traced_reranker
from otelchain.openinference import openinference
from otelchain_collector.normalise import Normalised, SpanFacts, normalise
from test_wrappers import DOCUMENTS, LetterEmbeddings, LongestFirst


@pytest.fixture(name="handler")
def _handler(tracer_provider: TracerProvider) -> OtelCallbackHandler:
    return OtelCallbackHandler(tracer_provider, openinference=True)


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


CALL: Any = {"name": "search", "args": {"q": "x"}, "id": "call-1", "type": "tool_call"}


def chat_run(handler: OtelCallbackHandler) -> None:
    usage: Any = {
        "input_tokens": 10,
        "output_tokens": 4,
        "total_tokens": 14,
        "input_token_details": {"cache_read": 3, "cache_creation": 2, "audio": 1},
        "output_token_details": {"reasoning": 1, "audio": 2},
    }
    answer = AIMessage(
        "let me look",
        tool_calls=[CALL],
        usage_metadata=usage,
        response_metadata={"finish_reason": "tool_calls", "model_name": "fake-1-2026"},
    )
    definition = {"type": "function", "function": {"name": "search"}}
    model = FakeModel(messages=iter([answer])).bind(temperature=0.5, tools=[definition])
    conversation = [
        SystemMessage("be kind"),
        HumanMessage("hi"),
        AIMessage("", tool_calls=[CALL]),
        ToolMessage("found", tool_call_id="call-1"),
        HumanMessage(
            [{"type": "text", "text": "see"}, {"type": "image", "url": "https://e.com/a"}]
        ),
    ]
    metadata = {"session_id": "s1", "user_id": "u1", "tenant": "t1"}
    model.invoke(conversation, {"callbacks": [handler], "metadata": metadata, "tags": ["beta"]})


def test_a_chat_run_reads_as_openinference_writes_it(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    chat_run(handler)

    found = facts(finished_spans()["FakeModel"])
    expected = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "fake-1-2026",
        "llm.request.model_name": "fake-1",
        "llm.response.model_name": "fake-1-2026",
        "llm.provider": "openai",
        "llm.invocation_parameters": '{"temperature":0.5}',
        "llm.finish_reason": "tool_calls",
        "llm.token_count.prompt": 10,
        "llm.token_count.completion": 4,
        "llm.token_count.total": 14,
        "llm.token_count.prompt_details.cache_read": 3,
        "llm.token_count.prompt_details.cache_write": 2,
        "llm.token_count.prompt_details.audio": 1,
        "llm.token_count.completion_details.reasoning": 1,
        "llm.token_count.completion_details.audio": 2,
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "be kind",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": "hi",
        "llm.input_messages.2.message.role": "assistant",
        "llm.input_messages.2.message.tool_calls.0.tool_call.id": "call-1",
        "llm.input_messages.2.message.tool_calls.0.tool_call.function.name": "search",
        "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": '{"q":"x"}',
        "llm.input_messages.3.message.role": "tool",
        "llm.input_messages.3.message.content": "found",
        "llm.input_messages.3.message.tool_call_id": "call-1",
        "llm.input_messages.4.message.contents.0.message_content.type": "text",
        "llm.input_messages.4.message.contents.0.message_content.text": "see",
        "llm.input_messages.4.message.contents.1.message_content.type": "image",
        "llm.input_messages.4.message.contents.1.message_content.image.image.url": "https://e.com/a",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "let me look",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "search",
        "llm.tools.0.tool.json_schema": '{"type":"function","function":{"name":"search"}}',
        "session.id": "s1",
        "user.id": "u1",
        "tag.tags": ("beta",),
        "input.mime_type": "application/json",
        "output.mime_type": "application/json",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert json.loads(found["metadata"])["tenant"] == "t1"
    assert found["input.value"] == found["gen_ai.input.messages"]
    assert found["output.value"] == found["gen_ai.output.messages"]


def test_a_tool_run(handler: OtelCallbackHandler, finished_spans: FinishedSpans) -> None:
    @tool
    def search(q: str) -> str:
        """Look something up."""
        return f"found {q}"

    search.invoke(CALL, {"callbacks": [handler]})

    found = facts(finished_spans()["search"])
    assert {
        "openinference.span.kind": "TOOL",
        "tool.name": "search",
        "tool.description": "Look something up.",
        "tool.parameters": '{"q":"x"}',
        "tool.id": "call-1",
        "input.value": '{"q":"x"}',
        "input.mime_type": "application/json",
        "output.value": "found x",
        "output.mime_type": "text/plain",
    }.items() <= found.items()


def test_a_retriever_run(handler: OtelCallbackHandler, finished_spans: FinishedSpans) -> None:
    document = Document("text", id="d1", metadata={"score": 0.5, "source": "a.md"})
    FakeRetriever(documents=[document]).invoke("where?", {"callbacks": [handler]})

    found = facts(finished_spans()["FakeRetriever"])
    assert {
        "openinference.span.kind": "RETRIEVER",
        "input.value": "where?",
        "input.mime_type": "text/plain",
        "retrieval.documents.0.document.id": "d1",
        "retrieval.documents.0.document.score": 0.5,
        "retrieval.documents.0.document.content": "text",
        "retrieval.documents.0.document.metadata": '{"score":0.5,"source":"a.md"}',
    }.items() <= found.items()


def test_prompt_chain_and_plain_model_runs(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    prompt = ChatPromptTemplate.from_messages([("human", "{q}")])
    chain = (prompt | FakeListLLM(responses=["fine"])).with_config(run_name="ask")
    chain.invoke({"q": "hi"}, {"callbacks": [handler]})

    spans = finished_spans()
    kinds = {name: facts(span)["openinference.span.kind"] for name, span in spans.items()}
    assert kinds == {"ask": "CHAIN", "ChatPromptTemplate": "PROMPT", "FakeListLLM": "LLM"}
    found = facts(spans["ChatPromptTemplate"])
    assert found["llm.prompt_template.template"] == "{q}"
    assert found["llm.prompt_template.variables"] == '{"q":"hi"}'
    assert facts(spans["FakeListLLM"])["llm.prompts.0.prompt.text"] == "Human: hi"
    assert facts(spans["FakeListLLM"])["llm.choices.0.completion.text"] == "fine"


def test_embedding_and_reranker_runs(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    traced_embeddings(LetterEmbeddings(), handler).embed_documents(["a", "b"])
    traced_reranker(LongestFirst(), handler).compress_documents(DOCUMENTS, "which?")

    spans = finished_spans()
    assert {
        "openinference.span.kind": "EMBEDDING",
        "embedding.model_name": "letters-1",
        "embedding.embeddings.0.embedding.text": "a",
        "embedding.embeddings.1.embedding.text": "b",
    }.items() <= facts(spans["LetterEmbeddings"]).items()
    assert {
        "openinference.span.kind": "RERANKER",
        "reranker.model_name": "longest-1",
        "reranker.query": "which?",
        "reranker.top_k": 2,
        "reranker.input_documents.0.document.id": "d1",
        "reranker.output_documents.0.document.id": "d2",
        "reranker.output_documents.0.document.score": 1.0,
    }.items() <= facts(spans["LongestFirst"]).items()


def test_an_agent_is_one_because_it_says_so_and_not_by_its_name() -> None:
    named = {"otelchain.run.type": "chain", "otelchain.run.name": "agent_helper"}
    announced = {**named, "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}

    assert openinference(named)["openinference.span.kind"] == "CHAIN"
    assert openinference(announced)["openinference.span.kind"] == "AGENT"
    assert openinference(announced)["agent.name"] == "helper"


def test_fields_of_langgraph_are_in_the_metadata() -> None:
    ours = {
        "otelchain.run.type": "chain",
        "otelchain.metadata": '{"tenant":"t1"}',
        "langgraph.node": "plan",
        "langgraph.step": 3,
        "langgraph.checkpoint_ns": "plan:1",
    }

    assert json.loads(str(openinference(ours)["metadata"])) == {
        "tenant": "t1",
        "langgraph_node": "plan",
        "langgraph_step": 3,
        "langgraph_checkpoint_ns": "plan:1",
    }


def test_every_name_is_one_of_openinference(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    trace = pytest.importorskip("openinference.semconv.trace")
    theirs = {
        value
        for _, group in inspect.getmembers(trace, inspect.isclass)
        for name, value in vars(group).items()
        if name.isupper() and isinstance(value, str)
    }
    chat_run(handler)
    chain = ChatPromptTemplate.from_messages([("human", "{q}")]) | FakeListLLM(responses=["x"])
    chain.invoke({"q": "hi"}, {"callbacks": [handler]})
    FakeRetriever(documents=DOCUMENTS).invoke("where?", {"callbacks": [handler]})
    traced_embeddings(LetterEmbeddings(), handler).embed_query("a")
    traced_reranker(LongestFirst(), handler).compress_documents(DOCUMENTS, "which?")

    for span in finished_spans.all():
        for name in openinference(facts(span)):
            parts: list[str] = [""]
            for part in name.split("."):
                if part.isdecimal():  # llm.input_messages | 0 | message.role
                    parts.append("")
                else:
                    parts[-1] += f".{part}" if parts[-1] else part
            for part in parts:
                known = part in theirs or part == "message_content.image.image.url"
                assert known, (name, part)


def test_the_flattened_messages_never_push_our_own_attributes_out(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    conversation: list[Any] = [HumanMessage(f"message {number}") for number in range(300)]
    FakeModel(messages=iter(["x"])).invoke(conversation, {"callbacks": [handler]})

    span = finished_spans()["FakeModel"]
    found = facts(span)
    assert span.dropped_attributes == 0
    assert found["otelchain.run.type"] == "chat_model"
    contents = [found[f"llm.input_messages.{n}.message.content"] for n in range(20)]
    assert contents == [f"message {number}" for number in range(280, 300)]
    assert json.loads(found["input.value"])[0]["parts"][0]["content"] == "message 0"


def test_nor_do_very_many_tools_and_tool_calls(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    tools = [{"type": "function", "function": {"name": f"tool {n}"}} for n in range(90)]
    calls: Any = [{**CALL, "id": f"call-{n}"} for n in range(60)]
    model = FakeModel(messages=iter([AIMessage("", tool_calls=calls)])).bind(tools=tools)
    model.invoke([HumanMessage(str(n)) for n in range(90)], {"callbacks": [handler]})

    span = finished_spans()["FakeModel"]
    assert span.dropped_attributes == 0
    assert facts(span)["otelchain.run.id"]
    assert len(json.loads(facts(span)["gen_ai.tool.definitions"])) == 90


def test_what_is_redacted_in_ours_is_redacted_in_theirs(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    FakeModel(messages=iter(["to bob@example.com"])).invoke(
        "from ann@example.com", {"callbacks": [handler]}
    )

    assert "example.com" not in str(facts(finished_spans()["FakeModel"]))


def test_with_content_off_there_is_no_content_in_theirs(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    handler = OtelCallbackHandler(tracer_provider, capture_content=False, openinference=True)
    FakeModel(messages=iter(["an answer"])).invoke("a question", {"callbacks": [handler]})
    FakeRetriever(documents=[Document("a text", id="d1")]).invoke("q?", {"callbacks": [handler]})

    spans = finished_spans()
    assert not {"input.value", "output.value"} & set(facts(spans["FakeModel"]))
    assert facts(spans["FakeModel"])["openinference.span.kind"] == "LLM"
    found = facts(spans["FakeRetriever"])
    assert found["retrieval.documents.0.document.id"] == "d1"
    assert "a text" not in str(found)


def test_the_switch_is_off_by_default_and_a_variable_turns_it_on(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans, monkeypatch: pytest.MonkeyPatch
) -> None:
    RunnableLambda(str).invoke(1, {"callbacks": [OtelCallbackHandler(tracer_provider)]})
    monkeypatch.setenv("OTELCHAIN_OPENINFERENCE", "true")
    RunnableLambda(str).invoke(1, {"callbacks": [OtelCallbackHandler(tracer_provider)]})

    kinds = [facts(span).get("openinference.span.kind") for span in finished_spans.all()]
    assert kinds == [None, "CHAIN"]


def test_the_kind_is_there_for_a_sampler(tracer_provider: TracerProvider) -> None:
    seen: list[Any] = []

    class Watching(type(tracer_provider.sampler)):  # type: ignore[misc]
        def should_sample(self, *args: Any, **kwargs: Any) -> Any:
            seen.append(dict(kwargs.get("attributes") or args[4]))
            return super().should_sample(*args, **kwargs)

    provider = TracerProvider(
        sampler=Watching(tracer_provider.sampler._root), shutdown_on_exit=False
    )
    handler = OtelCallbackHandler(provider, openinference=True)
    RunnableLambda(str).invoke(1, {"callbacks": [handler]})

    assert seen[0]["openinference.span.kind"] == "CHAIN"


def normalised(span: ReadableSpan) -> Normalised:
    attributes = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in facts(span).items()
    }
    return normalise(
        SpanFacts(
            name=span.name,
            kind=span.kind.value,
            status_code=0,
            status_message="",
            attributes=attributes,
            events=[],
            scope_name="otelchain",
            resource={},
            start_time_unix_nano=span.start_time or 0,
            end_time_unix_nano=span.end_time or 0,
        )
    )


def test_the_collector_reads_such_a_span_exactly_as_one_without_the_switch(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    chat_run(OtelCallbackHandler(tracer_provider))
    chat_run(OtelCallbackHandler(tracer_provider, openinference=True))

    plain, both = map(normalised, finished_spans.all())
    assert both.dialect == "otelchain"
    assert (both.input_tokens, both.output_tokens, both.total_tokens) == (10, 4, 14)
    assert both._replace(run_id=None) == plain._replace(run_id=None)


def test_the_collector_knows_embedding_and_reranker_runs(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    traced_embeddings(LetterEmbeddings(), handler).embed_query("a")
    traced_reranker(LongestFirst(), handler).compress_documents(DOCUMENTS, "which?")

    embedding, reranker = map(normalised, finished_spans.all())
    assert (embedding.run_type, embedding.model) == ("embedding", "letters-1")
    assert (reranker.run_type, reranker.document_count) == ("reranker", 2)
    assert reranker.inputs_attribute == "gen_ai.retrieval.query.text"
    assert reranker.outputs_attribute == "gen_ai.retrieval.documents"
