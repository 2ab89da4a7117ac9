"""``otelchain diagnose``: the findings of the golden store, in words and in order."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from collector_process import RunningCollector
from golden_runs import errors, everything
from golden_store import T1, T2, T3, T4, T5, GoldenStore
from otelchain_queries import load
from stored_runs import asked

DAY = ("--since", "2026-11-30")
DAY_MS = 24 * 60 * 60 * 1_000
RED = "6" * 32


@pytest.fixture(name="database", scope="module")
def _database(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("errors") / "errors.duckdb"
    store = GoldenStore(path)
    errors(store)
    store.add(T3, "docs", "t3-root", name="docs", kind="retriever", document_count=0, start_ms=50)
    # Of another day.
    store.add(RED, "a", name="\x1b[31mred", status="error", error_type="E", start_ms=-DAY_MS)
    store.connection.close()
    return str(path)


def diagnosed(database: str, *arguments: str) -> list[str]:
    result = asked("diagnose", *arguments, "--database", database)
    assert (result.returncode, result.stderr) == (0, b"")
    return told(result)


def told(result: "subprocess.CompletedProcess[bytes]") -> list[str]:
    """The golden runs are older from hour to hour."""
    return re.sub(r"(not ended for) [0-9.]+ \w+", r"\1 …", result.stdout.decode()).splitlines()


@pytest.fixture(name="for_a_script", scope="module")
def _for_a_script(database: str) -> "subprocess.CompletedProcess[bytes]":
    return asked("diagnose", *DAY, "--fail-on-rows", "--database", database)


def test_findings_are_told_in_order_of_weight(
    for_a_script: "subprocess.CompletedProcess[bytes]",
) -> None:
    assert for_a_script.stderr == b""
    assert told(for_a_script) == [
        "search failed 3 times with TimeoutError; the whole trace failed with it once.",
        f"  look: otelchain show {T3}",
        "own-parent failed once with an unknown error; the whole trace failed with it once.",
        f"  look: otelchain show {T4}",
        "divide ended as handled_error once where the whole trace ended well all the same.",
        f"  look: otelchain show {T2}",
        "search ended as error once where the whole trace ended well all the same.",
        f"  look: otelchain show {T5}",
        "search ended as error once where the whole trace ended well all the same.",
        f"  look: otelchain show {T2}",
        "Run search has not ended for ….",
        f"  look: otelchain show {T2}",
        "Retriever docs found nothing in 1 of 1 call (answered all the same: 0).",
        f"  look: otelchain show {T3}",
        "Below agent, steps failed once and succeeded once; it ended as cancelled.",
        f"  look: otelchain show {T3}",
        "Below agent, steps failed twice and succeeded twice; it ended as ok.",
        f"  look: otelchain show {T2}",
    ]


def test_no_more_findings_of_a_query_than_wanted_are_told(database: str) -> None:
    lines = diagnosed(database, *DAY, "--each", "1")

    place = lines.index(
        "divide ended as handled_error once where the whole trace ended well all the same."
    )
    assert (
        lines[place + 2] == "  2 more: otelchain query unseen-errors --since 2026-11-30T00:00:00Z"
    )


def test_one_trace_is_told_alone_and_as_json_with_weight_and_query(database: str) -> None:
    found = json.loads("\n".join(diagnosed(database, T1, "--format", "json")))

    finding = load("first-causes").finding
    assert finding is not None
    assert found == [
        {
            "weight": finding.weight,
            "query": "first-causes",
            "text": "search failed once with TimeoutError; the whole trace failed with it once.",
            "trace_id": T1,
            "more": 0,
        }
    ]


def test_a_script_learns_from_the_exit_code_whether_there_is_a_finding(
    database: str, for_a_script: "subprocess.CompletedProcess[bytes]"
) -> None:
    nothing = ("--since", "2027-01-01", "--fail-on-rows", "--database", database)

    result = asked("diagnose", *nothing)

    assert for_a_script.returncode == 1
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"nothing found\n")


def test_the_file_is_opened_once_for_all_queries(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    connect = duckdb.connect
    monkeypatch.setattr(
        duckdb, "connect", lambda *args, **kwargs: opened.append(args) or connect(*args, **kwargs)
    )

    diagnosed(database, *DAY)

    assert opened == [(database,)]


def test_an_unknown_trace_is_named(database: str) -> None:
    result = asked("diagnose", "abc", "--database", database)

    assert result.returncode == 2
    assert b"no trace has an id that begins with 'abc'" in result.stderr


def test_a_collector_tells_the_same(
    tmp_path: Path, start_collector: Callable[..., RunningCollector]
) -> None:
    database = tmp_path / "everything.duckdb"
    store = GoldenStore(database)
    everything(store)
    store.connection.close()
    arguments = (*DAY, "--each", "100", "--format", "json")
    from_the_file = diagnosed(str(database), *arguments)

    start_collector(database)

    assert diagnosed(str(database), *arguments) == from_the_file
    found = json.loads("\n".join(from_the_file))
    weights = [finding["weight"] for finding in found]
    assert weights == sorted(weights, reverse=True)
    assert len({finding["query"] for finding in found}) >= 20


def test_queries_of_the_users_own_tell_their_findings_too_and_a_broken_one_costs_only_its_own(
    database: str, tmp_path: Path
) -> None:
    tmp_path.joinpath("agents.sql").write_text(
        "-- title: Agents\n-- description: d\n-- why: w\n"
        "-- finding: {agents} agents ran.\n-- weight: 100\n"
        "-- param: since = 1970-01-01  from\n-- param: service =   of\n"
        "SELECT count(*) AS agents FROM runs WHERE name = 'agent'\n"
        "AND start_time >= $since::TIMESTAMP_NS AND $service = ''"
    )
    tmp_path.joinpath("broken.sql").write_text(
        "-- title: Broken\n-- description: d\n-- why: w\n-- finding: {x}\n-- weight: 1\n"
        "-- param: since = 1970-01-01  from\n-- param: service =   of\n"
        "SELECT no_column AS x FROM runs WHERE $since <> $service"
    )

    result = asked(*("diagnose", *DAY, "--queries-dir", str(tmp_path), "--database", database))

    assert result.returncode == 0
    assert result.stderr.startswith(b"broken was not answered: Binder Error")
    lines = result.stdout.decode().splitlines()
    assert lines[0] == "4 agents ran."
    assert lines[1].startswith("search failed 3 times")


def test_what_is_told_obeys_no_escape_sequence(database: str) -> None:
    lines = diagnosed(database, RED)

    assert "\x1b" not in "".join(lines)
    assert any("red" in line for line in lines)
