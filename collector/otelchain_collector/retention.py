"""Deletes what is old enough, a little at a time, between commits.

Rows go by when they arrived. That is the order in which they stand in the file, so whole row groups
become empty and their room is used again; a wrong clock of an application neither keeps its spans
for ever nor loses them at once; and traces that are imported stay as long as new ones. A trace in
which anything has arrived within the time is kept whole, since it may still be running; but no row
is kept for more than twice the time, and none beyond the size, so that a trace which never ends
(one trace id for everything, by mistake) does not fill the disk.
"""

import logging
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import duckdb

from otelchain_collector.database import first_line
from otelchain_collector.retention_rules import RetentionRules
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer

_LOOK_SECONDS: Final = 30.0
# A table is looked at when a hundredth of the time has gone by: then about 1 % of it is due.
_PARTS: Final = 100
# Deleted in one commit. 50,000 rows take some 20 ms.
_STEP_ROWS: Final = 50_000
# Of --retain-bytes: what is left after a deletion, so that the next one is not due at once.
_FILLED_SHARE: Final = 0.9
_MOST_ROUNDS: Final = 20
# Of the time: for so long rows of a trace that goes on are kept.
_LONGEST_TIMES: Final = 2
_SECOND: Final = 1_000_000_000

# Every table of records has the column; a new one is found here by itself.
_TABLES: Final = """
SELECT table_name, list(column_name)
FROM duckdb_columns()
WHERE table_name IN (SELECT table_name FROM duckdb_tables())
GROUP BY table_name
HAVING list_contains(list(column_name), 'received_time_unix_nano')
ORDER BY table_name
"""
_RUNNING: Final = """
SELECT trace_id FROM {table} WHERE received_time_unix_nano {comparison} {time} AND {condition}
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
# Also a trace that has gone on while this was going on.
_OF_ENDED_TRACES: Final = """
AND (trace_id IS NULL OR NOT (
    trace_id IN (SELECT unnest($running::VARCHAR[]))
    OR trace_id IN (
        SELECT trace_id FROM spans WHERE received_time_unix_nano >= {looked}
        UNION ALL
        SELECT trace_id FROM pending_spans WHERE received_time_unix_nano >= {looked}
    )
))
"""
_OTHER_SERVICES: Final = (
    "(service_name IS NULL OR service_name NOT IN (SELECT unnest($services::VARCHAR[])))"
)
_QUANTILE: Final = "SELECT approx_quantile(received, {share})::BIGINT FROM ({tables})"
_RECEIVED: Final = "SELECT received_time_unix_nano AS received FROM {table}"
_TRACES: Final = ("spans", "pending_spans")

_logger = logging.getLogger(__name__)


class _Due(NamedTuple):
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

    def of(self, columns: Collection[str]) -> "_Due | None":
        """Return what is due in a table; None for nothing."""
        if "service_name" in columns or self.condition == "true":
            return self
        if not self.is_general:
            return None
        return _Due(self.end, spares_running=self.spares_running)


class _Step(NamedTuple):
    """What is deleted in one commit: what is due of the rows that arrived from first to last."""

    table: str
    due: _Due
    has_traces: bool
    first: int
    last: int


class Retention:
    """A thread that looks every half minute; without rules it does nothing."""

    def __init__(self, writer: Writer, store: Store, rules: RetentionRules) -> None:
        self._writer, self._store, self._rules = writer, store, rules
        self._stopping = threading.Event()
        self._done_until: dict[str, int] = {}
        self._deleted_at = -1  # clean checkpoints
        self._thread = threading.Thread(target=self._run, name="otelchain-retention", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        if self._rules:
            self._thread.start()

    def close(self) -> None:
        """End the thread, after the deletion that runs now; before the writer is closed."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look(time.time_ns())
            except Exception as error:  # noqa: BLE001 - the thread must live: the file would grow
                if not self._stopping.is_set():
                    _logger.warning("retention: %s; it goes on later", first_line(error))
            self._stopping.wait(_LOOK_SECONDS)

    def look(self, now_unix_nano: int) -> int:
        """Delete what is due; returns how many rows.

        Raises:
            StoreUnavailableError: The store cannot be asked, or the deletion failed.
            duckdb.Error: As well.
        """
        deleted = 0
        for name, due in self._by_age(now_unix_nano):
            deleted += self._delete(due, now_unix_nano)
            if due.spares_running:
                self._done_until[name] = due.end
        if deleted:
            self._use_room_again()
        if self._rules.max_bytes is not None:
            deleted += self._shrink(self._rules.max_bytes, now_unix_nano)
        return deleted

    def _by_age(self, now_unix_nano: int) -> Iterator[tuple[str, _Due]]:
        for name, seconds, due in self._rules_by_age():
            end = self._end(name, seconds, now_unix_nano)
            if end is not None:
                yield name, due._replace(end=end)
                # At an end that was reached before, so that it need not be looked at by itself.
                before = end - (_LONGEST_TIMES - 1) * seconds * _SECOND
                yield name, due._replace(end=before, spares_running=False)

    def _rules_by_age(self) -> Iterator[tuple[str, int, _Due]]:
        services, general = self._rules.services, self._rules.age_seconds
        for service, seconds in services.items():
            values = {"service": service}
            yield service, seconds, _Due(0, "service_name = $service", values, is_general=False)
        if general is not None and services:
            yield "", general, _Due(0, _OTHER_SERVICES, {"services": list(services)})
        elif general is not None:
            yield "", general, _Due(0)

    def _end(self, name: str, seconds: int, now_unix_nano: int) -> int | None:
        """Return the time before which rows are due; None when that was done lately."""
        part = max(_SECOND, seconds * _SECOND // _PARTS)
        end = (now_unix_nano - seconds * _SECOND) // part * part
        return end if end > self._done_until.get(name, 0) else None

    def _shrink(self, max_bytes: int, now_unix_nano: int) -> int:
        deleted = 0
        for _ in range(_MOST_ROUNDS):
            # Otherwise the size is what it was, and more and more would go, until nothing is left.
            if not self._is_room_given_back():
                return deleted
            live_bytes = self._store.database.live_bytes()
            if live_bytes <= max_bytes or self._stopping.is_set():
                return deleted
            share = 1 - _FILLED_SHARE * max_bytes / live_bytes
            due = _Due(self._received(share))
            rows = self._delete(due, now_unix_nano)
            if not rows:
                rows = self._delete(due._replace(spares_running=False), now_unix_nano)
                if rows:
                    _logger.warning(
                        "retention: %d rows of traces that go on were deleted: --retain-bytes is "
                        "%d MiB, and nothing else had arrived that early",
                        rows,
                        max_bytes >> 20,
                    )
            self._use_room_again()
            if not rows:
                break
            deleted += rows
        _logger.warning(
            "retention: %d MiB are kept although --retain-bytes is %d MiB: nothing is left to "
            "delete",
            self._store.database.live_bytes() >> 20,
            max_bytes >> 20,
        )
        return deleted

    def _received(self, share: float) -> int:
        """Return the time before which this share of all rows arrived."""
        with self._store.database.cursor() as cursor:
            tables = " UNION ALL ".join(_RECEIVED.format(table=table) for table in _tables(cursor))
            quantile = _QUANTILE.format(share=f"{share:.6f}", tables=tables)
            [(received,)] = cursor.execute(quantile).fetchall()
        return int(received or 0) + 1

    def _delete(self, due: _Due, looked_unix_nano: int) -> int:
        with self._store.database.cursor() as cursor:
            running = _running(cursor, due) if due.spares_running else []
            steps = list(_steps(cursor, due))
        deleted = 0
        for step in steps:
            if self._stopping.is_set():
                break
            started = time.monotonic()
            do = partial(self._delete_step, step, running, looked_unix_nano)
            deleted += self._writer.between_commits(do).result()
            # As long for others as for this.
            self._stopping.wait(time.monotonic() - started)
        if deleted:
            until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(due.end / _SECOND))
            _logger.info("retention: %d rows deleted that arrived before %s", deleted, until)
        return deleted

    def _delete_step(self, step: _Step, running: list[str], looked_unix_nano: int) -> int:
        statement = _DELETE.format(
            table=step.table, first=step.first, last=step.last, condition=step.due.condition
        )
        values = dict(step.due.values)
        if step.has_traces and step.due.spares_running:
            statement += _OF_ENDED_TRACES.format(looked=looked_unix_nano)
            values["running"] = running
        self._store.database.mend()
        rows = self._store.delete(statement, values)
        self._writer.counts.expired += rows
        if rows:
            self._deleted_at = self._store.database.clean_checkpoints
        return rows

    def _is_room_given_back(self) -> bool:
        """Whether the size of the file counts nothing any more that has been deleted."""
        if self._store.database.clean_checkpoints <= self._deleted_at:
            self._use_room_again()
        return self._store.database.clean_checkpoints > self._deleted_at

    def _use_room_again(self) -> None:
        self._writer.between_commits(self._writer.checkpoints.make).result()


def _tables(cursor: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """Return the tables of records with their columns."""
    return dict(cursor.execute(_TABLES).fetchall())


def _running(cursor: duckdb.DuckDBPyConnection, due: _Due) -> list[str]:
    """Return the traces of which something is due although something else has arrived since."""
    before, since = (
        " UNION ALL ".join(
            _RUNNING.format(table=table, comparison=comparison, time=due.end, condition=condition)
            for table in _TRACES
        )
        for comparison, condition in (("<", due.condition), (">=", "true"))
    )
    found = cursor.execute(f"({before}) INTERSECT ({since})", due.values).fetchall()
    return [trace_id for (trace_id,) in found]


def _steps(cursor: duckdb.DuckDBPyConnection, due: _Due) -> Iterator[_Step]:
    for table, columns in _tables(cursor).items():
        due_here = due.of(columns)
        if due_here is None:
            continue
        step = partial(_Step, table, due_here, "trace_id" in columns)
        arrivals = _ARRIVALS.format(table=table, end=due.end, condition=due_here.condition)
        first, last, rows = None, 0, 0
        for last, count in cursor.execute(arrivals, due_here.values).fetchall():
            first = last if first is None else first
            rows += count
            if rows >= _STEP_ROWS:
                yield step(first, last)
                first, rows = None, 0
        if first is not None:
            yield step(first, last)
