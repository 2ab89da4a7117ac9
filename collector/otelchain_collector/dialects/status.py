"""How a run ended, and why, from what the span says about it."""

from otelchain_collector.dialects.dialect import Found
from otelchain_collector.dialects.python_repr import whole_literal
from otelchain_collector.dialects.spans import Event, SpanFacts
from otelchain_collector.dialects.values import text

PENDING = "pending"  # the run has started, and this is not its end
STATUSES = frozenset(
    {"ok", "error", "handled_error", "cancelled", "interrupted", "abandoned", PENDING}
)

_OTEL_OK = 1
_OTEL_ERROR = 2

# Exceptions that steer a program and are no failure of it. LangChain reports them through its
# error hooks, so every other instrumentation records them as exceptions.
_CONTROL_FLOW = {
    "CancelledError": "cancelled",
    "KeyboardInterrupt": "cancelled",
    "SystemExit": "cancelled",
    "GraphInterrupt": "interrupted",
    "NodeInterrupt": "interrupted",
    "GeneratorExit": "abandoned",
    "ParentCommand": "ok",
    "GraphBubbleUp": "ok",
}

_TRACEBACK = "Traceback (most recent call last)"


def known_status(value: object) -> str | None:
    """Read a status written by otelchain itself."""
    return value if isinstance(value, str) and value in STATUSES else None


def settle(span: SpanFacts, found: Found) -> None:
    """Set ``run_status``, ``error_type`` and ``error``; a run that went well has neither text."""
    event = last_exception(span)
    # A dialect that knows better sets error_type, also to None.
    stated = "error_type" in found
    error_type = found.pop("error_type", None) or (
        None if stated else exception_text(event, "exception.type")
    )
    error = found.pop("error", None)
    status = found.get("run_status") or _derived(span, error_type, stated)
    found["run_status"] = status
    if status != "ok":
        found["error_type"] = error_type
        found["error"] = (
            error or text(span.status_message) or exception_text(event, "exception.message")
        )


def _derived(span: SpanFacts, error_type: str | None, stated: bool) -> str:
    control_flow = control_flow_status(error_type)
    if control_flow is not None:
        return control_flow
    # error.type belongs on failed spans only, and some writers forget the status code beside it.
    # A recorded exception alone is no failure: the application may have handled it.
    failed = span.status_code == _OTEL_ERROR or (
        stated and error_type is not None and span.status_code != _OTEL_OK
    )
    return "error" if failed else "ok"


def control_flow_status(error_type: str | None) -> str | None:
    """Return the status of a control flow exception, None for a real failure."""
    if not error_type:
        return None
    return _CONTROL_FLOW.get(error_type.rpartition(".")[2])


def last_exception(span: SpanFacts) -> Event | None:
    """Return the exception that was recorded last: the one that left the run."""
    for event in span.events[::-1]:
        if event.name == "exception":
            return event
    return None


def exception_text(event: Event | None, name: str) -> str | None:
    """Return a text attribute of an exception event."""
    return text(event.attributes.get(name)) if event else None


def without_traceback(error: str | None) -> str | None:
    """Return the error before the stack trace that LangChain's tracers append to it."""
    return error.partition(_TRACEBACK)[0].strip() or error if error else None


def message_in_repr(error: str | None) -> str | None:
    """Return the message from ``ValueError('…')``; the whole text when it is written otherwise."""
    if error is None or type_in_repr(error) is None:
        return error
    message = whole_literal(error.partition("(")[2].removesuffix(")"))
    return error if message is None else message


def type_in_repr(error: str | None) -> str | None:
    """Return the exception type from ``ValueError('…')``, the form LangChain's tracers write."""
    name, opened, _ = (error or "").partition("(")
    return name if opened and name.isidentifier() else None
