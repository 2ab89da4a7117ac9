"""`configure`: which exporter, which resource, what is flushed at exit."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NoOpTracerProvider

import otelchain.provider
from otelchain import ConfigurationError, OtelCallbackHandler, configure


@pytest.fixture(autouse=True)
def _forget_the_last_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otelchain.provider, "_configured", None)


def configured(**arguments: Any) -> TracerProvider:
    return configure(set_global=False, **arguments)


def exporter_of(provider: TracerProvider) -> Any:
    (processor,) = provider._active_span_processor._span_processors
    return processor._batch_processor._exporter  # type: ignore[attr-defined]


def test_the_default_is_http_protobuf_to_the_local_collector() -> None:
    exporter = exporter_of(configured())

    assert isinstance(exporter, HttpExporter)
    assert exporter._endpoint == "http://localhost:4318/v1/traces"


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("http://127.0.0.1:9", "http://127.0.0.1:9/v1/traces"),
        ("http://127.0.0.1:9/", "http://127.0.0.1:9/v1/traces"),
        ("http://127.0.0.1:9/v1/traces", "http://127.0.0.1:9/v1/traces"),
        ("https://otlp.example/base", "https://otlp.example/base/v1/traces"),
    ],
)
def test_an_endpoint_is_a_base_address(endpoint: str, address: str) -> None:
    assert exporter_of(configured(endpoint=endpoint))._endpoint == address


def test_grpc_is_chosen_by_argument() -> None:
    exporter = exporter_of(configured(endpoint="http://127.0.0.1:9", protocol="grpc"))

    assert isinstance(exporter, GrpcExporter)
    assert exporter._endpoint == "127.0.0.1:9"


@pytest.mark.parametrize(
    "variable", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"]
)
def test_grpc_is_chosen_by_variable(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "grpc")

    assert isinstance(exporter_of(configured()), GrpcExporter)


def test_standard_variables_of_exporter_resource_and_sampler_are_honoured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "from-variable")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    provider = configured()

    exporter = exporter_of(provider)
    assert exporter._endpoint == "http://127.0.0.1:9/v1/traces"
    assert provider.resource.attributes["service.name"] == "from-variable"
    assert provider.resource.attributes["deployment.environment.name"] == "test"
    assert not provider.get_tracer("x").start_span("x").is_recording()


def test_arguments_win_over_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "from-variable")
    provider = configured(service_name="mine", resource_attributes={"service.version": "2"})

    assert provider.resource.attributes["service.name"] == "mine"
    assert provider.resource.attributes["service.version"] == "2"


@pytest.mark.parametrize(
    ("value", "processors"), [("none", 0), ("console", 1), ("otlp,console", 2)]
)
def test_the_standard_exporter_variable_is_honoured(
    value: str, processors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", value)

    assert len(configured()._active_span_processor._span_processors) == processors


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        ({"endpoint": "127.0.0.1:4318"}, {}, "endpoint must start with http:// or https://"),
        ({"protocol": "http/json"}, {}, "must be one of http/protobuf, grpc, not 'http/json'"),
        ({}, {"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER must be otlp, console or"),
        ({}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "tcp"}, "not 'tcp'"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(
    arguments: dict[str, str],
    variables: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(ConfigurationError, match=message):
        configured(**arguments)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTELCHAIN_CAPTURE_CONTENT", "maybe"),
        ("OTELCHAIN_MAX_VALUE_BYTES", "64k"),
        ("OTELCHAIN_MAX_OPEN_RUNS", "0"),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "some"),
    ],
)
def test_a_setting_that_cannot_be_read_is_named(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, tracer_provider: TracerProvider
) -> None:
    monkeypatch.setenv(variable, value)

    with pytest.raises(ConfigurationError, match=f"{variable} must be .*{value}"):
        OtelCallbackHandler(tracer_provider)


def test_the_same_call_again_gives_the_same_provider() -> None:
    assert configured(service_name="a") is configured(service_name="a")
    assert configured(service_name="a") is not configured(service_name="b")


class Sink:
    """A receiver that keeps what a client sends."""

    def __init__(self) -> None:
        self.address = ""
        self.authorizations: list[str | None] = []
        self.requests: list[ExportTraceServiceRequest] = []

    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture(name="sink")
def _sink() -> Iterator[Sink]:
    sink = Sink()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sink.requests.append(ExportTraceServiceRequest.FromString(body))
            sink.authorizations.append(self.headers["authorization"])
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sink.address = f"http://127.0.0.1:{server.server_port}"
    yield sink
    server.shutdown()
    server.server_close()


APPLICATION = """
import sys
from uuid import uuid4
from langchain_core.runnables import RunnableLambda
from otelchain import OtelCallbackHandler, configure
{order}
RunnableLambda(str).invoke(1, {{"callbacks": [handler]}})
handler.on_chain_start(None, {{}}, run_id=uuid4(), name="still open")
"""


def run_application(order: str, address: str, after: str = "") -> None:
    script = APPLICATION.format(order=order) + after
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore", "-c", script, address]
    subprocess.run(command, check=True, env=environment, timeout=60)


@pytest.mark.parametrize(
    "order",
    [
        "configure('app', sys.argv[1]); handler = OtelCallbackHandler()",
        "handler = OtelCallbackHandler(configure('app', sys.argv[1]))",
    ],
)
def test_a_process_that_ends_flushes_its_spans_and_ends_its_open_runs(
    order: str, sink: Sink
) -> None:
    run_application(order, sink.address)

    statuses = {
        span.name: attribute.value.string_value
        for span in sink.spans()
        for attribute in span.attributes
        if attribute.key == "otelchain.run.status"
    }
    assert statuses == {"str": "ok", "still open": "abandoned"}


def test_a_forked_child_does_not_end_the_runs_of_its_parent(sink: Sink) -> None:
    run_application(
        "handler = OtelCallbackHandler(configure('app', sys.argv[1]))",
        sink.address,
        "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n",
    )

    assert sorted(span.name for span in sink.spans()) == ["still open", "str"]


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_headers_go_with_every_export(by: str, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"authorization": "Bearer x"} if by == "argument" else None
    if by == "variable":
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x")
    provider = configured(endpoint=sink.address, headers=headers)
    provider.get_tracer("t").start_span("s").end()
    provider.shutdown()

    assert sink.authorizations == ["Bearer x"]


@pytest.mark.parametrize(
    "variable", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]
)
def test_an_endpoint_variable_without_a_scheme_is_named(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "localhost:4318")

    with pytest.raises(ConfigurationError, match=f"{variable} must start with http://"):
        configured()


def test_a_misspelt_variable_is_named_once(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tracer_provider: TracerProvider,
) -> None:
    monkeypatch.setattr("otelchain.settings._named", set())
    monkeypatch.setenv("OTELCHAIN_CAPTUR_CONTENT", "false")
    monkeypatch.setenv("OTELCHAIN_SPOOL_MAX_BYTES", "1000")
    with caplog.at_level("WARNING", "otelchain"):
        OtelCallbackHandler(tracer_provider)
        OtelCallbackHandler(tracer_provider)

    (record,) = caplog.records
    assert record.getMessage() == (
        "nothing reads the variable OTELCHAIN_CAPTUR_CONTENT; "
        "did you mean OTELCHAIN_CAPTURE_CONTENT?"
    )


def test_a_handler_whose_spans_go_nowhere_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    handler = OtelCallbackHandler(NoOpTracerProvider())
    with caplog.at_level("WARNING", "otelchain"):
        for _ in range(2):
            RunnableLambda(str).invoke(1, {"callbacks": [handler]})

    (record,) = caplog.records
    assert "call otelchain.configure()" in record.getMessage()


def test_after_a_shutdown_the_same_call_makes_a_provider_that_works(sink: Sink) -> None:
    first = configured(endpoint=sink.address)
    first.shutdown()
    second = configured(endpoint=sink.address)
    second.get_tracer("t").start_span("after").end()
    second.shutdown()

    assert second is not first
    assert [span.name for span in sink.spans()] == ["after"]


def test_a_burst_larger_than_the_queue_of_the_sdk_is_kept(sink: Sink) -> None:
    provider = configured(endpoint=sink.address)
    tracer = provider.get_tracer("t")
    for _ in range(10_000):
        tracer.start_span("s").end()
    provider.shutdown()

    assert len(sink.spans()) == 10_000
