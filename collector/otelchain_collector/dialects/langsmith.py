"""LangSmith's OpenTelemetry export: langsmith/_internal/otel/_otel_exporter.py.

Three of its attributes are not what they say and are not read: ``gen_ai.system`` is guessed from
the model's name, ``langsmith.trace.session_id`` is the project, and ``gen_ai.operation.name``
says ``embeddings`` for retrievers.
"""

import re
from collections.abc import Mapping
from typing import Any

from otelchain_collector.dialects import gen_ai, generation
from otelchain_collector.dialects.agents import announce_agent
from otelchain_collector.dialects.dialect import Dialect, Found
from otelchain_collector.dialects.spans import SpanFacts
from otelchain_collector.dialects.status import (
    control_flow_status,
    exception_text,
    known_status,
    last_exception,
    message_in_repr,
    type_in_repr,
    without_traceback,
)
from otelchain_collector.dialects.values import (
    amount,
    as_json,
    comma_list,
    count,
    identifier,
    integer,
    json_object,
    one_of,
    seconds_as_ms,
    text,
)

METADATA = "langsmith.metadata."

# Written when LangSmith's exports are imported (exchange/langsmith_spans.py), for what LangSmith's
# own OpenTelemetry export leaves out.
RUN_ID = "langsmith.run.id"
PARENT_ID = "langsmith.run.parent_id"
STATUS = "langsmith.run.status"
THREAD_ID = "langsmith.thread_id"
COST = "langsmith.run.total_cost"
FIELDS = "langsmith.run.fields"

_RUN_TYPES = (
    *("llm", "chain", "tool", "retriever", "embedding", "prompt", "parser"),
    # In exports of ours only.
    *("agent", "reranker", "guardrail", "evaluator"),
)

# Details are written as the repr of a Python dict.
_DETAILS = {
    "cache_read_tokens": ("gen_ai.usage.input_token_details", re.compile(r"'cache_read': (\d+)")),
    "cache_write_tokens": (
        "gen_ai.usage.input_token_details",
        re.compile(r"'cache_creation': (\d+)"),
    ),
    "reasoning_tokens": ("gen_ai.usage.output_token_details", re.compile(r"'reasoning': (\d+)")),
}
_MAX_DIGITS = 18
_NO_OUTPUT = "{}"


def _complete(span: SpanFacts, found: Found) -> None:
    metadata = {
        name[len(METADATA) :]: value
        for name, value in span.attributes.items()
        if name.startswith(METADATA)
    }
    if metadata:
        found["metadata"] = as_json(metadata)
    announce_agent(found, found.get("run_name") or span.name)
    if found.get("run_type") == "llm":
        _read_answer(span, metadata, found)
    for column, (attribute, pattern) in _DETAILS.items():
        match = pattern.search(text(span.attributes.get(attribute)) or "")
        if match and len(match[1]) <= _MAX_DIGITS:
            found[column] = int(match[1])
    _drop_repeated_tokens(found)
    _read_failure(span, found)


def _read_answer(span: SpanFacts, metadata: Mapping[str, Any], found: Found) -> None:
    """Read the model that answered and LangChain's usage object out of what it answered."""
    output = json_object(found.get("outputs_built") or span.attributes.get("gen_ai.completion"))
    found["model"] = generation.answering_model(output) or found.get("model")
    reason = generation.finish_reason(output)
    if reason is not None:
        found["finish_reasons"] = [reason]
    # Newer versions have it in the metadata too, also with outputs hidden.
    usage = json_object(metadata.get("usage_metadata")) or generation.usage(output)
    for column, (side, name) in generation.DETAILS.items():
        number = count(json_object(usage.get(side)).get(name))
        if number is not None:
            found[column] = number


def _drop_repeated_tokens(found: Found) -> None:
    # A chain whose output is a model's message gets that message's usage as its own.
    if found.get("run_type") not in ("llm", "embedding"):
        for column in ("input_tokens", "output_tokens", "total_tokens", "cost_usd", *_DETAILS):
            found.pop(column, None)


def _read_failure(span: SpanFacts, found: Found) -> None:
    # The status is set to OK at the start, and the SDK never lets an ERROR replace an OK.
    event = last_exception(span)
    if event is None:
        return
    # The event wraps the error's text into a plain Exception.
    error = without_traceback(exception_text(event, "exception.message"))
    # An export of ours says what the store had said, word for word.
    found["error"] = error if STATUS in span.attributes else message_in_repr(error)
    found.setdefault("error_type", type_in_repr(error))
    found.setdefault("run_status", control_flow_status(found["error_type"]) or "error")
    if _NO_OUTPUT in (span.attributes.get("gen_ai.completion"), found.get("outputs_built")):
        found.pop("outputs_attribute", None)
        found.pop("outputs_built", None)


DIALECT = Dialect(
    name="langsmith",
    columns={
        "run_id": (identifier, (RUN_ID,)),
        "parent_run_id": (identifier, (PARENT_ID,)),
        "run_name": (text, ("langsmith.trace.name",)),
        "run_type": (one_of({name: name for name in _RUN_TYPES}), ("langsmith.span.kind",)),
        "run_status": (known_status, (STATUS,)),
        "error_type": (text, ("error.type",)),
        "model": gen_ai.COLUMNS["model"],
        "provider": (text, (METADATA + "ls_provider",)),
        "input_tokens": (count, ("gen_ai.usage.input_tokens",)),
        "output_tokens": (count, ("gen_ai.usage.output_tokens",)),
        "total_tokens": (count, ("gen_ai.usage.total_tokens",)),
        "cost_usd": (amount, (COST,)),
        "time_to_first_token_ms": (seconds_as_ms, ("gen_ai.response.time_to_first_chunk",)),
        "session_id": (
            identifier,
            (
                *(METADATA + "session_id", METADATA + "thread_id", METADATA + "conversation_id"),
                THREAD_ID,
            ),
        ),
        "user_id": (identifier, (METADATA + "user_id",)),
        "agent_name": (text, (METADATA + "lc_agent_name",)),
        "tool_call_id": (identifier, ("gen_ai.tool.call.id",)),
        "tags": (comma_list, ("langsmith.span.tags",)),
        "langgraph_node": (text, (METADATA + "langgraph_node",)),
        "langgraph_step": (integer, (METADATA + "langgraph_step",)),
        "langgraph_checkpoint_ns": (text, (METADATA + "langgraph_checkpoint_ns",)),
    },
    # The others are those that LangSmith's server reads of spans that somebody else has made.
    inputs=("gen_ai.prompt", "gen_ai.input.messages", "input.value"),
    outputs=("gen_ai.completion", "gen_ai.output.messages", "output.value"),
    inputs_flattened=("gen_ai.prompt",),
    outputs_flattened=("gen_ai.completion",),
    complete=_complete,
)
