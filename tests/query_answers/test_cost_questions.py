"""Answers of token-use, cost-outliers and growing-sessions."""

import duckdb
import pytest

from golden_runs import costs, prompts
from golden_store import T3, GoldenStore, at, spans


@pytest.fixture(name="store", scope="module")
def _store() -> GoldenStore:
    store = GoldenStore()
    costs(store)
    return store


@pytest.fixture(name="chats", scope="module")
def _chats() -> GoldenStore:
    store = GoldenStore()
    prompts(store)
    return store


def test_tokens_and_costs_are_summed_by_model(store: GoldenStore) -> None:
    rows = store.ask("token-use")

    # 0.25 + 0.50, twenty cents, and 0.1 + 0.2 + 0.099 + 0 + 9 of the outliers.
    assert rows[0] == {
        "trace_id": T3,
        "name": "gpt-4o",
        "runs": 27,
        "input_tokens": 9_110,
        "output_tokens": 27,
        "total_tokens": 132,
        "cache_read_tokens": 40,
        "reasoning_tokens": 1,
        "cost_usd": pytest.approx(10.349),
        "unpriced_runs": 0,
        "newest_time": at(106),
    }
    assert [(row["name"], row["runs"], row["unpriced_runs"]) for row in rows[1:]] == [
        (None, 1, 0),
        ("own", 2, 2),
    ]


def test_a_cost_that_nobody_knows_is_null_and_no_zero(store: GoldenStore) -> None:
    *_, own = store.ask("token-use")

    assert (own["total_tokens"], own["cost_usd"]) == (1_000, None)


@pytest.mark.parametrize(
    ("by", "name", "runs", "cost"),
    [
        ("service", "bank", 1, 0.5),
        ("session", "s1", 1, 0.25),
        ("user", "ann", 3, 0.85),
        ("agent", "helper", 1, 0.25),
        ("day", "2026-11-30", 30, 19.349),
    ],
)
def test_tokens_are_summed_by_what_was_asked_for(
    store: GoldenStore, by: str, name: str, runs: int, cost: float
) -> None:
    rows = {row["name"]: row for row in store.ask("token-use", by=by)}

    assert (rows[name]["runs"], rows[name]["cost_usd"]) == (runs, pytest.approx(cost))


def test_there_is_nothing_else_to_sum_by(store: GoldenStore) -> None:
    with pytest.raises(duckdb.Error, match=r"by must be model, service, .* not 'tool'"):
        store.ask("token-use", by="tool")


def test_runs_that_cost_ten_times_the_median_are_outliers(store: GoldenStore) -> None:
    rows = store.ask("cost-outliers")

    assert spans(rows) == ["dearest", "dear"]
    assert rows[1] == {
        "trace_id": T3,
        "span_id": "dear",
        "name": "gpt-4o",
        "model": "gpt-4o",
        "cost_usd": 0.1,
        "median_usd": 0.01,
        "times": pytest.approx(10.0),
        "input_tokens": 9_000,
        "output_tokens": 5,
        "duration_ms": 500.0,
        "start_time": at(101),
        "session_id": "s3",
        "user_id": "ann",
        "service_name": "priced",
    }


def test_what_is_an_outlier_can_be_chosen(store: GoldenStore) -> None:
    assert spans(store.ask("cost-outliers", times="15")) == ["dearest"]
    assert store.ask("cost-outliers", min_runs="24") == []


def test_sessions_whose_prompt_grows_with_every_turn_are_found(chats: GoldenStore) -> None:
    assert chats.ask("growing-sessions") == [
        {
            "trace_id": "memory-grows-2",
            "session_id": "grows",
            "turns": 3,
            "first_input_tokens": 100,
            "last_input_tokens": 260,
            "tokens_per_turn": 80.0,
            "newest_time": at(120_000),
            "service_name": "memory",
        }
    ]


def test_what_is_growth_can_be_chosen(chats: GoldenStore) -> None:
    def found(**values: str) -> list[str]:
        return [row["session_id"] for row in chats.ask("growing-sessions", **values)]

    assert found(min_growth="1.2") == ["grows", "grows-little"]
    assert found(min_turns="2") == ["short", "grows"]
    assert found(min_turns="4") == []
