"""The process that answers SQL: one line of JSON in, one line and the answer's bytes out.

DuckDB polls for an interrupt between batches of rows and counts what its operators hold, but not
inside a function: ``repeat('x', 800000000) || i`` took 4 GB, and ``levenshtein`` of two texts of
2 MB takes an hour. Here the system's limits hold for both, and the collector can end the process.
"""

import os
import queue
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple

import duckdb
import orjson

from otelchain_collector.answer import QueryFailed
from otelchain_collector.answers import as_arrow, as_json, refuse_large
from otelchain_collector.asked_sql import READY, AskedSql
from otelchain_collector.guard import one_line
from otelchain_collector.live_file import cursor_of, open_live
from otelchain_collector.open_database import INVALIDATING, FileState
from otelchain_collector.process_limits import restrict_memory, restrict_time
from otelchain_queries import QueryError

# Starting another takes half a second; this one holds 150 MB.
_IDLE_SECONDS: Final = 60.0
#: What the collector makes of an answer that is none.
Kind = Literal["wrong", "memory", "again"]


class Told(NamedTuple):
    """What goes back: an answer, or an error without one; after the last there is no other."""

    body: bytes = b""
    has_more: bool = False
    error: str = ""
    kind: Kind | None = None
    is_last: bool = False


def main(database: str, memory_limit: str, data_limit: str) -> None:
    """Answer questions from standard input until it ends or nobody asks any more."""
    answers = _own_output()
    restrict_memory(int(data_limit))
    database_file = _Database(Path(database), int(memory_limit))
    asked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    answers.write(READY)
    answers.flush()
    with suppress(queue.Empty):
        while True:
            told = _told(database_file, orjson.loads(asked.get(timeout=_IDLE_SECONDS)))
            _tell(answers, told)
            if told.is_last:
                break
    os._exit(0)


def _own_output() -> IO[bytes]:
    """Return standard output; what is printed goes nowhere, also not into the collector's log."""
    own = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return os.fdopen(own, "wb")


def _listen(asked: "queue.SimpleQueue[bytes]") -> None:
    for line in sys.stdin.buffer:
        asked.put(line)
    # The collector has ended, and perhaps could not say so.
    os._exit(0)


class _Database:
    """The collector's file, opened anew when it has changed."""

    def __init__(self, path: Path, memory_limit_bytes: int) -> None:
        self._path, self._memory_limit_bytes = path, memory_limit_bytes
        self._state: FileState | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None

    def at(self, state: FileState) -> duckdb.DuckDBPyConnection:
        """Return a connection that sees a state of the file."""
        if self._connection is None or state != self._state:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            self._connection = open_live(self._path, state, self._memory_limit_bytes)
            self._state = state
        return self._connection


def _told(database: _Database, request: dict[str, Any]) -> Told:
    try:
        seconds = float(request["max_seconds"])
        restrict_time(seconds)
        form: Any = as_arrow if request["arrow"] else as_json
        connection = _opened(database, FileState(*request["state"]))
        with cursor_of(connection) as cursor:
            answer = AskedSql(**request["asked"]).answer(cursor, seconds, form)
        body = answer.body
        refuse_large(len(body))
        return Told(body, answer.has_more)
    except _NotOpenedError as error:
        return _told_of(error.__cause__, "again")
    except (QueryFailed, QueryError) as error:
        return _told_of(error, "wrong")
    except (MemoryError, RuntimeError) as error:  # No memory for a thread.
        return Told(error=str(error), kind="memory", is_last=True)


class _NotOpenedError(Exception):
    pass


def _opened(database: _Database, state: FileState) -> duckdb.DuckDBPyConnection:
    try:
        return database.at(state)
    except (duckdb.Error, OSError) as error:
        raise _NotOpenedError from error


def _told_of(error: BaseException | None, kind: Kind) -> Told:
    causes = (error, error.__cause__ if error is not None else None)
    text = one_line(str(error))
    if any(isinstance(each, (duckdb.OutOfMemoryException, MemoryError)) for each in causes):
        return Told(error=text, kind="memory", is_last=True)
    broken = any(isinstance(each, INVALIDATING) for each in causes)
    return Told(error=text, kind=kind, is_last=broken or kind == "again")


def _tell(answers: IO[bytes], told: Told) -> None:
    header = told._replace(body=b"")._asdict()
    del header["body"]
    answers.write(orjson.dumps({**header, "bytes": len(told.body)}) + b"\n")
    answers.write(told.body)
    answers.flush()
