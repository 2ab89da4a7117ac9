"""Broken OTLP requests by mutation of real ones, and what the collector has to do with each.

Two kinds. A request mutated anywhere is stored in part or refused as malformed; anything else
is a fault. A request of which one record was mutated keeps the records beside it as they are.
"""

import gzip
import json
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from otelchain_collector.attribute_limit import cut_long_values
from otelchain_collector.decode import Decoded, decode
from otelchain_collector.decoding import _DECODERS
from otelchain_collector.inflate import NotCompressedError, TooLargeError, inflate
from otelchain_collector.otlp_arrow import NotTakenError
from otelchain_collector.otlp_json import parse_json
from otelchain_collector.otlp_protobuf import parse_protobuf
from otelchain_collector.otlp_request import MalformedRequestError
from otelchain_collector.signals import SIGNALS, TRACES, Signal
from otelchain_collector.span_columns import decode_columns
from otelchain_collector.span_table import rows_of
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer
from otlp_clients import json_bytes
from otlp_requests import START, log_record, logs_request, metrics_request, request, span, text
from otlp_wire import HISTOGRAM, protobuf_request

MAX_BYTES = 1024 * 1024
MAX_ATTRIBUTE_BYTES = 4096
#: What a mutation that knows the formats writes: numbers at their ends, text at its ends, brackets.
_TOKENS = (
    *(b"\xff" * 10, b"\x80" * 10 + b"\x01", b"\x00", b"\x0a\xff\xff\xff\xff\x0f", b"\x7f"),
    *(b"\xed\xa0\x80", b"\xff\xfe", b"\xf0\x9f\x98", b"\xef\xbf\xbf", b"\x00" * 16),
    *(b'"\\ud800"', b"\\ud83d", b"1e999", b"-0", b"18446744073709551616", b"-1", b"1_0", b"NaN"),
    *(b"null", b"true", b"{}", b"[]", b"[" * 500, b'{"a":' * 500, b'"', b"\\", b"\xef\xbb\xbf"),
    *(b'"stringValue"', b'"kvlistValue":{"values":[', b'"intValue":', b'"doubleValue":"NaN"'),
)


class Entry(NamedTuple):
    """A real request in one encoding; ``write`` makes one of records that are written already."""

    signal: Signal
    encoding: str
    records: tuple[bytes, ...]
    write: Callable[[Sequence[bytes]], bytes]


# --- real requests -----------------------------------------------------------------------------


def corpus() -> list[Entry]:
    """Return requests of three records for every signal, in protobuf and in JSON."""
    return [
        entry
        for signal, message in zip(SIGNALS, (_traces(), _logs(), _metrics()), strict=True)
        for entry in (_protobuf_entry(signal, message), _json_entry(signal, message))
    ]


def _attributes() -> list[KeyValue]:
    values = [
        AnyValue(string_value="what is the weather in Zürich? 😀"),
        AnyValue(bool_value=True),
        AnyValue(int_value=-(2**63)),
        AnyValue(double_value=float("nan")),
        AnyValue(bytes_value=b"\x00\xff"),
        AnyValue(),
    ]
    nested = AnyValue()
    nested.array_value.values.extend(values)
    deeper = AnyValue()
    deeper.kvlist_value.values.add(key="@bytes", value=nested)
    return [
        text("otelchain.run.type", "llm"),
        text("gen_ai.input.messages", json.dumps([{"role": "user", "parts": [{"text": "hi"}]}])),
        *(KeyValue(key=f"k.{index}", value=value) for index, value in enumerate(values)),
        KeyValue(key="nested", value=deeper),
    ]


def _traces() -> Any:
    spans = [span(attributes=_attributes(), trace_state="a=b", flags=257) for _ in range(3)]
    for each in spans:
        each.events.add(name="exception", time_unix_nano=START, attributes=_attributes())
        each.links.add(trace_id=b"l" * 16, span_id=b"l" * 8, attributes=_attributes())
        each.status.code = 2
    return request(*spans)


def _logs() -> Any:
    records = [log_record(attributes=_attributes(), trace_id=b"t" * 16) for _ in range(3)]
    for record in records:
        record.body.kvlist_value.values.extend(_attributes())
    return logs_request(*records)


def _metrics() -> Any:
    message = metrics_request()
    metric = message.resource_metrics[0].scope_metrics[0].metrics.add(name="duration", unit="s")
    metric.histogram.aggregation_temporality = 2
    for index in range(3):
        point = metric.histogram.data_points.add(
            time_unix_nano=START + index,
            count=3,
            sum=1.5,
            bucket_counts=[1, 2],
            explicit_bounds=[0.1],
            attributes=_attributes(),
        )
        point.exemplars.add(as_double=0.5, span_id=b"e" * 8, filtered_attributes=_attributes())
    return message


def _records_of(signal: Signal, message: Any) -> Any:
    resource = getattr(message, signal.resources)[0]
    records = getattr(getattr(resource, signal.scopes)[0], signal.records)
    return records[-1].histogram.data_points if signal.name == "metrics" else records


def _protobuf_entry(signal: Signal, message: Any) -> Entry:
    records = tuple(record.SerializeToString() for record in _records_of(signal, message))

    def write(records: Sequence[bytes]) -> bytes:
        return protobuf_request(signal.name, "shop", *records, kind=HISTOGRAM)

    return Entry(signal, "protobuf", records, write)


def _json_entry(signal: Signal, message: Any) -> Entry:
    tree = json.loads(json_bytes(message))
    holder, key = _holder(signal, tree)
    records = tuple(json.dumps(record).encode() for record in holder[key])
    holder[key] = "RECORDS"
    before, after = json.dumps(tree).encode().split(b'"RECORDS"')

    def write(records: Sequence[bytes]) -> bytes:
        return before + b"[" + b",".join(records) + b"]" + after

    return Entry(signal, "json", records, write)


def _holder(signal: Signal, tree: Any) -> tuple[Any, str]:
    if signal.name == "traces":
        return tree["resourceSpans"][0]["scopeSpans"][0], "spans"
    if signal.name == "logs":
        return tree["resourceLogs"][0]["scopeLogs"][0], "logRecords"
    return tree["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][-1]["histogram"], "dataPoints"


# --- mutations ---------------------------------------------------------------------------------


def mutated(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    """Return a copy that was changed in one to four places."""
    result = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        random.choice(_MUTATIONS)(result, random, others)
    return bytes(result[:MAX_BYTES])


def _flip(data: bytearray, random: Random, _: Sequence[bytes]) -> None:
    for _i in range(min(len(data), random.choice((1, 1, 2, 8)))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _overwrite(data: bytearray, random: Random, _: Sequence[bytes]) -> None:
    token = random.choice(_TOKENS)
    place = random.randrange(len(data) + 1)
    data[place : place + len(token)] = token


def _insert(data: bytearray, random: Random, _: Sequence[bytes]) -> None:
    place = random.randrange(len(data) + 1)
    data[place:place] = random.choice((random.choice(_TOKENS), random.randbytes(8)))


def _delete(data: bytearray, random: Random, _: Sequence[bytes]) -> None:
    first, last = _slice(data, random)
    del data[first:last]


def _repeat(data: bytearray, random: Random, _: Sequence[bytes]) -> None:
    first, last = _slice(data, random)
    data[last:last] = data[first:last] * random.choice((1, 2, 5))


def _truncate(data: bytearray, random: Random, _: Sequence[bytes]) -> None:
    del data[random.randrange(len(data) + 1) :]


def _splice(data: bytearray, random: Random, others: Sequence[bytes]) -> None:
    other = random.choice(others)
    place = random.randrange(len(data) + 1)
    data[place:] = other[random.randrange(len(other) + 1) :]


def _slice(data: bytearray, random: Random) -> tuple[int, int]:
    first = random.randrange(len(data) + 1)
    return first, min(len(data), first + random.choice((1, 2, 8, 64, 512)))


_MUTATIONS = (_flip, _flip, _overwrite, _insert, _delete, _repeat, _truncate, _splice)


# --- what has to come of it --------------------------------------------------------------------


class Fuzz:
    """Feeds mutated requests through parser, decoder, writer and an in-memory store.

    A fault is an exception, a record that vanishes, or a neighbour that changes: it raises.
    """

    def __init__(self, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._random = Random(seed)
        self._corpus = corpus()
        self._whole = [entry.write(entry.records) for entry in self._corpus]
        self._store = Store.open(":memory:")
        self._writer = Writer(self._store)
        self._waiting: list[Decoded] = []

    def run(self, inputs: int) -> None:
        """Feed so many inputs.

        Raises:
            AssertionError: A fault; the text has the input.
        """
        for _ in range(inputs):
            entry = self._random.choice(self._corpus)
            try:
                if self._random.random() < 0.5:
                    self._anywhere(entry)
                else:
                    self._in_one_record(entry)
            except Exception as error:
                body = self._last.hex()
                raise AssertionError(f"{entry.signal.name} {entry.encoding} {body}") from error
        self._commit()

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _anywhere(self, entry: Entry) -> None:
        body = entry.write(entry.records)
        packed = self._random.random() < 0.2
        if packed:
            body = gzip.compress(body, 1)
        self._feed(entry, mutated(body, self._random, self._whole), packed=packed)

    def _in_one_record(self, entry: Entry) -> None:
        """The records before and after the mutated one stay as they are."""
        first, middle, last = entry.records
        bad = mutated(middle, self._random, entry.records)
        if entry.encoding == "json" and not _is_one_json_object(bad):
            # It is no longer inside its record.
            self._anywhere(entry)
            return
        decoded = self._feed(entry, entry.write((first, bad, last)))
        assert decoded is not None, "malformed for the fault of one record"
        rows = _rows(decoded)
        expected = _rows(_decoded(entry, entry.write((first, last)), packed=False))
        assert {_said(row) for row in expected} <= {_said(row) for row in rows}
        found = len(rows) + len(decoded.pending) + len(decoded.rejected)
        assert found == len(entry.records)

    def _feed(self, entry: Entry, body: bytes, *, packed: bool = False) -> Decoded | None:
        self._last = body
        self.counts["inputs"] += 1
        try:
            decoded = _decoded(entry, body, packed=packed)
        except (MalformedRequestError, NotCompressedError, TooLargeError) as error:
            self.counts[type(error).__name__] += 1
            return None
        self.counts["records kept"] += len(_rows(decoded)) + len(decoded.pending)
        self.counts["records rejected"] += len(decoded.rejected)
        self._waiting.append(decoded)
        if len(self._waiting) == 100:
            self._commit()
        return decoded

    def _commit(self) -> None:
        self._writer._write(self._waiting)
        self._waiting.clear()
        self.counts["records refused by the store"] = (
            self._writer.counts.rejected - (self.counts["records rejected"])
        )


def _decoded(entry: Entry, body: bytes, *, packed: bool) -> Decoded:
    """Do what a receiver and ingest do, off the event loop."""
    if packed:
        body = inflate(body, "gzip", MAX_BYTES)
    parse = parse_json if entry.encoding == "json" else parse_protobuf
    request = parse(entry.signal, body, START)
    if request.size_bytes > MAX_ATTRIBUTE_BYTES:
        cut_long_values(request.message, MAX_ATTRIBUTE_BYTES)
    elif entry.signal is TRACES and parse is parse_protobuf and not request.unreadable:
        # ptars also reads a span with a group that is not closed rightly; proto3 has no groups.
        _check_columns(body, decode(request.message, START))
    decoded = _DECODERS[entry.signal.name](request.message, START)
    decoded.rejected.extend(request.unreadable)
    return decoded


def _check_columns(body: bytes, plain: Decoded) -> None:
    """Hold the fast decoder to the plain one, where it takes the request."""
    try:
        fast = decode_columns(body, START)
    except NotTakenError:
        return
    found = rows_of(fast.rows), rows_of(fast.pending), fast.rejected
    assert found == (plain.rows, plain.pending, plain.rejected), "the decoders do not agree"


def _rows(decoded: Decoded) -> list[Any]:
    return [*decoded.rows, *decoded.logs, *decoded.metric_points]


def _said(row: Any) -> str:
    """Return what a row says, without the identity that depends on equal rows beside it."""
    return ascii(row._replace(record_id="") if hasattr(row, "record_id") else row)


def _is_one_json_object(data: bytes) -> bool:
    """Tell whether JSON around it stays what it was, however odd the inside is."""
    try:
        return isinstance(json.loads(data.decode(errors="replace"), strict=False), dict)
    except (ValueError, RecursionError):
        return False
