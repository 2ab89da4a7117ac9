"""What the shell completes, asked as click's scripts ask, and in a real bash."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from collector_process import RunningCollector
from otelchain.reading.opening import open_source
from otelchain.reading.place import Place
from otelchain_collector.answer import QueryFailed
from stored_runs import SUPPORT_RUNS, TRACE, asked, make_store, run

OTHER = "5" * 32


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> Path:
    second = run(1, None, "later\x1b[2J", "chain", trace_id=OTHER, start_ms=60_000)
    return make_store(tmp_path / "otelchain.duckdb", [*SUPPORT_RUNS, second])


def completed(line: str, shell: str = "bash", **variables: str) -> list[str]:
    """Return what is offered for the last word of the line."""
    words = line.split(" ")
    asking = {
        "_OTELCHAIN_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line if shell != "fish" else " ".join(words[:-1]),
        "COMP_CWORD": str(len(words) - 1) if shell != "fish" else words[-1],
    }
    result = asked(**asking, **variables)
    return (
        result.stdout.decode().split() if shell == "bash" else result.stdout.decode().splitlines()
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("otelchain tr", ["plain,traces"]),
        ("otelchain query slow-to", ["plain,slow-tools"]),
        ("otelchain query slow-tools --min-d", ["plain,--min-duration"]),
        ("otelchain sql --fail-", ["plain,--fail-on-rows", "plain,--fail-if"]),
        ("otelchain traces --format j", ["plain,json", "plain,jsonl"]),
        ("otelchain completion z", ["plain,zsh"]),
        ("otelchain show l", ["plain,last"]),
        ("otelchain show 4bf", [f"plain,{TRACE}"]),
        ("otelchain diagnose 5", [f"plain,{OTHER}"]),
        ("otelchain query trace --trace-id 4b", [f"plain,{TRACE}"]),
        ("otelchain show 9", []),
        ("otelchain export csv --trace 4b", [f"plain,{TRACE}"]),
        ("otelchain tail --service ", ["plain,support"]),
        ("otelchain tail --status e", ["plain,error"]),
        ("otelchain tail --run-type t", ["plain,tool"]),
        ("otelchain tail --name look", ["plain,lookup"]),
        ("otelchain traces --service s", ["plain,support"]),
        ("otelchain diagnose --service s", ["plain,support"]),
        ("otelchain query arrivals --status o", ["plain,ok"]),
        ("otelchain query slow-steps --run-type l", ["plain,llm"]),
        ("otelchain query token-use --by s", ["plain,service", "plain,session"]),
        ("otelchain query regressions --by v", ["plain,version"]),
        ("otelchain query interrupted-runs --waiting t", ["plain,true"]),
        ("otelchain traces --timezone Europe/Berl", ["plain,Europe/Berlin"]),
        ("otelchain traces --color a", ["plain,auto", "plain,always"]),
        ("otelchain doctor --level w", ["plain,warning"]),
    ],
)
def test_commands_queries_options_and_ids_are_completed(
    database: Path, line: str, expected: list[str]
) -> None:
    assert completed(line, OTELCHAIN_DATABASE=str(database)) == expected


def test_ids_are_those_of_the_database_on_the_command_line(database: Path) -> None:
    assert completed(f"otelchain show --database {database} 4") == [f"plain,{TRACE}"]


def test_ids_come_from_the_collector_while_it_runs(
    database: Path, start_collector: Callable[..., RunningCollector]
) -> None:
    collector = start_collector(database)

    assert completed(f"otelchain show --endpoint {collector.http} 4") == [f"plain,{TRACE}"]
    assert completed("otelchain show 4", OTELCHAIN_DATABASE=str(database)) == [f"plain,{TRACE}"]


def test_without_anybody_to_ask_nothing_is_offered_and_nothing_said(tmp_path: Path) -> None:
    result = asked(
        _OTELCHAIN_COMPLETE="bash_complete",
        COMP_WORDS="otelchain show 4",
        COMP_CWORD="2",
        OTELCHAIN_DATABASE=str(tmp_path / "missing.duckdb"),
    )

    assert (result.stdout.strip(), result.stderr) == (b"", b"")


def test_values_come_from_the_collector_while_it_runs(
    database: Path, start_collector: Callable[..., RunningCollector]
) -> None:
    collector = start_collector(database)

    assert completed(f"otelchain tail --endpoint {collector.http} --service s") == ["plain,support"]


def test_a_value_that_a_terminal_would_obey_is_not_offered(tmp_path: Path) -> None:
    runs = [run(1, None, "red\x1b[31m", "tool"), run(2, None, "plain name", "tool")]
    database = make_store(tmp_path / "x.duckdb", runs)

    shown = completed("otelchain tail --name ", "fish", OTELCHAIN_DATABASE=str(database))

    assert shown == ["plain,plain name"]


def test_a_collector_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begin = time.monotonic()

        offered = completed(
            f"otelchain tail --endpoint 127.0.0.1:{silent.getsockname()[1]} --name "
        )

    assert offered == []
    assert time.monotonic() - begin < 10  # A question is given 60 s.


def test_a_slow_store_is_not_waited_for(database: Path) -> None:
    endless = "SELECT count(*)::VARCHAR FROM range(100000000000000)"
    source = open_source(Place(database), 0.2)
    begin = time.monotonic()

    with pytest.raises(QueryFailed, match=r"longer than 0\.2 seconds"):
        source.sql(endless, 1)

    assert time.monotonic() - begin < 10


def test_descriptions_hold_no_control_characters(database: Path) -> None:
    shown = "\n".join(completed("otelchain show ", "zsh", OTELCHAIN_DATABASE=str(database)))

    assert OTHER in shown
    assert "later\\x1b[2J ok 2026-11-30T23:05:54.123456789Z" in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_names_the_command_and_its_variable(shell: str) -> None:
    script = asked("completion", shell).stdout.decode()

    assert f"_OTELCHAIN_COMPLETE={shell}_complete" in script
    assert " otelchain" in script


def test_bash_completes_with_the_script(tmp_path: Path, database: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    command = tmp_path / "otelchain"
    command.write_text(
        f"#!{sys.executable}\nfrom otelchain.cli import main\nmain()\n", encoding="utf-8"
    )
    command.chmod(0o755)
    script = f"""
        PATH={tmp_path}:$PATH
        eval "$(otelchain completion bash)"
        COMP_WORDS=(otelchain show 4bf) COMP_CWORD=2
        _otelchain_completion otelchain
        echo "${{COMPREPLY[@]}}"
    """

    run_ = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        env={"OTELCHAIN_DATABASE": str(database), "PATH": "/usr/bin:/bin", **_python_path()},
        check=True,
    )

    assert run_.stdout.strip() == TRACE


def _python_path() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(path for path in sys.path if path)}
