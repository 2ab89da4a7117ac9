"""Our attributes → OpenInference's, as an addition, so that Phoenix shows our spans as its own.

Works on attributes that have passed the `ContentGate` already: nothing is read that was not
recorded, so nothing gets past the redaction. Names: openinference-semantic-conventions 0.1.42,
``openinference/semconv/trace``. The collector still recognises such a span as ours.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from otelchain import attributes as names
from otelchain.content import Attributes

#: Attributes of one span that the OpenTelemetry SDK keeps by default
#: (OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT). Beyond it the SDK drops the oldest, which are ours.
MAX_ATTRIBUTES = 128

_LEFT_FREE = 12  # what a span's end may still add: status, reason, error type, cut marks
_MAX_DOCUMENTS = 20  # of retrieval.documents.N.*; all of them are in output.value

_KINDS = {
    "chain": "CHAIN",
    "chat_model": "LLM",
    "embedding": "EMBEDDING",
    "llm": "LLM",
    "parser": "CHAIN",
    "prompt": "PROMPT",
    "reranker": "RERANKER",
    "retriever": "RETRIEVER",
    "tool": "TOOL",
}

# gen_ai.provider.name → OpenInferenceLLMProviderValues, where they differ.
_PROVIDERS = {
    "aws.bedrock": "aws",
    "azure.ai.inference": "azure",
    "azure.ai.openai": "azure",
    "gcp.gemini": "google",
    "gcp.gen_ai": "google",
    "gcp.vertex_ai": "google",
    "mistral_ai": "mistralai",
    "moonshot_ai": "moonshot",
    "x_ai": "xai",
}

# One value, one name.
_RENAMED = {
    names.GEN_AI_CONVERSATION_ID: "session.id",
    names.GEN_AI_AGENT_NAME: "agent.name",
    names.TAGS: "tag.tags",
    names.GEN_AI_USAGE_INPUT_TOKENS: "llm.token_count.prompt",
    names.GEN_AI_USAGE_OUTPUT_TOKENS: "llm.token_count.completion",
    names.GEN_AI_USAGE_CACHE_READ: "llm.token_count.prompt_details.cache_read",
    names.GEN_AI_USAGE_CACHE_WRITE: "llm.token_count.prompt_details.cache_write",
    names.GEN_AI_USAGE_AUDIO_INPUT: "llm.token_count.prompt_details.audio",
    names.GEN_AI_USAGE_AUDIO_OUTPUT: "llm.token_count.completion_details.audio",
    names.GEN_AI_USAGE_REASONING: "llm.token_count.completion_details.reasoning",
    names.COST_INPUT_USD: "llm.cost.prompt",
    names.COST_OUTPUT_USD: "llm.cost.completion",
    names.COST_TOTAL_USD: "llm.cost.total",
    names.GEN_AI_TOOL_NAME: "tool.name",
    names.GEN_AI_TOOL_DESCRIPTION: "tool.description",
    names.GEN_AI_TOOL_CALL_ID: "tool.id",
    names.GEN_AI_TOOL_CALL_ARGUMENTS: "tool.parameters",
    names.GEN_AI_PROMPT_NAME: "prompt.id",
    names.GEN_AI_PROMPT_VERSION: "llm.prompt_template.version",
    names.RERANK_TOP_N: "reranker.top_k",
}

_INVOCATION_PREFIX = "gen_ai.request."
_NO_PARAMETERS = {names.GEN_AI_REQUEST_MODEL, names.GEN_AI_REQUEST_STREAM}

# What a run was given and what it gave: one of these, by its type.
_INPUTS = (
    names.INPUT,
    names.GEN_AI_INPUT_MESSAGES,
    names.GEN_AI_TOOL_CALL_ARGUMENTS,
    names.GEN_AI_RETRIEVAL_QUERY_TEXT,
)
_OUTPUTS = (
    names.OUTPUT,
    names.GEN_AI_OUTPUT_MESSAGES,
    names.GEN_AI_TOOL_CALL_RESULT,
    names.GEN_AI_RETRIEVAL_DOCUMENTS,
)
_LANGGRAPH = {
    names.LANGGRAPH_NODE: "langgraph_node",
    names.LANGGRAPH_STEP: "langgraph_step",
    names.LANGGRAPH_CHECKPOINT_NS: "langgraph_checkpoint_ns",
}


def openinference(
    ours: Mapping[str, Any], *, max_attributes: int | None = MAX_ATTRIBUTES
) -> Attributes:
    """Say in OpenInference's words what these attributes say. Never raises.

    Flattened messages and documents take the room that is left: the newest messages are kept, in
    order, and the whole is always in ``input.value`` and ``output.value``.

    Args:
        ours: All attributes of the span so far. At a run's start those give kind, session, user,
            tags and metadata, which a sampler may look at; at its end they give the rest.
        max_attributes: The SDK's limit for one span; None for no limit.
    """
    run_type = ours.get(names.RUN_TYPE)
    if not isinstance(run_type, str):
        return {}
    found: Attributes = {"openinference.span.kind": _kind(run_type, ours)}
    for ours_name, theirs in _RENAMED.items():
        if ours_name in ours:
            found[theirs] = ours[ours_name]
    _add_metadata(found, ours)
    _add_value(found, "input", ours, _INPUTS)
    _add_value(found, "output", ours, _OUTPUTS)
    if run_type in _OF_TYPE:
        _OF_TYPE[run_type](found, ours)
    room = (max_attributes or 1_000_000) - len(ours) - len(found) - _LEFT_FREE
    for group in _groups(run_type, ours):
        if len(group) > room:
            break
        found.update(group)
        room -= len(group)
    return found


def _kind(run_type: str, ours: Mapping[str, Any]) -> str:
    if run_type == "chain" and ours.get(names.GEN_AI_OPERATION_NAME) == "invoke_agent":
        return "AGENT"
    return _KINDS.get(run_type, "UNKNOWN")


def _add_metadata(found: Attributes, ours: Mapping[str, Any]) -> None:
    """Put LangGraph's fields where OpenInference's own tracer leaves them: in the metadata."""
    graph = {theirs: ours[name] for name, theirs in _LANGGRAPH.items() if name in ours}
    text = ours.get(names.METADATA)
    if not graph:
        if isinstance(text, str):
            found["metadata"] = text
        return
    metadata = _parsed(text)
    both = {**metadata, **graph} if isinstance(metadata, dict) else graph
    found["metadata"] = _json(both)


def _add_value(
    found: Attributes, side: str, ours: Mapping[str, Any], candidates: tuple[str, ...]
) -> None:
    for name in candidates:
        text = ours.get(name)
        if not isinstance(text, str):
            continue
        plain = text if name == names.GEN_AI_RETRIEVAL_QUERY_TEXT else None
        if text.startswith('"'):  # a JSON string reads better as the text it is
            parsed = _parsed(text)
            plain = parsed if isinstance(parsed, str) else None
        found[f"{side}.value"] = text if plain is None else plain
        found[f"{side}.mime_type"] = "application/json" if plain is None else "text/plain"
        return


def _add_model(found: Attributes, ours: Mapping[str, Any]) -> None:
    requested, answered = (
        ours.get(names.GEN_AI_REQUEST_MODEL),
        ours.get(names.GEN_AI_RESPONSE_MODEL),
    )
    if answered or requested:
        found["llm.model_name"] = answered or requested
    if requested:
        found["llm.request.model_name"] = requested
    if answered:
        found["llm.response.model_name"] = answered
    provider = ours.get(names.GEN_AI_PROVIDER_NAME)
    if isinstance(provider, str):
        found["llm.provider"] = _PROVIDERS.get(provider, provider)
    sent = ours.get(names.GEN_AI_USAGE_INPUT_TOKENS)
    received = ours.get(names.GEN_AI_USAGE_OUTPUT_TOKENS)
    if isinstance(sent, int) and isinstance(received, int):
        found["llm.token_count.total"] = sent + received
    reasons = ours.get(names.GEN_AI_RESPONSE_FINISH_REASONS)
    if isinstance(reasons, (list, tuple)) and reasons:
        found["llm.finish_reason"] = reasons[0]
    parameters = {
        name.removeprefix(_INVOCATION_PREFIX): value
        for name, value in ours.items()
        if name.startswith(_INVOCATION_PREFIX) and name not in _NO_PARAMETERS
    }
    if parameters:
        found["llm.invocation_parameters"] = _json(parameters)


def _add_prompt(found: Attributes, ours: Mapping[str, Any]) -> None:
    templates = _parsed(ours.get(names.PROMPT_TEMPLATE))
    if isinstance(templates, list) and templates:
        single = templates[0].get("template") if isinstance(templates[0], dict) else None
        alone = len(templates) == 1 and isinstance(single, str)
        found["llm.prompt_template.template"] = single if alone else ours[names.PROMPT_TEMPLATE]
    variables = ours.get(names.INPUT)
    if isinstance(variables, str):
        found["llm.prompt_template.variables"] = variables


def _add_embedding(found: Attributes, ours: Mapping[str, Any]) -> None:
    model = ours.get(names.GEN_AI_REQUEST_MODEL)
    if model:
        found["embedding.model_name"] = model


def _add_reranker(found: Attributes, ours: Mapping[str, Any]) -> None:
    model = ours.get(names.GEN_AI_REQUEST_MODEL)
    if model:
        found["reranker.model_name"] = model
    query = ours.get(names.GEN_AI_RETRIEVAL_QUERY_TEXT)
    if query:
        found["reranker.query"] = query


_OF_TYPE = {
    "chat_model": _add_model,
    "llm": _add_model,
    "prompt": _add_prompt,
    "embedding": _add_embedding,
    "reranker": _add_reranker,
}


# --- what is spread over numbered attributes, most wanted first --------------------------------


def _groups(run_type: str, ours: Mapping[str, Any]) -> Iterator[Attributes]:
    if run_type == "chat_model":
        yield from _messages("llm.output_messages", ours.get(names.GEN_AI_OUTPUT_MESSAGES))
        yield from _tools(ours.get(names.GEN_AI_TOOL_DEFINITIONS))
        yield from _messages("llm.input_messages", ours.get(names.GEN_AI_INPUT_MESSAGES))
    elif run_type == "llm":
        yield from _texts("llm.choices", "completion.text", ours.get(names.GEN_AI_OUTPUT_MESSAGES))
        yield from _texts("llm.prompts", "prompt.text", ours.get(names.GEN_AI_INPUT_MESSAGES))
    elif run_type == "retriever":
        yield from _documents("retrieval.documents", ours.get(names.GEN_AI_RETRIEVAL_DOCUMENTS))
    elif run_type == "reranker":
        output = ours.get(names.GEN_AI_RETRIEVAL_DOCUMENTS)
        yield from _documents("reranker.output_documents", output)
        yield from _documents("reranker.input_documents", ours.get(names.RERANK_INPUT_DOCUMENTS))
    elif run_type == "embedding":
        yield from _embedded(ours.get(names.INPUT))


def _messages(prefix: str, text: Any) -> Iterator[Attributes]:
    """Yield the newest messages that fit, all at once, numbered from 0 as readers expect."""
    messages = [message for message in _entries(text) if isinstance(message, dict)]
    kept: list[dict[str, Any]] = []
    size = 0
    for message in reversed(messages):
        size += len(_message("", message))
        if kept and size > _MAX_MESSAGE_ATTRIBUTES:
            break
        kept.insert(0, message)
    whole: Attributes = {}
    for number, message in enumerate(kept):
        whole.update(_message(f"{prefix}.{number}.", message))
    yield whole


_MAX_MESSAGE_ATTRIBUTES = 40  # of one side; the limit of a whole span is 128


def _message(prefix: str, message: Mapping[str, Any]) -> Attributes:
    found: Attributes = {f"{prefix}message.role": str(message.get("role", ""))}
    if isinstance(message.get("name"), str):
        found[f"{prefix}message.name"] = message["name"]
    parts = [part for part in message.get("parts") or () if isinstance(part, dict)]
    calls = [part for part in parts if part.get("type") == "tool_call"]
    rest = [part for part in parts if part.get("type") != "tool_call"]
    if len(rest) == 1 and rest[0].get("type") in ("text", "tool_call_response"):
        response = rest[0].get("type") == "tool_call_response"
        content = rest[0].get("response" if response else "content")
        found[f"{prefix}message.content"] = _as_text(content)
        if response and rest[0].get("id"):
            found[f"{prefix}message.tool_call_id"] = _as_text(rest[0]["id"])
    else:
        for number, part in enumerate(rest):
            found.update(_content(f"{prefix}message.contents.{number}.message_content.", part))
    for number, call in enumerate(calls):
        found.update(_call(f"{prefix}message.tool_calls.{number}.tool_call.", call))
    return found


def _content(prefix: str, part: Mapping[str, Any]) -> Attributes:
    kind = part.get("type")
    if kind == "uri" and part.get("modality") == "image":
        return {f"{prefix}type": "image", f"{prefix}image.image.url": _as_text(part.get("uri"))}
    if kind in ("text", "reasoning"):
        return {f"{prefix}type": str(kind), f"{prefix}text": _as_text(part.get("content"))}
    return {f"{prefix}type": "text", f"{prefix}text": _as_text(dict(part))}


def _call(prefix: str, call: Mapping[str, Any]) -> Attributes:
    found: Attributes = {
        f"{prefix}function.name": _as_text(call.get("name")),
        f"{prefix}function.arguments": _as_text(call.get("arguments")),
    }
    if call.get("id"):
        found[f"{prefix}id"] = _as_text(call["id"])
    return found


def _tools(text: Any) -> Iterator[Attributes]:
    for number, definition in enumerate(_entries(text)):
        yield {f"llm.tools.{number}.tool.json_schema": _json(definition)}


def _texts(prefix: str, suffix: str, text: Any) -> Iterator[Attributes]:
    for number, message in enumerate(_entries(text)):
        parts = message.get("parts") if isinstance(message, dict) else None
        if isinstance(parts, list) and parts and isinstance(parts[0], dict):
            yield {f"{prefix}.{number}.{suffix}": _as_text(parts[0].get("content"))}


def _documents(prefix: str, text: Any) -> Iterator[Attributes]:
    for number, document in enumerate(_entries(text)[:_MAX_DOCUMENTS]):
        if not isinstance(document, dict):
            continue
        found: Attributes = {}
        for key in ("id", "content"):
            if document.get(key) is not None:
                found[f"{prefix}.{number}.document.{key}"] = _as_text(document[key])
        if isinstance(document.get("score"), (int, float)):
            found[f"{prefix}.{number}.document.score"] = float(document["score"])
        if document.get("metadata"):
            found[f"{prefix}.{number}.document.metadata"] = _as_text(document["metadata"])
        yield found


def _embedded(text: Any) -> Iterator[Attributes]:
    value = _parsed(text)
    for number, entry in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(entry, str):
            yield {f"embedding.embeddings.{number}.embedding.text": entry}


def _entries(text: Any) -> list[Any]:
    value = _parsed(text)
    return value if isinstance(value, list) else []


def _parsed(text: Any) -> Any:
    if not isinstance(text, str):
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # a number beyond 64 bits, which JSON can say and orjson cannot
        return json.dumps(value, default=str)
