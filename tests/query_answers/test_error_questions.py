"""Answers of first-causes, unseen-errors, sessions-with-errors, unfinished-runs and orphans."""

import pytest

from golden_runs import MINUTE_MS, errors, lost, sessions
from golden_store import T1, T2, T3, T4, T5, GoldenStore, at, spans

NOW = at(10 * MINUTE_MS).isoformat()


def filled(*themes: object) -> GoldenStore:
    store = GoldenStore()
    for theme in themes:
        assert callable(theme)
        theme(store)
    return store


@pytest.fixture(name="store", scope="module")
def _store() -> GoldenStore:
    return filled(errors)


@pytest.fixture(name="parts", scope="module")
def _parts() -> GoldenStore:
    return filled(lost)


@pytest.fixture(name="chats", scope="module")
def _chats() -> GoldenStore:
    return filled(sessions)


def test_errors_are_counted_where_they_began(store: GoldenStore) -> None:
    rows = store.ask("first-causes")

    assert rows[0] == {
        "trace_id": T3,
        "span_id": "t3-tool",
        "name": "search",
        "run_type": "tool",
        "error_type": "TimeoutError",
        "errors": 3,
        "traces": 3,
        "failed_traces": 1,
        "newest_time": at(21),
        "newest_error": "no answer in 5 s",
        "service_name": "shop",
    }
    assert [(row["span_id"], row["failed_traces"]) for row in rows[1:]] == [
        ("self", 1),  # whose parent it is itself, so that it is the root
        ("try-1", 0),
        ("node-1", 0),
        ("t5-tool", 0),
    ]


def test_the_first_cause_is_looked_for_in_a_trace_of_its_own(store: GoldenStore) -> None:
    assert spans(store.ask("first-causes", trace_id=T1)) == ["t1-tool"]


def test_a_failing_child_after_until_is_still_the_cause(store: GoldenStore) -> None:
    # The root failed before the bound, but it is not where the error began.
    assert store.ask("first-causes", trace_id=T1, until="2026-11-30T10:00:00.001Z") == []


def test_errors_in_traces_that_ended_well_are_found(store: GoldenStore) -> None:
    rows = store.ask("unseen-errors")

    assert rows[0] == {
        "trace_id": T2,
        "span_id": "t2-handled",
        "name": "divide",
        "run_type": "tool",
        "status": "handled_error",
        "error_type": None,
        "errors": 1,
        "traces": 1,
        "newest_time": at(13),
        "newest_error": "division by zero",
        "service_name": "shop",
    }
    assert spans(rows[1:]) == ["t5-tool", "t2-tool"]
    assert spans(store.ask("unseen-errors", service="bank")) == ["t5-tool"]


def test_sessions_with_errors_come_with_most_failed_turns_first(chats: GoldenStore) -> None:
    assert chats.ask("sessions-with-errors") == [
        {
            "trace_id": T2,
            "session_id": "bad",
            "turns": 3,
            "failed_turns": 1,
            "errors": 2,
            "handled_errors": 1,
            "users": 2,
            "newest_error_time": at(11),
            "service_name": "shop",
        },
        {
            "trace_id": T4,
            "session_id": "mild",
            "turns": 1,
            "failed_turns": 0,
            "errors": 1,
            "handled_errors": 0,
            "users": 0,
            "newest_error_time": at(31),
            "service_name": "shop",
        },
    ]


def test_how_many_errors_make_a_session_worth_showing(chats: GoldenStore) -> None:
    rows = chats.ask("sessions-with-errors", min_errors="2")

    assert [row["session_id"] for row in rows] == ["bad"]


def test_runs_that_never_ended_are_found(parts: GoldenStore) -> None:
    rows = parts.ask("unfinished-runs", service="shop", now=NOW)

    assert spans(rows) == ["abandoned", "killed"]
    assert rows[1] == {
        "trace_id": T1,
        "span_id": "killed",
        "name": "crawl",
        "run_type": "tool",
        "status": "pending",
        "quiet_ms": 600_000.0,
        "duration_ms": None,
        "start_time": at(0),
        "end_reason": None,
        "session_id": "s1",
        "service_name": "shop",
    }
    assert (rows[0]["quiet_ms"], rows[0]["end_reason"]) == (None, "closed")


def test_a_run_that_has_just_started_is_not_unfinished(parts: GoldenStore) -> None:
    assert "just-started" in spans(parts.ask("unfinished-runs", min_quiet="299999ms", now=NOW))
    assert "just-started" not in spans(parts.ask("unfinished-runs", min_quiet="5m", now=NOW))


def test_runs_whose_parent_is_not_stored_are_orphans(parts: GoldenStore) -> None:
    assert parts.ask("orphans") == [
        {
            "trace_id": T3,
            "span_id": "orphan",
            "parent_span_id": "never-sent",
            "name": "step",
            "run_type": "chain",
            "status": "ok",
            "duration_ms": 1.0,
            "start_time": at(3),
            "dialect": "otelchain",
            "service_name": "parts",
        }
    ]


def test_phantom_parents_of_langsmith_are_no_orphans_unless_asked_for(parts: GoldenStore) -> None:
    assert spans(parts.ask("orphans", phantoms="true")) == ["phantom", "orphan"]


def test_a_parent_before_since_is_stored_all_the_same(parts: GoldenStore) -> None:
    rows = parts.ask("orphans", since="2026-11-30T10:00:00.002Z", service="parts")

    assert spans(rows) == ["orphan"]
    assert parts.ask("orphans", trace_id=T5) == []
