"""Whatever key a rule names in ``attributes``, the handler applies it there."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from fakes import FakeModel, FinishedSpans
from otelchain import OtelCallbackHandler, Redactor
from otelchain.conformance.spans import texts
from otelchain.redaction.policy_rule import PolicyRule

MARK = "Zaphod"


def _policy(*globs: str) -> Redactor:
    rule = PolicyRule(name="mark", pattern=MARK, attributes=globs)
    return Redactor(preset="off", rules=[rule])


def _run(handler: OtelCallbackHandler) -> None:
    def fail(value: Any) -> Any:
        raise ValueError(f"no {MARK}")

    config: Any = {"callbacks": [handler], "run_name": MARK}
    FakeModel(messages=iter([AIMessage(MARK)])).invoke(f"a {MARK}", config)
    RunnableLambda(str).invoke(MARK, config)
    with pytest.raises(ValueError, match=MARK):
        RunnableLambda(fail).invoke({"a": MARK}, config)


def _places(spans: Any) -> set[str]:
    found = {key for span in spans for key, value in span.attributes.items() if MARK in repr(value)}
    found |= {"span.name" for span in spans if MARK in span.name}
    found |= {"status.message" for span in spans if MARK in (span.status.description or "")}
    return found


@pytest.mark.parametrize(
    "glob",
    ["input.value", "output.value", "llm.*", "status.message", "span.name", "otelchain.input"],
)
def test_a_rule_bound_to_an_attribute_takes_effect_there_and_only_there(
    glob: str, tracer_provider: Any, finished_spans: FinishedSpans, span_exporter: Any
) -> None:
    _run(OtelCallbackHandler(tracer_provider, redactor=Redactor(preset="off"), openinference=True))
    before = _places(finished_spans.all())
    meant = {key for key in before if key == glob or (glob == "llm.*" and key.startswith("llm."))}
    assert meant, before

    span_exporter.clear()
    _run(OtelCallbackHandler(tracer_provider, redactor=_policy(glob), openinference=True))
    after = _places(finished_spans.all())
    gone = {"input.value"} if glob == "otelchain.input" else set()  # which is made of it
    assert meant <= before - after <= meant | gone


def test_strict_names_the_size_of_a_value_and_not_of_what_was_taken_of_it(
    tracer_provider: Any, finished_spans: FinishedSpans
) -> None:
    handler = OtelCallbackHandler(tracer_provider, redactor=Redactor(preset="strict"))
    rows = [{"n": n, "text": "x" * 90} for n in range(4_000)]
    many = rows * 40
    for value in (rows, many, rows[:3]):
        RunnableLambda(len).invoke(value, {"callbacks": [handler]})

    told = [json.loads(span.attributes["otelchain.input"]) for span in finished_spans.all()]
    exact = len(json.dumps(rows, separators=(",", ":")))
    assert told[0] == f"[withheld: {exact} bytes]"
    about = int(told[1].removeprefix("[withheld: about ").removesuffix(" bytes]"))
    assert 0.5 < about / (40 * exact) < 2
    assert told[2] == f"[withheld: {len(json.dumps(rows[:3], separators=(',', ':')))} bytes]"
    assert "sha256" not in repr([list(texts(span)) for span in finished_spans.all()])


def test_strict_hashes_a_large_value_where_there_is_a_key(
    tracer_provider: Any, finished_spans: FinishedSpans
) -> None:
    redactor = Redactor(preset="strict", hash_key="k" * 32)
    handler = OtelCallbackHandler(tracer_provider, redactor=redactor)
    for last in (1, 1, 2):
        value = [*(["x" * 90] * 4_000), last]
        RunnableLambda(len).invoke(value, {"callbacks": [handler]})

    one, same, other = [span.attributes["otelchain.input"] for span in finished_spans.all()]
    assert one == same != other
    assert redactor.text(json.loads(one)) == json.loads(one)


def test_a_withheld_size_is_left_alone_by_a_second_pass() -> None:
    for text in ("[withheld: 12 bytes]", "[withheld: about 1234567890 bytes]"):
        assert Redactor(patterns={"digits": "[0-9]+"}).text(text) == text


def test_findings_in_the_shape_of_a_graph_are_counted_for_every_run(
    tracer_provider: Any, finished_spans: FinishedSpans
) -> None:
    graphs = pytest.importorskip("langgraph.graph")
    graph = graphs.StateGraph(dict)
    graph.add_node("ask dana.reyes@example.com", lambda state: state)
    graph.add_edge(graphs.START, "ask dana.reyes@example.com")
    app = graph.compile()
    handler = OtelCallbackHandler(tracer_provider)
    counts = []
    for _ in range(3):
        app.invoke({"a": 1}, {"callbacks": [handler]})
        counts.append(handler.stats().redacted["email"])

    assert counts == [counts[0], 2 * counts[0], 3 * counts[0]]
    assert "dana" not in repr([span.to_json() for span in finished_spans.all()])


def test_lists_of_texts_count_in_the_budget_of_a_span(
    tracer_provider: Any, finished_spans: FinishedSpans, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = pytest.importorskip("langgraph.graph")
    monkeypatch.setenv("OTELCHAIN_MAX_SPAN_BYTES", "1000")
    graph = graphs.StateGraph(dict)
    for number in range(50):
        graph.add_node(f"{number}-{'n' * 40}", lambda state: state)
    graph.add_edge(graphs.START, f"0-{'n' * 40}")
    graph.compile().invoke({"a": 1}, {"callbacks": [OtelCallbackHandler(tracer_provider)]})

    root = next(span for span in finished_spans.all() if span.parent is None)
    (named,) = root.attributes["otelchain.graph.nodes"]
    assert named.startswith("[over the span's budget: ")
    assert root.attributes["otelchain.graph.nodes.truncated"] is True
    assert root.attributes["otelchain.graph.node_count"] == 50
