"""What peers record of a run, row by row, and what none of them does: facts on spans."""

import json
import math
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.tools import tool
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

from fakes import FakeModel, FakeRetriever, FinishedSpans
from otelchain import (
    OtelCallbackHandler,
    messages,
    model_facts,
    prompt_facts,
    retrieval_facts,
    usage_facts,
)

INPUT = "gen_ai.usage.input_tokens"
OUTPUT = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens"
REASONING = "gen_ai.usage.reasoning.output_tokens"
AUDIO_IN = "gen_ai.usage.audio.input_tokens"
AUDIO_OUT = "gen_ai.usage.audio.output_tokens"


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def answered(message: AIMessage, llm_output: Any = None, info: Any = None) -> LLMResult:
    generation = ChatGeneration(message=message, generation_info=info)
    return LLMResult(generations=[[generation]], llm_output=llm_output)


# --- tokens ------------------------------------------------------------------------------------


def test_cached_tokens_are_part_of_the_input_and_not_added_to_it() -> None:
    usage: Any = {
        "input_tokens": 10,
        "output_tokens": 4,
        "total_tokens": 14,
        "input_token_details": {"cache_read": 3, "cache_creation": 2, "audio": 1},
        "output_token_details": {"reasoning": 2, "audio": 1},
    }

    assert model_facts.response(answered(AIMessage("x", usage_metadata=usage))) == {
        INPUT: 10,
        OUTPUT: 4,
        CACHE_READ: 3,
        CACHE_WRITE: 2,
        AUDIO_IN: 1,
        REASONING: 2,
        AUDIO_OUT: 1,
    }


def test_image_and_text_tokens_are_told_apart() -> None:
    usage: Any = {
        "input_tokens": 10,
        "output_tokens": 4,
        "input_token_details": {"image": 6, "text": 4},
        "output_token_details": {"image": 1, "text": 3},
    }

    assert usage_facts.of_usage_metadata(usage) == {
        INPUT: 10,
        OUTPUT: 4,
        "gen_ai.usage.image.input_tokens": 6,
        "gen_ai.usage.text.input_tokens": 4,
        "gen_ai.usage.image.output_tokens": 1,
        "gen_ai.usage.text.output_tokens": 3,
    }


def test_cache_writes_that_are_split_by_lifetime_are_summed() -> None:
    # langchain-anthropic leaves cache_creation at 0 when it knows the split.
    details = {
        "cache_creation": 0,
        "ephemeral_5m_input_tokens": 7,
        "ephemeral_1h_input_tokens": 5,
    }

    counts = usage_facts.of_usage_metadata({"input_tokens": 20, "input_token_details": details})

    assert counts[CACHE_WRITE] == 12


def test_cache_reads_of_a_service_tier_are_cache_reads() -> None:
    usage = {"input_tokens": 20, "input_token_details": {"priority": 12, "priority_cache_read": 8}}

    assert usage_facts.of_usage_metadata(usage) == {INPUT: 20, CACHE_READ: 8}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param(
            {
                "prompt_tokens": 100,
                "completion_tokens": 40,
                "total_tokens": 140,
                "prompt_tokens_details": {"cached_tokens": 60, "audio_tokens": 5},
                "completion_tokens_details": {"reasoning_tokens": 30, "audio_tokens": 2},
            },
            {INPUT: 100, OUTPUT: 40, CACHE_READ: 60, REASONING: 30, AUDIO_IN: 5, AUDIO_OUT: 2},
            id="openai chat",
        ),
        pytest.param(
            {
                "input_tokens": 100,
                "output_tokens": 40,
                "total_tokens": 140,
                "input_tokens_details": {"cached_tokens": 60},
                "output_tokens_details": {"reasoning_tokens": 30},
            },
            {INPUT: 100, OUTPUT: 40, CACHE_READ: 60, REASONING: 30},
            id="openai responses",
        ),
        pytest.param(
            {
                "input_tokens": 10,
                "output_tokens": 4,
                "cache_read_input_tokens": 60,
                "cache_creation_input_tokens": 30,
            },
            {INPUT: 100, OUTPUT: 4, CACHE_READ: 60, CACHE_WRITE: 30},
            id="anthropic counts cached tokens beside its input",
        ),
        pytest.param(
            {
                "inputTokens": 10,
                "outputTokens": 4,
                "totalTokens": 104,
                "cacheReadInputTokens": 60,
                "cacheWriteInputTokens": 30,
            },
            {INPUT: 100, OUTPUT: 4, CACHE_READ: 60, CACHE_WRITE: 30},
            id="bedrock converse too",
        ),
        pytest.param(
            {"inputTokenCount": 10, "outputTokenCount": 4}, {INPUT: 10, OUTPUT: 4}, id="bedrock"
        ),
        pytest.param(
            {
                "prompt_tokens": 100,
                "completion_tokens": 4,
                "total_tokens": 104,
                "cache_read_input_tokens": 60,
            },
            {INPUT: 100, OUTPUT: 4, CACHE_READ: 60},
            id="litellm counts them within",
        ),
        pytest.param(
            {
                "prompt_token_count": 100,
                "candidates_token_count": 10,
                "thoughts_token_count": 30,
                "total_token_count": 140,
                "cached_content_token_count": 60,
                "prompt_tokens_details": [
                    {"modality": "TEXT", "token_count": 80},
                    {"modality": "AUDIO", "token_count": 20},
                ],
            },
            {
                INPUT: 100,
                OUTPUT: 40,
                CACHE_READ: 60,
                REASONING: 30,
                AUDIO_IN: 20,
                "gen_ai.usage.text.input_tokens": 80,
            },
            id="gemini counts thoughts beside its candidates",
        ),
        pytest.param(
            {"prompt_tokens": 100, "completion_tokens": 4, "prompt_cache_hit_tokens": 60},
            {INPUT: 100, OUTPUT: 4, CACHE_READ: 60},
            id="deepseek",
        ),
        pytest.param(
            {"input_token_count": 9, "generated_token_count": 2},
            {INPUT: 9, OUTPUT: 2},
            id="watsonx",
        ),
    ],
)
def test_the_raw_usage_of_a_provider_is_brought_to_one_meaning(
    usage: dict[str, Any], expected: dict[str, int]
) -> None:
    assert usage_facts.of_provider_usage(usage) == expected


@pytest.mark.parametrize(
    ("message", "llm_output", "info"),
    [
        pytest.param(
            {}, {"token_usage": {"prompt_tokens": 9, "completion_tokens": 2}}, None, id="a"
        ),
        pytest.param({}, {"usage": {"input_tokens": 9, "output_tokens": 2}}, None, id="b"),
        pytest.param({"usage": {"input_tokens": 9, "output_tokens": 2}}, None, None, id="c"),
        pytest.param({"prompt_eval_count": 9, "eval_count": 2}, None, None, id="ollama"),
        pytest.param(
            {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 9, "outputTokenCount": 2}},
            None,
            None,
            id="bedrock",
        ),
        pytest.param(
            {},
            None,
            {"usage_metadata": {"prompt_token_count": 9, "candidates_token_count": 2}},
            id="info",
        ),
    ],
)
def test_usage_is_found_wherever_it_stands(
    message: dict[str, Any], llm_output: Any, info: Any
) -> None:
    found = model_facts.response(
        answered(AIMessage("x", response_metadata=message), llm_output, info)
    )

    assert (found[INPUT], found[OUTPUT]) == (9, 2)


def test_details_that_only_the_provider_gives_are_added_to_the_totals_of_langchain() -> None:
    usage: Any = {"input_tokens": 100, "output_tokens": 40, "total_tokens": 140}
    raw = {"prompt_tokens": 999, "prompt_tokens_details": {"cached_tokens": 60}}
    message = AIMessage("x", usage_metadata=usage, response_metadata={"token_usage": raw})

    found = model_facts.response(answered(message))

    assert (found[INPUT], found[OUTPUT], found[CACHE_READ]) == (100, 40, 60)


def test_several_answers_to_one_prompt_count_its_tokens_once() -> None:
    usage: Any = {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14}
    generations = [ChatGeneration(message=AIMessage("x", usage_metadata=usage)) for _ in range(3)]

    found = model_facts.response(LLMResult(generations=[generations]))

    assert (found[INPUT], found[OUTPUT]) == (10, 4)


class ChunkModel(FakeModel):
    """Streams the chunks it is given."""

    chunks: list[Any]

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for chunk in self.chunks:
            yield ChatGenerationChunk(message=chunk)


def chunk(text: str, sent: int, received: int, **more: Any) -> AIMessageChunk:
    usage: Any = {"input_tokens": sent, "output_tokens": received, "total_tokens": sent + received}
    return AIMessageChunk(text, usage_metadata=usage, **more)


def streamed(chunks: list[Any], handler: OtelCallbackHandler, spans: FinishedSpans) -> Any:
    model = ChunkModel(messages=iter([]), chunks=chunks)
    list(model.stream("hi", {"callbacks": [handler]}))
    return facts(spans()["ChunkModel"])


def test_the_usage_of_a_stream_is_the_sum_of_its_chunks(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    # As langchain-google-genai sends it: the input once, then what each chunk adds.
    found = streamed(
        [chunk("a", 9, 1), chunk("b", 0, 3), chunk("c", 0, 2)], handler, finished_spans
    )

    assert (found[INPUT], found[OUTPUT]) == (9, 6)


def test_running_totals_in_every_chunk_are_not_added_up(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    # As vLLM sends it with continuous_usage_stats; LangChain's merged message says 27 and 6.
    found = streamed(
        [chunk("a", 9, 1), chunk("b", 9, 2), chunk("c", 9, 3)], handler, finished_spans
    )

    assert (found[INPUT], found[OUTPUT]) == (9, 3)


def test_a_stream_that_is_left_keeps_the_usage_so_far(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    model = ChunkModel(messages=iter([]), chunks=[chunk("a", 9, 1), chunk("b", 0, 3)])

    stream = model.stream("hi", {"callbacks": [handler]})
    next(stream)
    stream.close()  # type: ignore[attr-defined]

    found = facts(finished_spans()["ChunkModel"])
    assert found[INPUT] == 9
    assert found["otelchain.run.status"] == "abandoned"


# --- answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "info", "expected"),
    [
        ({"finish_reason": "stop"}, None, "stop"),
        ({"stop_reason": "end_turn"}, None, "end_turn"),
        ({"stopReason": "max_tokens"}, None, "max_tokens"),
        ({"done_reason": "length"}, None, "length"),
        ({}, {"finish_reason": "content_filter"}, "content_filter"),
        ({"incomplete_details": {"reason": "max_output_tokens"}}, None, "max_output_tokens"),
        ({"status": "completed"}, None, "completed"),
    ],
)
def test_the_finish_reason_is_read_under_every_name(
    metadata: Any, info: Any, expected: str
) -> None:
    found = model_facts.response(answered(AIMessage("x", response_metadata=metadata), None, info))

    assert found["gen_ai.response.finish_reasons"] == [expected]


def test_finish_reason_and_model_of_a_stream_are_not_repeated_by_the_merging_of_chunks(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    metadata = {"finish_reason": "stop", "model_name": "fake-1-2026"}
    chunks = [AIMessageChunk(text, response_metadata=metadata) for text in "ab"]

    found = streamed(chunks, handler, finished_spans)

    assert found["gen_ai.response.finish_reasons"] == ("stop",)
    assert found["gen_ai.response.model"] == "fake-1-2026"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (AIMessage("x", id="msg_01A"), "msg_01A"),
        (AIMessage("x", id="run--0001"), None),
        (AIMessage("x", id="lc_0001"), None),
        (AIMessage("x", id="msg_1", response_metadata={"id": "resp_1"}), "resp_1"),
    ],
)
def test_the_response_id_is_the_providers_and_never_langchains(
    message: AIMessage, expected: str | None
) -> None:
    assert model_facts.response(answered(message)).get("gen_ai.response.id") == expected


# --- requests ----------------------------------------------------------------------------------


def test_every_request_parameter_of_the_conventions_is_read() -> None:
    parameters = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40.0,
        "max_completion_tokens": 100,
        "seed": 7,
        "frequency_penalty": 0.1,
        "presence_penalty": 1,
        "n": 3,
        "reasoning": {"effort": "high"},
        "previous_response_id": "resp_0",
        "response_format": {"type": "json_schema", "json_schema": {}},
        "stream": True,
        "base_url": "https://user:secret@llm.example.com:8443/v1",
    }

    assert model_facts.request({}, parameters) == {
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.top_k": 40,
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.seed": 7,
        "gen_ai.request.frequency_penalty": 0.1,
        "gen_ai.request.presence_penalty": 1.0,
        "gen_ai.request.choice.count": 3,
        "gen_ai.request.reasoning.level": "high",
        "gen_ai.request.previous_response.id": "resp_0",
        "gen_ai.output.type": "json",
        "gen_ai.request.stream": True,
        "server.address": "llm.example.com",
        "server.port": 8443,
    }


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"response_format": {"type": "text"}}, "text"),
        ({"response_format": {"type": "json_object"}}, "json"),
        ({"text": {"format": {"type": "json_schema"}}}, "json"),
        ({"response_mime_type": "application/json"}, "json"),
        ({"format": "json"}, "json"),
        ({"modalities": ["text", "audio"]}, "speech"),
        ({"response_modalities": ["IMAGE"]}, "image"),
        ({"generation_config": {"response_mime_type": "application/json"}}, "json"),
        ({"response_format": None}, None),
    ],
)
def test_the_output_type_is_read_in_every_spelling(
    parameters: dict[str, Any], expected: str | None
) -> None:
    assert model_facts.request({}, parameters).get("gen_ai.output.type") == expected


def test_parameters_in_a_group_are_found_and_the_outer_one_wins() -> None:
    parameters = {"max_tokens": 5, "model_kwargs": {"seed": 3, "max_tokens": 9}}

    assert model_facts.request({"ls_temperature": 0.2}, parameters) == {
        "gen_ai.request.temperature": 0.2,
        "gen_ai.request.max_tokens": 5,
        "gen_ai.request.seed": 3,
    }


def test_structured_output_makes_the_output_type_json(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    class Answer(dict):  # type: ignore[type-arg]
        """Anything with a name."""

    schema = {"kwargs": {"method": "json_schema"}, "schema": {"title": "Answer", "type": "object"}}
    model = FakeModel(messages=iter(["{}"])).bind(ls_structured_output_format=schema)
    model.invoke("hi", {"callbacks": [handler]})

    assert facts(finished_spans()["FakeModel"])["gen_ai.output.type"] == "json"


def test_the_server_is_read_from_the_serialised_model() -> None:
    serialized = {"kwargs": {"openai_api_base": "http://127.0.0.1:8000/v1"}}

    parameters = model_facts.parameters(serialized, {"invocation_params": {"seed": 1}})

    assert model_facts.request({}, parameters) == {
        "gen_ai.request.seed": 1,
        "server.address": "127.0.0.1",
        "server.port": 8000,
    }


def test_stop_sequences_are_read_in_every_spelling() -> None:
    assert model_facts.stop_sequences({}, {"stop": "END"}) == ["END"]
    assert model_facts.stop_sequences({}, {"stop_sequences": ["A", "B"]}) == ["A", "B"]
    assert model_facts.stop_sequences({"ls_stop": ["C"]}, {}) == ["C"]


# --- messages ----------------------------------------------------------------------------------


def test_thoughts_beside_the_content_are_a_reasoning_part() -> None:
    message = AIMessage("42", additional_kwargs={"reasoning_content": "six times seven"})

    assert messages.message_json(message)["parts"] == [
        {"type": "reasoning", "content": "six times seven"},
        {"type": "text", "content": "42"},
    ]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
            },
            {"type": "blob", "modality": "image", "mime_type": "image/png", "data": "<3 bytes>"},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "blob", "modality": "input_audio", "mime_type": "wav", "data": "<3 bytes>"},
        ),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "blob", "modality": "image", "mime_type": "image/png", "data": "<3 bytes>"},
        ),
        (
            {"type": "image", "url": "https://example.com/a.png"},
            {"type": "uri", "modality": "image", "uri": "https://example.com/a.png"},
        ),
        (
            {"type": "file", "file": {"file_id": "f-1"}},
            {"type": "file", "modality": "file", "file_id": "f-1"},
        ),
        ({"type": "image_url"}, {"type": "image_url"}),
    ],
)
def test_pictures_sounds_and_files_are_named_and_not_copied(
    block: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert messages.message_json(HumanMessage([block]))["parts"] == [expected]


def test_tool_calls_of_every_age_have_id_name_and_arguments() -> None:
    call = {"name": "f", "args": {"x": 1}, "id": "c1", "type": "tool_call"}
    old = {"function_call": {"name": "f", "arguments": "{}"}}
    invalid: Any = {
        "name": "f",
        "args": "{",
        "id": "c2",
        "error": "no JSON",
        "type": "invalid_tool_call",
    }

    parts = [
        messages.message_json(AIMessage("", tool_calls=[call]))["parts"],  # type: ignore[list-item]
        messages.message_json(AIMessage("", additional_kwargs=old))["parts"],
        messages.message_json(AIMessage("", invalid_tool_calls=[invalid]))["parts"],
    ]

    assert parts == [
        [{"type": "tool_call", "id": "c1", "name": "f", "arguments": {"x": 1}}],
        [{"type": "tool_call", "name": "f", "arguments": "{}"}],
        [{"type": "tool_call", "id": "c2", "name": "f", "arguments": "{", "error": "no JSON"}],
    ]


def test_roles_are_those_of_the_conventions() -> None:
    several = [
        SystemMessage("s"),
        HumanMessage("h"),
        AIMessage("a"),
        AIMessageChunk("a"),
        ToolMessage("t", tool_call_id="c"),
        FunctionMessage("f", name="f"),
    ]

    roles = [messages.message_json(message)["role"] for message in several]

    assert roles == ["system", "user", "assistant", "assistant", "tool", "tool"]


# --- tools -------------------------------------------------------------------------------------


def test_a_tool_run_has_call_id_and_type_and_the_model_its_definitions(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    call = {"name": "add", "args": {"a": 1, "b": 2}, "id": "c1", "type": "tool_call"}
    add.invoke(call, {"callbacks": [handler]})
    definition = {"type": "function", "function": {"name": "add"}}
    FakeModel(messages=iter(["x"])).bind(tools=[definition]).invoke("hi", {"callbacks": [handler]})

    spans = finished_spans()
    assert facts(spans["add"])["gen_ai.tool.call.id"] == "c1"
    assert facts(spans["add"])["gen_ai.tool.type"] == "function"
    assert json.loads(facts(spans["FakeModel"])["gen_ai.tool.definitions"]) == [definition]


# --- retrievers --------------------------------------------------------------------------------


class OwnScore:
    """A document of somebody's own class."""

    page_content = "x"

    def __init__(self, score: Any) -> None:
        self.score = score


class NumpyLike:
    def __float__(self) -> float:
        return 0.5


@pytest.mark.parametrize(
    ("document", "score"),
    [
        (Document("x", metadata={"score": 0.5}), 0.5),
        (Document("x", metadata={"relevance_score": 1}), 1.0),
        (Document("x", metadata={"similarity_score": 0.5}), 0.5),
        (Document("x", metadata={"_score": 0.5}), 0.5),
        (Document("x", metadata={"distance": 0.5}), 0.5),
        (OwnScore(0.5), 0.5),
        ({"page_content": "x", "score": 0.5}, 0.5),
        ({"page_content": "x", "metadata": {"relevance_score": 0.5}}, 0.5),
        (Document("x", metadata={"score": NumpyLike()}), 0.5),
        (Document("x", metadata={"score": math.nan, "relevance_score": 0.5}), 0.5),
        (Document("x", metadata={"score": True}), None),
        (Document("x", metadata={"score": math.inf}), None),
        (Document("x", metadata={"score": "0.5"}), None),
        (Document("x", metadata={"score": 10**400}), None),
        (OwnScore(math.nan), None),
    ],
)
def test_a_score_is_found_in_the_places_that_integrations_use(
    document: Any, score: float | None
) -> None:
    (described,) = retrieval_facts.documents_json([document], str, content=False)

    assert described.get("score") == score


def test_documents_have_rank_id_length_and_hash_with_content_off(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    handler = OtelCallbackHandler(tracer_provider, capture_content=False)
    documents = [Document("Paris", id="a"), Document("Röm", metadata={"doc_id": 7, "secret": "s"})]
    FakeRetriever(documents=documents).invoke("where?", {"callbacks": [handler]})

    found = facts(finished_spans()["FakeRetriever"])
    assert json.loads(found["gen_ai.retrieval.documents"]) == [
        {"rank": 1, "id": "a", "length_chars": 5, "sha256": sha256(b"Paris").hexdigest()},
        {"rank": 2, "id": "7", "length_chars": 3, "sha256": sha256("Röm".encode()).hexdigest()},
    ]


def test_an_empty_retrieval_says_so(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    FakeRetriever(documents=[]).invoke("where?", {"callbacks": [handler]})

    found = facts(finished_spans()["FakeRetriever"])
    assert found["otelchain.retrieval.document_count"] == 0
    assert found["gen_ai.retrieval.documents"] == "[]"


def test_of_very_many_documents_the_first_are_described_and_all_counted(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    documents = [Document("x", id=str(number)) for number in range(3_000)]
    FakeRetriever(documents=documents).invoke("where?", {"callbacks": [handler]})

    found = facts(finished_spans()["FakeRetriever"])
    assert found["otelchain.retrieval.document_count"] == 3_000
    assert json.loads(found["gen_ai.retrieval.documents"])[0]["id"] == "0"


def test_a_retriever_says_how_it_searched(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    metadata = {"search_type": "mmr", "search_kwargs": {"k": 4}, "data_source_id": "handbook"}
    FakeRetriever(documents=[], metadata=metadata).invoke("where?", {"callbacks": [handler]})

    found = facts(finished_spans()["FakeRetriever"])
    assert found["gen_ai.retrieval.top_k"] == 4
    assert found["otelchain.retrieval.search_type"] == "mmr"
    assert found["gen_ai.data_source.id"] == "handbook"


# --- prompts -----------------------------------------------------------------------------------


def test_a_prompt_from_the_hub_has_its_name_and_version(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    hub = {"lc_hub_owner": "ann", "lc_hub_repo": "rag", "lc_hub_commit_hash": "50442af1"}
    prompt = ChatPromptTemplate.from_messages([("human", "{q}")])
    prompt.metadata = hub
    prompt.invoke({"q": "hi"}, {"callbacks": [handler]})

    found = facts(finished_spans()["ChatPromptTemplate"])
    assert found["gen_ai.prompt.name"] == "ann/rag"
    assert found["gen_ai.prompt.version"] == "50442af1"


def test_a_prompt_without_a_name_gets_none() -> None:
    assert prompt_facts.identity({"lc_hub_commit_hash": "50442af1"}) == {}


def test_a_partly_filled_template_carries_what_is_filled_in(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    PromptTemplate.from_template("{a} {b}").partial(a="1").invoke(
        {"b": "2"}, {"callbacks": [handler]}
    )

    found = facts(finished_spans()["PromptTemplate"])
    assert json.loads(found["otelchain.prompt.template"]) == [
        {"type": "PromptTemplate", "template": "{a} {b}", "variables": {"a": "1"}}
    ]
    assert json.loads(found["otelchain.input"]) == {"b": "2"}
