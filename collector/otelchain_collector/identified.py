"""Tables of records with an identity of their own making (content_id.py): logs, metric_points.

What is stored already is left out by an anti-join over the batch's own time range, as for spans.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

#: The first and the last time, in nanoseconds since 1970.
Range = tuple[int, int]

# Of the last few seconds, some 5 MB: a resend usually comes that soon.
_RECENT_RECORDS = 50_000

_INSERT = """
INSERT INTO {table} BY NAME
SELECT batch.*
FROM batch
ANTI JOIN ({stored}) AS stored USING (record_id)
"""
_STORED = "SELECT record_id FROM {table} WHERE {time} BETWEEN {first} AND {last}"


class IdentifiedRecords:
    """What is known about one such table; used by the writer's thread only."""

    def __init__(self, table: str, time_column: str) -> None:
        self._table = table
        self._time_column = time_column
        self._recent: dict[str, None] = {}

    def fresh(self, rows: Sequence[Any]) -> list[Any]:
        """Return each record once, without those that are known to have been stored."""
        by_id = {row.record_id: row for row in rows}
        return [row for record_id, row in by_id.items() if record_id not in self._recent]

    def ranges(self, rows: Sequence[Any]) -> list[Range]:
        """Return the times at which stored records may be of these rows."""
        times = {getattr(row, self._time_column) for row in rows}
        # A record without a time must not make its batch look through the whole table.
        ranges = [(0, 0)] if 0 in times else []
        times.discard(0)
        if times:
            ranges.append((min(times), max(times)))
        return ranges

    def insertion(self, ranges: Sequence[Range]) -> str:
        """Return the statement that adds those rows of ``batch`` that are not stored there yet."""
        return _INSERT.format(table=self._table, stored=self.stored(ranges))

    def stored(self, ranges: Sequence[Range]) -> str:
        """Return the statement that selects the ids of the records stored there."""
        return " UNION ALL ".join(
            _STORED.format(table=self._table, time=self._time_column, first=first, last=last)
            for first, last in ranges
        )

    def remember(self, rows: Sequence[Any]) -> None:
        """Note that these rows are stored."""
        self._recent.update(dict.fromkeys(row.record_id for row in rows))
        surplus = max(0, len(self._recent) - _RECENT_RECORDS)
        for record_id in list(islice(self._recent, surplus)):  # Oldest first.
            del self._recent[record_id]
