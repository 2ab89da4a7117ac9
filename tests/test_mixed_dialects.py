"""Several tracers in one trace, and the names of several on one span: each fact once, and right."""

import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otelchain_collector.decode import decode
from otelchain_collector.dialects.spans import Event
from otelchain_collector.normalise import Normalised, normalise
from otelchain_collector.rows import SpanRow
from stored_runs import asked, make_store
from test_normalise import START, span

pytest.importorskip("langgraph")

from peers.known import PEERS

_GEN_AI: dict[str, Any] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "asked",
    "gen_ai.response.model": "answered",
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 20,
    "gen_ai.usage.cache_read.input_tokens": 60,
    "gen_ai.response.finish_reasons": ["stop"],
    "gen_ai.response.time_to_first_chunk": 0.25,
    "gen_ai.conversation.id": "chat-1",
    "gen_ai.input.messages": "[]",
}
#: Facts of it, worked out by hand.
_FACTS = {
    "run_type": "llm",
    "provider": "openai",
    "model": "answered",
    "input_tokens": 100,
    "output_tokens": 20,
    "total_tokens": 120,
    "cache_read_tokens": 60,
    "finish_reasons": ["stop"],
    "time_to_first_token_ms": 250.0,
    "session_id": "chat-1",
    "inputs_attribute": "gen_ai.input.messages",
}


def read(attributes: dict[str, Any], **fields: Any) -> Normalised:
    return normalise(span(attributes, **fields))


def differing(found: Normalised, **expected: Any) -> dict[str, Any]:
    whole = found._asdict()
    return {name: whole[name] for name, value in expected.items() if whole[name] != value}


# --- one span, two dialects ---


@pytest.mark.parametrize(
    ("mark", "dialect"),
    [
        ({}, "gen_ai"),
        ({"openinference.span.kind": "LLM"}, "openinference"),
        ({"langfuse.observation.type": "generation"}, "langfuse"),
        ({"traceloop.span.kind": "task"}, "openllmetry"),
    ],
)
def test_what_a_mark_leaves_open_is_read_from_the_genai_names_beside_it(
    mark: dict[str, str], dialect: str
) -> None:
    found = read(_GEN_AI | mark)

    assert found.dialect == dialect
    assert differing(found, **_FACTS) == {}


def test_openinference_counts_win_over_those_of_genai_beside_them() -> None:
    # With OPENINFERENCE_ENABLE_GENAI_SEMCONV it writes both.
    own = {
        "openinference.span.kind": "LLM",
        "llm.token_count.prompt": 7,
        "llm.token_count.completion": 3,
        "llm.token_count.total": 10,
        "llm.model_name": "own",
        "session.id": "own-chat",
        "input.value": "x",
    }

    found = read(_GEN_AI | own)

    counts = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    others = {"model": "own", "session_id": "own-chat", "inputs_attribute": "input.value"}
    assert differing(found, **counts, **others) == {}


def test_langfuse_counts_are_not_mixed_with_those_of_genai() -> None:
    # Langfuse has taken the cached ones out of the input: 4 + 3. GenAI's cached ones are of a
    # count that is not used.
    own = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.usage_details": '{"input": 4, "output": 2, "input_cached_tokens": 3}',
        "langfuse.observation.model.name": "own",
    }

    found = read(_GEN_AI | own)

    counts = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9, "cache_read_tokens": 3}
    assert differing(found, **counts, model="own", reasoning_tokens=None) == {}
    without = own | {"langfuse.observation.usage_details": '{"input": 4, "output": 2}'}
    assert read(_GEN_AI | without).cache_read_tokens is None


def test_what_langfuse_calls_a_cost_is_the_sum_of_its_parts() -> None:
    kind = {"langfuse.observation.type": "generation"}
    cost = "langfuse.observation.cost_details"

    assert read({**kind, cost: '{"input": 0.25, "output": 0.5}'}).cost_usd == 0.75
    assert read({**kind, cost: '{"input": 0.25, "total": 1.5}'}).cost_usd == 1.5
    assert read({**kind, cost: '{"input": 0.25}', "gen_ai.usage.cost": 9.0}).cost_usd == 0.25
    assert read({**kind, "gen_ai.usage.cost": 9.0}).cost_usd == 9.0
    assert read({**kind, cost: "{}"}).cost_usd is None


def test_the_names_of_langfuse_for_session_and_user_are_read_on_a_span_of_others() -> None:
    # Documented for applications that send OpenTelemetry to Langfuse without its SDK.
    names = {"langfuse.session.id": "s", "langfuse.user.id": "u"}

    for mark in ({"gen_ai.operation.name": "chat"}, {"langfuse.observation.type": "span"}):
        found = read(names | mark)
        assert (found.session_id, found.user_id) == ("s", "u")


def test_traceloops_sdk_makes_no_span_of_others_its_own() -> None:
    # Its processor writes these on every span inside a workflow.
    everywhere = {
        "traceloop.entity.path": "ask.search",
        "traceloop.workflow.name": "ask",
        "traceloop.association.properties.session_id": "chat-2",
        "traceloop.association.properties.user_id": "u",
    }

    http = read({"http.request.method": "GET", **everywhere})
    tool = read(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.arguments": '{"q": 1}',
            **everywhere,
        }
    )
    openinference = read({"openinference.span.kind": "TOOL", "input.value": "x", **everywhere})

    assert (http.dialect, http.run_type) == ("other", None)
    expected = ("gen_ai", "tool", "search", "gen_ai.tool.call.arguments", "chat-2", "u")
    assert (
        *(tool.dialect, tool.run_type, tool.run_name, tool.inputs_attribute),
        *(tool.session_id, tool.user_id),
    ) == expected
    assert (openinference.dialect, openinference.inputs_attribute) == (
        *("openinference", "input.value"),
    )


def test_messages_of_genai_and_openinference_are_read_on_a_span_for_langsmith() -> None:
    # What its server reads of applications that send it OpenTelemetry without its SDK.
    kind = {"langsmith.span.kind": "llm"}

    genai = read({**kind, "gen_ai.input.messages": "[]", "gen_ai.output.messages": "[1]"})
    assert (genai.inputs_attribute, genai.outputs_attribute) == (
        *("gen_ai.input.messages", "gen_ai.output.messages"),
    )
    assert read({**kind, "input.value": "x"}).inputs_attribute == "input.value"
    flat = read({**kind, "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hi"})
    assert flat.inputs_built == '[{"role":"user","content":"hi"}]'


def test_our_own_spans_stay_ours_with_openinferences_names_beside() -> None:
    found = read(
        {
            "otelchain.run.type": "chat_model",
            "openinference.span.kind": "CHAIN",
            "llm.token_count.prompt": 1,
            "gen_ai.usage.input_tokens": 5,
        }
    )

    assert (found.dialect, found.run_type, found.input_tokens) == ("otelchain", "llm", 5)


# --- what stands in events, in messages, or nowhere ---


@pytest.mark.parametrize(
    "mark", [{}, {"telemetry.sdk.name": "openlit"}, {"traceloop.span.kind": "task"}]
)
def test_content_that_older_versions_wrote_as_events_is_read(mark: dict[str, str]) -> None:
    events = (
        Event("gen_ai.content.prompt", START, {"gen_ai.prompt": "user: hi"}),
        Event("gen_ai.content.completion", START, {"gen_ai.completion": '["hello"]'}),
    )
    chat = {"gen_ai.operation.name": "chat", **mark}

    found = read(chat, events=events)
    beside = read({**chat, "gen_ai.input.messages": "[]"}, events=events)

    assert (found.inputs_built, found.outputs_built) == ('"user: hi"', '["hello"]')
    assert (beside.inputs_attribute, beside.inputs_built) == ("gen_ai.input.messages", None)


@pytest.mark.parametrize(
    ("attributes", "event"),
    [
        ({"openinference.span.kind": "LLM"}, "First Token Stream Event"),
        ({"llm.request.type": "chat"}, "llm.content.completion.chunk"),
        ({"gen_ai.operation.name": "chat"}, "gen_ai.content.completion.chunk"),
    ],
)
def test_the_first_token_came_with_the_first_chunk(attributes: dict[str, Any], event: str) -> None:
    chunks = tuple(Event(event, START + at, {}) for at in (250_000_000, 300_000_000))
    others = (Event("other", START + 1, {}),)

    assert read(attributes, events=others + chunks).time_to_first_token_ms == 250.0
    assert read(attributes, events=others).time_to_first_token_ms is None
    # A clock that was set back.
    assert read(attributes, events=(Event(event, START - 1, {}),)).time_to_first_token_ms is None


@pytest.mark.parametrize(
    ("messages", "reasons"),
    [
        ('[{"role": "assistant", "finish_reason": "length"}]', ["length"]),
        ('[{"finish_reason": "stop"}, {"finish_reason": "length"}]', ["stop", "length"]),
        ('[{"finish_reason": ""}]', None),
        ('[{"finish_reason": null}, "x"]', None),
        ('{"finish_reason": "stop"}', None),
        ("[", None),
    ],
)
def test_why_a_model_stopped_is_read_from_its_messages(
    messages: str, reasons: list[str] | None
) -> None:
    written = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": messages}

    assert read(written).finish_reasons == reasons
    stated = {**written, "gen_ai.response.finish_reasons": ["tool_calls"]}
    assert read(stated).finish_reasons == ["tool_calls"]


# --- one trace, several tracers ---

_TRACE = "ab" * 16
_TWO = ("openinference-0.1.80", "langfuse-5.0.4", "otel-genai-1.3b0", "openlit-1.45.0")


def _rows(peer: str, trace_id: str | None = None) -> list[SpanRow]:
    rows = [
        row
        for body in PEERS[peer].requests()
        for row in decode(ExportTraceServiceRequest.FromString(body), 1).rows
    ]
    return [row if trace_id is None else row._replace(trace_id=trace_id) for row in rows]


def _answers(database: Path, query: str) -> list[str]:
    result = asked(
        "sql",
        f"SELECT dialect, name, run_type, status, error_type, {query} FROM runs ORDER BY ALL",
        *("--database", str(database), "--format", "jsonl", "--limit", "10000"),
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.decode().splitlines()


def test_the_spans_of_a_trace_say_the_same_whoever_else_has_written_into_it(
    tmp_path: Path,
) -> None:
    alone = make_store(tmp_path / "alone.duckdb", [row for peer in _TWO for row in _rows(peer)])
    mixed = make_store(
        tmp_path / "mixed.duckdb", [row for peer in _TWO for row in _rows(peer, _TRACE)]
    )
    facts = "input_tokens, output_tokens, cache_read_tokens, model, document_count, session_id"

    assert _answers(mixed, facts) == _answers(alone, facts)
    assert len({line.partition(",")[0] for line in _answers(mixed, facts)}) == len(_TWO)


def test_the_three_questions_see_every_tracer_of_a_mixed_trace(tmp_path: Path) -> None:
    database = make_store(
        tmp_path / "mixed.duckdb",
        [row for peer in _TWO[:2] for row in _rows(peer, _TRACE)],
    )

    def names(query: str, *arguments: str) -> list[str]:
        result = asked(
            *("query", query, "--database", str(database), "--format", "json", *arguments)
        )
        return sorted(row["name"] for row in json.loads(result.stdout))

    failed = ["broken_index", "empty_index", "first_index", "unsteady_index"]
    assert names("failed-retrievers") == sorted(2 * failed)
    assert names("slow-tools", "--min-duration", "250ms") == ["slow_lookup"] * 2
    parents = ["act", "branches", "guess", "with_retry", "with_spare"]
    assert names("mixed-status-parents") == sorted(2 * parents)
