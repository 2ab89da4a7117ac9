"""Read what LangChain's LLMResult says about its answer, as tracers dump it into an output."""

from typing import Any

from otelchain_collector.dialects.values import json_object, text

#: Column → where LangChain's usage object has it.
DETAILS = {
    "cache_read_tokens": ("input_token_details", "cache_read"),
    "cache_write_tokens": ("input_token_details", "cache_creation"),
    "reasoning_tokens": ("output_token_details", "reasoning"),
}


def answering_model(output: Any) -> str | None:
    """Return the model that answered, which may be another than the one asked for."""
    return text(json_object(_message(output).get("response_metadata")).get("model_name"))


def finish_reason(output: Any) -> str | None:
    """Return why the model stopped, in the words of its provider."""
    metadata = json_object(_message(output).get("response_metadata"))
    return text(metadata.get("finish_reason")) or text(metadata.get("stop_reason"))


def usage(output: Any) -> dict[str, Any]:
    """Return LangChain's usage object; empty when there is none."""
    return json_object(_message(output).get("usage_metadata"))


def _message(output: Any) -> dict[str, Any]:
    """Find ``generations[0][0].message``, whose fields may be below ``kwargs``."""
    found: Any = json_object(output).get("generations")
    for _ in range(2):
        found = found[0] if isinstance(found, list) and found else None
    message = json_object(found).get("message") if isinstance(found, dict) else None
    if not isinstance(message, dict):
        return {}
    inner = message.get("kwargs")
    return inner if isinstance(inner, dict) else message
