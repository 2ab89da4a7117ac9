"""`instrument`: trace every LangChain run of the process without touching its code."""

import functools
import logging
import sys
from typing import Any

from langchain_core.tracers.context import register_configure_hook

from otelchain.errors import ConfigurationError, OtelchainError
from otelchain.handler import OtelCallbackHandler
from otelchain.nesting import nest_spans, unnest_spans
from otelchain.settings import HandlerSettings

_log = logging.getLogger("otelchain")

# Modules of other tracers for LangChain: whoever has loaded one has most likely switched it on.
_OTHER_TRACERS = {
    "langfuse.langchain": "Langfuse",
    "openinference.instrumentation.langchain": "OpenInference",
    "openlit.instrumentation.langchain": "OpenLIT",
    "opentelemetry.instrumentation.genai.langchain": "the OpenTelemetry GenAI instrumentation",
    "opentelemetry.instrumentation.langchain": "OpenLLMetry",
}


_CONFIGURE = "_configure_graph_callbacks"  # of langgraph.callbacks


class _Installed:
    """What LangChain asks for a handler whenever it configures callbacks.

    LangChain wants a ContextVar here and calls only its ``get``. A ContextVar's value set in one
    context is not seen by a new thread, and its default cannot be taken back by `uninstrument`.
    """

    handler: OtelCallbackHandler | None = None
    registered = False
    warned = False

    def get(self) -> OtelCallbackHandler | None:
        return self.handler


_installed = _Installed()


def instrument(
    *, nested_spans: bool | None = None, **handler_arguments: Any
) -> OtelCallbackHandler:
    """Attach one handler to every LangChain run of this process, in every thread and task.

    Together with ``with_config(callbacks=[…])`` there is still one span per run.

    Args:
        nested_spans: Also call `nest_spans`, so that HTTP and database spans hang under their run.
            None reads ``OTELCHAIN_NESTED_SPANS``.
        handler_arguments: What `OtelCallbackHandler` takes.

    Returns:
        The handler, for its ``stats()``.

    Raises:
        ConfigurationError: It is on already with another handler; call `uninstrument` first.
        RedactionPolicyError: The policy that ``OTELCHAIN_REDACTION`` names cannot be used.
    """
    if _installed.handler is not None:
        if handler_arguments:
            raise ConfigurationError(
                "instrument() is on already; call uninstrument() before instrument() with arguments"
            )
        return _installed.handler
    handler = OtelCallbackHandler(**handler_arguments)
    wanted = (
        HandlerSettings.from_environment().nested_spans if nested_spans is None else nested_spans
    )
    if wanted:
        nest_spans()
    _installed.handler = handler
    if not _installed.registered:
        # Inheritable: children get it from their parent's manager. LangChain skips it where a
        # handler of this class is attached already.
        register_configure_hook(_installed, True, OtelCallbackHandler)  # type: ignore[arg-type]
        _installed.registered = True
    _attach_to_graphs()
    _name_other_tracers()
    return handler


def uninstrument() -> None:
    """Stop attaching the handler; runs that are open still end."""
    _installed.handler = None
    _detach_from_graphs()
    unnest_spans()


def _attach_to_graphs() -> None:
    """Have LangGraph tell the handler of interrupts and resumes.

    It tells those in the config of a call only; a breakpoint shows nowhere else.
    """
    graphs = _graph_callbacks()
    original = getattr(graphs, _CONFIGURE, None)
    if original is None or hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def configure_graph_callbacks(*args: Any, **kwargs: Any) -> Any:
        manager = original(*args, **kwargs)
        handler = _installed.handler
        if handler and not any(isinstance(each, OtelCallbackHandler) for each in manager.handlers):
            manager.add_handler(handler, True)
        return manager

    setattr(graphs, _CONFIGURE, configure_graph_callbacks)


def _detach_from_graphs() -> None:
    graphs = _graph_callbacks()
    wrapped: Any = getattr(graphs, _CONFIGURE, None)
    if hasattr(wrapped, "__wrapped__"):
        setattr(graphs, _CONFIGURE, wrapped.__wrapped__)


def _graph_callbacks() -> Any:
    try:
        from langgraph import callbacks
    except ImportError:
        return None
    return callbacks


def _name_other_tracers() -> None:
    """Say once who else traces LangChain here: two tracers give every run twice."""
    found = sorted(name for module, name in _OTHER_TRACERS.items() if module in sys.modules)
    if found and not _installed.warned:
        _installed.warned = True
        _log.warning(
            "LangChain runs are traced by %s as well: where both send to the same place, every run "
            "is there twice",
            " and ".join(found),
        )


class OtelchainInstrumentor:
    """What ``opentelemetry-instrument`` finds under the entry point ``otelchain``.

    It calls `instrument` with the global providers in place. ``OTELCHAIN_NESTED_SPANS=true`` adds
    nested spans. Where a setting or the redaction policy cannot be used, LangChain is not traced
    and one error says why: an application that is started so must not break, and nothing may be
    sent that no policy has seen.
    """

    def instrument(self, **options: Any) -> None:
        """Call `instrument` with the providers of the options: tracer, meter and logger."""
        providers = {
            name: options[name]
            for name in ("tracer_provider", "meter_provider", "logger_provider")
            if options.get(name) is not None
        }
        try:
            instrument(**providers)
        except OtelchainError as error:
            _log.error("otelchain does not trace LangChain runs by itself: %s", error)

    def uninstrument(self, **options: Any) -> None:  # noqa: ARG002 - the caller's signature
        """Call `uninstrument`."""
        uninstrument()
