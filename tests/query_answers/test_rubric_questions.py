"""Answers of rubric-verdicts and rubric-criteria."""

import pytest

from golden_runs import rubrics
from golden_store import T1, GoldenStore, at, spans


@pytest.fixture(name="store", scope="module")
def _store() -> GoldenStore:
    store = GoldenStore()
    rubrics(store)
    return store


def test_each_grading_run_has_its_last_verdict(store: GoldenStore) -> None:
    rows = store.ask("rubric-verdicts")

    assert [(row["span_id"], row["verdict"], row["trouble"]) for row in rows] == [
        ("e3", "satisfied", None),
        ("e2", "max_iterations_reached", "max_iterations_reached"),
    ]
    assert rows[1] == {
        "trace_id": T1,
        "span_id": "e2",
        "name": "writer",
        "evaluations": 2,
        "verdict": "max_iterations_reached",
        "loop_status": "max_iterations_reached",
        "criteria_passed": 2,
        "criteria_total": 3,
        "unverified": False,
        "trouble": "max_iterations_reached",
        "grading_run_id": "g1",
        "newest_time": at(2),
        "service_name": "shop",
    }


def test_criteria_come_with_those_that_failed_most_first(store: GoldenStore) -> None:
    assert store.ask("rubric-criteria") == [
        {
            "trace_id": T1,
            "span_id": "e2",
            "name": "short",
            "evaluations": 3,
            "failed": 2,
            "failed_percent": pytest.approx(200 / 3),
            "newest_failure_time": at(2),
            "service_name": "shop",
        },
        {
            "trace_id": T1,
            "span_id": "e1",
            "name": "true",
            "evaluations": 2,
            "failed": 1,
            "failed_percent": 50.0,
            "newest_failure_time": at(1),
            "service_name": "shop",
        },
    ]


def test_only_the_newest_evaluations_are_looked_at(store: GoldenStore) -> None:
    assert spans(store.ask("rubric-verdicts", examine="1")) == ["e3"]
    assert store.ask("rubric-criteria", examine="1") == []


def test_criteria_that_were_cut_off_or_not_recorded_are_left_out() -> None:
    store = GoldenStore()
    for number, text in enumerate(('[{"name": "a", "pas', None, "{}", "[1]")):
        store.add(
            T1,
            f"e{number}",
            rubric_result="failed",
            attributes={"otelchain.rubric.criteria": text},
        )

    assert store.ask("rubric-criteria") == []
    assert len(store.ask("rubric-verdicts")) == 4
