"""The end of a run's span: status, error, interrupt."""

import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.trace import Span, StatusCode
from opentelemetry.util.types import AttributeValue

from otelchain import attributes as names
from otelchain import status
from otelchain.content import Attributes, ContentGate
from otelchain.ready_attributes import put
from otelchain.runs import OpenRun

# The last frames say where it failed; a recursion error has a thousand before them.
_STACK_FRAMES = 50


def end(
    run: OpenRun,
    how: status.Status,
    reason: str | None = None,
    *,
    found: Mapping[str, AttributeValue] | None = None,
    end_time_unix_nano: int | None = None,
) -> None:
    """Set how a run ended and end its span; only `status.ERROR` is an error for OpenTelemetry.

    Args:
        run: Taken out of the table of open runs.
        how: Its status.
        reason: Why it was ended, when LangChain did not end it.
        found: The attributes of its end.
        end_time_unix_nano: When it ended; now when None.
    """
    try:
        last: Attributes = dict(found or {})
        if run.usage is not None:
            last.update(run.usage.counts())  # also of a stream that was left
        last[names.RUN_STATUS] = how
        if reason:
            last[names.RUN_END_REASON] = reason
        put(run.span, last)
    finally:
        run.span.end(end_time_unix_nano)


def abandon(run: OpenRun, reason: str) -> None:
    """End a run whose end LangChain never reported."""
    end(run, status.ABANDONED, reason)


def type_name(error: BaseException) -> str:
    """Name an exception's type with its module, as ``error.type`` wants it."""
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def describe_error(
    span: Span, error: BaseException, how: status.Status, gate: ContentGate
) -> Attributes:
    """Record why a run raised; texts are content and pass the redactor, also the stack trace.

    Returns:
        The attributes of the exception event; none where control flow was raised.
    """
    # An application may make classes of what it was given: names of classes are its texts too.
    name = gate.fact(names.ERROR_TYPE, type_name(error))
    if how != status.ERROR:
        span.set_attribute(names.RUN_END_REASON, name)
        if how == status.INTERRUPTED:
            span.set_attributes(interrupts(questions_of(error), gate))
        return {}
    span.set_attribute(names.ERROR_TYPE, name)
    message = gate.text(names.EXCEPTION_MESSAGE, _text(error))
    said = str(message.get(names.EXCEPTION_MESSAGE, name))
    span.set_status(StatusCode.ERROR, gate.again("status.message", said))
    stack = "".join(
        traceback.format_exception(type(error), error, error.__traceback__, limit=-_STACK_FRAMES)
    )
    exception = {
        names.EXCEPTION_TYPE: name,
        **message,
        **gate.text(names.EXCEPTION_STACKTRACE, stack),
    }
    span.add_event(names.EXCEPTION_EVENT, exception)
    return exception


def questions_of(error: BaseException) -> tuple[Any, ...]:
    """Take the interrupts out of a ``GraphInterrupt``."""
    asked = error.args[0] if error.args else ()
    return tuple(asked) if isinstance(asked, (list, tuple)) else (asked,)


def interrupts(interrupted: Sequence[Any], gate: ContentGate) -> Attributes:
    """Describe LangGraph's interrupts: their ids, and what they ask the human."""
    ids = [str(interrupt.id) for interrupt in interrupted if hasattr(interrupt, "id")]
    values = [getattr(interrupt, "value", interrupt) for interrupt in interrupted]
    found = gate.facts({names.INTERRUPT_IDS: ids}) if ids else {}
    found.update(gate.json(names.INTERRUPT_VALUE, values) if values else {})
    return found


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - an exception's __str__ may do anything
        return f"<{type(failure).__name__} in __str__ of the exception>"
