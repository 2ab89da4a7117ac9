"""``otelchain query check``: every kind of mistake, by file and line."""

from pathlib import Path

import pytest

from stored_runs import asked

GOOD = """\
-- title: Long runs
-- description: Runs that took long.
-- why: To find them.
-- finding: {name} took {duration_ms:duration}.
-- weight: 10
-- param: min_ms = 1000  shortest duration in milliseconds
SELECT name, duration_ms
FROM runs
WHERE duration_ms >= $min_ms::DOUBLE;
"""


def checked(path: Path, text: str) -> tuple[int, list[str]]:
    file = path / "long_runs.sql"
    file.write_text(text)
    result = asked("query", "check", str(file))
    return result.returncode, [
        line.removeprefix(str(file)) for line in result.stdout.decode().splitlines()
    ]


def test_a_good_query_says_nothing(tmp_path: Path) -> None:
    assert checked(tmp_path, GOOD) == (0, [])


@pytest.mark.parametrize(
    ("old", "new", "problems"),
    [
        (
            "-- title: Long runs\n-- description: Runs",
            "-- title:\n-- about: Runs",
            [
                ":1: title is empty",
                (
                    ":2: expected '-- title:', '-- description:', '-- why:', '-- example:', "
                    "'-- next:', '-- finding:', '-- weight:' or '-- param:'"
                ),
                ": the header has no '-- description:' line",
            ],
        ),
        ("FROM runs", "FROM run", [":8: Catalog Error: Table with name run does not exist!"]),
        ("SELECT name,", "SELECT nam,", [":7: Binder Error: Referenced column"]),
        ("::DOUBLE", "::DUOBLE", [":9: Catalog Error: Type with name DUOBLE does not exist!"]),
        ("FROM runs", "FORM runs", [":8: Parser Error: syntax error at or near"]),
        ("= 1000", "= soon", [": long-runs: min_ms must be a number, not 'soon'"]),
        (
            "$min_ms",
            "$min",
            [
                ":9: $min is not declared; add a line '-- param: min = …  …'",
                ": parameter min_ms is declared and not used",
            ],
        ),
        (" >= $min_ms::DOUBLE", " > 1", [": parameter min_ms is declared and not used"]),
        (
            "{name}",
            "{nam}",
            [": finding names {nam}, which is no column of the answer"],
        ),
        (
            "DOUBLE;",
            "DOUBLE; DROP TABLE spans;",
            [": there must be one SELECT; there are 2 statements"],
        ),
        ("FROM runs", "FROM read_csv('x')", [": function 'read_csv' is not allowed here"]),
        ("SELECT name, duration_ms\nFROM runs", "DELETE FROM spans", [": only SELECT"]),
    ],
    ids=[
        "header",
        "table",
        "column",
        "type",
        "syntax",
        "default",
        "undeclared",
        "unused",
        "finding",
        "two statements",
        "function",
        "no select",
    ],
)
def test_a_mistake_is_named_with_its_file_and_line(
    tmp_path: Path, old: str, new: str, problems: list[str]
) -> None:
    assert old in GOOD

    code, found = checked(tmp_path, GOOD.replace(old, new))

    assert code == 1
    assert len(found) == len(problems), found
    for line, expected in zip(found, problems, strict=True):
        assert line.startswith(expected), (line, expected)


def test_several_files_are_checked(tmp_path: Path) -> None:
    for name, text in (("good.sql", GOOD), ("bad.sql", "SELECT 1;\n")):
        tmp_path.joinpath(name).write_text(text)

    result = asked("query", "check", str(tmp_path / "good.sql"), str(tmp_path / "bad.sql"))

    assert result.returncode == 1
    assert result.stdout.decode().splitlines() == [
        f"{tmp_path}/bad.sql: the header has no '-- {key}:' line"
        for key in ("title", "description", "why")
    ]


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    result = asked("query", "check", str(tmp_path / "no.sql"))

    assert result.returncode == 2
    assert b"cannot read" in result.stderr
