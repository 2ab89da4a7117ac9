"""Apply the normalisation rules of this version to stored spans (for ``otelchain reindex``)."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import orjson
import pyarrow as pa

from otelchain_collector.decode import normalised
from otelchain_collector.dialects.status import PENDING
from otelchain_collector.errors import StoreError
from otelchain_collector.exchange.stored_values import decoded
from otelchain_collector.normalise import Event, Normalised, SpanFacts
from otelchain_collector.store import SQL_TYPES, Store

_PAGE_ROWS = 2_000
_CHECKPOINT_WAL_BYTES = 64 * 1024 * 1024
_KEY = ("trace_id", "span_id", "start_time_unix_nano")
_READ = (
    *("name", "kind", "status_code", "status_message", "attributes", "events", "scope_name"),
    *("resource_attributes", "start_time_unix_nano", "end_time_unix_nano"),
)
_COLUMNS = ", ".join((*_KEY, *_READ, *Normalised._fields))
_SPANS = "SELECT {columns} FROM {table} WHERE {inside}"
_STARTS = """
SELECT DISTINCT start
FROM (
    SELECT
        start_time_unix_nano AS start,
        row_number() OVER (ORDER BY start_time_unix_nano) AS place
    FROM {table}
)
WHERE (place - 1) % {page_rows} = 0
ORDER BY start
"""


class Reindexed(NamedTuple):
    """How many spans were looked at, and how many of them say something else now."""

    spans: int
    changed: int


class Reindexing:
    """Normalises every span of a database again; what applications sent is not touched.

    It goes page by page, each a transaction of its own: when it is interrupted, or killed, some
    spans have the new values and some the old ones, and another run does the rest.

    Args:
        database: A file that no collector has open.

    Raises:
        StoreError: The file is not there, cannot be used, or is in use.
    """

    def __init__(self, database: Path) -> None:
        if not database.exists():
            raise StoreError(
                f"there is no database {str(database)!r}; name another with --database"
            )
        self._store = Store.open(database)

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def total(self) -> int:
        """Return how many spans there are, those that have not ended included."""
        sql = "SELECT (SELECT count(*) FROM spans) + (SELECT count(*) FROM pending_spans)"
        with self._store.cursor() as cursor:
            [(count,)] = cursor.execute(sql).fetchall()
        return int(count)

    def run(self, advance: Callable[[int], None]) -> Reindexed:
        """Do it; ``advance`` is told how many spans were looked at."""
        spans = changed = 0
        for table in ("spans", "pending_spans"):
            for first, last in _pages(self._store, table):
                seen, different = _reindex_page(self._store, table, first, last)
                spans, changed = spans + seen, changed + different
                advance(seen)
                if self._store.wal_bytes() > _CHECKPOINT_WAL_BYTES:
                    self._store.checkpoint()
        return Reindexed(spans, changed)


def _pages(store: Store, table: str) -> Iterator[tuple[int, int]]:
    """Return ranges of start times; an update may move rows, but not to another time."""
    with store.cursor() as cursor:
        starts = [
            start
            for (start,) in cursor.execute(
                _STARTS.format(table=table, page_rows=_PAGE_ROWS)
            ).fetchall()
        ]
    return pairwise([*starts, 2**63 - 1])


def _reindex_page(store: Store, table: str, first: int, last: int) -> tuple[int, int]:
    """Normalise the spans of a range of time; return how many were read, and how many changed."""
    start = f"{table}.start_time_unix_nano"
    inside = f"{start} >= {first} AND {start} < {last}"
    with store.cursor() as cursor:
        rows = cursor.sql(
            _SPANS.format(columns=_COLUMNS, table=table, inside=inside)
        ).to_arrow_table()
        new, changed = _changes(rows.to_pylist())
        if new:
            types = dict(cursor.execute(_TYPES, [table]).fetchall())
            schema = pa.schema(
                [(name, SQL_TYPES[types[name]]) for name in (*_KEY, *sorted(changed))]
            )
            cursor.register("batch", pa.Table.from_pylist(new, schema))
            _commit(cursor, table, inside, sorted(changed))
        return rows.num_rows, len(new)


_UPDATE = "UPDATE {table} SET {sets} FROM batch WHERE {inside} AND {same}"
# What takes runs to the other table that have turned out to be open, or ended.
_OPENED = """
INSERT INTO pending_spans BY NAME
SELECT
    (SELECT coalesce(min(row_id), 0) FROM pending_spans) - row_number() OVER () AS row_id,
    *
FROM spans
WHERE {inside} AND run_status = '{pending}'
"""
_ENDED = """
INSERT INTO spans BY NAME
SELECT * EXCLUDE (row_id)
FROM pending_spans
WHERE {inside} AND run_status <> '{pending}'
"""
_MOVES = {
    "spans": (_OPENED, "DELETE FROM spans WHERE {inside} AND run_status = '{pending}'"),
    "pending_spans": (
        _ENDED,
        "DELETE FROM pending_spans WHERE {inside} AND run_status <> '{pending}'",
    ),
}
_TYPES = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?"


def _changes(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], set[str]]:
    """Return the rows that say something else now, and the columns in which any does."""
    new: list[dict[str, Any]] = []
    changed: set[str] = set()
    for row in rows:
        found = normalised(_facts(row))._asdict()
        different = {name for name, value in found.items() if row[name] != value}
        if different:
            changed |= different
            new.append({**{name: row[name] for name in _KEY}, **found})
    return new, changed


def _facts(row: dict[str, Any]) -> SpanFacts:
    events = [
        Event(event["name"], event["time_unix_nano"], decoded(orjson.dumps(event["attributes"])))
        for event in orjson.loads(row["events"])
    ]
    attributes, resource = decoded(row["attributes"]), decoded(row["resource_attributes"])
    facts = {name: row[name] for name in SpanFacts._fields if name in row}
    return SpanFacts(**{**facts, "attributes": attributes, "events": events, "resource": resource})


def _commit(cursor: duckdb.DuckDBPyConnection, table: str, inside: str, columns: list[str]) -> None:
    sets = ", ".join(f"{name} = batch.{name}" for name in columns)
    same = " AND ".join(f"{table}.{name} = batch.{name}" for name in _KEY)
    statements = [_UPDATE.format(table=table, sets=sets, inside=inside, same=same)]
    if "run_status" in columns:
        statements += [move.format(inside=inside, pending=PENDING) for move in _MOVES[table]]
    cursor.execute("BEGIN")
    for statement in statements:
        cursor.execute(statement)
    cursor.execute("COMMIT")
