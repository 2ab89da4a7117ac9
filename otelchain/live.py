"""Runs that have just started → pending spans → an OTLP exporter of their own, a moment later.

So the store shows what runs now, and after a crash what was running and with which input.
"""

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from itertools import islice

# Private by name, but it is how every exporter keeps its own requests from becoming spans.
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, Context, attach, set_value
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otelchain import status
from otelchain.attributes import RUN_STATUS

# Most runs of a chain are over by then and are never sent as pending; and the handler has put the
# input on the span, which it does right after the start.
DELAY_SECONDS = 0.2
# Runs that wait to be sent; beyond it a starting run is not sent, and is seen when it ends.
MAX_WAITING = 2_048
# An input has up to 128 KiB and an exporter refuses requests of more than 64 MiB.
_MAX_BATCH = 128
# A collector that does not answer must not hold up the end of the process.
_CLOSING_SECONDS = 2.0

_log = logging.getLogger("otelchain")


class LiveRuns(SpanProcessor):
    """Send every otelchain run that is still open a moment after its start.

    What is sent is the span as it is then: the same ids, its attributes so far, which have passed
    the redactor, ``otelchain.run.status`` pending, and its start as its end, because OTLP wants
    one. The collector replaces it when the span itself comes. To other backends that is a second
    span with the same id, so use it with the otelchain collector only.

    Sending happens on a thread of its own, with an exporter of its own, after the first run has
    started. A run that cannot be sent is dropped: it is seen when it ends. Safe to fork.

    Args:
        make_exporter: Called once in each process, because connections do not survive a fork.
        delay_seconds: From a run's start until it is sent, unless it has ended.
        max_waiting: Most runs that wait to be sent.

    Attributes:
        dropped: Runs not sent because too many waited.
        failed: Runs that the exporter could not send.
    """

    def __init__(
        self,
        make_exporter: Callable[[], SpanExporter],
        *,
        delay_seconds: float = DELAY_SECONDS,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self.dropped = 0
        self.failed = 0
        self._make_exporter = make_exporter
        self._delay_seconds = delay_seconds
        self._max_waiting = max_waiting
        self._closed = False
        self._start_afresh()
        if hasattr(os, "register_at_fork"):
            alive = weakref.ref(self)
            os.register_at_fork(after_in_child=lambda: _forked(alive()))

    def _start_afresh(self) -> None:
        self._changed = threading.Condition()  # guards everything below
        self._waiting: dict[int, tuple[float, ReadableSpan]] = {}  # by span id: when due
        self._sending = False
        self._flushing = False
        self._thread: threading.Thread | None = None
        self._exporter: SpanExporter | None = None

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002
        """Note a run; called in the application's thread."""
        scope, context = span.instrumentation_scope, span.get_span_context()
        if scope is None or scope.name != "otelchain" or not context.trace_flags.sampled:
            return
        with self._changed:
            if self._closed:
                return
            if len(self._waiting) >= self._max_waiting:
                self.dropped += 1
                return
            self._waiting[context.span_id] = (time.monotonic() + self._delay_seconds, span)
            if self._thread is None:
                self._start_thread()
            elif len(self._waiting) == 1:
                self._changed.notify_all()

    def on_end(self, span: ReadableSpan) -> None:
        """Forget a run: its span is on its way."""
        context = span.get_span_context()
        if context is not None and context.span_id in self._waiting:
            with self._changed:
                self._waiting.pop(context.span_id, None)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what waits now; False when that took too long."""
        with self._changed:
            self._flushing = True
            self._changed.notify_all()
            done = self._changed.wait_for(
                lambda: not (self._waiting or self._sending), timeout_millis / 1000
            )
            self._flushing = False
            return done

    def shutdown(self) -> None:
        """Send the runs that are open, within two seconds, and end the thread."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(_CLOSING_SECONDS)
        if self._exporter is not None:
            self._exporter.shutdown()

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._run, name="otelchain-live", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # The interpreter is ending; so are the runs.
            self._closed = True
            self._waiting.clear()

    def _run(self) -> None:
        attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))  # in this thread, for good
        while spans := self._next_batch():
            try:
                self._send(spans)
            except Exception as error:  # noqa: BLE001 - the next runs may fare better
                self.failed += len(spans)
                # The text of an encoder's error may quote an attribute.
                _log.warning("pending runs could not be sent (%s)", type(error).__name__)
            with self._changed:
                self._sending = False
                self._changed.notify_all()

    def _next_batch(self) -> list[ReadableSpan]:
        """Wait for runs that are due; none when there will be no more."""
        with self._changed:
            while not self._is_due():
                if self._closed:
                    return []
                self._changed.wait(self._seconds_left())
            batch = dict(islice(self._waiting.items(), _MAX_BATCH))
            if not (self._closed or self._flushing):
                now = time.monotonic()
                batch = {key: waiting for key, waiting in batch.items() if waiting[0] <= now}
            for span_id in batch:
                del self._waiting[span_id]
            self._sending = True
            return [span for _, span in batch.values()]

    def _is_due(self) -> bool:
        if self._waiting and (self._closed or self._flushing):
            return True
        left = self._seconds_left()
        return left is not None and left <= 0

    def _seconds_left(self) -> float | None:
        """Return the time until the oldest run is due; None when none waits."""
        for due, _ in self._waiting.values():
            return due - time.monotonic()
        return None

    def _send(self, spans: list[ReadableSpan]) -> None:
        pending = [found for found in map(pending_span, spans) if found is not None]
        if not pending:
            return
        if self._exporter is None:
            self._exporter = self._make_exporter()
        if self._exporter.export(pending) is not SpanExportResult.SUCCESS:
            self.failed += len(pending)  # The exporter has logged why.

    def _forget(self) -> None:
        # Kept, because closing an inherited gRPC channel in a forked child may hang it.
        self._inherited = self._exporter
        self._start_afresh()


def pending_span(span: ReadableSpan) -> ReadableSpan | None:
    """Return an open span as it is now; None when it has ended, or changes too fast to be read."""
    for _ in range(3):
        try:
            attributes = dict(span.attributes or {})
            break
        except (KeyError, RuntimeError):  # An attribute was replaced meanwhile.
            continue
    else:
        return None
    if span.end_time is not None:
        return None
    return ReadableSpan(
        name=span.name,
        context=span.get_span_context(),
        parent=span.parent,
        resource=span.resource,
        attributes={**attributes, RUN_STATUS: status.PENDING},
        links=span.links,
        kind=span.kind,
        start_time=span.start_time,
        end_time=span.start_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _forked(live: LiveRuns | None) -> None:
    if live is not None:
        live._forget()  # noqa: SLF001 - part of this class, outside it only to hold it weakly
