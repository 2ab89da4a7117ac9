"""The DuckDB file: rows in (from the writer), cursors out (to the API).

DuckDB lets one process write and that process alone read meanwhile, so everything that touches the
file of a running collector goes through here.
"""

import contextlib
import logging
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import duckdb
import pyarrow as pa

from otelchain_collector import findings_table, rules
from otelchain_collector.damage import is_damage
from otelchain_collector.database import (
    DEFAULT_MEMORY_LIMIT_BYTES,
    PATIENCE_SECONDS,
    connect,
    first_line,
)
from otelchain_collector.errors import (
    DamagedFileError,
    RowsRefusedError,
    SchemaTooNewError,
    StoreError,
    StoreUnavailableError,
)
from otelchain_collector.guard import guard
from otelchain_collector.identified import IdentifiedRecords, Range
from otelchain_collector.pending import PendingSpans
from otelchain_collector.real_path import real_path
from otelchain_collector.redaction.found import Finding
from otelchain_collector.rows import LogRow, MetricPointRow, RejectedRecord
from otelchain_collector.salvage import LogLoss, log_of
from otelchain_collector.schema import migrate
from otelchain_collector.span_table import ARROW_FAULTS, SPAN_SCHEMA, Spans, pc, table_of

# A checkpoint of this much takes 0.5 s, on two busy cores 1.4 s; of 570 MB it took 4.7 s, more than
# a shutdown has. What stays in the log is replayed at the next start: 570 MB in 2 s.
CLOSING_CHECKPOINT_WAL_BYTES = 128 * 1024 * 1024
# Spans of the last few seconds, about 15 MB: a resend usually comes that soon.
RECENT_SPANS = 50_000

_logger = logging.getLogger(__name__)

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
# Times at which nothing is stored, so that no block is read.
_NOWHERE: Final = (2**63 - 1, -1)
_MEMORY = "SELECT coalesce(sum(memory_usage_bytes), 0)::BIGINT FROM duckdb_memory()"
# The other tags are copies of what is in the file, and rows that no checkpoint has moved into it;
# DuckDB drops or spills them when it needs the room.
_WORKING_MEMORY = f"""{_MEMORY}
WHERE tag IN ('ALLOCATOR', 'COLUMN_DATA', 'HASH_TABLE', 'ORDER_BY', 'WINDOW')"""
_LIVE_BYTES = "SELECT (used_blocks * block_size)::BIGINT FROM pragma_database_size()"
_INSERT_REJECTED = "INSERT INTO rejected_records BY NAME SELECT * FROM batch"
_INSERT_LOSS = "INSERT INTO wal_losses VALUES ($1, $2, $3, $4, $5)"

# What a row can be at fault for; anything else is the store's trouble and may pass.
_ROW_FAULTS = (
    duckdb.DataError,
    duckdb.IntegrityError,
    duckdb.InvalidInputException,
    *ARROW_FAULTS,
)

#: After these DuckDB refuses everything until the file is opened again.
INVALIDATING = (duckdb.FatalException, duckdb.InternalException)
_INVALIDATED = "database has been invalidated"
# A question stops within milliseconds when it is interrupted.
_READERS_SECONDS = 5.0


class Inserted(NamedTuple):
    """How many records a batch added, and how many the store had already."""

    stored: int
    duplicates: int


class FileState(NamedTuple):
    """What of the file and its log belongs together at a moment.

    Attributes:
        checkpoints: How many have begun, each opening of the file counted as one.
        log_bytes: How much of the log is complete.
    """

    checkpoints: int
    log_bytes: int


class Store:
    """An open database.

    ``cursor`` may be called from any thread; everything that writes belongs to one, the writer's.
    """

    def __init__(self, database: Path | None, memory_limit_bytes: int) -> None:
        self._database = database
        self._memory_limit_bytes = memory_limit_bytes
        self._lock = threading.Lock()
        self._readers: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
        self._is_open = False
        # Kept open as long as DuckDB has the file open: with the first descriptor of a file that a
        # process closes, it gives up its lock on it.
        self._descriptor: int | None = None
        #: What the log has lost, as far as this process has found it.
        self.log_losses: list[LogLoss] = []
        #: What a commit has met last that cannot be read; None for nothing.
        self.damage: str | None = None
        #: By which rules its oldest rows were read (rules.py).
        self.rules_version = rules.RULES_VERSION
        #: How often the file was opened again.
        self.reopened = 0
        #: How many checkpoints have begun, each opening of the file counted as one.
        self.checkpoints = 0
        self._open(PATIENCE_SECONDS)

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
        database = None if path == ":memory:" else real_path(Path(path))
        return cls(database, memory_limit_bytes or DEFAULT_MEMORY_LIMIT_BYTES)

    def _open(self, patience_seconds: float = 0.0) -> None:
        self.checkpoints += 1
        connection, losses = connect(self._database, self._memory_limit_bytes, patience_seconds)
        try:
            migrate(connection)
            self.rules_version = rules.agree(connection)
            for loss in losses:
                connection.execute(_INSERT_LOSS, list(loss))
            # close() decides itself, because it has to be quick.
            connection.execute("PRAGMA disable_checkpoint_on_shutdown")
            # Questions of users are answered in this process.
            guard(connection)
            self._start_from(connection)
        except SchemaTooNewError as error:
            connection.close()
            raise SchemaTooNewError(f"cannot use {self._database}: {error}") from error
        except duckdb.Error as error:
            connection.close()
            raise StoreError(f"cannot prepare {self._database}: {first_line(error)}") from error
        self.log_losses.extend(losses)
        with self._lock:
            self._is_open = True

    def _start_from(self, connection: duckdb.DuckDBPyConnection) -> None:
        # Never runs a statement once open: a busy connection refuses even cursor().
        self._connection = connection
        self._writing = connection.cursor()
        # What was stored before the file was opened again may not be there any more.
        self._recent: dict[str, None] = {}  # TRACE_ID/SPAN_ID, oldest first
        self._pending = PendingSpans(connection)
        self._rejected_columns = _arrow_schema(
            connection, "rejected_records", RejectedRecord._fields
        )
        self._log_columns = _arrow_schema(connection, "logs", LogRow._fields)
        self._point_columns = _arrow_schema(connection, "metric_points", MetricPointRow._fields)
        self._logs = IdentifiedRecords("logs", "record_time_unix_nano")
        self._points = IdentifiedRecords("metric_points", "time_unix_nano")

    def mend(self) -> None:
        """Open the file again after an error that DuckDB does not get over by itself.

        On the writer's thread only. Does nothing to a database in order.

        Raises:
            StoreUnavailableError: It did not work now; what is in the file and its log stays.
        """
        if self._is_open:
            return
        self._close_all()
        try:
            self._open()
        except StoreError as error:
            raise StoreUnavailableError(f"the database cannot be opened again: {error}") from error
        self.reopened += 1
        _logger.warning("the database was opened again; everything that was acknowledged is in it")

    def _close_all(self) -> None:
        """Close every connection: DuckDB keeps a database alive until the last one is gone."""
        with self._lock:
            readers = list(self._readers)
        deadline = time.monotonic() + _READERS_SECONDS
        # Their threads close them; a connection that another thread uses must not be closed.
        while readers := [cursor for cursor in readers if _interrupted(cursor)]:
            if time.monotonic() > deadline:
                raise StoreUnavailableError("questions still hold the database that has to close")
            time.sleep(_READERS_SECONDS / 500)
        for connection in (self._writing, self._connection):
            with contextlib.suppress(duckdb.Error):
                connection.close()
        self._close_descriptor()

    def _unavailable(self, error: duckdb.Error, doing: str = "") -> StoreUnavailableError:
        """Return the error for the writer, and see whether the database needs to be mended."""
        if isinstance(error, INVALIDATING) or _INVALIDATED in str(error):
            with self._lock:
                self._is_open = False
        kind = DamagedFileError if is_damage(str(error)) else StoreUnavailableError
        return kind(f"{doing}{first_line(error)}")

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
        table = _table(fresh, columns)

        def write(ranges: Sequence[Range]) -> int:
            of_findings = findings_table.of_identified(records.stored(ranges))
            insertion = records.insertion(ranges)
            return self._write(table, insertion, findings=findings, of_findings=of_findings)

        ranges = records.ranges(fresh)
        stored = self._looking(lambda: write(ranges), lambda: write([_NOWHERE]))
        records.remember(fresh)
        return Inserted(stored, len(rows) - stored)

    def _looking(self, write: Callable[[], int], write_unseen: Callable[[], int]) -> int:
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

        Args:
            rows: The notes.
            findings: As for insert.

        Raises:
            StoreUnavailableError: The commit failed and may succeed later.
        """
        table = _table(rows, self._rejected_columns)
        of_findings = findings_table.OF_REJECTED
        self._write(table, _INSERT_REJECTED, findings=findings, of_findings=of_findings)

    def delete(self, statement: str, values: Mapping[str, Any]) -> int:
        """Commit a DELETE; returns how many rows it took.

        Raises:
            StoreUnavailableError: The commit failed and may succeed later.
        """
        try:
            [(count,)] = self._writing.execute(statement, dict(values)).fetchall()
        except duckdb.Error as error:
            raise self._unavailable(error, "cannot delete: ") from error
        return int(count)

    def change(self, rows: pa.Table, statements: Sequence[str]) -> None:
        """Commit changes of stored spans by statements that find them in ``batch``; all or none.

        Raises:
            StoreUnavailableError: The commit failed and may succeed later.
        """
        try:
            self._writing.register("batch", rows)
            with self._transaction():
                for statement in statements:
                    self._writing.execute(statement)
            # Some may be pending now, or no longer.
            self._pending = PendingSpans(self._writing)
        except duckdb.Error as error:
            raise self._unavailable(error, "cannot change spans: ") from error
        finally:
            with contextlib.suppress(duckdb.Error):  # The database is gone.
                self._writing.unregister("batch")

    def rules_applied(self) -> None:
        """Take down that every row has been read by the rules of this version.

        Raises:
            StoreUnavailableError: The commit failed and may succeed later.
        """
        try:
            rules.applied(self._writing)
        except duckdb.Error as error:
            raise self._unavailable(error, "cannot finish: ") from error
        self.rules_version = rules.RULES_VERSION

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a connection for one reading thread; the caller closes it.

        Raises:
            StoreUnavailableError: The database is being opened again.
        """
        with self._lock:
            if not self._is_open:
                raise StoreUnavailableError("the database is being opened again; ask in a second")
            cursor = self._connection.cursor()
            self._readers.add(cursor)
            return cursor

    def interrupt_readers(self) -> None:
        """Stop what runs on the cursors now; it fails there with InterruptException."""
        with self._lock:
            for cursor in self._readers:
                _interrupted(cursor)

    def wal_bytes(self) -> int:
        """Return the size of the write-ahead log, in bytes."""
        if self._database is None:
            return 0
        try:
            return log_of(self._database).stat().st_size
        except FileNotFoundError:
            return 0

    def file_state(self) -> FileState:
        """Return what of file and log belongs together; on the writer's thread, between commits.

        Raises:
            StoreUnavailableError: The database is being opened again.
        """
        if not self._is_open:
            raise StoreUnavailableError("the database is being opened again; ask in a second")
        return FileState(self.checkpoints, self.wal_bytes())

    def database_bytes(self) -> int:
        """Return the size of the file, in bytes; 0 in memory."""
        try:
            return 0 if self._database is None else self._database.stat().st_size
        except FileNotFoundError:
            return 0

    def live_bytes(self) -> int:
        """Return the part of the file that holds rows, in bytes, as of the last checkpoint.

        Raises:
            StoreUnavailableError: The database is being opened again.
        """
        with self.cursor() as cursor:
            return _one_number(cursor, _LIVE_BYTES)

    def read_file(self, offset: int, size: int) -> bytes:
        """Return bytes of the file as it is on the disk; shorter at its end.

        What the last checkpoint wrote is not changed before the next one. From any thread.
        """
        assert self._database is not None
        # Under the lock, so that it is not closed meanwhile, and its number another file's.
        with self._lock:
            if self._descriptor is None:
                self._descriptor = os.open(self._database, os.O_RDONLY)
            return os.pread(self._descriptor, size, offset)

    def memory_bytes(self) -> int:
        """Return the memory that DuckDB holds, in bytes; from any thread.

        Raises:
            StoreUnavailableError: The database is being opened again.
        """
        with self.cursor() as cursor:
            return _one_number(cursor, _MEMORY)

    def working_memory_bytes(self) -> int:
        """Return the memory that statements work with, in bytes: all but copies of the file.

        Raises:
            StoreUnavailableError: The database is being opened again.
        """
        with self.cursor() as cursor:
            return _one_number(cursor, _WORKING_MEMORY)

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file.

        Raises:
            StoreUnavailableError: It did not work now; nothing is lost, the log stays.
        """
        self.checkpoints += 1
        try:
            self._writing.execute("CHECKPOINT")
        except duckdb.Error as error:
            raise self._unavailable(error, "cannot checkpoint: ") from error

    def close(self) -> None:
        """Close the file, after a checkpoint unless that would take too long."""
        if self._is_open and self.wal_bytes() <= CLOSING_CHECKPOINT_WAL_BYTES:
            with contextlib.suppress(StoreUnavailableError):
                self.checkpoint()
        self._writing.close()
        with self._lock:
            self._is_open = False
            self._connection.close()
        self._close_descriptor()

    def _close_descriptor(self) -> None:
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

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
            raise self._unavailable(error) from error
        finally:
            with contextlib.suppress(duckdb.Error):  # The database is gone.
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


def _interrupted(cursor: duckdb.DuckDBPyConnection) -> bool:
    """Interrupt what runs on a cursor; False when it is closed."""
    try:
        cursor.interrupt()
    except duckdb.Error:
        return False
    return True


def _one_number(cursor: duckdb.DuckDBPyConnection, sql: str) -> int:
    [(number,)] = cursor.execute(sql).fetchall()
    return int(number)


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
