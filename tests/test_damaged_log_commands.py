"""Every command that opens a file whose write-ahead log is damaged, found by walking the commands.

DuckDB takes a damaged length for the end of the log: what follows would be missing without a word.
"""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from otelchain_collector import wal
from otelchain_collector.decode import decode
from otelchain_collector.salvage import log_of, logs_laid_aside
from otelchain_collector.store import Store
from otlp_requests import START, request, span
from stored_runs import asked, make_store
from test_cli_every_command import EVERY

#: They would write what the log seems to hold into another file, and throw the log away.
REFUSES: dict[str, Callable[[Path], list[str]]] = {
    "compact": lambda _: [],
    "redact apply": lambda _: ["--policy", "personal", "--yes"],
    "snapshot": lambda folder: [str(folder / "copy.duckdb")],
}
#: They open it as the collector does.
SALVAGES: dict[str, Callable[[Path], list[str]]] = {
    "import langsmith": lambda folder: [str(folder / "out.langsmith")],
    "import otlp-json": lambda folder: [str(folder / "out.otlp-json")],
    "import otlp-proto": lambda folder: [str(folder / "out.otlp-proto")],
    "import parquet": lambda folder: [str(folder / "out.parquet")],
    "reindex": lambda _: [],
}
#: They answer from what DuckDB reads, and say that something is missing.
READS: dict[str, Callable[[Path], list[str]]] = {
    "diagnose": lambda _: ["last"],
    "doctor": lambda _: [],
    "export csv": lambda folder: ["--output", str(folder / "new")],
    "export langsmith": lambda folder: ["--output", str(folder / "new")],
    "export otlp-json": lambda folder: ["--output", str(folder / "new")],
    "export otlp-proto": lambda folder: ["--output", str(folder / "new")],
    "export parquet": lambda folder: ["--output", str(folder / "new")],
    "query traces": lambda _: [],
    "redact scan": lambda _: ["--policy", "personal"],
    "sessions": lambda _: [],
    "show": lambda _: ["last"],
    "sql": lambda _: ["SELECT 1"],
    "traces": lambda _: [],
}
# test_salvage.py has the collector; `demo` takes no file that is there; `tail` never ends, and
# reads as the others do.
OTHERS = {"collector", "demo", "tail"}

REMEDY = "start 'otelchain collector --database"


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a damaged log, and with files to import."""
    folder = tmp_path_factory.mktemp("damaged")
    database = make_store(folder / "written.duckdb")
    for name in ("langsmith", "otlp-json", "otlp-proto", "parquet"):
        output = ["--output", str(folder / f"out.{name}")]
        asked("export", name, "--database", str(database), *output)
    store = Store.open(database)
    ends = []
    for _ in range(4):
        store.insert(decode(request(*(span() for _ in range(5))), START).rows)
        ends.append(store.database.wal_bytes())
    shutil.copy(database, folder / "t.duckdb")
    log = bytearray(log_of(database).read_bytes())
    store.close()
    # One bit of the length with which the third of the four transactions begins.
    [length] = struct.unpack_from("<Q", log, ends[1])
    struct.pack_into("<Q", log, ends[1], length ^ 1 << 46)
    log_of(folder / "t.duckdb").write_bytes(log)
    assert wal.examine(log_of(folder / "t.duckdb")) == (len(log), ends[1], "damaged")
    return folder


@pytest.fixture(name="database")
def _database(folder: Path, tmp_path: Path) -> Path:
    database = tmp_path / "t.duckdb"
    shutil.copy(folder / "t.duckdb", database)
    shutil.copy(log_of(folder / "t.duckdb"), log_of(database))
    for out in folder.glob("out.*"):
        (tmp_path / out.name).symlink_to(out)
    return database


def test_every_command_that_opens_a_file_is_here() -> None:
    opening = {
        name
        for name, command in EVERY.items()
        if any("--database" in param.opts for param in command.params)
        # Queries are made in one place: one of them stands for all.
        and (name == "query traces" or not name.startswith("query "))
    }

    assert opening == {*REFUSES, *SALVAGES, *READS, *OTHERS}


def _is_as_it_was(database: Path, folder: Path) -> bool:
    return (
        database.read_bytes() == (folder / "t.duckdb").read_bytes()
        and log_of(database).read_bytes() == log_of(folder / "t.duckdb").read_bytes()
        and logs_laid_aside(database) == []
    )


@pytest.mark.parametrize("name", REFUSES)
def test_what_would_throw_the_log_away_refuses(name: str, database: Path, folder: Path) -> None:
    arguments = REFUSES[name](database.parent)

    ended = asked(*name.split(), *arguments, "--database", str(database))

    assert ended.returncode == 2
    assert REMEDY in ended.stderr.decode()
    assert _is_as_it_was(database, folder)
    assert not (database.parent / "copy.duckdb").exists()


@pytest.mark.parametrize("name", SALVAGES)
def test_what_adds_rows_lays_the_log_aside_and_notes_the_loss(
    name: str, database: Path, folder: Path
) -> None:
    arguments = SALVAGES[name](database.parent)

    ended = asked(*name.split(), *arguments, "--database", str(database))

    assert ended.returncode == 0, ended.stderr
    [aside] = logs_laid_aside(database)
    assert aside.read_bytes() == log_of(folder / "t.duckdb").read_bytes()
    with duckdb.connect(str(database), read_only=True) as connection:
        noted = connection.execute("SELECT reason, file FROM wal_losses").fetchall()
    assert noted == [("damaged", str(aside))]


@pytest.mark.parametrize("name", READS)
def test_what_reads_says_that_something_is_missing(
    name: str, database: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    arguments = READS[name](database.parent)

    asked(*name.split(), *arguments, "--database", str(database))

    warned = [record.getMessage() for record in caplog.records if REMEDY in record.getMessage()]
    assert len(warned) == 1
    assert "missing from the answers" in warned[0]
    assert _is_as_it_was(database, folder)


def test_the_doctor_finds_a_damaged_log(database: Path) -> None:
    ended = asked("doctor", "--database", str(database))

    assert REMEDY in ended.stdout.decode()
