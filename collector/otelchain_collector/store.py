"""The DuckDB file: rows in (from the writer), cursors out (to the API).

DuckDB lets one process write and that process alone read meanwhile, so everything that touches the
file of a running collector goes through here.
"""

import contextlib
import os
import re
import threading
import weakref
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import duckdb
import pyarrow as pa

from otelchain_collector import discovery, findings_table
from otelchain_collector.errors import (
    RowsRefusedError,
    SchemaTooNewError,
    StoreError,
    StoreUnavailableError,
)
from otelchain_collector.guard import guard
from otelchain_collector.identified import IdentifiedRecords
from otelchain_collector.pending import PendingSpans
from otelchain_collector.redaction.found import Finding
from otelchain_collector.rows import LogRow, MetricPointRow, RejectedRecord
from otelchain_collector.schema import migrate
from otelchain_collector.span_table import ARROW_FAULTS, SPAN_SCHEMA, Spans, pc, table_of

# A file in this format is read by DuckDB 1.5 and 2.x; 2.0's own default is not read by 1.x.
STORAGE_VERSION = "v1.5.0"
# DuckDB's default, 80 % of the host, gets a sidecar killed.
DEFAULT_MEMORY_LIMIT_BYTES = 512 * 1024 * 1024
# DuckDB's own checkpoints are made inside a commit; the writer makes them between two.
CHECKPOINT_THRESHOLD = "1GB"
# A checkpoint of this much takes 0.5 s, on two busy cores 1.4 s; of 570 MB it took 4.7 s, more than
# a shutdown has. What stays in the log is replayed at the next start: 570 MB in 2 s.
CLOSING_CHECKPOINT_WAL_BYTES = 128 * 1024 * 1024
# What may be spilled beside the file: rows before their checkpoint (1 GB at most), and questions.
MAX_TEMPORARY_SIZE = "2GiB"
# Spans of the last few seconds, about 15 MB: a resend usually comes that soon.
RECENT_SPANS = 50_000

SQL_TYPES = {
    "VARCHAR": pa.string(),
    "JSON": pa.string(),
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "UBIGINT": pa.uint64(),
    "VARCHAR[]": pa.list_(pa.string()),
    "DOUBLE[]": pa.list_(pa.float64()),
    "UBIGINT[]": pa.list_(pa.uint64()),
}

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
_MEMORY = "SELECT coalesce(sum(memory_usage_bytes), 0)::BIGINT FROM duckdb_memory()"
# The other tags are copies of what is in the file, and rows that no checkpoint has moved into it;
# DuckDB drops or spills them when it needs the room.
_WORKING_MEMORY = f"""{_MEMORY}
WHERE tag IN ('ALLOCATOR', 'COLUMN_DATA', 'HASH_TABLE', 'ORDER_BY', 'WINDOW')"""
_INSERT_REJECTED = "INSERT INTO rejected_records BY NAME SELECT * FROM batch"

# What a row can be at fault for; anything else is the store's trouble and may pass.
_ROW_FAULTS = (
    duckdb.DataError,
    duckdb.IntegrityError,
    duckdb.InvalidInputException,
    *ARROW_FAULTS,
)


class Inserted(NamedTuple):
    """How many records a batch added, and how many the store had already."""

    stored: int
    duplicates: int


class Store:
    """An open database.

    ``cursor`` may be called from any thread; everything that writes belongs to one, the writer's.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, database: Path | None) -> None:
        # Never runs a statement once open: a busy connection refuses even cursor().
        self._connection = connection
        self._lock = threading.Lock()
        self._writing = connection.cursor()
        self._database = database
        self._readers: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
        self._recent: dict[str, None] = {}  # TRACE_ID/SPAN_ID, oldest first
        self._pending = PendingSpans(connection)
        self._rejected_columns = _arrow_schema(
            connection, "rejected_records", RejectedRecord._fields
        )
        self._log_columns = _arrow_schema(connection, "logs", LogRow._fields)
        self._point_columns = _arrow_schema(connection, "metric_points", MetricPointRow._fields)
        self._logs = IdentifiedRecords("logs", "record_time_unix_nano")
        self._points = IdentifiedRecords("metric_points", "time_unix_nano")

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
        database = None if path == ":memory:" else Path(path)
        connection = _connect(database, memory_limit_bytes or DEFAULT_MEMORY_LIMIT_BYTES)
        try:
            migrate(connection)
            # close() decides itself, because it has to be quick.
            connection.execute("PRAGMA disable_checkpoint_on_shutdown")
            # Questions of users are answered in this process.
            guard(connection)
            return cls(connection, database)
        except SchemaTooNewError as error:
            connection.close()
            raise SchemaTooNewError(f"cannot use {database}: {error}") from error
        except duckdb.Error as error:
            connection.close()
            raise StoreError(f"cannot prepare {database}: {first_line(error)}") from error

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
        first, last = _start_times(spans)
        statements = [_INSERT_SPANS.format(first=first, last=last)]
        deletion = self._pending.deletion(first, last)
        if deletion is not None:
            statements.append(deletion)
        of_findings = findings_table.of_spans(first, last)
        stored = self._write(spans, *statements, findings=findings, of_findings=of_findings)
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
        first, last = _start_times(spans)
        insertion = self._pending.insertion(first, last)
        of_findings = findings_table.of_spans(first, last, pending=True)
        stored = self._write(spans, insertion, findings=findings, of_findings=of_findings)
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
        of_findings = findings_table.of_identified(records.stored(fresh))
        stored = self._write(
            _table(fresh, columns),
            records.insertion(fresh),
            findings=findings,
            of_findings=of_findings,
        )
        records.remember(fresh)
        return Inserted(stored, len(rows) - stored)

    def reject(self, rows: Sequence[RejectedRecord], findings: Sequence[Finding] = ()) -> None:
        """Commit the notes on records that cannot be stored.

        Args:
            rows: The notes.
            findings: As for insert.

        Raises:
            StoreUnavailableError: The commit failed and may succeed later.
        """
        table = _table(rows, self._rejected_columns)
        of_findings = findings_table.OF_REJECTED
        self._write(table, _INSERT_REJECTED, findings=findings, of_findings=of_findings)

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a connection for one reading thread; the caller closes it."""
        with self._lock:
            cursor = self._connection.cursor()
            self._readers.add(cursor)
            return cursor

    def interrupt_readers(self) -> None:
        """Stop what runs on the cursors now; it fails there with InterruptException."""
        with self._lock:
            for cursor in self._readers:
                with contextlib.suppress(duckdb.Error):  # Its reader has closed it.
                    cursor.interrupt()

    def wal_bytes(self) -> int:
        """Return the size of the write-ahead log, in bytes."""
        if self._database is None:
            return 0
        wal = self._database.with_name(self._database.name + ".wal")
        try:
            return wal.stat().st_size
        except FileNotFoundError:
            return 0

    def database_bytes(self) -> int:
        """Return the size of the file, in bytes; 0 in memory."""
        try:
            return 0 if self._database is None else self._database.stat().st_size
        except FileNotFoundError:
            return 0

    def memory_bytes(self) -> int:
        """Return the memory that DuckDB holds, in bytes; from any thread."""
        with self.cursor() as cursor:
            return _one_number(cursor, _MEMORY)

    def working_memory_bytes(self, cursor: duckdb.DuckDBPyConnection) -> int:
        """Return the memory that statements work with, in bytes: all but copies of the file."""
        return _one_number(cursor, _WORKING_MEMORY)

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file.

        Raises:
            StoreUnavailableError: It did not work now; nothing is lost, the log stays.
        """
        try:
            self._writing.execute("CHECKPOINT")
        except duckdb.Error as error:
            raise StoreUnavailableError(f"cannot checkpoint: {first_line(error)}") from error

    def close(self) -> None:
        """Close the file, after a checkpoint unless that would take too long."""
        if self.wal_bytes() <= CLOSING_CHECKPOINT_WAL_BYTES:
            with contextlib.suppress(StoreUnavailableError):
                self.checkpoint()
        self._writing.close()
        with self._lock:
            self._connection.close()

    def _fresh(self, rows: Spans) -> tuple[pa.Table, list[str]]:
        """Return each span once, without those that are known to have been stored, and the keys."""
        spans = _table(rows, SPAN_SCHEMA)
        ids = spans.column("trace_id"), spans.column("span_id")
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
        try:
            self._writing.register("batch", rows)
            if not others and not findings:
                [(count,)] = self._writing.execute(first).fetchall()
                return int(count)
            with self._transaction():
                if findings:
                    # Before the records: what counts is what is not stored yet.
                    self._writing.register("findings", findings_table.findings_table(findings))
                    self._writing.execute(of_findings)
                [(count,)] = self._writing.execute(first).fetchall()
                for statement in others:
                    self._writing.execute(statement)
            return int(count)
        except _ROW_FAULTS as error:
            raise RowsRefusedError(_without_values(error)) from error
        except duckdb.Error as error:
            raise StoreUnavailableError(first_line(error)) from error
        finally:
            self._writing.unregister("batch")
            if findings:
                self._writing.unregister("findings")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._writing.execute("BEGIN")
        try:
            yield
            self._writing.execute("COMMIT")
        except BaseException:  # Also no memory: an open transaction would fail every later one.
            with contextlib.suppress(duckdb.Error):  # A failed commit has rolled back by itself.
                self._writing.execute("ROLLBACK")
            raise

    def _remember(self, keys: Sequence[str]) -> None:
        self._recent.update(dict.fromkeys(keys))
        surplus = max(0, len(self._recent) - RECENT_SPANS)
        for key in list(islice(self._recent, surplus)):  # Oldest first.
            del self._recent[key]


def _one_number(cursor: duckdb.DuckDBPyConnection, sql: str) -> int:
    [(number,)] = cursor.execute(sql).fetchall()
    return int(number)


def first_line(error: Exception) -> str:
    """Return the part of a DuckDB error that fits on one line."""
    return str(error).strip().split("\n")[0]


def _connect(database: Path | None, memory_limit_bytes: int) -> duckdb.DuckDBPyConnection:
    if database is not None and not database.absolute().parent.is_dir():
        raise StoreError(
            f"cannot create {database}: the folder {database.absolute().parent} does not exist; "
            "create it or name another --database"
        )
    try:
        return duckdb.connect(
            # Absolute, because DuckDB takes names such as md:x for something else than a file.
            ":memory:" if database is None else str(database.absolute()),
            config={
                "storage_compatibility_version": STORAGE_VERSION,
                "checkpoint_threshold": CHECKPOINT_THRESHOLD,
                # By default a checkpoint also merges small row groups, which rewrites the last
                # 120,000 spans again and again: 0.76 s in which nothing commits and 19 µs of CPU a
                # span, instead of 0.16 s and 9 µs without.
                "max_vacuum_tasks": "0",
                # Two threads for one batch cost 12 µs a span, one costs 8; the other cores belong
                # to decoding and to the application that is traced.
                "threads": str(max(1, _cores() // 2)),
                "memory_limit": f"{memory_limit_bytes}B",
                # DuckDB's own limit is 90 % of the disk that the spans need.
                "max_temp_directory_size": MAX_TEMPORARY_SIZE,
                "python_enable_replacements": "false",
            },
        )
    except duckdb.Error as error:
        raise StoreError(why_not_opened(database, first_line(error))) from error


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux: without those that the container may not use
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def why_not_opened(database: Path | None, message: str) -> str:
    """Say what DuckDB says in words that lead to a remedy."""
    holder = re.search(r"held in (?P<program>.*) \(PID (?P<pid>\d+)\)", message)
    if holder:
        return _locked(Path(str(database)), holder["pid"], holder["program"])
    if "not a valid DuckDB database" in message:
        return f"{database} is not a DuckDB database; name another --database or move it away"
    if "WAL file" in message or "write-ahead" in message.lower():
        return (
            f"the write-ahead log {database}.wal cannot be read ({message}); move it away to open "
            "the database as of its last checkpoint"
        )
    return f"cannot open {database}: {message}"


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


def _start_times(spans: pa.Table) -> tuple[int, int]:
    """Return the first and the last."""
    bounds = pc.min_max(spans.column("start_time_unix_nano"))
    return bounds["min"].as_py(), bounds["max"].as_py()


def _arrow_schema(
    connection: duckdb.DuckDBPyConnection, table: str, fields: Sequence[str]
) -> pa.Schema:
    """Return the types of the columns, in the order of the rows, which are inserted by name."""
    described = connection.execute(f"DESCRIBE {table}").fetchall()
    types = {column[0]: SQL_TYPES[column[1]] for column in described}
    return pa.schema([(field, types[field]) for field in fields])


def _table(rows: "Sequence[tuple[Any, ...]] | pa.Table", columns: pa.Schema) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    try:
        return table_of(rows, columns)
    except ARROW_FAULTS as error:
        raise RowsRefusedError(_without_values(error)) from error


def _without_values(error: Exception) -> str:
    """Name the fault without the value at fault, which may be a user's text."""
    text = re.split(r"\"|'|\bInput:|with value", first_line(error))[0].strip(" .,:")
    return f"{type(error).__name__}: {text}"
