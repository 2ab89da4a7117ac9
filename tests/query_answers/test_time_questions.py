"""Answers of slow-steps, time-to-first-token and regressions."""

from typing import Any

import duckdb
import pytest

from golden_runs import changes, times
from golden_store import T2, T4, T5, GoldenStore, spans

ELEVEN = "2026-11-30T11:00:00Z"


@pytest.fixture(name="store", scope="module")
def _store() -> GoldenStore:
    store = GoldenStore()
    times(store)
    return store


@pytest.fixture(name="changed", scope="module")
def _changed() -> GoldenStore:
    store = GoldenStore()
    changes(store)
    return store


def test_steps_have_their_percentiles_those_with_most_time_first(store: GoldenStore) -> None:
    rows = store.ask("slow-steps", run_type="tool")

    assert rows[0] == {
        "trace_id": T2,
        "span_id": "fetch-99",
        "name": "fetch",
        "run_type": "tool",
        "runs": 100,
        "p50_ms": 100.0,
        "p95_ms": 100.0,
        "p99_ms": 30_000.0,
        "max_ms": 30_000.0,
        "total_ms": 98 * 100.0 + 2 * 30_000.0,
        "outlier": "slow",
        "service_name": "shop",
    }
    # 1 to 100 ms: the nearest rank is the number itself, the sum 5,050.
    assert [
        (row["name"], row["service_name"], row["runs"], row["p50_ms"], row["p95_ms"], row["p99_ms"])
        for row in rows[1:]
    ] == [("call", "shop", 100, 50.0, 95.0, 99.0), ("call", "bank", 6, 7.0, 7.0, 7.0)]
    assert (rows[1]["total_ms"], rows[1]["outlier"]) == (5_050.0, None)


def test_how_many_runs_make_a_step_can_be_chosen(store: GoldenStore) -> None:
    asked = {"run_type": "tool", "service": "shop"}
    names = [row["name"] for row in store.ask("slow-steps", min_runs="1", **asked)]

    assert names == ["rare", "fetch", "call"]


def test_models_have_their_time_to_the_first_token(store: GoldenStore) -> None:
    assert store.ask("time-to-first-token") == [
        {
            "trace_id": T5,
            "span_id": "slow-1",
            "model": "big",
            "runs": 2,
            "p50_ms": 3_000.0,
            "p95_ms": 3_001.0,
            "max_ms": 3_001.0,
            "slow": "slow",
            "service_name": "talk",
        },
        {
            "trace_id": T4,
            "span_id": "gpt-20",
            "model": "gpt-4o",
            "runs": 20,
            "p50_ms": 100.0,
            "p95_ms": 190.0,
            "max_ms": 4_000.0,
            "slow": None,
            "service_name": "talk",
        },
    ]


@pytest.mark.parametrize(("slow", "expected"), [("3001ms", ["big"]), ("4s", []), ("190ms", None)])
def test_from_when_on_a_model_is_slow_can_be_chosen(
    store: GoldenStore, slow: str, expected: list[str] | None
) -> None:
    rows = store.ask("time-to-first-token", slow=slow)

    names = [row["model"] for row in rows if row["slow"]]
    assert names == (["big", "gpt-4o"] if expected is None else expected)


def changed_steps(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(row["name"], row["change"]) for row in rows]


def test_steps_that_became_worse_after_a_moment_are_found(changed: GoldenStore) -> None:
    rows = changed.ask("regressions", split=ELEVEN)

    assert changed_steps(rows) == [
        ("failing", "fails more often"),
        ("slower", "is slower"),
        ("chat", "uses more tokens"),
    ]
    assert rows[1] == {
        "trace_id": T2,
        "name": "slower",
        "run_type": "chain",
        "change": "is slower",
        "old_runs": 20,
        "new_runs": 20,
        "old_error_percent": 0.0,
        "new_error_percent": 0.0,
        "old_p95_ms": 100.0,
        "new_p95_ms": 300.0,
        "old_tokens": None,
        "new_tokens": None,
        "old_version": None,
        "new_version": None,
        "service_name": "shop",
    }
    assert (rows[0]["old_error_percent"], rows[0]["new_error_percent"]) == (0.0, 10.0)
    assert (rows[2]["old_tokens"], rows[2]["new_tokens"]) == (100.0, 160.0)


def test_what_is_worse_can_be_chosen(changed: GoldenStore) -> None:
    asked = {"split": ELEVEN, "times": "3.1", "error_points": "10"}

    assert changed_steps(changed.ask("regressions", **asked)) == [("failing", "fails more often")]
    assert changed.ask("regressions", **{**asked, "error_points": "10.1"}) == []
    assert changed.ask("regressions", split=ELEVEN, min_runs="21") == []


def test_without_a_moment_the_last_day_is_compared_with_the_days_before() -> None:
    store = GoldenStore()
    day_ms = 24 * 60 * 60_000
    for number in range(20):
        old = {"start_ms": number, "end_ms": number + 10}
        store.add(T2, f"old-{number}", **old)
        store.add(T4, f"new-{number}", start_ms=day_ms + 30, end_ms=day_ms + 60)

    (row,) = store.ask("regressions")

    assert (row["old_runs"], row["new_runs"], row["change"]) == (20, 20, "is slower")


def test_the_two_newest_versions_of_a_service_are_compared(changed: GoldenStore) -> None:
    (row,) = changed.ask("regressions", by="version")

    assert (row["name"], row["change"], row["service_name"]) == ("step", "is slower", "versioned")
    assert (row["old_version"], row["new_version"]) == ("1.1", "1.2")
    assert (row["old_p95_ms"], row["new_p95_ms"]) == (10.0, 40.0)


def test_there_is_nothing_else_to_compare_by(changed: GoldenStore) -> None:
    with pytest.raises(duckdb.Error, match="by must be time or version, not 'name'"):
        changed.ask("regressions", by="name")


def test_a_service_can_be_asked_alone(changed: GoldenStore) -> None:
    assert changed.ask("regressions", split=ELEVEN, service="bank", min_runs="2") == []
    assert spans(changed.ask("slow-steps", service="versioned"))[0].startswith("v1.0-")
