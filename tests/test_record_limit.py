"""A request is refused for the number of its parts, however few bytes it has on the wire."""

import asyncio
import gzip
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from collector_process import RunningCollector
from otelchain_collector.budget import ByteBudget, QueueFullError
from otelchain_collector.decoding import EncodedRequest, decode_request
from otelchain_collector.exchange.otlp_binary_files import _of_protobuf
from otelchain_collector.exchange.otlp_json_files import requests_in
from otelchain_collector.exchange.sources import Document
from otelchain_collector.ingest import Ingest
from otelchain_collector.otlp_json import parse_json
from otelchain_collector.otlp_protobuf import parse_protobuf
from otelchain_collector.record_limit import (
    MAX_PARTS,
    MAX_RECORDS,
    TooManyRecordsError,
    check_json,
    check_protobuf,
)
from otelchain_collector.signals import LOGS, METRICS, TRACES
from otlp_clients import (
    JSON,
    PROTOBUF,
    SERVICES,
    SIGNALS,
    TRANSPORTS,
    rows,
    send,
)
from otlp_requests import (
    field,
    log_record,
    logs_request,
    metrics_request,
    point,
    request,
    span,
    text,
)

MIB = 1024 * 1024
BY_NAME = {signal.name: signal for signal in (TRACES, LOGS, METRICS)}
TABLES = {"traces": "spans", "logs": "logs", "metrics": "metric_points"}
# Where a part can be: numbers of fields in opentelemetry-proto, below those of the request.
RECORDS = {
    "resources": ("every", ()),
    "scopes": ("every", (2,)),
    "records": ("every", (2, 2)),
    "events": ("traces", (2, 2, 11)),
    "links": ("traces", (2, 2, 13)),
    "gauge points": ("metrics", (2, 2, 5, 1)),
    "sum points": ("metrics", (2, 2, 7, 1)),
    "histogram points": ("metrics", (2, 2, 9, 1)),
    "exponential histogram points": ("metrics", (2, 2, 10, 1)),
    "summary points": ("metrics", (2, 2, 11, 1)),
    "gauge exemplars": ("metrics", (2, 2, 5, 1, 5)),
    "sum exemplars": ("metrics", (2, 2, 7, 1, 5)),
    "histogram exemplars": ("metrics", (2, 2, 9, 1, 8)),
    "exponential histogram exemplars": ("metrics", (2, 2, 10, 1, 11)),
}
VALUES = {
    "resource attributes": ("every", (1, 1)),
    "scope attributes": ("every", (2, 1, 3)),
    "span attributes": ("traces", (2, 2, 9)),
    "log attributes": ("logs", (2, 2, 6)),
    "metadata": ("metrics", (2, 2, 12)),
    "point attributes": ("metrics", (2, 2, 5, 1, 7)),
    "list of an attribute": ("traces", (2, 2, 9, 2, 5, 1)),
    "list of a body": ("logs", (2, 2, 5, 5, 1)),
    "map of a body": ("logs", (2, 2, 5, 6, 1)),
    "list of entities": ("every", (1, 3)),
}
every_transport = pytest.mark.parametrize("transport", TRANSPORTS)
every_signal = pytest.mark.parametrize("signal", SIGNALS)


def places(table: dict[str, tuple[str, tuple[int, ...]]]) -> list[Any]:
    return [
        pytest.param(signal, path, id=f"{signal} {name}")
        for name, (of, path) in table.items()
        for signal in SIGNALS
        if of in ("every", signal)
    ]


def binary(path: tuple[int, ...], parts: bytes) -> bytes:
    """Return a request with these parts at a place."""
    for number in reversed((1, *path)[:-1]):
        parts = field(number, parts)
    return parts


def empty_parts(path: tuple[int, ...], count: int) -> bytes:
    return field((1, *path)[-1], b"") * count


def in_json(signal: str, path: tuple[int, ...], count: int) -> bytes:
    """Return the same in JSON, by the names of the fields."""
    descriptor: Any = BY_NAME[signal].request.DESCRIPTOR
    fields = []
    for number in (1, *path):
        fields.append(descriptor.fields_by_number[number])
        descriptor = fields[-1].message_type
    *around, last = fields
    tree = f'{{"{last.json_name}":[{",".join(["{}"] * count)}]}}'
    for each in reversed(around):
        tree = f'{{"{each.json_name}":{f"[{tree}]" if _is_repeated(each) else tree}}}'
    return tree.encode()


def _is_repeated(descriptor: Any) -> bool:
    if hasattr(descriptor, "is_repeated"):
        return bool(descriptor.is_repeated)
    return bool(descriptor.label == 3)  # protobuf before 6.31


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    import collector_process

    folder = tmp_path_factory.mktemp("records")
    collector = collector_process.start(folder / "t.duckdb", folder / "log")
    yield collector
    collector.kill()


# --- what is counted ---------------------------------------------------------------------------


@pytest.mark.parametrize(("signal", "path"), places(RECORDS))
def test_records_beyond_the_limit_are_refused_in_both_encodings(
    signal: str, path: tuple[int, ...]
) -> None:
    refused = MAX_RECORDS + 1
    for body, parse in (
        (binary(path, empty_parts(path, refused)), parse_protobuf),
        (in_json(signal, path, refused), parse_json),
    ):
        with pytest.raises(TooManyRecordsError, match="more than 200000 records"):
            decode_request(BY_NAME[signal], EncodedRequest(body, parse), 1, MIB)


@pytest.mark.parametrize(("signal", "path"), places(RECORDS))
def test_as_many_as_the_limit_are_taken(signal: str, path: tuple[int, ...]) -> None:
    # What is around them is counted too; a kind of data is a part of its metric.
    around = min(len(path), 3) + (1 if len(path) > 4 else 0)
    taken = MAX_RECORDS - around

    check_protobuf(BY_NAME[signal], binary(path, empty_parts(path, taken)))
    with pytest.raises(TooManyRecordsError):
        check_protobuf(BY_NAME[signal], binary(path, empty_parts(path, taken + 1)))
    parse_json(BY_NAME[signal], in_json(signal, path, taken), 1)
    with pytest.raises(TooManyRecordsError):
        parse_json(BY_NAME[signal], in_json(signal, path, taken + 1), 1)


@pytest.mark.parametrize(("signal", "path"), places(VALUES))
def test_attributes_and_values_beyond_the_limit_are_refused_in_both_encodings(
    signal: str, path: tuple[int, ...]
) -> None:
    with pytest.raises(TooManyRecordsError, match="more than 1500000 records, attributes and"):
        check_protobuf(BY_NAME[signal], binary(path, empty_parts(path, MAX_PARTS)))
    check_protobuf(BY_NAME[signal], binary(path, empty_parts(path, MAX_PARTS - 10)))
    with pytest.raises(TooManyRecordsError, match="more than 1500000 records, attributes and"):
        check_json(in_json(signal, path, MAX_PARTS))
    check_json(in_json(signal, path, MAX_PARTS - 20))


def test_bucket_counts_are_counted_although_they_are_one_field() -> None:
    # ExponentialHistogram, its data point, positive buckets, bucket_counts.
    path = (2, 2, 10, 1, 8, 2)

    with pytest.raises(TooManyRecordsError):
        check_protobuf(METRICS, binary(path, field(2, bytes(2 * MAX_PARTS + 2))))


@pytest.mark.parametrize(
    "part",
    [
        b"\x92\x00\x00",  # the number of the field, written longer than it has to be
        b"\x12\x80\x00",  # its length, the same
        b"\x12\x02\x9a\x06",  # a span that is broken: it is rejected alone
        b"\x78\x01\x12\x00",  # after a field that nobody knows
        b"\x7b\x12\x00\x7c",  # a group of such
    ],
)
def test_parts_are_counted_however_they_are_written(part: bytes) -> None:
    with pytest.raises(TooManyRecordsError):
        check_protobuf(TRACES, field(1, field(2, part * (MAX_RECORDS + 1))))


def test_what_follows_a_broken_part_is_counted() -> None:
    broken = field(2, b"\x12\xff\x01")  # a scope whose span is longer than the scope

    with pytest.raises(TooManyRecordsError):
        check_protobuf(TRACES, field(1, broken + field(2, b"\x12\x00" * MAX_RECORDS)))


@pytest.mark.parametrize("cut", range(12))
def test_a_body_that_ends_in_the_middle_is_counted_to_its_end(cut: int) -> None:
    tail = field(1, b"\x80\x80\x12\x05abcd\x09")
    few, many = (field(1, field(2, b"\x12\x00" * (MAX_RECORDS + n))) for n in (-4, 1))

    check_protobuf(TRACES, few + tail[: len(tail) - cut])
    with pytest.raises(TooManyRecordsError):
        check_protobuf(TRACES, many + tail[: len(tail) - cut])


def test_brackets_in_the_texts_of_json_are_no_parts() -> None:
    note = '{[:,\\"' * MAX_PARTS
    tree = {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": note}]}]}]}

    check_json(json.dumps(tree).encode())


def test_letters_in_the_texts_of_protobuf_are_no_parts() -> None:
    check_protobuf(TRACES, request(span(name="jZ*" * MAX_PARTS)).SerializeToString())


def test_json_of_names_and_scalars_is_refused_too() -> None:
    for body in (b'{"a":[' + b"1," * (4 * MAX_PARTS) + b"1]}", b'{"a":1,' * (2 * MAX_PARTS) + b"}"):
        with pytest.raises(TooManyRecordsError):
            check_json(body)


# --- over the wire -----------------------------------------------------------------------------


def send_gzip(collector: RunningCollector, signal: str, transport: str, data: bytes) -> Any:
    """Return code and text of the answer to a compressed request."""
    if transport == "grpc":
        options = [("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(collector.grpc, options) as channel:
            export = channel.unary_unary(f"/{SERVICES[signal]}/Export")
            with pytest.raises(grpc.RpcError) as caught:
                export(data, timeout=60, compression=grpc.Compression.Gzip)
        error: Any = caught.value
        assert "google.rpc.retryinfo-bin" not in dict(error.trailing_metadata())
        return error.code(), error.details()
    connection = http.client.HTTPConnection(collector.http, timeout=60)
    media_type = JSON if transport == "http-json" else PROTOBUF
    headers = {"Content-Type": media_type, "Content-Encoding": "gzip"}
    try:
        connection.request("POST", f"/v1/{signal}", gzip.compress(data), headers)
        reply = connection.getresponse()
        assert "retry-after" not in reply.headers
        return reply.status, reply.read().decode(errors="replace")
    finally:
        connection.close()


@pytest.mark.failure("gzip-bomb")
@every_transport
@every_signal
def test_a_small_request_of_many_records_is_refused_and_its_neighbours_are_served(
    signal: str, transport: str, collector: RunningCollector
) -> None:
    note = f"neighbour {signal} {transport}"
    good = {"traces": request(span(), service=note)}
    good["logs"] = logs_request(log_record(), service=note)
    good["metrics"] = metrics_request(point(), service=note)
    hostile = [
        (
            in_json(signal, path, count)
            if transport == "http-json"
            else binary(path, empty_parts(path, count)),
            words,
        )
        for path, count, words in (
            ((), 500_000, "200000 records"),
            ((2, 2), 500_000, "200000 records"),
            ((1, 1), MAX_PARTS, "1500000 records, attributes and values"),
        )
    ]
    before = len(rows(collector, "FROM rejected_records"))

    with ThreadPoolExecutor(len(hostile)) as threads:
        answers = threads.map(
            lambda each: send_gzip(collector, signal, transport, each[0]), hostile
        )
        served = [send(collector, signal, each, good[signal]).ok for each in TRANSPORTS]
        refused = list(answers)

    assert served == [True] * 3
    assert {code for code, _ in refused} <= {413, grpc.StatusCode.RESOURCE_EXHAUSTED}
    for (_, message), (_, words) in zip(refused, hostile, strict=True):
        assert words in message
        assert "smaller batches" in message
    table = TABLES[signal]
    assert len(rows(collector, f"FROM {table} WHERE service_name = '{note}'")) == 1
    assert len(rows(collector, "FROM rejected_records")) == before


@every_transport
@every_signal
def test_a_large_request_of_ordinary_records_is_taken(
    signal: str, transport: str, collector: RunningCollector
) -> None:
    note = f"large {signal} {transport}"
    attributes = [text(f"key.{number}", "value") for number in range(10)]
    if signal == "traces":
        spans = [span(attributes=attributes) for _ in range(20_000)]
        message: Any = request(*spans, service=note)
    elif signal == "logs":
        records = [log_record(attributes=attributes) for _ in range(20_000)]
        message = logs_request(*records, service=note)
    else:
        points = [point(attributes=attributes) for _ in range(20_000)]
        message = metrics_request(*points, service=note)

    answer = send(collector, signal, transport, message)

    assert (answer.ok, answer.rejected) == (True, 0)
    found = rows(
        collector, f"SELECT count(*) AS n FROM {TABLES[signal]} WHERE service_name = '{note}'"
    )
    assert found == [{"n": 20_000}]


# --- the queue ---------------------------------------------------------------------------------


def test_a_decoded_request_holds_room_in_the_queue_for_its_records() -> None:
    budget = ByteBudget(64 * MIB)
    held: list[int] = []

    class Writer:
        def expect(self, reservation: object) -> None: ...

        def forget(self, reservation: object) -> None: ...

        def submit(self, decoded: object, reservation: Any) -> "Future[Any]":
            held.append(budget.used_bytes)
            reservation.release()
            done: Future[Any] = Future()
            done.set_result(None)
            return done

    async def run() -> None:
        writer: Any = Writer()
        ingest = Ingest(writer, budget, MIB, None)
        body = field(1, field(2, b"\x12\x00" * 1_000))
        reservation = budget.reserve()
        reservation.add(len(body))
        await ingest.accept(TRACES, lambda _: EncodedRequest(body, parse_protobuf), reservation)
        ingest.close()

    asyncio.run(run())

    assert held == [256_000]
    assert budget.used_bytes == 0


def test_records_are_held_instead_of_bytes_up_to_a_quarter_of_the_queue() -> None:
    budget = ByteBudget(4_000)
    reservation = budget.reserve()
    reservation.add(600)

    reservation.hold_records(2)
    assert budget.used_bytes == 600
    reservation.hold_records(3)
    assert budget.used_bytes == 768
    reservation.hold_records(1_000)
    assert budget.used_bytes == 1_000
    reservation.add(500)
    reservation.hold_records(1_000)
    assert budget.used_bytes == 1_500
    other = budget.reserve()
    other.add(2_000)
    with pytest.raises(QueueFullError):
        budget.reserve().hold_records(4)
    assert budget.used_bytes == 3_500


# --- files -------------------------------------------------------------------------------------


def complain(place: str, count: int, reason: str) -> None:
    raise AssertionError(f"{place}: {count} {reason}")


@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_a_document_of_more_records_is_imported_as_several_requests(signal: str) -> None:
    # Each as small as can be: 3 and 2 bytes a record, far below the limit in bytes.
    body = in_json(signal, (2, 2), 250_000)

    requests = list(requests_in(Document("f", 1, json.loads(body)), complain))

    assert [each.records for each in requests] == [50_000] * 5
    for each in requests:
        parse_json(each.signal, each.body, 1)


def test_a_binary_document_of_more_records_is_imported_as_several_requests() -> None:
    good = span().SerializeToString()
    empty = empty_parts((2, 2), 199_999)
    body = field(1, field(2, field(2, good) + empty))

    requests = list(_of_protobuf("f:1", body, complain))

    assert [each.records for each in requests] == [50_000] * 4
    for each in requests:
        check_protobuf(each.signal, each.body)


# --- memory ------------------------------------------------------------------------------------

_MEASURED = """
import resource
from otelchain_collector import {module}
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
{prepare}
before = peak()
{act}
print(peak() - before)
"""


def peak_mib(module: str, prepare: str, act: str) -> int:
    """Return how many MiB more than before a piece of code has held, in a process of its own."""
    code = _MEASURED.format(module=module, prepare=prepare, act=act)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss is Linux's")
def test_short_json_of_many_spans_is_held_as_texts() -> None:
    # 100,000 texts of two characters; as orjson's bytes they take 390 MiB.
    many = "span_columns._json([{}] * 100_000)"
    assert peak_mib("span_columns", "span_columns._json([{}])", many) < 100


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss is Linux's")
def test_a_broken_json_of_many_escapes_takes_as_much_as_its_text() -> None:
    # 20 million characters that are two bytes each; 2 GB where each is remembered.
    prepare = r"""body = b'{"x":"' + b"\\n" * 10_000_000 + b'\xff"}'"""
    assert peak_mib("json_document", prepare, "json_document.load_json(body)") < 400
