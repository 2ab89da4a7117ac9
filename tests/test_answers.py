"""What an answer holds, and what a question may not do."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import otelchain_collector.answers as answers
from otelchain_collector.answer import Answer, Column, QueryFailed
from otelchain_collector.answers import answer_query, answer_sql
from otelchain_collector.guard import check_sql, guard
from otelchain_collector.store import Store
from otelchain_queries import QueryError, parse
from stored_runs import make_store


@pytest.fixture(name="connection", params=["plain", "store"])
def _connection(request: pytest.FixtureRequest) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own, and a cursor of a store: DuckDB parses differently in the two."""
    plain = request.param == "plain"
    connection = duckdb.connect() if plain else Store.open(":memory:").database.cursor()
    connection.execute("CREATE TABLE t AS SELECT 1 AS a")
    yield connection
    connection.close()


def value_of(connection: duckdb.DuckDBPyConnection, expression: str) -> Any:
    [[value]] = answer_sql(connection, f"SELECT {expression}").rows
    return value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("9223372036854775807::BIGINT", 9223372036854775807),
        ("18446744073709551615::UBIGINT", 18446744073709551615),
        ("5::HUGEINT", 5),
        ("sum(x) FROM (VALUES (1::BIGINT), (2)) AS v(x)", 3),
        (
            "170141183460469231731687303715884105727::HUGEINT",
            "170141183460469231731687303715884105727",
        ),
        (
            "340282366920938463463374607431768211455::UHUGEINT",
            "340282366920938463463374607431768211455",
        ),
        ("1.50::DECIMAL(10, 2)", "1.50"),
        ("12::DECIMAL(10, 0)", 12),
        ("0.1::FLOAT", 0.1),
        ("0.1::DOUBLE", 0.1),
        ("'nan'::DOUBLE", None),
        ("'-infinity'::FLOAT", None),
        ("true", True),
        ("NULL", None),
        ("TIMESTAMP_NS '2026-11-30 23:04:54.123456789'", "2026-11-30T23:04:54.123456789Z"),
        ("TIMESTAMP_NS '2026-11-30 23:04:54.120000000'", "2026-11-30T23:04:54.120Z"),
        ("TIMESTAMP '2026-11-30 23:04:54.000001'", "2026-11-30T23:04:54.000001Z"),
        ("TIMESTAMP_S '2026-11-30 23:04:54'", "2026-11-30T23:04:54Z"),
        ("TIMESTAMP_MS '1969-12-31 23:59:59.999'", "1969-12-31T23:59:59.999Z"),
        ("TIMESTAMPTZ '2026-11-30 23:04:54+02'", "2026-11-30T21:04:54Z"),
        ("'infinity'::TIMESTAMP", "infinity"),
        ("TIMESTAMP '20000-02-29 00:00:00'", "20000-02-29T00:00:00Z"),
        ("DATE '2024-02-29'", "2024-02-29"),
        ("DATE '0001-01-01'", "0001-01-01"),
        ("TIME '12:34:56.5'", "12:34:56.5"),
        ("INTERVAL '3 days 5 seconds'", "3 days 00:00:05"),
        ("UUID '123e4567-e89b-12d3-a456-426614174000'", "123e4567-e89b-12d3-a456-426614174000"),
        ("'\\x00\\xFFa'::BLOB", "00ff61"),
        ("'101'::BIT", "101"),
        ("'b'::ENUM('a', 'b')", "b"),
        ("[1, NULL, 3]", [1, None, 3]),
        ("[1, 2]::INTEGER[2]", [1, 2]),
        ("[[1], NULL, []]", [[1], None, []]),
        ("{'x': 1, 'y': NULL}", {"x": 1, "y": None}),
        ("row(1, 'a')", "(1, a)"),
        ("MAP {'k': 1}", {"k": 1}),
        ("MAP {7: 'seven'}", {"7": "seven"}),
        ("[INTERVAL 5 SECOND]", ["00:00:05"]),
        ("{'a \"b\"': TIME '01:00:00'}", {'a "b"': "01:00:00"}),
        (
            "[{'at': TIMESTAMP_NS '2026-11-30 23:04:54.123456789'}]",
            [{"at": "2026-11-30T23:04:54.123456789Z"}],
        ),
        ("""'{"b": 1, "a": 2}'::JSON""", '{"b": 1, "a": 2}'),
        ("'é\\n' || chr(0)", "é\\n\x00"),
    ],
)
def test_a_value_becomes_json(
    connection: duckdb.DuckDBPyConnection, expression: str, expected: Any
) -> None:
    value = value_of(connection, expression)

    assert value == expected
    assert type(value) is type(expected)


def test_lists_and_maps_stay_with_their_row(connection: duckdb.DuckDBPyConnection) -> None:
    sql = (
        "SELECT * FROM (VALUES ([1, 2], MAP {'a': 1}, {'n': 1}), (NULL, NULL, NULL), "
        "([3], MAP {'b': 2, 'c': 3}, {'n': 2})) AS v(l, m, s)"
    )

    rows = answer_sql(connection, sql).rows

    assert rows == [[[1, 2], {"a": 1}, {"n": 1}], [None] * 3, [[3], {"b": 2, "c": 3}, {"n": 2}]]


def test_two_columns_of_one_name_keep_their_own_values(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    answer = answer_sql(connection, "SELECT 1 AS x, INTERVAL 1 SECOND AS x")

    assert answer.columns == (Column("x", "INTEGER"), Column("x", "INTERVAL"))
    assert answer.rows == [[1, "00:00:01"]]


def test_an_answer_survives_the_journey_as_json(connection: duckdb.DuckDBPyConnection) -> None:
    answer = answer_sql(connection, "SELECT 0.1::DOUBLE AS a, [9007199254740993] AS b, 'ü' AS c")

    assert Answer.from_json(answer.to_json()) == answer
    assert (
        answer.to_json()
        == (
            '{"columns":[{"name":"a","type":"DOUBLE"},{"name":"b","type":"BIGINT[]"},'
            '{"name":"c","type":"VARCHAR"}],"rows":[[0.1,[9007199254740993],"ü"]],"has_more":false}'
        ).encode()
    )


def test_times_do_not_depend_on_the_zone_of_the_process(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    with suppress(duckdb.Error):  # The store has locked it.
        connection.execute("SET GLOBAL TimeZone = 'Asia/Tokyo'")

    day = value_of(connection, "CAST(TIMESTAMPTZ '2026-11-30 23:00:00+00' AS DATE)")

    assert day == "2026-11-30"


def test_the_row_limit_says_when_there_is_more(connection: duckdb.DuckDBPyConnection) -> None:
    cut = answer_sql(connection, "FROM range(10)", max_rows=3)
    whole = answer_sql(connection, "FROM range(3)", max_rows=3)

    assert (cut.rows, cut.has_more) == ([[0], [1], [2]], True)
    assert (whole.rows, whole.has_more) == ([[0], [1], [2]], False)


def test_the_first_rows_of_an_endless_answer_come_at_once(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    sql = "SELECT range, 'x' || range FROM range(1000000000000)"

    answer = answer_sql(connection, sql, max_rows=1, max_seconds=20)

    assert answer.rows == [[0, "x0"]]


def test_a_question_that_runs_too_long_is_stopped(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(QueryFailed, match=r"^it ran longer than 0\.2 seconds; "):
        answer_sql(connection, "SELECT count(*) FROM range(1000000000000)", max_seconds=0.2)

    assert value_of(connection, "1") == 1


def test_an_answer_too_large_to_hold_is_refused(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MAX_ANSWER_BYTES", 1024 * 1024)

    with pytest.raises(QueryFailed, match="larger than 1 MiB; ask for fewer rows"):
        answer_sql(connection, "SELECT repeat('x', 1000) FROM range(10000)", max_rows=10_000)


WRITES_IN_A_SELECT = "WITH x AS (INSERT INTO t VALUES (2) RETURNING a) SELECT * FROM x"


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("", "there is no SQL statement"),
        ("-- nothing", "there is no SQL statement"),
        ("SELECT 1; SELECT 2", "there are 2 statements; write one SELECT"),
        ("DELETE FROM t", "only SELECT and EXPLAIN are allowed, not DELETE"),
        ("COPY t TO 'x.csv'", "only SELECT and EXPLAIN are allowed, not COPY"),
        ("SET threads = 1", "only SELECT and EXPLAIN are allowed, not SET"),
        ("ATTACH 'x.db'", "only SELECT and EXPLAIN are allowed, not ATTACH"),
        ("PRAGMA version", "only SELECT and EXPLAIN are allowed"),
        ("CALL pragma_version()", "only SELECT and EXPLAIN are allowed, not CALL"),
        ("PIVOT t ON a", "PIVOT without its values runs several statements; name the values"),
        (WRITES_IN_A_SELECT, ""),
        (f"EXPLAIN ANALYZE {WRITES_IN_A_SELECT}", ""),
        ("EXPLAIN ANALYZE DELETE FROM t", "only SELECT and EXPLAIN are allowed, not DELETE"),
        ("EXPLAIN (ANALYZE, FORMAT JSON) DELETE FROM t", "not DELETE"),
        ("EXPLAIN /* c */ ANALYZE /* é */ INSERT INTO t SELECT 1", "not INSERT"),
        ("FROM checkpoint()", "function 'checkpoint' is not allowed here"),
        ("EXPLAIN ANALYZE FROM checkpoint()", "function 'checkpoint' is not allowed here"),
        ("SELECT (SELECT count(*) FROM Force_Checkpoint())", "function 'force_checkpoint'"),
        ("FROM enable_logging(storage = 'file', storage_path = '/nowhere/x')", "'enable_logging'"),
        ("FROM query('SELECT 1')", "function 'query' is not allowed here"),
        ("FROM json_execute_serialized_sql('{}')", "function 'json_execute_serialized_sql'"),
        ("SELECT list_transform([1], lambda x: write_log('x'))", "function 'write_log'"),
        ("DESCRIBE SELECT sleep_ms(1)", "function 'sleep_ms'"),
        ("FROM read_text('/etc/hostname')", "function 'read_text' is not allowed here"),
        ("FROM glob('/*')", "function 'glob' is not allowed here"),
        ("FROM '/etc/hostname.csv'", "disabled by configuration"),
        ("FROM a_python_table", "Catalog Error: Table with name a_python_table does not exist"),
        ("SELEC 1", 'Parser Error: syntax error at or near "SELEC"'),
        ("SELECT\n1\nFROM nowhere", "Catalog Error: Table with name nowhere does not exist!"),
        ("SELECT nope FROM t", 'Binder Error: Referenced column "nope" not found'),
        ("SELECT 'x'::INTEGER", "Conversion Error: Could not convert string 'x' to INT32"),
    ],
)
def test_a_question_that_may_not_be_asked_is_refused_in_one_line(
    connection: duckdb.DuckDBPyConnection, sql: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "a_python_table", pa.table({"a": [1]}), raising=False)

    with pytest.raises(QueryFailed) as refused:
        answer_sql(connection, sql)

    assert text in str(refused.value)
    assert "\n" not in str(refused.value)
    assert answer_sql(connection, "SELECT a FROM t").rows == [[1]]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 AS a",
        "SELECT 1 AS a;",
        "/* é */ SELECT 1 AS a -- end",
        "FROM t",
        "TABLE t",
        "VALUES (1)",
        "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r WHERE a < 1) FROM r",
        "SELECT unnest([1])",
        "SELECT count(*)::INTEGER FROM range(1)",
        "PIVOT t ON a IN (1) USING max(a)",
    ],
)
def test_every_kind_of_select_is_answered(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert answer_sql(connection, sql).rows == [[1]]


@pytest.mark.parametrize(
    "expression",
    [
        "+".join(["1"] * 900),
        "NOT " * 900 + "true",
        "[" * 400 + "1" + "]" * 400,
        "[1]" + "[1]" * 900,
        "NULL::INTEGER" + "[]" * 500,
        "9" * 42,
    ],
)
def test_an_expression_that_cannot_be_looked_through_is_refused_or_answered(
    connection: duckdb.DuckDBPyConnection, expression: str
) -> None:
    with suppress(QueryFailed):  # And no other error; which it is depends on Python and DuckDB.
        answer_sql(connection, f"SELECT {expression}")

    assert answer_sql(connection, "SELECT 1").rows == [[1]]


@pytest.mark.parametrize(
    "sql", ["EXPLAIN SELECT 1", "EXPLAIN (FORMAT JSON) SELECT 1", "EXPLAIN (SELECT 1)"]
)
def test_a_select_is_explained(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    [[key, _]] = answer_sql(connection, sql).rows

    assert key == "physical_plan"


def test_a_guarded_database_opens_no_file_whatever_is_asked(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    (tmp_path / "secret.csv").write_text("secret\n1\n")
    guard(connection)

    with pytest.raises(duckdb.Error, match="disabled by configuration"):
        connection.execute(f"SELECT * FROM read_csv('{tmp_path}/secret.csv')")


def test_a_guard_cannot_be_lifted(connection: duckdb.DuckDBPyConnection) -> None:
    guard(connection)

    with pytest.raises(duckdb.Error, match="locked"):
        connection.execute("SET enable_external_access = true")


QUERY = parse(
    """-- title: Tools
-- description: d
-- why: w
-- param: min_duration = 1s  shortest
-- param: limit = 100  rows
SELECT epoch_ms($min_duration::INTERVAL) AS ms FROM t LIMIT $limit::BIGINT;
""",
    "some_tools.sql",
)


def test_a_named_query_takes_its_defaults_and_values(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    default = answer_query(connection, QUERY, {})
    given = answer_query(connection, QUERY, {"min_duration": "500ms"})
    none = answer_query(connection, QUERY, {"limit": "0"})

    assert (default.rows, given.rows, none.rows) == ([[1000]], [[500]], [])


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"min_duration": "soon"},
            "some-tools: min_duration must be a duration such as 5s, 500ms or 2m, not 'soon'",
        ),
        ({"limit": "1.5x"}, "some-tools: limit must be a whole number, not '1.5x'"),
        ({"limit": ""}, "some-tools: limit must be a whole number, not ''"),
        ({"limit": "1; DROP TABLE t"}, "limit must be a whole number, not '1; DROP TABLE t'"),
    ],
)
def test_a_value_of_the_wrong_form_is_refused_by_name(
    connection: duckdb.DuckDBPyConnection, values: dict[str, str], text: str
) -> None:
    with pytest.raises(QueryFailed) as refused:
        answer_query(connection, QUERY, values)

    assert text in str(refused.value)


def test_an_unknown_parameter_is_refused(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(QueryError, match="has no parameter 'max'"):
        answer_query(connection, QUERY, {"max": "1"})


def test_a_question_leaves_the_writer_alone(tmp_path: Path) -> None:
    store = Store.open(make_store(tmp_path / "otelchain.duckdb"))
    cursor = store.database.cursor()

    with pytest.raises(QueryFailed):
        answer_sql(cursor, "SELECT error('stop')")
    [[count]] = answer_sql(cursor, "SELECT count(*) FROM runs").rows
    cursor.close()

    assert count == 4
    store.database.checkpoint()
    store.close()


def test_a_select_that_writes_is_refused_before_it_runs(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    # DuckDB 2 calls it a SELECT; 1.5 does not parse it.
    with pytest.raises(QueryFailed, match=r"this statement also writes|A CTE needs a SELECT"):
        check_sql(connection, WRITES_IN_A_SELECT)


def test_the_transaction_refuses_what_the_parser_let_through(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "check_sql", lambda connection, sql: None)

    with pytest.raises(QueryFailed, match="read-only"):
        answer_sql(connection, "EXPLAIN ANALYZE INSERT INTO t VALUES (2)")

    assert answer_sql(connection, "SELECT a FROM t").rows == [[1]]


def test_a_limit_that_passes_after_the_answer_stops_nothing_else(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    answer_sql(connection, "SELECT 1", max_seconds=0.05)
    time.sleep(0.1)

    assert connection.execute("SELECT sum(range) FROM range(1000)").fetchall() == [(499500,)]
