"""The bundle on the command line: a subcommand per file, its options from the header."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import otelchain_queries
from collector_process import RunningCollector
from stored_runs import SUPPORT_RUNS, TRACE, asked, make_store, run


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> str:
    other = run(
        *(9, None, "other", "tool"), trace_id="f" * 32, start_ms=60_000, duration_ms=6000
    )._replace(service_name="billing")
    return str(make_store(tmp_path / "otelchain.duckdb", [*SUPPORT_RUNS, other]))


def names(*arguments: str, **variables: str) -> list[str]:
    """Return the column ``name`` of what the command printed as JSON lines."""
    result = asked(*arguments, "--format", "jsonl", **variables)
    cut = b"more rows exist; raise --limit, or ask for a shorter time\n"
    assert result.returncode == 0
    assert result.stderr in ({cut} if "--limit" in arguments else {b""})
    return [json.loads(line)["name"] for line in result.stdout.splitlines()]


def test_query_alone_lists_every_question_with_its_title() -> None:
    result = asked("query")

    listed = [line.split(maxsplit=1) for line in result.stdout.decode().splitlines()]
    assert listed == [
        [name, otelchain_queries.load(name).title] for name in otelchain_queries.names()
    ]


def test_a_query_answers_with_its_defaults(database: str) -> None:
    assert names("query", "slow-tools", "--database", database) == ["lookup", "other"]


def test_an_option_of_the_header_is_passed_on(database: str) -> None:
    arguments = ("query", "slow-tools", "--database", database)

    assert names(*arguments, "--min-duration", "7s") == ["lookup"]
    assert names(*arguments, "--min-duration", "2m") == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--limit", "1"], ["lookup"]),
        (["--limit", "0"], []),
        (["--service", "billing"], ["other"]),
        (["--service", "nope"], []),
        (["--since", "2026-11-30T23:05:54Z"], ["other"]),
        (["--since", "2026-12-01T01:05:54+02:00"], ["other"]),
        (["--until", "2026-11-30T23:05:54"], ["lookup"]),
        (["--since", "2026-12-01"], []),
    ],
)
def test_the_common_options_narrow_the_rows(
    database: str, options: list[str], expected: list[str]
) -> None:
    assert names("query", "slow-tools", "--database", database, *options) == expected


def test_the_database_may_come_from_the_environment(database: str) -> None:
    assert names("query", "slow-tools", OTELCHAIN_DATABASE=database) == ["lookup", "other"]


def test_the_help_of_a_query_is_its_header() -> None:
    query = otelchain_queries.load("slow-tools")

    shown = " ".join(asked("query", "slow-tools", "--help").stdout.decode().split())

    assert query.description in shown
    assert query.why in shown
    for param in query.params:
        assert f"--{param.name.replace('_', '-')} " in shown
    assert "shortest duration to show: 500ms, 5s, 2m [default: 5s]" in shown
    assert f"Next: {query.next}" in shown
    assert f"Example: {query.example}" in shown


def test_every_query_of_the_bundle_answers_on_the_command_line(database: str) -> None:
    for name in otelchain_queries.names():
        result = asked("query", name, "--database", database, "--format", "csv")

        assert (result.returncode, result.stderr) == (0, b""), name
        assert result.stdout.startswith((b"trace_id,", b"service_name,")), name


def test_a_value_is_data_and_never_sql(database: str) -> None:
    hostile = "x' OR 1=1; DROP TABLE spans; --"

    assert names("query", "slow-tools", "--database", database, "--service", hostile) == []
    assert names("query", "slow-tools", "--database", database) == ["lookup", "other"]


@pytest.mark.parametrize("format_name", ["table", "json", "jsonl", "csv", "markdown"])
def test_each_format_is_printed(database: str, format_name: str) -> None:
    result = asked(
        *("query", "slow-tools", "--database", database, "--format", format_name, "--limit", "1")
    )

    assert result.returncode == 0
    assert TRACE.encode() in result.stdout
    assert result.stdout.endswith(b"\n")


OWN = """\
-- title: Long chains
-- description: Chains that took long.
-- why: To find them.
-- param: min_ms = 1000  shortest duration in milliseconds
-- param: limit = 100  number of rows to show
SELECT trace_id, name
FROM runs
WHERE run_type = 'tool' AND duration_ms >= $min_ms::DOUBLE
ORDER BY name
LIMIT $limit::BIGINT;
"""


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> str:
    folder = tmp_path / "my queries"
    folder.mkdir()
    folder.joinpath("long_chains.sql").write_text(OWN)
    return str(folder)


def test_a_query_of_the_users_own_is_a_command_too(database: str, folder: str) -> None:
    asking = ("query", "--queries-dir", folder, "long-chains", "--database", database)

    assert names(*asking) == ["lookup", "other"]
    assert names(*asking, "--min-ms", "7000") == ["lookup"]
    assert b"long-chains" in asked("query", "--queries-dir", folder).stdout
    assert b"Long chains" in asked("query", "--queries-dir", folder, "--help").stdout


def test_folders_of_queries_may_come_from_the_environment(
    database: str, folder: str, tmp_path: Path
) -> None:
    tmp_path.joinpath("empty").mkdir()
    several = os.pathsep.join([str(tmp_path / "empty"), folder])

    asking = ("query", "long-chains", "--database", database)
    assert names(*asking, OTELCHAIN_QUERIES=several) == ["lookup", "other"]


def test_a_query_of_the_users_own_is_answered_by_a_collector_too(
    database: str, folder: str, start_collector: Callable[..., RunningCollector]
) -> None:
    asking = ("query", "--queries-dir", folder, "long-chains", "--database", database)
    from_the_file = asked(*asking, "--min-ms", "7000", "--format", "json").stdout

    start_collector(Path(database))

    assert asked(*asking, "--min-ms", "7000", "--format", "json").stdout == from_the_file
    failed = asked(*asking, "--min-ms", "soon")
    assert failed.stderr == b"Error: long-chains: min_ms must be a number, not 'soon'\n"
    cut = asked(*asking, "--limit", "1")
    assert b"more rows exist" in cut.stderr


@pytest.mark.parametrize(
    ("since", "zone", "rows"),
    [
        # The trace began at 23:04:54 UTC, which is 00:04:54 of the next day in Berlin.
        ("2026-12-01 00:04", "Europe/Berlin", 1),
        ("2026-12-01 00:05", "Europe/Berlin", 0),
        ("2026-12-01 00:04", "UTC", 0),
        ("2026-12-01 00:04 europe/berlin", "Asia/Kolkata", 1),
    ],
)
def test_a_time_is_of_the_zone_that_it_names_or_that_is_chosen(
    tmp_path: Path, since: str, zone: str, rows: int
) -> None:
    traces = ("--database", str(make_store(tmp_path / "x.duckdb")), "--since", since)

    for command in (["traces"], ["query", "traces"]):
        chosen = asked(*command, *traces, "--timezone", zone, "--format", "jsonl")
        by_variable = asked(*command, *traces, "--format", "jsonl", OTELCHAIN_TIMEZONE=zone)

        assert len(chosen.stdout.splitlines()) == rows, chosen.stderr
        assert by_variable.stdout == chosen.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--timezone", "Europe/Berln"],
            "no time zone is named 'Europe/Berln'; did you mean 'Europe/Berlin'?",
        ),
        (["--since", "09:00 Mars"], "no time zone is named 'Mars'; "),
        (["--since", "2026-03-29 02:30 Europe/Berlin"], "Europe/Berlin has no 02:30 on that day"),
    ],
)
def test_a_zone_that_is_none_is_said(arguments: list[str], said: str) -> None:
    result = asked("traces", *arguments)

    assert result.returncode == 2
    assert said in result.stderr.decode()
