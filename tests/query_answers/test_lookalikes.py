"""Retrievers, errors and arrivals that a question is after beside those that only look like it."""

import json
from typing import Any

from golden_store import T1, T2, GoldenStore, at, spans

DOCS: dict[str, Any] = {"name": "docs", "kind": "retriever"}


def test_who_asked_is_told_from_what_was_asked(store: GoldenStore) -> None:
    ids = {"session_id": "chat-77", "user_id": "user-88"}
    store.add(T1, "session", start_ms=5, inputs="days off in CHAT-77", **ids, **DOCS)
    store.add(T1, "user", start_ms=4, inputs="days off of user-88, user-88", **ids, **DOCS)
    store.add(T1, "neither", start_ms=3, inputs="days off", **ids, **DOCS)
    store.add(T1, "short", start_ms=2, inputs="days off in 77", session_id="77", **DOCS)
    # Numbers and lists in the metadata are no words about the user; two keys may say the same.
    metadata = json.dumps({"year": 20_26, "tags": ["days"], "role": "nurse", "job": "Nurse"})
    store.add(
        T1, "words", start_ms=1, inputs="days off of a nurse in 2026", metadata=metadata, **DOCS
    )
    store.add(T1, "numbers", start_ms=0, inputs="days off in 2026", metadata=metadata, **DOCS)

    rows = store.ask("echoed-queries")

    assert [(row["span_id"], row["echo"], row["metadata_keys"]) for row in rows] == [
        ("session", "id", None),
        ("user", "id", None),
        ("words", "metadata", ["job", "role"]),
    ]


def test_the_newest_empty_retrieval_is_shown_and_only_retrievers_count(store: GoldenStore) -> None:
    store.add(T1, "root", name="ask")
    store.add(T1, "empty", "root", start_ms=1, document_count=0, **DOCS)
    store.add(T1, "found", "root", start_ms=2, document_count=3, **DOCS)
    store.add(T1, "reranked", "root", name="docs", kind="reranker", document_count=0, start_ms=3)
    # That this one ended well says nothing about the other trace.
    store.add(T2, "root", name="ask", status="error")
    store.add(T2, "empty", "root", document_count=0, **DOCS)

    (row,) = store.ask("empty-retrievals")

    assert (row["trace_id"], row["span_id"], row["newest_time"]) == (T1, "empty", at(1))
    assert (row["calls"], row["empty_calls"], row["answered_calls"]) == (3, 2, 1)


def test_a_trace_with_two_errors_of_a_kind_is_one_trace(store: GoldenStore) -> None:
    failed = {"name": "search", "kind": "tool", "status": "error"}
    store.add(T1, "root", status="error")
    store.add(T1, "one", "root", start_ms=1, **failed)
    store.add(T1, "two", "root", start_ms=2, **failed)

    (row,) = store.ask("first-causes")

    assert (row["errors"], row["traces"], row["failed_traces"]) == (2, 1, 1)


def test_what_a_service_without_a_name_sent_is_one_row(store: GoldenStore) -> None:
    store.add(T1, "nameless", service_name=None, start_ms=1)
    store.add(T1, "open", service_name=None, status="pending", start_ms=1)
    store.reject("span_id is all zero", service_name=None, received_ms=1)

    (row,) = store.ask("ingestion-health")

    assert (row["records"], row["rejected"], row["pending"]) == (1, 1, 1)


def test_what_arrived_at_another_time_is_not_counted(store: GoldenStore) -> None:
    for moment in (0, 10, 20):
        store.add(T1, f"pending-{moment}", status="pending", start_ms=moment)
        store.reject("span_id is all zero", received_ms=moment)
        store.add(T1, f"ended-{moment}", start_ms=moment)
    window = {"since": at(10).isoformat(), "until": at(20).isoformat()}

    (row,) = store.ask("ingestion-health", **window)
    (reason,) = store.ask("rejected-spans", **window)

    assert (row["records"], row["rejected"], row["pending"]) == (1, 1, 1)
    assert reason["rejected"] == 1


def test_a_data_point_without_a_time_was_not_late(store: GoldenStore) -> None:
    store.add_point("timeless", time_unix_nano=0)

    (row,) = store.ask("ingestion-health")

    assert (row["records"], row["p50_delay_ms"], row["trouble"]) == (1, None, None)


def test_runs_of_the_same_names_in_two_services_are_counted_apart(store: GoldenStore) -> None:
    for service in ("bank", "shop"):
        failed = {"name": "search", "kind": "tool", "status": "error", "service_name": service}
        store.add(T1, f"{service}-root", service_name=service)
        store.add(T1, f"{service}-tool", f"{service}-root", start_ms=1, **failed)

    for query in ("first-causes", "unseen-errors"):
        rows = store.ask(query)
        assert sorted(spans(rows)) == ["bank-tool", "shop-tool"]
        assert [row["traces"] for row in rows] == [1, 1]
