"""Application → handler → exporter → collector process → DuckDB → the three questions."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate

import otelchain.provider
from applications import APPLICATIONS, MIN_DURATION, Application
from fakes import FakeModel
from otelchain import OtelCallbackHandler, configure
from otelchain.cli.root import cli

HOW = ("failed", "retried", "succeeded")


@pytest.fixture(autouse=True)
def _forget_the_last_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otelchain.provider, "_configured", None)


@pytest.fixture(name="collector")
def _collector(start_collector: Any, tmp_path: Path) -> Iterator[Any]:
    collector = start_collector(tmp_path / "traces.duckdb")
    yield collector
    collector.stop()


def traced(collector: Any, protocol: str) -> tuple[OtelCallbackHandler, Any]:
    address = collector.grpc if protocol == "grpc" else collector.http
    provider = configure("end-to-end", f"http://{address}", protocol=protocol, set_global=False)
    return OtelCallbackHandler(provider), provider


def ask(collector: Any, *arguments: str) -> list[dict[str, Any]]:
    """Run a command as a user types it; its rows, by column name."""
    command = [*arguments, "--format", "json", "--database", str(collector.database)]
    result = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
@pytest.mark.parametrize("name", APPLICATIONS)
def test_the_three_questions_answer_what_the_application_did(
    name: str, protocol: str, collector: Any
) -> None:
    application: Application = APPLICATIONS[name]
    if name == "graph":
        pytest.importorskip("langgraph")
    handler, provider = traced(collector, protocol)
    application.run(handler)
    provider.shutdown()

    retrievers = ask(collector, "query", "failed-retrievers")
    tools = ask(collector, "query", "slow-tools", "--min-duration", MIN_DURATION)
    parents = ask(collector, "query", "mixed-status-parents")

    assert {(row["name"], row["outcome"]) for row in retrievers} == application.failed_retrievers
    assert {row["name"] for row in tools} == application.slow_tools
    assert {
        row["name"]: (row["kind"], *(sorted(row[f"{how}_children"] or []) for how in HOW))
        for row in parents
    } == application.mixed
    for row in [*retrievers, *tools, *parents]:
        assert {"trace_id", "span_id", "name", "duration_ms", "start_time"} <= set(row)


def test_sixteen_threads_give_960_whole_traces_with_every_parent_right(collector: Any) -> None:
    handler, provider = traced(collector, "http/protobuf")
    prompt = ChatPromptTemplate.from_messages([("system", "Be {role}."), ("human", "{q}")])

    def sixty(thread: int) -> None:
        for number in range(60):
            model = FakeModel(messages=iter(["an answer"]))
            chain = (prompt | model | StrOutputParser()).with_config(callbacks=[handler])
            chain.invoke({"role": "kind", "q": f"{thread}-{number}"})

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(sixty, range(16)))
    provider.shutdown()
    collector.stop()

    with duckdb.connect(str(collector.database), read_only=True) as connection:
        whole = connection.execute(
            """
            SELECT count(*) FROM (
                SELECT trace_id FROM runs GROUP BY trace_id
                HAVING list_sort(list(name)) = [
                    'ChatPromptTemplate', 'FakeModel', 'RunnableSequence', 'StrOutputParser']
            )
            """
        ).fetchall()
        right = connection.execute(
            """
            SELECT count(*) FROM runs AS child JOIN runs AS parent
            ON parent.trace_id = child.trace_id AND parent.span_id = child.parent_span_id
            WHERE parent.name = 'RunnableSequence' AND parent.parent_span_id IS NULL
                AND child.parent_run_id = parent.run_id
            """
        ).fetchall()
        questions = connection.execute(
            """
            SELECT count(DISTINCT parent.inputs) FROM runs AS child JOIN runs AS parent
            ON parent.trace_id = child.trace_id AND parent.span_id = child.parent_span_id
            WHERE child.name = 'ChatPromptTemplate' AND child.inputs = parent.inputs
            """
        ).fetchall()
        spans = connection.execute("SELECT count(*) FROM spans").fetchall()
    assert whole == [(960,)]
    assert right == [(960 * 3,)]
    assert questions == [(960,)]
    assert spans == [(960 * 4,)]


def test_the_same_command_gives_the_same_output_with_and_without_the_collector(
    collector: Any,
) -> None:
    handler, provider = traced(collector, "grpc")
    for application in APPLICATIONS.values():
        application.run(handler)
    provider.shutdown()
    commands = [
        ["query", "failed-retrievers"],
        ["query", "slow-tools", "--min-duration", "1ms", "--format", "csv"],
        ["query", "mixed-status-parents", "--format", "markdown"],
        ["query", "traces", "--format", "jsonl"],
        ["sql", "SELECT name, start_time, tags, metadata, inputs FROM runs ORDER BY ALL"],
        ["show", "last"],
    ]

    def outputs() -> list[str]:
        database = ["--database", str(collector.database)]
        results = [CliRunner().invoke(cli, [*command, *database]) for command in commands]
        assert [result.exit_code for result in results] == [0] * len(commands), results
        return [result.output for result in results]

    while_it_runs = outputs()
    collector.stop()

    assert outputs() == while_it_runs
    assert all(while_it_runs)
