"""Every command that makes a database makes it, and what lies beside it, for its owner only."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import collector_process
from otelchain_collector.rows import RejectedRecord
from otelchain_collector.store import Store
from stored_runs import make_store, otelchain
from test_cli_every_command import DOES_SOMETHING

# They write no database, or only one that is there already.
NO_NEW_DATABASE = {
    *("completion", "export csv", "export langsmith", "export otlp-json", "export otlp-proto"),
    *("export parquet", "reindex"),
}
IN_PLACE = {"compact": ("compact",), "redact apply": ("redact", "apply", "--yes")}
FORMATS = ("otlp-json", "otlp-proto", "langsmith", "parquet")
COMMANDS = {"demo": ("demo",), "demo --spans": ("demo", "--spans", "10")}


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path, name: str) -> dict[str, str]:
    return {file.name: oct(file.stat().st_mode & 0o777) for file in folder.glob(f"{name}*")}


def succeeded(*arguments: str) -> None:
    result = otelchain(*arguments)
    assert result.returncode == 0, result.stderr.decode()


def test_no_command_is_forgotten_here() -> None:
    tried = {f"import {name}" for name in FORMATS} | {"collector", "snapshot", "compact"}

    assert tried | NO_NEW_DATABASE | {"demo"} == DOES_SOMETHING


@pytest.mark.parametrize("format_name", FORMATS)
def test_an_import(format_name: str, tmp_path: Path) -> None:
    make_store(tmp_path / "a.duckdb")
    file = tmp_path / "exported"
    signal = ("--signal", "traces") if format_name == "otlp-proto" else ()
    succeeded(
        *("export", format_name, "-o", str(file), *signal),
        *("--database", str(tmp_path / "a.duckdb")),
    )

    succeeded("import", format_name, str(file), "--database", str(tmp_path / "new.duckdb"))

    assert modes(tmp_path, "new") == {"new.duckdb": "0o600"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_demo(command: str, tmp_path: Path) -> None:
    succeeded(*COMMANDS[command], "--database", str(tmp_path / "new.duckdb"))

    assert modes(tmp_path, "new") == {"new.duckdb": "0o600"}


def test_a_snapshot(tmp_path: Path) -> None:
    database = make_store(tmp_path / "a.duckdb")
    collector = collector_process.start(tmp_path / "b.duckdb", tmp_path / "log")
    try:
        succeeded("snapshot", str(tmp_path / "new.duckdb"), "--database", str(database))
        running = str(tmp_path / "b.duckdb")
        succeeded("snapshot", str(tmp_path / "new2.duckdb"), "--database", running)
        # The log of its first commit is there while it runs.
        found = modes(tmp_path, "b.duckdb")
    finally:
        collector.kill()

    assert modes(tmp_path, "new") == {"new.duckdb": "0o600", "new2.duckdb": "0o600"}
    assert set(found.values()) == {"0o600"}


@pytest.mark.parametrize("command", IN_PLACE)
def test_a_file_that_is_written_anew_keeps_its_mode(command: str, tmp_path: Path) -> None:
    database = make_store(tmp_path / "a.duckdb")
    database.chmod(0o640)

    succeeded(*IN_PLACE[command], "--database", str(database))

    assert modes(tmp_path, "a") == {"a.duckdb": "0o640"}


def test_a_log_as_long_as_the_database_is_open_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What other tests have left open.
    monkeypatch.setattr("otelchain_collector.owner_only._inside", 0)
    store = Store.open(tmp_path / "a.duckdb")
    other = Store.open(tmp_path / "b.duckdb")
    other.close()
    for round_ in range(2):  # The second log is made after a checkpoint.
        store.database.checkpoint()
        store.reject([RejectedRecord(round_, "r", None, None, None, None, "logs")])
        assert modes(tmp_path, "a") == {"a.duckdb": "0o600", "a.duckdb.wal": "0o600"}
    store.close()

    (tmp_path / "other").touch()
    assert modes(tmp_path, "other") == {"other": "0o644"}


def test_a_database_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    database = make_store(tmp_path / "a.duckdb")
    database.chmod(0o644)

    Store.open(database).close()

    assert modes(tmp_path, "a") == {"a.duckdb": "0o644"}
