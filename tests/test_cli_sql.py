"""A SELECT of the user's own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stored_runs import asked, make_store, otelchain


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> str:
    return str(make_store(tmp_path / "otelchain.duckdb"))


def test_a_statement_is_answered(database: str) -> None:
    sql = "SELECT run_type, count(*) AS runs FROM runs GROUP BY ALL ORDER BY ALL"

    result = asked("sql", sql, "--database", database, "--format", "csv")

    assert result.stdout == b"run_type,runs\r\nagent,1\r\nllm,1\r\nretriever,1\r\ntool,1\r\n"
    assert (result.returncode, result.stderr) == (0, b"")


def test_a_statement_is_read_from_standard_input(database: str) -> None:
    result = asked(
        *("sql", "-", "--database", database, "--format", "jsonl"), stdin="SELECT 'ü' AS a;\n"
    )

    assert result.stdout == '{"a": "ü"}\n'.encode()


def test_the_limit_is_told_on_standard_error(database: str) -> None:
    result = asked(
        *("sql", "FROM range(5) AS r(n)", "--database", database),
        *("--limit", "2", "--format", "csv"),
    )

    assert result.stdout == b"n\r\n0\r\n1\r\n"
    assert result.stderr == b"more rows exist; raise --limit\n"
    assert result.returncode == 0


def test_nanoseconds_are_printed(database: str) -> None:
    sql = "SELECT start_time FROM runs WHERE run_type = 'agent'"

    result = asked("sql", sql, "--database", database, "--format", "csv")

    assert result.stdout == b"start_time\r\n2026-11-30T23:04:54.123456789Z\r\n"


def test_the_plan_of_a_statement_is_readable(database: str) -> None:
    result = asked("sql", "EXPLAIN SELECT name FROM spans", "--database", database)

    assert len(result.stdout.splitlines()) > 3
    assert b"\\n" not in result.stdout


def test_the_zone_of_the_shell_changes_nothing(database: str) -> None:
    sql = "SELECT TIMESTAMPTZ '2026-11-30 23:00:00+00'::DATE AS day"

    result = otelchain("sql", sql, "--database", database, "--format", "csv", TZ="Asia/Tokyo")

    assert result.stdout == b"day\r\n2026-11-30\r\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_long_answer_arrives_whole(database: str, unbuffered: str) -> None:
    sql = "SELECT repeat('x', 1000) AS x FROM range(1000)"

    result = otelchain(
        *("sql", sql, "--database", database, "--format", "csv"), PYTHONUNBUFFERED=unbuffered
    )

    assert len(result.stdout) == 3 + 1000 * 1002


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_error(database: str, unbuffered: str) -> None:
    command = (
        f'"{sys.executable}" -c "from otelchain.cli import main; main()" sql '
        f"'FROM range(100000)' --limit 100000 --format csv --database '{database}' | head -1"
    )

    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        check=False,
    )

    assert result.stdout == b"range\r\n"
    assert result.stderr == b""
    assert result.returncode == 141  # as of any program that SIGPIPE ended
