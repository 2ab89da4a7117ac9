"""Kill or stop a collector under load and look whether it kept what it acknowledged, once."""

import http.client
import itertools
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import duckdb
import grpc

import collector_process
from collector_process import RunningCollector
from otelchain_collector.salvage import log_of

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
# What makes a collector that is busy make a checkpoint (writer.py).
CHECKPOINT_BYTES = 16 * 1024 * 1024

Send = Callable[[bytes], None]


class Request(NamedTuple):
    """An encoded request, and the ids of its spans."""

    body: bytes
    span_ids: frozenset[str]


class Trial(NamedTuple):
    """What was found after one kill or stop.

    Attributes:
        acknowledged: Spans whose request was answered before the kill.
        lost: Of those, how many are not stored.
        doubled: Spans that are stored twice after everything was sent again.
        missing: Spans that are not stored after that.
        log_bytes: Size of the write-ahead log that was left.
        transports: Requests that were acknowledged over HTTP and over gRPC.
        stop_seconds: From the signal to the end of the process.
        exit_code: Of the process; a kill's is negative.
    """

    acknowledged: int
    lost: int
    doubled: int
    missing: int
    log_bytes: int
    transports: tuple[int, int]
    stop_seconds: float
    exit_code: int

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost or stored twice."""
        return not (self.lost or self.doubled or self.missing)


def kill_under_load(
    database: Path,
    requests: list[Request],
    moment: Callable[[Path], None],
    connections: int = 4,
    number: signal.Signals = signal.SIGKILL,
) -> Trial:
    """Send over both transports, end the collector, start it again, send everything again.

    Args:
        database: An absent file, or one of an earlier trial.
        requests: What is sent; each span once.
        moment: Returns when the time for the kill has come.
        connections: How many of each transport.
        number: The signal that ends the collector.
    """
    collector = _started(database)

    def end() -> tuple[float, int]:
        moment(database)
        started = time.monotonic()
        collector.process.send_signal(number)
        exit_code = collector.wait()
        return time.monotonic() - started, exit_code

    acknowledged, (stop_seconds, exit_code) = _send_until(end, collector, requests, connections)
    log = log_of(database)
    log_bytes = log.stat().st_size if log.exists() else 0
    span_ids = set().union(*(requests[place].span_ids for place in acknowledged))
    lost = len(span_ids - set(_stored(database)))

    collector = _started(database)
    with over_http(collector.http) as send:
        for request in requests:
            send(request.body)
    assert collector.stop() == 0
    stored = _stored(database)
    once = set(stored)
    missing = len(set().union(*(request.span_ids for request in requests)) - once)
    of_http = sum(transport == "http" for transport in acknowledged.values())
    return Trial(
        len(span_ids),
        lost,
        len(stored) - len(once),
        missing,
        log_bytes,
        (of_http, len(acknowledged) - of_http),
        stop_seconds,
        exit_code,
    )


def _started(database: Path) -> RunningCollector:
    # Redaction would take random text for secrets, and make it short.
    return collector_process.start(database, database.with_suffix(".log"), "--redaction", "off")


def when_log_has(
    size: int, delay_seconds: float, patience_seconds: float = 20.0
) -> Callable[[Path], None]:
    """Return a moment so long after the log has grown to a size."""

    def wait(database: Path) -> None:
        deadline = time.monotonic() + patience_seconds
        log = log_of(database)
        while time.monotonic() < deadline:
            if log.exists() and log.stat().st_size >= size:
                break
            time.sleep(0.001)
        time.sleep(delay_seconds)

    return wait


def random_moments(
    choose: random.Random,
) -> "itertools.cycle[Callable[[], Callable[[Path], None]]]":
    """Return kinds of moments in turn: any, and one during a checkpoint."""
    return itertools.cycle(
        [
            # Something has been acknowledged by then.
            lambda: when_log_has(1_500_000, choose.uniform(0.0, 3.0)),
            lambda: when_log_has(CHECKPOINT_BYTES, choose.uniform(0.0, 0.15)),
        ]
    )


@contextmanager
def over_http(address: str) -> Iterator[Send]:
    """Yield what sends a body over one connection and waits for its acknowledgement."""
    connection = http.client.HTTPConnection(address, timeout=60)
    headers = {"content-type": "application/x-protobuf"}

    def send(body: bytes) -> None:
        connection.request("POST", "/v1/traces", body, headers)
        response = connection.getresponse()
        response.read()
        assert response.status == 200, response.status

    with closing(connection):
        yield send


@contextmanager
def over_grpc(address: str) -> Iterator[Send]:
    """Yield the same over gRPC."""
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        export = channel.unary_unary(METHOD)
        yield lambda body: export(body, timeout=60)


def _send_until(
    end: Callable[[], tuple[float, int]],
    collector: RunningCollector,
    requests: list[Request],
    connections: int,
) -> tuple[dict[int, str], tuple[float, int]]:
    """Return which requests were acknowledged, over which transport, and what ``end`` returned."""
    acknowledged: dict[int, str] = {}
    places = iter(range(len(requests)))
    lock = threading.Lock()

    def work(transport: str, sender: AbstractContextManager[Send]) -> None:
        with suppress(OSError, http.client.HTTPException, grpc.RpcError), sender as send:
            while True:
                with lock:
                    place = next(places, None)
                if place is None:
                    return
                send(requests[place].body)
                acknowledged[place] = transport

    threads = [
        threading.Thread(target=work, args=(transport, sender))
        for _ in range(connections)
        for transport, sender in (
            ("http", over_http(collector.http)),
            ("grpc", over_grpc(collector.grpc)),
        )
    ]
    for thread in threads:
        thread.start()
    ended = end()
    for thread in threads:
        thread.join()
    return acknowledged, ended


def _stored(database: Path) -> list[str]:
    with duckdb.connect(str(database), read_only=True) as connection:
        rows = connection.execute("SELECT span_id FROM spans").fetchall()
    return [span_id for (span_id,) in rows]
