"""Rewrite a database without what a policy finds (for ``otelchain redact apply``).

DuckDB neither overwrites nor clears what an UPDATE replaced: old bytes stay in free blocks of the
file. So every row goes through the policy on its way into a new file, which
`otelchain_collector.rewrite` writes.
"""

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from otelchain_collector import rewrite as copying
from otelchain_collector.content_id import keyed_id
from otelchain_collector.database import attached
from otelchain_collector.errors import StoreError
from otelchain_collector.identity_key import IdentityKey
from otelchain_collector.real_path import real_path
from otelchain_collector.redaction.report import Report
from otelchain_collector.redaction.scan import COLUMNS, text_columns
from otelchain_collector.redaction.stored import StoredColumn, StoredRedaction
from otelchain_collector.row_copies import Progress
from otelchain_collector.salvage import logs_laid_aside
from otelchain_collector.schema import create, version_of


def rewrite(database: Path, redaction: StoredRedaction, progress: Progress) -> Report:
    """Rewrite a database; report what was replaced.

    Raises:
        StoreError: The file cannot be rewritten now, and is as it was; the text says why.
    """
    _refuse_damaged_logs(database)
    columns = text_columns(_own_columns(database))
    _check_space(database)
    report = Report()
    key = IdentityKey(database)

    def change(table: str, rows: pa.Table) -> pa.Table:
        return _redacted(rows, columns.get(table, []), redaction, report, key)

    copying.rewrite(database, change, progress)
    return report


def _refuse_damaged_logs(database: Path) -> None:
    logs = logs_laid_aside(database)
    if logs:
        raise StoreError(
            f"{database} was not rewritten: {', '.join(map(str, logs))} would keep what is taken "
            "out; a damaged log is of use only to whoever looks for the spans that were lost: look "
            "at it, then delete it or move it away"
        )


def _own_columns(database: Path) -> list[StoredColumn]:
    with attached(database, read_only=True) as stored, duckdb.connect(":memory:") as fresh:
        create(fresh, version_of(stored))
        columns = _columns(stored)
        unknown = set(columns) ^ set(_columns(fresh))
    if unknown:
        names = ", ".join(sorted({f"{each.table}.{each.name}" for each in unknown}))
        raise StoreError(
            f"the database has tables or columns that are not otelchain's: {names}; move them "
            "elsewhere, because their content cannot be rewritten"
        )
    return columns


def _columns(connection: duckdb.DuckDBPyConnection) -> list[StoredColumn]:
    return [StoredColumn(*row) for row in connection.execute(COLUMNS).fetchall()]


def _check_space(database: Path) -> None:
    folder = real_path(database).absolute().parent
    needed, free = database.stat().st_size, shutil.disk_usage(folder).free
    if free < needed:
        raise StoreError(
            f"{database} is rewritten beside itself, which needs {needed >> 20} MiB, and "
            f"{free >> 20} are free in {folder}; make room there"
        )


def _redacted(
    table: pa.Table,
    columns: list[StoredColumn],
    redaction: StoredRedaction,
    report: Report,
    key: IdentityKey,
) -> pa.Table:
    if not columns:
        return table
    values = [table.column(column.name).to_pylist() for column in columns]
    has_span = "span_id" in table.column_names
    span_ids = table.column("span_id").to_pylist() if has_span else [None] * len(table)
    changed: dict[int, list[Any]] = {}
    numbers: set[int] = set()
    for number, row in enumerate(zip(*values, strict=True)):
        changes = redaction.changes(columns, row)
        for position, change in changes.items():
            changed.setdefault(position, values[position])[number] = change.value
        if changes:
            numbers.add(number)
            found = ((columns[position], change) for position, change in changes.items())
            report.add(found, span_ids[number])
    for position, column_values in changed.items():
        name = columns[position].name
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(column_values, _plain(columns[position])))
    return _with_keyed_ids(table, numbers, key) if numbers else table


def _with_keyed_ids(table: pa.Table, numbers: set[int], key: IdentityKey) -> pa.Table:
    """Change the identities of these rows: they are digests of what is taken out, too.

    They become what they would be had the collector taken it out, so that a resend is known.
    """
    if "record_id" not in table.column_names:
        return table
    ids = table.column("record_id").to_pylist()
    for number in numbers:
        ids[number] = keyed_id(ids[number], key.value())
    place = table.column_names.index("record_id")
    return table.set_column(place, "record_id", pa.array(ids, pa.string()))


def _plain(column: StoredColumn) -> pa.DataType:
    """Return the Arrow type of a column; JSON is the text that it is."""
    return pa.list_(pa.string()) if column.type == "VARCHAR[]" else pa.string()
