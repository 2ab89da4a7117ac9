"""One probe's surroundings: a fresh provider, the tracer attached to it, and what came out."""

import gc
import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.runnables import RunnableConfig
from opentelemetry.sdk.trace import ReadableSpan, Span, TracerProvider

from otelchain.conformance.spans import APPLICATION, SpanLog, is_error, span_id
from otelchain.conformance.subject import Attached, Options, Subject
from otelchain.conformance.verdict import NotApplicableError, Verdict, judge

# A cancelled task tells its observers in the loop's next turns; executors need a moment too.
SETTLE_SECONDS = 0.05


def _nothing() -> None:
    """Nothing was attached, nothing has to be taken back."""


class LogRecords(logging.Handler):
    """What tracers and OpenTelemetry complained of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.records.append(record)

    def texts(self, logger: str = "") -> list[str]:
        """The messages of one logger and those below it."""
        return [r.getMessage() for r in self.records if r.name.startswith(logger)]


class Trial:
    """What a probe works with.

    Args:
        subject: The tracer under trial.
        options: How the tracer is set up.
        provider: Where it sends its spans.
        log: The spans.
        complaints: Log records of level WARNING and above.
    """

    def __init__(
        self,
        subject: Subject,
        options: Options,
        provider: TracerProvider,
        log: SpanLog,
        complaints: LogRecords,
    ) -> None:
        self.subject = subject
        self.provider = provider
        self.log = log
        self.complaints = complaints
        self._options = options
        self.attached = Attached(_nothing)

    def attach(self) -> None:
        """Put the tracer to work."""
        self.attached = self.subject.attach(self.provider, self._options)

    def config(self, **more: Any) -> RunnableConfig:
        """The config of a run that the tracer has to see."""
        handler = self.attached.handler
        callbacks = [*more.pop("callbacks", ()), *([handler] if handler else [])]
        config: Any = {"callbacks": callbacks, **more} if callbacks else more
        return config  # type: ignore[no-any-return]

    @property
    def hooks(self) -> BaseCallbackHandler:
        """The handler whose hooks LangChain calls, whichever way it was attached."""
        if self.attached.handler is not None:
            return self.attached.handler
        handlers = CallbackManager.configure().handlers
        if not handlers:
            raise NotApplicableError("no handler of this tracer was found in LangChain")
        return handlers[0]

    def span(self, name: str) -> AbstractContextManager[Any]:
        """A span as another instrumentation would open it: in and out of the ambient context."""
        return self.provider.get_tracer(APPLICATION).start_as_current_span(name)

    def settle(self) -> None:
        """Wait for what a tracer does a moment later."""
        gc.collect()
        time.sleep(SETTLE_SECONDS)

    def open_entries(self) -> int | None:
        """Entries in the tracer's own tables of running runs."""
        count = self.attached.open_runs
        return None if count is None else count(self.hooks)

    # --- verdicts that many probes share -------------------------------------------------------

    def all_ended(self, spans: int | None = None) -> Verdict:
        """Every span that started has ended, and the tracer's tables are empty.

        Args:
            spans: Exact number of spans expected; any number above zero when None.
        """
        self.settle()
        left = self.open_entries()
        started = len(self.log.started())
        good = not self.log.unfinished() and not left
        good = good and (started > 0 if spans is None else started == spans)
        seen = self.log.count()
        if spans is not None and started != spans:
            seen += f", {spans} expected"
        return judge(good, f"{seen}, {left} left in its tables" if left else seen)

    def is_right_parent(self, inner: Span, label: str = "") -> bool:
        """Whether a span opened inside a step hangs under the span of that step.

        A tracer that emits no span for the step is right with the innermost one it emits.

        Args:
            inner: The application's span.
            label: Part of the name of the step's span; not needed when one step runs at a time.
        """
        if inner.parent is None:
            return False
        named = [span_id(s) for s in self.log.started() if label and label in s.name]
        right = named or [span_id(s) for s in self.log.innermost_open_at(inner)]
        return inner.parent.span_id in right

    def nested(self, name: str = "HTTP") -> Verdict:
        """Judge the parent of the application's one span of this name."""
        inner = self.log.application(name)
        return judge(self.is_right_parent(inner), f"under {self.log.parent_name(inner)}")

    def errors(self) -> list[ReadableSpan]:
        """The tracer's spans whose status is ERROR."""
        return [span for span in self.log.ended() if is_error(span)]


@contextmanager
def trial(subject: Subject, options: Options) -> Iterator[Trial]:
    """Attach a tracer for one probe."""
    log = SpanLog()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(log)
    complaints = LogRecords()
    root = logging.getLogger()
    root.addHandler(complaints)
    started = Trial(subject, options, provider, log, complaints)
    try:
        if options.attach:
            started.attach()
        yield started
    finally:
        started.attached.detach()
        root.removeHandler(complaints)
        provider.shutdown()
