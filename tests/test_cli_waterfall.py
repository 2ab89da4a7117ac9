"""The waterfall: bars worked out by hand, marks without colours, and narrow terminals."""

from pathlib import Path

import pytest
from rich.cells import cell_len

from otelchain.reading.waterfall import Scale
from stored_runs import TRACE, asked, make_store, run
from terminal import STYLES, on_terminal

RUNS = (
    run(1, None, "assistant", "agent", duration_ms=1000, status="interrupted"),
    run(2, 1, "search", "retriever", duration_ms=500, status="error"),
    run(3, 1, "lookup", "tool", start_ms=500, duration_ms=250),
    run(4, 3, "fake", "llm", start_ms=900, duration_ms=0, status="handled_error"),
    run(5, 1, "wait", "tool", start_ms=750, duration_ms=250, status="cancelled"),
    run(6, 1, "late", "chain", start_ms=500, status="pending"),
)
CROSS = "\N{MULTIPLICATION SIGN}"
LEGEND = (
    "? interrupted, waits for an answer  ✗ error  ! handled error  > pending, has not ended  "
    f"{CROSS} cancelled"
)
# 100 cells: 20 for the names, 7 for the durations, two gaps of 2; 69 are left for a second.
WATERFALL = f"""\
trace {TRACE}  2026-11-30T23:04:54.123456789Z  6 runs, 1 pending  service support
                               0{"1.00 s".rjust(68)}
assistant [agent]      1.00 s  {"━" * 68}?
  search [retriever]   500 ms  {"━" * 34}✗
  lookup [tool]        250 ms  {" " * 34}{"━" * 18}
    fake [llm]           0 ms  {" " * 62}!
  late [chain]        pending  {" " * 34}{"┄" * 34}>
  wait [tool]          250 ms  {" " * 51}{"━" * 17}{CROSS}
{LEGEND}
"""


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> str:
    return str(make_store(tmp_path / "otelchain.duckdb", RUNS))


def test_bars_show_when_runs_ran_and_marks_how_they_ended(database: str) -> None:
    result = asked("show", "last", "--waterfall", "--database", database)

    assert result.stdout.decode() == WATERFALL


def test_a_bar_has_one_cell_at_least_and_never_leaves_the_scale() -> None:
    def cells(start: str, end: str | None) -> tuple[int, int]:
        return scale.span({"start_time": start, "end_time": end})

    scale = Scale(begin=0, end=1_000, cells=10)

    assert cells("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000001Z") == (0, 10)
    assert cells("1970-01-01T00:00:00.000000250Z", "1970-01-01T00:00:00.000000250Z") == (2, 3)
    assert cells("1970-01-01T00:00:00.000001Z", "1970-01-01T00:00:00.000001Z") == (9, 10)
    # A clock that went back: an end before its start.
    assert cells("1970-01-01T00:00:00.000000900Z", "1970-01-01T00:00:00.000000100Z") == (9, 10)
    assert cells("1970-01-01T00:00:00.000000300Z", None) == (3, 10)


def test_a_trace_without_any_duration_is_drawn_too(tmp_path: Path) -> None:
    database = str(make_store(tmp_path / "x.duckdb", [run(1, None, "a", "chain", duration_ms=0)]))

    result = asked("show", "last", "--waterfall", "--database", database)

    assert (result.returncode, result.stderr) == (0, b"")
    assert "━" in result.stdout.decode()


@pytest.mark.parametrize("columns", [20, 35, 60, 120])
def test_it_fits_the_terminal(tmp_path: Path, columns: int) -> None:
    wide = run(7, 3, "検索ツール" * 8 + "\x1b[2J", "tool", start_ms=10, duration_ms=10)
    database = str(make_store(tmp_path / "x.duckdb", [*RUNS, wide]))

    shown = on_terminal(columns, "show", "last", "--waterfall", "--database", database)

    lines = STYLES.sub("", shown).splitlines()
    assert max(map(cell_len, lines)) <= columns
    assert "\x1b" not in "".join(lines)
    assert any("━" in line for line in lines)


def test_it_draws_a_tree_and_nothing_else(database: str) -> None:
    for more in (["--full"], ["--format", "json"]):
        result = asked("show", "last", "--waterfall", *more, "--database", database)
        assert result.returncode == 2
        assert b"--waterfall draws a tree; leave out --full and --format" in result.stderr
