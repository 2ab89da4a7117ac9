"""Where each tracer writes tokens and kinds: the attribute names in use, read only here."""

import json
from collections.abc import Iterable
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

_INPUT_TOKENS = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
)
_OUTPUT_TOKENS = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
)
_LANGFUSE_USAGE = "langfuse.observation.usage_details"
_AGENT = {
    "openinference.span.kind": "AGENT",
    "traceloop.span.kind": "agent",
    "gen_ai.operation.name": "invoke_agent",
    "langfuse.observation.type": "agent",
}
_ERROR_WORDS = frozenset({"error", "handled_error", "failed", "failure"})


def says_agent(span: ReadableSpan) -> bool:
    """Whether a span says that it is an agent's."""
    attributes = span.attributes or {}
    return any(attributes.get(key) == value for key, value in _AGENT.items())


def input_tokens(spans: Iterable[ReadableSpan]) -> list[int]:
    """Input tokens that the spans record, cached ones included."""
    return _tokens(spans, _INPUT_TOKENS, "input")


def output_tokens(spans: Iterable[ReadableSpan]) -> list[int]:
    """Output tokens that the spans record."""
    return _tokens(spans, _OUTPUT_TOKENS, "output")


def says_error(span: ReadableSpan) -> bool:
    """Whether a span's attributes (not its content) tell of an error."""
    attributes = span.attributes or {}
    if "error.type" in attributes:
        return True
    told = (str(v).lower() for k, v in attributes.items() if k.endswith(("status", "level")))
    return any(word in _ERROR_WORDS for word in told)


def _tokens(spans: Iterable[ReadableSpan], keys: Iterable[str], prefix: str) -> list[int]:
    found: list[int] = []
    for span in spans:
        attributes: Any = span.attributes or {}
        values = [int(attributes[key]) for key in keys if key in attributes]
        if _LANGFUSE_USAGE in attributes:
            # Langfuse takes the cached tokens out of `input` and stores them beside it.
            usage = json.loads(attributes[_LANGFUSE_USAGE])
            values.append(sum(n for key, n in usage.items() if key.startswith(prefix)))
        found.extend(values[:1])
    return found
