"""The tracers that the kit knows, and how each is attached, switched off and masked.

Imports happen when a tracer is attached, so only what is installed has to be there.
"""

import importlib
import importlib.util
import itertools
import os
from collections.abc import Callable
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otelchain.conformance.subject import Attached, Mask, Options, Subject
from otelchain.errors import OtelchainError

_GENAI_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_GENAI_STABILITY = "OTEL_SEMCONV_STABILITY_OPT_IN"
_client_numbers = itertools.count()
_MODULES = {
    "openinference": "openinference.instrumentation.langchain",
    "openllmetry": "opentelemetry.instrumentation.langchain",
    "official": "opentelemetry.instrumentation.genai.langchain",
    "langfuse": "langfuse.langchain",
}


class UnknownTracerError(OtelchainError):
    """No tracer is known by a name, or it is not installed."""


# --- otelchain ---------------------------------------------------------------------------------


def _otelchain_handler(provider: TracerProvider, options: Options) -> Attached:
    handler = _make_handler(provider, options)
    return Attached(_nothing, handler, _otelchain_open)


def _nothing() -> None:
    """A handler that is passed along needs no detaching."""


def _make_handler(provider: TracerProvider, options: Options) -> Any:
    from otelchain import OtelCallbackHandler

    return OtelCallbackHandler(provider, **_otelchain_options(options))


def _otelchain_options(options: Options) -> dict[str, Any]:
    from otelchain import Redactor

    redactor = Redactor(callables=[options.mask]) if options.mask else None
    return {"redactor": redactor, "capture_content": options.content}


def _otelchain_nested(provider: TracerProvider, options: Options) -> Attached:
    from otelchain import instrument, uninstrument

    settings = _otelchain_options(options)
    instrument(tracer_provider=provider, nested_spans=True, **settings)
    handler = _make_handler(provider, options) if options.both_ways else None
    return Attached(uninstrument, handler, _otelchain_open)


def _otelchain_open(handler: BaseCallbackHandler) -> int:
    from otelchain import OtelCallbackHandler

    assert isinstance(handler, OtelCallbackHandler)
    return handler.stats().open


# --- OpenInference -----------------------------------------------------------------------------

_OPENINFERENCE_HIDE = (
    "hide_llm_invocation_parameters",
    "hide_llm_tools",
    "hide_inputs",
    "hide_outputs",
    "hide_input_messages",
    "hide_output_messages",
    "hide_input_text",
    "hide_output_text",
    "hide_prompts",
    "hide_choices",
    "hide_retrieval_documents",
)


def _openinference(provider: TracerProvider, options: Options) -> Attached:
    hidden = {} if options.content else dict.fromkeys(_OPENINFERENCE_HIDE, True)
    config = _import("openinference.instrumentation").TraceConfig(**hidden)
    instrumentor = _import(_MODULES["openinference"]).LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=provider, config=config)
    return Attached(
        instrumentor.uninstrument,
        open_runs=lambda handler: _sizes(handler, "_spans_by_run", "run_map"),
    )


# --- OpenLLMetry -------------------------------------------------------------------------------


def _openllmetry(provider: TracerProvider, options: Options) -> Attached:
    instrumentor = _import(_MODULES["openllmetry"]).LangchainInstrumentor()
    restore = _environment(TRACELOOP_TRACE_CONTENT="true" if options.content else "false")
    instrumentor.instrument(tracer_provider=provider)
    return Attached(
        _both(instrumentor.uninstrument, restore),
        open_runs=lambda handler: _sizes(handler, "spans"),
    )


# --- the official OpenTelemetry instrumentation ---------------------------------------------------


def _official(provider: TracerProvider, options: Options) -> Attached:
    restore = _environment(
        **{
            _GENAI_CONTENT: "SPAN_ONLY" if options.content else "NO_CONTENT",
            _GENAI_STABILITY: "gen_ai_latest_experimental",
        }
    )
    instrumentor = _import(_MODULES["official"]).LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    return Attached(
        _both(instrumentor.uninstrument, restore),
        open_runs=lambda handler: _sizes(handler, "_invocation_manager._invocations"),
    )


# --- Langfuse ----------------------------------------------------------------------------------


def _langfuse(provider: TracerProvider, options: Options) -> Attached:
    mask = options.mask if options.content else _stars
    # A client is kept for each public key; a probe needs one of its own.
    key = f"pk-conformance-{next(_client_numbers)}"
    client = _import("langfuse").Langfuse(
        public_key=key,
        secret_key="sk-conformance",  # noqa: S106 - reaches no server
        tracer_provider=provider,
        span_exporter=InMemorySpanExporter(),
        mask=_langfuse_mask(mask) if mask else None,
    )
    tables = ("_runs", "_context_tokens", "_run_states", "_root_run_states")
    return Attached(
        client.shutdown,
        _import(_MODULES["langfuse"]).CallbackHandler(public_key=key),
        lambda handler: _sizes(handler, *tables),
    )


def _stars(text: str) -> str:  # noqa: ARG001 - a mask
    return "***"


def _langfuse_mask(mask: Mask) -> Callable[..., Any]:
    """Langfuse hands whole trees over; a tracer's mask sees texts."""

    def masked(value: Any) -> Any:
        if isinstance(value, str):
            return mask(value)
        if isinstance(value, dict):
            return {key: masked(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [masked(inner) for inner in value]
        return value

    return lambda *, data, **_: masked(data)


# --- what they share -----------------------------------------------------------------------------


def _import(module: str) -> Any:
    """Import a module that the type checkers need not have."""
    return importlib.import_module(module)


def _sizes(handler: Any, *tables: str) -> int:
    total = 0
    for table in tables:
        found = handler
        for name in table.split("."):
            found = getattr(found, name)
        total += len(found)
    return total


def _environment(**variables: str) -> Callable[[], None]:
    """Set variables; returns what sets them back."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)

    def restore() -> None:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    return restore


def _both(first: Callable[..., Any], second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        try:
            first()
        finally:
            second()

    return call


_OPT_IN = "nested spans are opt-in: see the column otelchain"
# No callback can see these; what nests the spans does.

KNOWN = (
    Subject(
        "otelchain",
        _otelchain_nested,
        ("otelchain",),
        masks=True,
        both_ways=True,
    ),
    Subject(
        "otelchain-handler",
        _otelchain_handler,
        ("otelchain",),
        declined={
            "nesting": _OPT_IN,
        },
        masks=True,
    ),
    Subject("openinference", _openinference, ("openinference-instrumentation-langchain",)),
    Subject("openllmetry", _openllmetry, ("opentelemetry-instrumentation-langchain",)),
    Subject("official", _official, ("opentelemetry-instrumentation-genai-langchain",)),
    Subject("langfuse", _langfuse, ("langfuse",), masks=True),
)


def installed() -> list[Subject]:
    """The known tracers that can be imported here."""
    return [subject for subject in KNOWN if _is_installed(subject.name)]


def find(name: str) -> Subject:
    """Find a tracer by its name, or make one of ``module:factory``.

    A factory takes the TracerProvider and returns the callback handler.

    Raises:
        UnknownTracerError: There is no such tracer here.
    """
    if ":" in name:
        return Subject(name, _of_factory(name))
    for subject in KNOWN:
        if subject.name == name:
            if not _is_installed(name):
                raise UnknownTracerError(
                    f"{name} cannot be tried: install {' '.join(subject.distributions)}"
                )
            return subject
    known = ", ".join(subject.name for subject in KNOWN)
    raise UnknownTracerError(f"no tracer is named {name!r}; known: {known}, or MODULE:FACTORY")


def preload(subject: Subject) -> None:
    """Import what attaching a tracer imports, once for all the processes forked from this one."""
    importlib.import_module(_MODULES.get(subject.name, "otelchain.handler"))


def _of_factory(name: str) -> Callable[[TracerProvider, Options], Attached]:
    module, _, attribute = name.partition(":")
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UnknownTracerError(f"{name} cannot be imported: {error}") from error

    def attach(provider: TracerProvider, options: Options) -> Attached:  # noqa: ARG001
        return Attached(_nothing, factory(provider))

    return attach


def _is_installed(name: str) -> bool:
    module = _MODULES.get(name)
    if module is None:
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
