"""since, until, service, trace_id and limit: what they do to the answer of every query."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

import pytest

from golden_runs import everything
from golden_store import T1, GoldenStore, Row
from otelchain_queries import Query, load, names

QUERIES = [load(name) for name in names()]
ALL = {"limit": "100000"}
# Rows of regressions need a moment between the old and the new ones of the golden store.
VALUES = {
    "regressions": {"split": "2026-11-30T11:00:00Z"},
    "unfinished-runs": {"now": "2026-11-30T11:00:00Z"},
}
# A row is of many runs, of which the newest alone is too few.
OF_MANY = {
    "cost-outliers",
    "differing-trajectories",
    "growing-sessions",
    "repeated-tool-calls",
    "retry-storms",
    "token-use",
    "tool-loops",
}
# The run that is shown may be any of those of one moment, or of one duration.
SHOWING_ONE = {"first-causes", "slow-steps", "tool-loops", "unseen-errors"}
# The time of a row, of those that tell one.
TIMES = ("start_time", "newest_time", "newest_failure_time", "newest_error_time")


def taking(param: str) -> pytest.MarkDecorator:
    # Of the query trace they choose the trace, all of which is shown; see test_traces.py.
    found = [
        query
        for query in QUERIES
        if param in {each.name for each in query.params}
        and (query.name != "trace" or param == "limit")
    ]
    return pytest.mark.parametrize("query", found, ids=[query.name for query in found])


@pytest.fixture(name="store", scope="module")
def _store() -> GoldenStore:
    store = GoldenStore()
    everything(store)
    return store


def ask(store: GoldenStore, query: Query, **values: str) -> list[Row]:
    return store.ask(query.name, **{**ALL, **VALUES.get(query.name, {}), **values})


@taking("limit")
def test_a_limit_leaves_the_first_rows_of_the_answer(query: Query, store: GoldenStore) -> None:
    whole = ask(store, query)

    for limit in (1, 2, 3, 5, 8, 13, 21, 34):
        if limit <= len(whole):
            assert ask(store, query, limit=str(limit)) == whole[:limit]


@taking("limit")
def test_the_order_of_rows_is_not_that_of_their_arrival(query: Query, store: GoldenStore) -> None:
    backwards = GoldenStore()
    everything(backwards)
    backwards.turn_around()

    assert comparable(query, ask(backwards, query)) == comparable(query, ask(store, query))


def comparable(query: Query, rows: list[Row]) -> list[Row]:
    left_out = {"trace_id", "span_id"} if query.name in SHOWING_ONE else set()
    return [
        {
            column: round(value, 9) if isinstance(value, float) else value
            for column, value in row.items()
            if column not in left_out
        }
        for row in rows
    ]


@taking("service")
def test_a_service_is_asked_about_alone(query: Query, store: GoldenStore) -> None:
    whole = ask(store, query)
    services = {row["service_name"] for row in whole if row.get("service_name")}

    for service in services:
        narrowed = ask(store, query, service=service)

        assert narrowed == [row for row in whole if row["service_name"] == service]


@taking("trace_id")
def test_one_trace_is_answered_as_if_it_were_alone(query: Query, store: GoldenStore) -> None:
    shown = {row["trace_id"] for row in ask(store, query)} or {T1 + "00"}

    for trace in sorted(shown)[:3]:
        alone = GoldenStore()
        everything(alone)
        for table in ("spans", "pending_spans"):
            alone.connection.execute(f"DELETE FROM {table} WHERE trace_id <> ?", [trace])

        assert ask(store, query, trace_id=trace) == ask(alone, query)


@taking("since")
def test_since_is_the_first_moment_that_counts(query: Query, store: GoldenStore) -> None:
    for column, moment, row in timed(ask(store, query)):
        later = ask(store, query, since=moment.isoformat())

        assert all(other[column] is None or other[column] >= moment for other in later)
        if query.name not in OF_MANY:
            ids = {(other.get("trace_id"), other.get("span_id")) for other in later}
            assert (row.get("trace_id"), row.get("span_id")) in ids


@taking("until")
def test_until_is_the_first_moment_that_does_not_count(query: Query, store: GoldenStore) -> None:
    for column, moment, _ in timed(ask(store, query)):
        earlier = ask(store, query, until=moment.isoformat())

        assert all(other[column] is None or other[column] < moment for other in earlier)


def timed(rows: list[Row]) -> Iterator[tuple[str, datetime, Row]]:
    """Return some rows with their time; of those of one moment the first."""
    found = {
        row[column]: (column, row[column], row)
        for row in rows
        for column in TIMES
        if row.get(column)
    }
    return islice(found.values(), 12)
