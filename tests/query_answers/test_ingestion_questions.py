"""Answers of rejected-spans and ingestion-health."""

import pytest

from golden_runs import arrivals
from golden_store import GoldenStore, at


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
        "reason": "span_id is all zero",
        "rejected": 2,
        "newest_name": "second",
        "first_time": at(1),
        "newest_time": at(2),
        "service_name": "shop",
    }
    assert [(row["reason"], row["service_name"], row["rejected"]) for row in rows[1:]] == [
        ("attribute values nested too deep", None, 1),
        ("span_id is all zero", "bank", 1),
        ("trace_id has 3 bytes instead of 16", "shop", 1),
    ]


def test_rejected_spans_are_bounded_by_their_arrival(store: GoldenStore) -> None:
    bounds = {"since": "2026-11-30T10:00:00.002Z", "until": "2026-11-30T10:00:00.003Z"}

    (row,) = store.ask("rejected-spans", **bounds)

    assert (row["rejected"], row["newest_name"]) == (1, "second")


def test_each_service_says_how_it_feels(store: GoldenStore) -> None:
    rows = store.ask("ingestion-health")

    assert rows[0] == {
        "service_name": "shop",
        "spans": 100,
        "first_time": at(0),
        "newest_time": at(61_000),
        "p50_delay_ms": 49.0,
        "p99_delay_ms": 61_000.0,
        "from_the_future": 0,
        "spans_with_losses": 0,
        "rejected": 3,
        "pending": 0,
        "trouble": "spans arrive late",
    }
    assert [
        (
            row["service_name"],
            row["spans"],
            row["from_the_future"],
            row["spans_with_losses"],
            row["rejected"],
            row["pending"],
            row["trouble"],
        )
        for row in rows[1:]
    ] == [
        ("bank", 3, 1, 1, 1, 1, "clocks differ, spans have losses"),
        ("calm", 1, 0, 0, 0, 0, None),
        (None, 0, 0, 0, 1, 0, None),
    ]


def test_one_service_can_be_asked(store: GoldenStore) -> None:
    assert [row["spans"] for row in store.ask("ingestion-health", service="bank")] == [3]
