"""What holds for every command, found by walking the commands: a new one cannot forget it."""

import csv
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pyarrow.parquet as pq
import pytest

import collector_process
from collector_process import RunningCollector
from otelchain.cli import cli
from otelchain.cli.doctor.variables import own_settings
from otelchain.cli.options import FORMATS
from stored_runs import SUPPORT_RUNS, TRACE, asked, make_store, run

SHOWING = {"--format", "--output", "--color", "--no-pager", "--fail-on-rows", "--fail-if"}

# They do something and say in a sentence what: there are no rows to print.
DOES_SOMETHING = {
    "collector",
    "compact",
    "completion",
    "demo",
    "export csv",
    "export langsmith",
    "export otlp-json",
    "export otlp-proto",
    "export parquet",
    "import langsmith",
    "import otlp-json",
    "import otlp-proto",
    "import parquet",
    "reindex",
    "snapshot",
}
# It prints runs until it is stopped, so it has the formats that need not know the last row, and no
# file, pager or condition on all rows.
STREAMS = {"tail": {"text", "jsonl", "json", "csv", "markdown"}}
# To be asked again and again it takes a store that changes.
NOT_WATCHED = {"doctor", "query", "query check", "redact apply", "redact check", "redact test"}

OTHER = "4bf01111111111111111111111111111"
QUERY = """\
-- title: T
-- description: D
-- why: W
SELECT 1 AS one, nope
"""


def commands(group: click.Group, *above: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        path = (*above, name)
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield " ".join(path), command
        if isinstance(command, click.Group):
            yield from commands(command, *path)


EVERY = dict(commands(cli))
PRINTING = [name for name in EVERY if name not in {*DOES_SOMETHING, *STREAMS}]
# Queries are made in one place: one of them stands for all.
ASKED = [name for name in PRINTING if not name.startswith("query ") or name.endswith(" check")]


def options(name: str) -> set[str]:
    return {option for param in EVERY[name].params for option in param.opts}


def formats(name: str) -> set[str]:
    for param in EVERY[name].params:
        if "--format" in param.opts and isinstance(param.type, click.Choice):
            return set(param.type.choices)
    return set()


def trace_parameters(command: click.Command) -> list[click.Parameter]:
    """Return what names a trace: one or none."""
    return [param for param in command.params if param.name in {"trace", "trace_id"}]


@pytest.mark.parametrize("name", PRINTING)
def test_it_has_the_options_of_a_command_that_prints_rows(name: str) -> None:
    assert options(name) >= SHOWING, "or name it above as one that prints no rows"
    assert formats(name) >= set(FORMATS)
    assert ("--watch" in options(name)) == (name not in NOT_WATCHED)


def test_the_doctor_knows_every_variable_of_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    named = [param.envvar for command in EVERY.values() for param in command.params]
    ours = {str(name) for name in named if str(name).startswith("OTELCHAIN_")}
    for name in ours:
        monkeypatch.setenv(name, "x")

    unknown = [finding.text for finding in own_settings(os.environ) if finding.level != "ok"]

    assert "OTELCHAIN_QUERIES" in ours
    assert unknown == []


@pytest.mark.parametrize("name", STREAMS)
def test_what_never_ends_has_the_formats_that_need_no_end(name: str) -> None:
    assert formats(name) == STREAMS[name]
    assert options(name) >= {"--color", "--fail-on-rows"}


def test_what_prints_no_rows_offers_no_format() -> None:
    assert {name for name in EVERY if not formats(name)} == DOES_SOMETHING


@pytest.fixture(name="arguments", scope="module")
def _arguments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Arguments with which each command has at least one row to print."""
    folder = tmp_path_factory.mktemp("every")
    database = ["--database", str(make_store(folder / "otelchain.duckdb"))]
    (folder / "wrong.sql").write_text(QUERY)
    (folder / "policy.toml").write_text('preset = "off"\n[[rules]]\nkeys = ["question"]\n')
    policy = ["--policy", str(folder / "policy.toml")]
    return {
        "diagnose": ["last", *database],
        "doctor": database,
        "query": [],
        "query check": [str(folder / "wrong.sql")],
        "query traces": database,
        "redact apply": [*policy, *database],
        "redact check": [str(folder / "policy.toml")],
        "redact scan": [*policy, *database],
        "redact test": [],
        "sessions": database,
        "show": ["last", *database],
        "sql": ["SELECT name, status FROM runs", *database],
        "traces": database,
    }


@pytest.mark.parametrize("name", [*ASKED, "query traces"])
def test_its_rows_are_the_same_in_every_format(
    name: str, arguments: dict[str, list[str]], tmp_path: Path
) -> None:
    def printed(form: str, *more: str) -> str:
        line = (*name.split(), *arguments[name], "--format", form, *more)
        result = asked(*line, stdin="mail bob@example.com")
        assert result.returncode in (0, 1), result.stderr
        return result.stdout.decode()

    rows = json.loads(printed("json"))

    assert rows
    assert [json.loads(line) for line in printed("jsonl").splitlines()] == rows
    table = list(csv.reader(io.StringIO(printed("csv"))))
    assert (table[0], len(table)) == (list(rows[0]), len(rows) + 1)
    assert len(printed("markdown").splitlines()) == len(rows) + 2
    assert len(printed("table").splitlines()) == len(rows) + 2
    file = tmp_path / "rows.parquet"
    assert printed("parquet", "-o", str(file)) == ""
    written = pq.read_table(file)
    assert (written.column_names, written.num_rows) == (list(rows[0]), len(rows))


@pytest.mark.parametrize("name", [*ASKED, "query traces"])
def test_a_script_can_make_it_fail_on_its_rows(
    name: str, arguments: dict[str, list[str]], tmp_path: Path
) -> None:
    line = (*name.split(), *arguments[name], "-o", str(tmp_path / "rows.csv"))

    for condition in (["--fail-on-rows"], ["--fail-if", "COUNT > 0"]):
        assert asked(*line, *condition, stdin="mail bob@example.com").returncode == 1
    wrong = asked(*line, "--fail-if", "MAX(nope) > 0", stdin="mail bob@example.com")
    assert (wrong.returncode, b"has no column 'nope'" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    "name",
    # The doctor looks at the way to the collector; test_every_query asks all queries.
    [name for name in [*ASKED, "query traces"] if {"--endpoint", "--watch"} <= options(name)],
)
def test_it_says_the_same_of_a_collector_as_of_the_file(
    name: str, arguments: dict[str, list[str]], endpoint: str
) -> None:
    line = [*name.split(), *arguments[name], "--format", "json"]

    from_file = asked(*line)
    from_collector = asked(*line, "--endpoint", endpoint)

    assert from_collector.stdout == from_file.stdout
    assert from_collector.returncode == from_file.returncode == 0


TAKES_A_TRACE = {name: command for name, command in EVERY.items() if trace_parameters(command)}


@pytest.fixture(name="two_traces", scope="module")
def _two_traces(tmp_path_factory: pytest.TempPathFactory) -> str:
    other = run(9, None, "other", "chain", trace_id=OTHER)
    path = tmp_path_factory.mktemp("two") / "otelchain.duckdb"
    return str(make_store(path, [*SUPPORT_RUNS, other]))


@pytest.mark.parametrize("name", TAKES_A_TRACE)
def test_the_beginning_of_an_id_is_enough_and_an_ambiguous_one_lists_what_it_may_mean(
    name: str, two_traces: str, tmp_path: Path
) -> None:
    def line(trace_id: str) -> list[str]:
        (param,) = trace_parameters(TAKES_A_TRACE[name])
        given = [trace_id] if isinstance(param, click.Argument) else [f"{param.opts[0]}={trace_id}"]
        folder = ["-o", str(tmp_path)] if name == "export parquet" else []
        return [*name.split(), *given, "--database", two_traces, *folder]

    whole, short = asked(*line(TRACE)), asked(*line(TRACE[:3] + "9"))
    ambiguous = asked(*line("4bf"))

    assert whole.returncode == 0
    assert short.stdout == whole.stdout
    assert ambiguous.returncode == 2
    assert f"{OTHER}, {TRACE}; give more digits" in ambiguous.stderr.decode()


@pytest.fixture(name="endpoint", scope="module")
def _endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("running")
    database = make_store(folder / "otelchain.duckdb")
    running = collector_process.start(database, folder / "log")
    yield f"http://{running.http}"
    running.kill()


def test_a_stream_is_whole_in_every_format(
    tmp_path: Path, start_collector: Callable[..., RunningCollector]
) -> None:
    collector = start_collector(make_store(tmp_path / "otelchain.duckdb"))
    tail = ("tail", "--endpoint", collector.http, "--fail-on-rows", "--format")

    found = {form: asked(*tail, form) for form in STREAMS["tail"]}

    assert {result.returncode for result in found.values()} == {1}
    (row,) = json.loads(found["json"].stdout)
    assert json.loads(found["jsonl"].stdout) == row
    names, values = csv.reader(io.StringIO(found["csv"].stdout.decode()))
    assert (names, values[names.index("name")]) == (list(row), row["name"])
    assert len(found["markdown"].stdout.splitlines()) == 3
    assert row["name"] in found["text"].stdout.decode()
