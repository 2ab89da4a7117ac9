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
from typing import Any

import uvicorn
from starlette.applications import Starlette

from otelchain import __version__
from otelchain_collector import api, discovery
from otelchain_collector.budget import ByteBudget
from otelchain_collector.discovery import Discovery
from otelchain_collector.errors import CollectorError
from otelchain_collector.health import Health
from otelchain_collector.ingest import Ingest
from otelchain_collector.receive_grpc import grpc_server
from otelchain_collector.receive_http import application
from otelchain_collector.settings import Address, CollectorSettings, parse_address
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer

# An SDK gives up on a batch after 7 to 9 s: draining, the last commit and a start have to fit.
_DRAIN_SECONDS = 3
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
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("otelchain_collector").setLevel(logging.INFO)
    grpc_address = parse_address(settings.grpc, "--grpc", allow_remote=settings.allow_remote)
    http_address = parse_address(settings.http, "--http", allow_remote=settings.allow_remote)
    if settings.queue_bytes < 2 * settings.max_request_bytes:
        raise CollectorError(
            f"--queue-bytes {settings.queue_bytes} cannot hold a request of --max-request-bytes "
            f"{settings.max_request_bytes} as it arrives and decompressed; make it twice as large"
        )
    store = Store.open(settings.database, memory_limit_bytes=settings.memory_limit_bytes)
    try:
        asyncio.run(_serve(settings, store, grpc_address, http_address))
    finally:
        store.close()


async def _serve(
    settings: CollectorSettings, store: Store, grpc_address: Address, http_address: Address
) -> None:
    stop = _stop_on_signal()
    writer = Writer(store)
    budget = ByteBudget(settings.queue_bytes)
    ingest = Ingest(writer, budget, settings.max_attribute_bytes)
    health = Health(writer, budget)
    others = [*health.routes(), *api.routes(store, allowed_hosts=settings.allow_hosts)]
    app = application(ingest, settings.max_request_bytes, others)
    grpc = grpc_server(ingest, settings.max_request_bytes)
    grpc_address = _bind_grpc(grpc, grpc_address)
    with _listening(http_address) as http_socket, _writing(writer, ingest):
        http_address = http_address._replace(port=http_socket.getsockname()[1])
        async with _receiving(app, http_socket, grpc, stop):
            health.phase = "ready"
            with _published(settings, str(http_address), str(grpc_address)):
                await stop.wait()
                health.phase = "stopping"
                _logger.info("stopping: finishing open requests and committing")
                # A question may run for longer than the drain; its sender can ask again.
                store.interrupt_readers()


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


@contextlib.asynccontextmanager
async def _receiving(
    app: Starlette, http_socket: socket.socket, grpc: Any, stop: asyncio.Event
) -> AsyncIterator[None]:
    http = _HttpServer(
        uvicorn.Config(
            app,
            # httptools, which uvicorn takes when it is there, costs the same: 70 µs of CPU a span.
            http="h11",
            lifespan="off",
            ws="none",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )
    )
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
def _published(settings: CollectorSettings, http: str, grpc: str) -> Iterator[None]:
    """Tell other processes, and whoever started this one, where it answers."""
    discovery.write(settings.database, Discovery(os.getpid(), http, grpc, __version__))
    try:
        sys.stdout.write(
            f"otelchain collector ready: database={settings.database} grpc={grpc} http={http}\n"
        )
        sys.stdout.flush()
        yield
    finally:
        discovery.remove(settings.database)


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server(address, family=family)
    except OSError as error:
        raise CollectorError(_why_not_bound("--http", address, error)) from error


def _bind_grpc(server: Any, address: Address) -> Address:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        # gRPC's own error does not say why.
        socket.create_server(address, family=family).close()
        return address._replace(port=server.add_insecure_port(str(address)))
    except (OSError, RuntimeError) as error:
        raise CollectorError(_why_not_bound("--grpc", address, error)) from error


def _why_not_bound(option: str, address: Address, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return (
            f"port {address.port} of {address.host} is in use, perhaps by another collector; stop "
            f"the program that uses it or choose another port with {option}"
        )
    return f"cannot listen on {option} {address}: {getattr(error, 'strerror', None) or error}"
