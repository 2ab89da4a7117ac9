"""Apply the normalisation rules of this version to stored spans, page by page."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import duckdb
import orjson
import pyarrow as pa

from otelchain_collector.arrow_tables import SQL_TYPES
from otelchain_collector.decode import normalised
from otelchain_collector.dialects.status import PENDING
from otelchain_collector.errors import StoreError
from otelchain_collector.exchange.stored_values import decoded
from otelchain_collector.normalise import Event, Normalised, SpanFacts
from otelchain_collector.store import Store

#: Spans of a page. Usual ones are 3 KB, but an attribute may have 8 MiB.
PAGE_ROWS: Final = 500
_CHECKPOINT_WAL_BYTES: Final = 64 * 1024 * 1024
_KEY = ("trace_id", "span_id", "start_time_unix_nano")
_READ = (
    *("name", "kind", "status_code", "status_message", "attributes", "events", "scope_name"),
    *("resource_attributes", "start_time_unix_nano", "end_time_unix_nano"),
)
_COLUMNS = ", ".join((*_KEY, *_READ, *Normalised._fields))
_SPANS = "SELECT {columns} FROM {table} WHERE {inside}"
_TOTAL = "SELECT (SELECT count(*) FROM spans) + (SELECT count(*) FROM pending_spans)"
# Pages go by start time: an update may move rows, but not to another time.
_LAST = """
SELECT max(start_time_unix_nano)
FROM (
    SELECT start_time_unix_nano
    FROM {table}
    WHERE start_time_unix_nano >= {first}
    ORDER BY start_time_unix_nano
    LIMIT {page_rows}
)
"""
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
#: In this order; the tables that are read again.
TABLES: Final = tuple(_MOVES)
_TYPES = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?"


class Reindexed(NamedTuple):
    """How many spans were looked at, and how many of them say something else now."""

    spans: int
    changed: int


class Place(NamedTuple):
    """Where to go on: with the spans of a table that start then, in nanoseconds since 1970."""

    table: str
    start: int


START: Final = Place(TABLES[0], 0)


class Page(NamedTuple):
    """Some spans, read again.

    Attributes:
        spans: How many were looked at.
        rows: Those that say something else now: their keys, and the columns in which any does.
        statements: What commits them (Store.change).
        following: Where the next page begins; None after the last.
    """

    spans: int
    rows: pa.Table | None
    statements: tuple[str, ...]
    following: Place | None

    @property
    def changed(self) -> int:
        """How many of the spans say something else now."""
        return 0 if self.rows is None else int(self.rows.num_rows)

    def commit(self, store: Store) -> None:
        """Commit the changes, if there are any; on the writer's thread only.

        What was sent is never changed, so it does no harm that other commits came in between:
        a span that has gone is not found any more.

        Raises:
            StoreUnavailableError: The commit failed and may succeed later.
        """
        if self.rows is not None:
            store.change(self.rows, self.statements)


def reindex(store: Store, advance: Callable[[int], None]) -> Reindexed:
    """Normalise every span of a database again that nothing else writes to.

    Each page is a transaction of its own: when it is interrupted, or killed, some spans have the
    new values and some the old ones, and another run does the rest.

    Args:
        store: The database.
        advance: Is told how many spans were looked at.

    Raises:
        StoreError: It did not work.
    """
    spans = changed = 0
    place: Place | None = START
    while place is not None:
        with store.database.cursor() as cursor:
            try:
                page = read_page(cursor, place)
            except duckdb.Error as error:
                raise StoreError(f"cannot read the spans: {str(error).splitlines()[0]}") from error
        page.commit(store)
        spans, changed = spans + page.spans, changed + page.changed
        advance(page.spans)
        if store.database.wal_bytes() > _CHECKPOINT_WAL_BYTES:
            store.database.checkpoint()
        place = page.following
    store.rules_applied()
    return Reindexed(spans, changed)


def total(cursor: duckdb.DuckDBPyConnection) -> int:
    """Return how many spans there are, those that have not ended included."""
    [(count,)] = cursor.execute(_TOTAL).fetchall()
    return int(count)


def read_page(cursor: duckdb.DuckDBPyConnection, place: Place) -> Page:
    """Normalise the spans of a page again."""
    table, first = place
    find = _LAST.format(table=table, first=first, page_rows=PAGE_ROWS)
    [(last,)] = cursor.execute(find).fetchall()
    if last is None:
        return Page(0, None, (), _after(table))
    start = f"{table}.start_time_unix_nano"
    inside = f"{start} BETWEEN {first} AND {last}"
    rows = cursor.sql(_SPANS.format(columns=_COLUMNS, table=table, inside=inside)).to_arrow_table()
    new, changed = _changes(rows.to_pylist())
    following = Place(table, last + 1)
    if not new:
        return Page(rows.num_rows, None, (), following)
    types = dict(cursor.execute(_TYPES, [table]).fetchall())
    schema = pa.schema([(name, SQL_TYPES[types[name]]) for name in (*_KEY, *sorted(changed))])
    statements = _statements(table, inside, sorted(changed))
    return Page(rows.num_rows, pa.Table.from_pylist(new, schema), statements, following)


def _after(table: str) -> Place | None:
    position = TABLES.index(table) + 1
    return Place(TABLES[position], 0) if position < len(TABLES) else None


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


def _statements(table: str, inside: str, columns: list[str]) -> tuple[str, ...]:
    sets = ", ".join(f"{name} = batch.{name}" for name in columns)
    same = " AND ".join(f"{table}.{name} = batch.{name}" for name in _KEY)
    update = _UPDATE.format(table=table, sets=sets, inside=inside, same=same)
    if "run_status" not in columns:
        return (update,)
    moves = (move.format(inside=inside, pending=PENDING) for move in _MOVES[table])
    return (update, *moves)
