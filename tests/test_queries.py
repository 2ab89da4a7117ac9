"""The bundle: every .sql file is one parametrised SELECT with a header that tells the truth."""

import re
import shlex
from pathlib import Path

import click
import duckdb
import pytest

import otelchain_queries
from otelchain.cli import cli
from otelchain_collector.check_query import problems
from otelchain_collector.schema import migrate
from otelchain_queries import Finding, Param, Query, QueryError, load, names, parse
from otelchain_queries.index import index_markdown

every_query = pytest.mark.parametrize("query", [load(name) for name in names()], ids=names())

EXPECTED = (
    "expected '-- title:', '-- description:', '-- why:', '-- example:', '-- next:', "
    "'-- finding:', '-- weight:' or '-- param:'"
)
HEADER = """\
-- title: Slow runs
-- description: Runs, slowest first.
-- why: To find them.
-- param: min_duration = 5s   shortest duration
-- param: service =   only this service
SELECT $min_duration, $service;
"""


# Words of the header that a template of a finding must not show: columns that hold content.
# fmt: off
CONTENT_COLUMNS = frozenset({
    "inputs", "outputs", "tool_input", "query_text", "question", "error", "first_error",
    "newest_error", "end_reason", "criteria", "metadata", "tags", "variables", "arguments",
})
# fmt: on


@pytest.fixture(name="empty_store", scope="module")
def _empty_store() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    migrate(connection)
    return connection


@every_query
def test_it_is_one_select_statement(query: Query) -> None:
    with duckdb.connect() as connection:
        (statement,) = connection.extract_statements(query.sql)

    assert statement.type == duckdb.StatementType.SELECT


@every_query
def test_it_declares_exactly_the_parameters_it_uses(query: Query) -> None:
    with duckdb.connect() as connection:
        (statement,) = connection.extract_statements(query.sql)

    assert statement.named_parameters == {param.name for param in query.params}


@every_query
def test_it_runs_on_a_new_store(query: Query, empty_store: duckdb.DuckDBPyConnection) -> None:
    assert empty_store.execute(query.sql, query.bind({})).fetchall() == []


@every_query
def test_it_takes_the_parameters_that_all_take(query: Query) -> None:
    defaults = {param.name: param.default for param in query.params}

    assert defaults["since"] == "1970-01-01"
    assert defaults["until"] == "2262-01-01"
    assert defaults["service"] == ""
    assert "limit" in defaults


@every_query
def test_its_rows_can_be_found_again(query: Query, empty_store: duckdb.DuckDBPyConnection) -> None:
    answer = empty_store.execute(query.sql, query.bind({}))

    columns = [column[0] for column in answer.description or ()]
    if query.name == "ingestion-health":  # which is about services
        assert columns[0] == "service_name"
    else:
        assert columns[0] == "trace_id"
    assert len(set(columns)) == len(columns)


@every_query
def test_the_check_of_queries_finds_nothing_wrong_with_it(query: Query) -> None:
    file_name = query.name.replace("-", "_") + ".sql"

    assert problems(query.sql, file_name) == []


@every_query
def test_its_example_is_a_command_that_runs(query: Query) -> None:
    program, *arguments = shlex.split(query.example)

    assert (program, *arguments[:2]) == ("otelchain", "query", query.name)
    with cli.make_context("otelchain", arguments) as context:
        group = cli.get_command(context, "query")
        assert isinstance(group, click.Group)
        command = group.get_command(context, query.name)
        assert command is not None
        command.make_context(query.name, arguments[2:]).close()


@every_query
def test_it_says_what_to_do_next_with_commands_that_there_are(query: Query) -> None:
    named = re.findall(r"otelchain query ([a-z-]+)", query.next)

    assert query.next.endswith(".")
    assert set(named) <= set(names())


@every_query
def test_its_finding_tells_no_content(query: Query) -> None:
    if query.finding is not None:
        assert not CONTENT_COLUMNS & set(query.finding.columns)


def test_the_bundle_answers_at_least_thirty_questions() -> None:
    assert len(names()) >= 30


def test_a_header_becomes_a_query() -> None:
    query = parse(HEADER, "slow_runs.sql")

    assert query == Query(
        name="slow-runs",
        title="Slow runs",
        description="Runs, slowest first.",
        why="To find them.",
        params=(
            Param("min_duration", "5s", "shortest duration"),
            Param("service", "", "only this service"),
        ),
        sql=HEADER,
    )


def test_a_comment_below_the_header_is_no_header_line() -> None:
    query = parse(HEADER + "-- owner: nobody\n", "slow_runs.sql")

    assert query.title == "Slow runs"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            HEADER.replace("-- why:", "-- reason:"),
            f"slow_runs.sql:3: {EXPECTED}",
        ),
        (
            "-- just words\n" + HEADER,
            f"slow_runs.sql:1: {EXPECTED}",
        ),
        (
            HEADER.replace("-- why: To find them.\n", ""),
            "slow_runs.sql: the header has no '-- why:' line",
        ),
        (HEADER.replace("Slow runs", ""), "slow_runs.sql:1: title is empty"),
        ("-- title: Again\n" + HEADER, "slow_runs.sql:2: title is given twice"),
        (
            HEADER.replace("5s   shortest", "5s shortest"),
            (
                "slow_runs.sql:4: expected '-- param: name = default  help', "
                "two spaces before the help"
            ),
        ),
        (
            HEADER.replace("-- why:", "-- finding: {a}\n-- why:"),
            "slow_runs.sql: the header has no '-- weight:' line",
        ),
        (
            HEADER.replace("-- why:", "-- weight: 5\n-- why:"),
            "slow_runs.sql: the header has no '-- finding:' line",
        ),
        (
            HEADER.replace("-- why:", "-- finding: {a}\n-- weight: 101\n-- why:"),
            "slow_runs.sql:4: weight must be a whole number from 1 to 100",
        ),
        (
            HEADER.replace("-- why:", "-- weight: 5\n-- finding: {a:weeks}\n-- why:"),
            (
                "slow_runs.sql:4: finding has the unknown form 'weeks'; "
                "there are: duration, number, times, usd, calls, evaluations, steps, turns"
            ),
        ),
        (
            HEADER.replace("-- why:", "-- weight: 5\n-- finding: {a.b}\n-- why:"),
            (
                "slow_runs.sql:4: finding has a brace that is no place such as {name} or "
                "{duration_ms:duration}"
            ),
        ),
        (
            HEADER.replace("service =", "min_duration ="),
            "slow_runs.sql:5: parameter min_duration is given twice",
        ),
    ],
    ids=[
        "unknown key",
        "no key",
        "missing key",
        "empty",
        "given twice",
        "bad param",
        "finding without weight",
        "weight without finding",
        "weight too great",
        "unknown form",
        "brace",
        "param given twice",
    ],
)
def test_a_wrong_header_is_named_with_its_file_and_line(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text, "slow_runs.sql")

    assert str(caught.value) == message


def test_all_mistakes_of_a_header_are_told() -> None:
    text = HEADER.replace("Slow runs", "").replace("-- why: To find them.\n", "")

    with pytest.raises(QueryError) as caught:
        parse(text, "slow_runs.sql")

    assert caught.value.problems == (
        "slow_runs.sql:1: title is empty",
        "slow_runs.sql: the header has no '-- why:' line",
    )


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        ("", "docs", "docs"),
        ("", ["a", "b"], "a, b"),
        ("", "{name}", "{name}"),
        ("duration", 0.25, "0.25 ms"),
        ("duration", 999, "999 ms"),
        ("duration", 1_500, "1.5 s"),
        ("duration", 119_000, "119 s"),
        ("duration", 120_000, "2 min"),
        ("duration", 9_000_000, "2.5 h"),
        ("duration", 3 * 86_400_000, "3 days"),
        ("number", 12_345, "12,345"),
        ("number", 1.2345, "1.23"),
        ("number", 2.0, "2"),
        ("times", 1, "once"),
        ("times", 2, "twice"),
        ("times", 1_000, "1,000 times"),
        ("calls", 0, "0 calls"),
        ("calls", 1, "1 call"),
        ("turns", 1_000, "1,000 turns"),
        ("usd", 12.5, "$12.50"),
        ("usd", 0.00123, "$0.0012"),
    ],
)
def test_a_finding_shows_a_value_in_its_form(form: str, value: object, expected: str) -> None:
    place = f"{{x:{form}}}" if form else "{x}"

    assert Finding(f"<{place}>", 1).sentence({"x": value}) == f"<{expected}>"


def test_a_row_without_a_value_that_the_sentence_needs_is_no_finding() -> None:
    finding = Finding("{name} is {slow}", 1)

    assert finding.sentence({"name": "a", "slow": None}) is None
    assert finding.sentence({"name": "a"}) is None
    assert Finding("{calls:times}", 1).sentence({"calls": 0}) is None
    assert Finding("{calls:number}", 1).sentence({"calls": 0}) == "0"
    assert finding.sentence({"name": "a", "slow": "slow"}) == "a is slow"


def test_a_finding_has_words_for_a_value_that_is_not_known() -> None:
    finding = Finding("{name|it} took {steps:steps|some steps} and failed {times:times|never}", 1)

    assert finding.sentence({}) == "it took some steps and failed never"
    row = {"name": "agent", "steps": 1, "times": 2}
    assert finding.sentence(row) == "agent took 1 step and failed twice"
    assert finding.sentence({**row, "times": 0}) is None
    assert finding.columns == ("name", "steps", "times")


def own_folder(path: Path) -> Path:
    path.joinpath("slow_runs.sql").write_text(HEADER)
    path.joinpath("notes.txt").write_text("no query")
    path.joinpath("old.sql").mkdir()
    return path


def test_a_folder_of_the_user_joins_the_bundle(tmp_path: Path) -> None:
    folders = [own_folder(tmp_path)]

    assert names(folders) == sorted([*names(), "slow-runs"])
    assert load("slow-runs", folders).title == "Slow runs"
    assert load("traces", folders) == load("traces")


def test_a_query_with_the_name_of_another_is_refused(tmp_path: Path) -> None:
    tmp_path.joinpath("slow_tools.sql").write_text(HEADER)

    with pytest.raises(
        QueryError, match=r"slow_tools\.sql' has the name of another query, 'slow-tools'; rename"
    ):
        names([tmp_path])


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"^there is no folder '.*nowhere' with queries$"):
        names([tmp_path / "nowhere"])


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    tmp_path.joinpath("odd.sql").write_bytes(b"\xff\xfe")

    with pytest.raises(QueryError, match=r"^cannot read '.*odd\.sql': it is not UTF-8$"):
        load("odd", [tmp_path])


def test_binding_fills_in_the_defaults() -> None:
    query = parse(HEADER, "slow_runs.sql")

    assert query.bind({"service": "shop"}) == {"min_duration": "5s", "service": "shop"}


def test_binding_an_unknown_parameter_names_the_known_ones() -> None:
    with pytest.raises(
        QueryError,
        match=r"^slow-runs has no parameter 'services'; did you mean 'service'\?$",
    ):
        parse(HEADER, "slow_runs.sql").bind({"services": "shop"})


def test_a_misspelt_query_name_gets_a_suggestion() -> None:
    with pytest.raises(
        QueryError, match=r"^no query is named 'slow-tool'; did you mean 'slow-tools'\?$"
    ):
        load("slow-tool")


def test_an_unknown_query_name_gets_the_list() -> None:
    with pytest.raises(QueryError, match=f"there are: {', '.join(names())}$"):
        load("zzz")


@pytest.mark.parametrize("name", ["../../etc/passwd", "slow_tools", "slow-tools.sql", "", "Trace"])
def test_only_the_names_of_the_bundle_are_opened(name: str) -> None:
    with pytest.raises(QueryError, match="no query is named"):
        load(name)


def test_the_package_needs_no_other_package_of_ours() -> None:
    package = Path(otelchain_queries.__file__).parent

    sources = "".join(path.read_text() for path in package.glob("*.py"))

    assert "import otelchain\n" not in sources
    assert "otelchain_collector" not in sources


def test_the_index_lists_every_query_and_parameter() -> None:
    index = index_markdown()

    for query in map(load, names()):
        assert f"### {query.name}\n\n**{query.title}.** {query.description}" in index
        assert query.why in index
        assert f"    {query.example}\n\n*Next:* {query.next}\n" in index
        for param in query.params:
            assert f"| `{param.name}` |" in index
            assert f"| {param.help} |" in index


def test_the_readme_holds_the_current_index() -> None:
    readme = Path(__file__).parent.parent / "queries" / "README.md"

    assert index_markdown() in readme.read_text()
