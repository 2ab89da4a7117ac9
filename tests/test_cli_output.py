"""One golden text per format, and what stored text must not do to a terminal."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from otelchain.cli.output import answer_text, remark, to_csv, to_json, to_jsonl, to_markdown
from otelchain.cli.printing import print_text
from otelchain.reading.screen import unlimited
from otelchain.reading.visible import escape_json, visible
from otelchain_collector.answer import Answer, Column
from stored_runs import asked, make_store
from terminal import STYLES, on_terminal

ANSWER = Answer(
    columns=(
        Column("name", "VARCHAR"),
        Column("duration_ms", "DOUBLE"),
        Column("tokens", "BIGINT"),
        Column("tags", "VARCHAR[]"),
        Column("name", "VARCHAR"),
    ),
    rows=[
        ["plain", 12.0, 154, ["a", "b"], "x"],
        ['say "hi", then\nleave | go', 0.123456, None, [], None],
        ["naïve ✓ 文", 7250.5, 9007199254740993, None, ""],
    ],
)
EMPTY = Answer(columns=(Column("name", "VARCHAR"),), rows=[])

GOLDEN_JSON = """\
[
{"name": "plain", "duration_ms": 12.0, "tokens": 154, "tags": ["a", "b"], "name_2": "x"},
{"name": "say \\"hi\\", then\\nleave | go", "duration_ms": 0.123456, "tokens": null, "tags": [], \
"name_2": null},
{"name": "naïve ✓ 文", "duration_ms": 7250.5, "tokens": 9007199254740993, "tags": null, \
"name_2": ""}
]
"""
GOLDEN_CSV = (
    "name,duration_ms,tokens,tags,name\r\n"
    'plain,12.0,154,"[""a"", ""b""]",x\r\n'
    '"say ""hi"", then\nleave | go",0.123456,,[],\r\n'
    "naïve ✓ 文,7250.5,9007199254740993,,\r\n"
)
GOLDEN_MARKDOWN = """\
| name | duration_ms | tokens | tags | name |
| --- | ---: | ---: | --- | --- |
| plain | 12.0 | 154 | ["a", "b"] | x |
| say "hi", then<br>leave \\| go | 0.123456 |  | [] |  |
| naïve ✓ 文 | 7250.5 | 9007199254740993 |  |  |
"""
GOLDEN_TABLE = """\
name                        duration_ms            tokens  tags        name
--------------------------- ------------ ----------------- ----------- ----
plain                                12               154  ["a", "b"]  x
say "hi", then\\nleave | go        0.123                    []
naïve ✓ 文                       7250.5  9007199254740993
"""


def print_answer(answer: Answer, format_name: str, more: str) -> None:
    print_text(answer_text(answer, format_name, unlimited, on_terminal=False), format_name)
    remark(answer, format_name, more)


def test_json_is_one_array_with_a_row_on_each_line() -> None:
    assert to_json(ANSWER) == GOLDEN_JSON
    assert len(json.loads(GOLDEN_JSON)) == 3
    assert to_json(EMPTY) == "[]\n"


def test_jsonl_is_an_object_on_each_line() -> None:
    lines = [line.removesuffix(",") for line in GOLDEN_JSON.splitlines()[1:-1]]

    assert to_jsonl(ANSWER) == "".join(f"{line}\n" for line in lines)
    assert to_jsonl(EMPTY) == ""


def test_csv_is_rfc_4180() -> None:
    assert to_csv(ANSWER) == GOLDEN_CSV
    assert next(csv.reader(io.StringIO(GOLDEN_CSV))) == [
        *("name", "duration_ms", "tokens", "tags", "name")
    ]
    assert to_csv(EMPTY) == "name\r\n"


def test_markdown_escapes_what_would_end_a_cell() -> None:
    assert to_markdown(ANSWER) == GOLDEN_MARKDOWN


@pytest.mark.failure("stored-scripts")
def test_markdown_shows_html_instead_of_obeying_it() -> None:
    answer = Answer((Column("a", "VARCHAR"),), [["<img src=x> & \x1b[2J"]])

    assert to_markdown(answer).splitlines()[2] == "| &lt;img src=x> &amp; \\\\x1b[2J |"


def test_a_piped_table_has_every_value_whole(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(ANSWER, "table", "raise --limit")

    assert capsys.readouterr() == (GOLDEN_TABLE, "")


COLOR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")


def test_colours_are_for_terminals_unless_asked_for(tmp_path: Path) -> None:
    show = ("show", "last", "--database", str(make_store(tmp_path / "otelchain.duckdb")))

    def coloured(text: str) -> bool:
        return COLOR.search(text) is not None

    assert coloured(on_terminal(80, *show))
    assert not coloured(on_terminal(80, *show, NO_COLOR="1"))
    assert not coloured(on_terminal(80, *show, "--color", "never"))
    assert coloured(on_terminal(80, *show, "--color", "always", NO_COLOR="1"))
    piped = asked(*show).stdout.decode()
    forced = asked(*show, "--color", "always").stdout.decode()
    assert not coloured(piped)
    assert coloured(forced)
    assert STYLES.sub("", forced) == piped


def test_a_pager_that_shows_no_colours_gets_none(tmp_path: Path) -> None:
    show = ("show", "last", "--database", str(make_store(tmp_path / "otelchain.duckdb")))

    shown = on_terminal(80, *show, lines=5, PAGER="cat -v")

    assert "assistant" in shown
    assert "^[[" not in shown


def test_a_piped_table_is_as_wide_as_its_longest_value(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(Answer((Column("a", "VARCHAR"),), [["x" * 5000]]), "table", "")

    assert "x" * 5000 in capsys.readouterr().out


def test_remarks_go_to_standard_error(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_answer(EMPTY, "table", "raise --limit")
    print_answer(Answer(EMPTY.columns, [["a"]], has_more=True), "jsonl", "raise --limit")

    out, err = capfdbinary.readouterr()
    assert out == b'name\n----\n{"name": "a"}\n'
    assert err == b"no rows\nmore rows exist; raise --limit\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain ✓ 文 👩\u200d🚀", "plain ✓ 文 👩\u200d🚀"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x9b31m", "\\x9b31m"),
        ("\x7f", "\\x7f"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("a\u2028b", "a\\u2028b"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_control_characters_become_visible(text: str, expected: str) -> None:
    assert visible(text) == expected


def test_json_with_escapes_is_the_same_json() -> None:
    value = {"a": "\x9b31m \u202e \x7f \U000e0041 ✓"}

    text = escape_json(json.dumps(value, ensure_ascii=False))

    assert text == r'{"a": "\u009b31m \u202e \u007f \udb40\udc41 ✓"}'
    assert json.loads(text) == value


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 140])
def test_a_table_fits_the_terminal(tmp_path: Path, columns: int) -> None:
    database = make_store(tmp_path / "otelchain.duckdb")
    sql = "SELECT name, start_time, duration_ms, outputs, repeat('文', 300) AS wide FROM runs"

    shown = on_terminal(columns, "sql", sql, "--database", str(database))

    lines = STYLES.sub("", shown).splitlines()
    wide = [len(line) + line.count("文") for line in lines]
    assert max(wide) <= columns
    assert any("…" in line for line in lines)
    assert columns < 60 or "2026-11-30T23:04:54.153Z" in shown
    assert "7250" in shown


def test_a_table_on_a_terminal_leaves_out_empty_columns_and_the_tails_of_ids(
    tmp_path: Path,
) -> None:
    database = make_store(tmp_path / "otelchain.duckdb")
    sql = "SELECT trace_id, name, NULL AS nothing, '' AS blank FROM runs ORDER BY name LIMIT 1"

    shown = STYLES.sub("", on_terminal(80, "sql", sql, "--database", str(database)))

    assert shown.splitlines()[0].split() == ["trace_id", "name"]
    assert "4bf92f35 " in shown
    assert "4bf92f3577" not in shown


def test_rows_too_wide_for_a_table_become_records(tmp_path: Path) -> None:
    database = make_store(tmp_path / "otelchain.duckdb")

    shown = on_terminal(80, "query", "slow-tools", "--database", str(database), NO_COLOR="1")

    lines = [line.split() for line in STYLES.sub("", shown).splitlines()]
    assert lines[0] == ["---", "row", "1"]
    assert ["name", "lookup"] in lines
    assert ["trace_id", "4bf92f3577b34da6a3ce929d0e0e4736"] in lines


def test_no_color_is_obeyed(tmp_path: Path) -> None:
    database = make_store(tmp_path / "otelchain.duckdb")
    arguments = ("show", "last", "--database", str(database))

    coloured = on_terminal(100, *arguments)
    plain = on_terminal(100, *arguments, NO_COLOR="1")

    assert "\x1b[1;31m" in coloured or "\x1b[31m" in coloured
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", plain)


@pytest.mark.failure("stored-scripts")
@pytest.mark.parametrize("format_name", ["table", "json", "jsonl", "csv", "markdown"])
def test_a_terminal_never_gets_a_stored_escape_sequence(tmp_path: Path, format_name: str) -> None:
    database = make_store(tmp_path / "otelchain.duckdb")
    sql = "SELECT error, chr(155) || '31m' AS c1, chr(27) AS \"\x1b[2J\" FROM runs"

    shown = on_terminal(
        *(100, "sql", sql, "--database", str(database), "--format", format_name),
    )

    rest = STYLES.sub("", shown.replace("\x1b[31mhost", "LEAK"))
    assert "LEAK" not in rest
    assert "\x1b" not in rest
    assert "\x9b" not in rest
    assert "31mhost" in rest
