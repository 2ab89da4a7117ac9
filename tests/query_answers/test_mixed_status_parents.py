"""Answers of mixed-status-parents."""

from golden_store import T1, T2, GoldenStore, Row, at, spans


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


def test_a_numbered_attempt_of_another_step_makes_nothing_good(store: GoldenStore) -> None:
    store.add(T1, "graph", name="LangGraph")
    store.add(T1, "a1", "graph", status="error", start_ms=1, **graph_node("fetch", 1, "fetch:7"))
    store.add(T1, "b2", "graph", start_ms=2, retry_attempt=2, **graph_node("fetch", 2, "fetch:8"))

    (row,) = store.ask("mixed-status-parents")

    assert (row["kind"], row["failed_children"]) == ("mixed", ["fetch"])
    assert spans(store.ask("unseen-errors")) == ["a1"]


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
