"""Traces whose topmost run has a parent that is not here: a server's span, LangSmith's phantom."""

import pytest

from golden_store import T1, T2, T3, T4, GoldenStore, at


@pytest.fixture(name="store")
def _store() -> GoldenStore:
    """Two traces below a parent that is not stored, and two below a server's span that is."""
    store = GoldenStore()
    store.add(T3, "server-3", name="POST /ask", kind=None, status="ok", dialect="other")
    store.add(T4, "server-4", name="POST /ask", kind=None, status="error", dialect="other")
    for trace, parent, status in (
        (T1, "elsewhere", "ok"),
        (T2, "elsewhere", "error"),
        (T3, "server-3", "ok"),
        (T4, "server-4", "error"),
    ):
        number = int(trace[0])
        start_ms = 100 * number
        chat = {"session_id": f"chat-{number}"}
        store.add(trace, f"{number}", parent, name="ask", status=status, start_ms=start_ms, **chat)
        store.add(
            trace,
            f"{number}-docs",
            f"{number}",
            name="docs",
            kind="retriever",
            start_ms=start_ms + 1,
            document_count=0,
        )
        store.add(
            trace,
            f"{number}-search",
            f"{number}",
            name="search",
            kind="tool",
            status="error",
            error_type="TimeoutError",
            start_ms=start_ms + 2,
        )
    return store


def test_first_causes_count_the_traces_that_failed(store: GoldenStore) -> None:
    (row,) = store.ask("first-causes")

    assert (row["name"], row["errors"], row["failed_traces"]) == ("search", 4, 2)


def test_errors_are_unseen_where_the_trace_ended_well(store: GoldenStore) -> None:
    (row,) = store.ask("unseen-errors")

    assert (row["name"], row["traces"], row["newest_time"]) == ("search", 2, at(302))


def test_an_answer_without_documents_was_given(store: GoldenStore) -> None:
    (row,) = store.ask("empty-retrievals")

    assert (row["empty_calls"], row["answered_calls"]) == (4, 2)


def test_turns_of_a_session_have_failed(store: GoldenStore) -> None:
    # The server's span carries no session.
    rows = store.ask("sessions-with-errors")

    assert [(row["session_id"], row["failed_turns"]) for row in rows] == [
        ("chat-2", 1),
        ("chat-4", 1),
    ]


def test_an_orphan_is_no_root_beside_one() -> None:
    store = GoldenStore()
    store.add(T1, "orphan", "lost", name="step", status="error", start_ms=0, document_count=0)
    store.add(T1, "root", name="ask", start_ms=1, session_id="chat")
    store.add(T1, "late", "lost", kind="retriever", start_ms=2, document_count=0)

    (cause,) = store.ask("first-causes")
    (empty,) = store.ask("empty-retrievals")

    assert (cause["span_id"], cause["failed_traces"]) == ("orphan", 0)
    assert empty["answered_calls"] == 1
    assert [row["span_id"] for row in store.ask("unseen-errors")] == ["orphan"]


def test_a_rubrics_run_is_named_by_the_topmost_run_of_its_trace() -> None:
    store = GoldenStore()
    grade = {"rubric_result": "satisfied", "name": "after_agent"}
    store.add(T1, "writer", "elsewhere", name="writer")
    store.add(T1, "grade", "writer", start_ms=1, **grade)
    store.add(T2, "root", name="poet", start_ms=1)
    store.add(T2, "early", "lost", name="orphan", start_ms=0)
    store.add(T2, "grade-2", "root", start_ms=2, **grade)

    assert [row["name"] for row in store.ask("rubric-verdicts")] == ["poet", "writer"]


def test_graphs_below_a_span_of_a_server_go_their_ways_too() -> None:
    store = GoldenStore()
    ways = {"1": "a", "2": "a", "3": "b"}
    for number, name in ways.items():
        task = {"langgraph_node": name, "langgraph_step": 1, "langgraph_checkpoint_ns": "n"}
        store.add(number * 32, "graph", "server" if number == "3" else "elsewhere", name="flow")
        store.add(number * 32, "task", "graph", name=name, **task)
        # A graph inside a node is a part of the way.
        store.add(number * 32, "inner", "task", **{**task, "name": "flow"})
        store.add(number * 32, "inner-task", "inner", **{**task, "name": number})
    store.add(T3, "server", name="POST /ask", dialect="other")

    (row,) = store.ask("differing-trajectories")

    assert (row["trace_id"], row["trajectory"], row["usual_trajectory"]) == (T3, "b", "a")
