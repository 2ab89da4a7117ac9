"""What reaches a terminal: no wider than it is, and nothing that it would obey but colours."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

import collector_process
from collector_process import RunningCollector
from otelchain.cli.options import TEXTS
from stored_runs import SUPPORT_RUNS, asked, make_store, run
from terminal import STYLES, WAITING, on_terminal

# A window title, a cleared screen, an eight-bit control, a text that runs backwards.
HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e"
WIDE = "漢字" * 30 + "👩‍👩‍👧" * 20
CONTROLS = re.compile(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029]")
CUT = 40


def stored(folder: Path) -> Path:
    hostile = run(
        *(7, None, f"{HOSTILE}{WIDE}", "tool"),
        start_ms=20_000,
        duration_ms=9_000,
        status="error",
        error_type=f"E{HOSTILE}",
        error=HOSTILE + WIDE,
        inputs=HOSTILE + WIDE,
        outputs=WIDE,
        trace_id="7" * 32,
        session_id=f"s{HOSTILE}",
        service_name=f"{HOSTILE}{WIDE}",
        model=HOSTILE,
    )
    return make_store(folder / "otelchain.duckdb", [*SUPPORT_RUNS, hostile])


@pytest.fixture(name="database", scope="module")
def _database(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(stored(tmp_path_factory.mktemp("file")))


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    folder = tmp_path_factory.mktemp("collector")
    running = collector_process.start(stored(folder), folder / "log")
    yield running
    running.kill()


def harmless(shown: str) -> str:
    """Return what was shown without colours, after a look at the rest."""
    text = STYLES.sub("", WAITING.sub("", shown)).replace("\r\n", "\n")
    assert CONTROLS.search(text) is None, repr(CONTROLS.search(text))
    return text


@pytest.mark.parametrize(
    "command",
    [
        ["traces"],
        ["sessions"],
        ["query", "slow-tools"],
        ["show", "last"],
        ["show", "last", "--full"],
        ["show", "last", "--waterfall"],
        ["sql", "SELECT name, duration_ms, error FROM runs"],
    ],
    ids=" ".join,
)
def test_nothing_is_wider_than_a_narrow_terminal(database: str, command: list[str]) -> None:
    shown = on_terminal(CUT, *command, "--database", database, "--no-pager")

    lines = harmless(shown).splitlines()
    assert [line for line in lines if cell_len(line) > CUT] == []
    assert len(lines) > 1


def test_tail_is_no_wider_either(database: str) -> None:
    shown = on_terminal(CUT, "tail", "--database", database, interrupt_after="9.00 s")

    assert [line for line in harmless(shown).splitlines() if cell_len(line) > CUT] == []


@pytest.mark.parametrize("form", TEXTS)
def test_a_terminal_is_told_nothing_in_any_format(database: str, form: str) -> None:
    question = ("sql", "SELECT name, error, inputs FROM runs", "--database", database)

    shown = on_terminal(80, *question, "--format", form, "--no-pager")

    assert "7250" not in harmless(shown)
    assert "title" in shown


def test_findings_and_errors_hold_nothing_that_a_terminal_obeys(database: str) -> None:
    findings = asked("diagnose", "--since", "2026-11-01", "--database", database)
    refused = asked(
        "sql", "SELECT error::INTEGER FROM runs WHERE span_id LIKE '%7'", "--database", database
    )

    assert "title" in harmless(findings.stdout.decode())
    assert refused.returncode == 2
    assert "Could not convert string" in harmless(refused.stderr.decode())


def test_an_id_in_a_narrow_terminal_can_be_given_back(database: str) -> None:
    shown = harmless(on_terminal(CUT, "traces", "--database", database))

    ids = re.findall(r"^trace_id +(\S+)$", shown, re.MULTILINE)
    assert ids == ["77777777", "4bf92f35"]
    assert asked("show", ids[1], "--database", database).returncode == 0


def test_a_long_answer_of_a_collector_goes_through_the_pager(collector: RunningCollector) -> None:
    question = ("sql", "SELECT range AS n FROM range(40)", "--endpoint", collector.http)

    shown = on_terminal(80, *question, lines=20, PAGER="sed s/^/paged:/")

    assert shown.count("paged:") == 42


def test_a_slow_answer_of_a_collector_says_that_it_goes_on(collector: RunningCollector) -> None:
    slow = (
        "SELECT count(*) AS n FROM range(60000000) AS a, range(60) AS b "
        "WHERE hash(a.range, b.range) % 2 = 0"
    )

    shown = on_terminal(
        *(80, "sql", slow, "--endpoint", collector.http), interrupt_after="waiting for", code=130
    )

    assert "waiting for the answer, " in shown


def test_what_is_said_while_waiting_fits_the_terminal(collector: RunningCollector) -> None:
    slow = "SELECT count(*) FROM range(60000000) AS a, range(60) AS b WHERE hash(a, b) = 0"

    shown = on_terminal(
        *(12, "sql", slow, "--endpoint", collector.http), interrupt_after="waiting for", code=130
    )

    assert max(map(len, re.findall(r"waiting[^\r\x1b]*", shown))) == 11


def test_an_export_through_a_collector_shows_how_far_it_is(
    collector: RunningCollector, tmp_path: Path
) -> None:
    file = tmp_path / "runs.csv"

    shown = on_terminal(80, "export", "csv", "-o", str(file), "--endpoint", collector.http)

    assert "Exporting" in shown
    assert "100%" in shown
    assert len(file.read_text().splitlines()) >= 6
