"""Answers of failed-retrievers, and the parameters that all queries take."""

import pytest

from golden_store import T1, T2, T3, GoldenStore, at, spans


@pytest.fixture(name="retrievers")
def _retrievers(store: GoldenStore) -> GoldenStore:
    add = store.add
    add(T1, "root", name="answer", start_ms=0, end_ms=9_000)
    add(
        T1,
        "raised",
        "root",
        name="DocsRetriever",
        kind="retriever",
        status="error",
        start_ms=1_000,
        end_ms=1_250,
        inputs="how do I return shoes?",
        error_type="builtins.ConnectionError",
        error="index is down",
    )
    add(
        T1,
        "found-nothing",
        "root",
        name="FaqRetriever",
        kind="retriever",
        start_ms=2_000,
        end_ms=2_003,
        inputs="returns of shoes",
        document_count=0,
    )
    # What looks like it:
    empty_handed = {"kind": "retriever", "document_count": 0}
    add(T1, "found", "root", kind="retriever", start_ms=3_000, document_count=4)
    add(T1, "unknown-count", "root", kind="retriever", start_ms=3_100)
    add(T1, "cancelled", "root", status="cancelled", start_ms=3_200, **empty_handed)
    add(T1, "abandoned", "root", status="abandoned", start_ms=3_300, **empty_handed)
    add(T1, "interrupted", "root", status="interrupted", start_ms=3_400, **empty_handed)
    add(T1, "tool", "root", kind="tool", status="error", start_ms=3_500, document_count=0)
    add(T1, "untyped", "root", kind=None, name="DocsRetriever", status="error", start_ms=3_600)
    return store


def test_retrievers_that_raised_and_that_found_nothing_are_told_apart(
    retrievers: GoldenStore,
) -> None:
    rows = retrievers.ask("failed-retrievers")

    assert rows == [
        {
            "trace_id": T1,
            "span_id": "found-nothing",
            "name": "FaqRetriever",
            "outcome": "empty",
            "duration_ms": 3.0,
            "start_time": at(2_000),
            "query_text": "returns of shoes",
            "error_type": None,
            "error": None,
            "document_count": 0,
            "parent_name": "answer",
            "service_name": "shop",
        },
        {
            "trace_id": T1,
            "span_id": "raised",
            "name": "DocsRetriever",
            "outcome": "error",
            "duration_ms": 250.0,
            "start_time": at(1_000),
            "query_text": "how do I return shoes?",
            "error_type": "builtins.ConnectionError",
            "error": "index is down",
            "document_count": None,
            "parent_name": "answer",
            "service_name": "shop",
        },
    ]


def test_empty_retrievals_can_be_left_out(retrievers: GoldenStore) -> None:
    assert spans(retrievers.ask("failed-retrievers", empty="false")) == ["raised"]


def test_each_failed_attempt_of_a_retried_retriever_is_a_failure(store: GoldenStore) -> None:
    attempt = {"name": "DocsRetriever", "kind": "retriever"}
    store.add(T1, "retry", name="RunnableRetry")
    store.add(T1, "first", "retry", status="error", start_ms=1, **attempt)
    store.add(T1, "second", "retry", start_ms=2, retry_attempt=2, document_count=3, **attempt)

    assert spans(store.ask("failed-retrievers")) == ["first"]


def test_a_retriever_without_a_stored_parent_is_shown_without_its_name(store: GoldenStore) -> None:
    store.add(T1, "alone", kind="retriever", status="error", start_ms=2)
    store.add(T1, "orphan", "never-sent", kind="retriever", status="error", start_ms=1)
    store.add(T2, "never-sent", name="a parent of another trace")

    rows = store.ask("failed-retrievers")

    assert [(row["span_id"], row["parent_name"]) for row in rows] == [
        ("alone", None),
        ("orphan", None),
    ]


# --- the parameters that all queries take ---


def test_since_is_inclusive_and_until_is_not(store: GoldenStore) -> None:
    for span, start_ms in (("before", 999), ("at-since", 1_000), ("at-until", 2_000)):
        store.add(T1, span, kind="retriever", status="error", start_ms=start_ms)

    rows = store.ask(
        "failed-retrievers", since="2026-11-30T10:00:01Z", until="2026-11-30T10:00:02Z"
    )

    assert spans(rows) == ["at-since"]


def test_two_services_with_the_same_names_are_kept_apart(store: GoldenStore) -> None:
    same = {"name": "DocsRetriever", "kind": "retriever", "status": "error"}
    store.add(T1, "one", service_name="shop", start_ms=1, **same)
    store.add(T2, "two", service_name="bank", start_ms=2, **same)
    store.add(T3, "nobody's", service_name=None, start_ms=3, **same)

    assert spans(store.ask("failed-retrievers")) == ["nobody's", "two", "one"]
    assert spans(store.ask("failed-retrievers", service="bank")) == ["two"]
    assert spans(store.ask("failed-retrievers", service="ban")) == []


def test_limit_keeps_the_newest(store: GoldenStore) -> None:
    for number in range(5):
        store.add(T1, f"r{number}", kind="retriever", status="error", start_ms=number)

    assert spans(store.ask("failed-retrievers", limit="2")) == ["r4", "r3"]


@pytest.mark.parametrize(
    "hostile",
    ["'; DROP TABLE spans; --", "shop' OR '1'='1", "$limit", "%", "\x00", "🦆'\"\\"],
)
def test_names_and_parameters_are_only_ever_values(store: GoldenStore, hostile: str) -> None:
    store.add(
        T1,
        "hostile",
        name=hostile,
        kind="retriever",
        status="error",
        service_name=hostile,
        inputs=hostile,
        error=hostile,
    )
    store.add(T2, "other", kind="retriever", status="error")

    (row,) = store.ask("failed-retrievers", service=hostile)

    assert (row["name"], row["query_text"], row["error"]) == (hostile, hostile, hostile)
    assert spans(store.ask("failed-retrievers", service="shop")) == ["other"]
