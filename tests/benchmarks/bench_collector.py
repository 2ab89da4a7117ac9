"""How many spans per second the collector acknowledges, after the commit, over HTTP and gRPC.

    python tests/benchmarks/bench_collector.py [--requests N] [--resend] [--query NAME] [--stored N]
        [--redaction on|off|both] [--texts plain|lines|leaking]

A real collector process writes a new database; another process sends pre-encoded requests of 512
spans, each with 15 attributes and one event, about 2.7 KB, over persistent connections, the next on
each as soon as the last is acknowledged. Both share the machine. CPU (per span) and memory (the
peak) are the collector's. The plain decoder (decode.py) is measured beside the fast one, for the
ratio: figures of two runs are not comparable on a busy machine. With --resend everything is sent
twice; with --query a named query is asked all the time; with --stored the store is full before.
With --redaction both, collectors that redact (the default policy) and that do not take turns, and
their ratio is printed; texts are on one line, or on several, which JSON escapes, or one span in
twenty leaks an address.
"""

import argparse
import gzip
import http.client
import multiprocessing
import os
import queue
import random
import re
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

sys.path.insert(0, str(Path(__file__).parents[1]))
from filled_store import fill

import collector_process

SPANS = 512
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
TEXT = (
    "the customer asks why parcel promised for Tuesday has not arrived and whether fee express "
    "delivery is paid back order was packed on Sunday evening left warehouse Monday waiting in "
    "depot since carrier names a missing house number refund please check address again tool "
    "returned status delayed because of weather try tomorrow morning between nine eleven"
)

Send = Callable[[bytes], None]


class Load(NamedTuple):
    """What the loading process measured."""

    seconds: float
    latencies_ms: list[float]


def attribute(key: str, value: str | float) -> KeyValue:
    field = {str: "string_value", int: "int_value", float: "double_value"}[type(value)]
    return KeyValue(key=key, value=AnyValue(**{field: value}))


def messages(choose: random.Random, texts: str) -> str:
    text = " ".join(choose.choices(TEXT.split(), k=170))[:960]
    if texts == "lines":
        text = re.sub(r"((?:\S+ ){11}\S+) ", r"\1\\n", text)
    elif texts == "leaking" and choose.random() < 0.05:
        text = "write to bob@example.com " + text
    return '[{"role":"user","parts":[{"type":"text","content":"' + text + '"}]}]'


def template(choose: random.Random, texts: str) -> Span:
    """Return a chat model's span as the handler writes it."""
    span = Span(name="chat gpt-4o", kind=Span.SPAN_KIND_CLIENT, parent_span_id=b"\1" * 8)
    values: dict[str, str | int | float] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.temperature": 0.2,
        "gen_ai.usage.input_tokens": 412,
        "gen_ai.usage.output_tokens": 96,
        "gen_ai.conversation.id": "thread-7",
        "gen_ai.input.messages": messages(choose, texts),
        "gen_ai.output.messages": messages(choose, texts),
        "otelchain.run.id": str(uuid.UUID(int=choose.getrandbits(128))),
        "otelchain.run.type": "chat_model",
        "otelchain.run.name": "ChatOpenAI",
        "otelchain.run.status": "ok",
        "langgraph.node": "answer",
        "langgraph.step": 3,
    }
    span.attributes.extend(attribute(key, value) for key, value in values.items())
    event = span.events.add(name="gen_ai.first_token", time_unix_nano=time.time_ns())
    event.attributes.append(attribute("otelchain.time_to_first_token_ms", 231.5))
    return span


def encode(count: int, texts: str = "plain") -> list[bytes]:
    """Encode requests whose spans are all different, in the order of their start times."""
    choose = random.Random(7)
    templates = [template(choose, texts) for _ in range(SPANS)]
    start = time.time_ns()
    bodies = []
    for number in range(count):
        request = ExportTraceServiceRequest()
        resource_spans = request.resource_spans.add()
        resource_spans.resource.attributes.append(attribute("service.name", "support"))
        scope_spans = resource_spans.scope_spans.add()
        scope_spans.scope.name = "otelchain"
        for index, span in enumerate(templates):
            span.trace_id = os.urandom(16)
            span.span_id = os.urandom(8)
            span.start_time_unix_nano = start + (number * SPANS + index) * 50_000
            span.end_time_unix_nano = span.start_time_unix_nano + 800_000_000
            scope_spans.spans.append(span)
        bodies.append(request.SerializeToString())
    return bodies


def http_sender(address: str, compress: bool) -> Send:
    connection = http.client.HTTPConnection(address)
    headers = {"Content-Type": "application/x-protobuf"}
    if compress:
        headers["Content-Encoding"] = "gzip"

    def send(body: bytes) -> None:
        connection.request("POST", "/v1/traces", body, headers)
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"")

    return send


def grpc_sender(address: str, compress: bool) -> Send:
    # Without its own pool every channel would share one connection.
    options = [("grpc.use_local_subchannel_pool", 1)]
    compression = grpc.Compression.Gzip if compress else grpc.Compression.NoCompression
    export = grpc.insecure_channel(address, options, compression).unary_unary(METHOD)

    def send(body: bytes) -> None:
        assert export(body) == b""

    return send


PROGRAMS = {
    "fast": collector_process.COLLECTOR,
    "reference": (str(Path(__file__).with_name("reference_collector.py")),),
}
POLICIES = {"on": "personal", "off": "off"}
SENDERS = {"http": http_sender, "grpc": grpc_sender}


def send_all(bodies: list[bytes], senders: list[Send]) -> Load:
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    for body in bodies:
        waiting.put(body)
    latencies_ms: list[float] = []

    def work(send: Send) -> None:
        while True:
            try:
                body = waiting.get_nowait()
            except queue.Empty:
                return
            start = time.perf_counter()
            send(body)
            latencies_ms.append((time.perf_counter() - start) * 1e3)

    threads = [threading.Thread(target=work, args=[send]) for send in senders]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Load(time.perf_counter() - start, latencies_ms)


def load(options: argparse.Namespace, transport: str, address: str, results: Any) -> None:
    """Encode, connect, send; runs in the loading process."""
    bodies = encode(options.requests, options.texts)
    size = sum(map(len, bodies)) / options.requests / SPANS
    if options.gzip and transport == "http":
        bodies = [gzip.compress(body, 6) for body in bodies]
    senders = [SENDERS[transport](address, options.gzip) for _ in range(options.connections)]
    for _ in range(2 if options.resend else 1):
        result = send_all(bodies, senders)
        assert len(result.latencies_ms) == options.requests, "a request was not acknowledged"
        results.put((result, size))


def ask_until(
    stop: threading.Event,
    address: str,
    name: str,
    latencies_ms: list[float],
    pause_seconds: float = 0.05,
) -> None:
    """Ask a named query again and again, with a pause between."""
    connection = http.client.HTTPConnection(address)
    while not stop.wait(pause_seconds):
        start = time.perf_counter()
        connection.request("POST", f"/queries/{name}", b"{}", {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        assert response.status == 200, answer
        latencies_ms.append((time.perf_counter() - start) * 1e3)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure(options: argparse.Namespace, transport: str, decoder: str, redaction: str) -> list[str]:
    """Start a collector, load it, and return its line of the table; one more for a resend."""
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "bench.duckdb"
        if options.stored:
            fill(database, encode(40), options.stored)
        before = stored_spans(database) if options.stored else 0
        disk = database.stat().st_size if options.stored else 0
        collector = collector_process.start(
            database,
            Path(folder) / "log",
            *("--redaction", POLICIES[redaction], *options.collector),
            program=PROGRAMS[decoder],
        )
        lines = under_load(options, transport, f"{decoder:9} {redaction:3}", collector)
        collector.stop()
        spans = stored_spans(database) - before
        assert spans == options.requests * SPANS, f"{spans} spans stored"
        disk_per_span = (database.stat().st_size - disk) / spans
    return [f"{line} {disk_per_span:8,.0f}" for line in lines]


def under_load(
    options: argparse.Namespace,
    transport: str,
    variant: str,
    collector: collector_process.RunningCollector,
) -> list[str]:
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    address = {"http": collector.http, "grpc": collector.grpc}[transport]
    loading = spawn.Process(target=load, args=(options, transport, address, results))
    stop, answers_ms = threading.Event(), []
    asking = threading.Thread(
        target=ask_until, args=(stop, collector.http, options.query, answers_ms)
    )
    loading.start()
    if options.query:
        asking.start()
    lines = []
    for number in range(2 if options.resend else 1):
        cpu = cpu_seconds(collector.process.pid)
        result, size = results.get(timeout=1_200)
        cpu = cpu_seconds(collector.process.pid) - cpu
        spans = options.requests * SPANS
        latencies = statistics.quantiles(result.latencies_ms, n=100)
        asked = f"{statistics.median(answers_ms):8.0f}" if answers_ms else " " * 8
        lines.append(
            f"{transport:5} {variant} {'resend' if number else 'first':6} "
            f"{spans / result.seconds:9,.0f} {latencies[49]:8.0f} {latencies[98]:8.0f} "
            f"{cpu / spans * 1e6:8.0f} {peak_memory_mib(collector.process.pid):8.0f} "
            f"{asked} {size:8,.0f}"
        )
    stop.set()
    loading.join()
    if options.query:
        asking.join()
    return lines


def stored_spans(database: Path) -> int:
    with duckdb.connect(str(database), read_only=True) as connection:
        [(stored,)] = connection.execute("SELECT count(*) FROM spans").fetchall()
    return int(stored)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--requests", type=int, default=100, help="requests of 512 spans")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--transport", choices=[*SENDERS, "both"], default="both")
    parser.add_argument("--decoder", choices=[*PROGRAMS, "both"], default="both")
    parser.add_argument("--redaction", choices=[*POLICIES, "both"], default="on")
    parser.add_argument("--texts", choices=["plain", "lines", "leaking"], default="plain")
    parser.add_argument("--stored", type=int, default=0, help="spans in the store before")
    parser.add_argument("--query", help="a named query to ask during the load")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--resend", action="store_true")
    parser.add_argument("collector", nargs="*", help="options for the collector, after --")
    options = parser.parse_args()
    print("$", "python", *sys.argv)
    print(
        f"{options.requests} requests of {SPANS} spans, {options.connections} connections, "
        f"{os.cpu_count()} CPUs, Python {sys.version.split()[0]}, DuckDB {duckdb.__version__}, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    print(f"{'':26}{'spans/s':>10} {'p50 ms':>8} {'p99 ms':>8} {'µs CPU':>8} {'MiB':>8}", end="")
    print(f" {'query ms':>8} {'B sent':>8} {'B disk':>8}")
    rates: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    for _ in range(options.repeat):
        for transport in chosen(SENDERS, options.transport):
            for decoder in chosen(PROGRAMS, options.decoder):
                for policy in chosen(POLICIES, options.redaction):
                    lines = measure(options, transport, decoder, policy)
                    print(*lines, sep="\n", flush=True)
                    rates[policy].append(spans_per_second(lines[0]))
    if all(rates.values()):
        ratios = [on / off for on, off in zip(rates["on"], rates["off"], strict=True)]
        median = statistics.median(ratios)
        print(f"throughput with redaction / without: {median:.2f} (median of {len(ratios)} pairs)")


def chosen(known: Iterable[str], option: str) -> list[str]:
    return list(known) if option == "both" else [option]


def spans_per_second(line: str) -> float:
    return float(line.split()[4].replace(",", ""))


if __name__ == "__main__":
    main()
