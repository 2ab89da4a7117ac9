"""OpenTelemetry's GenAI conventions, newest and older spellings.

Names: docs/gen-ai/ of open-telemetry/semantic-conventions-genai, and the renames listed in its
non-normative/migration.md. ``input_tokens`` includes cached tokens there, as it does here.
"""

from otelchain_collector.dialects.dialect import Columns, Dialect, Found
from otelchain_collector.dialects.spans import SpanFacts
from otelchain_collector.dialects.values import (
    as_json,
    count,
    identifier,
    json_text,
    known_texts,
    one_of,
    parsed,
    seconds_as_ms,
    text,
)

RUN_TYPES = {
    "chat": "llm",
    "generate_content": "llm",
    "text_completion": "llm",
    "embeddings": "embedding",
    "retrieval": "retriever",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "create_agent": "agent",
    "invoke_workflow": "chain",
    "plan": "chain",
}

#: Traceloop's SDK writes them on every span of an application, whoever makes it.
PROPERTIES = "traceloop.association.properties."

COLUMNS: Columns = {
    "run_type": (one_of(RUN_TYPES), ("gen_ai.operation.name",)),
    "error_type": (text, ("error.type",)),
    "model": (text, ("gen_ai.response.model", "gen_ai.request.model")),
    "provider": (text, ("gen_ai.provider.name", "gen_ai.system")),
    "input_tokens": (count, ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")),
    "output_tokens": (count, ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")),
    "total_tokens": (count, ("gen_ai.usage.total_tokens", "llm.usage.total_tokens")),
    "cache_read_tokens": (
        count,
        ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"),
    ),
    "cache_write_tokens": (
        count,
        (
            "gen_ai.usage.cache_write.input_tokens",
            "gen_ai.usage.cache_creation.input_tokens",
            "gen_ai.usage.cache_creation_input_tokens",
        ),
    ),
    "reasoning_tokens": (
        count,
        ("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens"),
    ),
    "finish_reasons": (known_texts, ("gen_ai.response.finish_reasons",)),
    "time_to_first_token_ms": (
        seconds_as_ms,
        ("gen_ai.response.time_to_first_chunk", "gen_ai.server.time_to_first_token"),
    ),
    "session_id": (
        identifier,
        (
            *("gen_ai.conversation.id", "session.id", "langfuse.session.id"),
            *(PROPERTIES + "session_id", PROPERTIES + "thread_id"),
        ),
    ),
    "user_id": (
        identifier,
        ("user.id", "enduser.id", "langfuse.user.id", PROPERTIES + "user_id"),
    ),
    "agent_name": (text, ("gen_ai.agent.name",)),
    "tool_call_id": (identifier, ("gen_ai.tool.call.id",)),
}

INPUTS = (
    "gen_ai.input.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.retrieval.query.text",
    "gen_ai.system_instructions",
    "gen_ai.prompt",
)
OUTPUTS = (
    "gen_ai.output.messages",
    "gen_ai.tool.call.result",
    "gen_ai.retrieval.documents",
    "gen_ai.completion",
)

# The name of what ran, by what kind of run it was: an inference span may carry its agent's name.
_RUN_NAMES = {
    "tool": "gen_ai.tool.name",
    "agent": "gen_ai.agent.name",
    "chain": "gen_ai.workflow.name",
    "retriever": "gen_ai.data_source.id",
}


# Where older instrumentations put content: events of the span, one for all messages.
_CONTENT_EVENTS = {
    "inputs": ("gen_ai.content.prompt", "gen_ai.prompt"),
    "outputs": ("gen_ai.content.completion", "gen_ai.completion"),
}
# Events that mark the arrival of a chunk of an answer.
_CHUNK_EVENTS = frozenset(
    {
        "First Token Stream Event",  # OpenInference
        "llm.content.completion.chunk",  # OpenLLMetry
        "gen_ai.content.completion.chunk",
    }
)


def read_events(span: SpanFacts, found: Found) -> None:
    """Read what only the span's events say: content, and when the first token came."""
    for side, (name, attribute) in _CONTENT_EVENTS.items():
        if found.get(f"{side}_attribute") is None and found.get(f"{side}_built") is None:
            content = next(
                (
                    event.attributes[attribute]
                    for event in span.events
                    if event.name == name and attribute in event.attributes
                ),
                None,
            )
            if content not in (None, ""):
                found[f"{side}_built"] = json_text(content) or as_json(content)
    if found.get("run_type") == "llm" and found.get("time_to_first_token_ms") is None:
        first = min(
            (event.time_unix_nano for event in span.events if event.name in _CHUNK_EVENTS),
            default=-1,
        )
        if first >= span.start_time_unix_nano:
            found["time_to_first_token_ms"] = (first - span.start_time_unix_nano) / 1e6


def read_finish_reasons(span: SpanFacts, found: Found) -> None:
    """Read why a model stopped out of its messages, where it is not stated apart."""
    if found.get("run_type") != "llm" or found.get("finish_reasons"):
        return
    messages = parsed(span.attributes.get("gen_ai.output.messages"))
    if isinstance(messages, list):
        reasons = [each.get("finish_reason") for each in messages if isinstance(each, dict)]
        found["finish_reasons"] = known_texts([each for each in reasons if each is not None])


def name_and_instructions(span: SpanFacts, found: Found) -> None:
    """Name the run by what it ran, and put system instructions before the messages."""
    run_type = found.get("run_type")
    stated = text(span.attributes.get(_RUN_NAMES.get(run_type or "", "")))
    found["run_name"] = stated or (found.get("model") if run_type == "llm" else None)
    instructions = parsed(span.attributes.get("gen_ai.system_instructions"))
    messages = parsed(span.attributes.get("gen_ai.input.messages"))
    if isinstance(instructions, list) and isinstance(messages, list):
        whole = as_json([{"role": "system", "parts": instructions}, *messages])
        if whole is not None:
            found["inputs_built"] = whole
            del found["inputs_attribute"]


def _complete(span: SpanFacts, found: Found) -> None:
    name_and_instructions(span, found)
    read_finish_reasons(span, found)
    if span.events:
        read_events(span, found)


DIALECT = Dialect(
    name="gen_ai",
    columns=COLUMNS,
    inputs=INPUTS,
    outputs=OUTPUTS,
    inputs_flattened=("gen_ai.prompt",),
    outputs_flattened=("gen_ai.completion",),
    complete=_complete,
)
