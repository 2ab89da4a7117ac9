"""Trajectories rebuilt from stored spans alone equal the checkpointer's, over random graphs.

The rule that reads the spans is written here from its description and shares no code with the
package; the expected steps come from ``get_state_history``, which knows nothing of spans.
"""

import asyncio
import itertools
import json
import operator
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import pytest
from langchain_core.runnables import RunnableConfig
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from typing_extensions import TypedDict

from otelchain import OtelCallbackHandler
from stored_spans import ask

pytest.importorskip("langgraph.callbacks")

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, RetryPolicy, Send, interrupt

GRAPHS = 400  # half sync, half async; two turns each
TURNS = 2


def latest(_: int, new: int) -> int:
    return new


class State(TypedDict):
    done: Annotated[list[str], operator.add]
    turn: Annotated[int, latest]  # a subgraph hands it back


class Task(NamedTuple):
    """One node of one superstep, as both sides name it."""

    name: str
    path: str  # JSON; tells the parallel tasks of one node apart
    namespace: str  # holds LangGraph's task id


Turn = list[tuple[int, list[Task]]]
"""Step number and tasks of each superstep."""


# --- random graphs -----------------------------------------------------------------------------


def plain(name: str, *, is_async: bool) -> Any:
    def node(state: State) -> Any:
        return {"done": [name]}

    async def async_node(state: State) -> Any:
        await asyncio.sleep(0)
        return {"done": [name]}

    return async_node if is_async else node


def asking(name: str, *, is_async: bool) -> Any:
    if is_async and sys.version_info < (3, 11):  # there LangGraph's interrupt() cannot work
        return plain(name, is_async=True)
    return lambda state: {"done": [f"{name} {interrupt({'question': name})}"]}


def flaky(name: str) -> Any:
    failed: set[str] = set()

    def node(state: State, config: RunnableConfig) -> Any:
        task = config["configurable"]["checkpoint_ns"]
        if task not in failed:
            failed.add(task)
            raise ConnectionError(name)
        return {"done": [name]}

    return node


def subgraph(rng: random.Random, name: str, *, is_async: bool) -> Any:
    inner = StateGraph(State)
    inner.add_node("look", plain("look", is_async=is_async))
    inner.add_node("tell", rng.choice([asking, plain])("tell", is_async=is_async))
    inner.add_edge(START, "look")
    inner.add_edge("look", "tell")
    return inner.compile(name=rng.choice([name, "inner"]))  # a graph may be called like its node


def add_random_node(building: Any, rng: random.Random, name: str, *, is_async: bool) -> None:
    kind = rng.choices(["plain", "asking", "flaky", "subgraph"], [10, 5, 2, 2])[0]
    if kind == "flaky":
        again = RetryPolicy(initial_interval=0, max_attempts=2, jitter=False)
        building.add_node(name, flaky(name), retry_policy=again)
    elif kind == "subgraph":
        building.add_node(name, subgraph(rng, name, is_async=is_async))
    else:
        make = asking if kind == "asking" else plain
        building.add_node(name, make(name, is_async=is_async))


def random_graph(rng: random.Random, *, is_async: bool) -> Any:
    """Layers of nodes with plain, joining, conditional and ``Send`` edges, and maybe a loop."""
    building = StateGraph(State)
    layers = [
        [f"n{depth}{place}" for place in range(rng.randint(1, 3))]
        for depth in range(rng.randint(2, 4))
    ]
    for name in (name for layer in layers for name in layer):
        add_random_node(building, rng, name, is_async=is_async)
    for name in rng.sample(layers[0], rng.randint(1, len(layers[0]))):
        building.add_edge(START, name)
    for layer, following in itertools.pairwise(layers):
        if len(layer) > 1 and rng.random() < 0.4:
            building.add_edge(layer, rng.choice(following))
        for name in layer:
            add_random_edge(building, rng, name, following)
    if rng.random() < 0.3:
        add_loop(building, rng.choice(layers[-1]), rng.choice(layers[0]))
    stops = [rng.choice(layers[-1])] if rng.random() < 0.15 else None
    return building.compile(checkpointer=InMemorySaver(), interrupt_before=stops)


def add_random_edge(building: Any, rng: random.Random, name: str, following: list[str]) -> None:
    kind = rng.choice(["edge", "edge", "conditional", "send", "none"])
    by_turn = [rng.sample(following, rng.randint(1, len(following))) for _ in range(TURNS)]
    copies = [rng.randint(0, 3) for _ in range(TURNS)]
    worker = rng.choice(following)

    def sends(state: State) -> Any:
        turn = state["turn"]
        return [Send(worker, {"done": [], "turn": turn}) for _ in range(copies[turn])] or END

    if kind == "edge":
        for target in by_turn[0]:
            building.add_edge(name, target)
    elif kind == "conditional":
        building.add_conditional_edges(name, lambda state: by_turn[state["turn"]], following)
    elif kind == "send":
        building.add_conditional_edges(name, sends, [worker, END])


def add_loop(building: Any, last: str, first: str) -> None:
    def again(state: State) -> str:
        return first if len(state["done"]) < 12 else END

    building.add_conditional_edges(last, again, [first, END])


# --- running them: the answers of the checkpointer ----------------------------------------------


class Expected(NamedTuple):
    thread: str
    turns: list[Turn]
    inside: dict[str, Turn]  # of each subgraph, by the namespace of the task that ran it
    paused: list[bool]  # after each call of the graph, in order


def next_input(rng: random.Random, state: Any) -> Any:
    """Answer all open questions or one of them; a breakpoint is left with None."""
    open_questions = [each.id for each in state.interrupts]
    if not open_questions:
        return None
    answered = open_questions if rng.random() < 0.5 else [rng.choice(open_questions)]
    return Command(resume=dict.fromkeys(answered, "yes"))


async def run(seed: int, handler: OtelCallbackHandler, *, is_async: bool) -> Expected:
    rng = random.Random(seed)
    app = random_graph(rng, is_async=is_async)
    config: Any = {"callbacks": [handler], "configurable": {"thread_id": f"thread {seed}"}}
    paused: list[bool] = []
    for turn in range(TURNS):
        given: Any = {"done": [], "turn": turn}
        while True:
            if is_async:
                await app.ainvoke(given, config)
            else:
                app.invoke(given, config)
            state = app.get_state(config)
            paused.append(bool(state.next))
            if not state.next:
                break
            given = next_input(rng, state)
    history = list(app.get_state_history(config))
    inside = {}
    for below in (task.state for snapshot in history for task in snapshot.tasks if task.state):
        namespace = below["configurable"]["checkpoint_ns"]
        (inside[namespace],) = turns_of(app.get_state_history(below), namespace + "|")
    return Expected(f"thread {seed}", turns_of(history), inside, paused)


def turns_of(history: Iterable[Any], within: str = "") -> list[Turn]:
    turns: list[Turn] = []
    for snapshot in reversed(list(history)):
        if snapshot.metadata["source"] == "input":
            turns.append([])
        elif snapshot.tasks:
            tasks = [
                Task(
                    task.name,
                    json.dumps(task.path, separators=(",", ":")),
                    f"{within}{task.name}:{task.id}",
                )
                for task in snapshot.tasks
            ]
            turns[-1].append((snapshot.metadata["step"] + 1, sorted(tasks)))
    return turns


# --- the rule, over stored spans ----------------------------------------------------------------

STORED = """
SELECT
    trace_id, span_id, parent_span_id, run_name, run_status, start_time_unix_nano,
    langgraph_node, langgraph_step, langgraph_checkpoint_ns,
    attributes ->> 'langgraph.path' AS path,
    attributes ->> 'langgraph.thread_id' AS thread,
    coalesce((attributes -> 'otelchain.run.resumed')::BOOLEAN, false) AS resumed
FROM spans
ORDER BY start_time_unix_nano
"""

Row = dict[str, Any]


def graph_runs(rows: Sequence[Row]) -> list[tuple[Row, list[Row]]]:
    """Every graph's run in start order, each with the spans of its tasks.

    A task's span is the topmost of its namespace and named like its node: the models, edge
    functions and subgraphs inside have the same fields, but a parent of the same namespace.
    """
    tasks: dict[tuple[str, str], list[Row]] = defaultdict(list)
    by_id = {(row["trace_id"], row["span_id"]): row for row in rows}
    for row in rows:
        parent = by_id.get((row["trace_id"], row["parent_span_id"]))
        if parent is None or row["run_name"] != row["langgraph_node"]:
            continue
        if parent["langgraph_checkpoint_ns"] != row["langgraph_checkpoint_ns"]:
            tasks[parent["trace_id"], parent["span_id"]].append(row)
    return [(by_id[graph], tasks[graph]) for graph in by_id if graph in tasks]


def rebuilt(runs: Sequence[tuple[Row, list[Row]]]) -> list[Turn]:
    """Merge resumed runs into the turn they continue, and the attempts of a task into one.

    A graph's runs of one thread, or a subgraph's of one task.
    """
    turns: list[dict[int, set[Task]]] = []
    for root, tasks in runs:
        if not root["resumed"]:
            turns.append(defaultdict(set))
        for task in tasks:
            described = Task(task["run_name"], task["path"], task["langgraph_checkpoint_ns"])
            turns[-1][task["langgraph_step"]].add(described)
    return [[(step, sorted(turn[step])) for step in sorted(turn)] for turn in turns]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_stored_spans_tell_every_step_that_the_checkpointer_knows(
    is_async: bool,
    tracer_provider: TracerProvider,
    span_exporter: InMemorySpanExporter,
) -> None:
    # What a trajectory needs is no content.
    handler = OtelCallbackHandler(tracer_provider, capture_content=False)

    async def run_all() -> list[Expected]:
        return [await run(n, handler, is_async=is_async) for n in range(is_async, GRAPHS, 2)]

    expected = asyncio.run(run_all())
    rows = ask(span_exporter.get_finished_spans(), STORED)
    by_place: dict[str, list[tuple[Row, list[Row]]]] = defaultdict(list)
    for run_and_tasks in graph_runs(rows):
        graph = run_and_tasks[0]
        by_place[graph["thread"] or graph["langgraph_checkpoint_ns"]].append(run_and_tasks)

    for thread, turns, inside, paused in expected:
        assert rebuilt(by_place[thread]) == turns, thread
        assert [graph["run_status"] == "interrupted" for graph, _ in by_place[thread]] == paused
        for namespace, turn in inside.items():
            assert rebuilt(by_place[namespace]) == [turn], (thread, namespace)
    assert handler.stats().open == 0


def test_the_random_graphs_are_worth_the_name(
    handler: OtelCallbackHandler, span_exporter: InMemorySpanExporter
) -> None:
    """Every feature occurs, or the test above proves less than it says."""

    async def run_all() -> list[Expected]:
        return [await run(n, handler, is_async=False) for n in range(0, 60, 2)]

    expected = asyncio.run(run_all())
    steps = [step for each in expected for turn in each.turns for _, step in turn]
    assert any(len(step) > 1 for step in steps)  # fan-out
    assert any("__pregel_push" in task.path for step in steps for task in step)  # Send
    assert sum(sum(each.paused) for each in expected) > 10
    assert {len(each.turns) for each in expected} == {TURNS}
    statuses = {
        (s.attributes or {})["otelchain.run.status"] for s in span_exporter.get_finished_spans()
    }
    assert statuses == {"ok", "error", "interrupted"}
