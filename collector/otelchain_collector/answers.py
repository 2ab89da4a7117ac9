"""A question in, an `Answer` of JSON values out; the same over HTTP as from the file.

Every function here blocks; call it from a thread that owns the connection.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Final, TypeVar

import duckdb
import pyarrow as pa

from otelchain_collector.answer import (
    DEFAULT_MAX_SECONDS,
    MAX_ROWS,
    TOO_LARGE,
    Answer,
    ArrowAnswer,
    Column,
    QueryFailed,
)
from otelchain_collector.damage import hint
from otelchain_collector.guard import check_sql, guard, one_line
from otelchain_collector.huge_integers import exact
from otelchain_collector.json_values import json_rows, readable
from otelchain_collector.query_values import check_values, checked_casts
from otelchain_queries import Query

DEFAULT_MAX_ROWS: Final = 1_000
# As Arrow has them; as Python values they take several times as much.
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_BATCH_ROWS: Final = 2048


AnyAnswer = TypeVar("AnyAnswer", Answer, ArrowAnswer)
#: Makes an answer of a relation with the most rows that it may have.
Form = Callable[[duckdb.DuckDBPyRelation, int], AnyAnswer]


def _nobody_counts(_: int) -> None:
    pass


def as_json(
    relation: duckdb.DuckDBPyRelation, max_rows: int, hold: Callable[[int], None] = _nobody_counts
) -> Answer:
    """Return an answer of JSON values; ``hold`` hears of its bytes as they come, and may raise."""
    columns = tuple(
        Column(name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)
    )
    reader = readable(relation).to_arrow_reader(_BATCH_ROWS)
    rows = list(islice(json_rows(_bounded(reader, hold)), max_rows + 1))
    return Answer(columns, rows[:max_rows], has_more=len(rows) > max_rows)


def as_arrow(
    relation: duckdb.DuckDBPyRelation, max_rows: int, hold: Callable[[int], None] = _nobody_counts
) -> ArrowAnswer:
    """Return an answer as an Arrow IPC stream; ``hold`` as in `as_json`."""
    reader = readable(relation).to_arrow_reader(_BATCH_ROWS)
    sink = pa.BufferOutputStream()
    rows = _Rows(_bounded(reader, hold), max_rows)
    schema, batches = exact(reader.schema, rows)
    with pa.ipc.new_stream(sink, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return ArrowAnswer(sink.getvalue().to_pybytes(), rows.has_more)


class _Rows:
    """As many rows as an answer may have; ``has_more`` says in the end whether there were more."""

    def __init__(self, batches: Iterator[pa.RecordBatch], most: int) -> None:
        self._batches, self._left = batches, most
        self.has_more = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            if batch.num_rows > self._left:
                self.has_more = True
                batch = batch.slice(0, self._left)
            if batch.num_rows:
                yield batch
            self._left -= batch.num_rows
            if self.has_more:
                break


def _bounded(
    batches: Iterator[pa.RecordBatch], hold: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    size_bytes = 0
    for batch in batches:
        size_bytes += batch.nbytes
        refuse_large(size_bytes)
        hold(batch.nbytes)
        yield batch


def refuse_large(size_bytes: int) -> None:
    """Refuse an answer that is too large to be held.

    Raises:
        QueryFailed: It is.
    """
    if size_bytes > MAX_ANSWER_BYTES:
        raise QueryFailed(
            f"{TOO_LARGE} {MAX_ANSWER_BYTES >> 20} MiB; "
            "ask for fewer rows or leave out long columns"
        )


def too_late(max_seconds: float) -> str:
    """Say that a question ran too long."""
    return f"it ran longer than {max_seconds:g} seconds; ask for a shorter time or fewer rows"


def answer_query(
    connection: duckdb.DuckDBPyConnection,
    query: Query,
    values: Mapping[str, str],
    *,
    max_rows: int = MAX_ROWS,
    offset: int = 0,
    max_seconds: float = DEFAULT_MAX_SECONDS,
    form: Form[AnyAnswer] = as_json,  # type: ignore[assignment]  # mypy#3737
) -> AnyAnswer:
    """Answer a named query.

    Args:
        connection: A connection or cursor that no other thread uses; it is guarded for good.
        query: The query.
        values: Text per parameter; those left out have their default.
        max_rows: Most rows in the answer.
        offset: Rows to leave out at the start.
        max_seconds: Longest time the query may run.
        form: `as_json` unless given, or `as_arrow`.

    Raises:
        otelchain_queries.QueryError: A parameter is not one of the query's.
        QueryFailed: A value has the wrong form, the limit of time was reached, or DuckDB refused.
    """
    bound = query.bind(values)
    guard(connection)
    with _reading(connection, max_seconds):
        check_values(connection, query.name, checked_casts(connection, query.sql), bound)
        limit = _limit(bound)
        if limit is not None:
            # One row more tells whether the query's own limit cut something off.
            bound["limit"], max_rows = str(offset + limit + 1), min(limit, max_rows)
        # An empty mapping would be taken for parameters that the statement lacks.
        relation = connection.sql(query.sql, params=bound or None)
        return _answer(relation, min(max_rows, MAX_ROWS), offset, form)


def _limit(bound: Mapping[str, str]) -> int | None:
    text = bound.get("limit", "").strip()
    return int(text) if text.isdecimal() and len(text) < 10 else None


def answer_sql(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    *,
    max_rows: int = DEFAULT_MAX_ROWS,
    offset: int = 0,
    max_seconds: float = DEFAULT_MAX_SECONDS,
    form: Form[AnyAnswer] = as_json,  # type: ignore[assignment]  # mypy#3737
) -> AnyAnswer:
    """Answer one SELECT, or EXPLAIN of one, written by anyone.

    Args:
        connection: A connection or cursor that no other thread uses; it is guarded for good.
        sql: The statement.
        max_rows: Most rows in the answer.
        offset: Rows to leave out at the start.
        max_seconds: Longest time the statement may run.
        form: `as_json` unless given, or `as_arrow`.

    Raises:
        QueryFailed: It is not one SELECT, calls what is not allowed, took too long, or is wrong.
    """
    guard(connection)
    with _reading(connection, max_seconds):
        check_sql(connection, sql)
        relation = connection.sql(sql)
        if relation is None:  # An option of EXPLAIN that prints instead.
            raise QueryFailed("the statement gives no rows")
        return _answer(relation, min(max_rows, MAX_ROWS), offset, form)


@contextmanager
def _reading(connection: duckdb.DuckDBPyConnection, max_seconds: float) -> Iterator[None]:
    """Run the block in a read-only transaction, for so long at most, with errors in one line."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        connection.interrupt()

    timer = threading.Timer(max_seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        connection.execute("BEGIN TRANSACTION READ ONLY")
        yield
    # Errors met while Arrow reads the stream arrive as Arrow's own.
    except (duckdb.Error, OSError, pa.ArrowException) as error:
        if late.is_set():
            raise QueryFailed(too_late(max_seconds)) from error
        raise QueryFailed(one_line(error) + hint(str(error))) from error
    except RecursionError as error:  # DuckDB nests expressions and types deeper than Python.
        raise QueryFailed("the statement, or its answer, is nested too deeply") from error
    finally:
        timer.cancel()
        with suppress(duckdb.Error):  # Never begun.
            connection.execute("ROLLBACK")


def _answer(
    relation: duckdb.DuckDBPyRelation, max_rows: int, offset: int, form: Form[AnyAnswer]
) -> AnyAnswer:
    if offset:
        relation = relation.limit(max_rows + 1, offset)
    return form(relation, max_rows)
