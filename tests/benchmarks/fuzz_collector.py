"""Feed the collector mutated OTLP requests and count what becomes of them.

    python tests/benchmarks/fuzz_collector.py [--inputs 200000] [--live 20000] [--seed 1]

First in this process: parser, decoder, writer and an in-memory store, where a record that vanishes
or a neighbour that changes is a fault too (tests/otlp_fuzz.py). Then against a collector process,
over HTTP and gRPC: every answer has to be 200, 400 or 413 (OK or INVALID_ARGUMENT); at the end
it has to be ready and to store a good request. A fault ends the run with its input in hex.
"""

import argparse
import http.client
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import grpc

sys.path[:0] = [str(Path(__file__).parents[1])]

import collector_process  # noqa: E402
from otlp_clients import JSON, PROTOBUF, SERVICES, rows, send  # noqa: E402
from otlp_fuzz import Entry, Fuzz, corpus, mutated  # noqa: E402
from otlp_requests import log_record, logs_request, metrics_request, point, request, span  # noqa: E402

_HTTP_CODES = {200, 400, 413}
_GRPC_CODES = {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT}
_STEP = 10_000


def main() -> None:
    """Run both parts and print their counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--live", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(" ".join(sys.argv))
    _in_process(arguments.inputs, arguments.seed)
    _live(arguments.live, arguments.seed)


def _in_process(inputs: int, seed: int) -> None:
    fuzz = Fuzz(seed)
    started = time.process_time()
    for left in range(inputs, 0, -_STEP):
        fuzz.run(min(_STEP, left))
    _report("in this process", fuzz.counts, time.process_time() - started)
    fuzz.close()


def _live(inputs: int, seed: int) -> None:
    random = Random(seed)
    entries = corpus()
    whole = [entry.write(entry.records) for entry in entries]
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        collector = collector_process.start(Path(folder, "t.duckdb"), Path(folder, "log"))
        connection = http.client.HTTPConnection(collector.http, timeout=60)
        started = time.process_time()
        try:
            with grpc.insecure_channel(collector.grpc) as channel:
                for _ in range(inputs):
                    entry = random.choice(entries)
                    body = mutated(entry.write(entry.records), random, whole)
                    if entry.encoding == "protobuf" and random.random() < 0.5:
                        code = _export(channel, entry, body)
                        assert code in _GRPC_CODES, (code, body.hex())
                    else:
                        code = _post(connection, entry, body)
                        assert code in _HTTP_CODES, (code, body.hex())
                    counts[str(code)] += 1
            _check(collector)
        finally:
            connection.close()
            collector.kill()
        log = Path(folder, "log").read_text()
        assert "Traceback" not in log, log
    _report("against a collector process", counts, time.process_time() - started)


def _export(channel: Any, entry: Entry, body: bytes) -> grpc.StatusCode:
    try:
        channel.unary_unary(f"/{SERVICES[entry.signal.name]}/Export")(body, timeout=60)
    except grpc.RpcError as error:
        failed: Any = error
        return failed.code()
    return grpc.StatusCode.OK


def _post(connection: http.client.HTTPConnection, entry: Entry, body: bytes) -> int:
    media_type = JSON if entry.encoding == "json" else PROTOBUF
    connection.request("POST", entry.signal.path, body, {"Content-Type": media_type})
    response = connection.getresponse()
    response.read()
    return response.status


def _check(collector: collector_process.RunningCollector) -> None:
    assert collector_process.readiness(collector)["status"] == "ready"
    good = {
        "traces": (request(span(), service="after"), "spans"),
        "logs": (logs_request(log_record(), service="after"), "logs"),
        "metrics": (metrics_request(point(), service="after"), "metric_points"),
    }
    for signal, (message, table) in good.items():
        assert send(collector, signal, "grpc", message).ok
        assert len(rows(collector, f"FROM {table} WHERE service_name = 'after'")) == 1


def _report(title: str, counts: "Counter[str]", cpu_seconds: float) -> None:
    print(f"\n{title}, {cpu_seconds:.0f} s of CPU here")
    print(json.dumps(dict(sorted(counts.items())), indent=2))


if __name__ == "__main__":
    main()
