"""Stored records in pages of bounded size, from a file or from the collector that has it open.

Pages are ranges of time, because those are what the store finds quickly, and because records that
are equal but for their place in a request (content_id.py) then come together, as they have to.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple, get_type_hints

from otelchain_collector.answer import QueryFailed
from otelchain_collector.errors import CollectorError
from otelchain_collector.rows import LogRow, MetricPointRow, SpanRow
from otelchain_collector.signals import LOGS, METRICS, TRACES

#: Answers one SELECT with rows, each a dictionary of JSON values; raises QueryFailed when it
#: cannot, also when the rows do not fit into one answer.
Ask = Callable[[str], list[dict[str, Any]]]

_PAGE_ROWS = 500
# The most rows that the collector gives for one question.
_MAX_ANSWER_ROWS = 100_000


class ExportError(CollectorError):
    """Stored data cannot be exported; the text says why and what to do."""


class Filters(NamedTuple):
    """Which records: times in nanoseconds, the second one excluded; None is no bound."""

    since_unix_nano: int | None = None
    until_unix_nano: int | None = None
    service: str | None = None
    trace_id: str | None = None


class Relation(NamedTuple):
    """What to read of a signal.

    Attributes:
        sql: The table, or a query in parentheses.
        columns: What to select, in SQL.
        time: The column by which pages are cut.
        ids: What orders records of one time, so that the same store gives the same file.
        has_traces: Whether there is a ``trace_id``.
    """

    sql: str
    columns: str
    time: str
    ids: str
    has_traces: bool = True


def _columns(row: type[tuple[Any, ...]]) -> str:
    """Return what to select for rows of this type: doubles as text, since JSON has no NaN."""
    casts = {float | None: "::VARCHAR", list[float] | None: "::VARCHAR[]"}
    return ", ".join(
        f"{name}{casts[hint]} AS {name}" if hint in casts else name
        for name, hint in get_type_hints(row).items()
    )


_PAGE = """
SELECT {relation.columns} FROM {relation.sql} AS records WHERE {where}
ORDER BY {relation.time}, {relation.ids}
"""
_COUNT = "SELECT count(*) AS records FROM {relation.sql} AS records WHERE {where}"
_LAST = "SELECT max({relation.time}) AS time FROM {relation.sql} AS records WHERE {where}"
_STARTS = """
SELECT DISTINCT time
FROM (
    SELECT
        {relation.time} AS time,
        row_number() OVER (ORDER BY {relation.time}) AS place
    FROM {relation.sql} AS records
    WHERE {where}
)
WHERE (place - 1) % {page_rows} = 0
ORDER BY time
LIMIT {limit}
"""
# A run that has ended meanwhile is in spans, so those are looked at last.
_SPANS = "(SELECT * EXCLUDE (row_id) FROM pending_spans UNION ALL BY NAME SELECT * FROM spans)"
RELATIONS = {
    TRACES.name: Relation(_SPANS, _columns(SpanRow), "start_time_unix_nano", "trace_id, span_id"),
    LOGS.name: Relation("logs", _columns(LogRow), "record_time_unix_nano", "record_id"),
    METRICS.name: Relation(
        "metric_points", _columns(MetricPointRow), "time_unix_nano", "record_id", has_traces=False
    ),
}


def pages(ask: Ask, relation: Relation, filters: Filters) -> Iterator[list[dict[str, Any]]]:
    """Yield the records page by page, in the order of their times.

    Raises:
        QueryFailed: More records have the same time than one answer can hold, or they cannot be
            read.
    """
    where = _where(relation, filters)
    if where is None:
        return
    for first, last in pairwise(_bounds(ask, relation, where)):
        yield from _page(ask, relation, where, first, last)


def _page(
    ask: Ask, relation: Relation, where: str, first: int, last: int
) -> Iterator[list[dict[str, Any]]]:
    """Yield the records of a range of time, in several pieces when they are too large for one."""
    inside = f"{relation.time} >= {first} AND {relation.time} < {last}"
    try:
        found = ask(_PAGE.format(relation=relation, where=f"{inside} AND {where}"))
    except QueryFailed:
        if last - first <= 1:
            raise
        middle = (first + last) // 2
        yield from _page(ask, relation, where, first, middle)
        yield from _page(ask, relation, where, middle, last)
    else:
        if found:
            yield found


def count(ask: Ask, relation: Relation, filters: Filters) -> int:
    """Return how many records there are."""
    where = _where(relation, filters)
    if where is None:
        return 0
    [row] = ask(_COUNT.format(relation=relation, where=where))
    return int(row["records"])


def _bounds(ask: Ask, relation: Relation, where: str) -> list[int]:
    """Return times between which some _PAGE_ROWS records are; the last one is excluded."""
    starts: list[int] = []
    while True:
        # An answer has so many rows at most; the next one goes on where it ends.
        after = f"AND {relation.time} > {starts[-1]}" if starts else ""
        found = ask(
            _STARTS.format(
                relation=relation,
                where=f"{where} {after}",
                page_rows=_PAGE_ROWS,
                limit=_MAX_ANSWER_ROWS,
            )
        )
        starts += [int(row["time"]) for row in found]
        if len(found) < _MAX_ANSWER_ROWS:
            break
    if starts:
        [row] = ask(_LAST.format(relation=relation, where=where))
        starts.append(int(row["time"]) + 1)
    return starts


def _where(relation: Relation, filters: Filters) -> str | None:
    """Return the condition; None when no record can fulfil it."""
    conditions = ["true"]
    if filters.since_unix_nano is not None:
        conditions.append(f"{relation.time} >= {filters.since_unix_nano}")
    if filters.until_unix_nano is not None:
        conditions.append(f"{relation.time} < {filters.until_unix_nano}")
    if filters.service is not None:
        conditions.append(f"service_name = {_quoted(filters.service)}")
    if filters.trace_id is not None:
        if not relation.has_traces:
            return None
        conditions.append(f"starts_with(trace_id, {_quoted(filters.trace_id.lower())})")
    return " AND ".join(conditions)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
