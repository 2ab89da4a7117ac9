"""LangSmith's exports: every shape; expected values by hand, runs by its own models and tracer."""

import json
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.langchain import LangChainTracer
from langsmith.schemas import Run as LangSmithRun

import collector_process
from collector_process import RunningCollector
from exchanged import contents, count, imported, write_lines
from otelchain_collector.exchange.langsmith_times import (
    dotted,
    run_id_of,
    span_id_of,
    time_text,
    unix_nano,
)
from stored_runs import asked

ROOT = "0193792e-0c5f-7000-8000-000000000001"
CHILD = "0193792e-0c5f-7000-8000-000000000002"
OTHER = "11111111-2222-4333-9444-555555555555"
#: 2026-11-30T01:02:03.456789Z
START = 1_796_000_523_456_789_000


def run(**fields: Any) -> dict[str, Any]:
    """Return a whole run; None takes a field away."""
    values = {
        "id": ROOT,
        "trace_id": ROOT,
        "name": "answer",
        "run_type": "chain",
        "start_time": "2026-11-30T01:02:03.456789Z",
        "end_time": "2026-11-30T01:02:04.456789Z",
        "status": "success",
        "inputs": {"q": "?"},
        "outputs": {"a": "!"},
        **fields,
    }
    return {name: value for name, value in values.items() if value is not None}


def rows(database: Path, sql: str = "FROM runs ORDER BY start_time, name") -> list[dict[str, Any]]:
    result = asked("sql", sql, "--database", str(database), "--format", "jsonl")
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def stored(tmp_path: Path, *objects: Any) -> list[dict[str, Any]]:
    """Import runs, which are all good, and return what the view shows."""
    database = tmp_path / f"{uuid.uuid4()}.duckdb"
    file = write_lines(tmp_path / "runs.jsonl", objects)
    code, said = imported("langsmith", database, str(file))
    assert (code, len(said)) == (0, 1), said
    return rows(database)


# --- times and ids -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-11-30T01:02:03.456789Z", START),
        ("2026-11-30T01:02:03.456789", START),
        ("2026-11-30T01:02:03.456789+00:00", START),
        ("2026-11-30 01:02:03.456789+00:00", START),
        ("2026-11-30T03:32:03.456789+02:30", START),
        ("2026-11-29T21:02:03.456789-0400", START),
        ("2026-11-30T01:02:03,456789z", START),
        ("2026-11-30T01:02:03.456789123Z", START + 123),
        ("2026-11-30T01:02:03.4567891239Z", START + 123),
        ("2026-11-30T01:02:03Z", 1_796_000_523_000_000_000),
        ("2026-11-30T01:02Z", 1_796_000_520_000_000_000),
        ("2024-02-29T23:59:59Z", 1_709_251_199_000_000_000),
        (1_796_000_523, 1_796_000_523_000_000_000),
        (1_796_000_523.5, 1_796_000_523_500_000_000),
        (1_796_000_523_456, 1_796_000_523_456_000_000),
        (1_796_000_523_456_789, START),
        (START, START),
        (None, None),
        ("", None),
    ],
)
def test_a_time_is_read_in_every_form(value: Any, expected: int | None) -> None:
    assert unix_nano(value) == expected


@pytest.mark.parametrize(
    "value", ["yesterday", "2026-13-01T00:00:00Z", True, [1], "1969-12-31T23:59:59Z", 1e30, -1]
)
def test_what_is_no_time_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"not a time|a time before 1970|does not match|month"):
        unix_nano(value)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (START, "2026-11-30T01:02:03.456789Z"),
        (START + 1, "2026-11-30T01:02:03.456789001Z"),
        (0, "1970-01-01T00:00:00.000000Z"),
    ],
)
def test_a_time_is_written_as_langsmith_does(nanoseconds: int, text: str) -> None:
    assert time_text(nanoseconds) == text
    assert unix_nano(text) == nanoseconds


def test_a_dotted_order_gives_starts_and_ids_and_anything_else_nothing() -> None:
    order = f"20261130T010203456789Z{ROOT}.20261130T010204000000Z{CHILD}"

    assert dotted(order) == [
        (START, uuid.UUID(ROOT)),
        (1_796_000_524_000_000_000, uuid.UUID(CHILD)),
    ]
    # What langsmith's own model makes up for a run without one.
    assert dotted(f"2026-11-30T01:02:03{ROOT}") == []
    assert dotted(None) == []


def test_a_span_id_is_the_second_half_of_a_run_id() -> None:
    assert span_id_of(uuid.UUID(OTHER)) == "9444555555555555"
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "00000000000000aa"
    assert span_id_of(run_id_of(trace_id, span_id)) == span_id


# --- S1: list_runs -------------------------------------------------------------------------------


def test_a_run_of_list_runs_is_read_whole(tmp_path: Path) -> None:
    start = datetime(2026, 11, 30, 1, 2, 3, 456789, timezone.utc)
    run_ = LangSmithRun(
        id=uuid.UUID(CHILD),
        name="model",
        run_type="llm",
        start_time=start,
        end_time=start + timedelta(seconds=2),
        first_token_time=start + timedelta(milliseconds=250),
        extra={
            "metadata": {
                "thread_id": "chat-7",
                "user_id": "u1",
                "ls_model_name": "gpt-4o",
                "ls_provider": "openai",
                "langgraph_node": "call",
                "langgraph_step": 3,
                "nested": {"a": [1, None, True, 1.5]},
            },
            "runtime": {"library": "langchain-core"},
        },
        inputs={"messages": [["héé 😀"]]},
        outputs={"generations": []},
        events=[{"name": "new_token", "time": "2026-11-30T01:02:03.7Z"}],
        parent_run_id=uuid.UUID(ROOT),
        trace_id=uuid.UUID(ROOT),
        dotted_order=f"20261130T010203456789Z{ROOT}.20261130T010203456789Z{CHILD}",
        tags=["a, b", "seq:step:2"],
        status="success",
        session_id=uuid.UUID(OTHER),
        prompt_tokens=10,
        completion_tokens=5,
        total_tokens=15,
        total_cost=Decimal("0.0125"),
        prompt_token_details={"cache_read": 4, "cache_creation": 1},
        completion_token_details={"reasoning": 2},
        feedback_stats={"correct": {"n": 4, "avg": 0.75}, "note": {"n": 1, "avg": None}},
    )
    file = tmp_path / "runs.jsonl.gz"
    database = tmp_path / "t.duckdb"
    write_lines(file, [run_.model_dump_json()])

    assert imported("langsmith", database, "--strict", str(file)) == (0, ["imported: 1 records"])

    [found] = rows(database)
    metadata = json.loads(found.pop("metadata"))
    assert metadata["nested"] == {"a": [1, None, True, 1.5]}
    expected = {
        "trace_id": ROOT.replace("-", ""),
        "span_id": "8000000000000002",
        "parent_span_id": "8000000000000001",
        "run_id": CHILD,
        "parent_run_id": ROOT,
        "name": "model",
        "run_type": "llm",
        "status": "ok",
        "start_time": "2026-11-30T01:02:03.456789Z",
        "end_time": "2026-11-30T01:02:05.456789Z",
        "duration_ms": 2000.0,
        "model": "gpt-4o",
        "provider": "openai",
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 15,
        "cost_usd": 0.0125,
        "cache_read_tokens": 4,
        "cache_write_tokens": 1,
        "reasoning_tokens": 2,
        "time_to_first_token_ms": 250.0,
        "session_id": "chat-7",
        "user_id": "u1",
        "tags": ["a, b", "seq:step:2"],
        "langgraph_node": "call",
        "langgraph_step": 3,
        "dialect": "langsmith",
        "inputs": '{"messages":[["héé 😀"]]}',
        "outputs": '{"generations":[]}',
    }
    assert {name: found[name] for name in expected} == expected
    verdicts = rows(database, "SELECT name, score_value, run_id FROM evaluations ORDER BY name")
    assert verdicts == [
        {"name": "correct", "score_value": 0.75, "run_id": CHILD},
        {"name": "note", "score_value": None, "run_id": CHILD},
    ]
    # What has no column is kept.
    [kept] = rows(database, "SELECT attributes ->> 'langsmith.run.fields' AS fields FROM spans")
    fields = json.loads(kept["fields"])
    assert fields["events"] == [{"name": "new_token", "time": "2026-11-30T01:02:03.7Z"}]
    assert fields["extra"] == {"runtime": {"library": "langchain-core"}}
    assert fields["session_id"] == OTHER


@pytest.mark.parametrize(
    ("fields", "status", "error_type", "error"),
    [
        ({}, "ok", None, None),
        ({"status": None}, "ok", None, None),
        ({"status": "error"}, "error", None, None),
        ({"error": "ValueError('no')"}, "error", "ValueError", "no"),
        (
            {
                "status": "error",
                "error": "ValueError('no')\n\nTraceback (most recent call last):\n",
            },
            *("error", "ValueError", "no"),
        ),
        ({"error": "it broke"}, "error", None, "it broke"),
        ({"error": "CancelledError()"}, "cancelled", "CancelledError", "CancelledError()"),
        ({"error": "KeyboardInterrupt()"}, "cancelled", "KeyboardInterrupt", "KeyboardInterrupt()"),
        ({"error": "GeneratorExit()"}, "abandoned", "GeneratorExit", "GeneratorExit()"),
        (
            {"error": "GraphInterrupt((Interrupt(value='ok?'),))"},
            *("interrupted", "GraphInterrupt", "GraphInterrupt((Interrupt(value='ok?'),))"),
        ),
        # Without an end there is the error, or it has not ended.
        ({"end_time": None, "error": "E('x')"}, "error", "E", "x"),
        ({"end_time": None, "status": "pending"}, "pending", None, None),
        ({"end_time": None, "status": "PENDING", "outputs": None}, "pending", None, None),
        ({"end_time": None, "status": None, "outputs": None}, "pending", None, None),
    ],
)
def test_how_a_run_ended_is_read(
    fields: dict[str, Any], status: str, error_type: str | None, error: str | None, tmp_path: Path
) -> None:
    [found] = stored(tmp_path, run(**fields))

    assert (found["status"], found["error_type"], found["error"]) == (status, error_type, error)
    assert (found["end_time"] is None) == (status == "pending")


# --- S2: runs.query, S3: the command line --------------------------------------------------------


def test_a_run_of_the_query_api_has_its_parent_at_the_end_of_the_list(tmp_path: Path) -> None:
    [found] = stored(
        tmp_path,
        run(
            id=CHILD,
            parent_run_ids=[OTHER, ROOT],
            status="ERROR",
            error="E('x')",
            end_time=None,
            latency_seconds=1.5,
            run_type="RETRIEVER",
            metadata={"user_id": 7},
            thread_id="chat-8",
            project_id=OTHER,
            is_root=False,
        ),
    )

    assert found["parent_span_id"] == "8000000000000001"
    assert (found["status"], found["duration_ms"]) == ("error", 1500.0)
    assert (found["session_id"], found["user_id"]) == ("chat-8", "7")
    assert found["run_type"] == "retriever"


def test_a_run_of_the_command_line_has_no_times(tmp_path: Path) -> None:
    base = {"trace_id": ROOT, "name": "n", "inputs": {"a": 1}}
    found = stored(
        tmp_path,
        {**base, "run_id": ROOT, "run_type": "chain", "outputs": {"b": 2}, "parent_run_id": None},
        {**base, "run_id": OTHER, "run_type": "tool", "error": "E('x')", "parent_run_id": ROOT},
        {**base, "run_id": CHILD, "run_type": "llm", "outputs": None, "parent_run_id": ROOT},
    )

    by_type = {each["run_type"]: each for each in found}
    assert {name: each["status"] for name, each in by_type.items()} == {
        "chain": "ok",
        "tool": "error",
        "llm": "pending",
    }
    # An id of version 7 says when it was made; of another one nothing is known.
    assert by_type["chain"]["start_time"] == "2024-11-29T18:28:01.247Z"
    assert by_type["tool"]["start_time"] == "1970-01-01T00:00:00Z"


# --- S4: what the tracer sends -------------------------------------------------------------------


class _Client:
    """Stands for LangSmith's client: takes down what the tracer sends."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def create_run(self, **fields: Any) -> None:
        self.lines.append(json.dumps(fields, default=str))

    def update_run(self, run_id: Any = None, **fields: Any) -> None:
        self.lines.append(json.dumps({"id": run_id, **fields}, default=str))

    def flush(self) -> None:
        pass


class _Retriever(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        if query == "fail":
            raise ConnectionError("index is down")
        return [Document("d1"), Document("d2")]


def _traced() -> list[str]:
    client = _Client()
    tracer = LangChainTracer(client=client, project_name="shop")  # type: ignore[arg-type]
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    model = GenericFakeChatModel(messages=iter([AIMessage("hi", usage_metadata=usage)]))
    chain = RunnableLambda(lambda text: text) | _Retriever() | RunnableLambda(str) | model
    config: Any = {"callbacks": [tracer], "tags": ["t"], "metadata": {"thread_id": "chat"}}
    chain.invoke("cats", config=config)
    with pytest.raises(ConnectionError):
        chain.invoke("fail", config=config)
    return client.lines


def _check_traced(found: list[dict[str, Any]]) -> None:
    facts = sorted((each["name"], each["run_type"], each["status"]) for each in found)
    lambda_, sequence = "RunnableLambda", "RunnableSequence"
    assert facts == [
        ("GenericFakeChatModel", "llm", "ok"),
        *[(lambda_, "chain", "ok")] * 2,
        (sequence, "chain", "error"),
        (sequence, "chain", "ok"),
        ("_Retriever", "retriever", "error"),
        ("_Retriever", "retriever", "ok"),
        ("str", "chain", "ok"),
    ]
    by_name = {(each["name"], each["status"]): each for each in found}
    model = by_name["GenericFakeChatModel", "ok"]
    assert (model["input_tokens"], model["output_tokens"]) == (3, 2)
    assert model["service_name"] == "shop"
    assert by_name["_Retriever", "ok"]["document_count"] == 2
    assert by_name["_Retriever", "error"]["error_type"] == "ConnectionError"
    roots = {each["run_id"] for each in found if each["parent_span_id"] is None}
    assert roots == {each["run_id"] for each in found if each["name"] == sequence}
    assert {each["parent_run_id"] for each in found} == {None, *roots}
    assert {each["session_id"] for each in found} == {"chat"}
    assert all(each["duration_ms"] >= 0 for each in found)


def test_what_the_tracer_sends_is_joined_to_whole_runs(tmp_path: Path) -> None:
    _check_traced(stored(tmp_path, *_traced()))


def test_the_halves_of_a_run_may_come_in_any_order_and_from_several_files(tmp_path: Path) -> None:
    lines = _traced()
    starts = write_lines(
        tmp_path / "starts.jsonl", [each for each in lines if "end_time" not in each]
    )
    ends = write_lines(tmp_path / "ends.jsonl.gz", [each for each in lines if "end_time" in each])
    database = tmp_path / "t.duckdb"

    code, _ = imported("langsmith", database, str(ends), str(starts))

    assert code == 0
    _check_traced(rows(database))


def test_an_older_half_says_only_what_changed(tmp_path: Path) -> None:
    start = run(
        end_time=None, outputs=None, status=None, extra={"metadata": {"a": 1}, "runtime": 1}
    )
    end = {
        "id": ROOT,
        "end_time": "2026-11-30T01:02:05.456789",
        "outputs": {"a": "late"},
        "error": None,
        "extra": {"metadata": {"b": 2}},
    }
    for objects in ([start, end], [end, start]):
        [found] = stored(tmp_path, *objects)
        assert (found["name"], found["duration_ms"]) == ("answer", 2000.0)
        assert (found["inputs"], found["outputs"]) == ('{"q":"?"}', '{"a":"late"}')
        assert json.loads(found["metadata"]) == {"a": 1, "b": 2}


def test_a_run_that_never_ended_is_pending_until_its_end_is_imported(tmp_path: Path) -> None:
    database = tmp_path / "t.duckdb"
    start = write_lines(tmp_path / "start.jsonl", [run(end_time=None, outputs=None, status=None)])
    whole = write_lines(tmp_path / "whole.jsonl", [run()])

    imported("langsmith", database, str(start))
    assert count(database) == {"pending_spans": 1}
    imported("langsmith", database, str(whole))
    imported("langsmith", database, str(start))

    assert count(database) == {"spans": 1}
    assert [each["status"] for each in rows(database)] == ["ok"]


def test_an_end_alone_has_the_start_of_its_dotted_order(tmp_path: Path) -> None:
    [found] = stored(
        tmp_path,
        {
            "id": ROOT,
            "end_time": "2026-11-30T01:02:04.456789Z",
            "dotted_order": f"20261130T010203456789Z{ROOT}",
            "outputs": {},
        },
    )

    assert (found["status"], found["duration_ms"]) == ("ok", 1000.0)


# --- all shapes ----------------------------------------------------------------------------------


def test_usage_is_found_where_tracers_put_it(tmp_path: Path) -> None:
    usage = {
        "input_tokens": 7,
        "output_tokens": 2,
        "total_tokens": 9,
        "input_token_details": {"cache_read": 5},
    }
    message = {"kwargs": {"usage_metadata": usage}}
    for fields in (
        {"outputs": {"generations": [[{"message": message}]]}},
        {"outputs": {"usage_metadata": usage}},
        {"extra": {"metadata": {"usage_metadata": usage}}},
    ):
        [found] = stored(tmp_path, run(run_type="llm", **fields))
        assert (found["input_tokens"], found["cache_read_tokens"]) == (7, 5)


def test_usage_that_a_chain_repeats_is_not_counted_again(tmp_path: Path) -> None:
    [found] = stored(tmp_path, run(prompt_tokens=3, completion_tokens=2, total_tokens=5))

    assert (found["input_tokens"], found["total_tokens"]) == (None, None)


def test_a_parent_that_is_not_in_the_file_is_kept_as_parent(tmp_path: Path) -> None:
    [found] = stored(tmp_path, run(id=CHILD, parent_run_id=OTHER))

    assert found["parent_span_id"] == "9444555555555555"


def test_odd_values_arrive_whole(tmp_path: Path) -> None:
    inputs = {
        "emoji": "👩‍👩‍👧 \U0001f600",
        "large": 2**70,
        "deep": [[[[{"a": None}]]]],
        "": "\u2028\0",
    }
    [found] = stored(tmp_path, run(inputs=inputs, extra={"metadata": {"n": 2**70, "f": 1e300}}))

    assert json.loads(found["inputs"]) == inputs
    assert json.loads(found["metadata"]) == {"n": str(2**70), "f": 1e300}


def test_half_a_character_costs_itself_only(tmp_path: Path) -> None:
    line = json.dumps(run(name="cut \ud83d", inputs={"a": "\udc00"}))

    [found] = stored(tmp_path, line)

    assert found["name"] == "cut \ufffd"


def test_a_bad_line_is_told_with_its_number_and_the_others_are_imported(tmp_path: Path) -> None:
    file = write_lines(
        tmp_path / "runs.jsonl",
        [
            run(),
            "{secret",
            "",
            ["secret"],
            {"name": "secret"},
            run(id="secret"),
            run(id=CHILD, start_time="secret"),
            run(id=CHILD, end_time="1812-01-01T00:00:00Z"),
            run(id=CHILD, parent_run_id=OTHER, trace_id=None),
            run(id=OTHER),
        ],
    )
    database = tmp_path / "t.duckdb"

    code, said = imported("langsmith", database, str(file))

    assert code == 1
    assert said == [
        f"{file}:2: not JSON: Expecting property name enclosed in double quotes",
        f"{file}:4: it is not a JSON object",
        f"{file}:5: it has neither id nor run_id",
        f"{file}:6: id is not a UUID",
        f"{file}:7: start_time is not a time",
        f"{file}:8: end_time is a time before 1970 or after 2262",
        f"{file}:9: it has neither trace_id nor dotted_order",
        "imported: 2 records",
        "not imported: 7",
    ]
    assert [each["run_id"] for each in rows(database)] == [ROOT, OTHER]

    assert imported("langsmith", tmp_path / "s.duckdb", "--strict", str(file))[0] == 2
    assert not (tmp_path / "s.duckdb").exists()


def test_importing_twice_stores_once(tmp_path: Path) -> None:
    database = tmp_path / "t.duckdb"
    file = write_lines(tmp_path / "runs.jsonl", [*_traced(), run(end_time=None, status="pending")])

    imported("langsmith", database, str(file))
    before = contents(database)
    imported("langsmith", database, str(file))

    assert contents(database) == before
    assert count(database) == {"spans": 8, "pending_spans": 1}


def test_the_core_questions_are_answered_about_imported_runs(tmp_path: Path) -> None:
    database = tmp_path / "t.duckdb"
    slow = run(id=OTHER, parent_run_id=ROOT, run_type="tool", name="slow")
    slow["end_time"] = "2026-11-30T01:02:10Z"
    failed = run(id=CHILD, parent_run_id=ROOT, run_type="retriever", error="E('x')", name="index")
    imported("langsmith", database, str(write_lines(tmp_path / "r", [run(), slow, failed])))

    for query, name in (
        ("slow-tools", "slow"),
        ("failed-retrievers", "index"),
        ("mixed-status-parents", "answer"),
    ):
        result = asked("query", query, "--database", str(database), "--format", "jsonl")
        assert [json.loads(line)["name"] for line in result.stdout.splitlines()] == [name]


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    folder = tmp_path_factory.mktemp("langsmith")
    collector = collector_process.start(folder / "t.duckdb", folder / "log")
    yield collector
    collector.kill()


def test_the_collector_that_runs_stores_the_same(
    collector: RunningCollector, tmp_path: Path
) -> None:
    file = write_lines(tmp_path / "runs.jsonl", _traced())

    assert imported("langsmith", collector.database, str(file)) == (
        0,
        ["sent to the collector: 8 records; it leaves out what it has already"],
    )

    imported("langsmith", tmp_path / "t.duckdb", str(file))
    assert rows(collector.database) == rows(tmp_path / "t.duckdb")


def test_an_integer_that_python_does_not_read_stays_as_its_digits(tmp_path: Path) -> None:
    runs = [
        '{"id": "%s", "trace_id": "%s", "name": "n", "run_type": "chain", "outputs": {},'
        ' "start_time": "2026-01-01T00:00:00", "end_time": "2026-01-01T00:00:01",'
        ' "inputs": {"x": %s}}' % (2 * (f"00000000-0000-4000-8000-00000000000{number}",) + (value,))
        for number, value in enumerate(["1", "1" * 5_000, "2"])
    ]
    file = tmp_path / "runs.json"
    file.write_text("[\n{}\n]".format(",\n".join(runs)))

    code, said = imported("langsmith", tmp_path / "t.duckdb", str(file))

    assert (code, said) == (0, ["imported: 3 records"])
