"""Start the collector's parts in order, wait for a signal, and stop them in the opposite order."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from typing import NoReturn

from otelchain.errors import RedactionPolicyError
from otelchain_collector import api, logs, reindexing, rules, snapshot
from otelchain_collector.admission import Door
from otelchain_collector.budget import ByteBudget
from otelchain_collector.checkpoint_lease import CheckpointLeases
from otelchain_collector.doors import Doors, Sockets, doors_of, listening, published, too_few_files
from otelchain_collector.errors import CollectorError
from otelchain_collector.exchange.reindex import total
from otelchain_collector.grpc_server import GrpcServer
from otelchain_collector.health import Health
from otelchain_collector.http_server import HttpServer, guarded, http_server
from otelchain_collector.ingest import Ingest
from otelchain_collector.loop_faults import LoopFaults
from otelchain_collector.memory_limit import MemoryLimit, MemoryPlan, memory_plan
from otelchain_collector.metrics import Metrics
from otelchain_collector.process import (
    keep_memory_of_requests,
    open_as_many_files_as_may_be,
    share_the_interpreter,
)
from otelchain_collector.readers import Readers
from otelchain_collector.real_path import real_path
from otelchain_collector.receive_grpc import GrpcReceiver
from otelchain_collector.receive_http import application
from otelchain_collector.redaction.stage import Redaction
from otelchain_collector.retention import Retention
from otelchain_collector.retention_rules import RetentionRules
from otelchain_collector.settings import CollectorSettings
from otelchain_collector.sql_processes import CAN_READ, SqlProcesses
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer

# An SDK gives up on a batch after 7 to 9 s: draining, the last commit and a start have to fit.
_DRAIN_SECONDS = 3
# Both gRPC and protobuf count the bytes of a message in 31 bits.
_LARGEST_MESSAGE_BYTES = 2**31 - 1

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
    doors = doors_of(settings)
    if settings.max_request_bytes > _LARGEST_MESSAGE_BYTES:
        raise CollectorError(
            f"--max-request-bytes {settings.max_request_bytes} is more than an OTLP message can "
            f"have; the most is {_LARGEST_MESSAGE_BYTES}"
        )
    retention_rules = RetentionRules.of(settings)
    if settings.queue_bytes is not None and settings.queue_bytes < 2 * settings.max_request_bytes:
        raise CollectorError(
            f"--queue-bytes {settings.queue_bytes} cannot hold a request of --max-request-bytes "
            f"{settings.max_request_bytes} as it arrives and decompressed; make it twice as large"
        )
    redaction = _redaction(settings)
    open_files = open_as_many_files_as_may_be()
    warning = too_few_files(open_files, settings.max_connections)
    if warning:
        _logger.warning("%s", warning)
    share_the_interpreter()
    keep_memory_of_requests()
    memory = memory_plan(
        settings.memory_limit_bytes, settings.queue_bytes, settings.max_request_bytes
    )
    # The file is made only when there are ports for it.
    with listening(doors) as sockets:
        store = Store.open(settings.database, memory_limit_bytes=memory.duckdb.limit_bytes)
        try:
            _logger.info("%s", memory)
            if memory.warning:
                _logger.warning("%s", memory.warning)
            if redaction is None:
                _logger.warning("redaction is off: what applications send is stored as it is")
            else:
                _logger.info("redaction: %s", redaction.redactor.summary())
            _tell_of_older_rules(store)
            asyncio.run(_serve(settings, doors, store, memory, retention_rules, sockets, redaction))
        finally:
            store.close()


def _tell_of_older_rules(store: Store) -> None:
    with store.database.cursor() as cursor:
        told = rules.older(store.rules_version, total(cursor))
    if told is not None:
        _logger.warning("%s; run: otelchain reindex (it works while this collector runs)", told)


def _redaction(settings: CollectorSettings) -> Redaction | None:
    """Read the policy; None where nothing is redacted."""
    try:
        return Redaction.of(settings.redaction, settings.database)
    except RedactionPolicyError as error:
        raise CollectorError(f"--redaction: {error}") from error


async def _serve(
    settings: CollectorSettings,
    doors: Doors,
    store: Store,
    memory: MemoryPlan,
    retention_rules: RetentionRules,
    sockets: Sockets,
    redaction: Redaction | None,
) -> None:
    stop = _stop_on_signal()
    asyncio.get_running_loop().set_exception_handler(LoopFaults())
    writer = Writer(store)
    budget = ByteBudget(memory.queue.limit_bytes)
    ingest = Ingest(writer, budget, settings.max_attribute_bytes, redaction)
    health = Health(writer, store, budget, doors.tokens)
    readers = Readers(store.database, memory.duckdb.limit_bytes)
    sql = _sql_processes(settings, writer, store, memory.duckdb)
    lanes = [lane for lane in (readers, sql) if lane is not None]
    writer.watch.before_commit = readers.make_room
    retention = Retention(writer, store, retention_rules)
    metrics = Metrics(writer, store, budget, lanes, redaction)
    others = [
        *health.routes(),
        metrics.route(),
        snapshot.route(writer, store.database, settings.allow_hosts),
        *reindexing.routes(writer, store, readers, settings.allow_hosts),
        *api.routes(
            readers,
            sql,
            allowed_hosts=settings.allow_hosts,
            max_seconds=settings.query_seconds,
            taking_seconds=settings.request_seconds,
        ),
    ]
    app = guarded(application(ingest, memory.max_request_bytes, others), doors.tokens, metrics)
    grpc = _grpc_server(ingest, settings, memory.max_request_bytes, doors, metrics)
    http = http_server(app, settings, doors.tls, _DRAIN_SECONDS)
    with _writing(writer, ingest), _retaining(retention):
        async with _receiving(http, grpc, sockets, stop):
            await ingest.warm_up()
            health.phase = "ready"
            with published(settings, doors, sockets):
                await stop.wait()
                health.phase = "stopping"
                _logger.info("stopping: finishing open requests and committing")
                # A question may run for longer than the drain; its sender can ask again.
                for lane in lanes:
                    lane.refuse()
                store.database.interrupt_readers()
                if sql is not None:
                    sql.close()
    if not readers.close():
        _leave_behind()


def _sql_processes(
    settings: CollectorSettings, writer: Writer, store: Store, memory: MemoryLimit
) -> SqlProcesses | None:
    """Return None where another process cannot read the file."""
    if not CAN_READ:
        _logger.warning(
            "with this DuckDB, SQL is answered in this process, where a single huge value is not "
            "stopped in time; give the permission 'sql' to nobody whom you do not trust, or "
            "install DuckDB 2"
        )
        return None
    leases = CheckpointLeases(writer, store.database)
    return SqlProcesses(real_path(settings.database), leases, memory.limit_bytes)


def _leave_behind() -> NoReturn:
    """End at once, without the question that does not end and holds the database open."""
    _logger.warning(
        "stopping in the middle of a question that cannot be interrupted; everything that was "
        "acknowledged is committed, and the next start reads the log"
    )
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


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


def _grpc_server(
    ingest: Ingest,
    settings: CollectorSettings,
    max_request_bytes: int,
    doors: Doors,
    metrics: Metrics,
) -> GrpcServer:
    receiver = GrpcReceiver(
        ingest,
        max_request_bytes,
        doors.tokens,
        settings.max_connections,
        metrics.requests,
    )
    tls = None if doors.tls is None else doors.tls.grpc_context()
    door = Door(settings.max_connections, settings.request_seconds, tls)
    return GrpcServer(receiver, door, settings.request_seconds)


@contextlib.asynccontextmanager
async def _receiving(
    http: HttpServer, grpc: GrpcServer, sockets: Sockets, stop: asyncio.Event
) -> AsyncIterator[None]:
    serving = asyncio.create_task(http.serve(sockets=[sockets.http]))
    # With one of its two doors shut by a fault the collector had better be restarted.
    serving.add_done_callback(lambda _: stop.set())
    await grpc.start(sockets.grpc)
    while not (http.started or serving.done()):
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        http.should_exit = True
        await asyncio.gather(serving, grpc.stop(_DRAIN_SECONDS))
