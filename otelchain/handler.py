"""LangChain's callbacks → spans: one short method per hook, which starts, notes or ends a run.

No callback attaches the OpenTelemetry context: under async a start and its end run in different
contexts, so an attached context would leak into the application. Parents come from `OpenRuns`.
The one exception is opt-in: inside a frame of `otelchain.boundary`, which takes it back itself.
"""

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from opentelemetry import trace
from opentelemetry.metrics import MeterProvider

from otelchain import attributes as names
from otelchain import boundary, graph_facts, lifetime, payloads, status
from otelchain.caller import manager_of_retriever, run_manager, telling_runnable
from otelchain.content import Attributes, ContentGate
from otelchain.interrupt_links import is_answer
from otelchain.messages import message_json, prompt_json
from otelchain.payload_store import PayloadStore, store_in
from otelchain.provider import current_provider
from otelchain.recorder import RunRecorder
from otelchain.redaction import Redactor, loading
from otelchain.run_facts import run_start
from otelchain.settings import HandlerSettings
from otelchain.version import __version__

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider

    _Base = BaseCallbackHandler
else:
    try:
        # Only its subclasses are told of interrupts and resumes.
        from langgraph.callbacks import GraphCallbackHandler as _Base
    except ImportError:
        _Base = BaseCallbackHandler

_log = logging.getLogger("otelchain")
_Hook = TypeVar("_Hook", bound=Callable[..., None])


@dataclass(frozen=True)
class HandlerStats:
    """The counts of one handler.

    Args:
        open: Runs open now.
        started: Runs started.
        dropped: Runs ended because too many were open, or for too long.
        failed: Hook calls that could not record what they were told.
        redacted: How often each rule of the redactor replaced something. Handlers that share a
            redactor share these counts.
        redaction_failures: How many texts were given up because of each rule.
    """

    open: int
    started: int
    dropped: int
    failed: int
    redacted: Mapping[str, int] = field(default_factory=dict)
    redaction_failures: Mapping[str, int] = field(default_factory=dict)


def _guarded(hook: _Hook) -> _Hook:
    """Keep our own failures out of the application: log each kind once, and go on."""

    @functools.wraps(hook)
    def call(self: "OtelCallbackHandler", *args: Any, **kwargs: Any) -> None:
        try:
            hook(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the application must not notice
            self._report(hook.__name__, error)

    return call  # type: ignore[return-value]


class OtelCallbackHandler(_Base):
    """Turn every chain, model, tool and retriever run into an OpenTelemetry span.

    Thread-safe; one handler serves a whole application, sync and async. A run that is reported
    twice (the handler attached in two places) gives one span. Content is redacted before it
    becomes an attribute, so no processor or exporter ever holds the original.

    Args:
        tracer_provider: Where spans go; the one `configure` made, else OpenTelemetry's global one.
        redactor: What is taken out of every text. None reads ``OTELCHAIN_REDACTION``, which names
            a policy file or a preset; the preset ``personal`` where that is not set.
        capture_content: False records no inputs, outputs, documents or error texts, only names,
            ids, counts, tokens and times. None reads ``OTELCHAIN_CAPTURE_CONTENT``.
        run_inline: True runs the hooks in the caller's thread, also under async, where LangChain
            otherwise spends about 250 µs per event on a thread hop. langchain-core then does not
            call ``on_llm_start`` of *other*, non-inline handlers for plain (non-chat) models that
            are called async; pass False if you depend on such a handler.
        meter_provider: Where the metrics of the GenAI conventions and the handler's own counts go;
            no metrics when None.
        logger_provider: Where the log events of the GenAI conventions go, tied to the run's span:
            each model call with its details, exceptions, rubric verdicts; with the content that
            the span has. No events when None.
        openinference: Write OpenInference's attributes too, so that Phoenix shows the spans as its
            own. None reads ``OTELCHAIN_OPENINFERENCE``.
        payload_store: Keeps inputs and outputs beyond the budgets, whole and redacted. None reads
            ``OTELCHAIN_PAYLOAD_DIRECTORY``; without that, what was cut is gone.

    Raises:
        ConfigurationError: An ``OTELCHAIN_*`` variable cannot be read; or OpenTelemetry is too old
            for a ``logger_provider``.
        RedactionPolicyError: The policy that ``OTELCHAIN_REDACTION`` names cannot be used.

    Example:
        ``chain.with_config(callbacks=[OtelCallbackHandler()])``
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        *,
        redactor: Redactor | None = None,
        capture_content: bool | None = None,
        run_inline: bool = True,
        meter_provider: MeterProvider | None = None,
        logger_provider: "LoggerProvider | None" = None,
        openinference: bool | None = None,
        payload_store: PayloadStore | None = None,
    ) -> None:
        settings = HandlerSettings.from_environment()
        if openinference is not None:
            settings = replace(settings, openinference=openinference)
        capture = settings.capture_content if capture_content is None else capture_content
        self.run_inline = run_inline
        self._reported: set[str] = set()
        if payload_store is None and settings.payload_directory:
            payload_store = store_in(settings.payload_directory)
        gate = ContentGate(
            redactor or loading.load(settings.redaction),
            capture=capture,
            max_value_bytes=settings.max_value_bytes,
            store=payload_store,
        )
        # Kept: the table of open runs lives as long as its provider, which a tracer does not hold.
        self._provider = tracer_provider or current_provider()
        tracer = self._provider.get_tracer("otelchain", __version__)
        runs = lifetime.table_of(self._provider)
        self._recorder = RunRecorder(tracer, gate, runs, settings, meter_provider, logger_provider)

    def stats(self) -> HandlerStats:
        """Count what this handler has seen and lost, since it was made."""
        redacted = self._recorder.gate.redactor.counts()
        return HandlerStats(
            **self._recorder.counts(),
            redacted=redacted.findings,
            redaction_failures=redacted.failures,
        )

    # --- chains, prompts, parsers, graphs and their nodes -------------------------------------

    # The hooks of every chain and chat model guard themselves: passing the keywords on once more
    # takes 2 µs of CPU a pair.
    def on_chain_start(self, serialized: Any, inputs: Any, **event: Any) -> None:
        """Start a run of any type that LangChain reports as a chain."""
        try:
            self._start_chain(serialized, inputs, event)
        except Exception as error:  # noqa: BLE001 - the application must not notice
            self._report("on_chain_start", error)

    def _start_chain(self, serialized: Any, inputs: Any, event: Mapping[str, Any]) -> None:
        start = run_start(event.get("run_type") or "chain", serialized, event)
        runnable = telling_runnable()
        if runnable is not None:
            start = start._replace(runnable=runnable)
        if is_answer(inputs):
            start = start._replace(answers=True)

        def payload(gate: ContentGate) -> Attributes:
            # A stream's input is a placeholder here; the real one comes with the end.
            deferred = event.get("defers_inputs")
            found = {} if deferred else payloads.chain_input(gate, inputs)
            if start.run_type == "prompt":
                found.update(payloads.template(gate, serialized))
            return found

        self._recorder.start(start, payload)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **event: Any) -> None:
        """End a run; a graph that paused for a human ends as interrupted."""
        try:
            self._recorder.end(
                run_id,
                lambda gate: _deferred_input(gate, event) | payloads.chain_output(gate, outputs),
            )
        except Exception as error:  # noqa: BLE001 - the application must not notice
            self._report("on_chain_end", error)

    @_guarded
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **event: Any) -> None:
        """End a run that raised; control flow is told apart from failure."""
        self._recorder.fail(
            run_id,
            error,
            lambda gate: _deferred_input(gate, event) | graph_facts.goto_of_error(gate, error),
        )

    # --- models -------------------------------------------------------------------------------

    def on_chat_model_start(self, serialized: Any, messages: Any, **event: Any) -> None:
        """Start a chat model's run; LangChain calls this once per list of messages."""
        try:
            self._start_chat_model(serialized, messages, event)
        except Exception as error:  # noqa: BLE001 - the application must not notice
            self._report("on_chat_model_start", error)

    def _start_chat_model(self, serialized: Any, messages: Any, event: Mapping[str, Any]) -> None:
        start = run_start("chat_model", serialized, event)
        self._recorder.start(
            start,
            lambda gate: payloads.prompt(
                gate, start, (message_json(one) for group in messages for one in group)
            ),
        )

    @_guarded
    def on_llm_start(self, serialized: Any, prompts: list[str], **event: Any) -> None:
        """Start a text completion model's run; LangChain calls this once per prompt."""
        start = run_start("llm", serialized, event)
        self._recorder.start(
            start, lambda gate: payloads.prompt(gate, start, map(prompt_json, prompts))
        )

    @_guarded
    def on_llm_new_token(self, token: Any, *, run_id: UUID, **event: Any) -> None:
        """Note when the first token came, and the usage that a chunk carries."""
        self._recorder.chunk(run_id, event.get("chunk"))

    @_guarded
    def on_stream_event(self, event: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Note when the first content came, and the usage; v3 streams report no tokens."""
        if isinstance(event, Mapping):
            kind = event.get("event")
            self._recorder.chunk(run_id, event, content=kind == "content-block-delta")
            manager = run_manager() if kind == "message-start" else None
            if manager is not None:
                boundary.end_with(manager, run_id)

    def on_llm_end(self, response: Any, *, run_id: UUID, **event: Any) -> None:
        """End a model's run with its answer, usage and finish reasons."""
        try:
            self._recorder.end(run_id, lambda gate: payloads.answer(gate, response))
        except Exception as error:  # noqa: BLE001 - the application must not notice
            self._report("on_llm_end", error)

    @_guarded
    def on_llm_error(self, error: BaseException, *, run_id: UUID, **event: Any) -> None:
        """End a model's run that raised, with what it had answered so far."""
        response = event.get("response")
        partial = response is not None and any(response.generations)
        self._recorder.fail(
            run_id, error, lambda gate: payloads.answer(gate, response) if partial else {}
        )

    # --- tools --------------------------------------------------------------------------------

    @_guarded
    def on_tool_start(self, serialized: Any, input_str: str, **event: Any) -> None:
        """Start a tool's run."""
        arguments = input_str if event.get("inputs") is None else event["inputs"]
        call_id = event.get("tool_call_id")
        self._recorder.start(
            run_start("tool", serialized, event),
            lambda gate: payloads.tool_call(gate, arguments, call_id, serialized),
        )

    @_guarded
    def on_tool_end(self, output: Any, *, run_id: UUID, **event: Any) -> None:
        """End a tool's run; an error that the tool handed back as its result is told apart."""
        handled = getattr(output, "status", None) == "error"
        self._recorder.end(
            run_id,
            lambda gate: payloads.tool_result(gate, output),
            status.HANDLED_ERROR if handled else status.OK,
        )

    @_guarded
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **event: Any) -> None:
        """End a tool's run that raised."""
        self._recorder.fail(run_id, error)

    # --- retrievers ---------------------------------------------------------------------------

    @_guarded
    def on_retriever_start(self, serialized: Any, query: str, **event: Any) -> None:
        """Start a retriever's run."""
        self._recorder.start(
            run_start("retriever", serialized, event), lambda gate: payloads.query(gate, query)
        )
        manager = manager_of_retriever()
        if manager is not None:
            boundary.end_with(manager, event["run_id"])

    @_guarded
    def on_retriever_end(self, documents: Sequence[Any], *, run_id: UUID, **event: Any) -> None:
        """End a retriever's run with its documents; their number, ids and scores are no content."""
        self._recorder.end(run_id, lambda gate: payloads.documents(gate, documents))

    @_guarded
    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **event: Any) -> None:
        """End a retriever's run that raised."""
        self._recorder.fail(run_id, error)

    # --- what happens inside a run: span events -----------------------------------------------

    @_guarded
    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **event: Any) -> None:
        """Note an event that the application dispatched."""
        self._recorder.note(run_id, name, lambda gate: payloads.event(gate, data))

    @_guarded
    def on_retry(self, retry_state: Any, *, run_id: UUID, **event: Any) -> None:
        """Note a retry inside a legacy model; other retries are runs of their own."""
        attempt = int(getattr(retry_state, "attempt_number", 0))
        self._recorder.note(run_id, names.RETRY_EVENT, lambda _: {names.RETRY_ATTEMPT: attempt})

    @_guarded
    def on_text(self, text: str, *, run_id: UUID, **event: Any) -> None:
        """Note a text that a legacy chain reported."""
        self._recorder.note(run_id, names.TEXT_EVENT, lambda gate: payloads.event(gate, text))

    @_guarded
    def on_agent_action(self, action: Any, *, run_id: UUID, **event: Any) -> None:
        """Note what a legacy agent decided to do."""
        name = names.AGENT_ACTION_EVENT
        self._recorder.note(run_id, name, lambda gate: payloads.event(gate, action))

    @_guarded
    def on_agent_finish(self, finish: Any, *, run_id: UUID, **event: Any) -> None:
        """Note how a legacy agent finished."""
        name = names.AGENT_FINISH_EVENT
        self._recorder.note(run_id, name, lambda gate: payloads.event(gate, finish))

    @_guarded
    def on_interrupt(self, event: Any) -> None:
        """Mark a graph's run as waiting for a human (`langgraph.callbacks`)."""
        if event.run_id is not None:
            self._recorder.interrupt(event.run_id, event)

    @_guarded
    def on_resume(self, event: Any) -> None:
        """Mark a graph's run as the continuation of an interrupted one (`langgraph.callbacks`)."""
        if event.run_id is not None:
            self._recorder.resume(event.run_id, event)

    def _report(self, hook: str, error: Exception) -> None:
        self._recorder.failed += 1
        name = self._recorder.gate.fact(names.ERROR_TYPE, type(error).__name__)
        kind = f"{hook}: {name}"
        if kind not in self._reported:
            self._reported.add(kind)
            # The text of the error may hold content of the application.
            _log.error("otelchain could not record a run (%s); the application goes on", kind)


def _deferred_input(gate: ContentGate, event: Mapping[str, Any]) -> Attributes:
    return payloads.chain_input(gate, event["inputs"]) if "inputs" in event else {}


if _Base is not BaseCallbackHandler:
    from langchain_core.tracers.base import BaseTracer

    # LangGraph gives a node's TracePolicy-reduced payload to tracers only, which it tells by this
    # class. We are one, without its costs: subclassing would add 70 µs and more to every pair.
    BaseTracer.register(OtelCallbackHandler)
