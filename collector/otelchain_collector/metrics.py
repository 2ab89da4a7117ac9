"""GET /metrics: the collector about itself, for Prometheus; counts and sizes, no content."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import duckdb
from google.rpc import code_pb2
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from otelchain.version import __version__
from otelchain_collector.budget import ByteBudget
from otelchain_collector.errors import StoreUnavailableError
from otelchain_collector.questions import Lane
from otelchain_collector.redaction.stage import Redaction
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer

_SIGNALS: Final = frozenset({"traces", "logs", "metrics"})
# From a small commit on a quiet machine to one behind a checkpoint of the whole log.
_COMMIT_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_CHECKPOINT_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_TRY_AGAIN: Final = frozenset({429, 502, 503, 504})
_UNAUTHORISED: Final = frozenset({401, 403})
_GRPC_TRY_AGAIN: Final = frozenset({1, 4, 10, 11, 14, 15})
_GRPC_UNAUTHORISED: Final = frozenset({7, 16})


class Metrics:
    """What is measured, and the route that shows it."""

    def __init__(
        self,
        writer: Writer,
        store: Store,
        budget: ByteBudget,
        lanes: Sequence[Lane],
        redaction: Redaction | None,
    ) -> None:
        self._store = store
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "otelchain_requests",
            "OTLP requests by what became of them.",
            ["transport", "signal", "outcome"],
            registry=self._registry,
        )
        commits = Histogram(
            "otelchain_commit_seconds",
            "Time of a successful group commit.",
            buckets=_COMMIT_SECONDS,
            registry=self._registry,
        )
        checkpoints = Histogram(
            "otelchain_checkpoint_seconds",
            "Time of a checkpoint.",
            buckets=_CHECKPOINT_SECONDS,
            registry=self._registry,
        )
        writer.watch.on_commit = commits.observe
        writer.watch.on_checkpoint = checkpoints.observe
        self._registry.register(_State(writer, store, budget, lanes))
        if redaction is not None:
            self._registry.register(_Removed(redaction))

    def route(self) -> Route:
        """Return the route."""
        return Route("/metrics", self._show, methods=["GET"])

    async def _show(self, _: Request) -> Response:
        # In a thread: it asks DuckDB and the file system.
        text = await asyncio.to_thread(generate_latest, self._registry)
        return Response(text, media_type=CONTENT_TYPE_LATEST)


class _State(Collector):
    def __init__(
        self, writer: Writer, store: Store, budget: ByteBudget, lanes: Sequence[Lane]
    ) -> None:
        self._writer, self._store, self._budget, self._lanes = writer, store, budget, lanes

    def describe(self) -> list[Metric]:
        """Return nothing: registration must not ask the store."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield what is true now."""
        counts = self._writer.counts
        records = CounterMetricFamily(
            "otelchain_records", "Records by what became of them.", labels=["outcome"]
        )
        records.add_metric(["span_stored"], counts.stored)
        records.add_metric(["span_pending"], counts.pending)
        records.add_metric(["log_record_stored"], counts.logs)
        records.add_metric(["data_point_stored"], counts.metric_points)
        records.add_metric(["duplicate"], counts.duplicates)
        records.add_metric(["rejected"], counts.rejected)
        records.add_metric(["expired"], counts.expired)
        yield records
        build = GaugeMetricFamily(
            "otelchain_build", "The version that runs.", labels=["version", "duckdb"]
        )
        build.add_metric([__version__, duckdb.__version__], 1)
        yield build
        lost = GaugeMetricFamily(
            "otelchain_wal_lost_bytes",
            "Bytes of write-ahead log that were not whole when the file was opened.",
            labels=["reason"],
        )
        for reason in ("torn", "damaged", "refused"):
            losses = [each for each in self._store.database.log_losses if each.reason == reason]
            lost.add_metric([reason], sum(each.lost_bytes for each in losses))
        yield lost
        for name, text, value in self._gauges():
            yield GaugeMetricFamily(f"otelchain_{name}", text, value)

    def _gauges(self) -> Iterator[tuple[str, str, float]]:
        committed = self._writer.watch.last_commit_time
        yield (
            "queue_bytes",
            "Bytes of requests that wait for their commit.",
            self._budget.used_bytes,
        )
        yield "queue_limit_bytes", "Most bytes that may wait.", self._budget.limit_bytes
        yield "database_bytes", "Size of the database file.", self._store.database.file_bytes()
        yield "wal_bytes", "Size of the write-ahead log.", self._store.database.wal_bytes()
        with suppress(StoreUnavailableError):  # It is being opened again.
            yield (
                "duckdb_memory_bytes",
                "Memory that DuckDB holds.",
                self._store.database.memory_bytes(),
            )
        yield (
            "database_reopened",
            "How often the database was opened again after a fatal error.",
            self._store.database.reopened,
        )
        yield (
            "database_damaged",
            "1 when a commit has met a block of the file that cannot be read.",
            float(self._store.damage is not None),
        )
        running = sum(lane.running for lane in self._lanes)
        waiting = sum(lane.waiting for lane in self._lanes)
        yield "readers_running", "Questions that are being answered.", running
        yield "readers_waiting", "Questions that wait for a reader.", waiting
        yield (
            "commit_running_seconds",
            "Age of the commit or checkpoint that runs now; 0: none.",
            (self._writer.watch.busy_seconds),
        )
        yield (
            "commit_failed",
            "1 when the last commit failed.",
            float(self._writer.failure is not None),
        )
        if committed is not None:
            yield (
                "last_commit_age_seconds",
                "Time since the last successful commit.",
                (time.time() - committed),
            )


class _Removed(Collector):
    """What redaction took out, by rule; the names of rules are the policy's, never a value."""

    def __init__(self, redaction: Redaction) -> None:
        self._redactor = redaction.redactor

    def describe(self) -> list[Metric]:
        """Return nothing, as `_State` does."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield counts since the start; a resend counts again."""
        counts = self._redactor.counts()
        for name, text, by_rule in (
            ("findings", "Replacements made in what arrived.", counts.findings),
            ("failures", "Texts given up because a rule failed.", counts.failures),
        ):
            metric = CounterMetricFamily(f"otelchain_redaction_{name}", text, labels=["rule"])
            for rule, count in by_rule.items():
                metric.add_metric([rule], count)
            yield metric


class HttpMetrics:
    """ASGI: count the OTLP requests by their outcome."""

    def __init__(self, app: ASGIApp, requests: Counter) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and note its outcome."""
        if not scope["path"].startswith("/v1/"):
            await self._app(scope, receive, send)
            return
        outcome = "gone"
        is_gone = False

        async def listen() -> Message:
            nonlocal is_gone
            message = await receive()
            is_gone = is_gone or message["type"] == "http.disconnect"
            return message

        async def note(message: Message) -> None:
            nonlocal outcome
            # What is answered to a client that has gone says nothing about its request.
            if message["type"] == "http.response.start" and not is_gone:
                outcome = _http_outcome(message["status"])
            await send(message)

        try:
            await self._app(scope, listen, note)
        finally:
            last = scope["path"].rsplit("/", 1)[-1]
            signal = last if last in _SIGNALS else "other"
            self._requests.labels("http", signal, outcome).inc()


def _http_outcome(status: int) -> str:
    if status < 300:
        return "accepted"
    if status in _TRY_AGAIN:
        return "try_again"
    return "unauthorised" if status in _UNAUTHORISED else "refused"


def grpc_outcome(code: int) -> str:
    """Return what became of a call that ended with this code."""
    if code == code_pb2.OK:
        return "accepted"
    if code in _GRPC_TRY_AGAIN:
        return "try_again"
    return "unauthorised" if code in _GRPC_UNAUTHORISED else "refused"
