"""Answers of context-limit, unfilled-variables, truncated-outputs and content-filter-hits."""

import pytest

from golden_runs import prompts
from golden_store import T1, T2, T3, GoldenStore, at, spans


@pytest.fixture(name="store", scope="module")
def _store() -> GoldenStore:
    store = GoldenStore()
    prompts(store)
    return store


def test_prompts_near_the_context_limit_are_found_the_full_ones_first(store: GoldenStore) -> None:
    rows = store.ask("context-limit")

    assert [(row["span_id"], row["kind"], row["percent"]) for row in rows] == [
        ("stopped", "full", 50.0),
        ("refused", "full", None),
        ("nearer", "nearly full", 99.0),
        ("at-limit", "nearly full", 80.0),
    ]
    assert rows[3] == {
        "trace_id": T1,
        "span_id": "at-limit",
        "name": "gpt-4o",
        "model": "gpt-4o",
        "kind": "nearly full",
        "input_tokens": 800,
        "window_tokens": 1_000,
        "percent": 80.0,
        "duration_ms": 10.0,
        "start_time": at(1),
        "error_type": None,
        "session_id": "s1",
        "service_name": "limits",
    }


def test_the_window_of_unknown_models_can_be_given(store: GoldenStore) -> None:
    rows = store.ask("context-limit", window="1000", service="limits")

    assert spans(rows) == ["stopped", "refused", "nearer", "unknown", "at-limit"]


def test_prompts_with_holes_are_found(store: GoldenStore) -> None:
    rows = store.ask("unfilled-variables")

    assert [(row["span_id"], row["kind"], row["variables"]) for row in rows] == [
        ("literal", "literal", ["name", "plan"]),
        ("missing", "missing", None),
    ]
    assert rows[0] == {
        "trace_id": T2,
        "span_id": "literal",
        "name": "gpt-4o",
        "kind": "literal",
        "variables": ["name", "plan"],
        "status": "ok",
        "duration_ms": 1.0,
        "start_time": at(2),
        "error_type": None,
        "service_name": "holes",
    }


def test_outputs_that_were_cut_off_are_found_whoever_says_it(store: GoldenStore) -> None:
    rows = store.ask("truncated-outputs")

    assert spans(rows) == ["one-of-two", "cut-gemini", "cut"]
    assert rows[2] == {
        "trace_id": T3,
        "span_id": "cut",
        "name": "gpt-4o",
        "model": "gpt-4o",
        "finish_reasons": ["length"],
        "output_tokens": 16,
        "duration_ms": 50.0,
        "start_time": at(1),
        "parent_name": "answer",
        "session_id": "s3",
        "service_name": "ends",
    }


def test_what_a_content_filter_stopped_or_refused_is_found(store: GoldenStore) -> None:
    rows = store.ask("content-filter-hits")

    assert [(row["span_id"], row["kind"]) for row in rows] == [
        ("refused-by-filter", "refused"),
        ("safety", "stopped"),
        ("filtered", "stopped"),
    ]
    assert rows[2] == {
        "trace_id": T3,
        "span_id": "filtered",
        "name": "gpt-4o",
        "model": "gpt-4o",
        "kind": "stopped",
        "finish_reasons": ["content_filter"],
        "error_type": None,
        "duration_ms": 1.0,
        "start_time": at(7),
        "session_id": "s3",
        "user_id": "ann",
        "service_name": "ends",
    }
