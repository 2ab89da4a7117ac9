"""Langfuse SDK: langfuse/_client/attributes.py and langfuse/langchain/CallbackHandler.py."""

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from otelchain_collector.dialects import gen_ai
from otelchain_collector.dialects.agents import announce_agent
from otelchain_collector.dialects.dialect import Dialect, Found
from otelchain_collector.dialects.spans import SpanFacts
from otelchain_collector.dialects.tool_message import tool_error
from otelchain_collector.dialects.values import (
    Reader,
    amount,
    as_json,
    count,
    identifier,
    integer,
    json_object,
    one_of,
    parsed,
    parsed_or_text,
    text,
    text_list,
)

METADATA = "langfuse.observation.metadata."

_RUN_TYPES = {
    "generation": "llm",
    "span": "chain",
    "chain": "chain",
    "tool": "tool",
    "retriever": "retriever",
    "agent": "agent",
    "embedding": "embedding",
    "evaluator": "evaluator",
    "guardrail": "guardrail",
    "event": "event",
}
# Metadata is JSON-encoded value by value, so no table of attributes can read it.
_FROM_METADATA: dict[str, tuple[Reader, str]] = {
    "provider": (text, "ls_provider"),
    "tool_call_id": (identifier, "tool_call_id"),
    "agent_name": (text, "lc_agent_name"),
    "tags": (text_list, "tags"),
    "langgraph_node": (identifier, "langgraph_node"),  # a node named 7 comes as the number
    "langgraph_step": (integer, "langgraph_step"),
    "langgraph_checkpoint_ns": (text, "langgraph_checkpoint_ns"),
}
# Langfuse has names of its own for them (langfuse_session_id); these are LangChain's.
_SESSION_AND_USER = {
    "session_id": ("session_id", "thread_id", "conversation_id"),
    "user_id": ("user_id",),
}
_TOKENS = (
    *("input_tokens", "output_tokens", "total_tokens"),
    *("cache_read_tokens", "cache_write_tokens", "reasoning_tokens"),
)
_OF_GEN_AI = (
    *("error_type", "provider", "finish_reasons", "time_to_first_token_ms"),
    *("agent_name", "tool_call_id"),
)
_CONTROL_FLOW_MESSAGES = {"GraphInterrupt": "interrupted", "ParentCommand": "ok"}


def _complete(span: SpanFacts, found: Found) -> None:
    metadata = {
        name[len(METADATA) :]: parsed_or_text(value)
        for name, value in span.attributes.items()
        if name.startswith(METADATA)
    }
    if metadata:
        found["metadata"] = as_json(metadata)
    for column, (reader, key) in _FROM_METADATA.items():
        value = reader(metadata.get(key))
        if value is not None:
            found[column] = value  # the observation's own tags win over the trace's
    for column, keys in _SESSION_AND_USER.items():
        for key in keys:
            found[column] = found.get(column) or identifier(metadata.get(key))
    announce_agent(found, span.name)
    usage = json_object(span.attributes.get("langfuse.observation.usage_details"))
    if usage:
        _read_usage(usage, found)
    cost = _cost(json_object(span.attributes.get("langfuse.observation.cost_details")))
    if cost is not None:
        found["cost_usd"] = cost
    _read_first_token(span, found)
    _read_status(span, found)


def _read_usage(usage: Mapping[str, Any], found: Found) -> None:
    # One count of GenAI's names beside it belongs to another way of counting.
    for column in _TOKENS:
        found.pop(column, None)
    if "prompt_tokens" in usage:  # OpenAI's usage object, passed on as it is: cached included
        cached = json_object(usage.get("prompt_tokens_details")).get("cached_tokens")
        reasoning = json_object(usage.get("completion_tokens_details")).get("reasoning_tokens")
        found["input_tokens"] = count(usage["prompt_tokens"])
        found["output_tokens"] = count(usage.get("completion_tokens"))
    else:
        cached = _first(usage, "input_cache_read", "input_cached_tokens", "cache_read_input_tokens")
        reasoning = _first(usage, "output_reasoning", "output_reasoning_tokens")
        found["input_tokens"] = _whole(usage, "input")
        found["output_tokens"] = _whole(usage, "output")
    found["total_tokens"] = count(_first(usage, "total", "total_tokens"))
    found["cache_read_tokens"] = count(cached)
    found["cache_write_tokens"] = count(
        _first(usage, "input_cache_creation", "cache_creation_input_tokens")
    )
    found["reasoning_tokens"] = count(reasoning)


def _cost(details: Mapping[str, Any]) -> float | None:
    if "total" in details:
        return amount(details["total"])
    # Langfuse's server adds the parts up, too.
    parts = [amount(value) for value in details.values()]
    return sum(part for part in parts if part is not None) if any(parts) else None


def _whole(usage: Mapping[str, Any], side: str) -> int | None:
    """Return all tokens of a side: Langfuse subtracts every detail from it, so add them back."""
    whole = count(usage.get(side))
    if whole is None:
        return None
    for name, value in usage.items():
        if _is_part(name, side):
            whole += count(value) or 0
    return count(whole)


def _is_part(name: str, side: str) -> bool:
    # Priority tiers overlap with the other details and are not subtracted.
    if name.startswith(f"{side}_"):
        return not name.startswith(f"{side}_priority")
    return side == "input" and name in ("cache_read_input_tokens", "cache_creation_input_tokens")


def _first(usage: Mapping[str, Any], *names: str) -> Any:
    return next((usage[name] for name in names if name in usage), None)


def _read_first_token(span: SpanFacts, found: Found) -> None:
    stated = span.attributes.get("langfuse.observation.completion_start_time")
    first_token_at = _unix_nano(parsed_or_text(stated))
    if first_token_at is not None and first_token_at >= span.start_time_unix_nano:
        found["time_to_first_token_ms"] = (first_token_at - span.start_time_unix_nano) / 1e6


def _unix_nano(value: Any) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        # Python 3.10 reads neither the Z nor every number of digits of a fraction.
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    since_epoch = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    microseconds = (since_epoch.days * 86_400 + since_epoch.seconds) * 1_000_000
    return (microseconds + since_epoch.microseconds) * 1_000


def _read_status(span: SpanFacts, found: Found) -> None:
    level = span.attributes.get("langfuse.observation.level")
    message = text(span.attributes.get("langfuse.observation.status_message"))
    if level == "ERROR":
        found["error"] = message
        found["run_status"] = "handled_error" if _is_handled(span, found) else "error"
    elif message:
        # Control flow keeps level DEFAULT; the message is the exception's text, or its type
        # where it has none.
        interrupted = "interrupted" if message.startswith("(Interrupt(") else None
        found["run_status"] = _CONTROL_FLOW_MESSAGES.get(message, interrupted)
        found["error"] = message


def _is_handled(span: SpanFacts, found: Found) -> bool:
    """Tell a tool that answered with an error message from one that raised (it has no output)."""
    output = parsed(span.attributes.get("langfuse.observation.output"))
    return found.get("run_type") == "tool" and tool_error(output) is not None


DIALECT = Dialect(
    name="langfuse",
    columns={
        # What Langfuse's own names leave open: it reads GenAI's beside them as well.
        **{column: gen_ai.COLUMNS[column] for column in (*_TOKENS, *_OF_GEN_AI)},
        "run_type": (one_of(_RUN_TYPES), ("langfuse.observation.type",)),
        "model": (
            text,
            ("langfuse.observation.model.name", "gen_ai.response.model", "gen_ai.request.model"),
        ),
        "cost_usd": (amount, ("gen_ai.usage.cost",)),
        "session_id": (
            identifier,
            ("session.id", "langfuse.session.id", "gen_ai.conversation.id"),
        ),
        "user_id": (identifier, ("user.id", "langfuse.user.id", "enduser.id")),
        "tags": (text_list, ("langfuse.trace.tags",)),
    },
    inputs=("langfuse.observation.input", *gen_ai.INPUTS, "input.value"),
    outputs=("langfuse.observation.output", *gen_ai.OUTPUTS, "output.value"),
    complete=_complete,
)
