"""Answers of empty-retrievals and echoed-queries."""

import pytest

from golden_runs import retrievals
from golden_store import T2, T3, T4, GoldenStore, at, spans


@pytest.fixture(name="store", scope="module")
def _store() -> GoldenStore:
    store = GoldenStore()
    retrievals(store)
    return store


def test_empty_retrievals_are_counted_by_service_and_name(store: GoldenStore) -> None:
    assert store.ask("empty-retrievals") == [
        {
            "trace_id": T2,
            "span_id": "nothing-2",
            "name": "docs",
            "calls": 3,
            "empty_calls": 2,
            "empty_percent": pytest.approx(200 / 3),
            "answered_calls": 1,
            "newest_time": at(11),
            "service_name": "shop",
        },
        {
            "trace_id": T3,
            "span_id": "bank-1",
            "name": "docs",
            "calls": 4,
            "empty_calls": 1,
            "empty_percent": 25.0,
            "answered_calls": 1,
            "newest_time": at(21),
            "service_name": "bank",
        },
    ]


def test_retrievers_that_are_rarely_empty_can_be_left_out(store: GoldenStore) -> None:
    assert spans(store.ask("empty-retrievals", min_percent="30")) == ["nothing-2"]
    assert spans(store.ask("empty-retrievals", min_percent="25", service="bank")) == ["bank-1"]


def test_queries_that_repeat_who_asks_are_found(store: GoldenStore) -> None:
    rows = store.ask("echoed-queries")

    assert [(row["span_id"], row["echo"], row["metadata_keys"]) for row in rows] == [
        ("chat", "role", None),
        ("user", "id", None),
        ("role", "metadata", ["role"]),
    ]
    assert rows[2] == {
        "trace_id": T4,
        "span_id": "role",
        "name": "docs",
        "echo": "metadata",
        "metadata_keys": ["role"],
        "duration_ms": 0.0,
        "start_time": at(100),
        "document_count": 3,
        "service_name": "echo",
        "query_text": "As an HR Manager, how many days off?",
    }


def test_only_the_newest_retrievers_are_looked_at(store: GoldenStore) -> None:
    # Newest first: no-metadata, no-query, short-id, plain, chat, …
    assert spans(store.ask("echoed-queries", examine="5")) == ["chat"]


def test_a_query_with_several_echoes_is_shown_once() -> None:
    store = GoldenStore()
    store.add(
        T4,
        "all",
        kind="retriever",
        inputs="Human: I am ann-7, a manager",
        user_id="ann-7",
        metadata='{"role": "manager", "job": "a manager"}',
    )

    (row,) = store.ask("echoed-queries")

    assert (row["echo"], row["metadata_keys"]) == ("id, metadata, role", ["job", "role"])
