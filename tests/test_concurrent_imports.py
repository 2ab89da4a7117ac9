"""Several imports at once, and an application that sends meanwhile: everything once."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import collector_process
from collector_process import RunningCollector
from exchanged import contents, count, export, imported, make_database, write_lines
from otlp_clients import send
from otlp_requests import request, span
from test_langsmith_import import _traced
from test_langsmith_parquet import _runs, write

_COMMAND = (sys.executable, "-c", "from otelchain.cli import main; main()", "import")


def importing(format_name: str, database: Path, *files: Path) -> "subprocess.Popen[bytes]":
    """Start an import and do not wait for it."""
    return subprocess.Popen(
        [*_COMMAND, format_name, "--database", str(database), *map(str, files)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> dict[str, Path]:
    """Return files of every format; that of OTLP has the spans that are sent, too."""
    sent = [span(name=f"sent {number}") for number in range(300)]
    database = make_database(tmp_path / "sent.duckdb", request(*sent))
    export("parquet", database, "-o", str(tmp_path / "tables"))
    export("otlp-json", database, "-o", str(tmp_path / "sent.jsonl.gz"))
    export("otlp-proto", database, "-o", str(tmp_path / "sent.pb.zst"))
    runs = write_lines(tmp_path / "runs.jsonl", _traced())
    return {
        "langsmith": runs,
        "bulk": write(tmp_path / "runs.parquet", _runs()),
        "parquet": tmp_path / "tables",
        "otlp-json": tmp_path / "sent.jsonl.gz",
        "otlp-proto": tmp_path / "sent.pb.zst",
    }


@pytest.fixture(name="collector")
def _collector(tmp_path: Path) -> Iterator[RunningCollector]:
    collector = collector_process.start(tmp_path / "c.duckdb", tmp_path / "log")
    yield collector
    collector.kill()


def test_imports_at_once_through_a_collector_store_everything_once(
    collector: RunningCollector, files: dict[str, Path], tmp_path: Path
) -> None:
    formats = [("langsmith" if name == "bulk" else name, file) for name, file in files.items()]
    twice = [*formats, formats[0], formats[-1]]
    working = [importing(name, collector.database, file) for name, file in twice]
    meanwhile = [span(name="meanwhile") for _ in range(50)]
    for each in meanwhile:
        assert send(collector, "traces", "grpc", request(each)).ok

    said = [each.communicate()[1] for each in working]

    assert [each.returncode for each in working] == [0] * len(working), said
    assert collector.stop() == 0
    alone = tmp_path / "alone.duckdb"
    for name, file in formats:
        imported(name, alone, str(file))
    export(
        "otlp-json",
        make_database(tmp_path / "m.duckdb", request(*meanwhile)),
        "-o",
        str(tmp_path / "m.jsonl"),
    )
    imported("otlp-json", alone, str(tmp_path / "m.jsonl"))
    assert contents(collector.database) == contents(alone)
    assert count(alone) == {"spans": 300 + 8 + 3 + 50}


def test_imports_at_once_into_a_file_store_all_or_say_who_has_it(
    files: dict[str, Path], tmp_path: Path
) -> None:
    database = tmp_path / "t.duckdb"
    working = [importing("otlp-json", database, files["otlp-json"]) for _ in range(4)]

    said = [each.communicate()[1].decode() for each in working]

    codes = [each.returncode for each in working]
    assert 0 in codes
    for code, text in zip(codes, said, strict=True):
        assert code == 0 or "is locked by process" in text, text
    assert count(database) == {"spans": 300}


def test_the_same_runs_by_the_collector_and_by_its_file_later_are_stored_once(
    collector: RunningCollector, files: dict[str, Path]
) -> None:
    assert imported("langsmith", collector.database, str(files["langsmith"]))[0] == 0
    assert imported("langsmith", collector.database, str(files["bulk"]))[0] == 0
    assert collector.stop() == 0
    before = contents(collector.database)

    for file in (files["langsmith"], files["bulk"]):
        assert imported("langsmith", collector.database, str(file))[0] == 0

    assert contents(collector.database) == before
