"""Rows into the database: each record once, all of a batch or none (from the writer)."""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

import duckdb
import pyarrow as pa

from otelchain_collector import findings_table, rules
from otelchain_collector.arrow_tables import (
    ROW_FAULTS,
    arrow_schema,
    arrow_table,
    registered,
    without_values,
)
from otelchain_collector.database import DEFAULT_MEMORY_LIMIT_BYTES
from otelchain_collector.errors import DamagedFileError, RowsRefusedError
from otelchain_collector.identified import IdentifiedRecords, Range
from otelchain_collector.laid_aside import losses_not_noted
from otelchain_collector.open_database import OpenDatabase
from otelchain_collector.pending import PendingSpans
from otelchain_collector.real_path import real_path
from otelchain_collector.redaction.found import Finding
from otelchain_collector.rows import LogRow, MetricPointRow, RejectedRecord
from otelchain_collector.salvage import LogLoss
from otelchain_collector.schema import created_time, migrate
from otelchain_collector.span_table import SPAN_SCHEMA, Spans, pc

# Spans of the last few seconds, about 16 MB: a resend usually comes that soon.
RECENT_SPANS = 50_000

_TRACE_ID: Final = re.compile("(?!0{32})[0-9a-f]{32}", re.IGNORECASE)
_SPAN_ID: Final = re.compile("(?!0{16})[0-9a-f]{16}", re.IGNORECASE)

_logger = logging.getLogger(__name__)

# A resent span has the same start, so zone maps lead the anti-join to the few row groups that can
# hold it: 4.8 ms for 512 rows into 3 million, where a full anti-join took 151 ms.
_INSERT_SPANS = """
INSERT INTO spans BY NAME
SELECT batch.*
FROM batch
ANTI JOIN (
    SELECT trace_id, span_id, start_time_unix_nano
    FROM spans
    WHERE start_time_unix_nano BETWEEN {first} AND {last}
) AS stored USING (trace_id, span_id, start_time_unix_nano)
"""
# Times at which nothing is stored, so that no block is read.
_NOWHERE: Final = (2**63 - 1, -1)
_INSERT_REJECTED = "INSERT INTO rejected_records BY NAME SELECT * FROM batch"
# 30 ms of CPU for the newest million, which is as far as it looks: a client that never learns must
# not make each commit slower than the one before.
_REJECTED_BEFORE = """
SELECT trace_id, span_id, reason
FROM rejected_records
WHERE rowid > {newest} - 1_000_000
    AND signal = 'traces'
    AND trace_id IN (SELECT trace_id FROM batch)
"""
_NEWEST_REJECTED = "SELECT coalesce(max(rowid), 0) FROM rejected_records"
_INSERT_LOSS = "INSERT INTO wal_losses VALUES ($1, $2, $3, $4, $5)"
_NOTED_LOGS = "SELECT file FROM wal_losses WHERE file IS NOT NULL"


Done = TypeVar("Done")


class Inserted(NamedTuple):
    """How many records a batch added, and how many the store had already."""

    stored: int
    duplicates: int


class Store:
    """The tables of an open database; everything that writes belongs to one thread, the writer's.

    Attributes:
        database: The database itself, also for those who only read.
        damage: What a commit has met last that cannot be read; None for nothing.
        rules_version: By which rules its oldest rows were read (rules.py).
    """

    def __init__(self, path: Path | None, memory_limit_bytes: int) -> None:
        self.damage: str | None = None
        self.rules_version = rules.RULES_VERSION
        self._path = path
        self.database = OpenDatabase(path, memory_limit_bytes, self._prepare)

    @classmethod
    def open(
        cls,
        path: Path | Literal[":memory:"],
        *,
        memory_limit_bytes: int | None = None,
    ) -> "Store":
        """Open or create the database and bring its schema up to date.

        Args:
            path: The file; its folder must exist.
            memory_limit_bytes: What DuckDB may use; None for 512 MiB.

        Raises:
            StoreError: The file cannot be used; the text names it, the reason and the remedy.
        """
        # Resolved once, so that a link which is laid elsewhere meanwhile leads nobody astray.
        real = None if path == ":memory:" else real_path(Path(path))
        return cls(real, memory_limit_bytes or DEFAULT_MEMORY_LIMIT_BYTES)

    def close(self) -> None:
        """Close the file, after a checkpoint unless that would take too long."""
        self.database.close()

    def _prepare(
        self, connection: duckdb.DuckDBPyConnection, losses: list[LogLoss]
    ) -> list[LogLoss]:
        migrate(connection)
        self.rules_version = rules.agree(connection)
        losses = [*losses, *self._not_noted(connection, losses)]
        for loss in losses:
            connection.execute(_INSERT_LOSS, list(loss))
        # What was stored before the file was opened again may not be there any more.
        self._recent: dict[str, None] = {}  # TRACE_ID/SPAN_ID/START, oldest first
        self._pending = PendingSpans(connection)
        self._rejected_columns = arrow_schema(
            connection, "rejected_records", RejectedRecord._fields
        )
        self._log_columns = arrow_schema(connection, "logs", LogRow._fields)
        self._point_columns = arrow_schema(connection, "metric_points", MetricPointRow._fields)
        self._logs = IdentifiedRecords("logs", "record_time_unix_nano")
        self._points = IdentifiedRecords("metric_points", "time_unix_nano")
        return losses

    def _not_noted(
        self, connection: duckdb.DuckDBPyConnection, losses: list[LogLoss]
    ) -> list[LogLoss]:
        """Return what was lost when a process was killed before it could note it here."""
        if self._path is None:
            return []
        noted = [file for (file,) in connection.execute(_NOTED_LOGS).fetchall()]
        noted.extend(loss.file for loss in losses if loss.file)
        return losses_not_noted(self._path, noted, created_time(connection))

    def insert(self, rows: Spans, findings: Sequence[Finding] = ()) -> Inserted:
        """Commit spans; those that are stored already are left out, and none is pending any more.

        Args:
            rows: The spans.
            findings: What redaction took out of them, and maybe of others.

        Raises:
            RowsRefusedError: A row can never be stored; none of these was.
            StoreUnavailableError: The commit failed and may succeed later.
        """
        spans, keys = self._fresh(rows)
        if not keys:
            return Inserted(0, len(rows))

        def write(first: int, last: int) -> int:
            statements = [_INSERT_SPANS.format(first=first, last=last)]
            deletion = self._pending.deletion(first, last)
            if deletion is not None:
                statements.append(deletion)
            of_findings = findings_table.of_spans(first, last)
            return self._write(spans, *statements, findings=findings, of_findings=of_findings)

        first, last = _start_times(spans)
        stored = self._looking(lambda: write(first, last), lambda: write(*_NOWHERE))
        self._remember(keys)
        return Inserted(stored, len(rows) - stored)

    def insert_pending(self, rows: Spans, findings: Sequence[Finding] = ()) -> Inserted:
        """Commit runs that have started; those that are known, or have ended, are left out.

        Args:
            rows: Their spans.
            findings: As for insert.

        Raises:
            RowsRefusedError: A row can never be stored; none of these was.
            StoreUnavailableError: The commit failed and may succeed later.
        """
        spans, keys = self._fresh(rows)
        if not keys:
            return Inserted(0, len(rows))

        def write(first: int, last: int) -> int:
            insertion = self._pending.insertion(first, last)
            of_findings = findings_table.of_spans(first, last, pending=True)
            return self._write(spans, insertion, findings=findings, of_findings=of_findings)

        first, last = _start_times(spans)
        stored = self._looking(lambda: write(first, last), lambda: write(*_NOWHERE))
        self._pending.added(stored, first, last)
        return Inserted(stored, len(rows) - stored)

    def insert_logs(self, rows: Sequence[LogRow], findings: Sequence[Finding] = ()) -> Inserted:
        """Commit log records; those that are stored already are left out.

        Args:
            rows: The records.
            findings: As for insert.

        Raises:
            RowsRefusedError: A row can never be stored; none of these was.
            StoreUnavailableError: The commit failed and may succeed later.
        """
        return self._insert_identified(rows, findings, self._logs, self._log_columns)

    def insert_metric_points(
        self, rows: Sequence[MetricPointRow], findings: Sequence[Finding] = ()
    ) -> Inserted:
        """Commit data points; those that are stored already are left out.

        Args:
            rows: The data points.
            findings: As for insert.

        Raises:
            RowsRefusedError: A row can never be stored; none of these was.
            StoreUnavailableError: The commit failed and may succeed later.
        """
        return self._insert_identified(rows, findings, self._points, self._point_columns)

    def _insert_identified(
        self,
        rows: Sequence[LogRow] | Sequence[MetricPointRow],
        findings: Sequence[Finding],
        records: IdentifiedRecords,
        columns: pa.Schema,
    ) -> Inserted:
        fresh = records.fresh(rows)
        if not fresh:
            return Inserted(0, len(rows))
        table = arrow_table(fresh, columns)

        def write(ranges: Sequence[Range]) -> int:
            of_findings = findings_table.of_identified(records.stored(ranges))
            insertion = records.insertion(ranges)
            return self._write(table, insertion, findings=findings, of_findings=of_findings)

        ranges = records.ranges(fresh)
        stored = self._looking(lambda: write(ranges), lambda: write([_NOWHERE]))
        records.remember(fresh)
        return Inserted(stored, len(rows) - stored)

    def _looking(self, write: Callable[[], Done], write_unseen: Callable[[], Done]) -> Done:
        """Write what is not stored yet; where that cannot be read, write all that is there.

        What is stored in a damaged block cannot be read by anybody else either.
        """
        try:
            return write()
        except DamagedFileError as error:
            if str(error) != self.damage:
                _logger.error(
                    "a part of the file is damaged; resends of what is stored there are stored "
                    "again: %s; 'otelchain doctor --read-all' says which rows it has cost",
                    error,
                )
            self.damage = str(error)
            return write_unseen()

    def reject(self, rows: Sequence[RejectedRecord], findings: Sequence[Finding] = ()) -> None:
        """Commit the notes on records that cannot be stored.

        A span that was refused before for the same reason is left out. Where its ids are at fault,
        and of other signals, nothing tells a resend from another record: each has its note.

        Args:
            rows: The notes.
            findings: As for insert.

        Raises:
            StoreUnavailableError: The commit failed and may succeed later.
        """
        fresh = self._looking(lambda: self._not_rejected_before(rows), lambda: rows)
        if not fresh:
            return
        table = arrow_table(fresh, self._rejected_columns)
        of_findings = findings_table.OF_REJECTED
        self._write(table, _INSERT_REJECTED, findings=findings, of_findings=of_findings)

    def _not_rejected_before(self, rows: Sequence[RejectedRecord]) -> Sequence[RejectedRecord]:
        known = {key: row for row in reversed(rows) if (key := _refusal(row))}
        if not known:
            return rows
        batch = pa.table({"trace_id": [trace_id for trace_id, *_ in known]})
        writing = self.database.writing
        try:
            with registered(writing, batch=batch):
                [(newest,)] = writing.execute(_NEWEST_REJECTED).fetchall()
                before = set(writing.execute(_REJECTED_BEFORE.format(newest=newest)).fetchall())
        except duckdb.Error as error:
            raise self.database.unavailable(error) from error
        # Of equal ones the first.
        return [
            row
            for row in rows
            if (key := _refusal(row)) is None or (key not in before and known[key] is row)
        ]

    def delete(self, statement: str, values: Mapping[str, Any]) -> int:
        """Commit a DELETE; returns how many rows it took.

        Raises:
            StoreUnavailableError: The commit failed and may succeed later.
        """
        try:
            [(count,)] = self.database.writing.execute(statement, dict(values)).fetchall()
        except duckdb.Error as error:
            raise self.database.unavailable(error, "cannot delete: ") from error
        return int(count)

    def change(self, rows: pa.Table, statements: Sequence[str]) -> None:
        """Commit changes of stored spans by statements that find them in ``batch``; all or none.

        Raises:
            StoreUnavailableError: The commit failed and may succeed later.
        """
        writing = self.database.writing
        try:
            with registered(writing, batch=rows), self.database.transaction():
                for statement in statements:
                    writing.execute(statement)
            # Some may be pending now, or no longer.
            self._pending = PendingSpans(writing)
        except duckdb.Error as error:
            raise self.database.unavailable(error, "cannot change spans: ") from error

    def rules_applied(self) -> None:
        """Take down that every row has been read by the rules of this version.

        Raises:
            StoreUnavailableError: The commit failed and may succeed later.
        """
        try:
            rules.applied(self.database.writing)
        except duckdb.Error as error:
            raise self.database.unavailable(error, "cannot finish: ") from error
        self.rules_version = rules.RULES_VERSION

    def _fresh(self, rows: Spans) -> tuple[pa.Table, list[str]]:
        """Return each span once, without those that are known to have been stored, and the keys."""
        spans = arrow_table(rows, SPAN_SCHEMA)
        # By what the statements find a stored span by: who is known here is known there, too.
        starts = pc.cast(spans.column("start_time_unix_nano"), pa.string())
        ids = spans.column("trace_id"), spans.column("span_id"), starts
        keys = pc.binary_join_element_wise(*ids, "/").to_pylist()
        distinct = dict.fromkeys(keys)
        if len(distinct) == len(keys) and self._recent.keys().isdisjoint(distinct):
            return spans, keys
        # Of two the first is kept, so it is written last.
        places = {key: place for place, key in reversed(tuple(enumerate(keys)))}
        fresh = [key for key in distinct if key not in self._recent]
        return spans.take(pa.array((places[key] for key in fresh), pa.int64())), fresh

    def _write(
        self,
        rows: pa.Table,
        first: str,
        *others: str,
        findings: Sequence[Finding],
        of_findings: str,
    ) -> int:
        """Run statements on rows, all or none; return how many rows the first one added."""
        writing = self.database.writing
        tables = {"batch": rows}
        try:
            if findings:
                tables["findings"] = findings_table.findings_table(findings)
            with registered(writing, **tables):
                if not others and not findings:
                    [(count,)] = writing.execute(first).fetchall()
                    return int(count)
                with self.database.transaction():
                    if findings:
                        # Before the records: what counts is what is not stored yet.
                        writing.execute(of_findings)
                    [(count,)] = writing.execute(first).fetchall()
                    for statement in others:
                        writing.execute(statement)
                return int(count)
        except ROW_FAULTS as error:
            raise RowsRefusedError(without_values(error)) from error
        except duckdb.Error as error:
            raise self.database.unavailable(error) from error

    def _remember(self, keys: Sequence[str]) -> None:
        self._recent.update(dict.fromkeys(keys))
        surplus = max(0, len(self._recent) - RECENT_SPANS)
        for key in list(islice(self._recent, surplus)):  # Oldest first.
            del self._recent[key]


def _refusal(row: RejectedRecord) -> tuple[str, str, str] | None:
    """Return what a refused span is known by; None for one whose ids name no span."""
    if row.signal != "traces" or row.trace_id is None or row.span_id is None:
        return None
    if not (_TRACE_ID.fullmatch(row.trace_id) and _SPAN_ID.fullmatch(row.span_id)):
        return None
    return row.trace_id, row.span_id, row.reason


def _start_times(spans: pa.Table) -> tuple[int, int]:
    """Return the first and the last."""
    bounds = pc.min_max(spans.column("start_time_unix_nano"))
    return bounds["min"].as_py(), bounds["max"].as_py()
