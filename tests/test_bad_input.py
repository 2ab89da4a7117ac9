"""Whatever a hook is handed: no exception, no lost span, no attribute that no exporter takes."""

import json
import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, Generation, GenerationChunk, LLMResult
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from fakes import FinishedSpans
from otelchain import (
    OtelCallbackHandler,
    cost,
    messages,
    model_facts,
    prompt_facts,
    retrieval_facts,
    usage_facts,
)
from otelchain.openinference import openinference


class BadRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class BadDump:
    def model_dump(self) -> Any:
        raise RuntimeError("no dump")


class BadFloat:
    def __float__(self) -> float:
        raise RuntimeError("no number")


@dataclass
class WithLock:
    lock: Any


def cyclic() -> Any:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    return loop


def deep(depth: int = 2_000) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


ODD: list[Callable[[], Any]] = [
    lambda: None,
    threading.Lock,
    lambda: WithLock(threading.Lock()),
    BadRepr,
    BadDump,
    BadFloat,
    cyclic,
    deep,
    lambda: "\ud800 lone",
    lambda: {"\udfff": "\ud800"},
    lambda: float("nan"),
    lambda: float("-inf"),
    lambda: 10**400,
    lambda: 10**5_000,  # more digits than Python 3.11 and later make a text of
    lambda: -(2**63) - 1,
    lambda: b"\xff\x00",
    lambda: "a\x00b",
    lambda: {(1, 2): 3, None: 4, True: 5},
    lambda: (number for number in range(3)),
    lambda: object,
    lambda: {"a", 1},
    lambda: datetime(2026, 1, 2, tzinfo=timezone.utc),
    lambda: "x" * 300_000,
    lambda: HumanMessage("hi"),
    lambda: Document("text"),
]

#: Keys that some function of ours looks for, so that odd values land where they are read.
KEYS = sorted(
    {
        *model_facts._RULES,
        *model_facts._GROUPS,
        *model_facts._ADDRESSES,
        *model_facts._STOPS,
        *model_facts._FINISH_REASONS,
        *model_facts._MODELS,
        *model_facts._IDS,
        *usage_facts._HOLDERS,
        *usage_facts._INPUT,
        *usage_facts._OUTPUT,
        *usage_facts._TOTAL,
        *usage_facts._INPUT_DETAILS,
        *usage_facts._OUTPUT_DETAILS,
        "input_token_details",
        "output_token_details",
        "incomplete_details",
        "status",
        "ls_provider",
        "ls_model_name",
        "ls_temperature",
        "ls_max_tokens",
        "ls_stop",
        "tools",
        "functions",
        "session_id",
        "thread_id",
        "user_id",
        "lc_agent_name",
        "langgraph_node",
        "langgraph_step",
        "langgraph_path",
        "langgraph_triggers",
        "langgraph_checkpoint_ns",
        "checkpoint_id",
        "lc_hub_owner",
        "lc_hub_repo",
        "lc_hub_commit_hash",
        "prompt_name",
        "k",
        "search_kwargs",
        "search_type",
        "score",
        "id",
        "reasoning_content",
        "refusal",
        "function_call",
        "template",
        "messages",
        "prompt",
        "kwargs",
        "name",
        "description",
        "usage",
        "event",
    }
)
BLOCK_KEYS = ["type", "text", "image_url", "source", "base64", "data", "url", "file", "thinking"]
BLOCK_TYPES = ["text", "image", "image_url", "reasoning", "file", "tool_use", "audio"]


def with_fields(model: Any, **fields: Any) -> Any:
    """Give a model fields that its validation would refuse; integrations construct them so."""
    model.__dict__.update(fields)
    return model


class Odd:
    """Makes odd values, the same for the same seed (Hypothesis cannot print what has no repr)."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, depth: int = 0) -> Any:
        kind = self.random.randrange(10 if depth < 3 else 8)
        if kind < 4:
            return self.random.choice(ODD)()
        if kind < 8:
            return self.random.choice([None, True, 0, 3, -1, 2.5, "", "text", "ä😀", 2**63, 1e308])
        if kind == 8:
            return [self.value(depth + 1) for _ in range(self.random.randrange(3))]
        return self.mapping(depth + 1)

    def mapping(self, depth: int = 0) -> dict[str, Any]:
        several = self.random.randrange(30 if depth == 0 else 4)
        return {self.random.choice(KEYS): self.value(depth + 1) for _ in range(several)}

    def maybe(self, make: Callable[[], Any]) -> Any:
        return self.random.choice([make, make, self.value])()

    def block(self) -> dict[str, Any]:
        block = {self.random.choice(BLOCK_KEYS): self.value(2) for _ in range(4)}
        return block | {"type": self.random.choice([*BLOCK_TYPES, self.value(2)])}

    def several(self, make: Callable[[], Any]) -> list[Any]:
        return [make() for _ in range(self.random.randrange(4))]

    def message(self) -> Any:
        kind = self.random.randrange(4)
        if kind == 0:
            return with_fields(HumanMessage("x"), name=self.value(), type=self.value())
        if kind == 1:
            tool = ToolMessage("x", tool_call_id="c")
            return with_fields(tool, content=self.value(), tool_call_id=self.value())
        if kind == 2:
            return self.value()
        return with_fields(
            AIMessage("x"),
            content=self.maybe(lambda: self.several(self.block)),
            additional_kwargs=self.maybe(self.mapping),
            usage_metadata=self.maybe(self.mapping),
            response_metadata=self.maybe(self.mapping),
            tool_calls=self.maybe(lambda: self.several(self.mapping)),
        )

    def generation(self) -> Any:
        info = self.maybe(self.mapping)
        if self.random.randrange(3) == 0:
            return with_fields(Generation(text="x"), text=self.value(), generation_info=info)
        generation = ChatGeneration(message=AIMessage("x"))
        return with_fields(generation, message=self.message(), generation_info=info)

    def result(self) -> Any:
        return with_fields(
            LLMResult(generations=[[]]),
            generations=[self.several(self.generation)],
            llm_output=self.maybe(self.mapping),
        )

    def document(self) -> Any:
        if self.random.randrange(3) == 0:
            return self.maybe(self.mapping)
        return with_fields(
            Document("x"),
            page_content=self.value(),
            metadata=self.maybe(self.mapping),
            id=self.value(),
        )

    def chunk(self) -> Any:
        if self.random.randrange(3) == 0:
            return self.maybe(self.mapping)
        message = with_fields(
            AIMessageChunk(""),
            usage_metadata=self.maybe(self.mapping),
            response_metadata=self.maybe(self.mapping),
        )
        return with_fields(GenerationChunk(text=""), message=message)


examples = settings(max_examples=150, deadline=None)
seeds = given(st.integers(min_value=0, max_value=2**32))


# --- the pure functions ------------------------------------------------------------------------


@examples
@seeds
def test_request_parameters_of_any_kind(seed: int) -> None:
    odd = Odd(seed)
    metadata, parameters = odd.mapping(), odd.mapping()

    model_facts.request(metadata, parameters)
    model_facts.model(metadata, parameters)
    model_facts.provider(metadata)
    model_facts.stop_sequences(metadata, parameters)
    model_facts.parameters(
        {"kwargs": odd.maybe(odd.mapping)}, {"invocation_params": parameters, "options": metadata}
    )


@examples
@seeds
def test_answers_of_any_kind(seed: int) -> None:
    result = Odd(seed).result()

    model_facts.response(result)
    messages.output_messages(result)


@examples
@seeds
def test_chunks_of_any_kind(seed: int) -> None:
    odd = Odd(seed)
    usage = None
    for chunk in odd.several(odd.chunk):
        usage = usage_facts.add_chunk(usage, chunk)

    counts = usage.counts() if usage else {}
    assert all(type(count) is int and count >= 0 for count in counts.values())


@examples
@seeds
def test_messages_of_any_kind(seed: int) -> None:
    message = Odd(seed).message()

    messages.message_json(message)
    messages.prompt_json(message)


@examples
@seeds
def test_documents_of_any_kind(seed: int) -> None:
    odd = Odd(seed)

    retrieval_facts.documents_json(odd.several(odd.document), str, content=bool(seed % 2))


@examples
@seeds
def test_prompts_and_retrievers_of_any_kind(seed: int) -> None:
    odd = Odd(seed)

    prompt_facts.templates_json({"id": odd.value(), "kwargs": odd.mapping()})
    prompt_facts.templates_json(odd.mapping())
    prompt_facts.identity(odd.mapping())
    retrieval_facts.request(odd.mapping())


OURS = st.sampled_from(
    [
        "otelchain.run.type",
        "otelchain.metadata",
        "otelchain.input",
        "otelchain.output",
        "otelchain.prompt.template",
        "otelchain.rerank.input_documents",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.retrieval.documents",
        "gen_ai.tool.definitions",
        "gen_ai.usage.input_tokens",
        "gen_ai.request.model",
        "gen_ai.response.finish_reasons",
        "langgraph.node",
    ]
)
JSON_TEXTS = st.sampled_from(
    [
        "",
        "{",
        "null",
        "[]",
        '["a",1,null]',
        '{"a":1}',
        '[{"role":"user","parts":[{"type":"text"},{"type":"tool_call"},7]}]',
        '[{"role":1,"parts":null,"name":3}]',
        '[{"parts":[]}]',
        '[{"id":1,"score":true,"content":{},"metadata":[1]}]',
        '"text"',
    ]
)


@examples
@given(
    st.sampled_from(["chat_model", "llm", "tool", "retriever", "prompt", "reranker", "embedding"]),
    st.dictionaries(OURS, JSON_TEXTS | st.integers() | st.lists(st.text(), max_size=2)),
)
def test_openinference_of_any_attributes(run_type: str, ours: Any) -> None:
    openinference({**ours, "otelchain.run.type": run_type})


@examples
@given(st.dictionaries(OURS, JSON_TEXTS | st.integers() | st.floats() | st.text()))
def test_cost_of_any_attributes(ours: Any) -> None:
    cost.cost(ours)


# --- through the handler, to the wire ----------------------------------------------------------


class Log(logging.Handler):
    """What was logged as a warning or worse: a lost attribute, a failed encoding, a failed hook."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.add(record.getMessage()[:200])


def call_every_hook(handler: OtelCallbackHandler, odd: Odd) -> None:
    """Run a chain with a chat model, a plain model, a tool and a retriever in it."""
    common: dict[str, Any] = {
        "name": odd.random.choice([None, "step", "\ud800"]),
        "tags": odd.random.choice([None, [], ["a", "\ud800", "retry:attempt:3"]]),
        "metadata": odd.random.choice([None, odd.mapping(), odd.mapping()]),
    }
    serialized = odd.random.choice([None, odd.mapping()])
    chat, plain_model, tool, retriever, chain = (uuid4() for _ in range(5))

    handler.on_chain_start(serialized, odd.value(), run_id=chain, **common)
    common["parent_run_id"] = chain
    handler.on_chat_model_start(
        serialized,
        [odd.several(odd.message)],
        run_id=chat,
        invocation_params=odd.mapping(),
        options=odd.mapping(),
        **common,
    )
    handler.on_llm_new_token("", run_id=chat, chunk=odd.chunk())
    handler.on_stream_event(odd.maybe(odd.mapping), run_id=chat)
    handler.on_llm_end(odd.result(), run_id=chat)
    handler.on_llm_start(serialized, [odd.value()], run_id=plain_model, **common)
    handler.on_llm_error(ValueError(odd.value()), run_id=plain_model)
    handler.on_tool_start(
        serialized, "x", run_id=tool, inputs=odd.value(), tool_call_id=odd.value(), **common
    )
    handler.on_tool_end(odd.message(), run_id=tool)
    handler.on_retriever_start(serialized, odd.value(), run_id=retriever, **common)
    handler.on_retriever_end(odd.maybe(lambda: odd.several(odd.document)), run_id=retriever)
    handler.on_custom_event("halfway", odd.value(), run_id=chain)
    handler.on_chain_end(odd.value(), run_id=chain)


@settings(max_examples=60, deadline=None)
@seeds
def test_every_hook_takes_anything_and_every_span_arrives(seed: int) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    handler = OtelCallbackHandler(provider, openinference=True)
    log = Log()
    logging.getLogger().addHandler(log)
    try:
        call_every_hook(handler, Odd(seed))
        spans = exporter.get_finished_spans()
        encoded = encode_spans(spans).resource_spans[0].scope_spans[0].spans
    finally:
        logging.getLogger().removeHandler(log)

    assert log.messages == set()
    assert handler.stats().failed == 0
    assert len(spans) == 5
    assert [len(span.attributes) for span in encoded] == [len(s.attributes or ()) for s in spans]


def test_a_value_of_five_megabytes_is_cut_with_size_and_hash_and_stays_whole_json(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    run_id = uuid4()
    handler.on_chain_start(None, {"text": "é" * 2_500_000}, run_id=run_id, name="big")
    handler.on_chain_end(None, run_id=run_id)

    found = dict(finished_spans()["big"].attributes or {})
    text = str(found["otelchain.input"])
    assert len(text.encode()) < 140_000
    assert "cut: 5000000 bytes, sha256 " in json.loads(text)["text"]
    assert found["otelchain.input.truncated"] is True
