"""Answers of agent-loops, retry-storms, fallbacks and differing-trajectories."""

import pytest

from golden_runs import graphs
from golden_store import T1, T2, T3, GoldenStore, at, spans


@pytest.fixture(name="store", scope="module")
def _store() -> GoldenStore:
    store = GoldenStore()
    graphs(store)
    return store


def test_graphs_near_their_recursion_limit_are_found(store: GoldenStore) -> None:
    rows = store.ask("agent-loops")

    assert rows[0] == {
        "trace_id": T1,
        "span_id": "near",
        "name": "agent",
        "kind": "near",
        "steps": 20,
        "status": "ok",
        "duration_ms": 900.0,
        "start_time": at(0),
        "session_id": "s1",
        "service_name": "loops",
    }
    assert [(row["span_id"], row["kind"], row["steps"]) for row in rows[1:]] == [
        ("stopped", "stopped", 3)
    ]


def test_the_recursion_limit_can_be_given(store: GoldenStore) -> None:
    assert spans(store.ask("agent-loops", recursion_limit="23")) == ["near", "few", "stopped"]
    assert spans(store.ask("agent-loops", recursion_limit="100")) == ["stopped"]


def test_a_graph_without_steps_that_was_stopped_is_found() -> None:
    store = GoldenStore()
    stopped = {"status": "error", "error_type": "langgraph.errors.GraphRecursionError"}
    store.add(T1, "root", name="agent", **stopped)
    store.add(T1, "inner", "root", name="node", start_ms=1, **stopped)

    assert [(row["span_id"], row["steps"]) for row in store.ask("agent-loops")] == [("root", None)]


def test_what_is_around_a_stopped_graph_was_not_stopped() -> None:
    store = GoldenStore()
    stopped = {"status": "error", "error_type": "langgraph.errors.GraphRecursionError"}
    step = {"langgraph_node": "model", "langgraph_step": 1}
    store.add(T1, "chain", "server", **stopped)
    store.add(T1, "graph", "chain", **stopped)
    store.add(T1, "task", "graph", name="model", **step)
    # Without steps it is the topmost, also below a parent that is not stored.
    store.add(T2, "top", "server", **stopped)
    store.add(T2, "below", "top", **stopped)
    # A graph that ended well is no stopped one, whatever is beside it.
    store.add(T3, "good")
    store.add(T3, "good-task", "good", name="model", **step)

    assert spans(store.ask("agent-loops")) == ["graph", "top"]


def test_what_looks_like_steps_of_a_graph_is_told_apart() -> None:
    store = GoldenStore()
    for trace, root, service in ((T1, "shop", "shop"), (T2, "bank", "bank")):
        store.add(trace, root, "a-chain", name="agent", service_name=service)
        for step in range(1, 21):
            task = {"name": "model", "langgraph_node": "model", "langgraph_step": step}
            store.add(trace, f"{root}-{step}", root, service_name=service, **task)
    # A run with the fields of another step that is not named like its node.
    inside = {"name": "call", "langgraph_node": "model", "langgraph_step": 90}
    store.add(T1, "inside", "shop", **inside)

    assert [(row["span_id"], row["steps"]) for row in store.ask("agent-loops")] == [
        ("shop", 20),
        ("bank", 20),
    ]
    assert spans(store.ask("agent-loops", service="bank")) == ["bank"]


def test_steps_that_were_tried_many_times_are_found(store: GoldenStore) -> None:
    rows = store.ask("retry-storms")

    assert [(row["span_id"], row["attempts"], row["last_status"]) for row in rows] == [
        ("attempt-3", 4, "error"),
        ("try-3", 3, "ok"),
    ]
    assert rows[1] == {
        "trace_id": T1,
        "span_id": "try-3",
        "name": "call",
        "attempts": 3,
        "failed_attempts": 2,
        "last_status": "ok",
        "lost_ms": 100.0,
        "start_time": at(100),
        "error_type": "builtins.TimeoutError",
        "parent_name": "RunnableRetry",
        "service_name": "tries",
    }


def test_numbered_attempts_of_a_graphs_task_are_counted_by_task() -> None:
    store = GoldenStore()
    store.add(T1, "graph", name="LangGraph")
    for task in ("fetch:1", "fetch:2"):
        for number in (1, 2, 3):
            store.add(
                T1,
                f"{task}-{number}",
                "graph",
                name="fetch",
                status="error" if number < 3 else "ok",
                retry_attempt=number if number > 1 else None,
                start_ms=number,
                langgraph_node="fetch",
                langgraph_step=1,
                langgraph_checkpoint_ns=task,
            )

    rows = store.ask("retry-storms")

    assert [(row["attempts"], row["failed_attempts"]) for row in rows] == [(3, 2), (3, 2)]


def test_how_many_attempts_make_a_storm_can_be_chosen(store: GoldenStore) -> None:
    assert spans(store.ask("retry-storms", min_attempts="4")) == ["attempt-3"]
    assert "twice-2" in spans(store.ask("retry-storms", min_attempts="2"))


def test_fallbacks_that_answered_for_their_first_choice_are_found(store: GoldenStore) -> None:
    named, alone, hasty, *others = store.ask("fallbacks")

    columns = ("span_id", "failed_name", "used_name", "failed_count")
    assert tuple(map(named.get, columns)) == ("named", "ask", "ChatAnthropic", 1)
    assert tuple(map(alone.get, columns)) == ("alone", None, "ChatAnthropic", 0)
    assert tuple(map(hasty.get, columns)) == ("hasty", "gpt-4o", "claude", 1)
    assert others == [
        {
            "trace_id": T1,
            "span_id": "used",
            "name": "RunnableWithFallbacks",
            "failed_name": "gpt-4o",
            "used_name": "claude",
            "failed_count": 1,
            "error_type": "openai.RateLimitError",
            "duration_ms": 89.0,
            "start_time": at(1),
            "service_name": "backup",
        }
    ]


def test_trajectories_other_than_the_usual_one_are_found(store: GoldenStore) -> None:
    rows = store.ask("differing-trajectories", service="ways")

    assert rows == [
        {
            "trace_id": "w5",
            "span_id": "w5-root",
            "name": "flow",
            "trajectory": "plan > end",
            "usual_trajectory": "plan > a+b > end",
            "traces": 2,
            "percent": 40.0,
            "failed_traces": 1,
            "complete": False,
            "newest_time": at(400),
            "service_name": "ways",
        },
        {
            "trace_id": "w4",
            "span_id": "w4-root",
            "name": "flow",
            "trajectory": "plan > (interrupted)",
            "usual_trajectory": "plan > a+b > end",
            "traces": 1,
            "percent": 20.0,
            "failed_traces": 0,
            "complete": True,
            "newest_time": at(300),
            "service_name": "ways",
        },
    ]


def test_a_graph_that_always_goes_one_way_does_not_differ(store: GoldenStore) -> None:
    assert store.ask("differing-trajectories", service="bank") == []


def test_two_graphs_of_one_trace_have_a_trajectory_each() -> None:
    store = GoldenStore()
    node = {"langgraph_step": 1, "langgraph_checkpoint_ns": "n"}
    for trace, root, name in ((T1, "r1", "a"), (T1, "r2", "b"), (T2, "r3", "a")):
        store.add(trace, root, name="flow")
        store.add(trace, f"{root}-node", root, name=name, langgraph_node=name, **node)
    store.add(T3, "no-graph", name="flow")

    rows = store.ask("differing-trajectories")

    assert [(row["span_id"], row["trajectory"], row["traces"]) for row in rows] == [("r2", "b", 1)]
