"""Answers of slow-tools."""

import pytest

from golden_store import T1, TEN_O_CLOCK_UNIX_NANO, GoldenStore, at, spans


def test_slow_tools_come_slowest_first_with_their_input(store: GoldenStore) -> None:
    store.add(T1, "root", name="agent", kind="agent", end_ms=20_000)
    store.add(
        T1,
        "slow",
        "root",
        name="search",
        kind="tool",
        start_ms=100,
        end_ms=6_100,
        inputs='{"q": "x"}',
    )
    store.add(
        T1,
        "slowest",
        "root",
        name="crawl",
        kind="tool",
        status="error",
        start_ms=7_000,
        end_ms=16_500,
        error_type="builtins.TimeoutError",
        error="no answer",
    )

    rows = store.ask("slow-tools")

    assert rows == [
        {
            "trace_id": T1,
            "span_id": "slowest",
            "name": "crawl",
            "status": "error",
            "duration_ms": 9_500.0,
            "start_time": at(7_000),
            "tool_input": None,
            "error_type": "builtins.TimeoutError",
            "error": "no answer",
            "retry_attempt": None,
            "parent_name": "agent",
            "service_name": "shop",
        },
        {
            "trace_id": T1,
            "span_id": "slow",
            "name": "search",
            "status": "ok",
            "duration_ms": 6_000.0,
            "start_time": at(100),
            "tool_input": '{"q": "x"}',
            "error_type": None,
            "error": None,
            "retry_attempt": None,
            "parent_name": "agent",
            "service_name": "shop",
        },
    ]


def test_a_duration_exactly_at_the_threshold_is_slow(store: GoldenStore) -> None:
    store.add(T1, "at", kind="tool", end_ms=5_000)
    store.add(T1, "below", kind="tool", end_ms=4_999)
    nanosecond_short = TEN_O_CLOCK_UNIX_NANO + 5 * 10**9 - 1
    store.add(T1, "1-ns-below", kind="tool", end_time_unix_nano=nanosecond_short)

    assert spans(store.ask("slow-tools")) == ["at"]


@pytest.mark.parametrize(
    ("min_duration", "expected"),
    [
        ("500ms", ["m2", "s5", "half"]),
        ("0.5s", ["m2", "s5", "half"]),
        ("501ms", ["m2", "s5"]),
        ("5 seconds", ["m2", "s5"]),
        ("2m", ["m2"]),
        ("1h", []),
        ("0s", ["m2", "s5", "half", "zero"]),
    ],
)
def test_the_threshold_is_written_as_people_write_durations(
    store: GoldenStore, min_duration: str, expected: list[str]
) -> None:
    for span, end_ms in (("zero", 0), ("half", 500), ("s5", 5_000), ("m2", 120_000)):
        store.add(T1, span, kind="tool", end_ms=end_ms)

    assert spans(store.ask("slow-tools", min_duration=min_duration)) == expected


def test_slow_runs_that_are_no_tools_are_no_slow_tools(store: GoldenStore) -> None:
    store.add(T1, "chain", name="search", kind="chain", end_ms=9_000)
    store.add(T1, "llm", kind="llm", end_ms=9_000)
    store.add(T1, "untyped", kind=None, name="execute_tool search", end_ms=9_000)
    store.add(T1, "backwards", kind="tool", start_ms=9_000, end_ms=0)

    assert store.ask("slow-tools") == []


def test_a_slow_tool_is_shown_however_it_ended(store: GoldenStore) -> None:
    statuses = ("ok", "error", "handled_error", "cancelled", "interrupted", "abandoned")
    for number, status in enumerate(statuses):
        store.add(T1, status, kind="tool", status=status, end_ms=9_000 - number)

    assert spans(store.ask("slow-tools")) == list(statuses)


def test_the_error_of_a_tool_that_answered_with_one_is_its_message(store: GoldenStore) -> None:
    slow = {"kind": "tool", "end_ms": 9_000, "outputs": "Error: no such order"}
    store.add(T1, "handled", status="handled_error", retry_attempt=3, **slow)
    store.add(T1, "fine", start_ms=1, **slow)

    rows = store.ask("slow-tools")

    assert [(row["span_id"], row["error"], row["retry_attempt"]) for row in rows] == [
        ("handled", "Error: no such order", 3),
        ("fine", None, None),
    ]


def test_a_tool_whose_parent_is_stored_twice_is_shown_once(store: GoldenStore) -> None:
    for start_ms in (0, 1):
        store.add(T1, "root", name="agent", start_ms=start_ms)
    store.add(T1, "slow", "root", kind="tool", end_ms=9_000)

    assert [row["parent_name"] for row in store.ask("slow-tools")] == ["agent"]


def test_a_tool_that_is_still_running_is_no_slow_one(store: GoldenStore) -> None:
    store.add(T1, "open", kind="tool", status="pending", end_ms=9_000)

    assert store.ask("slow-tools") == []
