"""Run facts → spans: starts, notes and ends the span of a run, whoever reports it and how often."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, Context, get_current
from opentelemetry.metrics import MeterProvider

from otelchain import (
    ambient_run,
    boundary,
    cost,
    graph_facts,
    interrupt_links,
    span_end,
    status,
    unreported,
    usage_facts,
    withheld,
)
from otelchain import attributes as names
from otelchain.content import Attributes, ContentGate, name_texts, text_length
from otelchain.fallback_facts import fallback_facts
from otelchain.log_events import LogEvents
from otelchain.metrics import RunMetrics
from otelchain.openinference import openinference
from otelchain.ready_attributes import put
from otelchain.run_facts import (
    RunStart,
    span_kind,
    span_name,
    start_attributes,
    withholds_content,
)
from otelchain.runs import OpenRun, OpenRuns
from otelchain.settings import HandlerSettings

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider

_log = logging.getLogger("otelchain")

Payload = Callable[[ContentGate], Attributes]
"""Called only when the span records, so an unsampled run costs no serialising. With the gate of
its run, since content may be off for one run and on for the next."""


def _no_payload(gate: ContentGate) -> Attributes:  # noqa: ARG001 - a Payload
    return {}


# The keys of opentelemetry.instrumentation.utils.suppress_instrumentation: today's and the old one.
_SUPPRESSED = frozenset({_SUPPRESS_INSTRUMENTATION_KEY, "suppress_instrumentation"})


def _is_suppressed() -> bool:
    context = get_current()
    return bool(context) and any(map(context.get, _SUPPRESSED))  # mostly empty


class RunRecorder:
    """The spans of one handler.

    Args:
        tracer: Makes the spans.
        gate: What content passes.
        runs: The table of open runs, shared with the other handlers of the tracer's provider.
        settings: The bounds of the table.
        meter_provider: Where metrics go, if anywhere.
        logger_provider: Where log events go, if anywhere.
    """

    def __init__(
        self,
        tracer: trace.Tracer,
        gate: ContentGate,
        runs: OpenRuns,
        settings: HandlerSettings,
        meter_provider: MeterProvider | None,
        logger_provider: "LoggerProvider | None" = None,
    ) -> None:
        self.tracer = tracer
        self.gate = gate
        self._closed_gate = gate.without_content()
        self._shapes = graph_facts.GraphShapes(gate)
        self.runs = runs
        self.started = 0
        self.dropped = 0
        self.failed = 0
        self._told = False
        self._spans_go_nowhere = True
        self._settings = settings
        self._max_span_bytes = settings.max_span_bytes
        self._openinference = settings.openinference
        if settings.interrupt_file:
            runs.links.keep_in(Path(settings.interrupt_file))
        self._metrics = (
            RunMetrics(meter_provider, self.counts, gate.redactor.counts)
            if meter_provider
            else None
        )
        self._events = LogEvents(logger_provider) if logger_provider is not None else None

    def counts(self) -> dict[str, int]:
        """Count this recorder's runs: open now, started, dropped; and its failed hooks."""
        self._end_overdue()
        return {
            "open": self.runs.count(self),
            "started": self.started,
            "dropped": self.dropped,
            "failed": self.failed,
        }

    def start(self, start: RunStart, payload: Payload) -> None:
        """Start a run's span; a run that is open already was reported twice and is left alone."""
        if _is_suppressed() or not self.runs.claim(start.run_id):
            return
        reported_parent = start.parent_run_id
        if self.runs.open_fallbacks:
            start = start._replace(parent_run_id=ambient_run.parent(reported_parent, self.runs))
        try:
            run = self._started(start)
        except BaseException:
            self.runs.release(start.run_id)
            raise
        run.reported_parent_run_id = reported_parent
        if hasattr(start.runnable, "runnables"):
            run.fallbacks = start.runnable
        self.runs.add(run)
        self.started += 1
        boundary.entered(run)
        if start.run_type == "retriever":
            ambient_run.entered_retriever(run)
        try:
            if run.span.is_recording():
                self._describe_start(run, payload(self._gate_of(run)))
                if start.runnable is not None and run.fallbacks is None:
                    shape = self._shapes.of(start.runnable)
                    run.span.set_attributes(self._within_budget(run, shape))
        finally:
            if start.parent_run_id is None:
                unreported.watch(run, self.runs, self.end_unreported)
            self._end_overdue()

    def _started(self, start: RunStart) -> OpenRun:
        closed = withholds_content(start) or (
            start.parent_run_id is not None and self.runs.is_closed(start.parent_run_id)
        )
        attributes = start_attributes(start, self._closed_gate if closed else self.gate)
        context = self._parent_context(start, attributes)
        if self._openinference:  # a sampler may want to know the kind
            attributes.update(self._of_openinference(attributes))
        started = time_ns()
        name = self.gate.again("span.name", span_name(attributes))
        span = self.tracer.start_span(
            name, context, span_kind(start), attributes, start_time=started
        )
        run = OpenRun(
            start.run_id, start.parent_run_id, start.run_type, span, started, self, attributes
        )
        run.closed = closed
        if self._spans_go_nowhere:  # at least so far
            self._look_where_spans_go(span)
        run.streams, run.batch_size = start.streams, start.batch_size
        run.task = unreported.current_task()
        if start.metadata:
            run.thread = interrupt_links.graph_thread(start.name, start.metadata)
            if start.answers and run.thread is not None:
                run.answered = self.runs.links.waiting(run.thread)
        return run

    def _gate_of(self, run: OpenRun) -> ContentGate:
        return self._closed_gate if run.closed else self.gate

    def _gate_of_error(self, run: OpenRun, error: BaseException) -> ContentGate:
        below = withheld.comes_from_below(run, error)
        return self._closed_gate if below else self._gate_of(run)

    def _look_where_spans_go(self, span: trace.Span) -> None:
        """Say once that they go nowhere; a provider may be set later."""
        self._spans_go_nowhere = not span.get_span_context().is_valid
        if not self._spans_go_nowhere or self._told:
            return
        self._told = True
        if os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true":
            _log.warning(
                "no TracerProvider is set, so runs are not recorded; "
                "call otelchain.configure() before the application runs"
            )

    def _describe_start(self, run: OpenRun, found: Attributes) -> None:
        if self._events is not None:
            run.attributes.update(found)
        if self._openinference:
            run.attributes.update(found)
            found |= self._of_openinference(run.attributes)
        put(run.span, self._within_budget(run, found))

    def _of_openinference(self, ours: Attributes) -> Attributes:
        """Translate attributes; rules of the policy may name those of OpenInference, too."""
        told = openinference(ours)
        for key, value in told.items():
            if type(value) is str:
                told[key] = self.gate.again(key, value)
        return told

    def _within_budget(self, run: OpenRun, found: Attributes) -> Attributes:
        """Count what a run records, and name what is beyond the span's budget instead."""
        run.text_bytes += text_length(found)
        if run.text_bytes <= self._max_span_bytes:
            return found
        return name_texts(found, self.gate.store)

    def _parent_context(self, start: RunStart, attributes: Attributes) -> Context | None:
        """Find the parent: the run that LangChain names, else the ambient span, else none."""
        if start.parent_run_id is None:
            return None
        parent = self.runs.get(start.parent_run_id)
        if parent is not None:
            if parent.fallbacks is not None:
                parent.alternatives += 1
            if parent.failed_tasks:
                tries = parent.failed_tasks.get(attributes.get(names.LANGGRAPH_CHECKPOINT_NS))
                if tries:
                    attributes[names.RETRY_ATTEMPT] = tries + 1
            return trace.set_span_in_context(parent.span)
        ended = self.runs.ended_context(start.parent_run_id)
        if ended is not None:
            return trace.set_span_in_context(trace.NonRecordingSpan(ended))
        attributes[names.RUN_PARENT_UNKNOWN] = True
        return None

    def _end_overdue(self) -> None:
        if boundary.managerless:
            for run in boundary.take_managerless():
                reason = "nothing was left to report its end"
                run.owner.end_unreported(run, status.ABANDONED, reason)
        bounds = self._settings
        for run in self.runs.pop_overdue(bounds.max_open_runs, bounds.max_run_age_seconds):
            self.dropped += 1
            self._finish(run, status.ABANDONED, {}, "too many open runs, or open for too long")

    def end_unreported(self, run: OpenRun, how: status.Status, reason: str) -> None:
        """End a run, and what is open below it, whose end LangChain does not report."""
        taken = self.runs.pop(run.run_id, self)
        if taken is not None:
            self._finish(taken, how, {}, reason)
            self._end_descendants(taken, how)

    def chunk(self, run_id: UUID, chunk: Any, *, content: bool = True) -> None:
        """Take a chunk of a stream: the time to the first with content, the usage each tells."""
        run = self._own(run_id)
        if run is None:
            return
        run.usage = usage_facts.add_chunk(run.usage, chunk)
        if self._metrics is not None and content:
            self._metrics.chunk(run, time_ns())
        if run.streamed or not content:
            return
        run.streamed = True
        run.first_chunk_seconds = (time_ns() - run.start_time_unix_nano) / 1e9
        run.span.set_attribute(names.GEN_AI_REQUEST_STREAM, True)
        run.span.set_attribute(names.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, run.first_chunk_seconds)

    def note(self, run_id: UUID, event: str, payload: Payload = _no_payload) -> None:
        """Add an event to an open run's span."""
        run = self._own(run_id)
        if run is not None and run.span.is_recording():
            found = self._within_budget(run, payload(self._gate_of(run)))
            run.span.add_event(self.gate.fact("event.name", event), found)

    def interrupt(self, run_id: UUID, event: Any) -> None:
        """Mark a graph's run as waiting for a human; LangGraph then reports a normal end."""
        run = self._own(run_id)
        if run is None:
            return
        run.interrupted = True
        run.span.set_attributes(self.gate.facts(interrupt_links.interrupt_facts(event)))
        asked_below = withheld.asks(run, withheld.interrupt_ids(event.interrupts))
        gate = self._closed_gate if asked_below else self._gate_of(run)
        run.span.set_attributes(span_end.interrupts(event.interrupts, gate))
        if run.thread is not None:
            self.runs.links.interrupted(run.thread, event, run.span.get_span_context())

    def resume(self, run_id: UUID, event: Any) -> None:
        """Mark a graph's run as a continuation, and link it to the interrupted run if known.

        LangGraph says so only after the start, so samplers do not see the link.
        """
        run = self._own(run_id)
        if run is None:
            return
        run.resumed = True
        run.span.set_attributes(self.gate.facts(interrupt_links.resume_facts(event)))
        found = run.thread and self.runs.links.continued(run.thread, event)
        if found:
            run.span.add_link(found, {names.LINK_KIND: names.INTERRUPTED_RUN})

    def _pause_graph(self, node: OpenRun, error: BaseException) -> None:
        """Mark the graph of an interrupted node as waiting.

        A consumer that stops reading the stream at the question leaves LangGraph no time to report
        it, and versions before 1.2 never do.
        """
        graph = self._own(node.parent_run_id) if node.parent_run_id else None
        if graph is not None and graph.thread is not None:
            graph.interrupted = True
            graph.questions += span_end.questions_of(error)
            gate = self._gate_of_error(graph, error)
            graph.span.set_attributes(span_end.interrupts(graph.questions, gate))
            self.runs.links.waits(graph.thread, graph.span.get_span_context())

    def _own(self, run_id: UUID) -> OpenRun | None:
        run = self.runs.get(run_id)
        return run if run is not None and run.owner is self else None

    def end(self, run_id: UUID, payload: Payload, how: status.Status = status.OK) -> None:
        """End a run that returned. The span ends also when its payload cannot be described."""
        run = self.runs.pop(run_id, self)
        if run is None:
            return
        found: Attributes = {}
        try:
            if run.span.is_recording():
                # An interrupted graph returns the question of its nodes, too.
                asked_below = run.interrupted and run.withheld
                found = payload(self._closed_gate if asked_below else self._gate_of(run))
        finally:
            self._finish(run, status.INTERRUPTED if run.interrupted else how, found)

    def fail(self, run_id: UUID, error: BaseException, payload: Payload = _no_payload) -> None:
        """End a run that raised, and what it left open."""
        run = self.runs.pop(run_id, self)
        if run is None:
            return
        how = status.of_error(error)
        found: Attributes = {}
        try:
            if run.closed:
                withheld.hand_up(run, error, self.runs)
            if how == status.INTERRUPTED:
                self._pause_graph(run, error)
            if run.span.is_recording():
                found = payload(self._gate_of(run))
                gate = self._gate_of_error(run, error)
                exception = span_end.describe_error(run.span, error, how, gate)
                if exception and self._events is not None:
                    self._events.failed(run, exception)
        finally:
            if how == status.ERROR:
                found[names.ERROR_TYPE] = self.gate.fact(
                    names.ERROR_TYPE, span_end.type_name(error)
                )
                self._count_with_parent(run)
            # Who stops reading at the question has not abandoned the run, but will answer it.
            waits = run.interrupted and how == status.ABANDONED
            try:
                self._finish(run, status.INTERRUPTED if waits else how, found)
            finally:
                self._end_descendants(run, how)
                unreported.end_batch_siblings(run, self.runs, self.end_unreported)

    def _count_with_parent(self, run: OpenRun) -> None:
        """Count a failed node with its graph, so that its next try knows its number."""
        parent = self.runs.get(run.parent_run_id) if run.parent_run_id else None
        task: Any = run.attributes.get(names.LANGGRAPH_CHECKPOINT_NS)
        # What runs inside a node has its namespace too, and is no try of it.
        if task and parent and parent.attributes.get(names.LANGGRAPH_CHECKPOINT_NS) != task:
            tries = parent.failed_tasks or {}
            parent.failed_tasks = {**tries, task: tries.get(task, 0) + 1}

    def _finish(
        self, run: OpenRun, how: status.Status, found: Attributes, reason: str | None = None
    ) -> None:
        ended = time_ns()
        try:
            if run.run_type in {"chat_model", "llm"}:
                if run.usage is not None:
                    found.update(run.usage.counts())
                if names.GEN_AI_USAGE_OUTPUT_TOKENS in found:
                    found.update(cost.cost({**run.attributes, **found}))
            if run.fallbacks is not None:
                answered = how == status.OK
                told = fallback_facts(run.fallbacks, run.alternatives, answered=answered)
                found.update(self.gate.facts(told))
            if self._openinference:
                found.update(self._of_openinference({**run.attributes, **found}))
            if run.answered is not None and not run.resumed:
                run.span.set_attribute(names.RESUMED, True)
                run.span.add_link(run.answered, {names.LINK_KIND: names.INTERRUPTED_RUN})
            if run.thread is not None and how != status.INTERRUPTED:
                self.runs.links.ended(run.thread)
            if self._metrics is not None:
                self._metrics.ended(run, found, ended)
            if self._events is not None:
                self._events.ended(run, found, ended)
        finally:
            recorded = self._within_budget(run, found)
            span_end.end(run, how, reason, found=recorded, end_time_unix_nano=ended)

    def _end_descendants(self, run: OpenRun, how: status.Status) -> None:
        """End what a failed or cancelled run left open and LangChain will not end.

        A sibling branch that works on in a task of its own (``asyncio.gather`` cancels none) will
        report its end itself; it is only watched.
        """
        if how in {status.OK, status.INTERRUPTED}:
            return
        here = unreported.current_task()

        def still_works(child: OpenRun) -> bool:
            return child.task is not None and child.task is not here and not child.task.done()

        taken, working = self.runs.pop_descendants(run, still_works)
        cancelled = how == status.CANCELLED
        for child in taken:
            if cancelled:
                self._finish(child, status.CANCELLED, {}, "parent was cancelled")
            else:
                self._finish(child, status.ABANDONED, {}, "parent failed")
        for child in working:
            unreported.end_with_task(child, child.owner.end_unreported, "parent failed")
