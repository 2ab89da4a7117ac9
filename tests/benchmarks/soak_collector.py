"""Is the collector after an hour what it was after a minute?

    python tests/benchmarks/soak_collector.py [--minutes N] [--rate SPANS] [--report MINUTES]
        [-- COLLECTOR OPTIONS]

A real collector process, with its retention on, gets requests of 512 spans (bench_collector.py) at
a fixed rate, by half over HTTP and by half over gRPC, while a named query is asked now and then.
One line each few minutes: what was acknowledged, how long after the moment at which it was due, the
collector's CPU and memory, the size of the file and its log. At the end every acknowledged span is
in the file or was deleted by the retention.
"""

import argparse
import http.client
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import duckdb
from bench_collector import (
    SENDERS,
    SPANS,
    Send,
    ask_until,
    cpu_seconds,
    encode,
    stored_spans,
)

sys.path.insert(0, str(Path(__file__).parents[1]))
import collector_process

_CONNECTIONS = 8
_SPAN_STEP_NS = 50_000
_SPAN_NS = 800_000_000


class Place(NamedTuple):
    """Where a span's identity and times are in the bytes of a request."""

    trace_id: int
    span_id: int
    start: int
    end: int


class Template:
    """One encoded request that becomes a new one by what is different in each span."""

    def __init__(self, body: bytes) -> None:
        self._body = bytearray(body)
        self._places = list(_places(body))
        assert len(self._places) == SPANS

    def renewed(self) -> bytes:
        now = time.time_ns() - _SPAN_NS
        ids = os.urandom(24 * SPANS)
        for index, place in enumerate(self._places):
            own = ids[24 * index : 24 * index + 24]
            start = now + index * _SPAN_STEP_NS
            self._body[place.trace_id : place.trace_id + 16] = own[:16]
            self._body[place.span_id : place.span_id + 8] = own[16:]
            struct.pack_into("<Q", self._body, place.start, start)
            struct.pack_into("<Q", self._body, place.end, start + _SPAN_NS)
        return bytes(self._body)


def _places(body: bytes) -> Iterator[Place]:
    """Find each span: its field 1 (16 bytes) and 2 (8 bytes) come first, times at fixed tags."""
    at = 0
    while (at := body.find(b"\x0a\x10", at)) >= 0:
        if body[at + 18 : at + 20] != b"\x12\x08":
            at += 1
            continue
        start = body.index(b"\x39", at + 28)
        while body[start + 9] != 0x41:
            start = body.index(b"\x39", start + 1)
        yield Place(at + 2, at + 20, start + 1, start + 10)
        at = start + 18


class Sent(NamedTuple):
    at: float
    latency_ms: float


def send_at_rate(send: Send, template: Template, interval: float, end: float) -> Iterator[Sent]:
    due = time.monotonic() + random.random() * interval
    while due < end:
        time.sleep(max(0.0, due - time.monotonic()))
        send(template.renewed())
        # From when it was due, so that a pause counts for all who had to wait for its end.
        yield Sent(time.monotonic(), (time.monotonic() - due) * 1e3)
        due += interval


def load(http_address: str, grpc_address: str, rate: float, seconds: float) -> None:
    """Send; one JSON line a request on standard output. Runs in the loading process."""
    end = time.monotonic() + seconds
    interval = _CONNECTIONS * SPANS / rate
    printing = threading.Lock()

    def work(send: Send, template: Template) -> None:
        for sent in send_at_rate(send, template, interval, end):
            with printing:
                print(json.dumps(sent), flush=True)

    addresses = {"http": http_address, "grpc": grpc_address}
    threads = []
    for number, body in enumerate(encode(_CONNECTIONS)):
        transport = ("http", "grpc")[number % 2]
        sender = SENDERS[transport](addresses[transport], False)
        threads.append(threading.Thread(target=work, args=[sender, Template(body)]))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def memory_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def deleted(address: str) -> int:
    connection = http.client.HTTPConnection(address)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return sum(
        int(float(line.split()[-1]))
        for line in text.splitlines()
        if line.startswith("otelchain") and '"expired"' in line
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--report", type=float, default=5, help="minutes a line")
    parser.add_argument("--rate", type=float, default=12_500, help="spans a second")
    parser.add_argument("--query", default="slow-tools")
    parser.add_argument("--load", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("collector", nargs="*", help="options for the collector, after --")
    options = parser.parse_args()
    if options.load:
        load(*options.load, options.rate, options.minutes * 60)
        return
    print("$", "python", *sys.argv)
    print(f"{os.cpu_count()} CPUs, Python {sys.version.split()[0]}, DuckDB {duckdb.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        soak(options, Path(folder))


def soak(options: argparse.Namespace, folder: Path) -> None:
    database = folder / "soak.duckdb"
    arguments = options.collector or ["--retain-bytes", "4GB"]
    collector = collector_process.start(database, folder / "log", *arguments)
    command = [
        *(sys.executable, __file__, "--load", collector.http, collector.grpc),
        *("--rate", str(options.rate), "--minutes", str(options.minutes)),
    ]
    stop, answers_ms = threading.Event(), list[float]()
    asking = threading.Thread(
        target=ask_until, args=(stop, collector.http, options.query, answers_ms, 5.0)
    )
    asking.start()
    print(
        f"{'minute':>6} {'spans/s':>8} {'p50 ms':>7} {'p99 ms':>7} {'max ms':>7} {'query ms':>8} "
        f"{'µs CPU':>7} {'MiB':>5} {'file MB':>8} {'log MB':>7} {'load':>5}"
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as loading:
        assert loading.stdout is not None
        acknowledged = 0
        begin = last = time.monotonic()
        cpu = cpu_seconds(collector.process.pid)
        window: list[float] = []
        for line in loading.stdout:
            sent = Sent(*json.loads(line))
            window.append(sent.latency_ms)
            if time.monotonic() - last >= options.report * 60:
                now, spent = time.monotonic(), cpu_seconds(collector.process.pid)
                spans = len(window) * SPANS
                acknowledged += spans
                quantiles = statistics.quantiles(window, n=100)
                asked = statistics.median(answers_ms) if answers_ms else 0
                log = database.with_name(database.name + ".wal")
                print(
                    f"{(now - begin) / 60:6.1f} {spans / (now - last):8,.0f} {quantiles[49]:7.0f} "
                    f"{quantiles[98]:7.0f} {max(window):7.0f} {asked:8.0f} "
                    f"{(spent - cpu) / spans * 1e6:7.0f} {memory_mib(collector.process.pid):5.0f} "
                    f"{database.stat().st_size / 1e6:8,.0f} "
                    f"{log.stat().st_size / 1e6 if log.exists() else 0:7.0f} "
                    f"{os.getloadavg()[0]:5.1f}",
                    flush=True,
                )
                last, cpu = now, spent
                window.clear()
                answers_ms.clear()
        acknowledged += len(window) * SPANS
    stop.set()
    asking.join()
    expired = deleted(collector.http)
    collector.stop()
    stored = stored_spans(database)
    print(f"{acknowledged:,} acknowledged = {stored:,} stored + {expired:,} deleted by retention")
    assert acknowledged == stored + expired, "a span is missing or doubled"


if __name__ == "__main__":
    main()
