"""Spans of otelchain's own handler: every fact under the name it was written with."""

from typing import Any

from otelchain import attributes as names
from otelchain_collector.dialects.dialect import Dialect, Found
from otelchain_collector.dialects.spans import SpanFacts
from otelchain_collector.dialects.status import known_status
from otelchain_collector.dialects.values import (
    amount,
    count,
    identifier,
    integer,
    json_text,
    one_of,
    seconds_as_ms,
    small_count,
    text,
    text_list,
)

_RUN_TYPES = {
    "chain": "chain",
    "llm": "llm",
    "chat_model": "llm",
    "tool": "tool",
    "retriever": "retriever",
    "prompt": "prompt",
    "parser": "parser",
    "embedding": "embedding",
    "reranker": "reranker",
}


def _complete(span: SpanFacts, found: Found) -> None:
    run_type = found.get("run_type")
    if run_type is not None:
        found["run_type"] = agent_or(run_type, span.attributes.get(names.GEN_AI_OPERATION_NAME))


def agent_or(run_type: str | None, operation: Any) -> str | None:
    """Return the type of a run; a chain that is an agent says so in its operation only."""
    return "agent" if operation == "invoke_agent" and run_type == "chain" else run_type


DIALECT = Dialect(
    name="otelchain",
    columns={
        "run_id": (identifier, (names.RUN_ID,)),
        "parent_run_id": (identifier, (names.RUN_PARENT_ID,)),
        "run_name": (text, (names.RUN_NAME,)),
        "run_type": (one_of(_RUN_TYPES), (names.RUN_TYPE,)),
        "run_status": (known_status, (names.RUN_STATUS,)),
        "error_type": (text, (names.ERROR_TYPE,)),
        # Of runs that did not fail: what an interrupted one asks, why another was ended. A failed
        # one has its message in the span's status.
        "error": (text, (names.INTERRUPT_VALUE, names.RUN_END_REASON)),
        "model": (text, (names.GEN_AI_RESPONSE_MODEL, names.GEN_AI_REQUEST_MODEL)),
        "provider": (text, (names.GEN_AI_PROVIDER_NAME,)),
        "input_tokens": (count, (names.GEN_AI_USAGE_INPUT_TOKENS,)),
        "output_tokens": (count, (names.GEN_AI_USAGE_OUTPUT_TOKENS,)),
        "cache_read_tokens": (count, (names.GEN_AI_USAGE_CACHE_READ,)),
        "cache_write_tokens": (count, (names.GEN_AI_USAGE_CACHE_WRITE,)),
        "reasoning_tokens": (count, (names.GEN_AI_USAGE_REASONING,)),
        "time_to_first_token_ms": (seconds_as_ms, (names.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,)),
        "session_id": (identifier, (names.GEN_AI_CONVERSATION_ID,)),
        "user_id": (identifier, (names.USER_ID,)),
        "agent_name": (text, (names.GEN_AI_AGENT_NAME,)),
        "tool_call_id": (identifier, (names.GEN_AI_TOOL_CALL_ID,)),
        "document_count": (count, (names.DOCUMENT_COUNT,)),
        "cost_usd": (amount, (names.COST_TOTAL_USD,)),
        "finish_reasons": (text_list, (names.GEN_AI_RESPONSE_FINISH_REASONS,)),
        "rubric_result": (text, (names.RUBRIC_RESULT,)),
        "fallback_index": (small_count, (names.FALLBACK_INDEX,)),
        "retry_attempt": (small_count, (names.RETRY_ATTEMPT,)),
        "tags": (text_list, (names.TAGS,)),
        "metadata": (json_text, (names.METADATA,)),
        "langgraph_node": (text, (names.LANGGRAPH_NODE,)),
        "langgraph_step": (integer, (names.LANGGRAPH_STEP,)),
        "langgraph_checkpoint_ns": (text, (names.LANGGRAPH_CHECKPOINT_NS,)),
    },
    # A run has one of these, by its type.
    inputs=(
        names.INPUT,
        names.GEN_AI_INPUT_MESSAGES,
        names.GEN_AI_TOOL_CALL_ARGUMENTS,
        names.GEN_AI_RETRIEVAL_QUERY_TEXT,
    ),
    outputs=(
        names.OUTPUT,
        names.GEN_AI_OUTPUT_MESSAGES,
        names.GEN_AI_TOOL_CALL_RESULT,
        names.GEN_AI_RETRIEVAL_DOCUMENTS,
    ),
    complete=_complete,
)
