"""Answers of repeated-tool-calls, tool-loops and tool-argument-errors."""

import pytest

from golden_runs import tools
from golden_store import T1, T3, T4, T5, GoldenStore, at, spans


@pytest.fixture(name="store", scope="module")
def _store() -> GoldenStore:
    store = GoldenStore()
    tools(store)
    return store


def test_tools_called_again_with_the_same_arguments_are_found(store: GoldenStore) -> None:
    assert store.ask("repeated-tool-calls", service="shop") == [
        {
            "trace_id": T1,
            "span_id": "t1-b",
            "name": "search",
            "calls": 2,
            "total_ms": 30.0,
            "newest_time": at(20),
            "service_name": "shop",
            "tool_input": '{"q": "x"}',
        }
    ]


def test_failed_calls_are_no_repetition(store: GoldenStore) -> None:
    # Of the eight calls of the loop the fourth failed and the fifth answered with an error.
    rows = store.ask("repeated-tool-calls", service="loops")

    assert [(row["span_id"], row["calls"]) for row in rows] == [("loop-7", 3), ("loop-2", 3)]
    assert store.ask("repeated-tool-calls", min_calls="4") == []


def test_tools_that_were_called_many_times_in_one_trace_are_found(store: GoldenStore) -> None:
    rows = store.ask("tool-loops", service="loops")

    assert rows[0] == {
        "trace_id": T3,
        "span_id": "loop-7",
        "name": "crawl",
        "calls": 8,
        "different_arguments": 2,
        "failed_calls": 2,
        "total_ms": 80.0,
        "newest_time": at(1_007),
        "service_name": "loops",
    }
    assert [(row["name"], row["different_arguments"]) for row in rows[1:]] == [("open", None)]


def test_how_many_calls_make_a_loop_can_be_chosen(store: GoldenStore) -> None:
    rows = store.ask("tool-loops", service="loops", min_calls="7", trace_id=T4)

    assert [(row["name"], row["calls"]) for row in rows] == [("open", 8), ("crawl", 7)]


def test_arguments_that_break_the_schema_of_their_tool_are_found(store: GoldenStore) -> None:
    rows = store.ask("tool-argument-errors")

    assert [(row["span_id"], row["problem"], row["arguments"]) for row in rows] == [
        ("rejected", "rejected", None),
        ("not-allowed", "not allowed", ["unit"]),
        ("wrong-types", "wrong type", ["city", "days", "max", "metric", "near"]),
        ("missing", "missing", ["days"]),
    ]
    assert rows[3] == {
        "trace_id": T5,
        "span_id": "missing",
        "name": "weather",
        "problem": "missing",
        "arguments": ["days"],
        "status": "ok",
        "duration_ms": 0.0,
        "start_time": at(10),
        "error_type": None,
        "service_name": "schemas",
        "tool_input": '{"city": "Oslo"}',
    }


def test_a_tool_that_two_agents_define_differently_is_not_judged() -> None:
    store = GoldenStore()
    for number, required in enumerate(('["a"]', '["b"]')):
        definitions = f'[{{"name": "t", "input_schema": {{"required": {required}}}}}]'
        store.add(T1, f"m{number}", kind="llm", attributes={"gen_ai.tool.definitions": definitions})
    store.add(T1, "call", name="t", kind="tool", inputs="{}")

    assert store.ask("tool-argument-errors") == []


def test_only_the_newest_tools_are_looked_at(store: GoldenStore) -> None:
    # The loops began a second later than the schemas: 8 runs.
    assert store.ask("tool-argument-errors", examine="8") == []
    assert spans(store.ask("tool-argument-errors", examine="8", service="schemas")) == ["rejected"]
