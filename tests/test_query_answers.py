"""The bundle's answers on stores written row by row, with the answers worked out by hand.

Every store has the rows a question is after and rows that only look like them.
"""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from otelchain_queries import load

MIGRATIONS = Path(__file__).parent.parent / "collector" / "otelchain_collector" / "migrations"

TEN_O_CLOCK = datetime(2026, 11, 30, 10, 0)  # noqa: DTZ001 - DuckDB answers in naive UTC
TEN_O_CLOCK_UNIX_NANO = 1_796_032_800 * 10**9

T1, T2, T3 = "1" * 32, "2" * 32, "3" * 32

Row = dict[str, Any]


def at(ms: float) -> datetime:
    return TEN_O_CLOCK + timedelta(milliseconds=ms)


class GoldenStore:
    """A store whose spans are written by hand; times are milliseconds after ten o'clock."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        for path in sorted(MIGRATIONS.glob("*.sql")):
            self.connection.execute(path.read_text())

    def add(
        self,
        trace: str,
        span: str,
        parent: str | None = None,
        *,
        name: str = "step",
        kind: str | None = "chain",
        status: str = "ok",
        start_ms: int = 0,
        end_ms: int | None = None,
        inputs: str | None = None,
        outputs: str | None = None,
        **columns: Any,
    ) -> None:
        start = TEN_O_CLOCK_UNIX_NANO + start_ms * 10**6
        end = start if end_ms is None else TEN_O_CLOCK_UNIX_NANO + end_ms * 10**6
        attributes = {"otelchain.input": inputs, "otelchain.output": outputs}
        row: Row = {
            "trace_id": trace,
            "span_id": span,
            "parent_span_id": parent,
            "trace_state": "",
            "flags": 0,
            "name": name,
            "kind": 1,
            "start_time_unix_nano": start,
            "end_time_unix_nano": end,
            "status_code": 2 if status == "error" else 0,
            "status_message": columns.get("error") or "",
            "attributes": json.dumps({k: v for k, v in attributes.items() if v is not None}),
            "dropped_attributes_count": 0,
            "events": "[]",
            "dropped_events_count": 0,
            "links": "[]",
            "dropped_links_count": 0,
            "scope_name": "otelchain",
            "scope_version": "",
            "scope_attributes": "{}",
            "scope_dropped_attributes_count": 0,
            "scope_schema_url": "",
            "resource_attributes": "{}",
            "resource_dropped_attributes_count": 0,
            "resource_schema_url": "",
            "dialect": "otelchain",
            "service_name": "shop",
            "run_type": kind,
            "run_status": status,
            "inputs_attribute": None if inputs is None else "otelchain.input",
            "outputs_attribute": None if outputs is None else "otelchain.output",
            "received_time_unix_nano": end,
            **columns,
        }
        marks = ", ".join("?" * len(row))
        self.connection.execute(
            f"INSERT INTO spans ({', '.join(row)}) VALUES ({marks})", list(row.values())
        )

    def ask(self, name: str, **values: str) -> list[Row]:
        query = load(name)
        answer = self.connection.execute(query.sql, query.bind(values))
        columns = [column[0] for column in answer.description or ()]
        return [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]


@pytest.fixture(name="store")
def _store() -> GoldenStore:
    return GoldenStore()


def spans(rows: list[Row]) -> list[str]:
    return [row["span_id"] for row in rows]


# --- failed-retrievers ---


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


# --- slow-tools ---


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


# --- mixed-status-parents ---


def test_a_parent_with_failed_and_succeeded_children_is_mixed(store: GoldenStore) -> None:
    store.add(T1, "root", name="gather", start_ms=0, end_ms=900)
    store.add(T1, "web", "root", name="web", start_ms=3, status="error", error="no route")
    store.add(T1, "docs", "root", name="docs", start_ms=1)
    store.add(T1, "mail", "root", name="mail", start_ms=2, status="error", error="refused")
    store.add(T1, "wiki", "root", name="wiki", start_ms=4, status="cancelled")
    store.add(T1, "deep", "docs", name="deep", start_ms=5, status="error", error="grandchild")

    rows = store.ask("mixed-status-parents")

    assert rows == [
        {
            "trace_id": T1,
            "span_id": "root",
            "name": "gather",
            "kind": "mixed",
            "status": "ok",
            "duration_ms": 900.0,
            "start_time": at(0),
            "failed_children": ["mail", "web"],
            "succeeded_children": ["docs"],
            "retried_children": None,
            "other_children": ["wiki (cancelled)"],
            "first_error": "refused",
            "first_error_span_id": "mail",
            "failed_count": 2,
            "succeeded_count": 1,
            "retried_count": 0,
            "other_count": 1,
            "parent_stored": True,
            "service_name": "shop",
        }
    ]


def test_a_tool_that_answered_with_an_error_has_failed(store: GoldenStore) -> None:
    store.add(T1, "root", name="tools")
    store.add(T1, "good", "root", name="add", kind="tool", start_ms=1)
    store.add(
        T1,
        "bad",
        "root",
        name="divide",
        kind="tool",
        status="handled_error",
        start_ms=2,
        outputs="Error: division by zero",
    )

    (row,) = store.ask("mixed-status-parents")

    assert (row["failed_children"], row["first_error"]) == (["divide"], "Error: division by zero")


def test_children_of_one_kind_of_end_make_no_mixed_parent(store: GoldenStore) -> None:
    for parent, statuses in {
        "all-ok": ["ok", "ok"],
        "all-failed": ["error", "handled_error"],
        "cancelled-and-ok": ["cancelled", "ok"],
        "interrupted-and-ok": ["interrupted", "ok"],
        "abandoned-and-ok": ["abandoned", "ok"],
        "failed-and-cancelled": ["error", "cancelled"],
        "failed-and-interrupted": ["error", "interrupted"],
        "failed-and-abandoned": ["error", "abandoned"],
        "only-child": ["error"],
    }.items():
        store.add(T1, parent)
        for number, status in enumerate(statuses):
            store.add(T1, f"{parent}-{number}", parent, status=status)

    assert store.ask("mixed-status-parents") == []


def test_roots_are_nobodys_siblings(store: GoldenStore) -> None:
    store.add(T1, "good-root", status="ok")
    store.add(T1, "bad-root", status="error")
    store.add(T2, "other-good-root", status="ok")

    assert store.ask("mixed-status-parents") == []


def test_children_of_same_named_parents_in_two_traces_stay_apart(store: GoldenStore) -> None:
    store.add(T1, "parent", name="gather", service_name="shop")
    store.add(T1, "good", "parent", service_name="shop")
    store.add(T2, "parent", name="gather", service_name="bank")
    store.add(T2, "bad", "parent", status="error", service_name="bank")

    assert store.ask("mixed-status-parents") == []


def test_a_parent_of_another_trace_with_the_same_id_is_not_the_parent(store: GoldenStore) -> None:
    store.add(T2, "parent", name="a stranger", status="error")
    store.add(T1, "good", "parent", name="a", start_ms=5, end_ms=6)
    store.add(T1, "bad", "parent", name="b", status="error", start_ms=7, end_ms=8)

    (row,) = store.ask("mixed-status-parents")

    assert (row["trace_id"], row["span_id"], row["name"], row["parent_stored"]) == (
        T1,
        "parent",
        None,
        False,
    )
    assert (row["status"], row["duration_ms"], row["start_time"]) == (None, None, at(5))
    assert (row["failed_children"], row["succeeded_children"]) == (["b"], ["a"])


def test_a_run_that_names_itself_as_parent_is_not_its_own_child(store: GoldenStore) -> None:
    store.add(T1, "self", "self", status="error")
    store.add(T1, "good", "self")

    assert store.ask("mixed-status-parents") == []


def test_a_retry_that_succeeded_is_marked_as_such(store: GoldenStore) -> None:
    store.add(T1, "retry", name="RunnableRetry", end_ms=50)
    step = {"name": "call", "kind": "tool"}
    store.add(T1, "a1", "retry", status="error", start_ms=1, error="busy", **step)
    store.add(T1, "a2", "retry", status="error", start_ms=2, retry_attempt=2, **step)
    store.add(T1, "a3", "retry", start_ms=3, retry_attempt=3, **step)

    (row,) = store.ask("mixed-status-parents")

    assert row["kind"] == "retried"
    assert row["failed_children"] is None
    assert row["retried_children"] == ["call", "call"]
    assert row["succeeded_children"] == ["call"]
    assert (row["failed_count"], row["succeeded_count"], row["retried_count"]) == (0, 1, 2)
    assert (row["first_error"], row["first_error_span_id"]) == ("busy", "a1")
    assert store.ask("mixed-status-parents", retried="false") == []


def test_a_failure_beside_a_retry_is_mixed(store: GoldenStore) -> None:
    store.add(T1, "parent", name="RunnableRetry")
    store.add(T1, "a1", "parent", name="call", status="error", start_ms=1, error="busy")
    store.add(T1, "a2", "parent", name="call", start_ms=3, retry_attempt=2)
    store.add(T1, "x", "parent", name="other", status="error", start_ms=4, error="broken")

    (row,) = store.ask("mixed-status-parents", retried="false")

    assert row["kind"] == "mixed"
    assert (row["failed_children"], row["retried_children"]) == (["other"], ["call"])
    assert (row["first_error"], row["first_error_span_id"]) == ("broken", "x")


def test_a_retry_that_never_succeeded_is_no_retry_made_good(store: GoldenStore) -> None:
    store.add(T1, "parent")
    store.add(T1, "a1", "parent", name="call", status="error", start_ms=1)
    store.add(T1, "a2", "parent", name="call", status="error", start_ms=2, retry_attempt=2)
    store.add(T1, "ok", "parent", name="other", start_ms=3)

    (row,) = store.ask("mixed-status-parents")

    assert (row["kind"], row["failed_children"]) == ("mixed", ["call", "call"])


def test_the_same_step_called_twice_is_no_retry(store: GoldenStore) -> None:
    store.add(T1, "parent", name="agent")
    store.add(T1, "first", "parent", name="search", kind="tool", status="error", start_ms=1)
    store.add(T1, "second", "parent", name="search", kind="tool", start_ms=2)

    (row,) = store.ask("mixed-status-parents")

    assert (row["kind"], row["failed_children"]) == ("mixed", ["search"])


def test_a_retry_below_another_parent_makes_nothing_good(store: GoldenStore) -> None:
    for parent, start_ms in (("p1", 0), ("p2", 10)):
        store.add(T1, parent, start_ms=start_ms)
        store.add(T1, f"{parent}-bad", parent, name="call", status="error", start_ms=start_ms + 1)
    store.add(T1, "p1-ok", "p1", name="other", start_ms=2)
    store.add(T1, "p2-ok", "p2", name="call", start_ms=12, retry_attempt=2)

    rows = store.ask("mixed-status-parents")

    assert [(row["span_id"], row["kind"]) for row in rows] == [("p2", "retried"), ("p1", "mixed")]


def test_an_earlier_success_makes_no_later_failure_good(store: GoldenStore) -> None:
    store.add(T1, "parent")
    store.add(T1, "a1", "parent", name="call", start_ms=1)
    store.add(T1, "a2", "parent", name="call", status="error", start_ms=2, retry_attempt=2)

    (row,) = store.ask("mixed-status-parents")

    assert (row["kind"], row["failed_children"]) == ("mixed", ["call"])


def graph_node(node: str, step: int, namespace: str) -> Row:
    return {
        "name": node,
        "langgraph_node": node,
        "langgraph_step": step,
        "langgraph_checkpoint_ns": namespace,
    }


def test_attempts_of_a_langgraph_node_share_step_and_namespace(store: GoldenStore) -> None:
    store.add(T1, "graph", name="LangGraph")
    store.add(T1, "a1", "graph", status="error", start_ms=1, **graph_node("fetch", 1, "fetch:7"))
    store.add(T1, "a2", "graph", start_ms=2, **graph_node("fetch", 1, "fetch:7"))

    (row,) = store.ask("mixed-status-parents")

    assert (row["kind"], row["retried_children"]) == ("retried", ["fetch"])


def test_a_langgraph_node_that_ran_again_in_a_later_step_was_not_retried(
    store: GoldenStore,
) -> None:
    store.add(T1, "graph", name="LangGraph")
    store.add(T1, "a1", "graph", status="error", start_ms=1, **graph_node("fetch", 1, "fetch:7"))
    store.add(T1, "a2", "graph", start_ms=2, **graph_node("fetch", 2, "fetch:8"))

    (row,) = store.ask("mixed-status-parents")

    assert (row["kind"], row["failed_children"]) == ("mixed", ["fetch"])


def test_the_namespace_alone_makes_no_attempts(store: GoldenStore) -> None:
    store.add(T1, "graph", name="LangGraph")
    store.add(T1, "a1", "graph", status="error", start_ms=1, **graph_node("fetch", 1, "fetch:7"))
    store.add(T1, "a2", "graph", start_ms=2, **graph_node("fetch", 2, "fetch:7"))

    (row,) = store.ask("mixed-status-parents")

    assert row["kind"] == "mixed"


def test_an_attempt_that_failed_after_a_good_one_was_not_made_good(store: GoldenStore) -> None:
    store.add(T1, "graph", name="LangGraph")
    store.add(T1, "a1", "graph", start_ms=1, **graph_node("fetch", 1, "fetch:7"))
    store.add(T1, "a2", "graph", status="error", start_ms=2, **graph_node("fetch", 1, "fetch:7"))

    (row,) = store.ask("mixed-status-parents")

    assert row["kind"] == "mixed"


def test_parallel_tasks_of_one_langgraph_node_are_no_attempts(store: GoldenStore) -> None:
    store.add(T1, "graph", name="LangGraph")
    store.add(T1, "s1", "graph", status="error", start_ms=1, **graph_node("work", 2, "work:1"))
    store.add(T1, "s2", "graph", start_ms=2, **graph_node("work", 2, "work:2"))

    (row,) = store.ask("mixed-status-parents")

    assert (row["kind"], row["failed_children"]) == ("mixed", ["work"])


def test_runs_inside_a_langgraph_node_are_no_attempts_of_it(store: GoldenStore) -> None:
    node = graph_node("fetch", 1, "fetch:7")
    store.add(T1, "node", **node)
    store.add(T1, "call-1", "node", status="error", start_ms=1, **node)
    store.add(T1, "call-2", "node", start_ms=2, **node)

    (row,) = store.ask("mixed-status-parents")

    assert (row["kind"], row["failed_children"]) == ("mixed", ["fetch"])


def test_all_children_count_also_those_that_started_after_until(store: GoldenStore) -> None:
    store.add(T1, "parent", start_ms=0)
    store.add(T1, "good", "parent", start_ms=500)
    store.add(T1, "bad", "parent", start_ms=1_500, status="error")

    window = {"since": "2026-11-30T10:00:00Z", "until": "2026-11-30T10:00:01Z"}
    assert spans(store.ask("mixed-status-parents", **window)) == ["parent"]


def test_the_parents_own_start_decides_about_since(store: GoldenStore) -> None:
    store.add(T1, "parent", start_ms=0)
    store.add(T1, "good", "parent", start_ms=500)
    store.add(T1, "bad", "parent", start_ms=1_500, status="error")

    assert store.ask("mixed-status-parents", since="2026-11-30T10:00:01Z") == []


def test_a_mixed_parent_is_looked_for_by_its_own_service(store: GoldenStore) -> None:
    store.add(T1, "parent", service_name="shop")
    store.add(T1, "good", "parent", service_name="bank")
    store.add(T1, "bad", "parent", status="error", service_name="bank")

    assert spans(store.ask("mixed-status-parents", service="shop")) == ["parent"]
    assert store.ask("mixed-status-parents", service="bank") == []


# --- traces ---


def test_a_trace_is_summed_up_in_one_row(store: GoldenStore) -> None:
    store.add(T1, "root", name="agent", kind="agent", end_ms=800, total_tokens=30)
    store.add(T1, "m1", "root", kind="llm", start_ms=1, total_tokens=10, session_id="chat-7")
    store.add(T1, "m2", "root", kind="llm", start_ms=2, total_tokens=20, status="error")
    store.add(T1, "t", "root", kind="tool", start_ms=3, status="handled_error")

    assert store.ask("traces") == [
        {
            "trace_id": T1,
            "span_id": "root",
            "name": "agent",
            "status": "ok",
            "start_time": at(0),
            "duration_ms": 800.0,
            "runs": 4,
            "errors": 1,
            "total_tokens": 30,
            "session_id": "chat-7",
            "service_name": "shop",
        }
    ]


def test_traces_come_newest_first_and_as_many_as_asked_for(store: GoldenStore) -> None:
    store.add(T1, "r1", start_ms=1)
    store.add(T1, "late", "r1", start_ms=9_000)
    store.add(T2, "r2", start_ms=2)
    store.add(T3, "r3", start_ms=3)

    assert spans(store.ask("traces")) == ["r3", "r2", "r1"]
    assert spans(store.ask("traces", limit="2")) == ["r3", "r2"]


def test_a_trace_whose_root_never_arrived_has_its_first_orphan_as_root(store: GoldenStore) -> None:
    store.add(T1, "r1", start_ms=1)
    store.add(T2, "orphan", "never-sent", start_ms=2)
    store.add(T2, "later-orphan", "never-sent", start_ms=3)
    store.add(T2, "child", "orphan", start_ms=4)

    assert spans(store.ask("traces")) == ["orphan", "r1"]
    assert spans(store.ask("traces", limit="1")) == ["orphan"]
    assert store.ask("traces")[0]["runs"] == 3


def test_a_run_without_parent_is_root_even_when_an_orphan_started_before(
    store: GoldenStore,
) -> None:
    store.add(T1, "orphan", "never-sent", start_ms=1)
    store.add(T1, "root", start_ms=2)

    assert spans(store.ask("traces")) == ["root"]


def test_a_trace_that_is_a_circle_is_listed_too(store: GoldenStore) -> None:
    store.add(T1, "a", "b", start_ms=1)
    store.add(T1, "b", "a", start_ms=2)

    assert spans(store.ask("traces")) == ["a"]


def test_a_trace_whose_root_is_too_old_is_not_listed_for_its_later_runs(
    store: GoldenStore,
) -> None:
    store.add(T1, "old-root", start_ms=0)
    store.add(T1, "child", "old-root", start_ms=2_000)
    store.add(T2, "new-root", start_ms=3_000)

    assert spans(store.ask("traces", since="2026-11-30T10:00:01Z")) == ["new-root"]
    assert spans(store.ask("traces", until="2026-11-30T10:00:01Z")) == ["old-root"]


def test_traces_are_filtered_by_the_service_of_their_root(store: GoldenStore) -> None:
    store.add(T1, "shop-root", service_name="shop", start_ms=1)
    store.add(T1, "remote", "shop-root", service_name="bank", start_ms=2)
    store.add(T2, "bank-root", service_name="bank", start_ms=3)

    assert spans(store.ask("traces", service="bank")) == ["bank-root"]
    assert spans(store.ask("traces", service="shop", limit="1")) == ["shop-root"]


# --- trace ---


def tree(rows: list[Row]) -> list[tuple[int, str, str | None]]:
    return [(row["depth"], row["span_id"], row["detached"]) for row in rows]


def test_a_trace_is_shown_in_the_order_of_its_tree(store: GoldenStore) -> None:
    store.add(T1, "b1", "b", start_ms=25)
    store.add(T1, "b", "root", start_ms=20)
    store.add(T1, "a2", "a", start_ms=12)
    store.add(T1, "a", "root", start_ms=10)
    store.add(T1, "a1", "a", start_ms=11)
    store.add(T1, "root", start_ms=0)

    assert tree(store.ask("trace", trace_id=T1)) == [
        (0, "root", None),
        (1, "a", None),
        (2, "a1", None),
        (2, "a2", None),
        (1, "b", None),
        (2, "b1", None),
    ]


def test_a_run_of_a_trace_has_everything_to_show(store: GoldenStore) -> None:
    store.add(
        T1,
        "llm",
        name="ChatModel",
        kind="llm",
        start_ms=5,
        end_ms=105,
        inputs="[]",
        outputs="[1]",
        model="gpt-4o",
        input_tokens=3,
        output_tokens=4,
        total_tokens=7,
        time_to_first_token_ms=12.5,
        session_id="chat-7",
        langgraph_node="agent",
        langgraph_step=2,
    )

    assert store.ask("trace") == [
        {
            "trace_id": T1,
            "span_id": "llm",
            "parent_span_id": None,
            "depth": 0,
            "name": "ChatModel",
            "run_type": "llm",
            "status": "ok",
            "start_time": at(5),
            "end_time": at(105),
            "duration_ms": 100.0,
            "model": "gpt-4o",
            "input_tokens": 3,
            "output_tokens": 4,
            "total_tokens": 7,
            "time_to_first_token_ms": 12.5,
            "document_count": None,
            "retry_attempt": None,
            "error_type": None,
            "error": None,
            "session_id": "chat-7",
            "service_name": "shop",
            "langgraph_node": "agent",
            "langgraph_step": 2,
            "detached": None,
            "inputs": "[]",
            "outputs": "[1]",
        }
    ]


def test_orphans_are_roots_of_their_own_with_a_mark(store: GoldenStore) -> None:
    store.add(T1, "root", start_ms=0)
    store.add(T1, "orphan", "never-sent", start_ms=5)
    store.add(T1, "child", "orphan", start_ms=6)
    store.add(T2, "never-sent", start_ms=1)

    assert tree(store.ask("trace", trace_id=T1)) == [
        (0, "root", None),
        (0, "orphan", "parent not stored"),
        (1, "child", None),
    ]


def test_a_circle_of_parents_neither_hangs_nor_hides_a_run(store: GoldenStore) -> None:
    store.add(T1, "root", start_ms=0)
    store.add(T1, "ok", "root", start_ms=9)
    store.add(T1, "c2", "c1", start_ms=2)
    store.add(T1, "c3", "c2", start_ms=3)
    store.add(T1, "c1", "c3", start_ms=1)
    store.add(T1, "hanger", "c2", start_ms=4)
    store.add(T1, "self", "self", start_ms=6)
    store.add(T1, "below-self", "self", start_ms=7)

    assert tree(store.ask("trace", trace_id=T1)) == [
        (0, "root", None),
        (1, "ok", None),
        (0, "c1", "its own ancestor"),
        (1, "c2", None),
        (2, "c3", None),
        (2, "hanger", None),
        (0, "self", "its own ancestor"),
        (1, "below-self", None),
    ]


def test_a_large_circle_begins_at_its_first_run_and_is_whole(store: GoldenStore) -> None:
    store.add(T1, "n0", "n299")
    store.connection.execute(
        """
        INSERT INTO spans
        SELECT spans.* REPLACE (
            'n' || i AS span_id,
            'n' || (i - 1) AS parent_span_id,
            start_time_unix_nano + (i * 7) % 300 AS start_time_unix_nano
        )
        FROM spans, range(1, 300) AS numbers(i)
        """
    )

    rows = store.ask("trace", trace_id=T1)

    assert [row["span_id"] for row in rows] == [f"n{number}" for number in range(300)]
    assert [row["detached"] for row in rows] == ["its own ancestor"] + [None] * 299


def test_two_runs_of_one_id_do_not_double_what_is_below_them(store: GoldenStore) -> None:
    store.add(T1, "same", start_ms=0)
    store.add(T1, "same", start_ms=1)
    store.add(T1, "child", "same", start_ms=2)

    assert tree(store.ask("trace", trace_id=T1)) == [
        (0, "same", None),
        (1, "child", None),
        (0, "same", None),
    ]


def test_a_long_chain_of_runs_is_shown_to_its_end(store: GoldenStore) -> None:
    store.add(T1, "n0")
    store.connection.execute(
        """
        INSERT INTO spans
        SELECT spans.* REPLACE ('n' || i AS span_id, 'n' || (i - 1) AS parent_span_id)
        FROM spans, range(1, 1001) AS numbers(i)
        """
    )

    rows = store.ask("trace", trace_id=T1)

    assert [row["depth"] for row in rows] == list(range(1001))


def test_last_is_the_trace_that_began_last(store: GoldenStore) -> None:
    store.add(T1, "long", start_ms=0)
    store.add(T1, "still-going", "long", start_ms=9_000)
    store.add(T2, "short", start_ms=5_000)

    assert spans(store.ask("trace")) == ["short"]
    assert spans(store.ask("trace", until="2026-11-30T10:00:05Z")) == ["long", "still-going"]


def test_last_finds_a_trace_whose_root_never_arrived(store: GoldenStore) -> None:
    store.add(T1, "root", start_ms=0)
    store.add(T2, "orphan", "never-sent", start_ms=1)

    assert spans(store.ask("trace")) == ["orphan"]


def test_last_of_a_service_is_its_newest_trace_with_all_services_in_it(store: GoldenStore) -> None:
    store.add(T1, "bank-root", service_name="bank", start_ms=0)
    store.add(T1, "remote", "bank-root", service_name="shop", start_ms=1)
    store.add(T2, "shop-root", service_name="shop", start_ms=5)

    assert spans(store.ask("trace", service="bank")) == ["bank-root", "remote"]


@pytest.mark.parametrize(
    "trace_id", ["abcd", "ABCD", "abcd0000-0000-0000-0000-000000000001", "abcd" + "0" * 27 + "1"]
)
def test_the_beginning_of_a_trace_id_is_enough(store: GoldenStore, trace_id: str) -> None:
    store.add("abcd" + "0" * 27 + "1", "wanted", start_ms=1)
    store.add("abce" + "0" * 27 + "1", "not-this", start_ms=2)

    assert spans(store.ask("trace", trace_id=trace_id)) == ["wanted"]


@pytest.mark.parametrize("trace_id", ["abc", ""])
def test_the_beginning_of_several_trace_ids_is_an_error(store: GoldenStore, trace_id: str) -> None:
    store.add("abcd" + "0" * 28, "one", start_ms=1)
    store.add("abce" + "0" * 28, "two", start_ms=2)

    with pytest.raises(duckdb.Error, match=f"trace_id '{trace_id}' is the beginning of several"):
        store.ask("trace", trace_id=trace_id)


@pytest.mark.parametrize("trace_id", ["ffff", "%", "' OR 1=1 --", "_" * 32])
def test_an_unknown_trace_id_has_no_rows(store: GoldenStore, trace_id: str) -> None:
    store.add(T1, "root")

    assert store.ask("trace", trace_id=trace_id) == []


def test_limit_cuts_the_tree_from_below(store: GoldenStore) -> None:
    store.add(T1, "root", start_ms=0)
    store.add(T1, "a", "root", start_ms=1)
    store.add(T1, "b", "root", start_ms=2)

    assert spans(store.ask("trace", limit="2")) == ["root", "a"]
