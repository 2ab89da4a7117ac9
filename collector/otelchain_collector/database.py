"""Open a DuckDB file: settings, and in words why it cannot be opened."""

import contextlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import duckdb

from otelchain_collector import discovery
from otelchain_collector.errors import SchemaTooNewError, StoreError
from otelchain_collector.replay import is_replay, why_not_replayed
from otelchain_collector.salvage import LogLoss, damage_of_log, log_of, open_salvaged
from otelchain_collector.schema import LATEST_VERSION, too_new, version_of

# A file in this format is read by DuckDB 1.5 and 2.x; 2.0's own default is not read by 1.x.
STORAGE_VERSION = "v1.5.0"
# DuckDB's default, 80 % of the host, gets a sidecar killed.
DEFAULT_MEMORY_LIMIT_BYTES = 512 * 1024 * 1024
# DuckDB's own checkpoints are made inside a commit; the writer makes them between two.
CHECKPOINT_THRESHOLD = "1GB"
#: How long whoever opens a file waits for another process to leave it. A question holds the file
#: while it is answered, mostly for less than a second; an SDK's patience with a restart is 7 s.
PATIENCE_SECONDS: Final = 3.0
_LOOK_AGAIN_SECONDS: Final = 0.05
# The mean length in bytes from which on zstd compresses the texts of a column. With DuckDB's 4096 a
# single value of 16 KiB leaves its row group uncompressed: 240,000 spans of a `demo --spans`, a
# checkpoint after every 60,000, took 554 MB, and with this 52 MB for the same CPU time. The inputs
# of a hundred picked runs then take 27 ms of CPU instead of 5.
ZSTD_MIN_STRING_LENGTH = 256
# What may be spilled beside the file: rows before their checkpoint (1 GB at most), and questions.
MAX_TEMPORARY_SIZE = "2GiB"


Opened = TypeVar("Opened")

_logger = logging.getLogger(__name__)


def first_line(error: Exception) -> str:
    """Return the part of a DuckDB error that fits on one line."""
    return str(error).strip().split("\n")[0]


def connect(
    database: Path | None, memory_limit_bytes: int, patience_seconds: float
) -> tuple[duckdb.DuckDBPyConnection, list[LogLoss]]:
    """Open or create a database for writing, without what its log has lost.

    Args:
        database: The file; None for one in memory.
        memory_limit_bytes: What DuckDB may use.
        patience_seconds: How long to wait for another process to leave the file.

    Raises:
        StoreError: It cannot be opened; the text names it, the reason and the remedy.
    """
    if database is not None and not database.absolute().parent.is_dir():
        raise StoreError(
            f"cannot create {database}: the folder {database.absolute().parent} does not exist; "
            "create it or name another --database"
        )
    try:
        if database is None:
            return duckdb.connect(":memory:", config=_config(memory_limit_bytes)), []
        # Absolute, because DuckDB takes names such as md:x for something else than a file.
        path, config = str(database.absolute()), _config(memory_limit_bytes)
        return _patiently(
            database,
            patience_seconds,
            lambda: open_salvaged(database.absolute(), lambda: duckdb.connect(path, config=config)),
        )
    except duckdb.Error as error:
        raise StoreError(why_not_opened(database, first_line(error))) from error


def _config(memory_limit_bytes: int) -> dict[str, str | bool | int | float | list[str]]:
    return {
        "storage_compatibility_version": STORAGE_VERSION,
        "checkpoint_threshold": CHECKPOINT_THRESHOLD,
        # By default a checkpoint also merges small row groups, which rewrites the last 120,000
        # spans again and again: 0.76 s in which nothing commits and 19 µs of CPU a span, instead
        # of 0.16 s and 9 µs without.
        "max_vacuum_tasks": "0",
        "zstd_min_string_length": ZSTD_MIN_STRING_LENGTH,
        # Two threads for one batch cost 12 µs a span, one costs 8; the other cores belong to
        # decoding and to the application that is traced.
        "threads": str(max(1, _cores() // 2)),
        "memory_limit": f"{memory_limit_bytes}B",
        # DuckDB's own limit is 90 % of the disk that the spans need.
        "max_temp_directory_size": MAX_TEMPORARY_SIZE,
        "python_enable_replacements": "false",
    }


@contextlib.contextmanager
def attached(database: Path, *, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database of ours as ``source``, the current one, beside which others can be attached.

    Raises:
        StoreError: It is not there, in use, or not one that this version can read; or its log is
            damaged, which only `connect` salvages and tells.
    """
    if not database.is_file():
        raise StoreError(f"there is no database {str(database)!r}; name another with --database")
    with duckdb.connect(":memory:", config=_config(DEFAULT_MEMORY_LIMIT_BYTES)) as connection:

        def attach() -> None:
            damage = damage_of_log(database)
            if damage is not None:
                raise StoreError(f"{database} was not opened: {damage.what}; {damage.remedy}")
            mode = "READ_ONLY" if read_only else "READ_WRITE"
            connection.execute(f"ATTACH '{quoted(database)}' AS source ({mode})")

        try:
            _patiently(database, PATIENCE_SECONDS, attach)
            connection.execute("USE source")
            version = version_of(connection)
        except duckdb.Error as error:
            raise StoreError(why_not_opened(database, first_line(error))) from error
        if version == 0:
            raise StoreError(f"{str(database)!r} holds no traces of otelchain")
        if version > LATEST_VERSION:
            raise SchemaTooNewError(f"{str(database)!r} {too_new(version)}")
        yield connection


def _patiently(database: Path, patience_seconds: float, open_it: Callable[[], Opened]) -> Opened:
    """Open a file, as soon as whoever reads it has finished.

    Raises:
        duckdb.Error: It cannot be opened, or a collector or another process has it for longer.
    """
    deadline = time.monotonic() + patience_seconds
    told = False
    while True:
        try:
            return open_it()
        except duckdb.IOException as error:
            holder = _holder(str(error))
            if holder is None or time.monotonic() > deadline or _is_collector(database, holder):
                raise
            if not told:
                told = True
                _logger.warning(
                    "waiting for process %s (%s), which has %s open",
                    holder["pid"],
                    holder["program"],
                    database,
                )
        time.sleep(_LOOK_AGAIN_SECONDS)


def quoted(path: Path) -> str:
    """Return a path as it stands between quotes in SQL."""
    return str(path.absolute()).replace("'", "''")


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux: without those that the container may not use
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def why_not_opened(database: Path | None, message: str) -> str:
    """Say what DuckDB says in words that lead to a remedy."""
    holder = _holder(message)
    if holder:
        return _locked(Path(str(database)), holder["pid"], holder["program"])
    if "not a valid DuckDB database" in message:
        return f"{database} is not a DuckDB database; name another --database or move it away"
    if "version number" in message:
        return (
            f"{database} was written by a newer DuckDB than the one installed; upgrade it with: "
            "pip install -U duckdb"
        )
    if "checksum" in message.lower() or "corrupt" in message.lower():
        return (
            f"{database} is damaged ({message}); nothing was changed: move it and what stands "
            "beside it away, or put a snapshot in its place"
        )
    if database is not None and is_replay(message):
        return why_not_replayed(database, log_of(database), message)
    return f"cannot open {database}: {message}"


def _holder(message: str) -> re.Match[str] | None:
    return re.search(r"held in (?P<program>.*) \(PID (?P<pid>\d+)\)", message)


def _is_collector(database: Path, holder: re.Match[str]) -> bool:
    collector = discovery.read(database)
    return collector is not None and collector.pid == int(holder["pid"])


def _locked(database: Path, pid: str, program: str) -> str:
    collector = discovery.read(database)
    if collector is not None and collector.pid == int(pid):
        return (
            f"{database} is in use by the collector with PID {pid}, which answers on "
            f"{collector.endpoint}; stop it or name another --database"
        )
    return (
        f"{database} is locked by process {pid} ({program}); end that process or name another "
        "--database"
    )
