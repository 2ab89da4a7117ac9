"""`configure`: a TracerProvider that sends spans to a collector in batches, and flushes at exit."""

import atexit
import functools
import logging
import os
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SimpleSpanProcessor,
    SpanExporter,
)

from otelchain import lifetime
from otelchain.errors import ConfigurationError
from otelchain.live import LiveRuns
from otelchain.redaction import loading
from otelchain.settings import HandlerSettings
from otelchain.spool.settings import SpoolSettings

_log = logging.getLogger("otelchain")

_PROTOCOLS = ("http/protobuf", "grpc")
_ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_TRACES_PATH = "/v1/traces"
_LIVE_SCHEDULE_DELAY_MS = 500
# The SDK's 2,048 are 512 chains of four runs; 16 threads make more between two exports, and what
# does not fit is dropped. A span with content weighs about 5 KB here: 80 MB at the most.
_QUEUED_SPANS = 16_384

# The last provider that configure() made, and what it was asked for.
_configured: tuple[dict[str, Any], TracerProvider] | None = None


def configure(
    service_name: str | None = None,
    endpoint: str | None = None,
    *,
    protocol: str | None = None,
    headers: Mapping[str, str] | None = None,
    resource_attributes: Mapping[str, str] | None = None,
    set_global: bool = True,
    spool: str | Path | None = None,
    spool_max_bytes: int | None = None,
    live: bool | None = None,
) -> TracerProvider:
    """Make a TracerProvider whose spans go to a collector, in batches, and are flushed at exit.

    Every standard ``OTEL_*`` variable is honoured by the OpenTelemetry parts used here; an argument
    wins over its variable. The handlers made afterwards use this provider unless they are given
    another. Called again with the same arguments (a notebook cell run twice), it returns the same
    provider.

    Args:
        service_name: The resource's ``service.name``; else ``OTEL_SERVICE_NAME`` or
            ``OTEL_RESOURCE_ATTRIBUTES``.
        endpoint: Base address of the collector, such as ``http://127.0.0.1:4318``; for HTTP,
            ``/v1/traces`` is added as for ``OTEL_EXPORTER_OTLP_ENDPOINT``. Default: the variables,
            then ``http://localhost:4318`` (``4317`` for gRPC).
        protocol: ``http/protobuf`` (the default) or ``grpc``; else
            ``OTEL_EXPORTER_OTLP_TRACES_PROTOCOL`` or ``OTEL_EXPORTER_OTLP_PROTOCOL``.
        headers: Sent with every export, an authorization token for example.
        resource_attributes: More about the service, such as ``{"service.version": "1.2"}``.
        set_global: Make this OpenTelemetry's global provider too, if there is none yet, so that
            the spans of other instrumentations go the same way.
        spool: Directory on a local disk where spans wait, as files that only this user can read,
            while the collector takes none; else ``OTELCHAIN_SPOOL``. They are sent when it is back,
            in order, by this process or by the next one with the same directory. Processes may
            share it. Without a spool, spans are lost after about 7 seconds.
        spool_max_bytes: Most bytes that wait, for each process; beyond it the oldest batch is
            dropped. Else ``OTELCHAIN_SPOOL_MAX_BYTES``, then 256 MiB.
        live: Send runs already while they are open, so that the otelchain collector shows what runs
            now and, after a crash, what was running; else ``OTELCHAIN_LIVE_RUNS``. Other backends
            would take an open run for one more span.

    Raises:
        ConfigurationError: An argument or variable has a value that cannot be used, or the spool's
            directory cannot be written.
        RedactionPolicyError: The policy that ``OTELCHAIN_REDACTION`` names cannot be used.
    """
    global _configured
    settings = SpoolSettings.of(spool, spool_max_bytes)
    from_environment = HandlerSettings.from_environment()
    if from_environment.redaction:
        loading.load(from_environment.redaction)  # refused before there is a way out
    if live is None:
        live = from_environment.live_runs
    asked = {
        "service_name": service_name,
        "endpoint": endpoint,
        "protocol": protocol,
        "headers": dict(headers or {}),
        "resource_attributes": dict(resource_attributes or {}),
        "spool": settings,
        "live": live,
        "set_global": set_global,
    }
    if _configured is not None and _configured[0] == asked:
        return _configured[1]
    # No atexit hook of its own: open runs have to be ended before it shuts down.
    provider = _ConfiguredProvider(
        resource=_resource(service_name, resource_attributes), shutdown_on_exit=False
    )
    make_exporter = functools.partial(_otlp_exporter, endpoint, protocol, headers)
    _add_exporter(provider, endpoint, make_exporter, settings, live)
    atexit.register(_end_and_shut_down, weakref.ref(provider))
    _configured = (asked, provider)
    if set_global and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        trace.set_tracer_provider(provider)
    return provider


class _ConfiguredProvider(TracerProvider):
    """The provider of `configure`; after its shutdown the same call makes a new one."""

    def shutdown(self) -> None:
        global _configured
        if _configured is not None and _configured[1] is self:
            _configured = None
        super().shutdown()


def current_provider() -> trace.TracerProvider:
    """Return the provider that `configure` made last, else OpenTelemetry's global one."""
    return trace.get_tracer_provider() if _configured is None else _configured[1]


def _resource(service_name: str | None, more: Mapping[str, str] | None) -> Resource:
    attributes = dict(more or {})
    if service_name:
        attributes[SERVICE_NAME] = service_name
    return Resource.create(attributes)


def _add_exporter(
    provider: TracerProvider,
    endpoint: str | None,
    make_exporter: Callable[[], SpanExporter],
    spool: SpoolSettings,
    live: bool,
) -> None:
    """Do what ``OTEL_TRACES_EXPORTER`` says; naming an endpoint says otlp."""
    wanted = "otlp" if endpoint else os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip()
    for name in dict.fromkeys(part.strip() for part in (wanted or "otlp").split(",")):
        if name == "otlp":
            exporter = _spooling(make_exporter(), spool)
            delay_ms = _schedule_delay_ms(live)
            provider.add_span_processor(
                BatchSpanProcessor(
                    exporter, max_queue_size=_queue_size(), schedule_delay_millis=delay_ms
                )
            )
            if live:
                provider.add_span_processor(LiveRuns(make_exporter))
        elif name == "console":
            provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
        elif name != "none":
            raise ConfigurationError(
                f"OTEL_TRACES_EXPORTER must be otlp, console or none, not {name!r}"
            )


def _queue_size() -> int | None:
    if os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE"):
        return None  # the SDK reads the variable
    return _QUEUED_SPANS


def _schedule_delay_ms(live: bool) -> int | None:
    """With live runs, send ended spans soon, or they would look pending for the SDK's 5 seconds."""
    if not live or os.environ.get("OTEL_BSP_SCHEDULE_DELAY"):
        return None  # the SDK reads the variable
    return _LIVE_SCHEDULE_DELAY_MS


def _spooling(exporter: SpanExporter, settings: SpoolSettings) -> SpanExporter:
    if not settings.directory:
        return exporter
    from otelchain.spool.exporter import SpoolingExporter
    from otelchain.spool.files import Spool

    return SpoolingExporter(exporter, Spool(Path(settings.directory), settings.max_bytes))


def _otlp_exporter(
    endpoint: str | None, protocol: str | None, headers: Mapping[str, str] | None
) -> SpanExporter:
    options: dict[str, Any] = {"headers": dict(headers)} if headers else {}
    chosen = _protocol(protocol)
    _check_scheme("endpoint", endpoint)
    if chosen == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
            OTLPSpanExporter as GrpcExporter,
        )

        return GrpcExporter(endpoint=endpoint, **options)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
        OTLPSpanExporter as HttpExporter,
    )

    return HttpExporter(endpoint=_traces_address(endpoint), **options)


def _protocol(protocol: str | None) -> str:
    chosen = (
        protocol
        or os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
        or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or _PROTOCOLS[0]
    ).strip()
    if chosen not in _PROTOCOLS:
        raise ConfigurationError(
            f"the OTLP protocol must be one of {', '.join(_PROTOCOLS)}, not {chosen!r}"
        )
    return chosen


def _check_scheme(source: str, endpoint: str | None) -> None:
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{source} must start with http:// or https://, not {endpoint!r}; "
            "for example http://127.0.0.1:4318"
        )


def _traces_address(endpoint: str | None) -> str | None:
    if endpoint is None:
        for variable in _ENDPOINT_VARIABLES:
            _check_scheme(variable, os.environ.get(variable, "").strip())
        return None  # the exporter reads the variables
    base = endpoint.rstrip("/")
    return base if base.endswith(_TRACES_PATH) else base + _TRACES_PATH


def _end_and_shut_down(provider: "weakref.ref[TracerProvider]") -> None:
    lifetime.end_all()
    alive = provider()
    if alive is not None:
        alive.shutdown()
