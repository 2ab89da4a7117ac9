"""OTLP/JSON out of the store and back in: nothing is lost, and it is what others write and read.

The golden files are written by hand after opentelemetry-proto/docs/specification.md (JSON Protobuf
Encoding) and the files of the OpenTelemetry Collector's file exporter.
"""

import contextlib
import gzip
import io
import json
import math
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Status

import collector_process
from collector_process import RunningCollector
from exchanged import (
    ask_of,
    contents,
    count,
    decoded,
    export,
    imported,
    insert,
    lines,
    make_database,
    requests,
    same_rows,
    write_lines,
)
from otelchain_collector.answer import QueryFailed
from otelchain_collector.attribute_limit import cut_long_values
from otelchain_collector.exchange.otlp_json_files import write_otlp_json
from otelchain_collector.exchange.pages import Filters
from otelchain_collector.otlp_json import parse_json
from otelchain_collector.signals import LOGS, METRICS, SIGNALS, TRACES, Signal
from otelchain_collector.store import Store
from otlp_clients import send
from otlp_requests import (
    START,
    log_record,
    logs_request,
    metrics_request,
    point,
    request,
    span,
    text,
)
from stored_runs import asked, otelchain
from test_lossless import VALUES

# DuckDB 1.5 takes the two zeros for one value when it compresses a block of few different ones.
ZERO = -0.0 if int(duckdb.__version__.partition(".")[0]) >= 2 else 1.0

# --- lossless ------------------------------------------------------------------------------------


@pytest.mark.parametrize("signal", SIGNALS, ids=[signal.name for signal in SIGNALS])
@settings(max_examples=25)
@given(data=st.data())
def test_any_request_comes_back_from_the_store_as_it_was(signal: Signal, data: Any) -> None:
    first = decoded(signal, data.draw(requests(signal)))
    store = Store.open(":memory:")
    try:
        insert(store, first)
        stream = io.BytesIO()
        write_otlp_json([signal], ask_of(store), Filters(), stream, lambda _: None)
    finally:
        store.close()

    second = parse_json(signal, b"{}", 0).message
    for line in stream.getvalue().splitlines():
        parsed = parse_json(signal, line, 0)
        assert parsed.unreadable == []
        second.MergeFrom(parsed.message)

    expected = _once(signal, first)
    assert sorted(same_rows(decoded(signal, second))) == sorted(expected)


def _once(signal: Signal, found: Any) -> set[str]:
    """Return the rows that the store keeps: a span once, whatever else has its id."""
    if signal is not TRACES:
        return set(same_rows(found))
    kept: dict[tuple[str, str], Any] = {}
    for row in [*found.rows, *found.pending]:
        kept.setdefault((row.trace_id, row.span_id), row)
    return {ascii(row) for row in kept.values()}


def test_every_value_and_every_signal_is_the_same_after_export_and_import(tmp_path: Path) -> None:
    messages: list[Message] = [
        request(*_spans()),
        logs_request(_log()),
        metrics_request(*(point(as_double=number) for number in (0.0, ZERO, math.nan, 1e300))),
        _metrics(),
    ]
    database = make_database(tmp_path / "a.duckdb", *messages)
    file = tmp_path / "out.jsonl.gz"

    assert export("otlp-json", database, "-o", str(file)) == b""
    code, said = imported("otlp-json", tmp_path / "b.duckdb", "--strict", str(file))

    assert (code, said) == (0, ["imported: 15 records"])
    assert contents(tmp_path / "b.duckdb") == contents(database)
    assert count(database) == {"spans": 3, "pending_spans": 1, "logs": 1, "metric_points": 10}


def _spans() -> list[Any]:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

    attributes = [KeyValue(key=name, value=value) for name, value, _ in VALUES]
    pending = [
        KeyValue(key="otelchain.run.type", value=AnyValue(string_value="tool")),
        KeyValue(key="otelchain.run.status", value=AnyValue(string_value="pending")),
    ]
    full = span(
        attributes=attributes,
        trace_state="a=b",
        flags=0x301,
        kind=3,
        parent_span_id=b"p" * 8,
        dropped_attributes_count=1,
        dropped_events_count=2,
        dropped_links_count=3,
        status=Status(code=2, message="no"),
    )
    full.events.add(name="e", time_unix_nano=7, attributes=attributes, dropped_attributes_count=4)
    full.links.add(
        trace_id=b"t" * 16,
        span_id=b"s" * 8,
        trace_state="c=d",
        flags=1,
        attributes=attributes,
        dropped_attributes_count=5,
    )
    return [full, span(), span(start_time_unix_nano=0), span(attributes=pending)]


def _log() -> Any:
    return log_record(
        body=_every_value(), trace_id=b"t" * 16, span_id=b"s" * 8, event_name="e", flags=1
    )


def _every_value() -> Any:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

    body = AnyValue()
    body.kvlist_value.values.extend(KeyValue(key=name, value=value) for name, value, _ in VALUES)
    return body


def _metrics() -> Any:
    message = metrics_request(point(as_int=-(2**63)), point())
    metrics = message.resource_metrics[0].scope_metrics[0].metrics
    metrics.add(name="h").histogram.data_points.add(
        count=2**64 - 1, bucket_counts=[0, 2**64 - 1], explicit_bounds=[float("-inf")], sum=0.0
    )
    metrics.add(name="h").histogram.data_points.add(time_unix_nano=START)
    exponential = metrics.add(name="e").exponential_histogram.data_points.add(
        scale=-3, max=ZERO, zero_threshold=ZERO
    )
    exponential.positive.SetInParent()
    exponential.negative.offset = -2
    exponential.negative.bucket_counts.append(3)
    summary = metrics.add(name="s").summary.data_points.add(sum=1.5)
    summary.quantile_values.add(quantile=0.5, value=float("inf"))
    return message


def test_a_value_that_was_cut_is_not_cut_again(tmp_path: Path) -> None:
    message = request(span(attributes=[text("long", "é" * 3_000_000), text("longer", "x" * 10**7)]))
    cut_long_values(message, 4_000_000)
    cut_long_values(message, 4_000_000)
    attributes = message.resource_spans[0].scope_spans[0].spans[0].attributes
    ends = [each.value.string_value[2_000_000:][-120:] for each in attributes]
    assert [end.count("[cut: ") for end in ends] == [1, 1]
    assert "[cut: 6000000 bytes" in ends[0]
    assert "[cut: 10000000 bytes" in ends[1]


def test_equal_log_records_are_all_exported_in_one_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.exchange.otlp_json_files._LINE_BYTES", 1_000)
    # 600 of one time are more than a page; of another request they would be taken for resends.
    equal = [log_record(time_unix_nano=START) for _ in range(600)]
    others = [log_record() for _ in range(600)]
    database = make_database(tmp_path / "a.duckdb", logs_request(*equal, *others))

    (tmp_path / "out.jsonl").write_bytes(export("otlp-json", database))
    imported("otlp-json", tmp_path / "b.duckdb", str(tmp_path / "out.jsonl"))

    assert count(database) == {"logs": 1200}
    assert contents(tmp_path / "b.duckdb") == contents(database)


# --- what is written -----------------------------------------------------------------------------

GOLDEN_SPAN = {
    "resourceSpans": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
            "scopeSpans": [
                {
                    "scope": {"name": "tests"},
                    "spans": [
                        {
                            "traceId": "0af7651916cd43dd8448eb211c80319c",
                            "spanId": "00000000000000aa",
                            "parentSpanId": "00000000000000ab",
                            "name": "step",
                            "kind": 3,
                            "startTimeUnixNano": "1796083200000000000",
                            "endTimeUnixNano": "1796083200001000000",
                            "attributes": [
                                {"key": "i", "value": {"intValue": "-9223372036854775808"}},
                                {"key": "d", "value": {"doubleValue": 1.0}},
                                {"key": "n", "value": {"doubleValue": "NaN"}},
                                {"key": "b", "value": {"bytesValue": "AP8="}},
                                {"key": "t", "value": {"boolValue": False}},
                                {"key": "s", "value": {"stringValue": ""}},
                                {"key": "e", "value": {}},
                                {"key": "a", "value": {"arrayValue": {"values": [{}]}}},
                                {
                                    "key": "k",
                                    "value": {
                                        "kvlistValue": {
                                            "values": [
                                                {"key": "@bytes", "value": {"intValue": "1"}}
                                            ]
                                        }
                                    },
                                },
                            ],
                            "events": [{"timeUnixNano": "7", "name": "e"}],
                            "links": [{"traceId": "74" * 16, "spanId": "73" * 8}],
                            "status": {"message": "no", "code": 2},
                        }
                    ],
                }
            ],
        }
    ]
}


def test_a_line_is_what_the_file_exporter_of_the_collector_writes(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "in.jsonl", [GOLDEN_SPAN])
    assert imported("otlp-json", tmp_path / "t.duckdb", str(file))[0] == 0

    assert lines(export("otlp-json", tmp_path / "t.duckdb")) == [GOLDEN_SPAN]


def test_signals_can_be_chosen_and_are_lines_of_their_own(tmp_path: Path) -> None:
    database = make_database(
        tmp_path / "t.duckdb", request(span()), logs_request(log_record()), metrics_request(point())
    )

    every = lines(export("otlp-json", database))
    chosen = lines(export("otlp-json", database, "--signal", "logs", "--signal", "metrics"))

    assert [list(line) for line in every] == [
        ["resourceSpans"],
        ["resourceLogs"],
        ["resourceMetrics"],
    ]
    assert chosen == every[1:]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ["early", "late", "other"]),
        (("--since", "2026-12-01T00:00:01Z"), ["late", "other"]),
        (("--until", "2026-12-01T02:00:01+02:00"), ["early"]),
        (("--since", "2026-12-01T00:00:00.000000001Z", "--service", "shop"), ["late"]),
        (("--service", "o'hara"), ["other"]),
        (("--trace", "0AF7"), ["early", "late"]),
        (("--trace", "0af7", "--service", "o'hara"), []),
        (("--service", "nobody"), []),
    ],
)
def test_filters_choose_records(
    arguments: tuple[str, ...], expected: list[str], tmp_path: Path
) -> None:
    second = START + 10**9
    database = make_database(
        tmp_path / "t.duckdb",
        request(span(name="early"), span(name="late", start_time_unix_nano=second)),
        request(
            span(name="other", start_time_unix_nano=second, trace_id=b"x" * 16), service="o'hara"
        ),
        metrics_request(),
    )

    found = lines(export("otlp-json", database, *arguments))

    names = [
        each["name"]
        for line in found
        for resource in line["resourceSpans"]
        for scope in resource["scopeSpans"]
        for each in scope["spans"]
    ]
    assert sorted(names) == expected


def test_a_trace_filter_leaves_out_data_points(tmp_path: Path) -> None:
    database = make_database(tmp_path / "t.duckdb", request(span()), metrics_request(point()))

    assert len(lines(export("otlp-json", database, "--trace", "0af7"))) == 1


def test_a_long_page_is_cut_into_lines_of_some_megabytes(tmp_path: Path) -> None:
    long = "x" * 1_500_000
    database = make_database(tmp_path / "t.duckdb", request(*(span(name=long) for _ in range(6))))

    sizes = [len(line) for line in export("otlp-json", database).splitlines()]

    assert len(sizes) == 2
    assert max(sizes) < 8_000_000


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("before")
    broken = tmp_path / "t.duckdb"
    broken.write_text("no database")

    result = asked("export", "otlp-json", "--database", str(broken), "-o", str(target))

    assert result.returncode == 2
    assert target.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "t.duckdb"]


def test_a_file_is_for_its_owner_alone_and_the_same_every_time(tmp_path: Path) -> None:
    database = make_database(tmp_path / "t.duckdb", request(span()))
    files = [tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"]

    for file in files:
        export("otlp-json", database, "--output", str(file))

    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].stat().st_mode & 0o777 == 0o600
    assert gzip.decompress(files[0].read_bytes()) == export("otlp-json", database)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    database = make_database(tmp_path / "t.duckdb", request(span()))

    result = asked(
        *("export", "otlp-json", "--database", str(database)),
        *("-o", str(tmp_path / "no" / "out.jsonl")),
    )

    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.decode().endswith("out.jsonl: No such file or directory\n")


# --- what is read --------------------------------------------------------------------------------

#: As the OpenTelemetry Collector's file exporter writes a span with everything; the ids made valid.
FILE_EXPORTER = (
    '{"resourceSpans":[{"resource":{"attributes":[{"key":"resource-attr","value":{"stringValue":'
    '"resource-attr-val-1"}}]},"scopeSpans":[{"scope":{},"spans":[{"traceId":"'
    '0102030405060708090a0b0c0d0e0f10","spanId":"1112131415161718","parentSpanId":"","name":'
    '"operationA","startTimeUnixNano":"1581452772000000321","endTimeUnixNano":'
    '"1581452773000000789","droppedAttributesCount":1,"events":[{"timeUnixNano":'
    '"1581452773000000123","name":"event-with-attr","attributes":[{"key":"span-event-attr",'
    '"value":{"stringValue":"span-event-attr-val"}}],"droppedAttributesCount":2},{"timeUnixNano":'
    '"1581452773000000123","name":"event","droppedAttributesCount":2}],"droppedEventsCount":1,'
    '"status":{"message":"status-cancelled","code":2}}]}]}]}'
)
#: examples/metrics.json of opentelemetry-proto, shortened: numbers instead of text.
PROTO_EXAMPLE = {
    "resourceMetrics": [
        {
            "resource": {
                "attributes": [{"key": "service.name", "value": {"stringValue": "my.service"}}]
            },
            "scopeMetrics": [
                {
                    "scope": {"name": "my.library", "version": "1.0.0"},
                    "metrics": [
                        {
                            "name": "my.histogram",
                            "unit": "1",
                            "histogram": {
                                "aggregationTemporality": 1,
                                "dataPoints": [
                                    {
                                        "startTimeUnixNano": 1544712660300000000,
                                        "timeUnixNano": 1544712660300000000,
                                        "count": 3,
                                        "sum": 3,
                                        "bucketCounts": [1, 1, 1],
                                        "explicitBounds": [1],
                                        "min": 1,
                                        "max": 1,
                                    }
                                ],
                            },
                        }
                    ],
                }
            ],
        }
    ]
}


def test_a_file_of_the_collectors_file_exporter_is_imported(tmp_path: Path) -> None:
    database = tmp_path / "t.duckdb"
    file = tmp_path / "file.json"
    file.write_text(FILE_EXPORTER + "\n")

    assert imported("otlp-json", database, str(file)) == (0, ["imported: 1 records"])

    sql = (
        "SELECT name, start_time_unix_nano, end_time_unix_nano, parent_span_id, status_message, "
        "resource_attributes, dropped_events_count, json_array_length(events) AS events FROM spans"
    )
    found = asked("sql", sql, "--database", str(database), "--format", "jsonl")
    assert json.loads(found.stdout) == {
        "name": "operationA",
        "start_time_unix_nano": 1581452772000000321,
        "end_time_unix_nano": 1581452773000000789,
        "parent_span_id": None,
        "status_message": "status-cancelled",
        "resource_attributes": '{"resource-attr":"resource-attr-val-1"}',
        "dropped_events_count": 1,
        "events": 2,
    }


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("wrap", [lambda tree: tree, lambda tree: [tree]])
def test_one_document_is_imported_however_it_is_laid_out(
    indent: int | None, wrap: Any, tmp_path: Path
) -> None:
    file = tmp_path / "metrics.json"
    text = "\ufeff" + json.dumps(wrap(PROTO_EXAMPLE), indent=indent)
    file.write_text(text, "utf-8")

    code, said = imported("otlp-json", tmp_path / "t.duckdb", str(file))

    if indent is None and wrap(1) == [1]:  # A line has one request.
        assert code == 1
    else:
        assert (code, said) == (0, ["imported: 1 records"])
        assert count(tmp_path / "t.duckdb") == {"metric_points": 1}


def test_importing_twice_stores_once(tmp_path: Path) -> None:
    database = make_database(
        tmp_path / "a.duckdb", request(*_spans()), logs_request(_log(), _log()), _metrics()
    )
    file = tmp_path / "out.jsonl"
    file.write_bytes(export("otlp-json", database))
    before = contents(database)

    for _ in range(2):
        assert imported("otlp-json", database, str(file), str(file))[0] == 0

    assert contents(database) == before


def test_a_bad_line_is_told_with_its_number_and_the_others_are_imported(tmp_path: Path) -> None:
    bad = json.loads(json.dumps(GOLDEN_SPAN))
    bad["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] = "00" * 16
    file = write_lines(
        tmp_path / "in.jsonl",
        [
            *(GOLDEN_SPAN, "{secret", "", "[1]", {"resourceSpans": {"secret": 1}}),
            *(bad, {"resourceProfiles": []}, {"other": 1}, PROTO_EXAMPLE),
        ],
    )

    code, said = imported("otlp-json", tmp_path / "t.duckdb", str(file))

    assert code == 1
    assert "secret" not in "".join(said)
    none = "it has none of resourceSpans, resourceLogs and resourceMetrics"
    assert sorted(said) == sorted(
        [
            f"{file}:2: not JSON: Expecting property name enclosed in double quotes",
            f"{file}:4: {none}",
            f"{file}:5: the body is not OTLP/JSON: resourceSpans is not an array",
            f"{file}:6: trace_id is all zero (1)",
            f"{file}:7: profiles are not stored",
            f"{file}:8: {none}",
            "imported: 2 records",
            "not imported: 6",
        ]
    )
    assert count(tmp_path / "t.duckdb") == {"spans": 1, "metric_points": 1}


def test_strict_imports_all_or_nothing(tmp_path: Path) -> None:
    good = write_lines(tmp_path / "good.jsonl", [GOLDEN_SPAN])
    bad = write_lines(tmp_path / "bad.jsonl", [PROTO_EXAMPLE, "{"])
    database = tmp_path / "t.duckdb"

    code, said = imported("otlp-json", database, "--strict", str(good), str(bad))

    assert code == 2
    assert said == [
        f"{bad}:2: not JSON: Expecting property name enclosed in double quotes",
        "Error: nothing was imported, because of 1 bad records; leave out --strict for the others",
    ]
    assert not database.exists()


def test_standard_input_is_read_also_twice(tmp_path: Path) -> None:
    text = json.dumps(GOLDEN_SPAN)
    for number, arguments in enumerate([["-"], ["--strict", "-"]]):
        result = otelchain(
            *("import", "otlp-json", "--database", str(tmp_path / f"{number}.duckdb"), *arguments),
            stdin=text,
        )
        assert (result.returncode, result.stderr) == (0, b"imported: 1 records\n")

    result = otelchain(
        "import", "otlp-json", "-", "--database", str(tmp_path / "n.duckdb"), stdin="\n{no}\n"
    )
    assert result.returncode == 1
    assert result.stderr.startswith(b"standard input:2: not JSON")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x28\xb5\x2f\xfd\x04\x00", "cannot read"),
        (b"PAR1\x15\x04", "is a Parquet file; use: otelchain import parquet"),
        (gzip.compress(b"{}" * 9999, mtime=0)[:-12], "cannot read"),
        (None, "No such file or directory"),
    ],
)
def test_a_file_of_another_kind_is_refused_in_words(
    content: bytes | None, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)

    code, said = imported("otlp-json", tmp_path / "t.duckdb", str(file))

    assert code == 2
    assert not (tmp_path / "t.duckdb").exists()
    assert said[-1].startswith("Error: ")
    assert str(file) in said[-1]
    assert reason in said[-1]


def test_a_document_larger_than_a_request_is_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.exchange.otlp_json_files.REQUEST_BYTES", 2_000)
    database = make_database(
        tmp_path / "a.duckdb",
        request(*(span(name="x" * 300) for _ in range(40))),
        request(*(span(name="y" * 300) for _ in range(40)), service="other"),
        metrics_request(*(point() for _ in range(40))),
    )
    file = tmp_path / "out.jsonl"
    file.write_bytes(export("otlp-json", database))

    assert imported("otlp-json", tmp_path / "b.duckdb", str(file)) == (
        0,
        ["imported: 120 records"],
    )
    assert contents(tmp_path / "b.duckdb") == contents(database)


def test_an_import_says_what_was_there_already(tmp_path: Path) -> None:
    old = span()
    both = make_database(tmp_path / "a", request(old, span()))
    file = write_lines(tmp_path / "in.jsonl", lines(export("otlp-json", both)))
    database = make_database(tmp_path / "t.duckdb", request(old))

    first, second = (imported("otlp-json", database, str(file)) for _ in range(2))

    assert first == (0, ["imported: 1 records; 1 were there already"])
    assert second == (0, ["imported: 0 records; 2 were there already"])


# --- a collector that has the file open ----------------------------------------------------------


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    folder = tmp_path_factory.mktemp("exchange")
    collector = collector_process.start(folder / "t.duckdb", folder / "log")
    yield collector
    collector.kill()


def test_import_and_export_go_through_the_collector_that_runs(
    collector: RunningCollector, tmp_path: Path
) -> None:
    for signal, message in zip(
        (TRACES, LOGS, METRICS), (request(*_spans()), logs_request(_log()), _metrics()), strict=True
    ):
        send(collector, signal.name, "grpc", message)
    file = tmp_path / "out.jsonl"

    export("otlp-json", collector.database, "-o", str(file))
    again = imported("otlp-json", collector.database, str(file))
    code, said = imported("otlp-json", tmp_path / "b.duckdb", str(file))

    sent = "sent to the collector: 11 records; it leaves out what it has already"
    assert again == (0, [sent])
    assert (code, said) == (0, ["imported: 11 records"])
    # The collector answers in the same bytes when everything has come back, and once.
    assert export("otlp-json", collector.database) == file.read_bytes()
    assert export("otlp-json", tmp_path / "b.duckdb") == file.read_bytes()


def test_what_the_collector_rejects_is_told(collector: RunningCollector, tmp_path: Path) -> None:
    bad = json.loads(json.dumps(GOLDEN_SPAN))
    bad["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["spanId"] = "00" * 8
    file = write_lines(tmp_path / "in.jsonl", [bad, {"resourceLogs": 3}])

    code, said = imported("otlp-json", tmp_path / "no", "--endpoint", collector.http, str(file))

    assert code == 1
    assert said == [
        f"{file}:1: 1 spans rejected: span_id is all zero (1)",
        f"{file}:2: the body is not OTLP/JSON: resourceLogs is not an array",
        "sent to the collector: 0 records; it leaves out what it has already",
        "not imported: 2",
    ]


def test_a_collector_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "in.jsonl", [GOLDEN_SPAN])

    code, said = imported("otlp-json", tmp_path / "no", "--endpoint", "127.0.0.1:9", str(file))

    assert code == 2
    assert said == ["Error: no collector answers at http://127.0.0.1:9 (connection refused)"]


# --- long work -----------------------------------------------------------------------------------


def test_progress_is_shown_on_a_terminal(tmp_path: Path) -> None:
    database = make_database(tmp_path / "t.duckdb", request(span()))
    file = write_lines(tmp_path / "in.jsonl", [GOLDEN_SPAN])
    # That nothing is shown elsewhere, every other test asserts.
    for words, arguments in (
        (b"Exporting", ("export", "otlp-json")),
        (b"Importing", ("import", "otlp-json", str(file))),
        (b"Reading spans", ("reindex",)),
    ):
        shown, code = _on_a_terminal(*arguments, "--database", str(database))
        assert code == 0
        assert words in shown


def _on_a_terminal(*arguments: str) -> tuple[bytes, int]:
    """Run the command with standard error on a terminal; return what is shown there."""
    main, terminal = pty.openpty()
    command = [sys.executable, "-c", "from otelchain.cli import main; main()", *arguments]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=terminal, env=environment
    ) as process:
        os.close(terminal)
        shown = b""
        # On Linux reading a terminal that nobody has open any more fails.
        with contextlib.suppress(OSError):
            while piece := os.read(main, 65536):
                shown += piece
    os.close(main)
    return shown, process.returncode


def test_a_page_too_large_for_one_answer_is_asked_in_pieces() -> None:
    store = Store.open(":memory:")
    spans = [span(start_time_unix_nano=START + number) for number in range(20)]
    insert(store, decoded(TRACES, request(*spans)))
    ask, asked_for = ask_of(store), []

    def narrow(sql: str) -> list[dict[str, Any]]:
        found = ask(sql)
        if len(found) > 3:
            raise QueryFailed("the answer is larger than 256 MiB")
        asked_for.append(len(found))
        return found

    stream = io.BytesIO()
    write_otlp_json([TRACES], narrow, Filters(), stream, lambda _: None)
    store.close()

    ids = [
        each["spanId"]
        for line in lines(stream.getvalue())
        for each in line["resourceSpans"][0]["scopeSpans"][0]["spans"]
    ]
    assert ids == [each.span_id.hex() for each in spans]
    assert max(asked_for) <= 3


def test_every_page_is_exported_once_and_in_the_order_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.exchange.pages._PAGE_ROWS", 3)
    monkeypatch.setattr("otelchain_collector.exchange.pages._MAX_ANSWER_ROWS", 4)
    times = [START + number // 2 * 10 for number in range(60)]
    spans = [span(start_time_unix_nano=time) for time in reversed(times)]
    database = make_database(tmp_path / "t.duckdb", request(*spans))

    found = [
        each
        for line in lines(export("otlp-json", database))
        for each in line["resourceSpans"][0]["scopeSpans"][0]["spans"]
    ]

    assert [int(each["startTimeUnixNano"]) for each in found] == times
    assert len({each["spanId"] for each in found}) == 60


# --- what a parser does not take -----------------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        '"kind": ' + "1" * 5_000,
        '"kind": 1e400',
        *(
            '"attributes": ' + "[" * depth + "]" * depth
            for depth in (900, 980, 1_000, 1_010, 5_000)
        ),
    ],
    ids=["digits", "exponent", "900", "980", "1000", "1010", "5000"],
)
def test_a_number_or_a_depth_that_python_refuses_costs_its_own_record(
    odd: str, tmp_path: Path
) -> None:
    tree = json.loads(json.dumps(GOLDEN_SPAN))
    [scope] = tree["resourceSpans"][0]["scopeSpans"]
    [span] = scope["spans"]
    scope["spans"] = [{**span, "spanId": f"{number:016x}"} for number in (1, 2, 3)]
    scope["spans"][1]["odd"] = "PLACEHOLDER"
    line = json.dumps(tree).replace('"odd": "PLACEHOLDER"', odd)
    file = write_lines(tmp_path / "in.jsonl", [line])

    code, said = imported("otlp-json", tmp_path / "t.duckdb", str(file))

    assert (code, said[-2:]) == (1, ["imported: 2 records", "not imported: 1"])
    assert "int_max" not in "".join(said)


def test_a_text_that_is_never_closed_is_told_with_its_line(tmp_path: Path) -> None:
    file = write_lines(
        tmp_path / "in.jsonl", [GOLDEN_SPAN, '{"resourceSpans":[{"a":"' + '\\"' * 500_000]
    )

    code, said = imported("otlp-json", tmp_path / "t.duckdb", str(file))

    assert (code, said[0]) == (1, f"{file}:2: not JSON: Unterminated string starting at")
    assert "imported: 1 records" in said
