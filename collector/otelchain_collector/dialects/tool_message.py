"""Read a tool's output that is a ToolMessage: its error and its id, as tracers write them down.

A tool that catches its own exception ends well for every tracer but Langfuse; that it failed is
only in the message it returned.
"""

from collections.abc import Iterator
from typing import Any

from otelchain_collector.dialects.values import text

# Where tracers put the message: as it is, LangChain's `data` and `kwargs`, or below `output`.
_WRAPPERS = ("output", "kwargs", "data")
_MAX_DEPTH = 3


def tool_error(output: Any) -> str | None:
    """Return the text of a ToolMessage with status error; None for any other output.

    A dict with a status is the tool's own affair; only a message has a tool_call_id too.
    """
    for layer in _layers(output):
        if layer.get("status") == "error" and "tool_call_id" in layer:
            content = layer.get("content")
            return content if isinstance(content, str) else str(content)
    return None


def tool_call_id(output: Any) -> str | None:
    """Return the id of the tool call that a ToolMessage answers; None for any other output."""
    for layer in _layers(output):
        if layer.get("type") == "tool" and "content" in layer:
            return text(layer.get("tool_call_id"))
    return None


def _layers(output: Any) -> Iterator[dict[str, Any]]:
    for _ in range(_MAX_DEPTH + 1):
        if not isinstance(output, dict):
            return
        yield output
        output = next(
            (output[name] for name in _WRAPPERS if isinstance(output.get(name), dict)), None
        )
