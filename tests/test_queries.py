"""The bundle: every .sql file is one parametrised SELECT with a header that tells the truth."""

from pathlib import Path

import duckdb
import pytest

import otelchain_queries
from otelchain_queries import Param, Query, QueryError, load, names, parse
from otelchain_queries.index import index_markdown

MIGRATIONS = Path(__file__).parent.parent / "collector" / "otelchain_collector" / "migrations"

every_query = pytest.mark.parametrize("query", [load(name) for name in names()], ids=names())

HEADER = """\
-- title: Slow runs
-- description: Runs, slowest first.
-- why: To find them.
-- param: min_duration = 5s   shortest duration
-- param: service =   only this service
SELECT $min_duration, $service;
"""


@pytest.fixture(name="empty_store")
def _empty_store() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for path in sorted(MIGRATIONS.glob("*.sql")):
        connection.execute(path.read_text())
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

    columns = {column[0] for column in answer.description or ()}
    assert {"trace_id", "span_id", "name", "duration_ms", "start_time"} <= columns


def test_the_bundle_has_the_questions_of_the_command_line() -> None:
    asked_for = {"failed-retrievers", "mixed-status-parents", "slow-tools", "trace", "traces"}

    assert asked_for <= set(names())


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
            "slow_runs.sql:3: expected '-- title:', '-- description:', '-- why:' or '-- param:'",
        ),
        (
            "-- just words\n" + HEADER,
            "slow_runs.sql:1: expected '-- title:', '-- description:', '-- why:' or '-- param:'",
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
        "param given twice",
    ],
)
def test_a_wrong_header_is_named_with_its_file_and_line(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text, "slow_runs.sql")

    assert str(caught.value) == message


def test_binding_fills_in_the_defaults() -> None:
    query = parse(HEADER, "slow_runs.sql")

    assert query.bind({"service": "shop"}) == {"min_duration": "5s", "service": "shop"}


def test_binding_an_unknown_parameter_names_the_known_ones() -> None:
    with pytest.raises(
        QueryError,
        match=r"^slow-runs has no parameter 'services'; it has: min_duration, service$",
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
        for param in query.params:
            assert f"| `{param.name}` |" in index
            assert f"| {param.help} |" in index


def test_the_readme_holds_the_current_index() -> None:
    readme = Path(__file__).parent.parent / "queries" / "README.md"

    assert index_markdown() in readme.read_text()
