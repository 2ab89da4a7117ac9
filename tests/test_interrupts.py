"""A graph that waits for a human, and the run that goes on: one story, told by spans."""

import asyncio
import json
import operator
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import StatusCode
from typing_extensions import TypedDict

from fakes import FinishedSpans
from otelchain import OtelCallbackHandler
from otelchain.interrupt_links import GraphThread, InterruptLinks
from otelchain_queries import load
from stored_spans import ask

pytest.importorskip("langgraph.callbacks")

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

CUSTOMER = "ann@example.com"


async_interrupts = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="LangGraph's interrupt() needs 3.11 in an async run"
)


class State(TypedDict):
    done: Annotated[list[Any], operator.add]


def step(name: str) -> Any:
    return lambda state: {"done": [name]}


def question(name: str) -> Any:
    return lambda state: {"done": [interrupt({"question": f"{name}? Ask {CUSTOMER}"})]}


def graph(*chain: str, **compiled: Any) -> Any:
    """Nodes in a row; a name that ends in ``?`` asks a human."""
    building = StateGraph(State)
    for before, name in zip((START, *chain), chain, strict=False):
        node = name.rstrip("?")
        building.add_node(node, question(node) if name.endswith("?") else step(node))
        building.add_edge(before.rstrip("?"), node)
    return building.compile(**{"checkpointer": InMemorySaver(), **compiled})


@pytest.fixture(name="config")
def _config(handler: OtelCallbackHandler) -> Callable[..., Any]:
    def config(thread: str = "t1", **more: Any) -> Any:
        return {"callbacks": [handler], "configurable": {"thread_id": thread, **more}}

    return config


def roots(spans: FinishedSpans) -> list[ReadableSpan]:
    """The top-level runs in the order of their start."""
    found = [span for span in spans.all() if span.parent is None]
    return sorted(found, key=lambda span: span.start_time or 0)


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def statuses(spans: Sequence[ReadableSpan]) -> list[tuple[str, str]]:
    return [(facts(s)["otelchain.run.name"], facts(s)["otelchain.run.status"]) for s in spans]


def linked(span: ReadableSpan) -> list[Any]:
    assert all(
        dict(k.attributes or {}) == {"otelchain.link.kind": "interrupted_run"} for k in span.links
    )
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def identity(span: ReadableSpan) -> Any:
    assert span.context is not None
    return (span.context.trace_id, span.context.span_id)


# --- one process -------------------------------------------------------------------------------


def test_the_resumed_run_is_linked_to_the_interrupted_one(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    app = graph("draft", "approve?", "send")
    app.invoke({"done": []}, config())
    app.invoke(Command(resume="yes"), config())

    asked, resumed = roots(finished_spans)
    assert linked(resumed) == [identity(asked)]
    assert linked(asked) == []
    assert statuses([asked, resumed]) == [("LangGraph", "interrupted"), ("LangGraph", "ok")]
    assert facts(asked)["otelchain.interrupt.kind"] == "pending"
    assert facts(resumed)["otelchain.run.resumed"] is True
    assert (
        facts(resumed)["otelchain.resume.checkpoint_id"]
        == facts(asked)["otelchain.interrupt.checkpoint_id"]
    )
    assert facts(asked)["langgraph.thread_id"] == facts(resumed)["langgraph.thread_id"] == "t1"


@async_interrupts
def test_an_async_resume_is_linked_too(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    async def application() -> None:
        app = graph("approve?", "send")
        await app.ainvoke({"done": []}, config())
        await app.ainvoke(Command(resume="yes"), config())

    asyncio.run(application())

    asked, resumed = roots(finished_spans)
    assert linked(resumed) == [identity(asked)]
    assert statuses([asked, resumed]) == [("LangGraph", "interrupted"), ("LangGraph", "ok")]


def test_another_handler_of_the_process_finds_the_interrupted_run(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    app = graph("approve?")
    for given in ({"done": []}, Command(resume="yes")):
        handler = OtelCallbackHandler(tracer_provider)  # one per request
        app.invoke(given, {"callbacks": [handler], "configurable": {"thread_id": "t1"}})

    asked, resumed = roots(finished_spans)
    assert linked(resumed) == [identity(asked)]


def test_the_question_is_redacted_wherever_it_is_recorded(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    graph("approve?").invoke({"done": []}, config())

    for span in finished_spans.all():
        assert json.loads(facts(span)["otelchain.interrupt.value"]) == [
            {"question": "approve? Ask [REDACTED:email]"}
        ]
        assert CUSTOMER not in span.to_json()


def test_without_content_capture_the_question_is_left_out_and_the_ids_stay(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    handler = OtelCallbackHandler(tracer_provider, capture_content=False)
    config: Any = {"callbacks": [handler], "configurable": {"thread_id": "t1"}}
    state = graph("approve?")
    state.invoke({"done": []}, config)

    (asked,) = roots(finished_spans)
    (pending,) = state.get_state(config).interrupts
    assert facts(asked)["otelchain.interrupt.ids"] == (pending.id,)
    assert "question" not in asked.to_json()


def test_a_static_breakpoint_is_an_interrupt_without_a_question(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    app = graph("draft", "send", interrupt_before=["send"])
    app.invoke({"done": []}, config())
    app.invoke(None, config())

    asked, resumed = roots(finished_spans)
    assert statuses(finished_spans.all()) == [
        ("draft", "ok"),
        ("LangGraph", "interrupted"),
        ("send", "ok"),
        ("LangGraph", "ok"),
    ]
    assert facts(asked)["otelchain.interrupt.kind"] == "interrupt_before"
    assert "otelchain.interrupt.ids" not in facts(asked)
    assert linked(resumed) == [identity(asked)]
    assert facts(resumed)["otelchain.input.kind"] == "NoneType"


def test_an_interrupt_in_a_subgraph_interrupts_every_run_above_it(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    inner = graph("look", "approve?", checkpointer=None, name="inner")
    outer = StateGraph(State)
    outer.add_node("team", inner)
    outer.add_edge(START, "team")
    app = outer.compile(checkpointer=InMemorySaver(), name="outer")
    app.invoke({"done": []}, config())
    app.invoke(Command(resume="yes"), config())

    asked, resumed = roots(finished_spans)
    assert statuses(finished_spans.all()) == [
        ("look", "ok"),
        ("approve", "interrupted"),
        ("inner", "interrupted"),
        ("team", "interrupted"),
        ("outer", "interrupted"),
        ("approve", "ok"),
        ("inner", "ok"),
        ("team", "ok"),
        ("outer", "ok"),
    ]
    assert {span.status.status_code for span in finished_spans.all()} == {StatusCode.UNSET}
    assert linked(resumed) == [identity(asked)]
    # The runs inside are found by their namespace, which a resume does not change.
    inner_runs = [s for s in finished_spans.all() if facts(s)["otelchain.run.name"] == "inner"]
    assert len({facts(s)["langgraph.checkpoint_ns"] for s in inner_runs}) == 1
    assert facts(inner_runs[1])["otelchain.run.resumed"] is True


def test_parallel_questions_answered_one_by_one_make_a_chain_of_links(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    building = StateGraph(State)
    for name in ("left", "right"):
        building.add_node(name, question(name))
        building.add_edge(START, name)
    app = building.compile(checkpointer=InMemorySaver())
    asked = app.invoke({"done": []}, config())["__interrupt__"]
    for each in asked:
        app.invoke(Command(resume={each.id: "yes"}), config())

    first, second, third = roots(finished_spans)
    assert sorted(facts(first)["otelchain.interrupt.ids"]) == sorted(each.id for each in asked)
    assert facts(second)["otelchain.interrupt.ids"] == (asked[1].id,)
    assert linked(second) == [identity(first)]
    assert linked(third) == [identity(second)]
    assert [how for _, how in statuses([first, second, third])] == ["interrupted"] * 2 + ["ok"]


def test_a_consumer_that_stops_at_the_question_has_not_abandoned_the_run(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    app = graph("approve?", "send")
    chunks = app.stream({"done": []}, config())
    assert "__interrupt__" in next(chunks)
    chunks.close()
    app.invoke(Command(resume="yes"), config())

    asked, resumed = roots(finished_spans)
    assert statuses([asked, resumed]) == [("LangGraph", "interrupted"), ("LangGraph", "ok")]
    assert linked(resumed) == [identity(asked)]


@async_interrupts
def test_an_async_consumer_that_stops_at_the_question_has_not_abandoned_the_run(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    async def application() -> None:
        app = graph("approve?", "send")
        chunks = app.astream({"done": []}, config())
        async for chunk in chunks:
            assert "__interrupt__" in chunk
            break
        await chunks.aclose()
        await app.ainvoke(Command(resume="yes"), config())

    asyncio.run(application())

    asked, resumed = roots(finished_spans)
    assert statuses([asked, resumed]) == [("LangGraph", "interrupted"), ("LangGraph", "ok")]
    assert linked(resumed) == [identity(asked)]


def test_a_state_edited_by_the_human_is_still_the_same_story(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    app = graph("draft", "send", interrupt_before=["send"])
    app.invoke({"done": []}, config())
    app.update_state(config(), {"done": ["edited"]})  # makes a newer checkpoint
    app.invoke(None, config())

    asked, resumed = roots(finished_spans)
    assert linked(resumed) == [identity(asked)]


def test_an_old_question_answered_again_links_to_the_run_that_asked_it(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    app = graph("approve?", "send")
    for _ in range(2):
        app.invoke({"done": []}, config())
        app.invoke(Command(resume="yes"), config())
    first_question = [state for state in app.get_state_history(config()) if state.interrupts][-1]
    checkpoint_id = first_question.config["configurable"]["checkpoint_id"]
    app.invoke(Command(resume="no"), config(checkpoint_id=checkpoint_id))

    asked, again = roots(finished_spans)[0], roots(finished_spans)[-1]
    assert linked(again) == [identity(asked)]
    assert facts(again)["langgraph.checkpoint_id"] == checkpoint_id


def test_time_travel_past_an_open_question_is_linked_to_nothing(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    app = graph("draft", "approve?")
    app.invoke({"done": []}, config())
    start = list(app.get_state_history(config()))[-1].config["configurable"]["checkpoint_id"]
    app.invoke(None, config(checkpoint_id=start))

    _, forked = roots(finished_spans)
    assert linked(forked) == []


def test_a_retry_after_a_failure_is_no_answer_to_an_older_question(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    outages = iter([ConnectionError("down")])

    def send(state: State) -> dict[str, Any]:
        for outage in outages:
            raise outage
        return {"done": ["sent"]}

    building = StateGraph(State)
    building.add_node("approve", question("approve"))
    building.add_node("send", send)
    building.add_edge(START, "approve")
    building.add_edge("approve", "send")
    app = building.compile(checkpointer=InMemorySaver())
    app.invoke({"done": []}, config())
    with pytest.raises(ConnectionError):
        app.invoke(Command(resume="yes"), config())
    app.invoke(None, config())

    asked, failed, retried = roots(finished_spans)
    assert linked(failed) == [identity(asked)]
    assert linked(retried) == []
    assert facts(failed)["otelchain.run.status"] == "error"


def test_another_graph_on_the_same_thread_id_is_another_story(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    asking = graph("approve?", name="asking")
    other = graph("draft", "send", interrupt_before=["send"], name="other")
    other.invoke({"done": []}, config())
    asking.invoke({"done": []}, config())
    other.update_state(config(), {"done": ["edited"]})
    other.invoke(None, config())

    other_asked, _, other_resumed = roots(finished_spans)
    assert linked(other_resumed) == [identity(other_asked)]


def test_a_session_of_the_application_does_not_hide_the_thread(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    graph("approve?").invoke({"done": []}, config() | {"metadata": {"session_id": "s1"}})

    (asked,) = roots(finished_spans)
    assert facts(asked)["gen_ai.conversation.id"] == "s1"
    assert facts(asked)["langgraph.thread_id"] == "t1"


# --- the table ---------------------------------------------------------------------------------


class _Event:
    def __init__(self, checkpoint_id: str) -> None:
        self.checkpoint_id = checkpoint_id
        self.checkpoint_ns: tuple[str, ...] = ()


def test_the_oldest_interrupts_are_forgotten_first(
    tracer_provider: TracerProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("otelchain.interrupt_links.INTERRUPTED_KEPT", 3)
    span = tracer_provider.get_tracer("t").start_span("asked")
    in_memory, in_file = InterruptLinks(), InterruptLinks()
    in_file.keep_in(tmp_path / "links")
    for n in range(5):
        for links in (in_memory, in_file):
            links.interrupted(
                GraphThread(f"t{n}", "g", False), _Event(f"c{n}"), span.get_span_context()
            )
    elsewhere = InterruptLinks()
    elsewhere.keep_in(tmp_path / "links")

    for links in (in_memory, elsewhere):
        found = [
            links.continued(GraphThread(f"t{n}", "g", False), _Event(f"c{n}")) for n in range(5)
        ]
        assert [context is not None for context in found] == [False, False, True, True, True]


def test_what_another_process_did_meanwhile_counts(
    tracer_provider: TracerProvider, tmp_path: Path
) -> None:
    thread, here, elsewhere = GraphThread("t1", "g", False), InterruptLinks(), InterruptLinks()
    for links in (here, elsewhere):
        links.keep_in(tmp_path / "links")
    tracer = tracer_provider.get_tracer("t")
    first, second = (tracer.start_span(name).get_span_context() for name in ("first", "second"))
    here.interrupted(thread, _Event("c1"), first)
    elsewhere.interrupted(thread, _Event("c1"), second)  # answered one of two questions
    found = here.continued(thread, _Event("c1"))
    elsewhere.ended(thread)

    assert found is not None
    assert found.span_id == second.span_id
    assert here.continued(thread, _Event("after an edit")) is None


def test_a_file_that_cannot_be_used_costs_the_link_and_nothing_else(
    tracer_provider: TracerProvider,
    finished_spans: FinishedSpans,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("OTELCHAIN_INTERRUPT_FILE", str(tmp_path))  # a directory
    handler = OtelCallbackHandler(tracer_provider)
    config: Any = {"callbacks": [handler], "configurable": {"thread_id": "t1"}}
    app = graph("approve?")
    app.invoke({"done": []}, config)
    app.invoke(Command(resume="yes"), config)

    asked, resumed = roots(finished_spans)
    assert linked(resumed) == [identity(asked)]  # this process remembers it anyway
    assert handler.stats().failed == 0
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        f"interrupted runs cannot be kept in {tmp_path}"
    ]


# --- two processes -----------------------------------------------------------------------------

APPLICATION = """
import json, sys
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from otelchain import OtelCallbackHandler
from test_interrupts import graph

checkpoints, answer = sys.argv[1:]
exporter = InMemorySpanExporter()
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(exporter))
with SqliteSaver.from_conn_string(checkpoints) as saver:
    graph("draft", "approve?", "send", checkpointer=saver).invoke(
        Command(resume=answer) if answer else {"done": []},
        {"callbacks": [OtelCallbackHandler(provider)], "configurable": {"thread_id": "t1"}},
    )
(root,) = [span for span in exporter.get_finished_spans() if span.parent is None]
print(json.dumps({
    "id": [root.context.trace_id, root.context.span_id],
    "links": [[link.context.trace_id, link.context.span_id] for link in root.links],
    "facts": dict(root.attributes),
}))
"""


def run_application(checkpoints: Path, answer: str, **variables: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", APPLICATION, str(checkpoints), answer],
        env={"PYTHONPATH": ":".join([str(Path(__file__).parent), *sys.path]), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_resume_in_another_process_is_linked_through_the_interrupt_file(tmp_path: Path) -> None:
    pytest.importorskip("langgraph.checkpoint.sqlite")
    checkpoints, file = tmp_path / "checkpoints.sqlite", str(tmp_path / "interrupts.sqlite")
    asked = run_application(checkpoints, "", OTELCHAIN_INTERRUPT_FILE=file)
    resumed = run_application(checkpoints, "yes", OTELCHAIN_INTERRUPT_FILE=file)

    assert resumed["links"] == [asked["id"]]
    assert asked["id"][0] != resumed["id"][0]


def test_without_the_file_thread_and_checkpoint_still_join_the_two(tmp_path: Path) -> None:
    pytest.importorskip("langgraph.checkpoint.sqlite")
    checkpoints = tmp_path / "checkpoints.sqlite"
    asked = run_application(checkpoints, "")["facts"]
    resumed = run_application(checkpoints, "yes")["facts"]

    assert asked["langgraph.thread_id"] == resumed["langgraph.thread_id"] == "t1"
    assert asked["otelchain.interrupt.checkpoint_id"] == resumed["otelchain.resume.checkpoint_id"]


def test_the_interrupt_file_holds_no_name_of_the_application(
    tracer_provider: TracerProvider, tmp_path: Path
) -> None:
    file = tmp_path / "interrupts.sqlite"
    links = InterruptLinks()
    links.keep_in(file)
    context = tracer_provider.get_tracer("t").start_span("asked").get_span_context()
    links.interrupted(GraphThread(CUSTOMER, "refunds", False), _Event("c1"), context)

    content = file.read_bytes()
    assert f"{context.trace_id:032x}".encode() in content
    assert CUSTOMER.encode() not in content
    assert b"refunds" not in content


# --- the store -----------------------------------------------------------------------------------


def interrupted_runs(spans: Sequence[ReadableSpan], **values: str) -> list[dict[str, Any]]:
    query = load("interrupted-runs")
    return ask(spans, query.sql, query.bind(values))


def without_links(spans: Sequence[ReadableSpan]) -> list[ReadableSpan]:
    """As if each run had been another process without an interrupt file."""
    for span in spans:
        span._links = ()
    return list(spans)


def hex_ids(span: ReadableSpan) -> tuple[str, str]:
    trace_id, span_id = identity(span)
    return f"{trace_id:032x}", f"{span_id:016x}"


def test_the_store_says_who_waits_and_who_was_resumed_by_which_trace(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    app = graph("approve?", "send", name="refund")
    app.invoke({"done": []}, config("answered"))
    app.invoke(Command(resume="yes"), config("answered"))
    app.invoke({"done": []}, config("given up"))
    app.invoke({"done": []}, config("given up"))
    graph("draft", "send", interrupt_before=["send"], name="mail").invoke(
        {"done": []}, config("new")
    )

    answered, resumed, given_up, again, mail = roots(finished_spans)
    rows = interrupted_runs(without_links(finished_spans.all()))
    assert [(row["trace_id"], row["thread_id"], row["outcome"]) for row in rows] == [
        (hex_ids(mail)[0], "new", "waiting"),
        (hex_ids(again)[0], "given up", "waiting"),
        (hex_ids(given_up)[0], "given up", "superseded"),
        (hex_ids(answered)[0], "answered", "resumed"),
    ]
    assert [row["kind"] for row in rows] == ["interrupt_before", *["pending"] * 3]
    assert rows[0]["question"] is None
    assert json.loads(rows[1]["question"]) == [{"question": "approve? Ask [REDACTED:email]"}]
    assert (rows[3]["resumed_by_trace_id"], rows[3]["resumed_by_span_id"]) == hex_ids(resumed)
    assert rows[3]["resumed_status"] == "ok"
    assert rows[3]["waited_ms"] == ((resumed.start_time or 0) - (answered.end_time or 0)) / 1e6
    assert rows[0]["resumed_by_trace_id"] is None


def test_the_store_shows_only_open_questions_when_asked(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    app = graph("approve?")
    for given in ({"done": []}, Command(resume="yes"), {"done": []}):
        app.invoke(given, config())

    (row,) = interrupted_runs(finished_spans.all(), waiting="true")
    assert row["trace_id"] == hex_ids(roots(finished_spans)[2])[0]


def test_the_store_knows_a_resume_after_an_edit_without_a_link(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    app = graph("draft", "send", interrupt_before=["send"])
    app.invoke({"done": []}, config())
    app.update_state(config(), {"done": ["edited"]})
    app.invoke(None, config() | {"metadata": {"session_id": "the approver's"}})

    (row,) = interrupted_runs(without_links(finished_spans.all()))
    assert row["outcome"] == "resumed"


def test_before_langgraph_1_2_the_interrupt_is_known_from_its_node_and_the_resume_from_its_input(
    tracer_provider: TracerProvider, finished_spans: FinishedSpans
) -> None:
    class NeverTold(OtelCallbackHandler):
        def on_interrupt(self, event: Any) -> None:
            pass

        def on_resume(self, event: Any) -> None:
            pass

    app = graph("approve?", "send")
    config: Any = {
        "callbacks": [NeverTold(tracer_provider)],
        "configurable": {"thread_id": "t1"},
    }
    app.invoke({"done": []}, config)
    app.invoke(Command(resume="yes"), config)

    asked, resumed = roots(finished_spans)
    (row,) = interrupted_runs(finished_spans.all())
    assert statuses([asked, resumed]) == [("LangGraph", "interrupted"), ("LangGraph", "ok")]
    assert (row["outcome"], row["resumed_by_trace_id"]) == ("resumed", hex_ids(resumed)[0])


def test_the_store_knows_the_question_of_a_stream_that_was_left_there(
    config: Callable[..., Any], finished_spans: FinishedSpans
) -> None:
    chunks = graph("approve?").stream({"done": []}, config())
    next(chunks)
    chunks.close()

    (row,) = interrupted_runs(finished_spans.all())
    assert (row["outcome"], json.loads(row["question"])) == (
        "waiting",
        [{"question": "approve? Ask [REDACTED:email]"}],
    )


@pytest.mark.parametrize("kind", ["no directory", "a directory", "no database"])
def test_an_interrupt_file_that_cannot_be_used_is_named_when_the_handler_is_made(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    path = tmp_path / "interrupts"
    if kind == "no directory":
        path = path / "file"
    elif kind == "a directory":
        path.mkdir()
    else:
        path.write_text("this is no SQLite database, but a text that somebody keeps here")
    monkeypatch.setenv("OTELCHAIN_INTERRUPT_FILE", str(path))

    OtelCallbackHandler(TracerProvider(shutdown_on_exit=False))

    assert f"interrupted runs cannot be kept in {path}: " in caplog.text


def test_an_interrupt_file_that_can_be_used_is_not_made_before_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTELCHAIN_INTERRUPT_FILE", str(tmp_path / "interrupts"))

    OtelCallbackHandler(TracerProvider(shutdown_on_exit=False))

    assert caplog.text == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")
@pytest.mark.parametrize("before", [None, 0o644])
def test_the_interrupt_file_is_read_by_its_owner_alone(
    tracer_provider: TracerProvider, tmp_path: Path, before: int | None
) -> None:
    """The digests of short thread ids in it can be guessed."""
    file = tmp_path / "links"
    if before is not None:  # an earlier release left it so
        file.touch()
        file.chmod(before)
    context = tracer_provider.get_tracer("t").start_span("asked").get_span_context()
    mask = os.umask(0)
    try:
        links = InterruptLinks()
        links.keep_in(file)
        links.waits(GraphThread("1", "g", False), context)
    finally:
        os.umask(mask)

    assert links.waiting(GraphThread("1", "g", False)) is not None
    assert {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {
        "links": 0o600
    }
