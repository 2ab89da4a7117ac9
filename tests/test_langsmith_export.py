"""Stored runs in LangSmith's shape: its own model reads them, and import gives them back."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from langsmith.schemas import Run as LangSmithRun

from exchanged import export, imported, lines, make_database, write_lines
from otelchain.demo.many import write_many
from otelchain_collector.rows import SpanRow
from otlp_requests import request, span, text
from stored_runs import SUPPORT_RUNS, TRACE, asked, make_store, run
from test_langsmith_import import ROOT, _traced

EVERY_STATUS: Sequence[SpanRow] = (
    run(1, None, "agent", "agent", inputs='{"q":"?"}', outputs='"text"', tags=["a, b", "c"]),
    run(2, 1, "model", "llm", model="gpt-4o", provider="openai", input_tokens=9, output_tokens=1)
    ._replace(
        total_tokens=10,
        cost_usd=0.1,
        context_window=128000,
        cache_read_tokens=4,
        reasoning_tokens=1,
        session_id="chat",
    )
    ._replace(user_id="u", time_to_first_token_ms=12.5, metadata='{"a":[1,null]}'),
    run(3, 1, "search", "retriever", status="error", error_type="E", error="no\nway", inputs="q"),
    run(4, 1, "pay", "tool", status="interrupted", error="ok?", tool_call_id="call_1"),
    run(5, 1, "stop", "tool", status="cancelled", error_type="CancelledError"),
    run(6, 1, "left", "chain", status="abandoned", error="its reader stopped"),
    run(7, 1, "handed", "tool", status="handled_error", error="bad id", outputs="[1,2]"),
    run(8, 1, "rank", "reranker", inputs="3", outputs="null", retry_attempt=2)._replace(
        tags=["retry:attempt:2"],
        langgraph_node="n",
        langgraph_step=4,
        langgraph_checkpoint_ns="x:1",
    ),
    run(9, 1, "lone", "prompt", trace_id="f" * 32, run_id="not a uuid", parent_run_id="x"),
    run(10, None, "é\u2028😀", "parser", trace_id="e" * 32, inputs='{"text":"\\ud83d\\ude00"}'),
)
# Columns that a run in LangSmith's shape has no place for, or that say who wrote the span.
_OTHERS = ("dialect", "run_id", "parent_run_id", "retry_attempt", "row_id", "inputs_hash")


_FACTS = (
    *("model", "provider", "input_tokens", "output_tokens", "total_tokens", "cache_read_tokens"),
    *("cache_write_tokens", "reasoning_tokens", "session_id", "user_id", "agent_name", "run_type"),
)


def _runs(database: Path) -> list[dict[str, Any]]:
    sql = f"SELECT * EXCLUDE ({', '.join(_OTHERS)}) FROM runs ORDER BY trace_id, span_id"
    result = asked("sql", sql, "--database", str(database), "--format", "jsonl")
    return [json.loads(line) for line in result.stdout.splitlines()]


def _meaning(found: dict[str, Any]) -> dict[str, Any]:
    """Return a run with its JSON read, since its spelling may change."""
    for name in ("inputs", "outputs", "metadata"):
        try:
            found[name] = json.loads(found[name])
        except (TypeError, ValueError):
            continue
    # What LangSmith keeps in the metadata is a column elsewhere.
    found["metadata"] = {
        key: value
        for key, value in (found["metadata"] or {}).items()
        if not key.startswith(("ls_", "lc_", "langgraph_")) and key not in ("session_id", "user_id")
    }
    return found


@pytest.mark.parametrize("rows", [SUPPORT_RUNS, EVERY_STATUS], ids=["support", "every status"])
def test_runs_of_another_dialect_come_back_as_they_were(
    rows: Sequence[SpanRow], tmp_path: Path
) -> None:
    database = make_store(tmp_path / "a.duckdb", list(rows))
    file = tmp_path / "runs.jsonl.gz"
    export("langsmith", database, "-o", str(file))

    code, said = imported("langsmith", tmp_path / "b.duckdb", "--strict", str(file))

    assert (code, said) == (0, [f"imported: {len(rows)} records"])
    before, after = _runs(database), _runs(tmp_path / "b.duckdb")
    assert list(map(_meaning, after)) == list(map(_meaning, before))


def test_the_facts_of_every_dialect_of_the_demo_come_back(tmp_path: Path) -> None:
    write_many(tmp_path / "a.duckdb", 2_000, 1_796_079_894 * 10**9)
    export("langsmith", tmp_path / "a.duckdb", "-o", str(tmp_path / "runs.jsonl"))
    imported("langsmith", tmp_path / "b.duckdb", str(tmp_path / "runs.jsonl"))

    with duckdb.connect() as both:
        for name in ("a", "b"):
            both.execute(f"ATTACH '{tmp_path / name}.duckdb' AS {name} (READ_ONLY)")
        dialects = both.execute("SELECT DISTINCT dialect FROM a.spans ORDER BY ALL").fetchall()
        # The document says where document_count is lost.
        lost = both.execute(
            f"""
            SELECT old.dialect, old.run_type, old.{", old.".join(_FACTS)}, new.span_id
            FROM a.spans AS old
            LEFT JOIN b.spans AS new USING (trace_id, span_id)
            WHERE ({", ".join(f"old.{fact}" for fact in _FACTS)})
                IS DISTINCT FROM ({", ".join(f"new.{fact}" for fact in _FACTS)})
                OR (new.document_count IS DISTINCT FROM old.document_count
                    AND old.run_status = 'ok'
                    AND old.outputs_attribute IS NOT NULL
                    AND json_valid(old.attributes ->> old.outputs_attribute))
            """
        ).fetchall()

    assert [name for [name] in dialects] == [
        *("gen_ai", "langsmith", "openinference", "openllmetry", "otelchain")
    ]
    assert lost == []


@pytest.mark.parametrize(
    ("attributes", "added"),
    [
        ([text("gen_ai.request.model", "gpt-4o")], {"ls_model_name": "gpt-4o"}),
        (
            [text("gen_ai.request.model", "gpt-4o"), text("langsmith.metadata.ls_model_name", "x")],
            {"ls_model_name": "x"},
        ),
        ([text("langsmith.thread_id", "t")], {"session_id": "t"}),
        ([text("langsmith.metadata.thread_id", "t")], {"thread_id": "t"}),
    ],
)
def test_metadata_of_langsmith_gets_what_it_does_not_say(
    attributes: list[Any], added: dict[str, str], tmp_path: Path
) -> None:
    sent = span(attributes=[text("langsmith.span.kind", "llm"), *attributes])
    database = make_database(tmp_path / "a.duckdb", request(sent))

    [found] = lines(export("langsmith", database))

    assert found["extra"]["metadata"] == added


def test_a_pending_run_comes_back_as_pending(tmp_path: Path) -> None:
    attributes = [text("otelchain.run.type", "tool"), text("otelchain.run.status", "pending")]
    database = make_database(tmp_path / "a.duckdb", request(span(attributes=attributes)))
    file = write_lines(tmp_path / "runs.jsonl", lines(export("langsmith", database)))

    imported("langsmith", tmp_path / "b.duckdb", str(file))

    [found] = _runs(tmp_path / "b.duckdb")
    assert (found["status"], found["end_time"], found["run_type"]) == ("pending", None, "tool")


def test_runs_of_langsmith_are_exported_as_they_were_imported(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "in.jsonl", _traced())
    imported("langsmith", tmp_path / "a.duckdb", str(file))
    first = export("langsmith", tmp_path / "a.duckdb")

    (tmp_path / "out.jsonl").write_bytes(first)
    imported("langsmith", tmp_path / "b.duckdb", str(tmp_path / "out.jsonl"))

    assert export("langsmith", tmp_path / "b.duckdb") == first
    assert _runs(tmp_path / "b.duckdb") == _runs(tmp_path / "a.duckdb")
    whole = lines(first)
    assert {each["session_name"] for each in whole} == {"shop"}
    retriever = next(each for each in whole if each["error"])
    assert "Traceback (most recent call last)" in retriever["error"]
    assert [event["name"] for event in whole[0]["events"]] == ["start", "end"]
    assert whole[0]["dotted_order"].endswith(whole[0]["id"])


def test_langsmiths_own_model_reads_every_line(tmp_path: Path) -> None:
    database = make_store(tmp_path / "a.duckdb", list(EVERY_STATUS))

    runs = [
        LangSmithRun.model_validate_json(line)
        for line in export("langsmith", database).splitlines()
    ]

    by_name = {each.name: each for each in runs}
    assert {name: (each.run_type, each.status) for name, each in by_name.items()} == {
        "agent": ("chain", "success"),
        "model": ("llm", "success"),
        "search": ("retriever", "error"),
        "pay": ("tool", "error"),
        "stop": ("tool", "error"),
        "left": ("chain", "error"),
        "handed": ("tool", "success"),
        "rank": ("chain", "success"),
        "lone": ("prompt", "success"),
        "é\u2028😀": ("parser", "success"),
    }
    model = by_name["model"]
    assert str(model.trace_id).replace("-", "") == TRACE
    assert model.parent_run_id == by_name["agent"].id
    assert (model.prompt_tokens, model.completion_tokens, model.total_tokens) == (9, 1, 10)
    assert model.prompt_token_details == {"cache_read": 4}
    assert model.start_time.isoformat() == "2026-11-30T23:04:54.123456+00:00"
    assert model.metadata["session_id"] == "chat"
    assert model.metadata["ls_model_name"] == "gpt-4o"
    assert by_name["agent"].outputs == {"output": "text"}
    assert by_name["search"].inputs == {"input": "q"}


def test_ids_are_the_same_in_every_export(tmp_path: Path) -> None:
    database = make_store(tmp_path / "a.duckdb", [run(1, None, "a", "chain")])
    known = make_store(
        tmp_path / "b.duckdb",
        [run(2**63 + 1, None, "a", "chain", trace_id=ROOT.replace("-", ""), run_id=ROOT)],
    )

    # The span id as it is, behind the beginning of the trace id; or the run's own id if that fits.
    [derived] = lines(export("langsmith", database))
    [own] = lines(export("langsmith", known))
    assert derived["id"] == "4bf92f35-77b3-4da6-0000-000000000001"
    assert own["id"] == ROOT
