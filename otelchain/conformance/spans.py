"""Every span of a trial, from its start on, also those that never end."""

from collections.abc import Iterator
from threading import Lock
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import StatusCode

APPLICATION = "conformance.application"
"""Scope of the spans that stand for other instrumentations: HTTP, database, web framework."""


def span_id(span: ReadableSpan) -> int:
    """The id of a span; every span of a trial has one."""
    context = span.get_span_context()
    return context.span_id if context else 0


def trace_id(span: ReadableSpan) -> int:
    """The id of a span's trace."""
    context = span.get_span_context()
    return context.trace_id if context else 0


def is_error(span: ReadableSpan) -> bool:
    """Whether a span's status is ERROR."""
    return span.status.status_code == StatusCode.ERROR


class SpanLog(SpanProcessor):
    """Record starts and ends; a span's own start also records which spans were open then."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._started: list[Span] = []
        self._ended: dict[int, ReadableSpan] = {}
        self._open_then: dict[int, list[Span]] = {}

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002
        """Note a span that starts."""
        with self._lock:
            if _of_application(span):
                self._open_then[span_id(span)] = self._open()
            self._started.append(span)

    def on_end(self, span: ReadableSpan) -> None:
        """Note a span that ends."""
        with self._lock:
            self._ended[span_id(span)] = span

    def shutdown(self) -> None:
        """Nothing to close."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002
        """Nothing is kept back."""
        return True

    def _open(self) -> list[Span]:
        return [
            span
            for span in self._started
            if not _of_application(span) and span_id(span) not in self._ended
        ]

    def started(self) -> list[Span]:
        """The tracer's spans in the order of their start."""
        with self._lock:
            return [span for span in self._started if not _of_application(span)]

    def ended(self) -> list[ReadableSpan]:
        """The tracer's spans in the order of their end."""
        with self._lock:
            return [span for span in self._ended.values() if not _of_application(span)]

    def unfinished(self) -> list[Span]:
        """The tracer's spans that started and have not ended."""
        with self._lock:
            return self._open()

    def application(self, name: str) -> Span:
        """The one span of the application with this name."""
        with self._lock:
            found = [s for s in self._started if _of_application(s) and s.name == name]
        (span,) = found
        return span

    def applications(self, prefix: str) -> list[Span]:
        """The application's spans whose names start with this."""
        with self._lock:
            return [s for s in self._started if _of_application(s) and s.name.startswith(prefix)]

    def innermost_open_at(self, span: Span) -> list[Span]:
        """The tracer's spans that were open when a span of the application started.

        Only those without an open child: with one running step, that is the span of the step.
        """
        then = self._open_then[span_id(span)]
        parents = {open_span.parent.span_id for open_span in then if open_span.parent}
        return [open_span for open_span in then if span_id(open_span) not in parents]

    def by_id(self, wanted: int) -> Span | None:
        """Find any span."""
        with self._lock:
            return next((span for span in self._started if span_id(span) == wanted), None)

    def parent_name(self, span: ReadableSpan) -> str:
        """Name the parent of a span, for a reader."""
        if span.parent is None:
            return "root"
        parent = self.by_id(span.parent.span_id)
        return parent.name if parent else "a span outside of this process"

    def count(self) -> str:
        """Say how many of the tracer's spans started and ended."""
        return f"{len(self.started())} started, {len(self.ended())} ended"


def texts(span: ReadableSpan) -> Iterator[tuple[str, str]]:
    """Every place of a span that can carry a text, and the text."""
    yield "name", span.name
    yield "status", span.status.description or ""
    yield from _attribute_texts("", span.attributes)
    for event in span.events:
        yield f"event {event.name}", event.name
        yield from _attribute_texts(f"event {event.name}: ", event.attributes)
    for link in span.links:
        yield from _attribute_texts("link: ", link.attributes)


def _attribute_texts(place: str, attributes: Any) -> Iterator[tuple[str, str]]:
    for key, value in (attributes or {}).items():
        yield place + key, f"{key}={value}"


def _of_application(span: ReadableSpan) -> bool:
    scope = span.instrumentation_scope
    return scope is not None and scope.name == APPLICATION
