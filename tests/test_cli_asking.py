"""The options that all commands share that print rows, each with a real file or collector."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from collector_process import RunningCollector
from stored_runs import asked, make_store
from terminal import STYLES, on_terminal

SQL = "SELECT name, start_time, duration_ms FROM runs ORDER BY start_time"


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> str:
    return str(make_store(tmp_path / "otelchain.duckdb"))


def code(*arguments: str) -> int:
    return asked(*arguments).returncode


@pytest.mark.parametrize(
    ("file", "form"),
    [
        ("rows.json", "json"),
        ("rows.jsonl", "jsonl"),
        ("rows.csv", "csv"),
        ("rows.MD", "markdown"),
        ("rows.txt", "table"),
    ],
)
def test_the_ending_of_a_file_says_how_it_is_written(
    database: str, tmp_path: Path, file: str, form: str
) -> None:
    expected = asked("sql", SQL, "--database", database, "--format", form).stdout

    result = asked("sql", SQL, "--database", database, "-o", str(tmp_path / file))

    assert (result.returncode, result.stdout) == (0, b"")
    assert (tmp_path / file).read_bytes() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["otelchain.duckdb", file])


def test_a_format_that_is_named_wins_over_the_ending(database: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"

    asked("traces", "--database", database, "--format", "csv", "--output", str(file))

    assert file.read_bytes().startswith(b"trace_id,span_id,name,")


@pytest.mark.parametrize("running", [False, True], ids=["file", "collector"])
def test_parquet_keeps_types_and_nanoseconds(
    database: str,
    tmp_path: Path,
    start_collector: Callable[..., RunningCollector],
    running: bool,
) -> None:
    if running:
        start_collector(Path(database))
    file = tmp_path / "rows.parquet"

    result = asked(
        *("sql", SQL, "--database", database, "-o", str(file), "--fail-if"),
        "MAX(duration_ms) = 9000 AND COUNT = 4",
    )

    assert (result.returncode, result.stdout, result.stderr) == (1, b"", b"")
    rows = pq.read_table(file)
    assert [str(field.type) for field in rows.schema] == ["string", "timestamp[ns]", "double"]
    assert rows.column("start_time").cast("int64").to_pylist()[0] == 1_796_079_894_123_456_789


def test_a_file_that_cannot_be_written_is_an_error_and_leaves_no_part(
    database: str, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    for target, why in (
        (tmp_path / "missing" / "rows.csv", "No such file or directory"),
        (tmp_path / "folder", "Is a directory"),
    ):
        result = asked("sql", SQL, "--database", database, "--format", "csv", "-o", str(target))
        assert result.returncode == 2
        assert why.lower() in result.stderr.decode().lower()
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_an_older_file_is_replaced_only_by_a_whole_answer(database: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("before")

    result = asked("sql", "SELECT nope FROM runs", "--database", database, "-o", str(file))

    assert result.returncode == 2
    assert file.read_text() == "before"


def test_an_answer_can_be_written_into_a_pipe(database: str) -> None:
    run = subprocess.run(
        [
            *(sys.executable, "-c", "from otelchain.cli import main; main()"),
            *("sql", "SELECT 1 AS a", "--database", database),
            *("--format", "csv", "-o", "/dev/stdout"),
        ],
        capture_output=True,
        check=True,
    )

    assert run.stdout == b"a\r\n1\r\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--format", "parquet"], "Parquet is no text; say with -o FILE where to write it"),
        (["-o", "x.csv", "--watch=1"], "--watch prints again and again; leave out -o"),
        (["--watch=0"], "Invalid value for '--watch'"),
        (["--fail-if", "COUNT >"], "Invalid value for '--fail-if': cannot read the condition"),
        (["--fail-if", "MAX(nam) > 1"], "the answer has no column 'nam'; did you mean 'name'?"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    database: str, arguments: list[str], text: str
) -> None:
    result = asked("sql", SQL, "--database", database, *arguments)

    assert result.returncode == 2
    assert text in result.stderr.decode()
    assert result.stderr.count(b"\n") == 1


def test_fail_on_rows_is_an_exit_code_for_scripts(database: str) -> None:
    query = ("query", "slow-tools", "--database", database, "--fail-on-rows", "--min-duration")

    assert code(*query, "5s") == 1
    assert code(*query, "50s") == 0


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("COUNT > 3", 1),
        ("COUNT > 4", 0),
        ("MAX(duration_ms) > 9000", 0),
        ("MAX(duration_ms) >= 9000", 1),
    ],
)
def test_fail_if_is_an_exit_code_for_scripts(database: str, condition: str, expected: int) -> None:
    result = asked("sql", SQL, "--database", database, "--format", "csv", "--fail-if", condition)

    assert result.returncode == expected
    assert result.stdout.count(b"\n") == 5, "the rows are printed all the same"


def test_show_and_the_lists_have_the_options_too(database: str) -> None:
    for command in (["show", "last"], ["traces"], ["sessions"], ["query", "trace"]):
        assert code(*command, "--database", database, "--fail-if", "COUNT > 0") == 1
        assert code(*command, "--database", database, "--fail-if", "COUNT > 99") == 0


@pytest.mark.failure("locked-file")
@pytest.mark.parametrize(
    "command",
    [
        ["traces", "--since", "2026-11-30T12:00+02:00"],
        ["sessions", "--format", "csv"],
        ["show", "last"],
        ["show", "4bf", "--waterfall"],
        ["show", "last", "--full"],
        ["query", "arrivals", "--newest-first", "true", "--format", "markdown"],
        ["sql", SQL, "--format", "json", "--fail-on-rows"],
    ],
)
def test_a_collector_prints_what_the_file_prints(
    database: str, start_collector: Callable[..., RunningCollector], command: list[str]
) -> None:
    from_file = asked(*command, "--database", database)

    collector = start_collector(Path(database))

    for place in (["--database", database], ["--endpoint", collector.http]):
        result = asked(*command, *place)
        assert (result.returncode, result.stdout) == (from_file.returncode, from_file.stdout)
    assert from_file.stdout


def test_a_long_answer_goes_through_the_pager_on_a_terminal(database: str) -> None:
    pager = "sed s/^/paged:/"
    sql = ("sql", "SELECT range AS n FROM range(40)", "--database", database)

    long = on_terminal(80, *sql, lines=20, PAGER=pager)
    short = on_terminal(80, *sql, lines=60, PAGER=pager)
    refused = on_terminal(80, *sql, "--no-pager", lines=20, PAGER=pager)

    assert long.count("paged:") == 42
    assert "paged:" not in short + refused
    assert STYLES.sub("", short).split() == STYLES.sub("", refused).split()
    assert asked(*sql, PAGER=pager).stdout.count(b"paged:") == 0, "a pipe is no terminal"


def test_watch_asks_until_ctrl_c(database: str) -> None:
    sql = ("sql", "SELECT 40 + 2 AS answer", "--database", database)

    shown = on_terminal(80, *sql, "--watch=0.2", interrupt_after="\x1b[2J\x1b[H")

    assert shown.startswith("\x1b[2J\x1b[H")
    assert "42" in shown
    assert "Traceback" not in shown


def test_watch_cuts_an_answer_to_the_height_of_the_terminal(database: str) -> None:
    sql = ("sql", "SELECT range AS n FROM range(40)", "--database", database, "--watch=9")

    shown = on_terminal(80, *sql, lines=12, interrupt_after="more lines")

    assert "… 32 more lines" in shown


def test_watch_ends_when_the_command_fails(
    database: str, tmp_path: Path, start_collector: Callable[..., RunningCollector]
) -> None:
    start_collector(Path(database))
    traces = ("traces", "--database", database, "--format", "jsonl", "--watch=0.1")

    result = asked(*traces, "--fail-if", "COUNT = 1")

    assert result.returncode == 1
    assert len(result.stdout.splitlines()) == 1


def test_watch_waits_for_a_collector_that_starts_anew(
    database: str, start_collector: Callable[..., RunningCollector]
) -> None:
    collector = start_collector(Path(database))
    watching = subprocess.Popen(
        [
            *(sys.executable, "-c", "from otelchain.cli import main; main()", "traces"),
            *("--endpoint", f"http://{collector.http}", "--format", "jsonl", "--watch=0.1"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    assert watching.stderr is not None
    assert json.loads(watching.stdout.readline())["name"] == "assistant"

    collector.kill()
    # Signals and pipes: the remark comes only after rows that were asked for before the kill.
    remark = watching.stderr.readline()
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=30)

    assert "no collector answers at" in remark
    assert remark.endswith("; asking again\n")
    assert watching.returncode == 0


def test_long_work_says_on_a_terminal_that_it_goes_on(database: str) -> None:
    slow = (
        "SELECT count(*) AS n FROM range(60000000) AS a, range(60) AS b "
        "WHERE hash(a.range, b.range) % 2 = 0"
    )

    shown = on_terminal(
        *(80, "sql", slow, "--database", database), interrupt_after="waiting for", code=130
    )

    assert "waiting for the answer, " in shown


def test_the_queries_are_listed_in_every_text_format() -> None:
    rows = json.loads(asked("query", "--format", "json").stdout)

    assert {"name", "title", "description", "params"} == set(rows[0])
    assert "sessions" in [row["name"] for row in rows]
    assert asked("query", "--format", "csv").stdout.startswith(b"name,title,")
    refused = asked("query", "--format", "json", "traces")
    assert refused.returncode == 2
    assert refused.stderr == b"Error: write --format after 'traces'\n"


def test_help_is_not_cut_at_80_columns() -> None:
    shown = asked("--help", COLUMNS="80").stdout.decode()
    queries = asked("query", "--help", COLUMNS="80").stdout.decode()

    assert "..." not in shown.replace("[ARGS]...", "")
    assert "..." not in queries.replace("[ARGS]...", "")
    assert max(map(len, shown.splitlines())) <= 80


def test_the_name_of_a_query_is_recognised_as_a_command() -> None:
    result = asked("slow-tool")

    assert result.returncode == 2
    assert result.stderr.decode() == (
        "Error: no command is named 'slow-tool'; did you mean 'otelchain query slow-tools'?\n"
    )
