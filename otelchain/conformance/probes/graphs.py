"""LangGraph: control flow is no error, a resume is tied to its interrupt, trace policies hold."""
# ruff: noqa: ARG001, ARG005 - fakes keep the signatures of what they stand for

import asyncio
import sys
import uuid
from typing import Any

from otelchain.conformance.probe import probe
from otelchain.conformance.spans import texts
from otelchain.conformance.subject import Options
from otelchain.conformance.trial import Trial
from otelchain.conformance.verdict import NotApplicableError, Verdict, judge

_NEEDS = ("langgraph",)


def _state() -> Any:
    # langgraph reads the annotations of a state, so it has to be a class of the module it is in.
    from typing_extensions import TypedDict

    return TypedDict("State", {"x": int})  # type: ignore[operator]


def _asks() -> Any:
    """A graph whose subgraph asks a human."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, StateGraph
    from langgraph.types import interrupt

    state = _state()

    def ask(given: Any) -> Any:
        return {"x": interrupt({"question": "how much?"})}

    inner: Any = StateGraph(state)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    outer: Any = StateGraph(state)
    outer.add_node("sub", inner.compile())
    outer.add_edge(START, "sub")
    return outer.compile(checkpointer=InMemorySaver())


def _thread(trial: Trial) -> Any:
    return trial.config(configurable={"thread_id": str(uuid.uuid4())})


def _errors(trial: Trial) -> Verdict:
    trial.settle()
    ended = trial.log.ended()
    errors = trial.errors()
    events = [e for span in ended for e in span.events if e.name == "exception"]
    good = bool(ended) and not errors and not events and not trial.log.unfinished()
    seen = f"{len(errors)} of {len(ended)} spans ERROR, {len(events)} exception events"
    return judge(good, seen)


@probe("An interrupt is not an error, sync", needs=_NEEDS)
def graphs_interrupt(trial: Trial) -> Verdict:
    """In a subgraph: every level is told of it."""
    _asks().invoke({"x": 0}, _thread(trial))
    return _errors(trial)


@probe("An interrupt is not an error, async", needs=_NEEDS)
def graphs_interrupt_async(trial: Trial) -> Verdict:
    """In a subgraph: every level is told of it."""
    if sys.version_info < (3, 11):
        raise NotApplicableError("langgraph's interrupt() needs Python 3.11 in async runs")
    asyncio.run(_asks().ainvoke({"x": 0}, _thread(trial)))
    return _errors(trial)


@probe("A resumed run is tied to the interrupted one", needs=_NEEDS)
def graphs_resume_link(trial: Trial) -> Verdict:
    """By a span link, or by being in the same trace."""
    from langgraph.types import Command

    graph, config = _asks(), _thread(trial)
    graph.invoke({"x": 0}, config)
    before = {span.get_span_context().trace_id for span in trial.log.started()}
    count = len(trial.log.started())
    graph.invoke(Command(resume=5), config)
    trial.settle()
    resumed = trial.log.started()[count:]
    linked = [s for s in resumed for link in s.links if link.context.trace_id in before]
    joined = [s for s in resumed if s.get_span_context().trace_id in before]
    how = "by a link" if linked else "in the same trace" if joined else "unrelated traces"
    return judge(bool(linked or joined), how)


@probe("A jump to the parent graph is not an error", needs=_NEEDS)
def graphs_parent_command(trial: Trial) -> Verdict:
    """``Command(goto=…, graph=Command.PARENT)`` leaves the subgraph with an exception."""
    from langgraph.graph import START, StateGraph
    from langgraph.types import Command

    state = _state()

    def leave(given: Any) -> Any:
        return Command(goto="end", graph=Command.PARENT, update={"x": 1})

    inner: Any = StateGraph(state)
    inner.add_node("leave", leave)
    inner.add_edge(START, "leave")
    outer: Any = StateGraph(state)
    outer.add_node("sub", inner.compile())
    outer.add_node("end", lambda given: {"x": 2})
    outer.add_edge(START, "sub")
    outer.compile().invoke({"x": 0}, trial.config())
    return _errors(trial)


@probe("A node's trace policy is honoured", needs=_NEEDS)
def graphs_trace_policy(trial: Trial) -> Verdict:
    """``TracePolicy(process_inputs=…)``: LangGraph reduces payloads only for its own tracers."""
    from langgraph import types
    from langgraph.graph import START, StateGraph

    if not hasattr(types, "TracePolicy"):
        raise NotApplicableError("this langgraph has no TracePolicy")

    def reduced(_: Any) -> Any:
        return {"x": "reduced"}

    policy = types.TracePolicy(process_inputs=reduced, process_outputs=reduced)
    graph: Any = StateGraph(_state())
    graph.add_node("open", lambda given: {"x": 4711})
    graph.add_node("secret", lambda given: {"x": 4712}, trace_policy=policy)
    graph.add_edge(START, "open")
    graph.add_edge("open", "secret")
    graph.compile().invoke({"x": 0}, trial.config())
    trial.settle()
    nodes = [span for span in trial.log.ended() if "secret" in span.name]
    if not nodes:
        raise NotApplicableError("it emits no span for a node")
    found = {
        place for span in nodes for place, text in texts(span) if "4711" in text or "4712" in text
    }
    return judge(not found, f"in {', '.join(sorted(found))}" if found else "reduced")


def _routed() -> Any:
    """A graph whose first node chooses the next by a command."""
    from langgraph.graph import START, StateGraph
    from langgraph.types import Command

    graph: Any = StateGraph(_state())
    graph.add_node("choose", lambda given: Command(goto="taken"), destinations=("taken", "spare"))
    for name in ("taken", "spare"):
        graph.add_node(name, lambda given: {"x": 1})
    graph.add_edge(START, "choose")
    return graph.compile()


@probe("The run of a graph tells its nodes, also those that did not run", needs=_NEEDS)
def graphs_shape(trial: Trial) -> Verdict:
    """Which steps a run could have taken."""
    _routed().invoke({"x": 0}, trial.config())
    trial.settle()
    told = {place for span in trial.log.ended() for place, text in texts(span) if "spare" in text}
    return judge(bool(told), f"in {', '.join(sorted(told))}" if told else "nowhere")


@probe(
    "A node that returns Command(goto=…) says where it goes, with content off",
    needs=_NEEDS,
    options=Options(content=False),
)
def graphs_goto(trial: Trial) -> Verdict:
    """The name of a node is no content."""
    _routed().invoke({"x": 0}, trial.config())
    trial.settle()
    told = {
        place
        for span in trial.log.ended()
        for place, text in texts(span)
        if "goto" in place and "taken" in text
    }
    return judge(bool(told), f"in {', '.join(sorted(told))}" if told else "nowhere")
