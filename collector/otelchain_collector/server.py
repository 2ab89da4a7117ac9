"""Start the collector's parts in order, wait for a signal, and stop them in the opposite order."""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import uvicorn
from starlette.types import ASGIApp

from otelchain import __version__
from otelchain.errors import RedactionPolicyError
from otelchain_collector import api, discovery, logs, snapshot
from otelchain_collector.auth import GrpcAuth, HttpAuth
from otelchain_collector.budget import ByteBudget
from otelchain_collector.discovery import Discovery
from otelchain_collector.errors import CollectorError
from otelchain_collector.health import Health
from otelchain_collector.ingest import Ingest
from otelchain_collector.limits import GrpcLimits, http_protocol
from otelchain_collector.memory_limit import MemoryLimit, memory_limit
from otelchain_collector.metrics import GrpcMetrics, HttpMetrics, Metrics
from otelchain_collector.process import (
    collect_garbage_of_requests,
    keep_memory_of_requests,
    share_the_interpreter,
)
from otelchain_collector.readers import Readers
from otelchain_collector.receive_grpc import grpc_server
from otelchain_collector.receive_http import application
from otelchain_collector.redaction.stage import Redaction
from otelchain_collector.response_headers import ResponseHeaders
from otelchain_collector.retention import Retention, RetentionRules
from otelchain_collector.settings import Address, CollectorSettings, is_loopback, parse_address
from otelchain_collector.store import Store
from otelchain_collector.tls import Tls
from otelchain_collector.tokens import Tokens
from otelchain_collector.writer import Writer

# An SDK gives up on a batch after 7 to 9 s: draining, the last commit and a start have to fit.
_DRAIN_SECONDS = 3
# Both gRPC and protobuf count the bytes of a message in 31 bits.
_LARGEST_MESSAGE_BYTES = 2**31 - 1
# Longer than the 5 s between two batches of an SDK; with uvicorn's 5 s, sends would meet a
# connection that is just being closed.
_KEEP_ALIVE_SECONDS = 75

_logger = logging.getLogger(__name__)


def run(settings: CollectorSettings) -> None:
    """Collect until SIGTERM or SIGINT; only on the main thread.

    Prints one line to standard output when ready; logs to standard error.

    Raises:
        CollectorError: It cannot start; the text is one line with the reason and the remedy.
    """
    logs.set_up(settings.log_format, settings.log_level)
    # The database, its log and the discovery file hold, or lead to, what users said to models.
    os.umask(0o077)
    doors = _doors(settings)
    if settings.max_request_bytes > _LARGEST_MESSAGE_BYTES:
        raise CollectorError(
            f"--max-request-bytes {settings.max_request_bytes} is more than an OTLP message can "
            f"have; the most is {_LARGEST_MESSAGE_BYTES}"
        )
    rules = RetentionRules.of(settings)
    if settings.queue_bytes < 2 * settings.max_request_bytes:
        raise CollectorError(
            f"--queue-bytes {settings.queue_bytes} cannot hold a request of --max-request-bytes "
            f"{settings.max_request_bytes} as it arrives and decompressed; make it twice as large"
        )
    redaction = _redaction(settings.redaction)
    share_the_interpreter()
    keep_memory_of_requests()
    memory = memory_limit(settings.memory_limit_bytes)
    with _listening(doors.http) as http_socket:
        # gRPC's own error does not say why, and the file is made only when there is a port for it.
        _try_to_bind(doors.grpc)
        store = Store.open(settings.database, memory_limit_bytes=memory.limit_bytes)
        try:
            _logger.info(
                "DuckDB may use %d MiB (%s), the queue %d MiB",
                memory.limit_bytes >> 20,
                memory.origin,
                settings.queue_bytes >> 20,
            )
            if redaction is None:
                _logger.warning("redaction is off: what applications send is stored as it is")
            else:
                _logger.info("redaction: %s", redaction.redactor.summary())
            asyncio.run(_serve(settings, doors, store, memory, rules, http_socket, redaction))
        finally:
            store.close()


def _redaction(policy: str) -> Redaction | None:
    """Read the policy; None where nothing is redacted."""
    try:
        return Redaction.of(policy)
    except RedactionPolicyError as error:
        raise CollectorError(f"--redaction: {error}") from error


class _Doors(NamedTuple):
    """Where it listens, and what it takes to come in."""

    grpc: Address
    http: Address
    tokens: Tokens
    tls: Tls | None


def _doors(settings: CollectorSettings) -> _Doors:
    tokens = Tokens(settings.token, settings.token_file)
    tls = Tls.of(settings)
    allowed = settings.allow_remote or tokens.required
    grpc = parse_address(settings.grpc, "--grpc", allow_remote=allowed)
    http = parse_address(settings.http, "--http", allow_remote=allowed)
    if not (is_loopback(grpc.host) and is_loopback(http.host)):
        if not tokens.required and settings.tls_client_ca is None:
            _logger.warning(
                "ANYONE who reaches %s or %s may write and read everything, without a token; set "
                "--token-file, or --tls-client-ca",
                grpc,
                http,
            )
        if tls is None:
            _logger.warning(
                "spans, answers and tokens travel unencrypted to and from other machines; set "
                "--tls-certificate and --tls-key"
            )
    return _Doors(grpc, http, tokens, tls)


async def _serve(
    settings: CollectorSettings,
    doors: _Doors,
    store: Store,
    memory: MemoryLimit,
    rules: RetentionRules,
    http_socket: socket.socket,
    redaction: Redaction | None,
) -> None:
    stop = _stop_on_signal()
    writer = Writer(store)
    budget = ByteBudget(settings.queue_bytes)
    ingest = Ingest(writer, budget, settings.max_attribute_bytes, redaction)
    health = Health(writer, store, budget)
    readers = Readers(store, memory.limit_bytes)
    writer.watch.before_commit = readers.make_room
    retention = Retention(writer, store, rules)
    metrics = Metrics(writer, store, budget, readers, redaction)
    others = [
        *health.routes(),
        metrics.route(),
        snapshot.route(writer, store, settings.allow_hosts),
        *api.routes(
            readers, allowed_hosts=settings.allow_hosts, max_seconds=settings.query_seconds
        ),
    ]
    app = _guarded(application(ingest, settings.max_request_bytes, others), doors, metrics)
    grpc = grpc_server(
        ingest,
        settings.max_request_bytes,
        [
            GrpcMetrics(metrics.requests),
            GrpcAuth(doors.tokens),
            GrpcLimits(settings.request_seconds, settings.max_connections),
        ],
    )
    grpc_address = _bind_grpc(grpc, doors.grpc, doors.tls)
    http_address = doors.http._replace(port=http_socket.getsockname()[1])
    http = _http_server(app, settings, doors.tls)
    with _writing(writer, ingest), _retaining(retention):
        async with _receiving(http, http_socket, grpc, stop):
            collect_garbage_of_requests()
            health.phase = "ready"
            with _published(settings, doors, http_address, grpc_address):
                await stop.wait()
                health.phase = "stopping"
                _logger.info("stopping: finishing open requests and committing")
                # A question may run for longer than the drain; its sender can ask again.
                store.interrupt_readers()
        readers.close()


def _guarded(app: ASGIApp, doors: _Doors, metrics: Metrics) -> ASGIApp:
    """Put the layers around the application that each request passes, the outermost last."""
    return ResponseHeaders(HttpMetrics(HttpAuth(app, doors.tokens), metrics.requests))


def _stop_on_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    return stop


@contextlib.contextmanager
def _writing(writer: Writer, ingest: Ingest) -> Iterator[None]:
    writer.start()
    try:
        yield
    finally:
        ingest.close()
        writer.close()


@contextlib.contextmanager
def _retaining(retention: Retention) -> Iterator[None]:
    retention.start()
    try:
        yield
    finally:
        retention.close()


def _http_server(app: ASGIApp, settings: CollectorSettings, tls: Tls | None) -> "_HttpServer":
    return _HttpServer(
        uvicorn.Config(
            app,
            # httptools, which uvicorn takes when it is there, costs the same: 70 µs of CPU a span.
            http=http_protocol(settings.request_seconds, settings.max_connections),
            lifespan="off",
            ws="none",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            server_header=False,
            # Whose address a request comes from is nobody's business here.
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
            ssl_context_factory=None if tls is None else lambda *_: tls.http_context(),
        )
    )


@contextlib.asynccontextmanager
async def _receiving(
    http: "_HttpServer", http_socket: socket.socket, grpc: Any, stop: asyncio.Event
) -> AsyncIterator[None]:
    serving = asyncio.create_task(http.serve(sockets=[http_socket]))
    # With one of its two doors shut by a fault the collector had better be restarted.
    serving.add_done_callback(lambda _: stop.set())
    await grpc.start()
    while not (http.started or serving.done()):
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        http.should_exit = True
        await asyncio.gather(serving, grpc.stop(_DRAIN_SECONDS))


class _HttpServer(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `run`; uvicorn would raise them again after it has stopped."""
        yield


@contextlib.contextmanager
def _published(
    settings: CollectorSettings, doors: _Doors, http: Address, grpc: Address
) -> Iterator[None]:
    """Tell other processes, and whoever started this one, where it answers."""
    scheme = "http" if doors.tls is None else "https"
    reached = Discovery(os.getpid(), str(_reached(http)), str(_reached(grpc)), __version__, scheme)
    discovery.write(settings.database, reached)
    try:
        sys.stdout.write(
            f"otelchain collector ready: database={settings.database} grpc={grpc} http={http}\n"
        )
        sys.stdout.flush()
        yield
    finally:
        discovery.remove(settings.database)


def _reached(address: Address) -> Address:
    """Return where this machine reaches what listens there: every address is none to call."""
    wildcards = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - it is replaced
    return address._replace(host=wildcards.get(address.host, address.host))


def _listening(address: Address) -> socket.socket:
    try:
        return socket.create_server(address, family=_family(address))
    except OSError as error:
        raise CollectorError(_why_not_bound("--http", address, error)) from error


def _try_to_bind(address: Address) -> None:
    try:
        socket.create_server(address, family=_family(address)).close()
    except OSError as error:
        raise CollectorError(_why_not_bound("--grpc", address, error)) from error


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address.host else socket.AF_INET


def _bind_grpc(server: Any, address: Address, tls: Tls | None) -> Address:
    try:
        if tls is None:
            return address._replace(port=server.add_insecure_port(str(address)))
        credentials = tls.grpc_credentials()
        return address._replace(port=server.add_secure_port(str(address), credentials))
    except RuntimeError as error:
        raise CollectorError(_why_not_bound("--grpc", address, error)) from error


def _why_not_bound(option: str, address: Address, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return (
            f"port {address.port} of {address.host} is in use, perhaps by another collector; stop "
            f"the program that uses it or choose another port with {option}"
        )
    return f"cannot listen on {option} {address}: {getattr(error, 'strerror', None) or error}"
