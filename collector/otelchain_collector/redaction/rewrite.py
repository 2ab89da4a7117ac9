"""Rewrite a database without what a policy finds (for ``otelchain redact apply``).

DuckDB neither overwrites nor clears what an UPDATE replaced: old bytes stay in free blocks of the
file. So everything is copied into a new file, which takes the place of the old one when it is
complete. Until then the old file is as it was; after a crash it still is.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from otelchain_collector.database import STORAGE_VERSION, first_line, why_not_opened
from otelchain_collector.errors import StoreError
from otelchain_collector.redaction.report import Report
from otelchain_collector.redaction.scan import COLUMNS, Progress, text_columns
from otelchain_collector.redaction.stored import StoredColumn, StoredRedaction
from otelchain_collector.schema import LATEST_VERSION, create, version_of

_SUFFIX = ".redacting"
_BATCH_ROWS = 1_000
_MEMORY_LIMIT = "512MiB"


def rewrite(database: Path, redaction: StoredRedaction, progress: Progress) -> Report:
    """Rewrite a database; report what was replaced.

    Raises:
        StoreError: The file cannot be rewritten now, and is as it was; the text says why.
    """
    # A link stays a link to the same place.
    database = database.resolve()
    new = database.with_name(database.name + _SUFFIX)
    with _opened(database) as old:
        version = _checked_version(old, database)
        # From here on everything is in the file, and nothing in the log.
        old.execute("CHECKPOINT")
        _check_space(database)
        _remove(new)
        try:
            report = _copy(old, new, version, redaction, progress)
            shutil.copymode(database, new)
            _keep_owner(database, new)
            _sync(new)
            # The old file is still locked, so no collector writes into it meanwhile.
            new.replace(database)
        except duckdb.Error as error:
            raise StoreError(f"{database} was not rewritten: {first_line(error)}") from error
        except OSError as error:
            raise StoreError(f"{database} was not rewritten: {error.strerror}") from error
        finally:
            _remove(new)
        _sync(database.parent)
        _wal(database).unlink(missing_ok=True)
    return report


@contextmanager
def _opened(database: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    if not database.is_file():
        raise StoreError(f"there is no database {str(database)!r}; name another with --database")
    try:
        connection = duckdb.connect(str(database), config=_config())
    except duckdb.Error as error:
        raise StoreError(why_not_opened(database, first_line(error))) from error
    try:
        # It must not touch the path once another file is there.
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        yield connection
    finally:
        connection.close()


def _config() -> dict[str, Any]:
    return {
        "storage_compatibility_version": STORAGE_VERSION,
        "memory_limit": _MEMORY_LIMIT,
        # Nothing is to be left in files beside.
        "temp_directory": "",
        "python_enable_replacements": "false",
    }


def _checked_version(connection: duckdb.DuckDBPyConnection, database: Path) -> int:
    version = version_of(connection)
    if version == 0:
        raise StoreError(f"{database} holds no traces of otelchain; name another with --database")
    if version > LATEST_VERSION:
        raise StoreError(
            f"{database} has schema version {version}, and this otelchain knows versions up to "
            f"{LATEST_VERSION}; use the otelchain that wrote it, or a newer one"
        )
    return version


def _check_space(database: Path) -> None:
    needed, free = database.stat().st_size, shutil.disk_usage(database.parent).free
    if free < needed:
        raise StoreError(
            f"{database} is rewritten beside itself, which needs {needed >> 20} MiB, and "
            f"{free >> 20} are free in {database.parent}; make room there"
        )


def _copy(
    old: duckdb.DuckDBPyConnection,
    path: Path,
    version: int,
    redaction: StoredRedaction,
    progress: Progress,
) -> Report:
    columns = _columns(old)
    report = Report()
    counts = {
        table: _count(old, table) for table in dict.fromkeys(column.table for column in columns)
    }
    with _created(path) as new:
        create(new, version)
        unknown = set(columns) ^ set(_columns(new))
        if unknown:
            names = ", ".join(sorted({f"{each.table}.{each.name}" for each in unknown}))
            raise StoreError(
                f"the database has tables or columns that are not otelchain's: {names}; move them "
                "elsewhere, because their content cannot be rewritten"
            )
        texts = text_columns(columns)
        for table, count in counts.items():
            for batch in _batches(old, table, columns):
                rows = _redacted(batch, texts.get(table, []), redaction, report)
                new.register("batch", rows)
                new.execute(f"INSERT INTO {table} BY NAME SELECT * FROM batch")  # noqa: S608
                new.unregister("batch")
                progress(len(rows))
            if _count(new, table) != count:
                raise StoreError(f"table {table} was not copied whole; the database is as it was")
        new.execute("CHECKPOINT")
    return report


@contextmanager
def _created(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    # Nobody else may read it while it is made.
    umask = os.umask(0o077)
    try:
        connection = duckdb.connect(str(path), config=_config())
    finally:
        os.umask(umask)
    try:
        yield connection
    finally:
        connection.close()


def _columns(connection: duckdb.DuckDBPyConnection) -> list[StoredColumn]:
    return [StoredColumn(*row) for row in connection.execute(COLUMNS).fetchall()]


def _count(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    [(count,)] = connection.execute(f"SELECT count(*) FROM {table}").fetchall()  # noqa: S608
    return int(count)


def _batches(
    connection: duckdb.DuckDBPyConnection, table: str, columns: list[StoredColumn]
) -> Iterator[pa.RecordBatch]:
    """Read a table in the order of its rows, JSON as text."""
    chosen = ", ".join(
        f'"{each.name}"::VARCHAR AS "{each.name}"' if each.type == "JSON" else f'"{each.name}"'
        for each in columns
        if each.table == table
    )
    rows = connection.sql(f"SELECT {chosen} FROM {table}")  # noqa: S608
    yield from rows.to_arrow_reader(_BATCH_ROWS)


def _redacted(
    batch: pa.RecordBatch,
    columns: list[StoredColumn],
    redaction: StoredRedaction,
    report: Report,
) -> pa.Table:
    table = pa.Table.from_batches([batch])
    if not columns:
        return table
    values = [table.column(column.name).to_pylist() for column in columns]
    has_span = "span_id" in table.column_names
    span_ids = table.column("span_id").to_pylist() if has_span else [None] * len(table)
    changed: dict[int, list[Any]] = {}
    for number, row in enumerate(zip(*values, strict=True)):
        changes = redaction.changes(columns, row)
        for position, change in changes.items():
            changed.setdefault(position, values[position])[number] = change.value
        if changes:
            found = ((columns[position], change) for position, change in changes.items())
            report.add(found, span_ids[number])
    for position, column_values in changed.items():
        name = columns[position].name
        place = table.column_names.index(name)
        field = table.schema.field(place)
        table = table.set_column(place, field, pa.array(column_values, field.type))
    return table


def _wal(path: Path) -> Path:
    return path.with_name(path.name + ".wal")


def _remove(path: Path) -> None:
    """Remove what a rewriting that did not end has left."""
    path.unlink(missing_ok=True)
    _wal(path).unlink(missing_ok=True)


def _keep_owner(old: Path, new: Path) -> None:
    status = old.stat()
    if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (os.getuid(), os.getgid()):
        os.chown(new, status.st_uid, status.st_gid)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
