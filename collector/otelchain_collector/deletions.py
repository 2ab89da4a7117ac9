"""What retention asks of the tables of records: what is due, in which steps it goes, what stays.

A table whose blocks are damaged keeps what would have to be read for it; the others go on.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa

from otelchain_collector.arrow_tables import registered
from otelchain_collector.damage import is_damage
from otelchain_collector.database import first_line

# Deleted in one commit: some 5 ms.
STEP_ROWS: Final = 50_000
# Of a time that is looked at, until what is wanted stands in one.
_BUCKETS: Final = 1_000

# Every table of records has the column; a new one is found here by itself.
_TABLES: Final = """
SELECT table_name, list(column_name)
FROM duckdb_columns()
WHERE table_name IN (SELECT table_name FROM duckdb_tables())
GROUP BY table_name
HAVING list_contains(list(column_name), 'received_time_unix_nano')
ORDER BY table_name
"""
_ARRIVALS: Final = """
SELECT received_time_unix_nano, count(*)
FROM {table}
WHERE received_time_unix_nano < {end} AND {condition}
GROUP BY ALL
ORDER BY ALL
"""
_DELETE: Final = """
DELETE FROM {table}
WHERE received_time_unix_nano BETWEEN {first} AND {last} AND {condition}
"""
# A trace is known by its hash here, which takes a fifth of the memory of its id. One of two that
# have the same is kept until the other has ended.
_EARLY: Final = """
SELECT DISTINCT hash(trace_id) AS trace
FROM {table}
WHERE received_time_unix_nano < {end} AND {condition}
"""
_LATE: Final = """
SELECT DISTINCT trace
FROM early
SEMI JOIN (SELECT hash(trace_id) AS trace FROM {table} WHERE received_time_unix_nano >= {end})
USING (trace)
"""
# Also a trace that has gone on while this was going on.
_OF_ENDED_TRACES: Final = """
AND (trace_id IS NULL OR NOT (
    hash(trace_id) IN (SELECT unnest($running::UBIGINT[]))
    OR trace_id IN (
        SELECT trace_id FROM spans WHERE received_time_unix_nano >= {looked}
        UNION ALL
        SELECT trace_id FROM pending_spans WHERE received_time_unix_nano >= {looked}
    )
))
"""
_TIMES: Final = """
SELECT min(received_time_unix_nano), max(received_time_unix_nano), count(*) FROM {table}
"""
_HISTOGRAM: Final = """
SELECT (received_time_unix_nano - {first}) // {width}, count(*)
FROM {table}
WHERE received_time_unix_nano BETWEEN {first} AND {last}
GROUP BY ALL
"""
_COUNT: Final = "SELECT count(*) FROM {table}"
_WITH_ROOM: Final = """
SELECT coalesce(sum(estimated_size), 0)::BIGINT
FROM duckdb_tables()
WHERE table_name IN (SELECT unnest($tables::VARCHAR[]))
"""
# What makes a trace go on.
_GOING_ON: Final = ("spans", "pending_spans")

_logger = logging.getLogger(__name__)


class Due(NamedTuple):
    """Rows that arrived before ``end``.

    Attributes:
        end: A time, in nanoseconds since 1970.
        condition: Which of them, by service_name.
        values: Of the condition.
        is_general: Also rows of tables that know no service.
        spares_running: Not those of traces in which something has arrived since.
    """

    end: int
    condition: str = "true"
    values: Mapping[str, Any] = {}
    is_general: bool = True
    spares_running: bool = True

    def of(self, columns: Collection[str]) -> "Due | None":
        """Return what is due in a table; None for nothing."""
        if "service_name" in columns or self.condition == "true":
            return self
        if not self.is_general:
            return None
        return Due(self.end, spares_running=self.spares_running)


class Step(NamedTuple):
    """What is deleted in one commit: what is due of the rows that arrived from first to last."""

    table: str
    due: Due
    has_traces: bool
    first: int
    last: int

    def statement(
        self, running: Collection[int], looked_unix_nano: int
    ) -> tuple[str, dict[str, Any]]:
        """Return the statement with its values.

        Args:
            running: The traces that go on, as `Tables.running` returns them.
            looked_unix_nano: When that was.
        """
        statement = _DELETE.format(
            table=self.table, first=self.first, last=self.last, condition=self.due.condition
        )
        values = dict(self.due.values)
        if self.has_traces and self.due.spares_running:
            statement += _OF_ENDED_TRACES.format(looked=looked_unix_nano)
            values["running"] = list(running)
        return statement, values


class Tables:
    """The tables of records, asked with a cursor.

    Raises:
        duckdb.Error: They cannot be asked.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self._columns: dict[str, list[str]] = dict(cursor.execute(_TABLES).fetchall())

    def steps(self, due: Due) -> Iterator[Step]:
        """Return in which steps what is due goes."""
        for table, due_here in self._due(due):
            arrivals = self._rows(
                table,
                _ARRIVALS.format(table=table, end=due_here.end, condition=due_here.condition),
                due_here.values,
            )
            for first, last in _pieces(arrivals):
                yield Step(table, due_here, "trace_id" in self._columns[table], first, last)

    def running(self, due: Due) -> list[int]:
        """Return the traces of which something is due although something else has arrived since.

        Where that cannot be read, all of which something is due.
        """
        early = [
            self._early(table, due_here)
            for table, due_here in self._due(due)
            if "trace_id" in self._columns[table]
        ]
        traces = pa.concat_tables(early)
        if not traces.num_rows:
            return []
        try:
            with registered(self._cursor, early=traces):
                late = [
                    self._cursor.execute(_LATE.format(table=table, end=due.end)).fetchall()
                    for table in _GOING_ON
                ]
        except duckdb.Error as error:
            _tell(error, _GOING_ON[0])
            return [int(trace) for trace in traces.column("trace").to_pylist()]
        return [trace for rows in late for (trace,) in rows]

    def arrived_until(self, share: float) -> int:
        """Return a time before which this share of all rows arrived, or a little more.

        Rows need not lie in the order in which they arrived: `otelchain reindex` moves some.
        """
        times = [row for row in self._each(_TIMES) if row[2]]
        if not times:
            return 0
        first, last = min(row[0] for row in times), max(row[1] for row in times)
        left = share * sum(row[2] for row in times)
        while True:
            width = (last - first) // _BUCKETS + 1
            bucket, left = _bucket_of(left, self._histogram(first, last, width))
            first = first + bucket * width
            last = first + width - 1
            if width == 1:
                return int(last) + 1

    def alive_share(self) -> float:
        """Return which part of the rows that have room in the file is there.

        The others are deleted. They keep their room while somebody reads or the file is copied, and
        as long as a row stands beside them in its row group.
        """
        alive = sum(count for (count,) in self._each(_COUNT))
        names = {"tables": list(self._columns)}
        [(with_room,)] = self._cursor.execute(_WITH_ROOM, names).fetchall()
        return min(1.0, alive / with_room) if with_room else 1.0

    def _due(self, due: Due) -> Iterator[tuple[str, Due]]:
        for table, columns in self._columns.items():
            due_here = due.of(columns)
            if due_here is not None:
                yield table, due_here

    def _early(self, table: str, due: Due) -> pa.Table:
        sql = _EARLY.format(table=table, end=due.end, condition=due.condition)
        try:
            return self._cursor.sql(sql, params=dict(due.values) or None).to_arrow_table()
        except (duckdb.Error, OSError, pa.ArrowException) as error:
            _tell(error, table)
            return pa.table({"trace": pa.array([], pa.uint64())})

    def _histogram(self, first: int, last: int, width: int) -> list[tuple[int, int]]:
        counts: Counter[int] = Counter()
        for bucket, count in self._each(_HISTOGRAM, first=first, last=last, width=width):
            counts[bucket] += count
        return sorted(counts.items())

    def _each(self, sql: str, **parts: int) -> Iterator[tuple[Any, ...]]:
        """Ask the tables one by one the same."""
        for table in self._columns:
            yield from self._rows(table, sql.format(table=table, **parts))

    def _rows(
        self, table: str, sql: str, values: Mapping[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """Ask one table; none where it is damaged."""
        try:
            return self._cursor.execute(sql, dict(values) if values else None).fetchall()
        except duckdb.Error as error:
            _tell(error, table)
            return []


def _bucket_of(rows: float, histogram: Sequence[tuple[int, int]]) -> tuple[int, float]:
    """Return the bucket that the row of this number is in, and its number there."""
    for bucket, count in histogram:
        if count >= rows:
            return bucket, rows
        rows -= count
    return (histogram[-1][0] if histogram else 0), 0  # Some have gone meanwhile.


def _pieces(arrivals: Collection[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Return the first and the last time of each step."""
    first, last, rows = None, 0, 0
    for last, count in arrivals:
        first = last if first is None else first
        rows += count
        if rows >= STEP_ROWS:
            yield first, last
            first, rows = None, 0
    if first is not None:
        yield first, last


@lru_cache(maxsize=64)
def _told(table: str, said: str) -> None:
    _logger.warning(
        "retention: a part of table %s is damaged, and what would have to be read there stays: %s; "
        "'otelchain doctor --read-all' says which rows",
        table,
        said,
    )


def _tell(error: Exception, table: str) -> None:
    """Say once that a table is damaged; raise what is something else."""
    if not is_damage(str(error)):
        raise error
    _told(table, first_line(error))
