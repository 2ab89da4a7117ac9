"""Binary files of the OpenTelemetry Collector's file exporter, in every form it has written."""

import gzip
import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

import collector_process
from collector_process import RunningCollector
from exchanged import contents, export, imported, make_database
from otelchain_collector.exchange.otlp_binary_files import requests_in_binary
from otelchain_collector.signals import SIGNALS
from otlp_clients import json_bytes
from otlp_requests import START, replace_once, request, span
from stored_runs import otelchain
from test_otlp_json_files import _log, _metrics, _spans, logs_request

# exporter/fileexporter/file_writer.go: the size in 4 bytes, big-endian, then the message.
_SIZE = struct.Struct(">I")


def _messages() -> list[Message]:
    return [request(*_spans()), logs_request(_log()), _metrics()]


def framed(*bodies: bytes) -> bytes:
    return b"".join(_SIZE.pack(len(body)) + body for body in bodies)


def zstd(content: bytes) -> bytes:
    packed: bytes = pa.compress(content, codec="zstd", asbytes=True)
    return packed


def _protobuf(message: Message) -> bytes:
    return message.SerializeToString()


FORMS = {
    "proto": lambda all_: framed(*map(_protobuf, all_)),
    # Before the feature gate exporter.file.nativeCompression: each message by itself.
    "proto, each zstd": lambda all_: framed(*(zstd(_protobuf(each)) for each in all_)),
    "json, each zstd": lambda all_: framed(*(zstd(json_bytes(each)) for each in all_)),
    # After it: a frame of zstd, or one for each flush.
    "proto in zstd": lambda all_: zstd(framed(*map(_protobuf, all_))),
    "proto in frames of zstd": lambda all_: b"".join(zstd(framed(_protobuf(e))) for e in all_),
    "json in zstd": lambda all_: zstd(b"".join(json_bytes(each) + b"\n" for each in all_)),
    "proto in gzip": lambda all_: gzip.compress(framed(*map(_protobuf, all_))),
    "with empty messages": lambda all_: framed(b"", *map(_protobuf, all_), b""),
}


@pytest.mark.parametrize("format_name", ["otlp-proto", "otlp-json"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_what_was_sent(form: str, format_name: str, tmp_path: Path) -> None:
    messages = _messages()
    database = make_database(tmp_path / "sent.duckdb", *messages)
    file = tmp_path / "file"
    file.write_bytes(FORMS[form](messages))

    code, said = imported(format_name, tmp_path / "t.duckdb", str(file))

    assert (code, said) == (0, ["imported: 11 records"])
    assert contents(tmp_path / "t.duckdb") == contents(database)


@pytest.mark.parametrize("place", range(3))
def test_a_request_as_it_goes_over_the_wire_is_a_file_too(place: int, tmp_path: Path) -> None:
    message = _messages()[place]
    file = tmp_path / "body.pb"
    file.write_bytes(_protobuf(message))

    imported("otlp-proto", tmp_path / "t.duckdb", str(file))

    assert contents(tmp_path / "t.duckdb") == contents(
        make_database(tmp_path / "sent.duckdb", message)
    )


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_what_is_exported_comes_back(suffix: str, tmp_path: Path) -> None:
    database = make_database(tmp_path / "sent.duckdb", *_messages())
    files = []
    for signal in SIGNALS:
        files.append(tmp_path / f"{signal.name}.pb{suffix}")
        export("otlp-proto", database, "--signal", signal.name, "-o", str(files[-1]))

    code, said = imported("otlp-proto", tmp_path / "t.duckdb", *map(str, files))

    assert (code, said) == (0, ["imported: 11 records"])
    assert contents(tmp_path / "t.duckdb") == contents(database)
    if suffix == ".zst":
        content = pa.CompressedInputStream(str(files[0]), "zstd").read()
    else:
        content = (gzip.decompress if suffix else bytes)(files[0].read_bytes())
    size = _SIZE.unpack(content[:4])[0]
    traces = SIGNALS[0].request.FromString(content[4 : 4 + size])
    assert sum(len(s.spans) for r in traces.resource_spans for s in r.scope_spans) == len(_spans())


def test_json_lines_are_compressed_by_suffix_too(tmp_path: Path) -> None:
    database = make_database(tmp_path / "sent.duckdb", *_messages())
    plain = export("otlp-json", database)

    export("otlp-json", database, "-o", str(tmp_path / "out.jsonl.zst"))

    assert pa.CompressedInputStream(str(tmp_path / "out.jsonl.zst"), "zstd").read() == plain
    imported("otlp-json", tmp_path / "t.duckdb", str(tmp_path / "out.jsonl.zst"))
    assert contents(tmp_path / "t.duckdb") == contents(database)


def test_a_metric_that_looks_like_a_span_is_a_metric(tmp_path: Path) -> None:
    # A trace id has 16 bytes in field 1, a span id 8 in field 2.
    metric = Metric(name="sixteen bytes ab", description="of eight", unit="s")
    metric.sum.data_points.add(time_unix_nano=START, as_int=7)
    metric.sum.aggregation_temporality = 2
    message = ExportMetricsServiceRequest()
    message.resource_metrics.add().scope_metrics.add().metrics.append(metric)
    file = tmp_path / "metrics.pb"
    file.write_bytes(framed(_protobuf(message)))

    imported("otlp-proto", tmp_path / "t.duckdb", str(file))

    assert contents(tmp_path / "t.duckdb") == contents(
        make_database(tmp_path / "sent.duckdb", message)
    )


def test_a_bad_message_is_told_with_its_number_and_the_others_are_imported(tmp_path: Path) -> None:
    good = [_protobuf(request(span(name=name))) for name in ("first", "last")]
    broken = replace_once(
        _protobuf(request(span(name="BROKEN"))), b"BROKEN", b"\xff\xfe\xfd\xfc\xfb\xfa"
    )
    packed = zstd(good[0])
    bad = [b"secret", packed[:-6], zstd(b'{"secret'), zstd(b'{"a": 1}'), broken]
    file = tmp_path / "file"
    file.write_bytes(framed(good[0], *bad, good[1]) + _SIZE.pack(100) + b"\n")

    code, said = imported("otlp-proto", tmp_path / "t.duckdb", str(file))

    assert code == 1
    assert [line.partition(": ")[0] for line in said[:-2]] == [
        f"{file}:{number}" for number in (2, 3, 4, 5, 8, 6)
    ]
    told = dict(line.removeprefix(f"{file}:").split(": ", 1) for line in said[:-2])
    assert told["2"] == "it is neither OTLP in protobuf nor JSON"
    assert told["3"].startswith("it is damaged: ")
    assert told["4"].startswith("not JSON: ")
    assert told["5"] == "it has none of resourceSpans, resourceLogs and resourceMetrics"
    assert "text that is not UTF-8" in told["6"]
    assert told["8"] == "the file ends in the middle of it"
    assert said[-2:] == ["imported: 2 records", "not imported: 6"]
    assert not any("secret" in line for line in said)

    assert imported("otlp-proto", tmp_path / "s.duckdb", "--strict", str(file))[0] == 2
    assert not (tmp_path / "s.duckdb").exists()


def test_a_size_that_cannot_be_ends_the_file(tmp_path: Path) -> None:
    good = framed(_protobuf(request(span())))
    file = tmp_path / "file"
    file.write_bytes(good + b"\x7f\xff\xff\xff" + good)

    code, said = imported("otlp-proto", tmp_path / "t.duckdb", str(file))

    assert code == 1
    assert said[0] == f"{file}:2: longer than 256 MiB, or the file is damaged from here on"
    assert said[1:] == ["imported: 1 records", "not imported: 1"]


def _no_complaint(place: str, count: int, reason: str) -> None:
    raise AssertionError((place, count, reason))


def test_a_message_larger_than_a_request_is_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otelchain_collector.exchange.otlp_binary_files.REQUEST_BYTES", 2_000)
    message = request(*(span(name="x" * 300) for _ in range(40)))
    message.MergeFrom(request(*(span(name="y" * 300) for _ in range(40)), service="other"))
    file = tmp_path / "file"
    file.write_bytes(framed(_protobuf(message)))

    code, said = imported("otlp-proto", tmp_path / "t.duckdb", str(file))

    assert (code, said) == (0, ["imported: 80 records"])
    with file.open("rb") as stream:
        parts = list(requests_in_binary("f", stream, _no_complaint))
    # 40 spans of 350 bytes each.
    assert [part.records for part in parts] == [5] * 16
    assert all(len(part.body) < 2_400 for part in parts)
    assert contents(tmp_path / "t.duckdb") == contents(
        make_database(tmp_path / "sent.duckdb", message)
    )


def test_standard_input_is_read(tmp_path: Path) -> None:
    for number, arguments in enumerate([["-"], ["--strict", "-"]]):
        database = tmp_path / f"{number}.duckdb"
        result = subprocess.run(
            [
                *(sys.executable, "-c", "from otelchain.cli import main; main()"),
                *("import", "otlp-proto", "--database", str(database), *arguments),
            ],
            input=zstd(framed(_protobuf(request(span())))),
            capture_output=True,
            check=False,
        )
        assert (result.returncode, result.stderr) == (0, b"imported: 1 records\n")


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    folder = tmp_path_factory.mktemp("binary")
    collector = collector_process.start(folder / "t.duckdb", folder / "log")
    yield collector
    collector.kill()


def test_the_collector_that_runs_takes_it_and_says_what_it_rejects(
    collector: RunningCollector, tmp_path: Path
) -> None:
    bad = span(name="bad")
    bad.start_time_unix_nano = 2**64 - 1
    file = tmp_path / "file"
    file.write_bytes(framed(*map(_protobuf, _messages()), _protobuf(request(span(), bad))))

    code, said = imported("otlp-proto", tmp_path / "no", "--endpoint", collector.http, str(file))

    assert code == 1
    assert said[0].startswith(f"{file}:4: 1 spans rejected: ")
    assert said[1:] == [
        "sent to the collector: 12 records; it leaves out what it has already",
        "not imported: 1",
    ]
    found: dict[str, Any] = json.loads(
        otelchain(
            *("sql", "SELECT count(*) AS runs FROM runs", "--endpoint", collector.http),
            *("--format", "jsonl"),
        ).stdout
    )
    assert found["runs"] == len(_spans()) + 1
