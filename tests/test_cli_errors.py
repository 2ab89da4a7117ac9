"""Every mistake a user can make: one line that says what is wrong and what to do, exit code 2."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import duckdb
import pytest

from collector_process import RunningCollector
from stored_runs import TRACE, asked, make_store, otelchain


def refusal(
    *arguments: str,
    run: Callable[..., "subprocess.CompletedProcess[bytes]"] = otelchain,
    **variables: str,
) -> str:
    """Return the error of a command that must fail with one line and exit code 2."""
    result = run(*arguments, **variables)
    text = result.stderr.decode()
    assert result.returncode == 2, text
    assert result.stdout == b""
    assert text.startswith("Error: ")
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert "Traceback" not in text
    return text.removeprefix("Error: ").rstrip("\n")


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> Path:
    return make_store(tmp_path / "otelchain.duckdb")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["quer"], "no command is named 'quer'; did you mean 'query'?"),
        (["xyzzy"], "no command is named 'xyzzy'; 'otelchain --help' lists them"),
        (["query", "slow-tool"], "no query is named 'slow-tool'; did you mean 'slow-tools'?"),
        (["query", "xyzzy"], "no query is named 'xyzzy'; 'otelchain query --help' lists them"),
        (["--nope"], "No such option"),
        (
            ["--database", "x.duckdb", "show", "last"],
            (
                "write --database after the name of a command, as in 'otelchain show --database "
                "…'; 'otelchain --help' lists the names"
            ),
        ),
        (
            ["query", "--database", "x.duckdb"],
            (
                "write --database after the name of a query, as in 'otelchain query agent-loops "
                "--database …'; 'otelchain query --help' lists the names"
            ),
        ),
        (["query", "--since", "1d", "slow-tools"], "write --since after the name of a query, as i"),
        (["query", "--nope"], "No such option '--nope'"),
        (["query", "redact"], "no query is named 'redact'; did you mean 'redaction-findings'?"),
        (["query", "slow-tools", "--min-duraton", "1s"], "No such option '--min-duraton'. Did you"),
        (["query", "slow-tools", "--trace-id", "ab"], "no trace has an id that begins with 'ab'"),
        (["query", "slow-tools", "--nope"], "No such option"),
        (["show"], "Missing argument 'TRACE_ID|last'."),
        (["sql"], "Missing argument 'STATEMENT'."),
        (
            ["query", "traces", "--since", "someday"],
            "Invalid value for '--since': 'someday' is not a time; examples: 24h, 1h30m, yesterday",
        ),
        (["query", "traces", "--limit", "x"], "Invalid value for '--limit': 'x' is not a valid"),
        (["query", "traces", "--limit", "100001"], "Invalid value for '--limit': 100001 is not"),
        (["query", "traces", "--limit", "-1"], "Invalid value for '--limit': -1 is not in the"),
        (["query", "traces", "--format", "xml"], "Invalid value for '--format': 'xml' is not one"),
        (["sql", "SELECT 1", "--limit", "100001"], "Invalid value for '--limit': 100001 is not"),
        (
            ["query", "slow-tools", "--min-duration", "soon"],
            "slow-tools: min_duration must be a duration such as 5s, 500ms or 2m, not 'soon'",
        ),
        (["sql", "SELECT nope FROM runs"], 'Binder Error: Referenced column "nope" not found'),
        (["sql", "SELEC 1"], 'Parser Error: syntax error at or near "SELEC"'),
        (["sql", "DROP TABLE spans"], "only SELECT and EXPLAIN are allowed, not DROP"),
        (["sql", "SELECT 1; SELECT 2"], "there are 2 statements; write one SELECT"),
        (["sql", "FROM read_csv('x')"], "function 'read_csv' is not allowed here"),
    ],
)
def test_a_wrong_command_line_is_refused(
    database: Path, arguments: list[str], expected: str
) -> None:
    variables = {"OTELCHAIN_DATABASE": str(database)}

    assert refusal(*arguments, run=asked, **variables).startswith(expected)


ASKING = pytest.mark.parametrize(
    "question", [("query", "traces"), ("sql", "SELECT 1"), ("show", "last")]
)


@ASKING
def test_a_missing_database_says_how_to_make_one(tmp_path: Path, question: tuple[str, ...]) -> None:
    text = refusal(*question, "--database", str(tmp_path / "nope.duckdb"))

    assert text == (
        f"there is no database '{tmp_path}/nope.duckdb'; name another with --database, or make one "
        "with 'otelchain collector' or 'otelchain demo'"
    )
    assert not (tmp_path / "nope.duckdb").exists()


@ASKING
def test_a_folder_is_no_database(tmp_path: Path, question: tuple[str, ...]) -> None:
    text = refusal(*question, "--database", str(tmp_path))

    assert text == f"'{tmp_path}' is not a file; name a DuckDB file with --database"


@ASKING
def test_a_file_of_another_kind_is_named(tmp_path: Path, question: tuple[str, ...]) -> None:
    (tmp_path / "notes.txt").write_text("hello\n" * 5000)

    text = refusal(*question, "--database", str(tmp_path / "notes.txt"))

    assert text == (
        f"'{tmp_path}/notes.txt' is not a DuckDB database; name another with --database"
    )


@ASKING
def test_a_database_without_traces_is_named(tmp_path: Path, question: tuple[str, ...]) -> None:
    duckdb.connect(str(tmp_path / "other.duckdb")).close()

    text = refusal(*question, "--database", str(tmp_path / "other.duckdb"))

    assert "other.duckdb' holds no traces of otelchain" in text


@ASKING
@pytest.mark.parametrize(
    ("version", "expected"),
    [(9000, "has schema version 9000, but otelchain"), (1, "older than")],
)
def test_a_database_of_another_schema_is_refused(
    database: Path, question: tuple[str, ...], version: int, expected: str
) -> None:
    with duckdb.connect(str(database)) as connection:
        connection.execute("UPDATE schema_migrations SET version = ?", [version])

    assert expected in refusal(*question, "--database", str(database))


HOLDER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture(name="holder")
def _holder(database: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another program that writes the database."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert _line(process.stdout) == "open\n"
        yield process
        process.kill()


def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


@ASKING
def test_a_locked_database_names_the_process(
    database: Path, holder: "subprocess.Popen[str]", question: tuple[str, ...]
) -> None:
    text = refusal(*question, "--database", str(database))

    assert text.startswith(f"'{database}' is locked by process {holder.pid} (")
    assert "ask it with --endpoint, otherwise end that process" in text


@pytest.fixture(name="closed_port")
def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@ASKING
def test_a_collector_that_is_not_there_is_said(closed_port: int, question: tuple[str, ...]) -> None:
    text = refusal(*question, "--endpoint", f"http://127.0.0.1:{closed_port}")

    assert text == (
        f"no collector answers at http://127.0.0.1:{closed_port} (connection refused); start one "
        "with 'otelchain collector', or leave out --endpoint to read the database file"
    )


def test_a_proxy_is_not_asked_for_this_machine(closed_port: int) -> None:
    text = refusal(
        *("sql", "SELECT 1", "--endpoint", f"127.0.0.1:{closed_port}"),
        http_proxy="http://proxy.invalid:1",
        HTTP_PROXY="http://proxy.invalid:1",
    )

    assert "(connection refused)" in text


@pytest.mark.parametrize("endpoint", ["ftp://127.0.0.1", "http://", "http://a b", "http://h:x"])
def test_an_endpoint_that_is_no_address_is_refused(endpoint: str) -> None:
    text = refusal("sql", "SELECT 1", "--endpoint", endpoint, run=asked)

    assert text == (
        f"--endpoint '{endpoint}' is not an HTTP address; for example http://127.0.0.1:4318"
    )


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        text = refusal(
            *("collector", "--database", str(tmp_path / "x.duckdb")),
            *("--grpc", "127.0.0.1:0", "--http", f"127.0.0.1:{port}"),
        )

    assert str(port) in text
    assert "in use" in text
    assert "--http" in text


def test_a_collector_refuses_a_newer_database(database: Path) -> None:
    with duckdb.connect(str(database)) as connection:
        connection.execute("UPDATE schema_migrations SET version = 9000")

    text = refusal(
        *("collector", "--database", str(database)),
        *("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"),
    )

    assert "schema version 9000" in text


def test_a_collector_refuses_a_locked_database(
    database: Path, holder: "subprocess.Popen[str]"
) -> None:
    text = refusal(
        *("collector", "--database", str(database)),
        *("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"),
        *("--log-level", "error"),  # Without the line that says for whom it waits.
    )

    assert f"process {holder.pid}" in text


def test_the_errors_of_a_running_collector_are_the_same(
    database: Path, start_collector: Callable[..., RunningCollector]
) -> None:
    questions = [
        ("sql", "SELEC 1"),
        ("sql", "DROP TABLE spans"),
        ("query", "slow-tools", "--min-duration", "soon"),
        ("show", "abc"),
    ]
    of_the_file = [refusal(*one, "--database", str(database), run=asked) for one in questions]

    endpoint = f"http://{start_collector(database).http}"

    of_the_collector = [refusal(*one, "--endpoint", endpoint, run=asked) for one in questions]
    assert of_the_collector == of_the_file


QUESTIONS = (
    ("query", "traces"),
    ("query", "traces", "--format", "json"),
    ("query", "slow-tools", "--min-duration", "1s", "--format", "csv"),
    ("query", "failed-retrievers", "--format", "markdown"),
    ("query", "mixed-status-parents", "--format", "jsonl"),
    ("show", TRACE),
    ("show", "last", "--full"),
    ("sql", "SELECT * EXCLUDE (received_time_unix_nano) FROM spans ORDER BY span_id"),
    ("sql", "SELECT 0.1::FLOAT, 2::HUGEINT, now()::DATE - now()::DATE", "--format", "json"),
    ("sql", "FROM range(10)", "--limit", "3"),
    ("sql", "SELECT current_setting('TimeZone') AS zone"),
)


def test_a_collector_and_the_file_give_the_same_bytes(
    database: Path, start_collector: Callable[..., RunningCollector]
) -> None:
    def answers(*where: str) -> list[tuple[int, bytes, bytes]]:
        found = [asked(*question, *where) for question in QUESTIONS]
        return [(one.returncode, one.stdout, one.stderr) for one in found]

    of_the_file = answers("--database", str(database))

    collector = start_collector(database)

    assert [code for code, out, _ in of_the_file if out] == [0] * len(QUESTIONS)
    assert answers("--database", str(database)) == of_the_file
    assert answers("--endpoint", f"http://{collector.http}/") == of_the_file


def test_a_killed_collector_leaves_a_file_that_is_read_itself(
    database: Path, start_collector: Callable[..., RunningCollector]
) -> None:
    question = ("query", "traces", "--format", "json", "--database", str(database))
    collector = start_collector(database)
    asked = otelchain(*question)
    collector.kill()

    read = otelchain(*question)

    assert database.with_name("otelchain.duckdb.collector.json").exists()
    assert (read.returncode, read.stdout) == (0, asked.stdout)


def test_something_else_at_the_endpoint_is_named(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        port = _line(server.stdout).split(" port ")[1].split()[0]
        text = refusal("sql", "SELECT 1", "--endpoint", f"http://127.0.0.1:{port}")
        server.kill()

    assert text.startswith(f"http://127.0.0.1:{port} is not an otelchain collector of this version")


def test_ctrl_c_ends_a_question_quietly(database: Path) -> None:
    sql = "SELECT count(*) FROM range(100000000000000)"
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", "from otelchain.cli import main; main()"),
            *("sql", sql, "--database", str(database)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert (process.returncode, out.strip(), err.strip()) == (130, b"", b"")


@pytest.mark.parametrize(
    ("missing", "arguments"),
    [
        ("duckdb", ["query", "traces"]),
        ("rich", ["show", "last"]),
        ("duckdb", ["collector", "--http", "127.0.0.1:0"]),
    ],
)
def test_a_missing_extra_is_named(database: Path, missing: str, arguments: list[str]) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; from otelchain.cli import main; main()"

    result = subprocess.run(
        [sys.executable, "-c", program, *arguments, "--database", str(database)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 2
    assert result.stderr == (
        f"Error: 'otelchain {arguments[0]}' needs the collector extra; "
        "install it with: pip install 'otelchain[collector]'\n"
    )


def test_help_version_and_the_list_need_no_extra() -> None:
    program = (
        "import sys\n"
        "for name in ('duckdb', 'rich', 'pandas', 'pyarrow', 'starlette', 'uvicorn', 'grpc'):\n"
        "    sys.modules[name] = None\n"
        "from otelchain.cli import main; main()"
    )

    for arguments in (
        *(["--version"], ["--help"], ["query"], ["query", "traces", "--help"]),
        *(["redact", "test", "--format", "json"], ["doctor", "--format", "jsonl"]),
    ):
        result = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert result.stderr == b"", arguments
        # The doctor finds out that nobody listens here.
        assert result.returncode == (1 if arguments[0] == "doctor" else 0), arguments


def test_the_grpc_port_is_told_from_the_http_port(
    tmp_path: Path, start_collector: Callable[..., RunningCollector]
) -> None:
    collector = start_collector(tmp_path / "t.duckdb")

    text = refusal("sql", "SELECT 1", "--endpoint", f"http://{collector.grpc}")

    assert text == (
        f"http://{collector.grpc} does not speak HTTP/1.1; if it is a collector's gRPC port "
        "(usually 4317), ask its HTTP port instead (usually 4318)"
    )


def test_a_stopped_collector_is_not_to_be_ended(
    tmp_path: Path, start_collector: Callable[..., RunningCollector]
) -> None:
    collector = start_collector(tmp_path / "t.duckdb")
    pid = collector.process.pid
    collector.process.send_signal(signal.SIGSTOP)
    try:
        text = refusal("sql", "SELECT 1", "--database", str(collector.database))
    finally:
        collector.process.send_signal(signal.SIGCONT)

    assert text == (
        f"'{collector.database}' is open in the collector with PID {pid}, which does not answer at "
        f"http://{collector.http} (no answer in time; if it was stopped, 'kill -CONT {pid}' lets "
        "it go on); nothing else can read the file until it ends"
    )


def test_a_redirect_is_not_followed_with_the_token(tmp_path: Path) -> None:
    program = (
        "import http.server\n"
        "class Handler(http.server.BaseHTTPRequestHandler):\n"
        "    def do_POST(self):\n"
        "        self.send_response(302)\n"
        "        self.send_header('location', 'http://127.0.0.1:1/')\n"
        "        self.end_headers()\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), Handler)\n"
        "print(server.server_port, flush=True)\n"
        "server.serve_forever()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        port = _line(server.stdout).strip()
        text = refusal(
            *("sql", "SELECT 1", "--endpoint", f"http://127.0.0.1:{port}"),
            OTELCHAIN_TOKEN="a-token-of-the-tests",
        )
        server.kill()

    assert "is not an otelchain collector of this version: it says 302" in text


# Root may read everything, so it becomes another user once all that is loaded late is loaded.
UNPRIVILEGED = """
import os, sys
from click.testing import CliRunner
from otelchain.cli import cli
CliRunner().invoke(cli, sys.argv[1:])
if os.geteuid() == 0:
    os.seteuid(65534)
cli.main(sys.argv[1:], prog_name="otelchain")
"""


@ASKING
@pytest.mark.parametrize("locked", ["file", "folder"])
def test_what_one_may_not_read_is_said(locked: str, question: tuple[str, ...]) -> None:
    def unprivileged(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [sys.executable, "-c", UNPRIVILEGED, *arguments], capture_output=True, check=False
        )

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        database = make_store(folder / "otelchain.duckdb")
        folder.chmod(0o755 if locked == "file" else 0o700)
        database.chmod(0o600)
        if os.geteuid() != 0:
            (database if locked == "file" else folder).chmod(0)
        text = refusal(*question, "--database", str(database), run=unprivileged)
        folder.chmod(0o700)

    assert text == (
        f"you may not read '{database}' (permission denied); ask as its owner, or the collector "
        "that has it with --endpoint"
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["traces"], 0),
        (["traces", "--since", "2030-01-01"], 0),
        (["traces", "--fail-on-rows"], 1),
        (["traces", "--since", "2030-01-01", "--fail-on-rows"], 0),
        (["sessions", "--fail-if", "COUNT > 0"], 1),
        (["diagnose", "last", "--fail-on-rows"], 1),
        (["tail", "--lines", "1", "--fail-on-rows"], 1),
        (["query", "--fail-on-rows"], 1),
        (["redact", "scan", "--policy", "strict", "--fail-on-rows"], 1),
        (["doctor"], 1),  # Nobody takes spans here.
        (["query", "check", "wrong.sql"], 1),
        (["redact", "check", "wrong.sql"], 1),
        (["import", "otlp-json", "wrong.sql"], 1),
        (["import", "otlp-json", "--strict", "wrong.sql"], 2),
        (["query", "check", "missing.sql"], 2),
        (["redact", "check", "missing.sql"], 2),
        (["import", "otlp-json", "missing.sql"], 2),
        (["export", "csv", "-o", "missing/x.csv"], 2),
        (["show", "abc"], 2),
        (["traces", "--nope"], 2),
        (["traces", "--fail-if", "MAX(nope) > 1"], 2),
        (["sql", "SELEC 1"], 2),
    ],
)
def test_the_exit_code_says_whether_it_was_done_and_what_came_out(
    database: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int
) -> None:
    monkeypatch.chdir(database.parent)
    Path("wrong.sql").write_text("SELECT 1")

    assert asked(*arguments, OTELCHAIN_DATABASE=str(database)).returncode == code


def test_help_says_what_the_exit_codes_mean() -> None:
    shown = " ".join(asked("--help").stdout.decode().split())

    assert "Exit codes: 0 done; 1 there are rows that --fail-on-rows or --fail-if names" in shown
