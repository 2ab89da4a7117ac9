"""The end of a run's span: status, error, interrupt."""

import traceback
from collections.abc import Sequence
from typing import Any

from opentelemetry.trace import Span, StatusCode

from otelchain import attributes as names
from otelchain import status
from otelchain.content import Attributes, ContentGate
from otelchain.runs import OpenRun

# The last frames say where it failed; a recursion error has a thousand before them.
_STACK_FRAMES = 50


def end(run: OpenRun, how: status.Status, reason: str | None = None) -> None:
    """Set how a run ended and end its span; only `status.ERROR` is an error for OpenTelemetry."""
    try:
        run.span.set_attribute(names.RUN_STATUS, how)
        if reason:
            run.span.set_attribute(names.RUN_END_REASON, reason)
    finally:
        run.span.end()


def abandon(run: OpenRun, reason: str) -> None:
    """End a run whose end LangChain never reported."""
    end(run, status.ABANDONED, reason)


def describe_error(span: Span, error: BaseException, how: status.Status, gate: ContentGate) -> None:
    """Record why a run raised; texts are content and pass the redactor, also the stack trace."""
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    if how != status.ERROR:
        span.set_attribute(names.RUN_END_REASON, name)
        if how == status.INTERRUPTED:
            span.set_attributes(interrupts(error.args[0] if error.args else (), gate))
        return
    span.set_attribute(names.ERROR_TYPE, name)
    message = gate.text(names.EXCEPTION_MESSAGE, _text(error))
    span.set_status(StatusCode.ERROR, str(message.get(names.EXCEPTION_MESSAGE, name)))
    stack = "".join(
        traceback.format_exception(kind, error, error.__traceback__, limit=-_STACK_FRAMES)
    )
    span.add_event(
        names.EXCEPTION_EVENT,
        {names.EXCEPTION_TYPE: name, **message, **gate.text(names.EXCEPTION_STACKTRACE, stack)},
    )


def interrupts(interrupted: Sequence[Any], gate: ContentGate) -> Attributes:
    """Describe LangGraph's interrupts: their ids, and what they ask the human."""
    ids = [str(interrupt.id) for interrupt in interrupted if hasattr(interrupt, "id")]
    values = [getattr(interrupt, "value", interrupt) for interrupt in interrupted]
    found: Attributes = {names.INTERRUPT_IDS: ids} if ids else {}
    found.update(gate.json(names.INTERRUPT_VALUE, values) if values else {})
    return found


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - an exception's __str__ may do anything
        return f"<{type(failure).__name__} in __str__ of the exception>"
