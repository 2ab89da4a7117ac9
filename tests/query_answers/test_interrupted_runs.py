"""Answers of interrupted-runs."""

import json
from typing import Any

import pytest

from golden_store import T1, T2, T3, T4, GoldenStore, Row, at, spans


def asked(store: GoldenStore, span: str, **columns: Any) -> None:
    """Add the run of a graph that waits for a human on thread 1, at checkpoint c1."""
    values: Row = {
        "trace": T1,
        "name": "flow",
        "run_name": "flow",
        "status": "interrupted",
        "session_id": "chat",
        "end_ms": 10,
        **columns,
    }
    facts = {
        "langgraph.thread_id": "1",
        "otelchain.interrupt.checkpoint_id": "c1",
        "otelchain.interrupt.kind": "pending",
        "otelchain.interrupt.value": '"Refund?"',
        **values.pop("facts", {}),
    }
    facts = {key: value for key, value in facts.items() if value is not None}
    store.add(values.pop("trace"), span, attributes=facts, **values)


def went_on(store: GoldenStore, span: str, **columns: Any) -> None:
    """Add a later run of the graph on thread 1."""
    values: Row = {"trace": T2, "name": "flow", "run_name": "flow", "session_id": "chat", **columns}
    values = {"start_ms": 60, "end_ms": 70, **values}
    facts = {"langgraph.thread_id": "1", **values.pop("facts", {})}
    store.add(values.pop("trace"), span, attributes=facts, **values)


RESUMES = {"otelchain.resume.checkpoint_id": "c1", "otelchain.input.kind": "Command"}


def test_a_run_that_nobody_resumed_waits(store: GoldenStore) -> None:
    asked(store, "asked")

    assert store.ask("interrupted-runs") == [
        {
            "trace_id": T1,
            "span_id": "asked",
            "name": "flow",
            "outcome": "waiting",
            "thread_id": "1",
            "waiting_thread_id": "1",
            "waiting_since": at(10),
            "kind": "pending",
            "question": '"Refund?"',
            "resumed_by_trace_id": None,
            "resumed_by_span_id": None,
            "resumed_status": None,
            "waited_ms": None,
            "start_time": at(0),
            "duration_ms": 10.0,
            "session_id": "chat",
            "service_name": "shop",
        }
    ]


def test_the_first_run_that_goes_on_from_the_checkpoint_is_the_answer(store: GoldenStore) -> None:
    asked(store, "asked")
    went_on(store, "second", trace=T3, start_ms=80, facts=RESUMES)
    went_on(store, "answer", status="error", facts=RESUMES)

    (row,) = store.ask("interrupted-runs")

    assert (row["outcome"], row["waiting_thread_id"]) == ("resumed", None)
    assert (row["resumed_by_trace_id"], row["resumed_by_span_id"]) == (T2, "answer")
    assert (row["resumed_status"], row["waited_ms"]) == ("error", 50.0)
    assert store.ask("interrupted-runs", waiting="true") == []


def test_a_linked_run_is_the_answer_whatever_ran_before_it(store: GoldenStore) -> None:
    asked(store, "asked")
    went_on(store, "other", facts={"otelchain.input.kind": "dict"})
    links = json.dumps([{"trace_id": T1, "span_id": "asked"}])
    went_on(store, "linked", trace=T3, start_ms=80, links=links)

    (row,) = store.ask("interrupted-runs")

    assert (row["outcome"], row["resumed_by_span_id"]) == ("resumed", "linked")


@pytest.mark.parametrize("kind", ["Command", "NoneType"])
def test_the_next_run_may_go_on_without_naming_a_checkpoint(kind: str, store: GoldenStore) -> None:
    asked(store, "asked")
    went_on(store, "next", facts={"otelchain.input.kind": kind})

    (row,) = store.ask("interrupted-runs")

    assert (row["outcome"], row["resumed_by_span_id"]) == ("resumed", "next")


def test_only_the_very_next_run_may_go_on_without_naming_a_checkpoint(store: GoldenStore) -> None:
    asked(store, "asked")
    went_on(store, "new-turn", facts={"otelchain.input.kind": "dict"})
    went_on(store, "later", trace=T3, start_ms=80, facts={"otelchain.input.kind": "Command"})

    (row,) = store.ask("interrupted-runs")

    assert (row["outcome"], row["resumed_by_span_id"]) == ("superseded", None)


def test_a_run_from_another_checkpoint_of_the_thread_neither_resumes_nor_supersedes(
    store: GoldenStore,
) -> None:
    asked(store, "asked")
    went_on(
        store, "fork", facts={"langgraph.checkpoint_id": "c0", "otelchain.input.kind": "Command"}
    )

    assert [row["outcome"] for row in store.ask("interrupted-runs")] == ["waiting"]


@pytest.mark.parametrize(
    "other",
    [
        {"facts": {**RESUMES, "langgraph.thread_id": "2"}},
        {"facts": RESUMES, "run_name": "other-flow"},
        {"facts": RESUMES, "start_ms": 5},  # before the question was asked
        {"facts": RESUMES, "langgraph_node": "subgraph"},
        {"facts": RESUMES, "dialect": "openinference"},
        {"facts": RESUMES, "kind": "tool"},
    ],
    ids=["thread", "graph", "before", "inside a node", "dialect", "type"],
)
def test_what_looks_like_an_answer_is_none(other: Row, store: GoldenStore) -> None:
    asked(store, "asked")
    went_on(store, "other", **other)

    assert [row["outcome"] for row in store.ask("interrupted-runs")] == ["waiting"]


@pytest.mark.parametrize(
    "other",
    [
        {"status": "error"},
        {"status": "cancelled"},
        {"status": "pending"},
        {"langgraph_node": "subgraph"},
        {"dialect": "openinference"},
        {"kind": "tool"},
        {"facts": {"langgraph.thread_id": None}},  # what cannot be resumed does not wait
    ],
    ids=["failed", "cancelled", "running", "inside a node", "dialect", "type", "no thread"],
)
def test_what_looks_like_a_waiting_run_is_none(other: Row, store: GoldenStore) -> None:
    asked(store, "asked", **other)

    assert store.ask("interrupted-runs") == []


def test_waiting_runs_are_found_behind_any_number_of_answered_ones(store: GoldenStore) -> None:
    agent = {"kind": "agent"}
    asked(store, "waiting", facts={"langgraph.thread_id": "2"}, **agent)
    asked(store, "answered", trace=T3, start_ms=20, end_ms=30, **agent)
    went_on(store, "answer", start_ms=40, facts=RESUMES, **agent)
    asked(store, "also-waiting", trace=T4, facts={"langgraph.thread_id": "3"}, **agent)

    assert spans(store.ask("interrupted-runs")) == ["answered", "waiting", "also-waiting"]
    assert spans(store.ask("interrupted-runs", limit="1")) == ["answered"]
    assert spans(store.ask("interrupted-runs", waiting="true", limit="1")) == ["waiting"]


def test_two_services_may_have_threads_and_graphs_of_the_same_names(store: GoldenStore) -> None:
    asked(store, "shop")
    asked(store, "bank", trace=T2, service_name="bank", start_ms=1)

    assert spans(store.ask("interrupted-runs", service="bank")) == ["bank"]
    assert spans(store.ask("interrupted-runs", trace_id=T1)) == ["shop"]
    assert spans(store.ask("interrupted-runs", since=at(1).isoformat())) == ["bank"]
    assert spans(store.ask("interrupted-runs", until=at(1).isoformat())) == ["shop"]
