"""Write a database anew: every row into a new file, which holds nothing of what was deleted.

The new file is complete on the disk, and counted, before it takes its name: whatever happens in
between, the name leads to the old file or to the new one.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import duckdb

from otelchain_collector.database import STORAGE_VERSION, attached, first_line, quoted
from otelchain_collector.errors import StoreError

#: Takes a table's name and some of its rows (a pyarrow.Table); returns as many rows instead.
Change = Callable[[str, Any], Any]
#: Hears how many rows are written, and how many there are.
Progress = Callable[[int, int], None]

_END: Final = 'SELECT coalesce(max(rowid) + 1, 0) FROM source."{table}"'
_ROWS: Final = 'SELECT * FROM source."{table}" WHERE rowid >= {first} AND rowid < {end}'
_INSERT: Final = 'INSERT INTO draft."{table}" BY NAME {rows}'
_COUNT: Final = 'SELECT count(*) FROM {database}."{table}"'
# A multiple of DuckDB's row groups (122,880), so that the new file has full ones.
_ROWS_AT_A_TIME: Final = 122_880
# Rows go through Python when they are changed: usually 3 KB each, but some have payloads.
_CHANGED_AT_A_TIME: Final = 1_024


def _nobody(_: int, __: int) -> None:
    pass


def rewrite(database: Path, change: Change | None = None, progress: Progress = _nobody) -> None:
    """Replace a database that nothing has open by a new file with the same rows.

    Args:
        database: The file, or a link to it, which stays one. Its lock is held until the new file
            has taken its name; mode and owner are kept.
        change: What becomes of the rows on the way; the old values are in no byte of the new file.
        progress: Called now and then.

    Raises:
        StoreError: It did not work; the file is as it was.
    """
    database = database.resolve()
    draft = database.with_name(f"{database.name}.rewriting")
    with _translated(database), attached(database, read_only=False) as connection:
        # Nothing may stay in a log that the new file would be given at its next start.
        connection.execute("CHECKPOINT source")
        with _finished(connection, draft, change, progress):
            _keep_access(database, draft)
            _remove_spilled(database)
            replace(draft, database)


def copy(database: Path, target: Path, progress: Progress = _nobody) -> None:
    """Write the rows of a database that nothing writes to into a new file.

    Args:
        database: The file; it stays as it is.
        target: The new file; one that is there is replaced.
        progress: Called now and then.

    Raises:
        StoreError: It did not work; there is no new file.
    """
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    with (
        _translated(database),
        attached(database, read_only=True) as connection,
        _finished(connection, draft, None, progress),
    ):
        replace(draft, target)


@contextlib.contextmanager
def _finished(
    connection: duckdb.DuckDBPyConnection, draft: Path, change: Change | None, progress: Progress
) -> Iterator[None]:
    """Write the draft; remove it when that, or what is then done with it, fails."""
    spilled = draft.with_name(f"{draft.name}.tmp")
    # What a killed process left.
    _remove(draft)
    shutil.rmtree(spilled, ignore_errors=True)
    with _private():
        try:
            # By default it is .tmp in the working directory. DuckDB removes it at the end.
            connection.execute(f"SET temp_directory = '{quoted(spilled)}'")
            connection.execute(
                f"ATTACH '{quoted(draft)}' AS draft (STORAGE_VERSION '{STORAGE_VERSION}')"
            )
            connection.execute("COPY FROM DATABASE source TO draft (SCHEMA)")
            _fill(connection, change, progress)
            connection.execute("DETACH draft")
            yield
        except BaseException:
            with contextlib.suppress(duckdb.Error):
                connection.execute("DETACH DATABASE IF EXISTS draft")
            _remove(draft)
            raise


def _fill(connection: duckdb.DuckDBPyConnection, change: Change | None, progress: Progress) -> None:
    tables = _tables(connection)
    counts = {table: _count(connection, "source", table) for table in tables}
    whole, written = sum(counts.values()), 0
    progress(0, whole)
    for table in tables:
        for rows in _copied(connection, table, change):
            written += rows
            progress(written, whole)
        found = _count(connection, "draft", table)
        if found != counts[table]:
            raise StoreError(
                f"the new file has {found} rows of {table} instead of {counts[table]}; "
                "nothing was changed"
            )
    connection.execute("CHECKPOINT draft")


def _copied(
    connection: duckdb.DuckDBPyConnection, table: str, change: Change | None
) -> Iterator[int]:
    """Copy a table in the order of its rows; yield how many rows each piece had."""
    [(end,)] = connection.execute(_END.format(table=table)).fetchall()
    step = _ROWS_AT_A_TIME if change is None else _CHANGED_AT_A_TIME
    for first in range(0, end, step):
        rows = _ROWS.format(table=table, first=first, end=first + step)
        if change is not None:
            connection.register("changed", change(table, connection.sql(rows).to_arrow_table()))
            rows = "SELECT * FROM changed"
        [(inserted,)] = connection.execute(_INSERT.format(table=table, rows=rows)).fetchall()
        if change is not None and (first + step) % _ROWS_AT_A_TIME == 0:
            # Small pieces go through the log, which would grow as large as the table.
            connection.execute("CHECKPOINT draft")
        yield int(inserted)


def replace(draft: Path, target: Path) -> None:
    """Give a finished file its name, once its bytes are on the disk."""
    _sync(draft)
    draft.replace(target)
    if os.name == "posix":
        _sync(target.parent)


def _keep_access(old: Path, new: Path) -> None:
    shutil.copymode(old, new)
    status = old.stat()
    if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (os.getuid(), os.getgid()):
        os.chown(new, status.st_uid, status.st_gid)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    found = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = 'source' AND NOT internal "
        "ORDER BY table_name"
    ).fetchall()
    return [str(table) for (table,) in found]


def _count(connection: duckdb.DuckDBPyConnection, database: str, table: str) -> int:
    count = _COUNT.format(database=database, table=table)
    [(rows,)] = connection.execute(count).fetchall()
    return int(rows)


@contextlib.contextmanager
def _translated(database: Path) -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, OSError) as error:
        raise StoreError(f"cannot write {database} anew: {first_line(error)}") from error


@contextlib.contextmanager
def _private() -> Iterator[None]:
    """Make files for their owner only: they hold what users said to models."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _remove_spilled(database: Path) -> None:
    """Remove rows that a killed collector had spilled; whoever has the lock owns them."""
    # Where DuckDB spills by default.
    folder = database.with_name(f"{database.name}.tmp")
    for file in folder.glob("duckdb_temp*"):
        file.unlink()
    with contextlib.suppress(OSError):  # It is not there, or holds something else.
        folder.rmdir()


def _remove(draft: Path) -> None:
    for path in (draft, draft.with_name(draft.name + ".wal")):
        path.unlink(missing_ok=True)
