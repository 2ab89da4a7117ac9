"""How many spans per second the collector acknowledges, after the commit, over HTTP and gRPC.

    python tests/benchmarks/bench_collector.py [--requests N] [--connections N] [--resend] [--gzip]

A real collector process writes a new database; another process sends pre-encoded requests of 512
spans, each with 15 attributes and one event, about 2.7 KB, over persistent connections, the next on
each as soon as the last is acknowledged. Both share the machine. CPU and memory are the
collector's. With --resend everything is sent twice, and the second half is what is timed.
"""

import argparse
import gzip
import http.client
import multiprocessing
import os
import queue
import random
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

sys.path.insert(0, str(Path(__file__).parents[1]))
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


def messages(choose: random.Random) -> str:
    text = " ".join(choose.choices(TEXT.split(), k=170))[:960]
    return '[{"role":"user","parts":[{"type":"text","content":"' + text + '"}]}]'


def template(choose: random.Random) -> Span:
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
        "gen_ai.input.messages": messages(choose),
        "gen_ai.output.messages": messages(choose),
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


def encode(count: int) -> list[bytes]:
    """Encode requests whose spans are all different, in the order of their start times."""
    choose = random.Random(7)
    templates = [template(choose) for _ in range(SPANS)]
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
    bodies = encode(options.requests)
    if options.gzip and transport == "http":
        bodies = [gzip.compress(body, 6) for body in bodies]
    senders = [SENDERS[transport](address, options.gzip) for _ in range(options.connections)]
    result = send_all(bodies, senders)
    if options.resend:
        result = send_all(bodies, senders)
    assert len(result.latencies_ms) == options.requests, "a request was not acknowledged"
    results.put((result, sum(map(len, bodies)) / options.requests / SPANS))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure(options: argparse.Namespace, transport: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    spans = options.requests * SPANS
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "bench.duckdb"
        collector = collector_process.start(database, Path(folder) / "log", *options.collector)
        before = cpu_seconds(collector.process.pid)
        address = {"http": collector.http, "grpc": collector.grpc}[transport]
        loading = spawn.Process(target=load, args=(options, transport, address, results))
        loading.start()
        result, bytes_per_span = results.get(timeout=600)
        loading.join()
        cpu = cpu_seconds(collector.process.pid) - before
        memory = peak_memory_mib(collector.process.pid)
        collector.stop()
        with duckdb.connect(str(database), read_only=True) as connection:
            [(stored,)] = connection.execute("SELECT count(*) FROM spans").fetchall()
        disk = database.stat().st_size
    assert stored == spans, f"{stored} spans stored, {spans} acknowledged"
    latencies = statistics.quantiles(result.latencies_ms, n=100)
    print(
        f"{transport}: {spans / result.seconds:9,.0f} spans/s acknowledged; "
        f"acknowledgement p50 {latencies[49]:.0f} ms, p99 {latencies[98]:.0f} ms; "
        f"CPU {cpu / spans / (2 if options.resend else 1) * 1e6:.0f} µs/span; "
        f"peak memory {memory:.0f} MiB; {bytes_per_span:.0f} B/span sent, "
        f"{disk / spans:.0f} B/span on disk",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--requests", type=int, default=100, help="requests of 512 spans")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--transport", choices=[*SENDERS, "both"], default="both")
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--resend", action="store_true")
    parser.add_argument("collector", nargs="*", help="options for the collector, after --")
    options = parser.parse_args()
    print("$", "python", *sys.argv)
    print(
        f"{options.requests} requests of {SPANS} spans, {options.connections} connections, "
        f"{os.cpu_count()} CPUs, Python {sys.version.split()[0]}, DuckDB {duckdb.__version__}"
    )
    for transport in SENDERS if options.transport == "both" else [options.transport]:
        measure(options, transport)


if __name__ == "__main__":
    main()
