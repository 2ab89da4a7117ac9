"""Verdicts of deepagents' RubricMiddleware on spans, also where no content is kept."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from opentelemetry.sdk.trace import TracerProvider

from fakes import FakeModel, FinishedSpans
from otelchain import OtelCallbackHandler

# What the two hooks of deepagents 0.7.32 returned in a run of two rounds, recorded.
GRADING_RUN = "7fa0c1de-52a3-4f0e-9e1f-3f8f3a1f8a11"
FIRST_ROUND = {
    "grading_run_id": GRADING_RUN,
    "iteration": 0,
    "result": "needs_revision",
    "explanation": "no greeting to ann@example.com",
    "criteria": [
        {"name": "greets the customer", "passed": False, "gap": "write to ann@example.com"},
        {"name": "is short", "passed": True},
    ],
    "unverified": False,
}
SECOND_ROUND = {
    "grading_run_id": GRADING_RUN,
    "iteration": 1,
    "result": "max_iterations_reached",
    "explanation": "fine",
    "criteria": [
        {"name": "greets the customer", "passed": True},
        {"name": "is short", "passed": True},
    ],
    "unverified": True,
}
BEFORE_AGENT: dict[str, Any] = {
    "_rubric_iterations": 0,
    "_rubric_status": None,
    "_current_grading_run_id": GRADING_RUN,
    "_active_rubric": "- greets the customer\n- is short",
    "_rubric_criteria": [],
}
# printf -- '- greets the customer\n- is short' | sha256sum
RUBRIC_SHA256 = "c6717875e446418ff0555c38c83a8966ef2e81bc632d6bab890a3916d84eddc7"


def after_agent(*evaluations: Any, status: str) -> dict[str, Any]:
    return {
        "_rubric_evaluations": list(evaluations),
        "_rubric_iterations": len(evaluations),
        "_rubric_status": status,
    }


@pytest.fixture(name="silent")
def _silent(tracer_provider: TracerProvider) -> OtelCallbackHandler:
    return OtelCallbackHandler(tracer_provider, capture_content=False)


def rubric_facts(
    handler: OtelCallbackHandler, spans: FinishedSpans, outputs: Any
) -> dict[str, Any]:
    hook = RunnableLambda(lambda _: outputs).with_config(run_name="RubricMiddleware.after_agent")
    hook.invoke({}, {"callbacks": [handler]})
    attributes = spans()["RubricMiddleware.after_agent"].attributes or {}
    return {
        key.removeprefix("otelchain.rubric."): value
        for key, value in attributes.items()
        if key.startswith("otelchain.rubric.")
    }


def test_a_verdict_is_recorded_without_content(
    silent: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    found = rubric_facts(silent, finished_spans, after_agent(FIRST_ROUND, status="needs_revision"))

    assert found == {
        "grading_run_id": GRADING_RUN,
        "iteration": 0,
        "result": "needs_revision",
        "status": "needs_revision",
        "unverified": False,
        "criteria_total": 2,
        "criteria_passed": 1,
    }
    assert "customer" not in finished_spans()["RubricMiddleware.after_agent"].to_json()


def test_of_a_history_that_grows_only_the_newest_verdict_is_this_runs(
    silent: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    found = rubric_facts(
        silent,
        finished_spans,
        after_agent(FIRST_ROUND, SECOND_ROUND, status="max_iterations_reached"),
    )

    assert found == {
        "grading_run_id": GRADING_RUN,
        "iteration": 1,
        "result": "max_iterations_reached",
        "status": "max_iterations_reached",
        "unverified": True,
        "criteria_total": 2,
        "criteria_passed": 2,
    }


def test_the_loops_own_word_is_kept_beside_the_graders(
    silent: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    # deepagents 0.6.5: a used-up budget is known to the status only.
    found = rubric_facts(
        silent, finished_spans, after_agent(FIRST_ROUND, status="max_iterations_reached")
    )

    assert (found["result"], found["status"]) == ("needs_revision", "max_iterations_reached")


def test_with_content_the_reasons_are_recorded_and_redacted(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    found = rubric_facts(handler, finished_spans, after_agent(FIRST_ROUND, status="needs_revision"))

    assert found["explanation"] == "no greeting to [REDACTED:email]"
    assert json.loads(found["criteria"]) == [
        {"name": "greets the customer", "passed": False, "gap": "write to [REDACTED:email]"},
        {"name": "is short", "passed": True},
    ]
    assert "ann@example.com" not in finished_spans()["RubricMiddleware.after_agent"].to_json()


def test_the_start_of_a_grading_run_names_it_and_its_rubric(
    silent: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    found = rubric_facts(silent, finished_spans, BEFORE_AGENT)

    assert found == {"grading_run_id": GRADING_RUN, "sha256": RUBRIC_SHA256}


def test_a_grader_that_failed_is_a_verdict_without_criteria(
    silent: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    failed = {
        **FIRST_ROUND,
        "result": "grader_error",
        "criteria": [],
        "explanation": "Grader raised",
    }
    found = rubric_facts(silent, finished_spans, after_agent(failed, status="grader_error"))

    assert (found["result"], found["criteria_total"], found["criteria_passed"]) == (
        "grader_error",
        0,
        0,
    )


@pytest.mark.parametrize(
    "outputs",
    [
        None,
        {},
        {"messages": []},
        "_rubric_evaluations",
        {"_rubric_evaluations": []},
        {"_rubric_evaluations": None},
        {"_rubric_evaluations": "text"},
        {"_rubric_evaluations": [7]},
        {"_rubric_evaluations": [{}]},
        {"_rubric_evaluations": [{"iteration": "0", "criteria": "x", "result": 3}]},
        {"_current_grading_run_id": None},
    ],
)
def test_what_is_no_verdict_gives_nothing_and_loses_nothing(
    outputs: Any, handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    assert rubric_facts(handler, finished_spans, outputs) == {}
    assert handler.stats().failed == 0


# --- the real middleware -------------------------------------------------------------------------


class ToolModel(FakeModel):
    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def graded(result: str, *criteria: dict[str, Any]) -> AIMessage:
    arguments = {"result": result, "explanation": "because", "criteria": list(criteria)}
    call = {"name": "GraderResponse", "args": arguments, "id": "g1"}
    return AIMessage("", tool_calls=[call])  # type: ignore[list-item]


@pytest.mark.filterwarnings("ignore:The middleware `RubricMiddleware` is in beta")
def test_the_real_middleware_leaves_its_verdicts_without_content(
    silent: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    rubric = pytest.importorskip("deepagents.middleware.rubric")
    agents = pytest.importorskip("langchain.agents")
    failed = {"name": "secret criterion", "passed": False, "gap": "secret gap"}
    grader = ToolModel(
        messages=iter(
            [
                graded("needs_revision", failed),
                graded("satisfied", {"name": "secret criterion", "passed": True}),
            ]
        )
    )
    worker = ToolModel(messages=iter([AIMessage("draft"), AIMessage("final")]))
    agent = agents.create_agent(worker, middleware=[rubric.RubricMiddleware(model=grader)])
    agent.invoke(
        {"messages": [("user", "hi")], "rubric": "- secret criterion"}, {"callbacks": [silent]}
    )

    verdicts = [
        dict(span.attributes or {})
        for span in finished_spans.all()
        if "otelchain.rubric.result" in (span.attributes or {})
    ]
    assert [
        (
            verdict["otelchain.run.name"],
            verdict["otelchain.rubric.iteration"],
            verdict["otelchain.rubric.result"],
            verdict["otelchain.rubric.status"],
            verdict["otelchain.rubric.criteria_total"],
            verdict["otelchain.rubric.criteria_passed"],
        )
        for verdict in verdicts
    ] == [
        ("RubricMiddleware.after_agent", 0, "needs_revision", "needs_revision", 1, 0),
        ("RubricMiddleware.after_agent", 1, "satisfied", "satisfied", 1, 1),
    ]
    (opened,) = [
        dict(span.attributes or {})
        for span in finished_spans.all()
        if "otelchain.rubric.sha256" in (span.attributes or {})
    ]
    assert {verdict["otelchain.rubric.grading_run_id"] for verdict in verdicts} == {
        opened["otelchain.rubric.grading_run_id"]
    }
    assert not any("secret" in span.to_json() for span in finished_spans.all())
