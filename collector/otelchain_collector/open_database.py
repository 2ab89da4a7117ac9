"""The DuckDB file while it is open, and opened again after what DuckDB does not get over.

DuckDB lets one process write and that process alone read meanwhile, so everything that touches the
file of a running collector goes through here.
"""

import contextlib
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import duckdb

from otelchain_collector.damage import is_damage
from otelchain_collector.database import PATIENCE_SECONDS, connect, first_line
from otelchain_collector.errors import (
    DamagedFileError,
    SchemaTooNewError,
    StoreError,
    StoreUnavailableError,
)
from otelchain_collector.guard import guard
from otelchain_collector.owner_only import owner_only
from otelchain_collector.salvage import LogLoss, log_of

# A checkpoint of this much takes 0.5 s, on two busy cores 1.4 s; of 570 MB it took 4.7 s, more than
# a shutdown has. What stays in the log is replayed at the next start: 570 MB in 2 s.
CLOSING_CHECKPOINT_WAL_BYTES = 128 * 1024 * 1024
#: After these DuckDB refuses everything until the file is opened again.
INVALIDATING = (duckdb.FatalException, duckdb.InternalException)
_INVALIDATED: Final = "database has been invalidated"
# A question stops within milliseconds when it is interrupted.
_READERS_SECONDS: Final = 5.0
# Of what a checkpoint has written DuckDB keeps blocks, until its memory is full, and some 0.3 MB
# that it does not count; the next checkpoints take 0.06 ms longer each. When its memory is full, a
# block goes out for each that comes, and each time what is free is given back to the system, with
# all threads stopped: 5 page faults a span instead of 1, 88 µs of CPU instead of 56. All of that is
# gone when the file is opened again: 60 to 125 ms at full load (3.4 GB in 800 row groups: 30 ms).
_RENEWAL_CHECKPOINTS: Final = 32
_RENEWAL_SHARE_OF_MEMORY: Final = 4

_MEMORY: Final = "SELECT coalesce(sum(memory_usage_bytes), 0)::BIGINT FROM duckdb_memory()"
# The other tags are copies of what is in the file, and rows that no checkpoint has moved into it;
# DuckDB drops or spills them when it needs the room.
_WORKING_MEMORY: Final = f"""{_MEMORY}
WHERE tag IN ('ALLOCATOR', 'COLUMN_DATA', 'HASH_TABLE', 'ORDER_BY', 'WINDOW')"""
_LIVE_BYTES: Final = "SELECT (used_blocks * block_size)::BIGINT FROM pragma_database_size()"

_logger = logging.getLogger(__name__)

#: Makes a newly opened database ready: gets its connection and what its log has lost; returns that
#: and what logs have lost that nobody has noted yet.
Prepare = Callable[[duckdb.DuckDBPyConnection, list[LogLoss]], list[LogLoss]]


class FileState(NamedTuple):
    """What of the file and its log belongs together at a moment.

    Attributes:
        checkpoints: How many have begun, each opening of the file counted as one.
        log_bytes: How much of the log is complete.
    """

    checkpoints: int
    log_bytes: int


class OpenDatabase:
    """An open database.

    ``cursor`` and what only looks may be called from any thread; ``writing`` and everything that
    changes something belong to one, the writer's.

    Args:
        path: The file; None for a database in memory.
        memory_limit_bytes: What DuckDB may use.
        prepare: Called whenever it has been opened, before anybody else gets it.

    Attributes:
        writing: The connection of the writer's thread.
        log_losses: What the log has lost, as far as this process has found it.
        reopened: How often the file was opened again.
        checkpoints: How many have begun, each opening of the file counted as one.
        clean_checkpoints: How many have given back the room of all deleted rows: something was in
            the log, and nobody read, who would need them still.

    Raises:
        StoreError: It cannot be opened; the text names it, the reason and the remedy.
    """

    writing: duckdb.DuckDBPyConnection

    def __init__(self, path: Path | None, memory_limit_bytes: int, prepare: Prepare) -> None:
        self._path = path
        self._memory_limit_bytes = memory_limit_bytes
        self._prepare = prepare
        # Whoever wants a cursor while the file is opened anew waits for it.
        self._lock = threading.RLock()
        self._readers: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
        self._is_open = False
        # Kept open as long as DuckDB has the file open: with the first descriptor of a file that a
        # process closes, it gives up its lock on it.
        self._descriptor: int | None = None
        self.log_losses: list[LogLoss] = []
        self.reopened = 0
        self.checkpoints = 0
        self.clean_checkpoints = 0
        self._cursors = 0
        self._renewal_due = 0
        self._owner_only = contextlib.ExitStack()
        with contextlib.ExitStack() as opening:
            if path is not None:
                opening.enter_context(owner_only())
            self._open(PATIENCE_SECONDS)
            self._owner_only = opening.pop_all()

    def mend(self) -> None:
        """Open the file again after an error that DuckDB does not get over by itself.

        On the writer's thread only. Does nothing to a database in order.

        Raises:
            StoreUnavailableError: It did not work now; what is in the file and its log stays.
        """
        if self._is_open:
            return
        self._close_all()
        self._open_again()
        self.reopened += 1
        _logger.warning("the database was opened again; everything that was acknowledged is in it")

    def unavailable(self, error: duckdb.Error, doing: str = "") -> StoreUnavailableError:
        """Return the error for the writer, and see whether the database needs to be mended."""
        if isinstance(error, INVALIDATING) or _INVALIDATED in str(error):
            with self._lock:
                self._is_open = False
        kind = DamagedFileError if is_damage(str(error)) else StoreUnavailableError
        return kind(f"{doing}{first_line(error)}")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what the block writes, all or nothing."""
        self.writing.execute("BEGIN")
        try:
            yield
            self.writing.execute("COMMIT")
        except BaseException:  # Also no memory: an open transaction would fail every later one.
            with contextlib.suppress(duckdb.Error):  # A failed commit has rolled back by itself.
                self.writing.execute("ROLLBACK")
            raise

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file; open it anew when that is due and nobody reads.

        Raises:
            StoreUnavailableError: It did not work now; nothing is lost, the log stays.
        """
        try:
            self._move_log()
            if self._is_renewal_due():
                self._renew()
        except duckdb.Error as error:
            raise self.unavailable(error, "cannot checkpoint: ") from error

    def _move_log(self) -> None:
        self.checkpoints += 1
        cursors = self._cursors
        is_clean = self.wal_bytes() > 0 and self._nobody_reads()
        self.writing.execute("CHECKPOINT")
        if is_clean and cursors == self._cursors:
            self.clean_checkpoints += 1

    def close(self) -> None:
        """Close the file, after a checkpoint unless that would take too long."""
        if self._is_open and self.wal_bytes() <= CLOSING_CHECKPOINT_WAL_BYTES:
            with contextlib.suppress(duckdb.Error):
                self._move_log()
        with self._lock:
            self._is_open = False
            self._close_connections()
        self._owner_only.close()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a connection for one reading thread; the caller closes it.

        Raises:
            StoreUnavailableError: The database is being opened again.
        """
        with self._lock:
            self._check_open()
            cursor = self._connection.cursor()
            self._cursors += 1
            self._readers.add(cursor)
            return cursor

    def interrupt_readers(self) -> None:
        """Stop what runs on the cursors now; it fails there with InterruptException."""
        with self._lock:
            for cursor in self._readers:
                _interrupted(cursor)

    def file_state(self) -> FileState:
        """Return what of file and log belongs together; on the writer's thread, between commits.

        Raises:
            StoreUnavailableError: The database is being opened again.
        """
        self._check_open()
        return FileState(self.checkpoints, self.wal_bytes())

    def wal_bytes(self) -> int:
        """Return the size of the write-ahead log, in bytes."""
        return 0 if self._path is None else _size(log_of(self._path))

    def file_bytes(self) -> int:
        """Return the size of the file, in bytes; 0 in memory."""
        return 0 if self._path is None else _size(self._path)

    def live_bytes(self) -> int:
        """Return the part of the file that holds rows, in bytes, as of the last checkpoint.

        Raises:
            StoreUnavailableError: The database is being opened again.
        """
        return self._one_number(_LIVE_BYTES)

    def memory_bytes(self) -> int:
        """Return the memory that DuckDB holds, in bytes.

        Raises:
            StoreUnavailableError: The database is being opened again.
        """
        return self._one_number(_MEMORY)

    def working_memory_bytes(self) -> int:
        """Return the memory that statements work with, in bytes: all but copies of the file.

        Raises:
            StoreUnavailableError: The database is being opened again.
        """
        return self._one_number(_WORKING_MEMORY)

    def read_file(self, offset: int, size: int) -> bytes:
        """Return bytes of the file as it is on the disk; shorter at its end.

        What the last checkpoint wrote is not changed before the next one.
        """
        assert self._path is not None
        # Under the lock, so that it is not closed meanwhile, and its number another file's.
        with self._lock:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDONLY)
            return os.pread(self._descriptor, size, offset)

    def _open(self, patience_seconds: float = 0.0) -> None:
        self.checkpoints += 1
        connection, losses = connect(self._path, self._memory_limit_bytes, patience_seconds)
        try:
            losses = self._prepare(connection, losses)
            # close() decides itself, because it has to be quick.
            connection.execute("PRAGMA disable_checkpoint_on_shutdown")
            # Questions of users are answered in this process.
            guard(connection)
        except SchemaTooNewError as error:
            connection.close()
            raise SchemaTooNewError(f"cannot use {self._path}: {error}") from error
        except duckdb.Error as error:
            connection.close()
            raise StoreError(f"cannot prepare {self._path}: {first_line(error)}") from error
        # Never runs a statement once open: a busy connection refuses even cursor().
        self._connection = connection
        self.writing = connection.cursor()
        self.log_losses.extend(losses)
        self._renewal_due = self.checkpoints + _RENEWAL_CHECKPOINTS
        with self._lock:
            self._is_open = True

    def _is_renewal_due(self) -> bool:
        if self._path is None or self.wal_bytes():
            return False
        full_bytes = self._memory_limit_bytes // _RENEWAL_SHARE_OF_MEMORY
        return self.checkpoints >= self._renewal_due or self.memory_bytes() > full_bytes

    def _renew(self) -> None:
        """Close the file and open it again, unless somebody reads."""
        with self._lock:
            if not self._nobody_reads():
                return
            self._is_open = False
            self._close_connections()
            self._open_again()  # Or the writer mends it before the next commit.

    def _open_again(self) -> None:
        try:
            self._open()
        except StoreError as error:
            raise StoreUnavailableError(f"the database cannot be opened again: {error}") from error

    def _nobody_reads(self) -> bool:
        with self._lock:
            return all(_is_closed(cursor) for cursor in self._readers)

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreUnavailableError("the database is being opened again; ask in a second")

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
        self._close_connections()

    def _close_connections(self) -> None:
        for connection in (self.writing, self._connection):
            with contextlib.suppress(duckdb.Error):
                connection.close()
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _one_number(self, sql: str) -> int:
        with self.cursor() as cursor:
            [(number,)] = cursor.execute(sql).fetchall()
        return int(number)


def _interrupted(cursor: duckdb.DuckDBPyConnection) -> bool:
    """Interrupt what runs on a cursor; False when it is closed."""
    with contextlib.suppress(duckdb.Error):
        cursor.interrupt()
    return not _is_closed(cursor)


def _is_closed(cursor: duckdb.DuckDBPyConnection) -> bool:
    """Tell whether a cursor has been closed, without a word to what runs on it."""
    try:
        cursor.query_progress()
    except duckdb.Error:
        return True
    return False


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
