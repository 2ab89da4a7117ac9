"""Run facts → spans: starts, notes and ends the span of a run, whoever reports it and how often."""

from collections.abc import Callable
from time import time_ns
from typing import Any
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context

from otelchain import attributes as names
from otelchain import span_end, status
from otelchain.content import Attributes, ContentGate
from otelchain.run_facts import RunStart, span_kind, span_name, start_attributes
from otelchain.runs import OpenRun, OpenRuns

Payload = Callable[[], Attributes]
"""Called only when the span records, so an unsampled run costs no serialising."""


class RunRecorder:
    """The spans of one handler.

    Args:
        tracer: Makes the spans.
        gate: What content passes.
        runs: The table of open runs.
    """

    def __init__(self, tracer: trace.Tracer, gate: ContentGate, runs: OpenRuns) -> None:
        self.tracer = tracer
        self.gate = gate
        self.runs = runs

    def start(self, start: RunStart, payload: Payload) -> None:
        """Start a run's span; a run that is open already was reported twice and is left alone."""
        if start.run_id in self.runs:
            return
        attributes = start_attributes(start, self.gate)
        context = self._parent_context(start, attributes)
        started = time_ns()
        span = self.tracer.start_span(
            span_name(attributes), context, span_kind(start), attributes, start_time=started
        )
        self.runs.add(OpenRun(start.run_id, start.parent_run_id, span, started))
        for run in self.runs.pop_overdue():
            span_end.abandon(run, "too many open runs, or open for too long")
        if span.is_recording():
            span.set_attributes(payload())

    def _parent_context(self, start: RunStart, attributes: Attributes) -> Context | None:
        """Find the parent: the run that LangChain names, else the ambient span, else none."""
        if start.parent_run_id is None:
            return None
        parent = self.runs.get(start.parent_run_id)
        if parent is not None:
            return trace.set_span_in_context(parent.span)
        ended = self.runs.ended_context(start.parent_run_id)
        if ended is not None:
            return trace.set_span_in_context(trace.NonRecordingSpan(ended))
        attributes[names.RUN_PARENT_UNKNOWN] = True
        return None

    def first_token(self, run_id: UUID) -> None:
        """Note the time to the first token, once."""
        run = self.runs.get(run_id)
        if run is None or run.streamed:
            return
        run.streamed = True
        seconds = (time_ns() - run.start_time_unix_nano) / 1e9
        run.span.set_attribute(names.GEN_AI_REQUEST_STREAM, True)
        run.span.set_attribute(names.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, seconds)

    def note(self, run_id: UUID, event: str, payload: Payload = dict) -> None:
        """Add an event to an open run's span."""
        run = self.runs.get(run_id)
        if run is not None and run.span.is_recording():
            run.span.add_event(self.gate.fact(event), payload())

    def interrupt(self, run_id: UUID, interrupts: Any) -> None:
        """Mark a graph's run as waiting for a human; LangGraph then reports a normal end."""
        run = self.runs.get(run_id)
        if run is not None:
            run.interrupted = True
            run.span.set_attributes(span_end.interrupts(interrupts, self.gate))

    def resume(self, run_id: UUID) -> None:
        """Mark a graph's run as the continuation of an interrupted one."""
        run = self.runs.get(run_id)
        if run is not None:
            run.span.set_attribute(names.RESUMED, True)

    def end(self, run_id: UUID, payload: Payload, how: status.Status = status.OK) -> None:
        """End a run that returned. The span ends also when its payload cannot be described."""
        run = self.runs.pop(run_id)
        if run is None:
            return
        try:
            if run.span.is_recording():
                run.span.set_attributes(payload())
        finally:
            span_end.end(run, status.INTERRUPTED if run.interrupted else how)

    def fail(self, run_id: UUID, error: BaseException, payload: Payload = dict) -> None:
        """End a run that raised, and what it left open."""
        run = self.runs.pop(run_id)
        if run is None:
            return
        how = status.of_error(error)
        try:
            if run.span.is_recording():
                run.span.set_attributes(payload())
                span_end.describe_error(run.span, error, how, self.gate)
        finally:
            span_end.end(run, how)
            self._end_descendants(run, how)

    def _end_descendants(self, run: OpenRun, how: status.Status) -> None:
        """End what a failed or cancelled run left open: LangChain does not report those ends.

        langchain-core tells nobody of a cancelled retriever, of a cancelled ``agenerate`` and of
        the siblings of a failed ``generate`` item.
        """
        if how in {status.OK, status.INTERRUPTED}:
            return
        for child in self.runs.pop_descendants(run):
            if how == status.CANCELLED:
                span_end.end(child, status.CANCELLED, "parent was cancelled")
            else:
                span_end.abandon(child, "parent failed")

    def end_all(self, reason: str) -> None:
        """End every open run as abandoned."""
        for run in self.runs.pop_all():
            span_end.abandon(run, reason)
