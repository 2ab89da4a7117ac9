"""The clients that people have: OpenTelemetry's exporters for Python and JavaScript, and curl."""

import gzip
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (
    OTLPMetricExporter as GrpcMetrics,
)
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import (
    OTLPMetricExporter as HttpMetrics,
)
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from collector_process import RunningCollector
from otlp_clients import json_bytes, rows
from otlp_requests import log_record, logs_request, metrics_request, point, request, span

JAVASCRIPT = Path(__file__).parent / "otlp_javascript"
#: They pin other packages than today's opentelemetry-exporter-otlp does, so they have a folder of
#: their own; what they need besides is here.
PYTHON_JSON = (
    "opentelemetry-exporter-otlp-json-http==0.66b1",
    "opentelemetry-exporter-otlp-json-common==0.66b1",
    "opentelemetry-exporter-otlp-common==0.66b1",
    "opentelemetry-exporter-http-transport==0.66b1",
    "opentelemetry-proto-json==0.66b1",
)
SEND_JSON = """
import sys
from opentelemetry.exporter.otlp.json.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=sys.argv[1])))
span = provider.get_tracer("tests").start_span("python json", attributes={"n": 2**53 + 1})
span.end()
provider.shutdown()
"""


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    import collector_process

    folder = tmp_path_factory.mktemp("clients")
    collector = collector_process.start(folder / "t.duckdb", folder / "log")
    yield collector
    collector.kill()


def installed(name: str, content: bytes, install: Callable[[Path], None]) -> Path:
    """Return a folder with what was installed; made once for the same content."""
    digest = hashlib.sha256(content).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"otelchain-tests-{name}-{digest}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as half_done:
            install(Path(half_done) / "whole")
            if not folder.exists():  # another run may have been quicker
                shutil.move(Path(half_done) / "whole", folder)
    return folder


# --- Python ------------------------------------------------------------------------------------


@pytest.mark.otlp("clients")
@pytest.mark.parametrize("way", ["grpc", "grpc gzip", "none", "gzip", "deflate"])
def test_pythons_exporters_send_all_signals_without_a_complaint(
    way: str, collector: RunningCollector, caplog: pytest.LogCaptureFixture
) -> None:
    spans: Any
    logs: Any
    metrics: Any
    if way.startswith("grpc"):
        options: dict[str, Any] = {"endpoint": f"http://{collector.grpc}"}
        options["compression"] = grpc.Compression.Gzip if way == "grpc gzip" else None
        spans, logs, metrics = GrpcSpans(**options), GrpcLogs(**options), GrpcMetrics(**options)
    else:
        base, compression = f"http://{collector.http}/v1/", Compression(way)
        spans = HttpSpans(base + "traces", compression=compression)
        logs = HttpLogs(base + "logs", compression=compression)
        metrics = HttpMetrics(base + "metrics", compression=compression)
    resource = Resource({"service.name": way})
    tracing = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    logger = LoggerProvider(resource=resource, shutdown_on_exit=False)
    logger.add_log_record_processor(SimpleLogRecordProcessor(logs))
    reader = PeriodicExportingMetricReader(metrics)
    meter = MeterProvider([reader], resource=resource, shutdown_on_exit=False)

    with caplog.at_level(logging.WARNING):
        tracing.get_tracer("tests").start_span("step").end()
        logger.get_logger("tests").emit(LogRecord(body="done", timestamp=1))
        meter.get_meter("tests").create_counter("steps").add(1)
        for provider in (tracing, logger, meter):
            provider.shutdown()

    assert caplog.records == []
    for table in ("spans", "logs", "metric_points"):
        assert len(rows(collector, f"FROM {table} WHERE service_name = '{way}'")) == 1, table


@pytest.mark.otlp("clients")
def test_pythons_json_exporter_sends_spans_without_a_complaint(
    collector: RunningCollector,
) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]

    def install(folder: Path) -> None:
        command = [*pip, "--no-deps", "--target", str(folder), *PYTHON_JSON]
        subprocess.run(command, check=True, capture_output=True, timeout=110)

    folder = installed("python-json", " ".join(PYTHON_JSON).encode(), install)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    ended = subprocess.run(
        [sys.executable, "-c", SEND_JSON, f"http://{collector.http}/v1/traces"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    [row] = rows(collector, "SELECT attributes FROM spans WHERE name = 'python json'")
    assert row["attributes"] == {"n": 2**53 + 1}


# --- JavaScript --------------------------------------------------------------------------------


def _installed_javascript() -> Path:
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed, which the JavaScript exporters need")

    def install(folder: Path) -> None:
        folder.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(JAVASCRIPT / name, folder)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=110)

    lock = (JAVASCRIPT / "package-lock.json").read_bytes()
    return installed("javascript", lock, install)


@pytest.mark.otlp("clients")
def test_javascripts_exporters_send_all_signals_without_a_complaint(
    collector: RunningCollector,
) -> None:
    folder = _installed_javascript()

    ended = subprocess.run(
        ["node", str(JAVASCRIPT / "send.js"), collector.grpc, collector.http],
        env={**os.environ, "NODE_PATH": str(folder / "node_modules")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    found = rows(
        collector,
        "SELECT name, kind, attributes, events, status_code, status_message FROM spans "
        "WHERE scope_name = 'javascript' ORDER BY name",
    )
    assert [row["name"] for row in found] == ["js grpc", "js json", "js protobuf"]
    for row in found:
        assert row["attributes"] == {
            "text": "é😀",
            "whole": 7,
            "double": 1.5,
            "yes": True,
            "list": ["a", "b"],
        }
        assert (row["kind"], row["status_code"], row["status_message"]) == (3, 2, "no")
        assert [event["name"] for event in row["events"]] == ["tick"]
    assert rows(collector, "SELECT body FROM logs WHERE event_name = 'js.event'") == [
        {"body": {"said": ["hello", 1]}}
    ]
    assert rows(collector, "SELECT kind, sum FROM metric_points WHERE name = 'js.duration'") == [
        {"kind": "histogram", "sum": 3.0}
    ]


# --- curl --------------------------------------------------------------------------------------


@pytest.mark.otlp("clients")
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("way", ["json", "protobuf", "gzip", "chunked"])
@pytest.mark.parametrize(
    ("signal", "message", "table"),
    [
        ("traces", lambda note: request(span(), service=note), "spans"),
        ("logs", lambda note: logs_request(log_record(), service=note), "logs"),
        ("metrics", lambda note: metrics_request(point(), service=note), "metric_points"),
    ],
    ids=["traces", "logs", "metrics"],
)
def test_curl(
    signal: str,
    message: Callable[[str], Any],
    table: str,
    way: str,
    collector: RunningCollector,
    tmp_path: Path,
) -> None:
    note = f"curl {way}"
    sent = message(note)
    data = json_bytes(sent) if way == "json" else sent.SerializeToString()
    body = tmp_path / "body"
    body.write_bytes(gzip.compress(data) if way == "gzip" else data)
    headers = {
        "json": ["Content-Type: application/json"],
        "protobuf": ["Content-Type: application/x-protobuf"],
        "gzip": ["Content-Type: application/x-protobuf", "Content-Encoding: gzip"],
        "chunked": ["Content-Type: application/x-protobuf", "Transfer-Encoding: chunked"],
    }[way]
    command = ["curl", "--silent", "--fail", "--data-binary", f"@{body}"]
    for header in headers:
        command += ["--header", header]

    ended = subprocess.run(
        [*command, f"http://{collector.http}/v1/{signal}"],
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (0, b"{}" if way == "json" else b"")
    assert len(rows(collector, f"FROM {table} WHERE service_name = '{note}'")) == 1
