"""One span of every dialect as its writer writes it, and what it says, worked out by hand."""

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otelchain_collector import prices
from otelchain_collector.dialects import (
    gen_ai,
    langfuse,
    langsmith,
    openinference,
    openlit,
    openllmetry,
    otelchain,
    other,
)
from otelchain_collector.dialects.python_repr import literal_at, whole_literal
from otelchain_collector.normalise import Event, Normalised, SpanFacts, normalise

START = 1_796_032_800 * 10**9  # 2026-11-30T10:00:00Z
RUN_ID = "0198c6b2-1111-7000-8000-000000000001"
PARENT_RUN_ID = "0198c6b2-1111-7000-8000-000000000000"
TRACEBACK = "Traceback (most recent call last):\n  File 'app.py', line 3, in <module>\n"

UNSET, OK, ERROR = 0, 1, 2

DIALECTS = [
    module.DIALECT
    for module in (
        otelchain,
        gen_ai,
        openinference,
        openllmetry,
        langfuse,
        langsmith,
        openlit,
        other,
    )
]


@pytest.fixture(autouse=True, scope="module")
def _no_prices() -> Iterator[None]:
    """Prices change with genai-prices; test_prices.py is about them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prices, "_is_installed", lambda: False)
        yield


def hash_of(content: bytes) -> int:
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big", signed=True)


def span(
    attributes: Mapping[str, Any],
    *,
    name: str = "step",
    scope: str = "",
    status: int = UNSET,
    message: str = "",
    events: tuple[Event, ...] = (),
    resource: Mapping[str, Any] | None = None,
) -> SpanFacts:
    return SpanFacts(
        name=name,
        kind=1,
        status_code=status,
        status_message=message,
        attributes=attributes,
        events=events,
        scope_name=scope,
        resource={"service.name": "shop"} if resource is None else resource,
        start_time_unix_nano=START,
        end_time_unix_nano=START + 10**9,
    )


def exception(kind: str, message: str = "") -> Event:
    attributes = {"exception.type": kind, "exception.message": message}
    return Event("exception", START + 1, attributes)


# --- otelchain ---


def test_own_chat_model_run() -> None:
    facts = span(
        {
            "otelchain.run.id": RUN_ID,
            "otelchain.run.parent_id": PARENT_RUN_ID,
            "otelchain.run.type": "chat_model",
            "otelchain.run.name": "ChatOpenAI",
            "otelchain.run.status": "ok",
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.response.model": "gpt-4o-2024-08-06",
            "gen_ai.usage.input_tokens": 812,
            "gen_ai.usage.output_tokens": 93,
            "gen_ai.usage.cache_read.input_tokens": 512,
            "gen_ai.usage.cache_write.input_tokens": 64,
            "gen_ai.usage.reasoning.output_tokens": 40,
            "gen_ai.response.time_to_first_chunk": 0.25,
            "gen_ai.conversation.id": "chat-7",
            "user.id": "u1",
            "gen_ai.agent.name": "helper",
            "otelchain.retry.attempt": 2,
            "otelchain.tags": ["prod", "retry:attempt:2"],
            "otelchain.metadata": '{"team":"support"}',
            "langgraph.node": "agent",
            "langgraph.step": 3,
            "langgraph.checkpoint_ns": "agent:3aa1",
            "gen_ai.input.messages": "[]",
            "gen_ai.output.messages": "[]",
        },
        name="chat gpt-4o",
        scope="otelchain",
    )

    assert normalise(facts) == Normalised(
        dialect="otelchain",
        service_name="shop",
        run_id=RUN_ID,
        parent_run_id=PARENT_RUN_ID,
        run_name="ChatOpenAI",
        run_type="llm",
        run_status="ok",
        model="gpt-4o-2024-08-06",
        provider="openai",
        input_tokens=812,
        output_tokens=93,
        total_tokens=905,
        cache_read_tokens=512,
        cache_write_tokens=64,
        reasoning_tokens=40,
        time_to_first_token_ms=250.0,
        session_id="chat-7",
        user_id="u1",
        agent_name="helper",
        retry_attempt=2,
        tags=["prod", "retry:attempt:2"],
        metadata='{"team":"support"}',
        langgraph_node="agent",
        langgraph_step=3,
        langgraph_checkpoint_ns="agent:3aa1",
        inputs_attribute="gen_ai.input.messages",
        outputs_attribute="gen_ai.output.messages",
    )


@pytest.mark.parametrize(
    ("written", "run_type"),
    [
        ({"otelchain.run.type": "llm"}, "llm"),
        ({"otelchain.run.type": "chain"}, "chain"),
        ({"otelchain.run.type": "chain", "gen_ai.operation.name": "invoke_agent"}, "agent"),
        ({"otelchain.run.type": "tool", "gen_ai.operation.name": "invoke_agent"}, "tool"),
        ({"otelchain.run.type": "prompt"}, "prompt"),
        ({"otelchain.run.type": "parser"}, "parser"),
        ({"otelchain.run.type": "surprise"}, None),
    ],
)
def test_own_run_types(written: dict[str, Any], run_type: str | None) -> None:
    assert normalise(span(written)).run_type == run_type


@pytest.mark.parametrize(
    ("run_type", "inputs", "outputs"),
    [
        ("tool", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
        ("retriever", "gen_ai.retrieval.query.text", "gen_ai.retrieval.documents"),
        ("chain", "otelchain.input", "otelchain.output"),
    ],
)
def test_own_payload_is_named_where_it_is(run_type: str, inputs: str, outputs: str) -> None:
    found = normalise(span({"otelchain.run.type": run_type, inputs: "x", outputs: "y"}))

    assert (found.inputs_attribute, found.outputs_attribute) == (inputs, outputs)
    assert (found.inputs_built, found.outputs_built) == (None, None)


def test_own_payload_that_was_not_captured_is_not_named() -> None:
    found = normalise(span({"otelchain.run.type": "chain"}))

    assert (found.inputs_attribute, found.outputs_attribute) == (None, None)


def test_own_failure() -> None:
    facts = span(
        {
            "otelchain.run.type": "retriever",
            "otelchain.run.status": "error",
            "error.type": "app.IndexDown",
        },
        status=ERROR,
        message="no index",
        events=(exception("app.IndexDown", "no index"),),
    )

    found = normalise(facts)

    assert (found.run_status, found.error_type, found.error) == (
        "error",
        "app.IndexDown",
        "no index",
    )


def test_own_run_that_was_ended_for_a_reason() -> None:
    facts = span(
        {
            "otelchain.run.type": "chain",
            "otelchain.run.status": "cancelled",
            "otelchain.run.end_reason": "asyncio.exceptions.CancelledError",
        }
    )

    found = normalise(facts)

    assert (found.run_status, found.error) == ("cancelled", "asyncio.exceptions.CancelledError")


def test_own_empty_retrieval_is_counted_as_written() -> None:
    found = normalise(
        span({"otelchain.run.type": "retriever", "otelchain.retrieval.document_count": 0})
    )

    assert found.document_count == 0


# --- gen_ai ---


def test_gen_ai_inference_in_the_newest_spelling() -> None:
    facts = span(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "claude",
            "gen_ai.response.model": "claude-5",
            "gen_ai.agent.name": "helper",
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": 20,
            "gen_ai.usage.cache_read.input_tokens": 60,
            "gen_ai.usage.cache_write.input_tokens": 10,
            "gen_ai.conversation.id": "c1",
            "gen_ai.response.time_to_first_chunk": 1.5,
            "gen_ai.input.messages": '[{"role":"user"}]',
            "gen_ai.output.messages": "[]",
        },
        name="chat claude",
        scope="opentelemetry.instrumentation.anthropic_v2",
    )

    assert normalise(facts) == Normalised(
        dialect="gen_ai",
        service_name="shop",
        run_name="claude-5",
        run_type="llm",
        model="claude-5",
        provider="anthropic",
        input_tokens=100,
        output_tokens=20,
        total_tokens=120,
        cache_read_tokens=60,
        cache_write_tokens=10,
        time_to_first_token_ms=1500.0,
        session_id="c1",
        agent_name="helper",
        inputs_attribute="gen_ai.input.messages",
        outputs_attribute="gen_ai.output.messages",
    )


def test_gen_ai_inference_in_older_spellings() -> None:
    facts = span(
        {
            "gen_ai.operation.name": "text_completion",
            "gen_ai.system": "openai",
            "gen_ai.request.model": "davinci",
            "gen_ai.usage.prompt_tokens": 7,
            "gen_ai.usage.completion_tokens": 5,
            "gen_ai.usage.cache_creation.input_tokens": 2,
            "gen_ai.server.time_to_first_token": 2,
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": "hi",
            "gen_ai.completion.0.content": "ho",
        }
    )

    found = normalise(facts)

    assert (found.provider, found.model) == ("openai", "davinci")
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (7, 5, 12)
    assert (found.cache_write_tokens, found.time_to_first_token_ms) == (2, 2000.0)
    assert json.loads(found.inputs_built or "") == [{"role": "user", "content": "hi"}]
    assert json.loads(found.outputs_built or "") == [{"content": "ho"}]


def test_gen_ai_system_instructions_stand_before_the_messages() -> None:
    facts = span(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.system_instructions": '[{"type":"text","content":"be kind"}]',
            "gen_ai.input.messages": '[{"role":"user","parts":[]}]',
        }
    )

    found = normalise(facts)

    assert found.inputs_attribute is None
    assert json.loads(found.inputs_built or "") == [
        {"role": "system", "parts": [{"type": "text", "content": "be kind"}]},
        {"role": "user", "parts": []},
    ]


@pytest.mark.parametrize(
    ("operation", "run_type"),
    [
        ("generate_content", "llm"),
        ("embeddings", "embedding"),
        ("retrieval", "retriever"),
        ("execute_tool", "tool"),
        ("invoke_agent", "agent"),
        ("create_agent", "agent"),
        ("invoke_workflow", "chain"),
        ("search_memory", None),
        ("retrieve_something_tool", None),
    ],
)
def test_gen_ai_run_types_are_read_and_never_guessed(operation: str, run_type: str | None) -> None:
    facts = span({"gen_ai.operation.name": operation}, name="execute_tool retriever agent")

    assert normalise(facts).run_type == run_type


def test_gen_ai_tool_and_retrieval() -> None:
    tool = normalise(
        span(
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "search",
                "gen_ai.tool.call.id": "call_1",
                "gen_ai.tool.call.arguments": "{}",
                "gen_ai.tool.call.result": {"hits": 1},
            }
        )
    )
    retrieval = normalise(
        span(
            {
                "gen_ai.operation.name": "retrieval",
                "gen_ai.request.model": "an embedding model",
                "gen_ai.retrieval.query.text": "shoes",
                "gen_ai.retrieval.documents": '[{"id":"1","score":0.5},{"id":"2","score":0.1}]',
            }
        )
    )

    assert (tool.run_name, tool.tool_call_id) == ("search", "call_1")
    assert (tool.inputs_attribute, tool.outputs_attribute) == (
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
    )
    assert (retrieval.run_name, retrieval.document_count) == (None, 2)
    assert retrieval.inputs_attribute == "gen_ai.retrieval.query.text"


def test_an_embedding_has_no_output_tokens_to_wait_for() -> None:
    found = normalise(span({"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": 9}))

    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (9, None, 9)


def test_half_a_sum_is_no_total() -> None:
    found = normalise(span({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 9}))

    assert found.total_tokens is None


# --- openinference ---

OPENINFERENCE = "openinference.instrumentation.langchain"


def test_openinference_llm() -> None:
    facts = span(
        {
            "openinference.span.kind": "LLM",
            "input.value": '{"messages": []}',
            "input.mime_type": "application/json",
            "output.value": "{}",
            "llm.input_messages.0.message.role": "user",
            "llm.model_name": "gpt-4o",
            "llm.provider": "openai",
            "llm.token_count.prompt": 100,
            "llm.token_count.completion": 20,
            "llm.token_count.total": 120,
            "llm.token_count.prompt_details.cache_read": 60,
            "llm.token_count.prompt_details.cache_write": 5,
            "llm.token_count.completion_details.reasoning": 8,
            # OPENINFERENCE_ENABLE_GENAI_SEMCONV writes these beside it
            "gen_ai.operation.name": "chat",
            "gen_ai.usage.input_tokens": 40,
            "gen_ai.usage.output_tokens": 20,
            "session.id": "chat-7",
            "user.id": "u1",
            "metadata": json.dumps(
                {
                    "langgraph_node": "agent",
                    "langgraph_step": 3,
                    "langgraph_checkpoint_ns": "agent:3aa1",
                    "lc_agent_name": "helper",
                }
            ),
            "tag.tags": ["prod"],
        },
        name="ChatOpenAI",
        scope=OPENINFERENCE,
        status=OK,
    )

    found = normalise(facts)

    assert found == Normalised(
        dialect="openinference",
        service_name="shop",
        run_type="llm",
        model="gpt-4o",
        provider="openai",
        input_tokens=100,
        output_tokens=20,
        total_tokens=120,
        cache_read_tokens=60,
        cache_write_tokens=5,
        reasoning_tokens=8,
        session_id="chat-7",
        user_id="u1",
        agent_name="helper",
        tags=["prod"],
        metadata=found.metadata,
        langgraph_node="agent",
        langgraph_step=3,
        langgraph_checkpoint_ns="agent:3aa1",
        inputs_attribute="input.value",
        outputs_attribute="output.value",
    )
    assert json.loads(found.metadata or "")["lc_agent_name"] == "helper"


def test_openinference_messages_are_put_together() -> None:
    prefix = "llm.input_messages"
    facts = span(
        {
            "openinference.span.kind": "LLM",
            f"{prefix}.10.message.content": "last",
            f"{prefix}.2.message.role": "assistant",
            f"{prefix}.2.message.tool_calls.0.tool_call.id": "call_1",
            f"{prefix}.2.message.tool_calls.0.tool_call.function.name": "search",
            f"{prefix}.2.message.tool_calls.0.tool_call.function.arguments": "{}",
            f"{prefix}.0.message.role": "user",
            f"{prefix}.0.message.contents.0.message_content.type": "text",
            f"{prefix}.0.message.contents.0.message_content.text": "hi",
        }
    )

    found = normalise(facts)

    assert found.inputs_attribute is None
    assert json.loads(found.inputs_built or "") == [
        {"role": "user", "contents": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "tool_calls": [{"id": "call_1", "function": {"name": "search", "arguments": "{}"}}],
        },
        {"content": "last"},
    ]


def test_names_that_fit_no_list_are_left_out_of_it() -> None:
    prefix = "llm.input_messages"
    facts = span(
        {
            "openinference.span.kind": "LLM",
            f"{prefix}.0.message.content": "hi",
            f"{prefix}.0.message.content.part": "below a text",
            f"{prefix}.0." + "1." * 5_000 + "x": "deep",
        }
    )

    assert json.loads(normalise(facts).inputs_built or "") == [{"content": "hi"}]


def test_openinference_documents_are_put_together_and_counted() -> None:
    facts = span(
        {
            "openinference.span.kind": "RETRIEVER",
            "input.value": "shoes",
            "retrieval.documents.0.document.content": "a",
            "retrieval.documents.0.document.metadata": '{"k":1}',
            "retrieval.documents.1.document.content": "b",
        }
    )

    found = normalise(facts)

    assert found.document_count == 2
    assert json.loads(found.outputs_built or "") == [
        {"content": "a", "metadata": '{"k":1}'},
        {"content": "b"},
    ]


def test_openinference_retriever_that_found_nothing() -> None:
    facts = span({"openinference.span.kind": "RETRIEVER", "output.value": '{"documents": []}'})

    assert normalise(facts).document_count == 0


def test_openinference_failure_has_its_message_without_the_stack_trace() -> None:
    with_event = span(
        {"openinference.span.kind": "TOOL"},
        status=ERROR,
        message="ValueError('no route')" + TRACEBACK,
        events=(exception("ValueError", "no route"),),
    )
    without_event = with_event._replace(events=())

    found, found_without = normalise(with_event), normalise(without_event)

    assert (found.run_status, found.error_type, found.error) == ("error", "ValueError", "no route")
    assert (found_without.error_type, found_without.error) == (
        "ValueError",
        "ValueError('no route')",
    )


def test_openinference_interrupt_is_an_interrupt() -> None:
    facts = span(
        {"openinference.span.kind": "CHAIN"},
        status=OK,
        events=(exception("langgraph.errors.GraphInterrupt", "(Interrupt(value='ok?'),)"),),
    )

    assert normalise(facts).run_status == "interrupted"


@pytest.mark.parametrize(
    ("kind", "run_type"),
    [("TOOL", "tool"), ("AGENT", "agent"), ("RERANKER", "reranker"), ("UNKNOWN", None)],
)
def test_openinference_kinds(kind: str, run_type: str | None) -> None:
    assert normalise(span({"openinference.span.kind": kind})).run_type == run_type


# --- openllmetry ---

OPENLLMETRY = "opentelemetry.instrumentation.langchain"
PROPERTY = "traceloop.association.properties."


def test_openllmetry_task() -> None:
    facts = span(
        {
            "traceloop.span.kind": "task",
            "traceloop.entity.name": "retrieve",
            "traceloop.workflow.name": "LangGraph",
            "traceloop.entity.path": "",
            "gen_ai.operation.name": "execute_task",
            "gen_ai.provider.name": "langgraph",
            "gen_ai.task.id": RUN_ID,
            "gen_ai.task.parent.id": PARENT_RUN_ID,
            "gen_ai.task.status": "success",
            PROPERTY + "thread_id": "chat-7",
            PROPERTY + "user_id": "u1",
            PROPERTY + "langgraph_node": "retrieve",
            PROPERTY + "langgraph_step": 2,
            PROPERTY + "langgraph_checkpoint_ns": "retrieve:9",
            "traceloop.entity.input": json.dumps(
                {"inputs": {"q": 1}, "tags": ["graph:step:2", "retry:attempt:3"], "metadata": {}}
            ),
            "traceloop.entity.output": '{"outputs": {}}',
        },
        name="execute_task retrieve",
        scope=OPENLLMETRY,
    )

    found = normalise(facts)

    assert found == Normalised(
        dialect="openllmetry",
        service_name="shop",
        run_id=RUN_ID,
        parent_run_id=PARENT_RUN_ID,
        run_name="retrieve",
        run_type="chain",
        session_id="chat-7",
        user_id="u1",
        retry_attempt=3,
        tags=["graph:step:2", "retry:attempt:3"],
        metadata=found.metadata,
        langgraph_node="retrieve",
        langgraph_step=2,
        langgraph_checkpoint_ns="retrieve:9",
        inputs_built='{"q":1}',
        outputs_attribute="traceloop.entity.output",
    )
    assert json.loads(found.metadata or "")["langgraph_step"] == 2


@pytest.mark.parametrize(
    ("side", "written", "read"),
    [
        ("inputs", {"inputs": {"q": 1}, "tags": [], "metadata": {}, "kwargs": {}}, {"q": 1}),
        ("inputs", {"query": "shoes", "tags": [], "metadata": {}}, "shoes"),
        ("inputs", {"input_str": "shoes", "tags": [], "metadata": {}}, "shoes"),
        ("outputs", {"outputs": [], "kwargs": {"tags": []}}, []),
        ("outputs", {"output": "fine", "kwargs": {}}, "fine"),
    ],
)
def test_openllmetry_payload_is_taken_out_of_what_it_is_written_with(
    side: str, written: dict[str, Any], read: Any
) -> None:
    attribute = f"traceloop.entity.{side.removesuffix('s')}"
    found = normalise(
        span({"traceloop.span.kind": "task", attribute: json.dumps(written)})
    )._asdict()

    assert json.loads(found[f"{side}_built"]) == read
    assert found[f"{side}_attribute"] is None


@pytest.mark.parametrize("written", ['{"inputs": 1}', '{"metadata": {}}', "[]", "text"])
def test_openllmetry_payload_of_another_shape_stays_where_it_is(written: str) -> None:
    found = normalise(span({"traceloop.span.kind": "task", "traceloop.entity.input": written}))

    assert (found.inputs_attribute, found.inputs_built) == ("traceloop.entity.input", None)


def test_openllmetry_llm() -> None:
    facts = span(
        {
            "traceloop.workflow.name": "chain",
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.response.model": "unknown",
            "gen_ai.usage.input_tokens": 10,
            "gen_ai.usage.output_tokens": 2,
            "gen_ai.usage.total_tokens": 12,
            "gen_ai.usage.cache_read_input_tokens": 4,
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": "hi",
            "gen_ai.completion.0.content": "ho",
            "gen_ai.completion.0.finish_reason": "stop",
        },
        name="ChatOpenAI.chat",
        scope=OPENLLMETRY,
    )

    found = normalise(facts)

    assert (found.dialect, found.run_name, found.run_type) == ("openllmetry", "ChatOpenAI", "llm")
    assert (found.model, found.provider) == ("gpt-4o", "openai")
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (10, 2, 12)
    assert found.cache_read_tokens == 4
    assert json.loads(found.inputs_built or "") == [{"role": "user", "content": "hi"}]
    assert json.loads(found.outputs_built or "") == [{"content": "ho", "finish_reason": "stop"}]


@pytest.mark.parametrize(
    ("written", "run_type"),
    [
        ({"traceloop.span.kind": "workflow", "gen_ai.operation.name": "invoke_agent"}, "chain"),
        ({"traceloop.span.kind": "agent", "gen_ai.operation.name": "invoke_agent"}, "agent"),
        ({"traceloop.span.kind": "tool", "gen_ai.operation.name": "execute_tool"}, "tool"),
        (
            {"traceloop.span.kind": "task", "gen_ai.operation.name": "vector_db_retrieve"},
            "retriever",
        ),
        ({"traceloop.entity.path": "", "gen_ai.operation.name": "invoke_agent"}, "agent"),
        ({"llm.request.type": "chat"}, "llm"),
        ({"llm.request.type": "embedding"}, "embedding"),
    ],
)
def test_openllmetry_run_types(written: dict[str, Any], run_type: str) -> None:
    assert normalise(span(written)).run_type == run_type


@pytest.mark.parametrize(("kind", "agent"), [("workflow", None), ("agent", "helper")])
def test_openllmetry_agent_name_is_a_chains_name_on_workflows(kind: str, agent: str | None) -> None:
    facts = span({"traceloop.span.kind": kind, "gen_ai.agent.name": "helper"})

    assert normalise(facts).agent_name == agent


def test_openllmetry_retriever_that_found_nothing() -> None:
    facts = span(
        {
            "traceloop.span.kind": "task",
            "gen_ai.operation.name": "vector_db_retrieve",
            "traceloop.entity.output": '{"documents": [], "count": 0}',
        }
    )

    assert normalise(facts).document_count == 0


def test_openllmetry_cancellation_is_no_error() -> None:
    facts = span(
        {"traceloop.span.kind": "task", "error.type": "CancelledError"},
        status=ERROR,
        events=(exception("asyncio.exceptions.CancelledError"),),
    )

    found = normalise(facts)

    assert (found.run_status, found.error_type) == ("cancelled", "CancelledError")


# --- langfuse ---

LANGFUSE_META = "langfuse.observation.metadata."


def test_langfuse_generation_gets_its_cached_tokens_back() -> None:
    # langchain usage: 100 in (60 read, 10 written, 5 audio), 20 out (8 reasoning), 120 in all
    usage = {
        "input": 25,
        "input_cache_read": 60,
        "input_cache_creation": 10,
        "input_audio": 5,
        "input_priority": 100,
        "output": 12,
        "output_reasoning": 8,
        "total": 120,
    }
    facts = span(
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.level": "DEFAULT",
            "langfuse.observation.input": "[]",
            "langfuse.observation.output": "{}",
            "langfuse.observation.model.name": "gpt-4o",
            "langfuse.observation.usage_details": json.dumps(usage),
            "langfuse.observation.completion_start_time": '"2026-11-30T10:00:00.250000+00:00"',
            "session.id": "chat-7",
            "user.id": "u1",
            LANGFUSE_META + "ls_provider": '"openai"',
            LANGFUSE_META + "langgraph_node": '"agent"',
            LANGFUSE_META + "langgraph_step": "3",
            LANGFUSE_META + "langgraph_checkpoint_ns": '"agent:3aa1"',
            LANGFUSE_META + "tags": '["retry:attempt:2"]',
            LANGFUSE_META + "lc_agent_name": '"helper"',
            "langfuse.trace.tags": ["whole trace"],
        },
        name="ChatOpenAI",
        scope="langfuse-sdk",
    )

    found = normalise(facts)

    assert found == Normalised(
        dialect="langfuse",
        service_name="shop",
        run_type="llm",
        model="gpt-4o",
        provider="openai",
        input_tokens=100,
        output_tokens=20,
        total_tokens=120,
        cache_read_tokens=60,
        cache_write_tokens=10,
        reasoning_tokens=8,
        time_to_first_token_ms=250.0,
        session_id="chat-7",
        user_id="u1",
        agent_name="helper",
        retry_attempt=2,
        tags=["retry:attempt:2"],
        metadata=found.metadata,
        langgraph_node="agent",
        langgraph_step=3,
        langgraph_checkpoint_ns="agent:3aa1",
        inputs_attribute="langfuse.observation.input",
        outputs_attribute="langfuse.observation.output",
    )
    assert json.loads(found.metadata or "")["langgraph_step"] == 3


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        # OpenAI's object as it is: cached tokens are in prompt_tokens
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "total_tokens": 120,
                "prompt_tokens_details": {"cached_tokens": 60},
                "completion_tokens_details": {"reasoning_tokens": 8},
            },
            (100, 20, 120, 60, None, 8),
        ),
        # Anthropic's: cached tokens beside input_tokens
        (
            {
                "input": 30,
                "output": 20,
                "cache_read_input_tokens": 60,
                "cache_creation_input_tokens": 10,
                "cache_creation_ephemeral_5m_input_tokens": 10,
            },
            (100, 20, 120, 60, 10, None),
        ),
        ({"input": 3, "output": 4}, (3, 4, 7, None, None, None)),
        ({"input": "3", "output": -4}, (None, None, None, None, None, None)),
    ],
    ids=["openai", "anthropic", "plain", "malformed"],
)
def test_langfuse_usage(usage: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    found = normalise(
        span(
            {
                "langfuse.observation.type": "generation",
                "langfuse.observation.usage_details": json.dumps(usage),
            }
        )
    )

    assert expected == (
        found.input_tokens,
        found.output_tokens,
        found.total_tokens,
        found.cache_read_tokens,
        found.cache_write_tokens,
        found.reasoning_tokens,
    )


TOOL_MESSAGE = {
    "content": "division by zero",
    "type": "tool",
    "name": "divide",
    "tool_call_id": "call_1",
    "status": "error",
}


@pytest.mark.parametrize(
    ("written", "status", "error"),
    [
        ({"level": "ERROR", "status_message": "boom"}, "error", "boom"),
        (
            {
                "level": "ERROR",
                "status_message": "division by zero",
                "output": json.dumps(TOOL_MESSAGE),
            },
            "handled_error",
            "division by zero",
        ),
        (
            {"level": "DEFAULT", "status_message": "(Interrupt(value='ok?', id='1'),)"},
            "interrupted",
            "(Interrupt(value='ok?', id='1'),)",
        ),
        ({"level": "DEFAULT", "status_message": "ParentCommand"}, "ok", None),
        ({"level": "WARNING", "status_message": "odd"}, "ok", None),
        ({"level": "DEFAULT"}, "ok", None),
    ],
)
def test_langfuse_levels(written: dict[str, str], status: str, error: str | None) -> None:
    facts = span(
        {
            "langfuse.observation.type": "tool",
            **{f"langfuse.observation.{key}": value for key, value in written.items()},
        },
        status=ERROR if written["level"] == "ERROR" else UNSET,
        message=written.get("status_message", ""),
    )

    found = normalise(facts)

    assert (found.run_status, found.error) == (status, error)


# --- langsmith ---


def test_langsmith_llm() -> None:
    facts = span(
        {
            "langsmith.span.kind": "llm",
            "langsmith.trace.name": "ChatAnthropic",
            "langsmith.trace.session_id": "the-project",
            "gen_ai.operation.name": "chat",
            "gen_ai.system": "anthropic",
            "gen_ai.request.model": "claude-5",
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": 20,
            "gen_ai.usage.total_tokens": 120,
            "gen_ai.usage.input_token_details": "{'cache_creation': 10, 'cache_read': 60}",
            "gen_ai.usage.output_token_details": "{'reasoning': 8}",
            "gen_ai.prompt": "{}",
            "gen_ai.completion": "{}",
            "langsmith.metadata.thread_id": 42,
            "langsmith.metadata.user_id": "u1",
            "langsmith.metadata.ls_provider": "bedrock",
            "langsmith.metadata.langgraph_node": "agent",
            "langsmith.metadata.langgraph_step": 3,
            "langsmith.metadata.langgraph_checkpoint_ns": "agent:3aa1",
            "langsmith.span.tags": "prod, retry:attempt:2",
        },
        name="ChatAnthropic",
        scope="langsmith",
        status=OK,
    )

    found = normalise(facts)

    assert found == Normalised(
        dialect="langsmith",
        service_name="shop",
        run_name="ChatAnthropic",
        run_type="llm",
        model="claude-5",
        provider="bedrock",
        input_tokens=100,
        output_tokens=20,
        total_tokens=120,
        cache_read_tokens=60,
        cache_write_tokens=10,
        reasoning_tokens=8,
        session_id="42",
        user_id="u1",
        retry_attempt=2,
        tags=["prod", "retry:attempt:2"],
        metadata=found.metadata,
        langgraph_node="agent",
        langgraph_step=3,
        langgraph_checkpoint_ns="agent:3aa1",
        inputs_attribute="gen_ai.prompt",
        outputs_attribute="gen_ai.completion",
    )
    assert json.loads(found.metadata or "")["thread_id"] == 42


def test_langsmith_retriever_is_none_of_the_embeddings_it_says_it_is() -> None:
    facts = span(
        {
            "langsmith.span.kind": "retriever",
            "gen_ai.operation.name": "embeddings",
            "gen_ai.system": "langchain",
            "gen_ai.completion": '{"documents": []}',
        },
        status=OK,
    )

    found = normalise(facts)

    assert (found.run_type, found.document_count, found.provider) == ("retriever", 0, None)


def test_langsmith_chain_does_not_repeat_the_tokens_of_its_model() -> None:
    facts = span(
        {
            "langsmith.span.kind": "chain",
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": 20,
            "gen_ai.usage.total_tokens": 120,
            "gen_ai.usage.output_token_details": "{'reasoning': 8}",
        }
    )

    assert normalise(facts) == Normalised(
        dialect="langsmith", service_name="shop", run_type="chain"
    )


@pytest.mark.parametrize(
    ("message", "status", "error_type", "error"),
    [
        ("ValueError('no')" + TRACEBACK, "error", "ValueError", "no"),
        ("CancelledError()" + TRACEBACK, "cancelled", "CancelledError", "CancelledError()"),
        ("GraphInterrupt((Interrupt(),))", "interrupted", "GraphInterrupt", None),
        ("a text of the user's (own)", "error", None, "a text of the user's (own)"),
    ],
)
def test_langsmith_failure_is_in_the_event_because_its_status_stays_ok(
    message: str, status: str, error_type: str | None, error: str | None
) -> None:
    facts = span(
        {"langsmith.span.kind": "tool"}, status=OK, events=(exception("Exception", message),)
    )

    found = normalise(facts)

    assert (found.run_status, found.error_type) == (status, error_type)
    assert found.error == (error or message)


@pytest.mark.parametrize("side", ["prompt", "completion"])
@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b'{"a": 1}', '{"a": 1}'),
        (b"it is no JSON", '"it is no JSON"'),
        (b"\xff", '{"@bytes":"/w=="}'),
    ],
)
def test_langsmith_payload_written_as_bytes_is_read_as_the_text_it_is(
    side: str, written: bytes, read: str
) -> None:
    found = normalise(span({"langsmith.span.kind": "chain", f"gen_ai.{side}": written}))

    built = found.inputs_built if side == "prompt" else found.outputs_built
    assert built == read
    assert (found.inputs_attribute, found.outputs_attribute) == (None, None)


@pytest.mark.parametrize("place", ["metadata", "output"])
def test_langsmith_details_of_tokens_and_the_model_that_answered(place: str) -> None:
    usage = {
        "input_tokens": 100,
        "input_token_details": {"cache_read": 60, "cache_creation": 10},
        "output_token_details": {"reasoning": 5},
    }
    message = {"response_metadata": {"model_name": "fake-1-2026"}}
    if place == "output":
        message["usage_metadata"] = usage
    written = {
        "langsmith.span.kind": "llm",
        "gen_ai.request.model": "fake-1",
        "gen_ai.completion": json.dumps({"generations": [[{"message": {"kwargs": message}}]]}),
    }
    if place == "metadata":
        written["langsmith.metadata.usage_metadata"] = json.dumps(usage)

    found = normalise(span(written))

    assert found.model == "fake-1-2026"
    assert found.cache_read_tokens == 60
    assert found.cache_write_tokens == 10
    assert found.reasoning_tokens == 5


@pytest.mark.parametrize(
    "output",
    [
        *("", "[]", "{}", '{"generations":[]}', '{"generations":[[]]}', '{"generations":[[1]]}'),
        *('{"generations":[[{"message":1}]]}', '{"generations":[[{"message":{"kwargs":1}}]]}'),
        '{"generations":[[{"message":{"response_metadata":[],"usage_metadata":3}}]]}',
    ],
)
def test_an_answer_of_another_shape_leaves_the_model_that_was_asked_for(output: str) -> None:
    langsmith = {"langsmith.span.kind": "llm", "gen_ai.request.model": "m"}
    openinference = {"openinference.span.kind": "LLM", "llm.model_name": "m"}

    assert normalise(span({**langsmith, "gen_ai.completion": output})).model == "m"
    assert normalise(span({**openinference, "output.value": output})).model == "m"


def test_langsmith_failed_run_has_no_output_though_an_empty_object_is_written() -> None:
    written = {"langsmith.span.kind": "retriever", "gen_ai.completion": "{}"}

    failed = normalise(span(written, events=(exception("Exception", "OSError('busy')"),)))
    ended = normalise(span(written))

    assert (failed.error, failed.outputs_attribute) == ("busy", None)
    assert ended.outputs_attribute == "gen_ai.completion"


@given(st.text())
def test_a_text_is_read_back_from_its_repr(written: str) -> None:
    surrogates = any("\ud800" <= character <= "\udfff" for character in written)

    assert surrogates or whole_literal(repr(written)) == written
    assert surrogates or literal_at(f"content={written!r} name='x'", 8) == written


@pytest.mark.parametrize("written", ["'", "'a", "a", "1", "'a' 'b'", "'a'b", "", "\"a'", "('a',)"])
def test_no_repr_of_a_text_is_none(written: str) -> None:
    assert whole_literal(written) is None


@pytest.mark.parametrize(
    ("dialect", "guesses"),
    [
        ({"openinference.span.kind": "AGENT"}, "openinference.instrumentation.langchain"),
        ({"gen_ai.operation.name": "invoke_agent"}, "openlit.instrumentation.langchain"),
    ],
)
def test_a_chain_that_its_tracer_calls_an_agent_for_its_name_is_a_chain(
    dialect: dict[str, Any], guesses: str
) -> None:
    written = {**dialect, "gen_ai.agent.name": "agent_search"}

    assert normalise(span(written, name="agent_search", scope=guesses)).run_type == "chain"
    # Elsewhere nobody guesses.
    others = "openinference.instrumentation.crewai"
    assert normalise(span(written, name="agent_search", scope=others)).run_type == "agent"


@pytest.mark.parametrize("own_name", [True, False])
@pytest.mark.parametrize(
    "dialect",
    [
        {"openinference.span.kind": "CHAIN", "metadata": '{"lc_agent_name": "desk"}'},
        {"openinference.span.kind": "AGENT", "metadata": '{"lc_agent_name": "desk"}'},
        {
            "langfuse.observation.type": "chain",
            "langfuse.observation.metadata.lc_agent_name": '"desk"',
        },
        {"langsmith.span.kind": "chain", "langsmith.metadata.lc_agent_name": "desk"},
    ],
)
def test_an_agent_is_the_run_that_was_announced_and_nothing_inside_it(
    dialect: dict[str, Any], own_name: bool
) -> None:
    scope = "openinference.instrumentation.langchain"
    found = normalise(span(dialect, name="desk" if own_name else "step", scope=scope))

    assert found.run_type == ("agent" if own_name else "chain")
    assert found.agent_name == "desk"


# --- openlit ---


def test_openlit_calls_every_node_of_a_graph_an_agent() -> None:
    written = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "langgraph",
        "gen_ai.agent.name": "plan",
        "gen_ai.response.model": "fake-1",
    }

    found = normalise(span(written, scope="openlit.instrumentation.langgraph"))

    assert (found.run_type, found.run_name, found.langgraph_node) == ("chain", "plan", "plan")
    assert (found.agent_name, found.model) == (None, None)


@pytest.mark.parametrize(("streams", "milliseconds"), [(True, 50.0), (False, None), (None, 50.0)])
def test_openlit_without_a_stream_has_no_first_token(
    streams: bool | None, milliseconds: float | None
) -> None:
    written = {"gen_ai.operation.name": "chat", "gen_ai.server.time_to_first_token": 0.05}
    if streams is not None:
        written["gen_ai.request.stream"] = streams

    found = normalise(span(written, scope="openlit.instrumentation.langchain"))

    assert found.time_to_first_token_ms == milliseconds


@pytest.mark.parametrize(
    ("result", "status", "error"),
    [
        (
            "content='it\\'s off' name='f' tool_call_id='c' status='error'",
            "handled_error",
            "it's off",
        ),
        ("content=\"no\" name='f' tool_call_id='c' status='error'", "handled_error", "no"),
        ("content='fine' name='f' tool_call_id='c'", "ok", None),
        ("the page has status='error'", "ok", None),
        ("content='fine' status='error'", "ok", None),
    ],
)
def test_openlit_tool_message_with_an_error_is_known_by_its_text(
    result: str, status: str, error: str | None
) -> None:
    written = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.result": result}

    found = normalise(span(written, scope="openlit.instrumentation.langchain"))

    assert (found.run_status, found.error) == (status, error)


def test_openlit_writes_0_for_the_cost_it_does_not_know() -> None:
    written = {"gen_ai.operation.name": "chat", "gen_ai.usage.cost": 0}

    assert normalise(span(written, scope="openlit.instrumentation.langchain")).cost_usd is None


def test_a_finish_reason_that_says_unknown_is_none() -> None:
    written = {"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": ["unknown"]}

    assert normalise(span(written)).finish_reasons is None


def test_openlit_model_has_no_tool_call_id_though_it_lists_those_of_its_calls() -> None:
    written = {"gen_ai.operation.name": "chat", "gen_ai.tool.call.id": "call-1, call-2"}

    found = normalise(span(written, scope="openlit.instrumentation.langchain"))

    assert found.tool_call_id is None


@pytest.mark.parametrize(
    "mark",
    [
        {"attributes": {"telemetry.sdk.name": "openlit"}},
        {"resource": {"telemetry.sdk.name": "openlit", "service.name": "shop"}},
        {"scope": "openlit.otel.tracing"},
    ],
    ids=["attribute", "resource", "scope"],
)
def test_openlit_retriever(mark: dict[str, Any]) -> None:
    written = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.provider.name": "langchain",
        "gen_ai.data_source.id": "FaqRetriever",
        "gen_ai.retrieval.document_count": 0,
        "gen_ai.retrieval.query.text": "shoes",
        "gen_ai.conversation.id": "chat-7",
        **mark.pop("attributes", {}),
    }

    found = normalise(span(written, **mark))

    assert found == Normalised(
        dialect="openlit",
        service_name="shop",
        run_name="FaqRetriever",
        run_type="retriever",
        session_id="chat-7",
        document_count=0,
        inputs_attribute="gen_ai.retrieval.query.text",
        inputs_hash=hash_of(b"shoes"),
    )


def test_openlit_documents_are_no_count_because_it_writes_three_at_most() -> None:
    facts = span(
        {
            "telemetry.sdk.name": "openlit",
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.documents": "[{},{},{}]",
        }
    )

    assert normalise(facts).document_count is None


@pytest.mark.parametrize(("written", "read"), [(RUN_ID, None), ("call_1", "call_1")])
def test_openlit_run_id_is_no_tool_call_id(written: str, read: str | None) -> None:
    facts = span(
        {
            "telemetry.sdk.name": "openlit",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.id": written,
        }
    )

    found = normalise(facts)

    assert (found.run_type, found.run_name, found.tool_call_id) == ("tool", "search", read)


# --- other, and what all dialects share ---


def test_a_span_of_no_tracer_of_ours_has_a_status_and_no_run_type() -> None:
    facts = span(
        {"http.request.method": "POST", "session.id": "s"},
        name="retriever tool agent chat",
        scope="opentelemetry.instrumentation.httpx",
        status=ERROR,
        message="refused",
    )

    assert normalise(facts) == Normalised(
        dialect="other",
        service_name="shop",
        run_status="error",
        error="refused",
        session_id="s",
    )


CONSTRUCTOR = {"lc": 1, "type": "constructor", "id": ["ToolMessage"], "kwargs": TOOL_MESSAGE}


@pytest.mark.parametrize(
    "written",
    [
        {
            "openinference.span.kind": "TOOL",
            "output.value": json.dumps({"type": "tool", "data": TOOL_MESSAGE}),
        },
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.output": json.dumps({"output": CONSTRUCTOR, "kwargs": {}}),
        },
        {
            "langsmith.span.kind": "tool",
            "gen_ai.completion": json.dumps({"output": TOOL_MESSAGE}),
        },
    ],
    ids=["openinference", "openllmetry", "langsmith"],
)
def test_a_tool_that_answered_with_an_error_message_has_a_handled_error(
    written: dict[str, Any],
) -> None:
    found = normalise(span(written, status=OK))

    assert (found.run_status, found.error) == ("handled_error", "division by zero")


def test_the_output_of_a_failed_retriever_is_no_empty_retrieval() -> None:
    facts = span(
        {"langsmith.span.kind": "retriever", "gen_ai.completion": '{"documents": []}'},
        events=(exception("Exception", "IndexDown('x')"),),
    )

    found = normalise(facts)

    assert (found.run_status, found.document_count) == ("error", None)


@pytest.mark.parametrize(
    "output",
    [
        json.dumps({**TOOL_MESSAGE, "status": "success"}),
        '{"output": {"status": "error", "order": 7}}',
        '{"status": "error"}',
        "error",
        '["error"]',
    ],
)
def test_a_tool_whose_own_answer_speaks_of_an_error_has_none(output: str) -> None:
    found = normalise(span({"langsmith.span.kind": "tool", "gen_ai.completion": output}))

    assert (found.run_status, found.error) == ("ok", None)


def test_the_dialect_is_decided_for_each_span() -> None:
    resource = {"service.name": "shop", "telemetry.sdk.name": "openlit"}

    dialects = [
        normalise(span(written, resource=resource)).dialect
        for written in (
            {"otelchain.run.type": "chain"},
            {"openinference.span.kind": "CHAIN", "gen_ai.operation.name": "chat"},
            {"langfuse.observation.type": "span"},
            {"langsmith.span.kind": "llm", "gen_ai.operation.name": "chat"},
            {"traceloop.span.kind": "task", "gen_ai.operation.name": "execute_task"},
            {"gen_ai.operation.name": "chat"},
            {"langfuse.trace.name": "put on every span by Langfuse's processor"},
        )
    ]

    assert dialects == [
        "otelchain",
        "openinference",
        "langfuse",
        "langsmith",
        "openllmetry",
        "openlit",
        "other",
    ]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("asyncio.exceptions.CancelledError", "cancelled"),
        ("CancelledError", "cancelled"),
        ("KeyboardInterrupt", "cancelled"),
        ("langgraph.errors.GraphInterrupt", "interrupted"),
        ("GeneratorExit", "abandoned"),
        ("langgraph.errors.ParentCommand", "ok"),
        ("app.NotCancelledError", "error"),
    ],
)
def test_control_flow_is_told_from_failure(kind: str, status: str) -> None:
    facts = span({"gen_ai.operation.name": "chat"}, status=ERROR, events=(exception(kind),))

    assert normalise(facts).run_status == status


def test_a_recorded_exception_that_was_handled_is_no_failure() -> None:
    facts = span({}, events=(exception("ValueError", "handled"),))

    found = normalise(facts)

    assert (found.run_status, found.error_type, found.error) == ("ok", None, None)


def test_the_exception_recorded_last_is_the_one_that_left() -> None:
    events = (
        exception("ValueError", "first"),
        exception("KeyError", "'last'"),
        Event("log", START, {}),
    )

    found = normalise(span({}, status=ERROR, events=events))

    assert (found.error_type, found.error) == ("KeyError", "'last'")


def test_error_type_without_a_status_code_is_a_failure() -> None:
    assert normalise(span({"error.type": "TimeoutError"})).run_status == "error"
    assert normalise(span({"error.type": "TimeoutError"}, status=OK)).run_status == "ok"


def test_malformed_values_leave_their_column_empty() -> None:
    facts = span(
        {
            "otelchain.run.type": "chat_model",
            "otelchain.run.id": ["not", "an", "id"],
            "otelchain.run.name": "",
            "otelchain.run.status": "fine",
            "gen_ai.response.model": 4,
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.usage.input_tokens": "12",
            "gen_ai.usage.output_tokens": 12.0,
            "gen_ai.usage.cache_read.input_tokens": True,
            "gen_ai.response.time_to_first_chunk": float("nan"),
            "otelchain.retry.attempt": 2**31,
            "otelchain.tags": ["a", 1],
            "otelchain.metadata": '{"cut off',
            "langgraph.step": 1.5,
            "otelchain.input": None,
        },
        resource={"service.name": 7},
    )

    assert normalise(facts) == Normalised(
        dialect="otelchain", run_type="llm", model="gpt-4o", output_tokens=12
    )


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.binary(max_size=4)
    | st.text(max_size=8)
    | st.sampled_from(
        ['{"a": 1}', "[]", "[1", '"\\ud800"', "9" * 400, "[" * 2000, "ERROR", "tool"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
NAMES = st.sampled_from(
    [
        "otelchain.run.type",
        "otelchain.run.status",
        "otelchain.metadata",
        "otelchain.tags",
        "otelchain.retry.attempt",
        "openinference.span.kind",
        "llm.input_messages.0.message.role",
        "llm.input_messages.0.message",
        "llm.input_messages.0",
        "llm.input_messages.x.message.role",
        "llm.input_messages." + "1." * 3000 + "x",
        "llm.input_messages.",
        "llm.token_count.prompt",
        "retrieval.documents.0.document.content",
        "output.value",
        "metadata",
        "tag.tags",
        "traceloop.span.kind",
        "traceloop.entity.input",
        "traceloop.entity.output",
        "traceloop.association.properties.langgraph_step",
        "langfuse.observation.type",
        "langfuse.observation.level",
        "langfuse.observation.status_message",
        "langfuse.observation.usage_details",
        "langfuse.observation.completion_start_time",
        "langfuse.observation.output",
        "langfuse.observation.metadata.tags",
        "langfuse.observation.metadata.langgraph_node",
        "langsmith.span.kind",
        "langsmith.span.tags",
        "langsmith.metadata.usage_metadata",
        "gen_ai.completion",
        "gen_ai.tool.call.result",
        "output.value",
        "langsmith.metadata.thread_id",
        "gen_ai.usage.input_token_details",
        "gen_ai.operation.name",
        "gen_ai.system_instructions",
        "gen_ai.input.messages",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "gen_ai.retrieval.documents",
        "gen_ai.prompt.0.role",
        "telemetry.sdk.name",
        "error.type",
        "exception.type",
        "exception.message",
    ]
)
COLUMN_TYPES: dict[str, type] = {
    "input_tokens": int,
    "output_tokens": int,
    "total_tokens": int,
    "cache_read_tokens": int,
    "cache_write_tokens": int,
    "reasoning_tokens": int,
    "document_count": int,
    "retry_attempt": int,
    "langgraph_step": int,
    "time_to_first_token_ms": float,
    "tags": list,
    "cost_usd": float,
    "context_window": int,
    "fallback_index": int,
    "finish_reasons": list,
    "inputs_hash": int,
}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no bug
@given(
    attributes=st.dictionaries(NAMES, VALUES, max_size=12),
    event=st.dictionaries(NAMES, VALUES, max_size=3),
    run_type=st.sampled_from(["RETRIEVER", "tool", "generation", "retriever", None]),
)
def test_no_value_whatever_raises_or_reaches_a_column_of_another_type(
    attributes: dict[str, Any], event: dict[str, Any], run_type: str | None
) -> None:
    for name in ("openinference.span.kind", "langfuse.observation.type", "langsmith.span.kind"):
        if name in attributes and run_type:
            attributes[name] = run_type

    found = normalise(span(attributes, events=(Event("exception", START, event),)))

    for column, value in found._asdict().items():
        kind = COLUMN_TYPES.get(column, str)
        assert value is None or (isinstance(value, kind) and not isinstance(value, bool)), column
        if kind is int and value is not None:
            assert abs(value) < (2**31 if column == "retry_attempt" else 2**63)
    for text in (found.metadata, found.inputs_built, found.outputs_built):
        assert text is None or orjson.loads(text) is not None


def test_no_attribute_is_the_only_source_of_two_columns_of_a_dialect() -> None:
    # Dialect.read looks such columns up by the attribute's name.
    for dialect in DIALECTS:
        only_names = [names[0] for _, names in dialect.columns.values() if len(names) == 1]
        assert len(set(only_names)) == len(only_names), dialect.name


@pytest.mark.parametrize(
    ("attributes", "cost_usd"),
    [
        ({"otelchain.run.type": "llm", "otelchain.cost.total_usd": 0.25}, 0.25),
        ({"openinference.span.kind": "LLM", "llm.cost.total": 0.25}, 0.25),
        (
            {
                "langfuse.observation.type": "generation",
                "langfuse.observation.cost_details": '{"input": 0.05, "total": 0.25}',
            },
            0.25,
        ),
        (
            {
                "gen_ai.operation.name": "chat",
                "telemetry.sdk.name": "openlit",
                "gen_ai.usage.cost": 0.25,
            },
            0.25,
        ),
        ({"gen_ai.operation.name": "chat", "gen_ai.usage.cost": 0.25}, None),
        ({"openinference.span.kind": "LLM", "llm.cost.total": -1}, None),
        ({"openinference.span.kind": "LLM", "llm.cost.total": "much"}, None),
        ({"openinference.span.kind": "LLM", "llm.cost.total": float("nan")}, None),
        ({"openinference.span.kind": "LLM", "llm.cost.total": True}, None),
    ],
)
def test_a_stated_cost_is_read_and_no_other_is_made_up(
    attributes: dict[str, Any], cost_usd: float | None
) -> None:
    assert normalise(span(attributes)).cost_usd == cost_usd


@pytest.mark.parametrize(
    ("attributes", "reasons"),
    [
        ({"otelchain.run.type": "llm", "gen_ai.response.finish_reasons": ["stop"]}, ["stop"]),
        ({"gen_ai.system": "x", "gen_ai.response.finish_reasons": ["a", "b"]}, ["a", "b"]),
        ({"gen_ai.system": "x", "gen_ai.response.finish_reasons": '["length"]'}, ["length"]),
        ({"llm.request.type": "chat", "gen_ai.completion.0.finish_reason": "stop"}, ["stop"]),
        ({"openinference.span.kind": "LLM"}, None),
    ],
)
def test_finish_reasons_are_read_where_they_are_written(
    attributes: dict[str, Any], reasons: list[str] | None
) -> None:
    assert normalise(span(attributes)).finish_reasons == reasons


@pytest.mark.parametrize(("version", "read"), [("1.4.2", "1.4.2"), (7, "7"), (None, None)])
def test_the_version_of_a_service_is_read_from_its_resource(
    version: object, read: str | None
) -> None:
    assert normalise(span({}, resource={"service.version": version})).service_version == read


def test_which_alternative_answered_is_a_column() -> None:
    facts = span({"otelchain.run.type": "chain", "otelchain.fallback.index": 1})

    assert normalise(facts).fallback_index == 1


def test_a_rubric_verdict_is_a_column() -> None:
    facts = span({"otelchain.run.type": "chain", "otelchain.rubric.result": "needs_revision"})

    assert normalise(facts).rubric_result == "needs_revision"


@pytest.mark.parametrize(
    ("arguments", "content"),
    [
        ('{"b": 1, "a": [2, {"d": 3, "c": 4}]}', b'{"a":[2,{"c":4,"d":3}],"b":1}'),
        ('{"a":[2,{"c":4,"d":3}],"b":1}', b'{"a":[2,{"c":4,"d":3}],"b":1}'),
        ("no JSON", b"no JSON"),
        ("1", b"1"),
    ],
)
def test_the_same_arguments_of_a_tool_have_the_same_hash(arguments: str, content: bytes) -> None:
    facts = span({"otelchain.run.type": "tool", "gen_ai.tool.call.arguments": arguments})

    assert normalise(facts).inputs_hash == hash_of(content)


def test_only_tools_and_retrievers_with_an_input_have_a_hash_of_it() -> None:
    for attributes in (
        {"otelchain.run.type": "tool"},
        {"otelchain.run.type": "llm", "gen_ai.input.messages": "[]"},
        {"otelchain.run.type": "chain", "otelchain.input": "{}"},
    ):
        assert normalise(span(attributes)).inputs_hash is None
