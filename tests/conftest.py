"""What every test starts from: no tracing variables of the developer's shell, no proxies."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import collector_process
from collector_process import RunningCollector
from fakes import FinishedSpans
from otelchain import OtelCallbackHandler

# A loaded machine is slow at generating inputs too; neither says anything about the code.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

# What a script starts in the background ignores Ctrl-C, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# pytest-xdist sets them in its workers, and then every terminal of a test is 80 wide.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("OTEL_", "OTELCHAIN_", "LANGSMITH_", "LANGCHAIN_")):
            monkeypatch.delenv(name)
        if name.lower() in {"http_proxy", "https_proxy", "all_proxy"}:
            monkeypatch.delenv(name)


@pytest.fixture
def span_exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer_provider(span_exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(span_exporter))
    return provider


@pytest.fixture
def finished_spans(span_exporter: InMemorySpanExporter) -> FinishedSpans:
    return FinishedSpans(span_exporter)


@pytest.fixture
def handler(tracer_provider: TracerProvider) -> OtelCallbackHandler:
    return OtelCallbackHandler(tracer_provider)


@pytest.fixture(name="start_collector")
def _start_collector(tmp_path: Path) -> Iterator[Callable[..., RunningCollector]]:
    """Start collectors (a database, more arguments) that end with the test at the latest."""
    started: list[RunningCollector] = []

    def start(database: Path, *arguments: str) -> RunningCollector:
        log = tmp_path / f"collector-{len(started)}.log"
        started.append(collector_process.start(database, log, *arguments))
        return started[-1]

    yield start
    for collector in started:
        collector.kill()
