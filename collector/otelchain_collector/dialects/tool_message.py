"""Find the error in a tool's output: a ToolMessage with status error, as tracers write it down.

A tool that catches its own exception ends well for every tracer but Langfuse; that it failed is
only in the message it returned.
"""

from typing import Any

# Where tracers put the message: as it is, LangChain's `data` and `kwargs`, or below `output`.
_WRAPPERS = ("output", "kwargs", "data")
_MAX_DEPTH = 3


def tool_error(output: Any) -> str | None:
    """Return the text of a ToolMessage with status error; None for any other output.

    A dict with a status is the tool's own affair; only a message has a tool_call_id too.
    """
    for _ in range(_MAX_DEPTH + 1):
        if not isinstance(output, dict):
            return None
        if output.get("status") == "error" and "tool_call_id" in output:
            content = output.get("content")
            return content if isinstance(content, str) else str(content)
        output = next(
            (output[name] for name in _WRAPPERS if isinstance(output.get(name), dict)), None
        )
    return None
