"""The tree of one trace."""

import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from stored_runs import SUPPORT_RUNS, TRACE, asked, make_store, run
from terminal import STYLES, WAITING, on_terminal

LATER = "4bf92f35" + "0" * 23 + "1"
TREE = f"""\
trace {TRACE}  2026-11-30T23:04:54.123456789Z  4 runs  service support  session s1
assistant  [agent]  ok  9.00 s
  in    {{"question":"where is my order?"}}
  out   "on its way"
├── search  [retriever]  error  12 ms  node retrieve step 1
│     in    orders of 42
│     error refused by \\x1b[31mhost
└── lookup  [tool]  ok  7.25 s  attempt 2
    │ in    {{"id":42}}
    │ out   "{"x" * 198}…
    └── fake-1  [llm]  ok  1.50 s  120 → 34 tokens  fake-1
"""


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> str:
    return str(make_store(tmp_path / "otelchain.duckdb"))


def shown(*arguments: str) -> str:
    result = asked("show", *arguments)
    assert (result.returncode, result.stderr) == (0, b"")
    return result.stdout.decode()


def squeezed(text: str) -> list[str]:
    """Return the lines without what draws the tree, which is Rich's."""
    return [re.sub(r"^[│├└─ ]+", "", line) for line in text.splitlines()]


def test_the_newest_trace_is_shown_as_a_tree(database: str) -> None:
    tree = shown("last", "--database", database)

    assert squeezed(tree) == squeezed(TREE)
    assert tree.splitlines()[4].startswith("├── search")
    assert tree.splitlines()[7].startswith("└── lookup")
    assert tree.splitlines()[10].startswith("    └── fake-1")


@pytest.mark.parametrize("trace_id", [TRACE, "4bf9", TRACE.upper()])
def test_a_trace_is_found_by_the_beginning_of_its_id(database: str, trace_id: str) -> None:
    assert squeezed(shown(trace_id, "--database", database)) == squeezed(TREE)


def test_full_prints_contents_whole(database: str) -> None:
    tree = shown("last", "--full", "--database", database)

    lines = squeezed(tree)
    assert f'out   "{"x" * 300}"' in lines
    assert lines[lines.index("error refused") + 1] == "by \\x1b[31mhost"


def test_json_has_the_rows_of_the_query_trace(database: str) -> None:
    rows = json.loads(shown("last", "--format", "json", "--database", database))

    assert [(row["name"], row["depth"], row["status"]) for row in rows] == [
        ("assistant", 0, "ok"),
        ("search", 1, "error"),
        ("lookup", 1, "ok"),
        ("fake-1", 2, "ok"),
    ]
    assert rows[1]["error"] == "refused\nby \x1b[31mhost"


def test_runs_whose_parent_is_not_stored_are_trees_of_their_own(tmp_path: Path) -> None:
    orphan = run(5, 99, "orphan", "chain", start_ms=20)
    database = make_store(tmp_path / "x.duckdb", [*SUPPORT_RUNS, orphan])

    lines = shown("last", "--database", str(database)).splitlines()

    assert "orphan  [chain]  ok  1.00 s  (parent not stored)" in lines


@pytest.mark.parametrize(
    ("trace_id", "text"),
    [
        (
            "abc",
            "Error: no trace has an id that begins with 'abc'; list them: otelchain traces",
        ),
        (
            "4bf92f35",
            (
                f"Error: trace_id '4bf92f35' is the beginning of several ids: {LATER}, {TRACE}; "
                "give more digits"
            ),
        ),
        ("%", "Error: no trace has an id that begins with '%'; list them: otelchain traces"),
    ],
)
def test_a_trace_that_cannot_be_chosen_is_said_in_one_line(
    tmp_path: Path, trace_id: str, text: str
) -> None:
    second = run(1, None, "later", "chain", trace_id=LATER, start_ms=60_000)
    database = make_store(tmp_path / "x.duckdb", [*SUPPORT_RUNS, second])

    result = asked("show", trace_id, "--database", str(database))

    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.decode() == text + "\n"


def test_an_empty_store_says_how_to_get_traces(tmp_path: Path) -> None:
    database = make_store(tmp_path / "x.duckdb", [])

    result = asked("show", "last", "--database", str(database))

    assert result.returncode == 2
    assert result.stderr == (
        b"Error: there are no traces yet; trace an application, or see one with: otelchain demo\n"
    )


def test_a_resumed_run_names_the_trace_that_it_goes_on_from(tmp_path: Path) -> None:
    link = {"trace_id": TRACE, "attributes": {"otelchain.link.kind": "interrupted_run"}}
    other = {"trace_id": "9" * 32, "attributes": {"otelchain.link.kind": "something else"}}
    resumed = run(
        *(1, None, "assistant", "agent"),
        trace_id=LATER,
        start_ms=60_000,
        links=json.dumps([other, link]),
    )
    plain = run(2, 1, "lookup", "tool", trace_id=LATER, start_ms=60_001, links=json.dumps([other]))
    database = str(make_store(tmp_path / "x.duckdb", [*SUPPORT_RUNS, resumed, plain]))

    tree = shown("last", "--database", database)
    waterfall = shown("last", "--waterfall", "--database", database)

    assert f"assistant  [agent]  ok  1.00 s  resumes trace {TRACE}" in tree.splitlines()
    assert waterfall.splitlines()[-1] == f"assistant resumes trace {TRACE}"
    assert tree.count("resumes trace") == waterfall.count("resumes trace") == 1


def test_the_tree_fits_a_narrow_terminal(database: str) -> None:
    shown = WAITING.sub("", on_terminal(20, "show", "last", "--database", database))
    lines = STYLES.sub("", shown).splitlines()

    assert max(map(cell_len, lines)) <= 20


def test_show_can_be_watched_and_written(database: str, tmp_path: Path) -> None:
    file = tmp_path / "tree.txt"
    asked("show", "last", "--database", database, "-o", str(file))
    watched = on_terminal(
        *(100, "show", "last", "--database", database, "--watch=9"), interrupt_after="fake-1"
    )

    assert squeezed(file.read_text()) == squeezed(TREE)
    assert "assistant" in watched
