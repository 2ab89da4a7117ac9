"""What no callback tells: the shape of a graph, where a node sends it, which fallback answered."""

import asyncio
import json
import logging
import operator
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Literal

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from typing_extensions import TypedDict

from fakes import FakeModel, FakeRetriever, FinishedSpans
from otelchain import OtelCallbackHandler, graph_facts
from otelchain.content import ContentGate
from otelchain.redaction import Redactor

Invoke = Callable[[Runnable[Any, Any], Any, Any], Any]


def invoke(app: Runnable[Any, Any], value: Any, config: Any) -> Any:
    return app.invoke(value, config)


def ainvoke(app: Runnable[Any, Any], value: Any, config: Any) -> Any:
    return asyncio.run(app.ainvoke(value, config))


def stream(app: Runnable[Any, Any], value: Any, config: Any) -> Any:
    return list(app.stream(value, config))


def astream(app: Runnable[Any, Any], value: Any, config: Any) -> Any:
    async def read() -> list[Any]:
        return [chunk async for chunk in app.astream(value, config)]

    return asyncio.run(read())


def batch(app: Runnable[Any, Any], value: Any, config: Any) -> Any:
    return app.batch([value], config)[0]


WAYS = [invoke, stream, astream, batch]
if sys.version_info >= (3, 11):  # before, LangChain cannot call an async step in a context
    WAYS.append(ainvoke)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def named(spans: FinishedSpans, name: str) -> list[dict[str, Any]]:
    return [attributes(span) for span in spans.all() if spans.run_name(span) == name]


class State(TypedDict):
    seen: Annotated[list[str], operator.add]


def note(name: str) -> Callable[[Any], Any]:
    return lambda state: {"seen": [name]}


def routed_graph() -> Any:
    """plan → (act, Send check) by Command; act and check join in merge; a branch ends it."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command, Send

    def plan(state: State) -> Command[Literal["act", "check"]]:
        return Command(update={"seen": ["plan"]}, goto=["act", Send("check", {"seen": []})])

    def more(state: State) -> Any:
        return [Send("last", {"seen": []})]

    graph = StateGraph(State)
    graph.add_node("plan", plan)
    for name in ("act", "check", "merge", "last"):
        graph.add_node(name, note(name))
    graph.add_edge(START, "plan")
    graph.add_edge(["act", "check"], "merge")
    graph.add_conditional_edges("merge", more, ["last"])
    graph.add_conditional_edges("last", lambda state: END)
    return graph.compile()


@pytest.mark.parametrize("call", [invoke, ainvoke, stream, astream, batch])
def test_the_run_of_a_graph_tells_its_shape(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, call: Invoke
) -> None:
    pytest.importorskip("langgraph")

    call(routed_graph(), {"seen": []}, {"callbacks": [handler]})

    (graph,) = named(finished_spans, "LangGraph")
    assert graph["otelchain.graph.nodes"] == ("plan", "act", "check", "merge", "last")
    assert graph["otelchain.graph.node_count"] == 5
    assert graph["otelchain.graph.edge_count"] == 7
    assert json.loads(graph["otelchain.graph.edges"]) == [
        ["__start__", "plan", "edge"],
        ["act", "merge", "join"],
        ["check", "merge", "join"],
        ["last", None, "branch"],
        ["merge", "last", "branch"],
        ["plan", "act", "command"],
        ["plan", "check", "command"],
    ]
    assert len(graph["otelchain.graph.sha256"]) == 64
    others = [span for span in finished_spans.all() if finished_spans.run_name(span) != "LangGraph"]
    assert not any("otelchain.graph.nodes" in attributes(span) for span in others)


def test_a_graph_inside_a_node_tells_its_own_shape(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    pytest.importorskip("langgraph")
    from langgraph.graph import START, StateGraph

    def graph_of(name: str, node: Any) -> Any:
        graph = StateGraph(State)
        graph.add_node(name, node)
        graph.add_edge(START, name)
        return graph

    inner = graph_of("inside", note("inside")).compile(name="inner")
    graph_of("outside", inner).compile(name="outer").invoke({"seen": []}, {"callbacks": [handler]})

    (inner_run,), (outer_run,) = named(finished_spans, "inner"), named(finished_spans, "outer")
    assert inner_run["otelchain.graph.nodes"] == ("inside",)
    assert outer_run["otelchain.graph.nodes"] == ("outside",)
    assert inner_run["otelchain.graph.sha256"] != outer_run["otelchain.graph.sha256"]


def test_a_functional_graph_has_nodes_but_no_edges(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    pytest.importorskip("langgraph")
    from langgraph.func import entrypoint

    @entrypoint()
    def work(value: int) -> int:
        return value + 1

    assert work.invoke(1, {"callbacks": [handler]}) == 2

    graph = next(
        found for found in map(attributes, finished_spans.all()) if "otelchain.graph.nodes" in found
    )
    assert graph["otelchain.graph.nodes"] == ("work",)
    assert "otelchain.graph.edges" not in graph


def test_the_shape_of_a_compiled_graph_is_read_once(
    handler: OtelCallbackHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("langgraph")
    read: list[Any] = []
    shape = graph_facts.shape
    monkeypatch.setattr(graph_facts, "shape", lambda *args: read.append(1) or shape(*args))
    app = routed_graph()

    for _ in range(3):
        app.invoke({"seen": []}, {"callbacks": [handler]})

    assert read == [1]


def test_a_large_graph_is_counted_whole_and_listed_in_part() -> None:
    pytest.importorskip("langgraph")
    from langgraph.graph import START, StateGraph

    graph = StateGraph(State)
    graph.add_node("n0", note("n"))
    graph.add_edge(START, "n0")
    for number in range(1, 300):
        graph.add_node(f"n{number}", note("n"))
        graph.add_edge(f"n{number - 1}", f"n{number}")
    gate = ContentGate(Redactor(), capture=True, max_value_bytes=131_072)

    shape = graph_facts.shape(gate, graph.compile())

    assert shape["otelchain.graph.node_count"] == shape["otelchain.graph.edge_count"] == 300
    assert len(shape["otelchain.graph.nodes"]) == 128  # type: ignore[arg-type]
    assert len(json.loads(str(shape["otelchain.graph.edges"]))) == 256


def test_names_of_nodes_pass_the_redactor(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    pytest.importorskip("langgraph")
    from langgraph.graph import START, StateGraph
    from langgraph.types import Command

    secret = "ann.smith@example.com"
    graph = StateGraph(State)
    graph.add_node("first", lambda state: Command(goto=secret))
    graph.add_node(secret, note("second"))
    graph.add_edge(START, "first")

    graph.compile().invoke({"seen": []}, {"callbacks": [handler]})

    (run,), (first,) = named(finished_spans, "LangGraph"), named(finished_spans, "first")
    assert run["otelchain.graph.node_count"] == 2
    facts = json.dumps([run["otelchain.graph.nodes"], first["otelchain.command.goto"]])
    assert secret not in facts
    assert "REDACTED" in facts


@pytest.mark.parametrize("capture", [True, False])
@pytest.mark.parametrize("call", [invoke, ainvoke])
def test_a_node_says_where_it_sends_the_graph(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans, call: Invoke, capture: bool
) -> None:
    pytest.importorskip("langgraph")
    handler = OtelCallbackHandler(tracer_provider, capture_content=capture)

    call(routed_graph(), {"seen": []}, {"callbacks": [handler]})

    assert named(finished_spans, "plan")[0]["otelchain.command.goto"] == ("act", "check")
    assert named(finished_spans, "more")[0]["otelchain.command.goto"] == ("last",)
    assert "otelchain.command.goto" not in named(finished_spans, "act")[0]


def test_a_command_for_the_parent_graph_says_so(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    pytest.importorskip("langgraph")
    from langgraph.graph import START, StateGraph
    from langgraph.types import Command

    inner = StateGraph(State)
    inner.add_node("leave", lambda state: Command(goto="after", graph=Command.PARENT))
    inner.add_edge(START, "leave")
    outer = StateGraph(State)
    outer.add_node("inner", inner.compile())
    outer.add_node("after", note("after"))
    outer.add_edge(START, "inner")

    outer.compile().invoke({"seen": []}, {"callbacks": [handler]})

    (leave,) = named(finished_spans, "leave")
    assert leave["otelchain.command.goto"] == ("after",)
    assert leave["otelchain.command.graph"] == "__parent__"
    assert leave["otelchain.run.status"] == "ok"


def test_many_targets_are_bounded() -> None:
    types = pytest.importorskip("langgraph.types")
    gate = ContentGate(Redactor(), capture=True, max_value_bytes=131_072)

    found = graph_facts.goto(gate, [types.Send("n", 0)] * 200)

    assert len(found["otelchain.command.goto"]) == 128  # type: ignore[arg-type]
    assert found["otelchain.command.goto.truncated"] is True
    assert graph_facts.goto(gate, {"x": types.Send("n", 0)}) == {}


@pytest.mark.parametrize("call", [invoke, ainvoke])
def test_a_node_that_is_tried_again_says_which_try_it_is(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, call: Invoke
) -> None:
    pytest.importorskip("langgraph")
    from langgraph.graph import START, StateGraph
    from langgraph.types import RetryPolicy

    tries: list[int] = []

    def unsteady(state: State) -> Any:
        tries.append(1)
        RunnableLambda(lambda value: value, name="below").invoke(1)
        if len(tries) % 3:
            raise ConnectionError("not now")
        return {"seen": ["unsteady"]}

    graph = StateGraph(State)
    policy = RetryPolicy(initial_interval=0.001, max_attempts=3)
    graph.add_node("unsteady", unsteady, retry_policy=policy)
    graph.add_node("again", unsteady, retry_policy=policy)
    graph.add_edge(START, "unsteady")
    graph.add_edge("unsteady", "again")

    call(graph.compile(), {"seen": []}, {"callbacks": [handler]})

    for name in ("unsteady", "again"):
        attempts = [run.get("otelchain.retry.attempt") for run in named(finished_spans, name)]
        assert attempts == [None, 2, 3]
    assert not any("otelchain.retry.attempt" in run for run in named(finished_spans, "below"))


@pytest.mark.parametrize("call", [invoke, ainvoke])
def test_what_runs_after_a_failure_inside_a_node_is_no_second_try(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, call: Invoke
) -> None:
    pytest.importorskip("langgraph")
    from langgraph.graph import START, StateGraph

    def careful(state: State, config: RunnableConfig) -> Any:
        with suppress(ConnectionError):
            failing("first").invoke(1, config)
        answering("spare").invoke(1, config)
        return {"seen": ["careful"]}

    graph = StateGraph(State)
    graph.add_node("careful", careful)
    graph.add_edge(START, "careful")
    call(graph.compile(), {"seen": []}, {"callbacks": [handler]})

    runs = [*named(finished_spans, "first"), *named(finished_spans, "spare")]
    assert [run["otelchain.run.status"] for run in runs] == ["error", "ok"]
    assert not any("otelchain.retry.attempt" in run for run in runs)


def failing(name: str) -> Runnable[Any, Any]:
    def fail(value: Any) -> Any:
        raise ConnectionError(name)

    return RunnableLambda(fail, name=name)


def answering(name: str) -> Runnable[Any, Any]:
    return RunnableLambda(lambda value: value, name=name)


@pytest.mark.parametrize("call", WAYS)
@pytest.mark.parametrize("name", [None, "careful"])
def test_the_alternative_that_answered_is_named_whatever_the_run_is_called(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, call: Invoke, name: str | None
) -> None:
    chain = failing("first").with_fallbacks([failing("second"), answering("third")])

    call(chain, 1, {"callbacks": [handler], "run_name": name} if name else {"callbacks": [handler]})

    (run,) = [found for found in map(attributes, finished_spans.all()) if is_fallback(found)]
    assert run["otelchain.run.name"] == (name or "RunnableWithFallbacks")
    assert run["otelchain.fallback.used"] is True
    assert run["otelchain.fallback.index"] == 2
    assert run["otelchain.fallback.name"] == "third"


@pytest.mark.parametrize("call", WAYS)
@pytest.mark.parametrize("depth", [0, 1])
def test_alternatives_hang_under_the_run_that_tries_them(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, call: Invoke, depth: int
) -> None:
    inner = failing("first").with_fallbacks([answering("second")])
    chain = inner if depth == 0 else failing("outer first").with_fallbacks([inner])
    below = RunnableLambda(lambda value: answering("below").invoke(value), name="last")

    call(chain | below, 1, {"callbacks": [handler]})

    spans = finished_spans.all()
    ids = {span.context.span_id: attributes(span)["otelchain.run.name"] for span in spans}  # type: ignore[union-attr]
    parents = {
        attributes(span)["otelchain.run.name"]: ids[span.parent.span_id]
        for span in spans
        if span.parent
    }
    assert parents["first"] == parents["second"] == "RunnableWithFallbacks"
    assert parents["last"] == "RunnableSequence"
    assert parents["below"] == "last"
    assert sum(span.parent is None for span in spans) == 1
    if depth:
        assert parents["outer first"] == "RunnableWithFallbacks"
        (outer, inner_run) = sorted(
            (span for span in spans if is_fallback(attributes(span))),
            key=lambda span: span.start_time or 0,
        )
        assert inner_run.parent == outer.context


class Bare(Runnable[Any, Any]):
    """An alternative that is no run, and starts one below a step of its choice."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        return answering("placed").invoke(input, self.config)


def test_a_run_that_an_alternative_starts_elsewhere_stays_there(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    def outer(value: Any, config: Any) -> Any:
        below = Bare(config).with_fallbacks([answering("second")])
        return RunnableLambda(lambda _: below.invoke(value), name="between").invoke(value)

    RunnableLambda(outer, name="outer").invoke(1, {"callbacks": [handler]})

    spans = finished_spans()
    assert spans["placed"].parent == spans["outer"].context
    assert not is_fallback(attributes(spans["RunnableWithFallbacks"]))  # none was seen tried
    assert handler._recorder.runs.open_fallbacks == 0


def is_fallback(found: dict[str, Any]) -> bool:
    return "otelchain.fallback.used" in found


@pytest.mark.parametrize("call", WAYS)
def test_where_the_first_answers_no_fallback_was_used(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, call: Invoke
) -> None:
    chain = answering("first").with_fallbacks([answering("second")])

    call(chain, 1, {"callbacks": [handler]})

    (run,) = [found for found in map(attributes, finished_spans.all()) if is_fallback(found)]
    assert run["otelchain.fallback.used"] is False
    assert run["otelchain.fallback.index"] == 0
    assert run["otelchain.fallback.name"] == "first"


@pytest.mark.parametrize("call", WAYS)
def test_where_all_fail_a_fallback_was_used_and_none_is_named(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans, call: Invoke
) -> None:
    chain = failing("first").with_fallbacks([failing("second")])

    with pytest.raises(ConnectionError):
        call(chain, 1, {"callbacks": [handler]})

    (run,) = [found for found in map(attributes, finished_spans.all()) if is_fallback(found)]
    assert run["otelchain.fallback.used"] is True
    assert "otelchain.fallback.index" not in run


def test_an_error_that_is_not_handled_uses_no_fallback(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    chain = failing("first").with_fallbacks(
        [answering("second")], exceptions_to_handle=(ValueError,)
    )

    with pytest.raises(ConnectionError):
        chain.invoke(1, {"callbacks": [handler]})

    (run,) = [found for found in map(attributes, finished_spans.all()) if is_fallback(found)]
    assert run["otelchain.fallback.used"] is False


def test_items_of_a_batch_are_told_apart(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    def odd(value: int) -> int:
        if value % 2 == 0:
            raise ValueError
        return value

    chain = RunnableLambda(odd, name="odd").with_fallbacks([answering("even")])

    chain.batch([1, 2, 3], {"callbacks": [handler]})

    runs = [found for found in map(attributes, finished_spans.all()) if is_fallback(found)]
    names = {found["otelchain.input"]: found["otelchain.fallback.name"] for found in runs}
    assert names == {'{"input":1}': "odd", '{"input":2}': "even", '{"input":3}': "odd"}


def test_a_model_behind_another_model_is_named(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    first = FakeModel(messages=iter(()))  # has no answer and raises
    chain = first.with_fallbacks([FakeModel(messages=iter([AIMessage("yes")]))])

    with pytest.raises((StopIteration, RuntimeError)):
        FakeModel(messages=iter(())).invoke("x")
    chain.invoke("x", {"callbacks": [handler]})

    (run,) = [found for found in map(attributes, finished_spans.all()) if is_fallback(found)]
    assert run["otelchain.fallback.name"] == "FakeModel"
    assert run["otelchain.fallback.index"] == 1


def test_a_try_of_with_retry_and_a_fallback_after_it_are_both_told(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    retriever = FakeRetriever(error=ConnectionError("no"))
    chain = retriever.with_retry(
        stop_after_attempt=3, wait_exponential_jitter=False
    ).with_fallbacks([answering("second")])

    chain.invoke("x", {"callbacks": [handler]})

    retrievers = [
        found
        for found in map(attributes, finished_spans.all())
        if found["otelchain.run.type"] == "retriever"
    ]
    attempts = [found.get("otelchain.retry.attempt") for found in retrievers]
    assert attempts == [None, 2, 3]
    (run,) = [found for found in map(attributes, finished_spans.all()) if is_fallback(found)]
    assert run["otelchain.fallback.index"] == 1


def test_a_graph_that_hides_its_parts_loses_no_span(
    handler: OtelCallbackHandler,
    finished_spans: FinishedSpans,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pytest.importorskip("langgraph")
    monkeypatch.setattr(graph_facts, "shape", lambda gate, graph: graph.no_such_attribute)

    with caplog.at_level(logging.ERROR, "otelchain"):
        routed_graph().invoke({"seen": []}, {"callbacks": [handler]})

    (graph,) = named(finished_spans, "LangGraph")
    assert graph["otelchain.input"] == '{"seen":[]}'
    assert graph["otelchain.run.status"] == "ok"
    assert "AttributeError" in caplog.text
