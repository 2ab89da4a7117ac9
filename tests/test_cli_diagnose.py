"""``otelchain diagnose``: the findings of the golden store, in words and in order."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from collector_process import RunningCollector
from golden_runs import errors, everything
from golden_store import T1, T2, T3, T5, GoldenStore
from otelchain_queries import load
from stored_runs import asked

DAY = ("--since", "2026-11-30")


@pytest.fixture(name="database", scope="module")
def _database(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("errors") / "errors.duckdb"
    store = GoldenStore(path)
    errors(store)
    store.add(T3, "docs", "t3-root", name="docs", kind="retriever", document_count=0, start_ms=50)
    store.connection.close()
    return str(path)


def diagnosed(database: str, *arguments: str) -> list[str]:
    result = asked("diagnose", *arguments, "--database", database)
    assert (result.returncode, result.stderr) == (0, b"")
    # The golden runs are older from hour to hour.
    told = re.sub(r"(not ended since) [0-9.]+ \w+", r"\1 …", result.stdout.decode())
    return told.splitlines()


def test_findings_are_told_in_order_of_weight(database: str) -> None:
    assert diagnosed(database, *DAY) == [
        "search failed 3 times with TimeoutError; the whole trace failed with it once.",
        f"  look: otelchain show {T3}",
        "divide ended as handled_error once where the whole trace ended well all the same.",
        f"  look: otelchain show {T2}",
        "search ended as error once where the whole trace ended well all the same.",
        f"  look: otelchain show {T5}",
        "search ended as error once where the whole trace ended well all the same.",
        f"  look: otelchain show {T2}",
        "Run search has not ended since ….",
        f"  look: otelchain show {T2}",
        "Retriever docs found nothing in 1 of 1 calls; the answer was given all the same in 0.",
        f"  look: otelchain show {T3}",
        "Below agent, steps failed once and succeeded once; it ended as cancelled.",
        f"  look: otelchain show {T3}",
        "Below agent, steps failed twice and succeeded twice; it ended as ok.",
        f"  look: otelchain show {T2}",
    ]


def test_one_trace_is_told_alone(database: str) -> None:
    lines = diagnosed(database, T1)

    assert lines == [
        "search failed once with TimeoutError; the whole trace failed with it once.",
        f"  look: otelchain show {T1}",
    ]


def test_no_more_findings_of_a_query_than_wanted_are_told(database: str) -> None:
    lines = diagnosed(database, *DAY, "--each", "1")

    place = lines.index(
        "divide ended as handled_error once where the whole trace ended well all the same."
    )
    assert lines[place + 2] == "  2 more: otelchain query unseen-errors"


def test_findings_as_json_have_their_weight_and_query(database: str) -> None:
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


def test_a_script_learns_from_the_exit_code_whether_there_is_a_finding(database: str) -> None:
    def code(*arguments: str) -> int:
        return asked("diagnose", *arguments, "--exit-code", "--database", database).returncode

    assert code(*DAY) == 1
    assert code("--since", "2027-01-01") == 0


def test_nothing_found_is_said_on_standard_error(database: str) -> None:
    result = asked("diagnose", "--since", "2027-01-01", "--database", database)

    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"nothing found\n")


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


def test_a_query_of_the_users_own_tells_its_findings_too(database: str, tmp_path: Path) -> None:
    tmp_path.joinpath("agents.sql").write_text(
        "-- title: Agents\n-- description: d\n-- why: w\n"
        "-- finding: {agents} agents ran.\n-- weight: 100\n"
        "-- param: since = 1970-01-01  from\n-- param: service =   of\n"
        "SELECT count(*) AS agents FROM runs WHERE name = 'agent'\n"
        "AND start_time >= $since::TIMESTAMP_NS AND $service = ''"
    )

    assert diagnosed(database, *DAY, "--queries-dir", str(tmp_path))[0] == "4 agents ran."


def test_a_query_that_cannot_be_answered_costs_only_its_own_findings(
    database: str, tmp_path: Path
) -> None:
    tmp_path.joinpath("broken.sql").write_text(
        "-- title: Broken\n-- description: d\n-- why: w\n-- finding: {x}\n-- weight: 1\n"
        "-- param: since = 1970-01-01  from\n-- param: service =   of\n"
        "SELECT no_column AS x FROM runs WHERE $since <> $service"
    )

    result = asked(*("diagnose", *DAY, "--queries-dir", str(tmp_path), "--database", database))

    assert result.returncode == 0
    assert result.stderr.startswith(b"broken was not answered: Binder Error")
    assert result.stdout.startswith(b"search failed 3 times")


def test_what_is_told_obeys_no_escape_sequence(tmp_path: Path) -> None:
    store = GoldenStore(tmp_path / "x.duckdb")
    store.add(T1, "a", name="\x1b[31mred", kind="retriever", status="error", error_type="E")
    store.connection.close()

    lines = diagnosed(str(tmp_path / "x.duckdb"), *DAY)

    assert "\x1b" not in "".join(lines)
    assert any("red" in line for line in lines)
