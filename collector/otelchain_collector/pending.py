"""Table ``pending_spans``: runs that have started, until their spans come (both from the writer).

The statements run on the store's batch; what the table may hold is known here, so that spans of
runs that were never pending need no look at it.
"""

import time

import duckdb

from otelchain_collector.damage import is_damage

# Both find rows by their start time, as the store's own anti-join does: a run has the same start
# when it is pending and when it has ended.
_INSERT = """
INSERT INTO pending_spans BY NAME
SELECT {lowest_row_id} - row_number() OVER () AS row_id, batch.*
FROM batch
ANTI JOIN (
    SELECT trace_id, span_id, start_time_unix_nano
    FROM spans
    WHERE start_time_unix_nano BETWEEN {first} AND {last}
    UNION ALL
    SELECT trace_id, span_id, start_time_unix_nano
    FROM pending_spans
    WHERE start_time_unix_nano BETWEEN {first} AND {last}
) AS known USING (trace_id, span_id, start_time_unix_nano)
"""
_DELETE = """
DELETE FROM pending_spans
USING batch
WHERE pending_spans.start_time_unix_nano BETWEEN {first} AND {last}
    AND pending_spans.start_time_unix_nano = batch.start_time_unix_nano
    AND pending_spans.trace_id = batch.trace_id
    AND pending_spans.span_id = batch.span_id
"""
_BOUNDS = """
SELECT min(start_time_unix_nano), max(start_time_unix_nano), coalesce(min(row_id), 0)
FROM pending_spans
"""


class PendingSpans:
    """Bounds of what the table holds; used by the writer's thread only.

    All times are start times, in nanoseconds since 1970.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        try:
            [bounds] = connection.execute(_BOUNDS).fetchall()
        except duckdb.Error as error:
            if not is_damage(str(error)):
                raise
            # Anything may be there; lower than any row id that was given out.
            bounds = (0, 2**63 - 1, -time.time_ns())
        self._first, self._last, self._lowest_row_id = bounds

    def insertion(self, first: int, last: int) -> str:
        """Return the statement that adds the runs of ``batch`` that are not known yet."""
        return _INSERT.format(first=first, last=last, lowest_row_id=self._lowest_row_id)

    def added(self, count: int, first: int, last: int) -> None:
        """Note that so many runs were added."""
        if count:
            self._first = first if self._first is None else min(self._first, first)
            self._last = last if self._last is None else max(self._last, last)
            self._lowest_row_id -= count

    def deletion(self, first: int, last: int) -> str | None:
        """Return the statement that takes out the runs of ``batch``; None when none is there."""
        if self._first is None or last < self._first or first > self._last:
            return None
        return _DELETE.format(first=first, last=last)
