"""Answers of rejected-spans and ingestion-health."""

import pytest

from golden_runs import arrivals
from golden_store import GoldenStore, at
from otelchain_queries import load


@pytest.fixture(name="store", scope="module")
def _store() -> GoldenStore:
    store = GoldenStore()
    arrivals(store)
    return store


def test_rejected_spans_are_counted_by_reason(store: GoldenStore) -> None:
    rows = store.ask("rejected-spans")

    assert rows[0] == {
        "trace_id": "bb",
        "span_id": "00",
        "signal": "traces",
        "kind": "spans",
        "reason": "span_id is all zero",
        "rejected": 2,
        "newest_name": "second",
        "first_time": at(1),
        "newest_time": at(2),
        "service_name": "shop",
    }
    assert [
        (row["reason"], row["signal"], row["service_name"], row["rejected"]) for row in rows[1:]
    ] == [
        ("attribute values nested too deep", "traces", None, 1),
        ("body nested too deep", "logs", "shop", 1),
        ("span_id is all zero", "traces", "bank", 1),
        ("span_id is all zero", "logs", "shop", 1),
        ("time_unix_nano is negative", "metrics", "shop", 1),
        ("trace_id has not 16 bytes", "traces", "shop", 1),
    ]


def test_what_was_rejected_is_told_by_its_kind(store: GoldenStore) -> None:
    finding = load("rejected-spans").finding
    assert finding is not None

    told = {finding.sentence(row) for row in store.ask("rejected-spans")}

    assert "2 spans could not be stored: span_id is all zero." in told
    assert "1 log record could not be stored: body nested too deep." in told
    assert "1 data point could not be stored: time_unix_nano is negative." in told


def test_rejected_spans_are_bounded_by_their_arrival(store: GoldenStore) -> None:
    bounds = {"since": "2026-11-30T10:00:00.002Z", "until": "2026-11-30T10:00:00.003Z"}

    (row,) = store.ask("rejected-spans", **bounds)

    assert (row["rejected"], row["newest_name"]) == (1, "second")


def test_each_service_says_how_it_feels(store: GoldenStore) -> None:
    rows = store.ask("ingestion-health")

    assert rows[0] == {
        "service_name": "shop",
        "signal": "traces",
        "records": 100,
        "first_time": at(0),
        "newest_time": at(61_000),
        "p50_delay_ms": 49.0,
        "p99_delay_ms": 61_000.0,
        "from_the_future": 0,
        "with_losses": 0,
        "rejected": 3,
        "pending": 0,
        "trouble": "spans arrive late",
    }
    columns = ("service_name", "signal", "records", "from_the_future", "with_losses", "rejected")
    assert [
        tuple(row[column] for column in (*columns, "pending", "trouble")) for row in rows[1:]
    ] == [
        ("bank", "metrics", 3, 0, 0, 0, 0, "data points arrive late"),
        ("bank", "traces", 3, 1, 1, 1, 1, "clocks differ (spans of the future), spans have losses"),
        ("shop", "logs", 2, 0, 1, 2, 0, "log records have losses"),
        ("ahead", "metrics", 1, 1, 0, 0, 0, "clocks differ (data points of the future)"),
        ("calm", "logs", 1, 0, 0, 0, 0, None),
        ("calm", "traces", 1, 0, 0, 0, 0, None),
        ("shop", "metrics", 0, 0, 0, 1, 0, None),
        (None, "traces", 0, 0, 0, 1, 0, None),
    ]


def test_delays_are_those_of_each_signal(store: GoldenStore) -> None:
    rows = store.ask("ingestion-health")

    delays = {
        (row["service_name"], row["signal"]): (row["p50_delay_ms"], row["p99_delay_ms"])
        for row in rows
    }
    assert delays["shop", "logs"] == (5.0, 7.0)
    assert delays["bank", "metrics"] == (20.0, 61_000.0)
    # A record without a time has no delay, and one that never came neither.
    assert delays["calm", "logs"] == delays["shop", "metrics"] == (None, None)


def test_one_service_can_be_asked(store: GoldenStore) -> None:
    rows = store.ask("ingestion-health", service="bank")

    assert [(row["signal"], row["records"]) for row in rows] == [("metrics", 3), ("traces", 3)]
